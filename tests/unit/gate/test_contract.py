"""What a [[host]] block says of requests, held against one: which column refuses, and what would allow it."""

from __future__ import annotations

import tomllib

import pytest

from pysandbox.compile.plan import Contract
from pysandbox.gate.contract import Asked, decide, fix, readable, too_large

GET = Contract(methods=("GET",))
BELOW = Contract(paths=("/repos/acme/", "/user"))
JSON = Contract(content_types=("application/json",), max_request_bytes=10)


def asked(method: bytes = b"GET", path: bytes = b"/", length: int | None = 0, **fields: bytes) -> Asked:
    named = tuple((name.replace("_", "-").encode(), value) for name, value in fields.items())
    return Asked(method, path, named, length, length != 0)


def column(contract: Contract, request: Asked) -> str:
    refusal = decide(contract, request)
    return refusal.column if refusal is not None else ""


def test_an_empty_contract_allows_any_request() -> None:
    assert column(Contract(), asked(b"PUT", b"/a/../b", 5)) == ""


@pytest.mark.parametrize("method", [b"GET", b"get"])
def test_a_listed_method_is_allowed_in_any_case(method: bytes) -> None:
    assert column(GET, asked(method)) == ""


@pytest.mark.parametrize("name", ["x_http_method_override", "x_http_method", "x_method_override"])
def test_a_method_is_not_smuggled_in_a_field(name: str) -> None:
    assert column(GET, asked(b"GET", **{name: b"DELETE"})) == "methods"
    assert column(GET, asked(b"GET", **{name: b"get"})) == ""


@pytest.mark.parametrize("name", [b"x_http_method_override", b"x-http_method-override", b"x_method-override"])
def test_nor_in_one_that_servers_read_alike(name: bytes) -> None:
    """CGI and what follows it make one letter of `_` and `-` (RFC 3875, 4.1.18)."""
    assert column(GET, Asked(b"GET", b"/", ((name, b"DELETE"),), 0, False)) == "methods"


@pytest.mark.parametrize("path", [b"/repos/acme/x", b"/repos/acme/x?y=/../", b"/user", b"/user/keys", b"/%75ser"])
def test_a_path_below_a_listed_one_is_allowed(path: bytes) -> None:
    assert column(BELOW, asked(path=path)) == ""


@pytest.mark.parametrize("path", [
    b"/", b"/repos/acmeevil", b"/repos/acme", b"/users", b"/User", b"/repos/acme/../other", b"/repos/acme/%2e%2e/other",
    b"/repos/acme/..%2fother", b"/repos/acme/..%5cother", b"/repos/acme/%252e%252e/x", b"/repos//acme/x", b"//user",
    b"/repos/acme/..;v=1/other", b"/repos/acme/;/x", b"/repos/acme/%c0%ae%c0%ae/x", b"/user%00", b"/user/%zz", b"*",
    b"/user\\..\\x", b"/repos/acme/./x",
])  # fmt: skip
def test_any_other_path_is_refused(path: bytes) -> None:
    assert column(BELOW, asked(path=path)) == "paths"


def test_a_body_has_a_listed_type_and_no_more_than_its_size() -> None:
    assert column(JSON, asked(b"POST", length=5, content_type=b"Application/JSON; charset=utf-8")) == ""
    assert column(JSON, asked(b"POST", length=None, content_type=b"application/json")) == ""
    assert column(JSON, asked(b"GET")) == ""
    for kind in (b"text/plain", b"application/json, text/plain", b"application/jsonx", b""):
        assert column(JSON, asked(b"POST", length=5, content_type=kind)) == "content_types"
    assert column(JSON, asked(b"POST", length=5)) == "content_types"
    assert column(JSON, asked(b"POST", length=11, content_type=b"application/json")) == "max_request_bytes"


def test_two_content_types_are_refused() -> None:
    request = Asked(b"POST", b"/", ((b"content-type", b"application/json"),) * 2, 5, True)
    assert column(JSON, request) == "content_types"


def test_what_would_allow_it_is_beside_what_is_allowed_already() -> None:
    said = fix("api.example", GET, "methods", "POST")
    assert 'domain = "api.example"' in said and '"GET"' in said and '"POST"' in said


@pytest.mark.parametrize(("which", "value"), [("max_request_bytes", "11"), ("websocket", "true"), ("methods", "PUT")])
def test_a_block_that_would_allow_it_allows_nothing_else(which: str, value: str) -> None:
    """It may be for a name below the pattern that refused, and then it is all that is said of that name."""
    held = Contract(("POST",), ("/a/",), ("text/plain",), 10, (8443,))
    block = tomllib.loads(fix("api.example", held, which, value))["also"][0]["host"][0]
    rest = {"methods": ["POST"], "paths": ["/a/"], "content_types": ["text/plain"], "max_request_bytes": 10,
            "ports": [8443], "domain": "api.example"}  # fmt: skip
    assert {**block, which: rest.get(which)} == {**rest, which: rest.get(which)}


@pytest.mark.parametrize(("size", "so_far", "offered"), [(11, False, "11"), (11, True, "20"), (64, True, "64")])
def test_of_a_body_whose_length_nobody_tells_more_is_offered_than_has_come(
    size: int, so_far: bool, offered: str
) -> None:
    breach = too_large(JSON, size, so_far=so_far)
    assert breach is not None and breach.value == offered


def test_a_websocket_is_opened_where_the_block_says_so_alone() -> None:
    opening = asked(b"GET")._replace(opens_websocket=True)
    assert [column(each, opening) for each in (Contract(), Contract(websocket=True))] == ["websocket", ""]
    assert column(Contract(("POST",), websocket=True), opening) == "methods"
    assert "websocket = true" in fix("api.example", Contract(websocket=True), "methods", "PUT")


@pytest.mark.parametrize(("which", "value"), [
    ("methods", "a\nb"), ("paths", "/a/../b"), ("domain", "evil.example"), ("max_request_bytes", "many"),
    ("methods", '"] x = ["'),
])  # fmt: skip
def test_no_fix_is_made_of_a_stranger_s_words(which: str, value: str) -> None:
    assert "evil" not in fix("api.example", GET, which, value)
    assert fix("api.example", GET, which, value) == ""


def test_an_unreadable_path_has_no_pieces() -> None:
    assert readable(b"/a/b") == [b"a", b"b"]
    assert readable(b"/a//b") is None
