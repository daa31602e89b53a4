"""The machine of document 004: sixteen typed registers, a budget of ticks, and no way out but dispatch.

A register holds an integer, a text, bytes or a handle, which has a type of its own: CONST makes none, no number becomes
one, and what is no handle-operand refuses it. Register 0 is the status of the last effect: 0 ok, 1 to 4 the reasons of
a denial, 5 failed. Every instruction costs a tick, SLEEP_TICKS as many as it sleeps. Nothing of the host is reachable
from a value: a program is data, and so is all that it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pysandbox.apps.denials import REASONS, LogFull
from pysandbox.apps.dispatch import FAILED, OK, Dispatch, Gate
from pysandbox.apps.handles import Constant
from pysandbox.apps.opcodes import EFFECTS, HANDLE
from pysandbox.apps.program import Instruction, MachineProgram
from pysandbox.apps.stopping import STOPPED
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pysandbox.apps.stopping import RunStop

TICKS = 1_000_000
STATUS = {OK: 0, **{reason: number for number, reason in enumerate(REASONS, 1)}, FAILED: 5}
HANDLE_KINDS = frozenset(HANDLE.values())
REGISTERS = 16
SLICE = 256  # ticks between two looks at whether it is to stop

Step = Callable[[], int]  # returns where to go on


class Held(NamedTuple):
    """A handle in a register."""

    number: int


class Stopped(Exception):
    """The program ends: halt, or a trap and why."""


class Machine:
    """One run of one program. `run` may be called once."""

    def __init__(
        self, program: MachineProgram, dispatch: Dispatch, ticks: int = TICKS, stop: RunStop | None = None
    ) -> None:
        self.registers: list[Any] = [0] * REGISTERS
        self.tick = 0
        self._dispatch, self._most, self._stop = dispatch, ticks, stop
        self._code = [self._step(place, each) for place, each in enumerate(program.instructions)]
        self._code.append(self._ran_off)

    def run(self) -> str:
        """How it ended: halt, ticks, stopped, log full, or trap and why."""
        code, most, place, stop = self._code, self._most, 0, self._stop
        try:
            while self.tick < most:
                if stop is not None and stop.asked:
                    return STOPPED
                until = min(most, self.tick + SLICE)
                while self.tick < until:
                    self.tick += 1
                    place = code[place]()
        except Stopped as stopped:
            return str(stopped)
        except LogFull:
            return "log full"
        finally:
            code.clear()  # its steps know this object, and would keep it and its log until the next collection
        return "ticks"

    def _step(self, place: int, instruction: Instruction) -> Step:
        if instruction.name in EFFECTS:
            return self._effect(place + 1, instruction)
        make: Callable[[int, Sequence[Any]], Step] = getattr(self, f"_{instruction.name.lower()}")
        return make(place + 1, instruction.operands)

    def _ran_off(self) -> int:
        raise Stopped("trap: ran off the end of the program")

    # ---- control ------------------------------------------------------------------------------------------------

    def _nop(self, after: int, operands: Sequence[Any]) -> Step:
        return lambda: after

    def _const(self, after: int, operands: Sequence[Any]) -> Step:
        registers, (target, value) = self.registers, operands

        def step() -> int:
            registers[target] = value
            return after

        return step

    def _move(self, after: int, operands: Sequence[Any]) -> Step:
        registers, (target, source) = self.registers, operands

        def step() -> int:
            registers[target] = registers[source]
            return after

        return step

    def _jump(self, after: int, operands: Sequence[Any]) -> Step:
        (target,) = operands
        return lambda: target

    def _jump_if(self, after: int, operands: Sequence[Any]) -> Step:
        registers, (source, target) = self.registers, operands

        def step() -> int:
            value = registers[source]
            if type(value) is Held:
                raise Stopped("trap: a handle is no condition")
            return target if value else after

        return step

    def _sleep_ticks(self, after: int, operands: Sequence[Any]) -> Step:
        (ticks,) = operands

        def step() -> int:
            self.tick = min(self.tick + ticks, self._most)
            return after

        return step

    def _halt(self, after: int, operands: Sequence[Any]) -> Step:
        def step() -> int:
            raise Stopped("halt")

        return step

    # ---- effects ------------------------------------------------------------------------------------------------

    def _effect(self, after: int, instruction: Instruction) -> Step:
        registers, perform = self.registers, self._dispatch.step
        gate = self._dispatch.gates[instruction.name]
        row = gate.opcode
        target = instruction.operands[0] if row.gives else None
        sources = instruction.operands[1:] if row.gives else instruction.operands
        read = _reader(gate, tuple(sources), registers)

        def step() -> int:
            status, value = perform(self.tick, gate, read())
            registers[0] = STATUS[status]
            if target is not None and status == OK:
                registers[target] = Held(value) if row.makes else value
            return after

        return step


def _reader(gate: Gate, sources: Sequence[int], registers: Sequence[Any]) -> Callable[[], list[Any]]:
    """Reads the operands of an effect. A number where a handle belongs is passed on as none, whatever its value; a
    handle where none belongs is a trap."""
    wanted = tuple((source, kind in HANDLE_KINDS) for source, kind in zip(sources, gate.opcode.args, strict=True))

    def read() -> list[Any]:
        args: list[Any] = []
        for source, handle in wanted:
            value = registers[source]
            if type(value) is Held:
                if not handle:
                    raise Stopped("trap: a handle is no value")
                args.append(value.number)
            else:
                args.append(Constant(value) if handle and type(value) is int else value)
        return args

    return read
