"""Templates: workers that share what was loaded, one result for each item whatever a worker does, refusals by name."""

from __future__ import annotations

import itertools
import linecache
import os
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from pysandbox import CageClosedError, Policy, PolicyError, Template, TemplateError

pytestmark = pytest.mark.landlock(6)


@pytest.fixture
def template() -> Iterator[Template]:
    with Template(Policy(), init="decimal", parked=2) as made:
        yield made


def doubled(number):
    print("saw", number)
    return [number, number * 2]


def trouble(kind):
    import os
    import signal
    import sys

    if kind == "raises":
        raise LookupError("no such thing")
    if kind == "exits":
        os._exit(3)
    if kind == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "hangs":
        signal.pause()
    if kind == "tuple":
        return (1, 2)
    if kind == "object":
        return object()
    if kind == "deep":
        value = []
        for _ in range(100_000):
            value = [value]
        return value
    if kind == "large":
        return "x" * 3_000_000
    if kind == "prints much":
        sys.stdout.write("y" * 2_000_000)
    return kind


def test_each_item_has_its_result_and_its_output(template: Template) -> None:
    results = template.map(doubled, range(40), workers=6)
    assert [each.value for each in results] == [[number, number * 2] for number in range(40)]
    assert [each.output for each in results] == [b"saw %d\n" % number for number in range(40)]


def test_what_one_worker_does_is_in_its_own_result(template: Template) -> None:
    kinds = ["fine", "raises", "exits", "is killed", "hangs", "tuple", "object", "deep", "large", "prints much", "ok"]
    found = dict(zip(kinds, template.map(trouble, kinds, workers=3, timeout=6), strict=True))
    assert found["fine"].value == "fine" and found["ok"].value == "ok"
    assert found["raises"].error == "LookupError: no such thing" and "trouble" in found["raises"].traceback
    assert {name: found[name].reason for name in ("exits", "is killed", "hangs")} == {
        "exits": "exited", "is killed": "signaled", "hangs": "timeout",
    }  # fmt: skip
    assert not any(found[name].ok for name in ("exits", "is killed", "hangs", "object", "deep"))
    assert found["tuple"].value == (1, 2)
    assert "cannot return" in str(found["deep"].error) and "cannot return" in str(found["object"].error)
    assert found["large"].value == "x" * 3_000_000
    assert found["prints much"].ok and 0 < len(found["prints much"].output) <= 1 << 20


