rows = [("b", 1), ("a", 1), ("c", 0), ("d", 1)]
result = [sorted(rows, key=lambda r: r[1]), sorted(rows, key=lambda r: r[1], reverse=True), sorted(rows), sorted([True, False, 1, 0.5]), sorted(["b", "A", "a"]), sorted({"z": 1, "y": 2}), sorted([(1, None), (0, None)])]
