"""Values of secrets, on their way to the inspector: read where the policy says they are, handed over, and not kept.

The host program knows a value for as long as one record to the inspector takes, once for each cage; what was given
from Python it holds for the Cage that it was given to. `SecretValue` is in no repr, no pickle and no message. What is
told of a secret, in an error too, is its name and where its value is.

    CageSecrets     of one Cage, for all of its commands: placeholders, values that were given, what was revoked
    HeldSecrets     of one cage that lives: known to the inspector until the cage ends
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from errno import EPIPE
from functools import partial

from pysandbox.errors import PolicyError, StartError
from pysandbox.gate.inspection.channel import ChannelRecord, Kind
from pysandbox.gate.placeholders import placeholder_for
from pysandbox.live.services import CageService
from pysandbox.policy.reading import read_regular
from pysandbox.policy.refusal import did_you_mean, shown
from pysandbox.policy.secret import BODY, GIVEN
from pysandbox.shapes import TYPE_CHECKING, NamedTuple, NoReturn

if TYPE_CHECKING:
    from pysandbox.compile.plan import Plan, SecretGrant
    from pysandbox.gate.inspector import InspectorProcess
    from pysandbox.live.init import CageInit
    from pysandbox.policy.model import Policy

SHORTEST, LONGEST = 8, 4096  # of a value; a shorter one would be found in texts that have nothing to do with it
LONGEST_OF_ALL = 1 << 16  # together, in one record
PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class SecretValue:
    """A value that tells nobody what it is."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "SecretValue(...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


class Shape(NamedTuple):
    length: int  # of the value
    placeholder: str


class CageSecrets:
    """`given`: values by the names that the policy gives them, with `from = "given"`."""

    def __init__(self, given: Mapping[str, SecretValue]) -> None:
        self._given = given
        self._shapes: dict[str, Shape] = {}
        self.revoked: set[str] = set()

    def prepare(self, plan: Plan, grants: tuple[SecretGrant, ...]) -> Mapping[str, str]:
        """The variables of a cage of this plan: each secret's placeholder. Raises PolicyError where a value is not to
        be had, cannot be sent where the policy says, or is in the cage by another way."""
        total = 0
        for grant in grants:
            value = self._value(grant)
            _refuse_known(grant, value, plan)
            total += len(value.reveal())
        if total > LONGEST_OF_ALL:
            raise _wrong(f"the values of all secrets are more than {LONGEST_OF_ALL} bytes", "keep fewer in one policy")
        return {each.name: self._shapes[each.name].placeholder for each in grants}

    def record(self, number: int, grants: tuple[SecretGrant, ...]) -> ChannelRecord:
        """What the inspector is told. A value that is not to be had any more, or was revoked, it is not told."""
        rows = []
        for grant in grants:
            placeholder, value = self._shapes[grant.name].placeholder, ""
            with suppress(PolicyError):
                value = "" if grant.name in self.revoked else self._value(grant).reveal()
            rows.append({
                "name": grant.name, "placeholder": placeholder, "hosts": grant.hosts, "places": grant.places,
                "value": value if self._shapes[grant.name].placeholder == placeholder else "",
            })  # fmt: skip
        return ChannelRecord(Kind.SECRETS, number, (json.dumps(rows).encode(),))

    def _value(self, grant: SecretGrant) -> SecretValue:
        """One that can be sent, with a placeholder of its length. Raises PolicyError."""
        value = self._read(grant)
        length, shape = len(value.reveal()), self._shapes.get(grant.name)
        if shape is None or shape.length != length:
            shape = self._shapes[grant.name] = Shape(length, placeholder_for(value.reveal()))
        _check(grant, value, shape)
        return value

    def _read(self, grant: SecretGrant) -> SecretValue:
        """Raises PolicyError."""
        kind, _, place = grant.source.partition(":")
        if kind == GIVEN:
            given = self._given.get(grant.name)
            if given is None:
                raise _wrong(
                    f"the value of {grant.name} was not given", f'Cage(policy, secrets={{"{grant.name}": ...}})'
                )
            return given
        if kind == "env":
            if not (value := os.environ.get(place)):
                raise _wrong(f"{grant.name}: the variable {place} is not set", "set it before the cage starts")
            return SecretValue(value)
        try:
            return SecretValue(read_regular(place).decode("ascii").removesuffix("\n").removesuffix("\r"))
        except (OSError, ValueError, PolicyError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no regular file with a value in one line"
        raise _wrong(f"{grant.name}: {place} was not read: {why}", "write the value into that file, as one line")


def given_secrets(policy: Policy, given: Mapping[str, str] | None) -> CageSecrets:
    """Raises PolicyError, TypeError: no message has a value in it."""
    wanted = [each.name for each in policy.secrets if each.source == GIVEN]
    for name, value in (given or {}).items():
        if name not in wanted:
            fix = did_you_mean(str(name), wanted) or 'write a [[secret]] with from = "given"'
            raise _wrong(f"{shown(name)} is not a secret whose value is to be given", fix)
        if not isinstance(value, str):
            raise TypeError(f"the value of the secret {name} must be a str, not {type(value).__name__}")
    return CageSecrets({name: SecretValue(value) for name, value in (given or {}).items()})


def _check(grant: SecretGrant, value: SecretValue, shape: Shape) -> None:
    """Raises PolicyError."""
    text, why, fix = value.reveal(), "", "give another value"
    if not SHORTEST <= len(text) <= LONGEST:
        why = f"has {len(text)} characters, and must have {SHORTEST} to {LONGEST}"
    elif not text.isascii() or not text.isprintable() or text != text.strip():
        why = "has characters other than printable ASCII, or spaces at its ends"
    elif BODY in grant.places and (len(shape.placeholder) != len(text) or not set(text) <= PLAIN):
        why = "is too short for a placeholder of its length, or has characters other than letters, digits and - . _ ~"
        fix = 'leave "body" out of its places: there a value has to stand as it is, in JSON and in forms'
    if why:
        raise _wrong(f"the value of {grant.name} ({grant.source}) {why}", fix)


def _refuse_known(grant: SecretGrant, value: SecretValue, plan: Plan) -> None:
    """Raises PolicyError where the cage has the value already."""
    for name, said in plan.env:
        if value.reveal() in said:
            raise _wrong(f"the variable {name} of the cage has the value of {grant.name} in it", f"take {name} out")


def _wrong(message: str, suggestion: str) -> PolicyError:
    return PolicyError(message, key="secret", suggestion=suggestion)


class HeldSecrets(CageService):
    """What the inspector holds for one cage. `end` makes it forget."""

    def __init__(self, inspector: InspectorProcess, of: CageSecrets, grants: tuple[SecretGrant, ...]) -> None:
        """Raises OSError."""
        self._inspector, self._of, self._grants = inspector, of, grants
        self.number = next(inspector.numbers)
        inspector.told_again[self.number] = partial(of.record, self.number, grants)
        try:
            inspector.say(of.record(self.number, grants))
        except BaseException:
            self.end()
            raise

    def revoke(self, name: str) -> None:
        """Once it has returned, the value is put in no request any more; an inspector that does not confirm that is
        ended. Raises PolicyError."""
        names = [each.name for each in self._grants]
        if name not in names:
            fix = did_you_mean(name, names) or f"one of {', '.join(names)}"
            raise _wrong(f"{shown(name)} is no secret of this cage", fix)
        self._of.revoked.add(name)
        process = self._inspector.process
        with suppress(OSError):
            self._inspector.say(ChannelRecord(Kind.REVOKE, self.number, (name.encode(),)))
            if self._inspector.wait_booked():
                return
        if process is not None:
            process.kill()
            process.wait()

    def end(self) -> None:
        if self._inspector.told_again.pop(self.number, None) is not None:
            with suppress(OSError):
                self._inspector.say(ChannelRecord(Kind.FORGET, self.number), later=True)


def hold_secrets(inspector: InspectorProcess, of: CageSecrets, grants: tuple[SecretGrant, ...]) -> HeldSecrets:
    """Raises StartError."""
    try:
        return HeldSecrets(inspector, of, grants)
    except OSError as error:
        text = "the inspector did not take the secrets of this cage over"
        raise StartError("network", error.errno or EPIPE, None, text) from None


def revoke(live: CageInit, name: str) -> None:
    """Raises PolicyError."""
    held = live.services.find(HeldSecrets)
    if held is None:
        raise PolicyError(f"{shown(name)} is no secret of this cage, which has none", key="secret")
    held.revoke(name)
