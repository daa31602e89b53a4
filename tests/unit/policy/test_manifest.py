"""The manifest, read: what it may say, what it may not, and what an error names."""

from __future__ import annotations

import pytest

from pysandbox.errors import PolicyError
from pysandbox.policy.manifest import Manifest, parse_manifest
from pysandbox.policy.option import Grant

MINIMAL = """
[sandbox.test]
recipes = ["python"]
command = "pytest -q"
"""


def refused(content: str) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        parse_manifest(content, "pysandbox.toml")
    return caught.value


def test_the_least_that_a_manifest_says() -> None:
    sandbox = parse_manifest(MINIMAL).sandboxes["test"]
    assert (sandbox.name, sandbox.argv, sandbox.recipes) == ("test", ("pytest", "-q"), ("python",))
    assert (sandbox.description, sandbox.overrides) == ("", {})


def test_overrides_have_the_schema_of_a_recipe() -> None:
    manifest = parse_manifest(
        MINIMAL + 'description = "the suite"\nstrict = true\n[sandbox.test.filesystem]\nallow_write = ["out"]\n'
        "[sandbox.test.resources]\nwalltime_sec = 60\n"
    )
    sandbox = manifest.sandboxes["test"]
    assert sandbox.description == "the suite"
    assert sandbox.overrides == {"strict": True, "allow_write": (Grant("out"),), "walltime_sec": 60.0}


def test_leak_detection_of_the_project_is_every_sandbox_s() -> None:
    """Beside what each of them says of it."""
    manifest = parse_manifest(
        MINIMAL + '[sandbox.other]\nrecipes = ["a"]\ncommand = "x"\n[sandbox.other.network.dlp]\nenabled = false\n'
        'extra_scopes = { github_pat = ["git.example"] }\n[network.dlp]\nenabled = true\n'
    )
    for each in manifest.sandboxes.values():
        assert each.overrides["dlp_enabled"] is True, each.name
    assert "dlp_extra_scopes" in manifest.sandboxes["other"].overrides
    assert "dlp_extra_scopes" not in manifest.sandboxes["test"].overrides


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ('"make -j2 all"', ("make", "-j2", "all")),
        ("""'sh -c "echo \\"a b\\""'""", ("sh", "-c", 'echo "a b"')),
        ("\"sh -c 'echo $HOME; ls *'\"", ("sh", "-c", "echo $HOME; ls *")),
        ('["printf", "a b", ""]', ("printf", "a b", "")),
    ],
)
def test_a_command_is_split_as_a_shell_would_and_nothing_is_expanded(command: str, argv: tuple[str, ...]) -> None:
    assert parse_manifest(f'[sandbox.x]\nrecipes = ["a"]\ncommand = {command}\n').sandboxes["x"].argv == argv


def two() -> Manifest:
    return parse_manifest("".join(f'[sandbox.{name}]\nrecipes = ["a"]\ncommand = "x"\n' for name in ("zeta", "alpha")))


def test_the_first_is_the_alphabetically_first_wherever_it_stands() -> None:
    assert two().first.name == "alpha"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(PolicyError, match="no such sandbox; there are alpha, zeta") as caught:
        two().sandbox("aplha")
    assert caught.value.suggestion == 'did you mean "alpha"?'


def test_an_unknown_name_lists_the_pipelines_as_well() -> None:
    content = '[sandbox.x]\nrecipes = ["a"]\ncommand = "x"\n' + '[[pipeline.report.stage]]\nsandbox = "x"\n' * 2
    with pytest.raises(PolicyError, match="no such sandbox; there are x, and the pipelines report") as caught:
        parse_manifest(content).stages("raport")
    assert caught.value.suggestion == 'did you mean "report"?'


