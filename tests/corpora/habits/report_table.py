rows = [(i["id"], i["title"], i["comments"]) for i in tracker.list_issues()]
width = max(len(r[1]) for r in rows)
lines = [f"{'ID':>3} {'Title':<{width}} {'#':>3}", "-" * (width + 8)]
for id_, title, n in rows:
    lines.append(f"{id_:>3} {title:<{width}} {n:>3}")
result = "\n".join(lines)
