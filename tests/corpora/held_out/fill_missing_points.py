points = metrics.query(metric="latency_ms")["points"]
filled = []
n_filled = 0
last = None
for i, (ts, value) in enumerate(points):
    if value is None:
        # linear interpolation between the neighbours
        nxt = next((v for _, v in points[i + 1:] if v is not None), last)
        remaining = next((j for j, (_, v) in enumerate(points[i:]) if v is not None), 1)
        value = last + (nxt - last) / (remaining + 1)
        n_filled += 1
    filled.append([ts, round(value, 2)])
    last = value

deltas = [b[1] - a[1] for a, b in zip(filled, filled[1:])]
result = {
    "filled": filled,
    "n_filled": n_filled,
    "biggest_jump": max(deltas),
    "biggest_drop": round(min(deltas), 2),
    "monotonic": all(d >= 0 for d in deltas),
}
