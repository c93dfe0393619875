def classify(i):
    if "crash" in i["labels"] or i["comments"] > 8:
        return "high"
    if "bug" in i["labels"] and not i["state"] == "closed":
        return "medium"
    return "low"
buckets = {"high": [], "medium": [], "low": []}
for i in tracker.list_issues():
    buckets[classify(i)].append(i["id"])
result = buckets
