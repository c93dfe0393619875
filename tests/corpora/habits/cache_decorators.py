import functools
from functools import lru_cache, cache, wraps

calls = []

@lru_cache(maxsize=None)
def fib(n):
    calls.append(n)
    return n if n < 2 else fib(n - 1) + fib(n - 2)

@cache
def square(n, *, plus=0):
    calls.append("square")
    return n * n + plus

@functools.lru_cache
def name(x):
    return f"n{x}"

@lru_cache(maxsize=2)
def small(n):
    calls.append(f"small{n}")
    return n

def logged(fn):
    @wraps(fn)
    def wrapper(*args, **kwargs):
        calls.append(["before", list(args), kwargs])
        return fn(*args, **kwargs)
    return wrapper

def times(count):
    def decorate(fn):
        def wrapper(*args):
            return [fn(*args) for _ in range(count)]
        return wrapper
    return decorate

@logged
@times(2)
def add(a, b):
    return a + b

values = [fib(30), square(3), square(3), square(3, plus=1), name(1), name(1)]
for n in [1, 2, 1, 3, 2, 1]:
    small(n)
info = small.cache_info()
fib.cache_clear()
result = [values, add(1, 2), len(calls), calls[-12:], [info.hits, info.misses, info.maxsize, info.currsize], fib(3), fib.cache_info().misses]
