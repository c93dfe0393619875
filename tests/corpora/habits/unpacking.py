first, *rest = [1, 2, 3]
*init, last = (4, 5, 6)
a, (b, c) = 1, (2, 3)
head, *middle, tail = range(5)
x = y = 0
x, y = y + 1, x + 2
(p, q), r = [1, 2], 3
m, n = "ab"
result = [first, rest, init, last, a, b, c, head, middle, tail, x, y, p, q, r, m, n]
