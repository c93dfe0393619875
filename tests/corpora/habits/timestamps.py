from datetime import datetime, timezone, timedelta
t = datetime.fromtimestamp(1700000000, tz=timezone.utc)
u = datetime(2024, 5, 1, 12, 30, tzinfo=timezone(timedelta(hours=2)))
result = [t.isoformat(), t.timestamp(), u.astimezone(timezone.utc).isoformat(), str(u), u.utcoffset().total_seconds(), t.strftime("%Y-%m-%dT%H:%M:%SZ"), datetime(2024, 1, 2, 3, 4, 5, 678900).isoformat(), repr(datetime(2024, 1, 2))]
