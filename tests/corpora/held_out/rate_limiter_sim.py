def make_bucket(capacity, refill_per_s):
    tokens = capacity
    last = 0.0

    def allow(now, cost=1):
        nonlocal tokens, last
        tokens = min(capacity, tokens + (now - last) * refill_per_s)
        last = now
        if tokens >= cost:
            tokens -= cost
            return True
        return False

    return allow

allow = make_bucket(3, 0.5)
requests = [(0, 1), (0.1, 1), (0.2, 1), (0.3, 1), (2.5, 1), (2.6, 1), (10, 3), (10, 1)]
decisions = [allow(t, cost) for t, cost in requests]
rejected = [t for (t, _), ok in zip(requests, decisions) if not ok]
result = {
    "decisions": decisions,
    "accepted": decisions.count(True),
    "rejected_at": rejected,
    "summary": "".join("." if ok else "x" for ok in decisions),
}
