"""Rules on register arguments. They hold in every profile and mode, for whichever of these calls is allowed at all.

Only what the kernel reads from a register can be decided here: the number, an int, a flag word. What lies behind a
pointer can be changed by another thread after a filter has looked, so the two calls that keep their flags there,
clone3 and openat2, are answered as by an older kernel, and libc goes on with the call that has them in registers.

Each rule names the kernel's type of the argument by its mask: an int is the low half, whatever is in the upper one.
"""

from __future__ import annotations

from collections.abc import Mapping

from pysandbox.compile.bpf import CallAction, Decision, When

ALLOW, NEVER, MILD, ABSENT = CallAction.ALLOW, CallAction.NEVER, CallAction.MILD, CallAction.ABSENT
INT = 0xFFFFFFFF


def any_bit(arg: int, bits: int, yes: Decision, no: Decision) -> When:
    return When(arg, bits, (0,), no, yes)


# <linux/sched.h>; clone takes the low 32 bits and its low byte is a signal, so CLONE_NEWTIME (0x80) is unshare's only.
CLONE_NEW = 0x0002_0000 | 0x0200_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000
CLONE_NEWTIME = 0x80

# <asm-generic/ioctls.h>: type into the terminal of whoever started the cage (TIOCSTI), paste into the console.
TIOCSTI, TIOCLINUX = 0x5412, 0x541C

# <linux/falloc.h>: the older names of fallocate(2), which every file system answers.
FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE = 0x40305828, 0x4030582A, 0x40305839

# A file with S_ISUID or S_ISGID, made on a path of the host, would lend the owner's power to anyone outside the cage.
# mkdir drops both bits by itself; a chmod cannot tell a directory, so g+s on directories is refused with the rest.
SETID = 0o6000
O_CREATES = 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE: without them the mode register is garbage

MSG_FASTOPEN = 0x2000_0000  # a connect inside a send: Landlock and the supervisor look at connect only

# A listener of its own would take the place of the supervisor's: the newest filter wins among equal verdicts.
SECCOMP_FILTER_FLAG_NEW_LISTENER = 0x8

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_TYPE_MASK = 0xF  # the rest are SOCK_NONBLOCK and SOCK_CLOEXEC
SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET = 1, 2, 5
NETLINK_ROUTE = 0
IPPROTO_IP, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_MPTCP = 0, 1, 6, 17, 262


# sendto on a connected socket names no address, and never leaves the cage's own path.
ADDRESSED = When(4, (1 << 64) - 1, (0,), ALLOW, CallAction.NOTIFY)


def no_setid(mode: int) -> When:
    return any_bit(mode, SETID, NEVER, ALLOW)


def no_setid_created(flags: int, mode: int) -> When:
    return any_bit(flags, O_CREATES, no_setid(mode), ALLOW)


def no_space_by_ioctl(decision: Decision) -> When:
    return When(1, INT, (FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE), CallAction.UNSUPPORTED, decision)


def no_fast_open(flags: int) -> When:
    return any_bit(flags, MSG_FASTOPEN, NEVER, ALLOW)


UNIX = When(1, SOCK_TYPE_MASK, (SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET), ALLOW, NEVER)


def families(inet: Decision, unix: Decision = UNIX) -> When:
    """socket(domain, type, protocol): `unix`, route netlink, and `inet` for both IP families."""
    route = When(2, INT, (NETLINK_ROUTE,), ALLOW, NEVER)
    other = When(0, INT, (AF_NETLINK,), route, NEVER)
    return When(0, INT, (AF_UNIX,), unix, When(0, INT, (AF_INET, AF_INET6), inet, other))


def transports(protocols: tuple[int, ...], datagram: Decision) -> When:
    """TCP, and `datagram` for UDP. MPTCP goes past Landlock's TCP rules; Go tries it for every listener, then TCP."""
    other = When(2, INT, (IPPROTO_MPTCP,), MILD, NEVER)
    listed = When(2, INT, protocols, ALLOW, other)
    return When(1, SOCK_TYPE_MASK, (SOCK_STREAM,), listed, When(1, SOCK_TYPE_MASK, (SOCK_DGRAM,), datagram, NEVER))


