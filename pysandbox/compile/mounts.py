"""The mounts of a full cage, as data and in order, and the host directory to assemble them on.

The order is what makes them sound (T28): the root and what it holds, the read-only trees under one recursive
protection, the links, /dev, the cage's own tmpfs, then every tree that is writable or lies below one, then /proc, then
masks and denials, which nothing may follow. Whatever is laid over a name inside a writable tree has the directories
above it pinned: bound onto themselves, they cannot be renamed away and put back with other content. What that costs is
that a rename across a pinned directory is EXDEV.

What remains of T52: /proc/PID/mountinfo of every process of the cage but its init can be read by that process. It names
the devices below the binds, and paths that are the same inside as outside.
"""

from __future__ import annotations

from collections.abc import Iterator

from pysandbox.compile.cow import is_on_disk, overlays, upper_steps
from pysandbox.compile.exec_list import is_open, own_places, places_inside
from pysandbox.compile.limits import tmpfs_options
from pysandbox.compile.network import HOSTS
from pysandbox.compile.plan import DEVICES, LAYERS, SCRATCH, Attr, MountKind, MountStep
from pysandbox.compile.trust import trust_steps
from pysandbox.compile.view import ShownTree, View, nearest, parent
from pysandbox.errors import UnsupportedError
from pysandbox.policy.model import Policy
from pysandbox.policy.way_out import inspects
from pysandbox.probe.facts import STAGING_CANDIDATES, PathFact, PathFacts
from pysandbox.shapes import replace

READ_ONLY = (Attr.RDONLY, Attr.NOSUID, Attr.NODEV)
WRITABLE = (Attr.NOSUID, Attr.NODEV)

# Made once: MountStep is frozen, and these are the same in every cage.
SEAL = (
    MountStep(MountKind.PROTECT, "/", attrs=READ_ONLY),
    MountStep(MountKind.UNPROTECT_ROOT, "/"),
)
NOEXEC = MountStep(MountKind.PROTECT, "/", attrs=(Attr.NOEXEC,))
# After the seal: under NODEV no device could be opened. The ptys are of an instance that shows no other's (FS-12),
# and has a twelfth of those that all instances but the host's own share (kernel.pty.max - kernel.pty.reserve, 3072).
NODES = tuple(MountStep(MountKind.BIND, path, path, optional=path != "/dev/null") for path in DEVICES)
DEV = (
    MountStep(MountKind.DEVPTS, "/dev/pts", data="newinstance,mode=600,ptmxmode=666,max=256"),
    MountStep(MountKind.SYMLINK, "/dev/ptmx", "pts/ptmx"),
    MountStep(MountKind.SYMLINK, "/dev/fd", "/proc/self/fd"),
    MountStep(MountKind.SYMLINK, "/dev/stdin", "/proc/self/fd/0"),
    MountStep(MountKind.SYMLINK, "/dev/stdout", "/proc/self/fd/1"),
    MountStep(MountKind.SYMLINK, "/dev/stderr", "/proc/self/fd/2"),
)
HIDDEN_IN_PROC = ("kcore", "keys", "key-users", "sysrq-trigger", "timer_list", "latency_stats", "kallsyms", "schedstat",
                  "1/mountinfo")  # fmt: skip
PROC = (
    MountStep(MountKind.PROC, "/proc"),
    MountStep(MountKind.PIN, "/proc/sys", inside_bind=True),
    MountStep(MountKind.PROTECT, "/proc/sys", attrs=READ_ONLY, inside_bind=True),
    MountStep(MountKind.MQUEUE, "/dev/mqueue", optional=True),
    *(MountStep(MountKind.MASK_FILE, f"/proc/{name}", optional=True, inside_bind=True) for name in HIDDEN_IN_PROC),
    *(MountStep(MountKind.MASK_DIR, f"/proc/{name}", optional=True, inside_bind=True) for name in ("acpi", "scsi")),
)
# A cage that root starts may have root's id outside (`identity`), which owns the device nodes and the files of /proc
# that trust their mode alone; for one that has not it is a second wall. The nodes are the host's own: on a read-only
# mount they are written to, but keep mode, owner and times. Of /proc, what sets the hardware is read-only, and what
# tells of the kernel's memory is empty (the lists of runc, and more). Other users own none of it, and save the mounts.
READ_ONLY_NODES = tuple(replace(step, attrs=(Attr.RDONLY, Attr.NOSUID, Attr.NOEXEC)) for step in NODES)
SET_IN_PROC = ("bus", "driver", "fs", "irq", "tty")
HIDDEN_FROM_ROOT = ("interrupts", "kpagecount", "kpageflags", "kpagecgroup", "vmallocinfo", "slabinfo", "pagetypeinfo",
                    "timer_stats", "sched_debug", "mtrr", "iomem", "ioports", "kmsg", "allocinfo")  # fmt: skip
