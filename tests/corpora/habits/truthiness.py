values = [0, 1, "", "a", [], [0], {}, {"a": 1}, None, 0.0, (), set()]
result = [bool(v) for v in values] + [None or "default", 0 or [] or "last", "x" and 5, not [], "" or None]
