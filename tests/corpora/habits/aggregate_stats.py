comments = [i["comments"] for i in tracker.list_issues()]
n = len(comments)
mean = sum(comments) / n
variance = sum((c - mean) ** 2 for c in comments) / n
ordered = sorted(comments)
median = ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2
result = {"mean": round(mean, 3), "sd": round(variance ** 0.5, 3), "median": median, "range": (min(comments), max(comments))}
