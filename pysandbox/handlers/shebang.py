"""What an execve becomes: an `Image`, and how the kernel writes the arguments of a script anew (fs/binfmt_script.c)."""

from __future__ import annotations

from collections.abc import Sequence

from pysandbox.shapes import NamedTuple

HEAD = 256  # BINPRM_BUF_SIZE: all that the kernel looks at
MOST_LEVELS = 5  # interpreters that are scripts themselves
BLANK = b" \t"
AT_FDCWD = -100


class Image(NamedTuple):
    """The kernel's own copy of a program's name and arguments, each ended by NUL, and the file that runs with them.
    `script` are the arguments if it is a script, and `device` and `inode` its interpreter's; empty for what is none."""

    name: bytes
    arguments: bytes
    program_device: int
    program_inode: int
    script: bytes = b""
    device: int = 0
    inode: int = 0


def interpreter(head: bytes) -> tuple[bytes, ...] | None:
    """(interpreter,) or (interpreter, its one argument) of the first line; None for what the kernel does not take for a
    script, or refuses."""
    if not head.startswith(b"#!"):
        return None
    buffer = head[:HEAD].ljust(HEAD, b"\0")
    end = buffer.find(b"\n")
    if end < 0:
        end = HEAD - 1
        if not _has_end(buffer[2:end].lstrip(BLANK)):
            return None  # the name may have been cut off
    line = buffer[2:end].strip(BLANK)
    place = next((at for at, byte in enumerate(line) if byte in b" \t\0"), len(line))
    name, rest = line[:place], line[place:]
    argument = rest.lstrip(BLANK).split(b"\0", 1)[0] if rest and rest[0] else b""
    if not name:
        return None
    return (name, argument) if rest and rest[0] else (name,)


def _has_end(text: bytes) -> bool:
    return any(byte in b" \t\0" for byte in text)


def image_name(path: bytes, directory: int) -> bytes:
    """What the kernel calls the program that execve(path), or execveat(directory, path), names: AT_EXECFN."""
    if directory == AT_FDCWD or path.startswith(b"/"):
        return path
    return b"/dev/fd/%d" % directory + (b"/" + path if path else b"")


def script_arguments(name: bytes, argv: Sequence[bytes], lines: Sequence[tuple[bytes, ...]]) -> tuple[bytes, ...]:
    """`lines` are those of the script, of its interpreter if that is a script as well, and so on."""
    written = (name, *argv[1:])
    for line in lines:
        written = (*line, *written)
    return written
