def to_minutes(t: str) -> int:
    h, m = map(int, t.split(":"))
    return h * 60 + m

def fmt(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"

users = ["ana", "bo", "chidi", "eve"]
busy, missing = [], []
for user in users:
    try:
        busy += [(to_minutes(s), to_minutes(e)) for s, e in calendar.free_busy(user=user)["busy"]]
    except ToolError:
        missing.append(user)

merged = []
for start, end in sorted(busy):
    if merged and start <= merged[-1][1]:
        merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
    else:
        merged.append((start, end))

free = []
cursor = to_minutes("09:00")
for start, end in merged + [(to_minutes("17:00"), None)]:
    if start - cursor >= 30:
        free.append(f"{fmt(cursor)}-{fmt(start)}")
    if end is not None:
        cursor = end
result = {"free": free, "missing": missing}
