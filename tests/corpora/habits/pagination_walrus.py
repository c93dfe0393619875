page, seen = 1, []
while (data := tracker.list_issues(page=page)) and data["items"]:
    seen += [item["title"] for item in data["items"]]
    if data["next"] is None:
        break
    page = data["next"]
result = {"count": len(seen), "titles": seen}
