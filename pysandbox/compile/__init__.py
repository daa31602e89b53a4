"""Policy + HostFacts + PathFacts -> Plan. Pure: nothing here opens, creates or starts anything.

START HERE: `compiler.compile_plan`, a list of steps, each of a file here; `plan` is what they make. `degrade` is the
only place that weakens, `absent` has what this version cannot carry out.

    files      view.py, shown.py, mounts.py, links.py, guards.py, watched.py, absent_names.py, kept.py
               cow.py, copies.py (copy-on-write)
    programs   programs.py, exec_list.py, environ.py, identity.py, limits.py
    Landlock   landlock.py, landlock_only.py
    calls      seccomp.py, filters.py, monitor.py, init_calls.py, bpf.py, bpf_run.py, profiles/, syscalls/
               notify.py (those that are decided at run time)
    network    network.py, doors.py, pools.py, routed.py, parent.py
    requests   trust.py, authorities.py, secrets.py, detectors.py, canaries.py
    notes.py   what a Plan says of itself       confine.py   the same for a process that confines itself
    siblings.py   the second filter of a template's workers
"""
