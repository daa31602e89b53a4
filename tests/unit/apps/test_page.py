"""The page of an app: nothing that an app wrote is more than text on it."""

from __future__ import annotations

from _support.apps import constants, package, ran
from pysandbox.apps import App
from pysandbox.apps.page import app_page


def test_the_page_says_what_it_may_and_what_it_was_denied() -> None:
    outcome = ran([*constants({1: "secret"}), *[["FS_LIST", 2, 1]] * 3, ["CHAN_RECV", 2, 1], ["HALT"]])
    text = app_page(App.debug(package()).grant, list(outcome.log))
    assert "notes.app 1.0" in text and "under docs" in text
    assert "3 times" in text and "denied_scope" in text and "denied_capability" in text


def test_nothing_of_an_app_is_markup() -> None:
    evil = '</code><script>alert(1)</script><img src=x onerror="x">'
    outcome = ran([*constants({1: evil}), ["FS_LIST", 2, 1], ["HALT"]])
    text = app_page(App.debug(package()).grant, list(outcome.log))
    assert "<script" not in text and "<img" not in text and "&lt;script" in text


def test_without_a_denial_it_says_so() -> None:
    assert "Nothing was denied." in app_page(App.debug(package()).grant, [])
