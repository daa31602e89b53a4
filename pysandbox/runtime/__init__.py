"""What the cages of one host process share: compiled plans, the warm pool, one worker thread, records.

START HERE: `runtime.Runtime`; `prepared.Prepared` is a policy compiled for this host.

    plans.py       from a policy to its Plan, cached   commanded.py   the policy of one command
    pool.py        cages that wait                     prewarmed.py   which policies have some kept ready
    beside.py      what a cage has on the host         shared.py      what serves all cages
    draining.py    the end, also by SIGTERM            self_check.py, missing_walls.py   what is told of this host
    own_places.py, imports.py, mapped.py, replaced.py   what is looked at before a cage is made
"""
