def amortize(principal: float, annual_rate: float, months: int) -> list[dict]:
    """Build a monthly amortization schedule."""
    r = annual_rate / 12
    payment = principal * r / (1 - (1 + r) ** -months)
    balance = principal
    schedule = []
    for month in range(1, months + 1):
        interest = balance * r
        capital = payment - interest
        balance -= capital
        schedule.append({
            "month": month,
            "payment": round(payment, 2),
            "interest": round(interest, 2),
            "balance": round(max(balance, 0), 2),
        })
    return schedule

schedule = amortize(10_000, 0.06, 12)
print("%5s %10s %10s %12s" % ("Month", "Payment", "Interest", "Balance"))
for row in schedule[:3] + schedule[-1:]:
    print("%5d %10.2f %10.2f %12.2f" % (row["month"], row["payment"], row["interest"], row["balance"]))
result = {"payment": schedule[0]["payment"], "interest": round(sum(r["interest"] for r in schedule), 2), "last": schedule[-1]}
