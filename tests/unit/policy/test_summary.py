"""The one line that says what a cage may do."""

from __future__ import annotations

import pytest

from pysandbox.policy.model import Policy
from pysandbox.policy.summary import summary


@pytest.mark.parametrize(("policy", "line"), [
    (Policy(), "fs=none net=none state=ephemeral mem=none walltime=none"),
    (Policy(allow=["./data"], allow_write=["./scratch"], memory_mb=256, walltime_sec=600),
     "fs=ro:./data,rw:./scratch net=none state=ephemeral mem=256mb walltime=600s"),
    (Policy(workdir="write", state="scratch", egress="direct", unsafe_direct=True, walltime_sec=1.5),
     "fs=rw:. net=direct state=scratch mem=none walltime=1.5s"),
    (Policy(workdir="read"), "fs=ro:. net=none state=ephemeral mem=none walltime=none"),
    (Policy(caged=False), "disabled"),
])  # fmt: skip
def test_it_has_the_documents_form(policy: Policy, line: str) -> None:
    assert summary(policy, "scraper", "01HXABCDEF") == f"cage[scraper@01HXAB] {line}"


def test_neither_a_name_nor_a_path_can_forge_a_field() -> None:
    text = summary(Policy(allow=["/a net=all\n"]), "x] fs=rw:/", "01HXABCDEF")
    assert text.split(" ")[1:] == [
        r"fs=ro:/a\u{20}net=all\u{a}",
        "net=none",
        "state=ephemeral",
        "mem=none",
        "walltime=none",
    ]
    assert text.startswith(r"cage[x]\u{20}fs=rw:/@01HXAB] ")
