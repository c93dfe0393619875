from collections import Counter

counter = Counter()
for state in ("open", "closed"):
    page = 1
    while page:
        r = tracker.list_issues(state=state, page=page)
        for item in r["items"]:
            counter.update(l["name"] for l in item["labels"])
        page = r["next_page"]

width = max(len(name) for name in counter)
for name, n in counter.most_common():
    print(f"{name.ljust(width)} | {'#' * n} {n}")

result = counter.most_common(4)
