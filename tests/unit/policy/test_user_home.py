"""The home directory of a user: what the user database says of it."""

from __future__ import annotations

import os
import pwd

import pytest

from pysandbox.policy import user_home
from pysandbox.policy.user_home import home


@pytest.mark.parametrize(
    ("entry", "expected"), [("/home/x", "/home/x"), ("/", "/tmp"), ("/nonexistent", "/tmp"), ("", "/tmp")]
)
def test_home_is_what_the_user_database_says_unless_it_is_none(
    monkeypatch: pytest.MonkeyPatch, entry: str, expected: str
) -> None:
    record = pwd.struct_passwd(("x", "*", os.geteuid(), os.getegid(), "", entry, "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: record)
    monkeypatch.setattr(user_home, "_home_of", user_home._home_of.__wrapped__)
    monkeypatch.setenv("HOME", "/not/asked")
    assert home() == expected


def test_a_user_the_database_does_not_know_lives_in_tmp(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(user_home, "_home_of", user_home._home_of.__wrapped__)
    assert home() == "/tmp"
