from datetime import datetime
from collections import Counter
names = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
c = Counter(names[datetime.strptime(i["created_at"], "%Y-%m-%dT%H:%M:%SZ").weekday()] for i in tracker.list_issues())
result = {day: c[day] for day in names}
