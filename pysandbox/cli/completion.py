"""`pysandbox completion SHELL`: the completions of bash, zsh or fish, generated from the declarations.

Each script is one function over the same facts (`cli.declared`): which command stands in the line, which flag before
the cursor wants a value, and whether the program to run has begun: from there on the shell's own completion takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pysandbox.cli import console
from pysandbox.cli.declared import Flag, Subcommand, commands
from pysandbox.cli.flags import Parser, UsageError

EPILOG = """\
Examples:
  pysandbox completion bash > ~/.local/share/bash-completion/completions/pysandbox
  pysandbox completion zsh > ~/.zfunc/_pysandbox        (with ~/.zfunc in $fpath)
  pysandbox completion fish > ~/.config/fish/completions/pysandbox.fish
"""


def main(arguments: list[str], verbose: bool) -> int:
    try:
        namespace = parser().read(arguments)
    except UsageError as wrong:
        return console.usage_error(str(wrong), "pysandbox completion --help")
    except SystemExit as stop:  # argparse printed the help
        return int(stop.code or 0)
    console.generated(SHELLS[namespace.shell](tuple(commands())))
    return 0


def parser() -> Parser:
    declared = Parser("pysandbox completion", "Print a completion script, to be saved where your shell looks.", EPILOG)
    declared.usage = "pysandbox completion {bash,zsh,fish}"
    declared.add_argument("shell", choices=tuple(SHELLS), metavar="SHELL", help="bash, zsh or fish")
    return declared


def _quoted(text: str) -> str:
    """For bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def _spelled(command: Subcommand) -> str:
    return " ".join(name for flag in command.flags for name in flag.names)


def _valued(command: Subcommand) -> Iterator[Flag]:
    return (flag for flag in command.flags if flag.value)


# ---- bash ----------------------------------------------------------------------------------------------------

BASH = """\
# bash completion of pysandbox; made by `pysandbox completion bash`.
_pysandbox() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command="" words="" i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${{COMP_WORDS[i]}} in
            --) if ((COMP_CWORD == i + 1)); then COMPREPLY=($(compgen -c -- "$cur"))
                else COMPREPLY=($(compgen -f -- "$cur")); fi
                return ;;
            -*) ;;
            *) [ -n "$command" ] || command=${{COMP_WORDS[i]}} ;;
        esac
    done
    case "$command $prev" in
{values}
    esac
    case $command in
        '') words={names} ;;
{flags}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _pysandbox pysandbox
"""


def bash(declared: tuple[Subcommand, ...]) -> str:
    values, flags = [], []
    for command in declared:
        for flag in _valued(command):
            keys = "|".join(f"'{command.name} {name}'" for name in flag.names)
            wanted = f"-W {_quoted(' '.join(flag.choices))}" if flag.choices else "-f" if flag.takes_path else "-W ''"
            values.append(f'        {keys}) COMPREPLY=($(compgen {wanted} -- "$cur")); return ;;')
        words = " ".join((*command.words, _spelled(command))).strip()
        flags.append(f"        {command.name}) words={_quoted(words)} ;;")
    names = " ".join((*(command.name for command in declared), "--help", "--version", "-v"))
    return BASH.format(values="\n".join(values), flags="\n".join(flags), names=_quoted(names))


# ---- zsh -----------------------------------------------------------------------------------------------------

ZSH = """\
#compdef pysandbox
# zsh completion of pysandbox; made by `pysandbox completion zsh`.
_pysandbox() {{
    local command="" previous=${{words[CURRENT-1]}} i
    local -a offered
    for ((i = 2; i < CURRENT; i++)); do
        case ${{words[i]}} in
            --) if ((CURRENT == i + 1)); then _command_names -e; else _files; fi; return ;;
            -*) ;;
            *) [[ -n $command ]] || command=${{words[i]}} ;;
        esac
    done
    case "$command $previous" in
{values}
    esac
    case $command in
        '') offered=({names}); _describe command offered; return ;;
{flags}
    esac
    _describe -o flag offered
}}
if [[ $funcstack[1] == _pysandbox ]]; then _pysandbox "$@"; else compdef _pysandbox pysandbox; fi
"""


def zsh(declared: tuple[Subcommand, ...]) -> str:
    values, flags = [], []
    for command in declared:
        for flag in _valued(command):
            keys = "|".join(f"'{command.name} {name}'" for name in flag.names)
            act = f"compadd -- {' '.join(flag.choices)}" if flag.choices else "_files" if flag.takes_path else ":"
            values.append(f"        {keys}) {act}; return ;;")
        offered = [*command.words, *(_zsh_item(name, flag.help) for flag in command.flags for name in flag.names)]
        flags.append(f"        {command.name}) offered=({' '.join(map(_quoted, offered))}) ;;")
    names = " ".join(_quoted(_zsh_item(command.name, command.help)) for command in declared)
    return ZSH.format(values="\n".join(values), flags="\n".join(flags), names=names)


def _zsh_item(word: str, help: str) -> str:
    return f"{word}:{help.partition('. ')[0]}".replace("\n", " ")


# ---- fish ----------------------------------------------------------------------------------------------------

FISH = """\
# fish completion of pysandbox; made by `pysandbox completion fish`.
function __pysandbox_command
    set -l tokens (commandline -opc)
    for token in $tokens[2..-1]
        test "$token" = -- ; and return 1
        string match -q -- '-*' $token; or begin; echo $token; return 0; end
    end
    return 1
end
function __pysandbox_in
    contains -- -- (commandline -opc); and return 1
    test (__pysandbox_command) = $argv[1] 2>/dev/null
end
function __pysandbox_bare
    contains -- -- (commandline -opc); and return 1
    not __pysandbox_command >/dev/null
end
complete -c pysandbox -f
complete -c pysandbox -n 'contains -- -- (commandline -opc)' -a '(__fish_complete_subcommand --fcs-skip=3)'
complete -c pysandbox -n __pysandbox_bare -l help -d 'show the help'
complete -c pysandbox -n __pysandbox_bare -l version -d 'show the version'
"""


def fish(declared: tuple[Subcommand, ...]) -> str:
    lines = []
    for command in declared:
        lines.append(f"complete -c pysandbox -n __pysandbox_bare -a {command.name} -d {_fish(command.help)}")
        inside = f"complete -c pysandbox -n '__pysandbox_in {command.name}'"
        if command.words:
            lines.append(f"{inside} -a {_fish(' '.join(command.words))}")
        for flag in command.flags:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names)
            value = f" -x -a {_fish(' '.join(flag.choices))}" if flag.choices else " -r -F" if flag.takes_path else ""
            value = value or (" -x" if flag.value else "")
            lines.append(f"{inside} {names}{value} -d {_fish(flag.help.partition('. ')[0])}")
    return FISH + "\n".join(lines) + "\n"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: Mapping[str, Callable[[tuple[Subcommand, ...]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
