"""Which files of `upstream_ca` a Plan is made with: those that no cage could have changed, or could change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from golden.pretend import MODERN, PROJECT, TREE, grants, look, no_filter
from pysandbox.compile.compiler import compile_plan
from pysandbox.errors import SandboxCompileError
from pysandbox.policy.model import Policy

OURS, THEIRS, LINK = f"{PROJECT}/certs/ca.pem", "/etc/company/ca.pem", f"{PROJECT}/link.pem"
PLANTED = f"{TREE}\n{OURS}\n{THEIRS}\n{LINK} -> {THEIRS}\n"
HOSTS = [{"domain": "api.example", "methods": ["GET"]}]


def planned(ca: str, cwd: str = "/", written: tuple[str, ...] = (), **options: Any) -> Any:
    policy = Policy(hosts=HOSTS, proxy_upstream_ca=[ca], **options)
    paths = replace(look(policy, cwd=cwd, tree=PLANTED), written=written)
    return compile_plan(policy, MODERN, paths, compile_filter=no_filter)


@pytest.mark.parametrize(
    "options",
    [
        {}, {"allow": grants(PROJECT)}, {"allow_write": grants("/data")}, {"cow": grants(PROJECT)},
        {"allow_write": grants(PROJECT), "allow": grants(f"{PROJECT}/certs")},
        {"allow_write": grants(PROJECT), "deny": grants(OURS)},
    ],
)  # fmt: skip
def test_what_no_cage_writes_is_read(options: dict[str, Any]) -> None:
    assert planned(OURS, **options).net.inspection.upstream_ca == (OURS,)


@pytest.mark.parametrize(
    "options",
    [
        {"allow_write": grants(PROJECT)}, {"allow_write": grants(OURS)}, {"workdir": "write", "cwd": PROJECT},
        {"allow_write": grants(PROJECT), "deny": grants(f"{PROJECT}/src")},
    ],
)  # fmt: skip
def test_what_the_cage_may_write_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SandboxCompileError, match="the cage may write") as caught:
        planned(OURS, **options)
    assert caught.value.key == "proxy.upstream_ca" and f'deny = ["{OURS}"]' in str(caught.value)


def test_so_is_what_an_earlier_one_may_have_written() -> None:
    with pytest.raises(SandboxCompileError, match="an earlier cage of this program may have written"):
        planned(OURS, written=(PROJECT,))
    planned(THEIRS, written=(PROJECT,))  # CONTROL


def test_so_is_a_link_that_a_cage_may_replace() -> None:
    with pytest.raises(SandboxCompileError, match="leads through"):
        planned(LINK, allow_write=grants(PROJECT))
    planned(LINK)  # CONTROL


@pytest.mark.parametrize(("path", "why"), [("/etc/company", "no regular file"), ("/etc/absent.pem", "does not exist")])
def test_what_is_no_file_is_told(path: str, why: str) -> None:
    with pytest.raises(SandboxCompileError, match=why):
        planned(path)
