import re
log = files.read(path="/logs/app.log")["content"]
requests = []
for m in re.finditer(r"(?P<method>GET|POST) (?P<path>\S+) (?P<status>\d{3}) (?P<ms>\d+)ms", log):
    requests.append({**m.groupdict(), "status": int(m["status"]), "ms": int(m.group("ms"))})

slow = [r for r in requests if r["ms"] > 100]
slow.sort(key=lambda r: -r["ms"])
by_status = {}
for r in requests:
    bucket = f"{r['status'] // 100}xx"
    by_status[bucket] = by_status.get(bucket, 0) + 1
result = {
    "slow": slow,
    "by_status": by_status,
    "avg_ms": sum(r["ms"] for r in requests) / len(requests),
}