# What sockets there are. inet: TCP, UDP and unix sockets, in a network namespace that is the wall, or in the host's as
# asked for. echo: as inet, and ping's sockets, which the kernel lets send nothing but echo requests (ICMP), for a cage
# with an interface of its own. The others are those of landlock isolation (ON_THE_HOST). shared: the host's network,
# asked for. tcp: Landlock is the wall and sees TCP only. local: without even that, so that no IP socket is made. A
# resolver opens UDP sockets unasked, so these refuse mildly, and unix sockets, which libc tries for nscd and syslog.
UDP = When(2, INT, (IPPROTO_IP, IPPROTO_UDP), ALLOW, NEVER)
UDP_AND_ECHO = When(2, INT, (IPPROTO_IP, IPPROTO_UDP, IPPROTO_ICMP), ALLOW, NEVER)
STREAMS = (IPPROTO_IP, IPPROTO_TCP)
SOCKETS: Mapping[str, Decision] = {
    "inet": families(transports(STREAMS, UDP)),
    "echo": families(transports(STREAMS, UDP_AND_ECHO)),
    "shared": families(transports(STREAMS, UDP), MILD),
    "tcp": families(transports(STREAMS, MILD), MILD),
    "local": families(MILD, MILD),
}
ON_THE_HOST = frozenset({"shared", "tcp", "local"})  # without any namespace: what a call reaches is the host's

# A stream leads where its connect does, which the supervisor decides. A datagram socket could be sent from to any name.
UNIX_STREAMS = When(1, SOCK_TYPE_MASK, (SOCK_STREAM,), ALLOW, MILD)


def with_streams(sockets: Decision) -> Decision:
    return When(0, INT, (AF_UNIX,), UNIX_STREAMS, sockets)


# A lease on a file that others may only read holds up the host's own opening of it for 45 s (fs.lease-break-time).
F_SETLEASE = 1024

# cage-init is 1 in the cage, and of the same user: no call changes how it is scheduled, by its number or by its user's.
INIT = 1


def not_init(number: int) -> When:
    return When(number, INT, (INIT,), MILD, ALLOW)


def of_some(user: int) -> When:
    """(which, number, ...): of a process or a group, and not of all that a user has."""
    return When(0, INT, (user,), MILD, not_init(1))


RULES: Mapping[str, Decision] = {
    "fcntl": When(1, INT, (F_SETLEASE,), MILD, ALLOW),
    "setpriority": of_some(2),  # PRIO_USER
    "ioprio_set": of_some(3),  # IOPRIO_WHO_USER
    "sched_setaffinity": not_init(0),
    "sched_setscheduler": not_init(0),
    "sched_setparam": not_init(0),
    "sched_setattr": not_init(0),
    "clone": any_bit(0, CLONE_NEW, NEVER, ALLOW),
    "unshare": any_bit(0, CLONE_NEW | CLONE_NEWTIME, NEVER, ALLOW),
    "clone3": ABSENT,
    "openat2": ABSENT,
    "ioctl": When(1, INT, (TIOCSTI, TIOCLINUX), NEVER, ALLOW),
    "socketpair": When(0, INT, (AF_UNIX,), ALLOW, NEVER),
    "sendto": no_fast_open(3),
    "sendmsg": no_fast_open(2),
    "sendmmsg": no_fast_open(3),
    "chmod": no_setid(1),
    "fchmod": no_setid(1),
    "fchmodat": no_setid(2),
    "fchmodat2": no_setid(2),
    "creat": no_setid(1),
    "mknod": no_setid(1),
    "mknodat": no_setid(2),
    "open": no_setid_created(1, 2),
    "openat": no_setid_created(2, 3),
    "prlimit64": When(0, INT, (0,), ALLOW, MILD),  # by number it reaches cage-init, or without a PID namespace the host
    "seccomp": any_bit(1, SECCOMP_FILTER_FLAG_NEW_LISTENER, NEVER, ALLOW),
}

ABSENT_EVERYWHERE = frozenset(name for name, rule in RULES.items() if rule is ABSENT)


# Without namespaces. A unix socket by path is confined by no kernel's Landlock, so there is none but the streams that
# the supervisor connects (UNIX_STREAMS); of a pair, datagram sockets can be connected, and send, to another name.
# listen takes a port of the host where nothing was bound. The scheduling calls reach, by number, every process of the
# caller: only one's own thread, which is 0, is left.
def own_thread(number: int) -> When:
    return When(number, INT, (0,), ALLOW, MILD)


