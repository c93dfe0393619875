grid = {}
for r in range(2):
    for c in range(2):
        grid[r, c] = r * 10 + c
result = [grid[(1, 1)], (0, 1) in grid, sorted(grid), sum(v for (r, c), v in grid.items() if r == 1)]
