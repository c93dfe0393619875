import statistics
from datetime import datetime

def parse(ts: str) -> datetime:
    return datetime.strptime(ts, "%Y-%m-%dT%H:%M:%SZ")

closed = tracker.list_issues(state="closed")["items"]
hours = []
for issue in closed:
    delta = parse(issue["closed_at"]) - parse(issue["created_at"])
    hours.append(delta.total_seconds() / 3600)

result = {
    "n": len(hours),
    "mean_hours": round(statistics.mean(hours), 2),
    "median_hours": round(statistics.median(hours), 2),
    "min": min(hours),
    "max": round(max(hours), 1),
}
