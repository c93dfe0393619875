import json

def flatten(d, prefix=""):
    out = {}
    for key, value in d.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict):
            out.update(flatten(value, path))
        else:
            out[path] = value
    return out

prod = flatten(json.loads(files.read(path="/data/config.json")["content"]))
staging = flatten(json.loads(files.read(path="/data/config.staging.json")["content"]))

changed = {k: [prod[k], staging[k]] for k in prod if k in staging and prod[k] != staging[k]}
result = {
    "added": sorted(staging.keys() - prod.keys()),
    "removed": sorted(prod.keys() - staging.keys()),
    "changed": changed,
}
print(json.dumps(result, indent=2))
