"""Trees of Python as users have them below their home directory, made of the system's: installations, as uv's and
pyenv's, and environments of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
SYSTEM = f"{sys.base_prefix}/bin/{VERSION}"
WHERE = "import sys; print(sys.prefix)"


def install(root: Path) -> Path:
    """An installation of Python with its own interpreter; the standard library is the system's."""
    (root / "bin").mkdir(parents=True)
    (root / "lib").mkdir()
    shutil.copy(os.path.realpath(SYSTEM), root / "bin" / VERSION)
    os.symlink(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}), root / "lib" / VERSION)
    for name in ("python3", "python"):
        os.symlink(VERSION, root / "bin" / name)
    return root


def environment(root: Path, base: Path | str = sys.base_prefix, *, copies: bool = False) -> Path:
    """A virtual environment of that installation, with a console script `tool` that says where it runs."""
    subprocess.run([f"{base}/bin/python3", "-m", "venv", "--without-pip", *(["--copies"] if copies else []), root],
                   check=True)  # fmt: skip
    script(root / "bin" / "tool", f"{root}/bin/python")
    return root


def script(path: Path, interpreter: str, text: str = WHERE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{interpreter}\n{text}\n")
    path.chmod(0o755)
    return path


def pyenv(root: Path, version: str = "3.9.1") -> Path:
    """A root of pyenv with one version and its shims, which find that version as pyenv's do: by the root alone."""
    install(root / "versions" / version)
    launcher = root / "libexec" / "pyenv"
    launcher.parent.mkdir()
    launcher.write_text('#!/usr/bin/env bash\nshift\nexec "$PYENV_ROOT/versions/$(cat "$PYENV_ROOT/version")/bin/$@"\n')
    launcher.chmod(0o755)
    (root / "version").write_text(version)
    for name in ("python", "python3"):
        script(root / "shims" / name, "/usr/bin/env bash",
               f'export PYENV_ROOT="{root}"\nexec "{launcher}" exec "${{0##*/}}" "$@"')  # fmt: skip
    return root
