bookings = [
    {"room": "Ω", "from": "09:00", "to": "10:30"},
    {"room": "A", "from": "09:15", "to": "09:45"},
    {"room": "Ω", "from": "10:00", "to": "11:00"},
    {"room": "A", "from": "13:00", "to": "14:00"},
    {"room": "Ω", "from": "12:00", "to": "12:30"},
]
by_room = {}
for b in sorted(bookings, key=lambda b: (b["room"], b["from"])):
    slots = by_room.setdefault(b["room"], [])
    if slots and b["from"] <= slots[-1][1]:
        slots[-1][1] = max(slots[-1][1], b["to"])
    else:
        slots.append([b["from"], b["to"]])

edges = sorted([(b["from"], 1) for b in bookings] + [(b["to"], -1) for b in bookings], key=lambda e: (e[0], e[1]))
peak = current = 0
for _, delta in edges:
    current += delta
    peak = max(peak, current)
result = {"rooms": by_room, "peak": peak}
