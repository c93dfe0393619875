def section(title, lines):
    body = "\n".join(f"  - {l}" for l in lines) or "  (none)"
    return f"{title}\n{body}"

def main():
    today = "2024-03-19"
    events = [e for e in calendar.list_events(calendar="work")["events"] if e["start"].startswith(today)]
    urgent = [
        i for i in tracker.list_issues(state="open")["items"]
        if any(l["name"] == "urgent" for l in i["labels"])
    ]
    pending = []
    cursor = None
    while True:
        resp = shop.list_orders(cursor=cursor)
        pending += [o for o in resp["orders"] if o["status"] == "pending"]
        cursor = resp["next_cursor"]
        if cursor is None:
            break
    text = "\n\n".join([
        section("Meetings", [f"{e['start'][11:16]} {e['title']}" for e in events]),
        section("Urgent issues", [f"#{i['number']} {i['title']}" for i in urgent]),
        section("Pending orders", [o["id"] for o in pending]),
        section("Blocked", []),
    ])
    print(text)
    return text

if __name__ == "__main__":
    result = main()
