from collections import Counter
totals = Counter()
for channel_id in ("ch1", "ch2"):
    cursor = None
    while True:
        page = chat.list_messages(channel=channel_id, cursor=cursor) if cursor else chat.list_messages(channel=channel_id)
        for m in page["messages"]:
            totals += Counter({r["emoji"]: r["count"] for r in m.get("reactions", [])})
        cursor = page["next_cursor"]
        if cursor is None:
            break
result = [{"emoji": e, "count": c} for e, c in sorted(totals.items(), key=lambda x: (-x[1], x[0]))]
assert sum(r["count"] for r in result) == sum(totals.values())
