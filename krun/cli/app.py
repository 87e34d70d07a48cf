"""The full parser of the command line, made with click from the same table: help, version, and messages for wrong
calls.

The import of click costs 15-22 ms. Therefore cli.fast parses every plain call, and this file parses the others.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from krun.cli import fast, version
from krun.cli.options import Options
from krun.cli.table import GLOBALS, attribute, blank
from krun.cli.verbs import VERBS, verb
from krun.errors import KrunError, UsageError

if TYPE_CHECKING:
    from krun.cli.table import Flag, Verb

NAME = "krun"
SUMMARY = "OCI runtime whose payloads run in KVM virtual machines"


def parse(argv: list[str]) -> tuple[Verb, Options] | int:
    """Read a command line with click.

    Returns the verb's row and its options, or an exit code when help or the version was asked for and has
    been printed.
    Errors: UsageError in runc's words; for an unknown command with exit code 3.
    """
    if argv in (["--version"], ["-version"], ["-v"]):
        # podman and dockerd ask at every start: spare them the import of click.
        sys.stdout.write(version.text())
        return 0
    import click

    group = build()
    try:
        # Given explicitly: click would otherwise guess the name from sys.argv[0].
        context = group.make_context(NAME, normalize(argv))
        with context:
            return _dispatch(context)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        raise _usage(error) from None


def build() -> Any:
    """Return the click group with one command per row of the table (for parsing, help and the tests)."""
    import click

    group = click.Group(
        NAME,
        params=[_option(flag) for flag in GLOBALS if flag.names[0] not in ("help", "version")]
        + [
            click.Option(
                ["--version", "-v"],
                is_flag=True,
                expose_value=False,
                is_eager=True,
                callback=_print_version,
                help="show the version",
            )
        ],
        help=SUMMARY,
        context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 110},
        invoke_without_command=True,
        subcommand_metavar="COMMAND [FLAGS] [ARGUMENTS]",
    )
    for row in VERBS:
        group.add_command(_command(row))
    return group


def _print_version(context: Any, _parameter: Any, value: bool) -> None:
    if value:
        sys.stdout.write(version.text())
        context.exit(0)


def _option(flag: Flag) -> Any:
    import click

    declared = [attribute(flag)] + [("--" if len(name) > 1 else "-") + name for name in flag.names]
    kind, text = flag.kind, flag.help
    hidden = flag.dialect.startswith("hidden")
    if kind == "bool":
        return click.Option(declared, is_flag=True, default=flag.default, help=text, hidden=hidden)
    return click.Option(
        declared,
        type=click.INT if kind == "int" else click.STRING,
        default=None,
        multiple=kind == "list",
        help=text,
        hidden=hidden,
        metavar={"int": "N", "str": "TEXT", "list": "TEXT..."}[kind],
    )


def _command(row: Verb) -> Any:
    import click

    params: list[Any] = [_option(flag) for flag in row.flags]
    for word, how in row.words:
        params.append(
            click.Argument(
                [word], nargs=-1 if how == "rest" else 1, required=how in ("one", "one."), type=str
            )
        )
    stops = any(how == "one." for _, how in row.words)
    helps = [] if row.call.startswith("krun.oci.checkpoint:") else ["--help", "-h"]
    return click.Command(
        row.name,
        params=params,
        help=row.help,
        short_help=row.help,
        context_settings={"allow_interspersed_args": not stops, "help_option_names": helps},
    )


def _dispatch(context: Any) -> tuple[Verb, Options] | int:
    import click

    # The verb's name: click 8.2 has renamed the list that it is in, Debian 12 and 13 have 8.1.
    protected: Any = getattr(context, "_protected_args", None)
    if protected is None:
        protected = getattr(context, "protected_args", ())
    rest = [*protected, *context.args]
    if not rest:
        click.echo(context.get_help())
        return 0
    name, words = rest[0], rest[1:]
    row = verb(name)
    if row is None:
        if name == "help":
            return _help(context, words)
        raise UsageError(f"No help topic for '{name}'", exit_code=3)
    command = context.command.commands[name]
    if row.call.startswith("krun.oci.checkpoint:") and {"--help", "-h"} & set(words):
        with click.Context(command, info_name=name, parent=context) as shown:
            click.echo(command.get_help(shown))
        return 1  # podman probes `checkpoint --help`: 0 would say that checkpoints are supported
    sub = command.make_context(name, words, parent=context)
    opts = blank(row)
    for flag in GLOBALS:
        key = attribute(flag)
        if key in context.params and context.params[key] is not None:
            setattr(opts, key, context.params[key])
    for flag in row.flags:
        key = attribute(flag)
        value = sub.params[key]
        if flag.kind == "list":
            value = list(value)
        # A verb's flag of the same name as one of krun's (spec --rootless) keeps the outer value unless
        # given.
        if value or not any(attribute(outer) == key for outer in GLOBALS):
            setattr(opts, key, value)
    for word, how in row.words:
        value = sub.params[word]
        setattr(opts, word, list(value) if how == "rest" else value)
    return row, opts


def _help(context: Any, words: list[str]) -> int:
    import click

    if not words:
        click.echo(context.get_help())
        return 0
    command = context.command.commands.get(words[0])
    if command is None:
        raise UsageError(f"No help topic for '{words[0]}'", exit_code=3)
    with click.Context(command, info_name=words[0], parent=context) as sub:
        click.echo(command.get_help(sub))
    return 0


def _usage(error: Any) -> KrunError:
    """Return a UsageError in the words of Go's flag package, which callers match on (podman: "flag needs an
    argument").
    """
    import click

    context = getattr(error, "ctx", None)
    name = context.info_name if context is not None and context.info_name else NAME
    if isinstance(error, click.NoSuchOption):
        return UsageError(f"flag provided but not defined: -{error.option_name.lstrip('-')}")
    if isinstance(error, click.BadOptionUsage) and "requires an argument" in error.message:
        return UsageError(f"flag needs an argument: -{error.option_name.lstrip('-')}")
    if isinstance(error, click.MissingParameter) or "unexpected extra argument" in error.format_message():
        row = verb(name)
        if row is not None:
            return UsageError(count_text(row))
    return UsageError(error.format_message())


def count_text(row: Verb) -> str:
    """Return runc's sentence for a wrong number of arguments."""
    least = sum(1 for _, how in row.words if how in ("one", "one."))
    if any(how == "rest" for _, how in row.words):
        return f'{NAME}: "{row.name}" requires a minimum of {least} argument'
    most = len(row.words)
    if least != most:
        return f'{NAME}: "{row.name}" requires a minimum of {least} and a maximum of {most} argument(s)'
    return f'{NAME}: "{row.name}" requires exactly {most} argument(s)'


