xs = list(range(10))
s = "abcdefgh"
ys = xs[:]
ys[2:4] = ["x"]
result = [xs[2:5], xs[-3:], xs[:-7], xs[::3], xs[::-2], s[1:4], s[-2:], s[::-1], xs[5:2], xs[100:], s[:100], ys, (1, 2, 3)[1:]]
