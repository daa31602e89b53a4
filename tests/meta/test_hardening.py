"""What the compiler and the linker were asked for is in the extension that was built."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from _support.tree import REPOSITORY

pytestmark = pytest.mark.skipif(not shutil.which("readelf"), reason="readelf is missing: apt-get install binutils")


def readelf(option: str) -> str:
    command = ["readelf", "-W", option, str(import_module("pysandbox._native").__file__)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_addresses_are_bound_at_once_and_read_only_afterwards() -> None:
    assert re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b", readelf("-d"))
    assert "GNU_RELRO" in readelf("-l")


def test_no_stack_is_executable() -> None:
    stack = next(line for line in readelf("-l").splitlines() if "GNU_STACK" in line)
    assert stack.split()[-2] == "RW"


def test_a_broken_stack_is_noticed() -> None:
    assert "__stack_chk_" in readelf("--dyn-syms")


def test_lengths_are_checked_where_the_compiler_knows_them() -> None:
    symbols = readelf("--dyn-syms")
    if "__asan_" in symbols:
        pytest.skip("a sanitizer checks more")
    assert re.search(r"__\w+_chk\b", re.sub(r"__stack_chk_\w+", "", symbols))


def test_a_function_that_is_not_declared_is_an_error() -> None:
    """In the build itself and not only in the linters: its arguments would be guessed."""
    assert "-Werror=implicit-function-declaration" in (REPOSITORY / "CMakeLists.txt").read_text()


def test_the_launcher_calls_errors_as_python_does() -> None:
    """Whichever C library it was built with: "Input/output error" is "I/O error" in another one."""
    command = shutil.which("pysandbox")
    assert command
    program = Path(command).read_bytes()
    texts = {os.strerror(number).encode() + b"\0" for number in errno.errorcode}
    assert {text for text in texts if text not in program} == set()


@pytest.mark.skipif(not shutil.which("musl-gcc"), reason="musl is missing: apt-get install musl-tools")
def test_the_launcher_has_the_c_library_that_asks_the_processor_nothing() -> None:
    command = shutil.which("pysandbox")
    assert command
    program = Path(command).read_bytes()
    if b"__asan_" in program:
        pytest.skip("a sanitizer needs glibc")
    assert b"GLIBC_" not in program and b"glibc" not in program
    assert "INTERP" not in subprocess.run(["readelf", "-Wl", command], capture_output=True, text=True).stdout
