from math import isqrt, gcd, prod

def factorize(n):
    factors = []
    d = 2
    while d * d <= n:
        while n % d == 0:
            factors.append(d)
            n //= d
        d += 1 if d == 2 else 2
    if n > 1:
        factors.append(n)
    return factors

def sieve(limit):
    flags = [True] * (limit + 1)
    flags[0:2] = [False, False]
    for i in range(2, isqrt(limit) + 1):
        if flags[i]:
            flags[i * i::i] = [False] * len(flags[i * i::i])
    return [i for i, f in enumerate(flags) if f]

numbers = [84, 97, 1001, 2**20, 600851475143]
factored = {str(n): factorize(n) for n in numbers}
assert all(prod(f) == int(n) for n, f in factored.items())
result = {"factors": factored, "gcd": gcd(84, 1001), "primes": sieve(50), "big": 2**64 + 1}
