"""A service that retires when no cage needs it is never joined by a cage at the same time."""

from __future__ import annotations

import threading

from pysandbox.runtime.shared import SharedServices


class Service:
    def __init__(self) -> None:
        self.cages: list[str] = []
        self.retired = False

    def retire(self) -> bool:
        self.retired = not self.cages
        return self.retired

    def after_fork_in_child(self) -> None: ...


def test_a_service_does_not_retire_while_a_cage_joins_it() -> None:
    shared = SharedServices()
    inside, go_on = threading.Event(), threading.Event()

    def join(service: Service) -> Service:
        inside.set()
        assert go_on.wait(10)
        assert not service.retired
        service.cages.append("a cage")
        return service

    joined: list[Service] = []
    joining = threading.Thread(target=lambda: joined.append(shared.join(Service, Service, join)))
    joining.start()
    assert inside.wait(10)
    retiring = threading.Thread(target=shared.retire)
    retiring.start()
    retiring.join(0.1)
    assert retiring.is_alive(), "the control: it is asked to retire in the middle of it"
    go_on.set()
    joining.join(10)
    retiring.join(10)
    assert joined and not joined[0].retired
    assert shared.find(Service) is joined[0]


def test_one_that_has_retired_is_made_again() -> None:
    shared = SharedServices()
    first = shared.join(Service, Service, lambda service: service)
    shared.retire()
    assert first.retired
    assert shared.join(Service, Service, lambda service: service) is not first


class Served(Service):
    """Ends only when the other has ended, and is asked first."""

    other: Service

    def retire(self) -> bool:
        self.retired = self.other.retired
        return self.retired


def test_one_that_serves_another_ends_with_it() -> None:
    shared = SharedServices()
    first = shared.join(Served, Served, lambda service: service)
    first.other = shared.join(Service, Service, lambda service: service)
    shared.retire()
    assert first.retired and first.other.retired
    assert shared.find(Served) is None
