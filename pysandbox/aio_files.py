"""The files of a cage under asyncio: `Files`, awaitable, in the loop's executor, so that no file holds the loop up."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial

from pysandbox.files import READ_CAP
from pysandbox.shapes import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pysandbox.files import Files

    Path = str | os.PathLike[str]

T = TypeVar("T")


def in_background(call: Callable[[], T]) -> asyncio.Future[T]:
    return asyncio.get_running_loop().run_in_executor(None, call)


async def in_executor(call: Callable[[], T]) -> T:
    return await in_background(call)


class AsyncFiles:
    """`Files`, awaitable."""

    def __init__(self, files: Files) -> None:
        self.files = files

    async def read(self, path: Path, *, limit: int = READ_CAP) -> bytes:
        return await in_executor(partial(self.files.read, path, limit=limit))

    async def write(self, path: Path, data: bytes | str, *, mode: int = 0o644) -> None:
        await in_executor(partial(self.files.write, path, data, mode=mode))

    async def read_text(
        self, path: Path, encoding: str = "utf-8", errors: str = "strict", *, limit: int = READ_CAP
    ) -> str:  # fmt: skip
        return await in_executor(partial(self.files.read_text, path, encoding, errors, limit=limit))

    async def write_text(
        self, path: Path, text: str, encoding: str = "utf-8", errors: str = "strict", *, mode: int = 0o644
    ) -> None:  # fmt: skip
        await in_executor(partial(self.files.write_text, path, text, encoding, errors, mode=mode))

    async def list(self, path: Path = "/") -> list[str]:
        return await in_executor(partial(self.files.list, path))

    async def exists(self, path: Path) -> bool:
        return await in_executor(partial(self.files.exists, path))

    async def stat(self, path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        return await in_executor(partial(self.files.stat, path, follow_symlinks=follow_symlinks))

    async def mkdir(self, path: Path, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None:
        await in_executor(partial(self.files.mkdir, path, mode, parents=parents, exist_ok=exist_ok))

    async def remove(self, path: Path) -> None:
        await in_executor(partial(self.files.remove, path))

    async def rmdir(self, path: Path) -> None:
        await in_executor(partial(self.files.rmdir, path))

    async def rename(self, old: Path, new: Path) -> None:
        await in_executor(partial(self.files.rename, old, new))
