"""`pysandbox app`: what apps are installed, what each may do, what it did and was denied.

One function for each word, in the order of ACTIONS (`run` is in `app_run.py`). What an app is, and what holds it, is in
`pysandbox.apps`.
"""

from __future__ import annotations

import os
from argparse import Namespace

from pysandbox.apps.app import App
from pysandbox.apps.entrypoint import told_entrypoint
from pysandbox.apps.grant import AppGrant, scopes_table, sentences
from pysandbox.apps.journal import read_journal
from pysandbox.apps.manifest import AppManifest
from pysandbox.apps.package import AppPackage
from pysandbox.apps.scope import WHOLE, Scopes
from pysandbox.apps.store import DENIALS, JOURNAL, AppStore
from pysandbox.cli import console
from pysandbox.cli.actions import Action, act, answer, parser_of
from pysandbox.cli.app_run import NOT_OK, declare_run, line_of, run
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.cli.trail import open_audit
from pysandbox.cli.trusting import agreed
from pysandbox.errors import AppError, PolicyError
from pysandbox.events import APP_INSTALLED, APP_REVOKED, Event
from pysandbox.shapes import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pysandbox.apps.denials import DeniedInstruction

HELP = """\
Usage: pysandbox app ACTION ...

Actions:
  install DIR     grant an app, or an update of it, what it asks for, or a part of that
  run APP         run it; every effect is checked against its grant
  log APP         what its last run was denied
  replay APP      repeat its last run from the journal, without any effect
  explain APP     what it may do, in sentences; a directory, before it is installed
  list            the installed apps
  show APP        the grant of one
  revoke APP      take its grant away; its files stay

Each takes --json, and --help says more.

Examples:
  pysandbox app explain ./notes
  pysandbox app install ./notes --allow fs.use --fs docs
  pysandbox app run notes.app --workspace ~/notes
  pysandbox app log notes.app
"""


def main(arguments: list[str], verbose: bool) -> int:
    return act("app", HELP, ACTIONS, arguments)


def actions() -> dict[str, Parser]:
    return {name: parser_of("app", name, action) for name, action in ACTIONS.items()}


# ---- install -----------------------------------------------------------------------------------------------------


def _declare_install(parser: Parser) -> None:
    parser.usage = "pysandbox app install DIR (--allow CAPABILITY... | --allow-all) [flags]"
    add = parser.add_argument
    add("directory", metavar="DIR", help="The package: app.toml, or app.json, and its files.")
    add("--allow", action="append", metavar="CAPABILITY", help="Grant this one of what it asks for. Repeatable.")
    add("--allow-all", action="store_true", help="Grant all that it asks for.")
    add("--fs", action="append", metavar="PREFIX", help="Files under this prefix alone. Repeatable.")
    add("--domain", action="append", metavar="NAME", help="This domain alone. Repeatable.")
    add("--peer", action="append", metavar="NAME:NAME", help="Channels of this pair alone. Repeatable.")
    add("--accept", action="store_true", help="Also where this version gets more than the last one had.")


def _install(namespace: Namespace) -> int:
    store, package = AppStore(), AppPackage.read(namespace.directory)
    manifest = package.manifest()
    old = store.granted(manifest.app_id)
    allow = _allowed(namespace, manifest, old)
    grant = store.install(package, allow=allow, reduce=_reduced(namespace), accept=namespace.accept)
    if (log := open_audit()) is not None:
        with log:
            log(Event(APP_INSTALLED.name, {"app_id": grant.app_id, "version": grant.version, "package": grant.package,
                                           "granted": grant.granted, "key_id": store.key.key_id}))  # fmt: skip
    return answer(namespace, _record(grant), _told(grant, manifest, f"installed: {grant.app_id} {grant.version}"))


