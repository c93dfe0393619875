users = people.list_users()
result = [
    (u["name"], i["title"])
    for u in users if u["active"]
    for i in tracker.list_issues()
    if i["author"] == u["login"] and "bug" in i["labels"]
]
