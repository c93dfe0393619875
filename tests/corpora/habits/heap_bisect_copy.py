import bisect
import copy
import heapq
h = []
for v in [5, 1, 4, 1, 3]:
    heapq.heappush(h, v)
xs = [9, 7, 8, 2]
heapq.heapify(xs)
tasks = [(2, "b"), (1, "a")]
heapq.heapify(tasks)
a = {"x": {"y": [1, {"z": 3}]}}
b = copy.deepcopy(a)
b["x"]["y"][1]["z"] = 4
c = copy.copy([1, 2])
s = [1, 3, 5]
bisect.insort(s, 4)
result = [h, [heapq.heappop(h) for _ in range(5)], xs, heapq.heappop(tasks), heapq.nlargest(2, [1, 5, 3]), heapq.nsmallest(1, [4, 2]), a, b, c, s, bisect.bisect_left(s, 3), bisect.bisect(s, 3), next(filter(lambda x: x > 1, s), None), next(enumerate("ab")), next(map(str, []), "none")]
