import operator

OPS = {">": operator.gt, "<": operator.lt, ">=": operator.ge}
PRIORITY = ["critical", "high", "low"]

fired = []
skipped = []
for alert in metrics.list_alerts():
    try:
        points = metrics.query(metric=alert["metric"])["points"]
    except ToolError as e:
        skipped.append((alert["rule"], e.code))
        continue
    check = OPS[alert["op"]]
    needed = alert.get("for_s", 300) // 300
    streak = 0
    for ts, value in points:
        if value is not None and check(value, alert["threshold"]):
            streak += 1
            if streak >= needed:
                fired.append({"rule": alert["rule"], "severity": alert["severity"], "at": ts})
                break
        else:
            streak = 0

fired.sort(key=lambda a: PRIORITY.index(a["severity"]))
result = {"fired": fired, "skipped": skipped}
