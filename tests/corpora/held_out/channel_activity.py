channels = chat.list_channels()["channels"]
summary = []
errors = []
for ch in channels:
    messages = []
    cursor = None
    try:
        while True:
            kwargs = {"channel": ch["id"]}
            if cursor:
                kwargs["cursor"] = cursor
            resp = chat.list_messages(**kwargs)
            messages.extend(resp["messages"])
            cursor = resp.get("next_cursor")
            if not cursor:
                break
    except ToolError as e:
        errors.append({"channel": ch["name"], "error": e.message})
        continue
    reactions = sum(r["count"] for m in messages for r in m.get("reactions", []))
    summary.append({"channel": ch["name"], "messages": len(messages), "reactions": reactions, "users": len({m["user"] for m in messages})})

summary.sort(key=lambda s: (-s["messages"], s["channel"]))
result = {"summary": summary, "errors": errors}
