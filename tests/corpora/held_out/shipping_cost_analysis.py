orders = []
cursor = None
while True:
    resp = shop.list_orders(**({"cursor": cursor} if cursor else {}))
    orders += resp["orders"]
    cursor = resp["next_cursor"]
    if not cursor: break

weights = {}
def weight(sku):
    if sku not in weights:
        try:
            weights[sku] = shop.get_product(sku=sku)["weight_kg"] or 0
        except ToolError:
            weights[sku] = 0
    return weights[sku]

methods = {}
for o in orders:
    if not o.get("shipping") or o["currency"] == "JPY":
        continue
    kg = sum(weight(l["sku"]) * l["qty"] for l in o["lines"])
    m = methods.setdefault(o["shipping"]["method"], dict(orders=0, kg=0.0, cost=0))
    m["orders"] += 1
    m["kg"] = round(m["kg"] + kg, 3)
    m["cost"] += o["shipping"]["cost"]

for name, m in methods.items():
    m["per_kg"] = round(m["cost"] / m["kg"], 2) if m["kg"] > 0 else None
result = methods
