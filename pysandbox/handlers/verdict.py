"""What may become of a call that was held. There is no "go on" for a call whose arguments were judged: the kernel would
read them again, and another thread may have changed them meanwhile (seccomp_unotify(2))."""

from __future__ import annotations

from pysandbox.shapes import TypeAlias, dataclass


@dataclass(frozen=True, slots=True)
class Errno:
    """The call fails with this errno. `rule` is the policy key that refused it."""

    number: int
    rule: str = ""


@dataclass(frozen=True, slots=True)
class OnBehalf:
    """The supervisor does it, with the copy that was judged."""


@dataclass(frozen=True, slots=True)
class Execute:
    """The kernel goes on with an execve once nothing can change its arguments any more, if they are still the ones that
    were judged; else it fails with EPERM."""


@dataclass(frozen=True, slots=True)
class InjectFd:
    """The supervisor opens `path` of the cage and puts the descriptor into the caller."""

    path: str
    flags: int
    mode: int


Verdict: TypeAlias = Errno | OnBehalf | Execute | InjectFd
