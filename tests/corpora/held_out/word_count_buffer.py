from contextlib import contextmanager
from io import StringIO

@contextmanager
def section(buffer, name):
    buffer.write(f"<{name}>\n")
    try:
        yield buffer
    finally:
        buffer.write(f"</{name}>\n")

poem = ["Two roads diverged", "in a yellow wood", "", "and sorry I could not"]
with StringIO() as buf:
    with section(buf, "poem") as out:
        for i, line in enumerate(poem):
            if not line:
                continue
            out.write(f"{i}: {line}\n")
    text = buf.getvalue()

stats = {"lines": text.count("\n"), "words": sum(len(l.split()) for l in poem), "vowels": sum(ch in "aeiou" for ch in text.lower())}
result = {"text": text, **stats}
