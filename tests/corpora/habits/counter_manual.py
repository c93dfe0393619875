counts = {}
for issue in tracker.list_issues():
    counts[issue["state"]] = counts.get(issue["state"], 0) + 1
result = counts
