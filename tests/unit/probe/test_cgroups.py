"""Where cages' groups may be made, on pretended trees: top-down, no internal processes, one writer for each part."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from pysandbox.probe import cgroups
from pysandbox.probe.facts import CgroupFacts

ALL = "cpu io memory pids"
EVERY = ("cpu", "memory", "pids")
POINT = "/sys/fs/cgroup"
ME = 4711


class Tree:
    """A pretended host. A group is {path: (controllers, handed down, processes)}; the root of the tree is ""."""

    def __init__(self, root: Path, own: str, *, point: str = POINT, top: str = "/") -> None:
        self.root, self.point = root, point
        self.put("/proc/self/mountinfo", f"31 23 0:28 {top} {point} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n")
        self.put("/proc/self/cgroup", f"1:name=systemd:/x\n0::{own}\n")

    def put(self, path: str, text: str) -> Path:
        file = Path(f"{self.root}{path}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def group(self, path: str, controllers: str = ALL, down: str = "", procs: tuple[int, ...] = ()) -> Path:
        at = f"{self.point}/{path}".rstrip("/")
        self.put(f"{at}/cgroup.controllers", controllers)
        self.put(f"{at}/cgroup.subtree_control", down)
        self.put(f"{at}/cgroup.procs", "".join(f"{pid}\n" for pid in procs))
        return self.put(f"{at}/cgroup.type", "domain\n").parent

    def foreign(self, path: str = "") -> None:
        """Not ours: a file that has to be written is not there. (Root may write any that is.)"""
        (self.group(path) / "cgroup.subtree_control").unlink()

    def look(self, uid: int = 1000) -> CgroupFacts:
        return cgroups.find_cgroup(str(self.root), pid=ME, uid=uid)


def test_a_process_in_a_leaf_of_what_was_handed_to_it_makes_groups_beside_itself(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "/mine/leaf")
    tree.foreign()
    tree.group("mine")
    tree.group("mine/leaf", procs=(ME,))
    assert tree.look() == CgroupFacts(f"{POINT}/mine", EVERY, "below")


def test_controllers_that_are_handed_down_already_need_no_room(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "/mine/leaf")
    tree.foreign()
    tree.group("mine", down=ALL)
    tree.group("mine/leaf", procs=(ME, 7))
    assert tree.look() == CgroupFacts(f"{POINT}/mine", EVERY, "below")


def test_the_root_of_the_tree_may_have_processes_of_its_own(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "/")
    (tree.group("", procs=(1, ME)) / "cgroup.type").unlink()
    assert tree.look(uid=0) == CgroupFacts(POINT, EVERY, "below")


def test_a_process_alone_in_its_group_may_leave_it_for_a_leaf(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "/mine")
    tree.foreign()
    tree.group("mine", procs=(ME, 5000))
    tree.put("/proc/5000/status", f"Name:\tx\nPPid:\t{ME}\n")
    assert tree.look() == CgroupFacts(f"{POINT}/mine", EVERY, "leave")


def test_beside_somebody_else_s_process_nothing_is_moved_and_the_reader_is_told_what_to_do(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "/mine")
    tree.foreign()
    tree.group("mine", procs=(ME, 5000))
    tree.put("/proc/5000/status", "Name:\tx\nPPid:\t1\n")
    facts = tree.look()
    assert (facts.parent, facts.controllers, facts.way) == (f"{POINT}/mine", (), "below")
    assert f"mkdir {POINT}/mine/app" in facts.reason and "cpu, memory, pids" in facts.reason


def test_a_group_without_a_controller_is_still_good_for_what_it_has(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "/mine/leaf", point="/sys/fs/cgroup/unified")
    tree.foreign()
    tree.group("mine", controllers="memory")
    tree.group("mine/leaf", controllers="", procs=(ME,))
    assert tree.look() == CgroupFacts("/sys/fs/cgroup/unified/mine", ("memory",), "below",
                                      "/sys/fs/cgroup/unified/mine has no controller cpu, pids")  # fmt: skip


def test_a_part_of_the_tree_that_is_mounted_is_found_by_its_own_root(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "/docker/abc/leaf", top="/docker/abc")
    tree.group("", down=ALL)
    tree.group("leaf", procs=(ME,))
    assert tree.look(uid=0) == CgroupFacts(POINT, EVERY, "below")


@pytest.mark.parametrize(("own", "top", "why"), [
    ("/other", "/docker/abc", "outside"),
    ("/../other", "/docker/abc", "outside"),
    ("/docker/abcd", "/docker/abc", "outside"),
])  # fmt: skip
def test_a_group_that_is_not_mounted_cannot_be_used(own: str, top: str, why: str, tmp_path: Path) -> None:
    facts = Tree(tmp_path, own, top=top).look()
    assert facts.parent == "" and why in facts.reason


@pytest.mark.parametrize(("path", "text", "why"), [
    ("/proc/self/mountinfo", "", "no cgroup v2 tree"),
    ("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "no cgroup v2 tree"),
    ("/proc/self/cgroup", "4:memory:/x\n", "in no cgroup v2 group"),
])  # fmt: skip
def test_a_host_without_cgroup_v2_says_so(path: str, text: str, why: str, tmp_path: Path) -> None:
    tree = Tree(tmp_path, "/mine")
    tree.put(path, text)
    assert tree.look().parent == "" and why in tree.look().reason


def test_what_was_not_handed_to_this_user_is_left_alone(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "/user.slice/session")
    tree.foreign("user.slice/session")
    assert tree.look() == CgroupFacts(reason=f"{POINT}/user.slice/session was not handed to this user")


# ---- where systemd owns the tree --------------------------------------------------------------------------------


def managed(tmp_path: Path, own: str) -> Tree:
    tree = Tree(tmp_path, own)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    return tree


def mark(group: Path) -> None:
    try:
        os.setxattr(group, cgroups.MARK, b"1")
    except OSError:
        pytest.skip("the temporary directory has no extended attributes: use another TMPDIR")


def test_systemd_s_own_groups_are_left_alone_also_by_root(tmp_path: Path) -> None:
    tree = managed(tmp_path, "/user.slice/session")
    (tree.group("", down=ALL) / "cgroup.type").unlink()
    tree.group("user.slice", down=ALL)
    tree.group("user.slice/session", procs=(ME,))
    assert tree.look(uid=0).parent == ""


def test_what_systemd_has_delegated_is_used_and_nothing_above_it(tmp_path: Path) -> None:
    tree = managed(tmp_path, "/app.slice/mine.scope/leaf")
    tree.group("app.slice", down=ALL)
    mark(tree.group("app.slice/mine.scope", controllers="memory pids"))
    tree.group("app.slice/mine.scope/leaf", controllers="", procs=(ME,))
    facts = tree.look()
    assert (facts.parent, facts.controllers) == (f"{POINT}/app.slice/mine.scope", ("memory", "pids"))


def test_what_is_delegated_to_the_user_s_own_systemd_is_not_ours(tmp_path: Path) -> None:
    tree = managed(tmp_path, "/user@1000.service/app.slice/x.scope")
    mark(tree.group("user@1000.service", down=ALL))
    tree.group("user@1000.service/app.slice", down=ALL)
    tree.group("user@1000.service/app.slice/x.scope", procs=(ME,))
    assert tree.look().parent == ""


def with_bus(tree: Tree, monkeypatch: pytest.MonkeyPatch, *, library: bool) -> None:
    tree.put("/run/user/1000/bus", "")
    tree.group("user.slice/user-1000.slice/user@1000.service")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if library else None)


def test_where_nothing_is_delegated_the_user_s_systemd_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = managed(tmp_path, "/user.slice/session")
    tree.foreign("user.slice/session")
    with_bus(tree, monkeypatch, library=True)
    bus = f"{tmp_path}/run/user/1000/bus"
    assert tree.look() == CgroupFacts(POINT, EVERY, "systemd", bus=bus)
    assert tree.look(uid=1001).parent == ""


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = managed(tmp_path, "/user.slice/session")
    tree.foreign("user.slice/session")
    with_bus(tree, monkeypatch, library=False)
    assert tree.look().parent == "" and "pip install 'pysandbox[systemd]'" in tree.look().reason


def test_a_delegated_group_with_everything_is_preferred_to_asking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = managed(tmp_path, "/mine/leaf")
    mark(tree.group("mine"))
    tree.group("mine/leaf", procs=(ME,))
    with_bus(tree, monkeypatch, library=True)
    assert tree.look().way == "below"
