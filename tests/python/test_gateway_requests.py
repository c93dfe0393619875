"""Requests to a gateway: their arguments, and several at the same time."""

from __future__ import annotations

import asyncio
import unittest
from typing import Any

from support import run_async
from test_gateway import QUESTION, InDirectory

import airlock


class Requests(InDirectory):
    def test_calls_that_begin_to_serve_at_the_same_time_get_one_address(self) -> None:
        async def main() -> None:
            async with airlock.Gateway(self.config(server={"listen": "127.0.0.1:0"})) as gateway:
                addresses = await asyncio.gather(*[gateway.serve_async() for _ in range(8)])
                self.assertEqual(len(set(addresses)), 1)

        run_async(main())

    def test_options_of_another_type_are_refused_by_their_names(self) -> None:
        wrong: list[tuple[str, Any]] = [("key", 1), ("timeout", "1"), ("timeout", True), ("tools", [1]), ("clients", [None]), ("approval", True)]
        with airlock.Gateway(self.config()) as gateway:
            for name, value in wrong:
                options: dict[str, Any] = {name: value}
                with self.subTest(name=name), self.assertRaisesRegex(TypeError, name):
                    gateway.tools(**options)
            with self.assertRaisesRegex(TypeError, "the option timeout is a number of seconds, not a value of type bool"):
                gateway.call("internal-any", timeout=True)
            messages: list[Any] = ["hello", QUESTION[0]]
            for message in messages:
                with self.assertRaisesRegex(TypeError, "messages"):
                    gateway.chat(message, model="own/any")


if __name__ == "__main__":
    unittest.main()
