groups = [[1, 2], [3, 40]]
result = [any(x > 10 for g in groups for x in g), all(isinstance(x, int) for g in groups for x in g), next((g for g in groups if sum(g) > 5), []), any(k == "b" for k, v in {"a": 1, "b": 2}.items())]
