"""Pipelines: several commands, each in a cage of its own, joined by pipes. Below `cage`, which makes the stages.

pipeline.py  what users write: Stage, Pipeline      outcome.py  the results of all stages as one
joined.py    the running commands and the pipes between them; who is whose reader is in `order`
waiting.py   one poll loop for all of them          aio.py      the same in an event loop
"""

from pysandbox.stages.outcome import PipelineResult
from pysandbox.stages.pipeline import Pipeline, Stage

__all__ = ["Pipeline", "PipelineResult", "Stage"]
