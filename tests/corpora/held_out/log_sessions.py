events = """\
10:00:01 u1 login
10:00:30 u2 login
10:04:12 u1 view /home
10:40:00 u1 view /cart
10:41:00 u2 logout
10:45:10 u1 buy
"""

GAP = 30 * 60

def secs(t):
    h, m, s = (int(x) for x in t.split(":"))
    return h * 3600 + m * 60 + s

sessions = {}
for line in events.splitlines():
    time, user, action, *rest = line.split()
    t = secs(time)
    user_sessions = sessions.setdefault(user, [])
    if not user_sessions or t - user_sessions[-1]["end"] > GAP:
        user_sessions.append({"start": t, "end": t, "actions": []})
    current = user_sessions[-1]
    current["end"] = t
    current["actions"].append(action + (":" + rest[0] if rest else ""))

result = {
    user: [{"seconds": s["end"] - s["start"], "actions": s["actions"]} for s in ss]
    for user, ss in sessions.items()
}
