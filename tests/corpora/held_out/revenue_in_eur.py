rates = fx.rates(base="EUR")["rates"]

orders, cursor = [], None
while (batch := shop.list_orders(cursor=cursor)):
    orders += batch["orders"]
    if (cursor := batch["next_cursor"]) is None:
        break

def to_eur(amount, currency):
    return amount / rates[currency]

by_month = {}
for o in orders:
    if o["status"] not in {"paid", "shipped"}:
        continue
    amount = sum(l["qty"] * l["unit_price"] * (1 - l.get("discount", 0)) for l in o["lines"])
    month = o["created"][:7]
    by_month[month] = by_month.get(month, 0.0) + to_eur(amount, o["currency"])

result = {month: round(total, 2) for month, total in by_month.items()}
best = max(result, key=result.get)
print(f"Best month: {best} ({result[best]:.2f} EUR)")
