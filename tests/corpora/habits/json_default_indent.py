import json

data = {"a": {1, 2}, "b": [{3}, [{4}]], "c": "\x7f é ~"}
result = [
    json.dumps(data, default=sorted, indent=1),
    json.dumps(data, default=sorted, indent=4, sort_keys=True),
    json.dumps(data, default=lambda it: {"set": list(it)}, indent=2),
    json.dumps("\x7f"),
    json.dumps("\x7f", ensure_ascii=False),
]
