keys = ("id", "name")
rows = [(1, "a"), (2, "b")]
result = [dict(zip(keys, r)) for r in rows] + [list(map(dict, [zip(keys, r) for r in rows]))]
