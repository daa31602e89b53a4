"""The project manifest, pysandbox.toml: named sandboxes of one project, each a command, its recipes and overrides.

    [sandbox.test]
    description = "the suite"
    recipes = ["python"]
    command = "pytest -q"

    [sandbox.test.resources]
    walltime_sec = 600

    [[pipeline.publish.stage]]    # or [pipeline.publish] with stages = ["test", ...]: each with its own command
    sandbox = "test"
    command = "cat data.csv"

    [[also]]                      # below any other table: for every sandbox, or for those that it names
    sandbox = ["test"]
    process.max_pids = 64

    [network.dlp]                 # leak detection, for every sandbox
    enabled = true

`parse_manifest` is pure: one text in, frozen data out. Overrides are read as a recipe is, with its schema and its
errors, and every error names the sandbox. Where a manifest lies, and whether it may be believed, is `manifest_file.py`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

from pysandbox.errors import PolicyError
from pysandbox.policy.merge import merge_layers
from pysandbox.policy.model import MERGE_WORDS
from pysandbox.policy.refusal import CommandRefused, did_you_mean, shown
from pysandbox.policy.sources import ALSO, Within, below, each_besides, read_layer, read_tables, with_besides
from pysandbox.policy.validate import text
from pysandbox.shapes import Any, dataclass, replace

MANIFEST = "pysandbox.toml"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """One [sandbox.NAME]. `overrides` holds the fields of Policy that it gives, laid over its recipes."""

    name: str
    argv: tuple[str, ...]
    recipes: tuple[str, ...]
    description: str
    overrides: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NamedPipeline:
    """One [pipeline.NAME]: names of sandboxes, and for each the command that it runs instead of its own, if any.
    `key`: whether it was written as `stages` or as tables `stage`."""

    name: str
    stages: tuple[str, ...]
    description: str
    commands: tuple[tuple[str, ...] | None, ...]
    key: str = "stages"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Sandboxes and pipelines by name, in alphabetical order. `digest` is the SHA-256 of the file."""

    sandboxes: Mapping[str, Sandbox]
    pipelines: Mapping[str, NamedPipeline]
    file: str | None = None
    digest: str = ""

    @property
    def first(self) -> Sandbox:
        """The one that is meant when none is named: the alphabetically first, wherever it stands in the file."""
        return next(iter(self.sandboxes.values()))

    def sandbox(self, name: str) -> Sandbox:
        """The sandbox of that name. PolicyError lists those that there are."""
        if name in self.sandboxes:
            return self.sandboxes[name]
        if name in self.pipelines:
            raise PolicyError(
                "is a pipeline of several sandboxes", file=self.file, key=f"pipeline.{name}",
                suggestion=f"name one of them: {', '.join(dict.fromkeys(self.pipelines[name].stages))}",
            )  # fmt: skip
        known = ", ".join(self.sandboxes)
        pipelines = f", and the pipelines {', '.join(self.pipelines)}" if self.pipelines else ""
        raise PolicyError(
            f"no such sandbox; there are {known}{pipelines}", file=self.file, key=f"sandbox.{name}",
            suggestion=did_you_mean(name, {**self.sandboxes, **self.pipelines}),
        )  # fmt: skip

    def stages(self, name: str) -> tuple[Sandbox, ...]:
        """What runs under this name, in order: the stages of a pipeline, each with the command that it has there, or
        one sandbox. PolicyError as of `sandbox`."""
        if name not in self.pipelines:
            return (self.sandbox(name),)
        pipeline = self.pipelines[name]
        named = zip(pipeline.stages, pipeline.commands, strict=True)
        return tuple(replace(self.sandboxes[each], argv=argv or self.sandboxes[each].argv) for each, argv in named)

    @property
    def all_commands(self) -> tuple[Sandbox, ...]:
        """Each sandbox with each command that it can be asked to run."""
        besides = [each for name in self.pipelines for each in self.stages(name)]
        known = {(each.name, each.argv): each for each in (*self.sandboxes.values(), *besides)}
        return tuple(known.values())


