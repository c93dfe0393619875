prices = {"pen": 1.5, "book": 13}
cart = ["pen", "pen", "lamp"]
total = 0
unknown = []
for item in cart:
    if (price := prices.get(item)) is None:
        unknown.append(item)
        continue
    total += price
result = {"total": total, "unknown": unknown}
