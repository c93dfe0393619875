done, total = 3, 7
result = ["%d/%d (%.1f%%)" % (done, total, 100 * done / total), "%5s|%-5s|" % ("ab", "cd"), "%03d" % 7, "%s" % [1, "a"], "%(x)s-%(y)02d" % {"x": 1, "y": 2}]
