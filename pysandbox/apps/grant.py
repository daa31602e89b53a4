"""The grant of an app: what the installer made of its request, bound to one package and signed.

A record is two lines: canonical JSON, and the HMAC-SHA256 of its bytes with the key of this user. Nothing in the first
is believed before the second fits, in constant time. What is granted is a part of what was asked for, always; a grant
is of one version, whose files it names by their digest, so that it holds for no other code.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os

from pysandbox.apps.manifest import AppManifest, parse_word, plugin_words
from pysandbox.apps.opcodes import CAPABILITIES
from pysandbox.apps.plugin import (
    SYSTEM_PATH,
    CompiledPlugin,
    PluginCapability,
    compile_plugin,
    in_sentence,
    is_plugin_word,
)
from pysandbox.apps.scope import ANY_PEER, Scopes, intersect, within
from pysandbox.errors import AppError, PolicyError
from pysandbox.policy.refusal import CommandRefused, did_you_mean, shown
from pysandbox.shapes import Any, NamedTuple, dataclass

ALGORITHM = "HMAC-SHA256"
ENFORCE, REPORT_ONLY = "enforce", "report_only"
LARGEST = 1 << 20
_CONTEXT = b"pysandbox app grant 1\n"
_FIELDS = frozenset(
    ("app_id", "version", "package", "requested", "granted", "scopes", "mode", "alg", "key_id", "issued")
)
INSTALL = "look who changed it, then revoke it, and install the app again"


class GrantKey(NamedTuple):
    """The secret that signs grants on this host; `key_id` names it without telling it."""

    secret: bytes
    key_id: str

    def __repr__(self) -> str:
        return f"GrantKey({self.key_id})"

    @classmethod
    def of(cls, secret: bytes) -> GrantKey:
        return cls(secret, hashlib.sha256(b"pysandbox app key 1\n" + secret).hexdigest()[:16])

    def mac(self, body: bytes) -> str:
        return hmac.digest(self.secret, _CONTEXT + body, "sha256").hex()


@dataclass(frozen=True, slots=True)
class AppGrant:
    """What one version of one app may do. `signed` by whom, "" for the unsigned grant of a debug run."""

    app_id: str
    version: str
    package: str
    requested: tuple[str, ...]
    granted: tuple[str, ...]
    scopes: Scopes
    issued: int = 0
    signed: str = ""

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The capabilities that dispatch asks for."""
        return tuple(each for each in self.granted if not is_plugin_word(each))

    @property
    def plugin_words(self) -> tuple[PluginCapability, ...]:
        return plugin_words(self.granted)

    def compile_plugin(self, project: str | os.PathLike[str]) -> CompiledPlugin:
        """The granted words of a plugin (document 000) as a policy for that directory, and its fixed commands. Programs
        are those of the system. Raises PolicyError."""
        from shutil import which

        return compile_plugin(
            self.plugin_words, os.path.abspath(project), find=lambda name: which(name, path=SYSTEM_PATH)
        )

    @property
    def digest(self) -> str:
        """A digest of what it allows, to whom: the same for equal grants, whoever signed them when."""
        return hashlib.sha256(_canonical(_body(self, ""))).hexdigest()


def reduce_request(
    manifest: AppManifest, package: str, allow: tuple[str, ...], reduce: Scopes | None = None, issued: int = 0
) -> AppGrant:
    """What is allowed of what was asked for. Raises PolicyError for an `allow` that was not asked for."""
    words = tuple(_word(each) for each in allow)
    for each in words:
        if each not in manifest.requested:
            raise PolicyError(
                f"{manifest.app_id} does not ask for {each}", key="allow",
                suggestion=did_you_mean(each, manifest.requested) or f"it asks for {_listed(manifest.requested)}",
            )  # fmt: skip
    granted = tuple(each for each in manifest.requested if each in words)
    scopes = manifest.scopes if reduce is None else intersect(manifest.scopes, reduce)
    return AppGrant(manifest.app_id, manifest.version, package, manifest.requested, granted, scopes, issued)


def _word(given: str) -> str:
    try:
        return parse_word(given)
    except CommandRefused as refused:
        raise PolicyError(refused.message, key="allow", suggestion=refused.suggestion) from None


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(words) or "nothing"


# ---- the record ----------------------------------------------------------------------------------------------------


def sign(grant: AppGrant, key: GrantKey) -> bytes:
    body = _canonical(_body(grant, key.key_id))
    return body + key.mac(body).encode() + b"\n"


def verify(record: bytes, key: GrantKey, app_id: str) -> AppGrant:
    """The grant in a record. AppError says whether it was changed, was signed with another key, or is another app's."""
    body, newline, last = record.partition(b"\n")
    body += newline
    if len(record) > LARGEST or not hmac.compare_digest(last, key.mac(body).encode() + b"\n"):
        raise AppError(f"the grant of {app_id} does not hold: {_why(body, key)}", INSTALL)
    grant = _parse(body, key)
    if grant.app_id != app_id:
        raise AppError(f"the grant in the place of {app_id}'s is {grant.app_id}'s", INSTALL)
    return grant


