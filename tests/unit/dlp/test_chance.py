"""What looks like a short token in the middle of data is none; whatever ends at something is one, and so is whatever
stands among letters that are no data."""

from __future__ import annotations

import base64
import random
import zlib

import pytest

from pysandbox.dlp import canary, registry
from pysandbox.dlp.chance import LEAST, MOST, SHORT, SUMS, has_sum
from pysandbox.dlp.detector import Detector
from pysandbox.dlp.engine import scan
from pysandbox.dlp.wanted import Wanted
from pysandbox.dlp.work import Undecodable

KEY = b"k" * 16
HF = registry.BY_NAME["huggingface_token"].hits[0]
DRAWN = random.Random(14)


def noise(letters: int) -> bytes:
    return base64.b64encode(DRAWN.randbytes(letters)).translate(None, b"+/=")[:letters]


def found(said: bytes) -> set[str]:
    return {each.detector for each in scan(said, KEY)}


def short() -> list[Detector]:
    return [each for each in registry.ALL if not each.never and min(map(len, each.literals)) <= SHORT]


@pytest.mark.parametrize("around", [LEAST, 2 * MOST])
def test_in_the_middle_of_data_it_is_chance(around: int) -> None:
    before, after = noise(around // 2), noise(around // 2)
    assert found(before + HF + after) == set()
    assert found(before + b"\n" + HF) == {"huggingface_token"}  # control


@pytest.mark.parametrize("detector", short(), ids=lambda each: each.name)
@pytest.mark.parametrize(
    "apart", [b" ", b'"', b"\n", b"=", b"&", b",", b":", b"\x00", b"\xff", b".", b"\\n", b"%20", b"%"]
)
def test_what_ends_at_something_on_one_side_is_found(detector: Detector, apart: bytes) -> None:
    hit = detector.hits[0]
    assert detector.name in found(noise(MOST) + apart + hit + apart + noise(MOST))
    assert detector.name in found(hit + apart + noise(MOST))
    assert detector.name in found(noise(MOST) + apart + hit)


FILLINGS = {
    "one letter": b"A", "two": b"a1", "words": b"secret_is_the_quick_brown_fox_", "digits": b"0123456789",
    "digits by chance": b"".join(DRAWN.choices([b"%d" % each for each in range(10)], k=3 * MOST)),
    "hex": DRAWN.randbytes(2 * MOST).hex().encode(), "a token, again and again": HF,
    "an alphabet": base64.b64encode(bytes(range(256))).translate(None, b"=/+"), "twenty": noise(20),
}  # fmt: skip


@pytest.mark.parametrize("filling", FILLINGS.values(), ids=list(FILLINGS))
def test_letters_that_are_no_data_hide_nothing(filling: bytes) -> None:
    around = (filling * 900)[: 2 * MOST]
    assert "huggingface_token" in found(around + HF + around)


def test_a_few_letters_of_data_hide_nothing() -> None:
    for letters in (0, 1, 20, LEAST // 2 - 1):
        assert "huggingface_token" in found(noise(letters) + HF + noise(letters)), letters


def test_data_on_one_side_alone_hides_nothing() -> None:
    assert "huggingface_token" in found(noise(MOST) + HF)
    assert "huggingface_token" in found(HF + noise(MOST))


def test_a_long_beginning_is_no_chance() -> None:
    for name in ("gitlab_token", "openrouter_key", "stripe_key", "pypi_token"):
        for hit in registry.BY_NAME[name].hits[:1]:
            assert name in found(noise(MOST) + hit + noise(MOST)), name


def test_what_goes_nowhere_is_no_chance() -> None:
    for detector in registry.ALL:
        if detector.never:
            assert detector.name in found(noise(MOST) + detector.hits[0] + noise(MOST)), detector.name


def test_false_credentials_and_a_policy_s_own_are_no_chance() -> None:
    value = canary.new_values(["PYSANDBOX_CANARY_NPM_TOKEN"])
    own = [("hug", ("hf_",), "hf_[A-Za-z0-9]{34}", (), 0, 64, 0)]
    said = noise(MOST) + HF + noise(MOST) + value["PYSANDBOX_CANARY_NPM_TOKEN"].encode() + noise(MOST)
    names = {each.detector for each in Wanted(own, value).found(said, KEY)}
    assert names == {"hug", "canary_npm_token"}


def with_sum(prefix: bytes) -> bytes:
    body, total, said = noise(30), 0, b""
    total = zlib.crc32(body)
    for _ in range(6):
        total, value = divmod(total, 62)
        said = SUMS[value : value + 1] + said
    return prefix + body + said


@pytest.mark.parametrize(("name", "prefix"), [("github_pat", b"ghp_"), ("github_pat", b"gho_"), ("npm_token", b"npm_")])
def test_a_checksum_that_is_right_is_no_chance(name: str, prefix: bytes) -> None:
    token = with_sum(prefix)
    assert has_sum(token, 30) and len(token) == 40
    assert name in found(noise(MOST) + token + noise(MOST))
    other = token[:-1] + (b"a" if token[-1:] != b"a" else b"b")
    assert not has_sum(other, 30)
    assert found(noise(MOST) + other + noise(MOST)) == set()
    assert name in found(b" " + other + b" ")


def test_megabytes_of_data_have_no_credential_in_them() -> None:
    """Without the look at what is around, twelve of these have several."""
    drawn = random.Random(3)
    said = b"".join(base64.urlsafe_b64encode(drawn.randbytes(3 << 20)) for _ in range(4))
    rows = registry.BY_NAME["huggingface_token"], registry.BY_NAME["replicate_token"]
    assert sum(said.count(each.literals[0]) for each in rows) > 100  # control: there is what could be one
    assert found(said) == set()


def test_each_look_is_charged() -> None:
    """A text that is full of such places is looked at within the budget, or not at all."""
    with pytest.raises(Undecodable):
        scan((noise(20) + HF) * 20_000, KEY)
