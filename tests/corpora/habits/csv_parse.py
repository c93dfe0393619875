lines = files.read(path="data.csv").strip().split("\n")
header = lines[0].split(",")
rows = [dict(zip(header, line.split(","))) for line in lines[1:]]
for row in rows:
    row["age"] = int(row["age"]) if row["age"] else None
ages = [r["age"] for r in rows if r["age"] is not None]
result = {"rows": rows, "mean": sum(ages) / len(ages)}
