products = []
for p in range(1, 10):
    resp = shop.list_products(page=p)
    products.extend(resp["products"])
    if p >= resp["pages"]:
        break

low, failed = [], []
for product in products:
    sku = product["sku"]
    try:
        stock = shop.get_stock(sku=sku)
    except ToolError as err:
        failed.append(f"{sku}: {err.message}")
        continue
    available = stock["on_hand"] - stock["reserved"]
    if available <= 10:
        low.append({"sku": sku, "available": available, "warehouse": stock["warehouse"]})

low.sort(key=lambda s: s["available"])
print("SKU".ljust(10) + "AVAIL".rjust(6))
print("-" * 16)
for item in low:
    print(item["sku"].ljust(10) + str(item["available"]).rjust(6))
result = {"low": low, "failed": failed}
