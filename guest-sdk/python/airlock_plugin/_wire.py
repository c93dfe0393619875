"""Conversion between the types of this package and those of the bindings, without loss."""

from __future__ import annotations

import enum
import json
import re
from typing import Any

from . import _content as ours
from ._errors import HostError, ToolError, check_error, check_u64
from ._host import interface
from ._json import ABSENT, json_text, object_text, to_json, unicode

_types = interface("types")


def case(value: Any) -> str:
    """Returns the name of a case as the contract writes it, such as `not-found`."""
    if isinstance(value, enum.Enum):
        return value.name.lower().replace("_", "-")
    return re.sub(r"(?<!^)(?=[A-Z])", "-", type(value).__name__.rpartition("_")[2]).lower()


def from_json(text: str | None) -> Any:
    """Parses the JSON text of an object; none for none."""
    return None if text is None else json.loads(text)


def _value_from_json(text: str | None) -> Any:
    """Parses the JSON text of a value; `ABSENT` for none."""
    return ABSENT if text is None else json.loads(text)


def content_to_host(part: ours.Content) -> Any:
    """Converts a part."""
    return _types.Content(_block_to_host(part.block), to_json(part.annotations), to_json(part.meta), to_json(part.extra))


def _block_to_host(block: ours.Block) -> Any:
    if isinstance(block, ours.Text):
        return _types.ContentBlock_Text(_string("text", block.text))
    if isinstance(block, ours.Image):
        return _types.ContentBlock_Image(_media(block))
    if isinstance(block, ours.Audio):
        return _types.ContentBlock_Audio(_media(block))
    if isinstance(block, ours.ResourceLink):
        return _types.ContentBlock_ResourceLink(_types.ResourceLink(
            _string("uri", block.uri), _string("name", block.name), _optional("title", block.title),
            _optional("description", block.description), _optional("mime_type", block.mime_type),
            None if block.size is None else check_u64("size", block.size)))
    if isinstance(block, ours.EmbeddedResource):
        contents = (_types.ResourceContents_Text(_string("contents", block.contents)) if isinstance(block.contents, str)
                    else _types.ResourceContents_Blob(_bytes("contents", block.contents)))
        return _types.ContentBlock_EmbeddedResource(_types.EmbeddedResource(
            _string("uri", block.uri), _optional("mime_type", block.mime_type), contents, to_json(block.meta), to_json(block.extra)))
    if isinstance(block, ours.Other):
        return _types.ContentBlock_Other(json_text("json", block.json))
    raise TypeError(f"{type(block).__name__} is no block of a part; make parts with text, image and the like")


# The bindings convert after `invoke` has returned: a member of a wrong type would end the call there, without an error.


def _media(block: ours.Image | ours.Audio) -> Any:
    return _types.Media(_bytes("data", block.data), _string("mime_type", block.mime_type))


def _string(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} of a part must be a string, not {type(value).__name__}")
    return unicode(value)


def _optional(name: str, value: Any) -> str | None:
    return None if value is None else _string(name, value)


def _bytes(name: str, value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"{name} of a part must be bytes, not {type(value).__name__}")
    return bytes(value)


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
    """Converts a result. Fails if its data is no JSON value."""
    data = json_text("structured_content", output.structured_content)
    parts = [content_to_host(part) for part in output.parts()]
    return _types.ToolOutput(parts, data, object_text("meta", output.meta), object_text("extra", output.extra))


def output_from_host(output: Any) -> ours.Output[Any]:
    """Converts a result."""
    parts = [content_from_host(part) for part in output.content]
    return ours.Output(parts, _value_from_json(output.structured_content), from_json(output.meta), from_json(output.extra))


def error_to_host(error: ToolError) -> Any:
    """Converts a failure. Fails if a member was changed so that the contract cannot have it."""
    check_error(error)
    kind = _types.ErrorKind[error.kind.upper().replace("-", "_")]
    code = None if error.code is None else unicode(error.code)
    parts = [content_to_host(ours.text(part) if isinstance(part, str) else part) for part in error.content]
    return _types.ToolError(kind, code, unicode(str(error.message)), error.retry_after_ms, parts,
                            json_text("details", error.details), object_text("meta", error.meta), object_text("extra", error.extra))


def error_from_host(error: Any) -> ToolError:
    """Converts a failure of another tool."""
    kind: Any = case(error.kind)
    return ToolError(kind, error.message, code=error.code, retry_after_ms=error.retry_after_ms,
                     content=[content_from_host(part) for part in error.content], details=_value_from_json(error.details),
                     meta=from_json(error.meta), extra=from_json(error.extra))


def tool_error(error: BaseException) -> ToolError | None:
    """Returns the failure that an exception stands for; none if it is an accident."""
    if isinstance(error, ToolError):
        return error
    return error.tool_error() if isinstance(error, HostError) else None
