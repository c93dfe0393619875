from datetime import date, timedelta
start = date(2024, 2, 26)
days = [start + timedelta(days=i) for i in range(5)]
result = [[d.isoformat() for d in days], [d.strftime("%a") for d in days], [str(d) for d in days if d.weekday() < 5], (date(2024, 3, 1) - start).days, date(2024, 1, 31).replace(day=1).isoformat(), date.fromisoformat("2024-05-06").month, start < date(2025, 1, 1)]
