orders = shop.orders()
skus = sorted({item["sku"] for o in orders for item in o["items"]})
result = {o["id"]: {sku: next((i["qty"] for i in o["items"] if i["sku"] == sku), 0) for sku in skus} for o in orders}