def _why(body: bytes, key: GrantKey) -> str:
    """What a record that does not fit says of itself: to be told, and for nothing else."""
    try:
        fields = json.loads(body)
        if fields["alg"] != ALGORITHM:
            return f"its algorithm is {shown(fields['alg'])}, not {ALGORITHM}"
        if fields["key_id"] != key.key_id:
            return "it was signed with another key"
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    return "it was changed after it was signed"


def _parse(body: bytes, key: GrantKey) -> AppGrant:
    """The grant in bytes whose MAC fits: what is wrong with them was signed here."""
    fields: dict[str, Any] = json.loads(body.decode("ascii"))  # of bytes, json would guess the encoding first
    if set(fields) != _FIELDS or fields["alg"] != ALGORITHM or fields["mode"] != ENFORCE:
        raise AppError("the grant is of another version of pysandbox", INSTALL)
    scopes = _scopes(fields["scopes"])
    grant = AppGrant(
        fields["app_id"], fields["version"], fields["package"], tuple(fields["requested"]), tuple(fields["granted"]),
        scopes, fields["issued"], key.key_id,
    )  # fmt: skip
    if not set(grant.granted) <= set(grant.requested):
        raise AppError("the grant gives what was not asked for", INSTALL)
    return grant


def _scopes(table: dict[str, Any]) -> Scopes:
    """What `scopes_table` wrote."""
    domains, peers = table.get("domains_allowed"), table["channel_peers_allowed"]
    return Scopes(
        None if domains is None else frozenset(domains),
        tuple(table["fs_prefixes"]),
        None if peers == ANY_PEER else frozenset((first, second) for first, second in peers),
    )


def _body(grant: AppGrant, key_id: str) -> dict[str, Any]:
    return {
        "app_id": grant.app_id, "version": grant.version, "package": grant.package,
        "requested": list(grant.requested), "granted": list(grant.granted), "scopes": scopes_table(grant.scopes),
        "mode": ENFORCE, "alg": ALGORITHM, "key_id": key_id, "issued": grant.issued if key_id else 0,
    }  # fmt: skip


def scopes_table(scopes: Scopes) -> dict[str, Any]:
    """As a manifest has them."""
    peers: Any = ANY_PEER if scopes.peers is None else sorted(map(list, scopes.peers))
    table: dict[str, Any] = {"fs_prefixes": list(scopes.prefixes), "channel_peers_allowed": peers}
    if scopes.domains is not None:
        table["domains_allowed"] = sorted(scopes.domains)
    return table


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii") + b"\n"


# ---- in sentences --------------------------------------------------------------------------------------------------


def sentence(word: str, scopes: Scopes) -> str:
    """What a capability lets an app do."""
    if is_plugin_word(word):
        (read,) = plugin_words((word,))
        return f"{read.verb}:{in_sentence(read.what)}: may {read.sentence}"
    return f"{word}: may {CAPABILITIES[word]}{_where(word, scopes)}"


def sentences(words: tuple[str, ...], scopes: Scopes) -> list[str]:
    return [sentence(each, scopes) for each in words]


def _where(word: str, scopes: Scopes) -> str:
    if word == "fs.use":
        return (
            f", under {', '.join(map(in_sentence, scopes.prefixes))}"
            if scopes.prefixes
            else ", under no prefix: so none"
        )
    if word == "win.manage":
        return ""
    domains = "" if scopes.domains is None else f", among the domains {', '.join(sorted(scopes.domains)) or '(none)'}"
    if word == "chan.use":
        pairs = ", ".join(f"{first} to {second}" for first, second in sorted(scopes.peers or ()))
        return (", any pair" if scopes.peers is None else f": {pairs}" if pairs else ": no pair, so none") + domains
    return domains or ", any domain"


def wider(new: AppGrant, old: AppGrant) -> list[str]:
    """What `new` allows and `old` did not, a sentence each; nothing for an update that widens nothing."""
    lines = sentences(tuple(each for each in new.granted if each not in old.granted), new.scopes)
    for each in new.granted:
        if each in old.granted and not within(_part(each, new.scopes), _part(each, old.scopes)):
            before, after = sentence(each, old.scopes), sentence(each, new.scopes)
            lines.append(f"{after}; until now: {before.partition(': ')[2]}")
    return lines


def _part(word: str, scopes: Scopes) -> Scopes:
    """What of the scopes that capability is held to."""
    talks = word in ("chan.use", "input.route", "domain.emit")
    return Scopes(
        scopes.domains if talks else frozenset(),
        scopes.prefixes if word == "fs.use" else (),
        scopes.peers if word == "chan.use" else frozenset(),
    )
