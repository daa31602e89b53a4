"""Which values are taken, what the inspector is told of them, and that a revoked one is told to nobody."""

from __future__ import annotations

import json
import pickle
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pysandbox.compile.plan import SecretGrant
from pysandbox.errors import PolicyError
from pysandbox.gate.inspection.channel import ChannelRecord, Kind
from pysandbox.gate.placeholders import ALPHABETS, ANY, BEGINNINGS, KEPT, LEAST_BITS, _bits, placeholder_for
from pysandbox.gate.secrets import (
    LONGEST,
    LONGEST_OF_ALL,
    SHORTEST,
    CageSecrets,
    HeldSecrets,
    SecretValue,
    given_secrets,
)
from pysandbox.policy.model import Policy

VALUE = "a-value-that-is-long-enough-to-be-sent"
HEADER, BODY = ("header:authorization",), ("body",)


def grant(source: str = "given", places: tuple[str, ...] = HEADER, name: str = "TOKEN") -> SecretGrant:
    return SecretGrant(name, source, ("a.example",), places)


def plan(**env: str) -> Any:
    return SimpleNamespace(env=tuple(env.items()))


def holding(*grants: SecretGrant, **values: str) -> CageSecrets:
    return CageSecrets({name: SecretValue(value) for name, value in values.items()})


def rows(record: ChannelRecord) -> list[dict[str, Any]]:
    return list(json.loads(record.fields[0]))


@pytest.mark.parametrize(
    ("value", "places", "is_taken"),
    [
        ("x" * SHORTEST, HEADER, True), ("x" * (SHORTEST - 1), HEADER, False), ("", HEADER, False),
        ("x" * LONGEST, HEADER, True), ("x" * (LONGEST + 1), HEADER, False),
        ("with space!", HEADER, True), (" leading-space", HEADER, False), ("trailing-space ", HEADER, False),
        ("line\nbreak-in-it", HEADER, False), ("carriage\rreturn", HEADER, False), ("a-nul\0in-it", HEADER, False),
        ("no-ascii-\N{LATIN SMALL LETTER E WITH ACUTE}", HEADER, False),
        (VALUE, BODY, True), (f"{VALUE}_.~", BODY, True),
        (f'{VALUE}"', BODY, False), (f"{VALUE}&", BODY, False), (f"{VALUE} x", BODY, False),
        ("x" * SHORTEST, BODY, False),  # no placeholder of its length has chance enough
        (f'{VALUE}"', HEADER, True),
    ],
)  # fmt: skip
def test_a_value_is_one_that_can_be_sent_where_it_is_to_stand(value: str, places: tuple[str, ...], is_taken: bool):
    secrets, asked = holding(TOKEN=value), (grant(places=places),)
    if is_taken:
        shown = secrets.prepare(plan(), asked)["TOKEN"]
        assert shown != value and rows(secrets.record(1, asked))[0]["value"] == value
        return
    with pytest.raises(PolicyError) as refused:
        secrets.prepare(plan(), asked)
    assert not value or value not in str(refused.value)


def test_a_value_that_the_cage_has_already_is_no_secret():
    with pytest.raises(PolicyError, match="OTHER of the cage has the value of TOKEN"):
        holding(TOKEN=VALUE).prepare(plan(PATH="/bin", OTHER=f"Bearer {VALUE}"), (grant(),))
    assert holding(TOKEN=VALUE).prepare(plan(PATH="/bin", OTHER=VALUE[:-1]), (grant(),))


