nums = list(range(10))
evens = list(filter(lambda n: n % 2 == 0, nums))
result = [evens, list(map(lambda a, b: a + b, [1, 2], [3, 4])), list(map(str, [1, 2])), list(filter(None, [0, 1, "", "a"])), list(map(str.upper, ["a"])), sorted(["B", "a"], key=str.lower), sum(map(int, "123"))]
