"""csrc/init/orders.c and receive.c: what is not as csrc/abi.h has it ends the cage, or fails at the step "order".

It never hangs: every expectation here is waited for with a limit. The same code is fuzzed in csrc/fuzz.
"""

from __future__ import annotations

import os
import struct
from typing import Any

import pytest
from pysandbox._native import ffi, lib

from pysandbox.launch import orders

from .inject import ALLOW_ALL
from .plans import Init, opened, plan

BIG = 0xFFFFFFFF
NUDGE = b"\4\0\0\0"  # has no effect, before SETUP as after
WRITTEN = b"\6\0\0\0"
ORDER = ("order", "EINVAL", None)


def struct_bytes(type_: str, **fields: int) -> bytes:
    return bytes(ffi.buffer(ffi.new(f"struct {type_} *", fields)))


def setup(after: bytes = b"", **fields: int) -> bytes:
    return struct_bytes("psb_setup", **{"kind": lib.PSB_MESSAGE_SETUP, **fields}) + after


def signal(**fields: int) -> bytes:
    return struct_bytes("psb_signal", **{"kind": lib.PSB_MESSAGE_SIGNAL, "id": 1, "signal": 15, **fields})


def with_body(order: orders.ExecMessage, body: bytes) -> orders.ExecMessage:
    return orders.ExecMessage(order.header, body, order.body_in_fd)


def changed(order: orders.ExecMessage, **fields: int) -> bytes:
    """The order's message, with other values in some fields of its header."""
    header = ffi.new("struct psb_exec *")
    ffi.memmove(header, order.header, len(order.header))
    for name, value in fields.items():
        setattr(header, name, value)
    return bytes(ffi.buffer(header)) + order.body


def test_the_numbers_of_an_order_stand_where_the_declaration_has_them() -> None:
    assert tuple(name for name, _ in ffi.typeof("struct psb_exec").fields) == orders.EXEC_FIELDS
    asked = {"limits": b"", "n_limits": 3, "walltime": 1.5, "grace": 0.25, "command_id": 7}
    flags = {"oneshot": True, "terminal": False, "quiet": True}
    order = orders.encode_exec(
        argv=["a"], env=["B=c", "D="], paths=["/e"], cwd="/", targets=[0, 1, 2], **asked, **flags
    )  # fmt: skip
    header = ffi.from_buffer("struct psb_exec *", order.header)
    named = {name: getattr(header, name) for name in orders.EXEC_FIELDS}
    assert named == {
        "kind": lib.PSB_MESSAGE_EXEC, "flags": lib.PSB_EXEC_ONESHOT | lib.PSB_EXEC_QUIET, "id": 7, "n_fds": 3,
        "n_limits": 3, "n_paths": 1, "n_argv": 1, "n_env": 2, "body_size": len(order.body), "walltime_ms": 1500,
        "grace_ms": 250, "pad": 0,
    }  # fmt: skip


@pytest.mark.parametrize("count", range(6))
def test_what_follows_the_descriptors_is_aligned(count: int) -> None:
    rest = {"limits": b"12345678", "n_limits": 0, "walltime": None, "grace": 0, "command_id": 1}
    flags = dict.fromkeys(("oneshot", "terminal", "quiet"), False)
    targets = list(range(count))
    order = orders.encode_exec(argv=["a"], env=[], paths=[], cwd="/", targets=targets, **rest, **flags)
    numbers = struct.pack(f"={count}I", *targets)
    assert order.body == numbers + bytes(len(numbers) % 8) + b"12345678/\0a\0"


SETUP_FLAGS = [getattr(lib, name) for name in dir(lib) if name.startswith("PSB_SETUP_")]
FIRST = {
    "nothing": b"",
    "less than a kind": b"\1\0\0",
    "a kind alone": setup()[:4],
    "a short setup": setup()[:-1],
    "a long setup": setup(b"\0"),
    "a setup with less filter than it says": setup(ALLOW_ALL, filter_count=2),
    "a setup with more filter than it says": setup(ALLOW_ALL * 2, filter_count=1),
    "a setup with a filter beyond the kernel's limit": setup(ALLOW_ALL * 4097, filter_count=4097),
    "a setup whose filter would not fit into memory": setup(filter_count=BIG),
    "a setup with less of a late filter than it says": setup(ALLOW_ALL, late_count=2),
    "a setup with both filters beyond the limit": setup(ALLOW_ALL * 4097, filter_count=4096, late_count=1),
    "a setup whose counts wrap around": setup(ALLOW_ALL, filter_count=BIG, late_count=2**32 - BIG + 1),
    "a setup with an unknown flag": setup(flags=sum(SETUP_FLAGS) + 1),
    "a setup that wants a listener, and has no filter": setup(flags=lib.PSB_SETUP_LISTENER),
    "an order before the setup": struct_bytes("psb_exec", kind=lib.PSB_MESSAGE_EXEC),
    "a signal before the setup": signal(),
    "a question before the setup": WRITTEN,
    "an unknown kind": struct_bytes("psb_setup", kind=99),
    "kind 0": struct_bytes("psb_setup", kind=0),
}


