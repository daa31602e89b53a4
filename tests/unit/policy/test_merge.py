"""The merge laws, as laws."""

from __future__ import annotations

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pysandbox.errors import PolicyError
from pysandbox.policy.merge import RULES, blocks, merge_layers, union, union_grants
from pysandbox.policy.model import MERGE_WORDS, Grant, Policy
from pysandbox.policy.recipe import Recipe
from pysandbox.policy.sources import parse_recipe
from unit.policy.strategies import GRANTS, HOSTS, LAYERS, NAMES, POLICIES, TEXT

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
    valid = Policy(**layer).explicit
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
        if name == "host_loopback_ports" and True in (loopback(first), loopback(second)):  # all ports take these in
            assert result[name] == ()
        elif name not in second:
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
def test_policies_merge_as_their_layers_do_and_are_refused_as_they_are(first, second):
    assert outcome(lambda: first.merge(second)) == outcome(lambda: Policy(**merged(first.explicit, second.explicit)))
    assert first.merge(Policy()) == Policy().merge(first) == first.merge(first) == first


def outcome(make):
    """The policy, or why these values cannot stand together."""
    try:
        return make()
    except PolicyError as error:
        return str(error)


def test_a_thousand_pairs_of_recipes_merged_twice_are_what_they_are_merged_once():
    pairs = []

    @settings(max_examples=1000, deadline=None, database=None, phases=[Phase.generate])
    @given(LAYERS, LAYERS)
    def collect(first, second):
        pairs.append((Recipe(Policy(**first).explicit), Recipe(Policy(**second).explicit)))

    collect()
    assert len(pairs) >= 1000
    for first, second in pairs:
        once = first.merge(second)
        assert once.merge(second) == once
        assert first.merge(once).given == once.given


RULE_LISTS = st.lists(HOSTS, max_size=4).map(blocks)


@LAWS
@given(RULE_LISTS, RULE_LISTS)
def test_hosts_are_merged_by_domain_and_a_block_only_ever_extends_another(first, second):
    result = {rule.domain: rule for rule in RULES["blocks"](first, second)}
    assert list(result) == list(dict.fromkeys(rule.domain for rule in (*first, *second)))
    for rule in (*first, *second):
        merged_rule = result[rule.domain]
        for name in ("methods", "content_types", "paths", "ports"):  # an empty list allows any
            wide, one = getattr(merged_rule, name), getattr(rule, name)
            assert not wide or (one and set(one) <= set(wide))
        assert set(rule.allow_credentials) <= set(merged_rule.allow_credentials)
        cap = merged_rule.max_request_bytes
        assert cap is None or (rule.max_request_bytes is not None and cap >= rule.max_request_bytes)
        assert rule.direct <= merged_rule.direct
        assert rule.include_subdomains <= merged_rule.include_subdomains
        assert rule.websocket <= merged_rule.websocket
        assert set(rule.private_addresses) <= set(merged_rule.private_addresses)
    last = {rule.domain: rule.contract_mode for rule in (*first, *second) if rule.contract_mode is not None}
    assert {name: rule.contract_mode for name, rule in result.items() if rule.contract_mode is not None} == last


@LAWS
@given(LAYERS, LAYERS)
def test_scanning_is_never_switched_off_and_a_scope_never_narrowed(first, second):
    result = merged(first, second)
    for name in ("dlp_enabled", "dlp_canary_tokens", "allow_host_loopback", "unsafe_direct"):
        if first.get(name) or second.get(name):
            assert result[name] is True
    scopes = dict(result.get("dlp_extra_scopes", ()))
    for detector, domains in (*first.get("dlp_extra_scopes", ()), *second.get("dlp_extra_scopes", ())):
        assert set(domains) <= set(scopes[detector])


# Lists of which an empty one is no permission, and which no other option of the policy turns into a confinement.
GRANTED = ("allow", "allow_write", "env_passthrough", "allow_syscalls", "ports", "unix_sockets")


@LAWS
@given(LAYERS, LAYERS)
def test_no_layer_takes_away_by_adding(first, second):
    result = merged(first, second)
    for layer in (first, second):
        for name in GRANTED:
            assert {str(getattr(each, "path", each)) for each in layer.get(name, ())} <= {
                str(getattr(each, "path", each)) for each in result.get(name, ())
            }
        assert loopback(layer) is not True or loopback(result) is True
        assert loopback(layer) is True or loopback(result) is True or loopback(layer) <= loopback(result)


def loopback(layer):
    """The ports of the host's own services that are open, True for all."""
    ports = set(layer.get("host_loopback_ports", ()))
    return True if layer.get("allow_host_loopback") and not ports else ports


def test_the_two_ways_that_were_seen_to_take_away():
    def of(*texts):
        recipes = [parse_recipe(text) for text in texts]
        return recipes[0].merge(recipes[1]).policy(Policy)

    any_port, one = '[[host]]\ndomain = "a.example"\n', '[[host]]\ndomain = "a.example"\nports = [443]\n'
    for texts in ((any_port, one), (one, any_port)):
        assert of(*texts).hosts[0].ports == ()
    assert of(one, one.replace("443", "80")).hosts[0].ports == (443, 80)
    every, few = "[network]\nallow_host_loopback = true\n", "[network]\nhost_loopback_ports = [9001]\n"
    for texts in ((every, few), (few, every)):
        assert (of(*texts).allow_host_loopback, of(*texts).host_loopback_ports) == (True, ())
    assert of(few, few.replace("9001", "9002")).host_loopback_ports == (9001, 9002)


def test_a_later_policy_keeps_what_it_does_not_mention():
    merged_policy = Policy(memory_mb=512, allow=["/a"]).merge(Policy(allow=["/b", "/a"], max_pids=8))
    assert merged_policy == Policy(memory_mb=512, max_pids=8, allow=[Grant("/a"), Grant("/b")])
