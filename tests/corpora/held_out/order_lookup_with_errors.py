def safe_get(order_id: str):
    """Return (order, error)."""
    try:
        return shop.get_order(id=order_id), None
    except ToolError as exc:
        if exc.kind == "not-found":
            return None, f"{order_id} not found"
        raise

found = []
problems = []
for oid in ["ORD-1001", "ORD-1002", "ORD-9999", "ORD-1007"]:
    order, error = safe_get(oid)
    if error:
        problems.append(error)
        continue
    qty = sum(line["qty"] for line in order["lines"])
    shipping = (order.get("shipping") or {}).get("method", "n/a")
    found.append({"id": order["id"], "qty": qty, "shipping": shipping, "note": order.get("note", "")})

result = {"found": found, "problems": problems, "ok": not problems}
