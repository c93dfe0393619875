rows = [{"n": 1, "active": 1}, {"n": 2, "active": 0}, {"n": 3, "active": True}, {"n": 4, "active": "yes"}]
result = [
    [r["n"] for r in rows if r["active"] == True],
    [r["n"] for r in rows if r["active"] != False],
    [r["n"] for r in rows if r["active"] in (True, "yes")],
    [r["n"] for r in rows if r["active"] not in [True, False]],
    [r["active"] for r in rows].count(True),
    ["no", "yes"][3 > 2],
    ("no", "yes")[rows[0]["active"] == True],
    {True: "t", False: "f"}[1 > 2],
    sorted([{"n": 1, "on": False}, {"n": 2, "on": True}, {"n": 3, "on": True}], key=lambda r: (-r["on"], r["n"])),
    -True,
    -(1 > 0) + 5,
    f"{True:5}|{False:<3}|{True}",
    (255).bit_length(),
    5 .bit_length(),
    1 == True == 1,
]
result += [False in [0], True not in (1, 2), 0 < True, True >= 2]
