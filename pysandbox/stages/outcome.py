"""The results of all stages as one: which of them failed, and what that makes of the pipeline. Pure.

As with `set -o pipefail`: a pipeline succeeds when every stage has. One that died of SIGPIPE (or says so, 141) has not
failed where the one that stopped reading succeeded: `yes | head -1` is a success.
"""

from __future__ import annotations

from pysandbox.errors import ExitError
from pysandbox.exit_codes import BROKEN_PIPE, BY_SIGNAL
from pysandbox.result import Output_co, Result
from pysandbox.shapes import TYPE_CHECKING, Generic, Self, dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pysandbox.result import Reason


@dataclass(frozen=True)
class PipelineResult(Generic[Output_co]):
    """A Result for each stage, in the order in which they were written (those of `inputs` before the stage that reads
    them). `feeds`: for each the index of its reader, None for the last. What is not of one stage is of all of them:
    `stdout` is what the last one wrote."""

    stages: tuple[Result[Output_co], ...]
    feeds: tuple[int | None, ...]
    duration: float

    def __iter__(self) -> Iterator[Result[Output_co]]:
        return iter(self.stages)

    def __len__(self) -> int:
        return len(self.stages)

    def __getitem__(self, index: int) -> Result[Output_co]:
        return self.stages[index]

    @property
    def stdout(self) -> Output_co:
        return self.stages[-1].stdout

    @property
    def failed(self) -> Result[Output_co] | None:
        """The stage to blame, the last of several; one that was ended because of another only where there is none."""
        bad = [each for index, each in enumerate(self.stages) if not self._succeeded(index)]
        to_blame = [each for each in bad if each.reason != "cancelled"] or bad
        return to_blame[-1] if to_blame else None

    @property
    def ok(self) -> bool:
        return self.failed is None

    @property
    def exit_code(self) -> int:
        """The exit code of the stage to blame, as a shell has it; 0 where there is none."""
        return 0 if self.failed is None else self.failed.exit_code

    @property
    def reason(self) -> Reason:
        return "exited" if self.failed is None else self.failed.reason

    def check(self) -> Self:
        """This result if every stage succeeded. Raises ExitError for the one that did not, with all `stages`."""
        if self.failed is not None:
            error = ExitError(self.failed)
            error.stages = self.stages
            raise error
        return self

    def __str__(self) -> str:
        return "\n".join(map(str, self.stages))

    def _succeeded(self, index: int) -> bool:
        reader = self.feeds[index]
        if self.stages[index].ok:
            return True
        return self.stages[index].exit_code == BROKEN_PIPE and reader is not None and self._succeeded(reader)


def has_failed(returncode: int) -> bool:
    """Whether the others are to end, too: of one that nobody reads any more its reader has decided."""
    return returncode not in (0, BROKEN_PIPE, BY_SIGNAL - BROKEN_PIPE)
