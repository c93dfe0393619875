n = 0b1011
result = [n & 3, n | 4, n ^ 1, n << 2, n >> 1, ~n, bin(n).count("1"), f"{n:08b}", (n >> 3) & 1]
