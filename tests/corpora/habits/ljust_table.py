items = [("apple", 1.5, 3), ("kiwi", 0.25, 12)]
for name, price, qty in items:
    print(name.ljust(10, "."), f"{price:6.2f}", str(qty).rjust(4))
result = sum(p * q for _, p, q in items)
