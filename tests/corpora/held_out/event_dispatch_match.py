events = [
    {"type": "order", "action": "created", "id": 7, "total": 19.9},
    {"type": "order", "action": "cancelled", "id": 8},
    {"type": "user", "name": "Zoë"},
    ["ping", 3],
    ["batch", 1, 2, 3],
    "noop",
    42,
    None,
]

def handle(event):
    match event:
        case {"type": "order", "action": "created", "id": oid, "total": total} if total > 10:
            return f"big order {oid}: {total:.2f}"
        case {"type": "order", "id": oid}:
            return f"order {oid}"
        case {"type": kind, **rest}:
            return f"{kind} with {len(rest)} field(s)"
        case ["ping", count]:
            return "pong " * count
        case [name, *values]:
            return f"{name}={sum(values)}"
        case "noop" | None:
            return "ignored"
        case int() as n:
            return f"number {n}"
        case _:
            return "unknown"

result = [handle(e) for e in events]
print(result)
