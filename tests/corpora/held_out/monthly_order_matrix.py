from collections import defaultdict
from datetime import date

matrix = defaultdict(lambda: defaultdict(int))
cursor = None
while True:
    r = shop.list_orders(cursor=cursor)
    for order in r["orders"]:
        d = date.fromisoformat(order["created"])
        matrix[d.strftime("%b")][order["status"]] += 1
    if not (cursor := r["next_cursor"]):
        break

statuses = sorted({s for row in matrix.values() for s in row})
print(" " * 5 + "".join(f"{s:^11}" for s in statuses))
for month, row in matrix.items():
    print(f"{month:<5}" + "".join(f"{row.get(s, 0) or '-':^11}" for s in statuses))
result = {month: dict(sorted(row.items())) for month, row in matrix.items()}
