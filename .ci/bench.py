#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["bottle>=0.13,<0.14", "waitress>=3"]
# ///
"""What releasetrack.py costs, beside floors that are measured in the same run, and what it holds up against.

    python .ci/bench.py                     all rows, under ten minutes
    python .ci/bench.py --quick             the same rows, shorter runs, under five
    python .ci/bench.py --large             with 10,000 projects and 500,000 releases, not 2,000 and 100,000
    python .ci/bench.py --only deliveries   the rows whose name holds the word
    python .ci/bench.py soak                the trials, in about six minutes
    python .ci/bench.py soak --minutes 60   with the large numbers (from 30 on): 1,000 kills, a full minute of the
                                            slow clients and of the full disk, 10,000 passwords, the rest is load
    python .ci/bench.py soak --kills 1000 --only kill       so many kills; the trials whose name holds the word

One line a row: a figure, its floor, their ratio, the target, and "missed" where it is not reached. A
figure is the median of five runs, each in turn with one of its floor; a missed row also says between
what the runs lie, which is far apart when the machine had other work. Trust ratios, not figures. What a
poll adds to the memory is measured once. The floor of the rows about many projects is the same answer with
100 of them. A row that cannot be measured shows its error, and the exit status is 1.

A trial's line is followed by one line a figure: what it is, what passes, and "missed" where it does not. The exit
status is 1 when something was lost, which is what takes 0, or a trial could not be made. The trial of the full
disk mounts a small one, which takes root, and is skipped without.

Loopback only. The program, the floor, the load, the receivers and the forge are a process each. Stores lie in a
temporary folder; it must be on a disk (TMPDIR chooses), or what is durable costs nothing.
"""

from __future__ import annotations

import abc
import argparse
import asyncio
import base64
import contextlib
import dataclasses
import datetime
import functools
import gzip
import hashlib
import hmac
import http.client
import importlib.util
import itertools
import json
import os
import pathlib
import random
import re
import selectors
import shutil
import signal
import socket
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
import wsgiref.util
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "releasetrack.py"
PROJECTS, RELEASES = 100, 50  # of the store that is served
MANY_PROJECTS, LARGE = 2000, 10_000  # of the one whose pages are looked at, and with --large
TEMPLATES = 50  # projects of a store that are not copies
RUNS = 5  # of a figure and of its floor, in turn
CALLS = 200  # of the application in one run
SEED = 5  # of all that is random
WARM_UP = 0.2  # seconds of load that do not count
PATIENCE = 60.0  # seconds after which whatever does not come is given up
# A provider's address that nothing listens at; no source of it is due before the bench is over.
PROVIDER = "bench=forgejo:http://127.0.0.1:1"
TAKES = 0.008  # seconds that a receiver takes in a soak
FAULTS, LATE = (
    0.05,
    2.0,
)  # share of a soak's answers that are no good or late, and seconds that those take
LATENCY = 0.02  # seconds that the forge takes for an answer
SHOWN = 200  # releases that it lists of a project that has more
AT_ONCE = 32  # requests under way to it, of the program and of the plain pool
# What a poll shall be measured by is nvchecker, which is not installed here. By hand, 2.22 with 1,000 entries at
# this forge took 1.7 to 1.9 s and 0.9 s of CPU (its source "regex"), 2.2 s and 1.2 s ("gitlab"), where the pool
# took 0.77 s and 0.5 s. So it counts as this many times the pool:
NVCHECKER, NVCHECKER_CPU = 2.2, 1.8


class BenchError(Exception):
    """Something that keeps a row from being measured, in words."""


