from datetime import datetime
from string import Template

template = Template("Hi $name,\n\n$body\n\nBest,\nThe team")
week_start = datetime(2024, 3, 18)
events = calendar.list_events(calendar="work")["events"]
emails = []
for uid in ("u1", "u2", "u3"):
    user = chat.get_user(id=uid)
    mine = [e for e in events if user["handle"] in e["attendees"] and not e.get("recurring")]
    bullets = []
    for e in mine:
        start = datetime.fromisoformat(e["start"]).replace(tzinfo=None)
        offset = (start - week_start).days
        where = f" @ {e['location']}" if e["location"] else ""
        bullets.append(f"* day {offset + 1}: {e['title']}{where}")
    first_name = user["profile"]["real_name"].split()[0]
    emails.append(template.substitute(name=first_name, body="\n".join(bullets)))
print(emails[0])
result = {"emails": emails, "lengths": [len(m) for m in emails]}
