"""The merge laws, as laws."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pysandbox.policy.merge import RULES, merge_layers, union, union_grants
from pysandbox.policy.model import MERGE_WORDS, Grant, Policy
from unit.policy.strategies import GRANTS, LAYERS, NAMES, POLICIES, TEXT

LAWS = settings(max_examples=60, deadline=None)
GRANT_LISTS = st.lists(GRANTS, max_size=5).map(union_grants)
STRING_LISTS = st.lists(NAMES, max_size=5).map(lambda items: union((), tuple(items)))
PAIR_LISTS = st.dictionaries(NAMES, TEXT, max_size=5).map(lambda table: tuple(table.items()))


def merged(earlier, later):
    return merge_layers(MERGE_WORDS, earlier, later)


def test_every_merge_word_in_use_has_a_rule():
    assert set(MERGE_WORDS.values()) <= RULES.keys()


@LAWS
@given(LAYERS, LAYERS, LAYERS)
def test_merging_is_associative(first, second, third):
    left = merged(merged(first, second), third)
    right = merged(first, merged(second, third))
    assert left == right
    assert {key: list(left[key]) for key in left if isinstance(left[key], tuple)} == {
        key: list(right[key]) for key in right if isinstance(right[key], tuple)
    }


@LAWS
@given(LAYERS)
def test_merging_a_layer_with_itself_or_with_nothing_changes_nothing(layer):
    valid = Policy(**layer).given
    assert merged(valid, valid) == merged({}, valid) == merged(valid, {}) == valid


@LAWS
@given(LAYERS, LAYERS)
def test_strict_is_never_loosened(first, second):
    if first.get("strict") or second.get("strict"):
        assert merged(first, second)["strict"] is True


@LAWS
@given(LAYERS, LAYERS)
def test_an_omitted_field_keeps_the_earlier_value_and_a_given_one_of_the_last_kind_wins(first, second):
    result = merged(first, second)
    assert result.keys() == first.keys() | second.keys()
    for name in result:
        if name not in second:
            assert result[name] == first[name]
        elif MERGE_WORDS[name] == "last":
            assert result[name] == second[name]


@LAWS
@given(STRING_LISTS, STRING_LISTS)
def test_a_union_holds_every_item_once_in_order_of_first_occurrence(first, second):
    result = union(first, second)
    assert result[: len(first)] == first
    assert result[len(first) :] == tuple(each for each in second if each not in first)


@LAWS
@given(GRANT_LISTS, GRANT_LISTS)
def test_a_path_is_required_as_soon_as_one_layer_requires_it(first, second):
    result = union(first, second)
    required = {each.path for each in (*first, *second) if not each.optional}
    assert [each.path for each in result] == list(dict.fromkeys(each.path for each in (*first, *second)))
    assert {each.path for each in result if not each.optional} == required


@LAWS
@given(PAIR_LISTS, PAIR_LISTS)
def test_variables_are_united_by_name_and_the_later_value_wins(first, second):
    result = union(first, second)
    assert dict(result) == {**dict(first), **dict(second)}
    assert [name for name, _ in result][: len(first)] == [name for name, _ in first]


@LAWS
@given(POLICIES, POLICIES)
def test_policies_merge_as_their_layers_do(first, second):
    if (first.strict or second.strict) and not (first.merge(Policy()).limits_required and second.limits_required):
        return
    if (first.strict or second.strict) and not (first.caged and second.caged):
        return
    assert first.merge(second) == Policy(**merged(first.given, second.given))
    assert first.merge(Policy()) == Policy().merge(first) == first.merge(first) == first


def test_a_later_policy_keeps_what_it_does_not_mention():
    merged_policy = Policy(memory_mb=512, allow=["/a"]).merge(Policy(allow=["/b", "/a"], max_pids=8))
    assert merged_policy == Policy(memory_mb=512, max_pids=8, allow=[Grant("/a"), Grant("/b")])
