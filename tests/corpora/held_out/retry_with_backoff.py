attempts_log = []

def with_retry(fn, *args, attempts=3, base_delay=0.5, **kwargs):
    delay = base_delay
    last_error = None
    for attempt in range(1, attempts + 1):
        try:
            return {"ok": True, "value": fn(*args, **kwargs)}
        except ToolError as e:
            last_error = e
            attempts_log.append(f"attempt {attempt}: {e.kind} (wait {delay:g}s)")
            if e.kind not in ("rate-limited", "unavailable"):
                break
            delay *= 2
    return {"ok": False, "error": str(last_error), "code": last_error.code}

outcomes = {
    "contact": with_retry(crm.get_contact, id=99),
    "metric": with_retry(metrics.query, metric="disk_gb", attempts=2),
    "stock": with_retry(shop.get_stock, sku="GFT-01"),
    "product": with_retry(shop.get_product, {"sku": "COF-02"}),
}
print("\n".join(attempts_log))
result = {"outcomes": outcomes, "log": attempts_log}
