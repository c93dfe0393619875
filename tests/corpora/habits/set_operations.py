a = {1, 2, 3}
b = {3, 4}
labels = {l for i in tracker.list_issues() for l in i["labels"]}
result = [sorted(a | b), sorted(a & b), sorted(a - b), sorted(a ^ b), sorted(labels), len(a), 2 in a, a.issubset({1, 2, 3, 4}), sorted(set([1, 1, 2])), a.isdisjoint({9}), sorted(a.union([7], [8])) if False else None]
