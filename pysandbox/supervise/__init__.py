"""Deciding, at run time, what could not be known before: connect, bind, send, execve, open; and the rename of a
directory that an overlay leaves to its user (moving.py).

START HERE: `supervisor.Supervisor`, one for each Runtime. Its C half (csrc/host/notify/receive.c) answers what a table
decides; every other call comes to `supervision.Supervision`, one for each cage: `wire.call_of` makes a Call of it,
`handlers` decide, `policy_fn` may refuse, `wire.answer` answers.

    rules_in_force.py   the lists, which only get narrower    context.py, cut.py, closing.py   tightening them
    policy_fn.py, consultation.py   the host's callback       record.py   calls and verdicts as lines
    files.py, opening.py, rights.py, images.py, programs.py, marks.py, walks.py   what a call means, and becomes
    sockets.py          unix sockets of a cage without namespaces
    renames.py, moving.py   renames of directories in copy-on-write trees
    refusals.py, further.py, missed.py, paths.py, fixing.py, notes.py   what was refused, and what would allow it
    turns.py            how many tasks of a cage run at once
"""
