#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["bottle>=0.12.25,<0.14", "waitress>=2.1.2"]
# ///
"""What releasetrack.py costs, beside floors that are measured in the same run: ``python .ci/bench.py``.

    python .ci/bench.py                     all rows, under eight minutes
    python .ci/bench.py --quick             the same rows, shorter runs
    python .ci/bench.py --only deliveries   the rows whose name holds the word

One line a row: a figure, its floor, their ratio, the target, and "missed" where it is not reached. A
figure is the median of five runs, each in turn with one of its floor; a missed row also says between
what the runs lie, which is far apart when the machine had other work. Trust ratios, not figures. What a
poll adds to the memory is measured once. A row that cannot be measured shows its error, and the exit
status is 1.

Loopback only. The program, the floor, the load, the receivers and the forge are a process each. Stores lie in a
temporary folder; it must be on a disk (TMPDIR chooses), or what is durable costs nothing.
"""
from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import functools
import gzip
import hashlib
import hmac
import importlib.util
import itertools
import json
import os
import pathlib
import selectors
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "releasetrack.py"
PROJECTS, RELEASES = 100, 50        # of the store that is served
MANY_PROJECTS = 2000                # of the one whose pages are looked at
RUNS = 5                            # of a figure and of its floor, in turn
WARM_UP = 0.2                       # seconds of load that do not count
PATIENCE = 60.0                     # seconds after which whatever does not come is given up
# A provider's address that nothing listens at; no source of it is due before the bench is over.
PROVIDER = "bench=forgejo:http://127.0.0.1:1"
LATENCY = 0.02                      # seconds that the forge takes for an answer
AT_ONCE = 32                        # requests under way to it, of the program and of the plain pool
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
        length = int(data[at + 16:data.find(b"\r", at)]) if at > 0 else 0
        return data[9:12] if len(data) >= end + 4 + length else None


def requests_of(job: dict[str, Any]) -> Iterator[bytes]:
    """The job's requests, over and over; where it has a ``first`` number, that and the following filled in."""
    texts = [text.encode() for text in job["requests"]]
    if "first" not in job:
        return itertools.cycle(texts)
    return (texts[0] % number for number in itertools.count(job["first"]))


def ask_until(end: float, askers: Sequence[Asker], requests: Iterator[bytes],
              status: bytes) -> Iterator[tuple[float, float]]:
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


