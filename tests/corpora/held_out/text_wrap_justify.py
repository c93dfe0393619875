text = "The quick brown fox jumps over the lazy dog, then it takes a very long nap under an old oak tree."
WIDTH = 28

lines, current = [], []
for word in text.split():
    if current and len(" ".join(current + [word])) > WIDTH:
        lines.append(current)
        current = []
    current.append(word)
lines.append(current)

def justify(words, width):
    if len(words) == 1:
        return words[0].ljust(width)
    gaps = len(words) - 1
    spaces, extra = divmod(width - sum(len(w) for w in words), gaps)
    return "".join(w + " " * (spaces + (i < extra)) for i, w in enumerate(words[:-1])) + words[-1]

out = [justify(ws, WIDTH) for ws in lines[:-1]] + [" ".join(lines[-1])]
print("\n".join(out))
result = {"lines": out, "centered": lines[0][0].center(9, "*"), "swap": text[:9].swapcase(), "rev": text[::-1][:5]}
