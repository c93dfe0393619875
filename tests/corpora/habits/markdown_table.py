headers = ["login", "team"]
out = ["| " + " | ".join(headers) + " |", "|" + "---|" * len(headers)]
for u in people.list_users():
    out.append("| " + " | ".join(str(u[h]) for h in headers) + " |")
print("\n".join(out))
result = len(out)
