from datetime import datetime, date
d = datetime.strptime("2024-02-29", "%Y-%m-%d")
e = datetime.strptime("01/Mar/2024:10:00:00", "%d/%b/%Y:%H:%M:%S")
result = [d.year, d.month, d.day, d.strftime("%A, %B %d, %Y"), str(e), e.date().isoformat(), (e.date() - d.date()).days, date(2024, 12, 25).isocalendar()[1], d.strftime("%j"), f"{d:%Y/%m}"]
