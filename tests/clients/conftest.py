"""One internet and one host for all tests of this folder; what a test looks at is what arrived since it began."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from _support.internet import Host, Internet, internet


@pytest.fixture(scope="session")
def whole_net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    with internet(tmp_path_factory.mktemp("net")) as net:
        yield net


@pytest.fixture(scope="session")
def host(whole_net: Internet) -> Iterator[Host]:
    with whole_net.host() as host:
        yield host


@pytest.fixture
def net(whole_net: Internet) -> Internet:
    whole_net.forget()
    return whole_net
