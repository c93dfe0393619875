def _airlock_split(it, *a, **k):
    kind = type(it).__name__
    if kind == "module" and hasattr(it, "finditer"):
        return _airlock_re_split(it, *a, **k)
    if kind == "Pattern":
        return _airlock_pattern_split(it, *a, **k)
    return it.split(*a, **k)
def _airlock_re_split(re, pattern, string, maxsplit=0, flags=0):
    return _airlock_pieces(re.compile(pattern, flags) if isinstance(pattern, str) else pattern, string, maxsplit)
def _airlock_pattern_split(it, string, maxsplit=0):
    return _airlock_pieces(it, string, maxsplit)
def _airlock_pieces(pattern, text, most):
    matches = pattern.finditer(text)
    lengths = {bool(match.group()) for match in matches}
    if True in lengths and (False in lengths or pattern.search("")):
        raise ValueError("re.split() takes no pattern here that matches the empty text, such as `x*`: write `x+`")
    between = _airlock_between(pattern, text, most)
    pieces = [between[0]]
    for match, after in zip(matches, between[1:]):
        pieces.extend(match.groups())
        pieces.append(after)
    return pieces
def _airlock_between(pattern, text, most):
    if most < 0:
        return [text]
    code = 1
    while chr(code) in text:
        code += 1
    return pattern.sub(chr(code), text, count=most).split(chr(code))
def _airlock_sub(it, *a, **k):
    kind = type(it).__name__
    if kind == "module" and hasattr(it, "finditer"):
        return _airlock_re_sub(it, *a, **k)
    if kind == "Pattern":
        return _airlock_pattern_sub(it, *a, **k)
    return it.sub(*a, **k)
def _airlock_re_sub(re, pattern, repl, string, count=0, flags=0):
    if isinstance(repl, str) and "\\" not in repl:
        return re.sub(pattern, repl, string, count=count, flags=flags)
    return _airlock_replaced(re.compile(pattern, flags) if isinstance(pattern, str) else pattern, repl, string, count)
def _airlock_pattern_sub(it, repl, string, count=0):
    if isinstance(repl, str) and "\\" not in repl:
        return it.sub(repl, string, count=count)
    return _airlock_replaced(it, repl, string, count)
def _airlock_replaced(pattern, repl, text, most):
    repl = _airlock_template(repl) if isinstance(repl, str) else repl
    between = _airlock_between(pattern, text, most)
    pieces = [between[0]]
    for match, after in zip(pattern.finditer(text), between[1:]):
        pieces.append(repl(match))
        pieces.append(after)
    return "".join(pieces)
def _airlock_template(text):
    escapes = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "0": "\0"}
    head, *rest = text.replace("\\\\", "\\\0").split("\\")
    pieces = [head]
    for piece in rest:
        kind = piece[:1]
        if kind == "\0":
            pieces.append("\\" + piece[1:])
        elif kind == "g" and piece[1:2] == "<" and ">" in piece:
            name, _, after = piece[2:].partition(">")
            pieces.extend([(int(name) if name.isdigit() else name,), after])
        elif kind in escapes and kind:
            pieces.append(escapes[kind] + piece[1:])
        elif kind.isdigit():
            size = 2 if piece[1:2].isdigit() else 1
            pieces.extend([(int(piece[:size]),), piece[size:]])
        elif kind.isalpha() or not kind:
            raise ValueError(f"bad escape \\{kind} in the replacement")
        else:
            pieces.append("\\" + piece)
    return lambda match: "".join([it if isinstance(it, str) else match.group(it[0]) or "" for it in pieces])
def _airlock_subn(it, *a, **k):
    kind = type(it).__name__
    if kind == "module" and hasattr(it, "finditer"):
        return _airlock_re_subn(it, *a, **k)
    if kind == "Pattern":
        return _airlock_pattern_subn(it, *a, **k)
    return it.subn(*a, **k)
