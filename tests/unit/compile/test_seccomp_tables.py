"""The numbers: libseccomp agrees wherever it knows the name; what it does not know yet is what newer kernels added."""

from __future__ import annotations

from contextlib import suppress

import pytest

from pysandbox.compile import syscalls
from pysandbox.compile.syscalls import MACHINES, table

pyseccomp = pytest.importorskip("pyseccomp")

# Linux 6.8 to 6.18: younger than any libseccomp these tests must run with.
YOUNG = {
    "cachestat": 451, "fchmodat2": 452, "map_shadow_stack": 453, "futex_wake": 454, "futex_wait": 455,
    "futex_requeue": 456, "statmount": 457, "listmount": 458, "lsm_get_self_attr": 459, "lsm_set_self_attr": 460,
    "lsm_list_modules": 461, "mseal": 462, "setxattrat": 463, "getxattrat": 464, "listxattrat": 465,
    "removexattrat": 466, "open_tree_attr": 467, "file_getattr": 468, "file_setattr": 469,
}  # fmt: skip


def theirs(machine: str, call: str | int) -> str | int | None:
    arch = {"x86_64": pyseccomp.Arch.X86_64, "aarch64": pyseccomp.Arch.AARCH64}[machine]
    try:
        found = pyseccomp.resolve_syscall(arch, call)
    except ValueError:
        return None
    return found.decode() if isinstance(found, bytes) else found


@pytest.mark.parametrize("machine", MACHINES)
def test_libseccomp_gives_every_name_the_same_number(machine: str) -> None:
    numbers = table(machine).numbers
    known = {name: theirs(machine, name) for name in numbers}
    agreed = {name: number for name, number in known.items() if isinstance(number, int) and number >= 0}
    assert len(agreed) > 300
    assert agreed == {name: numbers[name] for name in agreed}
    assert numbers.keys() - agreed.keys() <= YOUNG.keys() | {"uretprobe", "uprobe"}


@pytest.mark.parametrize("machine", MACHINES)
def test_no_number_that_libseccomp_knows_is_missing(machine: str) -> None:
    ours = syscalls.names(machine)
    for number in range(1001):
        name = theirs(machine, number)
        assert name is None or ours[number] == name


@pytest.mark.parametrize("machine", MACHINES)
def test_young_calls_have_their_number_on_every_machine(machine: str) -> None:
    assert YOUNG.items() <= table(machine).numbers.items()
    assert max(table(machine).numbers.values()) == 469
    assert len(set(table(machine).numbers.values())) == len(table(machine).numbers)


def test_the_architecture_words_are_the_documented_ones() -> None:
    assert (table("x86_64").audit_arch, table("aarch64").audit_arch) == (0xC000003E, 0xC00000B7)


def test_aarch64_has_only_the_forms_that_take_a_directory_descriptor() -> None:
    gone = """open creat stat lstat access chmod chown lchown mkdir rmdir mknod rename link unlink symlink readlink pipe
        dup2 fork vfork poll select epoll_create epoll_wait eventfd signalfd inotify_init getdents getpgrp pause alarm
        time utime utimes futimesat arch_prctl iopl ioperm modify_ldt"""
    assert not set(gone.split()) & table("aarch64").numbers.keys()
    assert set(gone.split()) <= table("x86_64").numbers.keys()
    assert table("aarch64").numbers.keys() <= table("x86_64").numbers.keys()


@pytest.mark.parametrize("name", ["umount", "socketcall", "clock_gettime64", "stime", "open", "arch_prctl"])
def test_a_name_only_another_machine_has_is_a_name(name: str) -> None:
    assert syscalls.is_name(name)


OTHERS = ("X86", "ARM", "MIPS", "MIPS64", "PPC", "PPC64LE", "S390X", "RISCV64", "PARISC")  # as tools/gen_syscalls.py


@pytest.mark.parametrize("label", OTHERS)
def test_every_name_that_libseccomp_has_for_another_machine_is_a_name(label: str) -> None:
    arch, names = getattr(pyseccomp.Arch, label), set()
    for number in (*range(7000), *range(0xF0000, 0xF0010)):
        with suppress(ValueError):
            names.add(pyseccomp.resolve_syscall(arch, number))
    found = {name.decode() if isinstance(name, bytes) else name for name in names} - {None, ""}
    assert len(found) > 200
    assert {name for name in found if not syscalls.is_name(name)} == set()


@pytest.mark.parametrize("name", ["opennat", "", "OPEN", "none", "syscalls"])
def test_anything_else_is_not(name: str) -> None:
    assert not syscalls.is_name(name)
