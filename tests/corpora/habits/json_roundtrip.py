import json
data = {"b": [1, 2.5, None, True], "a": {"x": "é", "n": 10**20}}
text = json.dumps(data, sort_keys=True)
result = [text, json.dumps(data, indent=2), json.dumps([1, 2], separators=(",", ":")), json.loads("[1, 2.0, null]"), json.dumps("é", ensure_ascii=False), json.dumps({1: "a", None: 2})]
