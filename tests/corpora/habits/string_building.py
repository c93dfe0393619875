out = ""
for i in range(5):
    out += str(i) + ("," if i < 4 else "")
parts = []
for u in people.list_users():
    parts.append("{} <{}>".format(u["name"], u["email"] or "n/a"))
result = [out, "; ".join(parts), "-" * 10, "ab" * 2 + "c", "\n".join(f"{i}: {c}" for i, c in enumerate("ab"))]
