import re

def slugify(title):
    title = title.lower()
    title = re.sub(r"[^a-z0-9]+", "-", title)
    return title.strip("-")

result = [slugify(i["title"]) for i in tracker.list_issues()]
