"""The log of the program, imported with the first record of this package."""

from __future__ import annotations

import logging

logger = logging.getLogger("airlock")
# As each library does: without it, warnings reach the terminal of a program that has set up no log.
logger.addHandler(logging.NullHandler())
