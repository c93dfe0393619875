from functools import reduce
orders = []
cur = "start"
while cur:
    resp = shop.list_orders() if cur == "start" else shop.list_orders(cursor=cur)
    orders.extend(resp["orders"])
    cur = resp["next_cursor"]

with_coupon = list(filter(lambda o: o["coupon"], orders))
codes = list(map(lambda o: o["coupon"], with_coupon))
gross = reduce(lambda acc, o: acc + sum(l["qty"] for l in o["lines"]), with_coupon, 0)
pct = {code: int("".join(ch for ch in code if ch.isdigit()) or 0) for code in codes}
result = {
    "codes": codes,
    "units": gross,
    "percent": pct,
    "share": f"{len(with_coupon) / len(orders):.1%}",
    "notes": [o["note"] for o in orders if "note" in o],
    "empty": [o["id"] for o in orders if not o["lines"]],
}
