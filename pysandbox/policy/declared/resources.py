"""[resources]: how much of the host a cage may use, and for how long."""

from __future__ import annotations

from pysandbox.policy.option import WITH_OTHERS, Sentence, option
from pysandbox.policy.tighter import falls, falls_from_lifted, no_more_weight, towards
from pysandbox.shapes import dataclass


@dataclass(frozen=True, kw_only=True)
class ResourceOptions:
    memory_mb: int | None = option(
        "resources", "memory_mb", "Memory of the whole cage.",
        default=None, merge="last", tighter=falls, flag="--memory-mb", minimum=16, unit="MiB",
        in_plan=True, recorded="limit", violation="memory", listed="Limits",
        sentence=Sentence("Uses", "The cage has {} MiB of memory.", unlimited="memory", place=0),
    )  # fmt: skip
    cpu_percent: int | None = option(
        "resources", "cpu_percent", "CPU quota, 100 is one core.",
        default=None, merge="last", tighter=falls, flag="--cpu-percent", minimum=1, unit="%",
        in_plan=False, recorded="limit", violation="cpu", listed="Limits",
        sentence=Sentence("Uses", "The cage has {} % of one processor.", unlimited="CPU", place=0),
    )  # fmt: skip
    cpu_shares: int | None = option(
        "resources", "cpu_shares", "CPU weight against other cages; 100 is an equal share.",
        default=None, merge="last", tighter=no_more_weight, flag="--cpu-shares", minimum=1, maximum=10_000,
        in_plan=False, recorded="limit",
    )  # fmt: skip
    walltime_sec: float | None = option(
        "resources", "walltime_sec", "Wall time of a command; then SIGTERM, the grace period, SIGKILL.",
        default=None, merge="last", tighter=falls, flag="--walltime", minimum=1, unit="s",
        in_plan=True, recorded="limit", violation="walltime", listed="Limits",
        sentence=Sentence("Time", "A command is stopped after {:g} s, and killed {policy.grace_sec:g} s later.",
                          unset="There is no limit on how long a command runs."),
    )  # fmt: skip
    grace_sec: float = option(
        "resources", "grace_sec", "Time between SIGTERM and SIGKILL.",
        default=5.0, merge="last", tighter=falls, flag="--grace", minimum=0, unit="s",
        in_plan=True, sentences=WITH_OTHERS,
    )  # fmt: skip
    address_space_gb: int = option(
        "resources", "address_space_gb", "RLIMIT_AS of each process; 0: no limit.",
        default=0, merge="last", tighter=falls_from_lifted, flag="--address-space-gb", minimum=0, unit="GiB",
        in_plan=True, listed="Limits",
    )  # fmt: skip
    open_files: int = option(
        "resources", "open_files", "RLIMIT_NOFILE of each process.",
        default=4096, merge="last", tighter=falls, flag="--open-files", minimum=3,
        in_plan=True, recorded="limit", listed="Limits", sentences=WITH_OTHERS,
    )  # fmt: skip
    file_size_gb: int = option(
        "resources", "file_size_gb", "RLIMIT_FSIZE: largest file a process may write; 0 lifts it.",
        default=4, merge="last", tighter=falls_from_lifted, flag="--file-size-gb", minimum=0, unit="GiB",
        in_plan=True, recorded="limit", sentences=WITH_OTHERS,
    )  # fmt: skip
    write_mb: int | None = option(
        "resources", "write_mb", "Most bytes that the cage may write to files of the host, in all.",
        default=None, merge="last", tighter=falls, flag="--write-mb", minimum=1, unit="MiB",
        in_plan=False, recorded="limit", violation="write",
        sentence=Sentence("Uses", "The cage may write {} MiB to files of the host, in all."),
    )  # fmt: skip
    tmp_mb: int = option(
        "resources", "tmp_mb", "Size of each tmpfs of the cage (/tmp, /dev/shm, the root).",
        default=1024, merge="last", tighter=falls, flag="--tmp-mb", minimum=1, unit="MiB",
        in_plan=True, recorded="limit", violation="scratch", listed="Limits",
    )  # fmt: skip
    cow_mb: int = option(
        "resources", "cow_mb", "Most that a cage may write to its copy-on-write directories, all together.",
        default=1024, merge="last", tighter=falls, flag="--cow-mb", minimum=1, unit="MiB",
        in_plan=True, recorded="limit", violation="layers", listed="Limits", sentences=WITH_OTHERS,
    )  # fmt: skip
    copy_mb: int = option(
        "resources", "copy_mb", "Most that is copied of the copy-on-write directories, all together, where they are "
        "copied (storage). What the file system shares between a file and its copy (reflinks) does not count.",
        default=1024, merge="last", tighter=falls, flag="--copy-mb", minimum=1, unit="MiB",
        in_plan=True, sentences=WITH_OTHERS,
    )  # fmt: skip
    output_mb: int = option(
        "resources", "output_mb", "Most that is kept of each of stdout and stderr where they are captured "
        "(from Python, --json, --detach); the rest is dropped. What is written to your own streams is not counted.",
        default=64, merge="last", tighter=falls, flag="--output-mb", minimum=0, unit="MiB",
        in_plan=True,
    )  # fmt: skip
    limits_required: bool = option(
        "resources", "required", "Refuse to run when a limit asked for cannot be enforced (else: an event).",
        default=True, merge="last", tighter=towards(True, False), flag="--limits-required",
        in_plan=True,
    )  # fmt: skip
