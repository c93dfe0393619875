ids = [1, 3, 99, 5]
ok, failed = [], []
for issue_id in ids:
    answer = attempt(tracker.get_issue, {"id": issue_id})
    if answer.ok:
        ok.append(answer.value["title"])
    else:
        failed.append({"id": issue_id, "why": answer.error.message})
result = {"ok": ok, "failed": failed}
