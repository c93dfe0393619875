"""Tools: functions that scripts may call, with the schema of their arguments."""

from __future__ import annotations

import functools
import inspect
import json
import keyword
import typing
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, TypeVar, overload

from . import _prose
from ._airlock import ToolSet
from ._errors import BadTool
from ._schema import Member, Schema, Types, convert_members, describe, object_schema, with_default

P = ParamSpec("P")
R = TypeVar("R")

MAX_SETS = 64
"""Sets of tools that are kept prepared."""


class Tool(Generic[P, R]):
    """A function as a tool. It is called like the function.

    `tool` makes one from a function with annotations. This class makes one with a JSON Schema of your own.
    """

    name: str
    """Name of the global function in scripts."""
    description: str
    input_schema: Schema
    """JSON Schema of the arguments, as one object. A later run uses another schema if this is another object."""
    needs_approval: bool
    read_only: bool

    def __init__(self, function: Callable[P, R], *, name: str, description: str = "", input_schema: Schema,
                 parameters: Iterable[str] | None = None, needs_approval: bool = False, read_only: bool = False) -> None:
        """Makes a tool.

        Args:
            function: The function, which is called with keyword arguments.
            name: Name of the global function in scripts.
            description: Description for a model.
            input_schema: JSON Schema of the arguments, as one object.
            parameters: Names for positional arguments, in order; the properties of the schema if absent.
            needs_approval: The script waits at a call of this tool until someone has approved it.
            read_only: The function changes nothing, so that it may be called again when a run is resumed.
        """
        if not name.isidentifier() or keyword.iskeyword(name):
            raise BadTool(f"{name!r} cannot be the name of a function in a script; give it one with airlock.tool(…, name=…)")
        if not isinstance(input_schema, dict):
            raise BadTool(f"the schema of the tool {name} is a dict, not a value of type {type(input_schema).__name__}")
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.name = name
        self.description = description
        self.input_schema = input_schema
        self.needs_approval = needs_approval
        self.read_only = read_only
        self.parameters = tuple(input_schema.get("properties", {}) if parameters is None else parameters)
        self._convert: Callable[[dict[str, Any]], None] | None = None
        # With their defaults; `Parameter.empty` if there is none.
        self._positional_only: dict[str, Any] = {}
        self._is_async = _is_async(function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<airlock.Tool {self.name}>"


@overload
def tool(function: Callable[P, R], /, name: str | None = None, description: str | None = None, needs_approval: bool = False,
         read_only: bool = False) -> Tool[P, R]: ...


@overload
def tool(*, name: str | None = None, description: str | None = None, needs_approval: bool = False,
         read_only: bool = False) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(function: Any = None, /, name: str | None = None, description: str | None = None, needs_approval: bool = False,
         read_only: bool = False) -> Any:
    """Makes a function a tool, as a decorator or as a call. Raises `BadTool` if it cannot be one.

    The annotations of the parameters become the JSON Schema of the arguments, and the docstring the description: its first part
    that of the tool, `Args:` or `:param name:` those of the parameters. A parameter without an annotation takes any value.

    Args:
        function: The function, plain or `async def`.
        name: Name of the global function in scripts; that of the function if absent.
        description: Description for a model; the docstring if absent.
        needs_approval: The script waits at a call of this tool until someone has approved it.
        read_only: The function changes nothing, so that it may be called again when a run is resumed.
    """
    if function is None:
        return lambda function: tool(function, name, description, needs_approval, read_only)
    if isinstance(function, Tool) or not callable(function):
        raise BadTool(f"a tool is made of a function, not of a value of type {type(function).__name__}")
    called = name or getattr(function, "__name__", "")
    if not called:
        raise BadTool(f"{function!r} has no name; give it one with airlock.tool(…, name=…)")
    docstring = inspect.getdoc(function) or ""
    try:
        types = Types()
        members, positional, positional_only, rest = _parameters(function, types, docstring)
        schema = object_schema(members)
        if rest is not None:
            schema["additionalProperties"] = rest or True
            schema["properties"].update(dict.fromkeys(_bound(function), False))
        if types.definitions:
            schema["$defs"] = types.definitions
    except (TypeError, ValueError, NameError) as error:
        raise BadTool(f"tool {called}: {error}") from error
    made: Tool[Any, Any] = Tool(function, name=called, description=description or _prose.description(docstring), input_schema=schema,
                                parameters=positional, needs_approval=needs_approval, read_only=read_only)
    made._convert = convert_members(members)
    made._positional_only = positional_only
    return made


def _with_positional(function: Callable[..., Any], defaults: dict[str, Any], /, **arguments: Any) -> Any:
    """Calls a function with parameters that have no name for its callers. An absent one has its default, so that the next does
    not take its place."""
    return function(*[arguments.pop(name, default) for name, default in defaults.items()], **arguments)


def _bound(function: Any) -> set[str]:
    """Returns the parameters that `functools.partial` has set by name. A script cannot replace them."""
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound.update(function.keywords)
        function = function.func
    return bound


def _is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


def _parameters(function: Any, types: Types, docstring: str) -> tuple[dict[str, Member], list[str], dict[str, Any], Schema | None]:
    """Returns the parameters of a function, the names of those for positional arguments, the defaults of those for no others, and
    the schema of further keyword arguments; `None` if it takes none."""
    annotated: Any = function
    while isinstance(annotated, functools.partial):
        annotated = annotated.func
    if not inspect.isroutine(annotated) and not isinstance(annotated, type):
        annotated = annotated.__call__
    hints = typing.get_type_hints(annotated, include_extras=True)
    described = _prose.parameters(docstring)
    members: dict[str, Member] = {}
    positional: list[str] = []
    positional_only: dict[str, Any] = {}
    bound = _bound(function)
    rest: Schema | None = None
    for name, parameter in inspect.signature(function).parameters.items():
        if name in bound:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise TypeError(f"the parameter {parameter} has no name by which a script can pass it; take a list")
        try:
            given = describe(types.shape(hints.get(name, Any)), described.get(name))
        except TypeError as error:
            raise TypeError(f"the parameter {name}: {error}") from None
        if parameter.kind is parameter.VAR_KEYWORD:
            if given.convert is not None:
                raise TypeError(f"the parameter {parameter} can have no type but Any, str or bool")
            rest = given.schema
            continue
        is_required = parameter.default is parameter.empty
        members[name] = Member(given if is_required else with_default(given, parameter.default), is_required)
        if parameter.kind is not parameter.KEYWORD_ONLY:
            positional.append(name)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional_only[name] = parameter.default
    return members, positional, positional_only, rest


class PreparedTools:
    """The tools of a run: their set, which is prepared once, and the functions of this run."""

    __slots__ = ("functions", "set")

    def __init__(self, tools: ToolSet, functions: tuple[Callable[..., Any], ...]) -> None:
        self.set = tools
        self.functions = functions


class _Kept:
    """A set that is kept as long as its tools live."""

    __slots__ = ("positional_only", "references", "schemas", "set")

    def __init__(self, tools: ToolSet, references: list[Callable[[], Any]], made: list[Tool[Any, Any]]) -> None:
        self.set = tools
        self.references = references
        self.positional_only = [one._positional_only for one in made]
        # Their identities are not those of other schemas as long as they are kept.
        self.schemas = [one.input_schema for one in made]


_kept: OrderedDict[tuple[Any, ...], _Kept] = OrderedDict()


def prepare(tools: Iterable[Any]) -> PreparedTools:
    """Returns the set of these tools: that of an earlier run if they are the same objects. Raises `BadTool`.

    The set does not keep the functions; the result does.
    """
    given = listed(tools)
    key = tuple([_identity(one) for one in given])
    kept = _kept.get(key)
    # An identity whose object is gone may be that of another object now.
    if kept is None or any([reference() is None for reference in kept.references]):
        kept = _prepared(given)
        if len(kept.references) == len(given):
            _kept[key] = kept
            if len(_kept) > MAX_SETS:
                _kept.popitem(last=False)
    return PreparedTools(kept.set, tuple([_body(one, names) for one, names in zip(given, kept.positional_only)]))


def listed(tools: Iterable[Any]) -> tuple[Any, ...]:
    """Returns functions as a tuple. Raises `TypeError` for one function in place of several."""
    if isinstance(tools, Iterable):
        return tuple(tools)
    if callable(tools):
        raise TypeError(f"tools are a list of functions, not one function; write [{getattr(tools, '__name__', 'function')}]")
    raise TypeError(f"tools are a list of functions, not a value of type {type(tools).__name__}")


def forget() -> None:
    """Forgets all sets: in the child of a fork, where a thread that used one is missing."""
    _kept.clear()


def _prepared(given: tuple[Any, ...]) -> _Kept:
    made = [one if isinstance(one, Tool) else tool(one) for one in given]
    tools = ToolSet([
        (one.name, one.description, _schema_text(one), one.parameters, one.needs_approval, one.read_only,
         one._is_async, one._convert)
        for one in made
    ])
    references: list[Callable[[], Any]] = []
    try:
        for one in given:
            references.append(weakref.WeakMethod(one) if inspect.ismethod(one) else weakref.ref(one))
    except TypeError:
        # Nothing can refer to the object weakly, so the set is made for each run.
        pass
    return _Kept(tools, references, made)


def _schema_text(one: Tool[Any, Any]) -> str:
    try:
        return json.dumps(one.input_schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadTool(f"the schema of the tool {one.name} is not JSON: {error}") from error


def _identity(one: Any) -> Any:
    if isinstance(one, Tool):
        # A program may set them after a run.
        return (id(one), one.name, one.description, id(one.input_schema), tuple(one.parameters), one.needs_approval, one.read_only)
    # A method is another object each time it is looked up.
    return (id(one.__self__), id(one.__func__)) if inspect.ismethod(one) else id(one)


def _body(one: Any, positional_only: dict[str, Any]) -> Callable[..., Any]:
    """Returns the function to call with keyword arguments."""
    function: Callable[..., Any] = one.function if isinstance(one, Tool) else one
    return functools.partial(_with_positional, function, positional_only) if positional_only else function
