values = [1, 2, 2, 3, 3, 3, 9]
hist = {}
for v in values:
    hist[v] = hist.get(v, 0) + 1
buckets = {}
for v in values:
    key = f"{v // 3 * 3}-{v // 3 * 3 + 2}"
    buckets[key] = buckets.get(key, 0) + 1
for k in sorted(hist):
    print(f"{k:>3} {'#' * hist[k]}")
result = [hist, buckets, sorted(values)[len(values) // 2]]