@pytest.mark.parametrize("name", FIRST)
def test_a_first_message_that_is_no_setup_ends_the_cage(name: str) -> None:
    with opened(plan(), first=FIRST[name]) as init:
        assert init.ended()


def test_the_largest_filter_there_can_be_is_taken() -> None:
    with opened(plan(seccomp=ALLOW_ALL * 4096)) as init:
        assert init.sh("grep ^Seccomp: /proc/self/status").said.split() == ["Seccomp:", "2"]


LATER = {
    "nothing": b"",
    "less than a kind": b"\2\0",
    "a second setup": setup(),
    "an unknown kind": struct_bytes("psb_signal", kind=99),
    "a short signal": signal()[:-1],
    "a long signal": signal() + b"\0",
    "a signal of an unknown scope": signal(scope=3),
    "a nudge with more in it": NUDGE + b"\0",
    "a question with more in it": WRITTEN + b"\0",
    "an order that nobody asks about": struct_bytes("psb_exec", kind=lib.PSB_MESSAGE_EXEC),
    "more than the longest message": b"\2\0\0\0" + bytes(40_000),
}


@pytest.mark.parametrize("name", LATER)
def test_a_later_message_that_is_none_ends_the_cage(name: str, init: Init) -> None:
    command = init.start("/bin/sleep", "1000")
    command.expect("started")
    init.send(LATER[name])
    assert init.ended()
    assert command.nothing_more()


@pytest.mark.parametrize("message", [setup(), signal(), NUDGE, WRITTEN], ids=["setup", "signal", "nudge", "written"])
def test_descriptors_beside_anything_but_an_order_end_the_cage(message: bytes, init: Init) -> None:
    init.send(message, [2])
    assert init.ended()


def test_an_order_before_the_setup_ends_the_cage_although_it_could_be_answered() -> None:
    with opened(plan(), first=NUDGE) as init:
        command = init.start("/bin/true")
        assert init.ended() and command.nothing_more()


@pytest.mark.parametrize(
    "message",
    [signal(signal=-1), signal(signal=65), signal(id=77), signal(signal=0), signal(id=0, scope=1)],
    ids=["negative", "too high", "of nobody", "none", "to nobody's session"],
)
def test_a_signal_that_means_nothing_does_nothing(message: bytes, init: Init) -> None:
    command = init.start("/bin/sleep", "1000")
    command.expect("started")
    init.send(message)
    assert init.run("/bin/true").code == 0
    init.signal(command, 9)
    assert os.waitstatus_to_exitcode(command.expect("exited").status) == -9


HEADER: list[tuple[str, dict[str, int]]] = [
    ("more descriptors", {"n_fds": 1}),
    ("as many as can be", {"n_fds": 250}),
    ("too many", {"n_fds": 251}),
    ("too many by far", {"n_fds": BIG}),
    ("a limit more", {"n_limits": 1}),
    ("limits beyond measure", {"n_limits": BIG}),
    ("no path", {"n_paths": 0}),
    ("a path more", {"n_paths": 2}),
    ("paths beyond measure", {"n_paths": BIG}),
    ("no argument", {"n_argv": 0}),
    ("an argument more", {"n_argv": 3}),
    ("arguments beyond measure", {"n_argv": BIG}),
    ("no environment", {"n_env": 0}),
    ("an environment more", {"n_env": 2}),
    ("environments beyond measure", {"n_env": BIG}),
    ("everything beyond measure", {"n_paths": BIG, "n_argv": BIG, "n_env": BIG}),
    ("an empty body", {"body_size": 0}),
    ("a shorter body", {"body_size": 1}),
    ("a longer body", {"body_size": 32768}),
    ("a body beyond measure", {"body_size": BIG}),
    ("a body elsewhere", {"flags": lib.PSB_EXEC_BODY_FD}),
    ("an unknown flag", {"flags": 1 << 31}),
]


