"""Async functions that a script calls at the same time, with a limit on the time of all."""

import asyncio

import airlock


async def fetch(page: str) -> str:
    """Returns a page."""
    await asyncio.sleep(0.01)
    return f"text of {page}"


code = """
import asyncio
pages = await asyncio.gather(*[fetch(page) for page in names])
result = {"pages": len(pages), "first": pages[0]}
"""


async def main() -> None:
    limits = airlock.Limits(seconds=30)
    print(await airlock.run_script_async(code, tools=[fetch], inputs={"names": ["a", "b", "c"]}, limits=limits))


asyncio.run(main())
# {'pages': 3, 'first': 'text of a'}
