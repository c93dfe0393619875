from dataclasses import dataclass, asdict

@dataclass
class DealView:
    id: str
    title: str
    contact: str
    vip: bool = False

def fetch_contact(contact_id, retries=2):
    for attempt in range(retries + 1):
        try:
            return crm.get_contact(id=contact_id)
        except ToolError as e:
            if e.kind != "rate-limited" or attempt == retries:
                print(f"giving up on contact {contact_id}: {e}")
                return None

views = []
for deal in crm.list_deals()["deals"]:
    contact = fetch_contact(deal["contact_id"])
    if contact is None:
        views.append(DealView(deal["id"], deal["title"], "?"))
    else:
        views.append(DealView(deal["id"], deal["title"], contact["name"].title(), "vip" in contact["tags"]))

views.sort(key=lambda v: (not v.vip, v.id))
result = [asdict(v) for v in views]
