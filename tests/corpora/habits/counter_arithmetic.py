from collections import Counter
a = Counter("hello")
b = Counter(h=1, l=1)
a.update(["x", "l"])
c = Counter({"q": 2})
c["q"] += 1
result = [a["l"], a["zzz"], dict(a - b), sum(a.values()), dict(Counter(a=1) + Counter(a=2, b=1)), a.most_common(1), len(a), sorted(a.elements()), c["q"], "q" in c]
