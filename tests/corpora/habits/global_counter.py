counter = 0
cache = {}

def bump(by=1):
    global counter
    counter += by
    return counter

def fib(n):
    if n in cache:
        return cache[n]
    value = n if n < 2 else fib(n - 1) + fib(n - 2)
    cache[n] = value
    return value

bump()
bump(5)
result = [counter, fib(50)]
