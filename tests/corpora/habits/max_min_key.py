issues = tracker.list_issues()
most = max(issues, key=lambda i: i["comments"])
least = min(issues, key=lambda i: (i["comments"], i["id"]))
counts = {"a": 3, "b": 7, "c": 7}
result = [most["id"], least["id"], max(counts, key=counts.get), max(counts.items(), key=lambda kv: kv[1]), min([], default=0), max(3, 1, 2), max("hello")]
