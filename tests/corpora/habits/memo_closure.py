def memoize(f):
    cache = {}
    def wrapped(n):
        if n not in cache:
            cache[n] = f(n)
        return cache[n]
    return wrapped
def slow(n):
    return n ** 2
fast = memoize(slow)
result = [fast(4), fast(4), fast(5)]
