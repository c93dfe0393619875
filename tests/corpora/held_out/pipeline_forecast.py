deals = crm.list_deals()["deals"]
rates = fx.rates({"base": "EUR"})["rates"]

by_stage = {}
errors = []
for deal in deals:
    try:
        value = deal["amount"] / rates[deal["currency"]]
    except (TypeError, KeyError) as e:
        errors.append({"deal": deal["id"], "error": type(e).__name__})
        continue
    stage = by_stage.setdefault(deal["stage"], {"count": 0, "value": 0, "weighted": 0})
    stage["count"] += 1
    stage["value"] += value
    stage["weighted"] += value * deal["probability"]

for stage, s in by_stage.items():
    s["value"] = round(s["value"], 2)
    s["weighted"] = round(s["weighted"], 2)
    print(f"{stage:<12} {s['count']:>3} {s['value']:>12,.2f} {s['weighted']:>12,.2f}")
result = {"by_stage": by_stage, "errors": errors}
