from itertools import groupby, chain, islice, combinations, accumulate, product
data = sorted(tracker.list_issues(), key=lambda i: i["author"])
grouped = {k: [i["id"] for i in g] for k, g in groupby(data, key=lambda i: i["author"])}
result = [grouped, list(chain([1], [2, 3])), list(chain.from_iterable([[1], [2]])), list(islice(range(10), 2, 8, 2)), list(combinations("abc", 2)), list(accumulate([1, 2, 3])), list(product([0, 1], repeat=2))]
