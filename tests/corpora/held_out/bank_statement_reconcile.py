statement = [("2024-03-01", -49.99, "AMZN"), ("2024-03-02", 1200.0, "ACME SALARY"), ("2024-03-05", -12.5, "CAFE"), ("2024-03-07", -49.99, "AMZN")]
ledger = [("2024-03-02", 1200, "salary"), ("2024-03-01", -49.99, "books"), ("2024-03-05", -12.50, "coffee"), ("2024-03-09", -80, "power")]

unmatched = list(ledger)
matches, missing = [], []
for day, amount, text in statement:
    candidate = next((l for l in unmatched if l[1] == amount and abs(int(l[0][-2:]) - int(day[-2:])) <= 2), None)
    if candidate:
        unmatched.remove(candidate)
        matches.append(f"{text} -> {candidate[2]}")
    else:
        missing.append({"day": day, "amount": amount})

balance = 0
running = []
for day, amount, _ in sorted(statement):
    balance += amount
    running.append((day, round(balance, 2)))
result = dict(matches=matches, missing=missing, unmatched=[u[2] for u in unmatched], running=running)
