def check_release(version: str) -> dict:
    """Collect the reasons that block a release."""
    blockers = []
    page = 1
    while page:
        resp = tracker.list_issues(state="open", page=page)
        for issue in resp["items"]:
            ms = issue.get("milestone") or {}
            if ms.get("title") == version:
                names = {l["name"] for l in issue["labels"]}
                if names & {"urgent", "bug"}:
                    blockers.append(f"#{issue['number']} ({', '.join(sorted(names))})")
        page = resp["next_page"]
    points = metrics.query(metric="errors")["points"]
    if any(v > 0 for _, v in points[-3:]):
        blockers.append(f"errors in the last {len(points[-3:])} points")
    event = next((e for e in calendar.list_events(calendar="work")["events"] if version in e["title"]), None)
    return {"version": version, "ready": not blockers, "blockers": blockers, "when": event and event["start"]}

result = [check_release(v) for v in ("v2.1", "v3.0")]
