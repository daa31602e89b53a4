"""The TOML door: strict, and every refusal says in which file, on which line and for which key."""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pysandbox.errors import PolicyError
from pysandbox.policy.model import Grant, Policy, options
from pysandbox.policy.reading import LARGEST_FILE
from pysandbox.policy.recipe import Recipe, RecipeMeta
from pysandbox.policy.sources import (
    ABSENT,
    REPLACED,
    parse_recipe,
    read_recipe,
)

FULL = """\
strict = true
isolation = "full"

[recipe]
name = "full"
description = "everything"
version = "2026.1"
match_prefix = ["$HOME/.cargo"]

[filesystem]
allow = ["/a", { path = "/b", optional = true }]
"deny" = ["/a/secret"]

[process]
env = { LANG = "C", "A.B" = "" }
max_pids = 64

[resources]
memory_mb = 512
walltime_sec = 2.5

[syscalls]
profile = "seed-187"
allow_extra = ["ptrace"]
"""


def refusal(text: str) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        parse_recipe(text, "x.toml")
    return caught.value


def test_a_recipe_holds_what_its_file_says_and_no_more():
    recipe = parse_recipe(FULL, "full.toml")
    assert recipe.given == {
        "strict": True,
        "isolation": "full",
        "allow": (Grant("/a"), Grant("/b", True)),
        "deny": (Grant("/a/secret"),),
        "env": (("LANG", "C"), ("A.B", "")),
        "max_pids": 64,
        "memory_mb": 512,
        "walltime_sec": 2.5,
        "seccomp": "seed-187",
        "allow_syscalls": ("ptrace",),
    }
    assert recipe.meta == RecipeMeta("full", "everything", "2026.1", ("$HOME/.cargo",))


SAID = {"proxy_parent": '"http://proxy.example:3128"', "proxy_parent_credentials": '"env:PROXY"'}


def test_every_option_is_read_from_its_section():
    for field, described in options():
        policy = Policy(**{field.name: field.default})
        value = {"True": "true", "False": "false"}.get(repr(field.default), repr(field.default))
        if field.default is None or isinstance(field.default, tuple):
            given = {"int | None": "20", "float | None": "20", "bool | None": "true", "str | None": '"http"'}
            value = given.get(str(field.type), "{}" if str(field.type).startswith("tuple[tuple[") else "[]")
        value = SAID.get(field.name, value)
        head = f"[{described.section}]\n" if described.section else ""
        assert parse_recipe(f"{head}{described.key} = {value}".replace("'", '"')).given.keys() == {field.name}, policy


def test_dotted_keys_inline_tables_and_quoted_keys_read_the_same():
    expected = parse_recipe("[network]\negress = 'none'").given
    for text in ("network.egress = 'none'", "network = { egress = 'none' }", '"network"."egress" = "none"'):
        assert parse_recipe(text).given == expected


