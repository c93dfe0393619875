users = people.list_users()
for u in users:
    u["handle"] = "@" + u["login"]
    u.pop("email", None)
    u["active"] = "yes" if u["active"] else "no"
result = [{k: v for k, v in u.items() if k != "team"} for u in users if u["active"] == "yes"]
