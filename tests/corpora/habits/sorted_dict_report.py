per = {}
for i in tracker.list_issues():
    a = per.setdefault(i["author"], {"n": 0, "comments": 0, "labels": set()})
    a["n"] += 1
    a["comments"] += i["comments"]
    a["labels"] |= set(i["labels"])
for name in sorted(per, key=lambda k: (-per[k]["comments"], k)):
    stats = per[name]
    print(f"{name:<5}{stats['n']:>3}{stats['comments'] / stats['n']:>8.2f} {', '.join(sorted(stats['labels']))}")
result = {k: {**v, "labels": sorted(v["labels"])} for k, v in per.items()}
