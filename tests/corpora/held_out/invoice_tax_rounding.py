from decimal import Decimal, ROUND_HALF_UP

items = [("Desk", "349.99", 1), ("Chair", "129.50", 4), ("Lamp", "19.995", 3)]
TAX = Decimal("0.19")
CENT = Decimal("0.01")

lines = []
net = Decimal("0")
for name, price, qty in items:
    amount = (Decimal(price) * qty).quantize(CENT, rounding=ROUND_HALF_UP)
    net += amount
    lines.append(f"{name:<8}{qty:>3}{amount:>10}")
tax = (net * TAX).quantize(CENT, rounding=ROUND_HALF_UP)
lines.append(f"{'Total':<11}{net + tax:>10}")
print("\n".join(lines))
result = {"net": str(net), "tax": str(tax), "gross": float(net + tax)}
