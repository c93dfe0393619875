from __future__ import annotations
import json as j
from datetime import datetime as dt, timedelta as td
result = [j.dumps({"a": 1}), (dt(2024, 1, 1) + td(weeks=1)).strftime("%Y-%m-%d")]
