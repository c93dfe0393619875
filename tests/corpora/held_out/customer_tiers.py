customers = shop.list_customers()
german = shop.list_customers(country="DE")

by_tier = {}
for c in customers:
    tier = c.get("tier") or "none"
    by_tier.setdefault(tier, []).append(c["name"])

longest = max(customers, key=lambda c: len(c["name"]))
domains = {c["email"].split("@")[1].lower() for c in customers if c["email"]}
oldest = min(c["since"] for c in customers)

result = {
    "by_tier": by_tier,
    "german": [c["name"].upper() for c in german],
    "longest": longest["name"],
    "domains": sorted(domains),
    "oldest": oldest,
    "all_have_email": all(c["email"] for c in customers),
    "any_missing_tier": any("tier" not in c for c in customers),
}
