"""A vendor on this machine that lists models as it is told. It answers nothing else and knows no API."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Asked(NamedTuple):
    path: str
    query: dict[str, str]
    headers: dict[str, str]


class Answer(NamedTuple):
    """``body``: bytes as they are, anything else as JSON. ``hang``: seconds before anything is said."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    hang: float = 0.0


class Listings:
    """``server.pages["/v1/models"] = Answer({...})``; a list is answered in turn, its last for ever; a path without a
    page is a 404. ``asked`` holds every request."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer | list[Answer]] = {}
        self.asked: list[Asked] = []
        self.over = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer._answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def paths(self) -> list[str]:
        return [one.path for one in self.asked]

    def __enter__(self) -> Listings:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.asked.append(Asked(parts.path, dict(parse_qsl(parts.query)), headers))
        page = self.pages.get(parts.path, Answer({"error": {"message": "no such page"}}, status=404))
        if isinstance(page, list):
            page = page.pop(0) if len(page) > 1 else page[0]
        self.over.wait(page.hang)
        body = page.body if isinstance(page.body, bytes) else json.dumps(page.body).encode()
        handler.send_response(page.status)
        for name, value in {"Content-Type": "application/json", **page.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


def listed(*ids: str, **more: Any) -> Answer:
    """A healthy page in OpenAI's shape."""
    return Answer({"object": "list", "data": [{"id": id, "object": "model"} for id in ids], **more})
