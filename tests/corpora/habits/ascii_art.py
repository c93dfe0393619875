rows = []
for i in range(1, 4):
    rows.append((" " * (3 - i)) + "*" * (2 * i - 1))
result = rows
