from math import sqrt as root

def first(x):
    return x

def second(x):
    return -x

def outer():
    def inner():
        pass
    return inner

steps = [first, second]
log = []
for step in steps:
    log.append(f"{step.__name__}: {step(1)}")
result = [log, first.__name__, outer().__name__, (lambda: 1).__name__, int.__name__, type("a").__name__, len.__name__, root(4)]
