from datetime import datetime
from collections import defaultdict

hours = defaultdict(float)
meetings = defaultdict(int)
for event in calendar.list_events(calendar="work")["events"]:
    if event.get("all_day", False):
        continue
    start = datetime.fromisoformat(event["start"])
    end = datetime.fromisoformat(event["end"])
    duration = (end - start).total_seconds() / 3600
    for person in event["attendees"]:
        hours[person] += duration
        meetings[person] += 1

print(f"{'Person':<22}{'Meetings':>10}{'Hours':>8}")
for person in sorted(hours, key=hours.get, reverse=True):
    print(f"{person:<22}{meetings[person]:>10}{hours[person]:>8.2f}")
result = {p: {"hours": round(h, 2), "meetings": meetings[p]} for p, h in sorted(hours.items())}
