"""YAML that a client wrote: what may stand in it, and how much. Everything else that krun serve reads is JSON.

A loader works on the server's loop, a hundred times slower than JSON's, and Python's objects may be larger than the text
without bound: by aliases. Numbers of base 60 (YAML 1.1) and directives take the square of their length or number.
"""

import re
from typing import Any

#: Levels of collections; values, keys, and beginnings and ends of collections: 0.2 s. A large object is sent as JSON.
_DEPTH, _EVENTS = 64, 10000
_DIRECTIVE, _DIRECTIVES = re.compile(r"(?:^|[\r\n\x85\u2028\u2029])%"), 8
_SEXAGESIMAL = re.compile(r"[-+0-9_.]+:[0-9_.:]{64,}")


def load(data: bytes) -> Any:
    """Returns the value of a text. Errors: ValueError, it is no YAML, or of a kind that is not read."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        text = data.decode("utf-8")
        if len(_DIRECTIVE.findall(text)) > _DIRECTIVES:
            raise ValueError(f"YAML with more than {_DIRECTIVES} directives is not read")
        # The events first: the loader recurses in C, and a body that is nested deep enough would end the process.
        depth = count = 0
        for event in yaml.parse(text, loader):
            count += 1
            if isinstance(event, yaml.events.AliasEvent):
                raise ValueError("YAML aliases are not read")
            if isinstance(event, yaml.events.ScalarEvent) and _SEXAGESIMAL.match(event.value):
                raise ValueError("YAML numbers of base 60 have at most 64 characters")
            depth += isinstance(event, yaml.events.CollectionStartEvent)
            depth -= isinstance(event, yaml.events.CollectionEndEvent)
            if depth > _DEPTH:
                raise ValueError(f"it is nested deeper than {_DEPTH} levels")
            if count > _EVENTS:
                raise ValueError(f"YAML of more than {_EVENTS} values is not read; send JSON")
        return yaml.load(text, loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None
