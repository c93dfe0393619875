import math
import statistics

rows = []
failures = {}
for name in metrics.list_metrics():
    try:
        series = metrics.query(metric=name)
    except ToolError as e:
        failures[name] = {"kind": e.kind, "retry_after": (e.data or {}).get("retry_after")}
        continue
    values = [v for _, v in series["points"] if v is not None]
    rows.append({
        "metric": name,
        "unit": series["unit"],
        "mean": round(statistics.fmean(values), 3),
        "stdev": round(statistics.stdev(values), 3),
        "p95": sorted(values)[math.ceil(0.95 * len(values)) - 1],
        "missing": len(series["points"]) - len(values),
    })

header = "{:<12}{:>10}{:>10}{:>8}".format("metric", "mean", "stdev", "p95")
print(header)
print("-" * len(header))
for r in rows:
    print("{metric:<12}{mean:>10.2f}{stdev:>10.2f}{p95:>8}".format(**r))
result = {"rows": rows, "failures": failures}
