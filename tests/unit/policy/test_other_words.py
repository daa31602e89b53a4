"""A keyword of another library is answered with the field that means the same."""

from __future__ import annotations

import pytest

from pysandbox import Policy, PolicyError
from pysandbox.policy.model import by_toml_key, options
from pysandbox.policy.other_words import FIELDS, SENTENCES

NAMES = frozenset(field.name for field, _ in options())


@pytest.mark.parametrize("word", FIELDS)
def test_each_word_leads_to_a_field(word: str) -> None:
    assert FIELDS[word] in NAMES and word not in NAMES
    if word in {described.key for _, described in options()} | by_toml_key().keys():
        return  # a key of a recipe, under which the field is told anyway
    with pytest.raises(PolicyError, match=f'{word}: .*did you mean "{FIELDS[word]}"'):
        Policy(**{word: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("word", SENTENCES)
def test_each_other_word_is_answered_with_a_sentence(word: str) -> None:
    assert word not in NAMES | FIELDS.keys()
    with pytest.raises(PolicyError) as caught:
        Policy(**{word: 1})  # type: ignore[arg-type]
    assert caught.value.suggestion


def test_a_word_that_is_like_no_other_is_given_no_advice() -> None:
    with pytest.raises(PolicyError) as caught:
        Policy(frobnicate=1)  # type: ignore[call-arg]
    assert caught.value.suggestion is None
