"""Pure decisions on one intercepted system call: a `Call` and the rules in, a `Verdict` out. One file for each family.

Nothing here reads memory, opens or sends; `supervise` does. A handler never lets the kernel go on with a call whose
arguments it has judged: there is no such verdict (see `verdict`). Whether an address may be reached is decided in
`network_rules` alone, for the gatekeeper as well.

    decide.py    from a call to its handler: one table        verdict.py   what may come of it
    network.py, execve.py, openat.py   the families           shebang.py   what an execve becomes
    denial.py, fix.py   what is told of a refusal, and what would allow it
"""
