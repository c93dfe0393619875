issues = tracker.list_issues(state="open")
many = gather([(tracker.list_issues, {"state": "open"})] * 20)
few = gather([(tracker.list_issues, {"state": "open"})] * 5, limit=2)
result = [len(many), len(few), all(m == issues for m in many + few)]
