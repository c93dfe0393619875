issues = tracker.list_issues()
result = [any(i["comments"] > 10 for i in issues), all(i["title"] for i in issues), any([]), all([]), any("crash" in i["labels"] and i["state"] == "open" for i in issues)]