def own_threads(kinds: tuple[int, ...]) -> When:
    """The first argument says that the second is of a process or of a group, not all that a user has."""
    return When(0, INT, kinds, own_thread(1), MILD)


# What an ioctl does to a file or in a directory that is open for reading: flags and project of chattr(1), seals
# (fs-verity), encryption; on btrfs a subvolume made or removed. Landlock knows ioctls of devices. Left of each kind
# are those that ask, and those that copy into a file which is open for writing (<linux/fs.h>).
FS_IOC_GETFLAGS, FS_IOC_FIEMAP = 0x80086601, 0xC020660B
FICLONE, FICLONERANGE, FIDEDUPERANGE, FS_IOC_GETFSLABEL = 0x40049409, 0x4020940D, 0xC0189436, 0x81009431
FS_IOC_FSSETXATTR = 0x401C5820
KIND = 0xFF00


def no_attributes(otherwise: Decision) -> Decision:
    kept = {0x6600: (FS_IOC_GETFLAGS, FS_IOC_FIEMAP), 0x9400: (FICLONE, FICLONERANGE, FIDEDUPERANGE, FS_IOC_GETFSLABEL)}
    decision: Decision = When(1, INT, (FS_IOC_FSSETXATTR,), CallAction.UNSUPPORTED, otherwise)
    for kind, calls in kept.items():
        decision = When(1, KIND, (kind,), When(1, INT, calls, ALLOW, CallAction.UNSUPPORTED), decision)
    return decision


BY_NUMBER: Mapping[str, Decision] = {  # held to the caller's own thread
    "setpriority": own_threads((0, 1)),  # PRIO_PROCESS, PRIO_PGRP
    "ioprio_set": own_threads((1, 2)),  # IOPRIO_WHO_PROCESS, IOPRIO_WHO_PGRP
    "sched_setaffinity": own_thread(0),
    "sched_setscheduler": own_thread(0),
    "sched_setparam": own_thread(0),
    "sched_setattr": own_thread(0),
}
RULES_ON_THE_HOST: Mapping[str, Decision] = {
    **BY_NUMBER,
    "ioctl": no_attributes(RULES["ioctl"]),
    "socketpair": When(0, INT, (AF_UNIX,), When(1, SOCK_TYPE_MASK, (SOCK_STREAM, SOCK_SEQPACKET), ALLOW, MILD), NEVER),
}
OBJECTS_BY_NAME = (  # System V and POSIX
    *("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"),
)
DIRECTORY_WATCHES = ("inotify_init", "inotify_init1", "inotify_add_watch", "fanotify_init", "fanotify_mark")
# Closed without namespaces unless a policy names the call in allow_extra. They act by a name or a path that no rule
# binds: the host's System V and POSIX objects, what happens in directories that were not granted, owner and attributes
# (access control lists among them) of the caller's files anywhere; or on a file that is open for reading only.
# Answered as by a kernel without them, which programs go on from (cp -a keeps the mode where it cannot keep a list);
# a change of owner is answered as to anybody who may not.
CLOSED_ON_THE_HOST: Mapping[str, CallAction] = {
    **dict.fromkeys(("chown", "lchown", "fchown", "fchownat"), MILD),
    **dict.fromkeys(OBJECTS_BY_NAME, ABSENT),
    **dict.fromkeys(DIRECTORY_WATCHES, ABSENT),
    **dict.fromkeys(("setxattr", "lsetxattr", "setxattrat", "removexattr", "lremovexattr", "removexattrat"), ABSENT),
    **dict.fromkeys(("fsetxattr", "fremovexattr", "file_setattr"), ABSENT),
}
# Closed in every cage unless a policy names the call. Requests of the kernel's old asynchronous I/O are counted for the
# whole machine (fs.aio-max-nr, 65536), one call may take all, and no namespace or limit bounds it.
CLOSED_EVERYWHERE: Mapping[str, CallAction] = {"io_setup": ABSENT}
# What is of no use alone: opened with the call on the right.
OPENED_WITH: Mapping[str, str] = {"inotify_init": "inotify_add_watch", "inotify_init1": "inotify_add_watch"}


