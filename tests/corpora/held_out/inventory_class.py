class Inventory:
    def __init__(self):
        self._items: dict[str, int] = {}
        self.log = []

    def add(self, sku, qty=1):
        self._items[sku] = self._items.get(sku, 0) + qty
        self.log.append(("add", sku, qty))
        return self

    def remove(self, sku, qty=1):
        if self._items.get(sku, 0) < qty:
            raise ValueError(f"not enough {sku}")
        self._items[sku] -= qty
        if self._items[sku] == 0:
            del self._items[sku]
        self.log.append(("remove", sku, qty))

    def __len__(self):
        return sum(self._items.values())

    def __repr__(self):
        return f"Inventory({self._items})"

inv = Inventory().add("tea", 5).add("mug").add("tea", 2)
errors = []
for sku, qty in [("tea", 3), ("mug", 1), ("pot", 1)]:
    try:
        inv.remove(sku, qty)
    except ValueError as e:
        errors.append(str(e))
print(inv)
result = {"size": len(inv), "repr": repr(inv), "log": inv.log, "errors": errors}
