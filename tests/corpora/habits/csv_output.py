rows = [["id", "title"]] + [[i["id"], i["title"]] for i in tracker.list_issues(state="closed")]
def cell(v):
    s = str(v)
    return '"' + s.replace('"', '""') + '"' if "," in s or '"' in s else s
result = "\n".join(",".join(cell(v) for v in row) for row in rows)
