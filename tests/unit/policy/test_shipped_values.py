"""The shipped recipes hold the values of the documents, and what they promise of themselves."""

from __future__ import annotations

import re

import pytest

from pysandbox.policy.expand import expand_prefixes
from pysandbox.policy.model import Policy
from pysandbox.policy.recipe import SHIPPED, shipped_file
from pysandbox.policy.sources import shipped

PREFIXES = {
    "nix": ["/nix/store"],
    "homebrew": ["/opt/homebrew", "/home/linuxbrew/.linuxbrew"],
    "cargo": ["/home/u/.cargo", "/home/u/.rustup"],
    "snap": ["/snap"],
    "flatpak": ["/var/lib/flatpak", "/home/u/.local/share/flatpak"],
    "gnu-store": ["/gnu/store"],
}
LIMITS = {
    "elixir": 256, "example": 64, "generic-strict": 64, "neovim": 256, "node-build": 128, "opencode": 256,
    "python-pip": 32,
}  # fmt: skip
DOMAINS = {
    "elixir": "hex.pm repo.hex.pm builds.hex.pm github.com",
    "example": "pypi.org files.pythonhosted.org",
    "generic-strict": "",
    "neovim": "github.com objects.githubusercontent.com raw.githubusercontent.com api.github.com registry.npmjs.org "
    "pypi.org files.pythonhosted.org luarocks.org",
    "node-build": "registry.npmjs.org registry.yarnpkg.com registry.npmmirror.com",
    "opencode": "github.com api.github.com api.githubcopilot.com copilot-proxy.githubusercontent.com "
    "api.anthropic.com api.openai.com opencode.ai",
    "python-pip": "pypi.org files.pythonhosted.org",
}
VARIABLES = {
    "elixir": "PATH HOME LANG TERM MIX_ENV MIX_HOME HEX_HOME ERL_AFLAGS ELIXIR_ERL_OPTIONS RELEASE_COOKIE RELEASE_NODE "
    "RELEASE_DISTRIBUTION SECRET_KEY_BASE DATABASE_URL PHX_HOST PHX_SERVER PORT",
    "example": "PATH HOME LANG TERM",
    "generic-strict": "PATH LANG TERM",
    "neovim": "PATH HOME LANG TERM COLORTERM TERMINFO USER SHELL EDITOR VISUAL XDG_CONFIG_HOME XDG_DATA_HOME "
    "XDG_STATE_HOME XDG_CACHE_HOME XDG_RUNTIME_DIR NIX_PATH NIX_PROFILES CARGO_HOME RUSTUP_HOME GOPATH GOROOT "
    "NODE_PATH npm_config_prefix",
    "node-build": "PATH HOME LANG TERM NODE_ENV NPM_CONFIG_REGISTRY NPM_TOKEN",
    "opencode": "PATH HOME LANG TERM COLORTERM EDITOR SHELL USER XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME "
    "XDG_CACHE_HOME GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL HTTPS_PROXY HTTP_PROXY "
    "NO_PROXY SSH_AUTH_SOCK CARGO_HOME RUSTUP_HOME NODE_PATH",
    "python-pip": "PATH HOME LANG TERM PIP_INDEX_URL PIP_TRUSTED_HOST VIRTUAL_ENV",
}
SERVICES = ["github", "openai", "anthropic", "npm", "pypi", "huggingface", "docker", "aws", "stripe", "slack"]
OTHERS = ["python", "uv", "pytest", "go", "java", "rust", "claude-code", "codex", "mcp-server", "untrusted"]


@pytest.mark.parametrize("name", PREFIXES)
def test_a_package_manager_is_known_by_its_prefixes_and_shows_them_alone(name: str) -> None:
    recipe = shipped(name)
    expanded = expand_prefixes(SHIPPED[name].match_prefix, env={"HOME": "/home/u"}, cwd="/w", home="/home/u")
    assert list(expanded) == PREFIXES[name]
    shown = [each.path.replace("~", "/home/u") for each in recipe.given["allow"]]
    assert shown == PREFIXES[name]
    assert recipe.given.keys() <= {"allow", "deny"}


def test_the_toolchains_of_rust_are_shown_without_the_tokens() -> None:
    denied = [each.path for each in shipped("cargo").policy(Policy).deny]
    assert denied == ["~/.cargo/credentials.toml", "~/.cargo/credentials"]


@pytest.mark.parametrize("name", LIMITS)
def test_a_documented_recipe_holds_the_documents_values(name: str) -> None:
    policy = shipped(name).policy(Policy)
    assert policy.max_pids == LIMITS[name]
    assert [rule.domain for rule in policy.hosts] == DOMAINS[name].split()
    assert list(policy.env_passthrough) == VARIABLES[name].split()
    assert policy.egress == ("none" if name == "generic-strict" else "proxy-only")
    assert "/etc/shadow" in [each.path for each in policy.deny]


def test_the_editor_and_elixir_get_the_calls_that_they_need() -> None:
    assert shipped("elixir").policy(Policy).allow_syscalls == ("ptrace", "memfd_create")
    assert shipped("neovim").policy(Policy).allow_syscalls == ("ptrace", "memfd_create")


def test_an_agent_gets_its_own_files_and_none_of_the_keys() -> None:
    secrets = {
        "~/.ssh",
        "~/.gnupg",
        "~/.aws",
        "~/.kube",
        "~/.docker",
        "~/.npmrc",
        "~/.pypirc",
        "~/.netrc",
        "~/.config/gh",
    }
    for name in ("opencode", "claude-code", "codex", "mcp-server"):
        policy = shipped(name).policy(Policy)
        assert secrets <= {each.path for each in policy.deny}
        assert policy.dlp_enabled
    opencode = shipped("opencode").policy(Policy)
    assert [each.path for each in opencode.allow] == ["~/.opencode", "~/.config/opencode"]
    assert [each.path for each in opencode.allow_write] == ["~/.local/share/opencode"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_hosts_and_nothing_else(name: str) -> None:
    recipe = shipped(f"service:{name}")
    assert recipe.given.keys() == {"egress", "hosts"}
    assert recipe.given["egress"] == "proxy-only"


def test_every_promised_recipe_is_there() -> None:
    assert {*OTHERS, *PREFIXES, *LIMITS, *(f"service:{name}" for name in SERVICES)} <= SHIPPED.keys()


def test_a_runtime_that_reserves_address_space_has_its_limit_lifted() -> None:
    for name in ("node", "node-build", "java", "go"):
        assert shipped(name).given["address_space_gb"] == 0


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_recipe_says_what_it_is_for_and_why_each_list_is_there(name: str) -> None:
    with open(shipped_file(name), encoding="utf-8") as file:
        text = file.read()
    assert text.startswith("# ")
    assert len(SHIPPED[name].description) >= 10
    assert not re.search(r"(?i)canister|todo|fixme", text)
