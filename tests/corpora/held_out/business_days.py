from datetime import date, timedelta

HOLIDAYS = {date(2024, 3, 29), date(2024, 4, 1), date(2024, 5, 1)}

def is_business_day(d: date) -> bool:
    return d.weekday() < 5 and d not in HOLIDAYS

def add_business_days(start: date, n: int) -> date:
    current = start
    while n > 0:
        current += timedelta(days=1)
        if is_business_day(current):
            n -= 1
    return current

start = date(2024, 3, 25)
deadlines = {f"+{n}": add_business_days(start, n).isoformat() for n in (1, 5, 10)}
april = [date(2024, 4, 1) + timedelta(days=i) for i in range(30)]
month_end = (date(2024, 2, 1).replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
result = {
    "deadlines": deadlines,
    "april": sum(map(is_business_day, april)),
    "fridays": [d.day for d in april if d.weekday() == 4],
    "feb_end": str(month_end),
    "iso_week": start.isocalendar()[1],
    "days_to_may": (date(2024, 5, 1) - start).days,
}
