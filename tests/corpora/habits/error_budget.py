levels = {}
slow = []
for line in logs.tail().strip().split("\n"):
    date, time, level, rest = line.split(None, 3)
    levels[level] = levels.get(level, 0) + 1
    if "took" in rest:
        ms = int(rest.rsplit(" ", 1)[1][:-2])
        if ms > 1000:
            slow.append((time, ms))
result = {"levels": levels, "slow": slow, "rate": round(levels["ERROR"] / sum(levels.values()) * 100, 1)}
