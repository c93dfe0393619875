names = ["a", "b", "c"]
out = []
for i, (name, score) in enumerate(zip(names, [3, 2, 1]), start=1):
    out.append(f"{i}. {name} ({score})")
result = out + [dict(zip(names, range(3))), list(enumerate("xy")), list(zip(*[(1, 2), (3, 4)]))]
