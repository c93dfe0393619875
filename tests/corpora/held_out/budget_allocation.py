import math
budget = 1000
requests = {"ads": 620, "events": 300.5, "tools": 180, "travel": 240}
total = sum(requests.values())
shares = {k: budget * v / total for k, v in requests.items()}
floors = {k: math.floor(v) for k, v in shares.items()}
left = budget - sum(floors.values())
for k in sorted(shares, key=lambda k: shares[k] - floors[k], reverse=True)[:left]:
    floors[k] += 1

assert sum(floors.values()) == budget
for k, v in floors.items():
    cut = (1 - v / requests[k]) * 100
    print(f"{k:<8} {requests[k]:>8.1f} -> {v:>5d}  (-{cut:.1f}%)")
result = {"allocation": floors, "over_by": total - budget, "exact": {k: round(v, 2) for k, v in shares.items()}, "ceil": math.ceil(total / 100) * 100}
