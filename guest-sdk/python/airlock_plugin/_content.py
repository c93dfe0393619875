"""Results of tools, and their parts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, Union

from ._errors import ToolError
from ._json import ABSENT, Absent

T = TypeVar("T")
JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Text:
    """Text for the model."""

    text: str


@dataclass(frozen=True)
class Image:
    """An image; `data` is not encoded."""

    data: bytes
    mime_type: str


@dataclass(frozen=True)
class Audio:
    """A sound; `data` is not encoded."""

    data: bytes
    mime_type: str


@dataclass(frozen=True)
class ResourceLink:
    """A resource that the caller may fetch. `name` is for programs, `title` for people, `size` in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class EmbeddedResource:
    """A resource that is part of the result; its contents are text or bytes."""

    uri: str
    contents: str | bytes
    mime_type: str | None = None
    meta: JsonObject | None = None
    """Vendor keys of the resource itself."""
    extra: JsonObject | None = None
    """Other members of the MCP resource contents."""


@dataclass(frozen=True)
class Other:
    """Any other MCP content block: a JSON object with a `type`."""

    json: JsonObject


Block = Union[Text, Image, Audio, ResourceLink, EmbeddedResource, Other]


@dataclass(frozen=True)
class Content:
    """One part of a result or of a failure."""

    block: Block
    annotations: JsonObject | None = None
    """MCP annotations, such as `audience` and `priority`."""
    meta: JsonObject | None = None
    """Vendor keys of the part, forwarded as its MCP `_meta`."""
    extra: JsonObject | None = None
    """Other members of the MCP content block, such as `icons`."""


def text(text: str, *, annotations: JsonObject | None = None, meta: JsonObject | None = None,
         extra: JsonObject | None = None) -> Content:
    """Makes a part of text."""
    return Content(Text(text), annotations, meta, extra)


def image(data: bytes, mime_type: str, *, annotations: JsonObject | None = None, meta: JsonObject | None = None,
          extra: JsonObject | None = None) -> Content:
    """Makes a part with an image; `data` is not encoded."""
    return Content(Image(data, mime_type), annotations, meta, extra)


def audio(data: bytes, mime_type: str, *, annotations: JsonObject | None = None, meta: JsonObject | None = None,
          extra: JsonObject | None = None) -> Content:
    """Makes a part with a sound; `data` is not encoded."""
    return Content(Audio(data, mime_type), annotations, meta, extra)


def resource_link(uri: str, name: str, *, title: str | None = None, description: str | None = None,
                  mime_type: str | None = None, size: int | None = None, annotations: JsonObject | None = None,
                  meta: JsonObject | None = None, extra: JsonObject | None = None) -> Content:
    """Makes a part that links to a resource, which the caller may fetch."""
    return Content(ResourceLink(uri, name, title, description, mime_type, size), annotations, meta, extra)


def embedded_resource(uri: str, contents: str | bytes, *, mime_type: str | None = None,
                      resource_meta: JsonObject | None = None, resource_extra: JsonObject | None = None,
                      annotations: JsonObject | None = None, meta: JsonObject | None = None,
                      extra: JsonObject | None = None) -> Content:
    """Makes a part that contains a resource, as text or as bytes.

    `resource_meta` and `resource_extra` belong to the resource itself, `meta` and `extra` to the part.
    """
    return Content(EmbeddedResource(uri, contents, mime_type, resource_meta, resource_extra), annotations, meta, extra)


def other(block: JsonObject, *, annotations: JsonObject | None = None, meta: JsonObject | None = None,
          extra: JsonObject | None = None) -> Content:
    """Makes a part of any other MCP content block: a JSON object with a `type`."""
    if not isinstance(block.get("type"), str):
        raise ValueError("a content block needs a member `type` that is a string")
    return Content(Other(block), annotations, meta, extra)


@dataclass
class Output(Generic[T]):
    """The result of a tool: parts to read, and the same result as data.

    A tool declares `Output[Weather]` to have the schema of its data in the descriptor. A string among the parts is a text.
    """

    content: Sequence[Content | str] = field(default_factory=list)
    structured_content: T | Absent = ABSENT
    """The result as data: any JSON value, or a dataclass. It must match the output schema if the tool has one. Some clients expect
    an object. `None` is `null`; the default, `ABSENT`, is no data."""
    meta: JsonObject | None = None
    """Vendor keys, forwarded as MCP `_meta`."""
    extra: JsonObject | None = None
    """Other members of the MCP result."""

    def parts(self) -> list[Content]:
        """Returns the parts, each string as a text."""
        return [text(part) if isinstance(part, str) else part for part in self.content]

    def first_text(self) -> str | None:
        """Returns the first text among the parts."""
        return next((part.block.text for part in self.parts() if isinstance(part.block, Text)), None)

    def data(self) -> Any:
        """Returns the data or, if there is none, the JSON in the first text."""
        if self.structured_content is not ABSENT:
            return self.structured_content
        found = self.first_text()
        if found is None:
            raise ToolError("internal", "the tool returned neither data nor text")
        try:
            return json.loads(found)
        except ValueError as error:
            raise ToolError("internal", f"the tool's result is not JSON: {error}") from error
