A = [[1, 2, 3], [4, 5, 6]]
B = [[7, 8], [9, 10], [11, 12]]

def matmul(a, b):
    return [[sum(x * y for x, y in zip(row, col)) for col in zip(*b)] for row in a]

def transpose(m):
    return [list(r) for r in zip(*m)]

product = matmul(A, B)
identity = [[1 if i == j else 0 for j in range(2)] for i in range(2)]
det = product[0][0] * product[1][1] - product[0][1] * product[1][0]
inverse = [[product[1][1] / det, -product[0][1] / det], [-product[1][0] / det, product[0][0] / det]]
check = matmul(product, inverse)
is_identity = all(abs(check[i][j] - identity[i][j]) < 1e-9 for i in range(2) for j in range(2))
flat = [x for row in product for x in row]
result = {"product": product, "transpose": transpose(A), "det": det, "inverse_ok": is_identity, "max": max(flat), "diag": [product[i][i] for i in range(2)]}
