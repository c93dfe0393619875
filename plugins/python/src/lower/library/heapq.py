class _airlock_heapq:
    def heapify(a):
        a.sort()

    def heappush(a, x):
        at = len(a)
        a.append(x)
        while at > 0:
            up = (at - 1) // 2
            if not x < a[up]:
                break
            a[at] = a[up]
            at = up
        a[at] = x

    def heappop(a):
        last = a.pop()
        if not a:
            return last
        least = a[0]
        at, end = 0, len(a)
        while 2 * at + 1 < end:
            down = 2 * at + 1
            if down + 1 < end and a[down + 1] < a[down]:
                down += 1
            if not a[down] < last:
                break
            a[at] = a[down]
            at = down
        a[at] = last
        return least

    def heappushpop(a, x):
        _airlock_heapq.heappush(a, x)
        return _airlock_heapq.heappop(a)

    def nlargest(n, a, key=None):
        return sorted(a, key=key, reverse=True)[:n]

    def nsmallest(n, a, key=None):
        return sorted(a, key=key)[:n]
