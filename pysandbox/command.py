"""One command as its caller wrote it, checked, and the request to run it in a cage.

Everything that can be wrong with an argument is found here, before anything is opened: the error names the argument.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping, Sequence

from pysandbox.errors import PolicyError
from pysandbox.launch.orders import DEFAULT_PATH, candidates
from pysandbox.launch.stdio import PIPE
from pysandbox.policy.match import may_execute
from pysandbox.shapes import TYPE_CHECKING, NamedTuple, dataclass

if TYPE_CHECKING:
    from pysandbox.compile.plan import Plan
    from pysandbox.launch.stdio import File
    from pysandbox.live.init import CageInit
    from pysandbox.runtime.prepared import Prepared


class TextCoding(NamedTuple):
    """`errors` None: what is no text is replaced where it is read, and an error where it is written."""

    encoding: str = "utf-8"
    errors: str | None = None

    def decode(self, data: bytes) -> str:
        return data.decode(self.encoding, self.errors or "replace")

    def encode(self, text: str) -> bytes:
        return text.encode(self.encoding, self.errors or "strict")

    def encoder(self) -> codecs.IncrementalEncoder:
        return codecs.getincrementalencoder(self.encoding)(self.errors or "strict")

    def decoder(self) -> codecs.IncrementalDecoder:
        return codecs.getincrementaldecoder(self.encoding)(self.errors or "replace")


UTF_8 = TextCoding()


@dataclass(frozen=True, slots=True)
class Command:
    """argv, the caller's own variables and working directory; all free of NUL bytes."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None

    @classmethod
    def of(
        cls,
        argv: str | Sequence[str | os.PathLike[str]],
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
        *,
        shell: bool = False,
    ) -> Command:
        """With `shell`, what /bin/sh is to read, as for subprocess. Raises ValueError (empty, NUL, a bad name) and
        TypeError (a string where a list belongs)."""
        if shell:
            argv = ("/bin/sh", "-c", *((argv,) if isinstance(argv, (str, bytes, os.PathLike)) else argv))
        if isinstance(argv, (str, bytes)):
            raise TypeError(
                f"argv must be a list such as {str(os.fsdecode(argv)).split() or ['true']!r}, not one string: no shell "
                "reads it; shell=True has /bin/sh read it"
            )
        if not hasattr(argv, "__iter__"):
            raise TypeError(f"argv must be a list such as ['ls', '-l'], not {type(argv).__name__}")
        texts = []
        for index, each in enumerate(argv):
            texts.append(_text(each, f"argv[{index}]"))
        if not texts or not texts[0]:
            raise ValueError("argv is empty: name a program to run")
        return cls(tuple(texts), _variables(env) if env else {}, None if cwd is None else _text(cwd, "cwd"))

    def check_allowed(self, plan: Plan) -> None:
        """The initial command against process.allow_execve (PROC-06), before anything is started; the kernel holds the
        list for every exec. What the host has no program for is the cage's own to find. Raises PolicyError."""
        if plan.executables is None:
            return
        search = self.env.get("PATH", dict(plan.env).get("PATH", DEFAULT_PATH))
        found = next((path for path in candidates(self.argv[0], search) if os.access(path, os.X_OK)), None)
        real = os.path.realpath(found) if found is not None else ""
        if found is not None and not may_execute(plan.executables, real):
            raise PolicyError(
                f"{found} is not on the list of executables",
                key="process.allow_execve",
                suggestion=f'add "{real}" to allow_execve',
            )


class LaunchRequest(NamedTuple):
    """One command on its way: what it is, the cage that is to run it, and how. `start.start` makes it run."""

    command: Command
    prepared: Prepared
    live: CageInit
    id: int
    oneshot: bool  # the cage ends with it
    caged: bool
    files: tuple[File, File, File]  # stdin, stdout, stderr as the caller named them
    pass_fds: Sequence[int] = ()
    pty: bool | tuple[int, int] = False  # descriptor 0 becomes its controlling terminal, of so many (rows, columns)
    coding: TextCoding | None = None  # of its input and output, as text for the caller; None is bytes
    quiet: bool = False  # only its end is reported, or that it never ran


def _variables(env: Mapping[str, str]) -> dict[str, str]:
    """Raises TypeError, ValueError."""
    variables = {_text(name, "env"): _text(value, f"env[{name!r}]") for name, value in env.items()}
    for name in variables:
        if not name or "=" in name:
            raise ValueError(f"env: {name!r} is not a name of a variable")
    return variables


def _text(value: object, name: str) -> str:
    """A str without NUL. Raises TypeError, ValueError."""
    if not isinstance(value, str):
        if not isinstance(value, (bytes, os.PathLike)):
            raise TypeError(f"{name} must be str, bytes or a path, not {type(value).__name__}")
        value = os.fsdecode(value)
    if "\0" in value:
        raise ValueError(f"{name} holds a NUL byte, which no argument of a program can")
    return value


def input_bytes(given: object, coding: TextCoding | None = None) -> bytes | None:
    """What is fed to a command. Raises TypeError."""
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return (coding or UTF_8).encode(given)
    if isinstance(given, (bytearray, memoryview)):
        return bytes(given)
    raise TypeError(f"input must be str or bytes, not {type(given).__name__}")


def run_files(
    data: bytes | None, capture: bool, stdin: File, stdout: File, stderr: File,
    listeners: Mapping[str, object],
) -> tuple[File, File, File]:  # fmt: skip
    """Where the streams of `run` lead; `listeners`: what hears "stdout" and "stderr", or None. Raises ValueError."""
    if data is not None and stdin not in (None, PIPE):
        raise ValueError("stdin and input both say what the command reads: choose one")
    if not capture:
        stdout = None if stdout == PIPE and listeners["stdout"] is None else stdout
        stderr = None if stderr == PIPE and listeners["stderr"] is None else stderr
    return (PIPE if data is not None else stdin), stdout, stderr


def coding_of(text: bool | None, encoding: str | None, errors: str | None, *, default: bool) -> TextCoding | None:
    """As subprocess has it: an encoding, or how errors are handled, asks for text. None is bytes. Raises TypeError,
    ValueError."""
    if text is not None and not isinstance(text, bool):
        raise TypeError(f"text must be True or False, not {text!r}")
    if encoding is None and errors is None:
        return UTF_8 if (default if text is None else text) else None
    if text is False:
        raise ValueError("text=False gives bytes, which have no encoding and no errors")
    for name, value in (("encoding", encoding), ("errors", errors)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} must be a name such as 'utf-8' or 'replace', not {type(value).__name__}")
    coding = TextCoding(encoding or UTF_8.encoding, errors)
    try:
        coding.encode("a")
        codecs.lookup_error(errors or "strict")
    except LookupError as error:
        raise ValueError(str(error)) from None
    return coding


def check_seconds(name: str, value: object) -> None:
    """Raises TypeError, ValueError."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds or None, not {value!r}")
    if value < 0 or value != value:
        raise ValueError(f"{name} must not be negative: {value!r}")
