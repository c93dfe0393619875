content = files.read({"path": "/data/sales.csv"})["content"]
header, *rows = content.strip().split("\n")
columns = header.split(",")
records = []
for row in rows:
    if '"' in row:
        before, quoted, after = row.split('"')
        values = before.rstrip(",").split(",") + [quoted] + after.lstrip(",").split(",")
    else:
        values = row.split(",")
    records.append(dict(zip(columns, values)))

def num(text, default=None):
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return default

for r in records:
    r["units"], r["revenue"] = num(r["units"]), num(r["revenue"], 0)

reps = sorted({r["rep"] for r in records})
total = sum(r["revenue"] for r in records)
print(f"{len(records)} rows, total {total:.2f}")
result = {"reps": reps, "total": total, "missing": [r["date"] for r in records if r["units"] is None], "last": records[-1]}
