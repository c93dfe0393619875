from collections import Counter

rows = [{"state": "open", "urgent": True}, {"state": "closed", "urgent": False}, {"state": "open", "urgent": True}]
count = 0
score = 1.5
for row in rows:
    count += row["state"] == "open"
    score += (row["state"] == "closed") * 2
flags = {"a": True, "b": False}
both = Counter("aab") | Counter("abbb")
most = Counter(a=1, b=-1)
most |= Counter(a=2)
defaults = {"a": 1}
shared = defaults
defaults |= {"b": 2}
result = [
    count,
    score,
    sum(flags.values()),
    sum(row["urgent"] for row in rows),
    sum([True, False, True]),
    sum(x["state"] == "open" and x["urgent"] for x in rows),
    1.5 + True,
    "ab".startswith("a") + 1,
    both,
    str(most),
    shared,
]
