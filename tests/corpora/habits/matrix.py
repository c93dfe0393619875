m = [[1, 2, 3], [4, 5, 6]]
t = [list(row) for row in zip(*m)]
flat = [x for row in m for x in row]
grid = [[0] * 3 for _ in range(2)]
grid[1][2] = 5
result = [t, flat, grid, sum(map(sum, m)), [[r * c for c in range(3)] for r in range(3)], max(flat), [row[::-1] for row in m]]
