totals = {}
for o in shop.orders():
    totals[o["customer"]] = totals.get(o["customer"], 0) + sum(i["qty"] * i["price"] for i in o["items"])
ranked = sorted(totals.items(), key=lambda kv: kv[1], reverse=True)
result = [{"customer": c, "total": round(t, 2), "share": f"{t / sum(totals.values()):.1%}"} for c, t in ranked]
