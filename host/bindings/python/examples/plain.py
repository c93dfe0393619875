"""A script that calls a function of the program."""

import airlock


def price(item: str, count: int = 1) -> float:
    """Returns the price of an item."""
    return {"tea": 3.5, "cake": 4.0}[item] * count


code = """
total = sum(price(item, count) for item, count in order.items())
print("ordered", len(order), "items")
result = {"total": total, "discount": total > 10}
"""

print(airlock.run_script(code, tools=[price], inputs={"order": {"tea": 2, "cake": 1}}, on_print=print))
# ordered 2 items
# {'total': 11.0, 'discount': True}