@pytest.mark.parametrize(
    ("content", "line", "key", "words"),
    [
        ("", None, None, "defines no sandbox"),
        ("[sandbox]\n", None, None, "defines no sandbox"),
        ("sandbox = 1\n", 1, "sandbox", "must be a table"),
        ("[sandbox]\ntest = 1\n", 2, "sandbox.test", "must be a table"),
        ('[sandbox.test]\ncommand = "x"\n', 1, "sandbox.test", "lacks 'recipes'"),
        ('[sandbox.test]\nrecipes = ["a"]\n', 1, "sandbox.test", "lacks 'command'"),
        ('[sandbox.test]\ncommand = "x"\nrecipes = []\n', 3, "sandbox.test.recipes", "is empty"),
        ('[sandbox.test]\ncommand = "x"\nrecipes = "a"\n', 3, "sandbox.test.recipes", "must be a list"),
        ('[sandbox.test]\ncommand = "x"\nrecipes = ["a", 1]\n', 3, "sandbox.test.recipes", "must be a string"),
        ('[sandbox.test]\nrecipes = ["a"]\ncommand = ""\n', 3, "sandbox.test.command", "must not be empty"),
        ('[sandbox.test]\nrecipes = ["a"]\ncommand = "  "\n', 3, "sandbox.test.command", "names no program"),
        ('[sandbox.test]\nrecipes = ["a"]\ncommand = []\n', 3, "sandbox.test.command", "names no program"),
        ('[sandbox.test]\nrecipes = ["a"]\ncommand = ["", "x"]\n', 3, "sandbox.test.command", "names no program"),
        ('[sandbox.test]\nrecipes = ["a"]\ncommand = "sh -c \'x"\n', 3, "sandbox.test.command", "cannot be split"),
        (MINIMAL + "descripton = 1\n", 5, "sandbox.test.descripton", "no such key"),
        (MINIMAL + "[sandbox.test.filesystem]\nalow = []\n", 6, "sandbox.test.filesystem.alow", "no such key"),
        (MINIMAL + '[sandbox.test.resources]\nmemory_mb = "x"\n', 6, "sandbox.test.resources.memory_mb", "must be"),
        (MINIMAL + '[sandbox.test.syscalls]\nallow = ["read"]\nallow_extra = ["bpf"]\n', 6,
         "sandbox.test.syscalls.allow", "lists calls absolutely"),
        (MINIMAL + "[sandbox.test.network]\nstrict_loopback = true\n", 6, "sandbox.test.network.strict_loopback",
         "not part of this version"),
        (MINIMAL + "[sandbox.test.profile]\n", 5, "sandbox.test.profile", "is no longer"),
        (MINIMAL + "[network]\nstrict_loopback = true\n", 6, "network.strict_loopback", "of a whole project"),
        (MINIMAL + "[network.dlp]\nenabeld = true\n", 6, "network.dlp.enabeld", "no such key"),
        (MINIMAL + '[network.dlp]\nenabled = "yes"\n', 6, "network.dlp.enabled", "must be"),
        (MINIMAL + "network = 1\n", 5, "sandbox.test.network", "must be a table"),
        (MINIMAL + "[sandboxes.x]\n", 5, "sandboxes", "no such section"),
        (MINIMAL + "[pipeline.all]\nstages = []\n", 6, "pipeline.all.stages", "is empty"),
        (MINIMAL + '[pipeline.all]\nstages = ["test", "tset"]\n', 6, "pipeline.all.stages.1", "is no sandbox"),
        (MINIMAL + '[pipeline.all]\nstages = ["test"]\nstage = 1\n', 7, "pipeline.all.stage", "beside 'stages'"),
        (MINIMAL + '[pipeline.all]\nstages = ["test"]\nsteps = 1\n', 7, "pipeline.all.steps", "no such key"),
        (MINIMAL + "[pipeline.all]\n", 5, "pipeline.all", "lacks 'stages'"),
        (MINIMAL + "[pipeline.all]\nstage = []\n", 6, "pipeline.all.stage", "must be tables"),
        (MINIMAL + '[pipeline.all.stage]\nsandbox = "test"\n', 5, "pipeline.all.stage", "must be tables"),
        (MINIMAL + '[[also]]\nsandbox = ["tset"]\nstrict = true\n', 6, "also.0.sandbox.0", "no such sandbox"),
        (MINIMAL + '[pipeline.all]\nstage = ["test"]\n', 6, "pipeline.all.stage.0", "must be a table"),
        (MINIMAL + '[[pipeline.all.stage]]\ncommand = "ls"\n', 5, "pipeline.all.stage.0", "lacks 'sandbox'"),
        (MINIMAL + '[[pipeline.all.stage]]\nsandbox = "tset"\n', 6, "pipeline.all.stage.0.sandbox", "is no sandbox"),
        (MINIMAL + '[[pipeline.all.stage]]\nsandbox = "test"\ncommand = " "\n', 7, "pipeline.all.stage.0.command",
         "names no program"),
        (MINIMAL + '[[pipeline.all.stage]]\nsandbox = "test"\nsandboxes = 1\n', 7, "pipeline.all.stage.0.sandboxes",
         "no such key"),
        (MINIMAL + '[pipeline.test]\nstages = ["test"]\n', 5, "pipeline.test", "is the name of a sandbox, too"),
        ("[sandbox.test\n", 1, None, "not TOML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_sandbox_and_line(
    content: str, line: int | None, key: str | None, words: str
) -> None:
    error = refused(content)
    assert (error.file, error.line, error.key) == ("pysandbox.toml", line, key)
    assert words in error.message


def test_a_pipeline_is_read_with_the_commands_of_its_stages() -> None:
    manifest = parse_manifest(MINIMAL + '[pipeline.all]\nstages = ["test", "test"]\n')
    assert manifest.pipelines["all"].stages == ("test", "test")
    assert manifest.stages("all") == (manifest.sandboxes["test"],) * 2
    with pytest.raises(PolicyError, match="is a pipeline of several sandboxes"):
        manifest.sandbox("all")

    other = '[[pipeline.all.stage]]\nsandbox = "test"\n[[pipeline.all.stage]]\nsandbox = "test"\ncommand = "wc -l"\n'
    manifest = parse_manifest(MINIMAL + other)
    assert [each.argv for each in manifest.stages("all")] == [manifest.sandboxes["test"].argv, ("wc", "-l")]
    assert [each.argv for each in manifest.all_commands] == [manifest.sandboxes["test"].argv, ("wc", "-l")]
    assert manifest.stages("test") == (manifest.sandboxes["test"],)
