"""Document 000's `default`: what it does not list is allowed, in so far as the tiers and argument rules allow it.

"Any system call in the CAP_SYS_* set", the last row of that document's table, is the tier NEVER.
"""

from __future__ import annotations

from pysandbox.compile.profiles import Profile, group

DENY = (
    group("attach to a process", "ptrace"),
    group("other kernels and modules", "kexec_load kexec_file_load init_module finit_module delete_module"),
    group("keyrings", "keyctl request_key add_key"),
    group("the mount tree", "mount umount umount2 pivot_root"),
    group("swap and power", "swapon swapoff reboot"),
    group("exploited before", "nfsservctl vmsplice migrate_pages move_pages userfaultfd"),
    group("programs for the kernel; side channels through its counters", "bpf perf_event_open"),
    group("namespaces", "setns"),
)

PROFILE = Profile(
    "default",
    "document 000's profile: refuses a list, allows the rest",
    ("deny-list",),
    deny=DENY,
    kill=(group("ports and the clock: never an accident", "iopl ioperm clock_settime settimeofday"),),
    opens=(
        group("allowed without namespace flags", "unshare"),
        group("not on the document's list", "memfd_create memfd_secret execveat name_to_handle_at"),
    ),
)
