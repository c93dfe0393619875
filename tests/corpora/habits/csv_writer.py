import csv
import io

out = io.StringIO()
writer = csv.writer(out)
writer.writerow(["name", "note", "n", "x", "t"])
n = writer.writerow(["Ann, B", 'said "hi"', 1, 2.5, True])
writer.writerows([[None, "two\nlines", "", " a ", "é"], [""], [], ("t", "u")])
tabs = io.StringIO()
w = csv.DictWriter(tabs, fieldnames=["id", "title"], delimiter="\t", lineterminator="\n", extrasaction="ignore")
w.writeheader()
w.writerows([{"id": i["id"], "title": i["title"], "more": 1} for i in tracker.list_issues(state="open")])
w.writerow({"id": 9})
full = io.StringIO()
csv.writer(full, quoting=csv.QUOTE_ALL).writerow([1, "a"])
csv.writer(full, quoting=csv.QUOTE_NONNUMERIC).writerow([1, "a"])
print(out.getvalue())
result = [out.getvalue(), n, tabs.getvalue(), full.getvalue()]
