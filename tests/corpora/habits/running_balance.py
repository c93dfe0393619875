transactions = [("dep", 100), ("wd", 30), ("wd", 100), ("dep", 50)]
balance, rejected = 0, []
for kind, amount in transactions:
    if kind == "dep":
        balance += amount
    elif balance - amount < 0:
        rejected.append((kind, amount))
    else:
        balance -= amount
result = {"balance": balance, "rejected": rejected}
