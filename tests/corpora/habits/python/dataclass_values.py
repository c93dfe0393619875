from dataclasses import asdict, dataclass, field, replace


@dataclass
class Tag:
    name: str


@dataclass
class Issue:
    id: int
    title: str
    tags: list = field(default_factory=list)
    open: bool = True

    def label(self):
        return f"#{self.id} {self.title}"


first = Issue(1, "crash", [Tag("bug")])
second = Issue(id=2, title="slow")
second.tags.append(Tag("perf"))
third = replace(Tag("a"), name="b")
print(first.title, second.title)
print(first)
result = {
    "dicts": [asdict(first), asdict(second)],
    "fresh": Issue(3, "x").tags,
    "label": second.label(),
    "same": [Issue(1, "a") == Issue(1, "a"), Issue(1, "a") == Issue(2, "a")],
    "tag": asdict(third),
    "titles": ", ".join(map(str, [first.title, second.title])),
}
