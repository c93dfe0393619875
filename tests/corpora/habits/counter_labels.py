from collections import Counter

counts = Counter(label for issue in tracker.list_issues() for label in issue["labels"])
result = counts.most_common(3)
