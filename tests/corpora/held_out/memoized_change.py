from functools import lru_cache

COINS = (1, 5, 10, 25)

@lru_cache(maxsize=None)
def ways(amount: int, kinds: int = len(COINS)) -> int:
    if amount == 0:
        return 1
    if amount < 0 or kinds == 0:
        return 0
    return ways(amount, kinds - 1) + ways(amount - COINS[kinds - 1], kinds)

def greedy(amount):
    used = []
    for coin in reversed(COINS):
        n, amount = divmod(amount, coin)
        used.extend([coin] * n)
    return used

fib_cache = {}
def fib(n):
    if n in fib_cache:
        return fib_cache[n]
    fib_cache[n] = n if n < 2 else fib(n - 1) + fib(n - 2)
    return fib_cache[n]

result = {"ways_100": ways(100), "greedy_67": greedy(67), "fib_60": fib(60), "fib_100_digits": len(str(fib(100)))}
