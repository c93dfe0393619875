url = "https://example.com/a/b?x=1&y=two&flag"
base, _, query = url.partition("?")
params = {}
for part in query.split("&"):
    key, sep, value = part.partition("=")
    params[key] = value if sep else True
result = [base.split("//")[1].split("/"), params, base.rsplit("/", 1)[-1]]
