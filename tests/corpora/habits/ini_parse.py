config, section = {}, None
for raw in files.read(path="config.ini").splitlines():
    line = raw.strip()
    if not line or line.startswith("#"):
        continue
    if line.startswith("[") and line.endswith("]"):
        section = line[1:-1]
        config[section] = {}
    else:
        key, _, value = line.partition("=")
        value = value.strip()
        if value.isdigit():
            value = int(value)
        elif value in ("true", "false"):
            value = value == "true"
        config[section][key.strip()] = value
result = config
