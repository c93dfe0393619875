groups = {}
for issue in tracker.list_issues():
    for label in issue["labels"]:
        groups.setdefault(label, []).append(issue["id"])
result = {k: sorted(v) for k, v in sorted(groups.items())}
