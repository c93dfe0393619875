calls = []
def check(n):
    calls.append(n)
    return n > 2
found = any(check(n) for n in range(10))
first = next(n for n in range(10) if check(n))
every = all(check(n) for n in [5, 1, 7])
result = [found, first, every, calls]
