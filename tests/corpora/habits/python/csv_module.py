import csv
import io

text = 'name,qty,note\nAnn,2,"a, b"\nLee,3,"said ""hi"""\nMax,4,"two\nlines"\nZoe,5\n\n'
rows = list(csv.DictReader(io.StringIO(text)))
reader = csv.reader(text.splitlines())
header = next(reader)
first = next(reader)
total = sum(int(row["qty"]) for row in rows)
out = io.StringIO()
writer = csv.writer(out)
writer.writerow(header)
writer.writerows([["x,y", 'q"', None], [1, 2.5, True], [""]])
tabs = io.StringIO()
table = csv.DictWriter(tabs, fieldnames=["name", "qty"], delimiter="\t", lineterminator="\n", extrasaction="ignore")
table.writeheader()
for row in rows:
    table.writerow(row)
semicolons = [row for row in csv.reader(["a;b", "1; 2"], delimiter=";", skipinitialspace=True)]
named = list(csv.DictReader(["1,2,3", "4"], fieldnames=["a", "b"], restkey="more", restval="-"))
lines = io.StringIO("one\ntwo")
result = [rows, header, first, total, out.getvalue(), tabs.getvalue(), semicolons, named, [line.strip() for line in lines]]
