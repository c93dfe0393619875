def _airlock_or(a, b):
    return {**a, **b} if isinstance(a, dict) and isinstance(b, dict) else a | b
def _airlock_splice(them, start, stop, new):
    end = len(them)
    start = 0 if start is None else max(start + end, 0) if start < 0 else min(start, end)
    stop = end if stop is None else max(stop + end, 0) if stop < 0 else min(stop, end)
    rest = them[max(start, stop):]
    kept = them[:start]
    new = list(new)
    them.clear()
    them.extend(kept)
    them.extend(new)
    them.extend(rest)
def _airlock_format(value, spec=""):
    return ("{:" + spec + "}").format(value)
def _airlock_re_sub(pattern, repl, text, count=0, flags=0):
    import re
    if isinstance(repl, str):
        return re.sub(pattern, repl, text, count=count, flags=flags)
    parts, at, left = [], 0, count
    for match in re.finditer(pattern, text, flags=flags):
        parts.append(text[at:match.start()])
        parts.append(repl(match))
        at = match.end()
        left -= 1
        if left == 0:
            break
    return "".join(parts) + text[at:]
