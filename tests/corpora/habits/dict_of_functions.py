ops = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "max": max}
def rpn(expr):
    stack = []
    for tok in expr.split():
        if tok in ops:
            b, a = stack.pop(), stack.pop()
            stack.append(ops[tok](a, b))
        else:
            stack.append(float(tok))
    return stack[0]
result = [rpn("3 4 + 2 -"), rpn("1 9 max")]
