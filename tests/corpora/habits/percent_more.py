value = 12.3456
name = "x"
fmt = "%-10s|%6.2f|%e|%g|%x|%o|%5d|%+d|%%|%r|%c"
result = [fmt % (name, value, value, value, 255, 8, 42, 7, "q", "c"), "%s and %s" % ("a", {"k": 1}), "%.3s" % "abcdef", "%5.1f%%" % 99.5, "%s" % None, "%d" % 3.99, "%05.1f" % 2.5, "%s" % (1,)]
