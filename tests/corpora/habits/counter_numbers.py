from collections import Counter

c = Counter([1, 1.0, True])
flags = Counter(x > 2 for x in [1, 2, 3, 4, 5])
mixed = Counter([True, 1, 0, False, 0.0, 2, "1"])
signed = Counter(a=2, b=-1)
signed["c"] -= 3
result = [
    c[1], c[True], c[1.0], c[False], len(c),
    [str(k) for k in c],
    flags[True], flags[False], flags[1], [str(k) for k in flags],
    mixed[0], mixed[1], mixed["1"], [str(k) for k in mixed], mixed.most_common(2)[0][1],
    +signed == {"a": 2}, dict(+signed), sorted((-signed).items()),
]
