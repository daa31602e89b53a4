"""Each shipped recipe that needs no network runs the program it is for, as `pysandbox run -r` would have it."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pysandbox import Cage, Result
from pysandbox.policy.compose import resolve

Run = Callable[..., Result]

# The kernel does not count root's processes, so that root's cages cannot be held to max_pids.
AS_ROOT: dict[str, Any] = {"max_pids": None} if os.geteuid() == 0 else {}


def needs(program: str) -> Any:
    where = shutil.which(program, path="/usr/local/bin:/usr/bin:/bin")
    return pytest.mark.skipif(where is None, reason=f"{program} is not installed in the system's directories")


@pytest.fixture
def run(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command with a recipe, without a network, in the project."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))  # the recipes of whoever runs the suite are not under test

    def run(recipe: str, *argv: str, **said: Any) -> Result:
        extra = {"egress": "none", **AS_ROOT, **said}
        defaults = {"workdir": "write", "run_as": "self"}
        resolved = resolve([recipe], command=argv, cwd=str(project), extra=extra, defaults=defaults)
        return Cage(resolved.policy, cwd=str(project)).run(list(argv), timeout=100)

    return run


def succeeded(result: Result) -> str:
    assert result.ok, (result.argv, result.reason, result.exit_code, result.stderr, result.notes)
    return str(result.stdout)


def test_python(run: Run) -> None:
    assert succeeded(run("python", "/usr/bin/python3", "-c", "import ssl, sqlite3; print(6 * 7)")) == "42\n"


def test_untrusted(run: Run, project: Path) -> None:
    code = "import os; print(os.listdir('.'), os.getuid())"
    assert succeeded(run("untrusted", "/usr/bin/python3", "-c", code, workdir="none", run_as="nobody")).endswith(
        "65534\n"
    )


def test_pytest(run: Run, project: Path, venv: Path) -> None:
    (project / "test_it.py").write_text("def test_it():\n    assert True\n")
    pytest_in_venv = [str(venv / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    assert "1 passed" in succeeded(run("pytest", *pytest_in_venv, allow=(str(venv),)))


def wheel(folder: Path) -> None:
    """A package `tiny` as an installer gets it from an index."""
    files = {
        "tiny.py": "answer = 42\n",
        "tiny-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n",
        "tiny-1.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    folder.mkdir()
    with zipfile.ZipFile(folder / "tiny-1-py3-none-any.whl", "w") as archive:
        record = ""
        for name, text in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(text)}\n"
            archive.writestr(name, text)
        archive.writestr("tiny-1.dist-info/RECORD", record + "tiny-1.dist-info/RECORD,,\n")


def test_python_pip_installs_from_a_local_directory(run: Run, project: Path, venv: Path) -> None:
    wheel(project / "wheels")
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-index", "--find-links", "wheels"]
    succeeded(run("python-pip", *pip, "--target", "site", "tiny", allow=(str(venv),)))
    assert (project / "site" / "tiny.py").read_text() == "answer = 42\n"


@needs("node")
def test_node(run: Run) -> None:
    assert succeeded(run("node", "node", "-e", "console.log([1, 2].map((x) => 2 * x).join())")) == "2,4\n"


@needs("npm")
def test_node_build_installs_a_package_that_is_there(run: Run, project: Path) -> None:
    (project / "dep").mkdir()
    (project / "dep" / "package.json").write_text('{"name": "dep", "version": "1.0.0"}')
    (project / "dep" / "index.js").write_text("module.exports = 42\n")
    (project / "package.json").write_text(
        '{"name": "app", "version": "1.0.0", "dependencies": {"dep": "file:dep"},'
        ' "scripts": {"test": "node -e \\"console.log(require(\'dep\'))\\""}}'
    )
    env = {"npm_config_update_notifier": "false", "npm_config_cache": "/tmp/npm"}
    succeeded(run("node-build", "npm", "install", "--offline", "--no-audit", "--no-fund", env=tuple(env.items())))
    assert "42\n" in succeeded(run("node-build", "npm", "test", env=tuple(env.items())))


@needs("git")
def test_tool_git(run: Run, project: Path) -> None:
    succeeded(run("tool:git", "git", "init", "-q", "-b", "main", "r"))
    (project / "r" / "file").write_text("x")
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    succeeded(run("tool:git", "git", "-C", "r", "add", "file"))
    succeeded(run("tool:git", "git", *who, "-C", "r", "commit", "-q", "-m", "first"))
    assert succeeded(run("tool:git", "git", "-C", "r", "log", "--format=%s")) == "first\n"


@needs("make")
def test_generic_strict_builds(run: Run, project: Path) -> None:
    (project / "Makefile").write_text("hello: hello.c\n\tcc -o $@ $<\n")
    (project / "hello.c").write_text('#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    succeeded(run("generic-strict", "make"))
    assert succeeded(run("generic-strict", "./hello")) == "built\n"


@needs("go")
def test_go_builds_without_a_network(run: Run, project: Path) -> None:
    (project / "go.mod").write_text("module example.com/hello\n\ngo 1.18\n")
    (project / "main.go").write_text('package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("built") }\n')
    succeeded(run("go", "go", "build", "-o", "hello", "."))
    assert succeeded(run("go", "./hello")) == "built\n"


@needs("java")
@needs("javac")
def test_java_runs_a_single_file(run: Run, project: Path) -> None:
    (project / "Hello.java").write_text(
        'public class Hello { public static void main(String[] a) { System.out.println("ran"); } }\n'
    )
    assert succeeded(run("java", "java", "Hello.java")) == "ran\n"


@needs("cargo")
def test_rust_builds_without_a_network(run: Run, project: Path) -> None:
    (project / "Cargo.toml").write_text('[package]\nname = "hello"\nversion = "0.1.0"\nedition = "2021"\n')
    (project / "src").mkdir()
    (project / "src" / "main.rs").write_text('fn main() { println!("built"); }\n')
    succeeded(run("rust", "/usr/bin/cargo", "build", "--offline", "--quiet"))
    assert succeeded(run("rust", "target/debug/hello")) == "built\n"


def test_a_server_of_a_protocol_over_standard_streams(project: Path) -> None:
    policy = resolve(["mcp-server"], cwd=str(project), extra=AS_ROOT).policy
    code = "import sys, json; print(json.dumps({'id': json.loads(sys.stdin.readline())['id'], 'result': {}}))"
    result = Cage(policy, cwd=str(project)).run(["/usr/bin/python3", "-c", code], input='{"id": 7}\n', timeout=30)
    assert succeeded(result) == '{"id": 7, "result": {}}\n'
