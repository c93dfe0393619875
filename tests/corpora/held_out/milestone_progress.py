from collections import defaultdict

def fetch_all(state):
    page = 1
    while page:
        resp = tracker.list_issues({"state": state, "page": page})
        yield from resp["items"]
        page = resp["next_page"]

progress = defaultdict(lambda: {"open": 0, "closed": 0, "points": 0})
for state in ["open", "closed"]:
    for issue in fetch_all(state):
        milestone = issue.get("milestone")
        name = milestone["title"] if milestone else "none"
        progress[name][state] += 1
        progress[name]["points"] += issue["estimate"] or 0

rows = []
for name in sorted(progress):
    p = progress[name]
    total = p["open"] + p["closed"]
    pct = p["closed"] / total * 100
    rows.append({"milestone": name, "done": f"{pct:.1f}%", "total": total, "points": p["points"]})
    print("%-6s %3d/%-3d %6.2f%%" % (name, p["closed"], total, pct))
result = rows
