a, b = 1, 2
a, b = b, a
xs = [1, 2, 3]
xs[0], xs[2] = xs[2], xs[0]
k = 1
rotated = xs[k:] + xs[:k]
i = j = 5
i += 1
result = [a, b, xs, rotated, i, j]
