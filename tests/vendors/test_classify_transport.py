"""Exceptions of the transport and the SDKs: each has its row, by name, so that judging one imports nothing."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from routekit.core.faults import FAULTS
from routekit.vendors.classify import TRANSPORT, from_exception_name, transport

#: too broad to count as a row of a class's own: everything is one of these
ROOTS = frozenset({"APIError", "OpenAIError", "AnthropicError", "HTTPError", "RequestError", "TransportError"})

LIST_EXCEPTIONS = """
import importlib, json
packages = ("httpx2", "openai", "anthropic", "httpcore2")
for package in packages:
    module = importlib.import_module(package)
    for name in dir(module):
        getattr(module, name, None)
found, seen = [], set()
def walk(kind):
    for sub in kind.__subclasses__():
        if sub not in seen:
            seen.add(sub)
            if sub.__module__.split(".")[0] in packages:
                found.append([sub.__module__, [base.__name__ for base in sub.__mro__]])
            walk(sub)
walk(BaseException)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def exceptions() -> list[tuple[str, list[str]]]:
    """Every exception class the SDKs define when they are imported, with the names of its ancestry."""
    run = subprocess.run([sys.executable, "-c", LIST_EXCEPTIONS], capture_output=True, text=True, check=True)
    return [(module, names) for module, names in json.loads(run.stdout)]


def _answered_by(names: list[str]) -> str | None:
    """The most special row of an ancestry; an error with a status is judged by its body, so its class need not say."""
    return next((name for name in names if name in TRANSPORT and name not in ROOTS), None)


def test_every_exception_class_of_the_sdks_and_their_transport_has_a_row(
    exceptions: list[tuple[str, list[str]]],
) -> None:
    missing = [
        f"{module}.{names[0]}" for module, names in exceptions if names[0] not in ROOTS and _answered_by(names) is None
    ]
    assert missing == []


def test_the_enumeration_sees_the_classes_it_is_about(exceptions: list[tuple[str, list[str]]]) -> None:
    seen = {(module.split(".")[0], names[0]) for module, names in exceptions}
    assert {
        ("httpx2", "ReadTimeout"),
        ("httpx2", "CookieConflict"),
        ("openai", "APITimeoutError"),
        ("anthropic", "EnforcedSpendLimitReachedError"),
        ("anthropic", "OverloadedError"),
    } <= seen
    assert len(seen) > 200


def test_every_row_is_of_a_known_kind_and_says_something() -> None:
    for name, row in TRANSPORT.items():
        fault = transport(name)
        assert fault.kind in FAULTS
        assert fault.message == row.words != ""
        assert fault.delivered == row.delivered
        assert not fault.answered


@pytest.mark.parametrize(
    ("name", "kind", "delivered"),
    [
        ("ConnectError", "transient", False),
        ("ConnectTimeout", "timeout", False),
        ("PoolTimeout", "timeout", False),
        ("ReadTimeout", "timeout", True),
        ("WriteTimeout", "timeout", True),
        ("ReadError", "transient", True),
        ("WriteError", "transient", True),
        ("CloseError", "transient", True),
        ("RemoteProtocolError", "transient", True),
        ("LocalProtocolError", "setup", False),
        ("UnsupportedProtocol", "setup", False),
        ("InvalidURL", "setup", False),
        ("DecodingError", "transient", True),
        ("ProxyError", "transient", False),
        ("TooManyRedirects", "setup", True),
        ("CookieConflict", "setup", False),
        ("JSONDecodeError", "transient", True),
        ("UnicodeDecodeError", "transient", True),
        ("UnicodeEncodeError", "setup", False),
        ("AssertionError", "transient", True),
        ("CancelledError", "cancelled", True),
        ("KeyboardInterrupt", "cancelled", True),
        ("SSLCertVerificationError", "setup", False),
        ("APITimeoutError", "timeout", True),
        ("APIConnectionError", "transient", True),
        ("NeverHeardOf", "unknown", True),
    ],
)
def test_a_class_name_gives_kind_and_delivery(name: str, kind: str, delivered: bool) -> None:
    fault = transport(name)
    assert (fault.kind, fault.delivered) == (kind, delivered)
    assert from_exception_name((name, "Exception", "BaseException", "object")) == fault


def names_of(error: BaseException) -> tuple[str, ...]:
    names: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        names += [kind.__name__ for kind in type(cause).__mro__]
        cause = cause.__cause__ or cause.__context__
    return tuple(names)


