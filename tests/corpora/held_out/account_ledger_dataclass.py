from dataclasses import dataclass, field

@dataclass(frozen=True)
class Entry:
    day: str
    amount: float
    memo: str = ""

@dataclass
class Account:
    owner: str
    entries: list = field(default_factory=list)

    @property
    def balance(self) -> float:
        return round(sum(e.amount for e in self.entries), 2)

    def deposit(self, day, amount, memo=""):
        if amount == 0:
            return
        self.entries.append(Entry(day, amount, memo))

    def between(self, start, end):
        return [e for e in self.entries if start <= e.day <= end]

acc = Account("Dee")
for day, amount, *memo in [("2024-01-02", 100.5), ("2024-01-15", -20, "rent"), ("2024-02-01", 0.1), ("2024-02-02", 0.2, "interest")]:
    acc.deposit(day, amount, *memo)

print(acc.entries[-1])
result = {
    "balance": acc.balance,
    "january": [e.amount for e in acc.between("2024-01-01", "2024-01-31")],
    "memos": [e.memo for e in acc.entries if e.memo],
    "equal": Entry("a", 1.0) == Entry("a", 1.0),
}
