import re
from collections import Counter

content = files.read(path="/logs/app.log")["content"]
pattern = re.compile(r"^(\S+ \S+) (INFO|WARN|ERROR)\s+\[([^\]]+)\] (.*)$")

levels = Counter()
errors = []
unparsed = 0
for line in content.splitlines():
    if not line.strip():
        continue
    match = pattern.match(line)
    if not match:
        unparsed += 1
        continue
    timestamp, level, source, message = match.groups()
    levels[level] += 1
    if level == "ERROR":
        errors.append({"at": timestamp, "source": source, "message": message})

print(f"{len(errors)} errors, {unparsed} unparsed lines")
result = {"levels": dict(levels), "errors": errors, "unparsed": unparsed}
