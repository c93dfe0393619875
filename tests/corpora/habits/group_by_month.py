from collections import defaultdict
per_month = defaultdict(int)
for issue in tracker.list_issues():
    per_month[issue["created_at"][:7]] += 1
result = dict(sorted(per_month.items()))
