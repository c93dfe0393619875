users = {u["login"]: u for u in people.list_users()}
rows = []
for issue in tracker.list_issues(state="open"):
    user = users.get(issue["author"], {})
    rows.append({"id": issue["id"], "name": user.get("name", "unknown"), "team": user.get("team")})
result = rows
