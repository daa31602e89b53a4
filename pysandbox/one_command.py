"""`pysandbox.run` and `pysandbox.spawn`: one command in a cage of its own, without a Cage to hold."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pysandbox.cage import Cage
from pysandbox.shapes import TYPE_CHECKING, Any, Literal, overload

if TYPE_CHECKING:
    from typing import Unpack

    from pysandbox.keywords import RunOptions, SpawnOptions
    from pysandbox.policy.model import Policy
    from pysandbox.process import Process
    from pysandbox.result import Result

    Argv = str | Sequence[str | os.PathLike[str]]


@overload
def run(argv: Argv, policy: Policy | str | None = None, *,
    text: Literal[True] | None = None, encoding: str | None = None, errors: str | None = None,
    **options: Unpack[RunOptions]) -> Result[str]: ...  # fmt: skip
@overload
def run(argv: Argv, policy: Policy | str | None = None, *,
    text: Literal[False], encoding: None = None, errors: None = None,
    **options: Unpack[RunOptions]) -> Result[bytes]: ...  # fmt: skip
@overload
def run(argv: Argv, policy: Policy | str | None = None, *,
    text: bool | None = None, encoding: str | None = None, errors: str | None = None,
    **options: Unpack[RunOptions]) -> Result[Any]: ...  # fmt: skip
def run(argv: Argv, policy: Policy | str | None = None, **options: Any) -> Result[Any]:
    """`Cage(policy).run(argv, ...)`: one command in a cage of its own."""
    return Cage(policy).run(argv, **options)


@overload
def spawn(argv: Argv, policy: Policy | str | None = None, *,
    text: Literal[False] | None = None, encoding: None = None, errors: None = None,
    **options: Unpack[SpawnOptions]) -> Process[bytes]: ...  # fmt: skip
@overload
def spawn(argv: Argv, policy: Policy | str | None = None, *,
    text: Literal[True], encoding: str | None = None, errors: str | None = None,
    **options: Unpack[SpawnOptions]) -> Process[str]: ...  # fmt: skip
@overload
def spawn(argv: Argv, policy: Policy | str | None = None, *,
    text: Literal[True] | None = None, encoding: str, errors: str | None = None,
    **options: Unpack[SpawnOptions]) -> Process[str]: ...  # fmt: skip
@overload
def spawn(argv: Argv, policy: Policy | str | None = None, *,
    text: Literal[True] | None = None, encoding: None = None, errors: str,
    **options: Unpack[SpawnOptions]) -> Process[str]: ...  # fmt: skip
@overload
def spawn(argv: Argv, policy: Policy | str | None = None, *,
    text: bool | None = None, encoding: str | None = None, errors: str | None = None,
    **options: Unpack[SpawnOptions]) -> Process[Any]: ...  # fmt: skip
def spawn(argv: Argv, policy: Policy | str | None = None, **options: Any) -> Process[Any]:
    """`Cage(policy).spawn(argv, ...)`: one command in a cage of its own, which ends with it."""
    return Cage(policy).spawn(argv, **options)
