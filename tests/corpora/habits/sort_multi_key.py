issues = tracker.list_issues()
issues.sort(key=lambda i: (-i["comments"], i["title"]))
top = sorted(issues, key=lambda i: i["created_at"], reverse=True)[:3]
result = [[i["id"] for i in issues], [i["id"] for i in top]]