@functools.cache
def program() -> Any:
    """releasetrack.py as a module; no bytecode is left beside it."""
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location("releasetrack", PROGRAM)
    assert spec and spec.loader
    sys.modules["releasetrack"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# == load ======================================================================
#
# A process of its own that asks a server as fast as it answers, over kept-alive connections with one
# request under way each.


class Asker:
    """A connection with one request under way."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked_at = 0.0
        self._read = b""

    def ask(self, request: bytes, now: float) -> None:
        self.asked_at, self._read = now, b""
        self.socket.sendall(request)

    def status(self) -> bytes | None:
        """The status of the answer, once it is here to its end by its Content-Length (0 without one)."""
        chunk = self.socket.recv(1 << 17)
        if not chunk:
            raise BenchError("the server closed a connection")
        self._read = data = self._read + chunk
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return None
        at = data.find(b"Content-Length: ", 0, end)
        length = int(data[at + 16 : data.find(b"\r", at)]) if at > 0 else 0
        return data[9:12] if len(data) >= end + 4 + length else None

    def answer_to(self, request: bytes) -> bytes:
        """The status of the answer to a request, which is waited for."""
        self.ask(request, 0.0)
        while (status := self.status()) is None:
            pass
        return status


def requests_of(job: dict[str, Any]) -> Iterator[bytes]:
    """The job's requests, over and over; where it has a ``first`` number, that and the following filled in."""
    texts = [text.encode() for text in job["requests"]]
    if "first" not in job:
        return itertools.cycle(texts)
    return (texts[0] % number for number in itertools.count(job["first"]))


def ask_until(
    end: float, askers: Sequence[Asker], requests: Iterator[bytes], status: bytes
) -> Iterator[tuple[float, float]]:
    """``(asked at, answered at)`` of each answer; every connection is closed after its first beyond ``end``.

    Raises BenchError for another status, and when no answer comes.
    """
    poll = selectors.DefaultSelector()
    for asker in askers:
        poll.register(asker.socket, selectors.EVENT_READ, asker)
        asker.ask(next(requests), time.perf_counter())
    while poll.get_map():
        ready = poll.select(PATIENCE)
        if not ready:
            raise BenchError(f"no answer came within {PATIENCE:g} s")
        for key, _ in ready:
            asker = key.data
            got = asker.status()
            if got is None:
                continue
            if got != status:
                raise BenchError(f"it answered {got.decode('latin-1')}, not {status.decode()}")
            now = time.perf_counter()
            yield asker.asked_at, now
            if now < end:
                asker.ask(next(requests), now)
            else:
                poll.unregister(asker.socket)
                asker.socket.close()


def percentile(values: Sequence[float], hundredth: int) -> float:
    """Of values that are sorted, of which there is one at least."""
    return values[len(values) * hundredth // 100]


def ask_all(job: dict[str, Any]) -> dict[str, float]:
    """Requests a second, and the 50th and 99th percentile of their times in milliseconds.

    ``job``: port, connections, seconds, status, requests. Raises BenchError.
    """
    askers = [Asker(job["port"]) for _ in range(job["connections"])]
    begin = time.perf_counter() + WARM_UP
    end = begin + job["seconds"]
    took = sorted(
        answered_at - asked_at
        for asked_at, answered_at in ask_until(
            end, askers, requests_of(job), str(job["status"]).encode()
        )
        if begin <= answered_at < end
    )
    if len(took) < 10:
        raise BenchError(f"only {len(took)} answers came within {job['seconds']:g} s")
    return {
        "rate": len(took) / job["seconds"],
        "p50": 1000 * percentile(took, 50),
        "p99": 1000 * percentile(took, 99),
    }


def post_all(job: dict[str, Any]) -> dict[str, float]:
    """Signed POSTs a second by a bare loop around ``urlopen``. ``job``: url, count, body."""
    secret, body = b"whsec_" + b"0" * 44, job["body"].encode()
    begin = time.perf_counter()
    for _ in range(job["count"]):
        moment = str(int(time.time()))
        digest = hmac.new(secret, f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
        request = urllib.request.Request(
            job["url"],
            body,
            {
                "Content-Type": "application/json",
                "X-Service-Timestamp": moment,
                "X-Service-Signature": digest,
            },
        )
        with urllib.request.urlopen(request, timeout=15) as answer:
            answer.read()
    return {"rate": job["count"] / (time.perf_counter() - begin)}


def fetch_all(job: dict[str, Any]) -> dict[str, float]:
    """Seconds and CPU seconds of a plain pool that fetches answers and parses them. ``job``: url, count, threads."""

    def fetch(number: int) -> None:
        with urllib.request.urlopen(f"{job['url']}/{number}", timeout=15) as answer:
            json.loads(answer.read())

    begin, spent = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(job["threads"]) as pool:
        list(pool.map(fetch, range(job["count"])))
    return {"seconds": time.perf_counter() - begin, "CPU": time.process_time() - spent}


# == servers ===================================================================
#
# The floor, which is a server that does nothing; the receivers of deliveries, one process that
# answers 204 at once, or never below /hang; the forge that is polled. Each prints its port.


def serve_floor() -> None:
    """A bare bottle app that answers a fixed 300-byte JSON, or at /rows 20 rows of a database as JSON, under the
    server that the program makes for itself."""
    import bottle

    app, body = bottle.Bottle(), json.dumps({"filler": "x" * 286}).encode()
    db = sqlite3.connect(":memory:", check_same_thread=False)
    db.execute(
        "CREATE TABLE project (id INTEGER PRIMARY KEY, provider TEXT, name TEXT, version TEXT, date TEXT)"
    )
    db.executemany(
        "INSERT INTO project VALUES (?, 'bench', ?, 'v1.49.0', '2026-01-22T01:00:00Z')",
        [(number, project_name(number)) for number in range(PROJECTS)],
    )
    columns = ("id", "provider", "name", "version", "date")

    @app.route("/")
    def fixed() -> bytes:
        bottle.response.content_type = "application/json"
        return body

    @app.route("/rows")
    def rows() -> bytes:
        bottle.response.content_type = "application/json"
        found = db.execute(
            "SELECT id, provider, name, version, date FROM project ORDER BY id DESC LIMIT 20"
        ).fetchall()
        return json.dumps({"projects": [dict(zip(columns, row)) for row in found]}).encode()

    server, address = program().make_server(app, program().Settings(port=0))
    print(address.rpartition(":")[2], flush=True)
    server.run()


def length_of(head: bytes) -> int:
    """Bytes of the body that follows a request's head, which is in lower case."""
    _, mark, length = head.partition(b"\r\ncontent-length:")
    return int(length.split(b"\r", 1)[0]) if mark else 0


class Receiver:
    """What was received since ``/forget`` was asked for; ``/seen`` says it."""

    ACCEPTED = b"HTTP/1.1 204 No Content\r\n\r\n"

    def __init__(self) -> None:
        self.count, self.first, self.last = 0, 0.0, 0.0

    def answer(self, path: bytes) -> bytes:
        """The answer to a request; empty where none is given."""
        if path == b"/seen":
            text = json.dumps({"count": self.count, "seconds": self.last - self.first})
            return f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()
        if path == b"/forget":
            self.count = 0
            return self.ACCEPTED
        if path.startswith(b"/hang/"):
            return b""
        self.last = time.perf_counter()
        if not self.count:
            self.first = self.last
        self.count += 1
        return self.ACCEPTED

    def take(self, client: socket.socket, unread: bytes) -> bytes | None:
        """What is still unread after more has come and a whole request was answered; None: close the connection."""
        chunk = client.recv(1 << 16)
        read = unread + chunk
        end = read.find(b"\r\n\r\n")
        if not chunk or end < 0:
            return read if chunk else None
        head = read[:end].lower()
        if len(read) < end + 4 + length_of(head):
            return read
        answer = self.answer(read.split(b" ", 2)[1])
        client.sendall(answer)
        return None if answer and b"connection: close" in head else b""


def serve_receiver() -> None:
    """Receive for ever."""
    receiver, poll = Receiver(), selectors.DefaultSelector()
    unread: dict[socket.socket, bytes] = {}
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    poll.register(listener, selectors.EVENT_READ)
    print(listener.getsockname()[1], flush=True)
    while True:
        for key, _ in poll.select():
            client: Any = key.fileobj
            if client is listener:
                client, _ = listener.accept()
                poll.register(client, selectors.EVENT_READ)
                unread[client] = b""
                continue
            try:
                rest = receiver.take(client, unread[client])
            except OSError:  # the sender went away
                rest = None
            if rest is None:
                poll.unregister(client)
                client.close()
                del unread[client]
            else:
                unread[client] = rest


class Peer(asyncio.Protocol, abc.ABC):
    """A connection to a server that says at ``/seen`` what it has seen since ``/forget`` was asked for; after
    ``/calm`` all goes well there and nothing happens any more. Requests come one after the other."""

    is_calm = False  # this and the next of all connections
    chance = random.Random(SEED)

    def connection_made(self, transport: Any) -> None:
        self._transport, self._read = transport, b""

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, mark, body = self._read.partition(b"\r\n\r\n")
        head = head.lower()
        if not mark or len(body) < length_of(head):
            return
        self._read, path = b"", head.split(maxsplit=2)[1]
        if path == b"/seen":
            self.answer(head, answer_of(self.seen()))
        elif path in (b"/forget", b"/calm"):
            Peer.is_calm = path == b"/calm"
            if not Peer.is_calm:
                self.forget()
            self.answer(head, answer_of(None))
        else:
            self.serve(path, head, body)

    @abc.abstractmethod
    def seen(self) -> dict[str, Any]:
        """What has been seen, for ``/seen``."""

    @abc.abstractmethod
    def forget(self) -> None:
        """Begin anew."""

    @abc.abstractmethod
    def serve(self, path: bytes, head: bytes, body: bytes) -> None:
        """Answer any other request."""

    def answer(self, head: bytes, answer: bytes, after: float = 0.0) -> None:
        """Answer after so many seconds; the head is of the request."""
        if after:
            asyncio.get_running_loop().call_later(after, self.answer, head, answer)
        elif not self._transport.is_closing():
            self._transport.write(answer)
            if b"\r\nconnection: close" in head:
                self._transport.close()

    def stumble(self, head: bytes) -> float | None:
        """Seconds that the answer is late; None where the request got none that is any good. FAULTS of all get
        one of the three."""
        if Peer.is_calm or self.chance.random() >= FAULTS:
            return 0.0
        fault = self.chance.randrange(3)
        if fault == 0:
            self.answer(
                head, b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", LATENCY
            )
        elif fault == 1:
            at_once = struct.pack("ii", 1, 0)
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, at_once
            )
            self._transport.abort()
        return LATE if fault == 2 else None


class Forge(Peer):
    """A connection to a GitLab that has RELEASES releases of every project. Its answers take LATENCY.

    /small/ answers 20 KiB, each project's own; /plain/ and /gzip/ answer 1 MiB, most of it files, which
    nobody keeps. To a conditional request it answers 304. /news/ has a new release of a project at each
    request, and answers the newest SHOWN; so does /faulty/, unless it stumbles.
    """

    NOT_MODIFIED = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'
    answers: dict[bytes, bytes] = {}
    count, first = 0, 0.0  # of all connections
    published: Counter[str] = Counter()
    began_at = time.time()

    def seen(self) -> dict[str, Any]:
        return {"count": Forge.count, "first": Forge.first, "published": Forge.published}

    def forget(self) -> None:
        Forge.count, Forge.published = 0, Counter()

    def serve(self, path: bytes, head: bytes, body: bytes) -> None:
        if not Forge.count:
            Forge.first = time.time()
        Forge.count += 1
        kind = path.split(b"/")[1]
        if kind in (b"news", b"faulty"):
            late = self.stumble(head) if kind == b"faulty" else 0.0
            if late is not None:
                name = urllib.parse.unquote(path.split(b"/")[5].decode())
                self.answer(head, answer_of(self.news(name)), LATENCY + late)
            return
        answer = self.NOT_MODIFIED if b"\r\nif-none-match:" in head else self.listed(kind, path)
        self.answer(head, answer, LATENCY)

    def listed(self, kind: bytes, path: bytes) -> bytes:
        """The releases or tags of a project; those of /small/ are its own, so that none is read for another."""
        if kind != b"small":
            return self.answers[kind]
        list_ = path.partition(b"?")[0]
        answer = self.answers.get(list_)
        if answer is None:
            name = path.split(b"/")[5] if path.count(b"/") > 4 else path
            entries = gitlab_releases(1, int(hashlib.sha1(name).hexdigest()[:3], 16))
            if list_.endswith(b"/repository/tags"):
                entries = [entry | {"name": entry["tag_name"]} for entry in entries]
            answer = self.answers[list_] = answer_of(entries)
        return answer

    def news(self, name: str) -> list[dict[str, Any]]:
        Forge.published[name] += not Peer.is_calm
        newest = Forge.published[name]
        return [
            gitlab_release(
                f"v2.{at}.0",
                datetime.datetime.fromtimestamp(self.began_at + at, datetime.timezone.utc).strftime(
                    "%Y-%m-%dT%H:%M:%S.000Z"
                ),
            )
            for at in range(newest, max(0, newest - SHOWN), -1)
        ]


class Inbox(Peer):
    """A connection to a receiver that takes TAKES seconds for a delivery and remembers it; /faulty/ may stumble."""

    ACCEPTED = Receiver.ACCEPTED
    taken: dict[
        str, list[Any]
    ] = {}  # webhook-id -> how often it came, how often it was accepted, its bodies
    senders: Counter[str] = Counter()  # by the word in the signature's header

    def seen(self) -> dict[str, Any]:
        return {"taken": self.taken, "senders": self.senders}

    def forget(self) -> None:
        self.taken.clear()
        self.senders.clear()

    def serve(self, path: bytes, head: bytes, body: bytes) -> None:
        about = self.taken.setdefault(
            re.findall(rb"\r\nwebhook-id: *(\S+)", head)[0].decode(), [0, 0]
        )
        digest = hashlib.sha1(body).hexdigest()
        about[0] += 1
        about += [] if digest in about else [digest]
        self.senders[re.findall(rb"\r\nx-([a-z0-9-]+)-signature:", head)[0].decode()] += 1
        late = self.stumble(head) if path.startswith(b"/faulty/") else 0.0
        if late is not None:
            about[1] += 1
            self.answer(head, self.ACCEPTED, TAKES + late)


def answer_of(value: Any, is_packed: bool = False) -> bytes:
    """200 with a value as JSON, gzipped where ``is_packed``."""
    body, packed = json.dumps(value).encode(), ""
    if is_packed:
        body, packed = gzip.compress(body), "Content-Encoding: gzip\r\n"
    return (
        f'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nETag: "1"\r\n{packed}'
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def gitlab_release(version: str, date: str, at: int = 0, files: int = 0) -> dict[str, Any]:
    """An entry of a list by https://docs.gitlab.com/api/releases/."""
    text = f"Fixes number {at} and what came with it."
    return {
        "tag_name": version,
        "name": f"Release {version}",
        "description": text,
        "description_html": f"<p>{text}</p>",
        "released_at": date,
        "upcoming_release": False,
        "commit": {"id": hashlib.sha1(b"%d" % at).hexdigest()},
        "assets": {
            "count": files,
            "links": [
                {
                    "id": 1000 * at + number,
                    "name": f"tool-1.{at}-{number}.tar.gz",
                    "link_type": "package",
                    "url": f"https://example.org/files/{hashlib.sha1(b'%d' % number).hexdigest()}/{at}.tar.gz",
                }
                for number in range(files)
            ],
        },
    }


def gitlab_releases(files: int, number: int = 0) -> list[dict[str, Any]]:
    """RELEASES of the project with that number, newest first; each has so many files."""
    first_day = datetime.datetime(2020, 1, 1)
    return [
        gitlab_release(
            f"v{number % 40}.{at}.{number}",
            (first_day + datetime.timedelta(days=at, seconds=number)).strftime(
                "%Y-%m-%dT%H:%M:%S.000Z"
            ),
            at,
            files,
        )
        for at in reversed(range(RELEASES))
    ]


def serve_peers(protocol: type[Peer]) -> None:
    """Answer for ever."""

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(
            protocol, "127.0.0.1", 0, backlog=1024
        )
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(serve())


def serve_forge() -> None:
    """Answer for ever."""
    big = gitlab_releases(131)
    Forge.answers = {
        b"plain": answer_of(big),
        b"gzip": answer_of(big, True),
    }
    serve_peers(Forge)


# == stores ====================================================================
#
# What the program is given to serve and to send, written through its own Store.


@dataclasses.dataclass(frozen=True)
class Filled:
    """A store with an account of an administrator: its file, a key, a token of a browser, the ids of its projects."""

    path: pathlib.Path
    key: str
    token: str
    ids: tuple[str, ...]


def project_name(number: int) -> str:
    return f"owner-{number % 7}/project-{number}"


def fill(path: pathlib.Path, count: int) -> Filled:
    """A new store of so many projects with RELEASES releases each, none of them due for a check. The Store writes
    TEMPLATES of them, and the others are copies of those."""
    return grow(fill_by_store(path, min(count, TEMPLATES)), count)


def fill_by_store(path: pathlib.Path, count: int) -> Filled:
    """The same, all written by the Store; it takes 5 ms a project."""
    rt = program()
    store = rt.Store(str(path))
    account = store.accounts.add(
        "user", "bench@example.org", "Bench", rt.NO_PASSWORD, is_admin=True
    )
    key, ids = store.keys.add(account.id, "bench", ["0.0.0.0/0", "::/0"]), []
    token = rt.secrets.token_urlsafe(32)
    store.sessions.add(account.id, token, "127.0.0.1", "bench")
    for number in range(count):
        name = project_name(number)
        project, source = store.projects.add(account.id, "bench", name, name, settings={})
        releases = [
            rt.Release(
                f"v1.{at}.0",
                f"2026-01-{at % 28 + 1:02}T{at // 28:02}:{number % TEMPLATES:02}:00Z",
                note=rt.Note(f"v1.{at}.0", "<p>Fixes.</p>", f"https://example.org/{at}"),
            )
            for at in range(RELEASES)
        ]
        record(store, source.id, releases)
        ids.append(project.id)
    store.close()
    return Filled(path, key.secret, token, tuple(ids))


# What a project is kept in: the table, which of its rows are a template's, and what a copy has instead.
COPIED = (
    ("source", "id = :old", {"id": ":new", "key": ":name", "name": ":name"}),
    (
        "project",
        "source_id = :old",
        {"id": ":id", "source_id": ":new", "name": ":name", "added_at": "added_at + :new / 1e6"},
    ),
    ("release", "source_id = :old", {"id": "NULL", "source_id": ":new"}),
    (
        "note",
        "release_id IN (SELECT id FROM release WHERE source_id = :old)",
        {
            "release_id": """
        (SELECT copy.id FROM release AS copy JOIN release AS template ON template.version = copy.version
          WHERE copy.source_id = :new AND template.id = note.release_id)"""
        },
    ),
)


def columns_of(db: sqlite3.Connection, table: str) -> list[str]:
    return [name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))]


def grow(store: Filled, count: int) -> Filled:
    """The store with so many projects, all that came in one transaction. Its own are the templates of the others."""
    have = len(store.ids)
    copies = [
        {
            "old": number % have + 1,
            "new": number + 1,
            "name": project_name(number),
            "id": program().make_id(),
        }
        for number in range(have, count)
    ]
    with contextlib.closing(sqlite3.connect(store.path)) as db, db:
        for table, condition, instead in COPIED:
            columns = columns_of(db, table)
            values = [instead.get(column, column) for column in columns]
            db.executemany(
                f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} FROM {table} "
                f"WHERE {condition} ORDER BY rowid",
                copies,
            )
    return dataclasses.replace(store, ids=(*store.ids, *(copy["id"] for copy in copies)))


