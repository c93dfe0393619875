def to_int(text, default=None):
    text = text.strip()
    sign = 1
    if text[:1] in ("-", "+"):
        sign = -1 if text[0] == "-" else 1
        text = text[1:]
    return sign * int(text) if text.isdecimal() else default
result = [to_int("12"), to_int("-3"), to_int("x", 0), to_int("")]
