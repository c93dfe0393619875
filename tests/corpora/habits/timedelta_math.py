from datetime import timedelta, datetime
a = timedelta(hours=1, minutes=30)
b = timedelta(days=1)
result = [str(a), str(b), a.total_seconds(), (a * 2).seconds, b / a, b // a, str(b - a), a < b, str(sum([a, b], timedelta())), (datetime(2024, 1, 1, 23) + a).isoformat(), str(-a), datetime(2024, 1, 1).timestamp() if False else 0]
