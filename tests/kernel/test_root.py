"""csrc/setup/root.c: the cage sees what its plan mounted and nothing else, and the host sees none of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .plans import ROOT, bare, flat, opened, plan, step

pytestmark = pytest.mark.guest


def host_mounts() -> str:
    return Path("/proc/self/mountinfo").read_text(encoding="utf-8")


def test_the_root_holds_what_the_plan_made_and_nothing_else() -> None:
    with opened(bare(ROOT, step("DIR", "/a"), step("FILE", "/b", data=""))) as init:
        assert sorted(os.listdir(init.root)) == ["a", "b"]


def test_the_old_root_is_not_mounted_anywhere() -> None:
    with opened(bare(ROOT, step("TMPFS", "/t"))) as init:
        assert {point: kind for point, (kind, _) in init.mounts().items()} == {"/": "tmpfs", "/t": "tmpfs"}


def test_the_root_is_the_end_of_every_way_up() -> None:
    with opened(plan(step("FILE", "/mark", data="cage"))) as init:
        assert init.sh("cd ../../..; cat mark ../mark /proc/self/root/mark /proc/1/root/mark").said == "cagecagecage"


def test_the_host_s_mounts_do_not_change() -> None:
    before = host_mounts()
    with opened(plan(step("TMPFS", "/t"))) as init:
        assert host_mounts() == before
        assert init.run("/bin/true").code == 0
    assert host_mounts() == before


def test_a_plan_without_a_mount_namespace_keeps_the_host_s_root() -> None:
    with opened(flat()) as init:
        assert init.attempt("os.readlink('/proc/self/ns/mnt')") == os.readlink("/proc/self/ns/mnt")
        assert init.attempt("os.stat('/').st_ino") == str(os.stat("/").st_ino)
