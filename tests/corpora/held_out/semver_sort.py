import re
from functools import cmp_to_key

versions = ["1.10.0", "1.2.0", "v2.0.0-rc1", "2.0.0", "1.2.0-beta", "1.2", "nope", "0.9.12"]

def parse(v):
    m = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:-([\w.]+))?$", v)
    if not m:
        return None
    major, minor, patch, pre = m.groups()
    return int(major), int(minor), int(patch or 0), pre

def compare(a, b):
    pa, pb = parse(a), parse(b)
    if pa[:3] != pb[:3]:
        return -1 if pa[:3] < pb[:3] else 1
    if pa[3] == pb[3]:
        return 0
    if pa[3] is None:
        return 1
    if pb[3] is None:
        return -1
    return -1 if pa[3] < pb[3] else 1

valid = [v for v in versions if parse(v)]
ordered = sorted(valid, key=cmp_to_key(compare))
result = {"ordered": ordered, "latest": ordered[-1], "invalid": [v for v in versions if v not in valid]}
