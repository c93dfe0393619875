text = files.read(path="/etc/app.ini")["content"]
config = {}
section = None
for raw in text.splitlines():
    line = raw.strip()
    if not line or line[0] in ";#":
        continue
    if line.startswith("[") and line.endswith("]"):
        section = line[1:-1]
        config[section] = {}
        continue
    key, _, value = line.partition("=")
    key, value = key.strip(), value.strip()
    if value.isdigit():
        value = int(value)
    elif value.lower() in ("yes", "no", "true", "false"):
        value = value.lower() in ("yes", "true")
    config[section][key] = value

result = config
