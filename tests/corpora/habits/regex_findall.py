import re
text = logs.tail()
times = [int(ms) for ms in re.findall(r"took (\d+)ms", text)]
result = {"max": max(times), "avg": sum(times) / len(times), "pairs": re.findall(r"(\w+)-(\d)", text)[:2]}
