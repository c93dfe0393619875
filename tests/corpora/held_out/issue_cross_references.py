import re

issues = {}
errors = []
for number in [101, 104, 108, 87, 999]:
    try:
        issues[number] = tracker.get_issue(number=number)
    except ToolError as e:
        errors.append({"number": number, "code": e.code, "message": str(e)})

refs = {}
for number, issue in issues.items():
    body = issue.get("body") or ""
    found = sorted({int(m) for m in re.findall(r"#(\d+)", body)})
    refs[str(number)] = found
    for comment in tracker.list_comments(issue=number):
        for mention in re.findall(r"@(\w+)", comment["body"]):
            print(f"#{number}: {comment['user']} mentioned {mention}")

result = {"refs": refs, "errors": errors}
