d = dict(a=1, b=2)
e = d.copy()
e.update({"c": 3}, d=4)
e.setdefault("z", []).append(1)
popped = e.pop("a")
missing = e.pop("nope", None)
last = e.popitem()
f = dict.fromkeys(["x", "y"], 0)
g = dict([("k", "v")])
inv = {v: k for k, v in d.items()}
result = [d, e, popped, missing, last, f, g, inv, list(d), list(d.values()), "a" in d, len(d), d | {"q": 1}, {**d} == d]
