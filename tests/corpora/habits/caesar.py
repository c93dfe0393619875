def shift(text, k):
    out = ""
    for ch in text:
        if ch.isalpha():
            base = ord("A") if ch.isupper() else ord("a")
            out += chr((ord(ch) - base + k) % 26 + base)
        else:
            out += ch
    return out
result = [shift("Hello, World!", 3), "abc".translate(str.maketrans("ab", "xy"))]
