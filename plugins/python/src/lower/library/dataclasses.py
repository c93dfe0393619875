class _airlock_Field:
    def __init__(self, has_default, default, default_factory):
        self.has_default = has_default
        self.default = default
        self.default_factory = default_factory

class _airlock_Named:
    def __init__(self, name):
        self.name = name

class _airlock_dataclasses:
    def field(*, default=..., default_factory=None, init=True, repr=True, hash=None, compare=True, metadata=None, kw_only=False):
        return _airlock_Field(default is not ..., default, default_factory)

    def names(it, function):
        kind = type(it).__name__
        kind = it.__name__ if kind == "type" else kind
        if kind not in _airlock_fields:
            raise TypeError(f"{function}() should be called on dataclass instances")
        return _airlock_fields[kind]

    def fields(it):
        return tuple([_airlock_Named(name) for name in _airlock_dataclasses.names(it, "fields")])

    def is_dataclass(it):
        kind = type(it).__name__
        return (it.__name__ if kind == "type" else kind) in _airlock_fields

    def replace(it, **changes):
        names = _airlock_dataclasses.names(it, "replace")
        return type(it)(**{**{name: getattr(it, name) for name in names}, **changes})

    def asdict(it):
        names = _airlock_dataclasses.names(it, "asdict")
        return {name: _airlock_dataclasses.plain(getattr(it, name), _airlock_dataclasses.asdict) for name in names}

    def astuple(it):
        names = _airlock_dataclasses.names(it, "astuple")
        return tuple([_airlock_dataclasses.plain(getattr(it, name), _airlock_dataclasses.astuple) for name in names])

    def plain(it, of):
        if isinstance(it, dict):
            return {key: _airlock_dataclasses.plain(value, of) for key, value in it.items()}
        if isinstance(it, list):
            return [_airlock_dataclasses.plain(each, of) for each in it]
        if type(it).__name__ == "tuple":
            return tuple([_airlock_dataclasses.plain(each, of) for each in it])
        return of(it) if type(it).__name__ in _airlock_fields else it

def _airlock_dataclass(*names):
    def made(of):
        def init(self, *a, **k):
            if len(a) > len(names):
                raise TypeError(f"{of.__name__}.__init__() takes {len(names) + 1} positional arguments but {len(a) + 1} were given")
            given = {**dict(zip(names, a)), **k}
            for name in given:
                if name not in names:
                    raise TypeError(f"{of.__name__}.__init__() got an unexpected keyword argument '{name}'")
            for name in names:
                if name in given:
                    value = given[name]
                elif hasattr(of, name):
                    value = getattr(of, name)
                    if type(value).__name__ == "_airlock_Field":
                        value = value.default if value.has_default else value.default_factory()
                else:
                    raise TypeError(f"{of.__name__}.__init__() missing 1 required positional argument: '{name}'")
                setattr(self, name, value)
        def shown(self):
            return of.__name__ + "(" + ", ".join([f"{name}={getattr(self, name)!r}" for name in names]) + ")"
        def equal(self, other):
            return type(other).__name__ == of.__name__ and all([getattr(self, name) == getattr(other, name) for name in names])
        of.__init__ = init
        if not hasattr(of, "__repr__"):
            of.__repr__ = shown
        if not hasattr(of, "__eq__"):
            of.__eq__ = equal
        return of
    return made
