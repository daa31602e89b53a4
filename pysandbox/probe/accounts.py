"""The caller's own line of /etc/passwd and /etc/group, where these files lack it.

Users of a directory service (LDAP through sssd, systemd-userdb) are in no file, and a cage has no way to ask the
service: a program there would find its user id without a name. So such a cage gets files with one line more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cache

PASSWD, GROUP = "/etc/passwd", "/etc/group"
NUMBER = 2  # the field of the id, in both files


def own_accounts(root: str = "") -> Mapping[str, str]:
    """Path to content, of those files (below `root`) that have to be other than the host's."""
    files = ((PASSWD, _user_of(os.geteuid())), (GROUP, _group_of(os.getegid())))
    return {path: text for path, line in files if line and (text := _completed(root + path, line))}


def _completed(path: str, line: str) -> str | None:
    """With the line at its end; None where the file has its id."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    number = line.split(":")[NUMBER]
    if any(each.split(":")[NUMBER : NUMBER + 1] == [number] for each in text.splitlines()):
        return None
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n"


@cache  # a directory service may take its time, and who one is does not change while a program runs
def _user_of(uid: int) -> str:
    import pwd

    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return ""
    return _line((user.pw_name, "x", user.pw_uid, user.pw_gid, user.pw_gecos, user.pw_dir, user.pw_shell))


@cache
def _group_of(gid: int) -> str:
    import grp

    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return ""
    return _line((group.gr_name, "x", group.gr_gid, ""))


def _line(fields: Iterable[object]) -> str:
    """Empty where a service has answered what no line of a file can hold."""
    texts = [str(field) for field in fields]
    return "" if any(":" in text or not text.isprintable() for text in texts) else ":".join(texts)