def normalize(argv: list[str]) -> list[str]:
    """Return a Go style command line in click's style: `-bundle x` as `--bundle x`, `--debug=true` as
    `--debug`.

    Words that are no flag of the table, and everything after parsing stops, stay as they are.
    """
    out: list[str] = []
    index = _normalize_flags(GLOBALS, argv, 0, out)
    if index >= len(argv):
        return out
    row = verb(argv[index])
    out.append(argv[index])
    index += 1
    if row is None:
        return out + argv[index:]
    stops = any(how == "one." for _, how in row.words)
    while index < len(argv):
        index = _normalize_flags(row.flags, argv, index, out)
        if index >= len(argv):
            break
        if stops or (out and out[-1] == "--"):
            return out + argv[index:]
        out.append(argv[index])
        index += 1
    return out


def _normalize_flags(flags: tuple[Flag, ...], argv: list[str], index: int, out: list[str]) -> int:
    while index < len(argv):
        word = argv[index]
        if len(word) < 2 or word[0] != "-":
            return index
        index += 1
        if word == "--":
            out.append(word)
            return index
        name, equals, value = word[2 if word[1] == "-" else 1 :].partition("=")
        flag = next((flag for flag in flags if name in flag.names), None)
        if flag is None:
            # Help, and unknown ones: click shall say so; one dash would be read as a cluster of short flags.
            out.append(("-" if len(name) == 1 else "--") + name + (equals + value if len(name) > 1 else ""))
            continue
        dashed = ("--" if len(flag.names[0]) > 1 else "-") + flag.names[0]
        if flag.kind == "bool":
            if equals and value in fast.FALSE:
                continue
            if equals and value not in fast.TRUE:
                raise UsageError(f'invalid boolean value "{value}" for -{name}: parse error')
            out.append(dashed)
            continue
        if not equals:
            if index >= len(argv):
                out.append(dashed)
                continue
            # Glued below, so that a value with a leading dash is not read as a flag.
            value = argv[index]
            index += 1
        if flag.kind == "int" and not fast.is_number(value):
            raise UsageError(f'invalid value "{value}" for flag -{name}: parse error')
        out.append(f"{dashed}={value}")
    return index
