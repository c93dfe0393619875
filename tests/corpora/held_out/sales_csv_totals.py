import csv
import io

raw = files.read(path="/data/sales.csv")["content"]
reader = csv.DictReader(io.StringIO(raw))

totals = {}
skipped = []
for lineno, row in enumerate(reader, start=2):
    try:
        units = int(row["units"])
        revenue = float(row["revenue"])
    except ValueError as e:
        skipped.append(lineno)
        continue
    region = totals.setdefault(row["region"], {"units": 0, "revenue": 0.0})
    region["units"] += units
    region["revenue"] += revenue

for region, t in totals.items():
    avg = t["revenue"] / t["units"] if t["units"] else 0
    t["avg"] = round(avg, 2)
result = {"totals": totals, "skipped_lines": skipped}
