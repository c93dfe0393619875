a = [1, 2, 3]
b = [1, 2, 4]
result = [a < b, a == [1, 2, 3], a != b, (1, "a") < (1, "b"), [x for x, y in zip(a, b) if x != y], "abc" < "abd", 1 == 1.0, a is a, not a == b]
