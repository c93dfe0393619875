best = float("-inf")
where = -1
for i, v in enumerate([3, 9, 2, 9]):
    if v > best:
        best, where = v, i
result = [best, where]
