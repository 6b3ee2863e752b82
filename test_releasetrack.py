# /// script
# requires-python = ">=3.10"
# dependencies = ["bottle>=0.12.25,<0.14", "waitress>=2.1.2", "pytest", "webtest"]
# ///
"""Tests of releasetrack.py: ``python -m pytest``. They need no network but loopback, and no order.

Servers, sockets, files and processes are real ones. The sections are the rooms of the program.
"""
from __future__ import annotations

import ast
import base64
import contextlib
import dataclasses
import email.utils
import gzip
import hashlib
import hmac
import http.client
import io
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
import urllib.parse
import wsgiref.simple_server
import wsgiref.validate
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import bottle
import pytest
import webtest

import releasetrack as rt

PROGRAM = pathlib.Path(rt.__file__)
SOURCE = PROGRAM.read_text("utf-8")
README = PROGRAM.with_name("README.md").read_text("utf-8")
PASSWORD = "correct horse battery"
HASHED = rt.hash_password(PASSWORD)     # once: it takes 0.2 s


# == helpers ===================================================================


@dataclasses.dataclass
class Seen:
    """A request that a listener got."""

    method: str
    path: str
    headers: dict[str, str]         # names in lower case
    body: bytes
    at: float

    def json(self) -> Any:
        return json.loads(self.body)


Answering = Callable[[Seen], Any]   # -> status, or (status, body), or (status, body, headers)


class Listener:
    """A real HTTP server on loopback: keeps what it gets, answers what ``answer`` says."""

    def __init__(self, answer: Answering | int = 204) -> None:
        self.answer = answer
        self.seen: list[Seen] = []
        self._changed = threading.Condition()
        listener = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                seen = Seen(self.command, self.path, {name.lower(): value for name, value in self.headers.items()},
                            body, time.monotonic())
                with listener._changed:
                    listener.seen.append(seen)
                    listener._changed.notify_all()
                answer = listener.answer if isinstance(listener.answer, int) else listener.answer(seen)
                status, body, headers = (*answer, *({},) * (3 - len(answer))) if isinstance(answer, tuple) else (
                    answer, b"", {})
                if not isinstance(body, bytes):
                    body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status not in (204, 304) and "Transfer-Encoding" not in headers:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_POST = do_HEAD = handle_any

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 1024
            daemon_threads = True

            def handle_error(self, *args: Any) -> None:
                pass        # a client that went away is what some tests are about

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def wait(self, count: int, seconds: float = 15) -> list[Seen]:
        """The requests, once there are so many. Fails when they do not come."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= count, seconds), (
                f"{len(self.seen)} of {count} requests came within {seconds} s")
        return self.seen

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def listen() -> Iterator[Callable[..., Listener]]:
    """Makes listeners, which end with the test."""
    with contextlib.ExitStack() as stack:
        def make(answer: Answering | int = 204) -> Listener:
            listener = Listener(answer)
            stack.callback(listener.close)
            return listener
        yield make


class Forge:
    """A provider that speaks Forgejo's releases: what it has is a list that a test changes."""

    def __init__(self) -> None:
        self.releases: dict[str, list[dict[str, Any]]] = {}
        self.fault: Any = None              # answered instead, if set
        self.listener = Listener(self._answer)
        self.flag = f"forge=forgejo:{self.listener.url}"

    def publish(self, name: str, *versions: str, **about: Any) -> None:
        """Put versions on top of a project's releases, each a minute younger than the one before."""
        entries = self.releases.setdefault(name, [])
        for version in versions:
            minute = len(entries)
            entries.insert(0, {
                "tag_name": version, "name": f"Release {version}", "body": f"Notes of {version}", "draft": False,
                "prerelease": False, "html_url": f"https://forge.example/{name}/releases/tag/{version}",
                "published_at": f"2026-03-01T{10 + minute // 60:02}:{minute % 60:02}:00Z", **about})

    def _answer(self, seen: Seen) -> Any:
        if self.fault is not None:
            return self.fault
        match = re.match(r"/api/v1/repos/([^/]+/[^/]+)/(releases|tags)\?", seen.path)
        if not match or match[1] not in self.releases:
            return 404, {"message": "not found"}
        return 200, self.releases[match[1]] if match[2] == "releases" else []

    def close(self) -> None:
        self.listener.close()


@pytest.fixture
def forge() -> Iterator[Forge]:
    made = Forge()
    yield made
    made.close()


def until(condition: Callable[[], Any], seconds: float = 15) -> Any:
    """What the condition gives once it gives something. Fails when time is up."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"it did not happen within {seconds} s"
        time.sleep(0.02)
    return found


class Client:
    """Calls a service's API over a real socket."""

    def __init__(self, address: str, key: str = "") -> None:
        self.host, self.key = urllib.parse.urlsplit(address).netloc, key

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[
            int, dict[str, str], Any]:
        """``(status, headers with names in lower case, what the JSON says)``; fails for an answer without JSON."""
        connection = http.client.HTTPConnection(self.host, timeout=30)
        sent = {"X-Key": self.key} if self.key else {}
        if body is not None:
            sent["Content-Type"] = "application/json"
            body = body if isinstance(body, (bytes, str)) else json.dumps(body)
        connection.request(method, path, body, sent | (headers or {}))
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        found = {name.lower(): value for name, value in answer.headers.items()}
        assert found["content-type"] == "application/json", (path, found, data)
        return answer.status, found, json.loads(data) if data else None

    def get(self, path: str) -> Any:
        status, _, value = self.ask("GET", path)
        assert status == 200, (path, value)
        return value

    def post(self, path: str, body: Any) -> Any:
        status, _, value = self.ask("POST", path, body)
        assert status == 200, (path, value)
        return value


def run(*arguments: str, stdin: str = "", env: dict[str, str] | None = None,
        cwd: pathlib.Path | None = None) -> subprocess.CompletedProcess[str]:
    """The program as a process, to its end."""
    return subprocess.run([sys.executable, str(PROGRAM), *arguments], input=stdin, capture_output=True, text=True,
                          timeout=60, env={**os.environ, **(env or {})}, cwd=cwd)


def done(*arguments: str, **about: Any) -> str:
    """What a command printed; fails unless it ended well."""
    finished = run(*arguments, **about)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


class Process:
    """``releasetrack.py serve`` as a process of its own."""

    def __init__(self, db: pathlib.Path, *flags: str, env: dict[str, str] | None = None) -> None:
        self.log = open(f"{db}.log", "ab+")
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), "serve", "--db", str(db), "--port", "0", *flags],
            stdout=subprocess.PIPE, stderr=self.log, env={**os.environ, **(env or {})})
        assert self.process.stdout
        first = self.process.stdout.readline().decode()
        assert " listens on http" in first, (first, self.said())
        self.address = first.split(" listens on ")[1].strip()

    def said(self) -> str:
        return pathlib.Path(self.log.name).read_text("utf-8")

    def end(self, by: int = signal.SIGTERM, seconds: float = 12) -> int:
        """The exit status, after a signal."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        status = self.process.wait(seconds)
        if self.process.stdout:
            self.process.stdout.close()
        self.log.close()
        return status


@pytest.fixture
def serve(tmp_path: pathlib.Path) -> Iterator[Callable[..., Process]]:
    """Starts processes on one store, which end with the test."""
    started: list[Process] = []

    def start(*flags: str, **about: Any) -> Process:
        started.append(Process(tmp_path / "releases.db", *flags, **about))
        return started[-1]

    yield start
    for process in started:
        if process.process.poll() is None:
            process.process.kill()
            process.end()


@pytest.fixture
def db(tmp_path: pathlib.Path) -> str:
    """The store that ``serve`` uses, for commands."""
    return str(tmp_path / "releases.db")


def first_key(db: str, *networks: str) -> str:
    """An administrator's account, and a key of it."""
    done("account", "add", "me@example.org", "--db", db, "--password-stdin", stdin=PASSWORD + "\n")
    return done("key", "add", "me@example.org", "test", "--db", db,
                *(word for network in networks for word in ("--network", network)))


class Board:
    """A service in this process without threads, an account, and its API through WebTest."""

    def __init__(self, path: pathlib.Path, **settings: Any) -> None:
        self.service = rt.Service(rt.Settings(db=str(path / "board.db"), **settings))
        self.store = self.service.store
        self.account = self.store.add_account("user", "me@example.org", "Me", HASHED, True)
        self.key = self.store.add_key(self.account.id, "test", ["0.0.0.0/0", "::/0"]).secret
        self.app = webtest.TestApp(self.service.app, extra_environ={"REMOTE_ADDR": "127.0.0.1"})

    def ask(self, method: str, path: str, body: Any = None, *, status: int = 200, **headers: str) -> Any:
        """What the JSON of the answer says; fails for another status."""
        sent = {"X-Key": self.key, **{name.replace("_", "-"): value for name, value in headers.items()}}
        data = b""
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.app.request(path, method=method, body=data, headers=sent, expect_errors=True)
        assert answer.status_int == status, (method, path, answer.status, answer.body)
        assert answer.content_type == "application/json", answer
        return json.loads(answer.body) if answer.body else None

    def faults(self, method: str, path: str, body: Any = None, **about: Any) -> list[str]:
        """The problems that a Bad Request names."""
        answer = self.ask(method, path, body, status=400, **about)
        assert answer["message"] == "Bad Request" and answer["code"] == 400, answer
        return answer["errors"]

    def track(self, provider: str, name: str, *releases: rt.Release, **settings: Any) -> rt.Project:
        """A project whose source has been checked and has these releases (oldest first)."""
        known, key = rt.name_at(self.service.providers[provider], name)
        project, source = self.store.add_project(self.account.id, provider, key, known, settings)
        self.record(source.id, *releases)
        return project

    def record(self, source_id: int, *releases: rt.Release, events: Any = ()) -> None:
        assert self.store.claim_source(source_id, "test", time.time())
        assert self.store.record_found(source_id, "test", rt.Findings(time.time() + 3600, new=releases, events=events))

    def webhook(self, url: str, name: str = "hook", **settings: Any) -> rt.Destination:
        about = {"url": url, "headers": {}, "fields": {}, **settings}
        return self.store.add_destination(self.account.id, "webhook", name, about, rt.make_signing_secret())

    def close(self) -> None:
        self.service.stop()


@pytest.fixture
def board(tmp_path: pathlib.Path) -> Iterator[Board]:
    made = Board(tmp_path)
    yield made
    made.close()


# == architecture ==============================================================

MAY_USE = {     # beside settings and values, which all may use
    "settings": set(), "values": set(), "limits": set(), "store": set(),
    "fetching": {"limits"},
    "providers": set(),
    "tracker": {"limits", "store", "fetching", "providers"},
    "notifications": set(),
    "courier": {"store", "fetching", "notifications"},
    "api": {"limits", "store", "providers", "tracker"},
    "pages": {"limits", "store", "fetching", "providers", "notifications", "api"},
    "service": set(), "cli": set(),     # all above
}
MAY_USE["service"] = set(MAY_USE) - {"service", "cli"}
MAY_USE["cli"] = set(MAY_USE) - {"cli"}

TREE = ast.parse(SOURCE)
DOORS = [(line, text.split()[2]) for line, text in enumerate(SOURCE.splitlines(), 1) if text.startswith("# == ")]


def room_at(line: int) -> str:
    return next((name for door, name in reversed(DOORS) if door <= line), "settings")


