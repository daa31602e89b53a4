"""Why a cage was killed by its own host, and what is said of it. Imports next to nothing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pysandbox.shapes import Literal


class KillReason:
    """Why a cage was killed: the Result's reason, the limit as in `policy.violation`, and what is to be said of it."""

    __slots__ = ("limit", "message", "reason")

    def __init__(self, reason: Literal["oom", "cancelled"], limit: str, message: str = "") -> None:
        self.reason, self.limit, self.message = reason, limit, message


OUT_OF_MEMORY = KillReason("oom", "memory", "the cage used more than memory_mb and was ended")
OUT_OF_SCRATCH = KillReason("cancelled", "scratch", "the cage wrote more than tmp_mb to its scratch and was ended")
SCRATCH_UNSEEN = KillReason(
    "cancelled", "scratch", "the cage's scratch has directories that nobody may look into, and its disk has lost more "
    "than tmp_mb since: the cage was ended (make them readable, or leave tmp_mb out)",
)  # fmt: skip
SCRATCH_FULL = KillReason(
    "cancelled", "scratch", "the disk with the cage's scratch has lost more than tmp_mb and is nearly full, and the "
    "cage was ended",
)  # fmt: skip
OUT_OF_LAYERS = KillReason(
    "cancelled", "layers", "the cage wrote more than cow_mb to its copy-on-write directories and was ended"
)
DISK_FULL = KillReason(
    "cancelled", "layers", "the disk with what the cage wrote to its copy-on-write directories is nearly full, and the "
    "cage was ended",
)  # fmt: skip
TOO_MANY = KillReason("cancelled", "pids", "the cage had more than max_pids processes and threads and was ended")
WROTE = KillReason("cancelled", "write", "the cage wrote more than write_mb to files of the host and was ended")
WROTE_UNSEEN = KillReason(
    "cancelled", "write", "programs of the cage wrote, and ended without anybody waiting for them (SIGCHLD ignored?): "
    "what they wrote cannot be counted for write_mb, and the cage was ended",
)  # fmt: skip
FOUGHT = KillReason(
    "cancelled", "cpu", "the cage went on running whenever it was stopped for cpu_percent (SIGCONT?) and was ended"
)


def unwatched(error: BaseException) -> KillReason:
    """Nobody can see whether the cage keeps its limits."""
    return KillReason(
        "cancelled", "watchdog", f"the watchdog cannot see the cage's limits kept: {type(error).__name__}: {error}"
    )
