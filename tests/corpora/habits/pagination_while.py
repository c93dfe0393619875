issues = []
page = 1
while True:
    data = tracker.list_issues(page=page)
    issues.extend(data["items"])
    if not data.get("next"):
        break
    page = data["next"]
result = [i["id"] for i in issues]
