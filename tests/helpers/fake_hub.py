"""A hub on 127.0.0.1: the few endpoints a download uses, with faults to order."""

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "c0ffee" + "0" * 34
LARGE = (".safetensors", ".gguf", ".bin")


@dataclass(slots=True)
class FakeHub:
    """repositories: id -> file name -> bytes.

    cut_at: file -> bytes after which the connection breaks, once. stalls_at: after which nothing
    comes any more and the connection stays, once. slow: file -> bytes a tenth of a
    second. garbled: files whose bytes are wrong, once. no_ranges: ignore Range. gated: ids that
    need a licence. status: answer all requests for files with this. endpoint, storage: its
    addresses. signed: first part of a path -> whether it was asked for with a token. told: what a
    search tells of a repository beside its files. nonsense: what is answered to every question of
    the API, as a network does that wants a login. silence_s: before each of these answers.
    expired: tokens are refused, for public repositories too. tokens: those of people who accepted
    the licences.
    """

    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    cut_at: dict[str, int] = field(default_factory=dict)
    stalls_at: dict[str, int] = field(default_factory=dict)
    slow: dict[str, int] = field(default_factory=dict)
    garbled: set[str] = field(default_factory=set)
    no_ranges: bool = False
    gated: set[str] = field(default_factory=set)
    status: int = 0
    endpoint: str = ""
    storage: str = ""
    signed: dict[str, bool] = field(default_factory=dict)
    ranges: list[str] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    told: dict[str, dict[str, object]] = field(default_factory=dict)
    nonsense: bytes | None = None
    silence_s: float = 0.0
    expired: bool = False
    tokens: frozenset[str] = frozenset()
    searches: list[dict[str, list[str]]] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)


class _Answer(BaseHTTPRequestHandler):
    """Speaks for the hub that the class below it carries."""

    hub: FakeHub

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        parts = path.strip("/").split("/")
        self.hub.signed[parts[0]] = "Authorization" in self.headers
        if self._is_refused():
            return
        if parts == ["api", "whoami-v2"]:
            self._tell({"name": "ada"}) if self._is_known() else self._refuse(401, "")
        elif parts == ["api", "models"]:
            self._search(parse_qs(urlsplit(self.path).query))
        elif parts[:2] == ["api", "models"]:
            self._model("/".join(parts[2:4]), "/".join(parts[5:]) or "main")
        elif parts[:1] == ["storage"]:
            self._file("/".join(parts[1:3]), "/".join(parts[3:]))
        else:
            self._resolve("/".join(parts[:2]), "/".join(parts[4:]))

    def do_HEAD(self) -> None:
        """What the hub's client wants to know of a file before it fetches it."""
        if self._is_refused():
            return
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        name = "/".join(parts[4:])
        data = self.hub.repositories["/".join(parts[:2])][name]
        blob = hashlib.sha256(data).hexdigest() if name.endswith(LARGE) else git_id(data)
        self.send_response(200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{blob}"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def _model(self, hub_id: str, revision: str) -> None:
        if hub_id in self.hub.gated and not self._is_known():
            return self._refuse(403, "GatedRepo")
        if hub_id not in self.hub.repositories:
            return self._refuse(404, "RepoNotFound")
        if revision not in ("main", COMMIT):
            return self._refuse(404, "RevisionNotFound")
        files = self.hub.repositories[hub_id]
        listed = [_sibling(name, data) for name, data in files.items()]
        gguf = self.hub.told.get(hub_id, {}).get("gguf")
        return self._tell({"id": hub_id, "sha": COMMIT, "siblings": listed, "gguf": gguf})

    def _search(self, asked: dict[str, list[str]]) -> None:
        """Everything with these words in its name."""
        self.hub.searches.append(asked)
        words = asked.get("search", [""])[0].lower().split()
        found = [
            {"id": hub_id, "siblings": [{"rfilename": name} for name in files]}
            | self.hub.told.get(hub_id, {})
            for hub_id, files in self.hub.repositories.items()
            if all(word in hub_id.lower() for word in words)
        ]
        self._tell(found)

    def _tell(self, told: object) -> None:
        time.sleep(self.hub.silence_s)
        body = json.dumps(told).encode() if self.hub.nonsense is None else self.hub.nonsense
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body)

    def _resolve(self, hub_id: str, name: str) -> None:
        """Small files come from here, large ones from the storage."""
        if self.hub.status:
            return self._refuse(self.hub.status, "")
        if not name.endswith(LARGE):
            return self._file(hub_id, name)
        self.send_response(302)
        self.send_header("Location", f"{self.hub.storage}/storage/{hub_id}/{name}")
        self.send_header("Content-Length", "0")
        self.end_headers()
        return None

    def _file(self, hub_id: str, name: str) -> None:
        hub, data = self.hub, self.hub.repositories[hub_id][name]
        wanted = self.headers.get("Range")
        start, end = 0, len(data)
        if wanted is not None:
            hub.ranges.append(wanted)
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start = 0 if hub.no_ranges else int(first)
            end = int(last) + 1 if last else end
        body = data[start:end]
        if name in hub.garbled:
            hub.garbled.remove(name)
            body = bytes(byte ^ 1 for byte in body)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{len(data)}")
        self.end_headers()
        stall = hub.stalls_at.pop(name, None)
        if stall is not None:
            self._send(name, body[:stall])
            hub.is_over.wait()
            return
        cut = hub.cut_at.pop(name, None)
        body = body if cut is None else body[:cut]
        hub.sent[name] = hub.sent.get(name, 0) + len(body)
        self._send(name, body)
        self.close_connection = True

    def _send(self, name: str, body: bytes) -> None:
        """All of it, or until whoever asked is gone."""
        pace = self.hub.slow.get(name, len(body) or 1)
        with suppress(OSError):
            for start in range(0, len(body), pace):
                self.wfile.write(body[start : start + pace])
                if name in self.hub.slow:
                    time.sleep(0.1)

    def _is_known(self) -> bool:
        return self.headers.get("Authorization", "").removeprefix("Bearer ") in self.hub.tokens

    def _is_refused(self) -> bool:
        """Where a token comes along that ran out, whatever is asked."""
        is_refused = self.hub.expired and "Authorization" in self.headers
        if is_refused:
            self._refuse(401, "")
        return is_refused

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()


def git_id(data: bytes) -> str:
    """What git calls a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _sibling(name: str, data: bytes) -> dict[str, object]:
    told: dict[str, object] = {"rfilename": name, "size": len(data), "blobId": git_id(data)}
    if name.endswith(LARGE):
        sha = hashlib.sha256(data).hexdigest()
        told["lfs"] = {"sha256": sha, "size": len(data), "pointerSize": 130}
    return told


@contextmanager
def serving(hub: FakeHub) -> Iterator[FakeHub]:
    """The hub at `hub.endpoint` while the block runs."""
    handler = type("Answer", (_Answer,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    hub.storage = f"http://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        hub.is_over.set()
        server.shutdown()
        server.server_close()
        thread.join()
