history = fx.history(base="EUR", quote="USD")["days"]
days = sorted(d for d, v in history.items() if v is not None)
changes = []
prev = None
for day in days:
    rate = history[day]
    if prev is not None:
        change = (rate - prev) / prev * 100
        arrow = "▲" if change > 0 else "▼" if change < 0 else "="
        changes.append((day, round(change, 3), arrow))
        print(f"{day} {rate:.4f} {arrow} {change:+.3f}%")
    prev = rate

result = {
    "first": history[days[0]],
    "last": history[days[-1]],
    "total_pct": round((history[days[-1]] / history[days[0]] - 1) * 100, 3),
    "worst_day": min(changes, key=lambda c: c[1])[0],
    "ups": sum(1 for c in changes if c[1] > 0),
    "gaps": [d for d, v in history.items() if v is None],
}
