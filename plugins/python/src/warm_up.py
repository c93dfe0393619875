# Runs once, when the executor is built: every table it touches is in the snapshot afterwards.
import asyncio, json, math, re
from collections import Counter
from datetime import date, timedelta

def double(x, *args, factor=2, **kwargs):
    return x * factor

async def touch(n):
    return await tools.touch(n=n)

text = "a-{}".format(1).upper() + f"{double(2)!r:>4}" + f"{1.5:.2f}"
items = sorted([double(x) for x in range(3)] + [1.5, 1 << 70], key=lambda x: -x)
table = {"k": (1, 2), "n": None, **{"a": len(items)}}
seen = {1} | set(re.findall(r"\d", text)) | set(Counter("ab"))
both = await asyncio.gather(touch(1), touch(2))
try:
    [][1]
except IndexError as e:
    print(str(e), text.split("-"), ", ".join(sorted(map(str, seen))), math.floor(2.5), round(2.5))
for key, value in table.items():
    table[key] = json.loads(json.dumps(value))
result = [tools.touch(path="p"), tools.touch({"path": "p"}), both, table, str(date(2024, 1, 31) + timedelta(days=1))]