def install(store: Filled, count: int) -> Filled:
    """The store, with an old version of so many of its projects installed at a place, compared."""
    rt = program()
    opened = rt.Service(
        rt.Settings(db=str(store.path)), [dataclasses.replace(rt.PROVIDERS["github"], id="bench")]
    )
    (account,) = opened.store.accounts.all()
    opened.inventory.record_scan(
        account,
        "nas",
        "api",
        [
            ("", rt.Pin(project.name, "v1.0.0", provider="bench"))
            for project in opened.store.projects.of_ids(account.id, store.ids[:count])
        ],
    )
    opened.stop()
    return store


def check_copies(folder: pathlib.Path) -> None:
    """Raise BenchError unless a store with copies is as the Store itself would have written it."""
    count = TEMPLATES + 10
    copied, written = (
        kept_in(make(folder / f"{make.__name__}-{count}.db", count))
        for make in (fill, fill_by_store)
    )
    for table, rows in written.items():
        if rows != copied[table]:
            raise BenchError(f"copies in the table {table} are not as the Store writes them")


def kept_in(store: Filled) -> dict[str, list[str]]:
    """What stands in the tables of projects, random ids aside; of an instant whether there is one."""
    found = {}
    with contextlib.closing(sqlite3.connect(store.path)) as db:
        for table in (table for table, *_ in COPIED):
            columns = columns_of(db, table)
            found[table] = sorted(
                repr([
                    value is None if column.endswith("_at") else value
                    for column, value in zip(columns, row)
                    if column not in ("account_id", "owner_id")
                    and (table, column) != ("project", "id")
                ])
                for row in db.execute(f"SELECT {', '.join(columns)} FROM {table}")
            )
    return found


def record(store: Any, source_id: int, releases: Sequence[Any] = (), **found: Any) -> None:
    """Record what a check found, the next one in a day."""
    if not store.sources.claim([source_id], "bench", time.time()):
        raise BenchError(f"source {source_id} could not be claimed")
    store.sources.record_check(
        source_id,
        "bench",
        program().CheckResult(
            time.time() + 86400, after={one.version: one for one in releases}, **found
        ),
    )


def add_sources(path: pathlib.Path, count: int, urls: Sequence[str] = ()) -> None:
    """Track so many projects of the forge, none of them due for a check; each tells one of the webhooks at the URLs,
    if there are any."""
    store = program().Store(str(path))
    (account,) = store.accounts.all()
    ids = add_webhooks(store, account.id, urls)
    for number in range(count):
        settings = {"destinations": {"webhook": [ids[number % len(ids)]]}} if ids else {}
        store.projects.add(
            account.id, "forge", project_name(number), project_name(number), settings=settings
        )
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "UPDATE source SET next_check_at = ? WHERE provider = 'forge'", (time.time() + 86400,)
        )


def add_webhooks(store: Any, account_id: str, urls: Sequence[str]) -> list[str]:
    """The ids of new webhooks at the URLs."""
    rt = program()
    return [
        store.destinations.save(
            rt.Destination(
                rt.make_id(),
                account_id,
                "webhook",
                url,
                rt.read_settings("webhook", [("url", url)]),
                rt.make_signing_secret(),
            ),
            is_new=True,
        ).id
        for url in urls
    ]


def add_deliveries(path: pathlib.Path, count: int, urls: Sequence[str]) -> None:
    """Let so many deliveries of 1 KiB wait in a store, jitter evenly over webhooks at the URLs."""
    rt = program()
    store = rt.Store(str(path))
    (account,) = store.accounts.all()
    ids = add_webhooks(store, account.id, urls)
    for at, source in enumerate(store.sources.tracked()):
        (subscriber,) = store.projects.subscribers(source.id)
        body = body_of_1_kib(rt, subscriber)
        record(
            store,
            source.id,
            events=[
                rt.Event(
                    subscriber.project.id,
                    body,
                    "https://example.org/",
                    (rt.Recipient(ids[number % len(ids)], time.time()),),
                )
                for number in range(at, count, PROJECTS)
            ],
        )
    store.close()


def body_of_1_kib(rt: Any, subscriber: Any) -> dict[str, Any]:
    """The standard body of an event, its note filled up until it is 1,024 bytes of JSON."""
    note = rt.Note("v2.0.0", "x", "https://example.org/")
    body = rt.event_body(subscriber, rt.News("v2.0.0", "2026-02-01T00:00:00Z", note=note))
    missing = 1024 + 1 - len(json.dumps(body, separators=(",", ":")))
    body["note"]["message"] = "x" * missing
    return body


# == processes =================================================================
#
# Each is started here and ended by its own handle.


def quiet_environment() -> dict[str, str]:
    """The environment without proxies, which nothing on loopback shall go through, and with compiled files kept, as
    Python does."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and name != "PYTHONDONTWRITEBYTECODE"
    }


def own_command(task: str) -> list[str]:
    """The command that runs a task of TASKS."""
    return [sys.executable, str(pathlib.Path(__file__).resolve()), task]


@contextlib.contextmanager
def running(
    command: Sequence[str], log: pathlib.Path
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``(process, the first line that it printed)`` of a command that runs until it is ended here."""
    with open(log, "a+", encoding="utf-8") as said:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=said, text=True, env=quiet_environment()
        )
        try:
            assert process.stdout
            first = process.stdout.readline().strip()
            if not first:
                said.seek(0)
                raise BenchError((said.read().strip().splitlines() or ["it said nothing"])[-1])
            yield process, first
        finally:
            end(process)


def end(process: subprocess.Popen[str]) -> None:
    """End a process, by force where it takes longer than 10 seconds."""
    process.terminate()
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def told(task: str, job: dict[str, Any]) -> dict[str, float]:
    """What a task found out in a process of its own. Raises BenchError with what it complained of."""
    done = subprocess.run(
        own_command(task),
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        env=quiet_environment(),
    )
    if done.returncode:
        raise BenchError((done.stderr.strip().splitlines() or [f"{task} failed"])[-1])
    return json.loads(done.stdout)


def resident_mib(process_id: int) -> float:
    """MiB of memory that a process holds, by https://man7.org/linux/man-pages/man5/proc_pid_status.5.html."""
    return _memory_mib(process_id, "VmRSS")


def highest_mib(process_id: int) -> float:
    """The most MiB that a process held since ``forget_highest``."""
    return _memory_mib(process_id, "VmHWM")


def _memory_mib(process_id: int, name: str) -> float:
    status = pathlib.Path(f"/proc/{process_id}/status").read_text("utf-8")
    return int(status.split(f"{name}:")[1].split()[0]) / 1024


def forget_highest(process_id: int) -> None:
    """By https://man7.org/linux/man-pages/man5/proc_pid_clear_refs.5.html."""
    pathlib.Path(f"/proc/{process_id}/clear_refs").write_text("5", "utf-8")


