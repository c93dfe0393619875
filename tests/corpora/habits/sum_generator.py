total = sum(item["qty"] * item["price"] for order in shop.orders() for item in order["items"])
result = round(total, 2)