@pytest.mark.parametrize("fields", [row[1] for row in HEADER], ids=[row[0] for row in HEADER])
def test_a_header_that_the_body_does_not_bear_out_is_refused_and_the_cage_goes_on(
    fields: dict[str, int], init: Init
) -> None:
    order, _ = init.order(("/bin/sh", "-c"), {})
    message = changed(order, **fields)
    command = init.deliver(lambda report: init.send(message, [report]))
    assert_refused(command)
    assert init.run("/bin/true").code == 0


def assert_refused(command: Any) -> None:
    error = command.expect("failed").error
    assert (error.step, error.errno, error.filename) == ("order", 22, None)
    assert command.nothing_more()


@pytest.mark.parametrize("cut", [1, 47, 48, 49])
def test_an_order_cut_short_is_refused(cut: int, init: Init) -> None:
    order, _ = init.order(("/bin/true",), {})
    message = (order.header + order.body)[: -cut if cut == 1 else cut]
    command = init.deliver(lambda report: init.send(message, [report]))
    assert_refused(command)


@pytest.mark.parametrize("end", [b"\0", b"extra\0", b"x"])
def test_an_order_with_more_in_its_body_than_it_says_is_refused(end: bytes, init: Init) -> None:
    order, _ = init.order(("/bin/true",), {})
    longer = with_body(order, order.body + end)
    message = changed(longer, body_size=len(longer.body))
    command = init.deliver(lambda report: init.send(message, [report]))
    assert_refused(command)


def test_a_body_that_does_not_end_is_refused(init: Init) -> None:
    order, _ = init.order(("/bin/true",), {})
    message = changed(with_body(order, order.body[:-1] + b"x"))
    assert_refused(init.deliver(lambda report: init.send(message, [report])))


@pytest.mark.parametrize("target", [-1, -(2**31), 2**31 - 1])
def test_a_descriptor_number_that_is_none_is_refused(target: int, init: Init) -> None:
    order, _ = init.order(("/bin/true",), {7: 2})
    body = struct.pack("=ii", target, 0) + order.body[8:]
    command = init.deliver(lambda report: init.send(changed(with_body(order, body)), [report, 2]))
    assert_refused(command)


@pytest.mark.parametrize("given", [0, 1, 3, 252])
def test_another_number_of_descriptors_than_the_order_says_is_refused(given: int, init: Init) -> None:
    order, _ = init.order(("/bin/true",), {7: 2, 8: 2})
    command = init.deliver(lambda report: init.send(changed(order), [report, *[2] * given]))
    assert_refused(command)


BODY_FD = lib.PSB_EXEC_BODY_FD


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_a_body_that_holds_less_than_announced_is_refused_and_not_touched(size: int, init: Init) -> None:
    order, _ = init.order(("/bin/true", "x" * 50_000), {})
    body = os.memfd_create("body")
    os.ftruncate(body, size)
    message = changed(with_body(order, b""), body_size=200_000, flags=BODY_FD)
    try:
        assert_refused(init.deliver(lambda report: init.send(message, [report, body])))
        assert init.run("/bin/true").code == 0
    finally:
        os.close(body)


def test_a_body_that_cannot_be_mapped_is_refused(init: Init) -> None:
    order, _ = init.order(("/bin/true",), {})
    read, write = os.pipe()
    os.write(write, order.body)
    message = changed(with_body(order, b""), body_size=len(order.body), flags=BODY_FD)
    try:
        assert_refused(init.deliver(lambda report: init.send(message, [report, read])))
    finally:
        os.close(read)
        os.close(write)


def test_a_body_of_zeros_is_refused(init: Init) -> None:
    """16 MiB of empty strings: as many as a body can hold, and still fewer than it says."""
    body = os.memfd_create("body")
    os.ftruncate(body, lib.PSB_MAX_BODY)
    order, _ = init.order(("/bin/true",), {})
    message = changed(with_body(order, b""), body_size=lib.PSB_MAX_BODY, flags=BODY_FD, n_env=lib.PSB_MAX_BODY - 5)
    try:
        assert_refused(init.deliver(lambda report: init.send(message, [report, body])))
        assert init.run("/bin/true").code == 0
    finally:
        os.close(body)