def _allowed(namespace: Namespace, manifest: AppManifest, old: AppGrant | None) -> tuple[str, ...] | None:
    """What to grant; None: as before. Raises UsageError, PolicyError."""
    if namespace.allow_all and namespace.allow:
        raise UsageError("--allow-all grants all, --allow one: choose one")
    if namespace.allow:
        return tuple(namespace.allow)
    if namespace.allow_all or not manifest.requested:
        return manifest.requested
    if old is not None:
        return None
    if not namespace.json:
        console.show(_asked(manifest))
    if namespace.json or not agreed(f"Grant all that to {manifest.app_id}?"):
        raise PolicyError("nothing was granted", key="allow", suggestion="name what to grant: --allow, or --allow-all")
    return manifest.requested


def _asked(manifest: AppManifest) -> list[str]:
    title = f"{manifest.app_id} {manifest.version} {told_entrypoint(manifest)}; it asks for:"
    lines = sentences(manifest.requested, manifest.scopes) or ["nothing"]
    return [title, *_said(manifest), *(f"  {each}" for each in lines)]


def _said(manifest: AppManifest) -> list[str]:
    """In quotes: it is the app that says so."""
    return [f"  says of itself: {manifest.description!r}"] if manifest.description else []


def _reduced(namespace: Namespace) -> Scopes | None:
    """None without a flag: those it asks for, or of an update those of its last version. Raises PolicyError."""
    from pysandbox.apps.manifest import read_scopes

    if not (namespace.fs or namespace.domain or namespace.peer):
        return None
    given: dict[str, Any] = {"fs_prefixes": namespace.fs or [WHOLE], "channel_peers_allowed": "*"}
    if namespace.domain:
        given["domains_allowed"] = namespace.domain
    if namespace.peer:
        given["channel_peers_allowed"] = [each.split(":") for each in namespace.peer]
    return read_scopes(given, "command line")


# ---- log, replay ---------------------------------------------------------------------------------------------------


def _declare_app(parser: Parser) -> None:
    parser.add_argument("app", metavar="APP", help="The app_id of an installed app.")


def _declare_log(parser: Parser) -> None:
    parser.usage = "pysandbox app log APP [--html FILE] [--json]"
    _declare_app(parser)
    parser.add_argument("--html", metavar="FILE", help="Write it, with the grant, as one page that needs nothing else.")


def _log(namespace: Namespace) -> int:
    from pysandbox.apps.denials import DeniedInstruction

    store = AppStore()
    text = store.last(namespace.app, DENIALS)
    records = DeniedInstruction.parse_log(text)
    if namespace.html is not None:
        return _draw(store.require(namespace.app), records, namespace.html)
    lines = list(map(line_of, records))
    return answer(namespace, [each._asdict() for each in records], lines or ["Nothing was denied."])


def _draw(grant: AppGrant, records: list[DeniedInstruction], file: str) -> int:
    from pysandbox.apps.page import app_page

    with open(file, "w", encoding="utf-8") as page:
        page.write(app_page(grant, records))
    console.say(f"wrote {file}")
    return 0


def _declare_replay(parser: Parser) -> None:
    parser.usage = "pysandbox app replay APP [--journal FILE] [--json]"
    _declare_app(parser)
    parser.add_argument("--journal", metavar="FILE", help="Another journal than that of the last run.")


def _replay(namespace: Namespace) -> int:
    store = AppStore()
    app = App.installed(namespace.app, store)
    named = namespace.journal is not None
    outcome = app.replay(read_journal(namespace.journal) if named else store.last(namespace.app, JOURNAL))
    document = {"app_id": namespace.app, "identical": True, "ended": outcome.ended, "ticks": outcome.ticks,
                "denials": len(outcome.log)}  # fmt: skip
    line = f"identical: {outcome.ended} after {outcome.ticks} ticks, {len(outcome.log)} denials"
    return answer(namespace, document, [line])


# ---- what there is -------------------------------------------------------------------------------------------------


