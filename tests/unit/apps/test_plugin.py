"""The words of document 000's plugins: read strictly, and compiled to a policy that is never wider, nor no cage."""

from __future__ import annotations

import pytest

from pysandbox import Policy
from pysandbox.apps.plugin import CompiledPlugin, compile_plugin, parse_capability
from pysandbox.errors import PolicyError
from pysandbox.policy.option import Grant
from pysandbox.policy.refusal import CommandRefused
from pysandbox.policy.way_out import effective_egress


def find(name: str) -> str | None:
    return f"/usr/bin/{name}" if name in ("bash", "git", "ls") else None


def compiled(*words: str) -> CompiledPlugin:
    return compile_plugin(map(parse_capability, words), "/home/me/project", find=find)


def test_the_words_of_the_document_become_a_policy() -> None:
    plugin = compiled("read:fs:./data", "write:fs:out/", "net:API.example.com:443", "exec:bash:git status")
    policy = plugin.policy
    assert policy.allow == (Grant("/home/me/project/data"),)
    assert policy.allow_write == (Grant("/home/me/project/out"),)
    assert [(each.domain, each.ports) for each in policy.hosts] == [("api.example.com", (443,))]
    assert policy.allow_execve == ("/usr/bin/bash", "/usr/bin/git")
    assert plugin.commands == {"git status": ("/usr/bin/bash", "-c", "exec /usr/bin/git status")}


@pytest.mark.parametrize("words", [(), ("read:fs:./a",), ("net:a.example",), ("exec:bash:ls",)])
def test_it_is_always_caged_and_no_wider_than_its_words(words: tuple[str, ...]) -> None:
    policy = compiled(*words).policy
    assert policy.caged and policy.workdir == "none"
    assert bool(policy.allow) == any(each.startswith("read:fs") for each in words) and not policy.allow_write
    assert (effective_egress(policy) != "none") == any(each.startswith("net:") for each in words)
    assert words or policy.to_json() == Policy().to_json()


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("reed:fs:./x", "read:fs"), ("read:file:./x", "read:fs"), ("exec:sh:ls", "exec:bash"),
        ("nett:a.example", "net"),
        ("read:fs:", "below the project"), ("read:fs:/etc", "below the project"), ("read:fs:../x", "below the project"),
        ("read:fs:a/../../x", "below the project"), ("read:fs:~/x", "below the project"),
        ("read:fs:$HOME", "below the project"), ("read:fs:a\0", "no capability"), ("read:fs:a\nb", "no capability"),
        ("net:", "host name"), ("net:*", ""), ("net:openai:gpt-4", "provider:model"), ("net:10.0.0.8x", ""),
        ("exec:bash:", "more than words"), ("exec:bash:ls; rm x", "more than words"), ("exec:bash:ls $HOME", "words"),
        ("exec:bash:ls | sh", "words"), ("exec:bash:ls `x`", "words"), ("exec:bash:'ls'", "words"),
        ("exec:bash:ls *", "words"), ("exec:bash:ls  x", "words"), ("exec:bash:A=1 ls", "names no program"),
        ("exec:bash:-c ls", "names no program"), ("exec:bash:ls > x", "words"), ("exec:bash:ls ~", "words"),
        ("disabled:x", "no verb"), ("x" * 2000 + ":", "no capability"),
    ],
)  # fmt: skip
def test_what_is_no_word_is_refused(word: str, told: str) -> None:
    with pytest.raises(CommandRefused) as caught:
        parse_capability(word)
    assert told in f"{caught.value.message} {caught.value.suggestion}"


def test_a_program_that_is_not_there_is_refused() -> None:
    with pytest.raises(PolicyError, match="no program of this host"):
        compiled("exec:bash:nosuch --help")


def test_a_path_that_is_written_is_not_read_only_as_well() -> None:
    policy = compiled("read:fs:./a", "write:fs:a").policy
    assert (policy.allow, policy.allow_write) == ((), (Grant("/home/me/project/a"),))
