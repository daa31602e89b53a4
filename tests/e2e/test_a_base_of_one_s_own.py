"""A base.toml of the user's own is all that his cages show of the system: here document 001's list, place for place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIST = (
    "/bin", "/sbin", "/lib", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/local/bin",
    "/usr/local/lib", "/usr/share", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/resolv.conf",
    "/etc/nsswitch.conf", "/etc/hosts", "/etc/ssl", "/etc/ca-certificates", "/etc/localtime", "/etc/alternatives",
    "/etc/passwd", "/etc/group",
)  # fmt: skip
DENIED = ("/etc/shadow", "/etc/gshadow", "/etc/ssl/private")
LOOK = """
for each in /usr/* /usr/local/*; do [ -e "$each" ] && echo "$each"; done
python3 -c 'import ssl, json; print("ran")'
"""


def shown(project: Path, home: Path) -> set[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")} | {"HOME": str(home)}
    command = [sys.executable, "-m", "pysandbox", "run", "--", "/bin/sh", "-c", LOOK]
    done = subprocess.run(command, cwd=project, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_list_of_the_document_is_shown_and_no_more_of_usr(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    recipes = home / ".config" / "pysandbox" / "recipes"
    recipes.mkdir(parents=True)
    assert {"/usr/include", "/usr/src"} & shown(project, home), "the control: the shipped base shows all of /usr"

    allow, deny = (", ".join(f'{{ path = "{path}", optional = true }}' for path in each) for each in (LIST, DENIED))
    (recipes / "base.toml").write_text(f"[filesystem]\nallow = [{allow}]\ndeny = [{deny}]\n")
    places = {path for path in LIST if path.startswith("/usr/") and os.path.exists(path)}
    assert shown(project, home) == {*places, "/usr/local", "ran"}