def cpu_seconds(process_id: int) -> float:
    """What a process has computed, by https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html."""
    fields = pathlib.Path(f"/proc/{process_id}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# == measurements ==============================================================
#
# What the rows are made of. Every method measures once; ``in_turn`` repeats it beside its floor.


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A row's figure and floor in the row's unit, and their ratio; None: there is none."""

    figure: float
    floor: float | None = None
    ratio: float | None = None
    figures: tuple[float, ...] = ()  # of each run
    ratios: tuple[float, ...] = ()


def outcome(pairs: Sequence[tuple[float, float]]) -> Outcome:
    """The medians of what was measured in turn, ``(floor, figure)`` each."""
    floors, figures = zip(*pairs)
    return Outcome(
        statistics.median(figures),
        statistics.median(floors),
        statistics.median(figures) / statistics.median(floors),
        figures,
        tuple(figure / floor for floor, figure in pairs),
    )


def measured_once(figure: float) -> Outcome:
    return Outcome(figure, figures=(figure,))


def in_turn(figure: Callable[[], float], floor: Callable[[], float]) -> Outcome:
    return outcome([(floor(), figure()) for _ in range(RUNS)])


def both_in_turn(
    figure: Callable[[], dict[str, float]], floor: Callable[[], dict[str, float]]
) -> dict[str, Outcome]:
    """By what both tell, such as "rate" and "p99": the outcome of the same runs."""
    runs = [(floor(), figure()) for _ in range(RUNS)]
    return {
        name: outcome([(of_floor[name], of_figure[name]) for of_floor, of_figure in runs])
        for name in runs[0][0]
        if name in runs[0][1]
    }


@dataclasses.dataclass(frozen=True)
class Ask:
    """A request that the program is loaded with: method, path with ``{id}`` and ``{name}``, what it answers."""

    path: str
    status: int = 200
    key: str = ""  # instead of the right one
    is_page: bool = False  # asked for by a browser that is signed in
    body: str = ""  # with a place for a number; then it is a POST

    def texts(self, store: Filled) -> list[str]:
        """The requests as they go over the wire, one for each project where the path names one."""
        head = f"{'POST' if self.body else 'GET'} %s HTTP/1.1\r\nHost: 127.0.0.1\r\n" + (
            f"Cookie: releasetrack={store.token}\r\n"
            if self.is_page
            else f"X-Key: {self.key or store.key}\r\n"
        )
        if self.body:
            size = len(self.body.encode() % 0)
            return [
                head % self.path
                + f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n{self.body}"
            ]
        paths = [
            self.path.format(id=id_, name=project_name(at).replace("/", "%2F"))
            for at, id_ in enumerate(store.ids)
        ]
        return [head % path + "\r\n" for path in dict.fromkeys(paths)]


BY_ID = Ask("/v1/projects/{id}")
BY_NAME = Ask("/v1/projects/bench/{name}")
PROJECT_PAGE = Ask("/v1/projects")
RELEASE_PAGE = Ask("/v1/projects/{id}/releases")
WRONG_KEY = Ask("/v1/projects/{id}", 401, key="rt_" + "0" * 64)
UNKNOWN = Ask("/v1/projects/" + "a" * 26, 404)
RELEASES_PAGE = Ask("/", is_page=True)
PROJECTS_PAGE = Ask("/projects", is_page=True)
ONE_PROJECT_PAGE = Ask("/projects/{id}", is_page=True)
UPDATES_PAGE = Ask("/updates", is_page=True)
JOURNAL = Ask("/deliveries", is_page=True)
SEARCH = Ask("/v1/projects/search?q=no-such-name")
ADD_TAG = Ask("/v1/tags", body='{"name": "tag %012d"}')


@dataclasses.dataclass(frozen=True)
class Tracking:
    """The program with sources of the forge that it polls once they are made due here."""

    process: subprocess.Popen[str]
    port: int
    db: sqlite3.Connection
    count: int

    def make_due(self, within: int = 1) -> None:
        """Have all sources checked from now on within so many seconds."""
        self.db.execute(
            "UPDATE source SET next_check_at = ? + id % ? WHERE provider = 'forge'",
            (time.time(), within),
        )

    def forget_validators(self) -> None:
        """Have the next poll answered in full."""
        self.db.execute("UPDATE source SET etag_url = NULL, etag = NULL")

    def checked(self, since: float) -> tuple[int, float]:
        """``(how many, when the last of them)`` were checked since a moment. Raises BenchError where one failed."""
        ((count, last, error),) = self.db.execute(
            """
            SELECT count(*), max(checked_at), max(error) FROM source WHERE provider = 'forge' AND checked_at >= ?
            """,
            (since,),
        ).fetchall()
        if error:
            raise BenchError(error)
        return count, last or 0.0

    def all_checked(self, since: float) -> float:
        """When the last of all was checked, which is waited for."""
        patience = 2 * PATIENCE + self.count / 20
        until = time.monotonic() + patience
        while (checked := self.checked(since))[0] < self.count:
            if time.monotonic() > until:
                raise BenchError(f"{checked[0]} of {self.count} checks came within {patience:g} s")
            time.sleep(0.05)
        return checked[1]


class Inside:
    """The program's application on a store, called in this process: what an answer takes, without the server, the
    sockets and other threads, is told apart far more finely."""

    def __init__(self, store: Filled) -> None:
        rt = program()
        self._store = store
        self._service = rt.Service(
            rt.Settings(db=str(store.path), rate_limit=10**9, provider=(PROVIDER,))
        )

    def close(self) -> None:
        self._service.stop()

    def microseconds(self, ask: Ask) -> float:
        """The median of CALLS answers, for projects all over the store. Raises BenchError."""
        took = []
        for text in random.Random(SEED).choices(ask.texts(self._store), k=CALLS):
            environ, said = environ_of(text), list[str]()
            begin = time.perf_counter()
            b"".join(self._service.app(environ, lambda status, *_: said.append(status)))
            took.append(time.perf_counter() - begin)
            if not said[0].startswith(str(ask.status)):
                raise BenchError(f"{ask.path} was answered {said[0]}")
        return 1e6 * statistics.median(took)


def environ_of(text: str) -> dict[str, Any]:
    """A request without a body, as PEP 3333 hands it to an application."""
    first, *headers = text.strip().split("\r\n")
    method, target, _ = first.split()
    path, _, query = target.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "REQUEST_URI": target,
        "PATH_INFO": urllib.parse.unquote(path),
        "QUERY_STRING": query,
        "REMOTE_ADDR": "127.0.0.1",
    }
    environ |= {
        f"HTTP_{name.upper().replace('-', '_')}": value
        for name, value in (header.split(": ", 1) for header in headers)
    }
    wsgiref.util.setup_testing_defaults(environ)
    return environ


class Stage:
    """The processes and stores of one run, each made when it is first needed."""

    def __init__(self, folder: pathlib.Path, stack: contextlib.ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._copies = itertools.count()

    @functools.cached_property
    def store(self) -> Filled:
        return fill(self._folder / "releases.db", PROJECTS)

    @functools.cached_property
    def forge_port(self) -> int:
        return self._port_of("forge")

    def copy_of(self, path: pathlib.Path) -> pathlib.Path:
        """A fresh copy of a store that nobody has open."""
        copy = self._folder / f"copy-{next(self._copies)}.db"
        shutil.copyfile(path, copy)
        return copy

    def _port_of(self, task: str) -> int:
        return int(
            self._stack.enter_context(running(own_command(task), self._folder / f"{task}.log"))[1]
        )

    @contextlib.contextmanager
    def serving(
        self, path: pathlib.Path, *options: str
    ) -> Iterator[tuple[subprocess.Popen[str], int]]:
        """``(process, port)`` of the program on a store. Its limits are out of reach, but kept and told."""
        command = [
            sys.executable,
            str(PROGRAM),
            "serve",
            "--db",
            str(path),
            "--port",
            "0",
            "--rate-limit",
            str(10**9),
            "--quota",
            "tags=999999999",
            "--poll-interval",
            "86400",
            "--provider",
            PROVIDER,
            *options,
        ]
        with running(command, self._folder / "serve.log") as (process, first):
            yield process, int(first.rpartition(":")[2])

    @contextlib.contextmanager
    def watching(
        self, path: pathlib.Path, count: int, kind: str, *options: str
    ) -> Iterator[Tracking]:
        """The program on a store with so many sources of a kind of the forge."""
        site = f"forge=gitlab:http://127.0.0.1:{self.forge_port}/{kind}"
        with (
            self.serving(path, "--provider", site, *options) as (process, port),
            contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=PATIENCE)) as db,
        ):
            yield Tracking(process, port, db, count)

    @staticmethod
    def _tell(port: int, path: str) -> Any:
        """What a receiver or the forge answers to ``forget``, ``seen`` or ``calm``."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{port}/{path}", timeout=PATIENCE) as answer:
            return json.loads(answer.read() or "null")


