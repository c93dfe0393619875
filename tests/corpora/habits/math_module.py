import math
result = [math.ceil(2.1), math.floor(-2.1), math.sqrt(16), math.pi, math.gcd(12, 18), math.factorial(10), math.log10(1000), math.hypot(3, 4), math.isclose(0.1 + 0.2, 0.3), math.inf > 1, math.comb(5, 2), math.prod([1, 2, 3]), math.trunc(-2.7), math.fsum([0.1] * 10), math.log(8, 2), math.isnan(float("nan"))]
