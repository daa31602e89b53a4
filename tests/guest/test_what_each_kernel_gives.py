"""docs/kernels.md is what the kernels say, and the pretended hosts of the golden Plans are what they are."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest

from _support.tree import REPOSITORY
from golden.pretend import HOSTS
from pysandbox.probe.features import read_all
from pysandbox.probe.host import asked_for_redirects, host_facts
from pysandbox.probe.kernel import version

KERNEL = os.environ.get("PSB_GUEST", "")
PAGE = REPOSITORY / "docs" / "kernels.md"
ROW = re.compile(r"^\| `(?P<feature>\w+)` \|(?P<cells>.*)\|$", re.MULTILINE)


def column(kernel: str) -> dict[str, str]:
    """What the page's table says of this kernel, by feature."""
    text = PAGE.read_text(encoding="utf-8")
    heading = next(line for line in text.splitlines() if line.startswith("| feature |"))
    index = [name.strip() for name in heading.split("|")[2:-1]].index(kernel)
    return {found["feature"]: found["cells"].split("|")[index].strip() for found in ROW.finditer(text)}


@pytest.mark.skipif(os.geteuid() == 0, reason="the page speaks of an ordinary user")
def test_the_page_has_what_an_ordinary_user_of_this_kernel_has() -> None:
    assert column(KERNEL) == {
        row.name: ("yes" if reading.ok else "no")
        + (f", {reading.detail.partition(',')[0]}" if row.name == "landlock" else "")
        for row, reading in read_all()
    }


def test_the_pretended_host_of_the_golden_plans_is_this_one() -> None:
    found, pretended = asked_for_redirects(host_facts()), HOSTS[KERNEL]
    assert found.nf_tables  # one pretended host does without, for the plans of such kernels
    own = dict.fromkeys(("uid", "gid", "env", "cgroup", "nf_tables"))
    assert replace(found, **{name: getattr(pretended, name) for name in own}) == pretended


def test_this_is_the_kernel_it_is_said_to_be() -> None:
    assert ".".join(map(str, version())) == KERNEL
