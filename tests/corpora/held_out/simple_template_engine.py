import re

TEMPLATE = "Dear {{ name }},\n{% for item in items %}- {{ item }}\n{% endfor %}Total: {{ total|money }} {{missing}}"
context = {"name": "Aoife", "items": ["tea", "mug"], "total": 1234.5}

FILTERS = {"money": lambda v: f"${v:,.2f}", "upper": str.upper}

def render(template, ctx):
    def loop(m):
        var, source, body = m.group(1), m.group(2), m.group(3)
        return "".join(render(body, {**ctx, var: x}) for x in ctx.get(source, []))

    def value(m):
        name, _, flt = m.group(1).partition("|")
        v = ctx.get(name.strip(), "")
        return str(FILTERS[flt.strip()](v)) if flt else str(v)

    out = re.sub(r"\{% for (\w+) in (\w+) %\}(.*?)\{% endfor %\}", loop, template, flags=re.DOTALL)
    return re.sub(r"\{\{\s*(.+?)\s*\}\}", value, out)

result = render(TEMPLATE, context)
print(result)
