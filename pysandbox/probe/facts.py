"""HostFacts and PathFacts: the two looks at the world that `compile` is allowed to know about.

Both are plain frozen data, so that a test can compile for a kernel it does not run on. `probe.host.host_facts` takes
the first look, `probe.paths.stat_paths` the second; neither remembers anything, the caller keeps what it wants to keep.
"""

from __future__ import annotations

from collections.abc import Mapping

from pysandbox.shapes import TYPE_CHECKING, NamedTuple, dataclass, field

if TYPE_CHECKING:
    from pysandbox.policy.guarded import Guard
    from pysandbox.probe.searched import Searched

# Host directories on which a cage's root may be assembled, the least likely to hold anything granted first.
STAGING_CANDIDATES = ("/mnt", "/media", "/srv", "/opt", "/run", "/var/tmp", "/tmp", "/sys")


@dataclass(frozen=True, slots=True)
class CgroupFacts:
    """Where the groups of cages can be made, and what they can hold. `parent` "": nowhere; `reason` says why."""

    parent: str = ""  # a directory of the cgroup v2 tree
    controllers: tuple[str, ...] = ()  # of cpu, memory, pids: what a group below it can have
    way: str = ""  # "below" it; "leave" it first, for a leaf below it; "systemd": a scope from its D-Bus interface
    reason: str = ""  # what keeps it from more, and what to do about that
    bus: str = ""  # the socket of the D-Bus of that systemd
    born_inside: bool = True  # clone3 can place a cage there; else it is moved before its first order


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What one kernel and one caller can do; the names are those of the rows of `pysandbox check`."""

    kernel: tuple[int, int]
    machine: str  # uname -m: "x86_64" | "aarch64"
    uid: int
    gid: int
    landlock_abi: int  # 0: none
    user_namespaces: bool
    network_namespaces: bool
    mount_setattr: bool
    seccomp_filter: bool
    user_notif: bool
    wait_killable: bool
    proc_mountable: bool  # a new procfs can be mounted (a masked /proc, as in Docker, forbids it)
    env: Mapping[str, str] = field(default_factory=dict)  # the caller's environment, for expansion and passthrough
    cgroup: CgroupFacts = CgroupFacts()
    # "": the caller is not the host's own root; else whether its cages can do without root's id: "swapped" or "stays"
    root: str = ""
    # what copy-on-write lacks, a row of `pysandbox check`; "" is nothing, None not asked (`asked_for_overlays`)
    overlay: str | None = None
    nf_tables: bool | None = None  # None: not asked (`asked_for_redirects`), since only a cage with doors needs it


@dataclass(frozen=True, slots=True)
class PathFact:
    """One path as it is on the host.

    `links`: every symlink met on the way, (absolute path of the link, its literal target), in order.
    `real`: where it ends; when `kind` ("dir", "file", "socket", "other") is "missing", the first path that is missing.
    "placeholder" is a file of ours that stands for a name that is missing (`probe.placeholders`).
    `names`: how many hard links a file has. `loose`: those of `links` that the caller could replace.
    `unseen`: "missing" may be there: the caller may not search the directory that `real` lies in.
    """

    path: str
    real: str
    kind: str
    links: tuple[tuple[str, str], ...] = ()
    dev: int = 0
    ino: int = 0
    names: int = 1
    loose: tuple[str, ...] = ()
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class Executable:
    """What the kernel opens to start one file: the dynamic linker of an ELF, the program of a `#!` line, or nothing.

    `interpreter` is spelled as the file spells it; it is looked at only when it is absolute.
    """

    format: str  # "elf" | "script" | "other", which is also what cannot be read
    interpreter: str = ""


@dataclass(frozen=True, slots=True)
class ProtectedDirectory:
    """A directory of this package's own, which no cage is shown whatever it is granted.

    `closed`: it is a denial like any other, and a grant of it or into it is refused by name. Otherwise it is a guard,
    as for a project's policy files: shown empty, and where that cannot be done (landlock isolation) there is a note.
    """

    path: str
    what: str
    closed: bool


class Matched(NamedTuple):
    """What one pattern of the option `key` matched, and each directory that was read for it with the time of its last
    change (`probe.searched`). `trees`: what was granted."""

    key: str
    trees: tuple[str, ...]
    paths: tuple[str, ...]
    searched: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Repository:
    """What git needs of the working directory's repository outside of that (`probe.repository`), by real paths.

    `shown`: directories to be shown read-only. `git`: the one that a commit writes. `asked`: every name that was looked
    for; `read`: every file that was believed, with what it was then.
    """

    shown: tuple[str, ...] = ()
    git: str = ""
    asked: tuple[str, ...] = ()
    read: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class PathFacts:
    """Every path a policy names, plus the working directory and the candidates for the staging directory.

    `executables`: each file that `allow_execve` names, by its real path; their interpreters are among the `facts`.
    `kept`: the directories that this package keeps from every cage; they are among the `facts`.
    `guards`: what the grants of writing do not open; each path is among the `facts`.
    `searched`: where guards were looked for (`probe.searched`); `unsearched`: grants with more than was looked through.
    `configured`: the files that were looked into for what they lead git to, with what each was then.
    `patterns`: what each absolute pattern of a denial or a mask matches; those paths are among the `facts`.
    `written`: directories, by their real paths, that earlier cages of this program may have written.
    `accounts`: what stands for a file of the host's that does not know the caller (`probe.accounts`).
    `repository`: what is shown of the repository around the working directory; its paths are among the `facts`.
    `mounted`: what is mounted below the copy-on-write trees, by real paths. `not_overlaid`: those of them that no
    overlay can be laid over, with the name of their file system.
    `unmapped`: with `HostFacts.root`, what a cage of this policy may write and cannot be mapped, by real paths.
    `not_for_root`: with `HostFacts.root`, what no cage of root's may write, with why, by real paths.
    """

    cwd: str
    home: str
    facts: Mapping[str, PathFact]
    executables: Mapping[str, Executable] = field(default_factory=dict)
    kept: tuple[ProtectedDirectory, ...] = ()
    written: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    searched: tuple[Searched, ...] = ()
    unsearched: tuple[str, ...] = ()
    configured: tuple[tuple[str, tuple[int, ...]], ...] = ()
    accounts: Mapping[str, str] = field(default_factory=dict)
    patterns: Mapping[str, Matched] = field(default_factory=dict)
    mounted: tuple[str, ...] = ()
    not_overlaid: tuple[tuple[str, str], ...] = ()
    unmapped: tuple[str, ...] = ()
    not_for_root: tuple[tuple[str, str], ...] = ()
    repository: Repository = Repository()

    def __getitem__(self, path: str) -> PathFact:
        return self.facts[path]
