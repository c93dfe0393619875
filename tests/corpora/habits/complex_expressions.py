xs = [5, 3, 8]
result = [(xs[0] if xs else None), xs and xs[-1], [a if a > 4 else -a for a in xs], {True: "yes", False: "no"}[len(xs) > 2], (lambda: xs)()[1], -xs[0] ** 2, not xs[0] > 3, xs[0] + xs[1] * xs[2], (xs[0] + xs[1]) * 2, 2 ** 3 ** 2, 10 - 2 - 3]
