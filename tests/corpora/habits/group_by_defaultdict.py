from collections import defaultdict

by_author = defaultdict(list)
for issue in tracker.list_issues():
    by_author[issue["author"]].append(issue["id"])
result = dict(by_author)