PROC_OF_ROOT = (
    *(step for name in SET_IN_PROC for step in (
        MountStep(MountKind.PIN, f"/proc/{name}", inside_bind=True, optional=True),
        MountStep(MountKind.PROTECT, f"/proc/{name}", attrs=READ_ONLY, inside_bind=True, optional=True),
    )),
    *(MountStep(MountKind.MASK_FILE, f"/proc/{name}", optional=True, inside_bind=True) for name in HIDDEN_FROM_ROOT),
    MountStep(MountKind.MASK_DIR, "/proc/asound", optional=True, inside_bind=True),
    MountStep(MountKind.MASK_DIR, "/proc/dynamic_debug", optional=True, inside_bind=True),
)  # fmt: skip
# The modes of its files are one for all instances: root's id could take /proc/meminfo from every user of the host.
PROC_OF_ITS_OWNER = (MountStep(MountKind.PROTECT, "/proc", attrs=READ_ONLY),)
OWN_TMPFS = ("/tmp", "/dev/shm")
KINDS = {
    ("mask", False): MountKind.MASK_FILE,
    ("mask", True): MountKind.MASK_DIR,
    ("deny", False): MountKind.DENY_FILE,
    ("deny", True): MountKind.DENY_DIR,
}


def mount_steps(
    policy: Policy, paths: PathFacts, view: View, *, as_root: bool = False, owns_proc: bool = False
) -> tuple[MountStep, ...]:
    """`as_root`: root starts the cage; `owns_proc`: and it keeps the id of the host's root."""
    if policy.isolation != "full":
        return ()
    size = tmpfs_options(policy)
    early: list[ShownTree] = []
    late: list[ShownTree] = []
    for real, tree in view.trees.items():
        (late if _comes_late(real, tree, view) else early).append(tree)
    own = own_places(policy, view.programs)
    links = [MountStep(MountKind.SYMLINK, link, target) for link, target in view.links.items()]
    return (
        MountStep(MountKind.TMPFS, "/", data=f"{size},mode=755"),
        *(MountStep(MountKind.DIR, path, mode=mode) for path, mode in own_directories(policy, paths, view).items()),
        *(_bind(tree, view) for tree in early if view.programs is None or not _is_open(tree, view)),
        *(
            MountStep(MountKind.FILE, path, data=text, mode=0o644, named=path == HOSTS)
            for path, text in view.own.items()
        ),
        *(step for step in links if not _on_tmp(step.target)),
        *_executable(early, view),
        *SEAL,
        *(READ_ONLY_NODES if as_root else NODES),
        *DEV,
        *(_own_tmpfs(path, size, path in own) for path in OWN_TMPFS),
        *_scratch(policy, size, view),
        *_home_on_tmp(policy, paths, view),
        *(step for step in links if _on_tmp(step.target)),
        *_laid_late(policy, late, view),
        *(trust_steps(paths, view) if inspects(policy) else ()),
        *PROC,
        *(PROC_OF_ROOT if as_root else ()),
        *(PROC_OF_ITS_OWNER if owns_proc else ()),
        *_cover("mask", view),
        *_cover("deny", view),
    )


def _laid_late(policy: Policy, late: list[ShownTree], view: View) -> Iterator[MountStep]:
    """What lies above the seal, with the layers of what is copy-on-write."""
    steps = [step for tree in late for step in _bind_late(tree, view)]
    if not any(tree.cow for tree in late):
        yield from steps
        return
    yield from upper_steps(policy)
    yield from overlays(steps)


def own_directories(policy: Policy, paths: PathFacts, view: View) -> dict[str, int]:
    """Directories of the cage's own root, with their modes; what is granted or linked there takes their place."""
    wanted = {"/var/tmp": 0o1777}
    if policy.state == "ephemeral":
        wanted["/scratch"] = 0o755
    if policy.run_as != "nobody":
        wanted[_home(paths)] = 0o700
    taken = (view.trees, view.links, dict.fromkeys((*OWN_TMPFS, "/proc", "/dev"), True))
    return {path: mode for path, mode in wanted.items()
            if path != "/" and all(nearest(path, table) is None for table in taken)}  # fmt: skip


def _home(paths: PathFacts) -> str:
    home = paths[paths.home]
    return paths.home if home.kind == "missing" else home.real


def _home_on_tmp(policy: Policy, paths: PathFacts, view: View) -> Iterator[MountStep]:
    """A home directory below /tmp is made on the cage's own /tmp; $HOME says that it is there."""
    home = _home(paths)
    shown = nearest(home, view.trees) is not None or nearest(home, view.links) is not None
    if policy.run_as != "nobody" and _on_tmp(home) and not shown:
        yield MountStep(MountKind.DIR, home, mode=0o700)


def mapped(steps: tuple[MountStep, ...], view: View) -> tuple[MountStep, ...]:
    """The steps for a cage without root's id: a tree that it may write has to be mapped to the cage's own user id."""
    return tuple(replace(step, must_map=True) if _is_written(step, view) else step for step in steps)


def _is_written(step: MountStep, view: View) -> bool:
    if step.kind is MountKind.OVERLAY or step.source.startswith(LAYERS):
        return True
    if step.kind is not MountKind.BIND or step.source not in (SCRATCH, step.target):
        return False
    tree = view.trees.get(step.source)
    return step.source == SCRATCH or (tree is not None and tree.writable)


