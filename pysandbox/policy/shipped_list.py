"""Generated from the [recipe] sections of recipes/ by `python -m pysandbox.policy.bake`."""

from __future__ import annotations

from pysandbox.policy.option import RecipeMeta

# fmt: off
SHIPPED: dict[str, RecipeMeta] = {
    "base": RecipeMeta("base", "System directories for any Linux program", "1", ()),
    "cargo": RecipeMeta("cargo", "Rust programs and toolchains in the home directory", "1", ("$HOME/.cargo", "$HOME/.rustup", )),  # noqa: E501
    "claude-code": RecipeMeta("claude-code", "The coding agent Claude Code", "1", ()),
    "codex": RecipeMeta("codex", "The coding agent Codex", "1", ()),
    "elixir": RecipeMeta("elixir", "Elixir and Erlang: mix, iex, Phoenix", "1", ()),
    "example": RecipeMeta("example", "A commented example of every section, to copy", "1", ()),
    "flatpak": RecipeMeta("flatpak", "Programs of Flatpak", "1", ("/var/lib/flatpak", "$HOME/.local/share/flatpak", )),
    "generic-strict": RecipeMeta("generic-strict", "Strict policy without a network, for jobs in CI and production", "1", ()),  # noqa: E501
    "gnu-store": RecipeMeta("gnu-store", "Programs from the Guix store", "1", ("/gnu/store", )),
    "go": RecipeMeta("go", "Building and testing Go programs", "1", ("$HOME/go", "$HOME/sdk", "/usr/local/go", )),
    "homebrew": RecipeMeta("homebrew", "Programs of Homebrew on Linux", "1", ("/opt/homebrew", "/home/linuxbrew/.linuxbrew", )),  # noqa: E501
    "java": RecipeMeta("java", "Java programs and builds", "1", ("$HOME/.sdkman", "$HOME/.jdks", )),
    "mcp-server": RecipeMeta("mcp-server", "A Model Context Protocol server over standard input and output", "1", ()),
    "neovim": RecipeMeta("neovim", "Neovim with language servers, tree-sitter and plugins", "1", ()),
    "nix": RecipeMeta("nix", "Programs from the Nix store", "1", ("/nix/store", )),
    "node": RecipeMeta("node", "Node.js programs, also with a version manager's interpreter", "1", ("$HOME/.nvm", "$HOME/.local/share/fnm", "$HOME/.volta", )),  # noqa: E501
    "node-build": RecipeMeta("node-build", "npm, yarn and pnpm: install, build, test", "1", ()),
    "opencode": RecipeMeta("opencode", "The coding agent OpenCode, with its own files and the services of models", "1", ()),  # noqa: E501
    "pytest": RecipeMeta("pytest", "Tests with pytest, without a network", "1", ()),
    "python": RecipeMeta("python", "Python programs, also with an interpreter of pyenv or uv", "1", ("$HOME/.pyenv", "$HOME/.local/share/uv", )),  # noqa: E501
    "python-pip": RecipeMeta("python-pip", "Installing Python packages with pip", "1", ()),
    "rust": RecipeMeta("rust", "Building and testing Rust programs", "1", ()),
    "service:anthropic": RecipeMeta("anthropic", "The API of Anthropic", "1", ()),
    "service:aws": RecipeMeta("aws", "Amazon Web Services", "1", ()),
    "service:docker": RecipeMeta("docker", "Docker Hub: pulling images", "1", ()),
    "service:github": RecipeMeta("github", "GitHub: git over HTTPS, the API, releases", "1", ()),
    "service:huggingface": RecipeMeta("huggingface", "Hugging Face: models and data sets", "1", ()),
    "service:npm": RecipeMeta("npm", "The npm registry: fetching packages", "1", ()),
    "service:openai": RecipeMeta("openai", "The API of OpenAI", "1", ()),
    "service:pypi": RecipeMeta("pypi", "The Python Package Index: fetching packages", "1", ()),
    "service:slack": RecipeMeta("slack", "The API of Slack", "1", ()),
    "service:stripe": RecipeMeta("stripe", "The API of Stripe", "1", ()),
    "snap": RecipeMeta("snap", "Programs of snap packages", "1", ("/snap", )),
    "tool:aws": RecipeMeta("aws", "The AWS command line", "1", ()),
    "tool:cargo": RecipeMeta("cargo", "cargo with crates.io", "1", ()),
    "tool:gh": RecipeMeta("gh", "GitHub's command line", "1", ()),
    "tool:git": RecipeMeta("git", "git over HTTPS with GitHub", "1", ()),
    "tool:npm": RecipeMeta("npm", "npm, signed in to its registry", "1", ()),
    "tool:pip": RecipeMeta("pip", "pip with its settings", "1", ()),
    "untrusted": RecipeMeta("untrusted", "Unread code: base directories only, small limits, killed at the first refused system call", "1", ()),  # noqa: E501
    "uv": RecipeMeta("uv", "Python projects with uv", "1", ("$HOME/.local/bin/uv", "$HOME/.local/bin/uvx", )),
}
