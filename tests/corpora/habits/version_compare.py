def parse(v):
    return tuple(int(p) for p in v.split("."))
versions = ["1.10.0", "1.2.3", "2.0.0", "1.2.10"]
result = [sorted(versions, key=parse), parse("1.2.3") < parse("1.10"), max(versions, key=parse)]
