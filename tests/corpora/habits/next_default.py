issues = tracker.list_issues()
first_bug = next((i for i in issues if "bug" in i["labels"]), None)
missing = next((i for i in issues if i["author"] == "zed"), None)
pair = next((k, v) for k, v in {"a": 1, "b": 2}.items() if v == 2)
result = [first_bug["id"], missing, pair]
