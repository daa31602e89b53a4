"""Small tools that meet unlisted system calls first: they do what they do outside, in both isolation modes.

The control is the same command uncaged, in a copy of the directory: equal output, equal exit code.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pysandbox import Cage, Policy

COMMANDS = {
    "tar": "tar -czf all.tar.gz tree && mkdir out && tar -xpf all.tar.gz -C out && find out | sort",
    "cp -a": "cp -a tree copy && diff -r tree copy && echo same",
    "ls -l": "ls -ln tree | cut -c1-10",
    "df": "df . > /dev/null && df -P / | wc -l",
    "touch": "touch -d 2020-01-02T03:04:05Z new && stat -c %Y new",
    "timeout": "timeout 5 echo in time; timeout -s KILL 0.1 sleep 5; echo $?",
    "find": "find tree -type f -name 'b*' -newermt 2000-01-01 -exec wc -c {} +",
    "grep -r": "grep -rn needle tree | sort",
    "xargs": "find tree -type f | sort | xargs -P2 -n1 basename | sort",
    "mkfifo": "mkfifo pipe; (echo through > pipe &); cat pipe",
    "mktemp": "f=$(mktemp) && echo kept > $f && cat $f && rm $f",
    "ln": "ln -s tree/a link && readlink -f link | xargs basename && ln tree/a hard && stat -c %h hard",
    "chmod": "chmod 640 tree/a && stat -c %a tree/a && chmod +t tree && stat -c %A tree",
    "install": "install -m 755 tree/a bin && stat -c %a bin",
    "dd": "dd if=/dev/zero of=zeros bs=4k count=3 conv=fsync status=none && wc -c < zeros",
    "truncate": "truncate -s 1M big && fallocate -l 4096 small && stat -c %s big small",
    "sed and awk": "sed -i s/needle/thread/ tree/a && awk '{ print NF }' tree/a",
    "sha256sum": "sha256sum tree/a | cut -c1-16",
    "ps": "test -n \"$(ps -o pid= -p $$ 2>/dev/null || echo $$)\" && echo seen",
    "nice": "nice -n 5 nice",
    "id": "id -u > /dev/null && whoami > /dev/null; date -u -d @0 +%Y; locale > /dev/null; echo ok",
    "python": "python3 -c 'import os, shutil; shutil.copy2(\"tree/a\", \"c\"); print(os.statvfs(\"c\").f_bsize)'",
    "sort": "seq 200000 | sort -n --parallel=2 -S 1M | tail -n 1",
    "diff": "diff tree/a tree/b; echo $?",
    "rm -r": "rm -r tree && ls",
}  # fmt: skip


def plant(directory: Path) -> None:
    tree = directory / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "a").write_text("a needle\n")
    (tree / "b").write_text("hay\n")
    (tree / "deep" / "b2").write_text("another needle here\n")


def uncaged(command: str, directory: Path) -> tuple[str, int]:
    done = subprocess.run(["/bin/sh", "-c", command], cwd=directory, capture_output=True, text=True, timeout=60)
    return done.stdout, done.returncode


@pytest.mark.parametrize("isolation", ["full", "landlock"])
@pytest.mark.parametrize("name", COMMANDS)
def test_it_does_what_it_does_outside(name: str, isolation: str, project: Path, tmp_path: Path) -> None:
    plant(project)
    control = tmp_path / "control"
    control.mkdir()
    plant(control)
    rules = Policy(workdir="write", run_as="self", isolation=isolation)

    result = Cage(rules, cwd=str(project)).run(["/bin/sh", "-c", COMMANDS[name]], timeout=60)

    assert (result.stdout, result.exit_code) == uncaged(COMMANDS[name], control), result.stderr
