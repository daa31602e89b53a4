"""by_aiohttp.py URL: prints the body. Goes through the proxy of the environment, where there is one."""

from __future__ import annotations

import asyncio
import sys

import aiohttp


async def main(url: str) -> None:
    async with aiohttp.ClientSession(trust_env=True) as session, session.get(url) as answer:
        print(await answer.text())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
