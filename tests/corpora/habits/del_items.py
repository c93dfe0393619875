d = {"a": 1, "b": 2, "c": 3}
del d["a"]
xs = [1, 2, 3, 4, 5]
del xs[0]
del xs[1:3]
for k in list(d.keys()):
    if d[k] == 3:
        del d[k]
result = [d, xs]
