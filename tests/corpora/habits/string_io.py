from io import StringIO

buffer = StringIO()
for n in range(3):
    buffer.write(f"line {n}\n")
print("total", 3, file=buffer, sep="=", end="!")
text = buffer.getvalue()
buffer.seek(0)
first = buffer.readline()
rest = buffer.read()
lines = [line.rstrip() for line in StringIO(text)]
both = StringIO("a\nb").readlines()
result = [text, first, rest, lines, both, buffer.read()]
