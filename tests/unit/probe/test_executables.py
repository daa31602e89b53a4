"""What a file says that it needs to be started, read as the kernel reads it, whatever the bytes."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pysandbox.policy.model import Policy
from pysandbox.probe.executables import names_of, needed, read_executable
from pysandbox.probe.facts import Executable, PathFact
from pysandbox.probe.paths import stat_paths

LINKER = b"/lib/ld.so"


def elf(bits: int, order: str, *, interpreter: bytes = LINKER, at: int = 0) -> bytes:
    """A file header, one PT_LOAD, one PT_INTERP, and the name."""
    header, entry = (52, 32) if bits == 32 else (64, 56)
    name_at = at or header + 2 * entry
    kind = bytes((bits // 32, 1 if order == "<" else 2))
    head = b"\x7fELF" + kind + bytes(10)
    fields = (2, 3, 1, 0, header, 0, 0, header, entry, 2, 0, 0, 0)
    head += struct.pack(order + ("HHIIIIIHHHHHH" if bits == 32 else "HHIQQQIHHHHHH"), *fields)
    if bits == 32:
        table = [struct.pack(order + "8I", kind, name_at, 0, 0, len(interpreter) + 1, 0, 0, 0) for kind in (1, 3)]
    else:
        table = [struct.pack(order + "2I6Q", kind, 0, name_at, 0, 0, len(interpreter) + 1, 0, 0) for kind in (1, 3)]
    return head + b"".join(table) + interpreter + b"\0"


def read(path: Path, data: bytes) -> Executable:
    path.write_bytes(data)
    return read_executable(str(path))


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("order", ["<", ">"])
def test_the_linker_of_an_elf_is_read_in_every_class_and_order(tmp_path: Path, bits: int, order: str) -> None:
    assert read(tmp_path / "elf", elf(bits, order)) == Executable("elf", "/lib/ld.so")


def test_the_python_that_runs_this_names_a_linker_that_exists() -> None:
    found = read_executable(os.path.realpath(sys.executable))
    assert found.format == "elf"
    assert os.path.exists(found.interpreter)


@pytest.mark.parametrize(("line", "interpreter"), [
    (b"#!/bin/sh\n", "/bin/sh"), (b"#! \t /usr/bin/env -S python3 -I\n", "/usr/bin/env"), (b"#!/bin/sh", "/bin/sh"),
    (b"#!/bin/sh\t-e\n", "/bin/sh"), (b"#!bin/sh\n", "bin/sh"), (b"#!/caf\xe9\n", "/caf\udce9"),
])  # fmt: skip
def test_the_interpreter_of_a_script_is_the_first_word(tmp_path: Path, line: bytes, interpreter: str) -> None:
    assert read(tmp_path / "script", line + b"exit 1\n" if b"\n" in line else line) == Executable("script", interpreter)


@pytest.mark.parametrize("data", [
    b"", b"#", b"#!", b"#!\n", b"#!   \n/bin/sh", b"text", b"\x7fELF", b"\x7fELF\x09\x01" + bytes(60),
    elf(64, "<")[:64], elf(64, "<", at=1 << 63), elf(32, ">")[:60],
], ids=range(11))  # fmt: skip
def test_what_is_malformed_names_no_interpreter(tmp_path: Path, data: bytes) -> None:
    assert read(tmp_path / "file", data).interpreter == ""


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=120), st.sampled_from([b"", b"#!", b"\x7fELF\x01\x01", b"\x7fELF\x02\x01", b"\x7fELF\x02\x02"])
)
def test_no_bytes_make_it_fail(tmp_path_factory: pytest.TempPathFactory, data: bytes, start: bytes) -> None:
    assert read(tmp_path_factory.getbasetemp() / "bytes", start + data).format in ("elf", "script", "other")


def test_what_cannot_be_opened_is_no_program(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(sys.executable)
    for name in ("absent", "pipe", "link", "."):
        assert read_executable(str(tmp_path / name)) == Executable("other")


def test_the_look_follows_what_the_listed_files_need(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/run").write_text("#!/bin/sh\n")
    (tmp_path / "run").symlink_to("bin/run")
    policy = Policy(allow_execve=[str(tmp_path / "run"), f"{tmp_path}/bin/*"])
    seen = stat_paths(policy, cwd="/")
    assert seen.executables == {f"{tmp_path}/bin/run": Executable("script", "/bin/sh")}
    assert seen["/bin/sh"].kind == "file"
    assert {f"{tmp_path}/lib", f"{tmp_path}/lib64"} <= set(needed(policy, seen, seen.executables))
    assert seen[f"{tmp_path}/lib"].kind == "missing"


def test_a_file_is_known_by_every_name_on_the_way() -> None:
    fact = PathFact("/a/x", "/c/z", "file", (("/a/x", "/b/y"), ("/b/y", "/c/z")))
    assert names_of(fact) == ("/a/x", "/b/y", "/c/z")
