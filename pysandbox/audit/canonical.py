"""One text for one value: the JSON that json.dumps writes with sorted keys, no spaces and ASCII alone.

Written by hand because a spawn waits for it: importing json takes longer than starting a cage. A string that would need
an escape is left to json itself. What JSON does not know is written as its str().
"""

from __future__ import annotations


def canonical(value: object) -> str:
    if isinstance(value, str):
        return _string(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value) if value - value == 0 else _string(str(value))  # JSON has no inf and no nan
    if isinstance(value, dict):
        named = {key if isinstance(key, str) else str(key): each for key, each in value.items()}
        return "{" + ",".join(f"{_string(key)}:{canonical(named[key])}" for key in sorted(named)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(canonical, value)) + "]"
    return _string(str(value))


def _string(text: str) -> str:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    from json import dumps

    return dumps(text)
