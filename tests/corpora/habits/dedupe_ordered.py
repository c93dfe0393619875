seen = set()
unique = []
for x in [3, 1, 3, 2, 1]:
    if x not in seen:
        seen.add(x)
        unique.append(x)
also = list(dict.fromkeys([3, 1, 3, 2, 1]))
compact = [x for i, x in enumerate([1, 1, 2]) if i == 0 or x != [1, 1, 2][i - 1]]
result = [unique, also, compact, [x for x in [3, 1, 3] if not (x in seen or seen.add(x))]]
