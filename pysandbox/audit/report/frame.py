"""The frame of every page: one file that needs nothing else, and forbids itself everything but its own style (CSP), so
that even a hole in the escaping would run nothing and ask nothing of any server."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

from pysandbox.audit.report.markup import Child, Markup, el
from pysandbox.audit.report.style import STYLE


def whole_page(title: str, *parts: Child) -> str:
    style_hash = b64encode(sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{style_hash}'; base-uri 'none'; form-action 'none'"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", title),
        Markup(f"<style>{STYLE}</style>"),
    )
    return f"<!doctype html>\n{el('html', head, el('body', el('main', *parts)), lang='en')}\n"
