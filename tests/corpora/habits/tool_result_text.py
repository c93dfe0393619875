data = files.read(path="data.json")
if isinstance(data, str):
    import json
    data = json.loads(data)
result = sum(data["b"]) + data["a"]