def closed(sockets: str, named: frozenset[str]) -> dict[str, CallAction]:
    """What is closed for what it acts on or is counted for, but for the calls that a policy has `named`."""
    shut = {**CLOSED_EVERYWHERE, **(CLOSED_ON_THE_HOST if sockets in ON_THE_HOST else {})}
    return {name: answer for name, answer in shut.items() if not named & {name, OPENED_WITH.get(name, name)}}


# A place in the tree (O_PATH) gives no content, cannot be put into another process, and its flag is in a register.
O_PATH = 0o10000000
HANDED_OVER: Mapping[str, Decision] = {
    "sendto": ADDRESSED,
    "open": any_bit(1, O_PATH, ALLOW, CallAction.NOTIFY),
    "openat": any_bit(2, O_PATH, ALLOW, CallAction.NOTIFY),
}

# Options by which a packet first goes elsewhere than to its address: a source route (IP_OPTIONS), a routing header
# (IPV6_RTHDR, IPV6_2292PKTOPTIONS), or a flow label that carries one (IPV6_FLOWLABEL_MGR, where the kernel has Mobile
# IPv6). Refused where addresses are judged.
SOL_IP, SOL_IPV6 = 0, 41
NO_ROUTES = When(1, INT, (SOL_IP,), When(2, INT, (4,), NEVER, ALLOW),
                 When(1, INT, (SOL_IPV6,), When(2, INT, (57, 6, 32), NEVER, ALLOW), ALLOW))  # fmt: skip

# Where sockets of the host's network are in the cage. An ioctl on one shows the host's interfaces (SIOCGIFCONF) or its
# wireless networks; what belongs to the socket alone (0x8901-0x8907) stays. The options choose a device or a source
# (SO_BINDTODEVICE, IP_TRANSPARENT), have the host join a group of receivers, or hand what arrives to another part of
# the host's kernel (UDP_ENCAP, TCP_ULP).
SOL_SOCKET, SOL_TCP, SOL_UDP = 1, 6, 17
DEVICE = When(1, INT ^ 0xF, (0x8900,), ALLOW, When(1, INT ^ 0xFF, (0x8900, 0x8B00), MILD, ALLOW))
REFUSED_OPTIONS: Mapping[int, tuple[int, ...]] = {
    SOL_SOCKET: (25, 62),  # SO_BINDTODEVICE, SO_BINDTOIFINDEX
    # IP_FREEBIND, IP_TRANSPARENT, IP_MULTICAST_IF, IP_UNICAST_IF, IP_LOCAL_PORT_RANGE, IPV6_PKTINFO, joining groups
    SOL_IP: (15, 19, 32, 50, 51, 35, 36, 37, 38, 39, 40, 42, 43, 44, 45, 46, 47, 48),
    SOL_IPV6: (17, 20, 21, 27, 28, 50, 42, 43, 44, 45, 46, 47, 48, 75, 76, 78),
    SOL_TCP: (31,),
    SOL_UDP: (100,),
}


def _options(refused: Mapping[int, tuple[int, ...]]) -> Decision:
    decision: Decision = ALLOW
    for level, names in refused.items():
        decision = When(1, INT, (level,), When(2, INT, names, MILD, ALLOW), decision)
    return decision


RINGS = "io_uring_"
LEADS_OUT: Mapping[str, Decision] = {
    "ioctl": DEVICE,
    "setsockopt": _options(REFUSED_OPTIONS),
}

# Where messages are decided, the supervisor sends them: SO_PASSPIDFD and SO_PEERPIDFD would hand out a pidfd of it; on
# a socket of the host, one of whoever listens there.
ON_BEHALF: Mapping[str, Decision] = {
    "setsockopt": _options({SOL_SOCKET: (76,)}),
    "getsockopt": _options({SOL_SOCKET: (77,)}),
}


def rules(sockets: str, *, unix: bool = False) -> dict[str, Decision]:
    """All of them, with socket's for one row of SOCKETS; `unix`: some sockets of the host are granted."""
    shared = RULES_ON_THE_HOST if sockets in ON_THE_HOST else {}
    listen = {"listen": MILD} if sockets in ("tcp", "local") else {}
    return {**RULES, **shared, **listen, "socket": with_streams(SOCKETS[sockets]) if unix else SOCKETS[sockets]}
