from datetime import datetime, timedelta, timezone

NOW = datetime(2024, 3, 20, tzinfo=timezone.utc)
CUTOFF = NOW - timedelta(days=14)

all_issues = []
page = 1
while True:
    data = tracker.list_issues(state="open", page=page)
    if not data["items"]:
        break
    all_issues += data["items"]
    if not data.get("next_page"):
        break
    page += 1

stale = []
for issue in all_issues:
    updated = datetime.fromisoformat(issue["updated_at"].replace("Z", "+00:00"))
    if updated < CUTOFF:
        age = (NOW - updated).days
        stale.append({"number": issue["number"], "title": issue["title"], "days": age})

stale.sort(key=lambda x: x["days"], reverse=True)
for s in stale:
    print(f"#{s['number']:<5} {s['days']:>4}d  {s['title']}")
result = {"count": len(stale), "stale": stale}