class Bench(Stage):
    """What the rows of the table measure."""

    def __init__(
        self, folder: pathlib.Path, stack: contextlib.ExitStack, is_quick: bool, many: int
    ) -> None:
        super().__init__(folder, stack)
        self._many = many  # projects of the large store
        self._seconds = 0.3 if is_quick else 0.8  # of load in one run
        self._share = 0.3 if is_quick else 1.0  # of the deliveries in one run
        self._numbers = itertools.count(0, 10**6)  # a million tags for each run

    # Processes and stores

    @functools.cached_property
    def large_store(self) -> Filled:
        check_copies(self._folder)
        return install(fill(self._folder / "large.db", self._many), 500)

    @functools.cached_property
    def large_port(self) -> int:
        return self._stack.enter_context(self.serving(self.copy_of(self.large_store.path)))[1]

    @functools.cached_property
    def floor_port(self) -> int:
        return self._port_of("floor")

    @functools.cached_property
    def receiver_port(self) -> int:
        return self._port_of("receiver")

    @functools.cached_property
    def served_port(self) -> int:
        """Of the program on a store that has nothing to send."""
        return self._stack.enter_context(self.serving(self.copy_of(self.store.path)))[1]

    @functools.cache
    def _waiting(self, count: int, fast: int, hanging: int) -> pathlib.Path:
        path = self.copy_of(self.store.path)
        base = f"http://127.0.0.1:{self.receiver_port}"
        if hanging:  # first in line
            add_deliveries(
                path, 10 * hanging, [f"{base}/hang/{number}" for number in range(hanging)]
            )
        add_deliveries(path, count, [f"{base}/fast/{number}" for number in range(fast)])
        return path

    @contextlib.contextmanager
    def sending(self, count: int, fast: int, hanging: int = 0) -> Iterator[int]:
        """The port of the program on a fresh store in which so many deliveries to fast receivers wait, and
        ten to each hanging one. The receiver has seen none of them."""
        self._tell(self.receiver_port, "forget")
        with self.serving(self.copy_of(self._waiting(count, fast, hanging))) as (_, port):
            yield port

    def received(self, count: int) -> dict[str, float]:
        """``count`` and ``seconds`` from the first to the last, once so many have come."""
        until = time.monotonic() + PATIENCE
        while (seen := self._tell(self.receiver_port, "seen"))["count"] < count:
            if time.monotonic() > until:
                raise BenchError(
                    f"{seen['count']} of {count} deliveries came within {PATIENCE:g} s"
                )
            time.sleep(0.05)
        return seen

    # Serving

    def load(
        self, ask: Ask, connections: int, port: int | None = None, seconds: float = 0
    ) -> dict[str, float]:
        """The program under load: rate in requests a second, p50 and p99 in milliseconds."""
        served = (
            self.served_port if port is None else port
        )  # before the numbers: it fills the store
        numbered = {"first": next(self._numbers)} if ask.body else {}
        return told(
            "load",
            {
                "port": served,
                "connections": connections,
                "seconds": seconds or self._seconds,
                "status": ask.status,
                "requests": ask.texts(self.store),
                **numbered,
            },
        )

    def floor(self, connections: int) -> dict[str, float]:
        """The floor under load, with the headers that the program is sent."""
        return told(
            "load",
            {
                "port": self.floor_port,
                "connections": connections,
                "seconds": self._seconds,
                "status": 200,
                "requests": Ask("/").texts(self.store),
            },
        )

    def against_floor(self, ask: Ask) -> Outcome:
        return in_turn(lambda: self.load(ask, 8)["rate"], lambda: self.floor(8)["rate"])

    def page(self, ask: Ask) -> Outcome:
        """A page of the large store, and the floor's answer of 20 rows, by one connection."""
        job = {"connections": 1, "seconds": self._seconds, "status": 200}
        return in_turn(
            lambda: told(
                "load", job | {"port": self.large_port, "requests": ask.texts(self.large_store)}
            )["rate"],
            lambda: told(
                "load", job | {"port": self.floor_port, "requests": Ask("/rows").texts(self.store)}
            )["rate"],
        )

    def at_32(self, ask: Ask) -> Outcome:
        return in_turn(lambda: self.load(ask, 32)["rate"], lambda: self.load(ask, 8)["rate"])

    @functools.cached_property
    def posting(self) -> dict[str, Outcome]:
        """By "rate" and "p99": what posting tags reaches, and the floor."""
        return both_in_turn(lambda: self.load(ADD_TAG, 8), lambda: self.floor(8))

    @functools.cached_property
    def reading_beside_sending(self) -> dict[str, Outcome]:
        """By "rate" and "p99": reading while 10,000 deliveries are sent, and alone."""
        return both_in_turn(self._load_beside_sending, lambda: self.load(BY_ID, 1))

    def _load_beside_sending(self) -> dict[str, float]:
        with self.sending(10_000, 16) as port:
            self.received(50)
            found = self.load(BY_ID, 1, port, 2 * self._seconds)
            if self.received(0)["count"] >= 10_000:
                raise BenchError("the deliveries were over before the reading was")
            return found

    # Deliveries

    def deliver(self, count: int, fast: int, hanging: int = 0) -> float:
        """Seconds from the first to the last of the deliveries to fast receivers."""
        with self.sending(count, fast, hanging):
            return self.received(count)["seconds"]

    def against_urlopen(self, count: int, fast: int) -> Outcome:
        """Deliveries a second, and those of a loop that only signs and posts."""
        count = int(count * self._share)
        job = {
            "url": f"http://127.0.0.1:{self.receiver_port}/fast/0",
            "count": int(2000 * self._share),
            "body": "x" * 1024,
        }
        return in_turn(lambda: count / self.deliver(count, fast), lambda: told("post", job)["rate"])

    def beside_hanging(self) -> Outcome:
        return in_turn(lambda: self.deliver(1000, 90, 10), lambda: self.deliver(1000, 90))

    # Polling

    @functools.cache
    def _tracked(self, count: int) -> pathlib.Path:
        path = self.copy_of(self.store.path)
        add_sources(path, count)
        return path

    @contextlib.contextmanager
    def tracking(
        self, count: int, kind: str = "small", at_once: int = AT_ONCE
    ) -> Iterator[Tracking]:
        """The program on a fresh store with so many sources of the forge, at rest."""
        path = self.copy_of(self._tracked(count))
        with self.watching(path, count, kind, "--host-limit", str(at_once)) as tracking:
            self.first_answer(tracking.port)
            time.sleep(1)
            yield tracking

    def poll(self, tracking: Tracking) -> dict[str, float]:
        """Seconds from the first request until the last source is recorded, and the program's CPU seconds."""
        self._tell(self.forge_port, "forget")
        begin, spent = time.time(), cpu_seconds(tracking.process.pid)
        tracking.make_due()
        last = tracking.all_checked(begin)
        return {
            "seconds": last - self._tell(self.forge_port, "seen")["first"],
            "CPU": cpu_seconds(tracking.process.pid) - spent,
        }

    def poll_cold_and_warm(self) -> dict[str, float]:
        """The first poll of a store, which finds RELEASES releases of each source, and the next, which is told 304."""
        with self.tracking(int(1000 * self._share)) as tracking:
            cold, warm = self.poll(tracking), self.poll(tracking)
            return {
                "cold": cold["seconds"],
                "cold CPU": cold["CPU"],
                "warm": warm["seconds"],
                "warm CPU": warm["CPU"],
            }

    def fetch_plainly(self) -> dict[str, float]:
        """As many answers, fetched and parsed by a plain pool that asks for each in full."""
        found = told(
            "fetch",
            {
                "url": f"http://127.0.0.1:{self.forge_port}/small",
                "threads": AT_ONCE,
                "count": int(1000 * self._share),
            },
        )
        return {
            "cold": found["seconds"],
            "cold CPU": found["CPU"],
            "warm": found["seconds"],
            "warm CPU": found["CPU"],
        }

    @functools.cached_property
    def polling(self) -> dict[str, Outcome]:
        """By "cold" and "warm", each also with " CPU": the seconds of a poll, and of the plain pool."""
        return both_in_turn(self.poll_cold_and_warm, self.fetch_plainly)

    @functools.cached_property
    def reading_beside_polling(self) -> dict[str, Outcome]:
        """By "rate" and "p99": reading during a poll that finds RELEASES releases of each source, and alone."""
        return both_in_turn(self._load_beside_polling, lambda: self.load(BY_ID, 8))

    def _load_beside_polling(self) -> dict[str, float]:
        with self.tracking(1000) as tracking:
            self._tell(self.forge_port, "forget")
            tracking.make_due()
            until = time.monotonic() + PATIENCE
            while not self._tell(self.forge_port, "seen")["count"]:
                if time.monotonic() > until:
                    raise BenchError(f"nothing was polled within {PATIENCE:g} s")
                time.sleep(0.01)
            found = self.load(BY_ID, 8, tracking.port)
            if tracking.checked(0)[0] >= tracking.count:
                raise BenchError("the poll was over before the reading was")
            return found

    def memory_of_poll(self, kind: str, at_once: int) -> Outcome:
        """MiB that a poll of large answers adds at its highest to what the program held before."""
        with self.tracking(int(1000 * self._share), kind, at_once) as tracking:
            forget_highest(tracking.process.pid)
            before = resident_mib(tracking.process.pid)
            self.poll(tracking)
            return measured_once(highest_mib(tracking.process.pid) - before)

    @functools.cached_property
    def full_poll(self) -> dict[str, Outcome]:
        """By "after" and "highest": MiB of the program that has found RELEASES releases of each of many sources, and
        been given the same lists in full once more; five seconds after that, and at its highest."""
        with self.tracking(self._many) as tracking:
            self.poll(tracking)
            tracking.forget_validators()
            self.poll(tracking)
            time.sleep(5)
            return {
                "after": measured_once(resident_mib(tracking.process.pid)),
                "highest": measured_once(highest_mib(tracking.process.pid)),
            }

    # Growth

    @functools.cached_property
    def _many_and_few(self) -> tuple[Inside, Inside]:
        return self._inside(self.large_store), self._inside(self.store)

    @functools.cached_property
    def _told_of_many_and_few(self) -> tuple[Inside, Inside]:
        """Of stores with 10,000 deliveries, and with 100."""
        many, few = (
            dataclasses.replace(self.store, path=self._waiting(count, 16, 0))
            for count in (10_000, 100)
        )
        return self._inside(many), self._inside(few)

    def _inside(self, store: Filled) -> Inside:
        inside = Inside(dataclasses.replace(store, path=self.copy_of(store.path)))
        self._stack.callback(inside.close)
        return inside

    def growth(self, ask: Ask) -> Outcome:
        """Microseconds of an answer with many projects, and with PROJECTS."""
        many, few = self._many_and_few
        return in_turn(lambda: many.microseconds(ask), lambda: few.microseconds(ask))

    def growth_of_search(self) -> Outcome:
        """Of one that finds nothing; its ratio is for each project, so that 1 is linear."""
        found = self.growth(SEARCH)
        ratios = [ratio * PROJECTS / self._many for ratio in found.ratios]
        return dataclasses.replace(found, ratio=statistics.median(ratios), ratios=tuple(ratios))

    def growth_of_journal(self) -> Outcome:
        many, few = self._told_of_many_and_few
        return in_turn(lambda: many.microseconds(JOURNAL), lambda: few.microseconds(JOURNAL))

    def comparison(self) -> Outcome:
        """Seconds that 500 installations take, each compared with 200 releases, of which up to 50 are newer; half of
        them tags of images in two variants."""
        rt, chance, found = program(), random.Random(1), []
        for number in range(500):
            versions = [f"{number % 20}.{at // 10}.{at % 10}" for at in range(200)]
            if number % 2:
                versions = [
                    version + variant for version in versions[:100] for variant in ("", "-alpine")
                ]
            rules = rt.IMAGES if number % 2 else rt.GENERIC
            known = {
                version: rt.Release(version, rt.timestamp(1.7e9 + at * 3600))
                for at, version in enumerate(versions)
            }
            places = rt.ranked_places(known, rules)
            known = {
                version: dataclasses.replace(one, place=places[version])
                for version, one in known.items()
            }
            found.append((rt.Installation("nas", chance.choice(versions[-50:])), known, rules))

        def seconds() -> float:
            rt._reading.parts.cache_clear()
            began = time.perf_counter()
            for one, known, rules in found:
                rt.compared(one, known, rules)
            return time.perf_counter() - began

        return Outcome(
            statistics.median(runs := [seconds() for _ in range(RUNS)]), figures=tuple(runs)
        )

    def bytes_of_release(self) -> Outcome:
        """What releases without notes add to the file, each."""
        path, count = self._folder / "bytes.db", 200
        found = fill_by_store(path, TEMPLATES)
        before, rt = path.stat().st_size, program()
        store = rt.Store(str(path))
        for source in store.sources.tracked():
            record(
                store,
                source.id,
                [
                    rt.Release(
                        f"v2.{at}.0",
                        f"2026-02-{at % 28 + 1:02}T{at // 28:02}:00:00Z",
                        content_id=f"commit:{hashlib.sha1(b'%d' % at).hexdigest()}",
                    )
                    for at in range(count)
                ],
            )
        store.close()  # which moves the write-ahead log into the file
        return measured_once((path.stat().st_size - before) / (count * len(found.ids)))

    # The process itself

    def start(self) -> float:
        """Milliseconds from the start of the program on a filled store to its first answer."""
        path = self.store.path  # filled before the clock runs
        begin = time.perf_counter()
        with self.serving(path) as (_, port):
            self.first_answer(port)
            return 1000 * (time.perf_counter() - begin)

    def first_answer(self, port: int) -> None:
        """One project, asked for over one connection."""
        asker = Asker(port)
        status = asker.answer_to(BY_ID.texts(self.store)[0].encode())
        asker.socket.close()
        if status != b"200":
            raise BenchError(f"the first answer is {status.decode('latin-1')}")

    def imports(self) -> float:
        """Milliseconds that an interpreter takes with what no server can do without."""
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import bottle, waitress, sqlite3"], check=True)
        return 1000 * (time.perf_counter() - begin)

    def starting(self) -> Outcome:
        """Its ratio leaves 100 ms aside."""
        found = in_turn(self.start, self.imports)
        assert found.floor
        return dataclasses.replace(
            found,
            ratio=(found.figure - 100) / found.floor,
            ratios=tuple((figure - 100) / found.floor for figure in found.figures),
        )

    def idle_memory(self) -> Outcome:
        """MiB that a fresh program holds two seconds after its first answer."""
        found = []
        for _ in range(RUNS):
            with self.serving(self.store.path) as (process, port):
                self.first_answer(port)
                time.sleep(2)
                found.append(resident_mib(process.pid))
        return Outcome(statistics.median(found), figures=tuple(found))

    @functools.cached_property
    def idle(self) -> dict[str, Outcome]:
        """How often a service in this process, of which nothing is due, drops its cached answers in a minute, and how
        many seconds an answer lives meanwhile."""
        service = program().Service(
            program().Settings(
                db=str(self.copy_of(self.store.path)),
                poll_interval=86400,
                provider=(tuple(PROVIDER.replace("=", ":", 1).split(":", 2)),),
            )
        )
        lives: list[float] = []
        with contextlib.closing(service.store):
            service.start()
            time.sleep(5)
            begin = at = time.monotonic()
            revision = service.store.database.revision()
            while at < begin + 60:
                time.sleep(0.02)
                at = time.monotonic()
                if (now := service.store.database.revision()) != revision:
                    revision = now
                    lives.append(at - begin - sum(lives))
            service.stop()
        life = statistics.median([*lives, at - begin - sum(lives)])
        return {
            "drops": Outcome(len(lives), figures=(len(lives),)),
            "life": Outcome(life, figures=(life,)),
        }


# == table =====================================================================
#
# The rows: what is measured, and what it has to reach.

WIDTH = 56  # of a row's name


def shown(value: float | None, digits: int) -> str:
    """A number in four digits or so; "-" for none."""
    return "-" if value is None else f"{value:,.{digits if value < 100 else 0}f}"


@dataclasses.dataclass(frozen=True)
class Row:
    """A row: its name, its unit, how it is measured, and its target: of the ratio, or of the figure itself."""

    what: str
    unit: str
    measure: Callable[[Bench], Outcome]
    at_least: float | None = None  # of the ratio
    below: float | None = (
        None  # of the ratio, or of the figure where ``is_absolute``; neither: no target
    )
    is_absolute: bool = False

    def target(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:.2f}"
        if self.below is None:
            return "-"
        return f"< {self.below:g}" + (f" {self.unit}" if self.is_absolute else "")

    def is_reached(self, found: Outcome) -> bool:
        value = found.figure if self.is_absolute else found.ratio
        if value is None:
            return True
        if self.at_least is not None:
            return value >= self.at_least
        return self.below is None or value < self.below

    def mark(self, found: Outcome) -> str:
        """Nothing where the target is reached; else "missed", and between what the runs lie."""
        if self.is_reached(found):
            return ""
        runs = found.figures if self.is_absolute else found.ratios
        return f"  missed ({shown(min(runs), 2)} to {shown(max(runs), 2)})"


