"""The small parser of the command line: parses every well-formed call with Go's flag syntax, from cli.table. It gives
up for every other call (help, a wrong or missing flag or argument); cli.app then parses the call and prints the
message.
"""

from krun.cli.options import Options
from krun.cli.table import GLOBALS, RUNTIME, attribute, blank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.cli.table import Flag, Verb

# strconv.ParseBool
TRUE = ("1", "t", "T", "true", "TRUE", "True")
FALSE = ("0", "f", "F", "false", "FALSE", "False")


def parse(argv: "list[str]") -> "tuple[Verb, Options] | None":
    """Return the verb's row and its options, None when this is not a plain call.

    Go's manners: `--flag value`, `--flag=value`, the same with one dash, booleans alone or `=true`; a single
    `-` is an argument; `--` ends the flags; for exec, kill and ps flags end after the id, elsewhere they may
    follow it.
    """
    given: list[tuple[Flag, str | bool]] = []
    index, _ = _flags(GLOBALS, argv, 0, given)
    if index < 0 or index >= len(argv):
        return None
    row = _row(argv[index])
    if row is None:
        return None
    stops = any(how == "one." for _, how in row.words)
    index += 1
    words: list[str] = []
    own: list[tuple[Flag, str | bool]] = []
    while True:
        index, ended = _flags(row.flags, argv, index, own)
        if index < 0:
            return None
        if index >= len(argv):
            break
        if stops or ended:
            words.extend(argv[index:])
            break
        words.append(argv[index])
        index += 1
    opts = blank(row)
    if not _fill(opts, given) or not _fill(opts, own) or opts.help or opts.version:
        return None
    return (row, opts) if place(row, words, opts) else None


def _row(name: str) -> "Verb | None":
    """Return the row of a verb. Only a call of a verb that no engine calls imports the other table."""
    for row in RUNTIME:
        if row.name == name:
            return row
    from krun.cli.verbs import verb

    return verb(name)


def place(row: "Verb", words: "list[str]", opts: Options) -> bool:
    """Put positional words where they belong; False when there are too few or too many."""
    index = 0
    for name, how in row.words:
        if how == "rest":
            setattr(opts, name, words[index:])
            index = len(words)
        elif index < len(words):
            setattr(opts, name, words[index])
            index += 1
        elif how != "opt":
            return False
    return index == len(words)


def _flags(
    flags: "tuple[Flag, ...]", argv: "list[str]", index: int, given: "list[tuple[Flag, str | bool]]"
) -> "tuple[int, bool]":
    """Read flags from `index` on; return where the first other word stands (-1: a wrong flag) and whether
    "--" came.
    """
    while index < len(argv):
        word = argv[index]
        if len(word) < 2 or word[0] != "-":
            return index, False
        index += 1
        if word == "--":
            return index, True
        name, equals, value = word[2 if word[1] == "-" else 1 :].partition("=")
        for flag in flags:
            if name in flag.names:
                break
        else:
            return -1, False
        if flag.kind == "bool":
            if equals and value not in TRUE and value not in FALSE:
                return -1, False
            given.append((flag, not equals or value in TRUE))
            continue
        if not equals:
            if index >= len(argv):
                return -1, False
            value = argv[index]
            index += 1
        given.append((flag, value))
    return index, False


def _fill(opts: Options, given: "list[tuple[Flag, str | bool]]") -> bool:
    """Set the attributes; False for a number that is none."""
    for flag, value in given:
        name = attribute(flag)
        kind = flag.kind
        if kind == "list":
            # A new list, because the default must not be shared.
            setattr(opts, name, [*getattr(opts, name), value])
        elif kind == "int":
            if not is_number(str(value)):
                return False
            setattr(opts, name, int(value))
        else:
            setattr(opts, name, value)
    return True


def is_number(text: str) -> bool:
    """Return whether a flag's value is a decimal number; int() alone would take blanks, "1_0" and foreign
    digits.
    """
    digits = text[1:] if text[:1] in ("-", "+") else text
    return digits.isdecimal() and digits.isascii()
