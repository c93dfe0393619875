domains = {}
for u in people.list_users():
    email = u["email"] or ""
    if "@" not in email:
        continue
    domain = email.split("@")[1]
    domains.setdefault(domain, []).append(u["login"])
result = domains