@pytest.mark.parametrize(
    ("cause", "kind", "delivered"),
    [
        (httpx2.ConnectError("x"), "transient", False),
        (httpx2.ConnectTimeout("x"), "timeout", False),
        (httpx2.ReadTimeout("x"), "timeout", True),
        (httpx2.LocalProtocolError("x"), "setup", False),
        (httpx2.UnsupportedProtocol("x"), "setup", False),
        (httpx2.DecodingError("x"), "transient", True),
        (RuntimeError("closed"), "transient", True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_a_wrapper_yields_to_its_cause(cause: Exception, kind: str, delivered: bool) -> None:
    class OpenAIError(Exception):
        pass

    class APIError(OpenAIError):
        pass

    class APIConnectionError(APIError):
        pass

    wrapper = APIConnectionError("Connection error.")
    wrapper.__cause__ = cause
    fault = from_exception_name(names_of(wrapper), str(wrapper))
    assert (fault.kind, fault.delivered) == (kind, delivered)


def test_an_exception_nobody_expected_is_unknown_and_its_text_stays_private() -> None:
    fault = from_exception_name(("RuntimeError", "Exception"), "the key is correct-horse")
    assert fault.kind == "unknown"
    assert "horse" not in fault.message


@pytest.mark.parametrize("name", ["LocalProtocolError", "InvalidURL", "UnsupportedProtocol", "UnicodeEncodeError"])
def test_a_setup_fault_never_repeats_the_text_that_may_hold_the_key(name: str) -> None:
    fault = from_exception_name((name,), "Illegal header value b'Bearer correct-horse\\n'")
    assert "horse" not in fault.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[Errno 111] Connect call failed ('127.0.0.1', 1)", "no connection: nobody listens there"),
        ("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 99] x", "nobody listens there"),
        ("[Errno -2] Name or service not known", "no connection: there is no host of that name"),
        ("[Errno -3] Temporary failure in name resolution", "no connection: its name cannot be looked up"),
        ("[Errno 101] Network is unreachable", "no connection: the network cannot be reached"),
        ("[Errno 12345] Something else", "no connection: Something else"),
    ],
)
def test_what_an_operating_system_says_is_told_in_plain_words(text: str, words: str) -> None:
    assert from_exception_name(("ConnectError",), text).message.endswith(words)


def test_a_connection_that_ended_too_soon_is_told_in_few_words() -> None:
    text = "peer closed connection without sending complete message body (incomplete chunked read)"
    assert from_exception_name(("RemoteProtocolError",), text).message == "its vendor hung up in the middle"
    assert "illegal header" in from_exception_name(("RemoteProtocolError",), "illegal header line").message


def test_other_texts_are_kept_with_keys_masked_and_cut() -> None:
    fault = from_exception_name(("ConnectError",), "refused for sk-abcdefgh12345678 " + "x" * 900)
    assert fault.message.startswith("no connection: refused for •••")
    assert len(fault.message) == 300


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] unable to get local issuer certificate (_ssl.c:992)", "setup"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate in certificate chain", "setup"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate has expired", "transient"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] Hostname mismatch, certificate is not valid for 'x'", "transient"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "transient"),
        ("[SSL] record layer failure", "transient"),
        ("[Errno -2] Name or service not known", "transient"),
    ],
)
def test_missing_certificate_roots_are_our_setup_other_tls_failures_the_vendors(text: str, kind: str) -> None:
    fault = from_exception_name(("ConnectError", "NetworkError", "SSLError"), text)
    assert (fault.kind, fault.delivered) == (kind, False)


def test_a_certificate_that_cannot_be_verified_is_known_by_name_alone() -> None:
    assert from_exception_name(names_of(ssl.SSLCertVerificationError())).kind == "setup"


def test_a_proxy_that_wants_a_login_is_our_setup() -> None:
    assert from_exception_name(("ProxyError",), "407 Proxy Authentication Required").kind == "setup"
    assert from_exception_name(("ProxyError",), "502 Bad Gateway").kind == "transient"


def test_half_a_character_in_the_text_is_the_callers_fault_not_the_keys() -> None:
    with pytest.raises(UnicodeEncodeError) as caught:
        "\udc80".encode()
    assert from_exception_name(names_of(caught.value), str(caught.value)).kind == "request"


# -- real ones ---------------------------------------------------------------------------------------------------------


@contextmanager
def vendor(answer: bytes) -> Iterator[str]:
    """A server that answers one request with these bytes and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        thread.join(5)


def raised(url: str, **more: object) -> tuple[str, ...]:
    with httpx2.Client(trust_env=False, timeout=5.0) as client:
        try:
            client.get(url, **more)  # type: ignore[arg-type]
        except Exception as error:
            return names_of(error)
    raise AssertionError("no exception")


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"", "transient"),
        (b"garbage\r\n\r\n", "transient"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\ncut", "transient"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd", "transient"),
    ],
    ids=["hangs-up", "no-http", "cut", "bad-gzip"],
)
def test_a_real_broken_answer_is_transient_and_was_delivered(answer: bytes, kind: str) -> None:
    with vendor(answer) as url:
        fault = from_exception_name(raised(url))
    assert (fault.kind, fault.delivered) == (kind, True)


def test_a_real_refusal_was_never_delivered() -> None:
    fault = from_exception_name(raised(f"http://127.0.0.1:{closed_port()}/"))
    assert (fault.kind, fault.delivered) == ("transient", False)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "127.0.0.1", "http://127.0.0.1:abc/"])
def test_a_real_base_url_that_is_none_is_our_setup(url: str) -> None:
    fault = from_exception_name(raised(url))
    assert (fault.kind, fault.delivered) == ("setup", False)


@pytest.mark.parametrize("key", ["sk-correct-horse\n", "sk-correct-hörse"])
def test_a_real_key_that_no_header_can_hold_is_our_setup(key: str) -> None:
    with vendor(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as url:
        try:
            names = raised(url, headers={"Authorization": f"Bearer {key}"})
        finally:
            # the server still waits for the request that could not be written
            with socket.create_connection(("127.0.0.1", int(url.rstrip("/").rpartition(":")[2]))) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
    fault = from_exception_name(names)
    assert (fault.kind, fault.delivered) == ("setup", False)
    assert "correct" not in repr(fault)
