"""What the results of the stages make of a pipeline: as with pipefail, and a broken pipe is the reader's affair."""

from __future__ import annotations

import pytest

from pysandbox.errors import ExitError
from pysandbox.result import Reason, Result
from pysandbox.stages.outcome import PipelineResult


def outcome(*codes: int | tuple[int, Reason], feeds: tuple[int | None, ...] = ()) -> PipelineResult[str]:
    pairs = [each if isinstance(each, tuple) else (each, "signaled" if each < 0 else "exited") for each in codes]
    stages = tuple(Result((str(index),), code, reason) for index, (code, reason) in enumerate(pairs))
    return PipelineResult(stages, feeds or (*range(1, len(codes)), None), 0.0)


@pytest.mark.parametrize(
    "result, blamed",
    [
        (outcome(0, 0), None),
        (outcome(3, 0), 0),
        (outcome(3, 4, 0), 1),
        (outcome(-13, 0), None),
        (outcome(141, 0), None),
        (outcome(-13, -13, 0), None),
        (outcome(-13, 1), 1),
        (outcome(0, -13), 1),
        (outcome(3, (-9, "cancelled")), 0),
        (outcome((-9, "cancelled"), 3), 1),
        (outcome((0, "timeout"), 0), 0),
        (outcome((-9, "oom"), (-9, "cancelled")), 0),
        (outcome(-13, -13, 0, feeds=(2, 2, None)), None),
        (outcome(-13, 5, 0, feeds=(2, 2, None)), 1),
    ],
)
def test_the_stage_to_blame(result: PipelineResult[str], blamed: int | None) -> None:
    assert result.failed is (None if blamed is None else result[blamed])
    assert result.ok == (blamed is None)
    if blamed is None:
        assert (result.exit_code, result.reason, result.check()) == (0, "exited", result)
        return
    with pytest.raises(ExitError) as caught:
        result.check()
    assert caught.value.result is result[blamed] and caught.value.stages == result.stages
    assert result.exit_code == result[blamed].exit_code
