"""The descriptors of one command: what the caller asked for, turned into pipes, files or a terminal.

`None` for stdin is the null device, not the host's own stdin: a cage reads nothing it was not given. `None` for stdout
and stderr is where the host's own lead, as with Popen, and the null device where the host has none. Everything opened
here is close-on-exec and closed exactly once.

A caged command never holds the host's own open file, whose flags and place it would share, nor a pipe of the host's,
whose other end it could open: what is read from a pipe goes through an `intake`, what is read from a file, or written
to any of these or to a terminal, through a `relay`. Sockets and other devices cannot be told apart from outside and are
passed as they are where they were passed by name.
"""

from __future__ import annotations

import os
import stat

from pysandbox.descriptors import standard_streams
from pysandbox.descriptors.kept_descriptor import KeptDescriptor
from pysandbox.launch import native, orders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pysandbox.launch.intake import Intake
    from pysandbox.launch.relay import InputFeed, OutputRelay, PipeRelay
    from pysandbox.shapes import IO, TypeVar

    File = int | IO[bytes] | IO[str] | None
    T = TypeVar("T")
else:
    File = object

PIPE = -1  # as subprocess.PIPE, STDOUT, DEVNULL
STDOUT = -2
DEVNULL = -3
NULL_DEVICE = os.makedev(1, 3)  # null(4)
TIOCGPTPEER = 0x5441  # ioctl_tty(2)
TIOCSPTLCK = 0x40045431


