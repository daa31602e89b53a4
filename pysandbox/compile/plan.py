"""The Plan: an exact, kernel-shaped work order. C carries it out without deciding anything.

A Plan is plain frozen data, equal for equal inputs, with a stable digest. It names kernel objects by their kernel
names; numbers that C also needs (mount kinds, flags) are named here and resolved in `launch.structs` against
csrc/abi.h, so that there is no second list. Strict, monitor and missing kernel features have been compiled away.
"""

from __future__ import annotations

from enum import Enum

from pysandbox.note import Note
from pysandbox.policy.endpoint import Endpoint
from pysandbox.sha256 import sha256
from pysandbox.shapes import TYPE_CHECKING, dataclass

if TYPE_CHECKING:
    from pysandbox.policy.own_detector import ScanDetector
    from pysandbox.policy.parent import ParentProxy

# Stands, as a whole value of `env` or a whole `source`, for a directory that only the launcher can name: fresh for each
# cage, or one for the session (state = "scratch"). A LandlockRule with path "" is the rule on the same directory.
SCRATCH = "PSB_SCRATCH"

# Stands, as a whole `source`, for a file that only the launcher can name, with what its cages trust (`gate.trusted`).
TRUST = "PSB_TRUST"

# Stands, as the whole `source` of UPPER, for a directory that only the launcher can name: one for each cage, on disk.
# With a path below it, as the source of BIND or the path of a LandlockRule, it is where a CopiedTree lies.
LAYERS = "PSB_LAYERS"

# The host files that a plan may name without their inode, as csrc/setup/mounts.c has them: no user can replace one.
DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "random", "urandom", "tty"))  # FS-12: and no other node


class MountKind(Enum):
    """One mount or file system step; the value is the suffix of PSB_MOUNT_* in csrc/abi.h."""

    DIR = "DIR"  # mkdir -p target, mode
    FILE = "FILE"  # a regular file at target with content `data`, mode
    SYMLINK = "SYMLINK"  # target -> source
    BIND = "BIND"  # recursive bind of source (a real host path) onto target
    PIN = "PIN"  # recursive bind of target onto itself, so that it cannot be renamed away
    TMPFS = "TMPFS"  # tmpfs at target, options in data ("size=...,mode=...")
    PROC = "PROC"  # new procfs at target
    DEVPTS = "DEVPTS"  # new devpts instance at target
    MQUEUE = "MQUEUE"  # POSIX message queues of the cage's IPC namespace at target
    MASK_FILE = "MASK_FILE"  # the cage's own /dev/null over target: reads as empty
    MASK_DIR = "MASK_DIR"  # an empty read-only directory over target
    DENY_FILE = "DENY_FILE"  # an unreadable file (mode 0) over target: EACCES
    DENY_DIR = "DENY_DIR"  # an unreadable directory (mode 0) over target: EACCES
    PROTECT = "PROTECT"  # mount_setattr(target, attributes), recursive
    UPPER = "UPPER"  # for the layers of all OVERLAY steps: tmpfs, options in data, or LAYERS; no path leads there
    OVERLAY = "OVERLAY"  # overlay of source (a real host path) and the layers that data names, at target
    UPPER_GIVEN = "UPPER_GIVEN"  # the host gets a descriptor of UPPER, which is detached
    UNPROTECT_ROOT = "UNPROTECT_ROOT"  # make the cage's own root tmpfs writable again after a recursive PROTECT of /


class Attr(Enum):
    """mount_setattr(2) attributes; the value is the suffix of MOUNT_ATTR_*."""

    RDONLY = "RDONLY"
    NOSUID = "NOSUID"
    NODEV = "NODEV"
    NOEXEC = "NOEXEC"


