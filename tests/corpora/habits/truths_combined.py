a, b, c = 5, 2, 7
result = [
    (a > 3) & (b > 1),
    (a > 3) & (b > 2),
    (a > 9) | (b > 1),
    (a > 3) ^ (b > 1) ^ (c > 1),
    not ((a > 3) & (c > 9)),
    str((a > 3) | (b > 9)),
    ((a > 3) & (b > 1)) + 1,
    [x for x in range(20) if (x > 3) & (x % 5 == 0)],
    (a > 3) & 7,
    a & 3,
    isinstance(a, int) & ("x".isalpha()) & True,
    {1, 2} & {2, 3} == {2},
]
