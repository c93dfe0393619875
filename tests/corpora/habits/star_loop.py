records = [("ann", 1, 2, 3), ("bob", 4)]
out = {}
for name, *scores in records:
    out[name] = scores
totals = {name: sum(scores) for name, *scores in records}
result = [out, totals]