def ask_all(job: dict[str, Any]) -> dict[str, float]:
    """Requests a second, and the 50th and 99th percentile of their times in milliseconds.

    ``job``: port, connections, seconds, status, requests. Raises BenchError.
    """
    askers = [Asker(job["port"]) for _ in range(job["connections"])]
    begin = time.perf_counter() + WARM_UP
    end = begin + job["seconds"]
    took = sorted(answered_at - asked_at for asked_at, answered_at in ask_until(
        end, askers, requests_of(job), str(job["status"]).encode()) if begin <= answered_at < end)
    if len(took) < 10:
        raise BenchError(f"only {len(took)} answers came within {job['seconds']:g} s")
    return {"rate": len(took) / job["seconds"], "p50": 1000 * took[len(took) // 2],
            "p99": 1000 * took[len(took) * 99 // 100]}


def post_all(job: dict[str, Any]) -> dict[str, float]:
    """Signed POSTs a second by a bare loop around ``urlopen``. ``job``: url, count, body."""
    secret, body = b"whsec_" + b"0" * 44, job["body"].encode()
    begin = time.perf_counter()
    for _ in range(job["count"]):
        moment = str(int(time.time()))
        digest = hmac.new(secret, f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
        request = urllib.request.Request(job["url"], body, {
            "Content-Type": "application/json", "X-Service-Timestamp": moment, "X-Service-Signature": digest})
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
    db.execute("CREATE TABLE project (id INTEGER PRIMARY KEY, provider TEXT, name TEXT, version TEXT, date TEXT)")
    db.executemany("INSERT INTO project VALUES (?, 'bench', ?, 'v1.49.0', '2026-01-22T01:00:00Z')",
                   [(number, project_name(number)) for number in range(PROJECTS)])
    columns = ("id", "provider", "name", "version", "date")

    @app.route("/")
    def fixed() -> bytes:
        bottle.response.content_type = "application/json"
        return body

    @app.route("/rows")
    def rows() -> bytes:
        bottle.response.content_type = "application/json"
        found = db.execute("SELECT id, provider, name, version, date FROM project ORDER BY id DESC LIMIT 20").fetchall()
        return json.dumps({"projects": [dict(zip(columns, row)) for row in found]}).encode()

    server, address = program().make_server(app, program().Settings(port=0))
    print(address.rpartition(":")[2], flush=True)
    server.run()


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
        _, mark, length = head.partition(b"content-length:")
        if len(read) < end + 4 + (int(length.split(b"\r", 1)[0]) if mark else 0):
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
            except OSError:         # the sender went away
                rest = None
            if rest is None:
                poll.unregister(client)
                client.close()
                del unread[client]
            else:
                unread[client] = rest


class Forge(asyncio.Protocol):
    """A connection to a GitLab that has the same RELEASES releases of every project. Its answers take LATENCY.

    /small/ answers 20 KiB; /plain/ and /gzip/ answer 1 MiB, most of it files, which nobody keeps. To a
    conditional request it answers 304. ``/forget`` and ``/seen`` are as the receiver's.
    """

    NOT_MODIFIED = b"HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n"
    answers: dict[bytes, bytes] = {}
    count, first = 0, 0.0       # of all connections

    def connection_made(self, transport: Any) -> None:
        self._transport, self._read = transport, b""

    def data_received(self, data: bytes) -> None:
        self._read += data
        if not self._read.endswith(b"\r\n\r\n"):
            return
        head, self._read = self._read.lower(), b""
        kind = head.split(maxsplit=2)[1].split(b"/")[1]
        if kind == b"seen":
            self._answer(head, answer_of({"count": Forge.count, "first": Forge.first}))
        elif kind == b"forget":
            Forge.count = 0
            self._answer(head, answer_of(None))
        else:
            if not Forge.count:
                Forge.first = time.time()
            Forge.count += 1
            answer = self.NOT_MODIFIED if b"\r\nif-none-match:" in head else self.answers[kind]
            asyncio.get_running_loop().call_later(LATENCY, self._answer, head, answer)

    def _answer(self, head: bytes, answer: bytes) -> None:
        self._transport.write(answer)
        if b"\r\nconnection: close" in head:
            self._transport.close()


def answer_of(value: Any, is_packed: bool = False) -> bytes:
    """200 with a value as JSON, gzipped where ``is_packed``."""
    body, packed = json.dumps(value).encode(), ""
    if is_packed:
        body, packed = gzip.compress(body), "Content-Encoding: gzip\r\n"
    return (f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nETag: \"1\"\r\n{packed}"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def gitlab_releases(files: int) -> list[dict[str, Any]]:
    """A list by https://docs.gitlab.com/api/releases/, newest first; each release has so many files."""
    found = []
    for at in reversed(range(RELEASES)):
        text = f"Fixes number {at} and what came with it."
        found.append({
            "tag_name": f"v1.{at}.0", "name": f"Release 1.{at}", "description": text,
            "description_html": f"<p>{text}</p>", "released_at": f"2026-01-{at % 28 + 1:02}T{at // 28:02}:00:00.000Z",
            "upcoming_release": False, "commit": {"id": hashlib.sha1(b"%d" % at).hexdigest()},
            "assets": {"count": files, "links": [
                {"id": 1000 * at + number, "name": f"tool-1.{at}-{number}.tar.gz", "link_type": "package",
                 "url": f"https://example.org/files/{hashlib.sha1(b'%d' % number).hexdigest()}/{at}.tar.gz"}
                for number in range(files)]}})
    return found


def serve_forge() -> None:
    """Answer for ever."""
    small, big = gitlab_releases(1), gitlab_releases(131)
    Forge.answers = {b"small": answer_of(small), b"plain": answer_of(big), b"gzip": answer_of(big, True)}

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Forge, "127.0.0.1", 0, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()
    asyncio.run(serve())


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
    """A new store of so many projects with RELEASES releases each, none of them due for a check."""
    rt = program()
    store = rt.Store(str(path))
    account = store.add_account("user", "bench@example.org", "Bench", rt.NO_PASSWORD, True)
    key, ids = store.add_key(account.id, "bench", ["0.0.0.0/0", "::/0"]), []
    token = rt.make_session_token()
    store.add_session(account.id, token, "127.0.0.1", "bench")
    for number in range(count):
        name = project_name(number)
        project, source = store.add_project(account.id, "bench", name, name, {})
        releases = [rt.Release(f"v1.{at}.0", f"2026-01-{at % 28 + 1:02}T{at // 28:02}:{number % 60:02}:00Z",
                               note=rt.Note(f"v1.{at}.0", "<p>Fixes.</p>", f"https://example.org/{name}/{at}"))
                    for at in range(RELEASES)]
        record(store, source.id, new=releases)
        ids.append(project.id)
    store.close()
    return Filled(path, key.secret, token, tuple(ids))


def record(store: Any, source_id: int, **found: Any) -> None:
    """Record what a check found, the next one in a day."""
    if not store.claim_source(source_id, "bench", time.time()):
        raise BenchError(f"source {source_id} could not be claimed")
    store.record_found(source_id, "bench", program().Findings(time.time() + 86400, **found))


def add_sources(path: pathlib.Path, count: int) -> None:
    """Track so many projects of the forge, none of them due for a check."""
    rt = program()
    store = rt.Store(str(path))
    account, = store.accounts()
    for number in range(count):
        store.add_project(account.id, "forge", project_name(number), project_name(number), {})
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE source SET next_check_at = ? WHERE provider = 'forge'", (time.time() + 86400,))


def add_deliveries(path: pathlib.Path, count: int, urls: Sequence[str]) -> None:
    """Let so many deliveries of 1 KiB wait in a store, spread evenly over webhooks at the URLs."""
    rt = program()
    store = rt.Store(str(path))
    account, = store.accounts()
    ids = [store.add_destination(account.id, "webhook", url, rt.read_settings("webhook", [("url", url)]),
                                 rt.make_signing_secret()).id for url in urls]
    for at, source in enumerate(store.sources()):
        subscriber, = store.subscribers(source.id)
        body = body_of_1_kib(rt, subscriber)
        record(store, source.id, events=[
            rt.Event(subscriber.project.id, body, "https://example.org/", (
                rt.Recipient(ids[number % len(ids)], time.time()),))
            for number in range(at, count, PROJECTS)])
    store.close()


def body_of_1_kib(rt: Any, subscriber: Any) -> dict[str, Any]:
    """The standard body of an event, its note filled up until it is 1,024 bytes of JSON."""
    note = rt.Note("v2.0.0", "", "https://example.org/")
    body = rt.event_body(subscriber, rt.Release("v2.0.0", "2026-02-01T00:00:00Z", note=note))
    missing = 1024 - len(json.dumps(body, separators=(",", ":")))
    body["note"]["message"] = "x" * missing
    return body


# == processes =================================================================
#
# Each is started here and ended by its own handle.


def quiet_environment() -> dict[str, str]:
    """The environment without proxies, which nothing on loopback shall go through."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


def own_command(task: str) -> list[str]:
    """The command that runs a task of TASKS."""
    return [sys.executable, str(pathlib.Path(__file__).resolve()), task]


@contextlib.contextmanager
def running(command: Sequence[str], log: pathlib.Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``(process, the first line that it printed)`` of a command that runs until it is ended here."""
    with open(log, "a+", encoding="utf-8") as said:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, env=quiet_environment())
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
    done = subprocess.run(own_command(task), input=json.dumps(job), capture_output=True, text=True,
                          timeout=2 * PATIENCE, env=quiet_environment())
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
    figures: tuple[float, ...] = ()     # of each run
    ratios: tuple[float, ...] = ()


def outcome(pairs: Sequence[tuple[float, float]]) -> Outcome:
    """The medians of what was measured in turn, ``(floor, figure)`` each."""
    floors, figures = zip(*pairs)
    return Outcome(statistics.median(figures), statistics.median(floors),
                   statistics.median(figures) / statistics.median(floors), figures,
                   tuple(figure / floor for floor, figure in pairs))


def in_turn(figure: Callable[[], float], floor: Callable[[], float]) -> Outcome:
    return outcome([(floor(), figure()) for _ in range(RUNS)])


def both_in_turn(figure: Callable[[], dict[str, float]],
                 floor: Callable[[], dict[str, float]]) -> dict[str, Outcome]:
    """By what both tell, such as "rate" and "p99": the outcome of the same runs."""
    runs = [(floor(), figure()) for _ in range(RUNS)]
    return {name: outcome([(of_floor[name], of_figure[name]) for of_floor, of_figure in runs])
            for name in runs[0][0] if name in runs[0][1]}


@dataclasses.dataclass(frozen=True)
class Ask:
    """A request that the program is loaded with: method, path with ``{id}`` and ``{name}``, what it answers."""

    path: str
    status: int = 200
    key: str = ""               # instead of the right one
    is_page: bool = False       # asked for by a browser that is signed in
    body: str = ""              # with a place for a number; then it is a POST

    def texts(self, store: Filled) -> list[str]:
        """The requests as they go over the wire, one for each project where the path names one."""
        head = (f"{'POST' if self.body else 'GET'} %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                + (f"Cookie: releasetrack={store.token}\r\n" if self.is_page else
                   f"X-Key: {self.key or store.key}\r\n"))
        if self.body:
            size = len(self.body.encode() % 0)
            return [head % self.path + f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n{self.body}"]
        paths = [self.path.format(id=id_, name=project_name(at).replace("/", "%2F"))
                 for at, id_ in enumerate(store.ids)]
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
ADD_TAG = Ask("/v1/tags", body='{"name": "tag %012d"}')


@dataclasses.dataclass(frozen=True)
class Tracking:
    """The program with sources of the forge that it polls once they are made due here."""

    process_id: int
    port: int
    db: sqlite3.Connection
    count: int

    def make_due(self) -> None:
        self.db.execute("UPDATE source SET next_check_at = 0 WHERE provider = 'forge'")

    def checked(self, since: float) -> tuple[int, float]:
        """``(how many, when the last of them)`` were checked since a moment. Raises BenchError where one failed."""
        (count, last, error), = self.db.execute("""
            SELECT count(*), max(checked_at), max(error) FROM source WHERE provider = 'forge' AND checked_at >= ?
            """, (since,)).fetchall()
        if error:
            raise BenchError(error)
        return count, last or 0.0

    def all_checked(self, since: float) -> float:
        """When the last of all was checked, which is waited for."""
        until = time.monotonic() + 2 * PATIENCE
        while (checked := self.checked(since))[0] < self.count:
            if time.monotonic() > until:
                raise BenchError(f"{checked[0]} of {self.count} checks came within {2 * PATIENCE:g} s")
            time.sleep(0.05)
        return checked[1]


class Bench:
    """The processes and stores of one run, each made when a row first needs it."""

    def __init__(self, folder: pathlib.Path, stack: contextlib.ExitStack, is_quick: bool) -> None:
        self._folder, self._stack = folder, stack
        self._seconds = 0.3 if is_quick else 0.8            # of load in one run
        self._share = 0.3 if is_quick else 1.0              # of the deliveries in one run
        self._numbers = itertools.count(0, 10**6)           # a million tags for each run
        self._copies = itertools.count()

    # Processes and stores

    @functools.cached_property
    def store(self) -> Filled:
        return fill(self._folder / "releases.db", PROJECTS)

    @functools.cached_property
    def large_store(self) -> Filled:
        return fill(self._folder / "large.db", MANY_PROJECTS)

    @functools.cached_property
    def large_port(self) -> int:
        return self._stack.enter_context(self.serving(self.large_store.path))[1]

    @functools.cached_property
    def floor_port(self) -> int:
        return self._port_of("floor")

    @functools.cached_property
    def receiver_port(self) -> int:
        return self._port_of("receiver")

    @functools.cached_property
    def forge_port(self) -> int:
        return self._port_of("forge")

    @functools.cached_property
    def served_port(self) -> int:
        """Of the program on the store that has nothing to send."""
        return self._stack.enter_context(self.serving(self.store.path))[1]

    def _port_of(self, task: str) -> int:
        return int(self._stack.enter_context(running(own_command(task), self._folder / f"{task}.log"))[1])

    @contextlib.contextmanager
    def serving(self, path: pathlib.Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
        """``(process, port)`` of the program on a store. Its limit is out of reach, but kept and told."""
        command = [sys.executable, str(PROGRAM), "serve", "--db", str(path), "--port", "0",
                   "--rate-limit", str(10**9), "--poll-interval", "86400", "--provider", PROVIDER, *options]
        with running(command, self._folder / "serve.log") as (process, first):
            yield process, int(first.rpartition(":")[2])

    @functools.cache
    def _waiting(self, count: int, fast: int, hanging: int) -> pathlib.Path:
        path = self._folder / f"waiting-{count}-{fast}-{hanging}.db"
        shutil.copyfile(self.store.path, path)
        base = f"http://127.0.0.1:{self.receiver_port}"
        if hanging:         # first in line
            add_deliveries(path, 10 * hanging, [f"{base}/hang/{number}" for number in range(hanging)])
        add_deliveries(path, count, [f"{base}/fast/{number}" for number in range(fast)])
        return path

    @contextlib.contextmanager
    def sending(self, count: int, fast: int, hanging: int = 0) -> Iterator[int]:
        """The port of the program on a fresh store in which so many deliveries to fast receivers wait, and
        ten to each hanging one. The receiver has seen none of them."""
        path = self._folder / f"sending-{next(self._copies)}.db"
        shutil.copyfile(self._waiting(count, fast, hanging), path)
        self._tell(self.receiver_port, "forget")
        with self.serving(path) as (_, port):
            yield port

    @staticmethod
    def _tell(port: int, path: str) -> Any:
        """What the receiver or the forge answers to ``forget`` or ``seen``."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{port}/{path}", timeout=PATIENCE) as answer:
            return json.loads(answer.read() or "null")

    def received(self, count: int) -> dict[str, float]:
        """``count`` and ``seconds`` from the first to the last, once so many have come."""
        until = time.monotonic() + PATIENCE
        while (seen := self._tell(self.receiver_port, "seen"))["count"] < count:
            if time.monotonic() > until:
                raise BenchError(f"{seen['count']} of {count} deliveries came within {PATIENCE:g} s")
            time.sleep(0.05)
        return seen

    # Serving

    def load(self, ask: Ask, connections: int, port: int | None = None, seconds: float = 0) -> dict[str, float]:
        """The program under load: rate in requests a second, p50 and p99 in milliseconds."""
        served = self.served_port if port is None else port     # before the numbers: it fills the store
        numbered = {"first": next(self._numbers)} if ask.body else {}
        return told("load", {"port": served, "connections": connections, "seconds": seconds or self._seconds,
                             "status": ask.status, "requests": ask.texts(self.store), **numbered})

    def floor(self, connections: int) -> dict[str, float]:
        """The floor under load, with the headers that the program is sent."""
        return told("load", {"port": self.floor_port, "connections": connections, "seconds": self._seconds,
                             "status": 200, "requests": Ask("/").texts(self.store)})

    def against_floor(self, ask: Ask) -> Outcome:
        return in_turn(lambda: self.load(ask, 8)["rate"], lambda: self.floor(8)["rate"])

    def page(self, ask: Ask) -> Outcome:
        """A page of the large store, and the floor's answer of 20 rows, by one connection."""
        job = {"connections": 1, "seconds": self._seconds, "status": 200}
        return in_turn(
            lambda: told("load", job | {"port": self.large_port, "requests": ask.texts(self.large_store)})["rate"],
            lambda: told("load", job | {"port": self.floor_port, "requests": Ask("/rows").texts(self.store)})["rate"])

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
        job = {"url": f"http://127.0.0.1:{self.receiver_port}/fast/0", "count": int(2000 * self._share),
               "body": "x" * 1024}
        return in_turn(lambda: count / self.deliver(count, fast), lambda: told("post", job)["rate"])

    def beside_hanging(self) -> Outcome:
        return in_turn(lambda: self.deliver(1000, 90, 10), lambda: self.deliver(1000, 90))

    # Polling

    @functools.cache
    def _tracked(self, count: int) -> pathlib.Path:
        path = self._folder / f"tracked-{count}.db"
        shutil.copyfile(self.store.path, path)
        add_sources(path, count)
        return path

    @contextlib.contextmanager
    def tracking(self, count: int, kind: str = "small", at_once: int = AT_ONCE) -> Iterator[Tracking]:
        """The program on a fresh store with so many sources of the forge, at rest."""
        path = self._folder / f"tracking-{next(self._copies)}.db"
        shutil.copyfile(self._tracked(count), path)
        site = f"forge=gitlab:http://127.0.0.1:{self.forge_port}/{kind}"
        with self.serving(path, "--provider", site, "--host-limit", str(at_once)) as (process, port), \
                contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=PATIENCE)) as db:
            self.first_answer(port)
            time.sleep(1)
            yield Tracking(process.pid, port, db, count)

    def poll(self, tracking: Tracking) -> dict[str, float]:
        """Seconds from the first request until the last source is recorded, and the program's CPU seconds."""
        self._tell(self.forge_port, "forget")
        begin, spent = time.time(), cpu_seconds(tracking.process_id)
        tracking.make_due()
        last = tracking.all_checked(begin)
        return {"seconds": last - self._tell(self.forge_port, "seen")["first"],
                "CPU": cpu_seconds(tracking.process_id) - spent}

    def poll_cold_and_warm(self) -> dict[str, float]:
        """The first poll of a store, which finds RELEASES releases of each source, and the next, which is told 304."""
        with self.tracking(int(1000 * self._share)) as tracking:
            cold, warm = self.poll(tracking), self.poll(tracking)
            return {"cold": cold["seconds"], "cold CPU": cold["CPU"], "warm": warm["seconds"], "warm CPU": warm["CPU"]}

    def fetch_plainly(self) -> dict[str, float]:
        """As many answers, fetched and parsed by a plain pool that asks for each in full."""
        found = told("fetch", {"url": f"http://127.0.0.1:{self.forge_port}/small", "threads": AT_ONCE,
                               "count": int(1000 * self._share)})
        return {"cold": found["seconds"], "cold CPU": found["CPU"], "warm": found["seconds"], "warm CPU": found["CPU"]}

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
            forget_highest(tracking.process_id)
            before = resident_mib(tracking.process_id)
            self.poll(tracking)
            rise = highest_mib(tracking.process_id) - before
            return Outcome(rise, figures=(rise,))

    # The process itself

    def start(self) -> float:
        """Milliseconds from the start of the program on a filled store to its first answer."""
        path = self.store.path      # filled before the clock runs
        begin = time.perf_counter()
        with self.serving(path) as (_, port):
            self.first_answer(port)
            return 1000 * (time.perf_counter() - begin)

    def first_answer(self, port: int) -> None:
        """One project, asked for over one connection."""
        asker = Asker(port)
        asker.ask(BY_ID.texts(self.store)[0].encode(), 0.0)
        while (status := asker.status()) is None:
            pass
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
        return dataclasses.replace(found, ratio=(found.figure - 100) / found.floor,
                                   ratios=tuple((figure - 100) / found.floor for figure in found.figures))

    def idle_memory(self) -> Outcome:
        """MiB that a fresh program holds two seconds after its first answer."""
        found = []
        for _ in range(RUNS):
            with self.serving(self.store.path) as (process, port):
                self.first_answer(port)
                time.sleep(2)
                found.append(resident_mib(process.pid))
        return Outcome(statistics.median(found), figures=tuple(found))


# == table =====================================================================
#
# The rows: what is measured, and what it has to reach.


def shown(value: float | None, digits: int) -> str:
    """A number in four digits or so; "-" for none."""
    return "-" if value is None else f"{value:,.{digits if value < 100 else 0}f}"


@dataclasses.dataclass(frozen=True)
class Row:
    """A row: its name, its unit, how it is measured, and its target: of the ratio, or of the figure itself."""

    what: str
    unit: str
    measure: Callable[[Bench], Outcome]
    at_least: float | None = None       # of the ratio
    below: float | None = None          # of the ratio, or of the figure where ``is_absolute``; neither: no target
    is_absolute: bool = False

    def target(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:.2f}"
        if self.below is None:
            return "-"
        return f"< {self.below:g}" + (f" {self.unit}" if self.is_absolute else "")

    def is_reached(self, found: Outcome) -> bool:
        value = found.figure if self.is_absolute else found.ratio
        assert value is not None
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
    Row("GET a project by id, c=8",                          "req/s", lambda b: b.against_floor(BY_ID),       0.38),
    Row("GET a project by name with a slash, c=8",           "req/s", lambda b: b.against_floor(BY_NAME),     0.35),
    Row("GET a page of 20 projects, c=8",                    "req/s", lambda b: b.against_floor(PROJECT_PAGE), 0.20),
    Row("GET a page of 20 releases, c=8",                    "req/s", lambda b: b.against_floor(RELEASE_PAGE), 0.22),
    Row("401 for a wrong key, c=8",                          "req/s", lambda b: b.against_floor(WRONG_KEY),   0.60),
    Row("404 for an unknown project, c=8",                   "req/s", lambda b: b.against_floor(UNKNOWN),     0.38),
    Row("the page of releases, 2,000 projects, to 20 rows",  "pages/s", lambda b: b.page(RELEASES_PAGE),      0.10),
    Row("the page of projects, 2,000 projects, to 20 rows",  "pages/s", lambda b: b.page(PROJECTS_PAGE),      0.10),
    Row("the page of a project, to 20 rows",                 "pages/s", lambda b: b.page(ONE_PROJECT_PAGE),   0.10),
    Row("POST a tag, durable, c=8",                          "req/s", lambda b: b.posting["rate"],            0.20),
    Row("POST a tag, durable, c=8: p99",                     "ms", lambda b: b.posting["p99"], None, 15, True),
    Row("c=32 against c=8: a project by id",                 "req/s", lambda b: b.at_32(BY_ID),               0.90),
    Row("c=32 against c=8: a project by name",               "req/s", lambda b: b.at_32(BY_NAME),             0.90),
    Row("c=32 against c=8: a page of projects",              "req/s", lambda b: b.at_32(PROJECT_PAGE),        0.90),
    Row("c=32 against c=8: a page of releases",              "req/s", lambda b: b.at_32(RELEASE_PAGE),        0.90),
    Row("c=32 against c=8: 401",                             "req/s", lambda b: b.at_32(WRONG_KEY),           0.90),
    Row("c=32 against c=8: 404",                             "req/s", lambda b: b.at_32(UNKNOWN),             0.90),
    Row("GET c=1 beside 10,000 waiting deliveries, to alone", "req/s",
        lambda b: b.reading_beside_sending["rate"], 0.30),
    Row("GET c=1 beside 10,000 waiting deliveries: p99",     "ms",
        lambda b: b.reading_beside_sending["p99"], None, 30, True),
    Row("deliveries to one fast receiver, to urlopen",       "a second", lambda b: b.against_urlopen(2000, 1), 0.40),
    Row("deliveries to 16 fast receivers, to urlopen",       "a second", lambda b: b.against_urlopen(4000, 16), 0.55),
    Row("1,000 deliveries to 90, with 10 that hang to without", "s", lambda b: b.beside_hanging(), None, 3),
    # Of nvchecker's time 1.2 cold and 0.9 warm, of its CPU 0.6 warm: that many times NVCHECKER here.
    Row("poll of 1,000 sources, cold, to a plain pool",      "s", lambda b: b.polling["cold"], None,
        round(1.2 * NVCHECKER, 2)),
    Row("poll of 1,000 sources, warm (304), to a plain pool", "s", lambda b: b.polling["warm"], None,
        round(0.9 * NVCHECKER, 2)),
    Row("CPU of a poll of 1,000 sources, cold, to a pool's", "s", lambda b: b.polling["cold CPU"]),
    Row("CPU of a poll of 1,000 sources, warm, to a pool's", "s", lambda b: b.polling["warm CPU"], None,
        round(0.6 * NVCHECKER_CPU, 2)),
    Row("GET c=8 beside a poll that finds 50,000, to alone", "req/s",
        lambda b: b.reading_beside_polling["rate"], 0.40),
    Row("GET c=8 beside a poll that finds 50,000: p99",      "ms",
        lambda b: b.reading_beside_polling["p99"], None, 50, True),
    Row("memory that a poll of 1 MiB answers adds, 2 at once", "MiB",
        lambda b: b.memory_of_poll("plain", 2), None, 40, True),
    Row("memory that a poll of 1 MiB answers adds, 32 at once", "MiB",
        lambda b: b.memory_of_poll("plain", 32), None, 40, True),
    Row("memory that a poll of gzip answers adds, 2 at once", "MiB",
        lambda b: b.memory_of_poll("gzip", 2), None, 40, True),
    Row("memory that a poll of gzip answers adds, 32 at once", "MiB",
        lambda b: b.memory_of_poll("gzip", 32), None, 40, True),
    Row("start to first answer, to imports (without 100 ms)", "ms", lambda b: b.starting(), None, 2),
    Row("memory idle",                                       "MiB", lambda b: b.idle_memory(), None, 40, True),
)


def line_of(row: Row, bench: Bench) -> tuple[str, bool]:
    """``(the row's line, whether it could be measured)``."""
    try:
        found = row.measure(bench)
    except Exception as error:      # the row's place shows it, and the other rows are measured
        return f"{row.what:<56}{type(error).__name__}: {error}", False
    return (f"{row.what:<56}{shown(found.figure, 2):>9}{shown(found.floor, 2):>9} {row.unit:<9}"
            f"{shown(found.ratio, 3):>7}  {row.target():<9}{row.mark(found)}"), True


def main() -> int:
    """Print the table; 0 when every row could be measured."""
    parser = argparse.ArgumentParser(description="Measure releasetrack.py beside its floors.")
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument("--only", metavar="WORDS", default="", help="the rows whose name holds these words")
    args = parser.parse_args()
    rows = [row for row in ROWS if args.only.lower() in row.what.lower()]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))     # so that what was started is ended
    print(f"{'what':<56}{'figure':>9}{'floor':>9} {'unit':<9}{'ratio':>7}  target", flush=True)
    is_whole = bool(rows)
    with tempfile.TemporaryDirectory(prefix="releasetrack-bench-") as folder, contextlib.ExitStack() as stack:
        bench = Bench(pathlib.Path(folder), stack, args.quick)
        for row in rows:
            line, is_measured = line_of(row, bench)
            is_whole &= is_measured
            print(line.rstrip(), flush=True)
    return 0 if is_whole else 1


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
}

if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in TASKS:
        TASKS[sys.argv[1]]()
    else:
        sys.exit(main())
