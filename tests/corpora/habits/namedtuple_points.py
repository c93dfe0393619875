from collections import namedtuple
Point = namedtuple("Point", ["x", "y"])
points = [Point(3, 4), Point(x=0, y=1)]
a, b = points[0]
result = [points[0].x, points[1].y, a, b, points[0]._asdict(), str(points[1]), sorted(points)[0].y, points[0] == (3, 4), list(points[0])]
