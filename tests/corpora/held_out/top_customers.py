customers = {c["id"]: c for c in shop.list_customers()}
spend = {}
cursor = ""
seen = 0
while cursor is not None:
    page = shop.list_orders(cursor=cursor) if cursor else shop.list_orders()
    for order in page["orders"]:
        seen += 1
        cid = order["customer_id"]
        spend[cid] = spend.get(cid, 0) + len(order["lines"])
    cursor = page["next_cursor"]

ranking = sorted(spend.items(), key=lambda item: item[1], reverse=True)
top = []
for rank, (cid, lines) in enumerate(ranking[:3], start=1):
    customer = customers.get(cid)
    name = customer["name"] if customer is not None else "(unknown)"
    top.append(f"{rank}. {name} - {lines} line{'s' if lines != 1 else ''}")
print("\n".join(top))
result = {"top": top, "orders_seen": seen, "unknown": [c for c in spend if c not in customers]}
