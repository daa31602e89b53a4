"""What a new cage has on the host beside itself, made before it, and removed when it is gone."""

from __future__ import annotations

from contextlib import ExitStack

from pysandbox.compile.cow import cow_steps
from pysandbox.live.services import CageService
from pysandbox.runtime.prepared import Prepared, TrustedFile
from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pysandbox.compile.plan import Plan
    from pysandbox.launch.native import Opened
    from pysandbox.live.init import CageInit
    from pysandbox.live.uppers import OpenedUppers


class Beside(NamedTuple):
    """`services` end with the cage; `layers` is the directory for LAYERS, "" where the plan has none."""

    services: tuple[CageService, ...] = ()
    layers: str = ""


NOTHING = Beside()


def make_beside(prepared: Prepared, trusted: TrustedFile | None, undo: ExitStack) -> Beside:
    """`undo` takes it back where the cage is not made. Raises StartError."""
    most = prepared.plan.layers
    if most is None and trusted is None and not prepared.placeholders:
        return NOTHING
    services: list[CageService] = []
    layers = ""
    if trusted is not None:
        hold = trusted.hold(trusted.path)
        undo.callback(hold.end)
        services.append(hold)
    if prepared.placeholders:
        from pysandbox.live.placeholders import Placeholders

        held = Placeholders(prepared.placeholders)
        undo.callback(held.end)
        services.append(held)
    if most is not None:
        from pysandbox.live.layers import DiskLayers

        copies = prepared.plan.copies
        place = DiskLayers(most, _watched(prepared), overlaid=copies is None)
        undo.callback(place.end)
        services.append(place)
        layers = place.path
        if copies is not None:
            from pysandbox.live.copies import TreeCopies

            made = TreeCopies(place, copies)
            undo.callback(made.end)
            services.append(made)
    return Beside(tuple(services), layers)


def opened_uppers(opened: Opened, plan: Plan, undo: ExitStack) -> OpenedUppers | None:
    """The copy-on-write trees of a cage that was just made, opened. `undo` as above. Raises StartError."""
    if opened.upper < 0:
        return None
    from pysandbox.live.uppers import OpenedUppers

    uppers = OpenedUppers(opened.take_upper(), plan)
    undo.callback(uppers.close)
    return uppers


def covers(live: CageInit, prepared: Prepared) -> tuple[CageService, ...]:
    """What knows whether all that is covered in the cage still is."""
    found: list[CageService] = []
    if prepared.placeholders:
        from pysandbox.live.placeholders import Placeholders

        held = live.services.find(Placeholders)
        found += [held] if held is not None else []
    if prepared.covered:
        from pysandbox.live.covered import CoveredPaths

        found.append(CoveredPaths(live.pid, prepared.covered))
    if prepared.awaited:
        from pysandbox.live.awaited_names import AwaitedNames

        found.append(AwaitedNames(prepared.awaited))
    return tuple(found)


def _watched(prepared: Prepared) -> list[str]:
    """The copy-on-write directories, on the host."""
    copies = prepared.plan.copies
    if copies is not None:
        return [tree.path for tree in copies.trees]
    return [step.target for step in cow_steps(prepared.plan)]