def parse_manifest(content: str, file: str | None = None) -> Manifest:
    """PolicyError names file, line and sandbox of the first thing that is wrong."""
    readers: dict[str, Callable[[Within, str, dict[str, Any]], Any]] = {"sandbox": _sandbox, "pipeline": _pipeline}
    found: dict[str, dict[str, Any]] = {"sandbox": {}, "pipeline": {}}
    tables, top = read_tables(content, file), Within(content, file)
    besides = each_besides(top, tables.pop(ALSO, []))
    network = _network(top, tables.pop("network")) if "network" in tables else None
    for section, value in tables.items():
        if section not in readers:
            top.refuse((section,), _unknown_section(section))
        for name, each in sorted(top.table((section,), value).items()):
            place = Within(content, file, (section, name))
            found[section][name] = readers[section](place, name, dict(top.table((section, name), each)))
    if not found["sandbox"]:
        raise PolicyError("defines no sandbox", file=file, suggestion="write [sandbox.NAME] with recipes and command")
    if network is not None:
        _lay_over(top, network, found["sandbox"])
    for number, table in enumerate(besides):
        _lay_over(below(top, number), table, found["sandbox"])
    manifest = Manifest(found["sandbox"], found["pipeline"], file)
    _check_stages(manifest, content)
    return manifest


def _network(top: Within, value: Any) -> dict[str, Any]:
    """[network.dlp], as the layer that it is of every sandbox."""
    given = dict(top.table(("network",), value))
    for key in given:
        if key != "dlp":
            known = "[network.dlp] is for every sandbox; the rest stands below [sandbox.NAME.network], or [[also]]"
            top.refuse(("network", key), CommandRefused("is not said of a whole project", known))
    return {"network": given}


def _unknown_section(section: str) -> CommandRefused:
    meant = did_you_mean(section, ("sandbox", "pipeline", ALSO))
    return CommandRefused(
        "a manifest has no such section", meant or "options of a policy stand below [sandbox.NAME.SECTION]"
    )


def _sandbox(place: Within, name: str, table: dict[str, Any]) -> Sandbox:
    _require(place, table, "recipes", "command")
    argv = _read(place, "command", _argv, table.pop("command"))
    recipes = _read(place, "recipes", _names, table.pop("recipes"))
    description = _description(place, table)
    besides = table.pop(ALSO, [])
    return Sandbox(name, argv, recipes, description, with_besides(place, read_layer(place, table), besides))


def _lay_over(place: Within, table: dict[str, Any], sandboxes: dict[str, Any]) -> None:
    """Merges a table [[also]] of the whole file over the sandboxes that it names, or over all of them."""
    named = _read(place, "sandbox", _names, table.pop("sandbox")) if "sandbox" in table else tuple(sandboxes)
    given = read_layer(place, table)
    for index, name in enumerate(named):
        if name not in sandboxes:
            place.refuse(("sandbox", index), CommandRefused("no such sandbox", did_you_mean(name, sandboxes)))
        overrides = merge_layers(MERGE_WORDS, sandboxes[name].overrides, given)
        sandboxes[name] = replace(sandboxes[name], overrides=overrides)


def _pipeline(place: Within, name: str, table: dict[str, Any]) -> NamedPipeline:
    if ("stage" in table) == ("stages" in table):
        _refuse_stages(place, name, "stage" in table)
    key = "stages" if "stages" in table else "stage"
    if key == "stages":
        stages = _read(place, "stages", _names, table.pop("stages"))
        commands: tuple[tuple[str, ...] | None, ...] = (None,) * len(stages)
    else:
        read = [_stage(place, number, each) for number, each in enumerate(_tables(place, table.pop("stage")))]
        stages, commands = tuple(each for each, _ in read), tuple(argv for _, argv in read)
    description = _description(place, table)
    for unknown in table:
        meant = did_you_mean(unknown, ("stage", "stages", "description"))
        place.refuse((unknown,), CommandRefused("no such key", meant))
    return NamedPipeline(name, stages, description, commands, key)


