values = [10, 20, 30, 40, 50]
k = 3
avgs = [sum(values[i:i + k]) / k for i in range(len(values) - k + 1)]
cum, total = [], 0
for v in values:
    total += v
    cum.append(total)
result = [avgs, cum, [b - a for a, b in zip(values, values[1:])]]
