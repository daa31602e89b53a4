"""The exit codes of `pysandbox run`, in one place: a shell's, as env(1) and timeout(1) have them. Cheap to import."""

OUT_OF_TIME = 124
OUR_FAILURE = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127
BY_SIGNAL = 128  # and the number of the signal
INTERRUPTED, KILLED, BROKEN_PIPE = BY_SIGNAL + 2, BY_SIGNAL + 9, BY_SIGNAL + 13


def shell_code(returncode: int, *, out_of_time: bool = False) -> int:
    """The exit code of a command whose own is Popen's `returncode` (-n for signal n)."""
    if out_of_time:
        return OUT_OF_TIME
    return returncode if returncode >= 0 else BY_SIGNAL - returncode
