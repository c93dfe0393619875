order = shop.get_order(id="ORD-1007")
customer = shop.get_customer(id=order["customer_id"])

lines = []
lines.append(f"INVOICE {order['id']}")
lines.append(f"To: {customer['name']} <{customer['email'].lower()}>")
lines.append("=" * 44)
subtotal = 0
for i, line in enumerate(order["lines"], 1):
    product = shop.get_product(sku=line["sku"])
    amount = line["qty"] * line["unit_price"] * (1 - line.get("discount", 0))
    subtotal += amount
    lines.append(f"{i:>2}. {product['name']:<22}{line['qty']:>4} x{line['unit_price']:>6.2f}{amount:>9.2f}")
lines.append("-" * 44)
shipping = order["shipping"]["cost"]
lines.append(f"{'Shipping':<35}{shipping:>9.2f}")
total = subtotal + shipping
lines.append(f"{'TOTAL ' + order['currency']:<35}{total:>9.2f}")
text = "\n".join(lines)
print(text)
result = {"text": text, "total": round(total, 2)}
