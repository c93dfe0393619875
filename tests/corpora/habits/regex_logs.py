import re

pattern = re.compile(r"^(\S+ \S+) (\w+)\s+(\S+) (.*)$")
entries = []
for line in logs.tail().splitlines():
    m = pattern.match(line)
    if m:
        ts, level, worker, message = m.groups()
        entries.append({"ts": ts, "level": level, "worker": worker, "message": message})
result = [e for e in entries if e["level"] == "ERROR"]
