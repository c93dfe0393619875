from functools import reduce, partial, cmp_to_key
mul = partial(lambda a, b: a * b, 3)
result = [reduce(lambda a, b: a * b, [1, 2, 3, 4]), reduce(lambda a, b: a + b, [], 5), mul(4), sorted([3, 1, 2], key=cmp_to_key(lambda a, b: b - a)), list(map(partial(pow, 2), range(4)))]
