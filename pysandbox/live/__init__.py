"""One running cage, seen from its host: cage-init, its processes, its cgroup, and the limits that the host keeps.

START HERE: `init.CageInit`. `watchdog` holds the limits where no controller of the kernel does; `tree` counts
processes.

    commands.py    its commands, by number      processes.py, inside.py   its processes and directories, from outside
    services.py, served.py   what begins and ends with a cage       placing.py   between its birth and its first order
    stopping.py, standstill.py, kill_reason.py   signals, pausing, why it was killed
    cgroup.py, systemd.py, restrict.py   limits that the kernel holds; tightened while it runs
    cpu_budget.py, unwaited.py, unreadable.py, swapped.py, page_tables.py, pace.py   what the watchdog must know
    disk_use.py, scratch_use.py, write_counters.py, written.py   what is written, and where it lies
    stats.py       what it uses now             askers.py, look_credit.py   who in it was refused something
    open_sockets.py   those of a cage without a network namespace
    layers.py, uppers.py, copies.py, copier.py   what it writes apart
    covered.py, placeholders.py, new_names.py, awaited_names.py   whether what is denied in it still is; absent names
    last_steps.py  what is done when cage-init is gone
"""