ROWS = (
    #   what                                                 unit     measured by                             target
    Row("GET a project by id, c=8", "req/s", lambda b: b.against_floor(BY_ID), 0.38),
    Row(
        "GET a project by name with a slash, c=8", "req/s", lambda b: b.against_floor(BY_NAME), 0.35
    ),
    Row("GET a page of 20 projects, c=8", "req/s", lambda b: b.against_floor(PROJECT_PAGE), 0.20),
    Row("GET a page of 20 releases, c=8", "req/s", lambda b: b.against_floor(RELEASE_PAGE), 0.22),
    Row("401 for a wrong key, c=8", "req/s", lambda b: b.against_floor(WRONG_KEY), 0.60),
    Row("404 for an unknown project, c=8", "req/s", lambda b: b.against_floor(UNKNOWN), 0.38),
    Row(
        "the page of releases, {many} projects, to 100 rows",
        "pages/s",
        lambda b: b.page(RELEASES_PAGE),
        0.10,
    ),
    Row(
        "the page of projects, {many} projects, to 100 rows",
        "pages/s",
        lambda b: b.page(PROJECTS_PAGE),
        0.10,
    ),
    Row("the page of a project, to 100 rows", "pages/s", lambda b: b.page(ONE_PROJECT_PAGE), 0.10),
    Row(
        "the page Updates, 500 installed, to 100 rows",
        "pages/s",
        lambda b: b.page(UPDATES_PAGE),
        0.10,
    ),
    Row("POST a tag, durable, c=8", "req/s", lambda b: b.posting["rate"], 0.20),
    Row("POST a tag, durable, c=8: p99", "ms", lambda b: b.posting["p99"], None, 15, True),
    Row("c=32 against c=8: a project by id", "req/s", lambda b: b.at_32(BY_ID), 0.90),
    Row("c=32 against c=8: a project by name", "req/s", lambda b: b.at_32(BY_NAME), 0.90),
    Row("c=32 against c=8: a page of projects", "req/s", lambda b: b.at_32(PROJECT_PAGE), 0.90),
    Row("c=32 against c=8: a page of releases", "req/s", lambda b: b.at_32(RELEASE_PAGE), 0.90),
    Row("c=32 against c=8: 401", "req/s", lambda b: b.at_32(WRONG_KEY), 0.90),
    Row("c=32 against c=8: 404", "req/s", lambda b: b.at_32(UNKNOWN), 0.90),
    Row(
        "GET c=1 beside 10,000 waiting deliveries, to alone",
        "req/s",
        lambda b: b.reading_beside_sending["rate"],
        0.30,
    ),
    Row(
        "GET c=1 beside 10,000 waiting deliveries: p99",
        "ms",
        lambda b: b.reading_beside_sending["p99"],
        None,
        30,
        True,
    ),
    Row(
        "deliveries to one fast receiver, to urlopen",
        "a second",
        lambda b: b.against_urlopen(2000, 1),
        0.40,
    ),
    Row(
        "deliveries to 16 fast receivers, to urlopen",
        "a second",
        lambda b: b.against_urlopen(4000, 16),
        0.55,
    ),
    Row(
        "1,000 deliveries to 90, with 10 that hang to without",
        "s",
        lambda b: b.beside_hanging(),
        None,
        3,
    ),
    # Of nvchecker's time 1.2 cold and 0.9 warm, of its CPU 0.6 warm: that many times NVCHECKER here.
    Row(
        "poll of 1,000 sources, cold, to a plain pool",
        "s",
        lambda b: b.polling["cold"],
        None,
        round(1.2 * NVCHECKER, 2),
    ),
    Row(
        "poll of 1,000 sources, warm (304), to a plain pool",
        "s",
        lambda b: b.polling["warm"],
        None,
        round(0.9 * NVCHECKER, 2),
    ),
    Row("CPU of a poll of 1,000 sources, cold, to a pool's", "s", lambda b: b.polling["cold CPU"]),
    Row(
        "CPU of a poll of 1,000 sources, warm, to a pool's",
        "s",
        lambda b: b.polling["warm CPU"],
        None,
        round(0.6 * NVCHECKER_CPU, 2),
    ),
    Row(
        "GET c=8 beside a poll that finds 50,000, to alone",
        "req/s",
        lambda b: b.reading_beside_polling["rate"],
        0.40,
    ),
    Row(
        "GET c=8 beside a poll that finds 50,000: p99",
        "ms",
        lambda b: b.reading_beside_polling["p99"],
        None,
        50,
        True,
    ),
    Row(
        "memory that a poll of 1 MiB answers adds, 2 at once",
        "MiB",
        lambda b: b.memory_of_poll("plain", 2),
        None,
        40,
        True,
    ),
    Row(
        "memory that a poll of 1 MiB answers adds, 32 at once",
        "MiB",
        lambda b: b.memory_of_poll("plain", 32),
        None,
        40,
        True,
    ),
    Row(
        "memory that a poll of gzip answers adds, 2 at once",
        "MiB",
        lambda b: b.memory_of_poll("gzip", 2),
        None,
        40,
        True,
    ),
    Row(
        "memory that a poll of gzip answers adds, 32 at once",
        "MiB",
        lambda b: b.memory_of_poll("gzip", 32),
        None,
        40,
        True,
    ),
    Row(
        "start to first answer, to imports (without 100 ms)", "ms", lambda b: b.starting(), None, 2
    ),
    Row(
        "commits of an idle minute, which drop the cache",
        "",
        lambda b: b.idle["drops"],
        None,
        3,
        True,
    ),
    Row("an answer stays in the cache of an idle service", "s", lambda b: b.idle["life"]),
    Row("memory idle", "MiB", lambda b: b.idle_memory(), None, 40, True),
    Row(
        "memory 5 s after a full poll of {many} sources",
        "MiB",
        lambda b: b.full_poll["after"],
        None,
        80,
        True,
    ),
    Row(
        "memory during a full poll of {many} sources, highest",
        "MiB",
        lambda b: b.full_poll["highest"],
    ),
    # To 100 projects, by calls of the application in this process.
    Row("{many} projects: one by id, in process", "us", lambda b: b.growth(BY_ID), None, 1.1),
    Row(
        "{many} projects: a page by update, in process",
        "us",
        lambda b: b.growth(PROJECT_PAGE),
        None,
        1.3,
    ),
    Row(
        "{many} projects: a page by addition, in process",
        "us",
        lambda b: b.growth(Ask("/v1/projects?order=added")),
        None,
        1.3,
    ),
    Row(
        "{many} projects: a page by name, in process",
        "us",
        lambda b: b.growth(Ask("/v1/projects?order=name")),
        None,
        1.3,
    ),
    Row(
        "{many} projects: releases of one, in process",
        "us",
        lambda b: b.growth(RELEASE_PAGE),
        None,
        1.1,
    ),
    Row(
        "{many} projects: search (ratio for each project)",
        "us",
        lambda b: b.growth_of_search(),
        None,
        1,
    ),
    Row(
        "{many} projects: the page of releases, in process", "us", lambda b: b.growth(RELEASES_PAGE)
    ),
    Row("journal of 10,000 deliveries to 100, in process", "us", lambda b: b.growth_of_journal()),
    Row(
        "comparing 500 installations with 200 releases each",
        "s",
        lambda b: b.comparison(),
        None,
        0.3,
        True,
    ),
    Row(
        "the store: bytes of a release without note",
        "bytes",
        lambda b: b.bytes_of_release(),
        None,
        250,
        True,
    ),
)


def line_of(row: Row, bench: Bench) -> tuple[str, bool]:
    """``(the row's line, whether it could be measured)``."""
    try:
        found = row.measure(bench)
    except Exception as error:  # the row's place shows it, and the other rows are measured
        return f"{row.what:<{WIDTH}}{type(error).__name__}: {error}", False
    return (
        f"{row.what:<{WIDTH}}{shown(found.figure, 2):>9}{shown(found.floor, 2):>9} {row.unit:<9}"
        f"{shown(found.ratio, 3):>7}  {row.target():<9}{row.mark(found)}"
    ), True


@contextlib.contextmanager
def on_stage() -> Iterator[tuple[pathlib.Path, contextlib.ExitStack]]:
    """A temporary folder, and what ends all that was started there, also when this process is told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with (
        tempfile.TemporaryDirectory(prefix="releasetrack-bench-") as folder,
        contextlib.ExitStack() as stack,
    ):
        yield pathlib.Path(folder), stack


def main() -> int:
    """Print the table; 0 when every row could be measured."""
    parser = argparse.ArgumentParser(description="Measure releasetrack.py beside its floors.")
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument(
        "--only", metavar="WORDS", default="", help="the rows whose name holds these words"
    )
    parser.add_argument(
        "--large", action="store_true", help=f"{LARGE:,} projects in the large store"
    )
    args = parser.parse_args()
    many = LARGE if args.large else MANY_PROJECTS
    rows = [dataclasses.replace(row, what=row.what.format(many=f"{many:,}")) for row in ROWS]
    rows = [row for row in rows if args.only.lower() in row.what.lower()]
    print(f"{'what':<{WIDTH}}{'figure':>9}{'floor':>9} {'unit':<9}{'ratio':>7}  target", flush=True)
    is_whole = bool(rows)
    with on_stage() as (folder, stack):
        bench = Bench(folder, stack, args.quick, many)
        for row in rows:
            line, is_measured = line_of(row, bench)
            is_whole &= is_measured
            print(line.rstrip(), flush=True)
    return 0 if is_whole else 1


# == soak ======================================================================
#
# What is done to the program to see that nothing is lost by it. Each trial tells figures, and of
# each a row says what passes. The program is a process, the faults are real.

LONG = 30  # minutes from which on a soak takes the large numbers below
KILLS = 100, 1000  # in a short soak, and in a long one
DRIPPED = 20.0, 60.0  # seconds
FULL = 10.0, 60.0  # seconds that the disk is full
GUESSES = 2000, 10_000  # passwords
SHORTEST_LOAD = 60.0  # seconds, however long all else took
WARM_AFTER = 1800.0  # seconds of it, or half of them, in which caches may fill
KILLED_AFTER = 0.12, 0.27  # seconds after it listens, between which a moment is chosen
DRIPPING, GUESSERS = 500, 8  # connections
WATCHED = 64  # sources whose news are told
SCANNED = 5  # of which installed versions are reported
DISK_MIB = 32


class Skipped(Exception):
    """Something that cannot be tried here, in words."""


@dataclasses.dataclass(frozen=True)
class Answered:
    """A request and what came of it."""

    request: bytes
    status: int  # 0: no answer came
    due_at: float  # when it was to be asked, on the monotonic clock
    seconds: float  # from then on

    @property
    def is_accepted(self) -> bool:
        return 200 <= self.status < 400


class Visitor:
    """A client that asks by one connection, one request every so many seconds, as long as its context lasts."""

    def __init__(self, port: int, requests: Iterator[bytes], every: float) -> None:
        self.answers: list[Answered] = []
        self._port, self._requests, self._every = port, requests, every
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Visitor:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        due_at, asker = time.monotonic(), None
        while not self._is_over.wait(max(0.0, due_at - time.monotonic())):
            request = next(self._requests)
            try:
                asker = asker or Asker(self._port)
                status = int(asker.answer_to(request))
            except (BenchError, OSError):
                asker, status = None, 0
            self.answers.append(Answered(request, status, due_at, time.monotonic() - due_at))
            due_at += self._every

    def between(self, begin: float, end: float) -> list[Answered]:
        """The answers to what was due between two instants of the monotonic clock."""
        return [one for one in self.answers if begin <= one.due_at < end]

    def seconds(self, hundredth: int) -> float:
        """A percentile of the answers' times."""
        return percentile(sorted(one.seconds for one in self.answers), hundredth)

    def count(self, should_notify: Callable[[int], bool]) -> int:
        """How many answers have a status that is meant."""
        return sum(should_notify(one.status) for one in self.answers)


@contextlib.contextmanager
def dripping(port: int, count: int) -> Iterator[None]:
    """So many connections of another address that send a header which does not end, a byte a second each."""
    is_over = threading.Event()
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(
                socket.create_connection(("127.0.0.1", port), PATIENCE, ("127.0.0.2", 0))
            )
            for _ in range(count)
        ]

        def send(data: bytes) -> None:
            for one in sockets:
                with contextlib.suppress(OSError):  # it was closed there
                    one.send(data)

        def drip() -> None:
            while not is_over.wait(1):
                send(b"x")

        send(b"GET /v1/projects HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Drip: ")
        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


