def mean(xs):
    return sum(xs) / len(xs)

def std(xs):
    mu = mean(xs)
    return (sum((x - mu) ** 2 for x in xs) / len(xs)) ** 0.5

anomalies = {}
for metric in ["cpu", "errors", "latency_ms", "requests"]:
    points = metrics.query(metric=metric)["points"]
    values = [p[1] for p in points if p[1] is not None]
    mu, sigma = mean(values), std(values)
    found = [ts for ts, v in points if v is not None and abs(v - mu) > 1.5 * sigma]
    if found:
        anomalies[metric] = found
    print(f"{metric}: mean={mu:.3f} std={sigma:.3f} anomalies={len(found)}")

all_ts = set.intersection(*[set(v) for v in anomalies.values()])
result = {"anomalies": anomalies, "common": sorted(all_ts)}