def names_bound_by(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(
        node, (ast.AnnAssign, ast.For)) else []
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


HOME = {name: node.lineno for node in TREE.body for name in names_bound_by(node)}


def test_the_docstring_lists_the_rooms_in_their_order():
    listed = (rt.__doc__ or "").split("Rooms, each using only what stands above it:")[1].split()
    assert [name for _, name in DOORS] == listed == list(MAY_USE)
    assert all(len(line) == 80 for line in SOURCE.splitlines() if line.startswith("# == "))


def test_rooms_use_only_what_they_may_and_only_what_stands_above():
    inside_functions = {use for node in ast.walk(TREE) if isinstance(node, (ast.FunctionDef, ast.Lambda))
                        for use in ast.walk(node) if isinstance(use, ast.Name)}
    for use in ast.walk(TREE):
        if isinstance(use, ast.Name) and use.id in HOME:
            user, used = room_at(use.lineno), room_at(HOME[use.id])
            assert used in MAY_USE[user] | {user, "settings", "values"}, f"{use.id}: {user} uses {used}"
            assert HOME[use.id] <= use.lineno or use in inside_functions and user == used, (
                f"{use.id}, line {use.lineno}, is defined below")


def test_no_function_is_longer_than_sixty_lines_and_no_class_than_350_but_the_store():
    for node in ast.walk(TREE):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= {"Store": 900}.get(node.name, 350 if isinstance(node, ast.ClassDef) else 60), node.name


def test_no_local_variable_takes_the_name_of_a_top_level_one():
    for function in (node for node in ast.walk(TREE) if isinstance(node, ast.FunctionDef)):
        bound = {name.id for name in ast.walk(function)
                 if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
        assert not bound & set(HOME), function.name


def test_no_sql_is_assembled():
    """What is executed is a text as it stands, or a row of a table of such texts."""
    tables = {"PROJECT_PAGES"}
    for call in (node for node in ast.walk(TREE) if isinstance(node, ast.Call)):
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if method in ("execute", "executemany", "executescript", "_rows"):
            sql = call.args[0]
            is_fixed = isinstance(sql, ast.Constant) or isinstance(sql, ast.Subscript) and ast.unparse(
                sql.value) in tables
            is_migration = ast.unparse(sql) == "statement" and "for script in MIGRATIONS" in SOURCE
            is_runner = ast.unparse(sql) == "sql" and ast.unparse(call.func) == "self._db.execute"
            assert is_fixed or is_migration or is_runner, ast.unparse(call)
    assert "SELECT *" not in SOURCE


def test_exceptions_of_any_kind_are_caught_at_two_edges_only():
    assert len(re.findall(r"except Exception\b", SOURCE)) == 2
    assert "except:" not in SOURCE
    assert SOURCE.count("{{!") == 0     # raw output in a template


def test_only_the_card_s_packages_are_imported_and_waitress_only_to_serve():
    imports = {alias.name.split(".")[0]: node for node in ast.walk(TREE) if isinstance(node, ast.Import)
               for alias in node.names}
    imports |= {str(node.module).split(".")[0]: node for node in ast.walk(TREE) if isinstance(node, ast.ImportFrom)}
    assert {name for name in imports if name not in sys.stdlib_module_names} == {"bottle", "waitress"}
    assert imports["bottle"].col_offset == 0 and imports["waitress"].col_offset > 0


def test_importing_the_file_does_nothing(tmp_path):
    program = ("import threading, logging, os, sys; sys.path.insert(0, sys.argv[1]); import releasetrack; import bottle;"
               "print(threading.active_count(), logging.getLogger('releasetrack').handlers, os.listdir('.'),"
               "'waitress' in sys.modules, len(bottle.default_app().routes))")
    done_ = subprocess.run([sys.executable, "-B", "-c", program, str(PROGRAM.parent)], cwd=tmp_path, text=True,
                           capture_output=True, check=True)
    assert done_.stdout.strip() == "1 [] [] False 0"


@pytest.mark.parametrize("word", [
    *(f"`{words}`" for words in rt.COMMANDS), *(f"`{rt.flag_of(row)}`" for row in rt.SETTINGS.values()),
    *(f"`{rt.variable_of(row)}`" for row in rt.SETTINGS.values()), *(f"`{id_}`" for id_ in rt.PROVIDERS),
    *(f"`{name}`" for name in rt.DIALECTS), *(f"`{{{name}}}`" for name in sorted(rt.TEMPLATE_NAMES))])
def test_the_readme_names_every_command_setting_provider_dialect_and_variable(word):
    assert word in README


def test_the_readme_s_table_of_the_api_is_the_routes():
    said = set(re.findall(r"^\| `([A-Z]+) /v1/([^`?]*)`", README, re.MULTILINE))
    routes = {(method, path) for path, methods in rt.ROUTES.items() for method in methods}
    routes |= {(method, "/".join(filter(None, (project, what)))) for what, methods in rt.PROJECT_ROUTES.items()
               for method in methods for project in ("projects/{id}", "projects/{provider}/{name}")}
    assert said == routes


def test_the_readme_s_tables_of_providers_and_settings_are_true():
    for provider in rt.PROVIDERS.values():
        assert re.search(rf"^\| `{provider.id}` \| [^|]*\| {re.escape(provider.dialect.form)} \|", README, re.MULTILINE)
    for row in rt.SETTINGS.values():
        default = f"{row.default:g}" if isinstance(row.default, float) else str(row.default or "")
        line = re.search(rf"^\| `{rt.flag_of(row)}` \| `{rt.variable_of(row)}` \| (.*?) \| (.*) \|$", README, re.MULTILINE)
        assert line and line[1].strip("`") == default and line[2] == row.metadata["about"], row.name


def test_the_readme_s_example_of_embedding_runs_as_it_stands(tmp_path):
    example = re.search(r"```python\n(import bottle\n.*?)```", README, re.DOTALL)
    assert example
    finished = subprocess.run([sys.executable, "-c", example[1]], cwd=tmp_path, text=True,
                              capture_output=True, timeout=60, env={**os.environ, "PYTHONPATH": str(PROGRAM.parent)})
    assert finished.returncode == 0, finished.stderr


# == api =======================================================================


def release(version: str, date: str = "2026-03-01T10:00:00Z", message: str = "", **about: Any) -> rt.Release:
    note = rt.Note(f"Release {version}", message, "https://forge.example/note") if message else None
    return rt.Release(version, date, note=note, **about)


def test_every_request_needs_a_key_in_one_of_three_places(board):
    def status(**headers):
        return board.app.get("/v1/tags", headers=headers, expect_errors=True).status_int

    def basic(user, password):
        return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}

    assert status(**{"X-Key": board.key}) == 200
    assert status(**basic(board.key, "")) == status(**basic("", board.key)) == status(**basic("x", board.key)) == 200
    assert status() == status(**{"X-Key": "rt_wrong"}) == status(**basic("me@example.org", PASSWORD)) == 401
    assert status(Authorization="Basic !!!") == status(Authorization="Bearer " + board.key) == 401
    answer = board.app.get("/v1/tags", expect_errors=True)
    assert answer.headers["WWW-Authenticate"].startswith("Basic ")
    assert answer.json == {"message": "Unauthorized", "code": 401}


@pytest.mark.parametrize("wrong", [lambda key: key[:-1], lambda key: key.upper(), lambda key: key + "0",
                                   lambda key: "rt_" + "0" * 64, lambda key: "\u00e9", lambda key: "'"])
def test_a_key_that_is_not_quite_right_is_answered_like_any_other(board, wrong):
    answer = board.app.get("/v1/tags", headers={"X-Key": wrong(board.key)}, expect_errors=True)
    assert (answer.status_int, answer.json) == (401, {"message": "Unauthorized", "code": 401})


def test_a_removed_key_is_refused(board):
    assert board.store.remove_key(board.account.id, "test")
    board.ask("GET", "/v1/tags", status=401)


def test_the_use_of_a_key_is_remembered(board):
    board.ask("GET", "/v1/tags")
    board.store.sweep(time.time())
    assert time.time() - board.store.keys(board.account.id)[0].used_at < 60


@pytest.mark.parametrize("networks, address, is_accepted", [
    (["10.0.0.0/8"],        "10.1.2.3",             True),
    (["10.0.0.0/8"],        "::ffff:10.1.2.3",      True),
    (["10.0.0.0/8"],        "11.1.2.3",             False),
    (["10.0.0.0/8"],        "",                     False),
    (["10.0.0.0/8"],        "unix:",                False),
    (["192.0.2.7/32"],      "192.0.2.7",            True),
    (["192.0.2.7/32"],      "192.0.2.8",            False),
    (["2001:db8::/32"],     "2001:db8::1",          True),
    (["2001:db8::/32"],     "2001:db9::1",          False),
    (["fe80::/10"],         "fe80::1%eth0",         True),
    (["0.0.0.0/0"],         "2001:db8::1",          False),
    (["10.0.0.0/8", "::1"], "::1",                  True),
])
def test_a_key_is_accepted_from_its_networks_alone(board, networks, address, is_accepted):
    secret = board.store.add_key(board.account.id, "narrow", [rt._network(one) for one in networks]).secret
    answer = board.app.get("/v1/tags", headers={"X-Key": secret}, extra_environ={"REMOTE_ADDR": address},
                           expect_errors=True)
    assert answer.status_int == (200 if is_accepted else 401)


FORWARDED = [   # what the proxy at 10.0.0.1 says, and who asks
    ("192.0.2.7",                       "192.0.2.7"),
    ("198.51.100.9, 192.0.2.7",         "192.0.2.7"),
    ("192.0.2.7, 10.0.0.2",             "192.0.2.7"),
    (" 192.0.2.7 ",                     "192.0.2.7"),
    ("2001:db8::1",                     "2001:db8::1"),
    ("::ffff:192.0.2.7",                "::ffff:192.0.2.7"),
    ("192.0.2.7,",                      ""),
    ("192.0.2.7:4711",                  ""),
    ("[2001:db8::1]:80",                ""),
    ("unknown",                         ""),
    ("\"192.0.2.7\"",                   ""),
    ("",                                ""),
    ("10.0.0.2",                        "10.0.0.2"),
]


@pytest.mark.parametrize("said, address", FORWARDED)
def test_behind_a_trusted_proxy_the_last_address_that_is_no_proxy_counts(said, address):
    environ = {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_FOR": said, "HTTP_FORWARDED": "for=203.0.113.5"}
    assert rt.client_address(environ, ("10.0.0.0/30",)) == address


@pytest.mark.parametrize("said, _", FORWARDED)
def test_without_a_trusted_proxy_nothing_that_is_said_counts(said, _):
    environ = {"REMOTE_ADDR": "203.0.113.9", "HTTP_X_FORWARDED_FOR": said, "HTTP_X_REAL_IP": "10.0.0.1"}
    assert rt.client_address(environ, ()) == rt.client_address(environ, ("10.0.0.1/32",)) == "203.0.113.9"


def test_a_trusted_proxy_that_says_nothing_asks_for_itself():
    assert rt.client_address({"REMOTE_ADDR": "10.0.0.1"}, ("10.0.0.1/32",)) == "10.0.0.1"


def test_log_in_opens_the_list_of_keys_and_nothing_else(board):
    def ask(path, user, password):
        coded = base64.b64encode(f"{user}:{password}".encode()).decode()
        return board.app.get(path, headers={"Authorization": f"Basic {coded}"}, expect_errors=True)

    answer = ask("/v1/auth/keys", "ME@example.org", PASSWORD)
    assert answer.json == {"keys": [{"name": "test", "secret": board.key,
                                     "authorized_networks": ["0.0.0.0/0", "::/0"]}]}
    assert "X-Ratelimit-Remaining" in answer.headers
    for path, user, password in (("/v1/auth/keys", "me@example.org", "wrong"), ("/v1/auth/keys", "no@x.org", PASSWORD),
                                 ("/v1/auth/keys", board.key, ""), ("/v1/tags", "me@example.org", PASSWORD)):
        assert ask(path, user, password).status_int == 401
    board.ask("GET", "/v1/auth/keys", status=401)


def test_passwords_are_tried_thirty_times_an_hour_and_then_not_read(board):
    gate = rt.LoginGate()       # a try costs 0.2 s, so all but the last are counted without one
    gate._windows.take("account me@example.org", rt.LOGIN_TRIES - 1, 0.0)
    assert not gate.check("me@example.org", "192.0.2.1", "wrong", board.account.password, 1.0)
    with pytest.raises(rt.TooMany) as refused:
        gate.check("me@example.org", "192.0.2.1", PASSWORD, board.account.password, 2.0)
    assert 3590 < refused.value.retry_after <= 3600


def test_the_rate_limit_counts_by_key_with_its_costs_and_says_where_it_stands(tmp_path):
    board = Board(tmp_path, rate_limit=25)
    other = board.store.add_key(board.account.id, "other", ["0.0.0.0/0"]).secret

    def ask(method, key, path="/v1/tags"):
        body = {"name": f"tag {time.monotonic_ns()}"} if method == "POST" else None
        answer = board.app.request(path, method=method, headers={"X-Key": key, "Content-Type": "application/json"},
                                   body=json.dumps(body).encode() if body else b"", expect_errors=True)
        return answer.status_int, answer.headers.get("X-Ratelimit-Remaining"), answer

    try:
        assert ask("GET", board.key)[:2] == (200, "24")
        assert ask("POST", board.key)[:2] == (200, "14")
        assert ask("GET", board.key, "/v1/nothing")[:2] == (404, "13")
        assert ask("DELETE", board.key, "/v1/tags/none")[:2] == (404, "3")
        status, remaining, answer = ask("POST", board.key)      # costs more than remains: refused, costs nothing
        assert (status, remaining) == (429, "3")
        assert answer.json == {"message": "Too Many Requests", "code": 429}
        assert answer.headers["X-Ratelimit-Limit"] == "25"
        assert 3500 < int(answer.headers["X-Ratelimit-Reset"]) <= 3600
        assert 3500 < int(answer.headers["Retry-After"]) <= 3601
        assert [ask("GET", board.key)[0] for _ in range(4)] == [200, 200, 200, 429]
        assert ask("GET", other)[:2] == (200, "24")
    finally:
        board.close()


def test_wrong_keys_are_counted_by_address_and_a_right_one_still_opens(tmp_path):
    board = Board(tmp_path, rate_limit=3)
    try:
        wrong = [board.app.get("/v1/tags", headers={"X-Key": f"rt_{n}"}, expect_errors=True) for n in range(5)]
        assert [answer.status_int for answer in wrong] == [401, 401, 401, 429, 429]
        assert "Retry-After" in wrong[-1].headers
        elsewhere = board.app.get("/v1/tags", headers={"X-Key": "rt_x"}, extra_environ={"REMOTE_ADDR": "192.0.2.9"},
                                  expect_errors=True)
        assert elsewhere.status_int == 401
        assert board.app.get("/v1/tags", headers={"X-Key": board.key}).status_int == 200
    finally:
        board.close()


def test_without_a_limit_there_are_no_headers_of_one(tmp_path):
    board = Board(tmp_path, rate_limit=0)
    try:
        answer = board.app.get("/v1/tags", headers={"X-Key": board.key})
        assert not [name for name in answer.headers if name.lower().startswith("x-ratelimit")]
    finally:
        board.close()


@pytest.mark.parametrize("method, path, status, allow", [
    ("GET",     "/v1/nothing",                      404, None),
    ("GET",     "/v1",                              404, None),
    ("GET",     "/v1/",                             404, None),
    ("GET",     "/v1/tags/",                        404, None),
    ("GET",     "/v1/projects/unknownid",           404, None),
    ("GET",     "/v1/projects/github/no/such",      404, None),
    ("GET",     "/v1/project/github",               404, None),
    ("GET",     "/v1/projects/../tags",             404, None),
    ("PUT",     "/v1/tags",                         405, "GET, HEAD, POST"),
    ("DELETE",  "/v1/providers",                    405, "GET, HEAD"),
    ("PATCH",   "/v1/projects/github",              405, "GET, HEAD"),
    ("OPTIONS", "/v1/projects",                     405, "GET, HEAD, POST"),
    ("TRACE",   "/v1/webhooks",                     405, "GET, HEAD"),
    ("POST",    "/v1/projects/github/a/b/releases", 405, "GET, HEAD"),
    ("PUT",     "/v1/projects/github/a/b",          405, "DELETE, GET, HEAD, POST"),
])
def test_unknown_paths_and_methods_are_messages(board, method, path, status, allow):
    board.track("github", "a/b")
    answer = board.app.request(path, method=method, headers={"X-Key": board.key}, expect_errors=True)
    assert (answer.status_int, answer.headers.get("Allow")) == (status, allow)
    assert answer.json == {"message": http.client.responses[status], "code": status}


def test_head_answers_like_get_without_a_body(board):
    answer = board.app.head("/v1/tags", headers={"X-Key": board.key})
    assert (answer.status_int, answer.body) == (200, b"") and int(answer.headers["Content-Length"]) > 0


def test_the_providers_are_listed_all_or_those_in_use(board):
    assert board.ask("GET", "/v1/providers") == {"providers": sorted(rt.PROVIDERS)}
    assert board.ask("GET", "/v1/providers?added") == {"providers": []}
    board.track("pypi", "bottle")
    board.track("github", "bottlepy/bottle")
    for query in ("?added", "?added=", "?added=false", "?x=1&added=1"):
        assert board.ask("GET", f"/v1/providers{query}") == {"providers": ["github", "pypi"]}


# Projects: adding


def test_a_project_is_added_with_the_defaults_of_the_contract(board):
    project = board.ask("POST", "/v1/projects", {"provider": "github", "name": "bottlepy/bottle"})
    assert re.fullmatch(r"[a-z2-7]{26}", project["id"])
    assert project == {"id": project["id"], "name": "bottlepy/bottle", "provider": "github",
                       "url": "https://github.com/bottlepy/bottle/releases", "email_notification": "daily"}
    for path in (f"/v1/projects/{project['id']}", "/v1/projects/github/bottlepy/bottle",
                 f"/v1/project/{project['id']}", "/v1/project/github/bottlepy/bottle",
                 "/v1/projects/github/BottlePy/Bottle", "/v1/projects/github/bottlepy%2Fbottle"):
        assert board.ask("GET", path) == project


@pytest.mark.parametrize("body, errors", [
    ({"provider": "github"},                    ["Project name is required."]),
    ({"provider": "github", "name": ""},        ["Project name is required."]),
    ({"provider": "github", "name": None},      ["Project name is required."]),
    ({"provider": "github", "name": "  "},      ["Project name is required."]),
    ({"name": "a/b"},                           ["Provider is required."]),
    ({},                                        ["Provider is required.", "Project name is required."]),
    ({"provider": "nope", "name": "a/b"},       ["Provider 'nope' is not known"]),
    ({"provider": 3, "name": []},               ["Field provider takes a text.", "Field name takes a text."]),
    ({"provider": "github", "name": "a"},       ["Project name 'a' has not the form that github takes"]),
    ({"provider": "github", "name": "a/b/c"},   ["Project name 'a/b/c' has not the form"]),
    ({"provider": "github", "name": "a/.."},    ["Project name 'a/..' has not the form"]),
    ({"provider": "github", "name": "a\0/b"},   ["Field name takes a text of at most 200"]),
    ({"provider": "github", "name": "a/" + "b" * 300},      ["Field name takes a text of at most 200"]),
    ({"provider": "pypi", "name": "b\u00f6ttle"},           ["Project name 'böttle' has not the form"]),
    ({"provider": "github", "name": "\ud800/b"},            ["Field name takes a text of at most 200"]),
    ({"provider": "github", "name": "a/b", "tags": ["x"]},  ["Field tags: there is no tag 'x'."]),
])
def test_a_project_that_cannot_be_added_is_told_why(board, body, errors):
    found = board.faults("POST", "/v1/projects", body)
    assert len(found) == len(errors) and all(one.startswith(said) for one, said in zip(found, errors)), found
    assert board.ask("GET", "/v1/projects")["projects"] == []


def test_a_project_is_tracked_once_however_its_name_is_written(board):
    for provider, name, again in (("github", "Bottlepy/Bottle", "bottlepy/bottle"), ("pypi", "Flask_Login", "flask-login"),
                                  ("dockerhub", "nginx", "library/nginx"), ("gitlab", "a/b", "/a//b/")):
        board.ask("POST", "/v1/projects", {"provider": provider, "name": name})
        assert "is tracked already" in board.faults("POST", "/v1/projects", {"provider": provider, "name": again})[0]
    assert len(board.ask("GET", "/v1/projects")["projects"]) == 4


@pytest.mark.parametrize("body, headers, said", [
    (b"{",                              {},                                 "could not be decoded as JSON"),
    (b"",                               {},                                 "could not be decoded as JSON"),
    (b"\xff\xfe{\0}\0",                 {},                                 "could not be decoded as JSON"),
    (b'{"name": "\xff"}',               {},                                 "could not be decoded as JSON"),
    (b'{"name": NaN}',                  {},                                 "could not be decoded as JSON"),
    (b'{"name": -Infinity}',            {},                                 "could not be decoded as JSON"),
    (b'{"name": ' + b"9" * 5000 + b"}", {},                                 "could not be decoded as JSON"),
    (b"[" * 100_000,                    {},                                 "could not be decoded as JSON"),
    (b'{"a":' * 50_000 + b"1",          {},                                 "could not be decoded as JSON"),
    (b"[]",                             {},                                 "takes a JSON object"),
    (b"null",                           {},                                 "takes a JSON object"),
    (b'"name"',                         {},                                 "takes a JSON object"),
    (b'{"name": "x"}',                  {"Content_Type": "text/plain"},     "Content-Type: application/json"),
    (b'{"name": "x"}',                  {"Content_Type": "application/xml"}, "Content-Type: application/json"),
])
def test_a_body_that_is_no_json_object_is_a_bad_request(board, body, headers, said):
    assert said in board.faults("POST", "/v1/tags", body, **headers)[0]


def test_a_charset_beside_the_content_type_does_no_harm(board):
    assert board.ask("POST", "/v1/tags", b'{"name": "x"}', Content_Type="Application/JSON; charset=utf-8")["name"] == "x"


def test_a_body_of_more_than_a_mebibyte_is_too_large(board):
    body = b'{"name": "x", "padding": "' + b"x" * (rt.BODY_LIMIT - 28) + b'"}'
    assert len(body) == rt.BODY_LIMIT
    assert board.ask("POST", "/v1/tags", body)["name"] == "x"
    assert board.ask("POST", "/v1/tags", body + b" ", status=413) == {"message": "Request Entity Too Large", "code": 413}


# Projects: settings


def test_what_an_update_sets_stays_until_it_is_set_again(board):
    tags = [board.store.add_tag(board.account.id, name) for name in ("one", "two")]
    hook = board.webhook("http://127.0.0.1:9/")
    slack = board.store.add_destination(board.account.id, "slack", "team", {}, "")
    project = board.track("github", "a/b")
    path = f"/v1/projects/{project.id}"
    settings = {
        "email_notification": "weekly", "exclude_prereleases": True, "exclude_updated": True, "note": "mine: ü",
        "exclude_version_regexp": [{"value": "-rc"}, {"value": "^v2", "inverse": True}],
        "tags": [tags[1].id, tags[0].id], "webhooks": [hook.id], "slack_channels": [slack.id]}
    shown = board.ask("POST", path, {**settings, "unknown": 1})
    assert shown.pop("tags") == sorted(settings["tags"])
    assert {name: shown.get(name) for name in settings if name != "tags"} == {
        name: value for name, value in settings.items() if name != "tags"}
    kept = board.ask("GET", path)
    assert board.ask("POST", path, {}) == kept
    assert board.ask("POST", path, dict.fromkeys(settings)) == kept     # null keeps
    emptied = board.ask("POST", path, {"tags": [], "webhooks": [], "slack_channels": [], "note": "",
                                       "exclude_version_regexp": [], "exclude_prereleases": False,
                                       "exclude_updated": False, "email_notification": "none"})
    assert set(emptied) == {"id", "name", "provider", "url", "email_notification"}
    assert emptied == board.ask("GET", "/v1/project/github/a/b")


def test_the_default_of_e_mail_is_the_account_s_own_when_it_is_set(board):
    project = board.track("github", "a/b")
    assert board.ask("POST", f"/v1/projects/{project.id}", {"email_notification": "weekly"})["email_notification"] == "weekly"
    assert board.ask("POST", f"/v1/projects/{project.id}", {"email_notification": "default"})["email_notification"] == "daily"


@pytest.mark.parametrize("body, said", [
    ({"exclude_updated": 1},                                    "exclude_updated takes true or false"),
    ({"exclude_prereleases": "true"},                           "exclude_prereleases takes true or false"),
    ({"email_notification": "monthly"},                         "email_notification takes one of: none, instant, hourly"),
    ({"email_notification": True},                              "email_notification takes one of"),
    ({"note": 5},                                               "note takes a text"),
    ({"note": "\ud800"},                                        "note takes a text"),
    ({"tags": "x"},                                             "tags takes a list"),
    ({"tags": [5]},                                             "tags: there is no tag 5"),
    ({"webhooks": ["nope"]},                                    "webhooks: there is no webhook destination 'nope'"),
    ({"exclude_version_regexp": {}},                            "exclude_version_regexp takes a list"),
    ({"exclude_version_regexp": ["x"]},                         "exclude_version_regexp[0] takes an object"),
    ({"exclude_version_regexp": [{"value": ""}]},               "exclude_version_regexp[0] takes an object"),
    ({"exclude_version_regexp": [{"value": "x", "inverse": 1.5}]}, "exclude_version_regexp[0] takes an object"),
    ({"exclude_version_regexp": [{"value": "("}]},              "exclude_version_regexp[0]: '(' is no regular expression"),
    ({"exclude_version_regexp": [{"value": r"\z"}]},            "is no regular expression"),
    ({"exclude_version_regexp": [{"value": "[[:alpha:]]"}]},    "POSIX class"),
    ({"exclude_version_regexp": [{"value": "x" * 501}]},        "at most 500 characters"),
    ({"exclude_version_regexp": [{"value": "x"}] * 51},         "a list of at most 50"),
])
def test_an_update_that_makes_no_sense_changes_nothing_and_says_which_field(board, body, said):
    project = board.track("github", "a/b")
    before = board.ask("GET", f"/v1/projects/{project.id}")
    assert said in board.faults("POST", f"/v1/projects/{project.id}", {**body, "exclude_prereleases": body.get(
        "exclude_prereleases", True)})[0]
    assert board.ask("GET", f"/v1/projects/{project.id}") == before


def test_all_problems_of_a_body_are_told_at_once(board):
    project = board.track("github", "a/b")
    found = board.faults("POST", f"/v1/projects/{project.id}", {"note": 1, "tags": 2, "exclude_updated": 3,
                                                                "exclude_version_regexp": [{"value": "("}, {}]})
    assert len(found) == 5


def test_destinations_of_another_account_cannot_be_listed(board):
    other = board.store.add_account("user", "other@example.org", "Other", "x", False)
    theirs = board.store.add_destination(other.id, "webhook", "theirs", {}, "")
    tag = board.store.add_tag(other.id, "theirs")
    project = board.track("github", "a/b")
    assert len(board.faults("POST", f"/v1/projects/{project.id}", {"webhooks": [theirs.id], "tags": [tag.id]})) == 2


def test_an_account_sees_nothing_of_another(board):
    other = board.store.add_account("user", "other@example.org", "Other", "x", False)
    key = board.store.add_key(other.id, "k", ["0.0.0.0/0"]).secret
    project = board.track("github", "a/b", release("1.0", message="<p>n</p>"))
    tag = board.ask("POST", "/v1/tags", {"name": "mine"})
    for method, path in (("GET", f"projects/{project.id}"), ("DELETE", f"projects/{project.id}"),
                         ("POST", f"projects/{project.id}"), ("GET", "projects/github/a/b"),
                         ("GET", f"projects/{project.id}/releases"), ("GET", "projects/github/a/b/releases/1.0/note"),
                         ("GET", f"tags/{tag['id']}"), ("POST", f"tags/{tag['id']}"), ("DELETE", f"tags/{tag['id']}")):
        board.ask(method, f"/v1/{path}", {"name": "x"} if method == "POST" else None, status=404, X_Key=key)
    assert board.ask("GET", "/v1/projects", X_Key=key)["projects"] == []
    assert board.ask("GET", "/v1/tags", X_Key=key)["tags"] == []
    assert board.ask("GET", "/v1/projects/search?q=a", X_Key=key)["projects"] == []
    assert f"no tag '{tag['id']}'" in board.faults("GET", f"/v1/projects?tag={tag['id']}", X_Key=key)[0]


def test_a_removed_project_is_gone(board):
    project = board.track("github", "a/b", release("1.0"))
    assert board.ask("DELETE", f"/v1/projects/{project.id}") == {"message": "OK", "code": 200}
    board.ask("DELETE", f"/v1/projects/{project.id}", status=404)
    board.ask("GET", "/v1/projects/github/a/b", status=404)
    board.track("github", "a/b")
    assert board.ask("DELETE", "/v1/projects/github/a/b") == {"message": "OK", "code": 200}


# Projects: lists


@pytest.fixture
def many(board):
    """45 projects: newest release, name and time of adding in three different orders; every third tagged."""
    tag = board.store.add_tag(board.account.id, "third")
    for n in range(45):
        name = f"o/p{(n * 7) % 45:02}"
        project = board.track("github" if n % 5 else "gitlab", name, release("1.0", f"2026-01-{n * 2 % 31 + 1:02}T00:00:0{n // 31}Z"))
        if n % 3 == 0:
            board.store.update_project(board.account.id, project.id, {"tags": [tag.id]})
    return board, tag


def all_pages(board, path):
    joint, pages = "&" if "?" in path else "?", []
    total = board.ask("GET", path)["total_pages"]
    for page in range(1, total + 1):
        pages.append([project["name"] for project in board.ask("GET", f"{path}{joint}page={page}")["projects"]])
    assert all(len(page) == 20 for page in pages[:-1]) and 0 < len(pages[-1]) <= 20
    assert board.ask("GET", f"{path}{joint}page={total + 1}")["projects"] == []
    return [name for page in pages for name in page]


def test_lists_are_paged_in_each_order_and_either_way(many):
    board, _ = many
    added = [f"o/p{(n * 7) % 45:02}" for n in range(45)]
    date = {f"o/p{(n * 7) % 45:02}": (n * 2 % 31, n // 31) for n in range(45)}
    assert all_pages(board, "/v1/projects?order=added") == added[::-1]
    assert all_pages(board, "/v1/projects?order=added&reverse") == added
    assert all_pages(board, "/v1/projects?order=name") == sorted(added)
    assert all_pages(board, "/v1/projects?order=name&reverse=0") == sorted(added)[::-1]
    newest = all_pages(board, "/v1/projects")
    assert newest == all_pages(board, "/v1/projects?order=updated") and sorted(newest) == sorted(added)
    assert [date[name] for name in newest] == sorted(date.values(), reverse=True)
    assert all_pages(board, "/v1/projects?reverse") == newest[::-1]


def test_lists_are_narrowed_by_provider_and_tag(many):
    board, tag = many
    added = [f"o/p{(n * 7) % 45:02}" for n in range(45)]
    at_gitlab, tagged = set(added[::5]), set(added[::3])
    assert set(all_pages(board, "/v1/projects/gitlab?order=name")) == at_gitlab
    assert all_pages(board, f"/v1/projects?tag={tag.id}&order=name") == sorted(tagged)
    assert all_pages(board, f"/v1/projects/gitlab?tag={tag.id}&order=name") == sorted(tagged & at_gitlab)
    assert board.ask("GET", "/v1/projects/pypi") == {"projects": [], "total_pages": 1}
    assert board.ask("GET", "/v1/projects")["total_pages"] == 3
    assert board.ask("GET", f"/v1/projects?tag={tag.id}")["total_pages"] == 1


def test_the_date_of_the_newest_release_orders_projects_as_it_changes(board):
    old = board.track("github", "o/old", release("1.0", "2026-01-01T00:00:00Z"))
    board.track("github", "o/young", release("1.0", "2026-02-01T00:00:00Z"))
    none = board.track("github", "o/none")
    assert [one["name"] for one in board.ask("GET", "/v1/projects")["projects"]] == ["o/young", "o/old", "o/none"]
    board.record(old.source_id, release("2.0", "2026-03-01T00:00:00Z"))
    assert [one["name"] for one in board.ask("GET", "/v1/projects")["projects"]] == ["o/old", "o/young", "o/none"]
    board.record(none.source_id, release("2.0", "2026-02-02T00:00:00Z"))
    assert [one["name"] for one in board.ask("GET", "/v1/projects")["projects"]] == ["o/old", "o/none", "o/young"]


def test_search_finds_parts_of_names_whatever_their_case(board):
    for provider, name in (("github", "Seldaek/monolog"), ("github", "bottlepy/bottle"), ("pypi", "bottle"),
                           ("github", "a/100_percent")):
        board.track(provider, name)

    def names(query):
        found = board.ask("GET", query)
        return [(one["provider"], one["name"]) for one in found["projects"]]

    assert names("/v1/projects/search?q=BOTTLE") == [("pypi", "bottle"), ("github", "bottlepy/bottle")]
    assert names("/v1/projects/search?q=bottle&provider=github") == [("github", "bottlepy/bottle")]
    assert names("/v1/projects/search?q=_p") == [("github", "a/100_percent")]
    assert names("/v1/projects/search?q=%25") == []
    assert board.ask("GET", "/v1/projects/search?q=xyz") == {"q": "xyz", "projects": []}
    found = board.ask("GET", "/v1/projects?q=bottle&page=x&order=y&tag=z")      # all else is left aside
    assert [one["name"] for one in found["projects"]] == ["bottle", "bottlepy/bottle"] and found["total_pages"] == 1
    assert names("/v1/projects/pypi?q=bottle&page=7") == [("pypi", "bottle")]


@pytest.mark.parametrize("query, said", [
    ("page=0",                  "page takes a whole number from 1"),
    ("page=-1",                 "page takes"),
    ("page=",                   "page takes"),
    ("page=1e9",                "page takes"),
    ("page=1_000",              "page takes"),
    ("page=%EF%BC%99",          "page takes"),
    ("page=9223372036854775808", "page takes"),
    ("page=" + "9" * 30,        "page takes"),
    ("order=size",              "order takes one of: updated, added, name"),
    ("order=",                  "order takes one of"),
    ("tag=nope",                "tag: there is no tag 'nope'"),
    ("tag=",                    "tag takes a text"),
    ("tag=%00",                 "tag takes a text"),
    ("q=",                      "q takes a text"),
    ("q=%ff",                   "parameters in UTF-8"),
    ("q=a%00b",                 "q takes a text"),
    ("&".join(f"a{n}=1" for n in range(200)), "at most 100 parameters"),
])
def test_a_parameter_outside_what_it_takes_is_a_bad_request_that_names_it(board, query, said):
    assert said in board.faults("GET", f"/v1/projects?{query}")[0]


def test_search_needs_something_to_search_for_and_a_provider_that_there_is(board):
    assert "q is required" in board.faults("GET", "/v1/projects/search")[0]
    assert "no provider 'nope'" in board.faults("GET", "/v1/projects/search?q=a&provider=nope")[0]


# Releases


def test_releases_are_shown_newest_first_with_their_marks_and_paged(board):
    project = board.track("github", "a/b", *(release(f"1.{n}", f"2026-01-01T00:{n:02}:00Z") for n in range(44)),
                          release("2.0-rc1", "2026-02-01T00:00:00.500000Z", "<p>CVE-2026-12345</p>",
                                  is_prerelease=True, cve=("CVE-2026-12345",)))
    shown = board.ask("GET", f"/v1/projects/{project.id}/releases")
    assert shown["total_pages"] == 3 and len(shown["releases"]) == 20
    assert shown["releases"][0] == {"version": "2.0-rc1", "date": "2026-02-01T00:00:00.500000Z", "has_note": True,
                                    "cve": ["CVE-2026-12345"], "is_prerelease": True}
    assert shown["releases"][1] == {"version": "1.43", "date": "2026-01-01T00:43:00Z"}
    pages = [board.ask("GET", f"/v1/projects/github/a/b/releases?page={page}")["releases"] for page in (1, 2, 3, 4)]
    assert [one["version"] for page in pages for one in page] == ["2.0-rc1", *(f"1.{n}" for n in range(43, -1, -1))]
    assert pages[3] == []
    assert board.faults("GET", f"/v1/projects/{project.id}/releases?page=x") == [
        "Parameter page takes a whole number from 1 to 999999999."]


def test_a_release_and_its_note_are_found_in_every_form_of_path(board):
    project = board.track("github", "a/b", release("1.0", message="<p>Hello</p>"), release("2.0"))
    note = {"title": "Release 1.0", "message": "<p>Hello</p>", "url": "https://forge.example/note"}
    for base in (f"/v1/projects/{project.id}", f"/v1/project/{project.id}", "/v1/projects/github/a/b",
                 "/v1/project/github/a/b"):
        assert board.ask("GET", f"{base}/releases/1.0") == {"version": "1.0", "date": "2026-03-01T10:00:00Z", "has_note": True}
        assert board.ask("GET", f"{base}/releases/1.0/note") == note
        assert board.ask("GET", f"{base}/releases/2.0") == {"version": "2.0", "date": "2026-03-01T10:00:00Z"}
        for missing in ("releases/2.0/note", "releases/3.0", "releases/3.0/note", "releases/", "note", "releases/1.0/x"):
            board.ask("GET", f"{base}/{missing}", status=404)


def test_what_is_excluded_is_marked_and_passed_over_by_the_latest_release(board):
    project = board.track("github", "a/b", release("v1.0", "2026-01-01T00:00:00Z"),
                          release("v2.0", "2026-01-02T00:00:00Z", is_updated=False),
                          release("v3.0-rc1", "2026-01-03T00:00:00Z", is_prerelease=True),
                          release("w4.0", "2026-01-04T00:00:00Z"))
    path = f"/v1/projects/{project.id}"

    def excluded():
        return [one["version"] for one in board.ask("GET", f"{path}/releases")["releases"] if one.get("is_excluded")]

    def latest():
        return board.ask("GET", f"{path}/latest-release")["version"]

    assert (excluded(), latest()) == ([], "w4.0")
    board.ask("POST", path, {"exclude_version_regexp": [{"value": "^w"}]})
    assert (excluded(), latest()) == (["w4.0"], "v3.0-rc1")
    board.ask("POST", path, {"exclude_prereleases": True})
    assert (excluded(), latest()) == (["w4.0", "v3.0-rc1"], "v2.0")
    board.ask("POST", path, {"exclude_prereleases": False, "exclude_version_regexp": [{"value": "^v[12]", "inverse": True}]})
    assert (excluded(), latest()) == (["w4.0", "v3.0-rc1"], "v2.0")
    assert board.ask("GET", f"{path}/releases/w4.0")["is_excluded"] is True
    board.ask("POST", path, {"exclude_version_regexp": [{"value": "."}]})
    board.ask("GET", f"{path}/latest-release", status=404)


# Tags and destinations


def test_tags_live_from_their_making_to_their_removal(board):
    tag = board.ask("POST", "/v1/tags", {"name": " infra "})
    assert tag == {"id": tag["id"], "name": "infra"} and re.fullmatch("[a-z2-7]{26}", tag["id"])
    assert board.ask("GET", f"/v1/tags/{tag['id']}") == tag
    assert board.ask("POST", f"/v1/tags/{tag['id']}", {"name": "Infra"}) == {**tag, "name": "Infra"}
    other = board.ask("POST", "/v1/tags", {"name": "apps"})
    assert board.ask("GET", "/v1/tags") == {"tags": [other, {**tag, "name": "Infra"}]}
    project = board.track("github", "a/b")
    board.ask("POST", f"/v1/projects/{project.id}", {"tags": [tag["id"], tag["id"]]})
    assert board.ask("GET", f"/v1/projects/{project.id}")["tags"] == [tag["id"]]
    assert board.ask("DELETE", f"/v1/tags/{tag['id']}") == {"message": "OK", "code": 200}
    assert "tags" not in board.ask("GET", f"/v1/projects/{project.id}")
    for method in ("GET", "DELETE"):
        board.ask(method, f"/v1/tags/{tag['id']}", status=404)
    board.ask("POST", f"/v1/tags/{tag['id']}", {"name": "x"}, status=404)


@pytest.mark.parametrize("body, said", [
    ({}, "Tag name is required."), ({"name": ""}, "Tag name is required."), ({"name": 5}, "Field name takes a text."),
    ({"name": "x" * 101}, "at most 100 characters"), ({"name": "APPS"}, "There is a tag APPS already."),
])
def test_a_tag_that_cannot_be_made_or_renamed_is_told_why(board, body, said):
    board.ask("POST", "/v1/tags", {"name": "apps"})
    other = board.ask("POST", "/v1/tags", {"name": "other"})
    assert said in board.faults("POST", "/v1/tags", body)[0]
    assert said in board.faults("POST", f"/v1/tags/{other['id']}", body)[0]
    assert len(board.ask("GET", "/v1/tags")["tags"]) == 2


@pytest.mark.parametrize("path, kind, keys, shown", [
    ("slack-channels",           "slack",           ["channels"],          {"channel": "#r", "team_name": "T"}),
    ("telegram-chats",           "telegram",        ["channels", "chats"], {"type": "group"}),
    ("discord-channels",         "discord",         ["channels"],          {}),
    ("hangouts-chat-webhooks",   "hangouts_chat",   ["webhooks"],          {}),
    ("microsoft-teams-webhooks", "microsoft_teams", ["webhooks"],          {}),
    ("mattermost-webhooks",      "mattermost",      ["webhooks"],          {}),
    ("rocketchat-webhooks",      "rocketchat",      ["webhooks"],          {}),
    ("matrix-rooms",             "matrix",          ["webhooks", "rooms"], {"homeserver_url": "https://m.example",
                                                                            "internal_room_id": "!a:b"}),
    ("webhooks",                 "webhook",         ["webhooks"],          {}),
])
def test_destinations_are_listed_under_the_contract_s_keys(board, path, kind, keys, shown):
    assert board.ask("GET", f"/v1/{path}") == {key: [] for key in keys}
    made = board.store.add_destination(board.account.id, kind, "N", {"url": "https://secret.example", "shown": shown}, "s")
    assert board.ask("GET", f"/v1/{path}") == {key: [{"id": made.id, "name": "N", **shown}] for key in keys}


# Paths over a real socket, which WebTest has no raw form of


@pytest.fixture
def live(board):
    """The board's application under waitress, as ``serve`` sets it."""
    server, address = rt.make_server(board.service.app, rt.Settings(port=0))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    board.client = Client(address, board.key)
    yield board
    server.close()
    thread.join(5)


def test_names_and_versions_may_hold_slashes_raw_and_encoded(live):
    live.track("gitlab", "g/sub/p", release("release/1.0", message="<p>a</p>"), release("release/1.0/note"))
    live.track("gitlab", "g/sub", release("1.0"))
    live.track("gitlab", "g/sub/releases", release("3.0"))
    live.track("npm", "@scope/pkg", release("2.0"))
    get = live.client.get
    for path in ("gitlab/g/sub/p", "gitlab/g%2Fsub%2Fp", "gitlab/g%2fsub/p"):
        assert get(f"/v1/projects/{path}")["name"] == "g/sub/p"
        assert get(f"/v1/projects/{path}/releases/release%2F1.0")["version"] == "release/1.0"
        assert get(f"/v1/projects/{path}/releases/release/1.0")["version"] == "release/1.0"
    # The longest that there is counts: "release/1.0/note" is a version here.
    assert get("/v1/projects/gitlab/g/sub/p/releases/release/1.0/note")["version"] == "release/1.0/note"
    live.track("gitlab", "g/noted", release("release/1.0", message="<p>a</p>"))
    assert get("/v1/projects/gitlab/g/noted/releases/release/1.0/note")["message"] == "<p>a</p>"
    assert get("/v1/projects/gitlab/g%2Fnoted/releases/release%2F1.0/note")["message"] == "<p>a</p>"
    assert get("/v1/projects/gitlab/g/sub/releases")["name"] == "g/sub/releases"
    assert get("/v1/projects/gitlab/g/sub/releases/releases")["releases"][0]["version"] == "3.0"
    for path in ("npm/@scope/pkg", "npm/@scope%2Fpkg", "npm/%40scope%2fpkg"):
        assert get(f"/v1/projects/{path}")["name"] == "@scope/pkg"
        assert get(f"/v1/projects/{path}/latest-release")["version"] == "2.0"


@pytest.mark.parametrize("path, status", [
    ("/v1/ad%FFmin",                    400),
    ("/v1/t%C0ags",                     400),
    ("/v1/tags%00",                     404),
    ("/v1/%2e%2e/tags",                 404),
    ("/v1/tags;x=1",                    404),
    ("/v1//tags",                       404),
    ("//v1/tags",                       200),       # waitress folds slashes at the start
    ("/v1/tags?x#y",                    200),
    ("/v1%2Ftags",                      404),
    ("http://evil.example/v1/tags",     200),
    ("*",                               404),
    ("/v1/projects/github/%00/%00",     404),
    ("/v1/projects/github/" + "a/" * 200, 404),
])
def test_odd_paths_are_answered_by_the_table(live, path, status):
    found, _, value = live.client.ask("GET", path)
    assert found == status, value
    assert status == 200 or value["code"] == status


def send_raw(address: str, data: bytes, seconds: float = 5) -> bytes:
    """What a server answers to bytes, until it closes or says nothing more."""
    host, port = urllib.parse.urlsplit(address).netloc.split(":")
    answer = b""
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(data)
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            while chunk := connection.recv(65536):
                answer += chunk
    return answer


@pytest.mark.parametrize("head, body, status", [
    (b"POST /v1/tags HTTP/1.1\r\nContent-Length: 1048577\r\n",              b"",                413),
    (b"POST /v1/tags HTTP/1.1\r\nContent-Length: 99999999999\r\n",          b"",                413),
    (b"POST /v1/tags HTTP/1.1\r\nTransfer-Encoding: chunked\r\n",           b"200000\r\n" + b"x" * 0x200000 + b"\r\n0\r\n\r\n", 413),
    (b"POST /v1/tags HTTP/1.1\r\nContent-Length: -1\r\n",                   b"",                400),
    (b"POST /v1/tags HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n", b"{}",            400),
    (b"GET /v1/tags HTTP/1.1\r\nX-Long: " + b"x" * 17_000 + b"\r\n",        b"",                431),
    (b"GET /v1/tags HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(10_000)), b"",   431),
    (b"GET /v1/t\xc3\xa4gs HTTP/1.1\r\n",                                   b"",                400),
])
def test_what_the_server_refuses_by_itself_is_a_message_too(live, head, body, status):
    with contextlib.suppress(BrokenPipeError):
        answer = send_raw("http://" + live.client.host, head + b"Host: x\r\nConnection: close\r\n\r\n" + body)
        first, _, rest = answer.partition(b"\r\n")
        assert first.split()[1] == b"%d" % status, answer[:200]
        headers, _, said = rest.partition(b"\r\n\r\n")
        assert b"content-type: application/json" in headers.lower()
        assert json.loads(said)["code"] == status
        assert answer.count(b"HTTP/1.") == 1


def test_health_and_metrics(board):
    answer = board.app.get("/healthz")
    assert answer.json["message"] == "OK" and answer.json["store"] == "ok"
    board.track("github", "a/b")
    text = board.app.get("/metrics", headers={"Authorization": "Basic " + base64.b64encode(
        f"x:{board.key}".encode()).decode()}).text
    assert "releasetrack_projects 1\n" in text and "# TYPE releasetrack_projects gauge\n" in text
    other = board.store.add_account("user", "other@example.org", "Other", "x", False)
    key = board.store.add_key(other.id, "k", ["0.0.0.0/0"]).secret
    for headers in ({}, {"X-Key": key}, {"X-Key": "rt_wrong"}):
        assert board.app.get("/metrics", headers=headers, expect_errors=True).status_int == 401


def test_generated_requests_are_never_answered_with_an_error_of_ours(tmp_path):
    """Seeded; every answer is JSON, every error a Message of the documented shape."""
    board = Board(tmp_path, rate_limit=0)
    random_ = random.Random(20261121)
    tag = board.store.add_tag(board.account.id, "t")
    project = board.track("gitlab", "g/p", release("1.0", message="<p>n</p>"), release("v/2"))
    odd = ["", "1.0", "v/2", "note", "releases", "github", "gitlab", "g", "p", "g%2Fp", "%00", "%ff", "..", "a" * 300, "é",
           "9223372036854775808", "-1", "search", "latest-release", project.id, tag.id, "%2F", "{id}", "tags", "\u2028"]
    values = [None, True, False, 0, -1, 2**63, 10**30, 1e308, "", "x", "\ud800", "\0", "a/b", [], [None], [[]], {}, "github",
              {"value": "("}, [{"value": "a+"}], [tag.id], ["x"] * 2000, "9" * 5000, "(a+)+$", "none", "é" * 300]
    names = ["provider", "name", "tags", "webhooks", "note", "exclude_updated", "exclude_version_regexp",
             "email_notification", "slack_channels", "unknown"]
    paths = ["projects", "project", "tags", "providers", "webhooks", "auth/keys", "matrix-rooms", "projects/search"]
    for _ in range(2000):
        path = "/v1/" + "/".join([random_.choice(paths), *random_.choices(odd, k=random_.randrange(4))])
        query = "&".join(f"{random_.choice(['page', 'order', 'q', 'tag', 'reverse', 'added'])}={random_.choice(odd)}"
                         for _ in range(random_.randrange(3)))
        method = random_.choice(["GET", "GET", "POST", "POST", "DELETE", "PUT"])
        body = json.dumps({random_.choice(names): random_.choice(values) for _ in range(random_.randrange(5))}).encode()
        if random_.random() < 0.1:
            body = random_.choice([b"", b"[" * 9999, b"\xff", b"null", body[:-1]])
        environ = {"PATH_INFO": urllib.parse.unquote_to_bytes(path.encode()).decode("latin-1"), "QUERY_STRING": query,
                   "REQUEST_METHOD": method, "REMOTE_ADDR": "127.0.0.1", "HTTP_X_KEY": board.key,
                   "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(body)), "SCRIPT_NAME": "",
                   "wsgi.input": io.BytesIO(body), "wsgi.errors": sys.stderr, "SERVER_NAME": "x", "SERVER_PORT": "80"}
        said: list[Any] = []
        answer = b"".join(board.service.app(environ, lambda status, headers, *_: said.extend((status, headers))))
        status = int(said[0].split()[0])
        assert status < 500, (method, path, query, body)
        value = json.loads(answer)
        if status >= 400:
            assert set(value) <= {"message", "code", "errors"} and value["code"] == status
            assert value["message"] == http.client.responses[status] and ("errors" in value) == (status == 400)
            assert all(isinstance(one, str) and one for one in value.get("errors", ["x"]))
    board.close()


# == notifications =============================================================

# The event of the contract's example, its signatures made with another program than ours:
#   printf '1700000000.%s' "$BODY" | openssl dgst -sha256 -hmac "$SECRET"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EVENT = {
    "provider": "github", "project": "o/p", "version": "1.0", "time": "2026-03-01T10:00:00Z",
    "cve": ["CVE-2026-1234", "CVE-2026-1235"], "is_prerelease": True,
    "note": {"title": "One", "message": "<p>a &amp; b</p><script>x</script>"},
    "account": {"type": "user", "id": "abc", "name": "Mé"}, "tags": [{"id": "t", "name": "infra"}],
    "project_note": "{version}"}


def make_delivery(url: str = "http://127.0.0.1:9/", secret: str = SECRET, **settings: Any) -> rt.Delivery:
    about = {"url": url, "headers": {}, "fields": {}, **settings}
    return rt.Delivery("msg_p5jXN8AQM9LWM0D4loKWxJek", rt.Destination("d", "a", "webhook", "hook", about, secret), True,
                       EVENT, "https://forge.example/note", 0, 0.0)


def openssl_signature(secret: str, message: bytes) -> str:
    """HMAC-SHA256 as of the openssl command, a program that shares no code with ours."""
    finished = subprocess.run(["openssl", "dgst", "-sha256", "-hmac", secret], input=message, capture_output=True, check=True)
    return finished.stdout.decode().split("= ")[1].strip()


@pytest.mark.skipif(not shutil.which("openssl"), reason="there is no openssl command to compare with")
def test_the_contract_s_signature_is_that_of_openssl():
    body = '{"a":"ü"}'.encode()
    assert rt.signature(SECRET, 1700000000, body) == openssl_signature(SECRET, b"1700000000." + body)


def test_the_second_signature_is_the_vector_of_standard_webhooks():
    """From the specification's libraries: https://github.com/standard-webhooks/standard-webhooks"""
    assert rt.standard_signature(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}') == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")


def test_a_webhook_s_request_is_signed_over_the_bytes_that_are_sent():
    sent = rt.webhook_request(make_delivery(headers={"X-Mine": "1"}), "Acme", 1700000000.9)
    assert sent.method == "POST" and json.loads(sent.body) == EVENT
    assert sent.body == json.dumps(EVENT, ensure_ascii=False, separators=(",", ":")).encode()
    assert sent.headers["X-Acme-Timestamp"] == sent.headers["webhook-timestamp"] == "1700000000"
    assert sent.headers["X-Acme-Signature"] == rt.signature(SECRET, 1700000000, sent.body)
    assert sent.headers["webhook-id"] == "msg_p5jXN8AQM9LWM0D4loKWxJek"
    assert sent.headers["webhook-signature"] == rt.standard_signature(SECRET, sent.headers["webhook-id"], 1700000000, sent.body)
    assert sent.headers["Content-Type"] == "application/json" and sent.headers["X-Mine"] == "1"
    assert sent.headers["User-Agent"] == f"releasetrack/{rt.__version__}"
    later = rt.webhook_request(make_delivery(), "Acme", 1700000100.0)
    assert later.body == sent.body and later.headers["webhook-id"] == sent.headers["webhook-id"]
    assert later.headers["X-Acme-Signature"] != sent.headers["X-Acme-Signature"]


def test_custom_fields_hold_every_variable_and_are_read_once():
    fields = {name: f"<{{{name}}}>" for name in rt.TEMPLATE_NAMES} | {"json": '{"v": "{version}", {{x}}}', "text": "plain"}
    body = json.loads(rt.webhook_request(make_delivery(fields=fields), "Acme", 0.0).body)
    assert body == {
        "provider": "<github>", "project": "<o/p>", "version": "<1.0>", "time": "<2026-03-01T10:00:00Z>",
        "cve": "<CVE-2026-1234, CVE-2026-1235>", "is_prerelease": "<true>", "is_updated": "<false>", "note_title": "<One>",
        "note_message": "<<p>a &amp; b</p><script>x</script>>", "note_text": "<a & b>", "account_type": "<user>",
        "account_id": "<abc>", "account_name": "<Mé>", "tags": "<infra>", "project_note": "<{version}>",
        "url": "<https://forge.example/note>", "json": '{"v": "1.0", {x}}', "text": "plain"}


def test_a_body_holds_what_the_contract_says_and_nothing_that_says_nothing():
    account = rt.Account("a1", "organization", "me@example.org", "Team", True, "daily", "x")
    project = rt.Project("p1", "a1", 1, "github", "o/p", "daily", False, False, (), "", (), {})
    bare = rt.event_body(rt.Subscriber(project, account, (), ()), rt.Release("1.0", "2026-03-01T10:00:00Z"))
    assert bare == {"provider": "github", "project": "o/p", "version": "1.0", "time": "2026-03-01T10:00:00Z",
                    "account": {"type": "organization", "id": "a1", "name": "Team"}}
    full = rt.event_body(
        rt.Subscriber(dataclasses.replace(project, note="mine"), account, (rt.Tag("t1", "infra"),), ()),
        rt.Release("1.0", "2026-03-01T10:00:00Z", True, ("CVE-2026-1234",), rt.Note("T", "<p>M</p>", "u"), None, True))
    assert full == bare | {"cve": ["CVE-2026-1234"], "is_prerelease": True, "is_updated": True, "project_note": "mine",
                           "note": {"title": "T", "message": "<p>M</p>"}, "tags": [{"id": "t1", "name": "infra"}]}


@pytest.mark.parametrize("status, retry_after, failures, age, state, wait", [
    (200,  None,  1,  0,         "delivered", 0),
    (204,  9.0,   5,  0,         "delivered", 0),
    (299,  None,  1,  0,         "delivered", 0),
    (300,  None,  1,  0,         "pending",   30),
    (302,  None,  2,  30,        "pending",   60),
    (404,  None,  3,  90,        "pending",   120),
    (410,  None,  1,  0,         "pending",   30),
    (500,  None,  10, 15330,     "pending",   15360),
    (None, None,  11, 30690,     "pending",   21600),
    (429,  3.0,   1,  0,         "pending",   30),
    (429,  100.0, 1,  0,         "pending",   100),
    (503,  1e5,   1,  0,         "pending",   1e5),
    (500,  None,  21, 246690,    "failed",    0),
])
def test_what_an_attempt_makes_of_its_delivery(status, retry_after, failures, age, state, wait):
    assert rt.outcome(status, retry_after, failures, 30.0, age, 0.0) == (state, wait)


def test_the_wait_is_lengthened_by_a_tenth_at_most():
    assert rt.retry_delay(1, 30.0, 0.0, 0.0) == 30.0 and 32.9 < rt.retry_delay(1, 30.0, 0.0, 0.999) < 33.0


# == courier ===================================================================


class Clock:
    """A time that a test sets."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def put_event(board: Board, project: rt.Project, version: str, *destinations: rt.Destination) -> None:
    """A release that the project's source has now, and its deliveries."""
    body = {"provider": project.provider, "project": project.name, "version": version, "time": "2026-03-01T10:00:00Z",
            "account": {"type": "user", "id": board.account.id, "name": "Me"}}
    board.record(project.source_id, rt.Release(version, "2026-03-01T10:00:00Z"), events=[
        rt.Event(project.id, body, "", tuple(one.id for one in destinations))])


def courier_of(board: Board, clock: Any = time.time, **about: Any) -> rt.Courier:
    board.store.clock = clock
    return rt.Courier(board.store, board.service.fetcher.post, board.service.settings, clock, lambda: 0.0, **about)


@pytest.mark.parametrize("statuses, attempted_at", [
    ([204],                          [0]),
    ([503, 302, 200],                [0, 30, 90]),
    ([500, 301, 307, 308, 404, 202], [0, 30, 90, 210, 450, 930]),
])
def test_a_delivery_is_attempted_until_it_is_accepted(board, listen, statuses, attempted_at):
    clock, left = Clock(), list(statuses)
    target = listen(200)
    receiver = listen(lambda seen: (left.pop(0), b"", {"Location": target.url}))
    put_event(board, board.track("github", "o/p"), "1.0", board.webhook(receiver.url))
    began = clock.now
    courier, times = courier_of(board, clock), []
    board.store._rows("UPDATE delivery SET next_attempt_at = ?, created_at = ?", (began, began))
    while left:
        if courier.send_due():
            times.append(clock.now - began)
        else:
            clock.now += board.store.seconds_until_due(clock.now, rt.DAY)
    assert times == attempted_at
    assert len({seen.body for seen in receiver.seen}) == len({seen.headers["webhook-id"] for seen in receiver.seen}) == 1
    (id_, _, state, attempts), = board.store.deliveries(board.account.id)
    assert (state, attempts, target.seen) == ("delivered", len(statuses), [])
    assert [status for _, status, *_ in board.store.attempts(id_)] == statuses


def test_a_receiver_that_is_down_for_days_is_tried_by_the_schedule_and_then_the_delivery_has_failed(board):
    clock, times = Clock(), []

    def post(request: rt.Request, is_trusted: bool) -> rt.Answer:
        times.append(clock.now)
        raise rt.Unreachable("it refused the connection")

    put_event(board, board.track("github", "o/p"), "1.0", board.webhook("http://127.0.0.1:9/"))
    began = clock.now
    board.store._rows("UPDATE delivery SET next_attempt_at = ?, created_at = ?", (began, began))
    board.store.clock = clock
    courier = rt.Courier(board.store, post, board.service.settings, clock, lambda: 0.0)
    while clock.now < began + 80 * rt.HOUR:
        if not courier.send_due():
            clock.now += board.store.seconds_until_due(clock.now, rt.HOUR)
    waits = [later - sooner for sooner, later in zip(times, times[1:])]
    assert waits == [30.0 * 2 ** n for n in range(10)] + [6 * rt.HOUR] * (len(waits) - 10)
    assert 66 * rt.HOUR < times[-1] - began <= 72 * rt.HOUR
    (id_, _, state, attempts), = board.store.deliveries(board.account.id)
    assert (state, attempts) == ("failed", len(times))
    assert {error for _, _, error, *_ in board.store.attempts(id_)} == {"it refused the connection"}


@pytest.mark.parametrize("header, least, most", [
    ("100", 100, 100), ("1", 30, 30), ("0", 30, 30), ("-1", 30, 30), ("1e9", 30, 30), ("junk", 30, 30), ("9" * 15, 86400, 86400),
    (email.utils.formatdate(1_800_000_000 + 500, usegmt=True), 499, 501),
    ("Fri, 31 Dec 1999 23:59:59 GMT", 30, 30),
])
def test_a_receiver_may_lengthen_the_wait_by_a_day_at_most(board, listen, header, least, most):
    clock = Clock()
    receiver = listen(lambda seen: (503, b"", {"Retry-After": header}))
    courier = courier_of(board, clock)
    put_event(board, board.track("github", "o/p"), "1.0", board.webhook(receiver.url))
    courier.send_due()
    assert least <= board.store.seconds_until_due(clock.now, 1e9) <= most


def test_the_next_release_of_a_project_has_what_waits_sent_again_at_once_and_first(board, listen):
    clock, receiver = Clock(), listen(500)
    courier = courier_of(board, clock)
    hook, project, other = board.webhook(receiver.url), board.track("github", "o/p"), board.track("github", "o/other")
    for one, version in ((project, "1.0"), (other, "7.0")):
        put_event(board, one, version, hook)
    courier.send_due()
    receiver.answer, clock.now = 204, clock.now + 1
    assert courier.send_due() == 0
    put_event(board, project, "2.0", hook)
    assert courier.send_due() == 2
    assert [seen.json()["version"] for seen in receiver.seen] == ["1.0", "7.0", "1.0", "2.0"]
    assert receiver.seen[0].headers["webhook-id"] == receiver.seen[2].headers["webhook-id"]


def test_deliveries_of_a_destination_go_out_one_at_a_time_and_in_their_order(board, listen):
    under_way: list[int] = []

    def answer(seen: Seen) -> int:
        under_way.append(1)
        assert len(under_way) == 1, "two requests at once to one destination"
        time.sleep(0.002)
        under_way.pop()
        return 204

    receiver = listen(answer)
    hook, project = board.webhook(receiver.url), board.track("github", "o/p")
    versions = [f"1.{n}" for n in range(100)]
    for version in versions:
        put_event(board, project, version, hook)
    courier = courier_of(board)
    courier.start()
    receiver.wait(100)
    courier.stop()
    courier.join()
    assert [seen.json()["version"] for seen in receiver.seen] == versions
    assert {state for _, _, state, _ in board.store.deliveries(board.account.id)} == {"delivered"}


def test_receivers_that_hang_delay_no_other(board, listen):
    """A dozen that never answer, ten that do, more deliveries than workers."""
    ends = threading.Event()

    def hang(seen: Seen) -> int:
        ends.wait(20)
        return 500

    pit, arrived = listen(hang), {}

    def healthy(name: str) -> Answering:
        return lambda seen: arrived.setdefault((name, seen.json()["version"]), time.monotonic()) and 204 or 204

    project = board.track("github", "o/p")
    hooks = [board.webhook(pit.url, f"pit {n}") for n in range(12)] + [
        board.webhook(listen(healthy(str(n))).url, f"well {n}") for n in range(10)]
    for n in range(20):
        put_event(board, project, f"1.{n}", *hooks)
    courier = courier_of(board)
    began = time.monotonic()
    courier.start()
    until(lambda: len(arrived) == 200)
    took = sorted(at - began for at in arrived.values())
    ends.set()
    board.service.fetcher.stopping.set()
    courier.stop()
    courier.join()
    assert took[190] < 1.0, took[-10:]


def test_two_couriers_on_one_store_send_nothing_twice(board, listen):
    receiver = listen(204)
    hooks, project = [board.webhook(receiver.url, f"hook {n}") for n in range(5)], board.track("github", "o/p")
    for n in range(60):
        put_event(board, project, f"1.{n}", *hooks)
    other = rt.Store(board.store.path)
    couriers = [courier_of(board), rt.Courier(other, board.service.fetcher.post, board.service.settings)]
    for courier in couriers:
        courier.start()
    receiver.wait(300)
    for courier in couriers:
        courier.stop()
    for courier in couriers:
        courier.join()
    other.close()
    ids = [seen.headers["webhook-id"] for seen in receiver.seen]
    assert len(ids) == len(set(ids)) == 300


def test_a_fault_of_ours_costs_an_attempt_and_not_the_courier_its_life(board, caplog):
    clock, project = Clock(), board.track("github", "o/p")

    def post(request: rt.Request, is_trusted: bool) -> rt.Answer:
        raise ZeroDivisionError

    courier = rt.Courier(board.store, post, board.service.settings, clock)
    board.store.clock = clock
    put_event(board, project, "1.0", board.webhook("http://127.0.0.1:9/"))
    assert courier.send_due() == 1
    (id_, _, state, attempts), = board.store.deliveries(board.account.id)
    assert (state, attempts) == ("pending", 1) and board.store.attempts(id_)[0][2] == "internal error, see the log"
    assert "ZeroDivisionError" in caplog.text


def test_a_claim_that_nobody_renews_is_taken_up_when_its_lease_is_over(board, listen):
    clock, receiver = Clock(), listen(204)
    hook = board.webhook(receiver.url)
    courier = courier_of(board, clock)
    put_event(board, board.track("github", "o/p"), "1.0", hook)
    assert board.store.claim_deliveries({hook.id: 9}, "dead", clock.now)
    assert courier.send_due() == 0
    clock.now += rt.LEASE + 0.1
    assert courier.send_due() == 1


# == service ===================================================================


def signed_rightly(seen: Seen, secret: str, brand: str = "service") -> bool:
    """As the README tells receivers to verify, and as the Standard Webhooks specification does."""
    stamp = seen.headers[f"x-{brand}-timestamp"]
    mine = hmac.new(secret.encode(), stamp.encode() + b"." + seen.body, hashlib.sha256).digest()
    key = base64.b64decode(secret.split("_")[1])
    theirs = hmac.new(key, f"{seen.headers['webhook-id']}.{stamp}.".encode() + seen.body, hashlib.sha256).digest()
    return (bytes.fromhex(seen.headers[f"x-{brand}-signature"]) == mine and abs(time.time() - int(stamp)) < 60
            and seen.headers["webhook-signature"] == "v1," + base64.b64encode(theirs).decode())


def test_from_adding_a_project_to_the_webhook_of_its_next_release(serve, db, forge, listen):
    key, receiver = first_key(db), listen(204)
    secret = done("webhook", "add", "me@example.org", "mine", receiver.url, "--db", db, "--header", "X-Token: abc")
    forge.publish("o/p", "1.0", "1.1-rc1", prerelease=False)
    process = serve("--provider", forge.flag, "--poll-interval", "1", "--brand", "Acme")
    api = Client(process.address, key)
    project = api.post("/v1/projects", {"provider": "forge", "name": "o/p"})
    shown = api.get(f"/v1/projects/{project['id']}/releases")["releases"]     # there with the next call
    assert [(one["version"], one.get("is_prerelease", False)) for one in shown] == [("1.1-rc1", True), ("1.0", False)]
    assert api.get(f"/v1/projects/{project['id']}/releases/1.0/note")["message"] == "<pre>Notes of 1.0</pre>"
    tag = api.post("/v1/tags", {"name": "infra"})
    api.post(f"/v1/projects/{project['id']}", {"tags": [tag["id"]], "note": "the wiki"})
    forge.publish("o/p", "2.0", body="Fixes cve-2026-4711.")
    seen = receiver.wait(1)[0]
    body = seen.json()
    assert body.pop("account").keys() == {"type", "id", "name"}
    assert body == {
        "provider": "forge", "project": "o/p", "version": "2.0", "time": "2026-03-01T10:02:00Z", "cve": ["CVE-2026-4711"],
        "note": {"title": "Release 2.0", "message": "<pre>Fixes cve-2026-4711.</pre>"},
        "tags": [tag], "project_note": "the wiki"}
    assert signed_rightly(seen, secret, "acme") and seen.headers["x-token"] == "abc"
    forge.releases["o/p"][0]["published_at"] = "2026-03-02T00:00:00Z"       # published anew
    updated = receiver.wait(2)[1].json()
    assert updated["is_updated"] is True and updated["version"] == "2.0"
    forge.releases["o/p"][0]["body"] = "A changed note alone"
    until(lambda: "changed" in api.get(f"/v1/projects/{project['id']}/releases/2.0/note")["message"])
    time.sleep(0.3)
    assert len(receiver.seen) == 2      # of the history, of a changed note: nothing
    assert process.end() == 0
    said = process.said()
    assert "Traceback" not in said and key not in said and secret not in said and PASSWORD not in said


def test_adding_a_project_tells_when_there_is_none_and_does_not_wait_for_ever(serve, db, forge, listen):
    key, slow = first_key(db), listen(lambda seen: time.sleep(6) or 500)
    process = serve("--provider", forge.flag, "--provider", f"slow=forgejo:{slow.url}",
                    "--provider", "dead=forgejo:http://127.0.0.1:9")
    api = Client(process.address, key)
    status, _, value = api.ask("POST", "/v1/projects", {"provider": "forge", "name": "no/such"})
    assert status == 400 and "was not found" in value["errors"][0] and "forge has no project no/such" in value["errors"][0]
    assert api.get("/v1/projects")["projects"] == []
    assert api.post("/v1/projects", {"provider": "dead", "name": "o/p"})["name"] == "o/p"
    began = time.monotonic()
    assert api.post("/v1/projects", {"provider": "slow", "name": "o/p"})["name"] == "o/p"
    assert time.monotonic() - began < rt.ADD_WAIT + 1
    listed = json.loads(done("project", "list", "me@example.org", "--db", db, "--json"))
    assert "refused the connection" in next(one["error"] for one in listed if one["provider"] == "dead")


def test_garbage_from_a_provider_is_an_error_in_words_and_never_a_release(serve, db, forge, listen):
    key, receiver = first_key(db), listen(204)
    done("webhook", "add", "me@example.org", "mine", receiver.url, "--db", db)
    forge.publish("o/p", "1.0")
    process = serve("--provider", forge.flag, "--poll-interval", "1")
    api = Client(process.address, key)
    project = api.post("/v1/projects", {"provider": "forge", "name": "o/p"})
    forge.fault = 200, "<html><body>Checking your browser</body></html>", {"Content-Type": "text/html"}

    def said() -> str | None:
        return json.loads(done("project", "list", "me@example.org", "--db", db, "--json"))[0]["error"]

    assert "web page, not JSON" in until(said)
    assert [one["version"] for one in api.get(f"/v1/projects/{project['id']}/releases")["releases"]] == ["1.0"]
    forge.fault = None
    forge.publish("o/p", "2.0")
    assert receiver.wait(1)[0].json()["version"] == "2.0"
    assert said() is None


def test_a_signal_ends_the_service_in_time_and_what_was_under_way_is_not_lost(serve, db, forge, listen):
    for signal_ in (signal.SIGTERM, signal.SIGINT):
        began, waits = threading.Event(), threading.Event()

        def hold(seen: Seen) -> int:
            began.set()
            waits.wait(20)
            return 500

        receiver = listen(hold)
        if signal_ == signal.SIGTERM:
            key = first_key(db)
            forge.publish("o/p", "1.0")
        name = f"hook {signal_}"
        done("webhook", "add", "me@example.org", name, receiver.url, "--db", db)
        process = serve("--provider", forge.flag, "--poll-interval", "1", "--retry-first", "0.1")
        api = Client(process.address, key)
        if signal_ == signal.SIGTERM:
            api.post("/v1/projects", {"provider": "forge", "name": "o/p"})
        version = f"2.{signal_}"
        forge.publish("o/p", version)
        assert began.wait(10)
        at = time.monotonic()
        assert process.end(signal_) == 0
        assert time.monotonic() - at < 10
        waits.set()
        receiver.answer = 204
        count = len(receiver.seen)
        after = serve("--provider", forge.flag, "--poll-interval", "1", "--retry-first", "0.1")
        again = receiver.wait(count + 1)
        assert {seen.json()["version"] for seen in again} == {version}
        assert len({seen.headers["webhook-id"] for seen in again}) == 1
        assert after.end() == 0
        done("webhook", "remove", "me@example.org", name, "--db", db)


def test_what_a_killed_process_was_doing_is_done_by_the_next(serve, db, forge, listen):
    """SIGKILL in the midst of tracking and delivering; RELEASETRACK_TEST_KILLS for a longer run."""
    kills, random_ = int(os.environ.get("RELEASETRACK_TEST_KILLS", "20")), random.Random(7)
    receiver = listen(lambda seen: time.sleep(0.008) or 204)
    key = first_key(db)
    done("webhook", "add", "me@example.org", "mine", receiver.url, "--db", db)
    names = [f"o/p{n}" for n in range(6)]
    flags = ("--provider", forge.flag, "--poll-interval", "1", "--retry-first", "0.1", "--host-limit", "4")
    for name in names:
        forge.publish(name, "0")
        done("project", "add", "me@example.org", "forge", name, "--db", db, *flags[:2])
    expected: set[tuple[str, str]] = set()
    for n in range(kills):
        process = serve(*flags)
        for name in names:
            forge.publish(name, f"{n + 1}")
            expected.add((name, f"{n + 1}"))
        time.sleep(random_.uniform(0.05, 0.5))
        assert process.end(signal.SIGKILL) == -signal.SIGKILL
    count, process = len(receiver.seen), serve(*flags)
    began = time.monotonic()
    receiver.wait(count + 1)
    assert time.monotonic() - began < 5, "what was claimed was not taken up in time"

    def arrived() -> dict[tuple[str, str], set[str]]:
        ids: dict[tuple[str, str], set[str]] = {}
        for seen in list(receiver.seen):
            body = seen.json()
            ids.setdefault((body["project"], body["version"]), set()).add(seen.headers["webhook-id"])
        return ids

    until(lambda: arrived().keys() >= expected, 30)
    assert arrived().keys() == expected
    assert all(len(ids) == 1 for ids in arrived().values()), "a repeat came under another id"
    assert process.end() == 0
    with contextlib.closing(sqlite3.connect(db)) as store:
        assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert store.execute("PRAGMA foreign_key_check").fetchall() == []
        assert store.execute("SELECT max(attempts) FROM delivery").fetchone()[0] <= kills + 1
    assert Client(process.address, key).host     # the key was used for nothing but the account


def test_the_first_start_says_how_to_make_an_account(serve, db):
    process = serve()
    assert process.process.stdout and b"account add" in process.process.stdout.readline()
    assert oct(os.stat(db).st_mode & 0o777) == "0o600"


def test_two_services_in_a_process_do_not_meet(tmp_path):
    boards = [Board(path) for path in (tmp_path / "a", tmp_path / "b") if not path.mkdir()]
    boards[0].track("github", "o/p")
    assert [len(board.ask("GET", "/v1/projects")["projects"]) for board in boards] == [1, 0]
    boards[0].ask("GET", "/v1/projects", status=401, X_Key=boards[1].key)
    boards[0].close()
    boards[1].ask("GET", "/v1/projects")
    boards[1].close()


def test_it_can_be_mounted_under_a_path(tmp_path):
    board = Board(tmp_path)
    parent = bottle.Bottle()
    parent.mount("/releases/", board.service.app)
    app = webtest.TestApp(parent, extra_environ={"REMOTE_ADDR": "127.0.0.1"})
    board.track("github", "a/b", release("v\u00e9"))
    assert app.get("/releases/v1/projects/github/a/b/releases/v%C3%A9", headers={"X-Key": board.key}).json["version"] == "vé"
    assert app.get("/releases/v1/x", headers={"X-Key": board.key}, expect_errors=True).json == {
        "message": "Not Found", "code": 404}
    assert 'href="/releases/style.css"' in app.get("/releases/").text
    board.close()


def test_behind_a_proxy_that_keeps_the_path_the_base_url_s_is_its_root(tmp_path):
    board = Board(tmp_path, base_url="https://home.example/releases/")
    headers = {"X-Key": board.key}
    assert board.app.get("/releases/v1/tags", headers=headers).json == board.app.get("/v1/tags", headers=headers).json
    assert "https://home.example/releases/v1" in board.app.get("/releases/").text
    board.close()


def test_it_is_a_wsgi_application(board):
    """Under wsgiref's validator, over a real socket."""
    with wsgiref.simple_server.make_server(
            "127.0.0.1", 0, wsgiref.validate.validator(board.service.app),
            handler_class=type("Quiet", (wsgiref.simple_server.WSGIRequestHandler,), {"log_message": lambda *_: None})) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        api = Client(f"http://127.0.0.1:{server.server_port}", board.key)
        assert api.post("/v1/tags", {"name": "x"})["name"] == "x"
        assert api.get("/v1/tags")["tags"][0]["name"] == "x"
        assert api.ask("DELETE", "/v1/tags/none")[0] == 404
        server.shutdown()
        thread.join()


def test_listeners_of_an_embedding_program_hear_of_releases_once_they_are_stored(tmp_path, forge):
    board, heard = Board(tmp_path, provider=(forge.flag,), poll_interval=1), []
    forge.publish("o/p", "1.0")
    board.service.on_release(lambda event: heard.append((event["project"], event["version"], [
        one["version"] for one in board.ask("GET", "/v1/projects/forge/o/p/releases")["releases"]])))
    board.service.start()
    board.ask("POST", "/v1/projects", {"provider": "forge", "name": "o/p"})
    forge.publish("o/p", "2.0")
    assert until(lambda: heard) == [("o/p", "2.0", ["2.0", "1.0"])]
    assert board.ask("GET", "/healthz")["tracker"] == "ok"
    board.service.stop()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("releasetrack")]


# Against a real registry


def tool(name: str) -> str:
    """The path of a program; the test is skipped where it is missing, but not in CI."""
    path = shutil.which(name)
    if not path and os.environ.get("CI") != "true":
        pytest.skip(f"there is no {name} on this machine")
    assert path, f"CI installs {name}"
    return path


def write_image(folder: pathlib.Path, tag: str, created: str) -> None:
    """An OCI image layout with one empty layer: https://github.com/opencontainers/image-spec"""
    def blob(data: bytes, media: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        (folder / "blobs/sha256").mkdir(parents=True, exist_ok=True)
        (folder / "blobs/sha256" / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{media}", "digest": f"sha256:{digest}", "size": len(data)}

    empty = io.BytesIO()
    with tarfile.open(fileobj=empty, mode="w"):
        pass
    layer = blob(gzip.compress(empty.getvalue(), mtime=0), "layer.v1.tar+gzip")
    config = blob(json.dumps({"created": created, "architecture": "amd64", "os": "linux", "rootfs": {
        "type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(empty.getvalue()).hexdigest()}"]}}).encode(), "config.v1+json")
    manifest = blob(json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                                "config": config, "layers": [layer]}).encode(), "manifest.v1+json")
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [
        {**manifest, "annotations": {"org.opencontainers.image.ref.name": tag}}]}))


