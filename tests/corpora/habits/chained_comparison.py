def side(n, log):
    log.append(n)
    return n
log = []
checks = [1 < 2 < 3, 1 < 3 < 2, 0 <= 5 <= 5 < 6, side(1, log) < side(2, log) < side(3, log), side(5, log) < side(4, log) < side(9, log)]
grades = []
for score in [95, 85, 50]:
    if 90 <= score <= 100:
        grades.append("A")
    elif 80 <= score < 90:
        grades.append("B")
    else:
        grades.append("F")
result = [checks, log, grades]
