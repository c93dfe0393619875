url = "https://shop.example.com:8443/search?q=green+tea&tag=organic&tag=loose&page=2&empty=&flag#results"

scheme, rest = url.split("://", 1)
rest, _, fragment = rest.partition("#")
location, _, query = rest.partition("?")
host, _, path = location.partition("/")
hostname, port = host.split(":") if ":" in host else (host, None)

params = {}
for pair in query.split("&"):
    key, sep, value = pair.partition("=")
    value = value.replace("+", " ") if sep else None
    if key in params:
        if not isinstance(params[key], list):
            params[key] = [params[key]]
        params[key].append(value)
    else:
        params[key] = value

result = {"scheme": scheme, "host": hostname, "port": int(port), "path": "/" + path, "params": params, "fragment": fragment}
