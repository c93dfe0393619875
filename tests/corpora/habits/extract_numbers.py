import re
text = "Total: $1,234.56 (12% off), was $1,403.00"
amounts = [float(a.replace(",", "")) for a in re.findall(r"\$([\d,]+\.\d{2})", text)]
pct = int(re.search(r"(\d+)%", text).group(1))
result = {"amounts": amounts, "pct": pct, "diff": round(amounts[1] - amounts[0], 2)}
