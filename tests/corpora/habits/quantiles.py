import statistics

data = [20.5, 33.87, 47.24, 60.61, 73.98, 87.35, 100.72]
result = [
    statistics.quantiles(data, n=4),
    statistics.quantiles([1, 2, 3, 4, 5], n=10),
    statistics.quantiles([5, 1], n=4, method="inclusive"),
    statistics.quantiles([1, 2, 3, 4, 5, 6], n=3, method="inclusive"),
    statistics.quantiles([1, 2], n=1),
    statistics.quantiles([1, 2], n=8),
]
