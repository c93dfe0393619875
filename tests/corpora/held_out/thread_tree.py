messages = []
cursor = None
for _ in range(5):
    args = {"channel": "ch2"}
    if cursor is not None:
        args["cursor"] = cursor
    data = chat.list_messages(args)
    messages.extend(data["messages"])
    cursor = data["next_cursor"]
    if not cursor:
        break
else:
    print("too many pages")

children = {}
for m in messages:
    children.setdefault(m.get("thread"), []).append(m)

def render(parent=None, indent=0):
    out = []
    for m in children.get(parent, []):
        text = m["text"] if len(m["text"]) <= 24 else m["text"][:21] + "..."
        out.append(" " * indent + f"{m['user']}: {text}")
        out.extend(render(m["id"], indent + 2))
    return out

tree = render()
print(*tree, sep="\n")
result = {"tree": tree, "gaps": [round(b["ts"] - a["ts"], 2) for a, b in zip(messages, messages[1:])]}
