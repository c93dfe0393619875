required = {"id", "title"}
rows = [{"id": 1, "title": "a", "x": 1}, {"id": 2}, {"id": 3, "title": "c"}]
complete = []
for row in rows:
    have = set(row)
    if required <= have:
        complete.append(row["id"])
a, b = {1, 2}, {1, 2, 3}
both = a | b
c = {1, 9}
result = [complete, a < both, both < a, a <= a, a < a, b >= {1}, b > c, c > b, {1} < {1, 2} < {1, 2, 3}, rows[1].keys() < rows[0].keys(), rows[0].keys() != rows[1].keys()]
d = {"a": 1, "b": 2}
result += [d.items() >= {("a", 1)}, {"a"} <= d.keys(), d.items() < {"c": 3, **d}.items()]
