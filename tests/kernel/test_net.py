"""csrc/setup/net.c: a network namespace with loopback and nothing else."""

from __future__ import annotations

import pytest

from .plans import opened, plan

pytestmark = pytest.mark.guest

GREET = (
    "(lambda listener: (socket.create_connection(listener.getsockname()), listener.accept())[1][1][0])"
    "(socket.create_server(('127.0.0.1', 0)))"
)


def test_loopback_is_the_only_interface_and_works() -> None:
    with opened(plan(loopback=True)) as init:
        assert init.attempt("socket.if_nameindex()") == "[(1, 'lo')]"
        assert init.attempt(GREET) == "127.0.0.1"


def test_there_is_no_way_out() -> None:
    with opened(plan(loopback=True)) as init:
        for address in ("192.0.2.1", "8.8.8.8"):
            assert init.attempt(f"socket.socket().connect(('{address}', 80))") == "ENETUNREACH"
        assert init.attempt("socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80))") == "ENETUNREACH"


def test_where_the_plan_leaves_it_down_it_is_down() -> None:
    with opened(plan(loopback=False)) as init:
        assert init.attempt("socket.socket().connect(('127.0.0.1', 80))") == "ENETUNREACH"
