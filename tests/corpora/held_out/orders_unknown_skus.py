"""Find order lines whose SKU does not exist in the catalogue."""

known = set()
page = 1
while True:
    r = shop.list_products(page=page)
    known.update(p["sku"] for p in r["products"])
    if page == r["pages"]:
        break
    page += 1

used = set()
bad = []
cursor = None
done = False
while not done:
    r = shop.list_orders(cursor=cursor)
    for o in r["orders"]:
        skus = {l["sku"] for l in o["lines"]}
        used |= skus
        if skus - known:
            bad.append((o["id"], sorted(skus - known)))
    cursor = r["next_cursor"]
    done = cursor is None

result = {
    "bad_orders": [{"id": oid, "skus": skus} for oid, skus in bad],
    "never_sold": sorted(known - used),
    "common": len(known & used),
}
