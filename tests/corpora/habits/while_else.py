n = 10
i = 2
while i * i <= 91:
    if 91 % i == 0:
        kind = f"divisible by {i}"
        break
    i += 1
else:
    kind = "prime"
for x in [1, 3, 5]:
    if x % 2 == 0:
        found = x
        break
else:
    found = None
while n > 0:
    n -= 3
    if n == 4:
        continue
else:
    n = "done"
result = [kind, found, n]