def test_all_values_together_fit_one_record():
    names = [f"T{number}" for number in range(LONGEST_OF_ALL // LONGEST + 1)]
    most = tuple(grant(name=each) for each in names[:-1])
    assert holding(**dict.fromkeys(names, "x" * LONGEST)).prepare(plan(), most)
    with pytest.raises(PolicyError, match="values of all secrets"):
        holding(**dict.fromkeys(names, "x" * LONGEST)).prepare(plan(), (*most, grant(name=names[-1])))


def test_where_a_value_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "token"
    monkeypatch.setenv("REAL", VALUE)
    for content in (VALUE, f"{VALUE}\n", f"{VALUE}\r\n"):
        file.write_bytes(content.encode())
        for source in (f"file:{file}", "env:REAL"):
            secrets, asked = holding(TOKEN="another-value-of-this-name"), (grant(source),)
            secrets.prepare(plan(), asked)
            assert rows(secrets.record(1, asked))[0]["value"] == VALUE


@pytest.mark.parametrize(
    ("source", "why"),
    [("given", "was not given"), ("env:UNSET", "is not set"), ("env:EMPTY", "is not set"),
     ("file:/no/such/file", "was not read"), ("file:/dev/zero", "was not read"), ("file:/", "was not read")],
)  # fmt: skip
def test_a_value_that_is_not_to_be_had_is_an_error(source: str, why: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("UNSET", raising=False)
    with pytest.raises(PolicyError, match=why):
        holding(OTHER=VALUE).prepare(plan(), (grant(source),))


def test_the_inspector_is_told_no_value_that_was_revoked_that_is_gone_or_that_has_no_placeholder_of_its_length(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("REAL", VALUE)
    secrets, asked = holding(TOKEN=VALUE), (grant(), grant("env:REAL", name="OTHER"))
    shown = secrets.prepare(plan(), asked)
    told = rows(secrets.record(1, asked))
    assert [each["value"] for each in told] == [VALUE, VALUE]
    assert [each["placeholder"] for each in told] == [shown["TOKEN"], shown["OTHER"]]
    assert told[0]["hosts"] == ["a.example"] and told[0]["places"] == ["header:authorization"]
    monkeypatch.setenv("REAL", VALUE + "longer")  # in the cage is the old placeholder
    assert [each["value"] for each in rows(secrets.record(1, asked))] == [VALUE, ""]
    monkeypatch.delenv("REAL")
    secrets.revoked.add("TOKEN")
    assert [each["value"] for each in rows(secrets.record(1, asked))] == ["", ""]


def test_a_placeholder_is_the_same_for_all_commands_of_a_cage_and_for_no_other():
    secrets, asked = holding(TOKEN=VALUE), (grant(),)
    assert (
        secrets.prepare(plan(), asked) == secrets.prepare(plan(), asked) != holding(TOKEN=VALUE).prepare(plan(), asked)
    )


def test_only_what_the_policy_asks_for_is_given():
    policy = Policy(hosts=["a.example"], secrets=[
        {"name": "GIVEN", "from": "given", "hosts": ["a.example"], "in": ["basic"]},
        {"name": "READ", "from": "env:READ", "hosts": ["a.example"], "in": ["basic"]},
    ])  # fmt: skip
    asked = (grant(name="GIVEN"),)
    given = given_secrets(policy, {"GIVEN": VALUE})
    assert given.prepare(plan(), asked) and rows(given.record(1, asked))[0]["value"] == VALUE
    with pytest.raises(PolicyError, match="was not given"):
        given_secrets(policy, None).prepare(plan(), asked)
    for name in ("READ", "OTHER"):
        with pytest.raises(PolicyError, match="is not a secret whose value is to be given"):
            given_secrets(policy, {name: VALUE})
    wrong: Any = {"GIVEN": VALUE.encode()}
    with pytest.raises(TypeError) as refused:
        given_secrets(policy, wrong)
    assert VALUE not in str(refused.value)


def test_a_value_is_in_no_text_of_it():
    value = SecretValue(VALUE)
    assert VALUE not in f"{value} {value!r} {[value]}" and value != SecretValue(VALUE) and value == value
    with pytest.raises(TypeError):
        pickle.dumps(value)


# ---- of a cage that lives ------------------------------------------------------------------------------------------


class Inspector:
    """One that remembers what it was told; `books`: it confirms that it has done so."""

    def __init__(self, *, books: bool = True, is_lost: bool = False) -> None:
        self.numbers, self.told_again, self.said = count(1), {}, list[ChannelRecord]()
        self.books, self.is_lost, self.ended = books, is_lost, list[str]()
        self.process = SimpleNamespace(kill=lambda: self.ended.append("kill"), wait=lambda: self.ended.append("wait"))

    def say(self, record: ChannelRecord, *, later: bool = False) -> None:
        if self.is_lost:
            raise BrokenPipeError
        self.said.append(record)

    def wait_booked(self) -> bool:
        return self.books


def held(inspector: Any) -> HeldSecrets:
    secrets = holding(TOKEN=VALUE)
    secrets.prepare(plan(), (grant(),))
    return HeldSecrets(inspector, secrets, (grant(),))


@pytest.mark.parametrize(("books", "is_lost"), [(True, False), (False, False), (True, True)])
def test_a_revoked_value_is_confirmed_to_be_gone_or_its_inspector_is(books: bool, is_lost: bool):
    inspector = Inspector(books=books)
    secrets = held(inspector)
    assert rows(inspector.said[0])[0]["value"] == VALUE
    inspector.is_lost = is_lost
    secrets.revoke("TOKEN")
    assert inspector.ended == ([] if books and not is_lost else ["kill", "wait"])
    if not is_lost:
        assert inspector.said[1:] == [ChannelRecord(Kind.REVOKE, 1, (b"TOKEN",))]
    again = inspector.told_again[1]()  # what the next inspector is told
    assert rows(again)[0]["value"] == ""


def test_an_inspector_that_is_gone_needs_no_end():
    inspector = Inspector(books=False)
    secrets, inspector.process = held(inspector), None
    secrets.revoke("TOKEN")
    assert inspector.ended == []


def test_what_is_no_secret_of_the_cage_is_not_revoked():
    inspector = Inspector()
    secrets = held(inspector)
    with pytest.raises(PolicyError, match="no secret of this cage"):
        secrets.revoke("OTHER")
    assert len(inspector.said) == 1 and rows(inspector.told_again[1]())[0]["value"] == VALUE


def test_the_end_of_a_cage_is_forgotten_once():
    inspector = Inspector()
    secrets = held(inspector)
    secrets.end()
    secrets.end()
    assert inspector.said[1:] == [ChannelRecord(Kind.FORGET, 1)] and inspector.told_again == {}


def test_what_was_never_taken_over_is_not_told_again():
    inspector = Inspector(is_lost=True)
    with pytest.raises(BrokenPipeError):
        held(inspector)
    assert inspector.told_again == {}


@pytest.mark.parametrize("beginning", ["", "ghp_", "sk-ant-api03-", BEGINNINGS[-1]])
def test_a_placeholder_has_the_shape_of_its_value_and_chance_enough(beginning: str):
    for alphabet in (*ALPHABETS, ANY):
        for size in (1, 40):
            value = beginning + (alphabet * 40)[:size] + "-" + alphabet[-1] * size
            made = placeholder_for(value)
            assert made.startswith(beginning) and made != placeholder_for(value)
            drawn = [letter for letter in made[len(beginning) :] if letter not in KEPT]
            assert len(drawn) * _bits(alphabet) >= LEAST_BITS and set(drawn) <= set(ANY)
            if size == 40:
                assert len(made) == len(value) and made[len(beginning) + size] == "-"
    assert placeholder_for(f"{beginning}--") not in ("", f"{beginning}--")