class Stdio:
    """Both ends of a command's descriptors. `child` lists (fd of the host, number in the cage). `user`: whom the cage
    is outside, where root has started it as another; what is made for it is that user's, and can be opened again by
    name (/dev/stdout)."""

    def __init__(self, user: int = 0) -> None:
        self._user = user
        self.child: list[tuple[int, int]] = []
        self.stdin = self.stdout = self.stderr = self.terminal = -1  # the host's ends
        self.relays: list[OutputRelay | PipeRelay] = []
        self.feeds: list[InputFeed] = []
        self.intakes: list[Intake] = []
        self.has_go_betweens = False  # whether there are any of these three
        self._null_fd = -1
        self._given: list[int] = []  # opened for the child: closed once it has them
        self._relayed: dict[tuple[int, int], int] = {}  # what is relayed already, and the child's end of that

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe2(os.O_CLOEXEC)
        if self._user:
            self._hand_over(ends[0])
        return ends

    def _hand_over(self, fd: int) -> None:
        """To the cage's user, what would be root's."""
        if self._user and os.fstat(fd).st_uid == 0:
            os.fchown(fd, self._user, self._user)

    def _null(self, number: int) -> None:
        if self._null_fd < 0:
            self._null_fd = open_null()
            self._given.append(self._null_fd)
        self.child.append((self._null_fd, number))

    def _give(self, fd: int, number: int) -> None:
        self._given.append(fd)
        self.child.append((fd, number))

    def input(self, wanted: File) -> None:
        if wanted is None or wanted == DEVNULL:
            self._null(0)
        elif wanted == PIPE:
            read, self.stdin = self._pipe()
            self._give(read, 0)
        else:
            self.child.append((_fileno(wanted, "stdin"), 0))

    def keep_apart(self) -> None:
        """Puts something of the command's own in the place of each open file of the host's. Raises ValueError for what
        no command gets: a descriptor that is not open, a directory, a terminal to be read."""
        for index, (fd, number) in enumerate(self.child):
            if fd in self._given:
                continue
            found = _examine(fd, number)
            if number > 2 or (found.st_rdev == NULL_DEVICE and stat.S_ISCHR(found.st_mode)):
                continue  # the null device is no terminal, and is passed as it is
            own = self._own_input if number == 0 else self._own_output
            self.child[index] = own(fd, found), number

    def _own_input(self, fd: int, found: os.stat_result) -> int:
        kind = found.st_mode
        if stat.S_ISCHR(kind) and os.isatty(fd):
            raise ValueError(f"stdin: {fd} is a terminal; a command gets one of its own with pty=True")
        if stat.S_ISFIFO(kind) or (fd == 0 and _is_stream_socket(fd, kind)):
            return self._take_in(fd)
        if stat.S_ISREG(kind):
            return self._feed(fd)
        return fd

    def _take_in(self, fd: int) -> int:
        from pysandbox.launch.intake import Intake

        return self._fed(self.intakes, lambda sink: Intake(fd, sink, null_device()))

    def _feed(self, fd: int) -> int:
        from pysandbox.launch.relay import InputFeed

        return self._fed(self.feeds, lambda sink: InputFeed(fd, sink))

    def _fed(self, among: list[T], make: Callable[[int], T]) -> int:
        """The reading end of a pipe of the command's own; what is made owns the other end."""
        inside, sink = self._pipe()
        self._given.append(inside)
        try:
            among.append(make(sink))
            self.has_go_betweens = True
        except OSError:
            os.close(sink)
            raise
        return inside

    def _own_output(self, fd: int, found: os.stat_result) -> int:
        terminal = stat.S_ISCHR(found.st_mode) and os.isatty(fd)
        inherited = stat.S_ISSOCK(found.st_mode) and fd in (1, 2)
        if not (terminal or inherited or stat.S_ISREG(found.st_mode) or stat.S_ISFIFO(found.st_mode)):
            return fd
        which = (found.st_dev, found.st_rdev or found.st_ino)
        if which not in self._relayed:  # two streams to one place keep their order
            self._relayed[which] = self._relay(fd, found.st_mode, terminal=terminal)
        return self._relayed[which]

    def _relay(self, fd: int, kind: int, *, terminal: bool) -> int:
        from pysandbox.launch.relay import OutputRelay, PipeRelay, open_terminal

        source, inside = open_terminal(fd) if terminal else self._pipe()
        self._given.append(inside)
        self._hand_over(inside)
        try:
            by_interpreter = terminal or stat.S_ISSOCK(kind)
            self.relays.append(
                OutputRelay(source, fd) if by_interpreter else PipeRelay(source, fd, is_pipe=stat.S_ISFIFO(kind))
            )
            self.has_go_betweens = True
        except OSError:
            os.close(source)
            raise
        return inside

    def serve(self) -> None:
        """Call it when the command runs. From now on threads pass on what it writes and reads, one for each stream."""
        self.serve_input()
        for relay in self.relays:
            relay.serve()

    def serve_input(self) -> None:
        """From now on threads pass on what the command reads; what it writes is left to the caller."""
        for feed in self.feeds:
            feed.serve()
        for intake in self.intakes:
            intake.serve()

    def wait_flushed(self, *patience: float) -> None:
        """The command has ended: returns when what it wrote is where it belongs, or nobody takes it, and when what it
        did not read is left to the next."""
        self.wait_input_flushed()
        for relay in self.relays:
            relay.wait_flushed(*patience)

    def wait_input_flushed(self) -> None:
        """The command has ended: returns when the input that it did not read is left to the next reader."""
        for intake in self.intakes:
            intake.wait_flushed()

    @property
    def failure(self) -> OSError | None:
        """Why not all that was written, or read, has arrived."""
        for each in (*self.relays, *self.feeds):
            if (failure := each.failure) is not None:
                return failure
        return None

    def output(self, number: int, wanted: File) -> int:
        """Places descriptor 1 or 2; returns the host's end, -1 if there is none."""
        if wanted == PIPE:
            read, write = self._pipe()
            self._give(write, number)
            return read
        if wanted == DEVNULL:
            self._null(number)
        elif wanted == STDOUT and number == 2:
            self.child.append((self.child[-1][0], 2))
        elif wanted is not None:
            self.child.append((_fileno(wanted, "stdout or stderr"), number))
        elif standard_streams.is_inherited(number):
            self.child.append((number, number))
        else:
            self._null(number)
        return -1

    def pass_on(self, fds: Sequence[int]) -> None:
        """Descriptors the command inherits under the same numbers. Raises ValueError for 0-2 and for too many, OSError
        for closed ones."""
        if len(self.child) + len(fds) > orders.MOST_FDS:
            raise ValueError(f"pass_fds: {len(fds)} are too many; {orders.MOST_FDS - 3} is the most")
        for fd in fds:
            if not isinstance(fd, int):
                raise TypeError(f"pass_fds: {fd!r} is not a descriptor; pass the number, as fileno() gives it")
            if fd <= 2:
                raise ValueError(f"pass_fds: {fd} is stdin, stdout or stderr; use stdin=, stdout=, stderr=")
            self.child.append((fd, fd))

    def attach_terminal(self, root_fd: int | None) -> None:
        """A new pseudo-terminal as descriptors 0-2: the cage's own, from its devpts, where it has one."""
        import fcntl

        master = _open_master(root_fd, self._user)
        try:
            fcntl.ioctl(master, TIOCSPTLCK, b"\0\0\0\0")
            slave = fcntl.ioctl(master, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            os.close(master)
            raise
        self.terminal = master
        self._given.append(slave)
        self._hand_over(slave)
        self.child.extend((slave, number) for number in range(3))

    def given(self) -> None:
        """The child has its ends (or never will): close the host's copies of them."""
        while self._given:
            os.close(self._given.pop())

    def close(self) -> None:
        self.given()
        for relay in self.relays:
            relay.close()
        for feed in self.feeds:
            feed.close()
        for intake in self.intakes:
            intake.close()
        ends = self.stdin, self.stdout, self.stderr, self.terminal
        self.stdin = self.stdout = self.stderr = self.terminal = -1
        for fd in ends:
            if fd >= 0:
                os.close(fd)


def _open_null_device() -> int:
    own_node = native.open_null() if os.geteuid() == 0 else -1  # others do not own the node
    return own_node if own_node >= 0 else os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


_null = KeptDescriptor(_open_null_device)  # a forked copy shares it: an open null device has no state but its flags


def null_device() -> int:
    """The host's own, which stays open as long as the process."""
    return _null.fileno()


def open_null() -> int:
    """One for a single command: what has one open file in common sets flags that the others see, from cage to cage."""
    path = f"/proc/self/fd/{null_device()}" if os.geteuid() == 0 else os.devnull
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def open_stdio(
    stdin: File,
    stdout: File,
    stderr: File,
    pass_fds: Sequence[int],
    *,
    pty: bool = False,
    root_fd: int | None = None,
    caged: bool = True,
    user: int = 0,
) -> Stdio:
    """Raises ValueError and OSError; nothing stays open then."""
    stdio = Stdio(user)
    try:
        if pty:
            stdio.attach_terminal(root_fd)
        else:
            stdio.input(stdin)
            stdio.stdout = stdio.output(1, stdout)
            stdio.stderr = stdio.output(2, stderr)
        if pass_fds:
            stdio.pass_on(pass_fds)
        if caged:
            stdio.keep_apart()
    except BaseException:
        stdio.close()
        raise
    return stdio


def _examine(fd: int, number: int) -> os.stat_result:
    """A directory's entries lie outside every mount and rule of the cage: chmod, utimes and `..` through it would reach
    the host. Raises ValueError, also for a descriptor that is not open."""
    try:
        found = os.fstat(fd)
    except OSError as error:
        raise ValueError(f"{_name_of(number)}: {fd} is not an open descriptor") from error
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        raise ValueError(f"{_name_of(number)}: {fd} is a directory; grant it by the policy (filesystem.allow)")
    if fd <= 2 and kind != stat.S_IFCHR and not standard_streams.is_inherited(fd):
        now = "it was closed, and is another thing now (os.set_inheritable, if that is meant)"
        raise ValueError(f"{_name_of(number)}: {fd} is no standard stream of this program: {now}")
    return found


def _is_stream_socket(fd: int, kind: int) -> bool:
    """Our own stdin may be one (ssh, a service); one that was passed by name has another number."""
    if not stat.S_ISSOCK(kind):
        return False
    import socket  # costs a third of a start

    from pysandbox.descriptors.sockets import shared_socket

    with shared_socket(os.dup(fd)) as found:
        return found.type == socket.SOCK_STREAM


def _name_of(number: int) -> str:
    return {0: "stdin", 1: "stdout", 2: "stderr"}.get(number, "pass_fds")


def _fileno(wanted: File, name: str) -> int:
    if isinstance(wanted, int):
        if wanted < 0:
            raise ValueError(f"{name}: {wanted} is neither a descriptor nor PIPE, STDOUT, DEVNULL")
        return wanted
    if wanted is None or not hasattr(wanted, "fileno"):
        raise ValueError(f"{name}: {wanted!r} has no descriptor; pass an int, an open file, PIPE or DEVNULL")
    return wanted.fileno()


def _open_master(root_fd: int | None, user: int) -> int:
    """The cage may have put anything at /dev: nothing is followed on the way, and it must be a real ptmx (5, 2)."""
    if root_fd is None:
        return os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    resolve = native.RESOLVE_IN_ROOT | native.RESOLVE_NO_SYMLINKS
    fd = native.open_inside(root_fd, "dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY, resolve=resolve, user=user)
    try:
        if os.fstat(fd).st_rdev != os.makedev(5, 2):
            raise OSError("the cage's /dev/pts/ptmx is not a terminal multiplexer")
    except OSError:
        os.close(fd)
        raise
    return fd
