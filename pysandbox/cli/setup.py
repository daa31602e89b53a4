"""`pysandbox setup`: install, show or remove the policy that AppArmor or SELinux needs for cages of unprivileged users.

Reads top to bottom: the flags, what there is to do, the question, the doing. At a terminal the policy (or what would
change) is shown first; without one nothing is asked, so that a provisioning script needs no flag. Exit code 0 when the
policy is as asked for, 125 when it is not.
"""

from __future__ import annotations

import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping

from pysandbox.cli import console
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.exit_codes import OUR_FAILURE
from pysandbox.probe.features import Host, mac_system
from pysandbox.setup.status import INSTALLED, NOT_INSTALLED, compare, present, wanted
from pysandbox.setup.target import InstallTarget, find_target, is_shared

SYSTEMS = {"apparmor": "AppArmor", "selinux": "SELinux"}

EPILOG = """\
AppArmor (Ubuntu) and SELinux (Fedora, RHEL) may keep programs of unprivileged users from making cages. This installs a
policy that allows it to one interpreter, and confines what is in a cage. On other hosts there is nothing to do.

Examples:
  pysandbox setup --dry-run                       show the policy; needs no root
  sudo .venv/bin/pysandbox setup                  install it, after a question
  sudo .venv/bin/pysandbox setup --yes            install it without one
  sudo .venv/bin/pysandbox setup --remove         remove it

The interpreter should be one of its own: python3 -m venv --copies .venv
"""


def main(arguments: list[str], verbose: bool, host: Host | None = None) -> int:
    """Carry out the command; `host` stands in for this one in tests."""
    host = host or Host()
    try:
        namespace = parser().read(arguments)
        _check_flags(namespace)
    except UsageError as wrong:
        return console.usage_error(str(wrong), "pysandbox setup --help")
    except SystemExit as stop:  # argparse printed the help
        return int(stop.code or 0)
    mac = SYSTEMS[namespace.mac] if namespace.mac else mac_system(host)
    if mac == "none":
        console.out("No policy is needed: neither AppArmor nor SELinux is active on this host.")
        return 0
    try:
        target = find_target(namespace.interpreter)
    except ValueError as unnameable:
        return _refuse(str(unnameable))
    if namespace.dry_run:
        return _show_all(wanted(mac, target, host.root))
    return _change(namespace, arguments, mac, target, host.root)


def parser() -> Parser:
    parser = Parser("pysandbox setup", "Install, show or remove the security policy that cages need here.", EPILOG)
    add = parser.add_argument
    add("-f", "--force", action="store_true", help="Install again, even if it is installed.")
    add("--remove", action="store_true", help="Remove the policy.")
    add("--dry-run", action="store_true", help="Print the policy and change nothing.")
    add("-y", "--yes", action="store_true", help="Do not ask.")
    add("--interpreter", metavar="PATH", help="The program that may make cages; this Python unless told otherwise.")
    add("--mac", choices=tuple(SYSTEMS), help="With --dry-run: print the policy for this system.")
    return parser


def _check_flags(namespace: Namespace) -> None:
    if namespace.mac and not namespace.dry_run:
        raise UsageError("--mac goes with --dry-run: a policy is installed for the system that is active")
    if namespace.remove and (namespace.force or namespace.dry_run):
        raise UsageError("--remove goes neither with --force nor with --dry-run")
    if namespace.interpreter is not None and not os.access(namespace.interpreter, os.X_OK):
        raise UsageError(f"--interpreter {namespace.interpreter!r} is not an executable file")


def _change(namespace: Namespace, arguments: list[str], mac: str, target: InstallTarget, root: str) -> int:
    """Install or remove, if there is anything to do, the caller is root and nobody says no."""
    files = {root + path: text for path, text in wanted(mac, target, root).items()}
    found = present(files)
    status = compare(files, found)
    if namespace.remove and status.word == NOT_INSTALLED:
        console.out("No policy is installed.")
        return 0
    if not namespace.remove and status.word == INSTALLED and not namespace.force:
        console.out(f"The policy is {status}.")
        return 0
    if not namespace.remove and namespace.interpreter is None and is_shared(target):
        return _refuse(SHARED.format(path=target.interpreter))
    if os.geteuid() != 0:
        return _refuse(f"root is needed; run: {_sudo(arguments)}")
    if not _agreed(namespace, files, found):
        return OUR_FAILURE
    return _carry_out(namespace, mac, target, files)


SHARED = (
    "{path} runs every Python program of this host, and a policy for it would allow cages, and user namespaces, to all "
    "of them; install pysandbox where Python is a file of its own (python3 -m venv --copies DIRECTORY), or insist with "
    "--interpreter {path}"
)


def _sudo(arguments: list[str]) -> str:
    """This command, to be run by sudo: root has another PATH, and -P keeps a package in the current directory out."""
    return shlex.join(["sudo", sys.executable, "-P", "-m", "pysandbox", "setup", *arguments])


# ---- the question --------------------------------------------------------------------------------------------


def _agreed(namespace: Namespace, files: Mapping[str, str], found: Mapping[str, str]) -> bool:
    """Whether to go on. Asked only where question and answer both have a terminal."""
    if namespace.yes or not sys.stdin.isatty():
        return True
    if not sys.stdout.isatty():
        console.error("the question would not be seen, as standard output is no terminal; add --yes")
        return False
    console.out(*_difference({} if namespace.remove else files, found).splitlines())
    try:
        answer = input("Remove this policy? [y/N] " if namespace.remove else "Install this policy? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() in ("y", "yes"):
        return True
    console.error("nothing was changed")
    return False


def _difference(files: Mapping[str, str], found: Mapping[str, str]) -> str:
    """A new policy whole, one that replaces another as a diff."""
    import difflib

    if not found:
        return _listing(files)
    lines: list[str] = []
    for path in files or found:
        old, new = found.get(path, ""), files.get(path, "")
        lines += difflib.unified_diff(old.splitlines(), new.splitlines(), path, path, "installed", "new", lineterm="")
    return "\n".join(lines)


def _listing(files: Mapping[str, str]) -> str:
    return "\n".join(f"# ==> {path}\n{text}" for path, text in files.items())


def _show_all(files: Mapping[str, str]) -> int:
    console.out(*_listing(files).splitlines())
    return 0


# ---- the doing -----------------------------------------------------------------------------------------------


def _carry_out(namespace: Namespace, mac: str, target: InstallTarget, files: Mapping[str, str]) -> int:
    from pysandbox.setup.install import SetupError, install, remove

    try:
        (remove if namespace.remove else install)(mac, files, target)
    except SetupError as error:
        return _refuse(str(error))
    first = next(iter(files))
    if namespace.remove:
        console.out(f"The {mac} policy is removed ({first}). It may still hold for programs that are running.")
    else:
        console.out(f"The {mac} policy is installed ({first}). It holds for programs that start from now on.")
    return 0


def _refuse(message: str) -> int:
    console.error(message)
    return OUR_FAILURE