def staging(policy: Policy, paths: PathFacts, view: View) -> str:
    """A directory that hides no source when a tmpfs lies on it, and that no source contains."""
    if policy.isolation != "full":
        return ""
    ours = [paths[kept.path].real for kept in paths.kept] if is_on_disk(policy) else []
    sources = dict.fromkeys((*view.trees, *DEVICES, *ours), True)
    above = {"/"}
    for source in sources:
        while source not in above:
            above.add(source)
            source = parent(source)
    for candidate in STAGING_CANDIDATES:
        fact = paths[candidate]
        free = candidate not in above and nearest(candidate, sources) is None
        if free and fact.kind == "dir" and fact.real == candidate:
            return candidate
    raise UnsupportedError(
        f"no host directory is free to assemble the cage's root on ({', '.join(STAGING_CANDIDATES)})",
        feature="staging", fix="create an empty /mnt, or grant directories below these instead of these",
    )  # fmt: skip


def _on_tmp(path: str) -> bool:
    return path.startswith(("/tmp/", "/scratch/"))


def _comes_late(real: str, tree: ShownTree, view: View) -> bool:
    """Whether the one protection over everything comes too early for it, or is too much."""
    return tree.writable or _on_tmp(real) or view.enclosing(real) is not None


def _bind(tree: ShownTree, view: View) -> MountStep:
    fact = tree.fact
    inside = view.enclosing(fact.real) is not None
    return MountStep(MountKind.BIND, fact.real, fact.real, optional=tree.optional, inside_bind=inside,
                     dev=fact.dev, ino=fact.ino)  # fmt: skip


def _bind_late(tree: ShownTree, view: View) -> Iterator[MountStep]:
    real = tree.fact.real
    bind = _bind(tree, view)
    yield _bind_apart(bind, view) if tree.cow else bind
    if tree.writable:
        for pin in _pins(real, view):
            yield MountStep(MountKind.PIN, pin, inside_bind=True)
    attrs = WRITABLE if tree.writable else READ_ONLY
    shut = () if _is_open(tree, view) else (Attr.NOEXEC,)
    yield MountStep(MountKind.PROTECT, real, attrs=(*attrs, *shut), inside_bind=bind.inside_bind)
    for place in places_inside(real, view):
        yield _bind_executable(place, view)
        yield MountStep(MountKind.PROTECT, place.real, attrs=attrs, inside_bind=True)


def _bind_apart(bind: MountStep, view: View) -> MountStep:
    place = view.copies.get(bind.target)
    return replace(bind, kind=MountKind.OVERLAY) if place is None else replace(bind, source=place, dev=0, ino=0)


def _executable(early: list[ShownTree], view: View) -> Iterator[MountStep]:
    """With a list of executables: everything so far is noexec, and what may be executed or mapped is laid over it."""
    if view.programs is None:
        return
    yield NOEXEC
    for tree in early:
        if _is_open(tree, view):
            yield _bind(tree, view)
        yield from (_bind_executable(place, view) for place in places_inside(tree.fact.real, view))


def _is_open(tree: ShownTree, view: View) -> bool:
    return is_open(tree.fact.real, tree.writable, view)


def _bind_executable(place: PathFact, view: View) -> MountStep:
    """Optional but for a listed file: without a library directory a program does not start, and says why."""
    programs = view.programs
    listed = programs is not None and place.real in programs.files
    return MountStep(MountKind.BIND, place.real, place.real, optional=not listed, inside_bind=True,
                     dev=place.dev, ino=place.ino)  # fmt: skip


def _pins(real: str, view: View) -> list[str]:
    """The directories between the writable tree and anything laid over a name in it, parents first."""
    pins = set()
    for covered in (*view.trees, *view.holes):
        if covered.startswith(f"{real}/"):
            above = view.enclosing(covered)
            if above is not None and above.fact.real == real:
                between = parent(covered)
                while between != real:
                    pins.add(between)
                    between = parent(between)
    return sorted(pins)


def _own_tmpfs(path: str, size: str, is_executable: bool) -> MountStep:
    attrs = () if is_executable else (Attr.NOEXEC,)
    return MountStep(MountKind.TMPFS, path, data=f"{size},mode=1777", attrs=attrs)


def _scratch(policy: Policy, size: str, view: View) -> Iterator[MountStep]:
    """The /scratch of a session; or one of the cage's own, if what the cage writes there may be executed: the root is
    noexec."""
    is_executable = "/scratch" in own_places(policy, view.programs)
    if policy.state == "scratch":
        yield MountStep(MountKind.BIND, "/scratch", SCRATCH)
        yield MountStep(MountKind.PROTECT, "/scratch", attrs=WRITABLE if is_executable else (*WRITABLE, Attr.NOEXEC))
    elif view.programs is not None and is_executable:
        yield MountStep(MountKind.TMPFS, "/scratch", data=f"{size},mode=755")


def _cover(kind: str, view: View) -> Iterator[MountStep]:
    for real, hole in view.holes.items():
        if hole.kind == kind:
            yield MountStep(KINDS[kind, hole.fact.kind == "dir"], real, inside_bind=True, optional=hole.by_pattern)
