a = 1; b = 2
if a < b: c = "less"
else: c = "more"
def f(x):
	if x:
		return "tab"
	return None
result = [a, b, c, f(1), f(0)]
