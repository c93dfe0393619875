import datetime
now = datetime.datetime(2024, 4, 1, tzinfo=datetime.timezone.utc)
ages = {}
for issue in tracker.list_issues():
    created = datetime.datetime.fromisoformat(issue["created_at"].replace("Z", "+00:00"))
    ages[issue["id"]] = (now - created).days
old = [k for k, v in ages.items() if v > 40]
result = {"ages": ages, "old": sorted(old)}
