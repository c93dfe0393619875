print("a", "b", sep="-", end="!\n")
print()
print(1, 2.0, None, True, [1, "x"], {"k": "v"})
print("no newline", end="")
print("*" * 5)
result = "printed"
