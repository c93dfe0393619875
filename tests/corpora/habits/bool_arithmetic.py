xs = [3, 8, 12]
result = [sum(x > 5 for x in xs), sum([True, False, True]), (3 > 2) + 1, sum(1 for x in xs if x > 5), int(True), len([x for x in xs if not x % 2]), True + True]
