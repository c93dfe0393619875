import re
from datetime import datetime, timezone

messages = chat.list_messages(channel="ch4")["messages"]
open_incidents = {}
resolved = []
for msg in messages:
    m = re.match(r"\[(SEV\d|RESOLVED)\]\s*(.+)", msg["text"])
    if m is None:
        continue
    tag, title = m.groups()
    if tag == "RESOLVED":
        start = open_incidents.pop(title, None)
        if start is not None:
            resolved.append({
                "title": title,
                "severity": start["severity"],
                "minutes": (msg["ts"] - start["ts"]) / 60,
                "started": datetime.fromtimestamp(start["ts"], tz=timezone.utc).isoformat(),
            })
    else:
        open_incidents[title] = {"severity": int(tag[3:]), "ts": msg["ts"]}

mttr = sum(r["minutes"] for r in resolved) / len(resolved) if resolved else None
result = {"resolved": resolved, "still_open": list(open_incidents), "mttr": mttr}
