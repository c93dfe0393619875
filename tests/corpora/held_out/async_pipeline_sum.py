# mode: async
async def collect_orders():
    orders, cursor = [], None
    while True:
        page = await shop.list_orders(cursor=cursor)
        orders.extend(page["orders"])
        cursor = page["next_cursor"]
        if cursor is None:
            return orders

orders = await collect_orders()
paid = [o for o in orders if o["status"] == "paid"]
try:
    missing = await shop.get_order(id="ORD-0")
except ToolError as e:
    missing = e.kind
result = {"orders": len(orders), "paid": [o["id"] for o in paid], "missing": missing}
