evens, odds = [], []
for n in range(7):
    (evens if n % 2 == 0 else odds).append(n)
result = [evens, odds]