@dataclass(frozen=True, slots=True)
class MountStep:
    """`target` is a path inside the cage, absolute. `source` a real host path (no symlink in it) for BIND and
    OVERLAY.

    `optional`: what is not there is skipped (grants and /proc masks only; a denial is never optional).
    `dev`, `ino`: what the source must still be when it is bound, reached without any symlink. A source without them is
    one of DEVICES, or one whose inode the launcher fills in (SCRATCH, TRUST, LAYERS): any other would lead where its
    path leads by then.
    `inside_bind`: the target lies inside a bind, so it is opened without following symlinks.
    `named`: the cage's host name, which is known when it starts, ends a FILE.
    `must_map`: in a cage without root's id (`Plan.unrooted`) it is an error when the source cannot be mapped.
    """

    kind: MountKind
    target: str
    source: str = ""
    data: str = ""
    mode: int = 0o755
    attrs: tuple[Attr, ...] = ()
    optional: bool = False
    inside_bind: bool = False
    dev: int = 0
    ino: int = 0
    named: bool = False
    must_map: bool = False

    def __post_init__(self) -> None:
        takes = self.kind is MountKind.OVERLAY or (
            self.kind is MountKind.BIND
            and self.source not in (*DEVICES, SCRATCH, TRUST)
            and not self.source.startswith(f"{LAYERS}/")
        )
        if takes and not self.ino:
            raise ValueError(f"{self.source!r} would be bound without having been looked at")


@dataclass(frozen=True, slots=True)
class LandlockRule:
    """Rights (landlock access names without the LANDLOCK_ACCESS_FS_ prefix) below one path as seen in the cage.

    The path "" is the scratch directory (see SCRATCH). With `ino` the path must still be that inode when it is opened.
    """

    path: str
    access: tuple[str, ...]
    optional: bool = False
    dev: int = 0
    ino: int = 0


