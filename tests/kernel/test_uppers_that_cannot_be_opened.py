"""What fails while the layers of a cage are opened is a StartError, and no descriptor is left open (the leak guard)."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from pysandbox.compile.plan import MountKind, MountStep
from pysandbox.errors import StartError
from pysandbox.probe.opening import Opening
from pysandbox.workspace.overlay import open_uppers


def test_no_descriptor_for_the_moment_of_the_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> Opening:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(Opening, "now", none_left)
    found = tmp_path.stat()
    step = MountStep(MountKind.OVERLAY, "/tree", str(tmp_path), data="0", dev=found.st_dev, ino=found.st_ino)
    live = SimpleNamespace(take_upper=lambda: os.open(tmp_path, os.O_RDONLY))
    plan = SimpleNamespace(mounts=(step,), unrooted=False, layers=None)
    prepared = SimpleNamespace(plan=plan, policy=SimpleNamespace(unguarded=()))
    with pytest.raises(StartError) as error:
        open_uppers(live, prepared, (), lambda: True)  # type: ignore[arg-type]
    assert (error.value.step, error.value.errno) == ("upper", errno.EMFILE)
