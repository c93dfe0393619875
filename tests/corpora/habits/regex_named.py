import re
text = logs.tail()
result = [m.groupdict() for m in re.finditer(r"code=(?P<code>\d+) path=(?P<path>\S+)", text)]
