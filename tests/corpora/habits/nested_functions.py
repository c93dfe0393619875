def outer(items):
    total = 0
    def add(n):
        nonlocal total
        total += n
    def each(f):
        for i in items:
            f(i)
    each(add)
    return total
result = outer([1, 2, 3])
