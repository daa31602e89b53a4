"""Document 000's `relaxed`: for debuggers, tracers and profilers.

Opens what the tier OFF closes but for two: a ring (io_uring) would go past the rules on arguments, which hold here as
anywhere, and the mount queries would show the host paths that /proc hides. A policy can still name them.
"""

from __future__ import annotations

from pysandbox.compile.profiles import Profile, group

DENY = (
    group("power, other kernels, modules, swap",
          "reboot kexec_load kexec_file_load init_module finit_module delete_module swapon swapoff"),
)  # fmt: skip

PROFILE = Profile(
    "relaxed",
    "document 000's profile for debuggers and profilers",
    ("deny-list",),
    deny=DENY,
    opens=(
        group("allowed without namespace flags", "unshare"),
        group("debuggers", "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp"),
        group("profilers and tracers", "perf_event_open bpf userfaultfd"),
        group("the rest that the document does not list",
              "memfd_create memfd_secret execveat vmsplice migrate_pages move_pages name_to_handle_at"),
    ),
)  # fmt: skip
