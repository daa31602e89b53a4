"""Cages with a [[host]] contract: what is started for them, for how long, and what they trust."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from pysandbox import Cage, Policy, PolicyError, Runtime
from pysandbox.gate.inspector import InspectorProcess
from pysandbox.gate.inspectors import AskingInspector, ScanningInspector
from pysandbox.launch.scratch import Session
from pysandbox.live.init import CageInit
from pysandbox.runtime.prepared import Prepared, TrustedFile

HELD = Policy(hosts=[{"domain": "api.example", "methods": ["GET"]}])


def test_the_inspector_stays_for_as_long_as_a_cage_may_need_it() -> None:
    runtime = Runtime(warm=0)
    with Cage(HELD, runtime=runtime) as cage:
        assert cage.run(["true"]).ok
        inspector = runtime.shared.find(InspectorProcess)
        assert inspector is not None and inspector.process is not None
        runtime.drain()
        assert not inspector.retired and inspector.process.poll() is None
    runtime.drain()
    assert inspector.retired and inspector.process is None


def test_nothing_is_started_for_a_host_without_a_contract() -> None:
    runtime = Runtime(warm=0)
    result = Cage(Policy(hosts=["api.example"]), runtime=runtime).run(["sh", "-c", "ls /.pysandbox-ca.pem; env"])
    assert "ca.pem" not in result.stdout and runtime.shared.find(InspectorProcess) is None
    runtime.drain()


def test_a_cage_reads_what_it_is_to_trust_and_cannot_change_it() -> None:
    runtime = Runtime(warm=0)
    script = "grep -c BEGIN $SSL_CERT_FILE; echo x >> $SSL_CERT_FILE; rm $SSL_CERT_FILE; mv /.pysandbox-ca.pem /tmp/x"
    result = Cage(HELD, runtime=runtime).run(["sh", "-c", script])
    assert int(result.stdout) > 1
    assert not result.ok and "Read-only" in result.stderr
    runtime.drain()


def test_a_cage_that_is_opened_while_another_thread_drains_trusts_who_serves_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtime = Runtime(warm=0)
    take = runtime.take

    def drained(prepared: Prepared, session: Session | None = None, trusted: TrustedFile | None = None) -> CageInit:
        runtime.drain()  # between the file that it is to trust and its session
        return take(prepared, session, trusted)

    monkeypatch.setattr(runtime, "take", drained)
    with Cage(HELD, runtime=runtime) as cage:
        assert (cage.run(["cat", "/.pysandbox-ca.pem"]).stdout) == served_by(runtime)
    monkeypatch.undo()
    runtime.drain()


def test_a_cage_that_waited_for_longer_than_its_inspector_is_not_used() -> None:
    runtime = Runtime(warm=1)
    run = partial(Cage(HELD, runtime=runtime).run, ["cat", "/.pysandbox-ca.pem"])
    assert run().ok
    runtime.prewarm(HELD, 1)
    before, inspector = served_by(runtime), runtime.shared.find(InspectorProcess)
    while inspector is not None and not inspector.retired:  # the first cage may be on its way out
        runtime.shared.retire()
    after = run().stdout
    assert after != before and after == served_by(runtime)
    runtime.drain()


SCANNED = Policy(hosts=[{"domain": "api.example"}], dlp_enabled=True)


@pytest.mark.parametrize("warm", [0, 1])
def test_cages_with_and_without_a_callback_each_trust_who_looks_into_theirs(
    warm: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opened by two threads at once: each has asked for its file before the other takes its cage; and so again, when
    there is a cage that waits."""
    runtime, both = Runtime(warm=warm), threading.Barrier(2)
    take = runtime.take

    def together(prepared: Prepared, session: Session | None = None, trusted: TrustedFile | None = None) -> CageInit:
        both.wait(60)
        return take(prepared, session, trusted)

    monkeypatch.setattr(runtime, "take", together)
    cages = {
        ScanningInspector: Cage(SCANNED, runtime=runtime),
        AskingInspector: Cage(SCANNED, runtime=runtime, leak_fn=lambda part: False),
    }
    net = runtime.prepare(SCANNED, os.getcwd()).plan.net
    assert net is not None
    for _ in range(3):
        with ThreadPoolExecutor(2) as threads:
            read = [threads.submit(cage.run, ["cat", "/.pysandbox-ca.pem"]) for cage in cages.values()]
            texts = [each.result().stdout for each in read]
        inspectors = [runtime.shared.find(kind) for kind in cages]
        assert texts == [Path(each.trust(net)).read_text() for each in inspectors if each is not None]
        assert len({*texts}) == 2
        runtime.wait_idle()
    monkeypatch.undo()
    runtime.drain()


def test_no_cage_is_kept_ready_before_its_inspector() -> None:
    runtime = Runtime(warm=0)
    with pytest.raises(PolicyError, match="before the first"):
        runtime.prewarm(HELD, 1)


def test_a_key_typed_at_the_terminal_is_not_for_the_inspector() -> None:
    runtime = Runtime(warm=0)
    with Cage(HELD, runtime=runtime):
        inspector = runtime.shared.find(InspectorProcess)
        assert inspector is not None and inspector.process is not None
        assert os.getpgid(inspector.process.pid) != os.getpgid(0)
    runtime.drain()


def served_by(runtime: Runtime) -> str:
    """What cages of the policy are to trust by now."""
    inspector, net = runtime.shared.find(InspectorProcess), runtime.prepare(HELD, os.getcwd()).plan.net
    assert inspector is not None and net is not None
    return Path(inspector.trust(net)).read_text()
