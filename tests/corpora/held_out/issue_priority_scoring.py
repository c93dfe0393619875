WEIGHTS = {"urgent": 5, "bug": 3, "feature": 1}

def score(issue: dict) -> float:
    s = sum(WEIGHTS.get(l["name"], 0) for l in issue["labels"])
    s += min(issue["comments"], 10) * 0.25
    if issue["assignee"] is None:
        s += 1
    est = issue.get("estimate")
    return s / est if est else s

issues = []
for page in (1, 2, 3):
    issues.extend(tracker.list_issues(state="open", page=page)["items"])

scored = sorted(((score(i), -i["number"]) for i in issues), reverse=True)
by_number = {i["number"]: i for i in issues}
top = []
for s, neg in scored[:5]:
    i = by_number[-neg]
    top.append({"number": i["number"], "title": i["title"], "score": round(s, 2)})
first, second, *others = top
print(f"Top: {first['title']!r} then {second['title']!r} (+{len(others)} more)")
result = top
