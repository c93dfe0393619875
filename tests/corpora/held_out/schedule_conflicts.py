from datetime import datetime

work = calendar.list_events(calendar="work")["events"]
personal = calendar.list_events(calendar="personal")["events"]

timed = []
for source, events in (("work", work), ("personal", personal)):
    for e in events:
        if e.get("all_day"):
            continue
        timed.append((datetime.fromisoformat(e["start"]), datetime.fromisoformat(e["end"]), e["title"], source))

timed.sort(key=lambda t: t[0])
conflicts = []
for i in range(len(timed)):
    for j in range(i + 1, len(timed)):
        a, b = timed[i], timed[j]
        if b[0] < a[1]:
            overlap = (min(a[1], b[1]) - b[0]).total_seconds() // 60
            conflicts.append({"a": a[2], "b": b[2], "minutes": int(overlap)})
result = conflicts
