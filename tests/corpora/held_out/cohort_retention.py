signups = {"u1": "2024-01", "u2": "2024-01", "u3": "2024-02", "u4": "2024-02", "u5": "2024-03"}
activity = [("u1", "2024-01"), ("u1", "2024-02"), ("u1", "2024-03"), ("u2", "2024-02"), ("u3", "2024-03"), ("u4", "2024-02"), ("u5", "2024-03"), ("u9", "2024-03")]

def month_index(m):
    y, mo = map(int, m.split("-"))
    return y * 12 + mo

cohorts = {}
for user, month in signups.items():
    cohorts.setdefault(month, {"size": 0, "active": {}})["size"] += 1

unknown = set()
for user, month in activity:
    if user not in signups:
        unknown.add(user)
        continue
    cohort = cohorts[signups[user]]
    offset = month_index(month) - month_index(signups[user])
    cohort["active"].setdefault(offset, set()).add(user)

result = {"unknown": sorted(unknown)}
for month, c in cohorts.items():
    result[month] = [round(100 * len(c["active"].get(o, ())) / c["size"]) for o in range(3)]
    print(month, *(f"{p:>4}%" for p in result[month]))
