"""resolve: which recipes count, in which order, from where, and whether they may."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pysandbox.errors import PolicyError
from pysandbox.policy import search
from pysandbox.policy.compose import Layer, compose, loosened_by, resolve, shielded
from pysandbox.policy.model import Grant, Policy
from pysandbox.policy.sources import parse_baseline, parse_recipe, shipped

Write = Callable[[str, str], Path]


def names(*recipes: str, command: list[str] | None = None) -> list[tuple[str, str]]:
    return [(layer.name, layer.why) for layer in resolve(recipes, command=command).layers]


# ---- order ---------------------------------------------------------------------------------------------------


def test_base_comes_first_then_what_is_detected_then_what_is_asked_for_then_the_last_word(host: Path, write: Write):
    program = write("bin/tool", "#!/bin/sh\n")
    program.chmod(0o755)
    write("user/found.toml", f'[recipe]\nmatch_prefix = ["{host}/bin"]\n[process]\nenv = {{ A = "1" }}\n')
    write("user/a.toml", '[process]\nenv = { A = "2" }\n[resources]\nmemory_mb = 64\n')
    write("user/b.toml", '[process]\nenv = { A = "3" }\n[resources]\nmemory_mb = 32\n')
    resolved = resolve(["a", "b"], command=[str(program)], extra={"memory_mb": 16})
    order = [(layer.name, layer.why) for layer in resolved.layers]
    assert order == [("base", "base"), ("found", "detected"), ("a", "asked"), ("b", "asked"), ("flags", "flags")]
    assert (resolved.policy.env, resolved.policy.memory_mb) == ((("A", "3"),), 16)
    assert resolve(["b", "a"]).policy.memory_mb == 64


def test_the_last_word_may_be_a_policy_or_a_mapping_and_a_mapping_may_say_a_default(host: Path):
    assert resolve(["service:npm"], extra={"egress": "none"}).policy.egress == "none"
    assert resolve(["service:npm"], extra=Policy(memory_mb=64)).policy.egress == "proxy-only"
    assert resolve([], extra=Policy(memory_mb=64)).layers[-1].why == "flags"


def test_defaults_lie_under_everything(host: Path, write: Write):
    write("user/a.toml", '[filesystem]\nworkdir = "read"')
    assert resolve(["a"], defaults={"workdir": "write", "run_as": "self"}).policy == Policy(
        workdir="read", run_as="self"
    )


def test_metadata_never_affects_the_policy(host: Path, write: Write):
    write("user/a.toml", "strict = true")
    write("user/b.toml", 'strict = true\n[recipe]\nname = "x"\ndescription = "y"\nversion = "z"')
    assert resolve(["a"]).policy == resolve(["b"]).policy


def test_a_host_asks_for_the_gatekeeper_unless_something_is_said_of_the_network(host: Path, write: Write):
    write("user/a.toml", '[[host]]\ndomain = "a.example"')
    assert resolve(["a"]).policy.egress == "proxy-only"
    assert resolve(["a", "generic-strict"]).policy.egress == "none"
    assert Policy.parse('[[host]]\ndomain = "a.example"').egress == "proxy-only"


# ---- where -----------------------------------------------------------------------------------------------------


def test_the_first_directory_that_has_a_name_wins(host: Path, write: Write):
    write("system/mine.toml", "[resources]\nmemory_mb = 16")
    assert resolve(["mine"]).policy.memory_mb == 16
    write("user/mine.toml", "[resources]\nmemory_mb = 32")
    assert resolve(["mine"]).policy.memory_mb == 32
    write("project/mine.toml", "[resources]\nmemory_mb = 17")
    assert resolve(["mine"]).policy.memory_mb == 17


def test_a_slash_or_a_suffix_makes_it_a_file(host: Path, write: Write):
    write("user/mine.toml", "[resources]\nmemory_mb = 32")
    write("project/../mine.toml", "[resources]\nmemory_mb = 64")
    write("project/../mine", "[resources]\nmemory_mb = 128")
    assert resolve(["mine"]).policy.memory_mb == 32
    assert resolve(["mine.toml"]).policy.memory_mb == 64
    assert resolve(["./mine"]).policy.memory_mb == 128


def test_services_and_tools_are_found_by_their_kind(host: Path, write: Write):
    github = shipped("service:github").policy(Policy).hosts
    found = resolve(["service:github"]).policy
    assert {*found.left_out, *(rule.domain for rule in found.hosts)} == {rule.domain for rule in github}
    assert resolve(["tool:gh"]).layers[-1].path.endswith("recipes/tools/gh.toml")
    write("user/services/ours.toml", '[[host]]\ndomain = "ours.example"')
    assert resolve(["service:ours"]).policy.hosts[0].domain == "ours.example"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pythn", ["no such recipe in", ".pysandbox", ".config/pysandbox/recipes", 'did you mean "python"?']),
        ("service:githb", ["no such recipe in", 'did you mean "service:github"?']),
        ("plugin:x", ["is not a name of a recipe", "./plugin:x"]),
        ("..", ["is not a name of a recipe"]),
        ("a\nb", ["is not a name of a recipe"]),
        ("default", ["is the baseline", "leave it out"]),
        ("./absent.toml", ["cannot be read"]),
    ],
)
def test_a_name_that_leads_nowhere_is_refused_with_the_places(host: Path, name: str, words: list[str]):
    with pytest.raises(PolicyError) as caught:
        resolve([name])
    assert all(word in str(caught.value) for word in words), caught.value
    assert "\n" not in str(caught.value)


def test_a_relative_xdg_directory_does_not_count(host: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", "project")
    assert search.Search.here(os.getcwd(), os.environ).directories[1] == f"{host}/home/.config/pysandbox/recipes"


def test_a_fault_names_file_line_and_key(host: Path, write: Write):
    path = write("user/bad.toml", "[filesystem]\n\nalow = []")
    for call in (lambda: resolve(["bad"]), lambda: resolve(["python", "bad"])):
        with pytest.raises(PolicyError) as caught:
            call()
        assert (caught.value.file, caught.value.line, caught.value.key) == (str(path), 3, "filesystem.alow")
    first = write("user/first.toml", "strict = true")
    write("user/second.toml", "[resources]\n\nrequired = false")
    with pytest.raises(PolicyError, match="strict lets nothing degrade") as caught:
        resolve(["first", "second"])
    assert (caught.value.file, caught.value.line) == (str(first.with_name("second.toml")), 3)


# ---- detection -------------------------------------------------------------------------------------------------


def test_the_place_of_a_program_is_found_through_its_links_and_by_whole_components(
    host: Path, write: Write, monkeypatch: pytest.MonkeyPatch
):
    write("user/store.toml", f'[recipe]\nmatch_prefix = ["{host}/store"]\n[filesystem]\nallow = ["{host}/store"]')
    real = write("store/pkg/bin/tool", "")
    near = write("store-of-others/tool", "")
    for path in (real, near):
        path.chmod(0o755)
    (host / "bin" / "tool").symlink_to(real)
    monkeypatch.setenv("PATH", f"{host}/empty:{host}/bin")
    assert ("store", "detected") in names(command=["tool"])
    assert ("store", "detected") in names(command=["../store/pkg/bin/tool", "argument"])
    assert names(command=[str(near)]) == [("base", "base")]
    assert names(command=["no-such-tool"]) == names(command=[""]) == [("base", "base")]


def test_a_prefix_may_be_a_link(host: Path, write: Write, monkeypatch: pytest.MonkeyPatch):
    (host / "link").symlink_to(host / "store")
    monkeypatch.setenv("LINK", f"{host}/link")
    write("user/store.toml", '[recipe]\nmatch_prefix = ["$LINK"]')
    program = write("store/tool", "")
    program.chmod(0o755)
    assert ("store", "detected") in names(command=[str(program)])


def test_what_cannot_be_executed_is_not_the_program(host: Path, write: Write, monkeypatch: pytest.MonkeyPatch):
    """A file without the permission, and a directory: the shell would pass both over."""
    write("user/store.toml", f'[recipe]\nmatch_prefix = ["{host}/store"]')
    write("store/tool", "").chmod(0o644)
    (host / "directory" / "tool").mkdir(parents=True)
    real = write("bin/tool", "")
    real.chmod(0o755)
    monkeypatch.setenv("PATH", f"{host}/store:{host}/directory:{host}/bin")
    assert names(command=["tool"]) == [("base", "base")]
    (host / "store" / "tool").chmod(0o755)
    assert ("store", "detected") in names(command=["tool"])


@pytest.mark.parametrize("file", ["base", "default", "services/x", "tools/x"])
def test_what_takes_the_place_of_something_and_what_is_asked_for_by_kind_is_never_detected(
    host: Path, write: Write, file: str
):
    lists = '\n[syscalls]\nallow = ["read"]' if file == "default" else ""
    write(f"user/{file}.toml", f'[recipe]\nmatch_prefix = ["{host}/bin"]{lists}')
    program = write("bin/tool", "")
    program.chmod(0o755)
    assert "detected" not in [why for _, why in names(command=[str(program)])]


@pytest.mark.parametrize("name", ["cargo", "flatpak"])
def test_a_shipped_recipe_is_called_for_by_its_prefix(host: Path, write: Write, name: str):
    place = {"cargo": ".cargo/bin", "flatpak": ".local/share/flatpak/bin"}[name]
    program = write(f"home/{place}/tool", "")
    program.chmod(0o755)
    assert names(command=[str(program)]) == [("base", "base"), (name, "detected")]


def test_a_program_of_the_system_calls_for_nothing_whatever_a_recipe_says(host: Path, write: Write):
    write("user/greedy.toml", '[recipe]\nmatch_prefix = ["/", "/usr/bin"]\n[filesystem]\nallow = ["/srv"]')
    assert names(command=["/bin/sh"]) == names(command=["sh"]) == [("base", "base")]


def test_a_prefix_with_an_unset_variable_matches_nothing(host: Path, write: Write):
    write("user/odd.toml", '[recipe]\nmatch_prefix = ["$NO_SUCH_VARIABLE/"]')
    program = write("bin/tool", "")
    program.chmod(0o755)
    assert names(command=[str(program)]) == [("base", "base")]


def test_detection_brings_sight_and_never_permission(host: Path, write: Write):
    program = write("bin/tool", "")
    program.chmod(0o755)
    write(
        "user/greedy.toml",
        f'isolation = "landlock"\n[recipe]\nmatch_prefix = ["{host}/bin"]\n'
        '[filesystem]\nallow = ["/srv"]\nallow_write = ["/var"]\ndeny = ["/srv/key"]\n'
        '[process]\nallow_execve = ["/bin/*"]\nmax_pids = 9\nenv = { A = "1" }\n'
        '[network]\negress = "direct"\nunsafe = true\n[[host]]\ndomain = "a.example"\n',
    )
    seen = [Grant("/srv", optional=True)]
    assert resolve([], command=[str(program)]).policy == Policy(allow=seen, deny=["/srv/key"], env={"A": "1"})
    write("user/mine.toml", '[process]\nallow_execve = ["/usr/bin/env"]')
    assert resolve(["mine"], command=[str(program)]).policy.allow_execve == ("/usr/bin/env",)


def test_a_recipe_that_cannot_be_read_is_not_passed_over(host: Path, write: Write):
    program = write("bin/tool", "")
    program.chmod(0o755)
    write("user/broken.toml", "[[[")
    with pytest.raises(PolicyError, match=r"broken\.toml"):
        resolve([], command=[str(program)])


# ---- base and baseline -----------------------------------------------------------------------------------------


def test_a_base_of_the_users_takes_the_place_of_the_shipped_one(host: Path, write: Write):
    path = write("user/base.toml", '[filesystem]\nallow = ["/opt/base"]\n')
    resolved = resolve([], extra={"allow": (Grant("/srv"),)})
    assert resolved.layers[0].path == str(path)
    assert resolved.policy == Policy(base=False, allow=["/opt/base", "/srv"])
    assert resolve([], extra={"base": False}).policy == Policy(base=False)


def test_a_baseline_is_no_layer_and_its_lists_take_the_place_of_the_profiles(host: Path, write: Write):
    path = write("user/default.toml", '[syscalls]\nallow = ["read", "write"]\ndeny = ["acct"]\n')
    resolved = resolve(["elixir"])
    assert resolved.baseline is not None
    assert resolved.baseline.path == str(path)
    assert [layer.name for layer in resolved.layers] == ["base", "elixir"]
    assert dict(resolved.policy.syscall_lists) == {"allow": ("read", "write"), "deny": ("acct",)}
    assert resolved.policy.allow_syscalls == ("ptrace", "memfd_create")


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ('[syscalls]\nallow = ["read"]\nallow_extra = ["bpf"]', "syscalls.allow", "lists calls absolutely"),
        ('[syscalls]\nallow = ["read"]\nseccomp_mode = "deny-list"', "syscalls.seccomp_mode", "allow and deny alone"),
        ('[syscalls]\nallow = ["read"]\n[filesystem]\nallow = ["/"]', "filesystem", "[syscalls] alone"),
        ('[syscalls]\ndeny = ["read"]', "syscalls", "needs the list allow"),
        ('[syscalls]\nallow = ["Read"]', "syscalls", "not the name of a system call"),
        ("", "syscalls", "needs the list allow"),
    ],
)
def test_a_baseline_holds_the_two_lists_and_nothing_else(text: str, key: str, message: str):
    with pytest.raises(PolicyError) as caught:
        parse_baseline(text, "default.toml")
    assert caught.value.key == key
    assert message in caught.value.message


@pytest.mark.parametrize("key", ["allow", "deny"])
def test_a_recipe_may_not_list_calls_absolutely(key: str):
    with pytest.raises(PolicyError, match=r"default\.toml"):
        parse_recipe(f'[syscalls]\n{key} = ["read"]')


# ---- small things ------------------------------------------------------------------------------------------------


def test_what_is_looser_is_named_by_its_keys():
    assert loosened_by(Policy(), Policy(strict=True, max_pids=5)) == ()
    assert loosened_by(Policy(strict=True), Policy(allow=["/a"], egress="direct", unsafe_direct=True)) == (
        "filesystem.allow", "network.egress", "network.unsafe", "strict",
    )  # fmt: skip


def test_a_recipe_named_by_its_path_is_masked_where_the_cage_could_rewrite_it(host: Path, write: Write):
    write("project/../mine.toml", "strict = true")
    resolved = resolve(["mine.toml", "python"], defaults={"workdir": "write"})
    assert shielded(resolved, os.getcwd()).mask == (Grant(f"{os.getcwd()}/mine.toml", optional=True),)
    assert shielded(resolve(["mine.toml"]), os.getcwd()).mask == ()
    for held, said in ((1, {"workdir": "cow"}), (0, {"workdir": "write", "isolation": "landlock"})):
        assert len(shielded(resolve(["mine.toml"], defaults=said), os.getcwd()).mask) == held
    write("project/ours.toml", "strict = true")
    assert shielded(resolve(["ours"], defaults={"workdir": "write"}), str(host)).mask[0].path.endswith("/ours.toml")


def test_layers_compose_without_any_file():
    layers = [Layer("a", "", "asked", parse_recipe("strict = true")), Layer("b", "", "asked", parse_recipe(""))]
    assert compose(layers) == Policy(strict=True)


# ---- what a host does not have (T50) ---------------------------------------------------------------------------

ABSENT = '[filesystem]\nallow = ["/opt/absent"]\nallow_write = ["/srv/absent"]\ndeny = ["/opt/absent/x"]\n'


@pytest.mark.parametrize("place", ["user", "system"])
def test_what_a_shared_recipe_grants_may_be_missing_and_what_it_denies_may_not(write: Write, place: str) -> None:
    write(f"{place}/shared.toml", ABSENT)
    policy = resolve(["shared"]).policy
    assert policy.allow == (Grant("/opt/absent", optional=True),)
    assert policy.allow_write == (Grant("/srv/absent", optional=True),)
    assert policy.deny == (Grant("/opt/absent/x"),)


def test_a_file_that_is_named_by_its_path_means_what_it_says(write: Write) -> None:
    path = write("user/shared.toml", ABSENT)
    assert resolve([str(path)]).policy.allow == (Grant("/opt/absent"),)


def test_a_path_that_is_also_a_flag_must_be_there(write: Write) -> None:
    write("user/shared.toml", ABSENT)
    assert Grant("/opt/absent") in resolve(["shared"], extra={"allow": ["/opt/absent"]}).policy.allow
