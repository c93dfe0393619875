base = {"a": 1, "b": 2}
merged = {**base, "b": 3, **{"c": 4}}
items = [0, *[1, 2], *range(3, 5)]
def f(*args, **kwargs):
    return [list(args), dict(sorted(kwargs.items()))]
result = [merged, items, f(1, *[2, 3], x=1, **{"y": 2}), f(*[1], *[2]), f(**base, **{"z": 0}), (*items, 9)]
