lines = []
for order in shop.orders():
    amount = sum(i["qty"] * i["price"] for i in order["items"])
    lines.append(f"{order['id']:<5}|{amount:>10,.2f}|{order['customer'].upper():^7}|")
result = "\n".join(lines)
