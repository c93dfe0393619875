# Match issue assignees with chat users
handles = {}
for uid in [f"u{i}" for i in range(1, 7)]:
    try:
        u = chat.get_user(id=uid)
        handles[u["handle"]] = u
    except ToolError as e:
        if e.code != "no_such_user":
            raise
        print("skip", uid)

assigned = {}
page, pages = 1, 0
while page:
    pages += 1
    data = tracker.list_issues(state="open", page=page)
    for it in data["items"]:
        login = (it["assignee"] or {}).get("login")
        if login is None:
            continue
        assigned.setdefault(login, []).append(it["number"])
    page = data["next_page"]

result = {
    "pages": pages,
    "people": [
        {"name": handles[login]["profile"]["real_name"], "tz": handles[login]["profile"]["tz"] or "UTC", "issues": nums}
        for login, nums in sorted(assigned.items()) if login in handles
    ],
}
