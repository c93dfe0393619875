import re

TOKEN = re.compile(r"\s*(?:(\d+\.?\d*)|(.))")

def tokenize(expr):
    for number, op in TOKEN.findall(expr):
        yield ("num", float(number)) if number else ("op", op)

def evaluate(expr):
    tokens = list(tokenize(expr)) + [("end", None)]
    pos = 0
    def peek():
        return tokens[pos][1]
    def take():
        nonlocal pos
        pos += 1
        return tokens[pos - 1][1]
    def factor():
        tok = take()
        if tok == "(":
            value = expression()
            take()
            return value
        return -factor() if tok == "-" else tok
    def term():
        value = factor()
        while peek() in ("*", "/"):
            value = value * factor() if take() == "*" else value / factor()
        return value
    def expression():
        value = term()
        while peek() in ("+", "-"):
            value = value + term() if take() == "+" else value - term()
        return value
    return expression()

result = {e: evaluate(e) for e in ["1 + 2 * 3", "(1+2)*3", "-4 + 10 / 4", "2*(3-(4-5))"]}
