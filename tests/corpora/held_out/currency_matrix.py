bases = ["EUR", "USD", "GBP"]
matrix = {}
errors = []
for base in bases:
    try:
        rates = fx.rates(base=base)["rates"]
    except ToolError as e:
        errors.append(f"{base}: {e.message} ({e.kind})")
        eur = matrix["EUR"]
        rates = {cur: eur[cur] / eur[base] for cur in eur}
    matrix[base] = rates

print("      " + " ".join(f"{b:>9}" for b in bases))
for a in bases:
    print(f"{a:<6}" + " ".join(f"{matrix[a].get(b, float('nan')):>9.4f}" for b in bases))

roundtrip = matrix["EUR"]["USD"] * matrix["USD"]["EUR"]
result = {
    "errors": errors,
    "gbp_usd": round(matrix["GBP"]["USD"], 4),
    "roundtrip_ok": abs(roundtrip - 1) < 1e-3,
    "sizes": {b: len(r) for b, r in matrix.items()},
}