def _airlock_re_subn(re, pattern, repl, string, count=0, flags=0):
    found = len(list(re.finditer(pattern, string, flags=flags)))
    return (_airlock_re_sub(re, pattern, repl, string, count, flags), min(found, count) if count else found)
def _airlock_pattern_subn(it, repl, string, count=0):
    found = len(list(it.finditer(string)))
    return (_airlock_pattern_sub(it, repl, string, count), min(found, count) if count else found)
def _airlock_dumps(dumps, *a, default=None, **k):
    if default is None:
        return dumps(*a, **k)
    return dumps(_airlock_plain(a[0], default), *a[1:], **k)
def _airlock_plain(it, default):
    if it is None or isinstance(it, (str, int, float, bool)):
        return it
    if isinstance(it, dict):
        return {key: _airlock_plain(value, default) for key, value in it.items()}
    if isinstance(it, (list, tuple)):
        return [_airlock_plain(each, default) for each in it]
    return _airlock_plain(default(it), default)
def _airlock_center(it, *a, **k):
    if not isinstance(it, str) or k:
        return it.center(*a, **k)
    width, fill = a[0], a[1] if len(a) > 1 else " "
    missing = max(width - len(it), 0)
    left = missing // 2 + (missing & width & 1)
    if len(fill) != 1:
        raise TypeError("The fill character must be exactly one character long")
    return fill * left + it + fill * (missing - left)
def _airlock_maketrans(it, *a, **k):
    if it is not str:
        return it.maketrans(*a, **k)
    if len(a) == 1:
        return {ord(key) if isinstance(key, str) else key: value for key, value in a[0].items()}
    if len(a[0]) != len(a[1]):
        raise ValueError("the first two maketrans arguments must have equal length")
    table = {ord(old): ord(new) for old, new in zip(a[0], a[1])}
    for gone in a[2] if len(a) > 2 else "":
        table[ord(gone)] = None
    return table
def _airlock_translate(it, *a, **k):
    if not isinstance(it, str):
        return it.translate(*a, **k)
    table, out = a[0], []
    for each in it:
        new = table.get(ord(each), each)
        if new is not None:
            out.append(new if isinstance(new, str) else chr(new))
    return "".join(out)
def _airlock_is_integer(it):
    if isinstance(it, int):
        return True
    if isinstance(it, float):
        return it == it and it not in (float("inf"), float("-inf")) and it == int(it)
    return it.is_integer()
def _airlock_bit_length(it):
    return len(bin(abs(it))) - 2 if it and isinstance(it, int) else 0 if isinstance(it, int) else it.bit_length()
def _airlock_fsum(it, *a):
    if type(it).__name__ != "module":
        return it.fsum(*a)
    partials = []
    for x in a[0]:
        x, kept = float(x), []
        for y in partials:
            if abs(x) < abs(y):
                x, y = y, x
            high = x + y
            low = y - (high - x)
            if low:
                kept.append(low)
            x = high
        partials = kept + [x]
    return _airlock_rounded(partials)
def _airlock_rounded(partials):
    high, low = 0.0, 0.0
    at = len(partials) - 1
    if at < 0:
        return high
    high = partials[at]
    while at > 0:
        at -= 1
        x, y = high, partials[at]
        high = x + y
        low = y - (high - x)
        if low:
            break
    if at > 0 and ((low < 0 and partials[at - 1] < 0) or (low > 0 and partials[at - 1] > 0)):
        y = low * 2.0
        x = high + y
        if y == x - high:
            high = x
    return high
def _airlock_name(it):
    kind = type(it).__name__
    if kind == "builtin_function_or_method":
        return repr(it).split(" ")[2].strip(">")
    if kind == "function":
        return repr(it).split(" ")[1].split(".")[-1].strip("'")
    name = it.__name__
    if not name.startswith("_airlock_"):
        return name
    known = {"Rows": "reader", "Writer": "writer", "DictWriter": "DictWriter", "Url": "ParseResult"}
    return known.get(name[9:], name[9:])
