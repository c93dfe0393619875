from itertools import groupby

products = shop.list_products(page=1)["products"] + shop.list_products(page=2)["products"]
products.sort(key=lambda p: (p["category"], -p["price"]))

catalog = {}
for category, group in groupby(products, key=lambda p: p["category"]):
    items = list(group)
    prices = [p["price"] for p in items]
    catalog[category] = {
        "items": [p["name"] for p in items if not p.get("discontinued")],
        "avg_price": round(sum(prices) / len(prices), 3),
        "heaviest": max((p["weight_kg"] or 0 for p in items), default=None),
    }

tags = sorted(set(tag for p in products for tag in p["tags"]))
result = {"catalog": catalog, "tags": tags}