@pytest.mark.parametrize(
    ("text", "line", "key", "message", "suggestion"),
    [
        ("[filesystm]\nallow = []", 1, "filesystm", "no such key or section", 'did you mean "filesystem"?'),
        ("\n[filesystem]\n\nalow = []", 4, "filesystem.alow", "no such key", 'did you mean "allow"?'),
        ("[process]\nmax_pid = 1", 2, "process.max_pid", "no such key", 'did you mean "max_pids"?'),
        ("[process]\nmemory_mb = 64", 2, "process.memory_mb", "no such key", "write memory_mb in [resources]"),
        ("[filesystem]\nstrict = true", 2, "filesystem.strict", "no such key", "write strict above all sections"),
        ("[syscalls]\nseccomp = 'default'", 2, "syscalls.seccomp", "no such key", "write profile in [syscalls]"),
        ("allow = []", 1, "allow", "no such key or section", "write allow in [filesystem]"),
        ("filesystem.alow = []", 1, "filesystem.alow", "no such key", 'did you mean "allow"?'),
        ("x = 1\nfilesystem = {\talow = []}", 1, "x", "no such key or section", None),
        ("filesystem = { allow = [],\talow = []}", 1, "filesystem.alow", "no such key", 'did you mean "allow"?'),
        ('[filesystem]\n"a.b\\n" = 1', 2, "filesystem.'a.b\\n'", "no such key", None),
        ("[filesystem]\n'filesystem.allow' = 1", 2, "filesystem.'filesystem.allow'", "no such key", None),
        ("['filesystem.allow']", 1, "'filesystem.allow'", "no such key or section", None),
        ("[filesystem.allow]\nx = 1", 1, "filesystem.allow", "must be a list of paths", None),
        ("[[filesystem]]\nallow = []", 1, "filesystem", "must be a table", "write [filesystem]"),
        ("filesystem = 3", 1, "filesystem", "must be a table", None),
        ("strict = 'yes'", 1, "strict", "must be true or false, not 'yes'", None),
        ("strict = 1979-05-27 07:32:00\n", 1, "strict", "must be true or false", None),
        ("[filesystem]\nallow = [\n  '/a', # one\n  # two\n  7,\n]", 5, "filesystem.allow", "must be a string", None),
        ("[filesystem]\nallow = ['''\n/a''',\n{ path = '/b',\toptional = 1 }]", 4, "filesystem.allow", "true", None),
        ("[filesystem]\nallow = [{ pth = '/b' }]", 2, "filesystem.allow", "'pth' is not part", 'did you mean "path"?'),
        ("[filesystem]\nallow = '/a'", 2, "filesystem.allow", "not one string", "write ['/a']"),
        ("[process]\nenv = [['A', 'b']]", 2, "process.env", "must be a table", None),
        ("[process.env]\nA = 'b'\nB = 1", 3, "process.env", "the value of 'B' must be a string", None),
        ("[process]\nenv.'A=' = 'b'", 2, "process.env", "not the name of a variable", None),
        ("[resources]\nmemory_mb = 8", 2, "resources.memory_mb", "at least 16 MiB", None),
        ("[resources]\nmemory_mb = 64.0", 2, "resources.memory_mb", "whole number", None),
        ("[resources]\nmemory_mb = 0x" + "f" * 9000, 2, "resources.memory_mb", "too large to print", None),
        ("[resources]\nwalltime_sec = inf", 2, "resources.walltime_sec", "finite", None),
        ("[[host]]\ndomain = 'a.b'\n[[host]]\nmethods = ['GET']", 3, "host", "needs the key domain", None),
        ("[[host]]\ndomain = 'a.b'\nmethds = []", 3, "host", "'methds' is not a key", 'did you mean "methods"?'),
        ("[host]\ndomain = 'a.b'", 1, "host", "must be a list of tables", "write [[host]]"),
        ("[network.dlp]\nenabld = true", 2, "network.dlp.enabld", "no such key", 'did you mean "enabled"?'),
        ("[network.dpl]\nx = 1", 1, "network.dpl", "no such key", 'did you mean "dlp"?'),
        ("[network]\ndlp = 1", 2, "network.dlp", "must be a table", None),
        ("[proxy]\nupstream_scheme = 'https'", 2, "proxy.upstream_scheme", "must be one of", None),
        ("[syscalls]\nallow = ['read']\ndeny_extra = ['bpf']", 2, "syscalls.allow", "lists calls absolutely", None),
        ("[syscalls]\nprofile = 'basline'", 2, "syscalls.profile", "one of", 'did you mean "baseline"?'),
        ("[filesystem]\nread = []", 2, "filesystem.read", "no such key", "write allow in [filesystem]"),
        ("[filesystem]\nallow_read = []", 2, "filesystem.allow_read", "no such key", "write allow in [filesystem]"),
        ("[fs]\nallow = []", 1, "fs", "no such key or section", "write [filesystem]"),
        ("[limits]\nmemory = 1", 1, "limits", "no such key or section", "write [resources]"),
        ("[resources]\ntimeout = 1", 2, "resources.timeout", "no such key", "write walltime_sec in [resources]"),
        ("timeout = 1", 1, "timeout", "no such key or section", "write walltime_sec in [resources]"),
        ("[network]\nallow = ['a.b']", 2, "network.allow", "no such key", "[[host]]"),
        ("[network]\nallow_hosts = ['a.b']", 2, "network.allow_hosts", "no such key", "[[host]]"),
        ("[network]\nenabled = true", 2, "network.enabled", "no such key", "[[host]]"),
        ("hosts = ['a.b']", 1, "hosts", "no such key or section", "[[host]]"),
        ("[[host]]\nname = 'a.b'", 2, "host", "'name' is not a key", 'did you mean "domain"?'),
        ("[recipe]\nnam = 'x'", 2, "recipe.nam", "no such key", 'did you mean "name"?'),
        ("[recipe]\nversion = 2", 2, "recipe.version", "must be a string", None),
        ("[recipe]\nmatch_prefix = '/a'", 2, "recipe.match_prefix", "must be a list", None),
        ("recipe = 1", 1, "recipe", "must be a table", None),
        ("a = 1\na = 2", 2, None, "not TOML", None),
        ("[filesystem\nallow = []", 1, None, "not TOML", None),
        ("a = " + "[" * 5000, None, None, "nested too deeply", None),
        ("a = " + "9" * 5000, None, None, "not TOML", None),
        ("\ufeffstrict = true", 1, None, "not TOML", None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_where_it_stands(text, line, key, message, suggestion):
    error = refusal(text)
    assert (error.file, error.line, error.key) == ("x.toml", line, key)
    assert message in error.message
    assert suggestion is None or suggestion in (error.suggestion or "")
    assert "\n" not in str(error)


@pytest.mark.parametrize("dotted", ABSENT)
def test_a_part_of_the_documents_that_is_not_here_yet_is_refused_by_name(dotted):
    section, _, key = dotted.rpartition(".")
    error = refusal(f"[{section}]\n{key} = true" if section else f"\n[[{key}]]\ndomain = 'x'")
    assert (error.key, error.line, error.suggestion) == (dotted, 2, "remove it")
    assert "is not part of this version" in error.message


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("[profile]\nname = 'x'", "use profile in [syscalls]"),
        ("[syscalls]\nbaseline = 'x'", "use profile in [syscalls]"),
        ("baseline = 'x'", "use profile in [syscalls]"),
        ("[network]\ndeny_all = true", 'use egress = "none" in [network]'),
        ("[syscalls]\nallow = ['read']", "use allow_extra"),
        ("[syscalls]\ndeny = ['read']", "use deny_extra"),
    ],
)
def test_a_word_of_an_older_schema_is_refused_with_what_replaces_it(text, suggestion):
    assert suggestion in (refusal(text).suggestion or "")


def test_no_word_is_both_refused_by_name_and_declared():
    declared = {described.toml_key for _, described in options()}
    assert not declared & (ABSENT.keys() | REPLACED.keys())


def test_a_contradiction_is_reported_with_its_line():
    with pytest.raises(PolicyError) as caught:
        Policy.parse("[network]\n\negress = 'direct'", "x.toml")
    assert (caught.value.file, caught.value.line, caught.value.key) == ("x.toml", 3, "network.egress")


def test_a_file_is_read_and_named_after_its_stem(tmp_path):
    (tmp_path / "mine.toml").write_text("[filesystem]\nallow = ['/a']\n")
    recipe = read_recipe(str(tmp_path / "mine.toml"))
    assert (recipe.name, recipe.meta) == ("mine", None)
    assert Policy.load(str(tmp_path / "mine.toml")) == Policy(allow=["/a"])


def test_files_merge_left_to_right(tmp_path):
    for name, text in (
        ("a", "strict = true\n[resources]\nmemory_mb = 64"),
        ("b", "strict = false"),
        ("c", "[resources]\nmemory_mb = 32"),
    ):
        (tmp_path / f"{name}.toml").write_text(text)
    files = [str(tmp_path / f"{name}.toml") for name in "abc"]
    assert Policy.load(*files) == Policy(strict=True, memory_mb=32)
    assert Policy.load() == Policy()


def test_files_are_looked_for_in_the_directory_that_is_named(tmp_path, monkeypatch):
    (tmp_path / "mine.toml").write_text("strict = true\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert Policy.load("./mine.toml", cwd=tmp_path) == Policy.load("./mine.toml", cwd="..") == Policy(strict=True)
    with pytest.raises(PolicyError):
        Policy.load("./mine.toml")


def test_a_contradiction_between_two_files_is_refused(tmp_path):
    (tmp_path / "a.toml").write_text("strict = true")
    (tmp_path / "b.toml").write_text("[resources]\nrequired = false")
    with pytest.raises(PolicyError, match="strict lets nothing degrade"):
        Policy.load(str(tmp_path / "a.toml"), str(tmp_path / "b.toml"))


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"# \xff", 1, "is not UTF-8"),
        (b"\n\na = '\xff'", 3, "is not UTF-8"),
        (b"#" * (LARGEST_FILE + 1), None, "larger than"),
    ],
)
def test_a_file_that_is_not_text_is_refused(tmp_path, content, line, message):
    file = tmp_path / "x.toml"
    file.write_bytes(content)
    with pytest.raises(PolicyError) as caught:
        read_recipe(str(file))
    assert (caught.value.file, caught.value.line) == (str(file), line)
    assert message in caught.value.message


