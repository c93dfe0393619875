"""Objects of the program that hold a gateway or a stream whose function is their own method: cycles that are collected."""

from __future__ import annotations

import gc
import unittest
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

from support import is_refused, run_async, wait_until
from test_gateway import QUESTION, InDirectory, price

import airlock


class Shop:
    """Holds what its own functions are called by."""

    gateway: airlock.Gateway
    stream: airlock.ChatStream

    def price(self, item: str) -> float:
        gc.collect()
        return price(item)

    def pieces(self, _: dict[str, Any]) -> Iterator[str]:
        yield "a"
        yield "b"

    async def pieces_async(self, _: dict[str, Any]) -> AsyncIterator[str]:
        yield "a"
        yield "b"

    async def whole_async(self, _: dict[str, Any]) -> str:
        return "a"


def collect(shop: weakref.ref[Shop]) -> None:
    """Waits until a shop is collected. What a thread of the runtime drops is freed when the native module is called next."""
    wait_until("the end of the shop", lambda: gc.collect() >= 0 and airlock.run_script("1") == 1 and shop() is None)


class Cycles(InDirectory):
    def named(self, name: str, **keys: Any) -> dict[str, Any]:
        return {"store": str(self.directory / f"{name}.db"), **keys}

    def test_a_stream_that_the_object_of_its_model_keeps_is_collected(self) -> None:
        for name in "pieces", "pieces_async", "whole_async":
            with self.subTest(name=name):
                shop = Shop()
                gateway = airlock.Gateway(self.named(name), on_model=getattr(shop, name)).start()
                shop.stream = gateway.chat(QUESTION, model="own/any", stream=True)
                next(shop.stream)
                kept = weakref.ref(shop)
                del shop, gateway
                collect(kept)

    def test_a_stream_beside_an_event_loop_is_collected(self) -> None:
        async def begin() -> weakref.ref[Shop]:
            shop = Shop()
            gateway = await airlock.Gateway(self.config(), on_model=shop.pieces_async).start_async()
            shop.stream = await gateway.chat_async(QUESTION, model="own/any", stream=True)
            await anext(shop.stream)
            return weakref.ref(shop)

        collect(run_async(begin()))

    def test_a_gateway_that_the_object_of_its_function_keeps_is_collected_and_stops(self) -> None:
        shop = Shop()
        shop.gateway = airlock.Gateway(self.config(server={"listen": "127.0.0.1:0"}), [shop.price]).start()
        host, _, port = shop.gateway.serve().rpartition(":")
        self.assertEqual(shop.gateway.call("internal-price", {"item": "tea"}).text, "3.5")
        kept = weakref.ref(shop)
        del shop
        collect(kept)
        wait_until("the end of its server", lambda: is_refused(host, int(port)))

    def test_what_a_gateway_or_a_stream_still_needs_is_not_collected(self) -> None:
        def begin(name: str) -> airlock.ChatStream:
            shop = Shop()
            shop.gateway = airlock.Gateway(self.named(name), on_model=getattr(shop, name)).start()
            shop.stream = shop.gateway.chat(QUESTION, model="own/any", stream=True)
            return shop.stream

        for name in "pieces", "pieces_async":
            with self.subTest(name=name):
                stream = begin(name)
                texts: list[str] = []
                gc.collect()
                for chunk in stream:
                    gc.collect()
                    texts += [choice["delta"].get("content") or "" for choice in chunk["choices"]]
                self.assertEqual("".join(texts), "ab")


if __name__ == "__main__":
    unittest.main()