@pytest.fixture
def registry(tmp_path):
    """Debian's docker-registry on loopback, and what pushes a tag to it."""
    program, skopeo = tool("docker-registry"), tool("skopeo")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "registry.yml").write_text(json.dumps({     # JSON is YAML
        "version": 0.1, "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
        "http": {"addr": f"127.0.0.1:{port}"}}))
    with open(tmp_path / "registry.log", "wb") as said:
        process = subprocess.Popen([program, "serve", str(tmp_path / "registry.yml")], stdout=said, stderr=said)

    def push(tag: str, created: str) -> None:
        folder = tmp_path / f"image-{tag}-{created[:10]}"
        write_image(folder, tag, created)
        subprocess.run([skopeo, "--insecure-policy", "copy", "--dest-tls-verify=false", f"oci:{folder}:{tag}",
                        f"docker://127.0.0.1:{port}/home/app:{tag}"], check=True, capture_output=True, timeout=60)

    def is_up() -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        return False

    try:
        until(is_up)
        yield f"http://127.0.0.1:{port}", push
    finally:
        process.terminate()
        process.wait(10)


def test_a_real_container_registry_is_tracked_from_push_to_webhook(serve, db, registry, listen):
    address, push = registry
    key, receiver = first_key(db), listen(204)
    secret = done("webhook", "add", "me@example.org", "mine", receiver.url, "--db", db)
    push("1.0.0", "2026-01-02T03:04:05Z")
    process = serve("--provider", f"home=oci:{address}", "--poll-interval", "1")
    api = Client(process.address, key)
    project = api.post("/v1/projects", {"provider": "home", "name": "home/app"})
    assert api.get(f"/v1/projects/{project['id']}/releases")["releases"] == [
        {"version": "1.0.0", "date": "2026-01-02T03:04:05Z"}]
    push("1.1.0", "2026-02-03T04:05:06Z")
    seen = receiver.wait(1)[0]
    assert (seen.json()["version"], seen.json()["time"]) == ("1.1.0", "2026-02-03T04:05:06Z")
    assert signed_rightly(seen, secret)
    push("1.1.0", "2026-02-04T00:00:00Z")       # the same tag, another image
    again = receiver.wait(2)[1].json()
    assert again["version"] == "1.1.0" and again["is_updated"] is True
    missing = api.ask("POST", "/v1/projects", {"provider": "home", "name": "home/none"})
    assert missing[0] == 400 and "home has no project home/none" in missing[2]["errors"][0]
    assert process.end() == 0
