xs = [3, 1, 2]
ys = xs.copy()
xs.sort()
ys.sort(reverse=True)
zs = [5, 6]
zs.insert(0, 4)
zs.append(7)
zs.extend("ab")
zs.remove(5)
popped = zs.pop()
words = ["bb", "a", "ccc"]
words.sort(key=len)
words.reverse()
result = [xs, ys, zs, popped, words, [1, 2, 1].count(1), [1, 2, 3].index(3), zs[-1], zs[1:], xs[::-1], [0] * 3, [1] + [2]]
