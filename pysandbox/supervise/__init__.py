"""Deciding, at run time, what could not be known before: connect, bind, send, execve, open.

START HERE: `supervisor.Supervisor`, one for each Runtime. Its C half (csrc/host/notify.c) answers what is a table; what
is left comes to `supervision.Supervision`, one for each cage: `decode` makes a Call of it, `handlers` decides,
`policy_fn` may refuse, `apply` carries the verdict out.
"""
