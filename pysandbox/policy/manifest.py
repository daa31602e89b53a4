"""The project manifest, pysandbox.toml: named sandboxes of one project, each a command, its recipes and overrides.

    [sandbox.test]
    description = "the suite"
    recipes = ["python"]
    command = "pytest -q"

    [sandbox.test.resources]
    walltime_sec = 600

`parse_manifest` is pure: one text in, frozen data out. Overrides are read as a recipe is, with its schema and its
errors, and every error names the sandbox. Where a manifest lies, and whether it may be believed, is `manifest_file.py`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pysandbox.errors import PolicyError
from pysandbox.policy.refusal import Refused, did_you_mean, shown
from pysandbox.policy.sources import Within, read_layer, read_tables
from pysandbox.policy.validate import text

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
class Pipeline:
    """One [pipeline.NAME]: names of sandboxes. Read strictly; running one is not part of this version."""

    name: str
    stages: tuple[str, ...]
    description: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Sandboxes and pipelines by name, in alphabetical order. `digest` is the SHA-256 of the file."""

    sandboxes: Mapping[str, Sandbox]
    pipelines: Mapping[str, Pipeline]
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
                "running a pipeline is not part of this version", file=self.file, key=f"pipeline.{name}",
                suggestion=f"run its stages one by one: {', '.join(self.pipelines[name].stages)}",
            )  # fmt: skip
        known = ", ".join(self.sandboxes)
        message = f"no such sandbox; there are {known}"
        raise PolicyError(message, file=self.file, key=f"sandbox.{name}", suggestion=did_you_mean(name, self.sandboxes))


def parse_manifest(content: str, file: str | None = None) -> Manifest:
    """PolicyError names file, line and sandbox of the first thing that is wrong."""
    readers: dict[str, Callable[[Within, str, dict[str, Any]], Any]] = {"sandbox": _sandbox, "pipeline": _pipeline}
    found: dict[str, dict[str, Any]] = {"sandbox": {}, "pipeline": {}}
    for section, value in read_tables(content, file).items():
        top = Within(content, file)
        if section not in readers:
            top.refuse((section,), _unknown_section(section))
        for name, each in sorted(top.table((section,), value).items()):
            place = Within(content, file, (section, name))
            found[section][name] = readers[section](place, name, dict(top.table((section, name), each)))
    if not found["sandbox"]:
        raise PolicyError("defines no sandbox", file=file, suggestion="write [sandbox.NAME] with recipes and command")
    manifest = Manifest(found["sandbox"], found["pipeline"], file)
    _demand_stages(manifest, content)
    return manifest


def _unknown_section(section: str) -> Refused:
    if section == "network":
        return Refused("is not part of this version (scanning of requests needs the network gatekeeper)", "remove it")
    meant = did_you_mean(section, ("sandbox", "pipeline"))
    return Refused("a manifest has no such section", meant or "options of a policy stand below [sandbox.NAME.SECTION]")


def _sandbox(place: Within, name: str, table: dict[str, Any]) -> Sandbox:
    _demand(place, table, "recipes", "command")
    argv = _read(place, "command", _argv, table.pop("command"))
    recipes = _read(place, "recipes", _names, table.pop("recipes"))
    description = _description(place, table)
    return Sandbox(name, argv, recipes, description, read_layer(place, table))


def _pipeline(place: Within, name: str, table: dict[str, Any]) -> Pipeline:
    _demand(place, table, "stages")
    stages = _read(place, "stages", _names, table.pop("stages"))
    description = _description(place, table)
    for key in table:
        place.refuse((key,), Refused("no such key", did_you_mean(key, ("stages", "description"))))
    return Pipeline(name, stages, description)


def _description(place: Within, table: dict[str, Any]) -> str:
    return str(_read(place, "description", text, table.pop("description"))) if "description" in table else ""


def _demand(place: Within, table: Mapping[str, Any], *keys: str) -> None:
    for key in keys:
        if key not in table:
            place.refuse((), Refused(f"lacks {key!r}", f"write {key} = ..."))


def _read(place: Within, key: str, coerce: Callable[[Any], Any], value: Any) -> Any:
    try:
        return coerce(value)
    except Refused as refused:
        place.refuse((key,), refused)


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Refused(f"must be a list of names, not {shown(value)}")
    if not value:
        raise Refused("is empty", "name at least one")
    return tuple(_word(each, index) for index, each in enumerate(value))


def _argv(value: Any) -> tuple[str, ...]:
    """A command line, split as a shell would but with nothing expanded; or a list, taken as it is."""
    if isinstance(value, list):
        words = [_word(each, index) for index, each in enumerate(value)]
    else:
        try:
            words = shlex.split(text(value))
        except ValueError as error:
            raise Refused(f"cannot be split into words: {error}", "close the quote, or write a list") from None
    if not words or not words[0]:
        raise Refused("names no program", 'write command = "PROGRAM ARGUMENTS"')
    return tuple(words)


def _word(value: Any, index: int) -> str:
    try:
        return text(value) if value != "" else ""  # printf "" is a command
    except Refused as refused:
        raise Refused(refused.message, refused.suggestion, (index,)) from None


def _demand_stages(manifest: Manifest, content: str) -> None:
    for pipeline in manifest.pipelines.values():
        for index, stage in enumerate(pipeline.stages):
            if stage not in manifest.sandboxes:
                place = Within(content, manifest.file, ("pipeline", pipeline.name))
                place.refuse(("stages", index), _no_such_stage(stage, manifest))


def _no_such_stage(stage: str, manifest: Manifest) -> Refused:
    known = f"there are {', '.join(manifest.sandboxes)}"
    return Refused(f"{shown(stage)} is no sandbox of this manifest", did_you_mean(stage, manifest.sandboxes) or known)
