rows = [
    {"name": "Ana", "city": "Málaga", "score": 9.5},
    {"name": "Bo", "city": None, "score": 7},
    {"name": "Chidi", "city": "Lagos", "score": 10.25},
]

def render_table(rows, columns):
    def cell(v):
        if v is None:
            return ""
        if isinstance(v, float):
            return f"{v:.2f}"
        return str(v)

    widths = [max(len(c), *(len(cell(r[c])) for r in rows)) for c in columns]
    sep = "+" + "+".join("-" * (w + 2) for w in widths) + "+"
    out = [sep, "|" + "|".join(f" {c.upper():<{w}} " for c, w in zip(columns, widths)) + "|", sep]
    for r in rows:
        cells = []
        for c, w in zip(columns, widths):
            align = ">" if isinstance(r[c], (int, float)) else "<"
            cells.append(f" {cell(r[c]):{align}{w}} ")
        out.append("|" + "|".join(cells) + "|")
    out.append(sep)
    return "\n".join(out)

result = render_table(rows, ["name", "city", "score"])
print(result)
