"""csrc/init/limits.c: a command's limits, soft and hard alike, and never above the host's own."""

from __future__ import annotations

import resource
from typing import Any

import pytest

from pysandbox.compile.plan import Limit, Plan
from pysandbox.launch.structs import encode_limits

from .plans import Init, flat, opened, plan

pytestmark = pytest.mark.guest

UNLIMITED = "-1"  # resource.RLIM_INFINITY


def limited(*limits: Limit) -> dict[str, Any]:
    return {"limits": encode_limits(plan(limits=limits)), "n_limits": len(limits)}


def got(init: Init, name: str, *limits: Limit) -> str:
    return init.attempt(f"*resource.getrlimit(resource.RLIMIT_{name})", **limited(*limits))


@pytest.mark.parametrize(
    ("name", "value"),
    [("NOFILE", 50), ("CORE", 0), ("CPU", 100), ("FSIZE", 1 << 33), ("AS", 1 << 36), ("STACK", 1 << 20), ("NPROC", 9)],
)
def test_a_limit_is_set_soft_and_hard(name: str, value: int, init: Init) -> None:
    assert got(init, name, Limit(name, value)) == f"{value} {value}"


def test_none_is_no_limit_where_the_host_has_none(init: Init) -> None:
    resource.prlimit(init.pid, resource.RLIMIT_CPU, (1000, resource.RLIM_INFINITY))
    assert got(init, "CPU", Limit("CPU", None)) == f"{UNLIMITED} {UNLIMITED}"


def test_several_limits_are_all_set_and_the_others_are_the_host_s(init: Init) -> None:
    limits = Limit("NOFILE", 40), Limit("CORE", 0), Limit("FSIZE", 4096)
    assert [got(init, name, *limits) for name in ("NOFILE", "CORE", "FSIZE")] == ["40 40", "0 0", "4096 4096"]
    assert got(init, "NOFILE") == "{} {}".format(*resource.getrlimit(resource.RLIMIT_NOFILE))


@pytest.mark.parametrize(("asked", "given"), [(4096, 100), (None, 100), (100, 100), (99, 99)])
def test_a_host_with_a_lower_hard_limit_keeps_it(asked: int | None, given: int, init: Init) -> None:
    resource.prlimit(init.pid, resource.RLIMIT_NOFILE, (100, 100))
    assert got(init, "NOFILE", Limit("NOFILE", asked)) == f"{given} {given}"


def test_a_limit_between_the_host_s_soft_and_hard_is_set(init: Init) -> None:
    resource.prlimit(init.pid, resource.RLIMIT_NOFILE, (100, 200))
    assert got(init, "NOFILE", Limit("NOFILE", 150)) == "150 150"


@pytest.mark.parametrize("name", ["NPROC", "MEMLOCK", "SIGPENDING", "MSGQUEUE"])
@pytest.mark.parametrize(("wanted", "part"), [(plan(), 1 / 2), (flat(), 3 / 4)], ids=["full", "flat"])
def test_of_what_is_counted_for_a_user_a_cage_has_a_part(wanted: Plan, part: float, name: str) -> None:
    """setup/shares.c. SIGPENDING and MSGQUEUE are no names of Python's."""
    number = {"NPROC": 6, "MEMLOCK": 8, "SIGPENDING": 11, "MSGQUEUE": 12}[name]
    before = resource.getrlimit(number)
    most = min(each for each in (*before, 1 << 20) if each != resource.RLIM_INFINITY) // 4 * 4
    if name == "NPROC" and before[0] != resource.RLIM_INFINITY:
        most = before[0] // 4 * 4  # a lower one would keep us from forking
    try:
        resource.setrlimit(number, (most, before[1]))
        with opened(wanted) as init:
            assert init.attempt(f"*resource.getrlimit({number})") == f"{int(most * part)} {int(most * part)}"
    finally:
        resource.setrlimit(number, before)


def test_a_command_cannot_raise_its_limit(init: Init) -> None:
    tried = "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))"
    assert init.attempt("open('/tmp/f', 'wb').write(bytes(9000))", **limited(Limit("FSIZE", 4096))) == "EFBIG"
    source = f"import resource\ntry: {tried}\nexcept ValueError as error: print(error)"
    assert init.python(source, **limited(Limit("FSIZE", 4096))).said == "not allowed to raise maximum limit\n"


def test_a_limit_is_the_command_s_and_not_the_cage_s(init: Init) -> None:
    assert got(init, "NOFILE", Limit("NOFILE", 30)) == "30 30"
    assert got(init, "NOFILE", Limit("NOFILE", 50)) == "50 50"


def test_descriptors_above_the_limit_still_arrive(init: Init) -> None:
    """The limit is on what the command opens itself."""
    assert init.attempt("os.fstat(90) and resource.getrlimit(resource.RLIMIT_NOFILE)[0]", fds={90: 2},
                        **limited(Limit("NOFILE", 20))) == "20"  # fmt: skip
