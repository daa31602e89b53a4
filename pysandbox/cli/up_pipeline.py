"""`pysandbox up NAME`, where NAME is a pipeline: each stage in its own cage, joined by pipes as a shell joins them.

Our standard input is for the first stage, our output for the last, our errors for all. What was looked at and trusted
is decided in `up`, before this. The exit code is 0 when every stage has succeeded, else that of the stage to blame
(`stages.outcome`).
"""

from __future__ import annotations

from argparse import Namespace
from contextlib import ExitStack, suppress

from pysandbox.cli import console
from pysandbox.cli.flags import UsageError
from pysandbox.cli.note_lines import end_lines, weaker_lines
from pysandbox.cli.perform import failed, input_of_ours, say_why
from pysandbox.cli.policy_of import ResolvedRequest
from pysandbox.cli.trail import open_audit
from pysandbox.compile.cow import is_cow
from pysandbox.errors import CageClosedError, CageError, CageTimeout, PolicyError, StartError
from pysandbox.events import said_elsewhere
from pysandbox.exit_codes import INTERRUPTED, OUT_OF_TIME
from pysandbox.policy.compose import located
from pysandbox.shapes import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pysandbox.cage import Cage
    from pysandbox.stages import PipelineResult

    Asked = Sequence[tuple[list[str], ResolvedRequest]]


def check_pipeline_flags(namespace: Namespace) -> None:
    """What is of one command is not of several. Raises UsageError."""
    for flag in ("pty", "monitor", "ports"):
        if getattr(namespace, flag, None):
            raise UsageError(f"{namespace.name} is a pipeline, and {flag} is of one sandbox: run that one by its name")


def perform_pipeline(namespace: Namespace, stages: Asked, verbose: bool) -> int:
    """The exit code; with --json the document is printed."""
    argv = stages[0][0]
    lost: list[OSError] = []
    try:
        result = _run(namespace, stages, console.Log(verbose), lost)
    except CageTimeout as late:
        console.error(str(late))
        if namespace.json:
            from pysandbox.cli.document import of_failure

            console.document(of_failure(list(late.argv), OUT_OF_TIME, str(late)))
        return OUT_OF_TIME
    except PolicyError as error:
        return failed(located(error, stages[0][1].layers), argv, as_json=namespace.json)
    except StartError as error:
        which = next((each for each in stages if tuple(each[0]) == error.argv), stages[0])
        return failed(error, which[0], as_json=namespace.json, policy=which[1].policy)
    except (CageError, OSError) as error:
        return failed(error, argv, as_json=namespace.json)
    except KeyboardInterrupt:
        return INTERRUPTED
    if namespace.json:
        from pysandbox.cli.document import of_pipeline

        console.document(of_pipeline(namespace.name, result))
    code = result.exit_code
    for each in lost:
        code = console.exit_code_after_loss(each, code)
    return code


def _run(namespace: Namespace, stages: Asked, log: console.Log, lost: list[OSError]) -> PipelineResult[Any]:
    """`lost`: why what a stage wrote apart is lost, where it is."""
    from pysandbox.cage import PIPE, Cage
    from pysandbox.runtime.runtime import Runtime
    from pysandbox.stages import Pipeline

    sink = (lambda event: log.say(event.type, **event.data)) if log.verbose else said_elsewhere
    audit = None if namespace.no_audit else open_audit()
    runtime = Runtime(sink=sink, audit=audit, warm=0, no_sandbox=namespace.no_sandbox)
    if namespace.no_sandbox:
        console.warning(f"NO CAGE: {namespace.name!r} runs with all the access that you have")
    cages = [Cage(asked.policy, runtime=runtime, labels=asked.labels) for _, asked in stages]
    joined = Pipeline(tuple(cage.cmd(argv) for cage, (argv, _) in zip(cages, stages, strict=True)))
    captured = PIPE if namespace.json else None
    with ExitStack() as stack:
        stack.callback(_conclude, cages, stages, lost)
        stack.callback(runtime.drain)  # when we return, nothing of the cages is left
        result = joined.run(
            stdin=input_of_ours(), stdout=captured, stderr=captured, timeout=namespace.timeout
        )  # fmt: skip
    notes = tuple(dict.fromkeys(note for each in result for note in each.notes))
    if not namespace.json and not log.verbose:
        console.weaker(weaker_lines(notes))
    for message in end_lines(notes):
        console.warning(message)
    for stage, cage in zip(result, cages, strict=True):
        if not (namespace.json or stage.ok):
            say_why(stage, cage, stage.exit_code)
    return result


def _conclude(cages: Sequence[Cage], stages: Asked, lost: list[OSError]) -> None:
    """What each stage wrote apart, also when the pipeline did not come to its end."""
    for cage, (_, asked) in zip(cages, stages, strict=True):
        if cage.caged and is_cow(cage.policy):
            from pysandbox.cli.decide import conclude

            with suppress(CageClosedError):  # it never ran
                workspace = cage.workspace
                console.say(f"stage {asked.labels.get('subagent_name', '')!r}:")
                if (loss := conclude(workspace)) is not None:
                    lost.append(loss)
