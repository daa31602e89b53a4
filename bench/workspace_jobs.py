"""What people do in a tree, for bench.workspace: npm install, git checkout, make. All of it without a network."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

PACKAGES, FILES, TARGETS = 40, 2_000, 200

# npm's own files and its log lie in the tree as well: that is written in any project, and the cage has no other place.
PROGRAM = """
import json, os, resource, subprocess, sys, time
os.chdir(sys.argv[1])
jobs = {
    "npm install": ["npm", "install", "--offline", "--no-audit", "--no-fund", "--install-links", "--cache", "cache"],
    "git checkout": ["git", "-c", "core.fsync=none", "checkout", "--quiet", "other"],
    "make": ["make", "--silent"],
}
took = {}
def processor_time():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
environment = {"PATH": os.environ["PATH"], "HOME": os.getcwd()}
for name, argv in jobs.items():
    began = processor_time()
    subprocess.run(argv, check=True, stdout=2, env=environment, cwd=name.split()[0])
    took[name] = (processor_time() - began) * 1000
print(json.dumps(took))
"""
MAKEFILE = """
sources := $(wildcard *.in)
all: $(sources:.in=.out)
%.out: %.in ; tr a-z A-Z < $< > $@
"""


def plant(tree: Path) -> None:
    for each in (_npm, _git, _make):
        place = tree / each.__name__.lstrip("_")
        place.mkdir(parents=True)
        each(place)


def _npm(place: Path) -> None:
    names = [f"package{number}" for number in range(PACKAGES)]
    for name in names:
        (place / name / "lib").mkdir(parents=True)
        (place / name / "package.json").write_text(json.dumps({"name": name, "version": "1.0.0"}))
        for number in range(10):
            (place / name / "lib" / f"file{number}.js").write_text("module.exports = 1;\n" * 100)
    depends = {name: f"file:{name}" for name in names}
    (place / "package.json").write_text(json.dumps({"name": "all", "version": "1.0.0", "dependencies": depends}))


def _git(place: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=n", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *identity, *words], cwd=place, check=True, capture_output=True)

    git("init", "--quiet")
    for branch in ("main", "other"):
        git("checkout", "--quiet", "-B", branch)
        for number in range(FILES):
            (place / f"file{number}").write_text(f"{branch} {number}\n" * 20)
        git("add", "--all")
        git("commit", "--quiet", "--message", branch)
    git("checkout", "--quiet", "main")


def _make(place: Path) -> None:
    (place / "Makefile").write_text(MAKEFILE)
    for number in range(TARGETS):
        (place / f"file{number}.in").write_text("some words\n" * 50)
