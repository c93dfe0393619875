import json

payload = '{"store": {"books": [{"title": "Dune", "price": 9.5, "tags": ["sf"]}, {"title": "Emma", "price": 7, "tags": []}], "open": true, "owner": null}}'
data = json.loads(payload)

def get_path(obj, path, default=None):
    for part in path.split("."):
        if isinstance(obj, list):
            try:
                obj = obj[int(part)]
            except (IndexError, ValueError):
                return default
        elif isinstance(obj, dict):
            if part not in obj:
                return default
            obj = obj[part]
        else:
            return default
    return obj

def count_types(obj, acc):
    name = type(obj).__name__
    acc[name] = acc.get(name, 0) + 1
    for child in obj.values() if isinstance(obj, dict) else obj if isinstance(obj, list) else ():
        count_types(child, acc)
    return acc

paths = ["store.books.0.title", "store.books.-1.price", "store.books.5.title", "store.owner", "store.owner.name"]
result = {p: get_path(data, p, "missing") for p in paths}
result["types"] = count_types(data, {})
result["compact"] = json.dumps(data["store"]["books"][0], separators=(",", ":"), sort_keys=True)
