"""Conversion between the types of this package and those of the bindings, without loss."""

from __future__ import annotations

import enum
import json
import re
from typing import Any

from . import _content as ours
from ._errors import HostError, ToolError
from ._host import interface
from ._json import plain

_types = interface("types")


def case(value: Any) -> str:
    """Returns the name of a case as the contract writes it, such as `not-found`."""
    if isinstance(value, enum.Enum):
        return value.name.lower().replace("_", "-")
    return re.sub(r"(?<!^)(?=[A-Z])", "-", type(value).__name__.rpartition("_")[2]).lower()


def to_json(value: Any) -> str | None:
    """Returns the JSON text of a value; none for none."""
    return None if value is None else json.dumps(plain(value), ensure_ascii=False, allow_nan=False)


def from_json(text: str | None) -> Any:
    """Parses a JSON text; none for none."""
    return None if text is None else json.loads(text)


def content_to_host(part: ours.Content) -> Any:
    """Converts a part."""
    return _types.Content(_block_to_host(part.block), to_json(part.annotations), to_json(part.meta), to_json(part.extra))


def _block_to_host(block: ours.Block) -> Any:
    if isinstance(block, ours.Text):
        return _types.ContentBlock_Text(block.text)
    if isinstance(block, ours.Image):
        return _types.ContentBlock_Image(_types.Media(block.data, block.mime_type))
    if isinstance(block, ours.Audio):
        return _types.ContentBlock_Audio(_types.Media(block.data, block.mime_type))
    if isinstance(block, ours.ResourceLink):
        return _types.ContentBlock_ResourceLink(_types.ResourceLink(
            block.uri, block.name, block.title, block.description, block.mime_type, block.size))
    if isinstance(block, ours.EmbeddedResource):
        is_text = isinstance(block.contents, str)
        contents = (_types.ResourceContents_Text if is_text else _types.ResourceContents_Blob)(block.contents)
        return _types.ContentBlock_EmbeddedResource(
            _types.EmbeddedResource(block.uri, block.mime_type, contents, to_json(block.meta), to_json(block.extra)))
    return _types.ContentBlock_Other(to_json(block.json))


def content_from_host(part: Any) -> ours.Content:
    """Converts a part."""
    return ours.Content(
        _block_from_host(part.block), from_json(part.annotations), from_json(part.meta), from_json(part.extra))


def _block_from_host(block: Any) -> ours.Block:
    kind, value = case(block), block.value
    if kind == "text":
        return ours.Text(value)
    if kind == "image":
        return ours.Image(value.data, value.mime_type)
    if kind == "audio":
        return ours.Audio(value.data, value.mime_type)
    if kind == "resource-link":
        return ours.ResourceLink(value.uri, value.name, value.title, value.description, value.mime_type, value.size)
    if kind == "embedded-resource":
        return ours.EmbeddedResource(
            value.uri, value.contents.value, value.mime_type, from_json(value.meta), from_json(value.extra))
    return ours.Other(from_json(value))


def output_to_host(output: ours.Output[Any]) -> Any:
    """Converts a result. Fails if its data is no JSON object."""
    data = plain(output.structured_content)
    if data is not None and not isinstance(data, dict):
        raise TypeError(f"structured_content must be an object, not {type(data).__name__}")
    return _types.ToolOutput([content_to_host(part) for part in output.parts()], to_json(data), to_json(output.meta))


def output_from_host(output: Any) -> ours.Output[Any]:
    """Converts a result."""
    parts = [content_from_host(part) for part in output.content]
    return ours.Output(parts, from_json(output.structured_content), from_json(output.meta))


def error_to_host(error: ToolError) -> Any:
    """Converts a failure."""
    kind = _types.ErrorKind[error.kind.upper().replace("-", "_")]
    return _types.ToolError(kind, error.code, error.message, error.retry_after_ms,
                            [content_to_host(part) for part in error.content], to_json(error.details), to_json(error.meta))


def error_from_host(error: Any) -> ToolError:
    """Converts a failure of another tool."""
    kind: Any = case(error.kind)
    return ToolError(kind, error.message, code=error.code, retry_after_ms=error.retry_after_ms,
                     content=[content_from_host(part) for part in error.content], details=from_json(error.details),
                     meta=from_json(error.meta))


def tool_error(error: BaseException) -> ToolError | None:
    """Returns the failure that an exception stands for; none if it is an accident."""
    if isinstance(error, ToolError):
        return error
    return error.tool_error() if isinstance(error, HostError) else None
