"""Writes completion scripts for bash, zsh and fish from cli.table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from krun.cli.manpages import shown
from krun.cli.table import GLOBALS
from krun.cli.verbs import VERBS
from krun.errors import UsageError

if TYPE_CHECKING:
    from krun.cli.options import Options
    from krun.cli.table import Flag

_FILES = ("bundle", "config", "pid-file", "log", "root", "resources", "process", "file", "console-socket")


def main(opts: Options) -> int:
    """Print the script for opts.shell. Errors: UsageError for another shell."""
    makers = {"bash": bash, "zsh": zsh, "fish": fish}
    if opts.shell not in makers:
        raise UsageError(f"completion for {opts.shell}: use bash, zsh or fish")
    sys.stdout.write(makers[opts.shell]())
    return 0


def _words(flags: tuple[Flag, ...]) -> str:
    return " ".join(("--" if len(name) > 1 else "-") + name for flag in shown(flags) for name in flag.names)


def _with_values(flags: tuple[Flag, ...]) -> str:
    names = [("--" if len(n) > 1 else "-") + n for flag in flags if flag.kind != "bool" for n in flag.names]
    return "|".join(dict.fromkeys(names))


def _takes_id(positionals: tuple[tuple[str, str], ...]) -> bool:
    return bool(positionals) and positionals[0][0] == "id"


def bash() -> str:
    """Return the bash script."""
    flags = "\n".join(f'        {row.name}) flags="{_words(row.flags)}" ;;' for row in VERBS)
    with_id = "|".join(row.name for row in VERBS if _takes_id(row.words))
    return f"""# krun completion for bash
_krun() {{
    local word verb="" flags i previous
    word="${{COMP_WORDS[COMP_CWORD]}}"
    previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${{COMP_WORDS[i]}}" in
        {_with_values(GLOBALS)}) ((i++)) ;;
        -*) ;;
        *) verb="${{COMP_WORDS[i]}}"; break ;;
        esac
    done
    case "$previous" in
    {"|".join("--" + name for name in _FILES)})
        COMPREPLY=($(compgen -f -- "$word")); return ;;
    esac
    if [ -z "$verb" ]; then
        COMPREPLY=($(compgen -W "{" ".join(row.name for row in VERBS)} {_words(GLOBALS)}" -- "$word"))
        return
    fi
    case "$verb" in
{flags}
        *) flags="" ;;
    esac
    case "$word" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    *)
        case "$verb" in
        {with_id}) COMPREPLY=($(compgen -W "$(krun list -q 2>/dev/null)" -- "$word")) ;;
        install|uninstall) COMPREPLY=($(compgen -W "podman docker containerd crio" -- "$word")) ;;
        completion) COMPREPLY=($(compgen -W "bash zsh fish" -- "$word")) ;;
        esac ;;
    esac
}}
complete -F _krun krun
"""


def zsh() -> str:
    """Return the zsh script."""
    verbs = "\n".join(f"        '{row.name}:{_quote(row.help)}'" for row in VERBS)
    cases = []
    for row in VERBS:
        specs = []
        for flag in shown(row.flags):
            for name in flag.names:
                dash = ("--" if len(name) > 1 else "-") + name
                value = "" if flag.kind == "bool" else ":value:_files" if name in _FILES else ":value:"
                repeat = "*" if flag.kind == "list" else ""
                specs.append(f"'{repeat}{dash}[{_quote(flag.help)}]{value}'")
        if _takes_id(row.words):
            specs.append("'1:id:($(krun list -q 2>/dev/null))'")
        cases.append(f"    {row.name}) _arguments {' '.join(specs)} ;;")
    return f"""#compdef krun
_krun() {{
    local -a verbs
    verbs=(
{verbs}
    )
    if (( CURRENT == 2 )); then
        _describe 'verb' verbs
        return
    fi
    local verb=$words[2]
    shift words
    (( CURRENT-- ))
    case $verb in
{chr(10).join(cases)}
    esac
}}
compdef _krun krun
"""


def _quote(text: str) -> str:
    return text.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def fish() -> str:
    """Return the fish script."""
    lines = ["# krun completion for fish", "complete -c krun -f"]
    lines += [_fish_flag(flag, "__fish_use_subcommand") for flag in shown(GLOBALS)]
    for row in VERBS:
        lines.append(f"complete -c krun -n __fish_use_subcommand -a {row.name} -d '{_fish_text(row.help)}'")
        seen = f"'__fish_seen_subcommand_from {row.name}'"
        lines += [_fish_flag(flag, seen) for flag in shown(row.flags)]
        if _takes_id(row.words):
            lines.append(f"complete -c krun -n {seen} -a '(krun list -q 2>/dev/null)'")
    return "\n".join(lines) + "\n"


def _fish_flag(flag: Flag, condition: str) -> str:
    names = " ".join(f"-l {name}" if len(name) > 1 else f"-s {name}" for name in flag.names)
    value = "" if flag.kind == "bool" else " -r -F" if flag.names[0] in _FILES else " -x"
    return f"complete -c krun -n {condition} {names}{value} -d '{_fish_text(flag.help)}'"


def _fish_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
