def stats(values):
    import statistics
    from math import sqrt
    return [statistics.mean(values), sqrt(16)]
result = stats([1, 2, 3])
