import re

contacts, page, has_more = [], 1, True
while has_more:
    resp = crm.list_contacts(page=page)
    contacts.extend(resp["contacts"])
    has_more = resp["has_more"]
    page += 1

def normalize_phone(phone: str | None) -> str:
    digits = re.sub(r"\D", "", phone or "")
    return digits[-7:]

groups = {}
invalid = []
for c in contacts:
    email = (c["email"] or "").strip().lower()
    if email and not re.fullmatch(r"[^@\s]+@[^@\s]+\.[a-z]+", email):
        invalid.append(c["id"])
        continue
    key = email or normalize_phone(c["phone"])
    groups.setdefault(key, []).append(c)

duplicates = {k: [c["id"] for c in v] for k, v in groups.items() if len(v) > 1}
merged = [sorted(v, key=lambda c: c["last_contact"] or "", reverse=True)[0]["name"] for v in groups.values()]
result = {"duplicates": duplicates, "invalid": invalid, "merged": sorted(merged, key=str.lower)}
