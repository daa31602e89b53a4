"""One running cage, seen from its host: cage-init, its processes, its cgroup, and the limits that the host keeps.

START HERE: `init.CageInit`. `watchdog` holds the limits where no controller of the kernel does; `tree` counts
processes.
"""
