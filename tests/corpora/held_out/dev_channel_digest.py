import re

user_cache = {}

def get_handle(uid):
    if uid not in user_cache:
        try:
            user_cache[uid] = chat.get_user(id=uid)["handle"]
        except ToolError:
            user_cache[uid] = f"<{uid}>"
    return user_cache[uid]

first = chat.list_messages(channel="ch2")
second = chat.list_messages(channel="ch2", cursor=first["next_cursor"])
digest = []
for msg in [*first["messages"], *second["messages"]]:
    text = re.sub(r"<@(\w+)>", lambda m: "@" + get_handle(m.group(1)), msg["text"])
    text = re.sub(r"https?://\S+", "[link]", text)
    digest.append(f"{get_handle(msg['user'])}: {text}")

print("\n".join(digest))
result = {"digest": digest, "users": user_cache}
