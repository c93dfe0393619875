from collections import defaultdict
tree = defaultdict(lambda: defaultdict(int))
for order in shop.orders():
    for item in order["items"]:
        tree[order["customer"]][item["sku"]] += item["qty"]
stats = defaultdict(lambda: {"count": 0, "total": 0.0})
for order in shop.orders():
    entry = stats[order["customer"]]
    entry["count"] += 1
    entry["total"] += sum(i["qty"] * i["price"] for i in order["items"])
unique = defaultdict(set)
for i in tracker.list_issues():
    unique[i["author"]].add(i["state"])
result = [{k: dict(v) for k, v in tree.items()}, {k: {"count": v["count"], "total": round(v["total"], 2)} for k, v in stats.items()}, {k: sorted(v) for k, v in unique.items()}]
