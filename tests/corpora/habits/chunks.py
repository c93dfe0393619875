def chunks(xs, n):
    return [xs[i:i + n] for i in range(0, len(xs), n)]
result = [chunks(list(range(7)), 3), chunks("abcdef", 2), chunks([], 3)]
