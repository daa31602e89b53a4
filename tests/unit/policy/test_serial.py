"""A policy as text: JSON and TOML round trips, and the digest."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pysandbox.errors import PolicyError
from pysandbox.policy.model import Policy
from unit.policy.strategies import POLICIES

ROUNDS = settings(max_examples=60, deadline=None)


@ROUNDS
@given(POLICIES)
def test_json_reads_back_equal_with_the_same_digest(policy):
    again = Policy.from_json(policy.to_json())
    assert again == policy
    assert again.digest == policy.digest


@ROUNDS
@given(POLICIES)
def test_toml_reads_back_equal(policy):
    assert Policy.parse(policy.to_toml()) == policy


@ROUNDS
@given(POLICIES, POLICIES)
def test_digests_are_equal_exactly_for_equal_policies(first, second):
    assert (first.digest == second.digest) == (first == second)


def test_the_digest_is_the_same_on_every_machine():
    assert Policy(allow=["/a"]).digest == Policy(allow=["/a"]).digest
    assert len(Policy().digest) == 64
    assert Policy().to_json().startswith('{"address_space_gb":0,"allow":[],')


def test_toml_always_says_strict_egress_and_the_mode_of_the_filter():
    written = tomllib.loads(Policy().to_toml())
    assert written == {
        "strict": False,
        "network": {"egress": "proxy-only"},
        "syscalls": {"seccomp_mode": "allow-list"},
    }


def test_a_file_name_that_is_not_utf8_survives_json_and_is_refused_by_toml():
    policy = Policy(allow=["/a\udcff"])
    assert Policy.from_json(policy.to_json()) == policy
    with pytest.raises(PolicyError, match=r"filesystem\.allow: .* is not UTF-8"):
        policy.to_toml()


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "1", '{"alow":[]}', '{"strict":false,"strict":true}', '{"memory_mb":NaN}',
        '{"grace_sec":Infinity}', '{"allow":[{"path":"/a","path":"/b"}]}', '{"self":1}', "[" * 100_000, "9" * 5000,
    ],
)  # fmt: skip
def test_json_that_to_json_cannot_have_written_is_refused(text):
    with pytest.raises(PolicyError):
        Policy.from_json(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@ROUNDS
@given(st.dictionaries(st.sampled_from([*Policy.__dataclass_fields__]), JSON, max_size=4))
def test_no_structure_raises_anything_but_a_policy_error(table):
    import json

    try:
        Policy.from_json(json.dumps(table))
    except PolicyError:
        return
