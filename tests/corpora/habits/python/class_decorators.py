from dataclasses import dataclass


@dataclass
class Order:
    id: str
    prices: list

    @property
    def total(self):
        return sum(self.prices)

    @classmethod
    def parse(cls, row):
        return cls(row["id"], [item["price"] * item["qty"] for item in row["items"]])

    @staticmethod
    def money(amount):
        return f"${amount:,.2f}"

    def line(self):
        return f"{self.id}: {self.money(self.total)}"


orders = [Order.parse(row) for row in shop.orders()]
best = max(orders, key=lambda order: order.total)
result = {
    "lines": [order.line() for order in orders],
    "best": best.id,
    "sum": Order.money(sum(order.total for order in orders)),
    "large": [order.id for order in sorted(orders, key=lambda order: -order.total) if order.total > 10],
}