@dataclass(frozen=True, slots=True)
class LandlockPlan:
    """What landlock_create_ruleset handles and the rules. `handled_net` and `scoped` may be empty on old ABIs."""

    handled_fs: tuple[str, ...]
    handled_net: tuple[str, ...]
    scoped: tuple[str, ...]
    rules: tuple[LandlockRule, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """One setrlimit(2): `resource` without RLIMIT_, soft = hard = value; None is RLIM_INFINITY."""

    resource: str
    value: int | None


@dataclass(frozen=True, slots=True)
class Setting:
    """One file of a cgroup and what is written to it. Without `optional` a failure refuses the cage."""

    file: str
    value: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class CgroupPlan:
    """The cgroup a cage is born in: below `parent`, by `way` (see CgroupFacts), with `controllers` handed down."""

    parent: str
    way: str
    controllers: tuple[str, ...]
    settings: tuple[Setting, ...]
    born_inside: bool = True
    bus: str = ""


@dataclass(frozen=True, slots=True)
class WatchPlan:
    """What a sampling watchdog holds because no controller does; None is not watched."""

    memory: int | None = None  # bytes of the whole cage
    cpu: float | None = None  # CPU seconds for each second
    scratch: int | None = None  # bytes below the cage's directory on the host
    tmpfs: tuple[str, ...] = ()  # the cage's own memory file systems, which count as memory
    memfds: bool = False  # commands may make memory files, so descriptors are looked at too
    pids: int | None = None  # processes and threads at once, without cage-init
    written: int | None = None  # bytes to files of the host


@dataclass(frozen=True, slots=True)
class SocketGrant:
    """A unix socket of the host's, by its real path, and the file that it was when it was looked at."""

    path: str
    dev: int
    ino: int


@dataclass(frozen=True, slots=True)
class NotifyPlan:
    """Which calls the filter hands to the supervisor, and what becomes of them. Classes and actions are named as in
    csrc/host/notify/notify.h, without PSB_CALL_ and PSB_ACTION_.

    `actions`: (class, action) of every class that is not left to the kernel. `endpoints`: what LIST allows.
    `no_external_reach`: a call that is let pass reaches nothing outside the cage, whatever it is changed to meanwhile.
    `grants`: reached through a socket of the host's network, which takes the place of the cage's own; `named`: the
    same, for the addresses that names stand for (`Supervision.grant_address`). `landlock_denies_bind`: Landlock refuses
    every bind of a TCP port that is not done on behalf. `on_host`: there is no namespace; of unix sockets, `sockets`
    may be connected to, where `keeps_ports`, no port of the host is bound, and with `doors` the addresses of doors lead
    to the gatekeeper, connection by connection, and nowhere else. `verdicts`: where the filter hands over what it
    refuses, as it would be otherwise, which tells what becomes of each. `watches_paths`: what calls are refused of the
    files that they name is told.
    """

    calls: tuple[str, ...]
    actions: tuple[tuple[str, str], ...]
    endpoints: tuple[Endpoint, ...]
    no_external_reach: bool
    abstract: bool
    refuse_control: bool
    lenient: bool
    programs: tuple[str, ...] | None  # the only files (real paths) and trees (`/dir/*`) that may be executed
    grants: tuple[Endpoint, ...] = ()
    named: tuple[Endpoint, ...] = ()
    landlock_denies_bind: bool = False
    on_host: bool = False
    keeps_ports: bool = False
    doors: bool = False
    sockets: tuple[SocketGrant, ...] = ()
    verdicts: bytes = b""
    watches_paths: bool = False

    @property
    def leads_out(self) -> bool:
        """Whether the cage may be given sockets of the host's network."""
        return bool(self.grants or self.named)


@dataclass(frozen=True, slots=True)
class Door:
    """A socket in the cage's network namespace that the gatekeeper serves. `kind`: what is spoken there: dns, socks,
    http; tcp, where redirected connections arrive; lost and refused hear of datagrams that arrive nowhere, and of
    connections that the kernel refuses."""

    kind: str
    protocol: str  # "tcp", which listens, "udp", "raw" or "syn"; "handed": without a namespace, by the supervisor
    address: str  # IPv4
    port: int  # 0: not bound


@dataclass(frozen=True, slots=True)
class Contract:
    """Which requests a host may be sent. () allows any, None is no limit."""

    methods: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    content_types: tuple[str, ...] = ()
    max_request_bytes: int | None = None
    ports: tuple[int, ...] = ()  # that its block names
    websocket: bool = False  # one may be opened
    credentials: tuple[str, ...] = ()  # detectors whose finds it may be sent
    told: bool = False  # each request is an event: nobody has said yet what this host may be sent
    private: tuple[str, ...] = ()  # addresses of private networks that its block names


ANY_REQUEST = Contract()  # looked at, and held to nothing
ANY_MESSAGE = Contract(websocket=True)
UNKNOWN = Contract(websocket=True, told=True)  # of a host without a block, under contract_mode = "relaxed"


@dataclass(frozen=True, slots=True)
class HostGrant:
    """A name or pattern (T03: example.com, *.example.com, **.example.com) that may be reached."""

    pattern: str
    ports: tuple[int, ...]  # () is any
    direct: bool  # by a socket of the host's own, without a relay that looks at the names in it
    contract: Contract | None = None  # each request is held against it, by the inspector; None: nothing looks
    websocket: bool = False  # one may be opened, also where requests are looked at for a secret alone
    private: tuple[str, ...] = ()  # addresses of private networks to which the name may lead


@dataclass(frozen=True, slots=True)
class SecretGrant:
    """A value that the inspector puts in place of a placeholder: where it is, never what it is."""

    name: str  # the variable of the cage
    source: str  # env:NAME, file:/PATH or given
    hosts: tuple[str, ...]  # names and patterns
    places: tuple[str, ...]  # header:NAME, query:KEY, basic, body


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """How all that is sent is looked through for credentials."""

    depth: int  # of encodings inside each other
    whole: int  # bytes of a body that are looked at together
    scopes: tuple[tuple[str, tuple[str, ...]], ...]  # more homes, by detector
    warns: bool  # what is found is told and passed on
    budget: int  # opaque bytes that one host may be sent in one session
    detectors: tuple[ScanDetector, ...] = ()  # besides those that every scan has
    canaries: tuple[str, ...] = ()  # variables with a false credential
    blocks_opaque: bool = False  # none of them at all, but of digests and UUIDs
    any_bearer: bool = True  # whatever follows the word is a credential; else what has a form of its own
    undoes_codings: bool = True  # of bodies; else what has a Content-Encoding is refused
    told_share: float = 0.92  # of what their alphabet gives, from which labels of a name are told


@dataclass(frozen=True, slots=True)
class InspectionPlan:
    """What the inspector holds every host of a cage to that has a contract."""

    timeout_ms: int  # for a server to answer
    most_bytes: int  # of a request's body
    upstream_ca: tuple[str, ...] = ()  # files of the host with certificates to be trusted besides the host's own
    secrets: tuple[SecretGrant, ...] = ()
    scan: ScanPlan | None = None  # None: nothing is looked for
    upstream_scheme: str = ""  # "http" | "h2c": servers are spoken to without TLS; "": as the client speaks


@dataclass(frozen=True, slots=True)
class Published:
    """A port of the cage on the host."""

    address: str
    port: int
    inside: int
    protocol: str  # "tcp" | "udp"


@dataclass(frozen=True, slots=True)
class NetPlan:
    """The doors of a cage, and what the gatekeeper lets through them. A cage without a way out or in has none."""

    doors: tuple[Door, ...]
    routes: bytes  # rtnetlink(7) messages, each with NLM_F_ACK, sent inside the cage's network namespace
    redirect: bytes  # one batch of nf_tables messages; empty where the kernel has no nf_tables
    hosts: tuple[HostGrant, ...]
    endpoints: tuple[Endpoint, ...]  # network.allow_ips
    published: tuple[Published, ...]
    loopback_ports: tuple[int, ...] | None  # of the host, as host.pysandbox.internal; () is any, None is none
    bridge: str  # of the routed back end, which gives the cage an interface; "" is doors alone
    ipv6: str  # what an AAAA question about an allowed name gets (T04): "nodata" | "nxdomain" | "resolve"
    inspection: InspectionPlan | None = None  # None: no host has a contract
    parent: ParentProxy | None = None


@dataclass(frozen=True, slots=True)
class CopiedTree:
    """A copy-on-write tree of which the cage has a copy: `path` and its inode on the host, `place` below LAYERS.

    `hollow`: names in it, relative, whose content the cage is not to have, with the mode of what stands for them.
    `at_its_place`: the cage has it under its own path; without mounts it is where it lies.
    """

    path: str
    place: str
    dev: int
    ino: int
    hollow: tuple[tuple[str, int], ...] = ()
    at_its_place: bool = True


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """What is copied for each cage, before it is made. `most`: bytes of all of it, but for those that the file system
    shares; as many names as that has pages."""

    trees: tuple[CopiedTree, ...]
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything C and the launcher need, and nothing they must decide; by subject, in the order of `compiler`."""

    isolation: str  # "full" | "landlock" | "none"
    notes: tuple[Note, ...]
    # process
    namespaces: tuple[str, ...]  # clone(2) names without CLONE_NEW: USER PID NS IPC UTS CGROUP NET
    inside_uid: int  # ids seen inside; -1 keeps the caller's
    inside_gid: int
    unrooted: bool = False  # root starts it, and outside it is not root but PSB_OUTSIDE (csrc/abi.h)
    hostname_prefix: str
    env: tuple[tuple[str, str], ...]  # a value may be SCRATCH
    cwd: str  # as the cage has it
    executables: tuple[str, ...] | None = None  # the only files (real paths) and trees (`/dir/*`) that may be executed
    # files
    staging: str  # host directory to assemble the root on; no source lies at, above or below it
    mounts: tuple[MountStep, ...]
    landlock: LandlockPlan | None
    # system calls
    seccomp: bytes  # struct sock_filter[] of the whole cage, cage-init with it; empty: no filter
    seccomp_late: bytes  # a second filter, of commands only: what the policy refuses and cage-init needs; mostly empty
    notify: NotifyPlan | None  # None: nothing is decided at run time, and there is no listener
    # network
    loopback: bool
    net: NetPlan | None = None
    # limits
    limits: tuple[Limit, ...]
    cgroup: CgroupPlan | None = None
    watch: WatchPlan | None = None
    layers: int | None = None  # most bytes in the layers of copy-on-write trees, where they are on disk (LAYERS)
    copies: CopyPlan | None = None  # of copy-on-write trees, where there are no layers
    walltime: float | None
    grace: float
    output_cap: int  # bytes kept of each of stdout and stderr

    @property
    def uses_scratch(self) -> bool:
        """Whether it names the directory that SCRATCH stands for."""
        rules = self.landlock.rules if self.landlock else ()
        return "" in [rule.path for rule in rules] or SCRATCH in [step.source for step in self.mounts]

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over every field: equal plans, equal digest, on every machine and Python."""
        return str(sha256(repr(self).encode()).hexdigest())