@contextlib.contextmanager
def small_disk(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file system in memory of DISK_MIB. Raises Skipped."""
    folder.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=700", "tmpfs", str(folder)],
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise Skipped("no file system can be mounted here, which takes root") from error
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_up(path: pathlib.Path) -> None:
    """Write a file until the disk is full to the last page."""
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


@dataclasses.dataclass(frozen=True)
class Sample:
    """What a process holds at an instant."""

    at: float
    resident: float  # MiB
    files: int
    threads: int
    log: float  # MiB of the store's write-ahead log

    @classmethod
    def of(cls, process_id: int, path: pathlib.Path) -> Sample:
        status = pathlib.Path(f"/proc/{process_id}/status").read_text("utf-8")
        return cls(
            time.monotonic(),
            resident_mib(process_id),
            len(os.listdir(f"/proc/{process_id}/fd")),
            int(status.split("Threads:")[1].split()[0]),
            os.path.getsize(f"{path}-wal") / 2**20,
        )


class Soak(Stage):
    """The trials; each returns its figures by the keys of its rows."""

    def __init__(
        self, folder: pathlib.Path, stack: contextlib.ExitStack, minutes: float, kills: int | None
    ) -> None:
        super().__init__(folder, stack)
        self.is_long = minutes >= LONG
        self._end = time.monotonic() + 60 * minutes
        self._kills = self._of(KILLS) if kills is None else kills

    def _of(self, numbers: tuple[Any, Any]) -> Any:
        return numbers[self.is_long]

    @functools.cached_property
    def inbox_port(self) -> int:
        return self._port_of("inbox")

    def _inboxes(self, kind: str, count: int) -> list[str]:
        return [f"http://127.0.0.1:{self.inbox_port}/{kind}/{number}" for number in range(count)]

    def _watched(self, kind: str) -> pathlib.Path:
        """A store with WATCHED sources, each of which tells one of eight receivers of a kind. Each has been checked
        once, which finds history that is not told."""
        path = self.copy_of(self.store.path)
        add_sources(path, WATCHED, self._inboxes(kind, 8))
        for port in (self.forge_port, self.inbox_port):
            self._tell(port, "forget")
        with self.watching(path, WATCHED, "news", "--host-limit", str(AT_ONCE)) as tracking:
            self._check_all(tracking)
        return path

    @staticmethod
    def _check_all(tracking: Tracking) -> None:
        """Have every source checked once."""
        begin = time.time()
        tracking.make_due()
        tracking.all_checked(begin)

    def _bring_home(self, tracking: Tracking) -> None:
        """Have all found that is published and all delivered that is found, at peers that do not stumble."""
        for port in (self.forge_port, self.inbox_port):
            self._tell(port, "calm")
        time.sleep(
            2 * program().LEASE + LATE + 1
        )  # until what stumbled or was killed before that is recorded
        self._check_all(tracking)
        self._deliver_all(tracking.db)

    @staticmethod
    def _deliver_all(db: sqlite3.Connection) -> None:
        until = time.monotonic() + 5 * PATIENCE
        while waiting := db.execute(
            "SELECT count(*) FROM delivery WHERE state = 'pending'"
        ).fetchone()[0]:
            if time.monotonic() > until:
                raise BenchError(f"{waiting} deliveries are still waiting after {5 * PATIENCE:g} s")
            time.sleep(0.2)

    def _books(self, path: pathlib.Path) -> dict[str, float]:
        """What the store says was published and told, beside what forge and receivers say."""
        with contextlib.closing(sqlite3.connect(path)) as db:
            ids = [id_ for (id_,) in db.execute("SELECT id FROM delivery")]
            recorded = dict(
                db.execute("""
                SELECT source.name, count(*) FROM source JOIN release ON source_id = source.id
                 WHERE provider = 'forge' GROUP BY source.id""")
            )
            (untold,), (attempts,), (most,) = (
                db.execute(query).fetchone()
                for query in (
                    """SELECT count(*) FROM release
                    WHERE found_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM event WHERE release_id = release.id)""",
                    "SELECT count(*) FROM attempt",
                    "SELECT max(attempts) FROM delivery",
                )
            )
            faults = [
                row
                for check in ("integrity_check", "foreign_key_check")
                for row in db.execute(f"PRAGMA {check}")
                if row != ("ok",)
            ]
        taken = self._tell(self.inbox_port, "seen")["taken"]
        published = self._tell(self.forge_port, "seen")["published"]
        digests = [digest for _, _, *bodies in taken.values() for digest in bodies]
        return {
            "deliveries": len(ids),
            "lost": sum(not taken.get(id_, [0, 0])[1] for id_ in ids),
            "published": sum(published.values()),
            "untold": untold,
            "unfound": sum(count - recorded.get(name, 0) for name, count in published.items()),
            "repeats": sum(times - 1 for times, *_ in taken.values()),
            "most": max((times for times, *_ in taken.values()), default=0),
            "changed": sum(len(bodies) > 1 for _, _, *bodies in taken.values()),
            "renamed": len(digests) - len(set(digests)),
            "attempts": attempts,
            "most attempts": most or 0,
            "faults": len(faults),
        }

    def kill_often(self) -> dict[str, float]:
        """Kill the program at random moments while releases are found and told, and scans reported; then let it
        finish."""
        path, chance, kept = self._watched("inbox"), random.Random(SEED), list[str]()
        options = ("--poll-interval", "1", "--host-limit", str(AT_ONCE), "--log-level", "warning")
        numbers, sent = itertools.count(), ""

        def report(port: int) -> None:
            nonlocal sent
            with contextlib.suppress(OSError, http.client.HTTPException):
                while True:
                    sent = f"v0.{next(numbers)}"
                    items = [
                        {"provider": "forge", "name": project_name(at), "version": sent}
                        for at in range(SCANNED)
                    ]
                    request = urllib.request.Request(
                        f"http://127.0.0.1:{port}/v1/installations",
                        json.dumps({"place": "nas", "items": items}).encode(),
                        {"X-Key": self.store.key, "Content-Type": "application/json"},
                    )
                    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                        request, timeout=PATIENCE
                    ).read()
                    kept.append(sent)

        for _ in range(self._kills):
            with self.watching(path, WATCHED, "news", *options) as tracking:
                reporter = threading.Thread(target=report, args=(tracking.port,))
                reporter.start()
                time.sleep(chance.uniform(*KILLED_AFTER))
                tracking.process.kill()
            reporter.join()
        with self.watching(path, WATCHED, "news", *options) as tracking:
            self._bring_home(tracking)
            installed = [
                json.loads(text)
                for (text,) in tracking.db.execute(
                    "SELECT installed FROM project WHERE installed != '[]'"
                )
            ]
        there = [one["version"] for several in installed for one in several]
        return {
            "kills": self._kills,
            "reports": len(kept),
            **self._books(path),
            "forgotten": SCANNED - sum(version in (kept[-1], sent) for version in there),
        }

    def share_a_store(self) -> dict[str, float]:
        """Two programs send what waits in one store."""
        path = self.copy_of(self.store.path)
        add_deliveries(path, 1000, self._inboxes("inbox", 16))
        self._tell(self.inbox_port, "forget")
        with (
            self.serving(path, "--brand", "One"),
            self.serving(path, "--brand", "Two"),
            contextlib.closing(sqlite3.connect(path, timeout=PATIENCE)) as db,
        ):
            self._deliver_all(db)
            time.sleep(program().LEASE + 1)  # after which what was claimed would be claimed again
        seen = self._tell(self.inbox_port, "seen")
        return {
            "taken": len(seen["taken"]),
            "lost": 1000 - len(seen["taken"]),
            "doubled": sum(times - 1 for times, *_ in seen["taken"].values()),
            "by one": seen["senders"].get("one", 0),
            "by two": seen["senders"].get("two", 0),
        }

    def _by_id(self) -> Iterator[bytes]:
        return itertools.cycle([text.encode() for text in BY_ID.texts(self.store)])

    def drip(self) -> dict[str, float]:
        """Ask honestly beside connections that send a byte a second."""
        with self.serving(self.copy_of(self.store.path)) as (process, port):
            with Visitor(port, self._by_id(), 0.05):
                time.sleep(2)
            before = resident_mib(process.pid)
            forget_highest(process.pid)
            with dripping(port, DRIPPING), Visitor(port, self._by_id(), 0.05) as honest:
                time.sleep(self._of(DRIPPED))
            return {
                "p95": honest.seconds(95),
                "p99": honest.seconds(99),
                "refused": honest.count(lambda status: status != 200),
                "rise": highest_mib(process.pid) - before,
                "ended": process.poll() is not None,
            }

    def fill_the_disk(self) -> dict[str, float]:
        """Read and write before, while and after the disk is full. Raises Skipped."""
        adding = Ask("/v1/tags", body='{"name": "kept %012d"}').texts(self.store)[0].encode()
        with small_disk(self._folder / "disk") as disk:
            path = disk / "releases.db"
            shutil.copyfile(self.store.path, path)
            with self.serving(path) as (process, port):
                writes = (adding % number for number in itertools.count())
                with (
                    Visitor(port, self._by_id(), 0.05) as reader,
                    Visitor(port, writes, 0.05) as writer,
                ):
                    time.sleep(2)
                    fill_up(disk / "filler")
                    begin = time.monotonic()
                    time.sleep(self._of(FULL))
                    end = time.monotonic()
                    (disk / "filler").unlink()
                    time.sleep(8)
                is_ended = process.poll() is not None
            store = program().Store(str(path))
            (account,) = store.accounts.all()
            kept = {tag.name for tag in store.tags.of_account(account.id)}
            store.close()
        refused = writer.between(begin, end)
        accepted = [one for one in writer.answers if one.is_accepted]
        return {
            "reads": len(reader.between(begin, end)),
            "failed reads": sum(not one.is_accepted for one in reader.between(begin, end)),
            "writes": sum(one.status == 503 for one in refused),
            "failed writes": sum(
                not one.is_accepted and one.status != 503 for one in writer.answers
            ),
            "recovered": min(
                (one.due_at + one.seconds - end for one in accepted if one.due_at >= end),
                default=float("inf"),
            ),
            "lost": sum(
                json.loads(one.request.partition(b"\r\n\r\n")[2])["name"] not in kept
                for one in accepted
            ),
            "acknowledged": len(accepted),
            "ended": is_ended,
        }

    def _guess(self, port: int, guesses: Sequence[tuple[str, str]]) -> Counter[bytes]:
        """How often each status was answered to wrong passwords, ``(address, e-mail)`` each, tried GUESSERS at once."""

        def try_all(some: Sequence[tuple[str, str]]) -> Counter[bytes]:
            asker = Asker(port)
            with asker.socket:
                return Counter(
                    asker.answer_to(
                        (
                            f"GET /v1/auth/keys HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-For: {address}\r\nAuthorization: "
                            f"Basic {base64.b64encode(f'{email}:guess {at}'.encode()).decode()}\r\n\r\n"
                        ).encode()
                    )
                    for at, (address, email) in enumerate(some)
                )

        with ThreadPoolExecutor(GUESSERS) as pool:
            return sum(
                pool.map(try_all, (guesses[at::GUESSERS] for at in range(GUESSERS))), Counter()
            )

    def guess_passwords(self) -> dict[str, float]:
        """Try passwords of 1,000 accounts from one address, and of one account from 1,000 addresses, while its owner
        looks at a page."""
        count, found = self._of(GUESSES), dict[str, float]()
        addresses = [f"10.0.{number // 250}.{number % 250 + 1}" for number in range(1000)]
        pages = itertools.cycle(text.encode() for text in PROJECTS_PAGE.texts(self.store))
        for name, kinds in (
            (
                "one address",
                [(addresses[0], f"user-{number}@example.org") for number in range(1000)],
            ),
            ("many addresses", [(address, "bench@example.org") for address in addresses]),
        ):
            guesses = list(itertools.islice(itertools.cycle(kinds), count))
            with self.serving(self.copy_of(self.store.path), "--trusted-proxy", "127.0.0.1") as (
                process,
                port,
            ):
                with Visitor(port, pages, 0.05):
                    time.sleep(1)
                before = resident_mib(process.pid)
                forget_highest(process.pid)
                with Visitor(port, pages, 0.05) as owner:
                    statuses = self._guess(port, guesses)
                    time.sleep(1)
                found |= {
                    f"{name}: evaluated": statuses.pop(b"401", 0),
                    f"{name}: refused": statuses.pop(b"429", 0),
                    f"{name}: else": sum(statuses.values()),
                    f"{name}: p95": owner.seconds(95),
                    f"{name}: shut out": owner.count(lambda status: status != 200),
                    f"{name}: rise": highest_mib(process.pid) - before,
                }
        return found

    def _mixed(self, secret: str) -> Iterator[bytes]:
        """Requests of every kind, in no order; of ten one writes."""
        chance = random.Random(SEED)
        kinds = [
            Ask("/v1/projects/search?q=project-7"),
            Ask(f"/feeds/{secret}.atom"),
            Ask("/healthz"),
            JOURNAL,
            BY_ID,
            PROJECT_PAGE,
            RELEASE_PAGE,
            RELEASES_PAGE,
            PROJECTS_PAGE,
            ONE_PROJECT_PAGE,
        ]
        texts = [ask.texts(self.store) for ask in kinds]
        for number in itertools.count():
            if number % 10:
                yield chance.choice(chance.choice(texts)).encode()
            else:
                ask = Ask(
                    f"/v1/projects/{chance.choice(self.store.ids)}",
                    body='{"note": "seen at %012d"}',
                )
                yield ask.texts(self.store)[0].encode() % number

    def carry_a_load(self) -> dict[str, float]:
        """For the rest of the time: 10 requests a second of mixed kinds and a release a second, at peers that
        stumble."""
        path = self._watched("faulty")
        store = program().Store(str(path))
        secret = store.accounts.all()[0].feed_secret
        store.close()
        options = (
            "--poll-interval",
            str(WATCHED),
            "--retry-first",
            "1",
            "--host-limit",
            "8",
            "--log-level",
            "error",
        )
        seconds = max(SHORTEST_LOAD, self._end - time.monotonic())
        samples: list[Sample] = []
        with self.watching(path, WATCHED, "faulty", *options) as tracking:
            begin = time.monotonic()
            tracking.make_due(WATCHED)
            with Visitor(tracking.port, self._mixed(secret), 0.1) as visitor:
                while time.monotonic() < begin + seconds:
                    time.sleep(1)
                    samples.append(Sample.of(tracking.process.pid, path))
            self._bring_home(tracking)
        warm = [one for one in samples if one.at - begin > min(seconds / 2, WARM_AFTER)]
        slope = statistics.linear_regression(
            [one.at for one in warm], [one.resident for one in warm]
        ).slope
        return {
            "minutes": seconds / 60,
            "requests": len(visitor.answers),
            "p95": visitor.seconds(95),
            "p99": visitor.seconds(99),
            "5xx": visitor.count(lambda status: status >= 500 and status != 503),
            "503": visitor.count(lambda status: status == 503),
            "else": visitor.count(lambda status: not status or 400 <= status < 500),
            "resident first": warm[0].resident,
            "resident last": warm[-1].resident,
            "slope": 3600 * slope,
            "files first": warm[0].files,
            "files last": warm[-1].files,
            "files rise": warm[-1].files - warm[0].files,
            "threads": warm[-1].threads,
            "log": max(one.log for one in samples),
            **self._books(path),
        }


@dataclasses.dataclass(frozen=True)
class Promise:
    """A row of a trial: the key of its figure, what that is, and what passes; neither: any figure does."""

    key: str
    what: str
    unit: str = ""
    below: float | None = None
    is_none: bool = False  # nothing but 0 passes, or something is lost
    is_for_long: bool = False  # judged in a long soak alone

    def target(self, is_long: bool) -> str:
        if self.is_none:
            return "0"
        return (
            "-" if self.below is None or (self.is_for_long and not is_long) else f"< {self.below:g}"
        )

    def is_kept(self, figure: float, is_long: bool) -> bool:
        if self.is_none:
            return figure == 0
        return self.target(is_long) == "-" or self.below is None or figure < self.below


BOOKS = (
    Promise("published", "releases published"),
    Promise("unfound", "published and not recorded", is_none=True),
    Promise("untold", "recorded as news without an event", is_none=True),
    Promise("deliveries", "deliveries recorded"),
    Promise("lost", "recorded deliveries that no receiver accepted", is_none=True),
    Promise("repeats", "requests beyond one a delivery"),
    Promise("most", "requests for one delivery, at most"),
    Promise("changed", "repeats with the same webhook-id and another body", is_none=True),
    Promise("renamed", "repeats with another webhook-id", is_none=True),
    Promise("attempts", "attempts recorded"),
    Promise("most attempts", "attempts of one delivery, at most"),
    Promise("faults", "lines of integrity_check but ok", is_none=True),
)
TRIALS: dict[str, tuple[Callable[[Soak], dict[str, float]], tuple[Promise, ...]]] = {
    "killed at random moments": (
        Soak.kill_often,
        (
            Promise("kills", "SIGKILLs"),
            *BOOKS,
            Promise("reports", "reports of a scan acknowledged"),
            Promise(
                "forgotten", "versions of the last report that are not installed", is_none=True
            ),
        ),
    ),
    "two processes on one store": (
        Soak.share_a_store,
        (
            Promise("taken", "deliveries received"),
            Promise("by one", "requests by the first"),
            Promise("by two", "requests by the second"),
            Promise("lost", "deliveries that did not come", is_none=True),
            Promise("doubled", "deliveries that came again", is_none=True),
        ),
    ),
    f"{DRIPPING} dripping connections": (
        Soak.drip,
        (
            Promise("p95", "honest client: p95", "s", 0.5),
            Promise("p99", "honest client: p99", "s"),
            Promise("refused", "honest requests not answered 200", is_none=True),
            Promise("rise", "memory beyond what it was", "MiB", 50),
            Promise("ended", "processes that ended", is_none=True),
        ),
    ),
    "the disk is full": (
        Soak.fill_the_disk,
        (
            Promise("reads", "reads meanwhile"),
            Promise("failed reads", "reads not answered 200", is_none=True),
            Promise("writes", "writes answered 503 meanwhile"),
            Promise("failed writes", "writes answered neither 2xx nor 503", is_none=True),
            Promise("recovered", "until a write succeeds again", "s", 5),
            Promise("acknowledged", "writes acknowledged"),
            Promise("lost", "acknowledged writes that are lost", is_none=True),
            Promise("ended", "processes that ended", is_none=True),
        ),
    ),
    "passwords are guessed": (
        Soak.guess_passwords,
        tuple(
            Promise(f"{name}: {key}", f"{name}: {what}", unit, below, is_none)
            for name in ("one address", "many addresses")
            for key, what, unit, below, is_none in (
                ("evaluated", "passwords evaluated", "", 31, False),
                ("refused", "refused with 429", "", None, False),
                ("else", "answered anything else", "", None, True),
                ("p95", "signed-in client: p95", "s", 1.0, False),
                ("shut out", "signed-in client: not answered 200", "", None, True),
                ("rise", "memory beyond what it was", "MiB", 64, False),
            )
        ),
    ),
    "a load with faults": (
        Soak.carry_a_load,
        (
            Promise("minutes", "how long", "min"),
            Promise("requests", "requests of mixed kinds"),
            Promise("p95", "p95", "s", 0.5),
            Promise("p99", "p99", "s"),
            Promise("5xx", "answers of 5xx but 503", is_none=True),
            Promise("503", "answers of 503"),
            Promise("else", "answers of 4xx, or none", is_none=True),
            Promise("resident first", "memory after the warm-up", "MiB"),
            Promise("resident last", "memory at the end", "MiB"),
            Promise("slope", "its slope", "MiB/h", 1, is_for_long=True),
            Promise("files first", "open files after the warm-up"),
            Promise("files last", "open files at the end"),
            Promise("files rise", "more than after the warm-up", "", 10),
            Promise("threads", "threads at the end"),
            Promise("log", "write-ahead log at its largest", "MiB", 32),
            *BOOKS,
        ),
    ),
}


def lines_of(name: str, stage: Soak) -> Iterator[tuple[str, bool]]:
    """``(a line of a trial, whether that could be tried and nothing was lost)``."""
    measure, promises = TRIALS[name]
    begin = time.monotonic()
    try:
        figures = measure(stage)
    except Skipped as reason:
        yield f"{name}: skipped; {reason}", True
        return
    except Exception as error:  # the trial's place shows it, and the others are made
        yield f"{name}: {type(error).__name__}: {error}", False
        return
    yield f"{name} ({time.monotonic() - begin:.0f} s)", True
    for row in promises:
        figure = figures[row.key]
        is_kept = row.is_kept(figure, stage.is_long)
        text = f"{figure:,}" if isinstance(figure, int) else shown(figure, 3)
        yield (
            (
                f"  {row.what:<{WIDTH - 2}}{text:>9} {row.unit:<6} {row.target(stage.is_long):<7}"
                f"{'' if is_kept else '  missed'}"
            ),
            is_kept or not row.is_none,
        )


def soak(arguments: Sequence[str]) -> int:
    """Make all trials; 0 when each could be made and nothing was lost."""
    parser = argparse.ArgumentParser(
        prog="bench.py soak", description="Try what releasetrack.py holds up against."
    )
    parser.add_argument(
        "--minutes", type=float, default=6, help=f"in all; the large numbers from {LONG} on"
    )
    parser.add_argument(
        "--kills",
        type=int,
        metavar="N",
        help=f"instead of {KILLS[0]}, or {KILLS[1]} in a long soak",
    )
    parser.add_argument(
        "--only", metavar="WORDS", default="", help="the trials whose name holds these words"
    )
    args = parser.parse_args(arguments)
    names = [name for name in TRIALS if args.only.lower() in name]
    print(f"{'what':<{WIDTH}}{'figure':>9} {'unit':<6} passes", flush=True)
    is_well = bool(names)
    with on_stage() as (folder, stack):
        stage = Soak(folder, stack, args.minutes, args.kills)
        for name in names:
            for line, is_line_well in lines_of(name, stage):
                is_well &= is_line_well
                print(line.rstrip(), flush=True)
    return 0 if is_well else 1


def do_job(task: Callable[[dict[str, Any]], dict[str, float]]) -> None:
    """Read a job from standard input, print what came of it."""
    try:
        print(json.dumps(task(json.load(sys.stdin))))
    except (BenchError, OSError) as error:
        sys.exit(str(error))


# What this file is started again for.
TASKS: dict[str, Callable[[], None]] = {
    "load": lambda: do_job(ask_all),
    "post": lambda: do_job(post_all),
    "fetch": lambda: do_job(fetch_all),
    "floor": serve_floor,
    "receiver": serve_receiver,
    "forge": serve_forge,
    "inbox": lambda: serve_peers(Inbox),
}

if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in TASKS:
        TASKS[sys.argv[1]]()
    elif sys.argv[1:2] == ["soak"]:
        sys.exit(soak(sys.argv[2:]))
    else:
        sys.exit(main())
