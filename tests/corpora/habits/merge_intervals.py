intervals = [(1, 3), (8, 10), (2, 6), (15, 18)]
intervals.sort(key=lambda t: t[0])
merged = [list(intervals[0])]
for start, end in intervals[1:]:
    if start <= merged[-1][1]:
        merged[-1][1] = max(merged[-1][1], end)
    else:
        merged.append([start, end])
result = merged
