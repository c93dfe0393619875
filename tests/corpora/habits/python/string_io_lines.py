import io

f = io.StringIO("ab\ncdé\n\nend")
lines = [f.readline(), f.tell(), f.read(2), f.readline(), f.readline(), f.readline(), f.readline()]
f.seek(3)
again = [f.readline(), f.tell()]
f.seek(0, 2)
f.write("\nmore\n")
after = [f.readline(), f.tell()]
f.seek(0)
first = next(f)
rest = [line for line in f]
f.seek(0)
f.readline()
f.write("XY")
changed = [f.readline(), f.getvalue(), f.read(), f.read(1)]
g = io.StringIO()
g.write("a")
g.write("b\n")
g.seek(0)
result = [lines, again, after, first, rest, changed, g.readline(), g.readline()]
