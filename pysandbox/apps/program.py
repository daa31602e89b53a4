"""A program of the machine: JSON, read strictly, and checked before its first instruction runs.

    {"program": [["CONST", 1, "docs/a.txt"], ["CONST", 2, "r"], ["FS_OPEN", 3, 1, 2], ["HALT"]]}

An instruction is its opcode and its operands: registers 0 to 15, constants, places to jump to (0 is the first). What an
effect gives goes into the register that stands first. Register 0 is the status, and can only be read.
"""

from __future__ import annotations

from collections.abc import Iterator

from pysandbox.apps.opcodes import EFFECTS, OPCODES
from pysandbox.apps.strict import is_encodable, parse_json
from pysandbox.errors import PolicyError
from pysandbox.policy.refusal import did_you_mean, shown
from pysandbox.shapes import Any, NamedTuple, dataclass

MOST_INSTRUCTIONS = 65_536
LONGEST_CONSTANT = 4096  # characters
REGISTERS = 16
# The operands of what has no row in EFFECTS: registers written and read, a constant, a place, a number of ticks.
WRITTEN, READ, CONSTANT, PLACE, SLEPT = "a register to write", "a register", "a constant", "a place", "ticks"
CONTROL: dict[str, tuple[str, ...]] = {
    "NOP": (),
    "CONST": (WRITTEN, CONSTANT),
    "MOVE": (WRITTEN, READ),
    "JUMP": (PLACE,),
    "JUMP_IF": (READ, PLACE),
    "SLEEP_TICKS": (SLEPT,),
    "HALT": (),
}


class Instruction(NamedTuple):
    name: str
    operands: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class MachineProgram:
    instructions: tuple[Instruction, ...]

    @classmethod
    def parse(cls, content: bytes, file: str | None = None) -> MachineProgram:
        """Raises PolicyError, which names the instruction."""
        document = parse_json(content, file)
        if not isinstance(document, dict) or set(document) != {"program"}:
            raise PolicyError("is no program", file=file, suggestion='write {"program": [["HALT"]]}')
        listed = document["program"]
        if not isinstance(listed, list) or len(listed) > MOST_INSTRUCTIONS:
            message = f"must be a list of at most {MOST_INSTRUCTIONS} instructions"
            raise PolicyError(message, file=file, key="program")
        return cls(tuple(_instruction(place, each, len(listed), file) for place, each in enumerate(listed)))


def operands_of(name: str) -> tuple[str, ...]:
    if name in CONTROL:
        return CONTROL[name]
    row = EFFECTS[name]
    return (*((WRITTEN,) if row.gives else ()), *(READ for _ in row.args))


def _instruction(place: int, given: object, length: int, file: str | None) -> Instruction:
    key = f"program[{place}]"
    if not isinstance(given, list) or not given or not isinstance(given[0], str):
        raise PolicyError(f"{shown(given)} is no instruction", file=file, key=key, suggestion='write ["NOP"]')
    name, *operands = given
    if name not in OPCODES:
        raise PolicyError(
            f"{shown(name)} is no opcode", file=file, key=key, suggestion=did_you_mean(name.upper(), OPCODES)
        )
    wanted = operands_of(name)
    if len(operands) != len(wanted):
        said = f"{name} has {len(wanted)} operands{': ' if wanted else ''}{', '.join(wanted)}"
        raise PolicyError(f"{said}; not {len(operands)}", file=file, key=key)
    for problem in _wrong(wanted, operands, length):
        raise PolicyError(f"{name}: {problem}", file=file, key=key)
    return Instruction(name, tuple(operands))


def _wrong(wanted: tuple[str, ...], operands: list[object], length: int) -> Iterator[str]:
    ranges = {WRITTEN: (1, REGISTERS), READ: (0, REGISTERS), PLACE: (0, length), SLEPT: (0, 1 << 63)}
    for kind, value in zip(wanted, operands, strict=True):
        if kind == CONSTANT:
            whole = type(value) is int and -(1 << 63) <= value < 1 << 63
            if not whole and not (isinstance(value, str) and len(value) <= LONGEST_CONSTANT and is_encodable(value)):
                yield f"{shown(value)} is neither a 64-bit integer nor a text of at most {LONGEST_CONSTANT} characters"
        elif type(value) is not int or not ranges[kind][0] <= value < ranges[kind][1]:
            low, high = ranges[kind]
            yield f"{shown(value)} is not {kind} from {low} to {high - 1}"
