"""Settings of a run file that are given as Python values, as TOML."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from numbers import Integral, Real

from gaia._errors import GaiaError

EXAMPLE = '{"stop.clocks": 20}'


def flag_values(settings: object) -> dict[str, str]:
    """What follows ``--set KEY=``, by key. Text is as on the command line, where it may be TOML itself.

    Raises:
        GaiaError: These are no settings, or TOML has no such value. The error names the key.
    """
    if not isinstance(settings, Mapping):
        raise GaiaError(f"set is {_described(settings)}, expected a dict, such as {EXAMPLE}", 2)
    for key in settings:
        if not isinstance(key, str):
            raise GaiaError(f"set has the key {_described(key)}, expected text, as in {EXAMPLE}", 2)
    return {key: value if isinstance(value, str) else _value(key, value) for key, value in settings.items()}


def _value(key: str, value: object) -> str:
    match value:
        case str():
            return _text(value)
        case bool():
            return "true" if value else "false"
        case Integral():
            return str(int(value))
        case Real():
            return repr(float(value))
        case os.PathLike() if isinstance(path := os.fspath(value), str):
            return _text(path)
        case Mapping():
            entries = [f"{_key(key, name)} = {_value(f'{key}.{name}', part)}" for name, part in value.items()]
            return f"{{ {', '.join(entries)} }}"
        case list() | tuple():
            return "[" + ", ".join(_value(f"{key}.{at}", part) for at, part in enumerate(value)) + "]"
    raise GaiaError(
        f"set has {key} = {_described(value)}, expected text, a number, true or false, a path, or a list or dict of such", 2
    )


def _key(table: str, name: object) -> str:
    if not isinstance(name, str):
        raise GaiaError(f"set has the key {_described(name)} in {table}, expected text", 2)
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _described(value: object) -> str:
    return f"{value!r} of type {type(value).__name__}"


def _text(value: str) -> str:
    # A basic string of TOML is one of JSON, but for halves of a character in escapes, and for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
