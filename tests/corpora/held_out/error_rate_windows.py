from datetime import datetime, timezone
errs = dict((ts, v) for ts, v in metrics.query(metric="errors")["points"])
reqs = dict((ts, v) for ts, v in metrics.query(metric="requests")["points"])

rates = []
for ts in sorted(errs.keys() & reqs.keys()):
    rate = errs[ts] / reqs[ts] if reqs[ts] else 0.0
    rates.append((datetime.fromtimestamp(ts, timezone.utc).strftime("%H:%M"), rate))

window = 3
moving = []
for i in range(len(rates) - window + 1):
    chunk = rates[i:i + window]
    moving.append({"from": chunk[0][0], "to": chunk[-1][0], "pct": round(sum(r for _, r in chunk) / window * 100, 4)})

worst = max(moving, key=lambda w: w["pct"])
print(f"Worst window {worst['from']}..{worst['to']}: {worst['pct']:.2f}%")
result = {"worst": worst, "over_half_percent": [t for t, r in rates if r > 0.005]}
