"""A policy in sentences, for a reader who has never seen its options: what a program could do under it, topic by topic.

The sentence about an option stands beside its declaration (`option.Sentence`); here are the headings, and what several
options say together. Nothing of a policy is left out: an option that has no sentence is told by its key, value and
document. What is asked is told; what is weaker on this host is for whoever has a Plan to say (`topics`). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pysandbox.policy.host import HostRule
from pysandbox.policy.model import Policy, options
from pysandbox.policy.option import Grant, Sentence, Topic
from pysandbox.policy.way_out import effective_egress, loopback_ports
from pysandbox.shapes import Any, get_args

Sentences = tuple[str, ...]

HEADINGS = get_args(Topic)
NO_CAGE = "Commands run with no cage at all."
NOTHING_WEAKER = "Nothing: this host can do all that the policy asks."
UNCHANGED = {
    "full": "Nothing of the host can be changed.",
    "landlock": "Nothing of the host can be changed but the mode and the times of its user's own files.",
}


def explain(policy: Policy) -> Sentences:
    """One sentence for each thing worth knowing, the widest first."""
    return tuple(sentence for _, sentences in topics(policy) for sentence in sentences)


def topics(policy: Policy, weaker: Iterable[str] | None = None) -> tuple[tuple[str, Sentences], ...]:
    """(heading, sentences) of each topic. `weaker`: what a host does less (`note.weaker_sentences`)."""
    if not policy.caged:
        return (("Cage", (NO_CAGE,)), ("Time", _under("Time", policy)))
    told = [(heading, _under(heading, policy)) for heading in HEADINGS]
    told.append(("Besides", tuple(_besides(policy))))
    if weaker is not None:
        told.append(("Weaker on this host", tuple(weaker) or (NOTHING_WEAKER,)))
    return tuple((heading, sentences) for heading, sentences in told if sentences)


def words(value: object) -> str:
    """A value of a policy for people: a list by its items, a table by its names."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, tuple):
        return str(value)
    return ", ".join(_item(each) for each in value)


def _item(each: Any) -> str:
    if isinstance(each, Grant):
        return each.path
    if isinstance(each, tuple):  # (name, items); of a variable not its value, which may be a secret
        return f"{each[0]}: {' '.join(each[1])}" if isinstance(each[1], tuple) else str(each[0])
    return str(each)


def _under(heading: str, policy: Policy) -> Sentences:
    rows = [(place, text) for topic, place, tell in TOGETHER if topic == heading for text in tell(policy)]
    for field, described in options():
        sentences = (each for each in described.sentences if each.topic == heading)
        rows += [(each.place, _text(each, _value(field.name, policy), policy)) for each in sentences]
    return tuple(text for _, text in sorted(rows, key=lambda row: row[0]) if text)


def _value(name: str, policy: Policy) -> Any:
    """The value of an option; of egress the one in effect, since that is what a program meets."""
    return effective_egress(policy) if name == "egress" else getattr(policy, name)


def _text(sentence: Sentence, value: Any, policy: Policy) -> str:
    if sentence.unless is not None and getattr(policy, sentence.unless[0]) == sentence.unless[1]:
        return ""
    cases = {**sentence.cases, **sentence.alone} if policy.isolation == "landlock" else sentence.cases
    if cases and value in cases:
        text = cases[value]
    else:
        text = sentence.unset if value in (None, ()) else sentence.text
    return text.format(value if isinstance(value, int | float) else words(value), policy=policy)


def _besides(policy: Policy) -> Iterator[str]:
    for field, described in options():
        if not described.sentences and field.name in policy.explicit:
            yield f"{described.toml_key} = {words(policy.explicit[field.name])}: {described.doc}"


# ---- what several options say together ---------------------------------------------------------------------------


def _unchanged(policy: Policy) -> Iterator[str]:
    if policy.workdir != "write" and not policy.allow_write:
        yield UNCHANGED[policy.isolation]


def _by_name(policy: Policy) -> Iterator[str]:
    if policy.egress == "proxy-only":
        yield from (_host(rule) for rule in policy.hosts)
        if (ports := loopback_ports(policy)) is not None:
            yield f"The host's own services are reached as host.pysandbox.internal{_on(ports)}."


def _host(rule: HostRule) -> str:
    below = (
        " and every name below it" if rule.include_subdomains else "" if "*" in rule.domain else ", no name below it,"
    )
    private = f" It may lead to private addresses: {words(rule.private_addresses)}." if rule.private_addresses else ""
    if rule.is_inspected:
        return f"{rule.domain}{below} may be sent {', '.join(_requests(rule))}, and nothing else.{private}"
    how = ", and nothing looks at what is sent" if rule.direct else ""
    return f"{rule.domain}{below} can be connected to{_on(rule.ports)}{how}.{private}"


def _requests(rule: HostRule) -> Iterator[str]:
    """What its contract lets through, column by column."""
    yield f"{' and '.join(rule.methods) or 'HTTP'} requests{_on(rule.ports)}"
    if rule.paths:
        yield f"to paths that begin with {' or '.join(rule.paths)}"
    if rule.content_types:
        yield f"with bodies of the type {' or '.join(rule.content_types)}"
    if rule.max_request_bytes is not None:
        yield f"of {rule.max_request_bytes} bytes at most"
    if rule.websocket:
        yield "WebSockets"


def _on(ports: tuple[int, ...]) -> str:
    return f" on port {', '.join(map(str, ports))}" if ports else ""


def _no_limit(policy: Policy) -> Iterator[str]:
    rows = ((getattr(policy, field.name), each.unlimited) for field, row in options() for each in row.sentences)
    missing = [name for value, name in rows if name and value is None]
    if missing:
        yield f"No limit on {', '.join(missing)} of the cage as a whole."


def _files(policy: Policy) -> Iterator[str]:
    size = f" and write files of up to {policy.file_size_gb} GiB" if policy.file_size_gb else ""
    yield f"A process may open {policy.open_files} files{size}."


# (heading, place under it, sentences)
TOGETHER: tuple[tuple[Topic, int, Callable[[Policy], Iterable[str]]], ...] = (
    ("Writes", 2, _unchanged),
    ("Reaches", 1, _by_name),
    ("Uses", 1, _no_limit),
    ("Uses", 9, _files),
)
