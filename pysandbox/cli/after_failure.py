"""What is said of a command that the launcher has run, and that failed (csrc/launcher/failure.c). Nobody types it.

    pysandbox-python after-failure CODE NO_ROUTE FILTERED [flags of run] -- COMMAND ...

NO_ROUTE is 1 where the command looked for a host that it has no way to, else 0; FILTERED where it was ended at a system
call. Exits with CODE whatever happens: the
run is over, and its exit code is the command's.
"""

from __future__ import annotations

from contextlib import suppress


def main(arguments: list[str], verbose: bool) -> int:
    code = int(arguments[0])
    with suppress(Exception):  # a line that may help, and nothing that anybody asked for
        _say(code, arguments[1] == "1", "seccomp" if arguments[2] == "1" else "", arguments[3:])
    return code


def _say(code: int, no_route: bool, reason: str, arguments: list[str]) -> None:
    import os

    from pysandbox.cli import console, why_failed
    from pysandbox.cli.descriptors import wants_pty
    from pysandbox.cli.flags import policy_values
    from pysandbox.cli.policy_of import policy_of
    from pysandbox.cli.run import read_arguments
    from pysandbox.runtime.runtime import Runtime

    namespace, argv = read_arguments(arguments)
    policy = policy_of(namespace.recipe, command=argv, extra=policy_values(namespace), pty=wants_pty(namespace)).policy
    prepared = Runtime(warm=0).prepare(policy, os.getcwd())
    policy, plan = prepared.policy, prepared.plan
    line = why_failed.without_record(argv, code, plan, os.getcwd(), policy, no_route)
    line = line or why_failed.pointer(reason, code, policy)
    if line:
        console.say(line)