def test_no_output_is_lost_where_descriptors_are_few(template: Template) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        results = template.map(doubled, range(300), workers=1000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [(each.value, each.output) for each in results] == [
        ([number, number * 2], b"saw %d\n" % number) for number in range(300)
    ]


def test_no_answer_is_lost_where_as_few_may_be_on_their_way(template: Template) -> None:
    """To a user who is not root the kernel refuses more descriptors in sockets than it may have open: with each large
    argument go three at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        results = template.map(len, [b"z" * 100_000] * 150, workers=1000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [each.value for each in results] == [100_000] * 150


def test_an_argument_may_be_large(template: Template) -> None:
    assert template.map(len, ["z" * 1_000_000])[0].value == 1_000_000


def test_seeds_are_fresh(template: Template) -> None:
    def drawn(_):
        import random
        import ssl
        import tempfile
        import uuid

        return [random.random(), str(uuid.uuid4()), ssl.RAND_bytes(8).hex(), tempfile.mktemp()]

    columns = zip(*(each.value for each in template.map(drawn, range(6))), strict=True)
    assert all(len(set(column)) == 6 for column in columns)


def seeded():
    import random

    import numpy

    random.seed(5)
    numpy.random.seed(5)


def test_seeds_are_fresh_where_a_preload_has_chosen_some() -> None:
    def drawn(_):
        import random

        import numpy

        return [random.random(), float(numpy.random.random()), float(numpy.random.default_rng().random())]

    with Template(Policy(), init="numpy", preload=seeded, parked=2) as made:
        columns = zip(*(each.value for each in made.map(drawn, range(6))), strict=True)
    assert all(len(set(column)) == 6 for column in columns)


def listening():
    import gc
    import sys

    sys.addaudithook(lambda event, _: print(event))
    gc.callbacks.append(lambda *_: print("collected"))
    sys.setrecursionlimit(200)


def test_hooks_that_a_preload_leaves_cost_no_worker_its_answer() -> None:
    with Template(Policy(), preload=listening, parked=2) as made:
        assert [each.value for each in made.map(doubled, [1, 2, 3])] == [[1, 2], [2, 4], [3, 6]]


def test_what_cannot_go_into_a_cage_is_refused_with_the_reason(template: Template) -> None:
    around = object()

    def closure(_):
        return around

    def generator(_):
        yield 1

    for function, reason in ((lambda _: 1, "written with def"), (closure, "uses around"), (generator, "generator")):
        with pytest.raises(TypeError, match=reason):
            template.map(function, [1])
    with pytest.raises(ValueError, match="workers"):
        template.map(doubled, [1], workers=0)


def with_thread():
    import threading

    threading.Thread(target=threading.Event().wait, name="poller", daemon=True).start()


def with_child():
    import subprocess

    subprocess.Popen(["sleep", "60"])


def with_shared_memory():
    import mmap

    mmap.shared = mmap.mmap(-1, 4096)


def failing():
    raise OSError("no model")


def hanging():
    import time

    time.sleep(600)


def rude():
    import os
    import signal
    import sys

    os.fork = None
    os.chdir("/usr")
    os.umask(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    sys.stdout.write("x" * 10_000_000)


@pytest.mark.parametrize(("preload", "reason"), [
    (with_thread, "preload started threads, which no fork copies: 'poller'"), (with_child, "preload started processes"),
    (with_shared_memory, "shared and writable"), (failing, "no model"),
])  # fmt: skip
def test_what_a_preload_makes_that_no_fork_copies_is_refused(preload, reason: str) -> None:
    with pytest.raises(TemplateError, match=reason):
        Template(Policy(), preload=preload).open()


def test_a_preload_that_hangs_and_a_module_that_is_not_there() -> None:
    began = time.monotonic()
    with pytest.raises(TemplateError, match="not ready"):
        Template(Policy(), preload=hanging, timeout=2).open()
    assert time.monotonic() - began < 60
    with pytest.raises(TemplateError, match="no_such_module"):
        Template(Policy(), init="no_such_module").open()


def test_what_a_preload_does_to_its_process_does_not_reach_its_workers() -> None:
    def seen(_):
        import os
        import signal

        return [os.getcwd().startswith("/tmp/"), os.umask(0), signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL]

    with Template(Policy(), preload=rude) as made:
        assert made.map(seen, [0])[0].value == [True, 0o077, True]


def talking():
    print("loaded")


def test_what_a_preload_prints_is_in_no_worker_s_output() -> None:
    with Template(Policy(), preload=talking) as made:
        assert [each.output for each in made.map(doubled, [1, 2])] == [b"saw 1\n", b"saw 2\n"]


@dataclass
class Pair:
    one: int
    other: bytes


def paired(number) -> Pair:
    return Pair(number, b"\xff")


def test_what_an_annotation_declares_comes_back(template: Template) -> None:
    assert template.map(paired, [1])[0].value == Pair(1, b"\xff")


def test_a_function_whose_source_is_in_no_file_goes_alone(template: Template) -> None:
    """As in a notebook."""
    text = "import math as m\nfactor = 2\ndef root(x):\n    return m.sqrt(x)\ndef times(x):\n    return factor * x\n"
    linecache.cache["<cell>"] = (len(text), None, text.splitlines(True), "<cell>")
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, "<cell>", "exec"), names)
    assert template.map(names["root"], [4])[0].value == 2.0
    with pytest.raises(TypeError, match="factor from around it"):
        template.map(names["times"], [4])


def test_a_forked_copy_of_the_host_finds_it_closed(template: Template) -> None:
    if not (child := os.fork()):
        try:
            template.map(doubled, [1])
        except CageClosedError:
            template.close()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert template.map(doubled, [3])[0].value == [3, 6]


def takes(seconds):
    import time

    time.sleep(seconds)


def sockets_of_this_process() -> int:
    found = (os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if int(name) > 2
             and os.path.lexists(f"/proc/self/fd/{name}"))  # fmt: skip
    return sum(each.startswith("socket:") for each in found)


def test_a_forked_copy_of_the_host_keeps_nothing_of_the_calls_that_run(template: Template) -> None:
    began = sockets_of_this_process()
    with ThreadPoolExecutor(1) as other:
        running = other.submit(template.map, takes, [2, 2], workers=2)
        while sockets_of_this_process() < began + 2:
            time.sleep(0.01)
        if not (child := os.fork()):
            os._exit(sockets_of_this_process() >= began + 2)
        assert os.waitpid(child, 0)[1] == 0
        assert [each.ok for each in running.result()] == [True, True]


def test_a_closed_template_and_a_cage_without_directories_are_refused() -> None:
    made = Template(Policy()).open()
    made.close()
    made.close()
    with pytest.raises(CageClosedError):
        made.map(doubled, [1])
    with pytest.raises(PolicyError):
        Template(Policy(isolation="landlock", run_as="self"))


def test_limits_are_of_each_worker() -> None:
    def hungry(size):
        return len(bytearray(size << 20))

    with Template(Policy(), memory_mb=300) as made:
        small, large, after = made.map(hungry, [10, 1000, 10], workers=1)
    assert small.ok and after.ok and "MemoryError" in str(large.error)


def test_the_cage_s_memory_is_all_workers_and_whoever_was_running_is_told(template: Template) -> None:
    def hungry(size):
        taken = []
        while len(taken) < size:
            taken.append(bytearray(b"x") * (1 << 20))
        return len(taken)

    with Template(Policy(memory_mb=200)) as made:
        fine, large = made.map(hungry, [10, 100_000], workers=1)
    assert fine.ok and large.reason == "oom", large


def test_nothing_of_it_is_left(template: Template) -> None:
    before = len(os.listdir("/proc/self/fd"))
    template.map(doubled, range(20), workers=5)
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    assert template.map(sorted, [[2, 1]])[0].value == [1, 2]


def test_items_may_be_endless_and_are_taken_as_they_are_needed(template: Template) -> None:
    taken = itertools.count()
    results = template.imap(doubled, taken, workers=2)
    assert [next(results).value for _ in range(3)] == [[0, 0], [1, 2], [2, 4]]
    assert next(taken) < 1000
    results.close()  # type: ignore[attr-defined]
    assert template.map(doubled, [3])[0].value == [3, 6]


def test_one_slow_item_holds_up_nobody(template: Template) -> None:
    def slow(seconds):
        import time

        time.sleep(seconds)
        return time.monotonic()

    first, *others = [each.value for each in template.imap(slow, [2, *[0] * 12], workers=2)]
    assert max(others) < first


class SlowToSend:
    def __getstate__(self):
        time.sleep(0.6)
        return {"large": 100_000}


def test_what_answered_in_time_has_its_value_however_long_the_others_take_to_send(template: Template) -> None:
    def answer(item):
        return "x" * item.large

    found = template.map(answer, [SlowToSend() for _ in range(5)], workers=5, timeout=2)
    assert [len(each.value) if each.ok else each.error for each in found] == [100_000] * 5  # type: ignore[arg-type]
