"""Memory for a call, where the program may make no file as large."""

from __future__ import annotations

import os
import resource

import pytest

from pysandbox.pipeline.memory import fixed_memory


def test_a_limit_on_files_that_is_too_low_is_named() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        os.close(fixed_memory(1 << 16))  # control
        with pytest.raises(OSError, match="raise ulimit -f"):
            fixed_memory((1 << 16) + 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
