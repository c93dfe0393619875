# Paginate all orders and sum the revenue per currency
orders = []
cursor = None
while True:
    batch = shop.list_orders(cursor=cursor)
    orders.extend(batch["orders"])
    cursor = batch.get("next_cursor")
    if not cursor:
        break

def order_total(order):
    total = 0
    for line in order["lines"]:
        price = line["qty"] * line["unit_price"]
        price *= 1 - line.get("discount", 0)
        total += price
    if order["shipping"]:
        total += order["shipping"]["cost"]
    return total

revenue = {}
for order in orders:
    if order["status"] in ("cancelled", "refunded"):
        continue
    revenue.setdefault(order["currency"], 0)
    revenue[order["currency"]] += order_total(order)

result = {cur: round(amount, 2) for cur, amount in sorted(revenue.items())}
for cur, amount in result.items():
    print(f"{cur}: {amount:,.2f}")
