"""SDK for Airlock plugins in Python. A tool is a function with a decorator.

    from typing import Annotated

    from airlock_plugin import Field, plugin, tool

    @tool(read_only=True, idempotent=True, open_world=False)
    def count_word(text: str, word: str, at_most: Annotated[int, Field(ge=1, le=1000)] = 100) -> int:
        '''Counts how often a word occurs in a text.

        Args:
            text: Text to look in.
            word: Word to look for.
            at_most: Stops counting there.
        '''
        return min(text.split().count(word), at_most)

    Tools = plugin(count_word)

- `tool` makes the descriptor from the signature and the docstring, and converts the arguments to their types.
- `ToolError` is a failure as the model reads it.
- `Context` is the running call: time left, progress, parts of the result sent early.
- `Output` and `text`, `image` and the like build a result of several parts. `ABSENT` is no data, where `None` is `null`.
- `airlock_plugin.log` writes diagnostics. The modules `config`, `http`, `kv`, `secrets`, `secrets_reveal` and `tools` each need a
  request in `plugin.toml`; importing one that is not requested fails when the plugin is built.
- `airlock_plugin.testing.Host` runs tools without a gateway.
"""

from . import log
from ._content import (
    Audio,
    Block,
    Content,
    EmbeddedResource,
    Image,
    Other,
    Output,
    ResourceLink,
    Text,
    audio,
    embedded_resource,
    image,
    other,
    resource_link,
    text,
)
from ._context import Context
from ._errors import HostError, Kind, ToolError
from ._field import Field
from ._json import ABSENT, Absent
from ._plugin import plugin
from ._tool import Tool, tool

__all__ = [
    "ABSENT", "Absent", "Audio", "Block", "Content", "Context", "EmbeddedResource", "Field", "HostError", "Image", "Kind", "Other",
    "Output", "ResourceLink", "Text", "Tool", "ToolError", "audio", "embedded_resource", "image", "log", "other", "plugin",
    "resource_link", "text", "tool",
]
