from datetime import date, datetime, time, timedelta, timezone

days = [date(2021, 1, 3), date(2020, 12, 31), date(2024, 12, 30), date(2024, 2, 29)]
weeks = [list(day.isocalendar()) for day in days]
year, week, weekday = datetime(2026, 1, 1, 5).isocalendar()
stamp = 1709296205.25
span = timedelta(days=1.5)
gap = datetime(2024, 3, 5, 6) - datetime(2024, 3, 1)
result = {
    "weeks": weeks,
    "week": [year, week, weekday, days[0].isocalendar()[1], days[0].isocalendar().week],
    "stamps": [
        str(datetime.fromtimestamp(stamp, tz=timezone.utc)),
        str(datetime.fromtimestamp(0, timezone(timedelta(hours=2)))),
        str(datetime.utcfromtimestamp(1709296205)),
    ],
    "combined": str(datetime.combine(date(2024, 1, 2), time(3, 4))),
    "ordinal": [date(2024, 1, 1).toordinal(), str(date.fromordinal(738886)), str(date.fromisocalendar(2024, 9, 5))],
    "spans": [str(span), str(timedelta(hours=0.5)), str(timedelta(minutes=90, seconds=1.5)), str(timedelta(weeks=2))],
    "ratios": [gap // timedelta(days=1), gap / timedelta(hours=4), str(gap % timedelta(days=1)), str(gap * 0.5), str(1.5 * span), str(gap / 2)],
    "plain": [7 // 2, 7.5 / 2.5, 2 * 3, "%s %d" % ("a", 1), 7 % 4],
}
