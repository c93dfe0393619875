def quarter(date_str):
    if not date_str:
        return "unscheduled"
    year, month, _ = date_str.split("-")
    return f"{year}-Q{(int(month) - 1) // 3 + 1}"

pivot = {}
for d in crm.list_deals()["deals"]:
    row = pivot.setdefault(d["owner"] or "nobody", {})
    q = quarter(d["close_date"])
    row[q] = row.get(q, 0) + 1

quarters = sorted({q for row in pivot.values() for q in row})
print("owner".ljust(8) + "".join(q.rjust(13) for q in quarters))
table = []
for owner in sorted(pivot):
    cells = [pivot[owner].get(q, 0) for q in quarters]
    table.append([owner] + cells)
    print(owner.ljust(8) + "".join(str(c).rjust(13) for c in cells))
totals = [sum(col) for col in zip(*(row[1:] for row in table))]
result = {"quarters": quarters, "table": table, "totals": totals}
