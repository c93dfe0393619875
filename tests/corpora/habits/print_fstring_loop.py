for i in range(3):
    print(f"{i}: {'*' * i}")
print(*[1, 2, 3])
print("a\nb")
print("x", end=" ")
print("y")
result = None
