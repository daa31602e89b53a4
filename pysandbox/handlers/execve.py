"""execve and execveat. The list of executables is the kernel's to enforce (Landlock, noexec mounts); here a callback
may refuse on the arguments, and what is judged is what runs."""

from __future__ import annotations

from pysandbox.handlers.call import Call
from pysandbox.handlers.rules import CallRules
from pysandbox.handlers.verdict import Execute, Verdict


def decide(call: Call, rules: CallRules) -> Verdict:
    return Execute()
