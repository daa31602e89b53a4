"""What an installer and an index read of this package."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import metadata

import pysandbox
from _support.tree import REPOSITORY


def test_the_version_is_written_once() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert "version" not in project
    assert "version" in project["dynamic"]
    assert metadata("pysandbox")["Version"] == pysandbox.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", pysandbox.__version__)


def test_a_source_install_fetches_what_it_needs_and_no_more() -> None:
    """The numbers of system calls are a table of the source: pyseccomp is the suite's, which holds the table to it."""
    document = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    needed = {re.split(r"[<>=]", each)[0] for each in document["build-system"]["requires"]}
    assert needed == {"scikit-build-core", "cffi"}
    assert any(each.startswith("pyseccomp") for each in document["project"]["optional-dependencies"]["test"])


def test_an_index_is_told_who_and_for_whom() -> None:
    found = metadata("pysandbox")
    assert found["Author"] == "The pysandbox developers"
    assert {"Operating System :: POSIX :: Linux", "Typing :: Typed"} <= set(found.get_all("Classifier", []))
    assert found["Requires-Python"] == ">=3.11"


def test_the_licence_is_an_expression_with_its_file() -> None:
    found = metadata("pysandbox")
    assert found["License-Expression"] == "Apache-2.0"
    assert found.get_all("License-File") == ["LICENSE"]
    assert not [each for each in found.get_all("Classifier", []) if each.startswith("License ::")]  # PEP 639
