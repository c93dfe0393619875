from datetime import datetime, timedelta

first = datetime.fromisoformat("2024-01-05T09:30:00Z".replace("Z", "+00:00"))
last = datetime.fromisoformat("2024-03-15T00:00:00+00:00")
diff = last - first
result = [diff.days, diff.total_seconds(), str(diff), (first + timedelta(days=30)).isoformat(), last > first, first.strftime("%d %b %Y %H:%M"), first.weekday()]
