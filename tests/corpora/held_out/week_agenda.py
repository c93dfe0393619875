from datetime import datetime, date, timedelta

events = calendar.list_events(calendar="work")["events"]
agenda = {}
for e in events:
    day = e["start"][:10]
    last = e["end"][:10]
    current = date.fromisoformat(day)
    while current <= date.fromisoformat(last):
        label = "all day" if e.get("all_day") else e["start"][11:16]
        agenda.setdefault(current.isoformat(), []).append(f"{label} {e['title']}")
        current += timedelta(days=1)

for day, items in sorted(agenda.items()):
    d = datetime.strptime(day, "%Y-%m-%d")
    print(d.strftime("%a %d %b %Y"))
    for item in sorted(items):
        print("   *", item)
result = {d: agenda[d] for d in sorted(agenda)}