def _explain(namespace: Namespace) -> int:
    if _is_package(namespace.app):
        manifest = AppPackage.read(namespace.app).manifest()
        document = {"app_id": manifest.app_id, "version": manifest.version, "requested": list(manifest.requested),
                    "scopes": scopes_table(manifest.scopes), "entrypoint": _entrypoint(manifest),
                    "description": manifest.description}  # fmt: skip
        return answer(namespace, document, _asked(manifest))
    app = App.installed(namespace.app)
    grant, manifest = app.grant, app.manifest
    document = {**_record(grant), "entrypoint": _entrypoint(manifest), "description": manifest.description}
    return answer(namespace, document, _told(grant, manifest, f"{grant.app_id} {grant.version}"))


def _is_package(given: str) -> bool:
    """A directory; where an app of that name is installed, which is meant then, ./DIR is the directory."""
    return os.path.isdir(given) and ("/" in given or given not in AppStore().app_ids())


def _entrypoint(manifest: AppManifest) -> str | list[str]:
    return manifest.program or list(manifest.argv)


def _told(grant: AppGrant, manifest: AppManifest, title: str) -> list[str]:
    refused = [each for each in grant.requested if each not in grant.granted]
    lines = [title, f"  {told_entrypoint(manifest)}", *_said(manifest)]
    lines += [f"  {each}" for each in sentences(grant.granted, grant.scopes)]
    if not grant.granted:
        lines.append("  may have no effect at all")
    return lines + [f"  {each}: asked for, and not granted" for each in refused]


def _list(namespace: Namespace) -> int:
    store = AppStore()
    grants, wrong = [], []
    for app_id in store.app_ids():
        try:
            grants.append(store.require(app_id))
        except AppError as error:
            wrong.append({"app_id": app_id, "error": str(error)})
    width = max((len(each.app_id) for each in grants), default=0)
    lines = [f"{each.app_id:{width}}  {each.version}  {', '.join(each.granted) or '(nothing)'}" for each in grants]
    for each in wrong:
        console.warning(each["error"])
    answer(namespace, {"apps": list(map(_record, grants)), "refused": wrong}, lines or ["No app is installed."])
    return NOT_OK if wrong else 0


def _show(namespace: Namespace) -> int:
    grant = AppStore().require(namespace.app)
    record = _record(grant)
    return answer(namespace, record, [f"{name}: {_flat(value)}" for name, value in record.items()])


def _flat(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else console.in_json(value).strip('"')


def _record(grant: AppGrant) -> dict[str, Any]:
    return {
        "app_id": grant.app_id, "version": grant.version, "package": grant.package,
        "requested": list(grant.requested), "granted": list(grant.granted), "scopes": scopes_table(grant.scopes),
        "key_id": grant.signed, "issued": grant.issued,
    }  # fmt: skip


def _revoke(namespace: Namespace) -> int:
    grant = AppStore().revoke(namespace.app)
    version = grant.version if grant is not None else ""
    if (log := open_audit()) is not None:
        with log:
            log(Event(APP_REVOKED.name, {"app_id": namespace.app, "version": version}))
    told = f"revoked: {namespace.app} {version or 'whose grant did not hold'}"
    return answer(namespace, {"app_id": namespace.app, "revoked": True}, [told])


ACTIONS: dict[str, Action] = {
    "install": (_install, _declare_install, "Grant an app, or an update of it, a part of what it asks for."),
    "run": (run, declare_run, "Run an app; every effect is checked against its grant."),
    "log": (_log, _declare_log, "What the last run of an app was denied."),
    "replay": (_replay, _declare_replay, "Repeat a run from its journal, without any effect, and compare the logs."),
    "explain": (_explain, _declare_app, "What an app may do, in sentences; of a directory, what it asks for."),
    "list": (_list, lambda parser: None, "The installed apps. Exit code 1 where a grant does not hold."),
    "show": (_show, _declare_app, "The grant of an app."),
    "revoke": (_revoke, _declare_app, "Take the grant of an app away. Its files stay."),
}
