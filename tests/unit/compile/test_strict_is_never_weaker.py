"""A stricter word never makes a weaker cage: each option alone and in pairs, with the word and without it. Refusing to
compile is as strict as it gets."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from golden.pretend import HOSTS, MODERN
from golden.walls import DIRECT, NAMES, OPTIONS, WORDS, compiled, weaker
from pysandbox.probe.facts import CgroupFacts

# What a word implies shows the cage the certificates of whoever looks at its requests: that is held against the same.
IMPLIED = {"strict": {"dlp_enabled": True}}
SAMPLED = 60  # pairs for each word but the two that change most
PAIRS = [*((name,) for name in OPTIONS), *itertools.combinations(list(OPTIONS)[1:], 2)]
ABLE = replace(MODERN, cgroup=CgroupFacts("/sys/fs/cgroup/mine", ("cpu", "memory", "pids"), "below"))
HOSTS_TRIED = {"6.18": MODERN, "6.18 with cgroups": ABLE, "6.1": HOSTS["6.1"]}


@pytest.mark.parametrize("host", HOSTS_TRIED)
@pytest.mark.parametrize("word", WORDS)
def test_a_stricter_word_opens_nothing(word: str, host: str) -> None:
    tried = 0
    pairs = PAIRS[: len(OPTIONS)]
    if host == "6.18":
        rest = PAIRS[len(OPTIONS) :]
        pairs = pairs + (rest if word in ("strict", "scm_rights") else random.Random(word).sample(rest, SAMPLED))
    for names in pairs:
        options = [OPTIONS[name] for name in names]
        plain = compiled(HOSTS_TRIED[host], *options, IMPLIED.get(word, {}))
        strict = compiled(HOSTS_TRIED[host], *options, WORDS[word])
        if strict is not None and plain is not None:
            tried += 1
            assert weaker(strict, plain) == {}, (word, names)
    assert tried >= 5, "most were refused: that proves little"


def test_the_comparison_sees_a_weaker_plan() -> None:
    plain = compiled(MODERN)
    for opened in (DIRECT, {"workdir": "write"}, {"allow_syscalls": ("ptrace",)}, {"hosts": ("pypi.org",)},
                   {"isolation": "landlock", "run_as": "self"}):  # fmt: skip
        other = compiled(MODERN, opened)
        assert plain is not None and other is not None and weaker(other, plain) != {}, opened


def test_each_kind_of_difference_has_a_name_in_the_table() -> None:
    plain, other = compiled(MODERN, {"notifier": True}), compiled(MODERN, {"isolation": "landlock", "run_as": "self"})
    assert plain is not None and other is not None
    assert (weaker(other, plain).keys() | weaker(plain, other).keys()) <= NAMES.keys()
