"""git, make with gcc, node and npm, unmodified, in a cage with the current directory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pysandbox import Cage, Policy

IDENTITY = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "A Person"), ("EMAIL", "person@example.com"))}  # fmt: skip

needs_node = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed: apt-get install npm")


def test_git_keeps_a_history(at_work: Cage, project: Path) -> None:
    (project / "file").write_text("one\n")
    for command in ("init -q -b main repository", "-C repository add -A", "-C repository commit -q -m first",
                    "clone -q repository copy"):  # fmt: skip
        if command.startswith("-C repository add"):
            shutil.copy(project / "file", project / "repository" / "file")
        result = at_work.run(["git", *command.split()], env=IDENTITY, timeout=60)
        assert result.ok, (command, result.stderr)

    log = at_work.run(["git", "-C", "copy", "log", "--format=%an %s"])
    status = at_work.run(["git", "-C", "copy", "status", "--porcelain"])

    assert (log.stdout, status.stdout) == ("A Person first\n", "")
    assert (project / "copy" / "file").read_text() == "one\n"


def test_make_builds_a_c_project_with_two_jobs(at_work: Cage, project: Path) -> None:
    (project / "Makefile").write_text(
        "all: hello\nhello: main.o word.o\n\tcc -o $@ $^\n%.o: %.c\n\tcc -O2 -Wall -c -o $@ $<\n"
    )
    (project / "main.c").write_text(
        "#include <stdio.h>\nconst char *word(void);\nint main(void) { puts(word()); return 0; }\n"
    )
    (project / "word.c").write_text('const char *word(void) { return "built in a cage"; }\n')

    built = at_work.run(["make", "-j2"], timeout=60)
    ran = at_work.run(["./hello"])

    assert built.ok, built.stderr
    assert ran.stdout == "built in a cage\n"


@needs_node
def test_node_runs_a_script(at_work: Cage, project: Path) -> None:
    (project / "work.js").write_text(
        'const fs = require("fs"), os = require("os");\n'
        'fs.writeFileSync("out.json", JSON.stringify({sum: [1, 2, 3].reduce((a, b) => a + b)}));\n'
        'require("child_process").execFileSync("/bin/true");\n'
        'setTimeout(() => console.log("done", os.cpus().length > 0), 10);\n'
    )

    result = at_work.run(["node", "work.js"], timeout=60)

    assert result.stdout == "done true\n", result.stderr
    assert json.loads((project / "out.json").read_text()) == {"sum": 6}


@needs_node
def test_npm_tests_a_package(project: Path) -> None:
    """npm loads WebAssembly, which reserves more address space than the default limit: its recipe lifts the limit."""
    (project / "package.json").write_text(
        json.dumps({"name": "tiny", "version": "1.0.0", "scripts": {"test": "node test.js"}})
    )
    (project / "test.js").write_text(
        'require("assert").strictEqual(require("./tiny")(2), 4); console.log("tests pass")\n'
    )
    (project / "tiny.js").write_text("module.exports = (x) => x * 2\n")
    rules = Policy(workdir="write", run_as="self", address_space_gb=0, env=(("npm_config_update_notifier", "false"),))

    result = Cage(rules, cwd=str(project)).run(["npm", "test"], timeout=60, env={"HOME": "/tmp"})

    assert result.ok, result.stderr
    assert "tests pass" in str(result.stdout)


def test_shell_scripts_with_pipes_and_traps_run(at_work: Cage) -> None:
    script = (
        "set -euo pipefail; trap 'echo cleaned' EXIT; seq 1000 | sort -R | sort -n | tail -n 1; cat <(echo substituted)"
    )

    result = at_work.run(["/bin/bash", "-c", script], timeout=30)

    assert result.stdout == "1000\nsubstituted\ncleaned\n", result.stderr
