class _airlock_statistics:
    def mean(data):
        data = list(data)
        if not data:
            raise ValueError("mean requires at least one data point")
        total = sum(data) / len(data)
        return int(total) if total == int(total) and all(type(x) is int for x in data) else total

    def fmean(data):
        data = list(data)
        return sum(data) / len(data)

    def median(data):
        data = sorted(data)
        if not data:
            raise ValueError("no median for empty data")
        half = len(data) // 2
        return data[half] if len(data) % 2 else (data[half - 1] + data[half]) / 2

    def median_low(data):
        data = sorted(data)
        return data[(len(data) - 1) // 2]

    def median_high(data):
        data = sorted(data)
        return data[len(data) // 2]

    def mode(data):
        counts = {}
        for x in data:
            counts[x] = counts.get(x, 0) + 1
        if not counts:
            raise ValueError("no mode for empty data")
        most = max(counts.values())
        return [x for x in counts if counts[x] == most][0]

    def multimode(data):
        counts = {}
        for x in data:
            counts[x] = counts.get(x, 0) + 1
        most = max(counts.values(), default=0)
        return [x for x in counts if counts[x] == most]

    def pvariance(data):
        data = list(data)
        middle = sum(data) / len(data)
        return sum([(x - middle) ** 2 for x in data]) / len(data)

    def variance(data):
        data = list(data)
        if len(data) < 2:
            raise ValueError("variance requires at least two data points")
        middle = sum(data) / len(data)
        return sum([(x - middle) ** 2 for x in data]) / (len(data) - 1)

    def pstdev(data):
        return _airlock_statistics.pvariance(data) ** 0.5

    def stdev(data):
        return _airlock_statistics.variance(data) ** 0.5

    def quantiles(data, *, n=4, method="exclusive"):
        data = sorted(data)
        size = len(data)
        if n < 1:
            raise ValueError("n must be at least 1")
        if size < 2:
            raise ValueError("must have at least two data points")
        found = []
        for i in range(1, n):
            if method == "inclusive":
                j, delta = divmod(i * (size - 1), n)
                found.append((data[j] * (n - delta) + data[j + 1] * delta) / n)
            else:
                j = min(max(i * (size + 1) // n, 1), size - 1)
                delta = i * (size + 1) - j * n
                found.append((data[j - 1] * (n - delta) + data[j] * delta) / n)
        return found
