from datetime import date, timedelta

TODAY = date(2024, 3, 20)

def days_since(iso):
    """Days since an ISO date, None when unknown."""
    if not iso:
        return None
    return (TODAY - date.fromisoformat(iso)).days

contacts = []
page = 1
while True:
    chunk = crm.list_contacts(page=page)
    contacts += chunk["contacts"]
    if not chunk["has_more"]:
        break
    page = chunk["page"] + 1

due = [(c["name"], days_since(c["last_contact"])) for c in contacts]
overdue = sorted(((n, d) for n, d in due if d is not None and 30 < d <= 120), key=lambda t: t[1], reverse=True)
never = [n for n, d in due if d is None]
next_call = {name: (TODAY + timedelta(days=7 if d < 90 else 1)).isoformat() for name, d in overdue}
result = {"overdue": overdue, "never": never, "next_call": next_call}
