import heapq

routes = [("LIS", "MAD", 1.3), ("MAD", "CDG", 2), ("LIS", "LHR", 2.75), ("LHR", "CDG", 1.25), ("CDG", "ARN", 2.6), ("LHR", "ARN", 2.5)]
graph = {}
for a, b, hours in routes:
    graph.setdefault(a, []).append((b, hours))
    graph.setdefault(b, []).append((a, hours))

def dijkstra(start, goal):
    heap = [(0, start, [start])]
    visited = set()
    while heap:
        cost, node, path = heapq.heappop(heap)
        if node == goal:
            return round(cost, 2), path
        if node in visited:
            continue
        visited.add(node)
        for neighbour, hours in graph[node]:
            if neighbour not in visited:
                heapq.heappush(heap, (cost + hours, neighbour, path + [neighbour]))
    return float("inf"), []

hours, path = dijkstra("LIS", "ARN")
print(f"{' > '.join(path)}: {hours}h")
result = {"hours": hours, "path": path, "hops": len(path) - 1}
