# Count open bugs per assignee
issues = []
page = 1
while page is not None:
    resp = tracker.list_issues(state="open", page=page)
    issues.extend(resp["items"])
    page = resp["next_page"]

counts = {}
for issue in issues:
    labels = [label["name"] for label in issue["labels"]]
    if "bug" not in labels:
        continue
    assignee = issue["assignee"]["login"] if issue["assignee"] else "unassigned"
    counts[assignee] = counts.get(assignee, 0) + 1

result = dict(sorted(counts.items(), key=lambda kv: (-kv[1], kv[0])))
print(result)
