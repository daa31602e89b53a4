"""Deciding, at run time, what could not be known before: connect, bind, send, execve, open; and the rename of a
directory that an overlay leaves to its user (moving.py).

START HERE: `supervisor.Supervisor`, one for each Runtime. Its C half (csrc/host/notify/receive.c) answers what a table
decides; every other call comes to `supervision.Supervision`, one for each cage: `wire.call_of` makes a Call of it,
`handlers` decide, `policy_fn` may refuse, `wire.answer` answers.
"""