def _refuse_stages(place: Within, name: str, both: bool) -> None:
    if both:
        place.refuse(("stage",), CommandRefused("stands beside 'stages'", "write either"))
    place.refuse((), CommandRefused("lacks 'stages'", f"write stages = [...], or tables [[pipeline.{name}.stage]]"))


def _tables(place: Within, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        write = f"write [[pipeline.{place.at[-1]}.stage]]"
        place.refuse(("stage",), CommandRefused("must be tables, at least one", write))
    return list(value)


def _stage(place: Within, number: int, value: Any) -> tuple[str, tuple[str, ...] | None]:
    """One [[pipeline.NAME.stage]]: the name of its sandbox, and its command where it has one of its own."""
    inside = replace(place, at=(*place.at, "stage", number))
    table = dict(inside.table((), value))
    _require(inside, table, "sandbox")
    sandbox = _read(inside, "sandbox", text, table.pop("sandbox"))
    argv = _read(inside, "command", _argv, table.pop("command")) if "command" in table else None
    for key in table:
        inside.refuse((key,), CommandRefused("no such key", did_you_mean(key, ("sandbox", "command"))))
    return sandbox, argv


def _description(place: Within, table: dict[str, Any]) -> str:
    return str(_read(place, "description", text, table.pop("description"))) if "description" in table else ""


def _require(place: Within, table: Mapping[str, Any], *keys: str) -> None:
    for key in keys:
        if key not in table:
            place.refuse((), CommandRefused(f"lacks {key!r}", f"write {key} = ..."))


def _read(place: Within, key: str, coerce: Callable[[Any], Any], value: Any) -> Any:
    try:
        return coerce(value)
    except CommandRefused as refused:
        place.refuse((key,), refused)


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise CommandRefused(f"must be a list of names, not {shown(value)}")
    if not value:
        raise CommandRefused("is empty", "name at least one")
    return tuple(_word(each, index) for index, each in enumerate(value))


def _argv(value: Any) -> tuple[str, ...]:
    """A command line, split as a shell would but with nothing expanded; or a list, taken as it is."""
    if isinstance(value, list):
        words = [_word(each, index) for index, each in enumerate(value)]
    else:
        try:
            words = shlex.split(text(value))
        except ValueError as error:
            raise CommandRefused(f"cannot be split into words: {error}", "close the quote, or write a list") from None
    if not words or not words[0]:
        raise CommandRefused("names no program", 'write command = "PROGRAM ARGUMENTS"')
    return tuple(words)


def _word(value: Any, index: int) -> str:
    try:
        return text(value) if value != "" else ""  # printf "" is a command
    except CommandRefused as refused:
        raise CommandRefused(refused.message, refused.suggestion, (index,)) from None


def _check_stages(manifest: Manifest, content: str) -> None:
    for pipeline in manifest.pipelines.values():
        place = Within(content, manifest.file, ("pipeline", pipeline.name))
        if pipeline.name in manifest.sandboxes:
            place.refuse((), CommandRefused("is the name of a sandbox, too", "rename one: `up` has to know which"))
        for index, stage in enumerate(pipeline.stages):
            if stage not in manifest.sandboxes:
                at = (pipeline.key, index) if pipeline.key == "stages" else (pipeline.key, index, "sandbox")
                place.refuse(at, _no_such_stage(stage, manifest))


def _no_such_stage(stage: str, manifest: Manifest) -> CommandRefused:
    known = f"there are {', '.join(manifest.sandboxes)}"
    return CommandRefused(
        f"{shown(stage)} is no sandbox of this manifest", did_you_mean(stage, manifest.sandboxes) or known
    )
