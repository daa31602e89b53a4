"""Pure decisions on one intercepted system call: a `Call` and the rules in, a `Verdict` out. One file for each family.

Nothing here reads memory, opens or sends; `supervise` does. A handler never lets the kernel go on with a call whose
arguments it has judged: there is no such verdict (see `verdict`). Whether an address may be reached is decided in
`network_rules` alone, for the gatekeeper as well.
"""