@pytest.mark.parametrize("name", ["", "missing.toml", "nul\0"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path, name):
    with pytest.raises(PolicyError, match=r"cannot be read|is a directory, not a file"):
        read_recipe(os.path.join(tmp_path, name))


def test_recipe_metadata_is_overlaid_as_a_whole():
    first = parse_recipe("[recipe]\nname = 'a'\ndescription = 'd'", "1.toml")
    second = parse_recipe("[recipe]\nname = 'b'", "2.toml")
    plain = parse_recipe("strict = true", "3.toml")
    assert first.merge(second).meta == RecipeMeta("b")
    assert first.merge(plain).meta == first.meta
    assert first.merge(plain).name == "a"
    assert Recipe({}).merge(plain).name == "3"


# --- fuzz: whatever comes in, nothing but a PolicyError comes out ---

FUZZ = settings(max_examples=150, deadline=None)
WORDS = [described.key for _, described in options()] + ["filesystem", "network", "recipe", "host", "path", "optional"]
KEYS = st.sampled_from(WORDS) | st.text(max_size=4)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(each):08X}" for each in value) + '"'
    if isinstance(value, list):
        return "[" + ",\n".join(map(_toml, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    return repr(value)


SCALARS = st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8"), max_size=4)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
SECTIONS = st.dictionaries(KEYS, VALUES, max_size=3)


def _refused_or_read(text: str) -> None:
    try:
        Policy.parse(text, "x.toml")
    except PolicyError as error:
        assert error.line is None or 1 <= error.line <= text.count("\n") + 1
        assert "\n" not in str(error)


@FUZZ
@given(st.dictionaries(KEYS, SECTIONS | VALUES, max_size=3))
def test_no_structure_raises_anything_but_a_policy_error(document):
    _refused_or_read("\n".join(f"{_toml(key)} = {_toml(value)}" for key, value in document.items()))


@FUZZ
@given(st.text())
@example("[recipe]\nmatch_prefix = [''] ")
def test_no_text_raises_anything_but_a_policy_error(text):
    _refused_or_read(text)


@FUZZ
@given(
    st.lists(
        st.sampled_from(
            [*WORDS, "[", "]", "[[", "]]", "{", "}", "=", ".", ",", '"', "'", '"""', "#", "\n", "\\", "1", " "]
        ),
        max_size=25,
    ).map("".join)
)
def test_no_mix_of_toml_words_raises_anything_but_a_policy_error(text):
    _refused_or_read(text)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=64))
def test_no_bytes_raise_anything_but_a_policy_error(tmp_path_factory, content):
    file = tmp_path_factory.getbasetemp() / "fuzz.toml"
    file.write_bytes(content)
    try:
        Policy.load(str(file))
    except PolicyError as error:
        assert error.file == str(file)
