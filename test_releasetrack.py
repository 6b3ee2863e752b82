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
import datetime
import email.policy
import email.utils
import functools
import gzip
import hashlib
import hmac
import html
import html.parser
import http.client
import http.cookiejar
import io
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import sqlite3
import ssl
import struct
import subprocess
import sys
import tarfile
import threading
import time
import tracemalloc
import urllib.parse
import warnings
import wsgiref.simple_server
import wsgiref.validate
import zoneinfo
from collections.abc import Callable, Iterator, Sequence
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

    def __init__(self, answer: Answering | int | tuple[Any, ...] = 204) -> None:
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
                answer = listener.answer(seen) if callable(listener.answer) else listener.answer
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

            do_GET = do_POST = do_PUT = do_HEAD = handle_any

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


def a_delivery(destination: rt.Destination, body: Any = None, **about: Any) -> rt.Delivery:
    return rt.Delivery(**{
        "id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "destination": destination, "account_email": "me@example.org",
        "account_is_admin": True, "body": EVENT if body is None else body, "url": "https://forge.example/note",
        "kind": "release", "attempts": 0, "queued_at": 0.0, **about})


def request_of(*parcel: rt.Delivery, now: float = 1_700_000_000.0, brand: str = "Service", base_url: str = "") -> Any:
    """What is sent of deliveries that go out together."""
    sender = rt.Sender(brand, "releases@example.org", "example.org", base_url)
    return rt.notification(rt.message_of(parcel, sender, now))


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


class Visitor:
    """A browser without scripts at a board's pages: it keeps cookies, and fills in and sends forms as they stand."""

    ORIGIN = "http://localhost:80"

    def __init__(self, board: Board, email: str = "me@example.org", **environ: str) -> None:
        self.app = webtest.TestApp(board.service.app, extra_environ={"REMOTE_ADDR": "127.0.0.1", **environ})
        if email:
            account = board.store.account(email)
            assert account
            token = rt.make_session_token()     # as signing in does, without the time that a password takes
            board.store.add_session(account.id, token, "127.0.0.1", "a test")
            self.app.cookiejar.set_cookie(http.cookiejar.Cookie(
                0, "releasetrack", token, None, False, "localhost.local", False, False, "/", True, False, None, False,
                None, None, {}))

    def get(self, path: str, status: int = 200, **headers: str) -> webtest.TestResponse:
        """A page; ``status``: that it must have."""
        return self.app.get(path, status=status, headers={
            name.replace("_", "-"): value for name, value in headers.items()})

    def press(self, shown: webtest.TestResponse, button: str, status: int = 200, *, at: int = 0,
              **fields: Any) -> webtest.TestResponse:
        """What follows when a form of a page is sent by its button (its ``do``), with some fields filled in; redirects
        are followed. ``at``: which of several such forms. A list fills in all fields of a name, or ticks those boxes."""
        forms = [form for form in dict.fromkeys(shown.forms.values())
                 if any(isinstance(one, webtest.forms.Submit) and one.value_if_submitted() == button
                        for one in form.fields.get("do", ()))]
        form = forms[at]
        for name, value in fields.items():
            those = form.fields[name]
            for one, wanted in zip(those, value) if isinstance(value, list) and not isinstance(
                    those[0], webtest.forms.Checkbox) else ():
                one.value = wanted
            if isinstance(those[0], webtest.forms.Checkbox):
                wanted_ones = value if isinstance(value, list) else [value]
                for one in those:
                    one.checked = one._value in wanted_ones or wanted_ones == [True]
            elif not isinstance(value, list):
                form[name] = value
        answer = form.submit("do", value=button, headers={"Origin": self.ORIGIN}, expect_errors=True)
        while answer.status_int == 303:
            assert answer.headers["Location"].startswith("/") and "//" not in answer.headers["Location"]
            answer = self.app.get(answer.headers["Location"], expect_errors=True)
        assert answer.status_int == status, (answer.status, text_of(answer))
        return answer


def text_of(shown: webtest.TestResponse, selector: str = "main") -> str:
    """What a person reads of a part of a page."""
    return " ".join(" ".join(part.get_text(" ") for part in shown.html.select(selector)).split())


@pytest.fixture
def visitor(board: Board) -> Visitor:
    return Visitor(board)


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
    "pages": {"limits", "store", "fetching", "providers", "tracker", "notifications", "api"},
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


def test_no_function_is_longer_than_sixty_lines_and_no_class_than_350():
    for node in ast.walk(TREE):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= (350 if isinstance(node, ast.ClassDef) else 60), node.name


def test_no_local_variable_takes_the_name_of_a_top_level_one():
    for function in (node for node in ast.walk(TREE) if isinstance(node, ast.FunctionDef)):
        bound = {name.id for name in ast.walk(function)
                 if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
        assert not bound & set(HOME), function.name


def test_no_sql_is_assembled():
    """What is executed is a text as it stands, or a row of a table of such texts."""
    tables = {"PROJECT_PAGES", "PROJECT_COUNT", "NEWEST_RELEASES"}
    for call in (node for node in ast.walk(TREE) if isinstance(node, ast.Call)):
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if method in ("execute", "executemany", "executescript", "_rows") and call.args:
            sql = call.args[0]
            is_fixed = isinstance(sql, ast.Constant) or isinstance(sql, ast.Subscript) and ast.unparse(
                sql.value) in tables
            is_migration = ast.unparse(sql) == "statement" and "for script in MIGRATIONS" in SOURCE
            is_runner = ast.unparse(sql) == "sql" and ast.unparse(call.func) == "self._db.execute"
            assert is_fixed or is_migration or is_runner, ast.unparse(call)
    assert "SELECT *" not in SOURCE


def test_exceptions_of_any_kind_are_caught_at_five_edges_only():
    # One check, one attempt, a turn of either loop, and an embedding program's listener.
    assert len(re.findall(r"except Exception\b", SOURCE)) == 5
    assert "except:" not in SOURCE
    assert SOURCE.count("{{!") == 1     # raw output in a template: what a page puts into the layout


def test_only_the_card_s_packages_are_imported_and_waitress_only_to_serve():
    imports = {alias.name.split(".")[0]: node for node in ast.walk(TREE) if isinstance(node, ast.Import)
               for alias in node.names}
    imports |= {str(node.module).split(".")[0]: node for node in ast.walk(TREE) if isinstance(node, ast.ImportFrom)}
    assert {name for name in imports if name not in sys.stdlib_module_names} == {"bottle", "waitress"}
    inside = {use for node in ast.walk(TREE) if isinstance(node, ast.FunctionDef) for use in ast.walk(node)}
    assert imports["bottle"] not in inside and imports["waitress"] in inside


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
    rows = json.loads(done("providers", "--json"))
    assert [row["id"] for row in rows] == list(rt.PROVIDERS)
    table = "".join("| `{id}` | {form} | `{example}` | {token} | `{dialect}` | {site} |\n".format(
        **row, token=f"`{row['token_variable']}`" if row["token_variable"] else "") for row in rows)
    assert f"| --- |\n{table}\n" in README, table
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


# == settings ==================================================================


SETTING_ROWS = [
    # name             as a flag or variable        what it gives                            by default
    ("db",             "other.db",                  "other.db",                              "releasetrack.db"),
    ("host",           "::1",                       "::1",                                   "127.0.0.1"),
    ("port",           "0",                         0,                                       8080),
    ("base_url",       "https://r.example.org/x/",  "https://r.example.org/x",               ""),
    ("trusted_proxy",  "10.0.0.2",                  ("10.0.0.2/32",),                        ()),
    ("rate_limit",     "0",                         0,                                       1000),
    ("poll_interval",  "1",                         1.0,                                     3600.0),
    ("host_limit",     "1",                         1,                                       2),
    ("contact",        "me@example.org",            "mailto:me@example.org",                 ""),
    ("retry_first",    "0.5",                       0.5,                                     30.0),
    ("brand",          "Acme-Two",                  "Acme-Two",                              "Service"),
    ("provider",       "home=forgejo:http://g.lan", (("home", "forgejo", "http://g.lan"),),  ()),
    ("smtp_url",       "smtps://u:p@mail.lan",      "smtps://u:p@mail.lan",                  ""),
    ("mail_from",      "me@example.org",            "me@example.org",                        ""),
    ("allow_network",  "fd00::1/8",                 ("fd00::/8",),                           ()),
    ("outgoing_proxy", "http://127.0.0.1:3128",     "http://127.0.0.1:3128",                 ""),
    ("threads",        "64",                        64,                                      8),
    ("log_level",      "DEBUG",                     "debug",                                 "info"),
]


def settings_of(*flags: str, **environ: str) -> rt.Settings:
    """What the command line makes of flags of ``serve`` and of the environment."""
    args = rt.make_parser().parse_args(["serve", *flags])
    return rt.Settings.from_outside({name: getattr(args, f"setting {name}") for name in rt.SETTINGS}, environ)


def variable(name: str) -> str:
    return {"provider": "RELEASETRACK_PROVIDERS"}.get(name, f"RELEASETRACK_{name.upper()}")


def test_every_setting_is_in_the_table_of_these_tests():
    assert [name for name, *_ in SETTING_ROWS] == list(rt.SETTINGS)


@pytest.mark.parametrize("name, text, value, default", SETTING_ROWS)
def test_a_flag_goes_before_the_environment_and_that_before_the_default(name, text, value, default):
    flag = "--" + name.replace("_", "-")
    assert getattr(settings_of(), name) == default
    assert getattr(settings_of(**{variable(name): text}), name) == value
    assert getattr(settings_of(flag, text), name) == value
    other = {"port": "1", "rate_limit": "1", "poll_interval": "2", "host_limit": "3", "retry_first": "2",
             "threads": "2", "log_level": "error", "provider": "a=npm:https://a.example", "host": "127.0.0.2",
             "trusted_proxy": "10.9.9.9", "allow_network": "10.9.9.9", "base_url": "http://b.example",
             "outgoing_proxy": "http://b.example:1", "brand": "B", "db": "b.db", "contact": "https://b.example",
             "smtp_url": "smtp://b.lan", "mail_from": "b@example.org"}[name]
    assert getattr(settings_of(flag, text, **{variable(name): other}), name) == value
    assert getattr(settings_of(**{variable(name): other}), name) not in (value, default)
    assert getattr(settings_of(**{variable(name): ""}), name) == default        # set, but empty: not set
    assert getattr(rt.Settings(**{name: value}), name) == value                 # a library gives values ...
    assert getattr(rt.Settings(**{name: text}), name) == value                  # ... or texts


@pytest.mark.parametrize("name, flags, text, values", [
    ("trusted_proxy", ["10.0.0.1", "fd00::/8"],                         "10.0.0.1 fd00::/8",
     ("10.0.0.1/32", "fd00::/8")),
    ("allow_network", ["10.1.2.3/8", "::1"],                            "10.1.2.3/8  ::1",
     ("10.0.0.0/8", "::1/128")),
    ("provider",      ["a=npm:https://a.example", "b=git:http://b:81"], "a=npm:https://a.example b=git:http://b:81",
     (("a", "npm", "https://a.example"), ("b", "git", "http://b:81"))),
])
def test_a_repeatable_setting_is_a_flag_each_or_one_variable_with_spaces(name, flags, text, values):
    flag = "--" + name.replace("_", "-")
    assert getattr(settings_of(*(word for one in flags for word in (flag, one))), name) == values
    assert getattr(settings_of(**{variable(name): text}), name) == values
    assert getattr(rt.Settings(**{name: values}), name) == values


@pytest.mark.parametrize("name, texts", [
    ("port",           ["x", "-1", "65536", "1.5", "８０", "1_0", " 80", "1e3"]),
    ("rate_limit",     ["-1", "many", "1e9"]),
    ("host_limit",     ["0", "-2", "two"]),
    ("threads",        ["0", "65", "x"]),
    ("poll_interval",  ["0", "0.5", "-60", "1h", "nan", "inf", "1e3"]),
    ("retry_first",    ["0", "-1", "nan", "soon"]),
    ("base_url",       ["example.org", "ftp://x.example", "https://", "http://x.example/?q=1", "http://x.example/#f",
                        "http://x.example:65616", "http://x .example", "http://x.example/\n"]),
    ("outgoing_proxy", ["127.0.0.1:3128", "socks5://127.0.0.1", "https://127.0.0.1", "http://"]),
    ("trusted_proxy",  ["*", "proxy.example", "10.0.0.0/33", "0.0.0.0/0", "::/0", "10.1.2.3/0"]),
    ("allow_network",  ["*", "localhost", "10.0.0.0/33", "1.2.3"]),
    ("brand",          ["", "Two Words", "A:B", "A\r\nB", "ä", "-A", "A" * 41]),
    ("provider",       ["home", "home=forgejo", "home=forgejo:git.example", "Home=forgejo:https://g.example",
                        "ho/me=forgejo:https://g.example", "=forgejo:https://g.example"]),
    ("log_level",      ["loud", "critical"]),
])
def test_a_setting_that_cannot_be_used_is_refused_and_named(name, texts):
    for text in texts:
        with pytest.raises(rt.SettingError, match=name) as refused:
            rt.Settings(**{name: text})
        assert "\n" not in str(refused.value) and "takes" in str(refused.value)
        if text:
            with pytest.raises(rt.SettingError, match=re.escape("--" + name.replace("_", "-"))):
                settings_of(f"--{name.replace('_', '-')}={text}")
            with pytest.raises(rt.SettingError, match=variable(name)):
                settings_of(**{variable(name): text})


def test_a_setting_that_there_is_not_is_refused():
    with pytest.raises(TypeError, match="colour"):
        rt.Settings(colour="blue")


def test_a_provider_of_an_unknown_dialect_is_refused_with_the_dialects_that_there_are():
    with pytest.raises(rt.SettingError, match="forgejo.*npm"):
        rt.providers_with(rt.Settings(provider="home=cvs:https://cvs.example").provider)


@pytest.mark.parametrize("arguments, environ, words", [
    (["serve", "--port", "x"],                    {},                                  ["--port", "'x'", "65535"]),
    (["serve", "--trusted-proxy", "0.0.0.0/0"],   {},                                  ["--trusted-proxy"]),
    (["account", "list"],                         {"RELEASETRACK_RATE_LIMIT": "lots"}, ["RELEASETRACK_RATE_LIMIT"]),
    (["fetch", "github", "a/b", "--provider", "home=cvs:https://cvs.example"], {},     ["cvs", "forgejo"]),
    (["account", "list", "--no-such-flag"],       {},                                  ["--no-such-flag"]),
    (["account"],                                 {},                                  ["--help"]),
    (["accuont", "list"],                         {},                                  ["accuont"]),
    ([],                                          {},                                  ["--help"]),
])
def test_what_is_not_understood_is_one_line_and_status_2(arguments, environ, words, tmp_path):
    finished = run(*arguments, env=environ, cwd=tmp_path)
    assert finished.returncode == 2
    assert finished.stdout == ""
    assert finished.stderr.count("\n") == 1 and all(word in finished.stderr for word in words), finished.stderr
    assert not list(tmp_path.iterdir())


# == values ====================================================================


@pytest.mark.parametrize("text, date", [
    ("2026-03-01T10:00:00Z",                "2026-03-01T10:00:00Z"),
    ("2026-03-01t10:00:00z",                "2026-03-01T10:00:00Z"),
    ("2026-03-01 10:00:00 UTC",             "2026-03-01T10:00:00Z"),
    ("2026-03-01T10:00:00",                 "2026-03-01T10:00:00Z"),
    ("2026-03-01T10:00:00+02:00",           "2026-03-01T08:00:00Z"),
    ("2026-03-01T00:30:00+0530",            "2026-02-28T19:00:00Z"),
    ("2026-12-31T23:30:00-01:00",           "2027-01-01T00:30:00Z"),
    ("2026-03-01T10:00:00.5Z",              "2026-03-01T10:00:00.500000Z"),
    ("2026-03-01T10:00:00.123456789+01:00", "2026-03-01T09:00:00.123456Z"),
    ("2026-03-01T10:00:00.000Z",            "2026-03-01T10:00:00Z"),
    ("2024-02-29T12:00:00.1Z",              "2024-02-29T12:00:00.100000Z"),
    ("0001-01-01T00:00:00Z",                None),
    ("1900-01-01T00:00:00+00:00",           None),
    ("1970-01-01T00:00:00Z",                None),
    (None,                                  None),
])
def test_a_providers_time_becomes_utc(text, date):
    assert rt.utc(text) == date


@pytest.mark.parametrize("text", [
    "", "yesterday", "2026-03-01", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "2026-03-01T25:00:00Z",
    "2026-03-01T10:00Z", "٢٠٢٦-03-01T10:00:00Z", "2026-03-01T10:00:00Z\n", "2026-03-01T10:00:00+99:99", "1e9",
    "2026-03-01T10:00:00 CET"])
def test_what_is_no_time_is_no_time(text):
    with pytest.raises(ValueError):
        rt.utc(text)


@pytest.mark.parametrize("header, seconds", [
    ("3",                              3),
    (" 120 ",                          120),
    ("0",                              0),
    ("1000000000",                     rt.DAY),
    ("Thu, 01 Jan 2026 00:01:00 GMT",  60),
    ("Thursday, 01-Jan-26 00:01:00 GMT", 60),
    ("Thu, 01 Jan 2099 00:00:00 GMT",  rt.DAY),
    ("Wed, 31 Dec 2025 23:59:00 GMT",  None),
    ("-1",                             None),
    ("1.5",                            None),
    ("1e3",                            None),
    ("３",                             None),
    ("soon",                           None),
    ("",                               None),
    (None,                             None),
])
def test_retry_after_is_seconds_or_a_date_and_at_most_a_day(header, seconds):
    assert rt.retry_after_seconds(header, 1767225600.0) == seconds       # 2026-01-01


def test_a_retry_after_in_the_oldest_form_is_utc_whatever_the_zone_of_the_machine():
    # https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7 has three forms of a date; this one names no zone
    program = "import releasetrack as rt; print(rt.retry_after_seconds('Thu Jan  1 00:01:00 2026', 1767225600.0))"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                             env={**os.environ, "TZ": "America/New_York"}, cwd=PROGRAM.parent)
    assert printed.stdout == "60.0\n"


# The rules of providers.md part 29. What stands between quotes is a version as its provider spells it.
@pytest.mark.parametrize("version, words, pep440, semver", [
    #                        generic  PEP 440  semver
    ("1.0",                  False,   False,   False),
    ("v1.0.0",               False,   False,   False),
    ("1.0-rc1",              True,    True,    True),
    ("1.0.0-beta.2",         True,    True,    True),
    ("v2.0.0-alpha",         True,    True,    True),
    ("1.0.0-rc.1+build.5",   True,    True,    True),
    ("1.0.0+build-7",        False,   False,   False),
    ("1.0rc1",               True,    True,    None),
    ("1.0b2",                True,    True,    None),
    ("2.0.dev3",             True,    True,    None),
    ("1!2.0a1",              None,    True,    None),
    ("1.0.post1",            False,   False,   None),
    ("1.0.post1.dev2",       True,    True,    None),
    ("1.0+local.alpha1",     False,   False,   False),
    ("nightly",              True,    True,    True),
    ("nightly-2026-03-01",   True,    True,    True),
    ("2.0-M1",               True,    None,    True),
    ("5.0.0.CR2",            True,    None,    None),
    ("1.0-SNAPSHOT",         True,    None,    True),
    ("21-ea+7",              True,    None,    True),
    ("php-8.4.0alpha1",      True,    None,    None),
    ("v1.0_beta",            True,    True,    None),
    ("@acme/ui@2.0.0-rc.1",  True,    None,    True),
    ("15.0.0-canary.3",      True,    None,    True),
    ("1.29.1-alpine",        False,   None,    None),
    ("1.29.1-alpine3.20",    False,   None,    None),
    ("10.9.1-ls446",         False,   None,    None),
    ("1.2.3-r1",             False,   None,    None),
    ("9.8p1",                False,   None,    None),
    ("1.1.1w",               False,   None,    None),
    ("1.0.2b",               False,   None,    None),
    ("OpenSSL_1_1_1w",       False,   None,    None),
    ("curl-8_5_0",           False,   None,    None),
    ("1.0.Final",            False,   None,    None),
    ("3.1.0.GA",             False,   None,    None),
    ("1.2-hotfix1",          False,   None,    None),
    ("2.4-lts",              False,   None,    None),
    ("1.0-patch2",           False,   None,    None),
    ("prefix-1.0",           False,   None,    None),
    ("source-1.0",           False,   None,    None),
    ("device-2.1",           False,   None,    None),
    ("release-3.2",          False,   None,    None),
    ("@next/env@15.0.0",     False,   None,    False),
    ("beta/v1.2.3",          False,   None,    None),
    ("1.0.0.4",              False,   False,   False),
    ("b4321",                False,   None,    None),
])
def test_what_is_a_prerelease_by_each_rule(version, words, pep440, semver):
    for rule, expected in ((rt.prerelease_by_words, words), (rt.prerelease_by_pep440, pep440),
                           (rt.prerelease_by_semver, semver)):
        assert expected is None or rule(version) is expected, rule.__name__


@pytest.mark.parametrize("versions", [
    ["1.0-alpha1", "1.0-beta.2", "1.0-rc1", "1.0-rc2", "1.0", "1.0.1", "1.2", "1.10", "2.0"],
    ["v0.9", "1.0.0-rc.9", "1.0.0-rc.10", "v1.0.0", "1.0.0.1"],
    ["2026.1", "2026.02", "2026.10"],
    ["1.1.1v", "1.1.1w"],
])
def test_versions_are_ordered_as_people_read_them(versions):
    assert sorted(reversed(versions), key=rt.version_order) == versions


@pytest.mark.parametrize("texts, found", [
    (["fixes CVE-2026-12345."],                                  ("CVE-2026-12345",)),
    (["cve-2026-1234 and Cve-2025-9999"],                        ("CVE-2026-1234", "CVE-2025-9999")),
    (["CVE\u20112026\u201112345, CVE\u20102026\u20130001"],      ("CVE-2026-12345", "CVE-2026-0001")),
    (["CVE-2026-0002 CVE-2026-0001 CVE-2026-0002"],              ("CVE-2026-0002", "CVE-2026-0001")),
    (["title: CVE-2026-0002", "CVE-2026-0001, cve-2026-0002"],   ("CVE-2026-0002", "CVE-2026-0001")),
    (["<a href='/CVE-2026-0003'>(CVE-2026-0003)</a>"],           ("CVE-2026-0003",)),
    (["CVE-2026-123", "CVE-26-12345", "CVE 2026 12345", "CV-2026-12345", ""], ()),
    (["CVE-٢٠٢٦-12345"],                                         ()),
])
def test_the_cve_ids_of_texts_are_found_once_each_in_their_order(texts, found):
    assert rt.cves_in(*texts) == found


@pytest.mark.parametrize("markup, text", [
    ("<p>one</p><p>two &amp; three</p>",             "one\n\ntwo & three"),
    ("a<br>b<br/>c",                                 "a\nb\nc"),
    ("<ul><li>x</li><li>y <b>z</b></li></ul>",       "- x\n- y z"),
    ("<script>alert(1)</script>ok<style>p{}</style>", "ok"),
    ("a <!-- not this --> b",                        "a b"),
    ("  a \t  b\n\n\n\n\n c",                        "a b\n\nc"),
    ("&lt;b&gt; stays text",                         "<b> stays text"),
    ("2 < 3 and 4 > 3",                              "2 < 3 and 4 > 3"),
    ("<p>open <b>and never closed",                  "open and never closed"),
    ("",                                             ""),
])
def test_html_becomes_the_text_that_a_person_reads(markup, text):
    assert rt.plain_text(markup) == text


VALUES = {"project": "a/b", "version": "1.0", "note_title": "{version} {{x}} \\1 %s", "tags": ""}


@pytest.mark.parametrize("template, text", [
    ("{project} {version}",                                    "a/b 1.0"),
    ("{project}{project}{tags}.",                              "a/ba/b."),
    ("{{project}}",                                            "{project}"),
    ("{{{version}}}",                                          "{1.0}"),
    ("{{}} }}{{",                                              "{} }{"),
    ("{note_title}",                                           "{version} {{x}} \\1 %s"),       # read once only
    ("",                                                       ""),
    # what str.format would obey
    ("{project.__class__}",                                    "{project.__class__}"),
    ("{project.__class__.__init__.__globals__[SECRET_KEY]}",   "{project.__class__.__init__.__globals__[SECRET_KEY]}"),
    ("{project[0]}",                                           "{project[0]}"),
    ("{version:>1000000000}",                                  "{version:>1000000000}"),
    ("{version!r}",                                            "{version!r}"),
    ("{version:{project}}",                                    "{version:a/b}"),
    ("{0}",                                                    "{0}"),
    ("{}",                                                     "{}"),
    ("{ version }",                                            "{ version }"),
    ("{Version}",                                              "{Version}"),
    ("{version\n}",                                            "{version\n}"),
    ("{version",                                               "{version"),
    ("version}",                                               "version}"),
    ("{%d}%(version)s$version${version}",                      "{%d}%(version)s$version$1.0"),
    ("{" + "a" * 41 + "}",                                     "{" + "a" * 41 + "}"),
    ("\\g<0>{version}\\1",                                     "\\g<0>1.0\\1"),
    ("{vers\u0456on}",                                         "{vers\u0456on}"),
])
def test_a_template_is_filled_in_one_pass_and_anything_else_in_it_is_text(template, text):
    assert rt.fill(template, VALUES) == text


@pytest.mark.parametrize("template, unknown", [
    ("{project} {note_text} {url} {is_updated} {account_name}", []),
    ("{secret} {{secret}} {project} {password}",                 ["secret", "password"]),
    ("{{literal}} {0} {project.name}",                           []),
])
def test_the_unknown_names_of_a_template_are_known_before_it_is_saved(template, unknown):
    assert rt.unknown_names(template) == unknown


def test_every_name_that_the_design_promises_can_stand_in_a_template():
    promised = ("provider project version time cve is_prerelease is_updated note_title note_message note_text "
                "account_type account_id account_name tags project_note url")
    assert rt.unknown_names(" ".join(f"{{{name}}}" for name in promised.split())) == []


def test_ids_are_26_characters_of_base_32_and_never_the_same():
    ids = {rt.make_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch(r"[a-z2-7]{26}", id_) for id_ in ids)
    assert len({id_[0] for id_ in ids}) > 20


def test_a_password_is_kept_as_scrypt_with_a_salt_of_its_own():
    kept = rt.hash_password(PASSWORD)
    algorithm, salt, digest = kept.split("$")
    assert algorithm == "scrypt"
    assert digest == hashlib.scrypt(PASSWORD.encode(), salt=bytes.fromhex(salt), n=2**14, r=8, p=5, dklen=32).hex()
    assert rt.is_password(PASSWORD, kept)
    assert not rt.is_password(PASSWORD + " ", kept)
    assert not rt.is_password(PASSWORD, rt.NO_PASSWORD)
    assert rt.hash_password(PASSWORD).split("$")[1] != salt


@pytest.mark.parametrize("password, is_fine", [
    ("1234567", False), ("12345678", True), ("ä" * 4, True), ("a" * 1024, True), ("a" * 1025, False), ("", False)])
def test_a_new_password_takes_8_to_1024_bytes(password, is_fine):
    assert (rt.password_problem(password) is None) is is_fine


def test_secrets_are_of_256_bits_in_the_forms_that_are_promised():
    assert re.fullmatch(r"rt_[0-9a-f]{64}", rt.make_key_secret())
    signing = rt.make_signing_secret()
    assert signing.startswith("whsec_") and len(base64.b64decode(signing[6:], validate=True)) == 32
    assert rt.make_key_secret() != rt.make_key_secret() and rt.make_signing_secret() != signing


@pytest.mark.parametrize("address, is_in", [
    ("10.1.2.3",           True),
    ("192.0.2.7",          True),
    ("192.0.2.8",          False),
    ("::ffff:10.1.2.3",    True),        # IPv4 in IPv6, as a dual-stack socket says it
    ("::FFFF:0a01:0203",   True),
    ("::ffff:11.0.0.1",    False),
    ("fd00::1",            True),
    ("fd00::1%eth0",       True),
    ("fe00::1",            False),
    ("10.1.2.3, 1.2.3.4",  False),
    ("10.1.2.3:443",       False),
    ("[fd00::1]",          False),
    ("010.1.2.3",          False),
    ("10.1.2",             False),
    ("0x0a010203",         False),
    ("167837955",          False),
    ("１0.1.2.3",          False),
    ("unknown",            False),
    ("",                   False),
])
def test_an_address_is_in_a_network_or_it_is_not_and_garbage_is_in_none(address, is_in):
    assert rt.in_networks(address, ("10.0.0.0/8", "192.0.2.7/32", "fd00::/8")) is is_in
    assert not rt.in_networks(address, ())


@pytest.mark.parametrize("piece", ["<a ", "<a", "<!--", "<![", "<a b='", "<a/", "<![x[", "</", "<?", "&#", "<script></", "<"])
def test_no_note_takes_long_to_be_read_as_text(piece):
    began = time.process_time()
    rt.plain_text((piece * 32_768)[:32_768])
    assert time.process_time() - began < 0.3


def test_a_note_with_a_number_of_5000_digits_is_read_as_text():
    assert rt.plain_text("<p>a &#" + "9" * 5000 + "; b</p>").startswith("a ")


BASE = "https://h.example/o/r/releases/tag/v1?x=1"


@pytest.mark.parametrize("markup, expected", [
    ('<a href="x">x</a>',                      '<a href="https://h.example/o/r/releases/tag/x">x</a>'),
    ('<a href="../x">',                        '<a href="https://h.example/o/r/releases/x">'),
    ('<a href="/o/r/issues/1">',               '<a href="https://h.example/o/r/issues/1">'),
    ('<img src="//cdn.example/i.png">',        '<img src="https://cdn.example/i.png">'),
    ('<a href="#top">',                        f'<a href="{BASE}#top">'),
    ('<a href="?page=2">',                     '<a href="https://h.example/o/r/releases/tag/v1?page=2">'),
    ('<a href="">',                            f'<a href="{BASE}">'),
    ('<a href="https://x.example/">',          '<a href="https://x.example/">'),
    ('<a href="mailto:me@x.example">',         '<a href="mailto:me@x.example">'),
    ('<a href="javascript:alert(1)">',         '<a href="javascript:alert(1)">'),      # what shows it takes no script
    ('<img src="data:image/png;base64,AA==">', '<img src="data:image/png;base64,AA==">'),
    ("<a href='/x'>",                          "<a href='https://h.example/x'>"),
    ("<a href='/x?a=\"b\"'>",                  "<a href='https://h.example/x?a=\"b\"'>"),
    ("<a href=/x>",                            '<a href="https://h.example/x">'),
    ("<a href=/x class=y>",                    '<a href="https://h.example/x" class=y>'),
    ('<A HREF="/x">',                          '<A HREF="https://h.example/x">'),
    ('<IMG class="y" SRC = "/x" alt="z">',     '<IMG class="y" SRC = "https://h.example/x" alt="z">'),
    ('<a\n  href="/x"\n>',                     '<a\n  href="https://h.example/x"\n>'),
    ('<a href=" /x ">',                        '<a href="https://h.example/x">'),
    ('<a href="/x?a=1&amp;b=2">',              '<a href="https://h.example/x?a=1&amp;b=2">'),
    ('<a data-href="/x">',                     '<a data-href="/x">'),
    ('<a href="http://[">',                    '<a href="http://[">'),
    ("<a href=http://[>",                      '<a href="http://[">'),
    ("<a href=>x</a>",                         "<a href=>x</a>"),
    ("<a href>x</a>",                          "<a href>x</a>"),
    ('<p>see href="/x"</p>',                   '<p>see href="/x"</p>'),
    ("1 < 2 href=/x > 1",                      "1 < 2 href=/x > 1"),
    ('<a href="/a"><img src="/b"></a>',        '<a href="https://h.example/a"><img src="https://h.example/b"></a>'),
    ("",                                       ""),
    ("plain",                                  "plain"),
    ('<a href="\ud800">',                      None),
    ('<a href="/x\0y">',                       None),
    ('<a href="//[">',                         None),
    ('<a href="https://h:x/">',                None),
    ('<a href="' + "../" * 2000 + '">',        None),
])
def test_links_of_a_note_are_made_absolute(markup, expected):
    found = rt.absolute_links(markup, BASE)
    assert expected is None or found == expected
    assert expected is None or rt.absolute_links(found, BASE) == found


@pytest.mark.parametrize("piece", ["<a href=", '<a href="', "<a href='x", " href=", "<", "<a ", '<a href="x" ', "<a href=x>",
                                   "<a  ", "href", "\nhref\n", '"', "<a href=//[", "<a href=" + "../" * 20 + ">"])
@pytest.mark.parametrize("before", ["", "<a ", '<a href="'])
def test_links_of_a_stranger_s_note_are_made_absolute_in_good_time(before, piece):
    markup = before + piece * (64 * rt.KIB // len(piece))
    for whole in (markup, markup + ">"):
        began = time.process_time()
        rt.absolute_links(whole, BASE)
        assert time.process_time() - began < 1


# == limits ====================================================================


def test_a_window_starts_with_the_first_request_and_gives_all_back_after_an_hour():
    windows = rt.Windows(100)
    assert windows.take("key", 1, 5000.0) == rt.Window(100, 99, rt.HOUR, True)
    assert windows.take("key", 10, 5600.0) == rt.Window(100, 89, rt.HOUR - 600, True)
    assert windows.take("other", 1, 5600.0) == rt.Window(100, 99, rt.HOUR, True)
    assert windows.take("key", 1, 5000.0 + rt.HOUR - 1) == rt.Window(100, 88, 1.0, True)
    assert windows.take("key", 1, 5000.0 + rt.HOUR) == rt.Window(100, 99, rt.HOUR, True)


def test_a_request_that_costs_more_than_remains_is_refused_and_costs_nothing():
    windows = rt.Windows(15)
    assert windows.take("key", 10, 0.0).remaining == 5
    assert windows.take("key", 10, 1.0) == rt.Window(15, 5, rt.HOUR - 1, False)
    assert [windows.take("key", 1, 2.0).remaining for _ in range(5)] == [4, 3, 2, 1, 0]
    assert windows.take("key", 1, 3.0) == rt.Window(15, 0, rt.HOUR - 3, False)
    assert windows.take("key", 10, rt.HOUR).is_open


def test_windows_are_forgotten_when_there_are_too_many_the_oldest_first():
    windows = rt.Windows(5, most_names=10)
    for at in range(10):
        windows.take(f"name {at}", 5, float(at))
    windows.take("one more", 5, 10.0)
    assert windows.take("name 0", 5, 11.0).is_open
    assert not windows.take("name 9", 1, 11.0).is_open
    assert not windows.take("one more", 1, 11.0).is_open


def test_threads_that_take_at_once_get_no_more_than_there_is():
    windows, got = rt.Windows(1000), []
    threads = [threading.Thread(target=lambda: got.extend(
        windows.take("key", 1, 0.0).is_open for _ in range(400))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(got), len(got)) == (1000, 1600)


@pytest.fixture(scope="module")
def tried_gate() -> tuple[rt.LoginGate, str, list[bool]]:
    """A gate at which 30 wrong passwords were tried for one account from one address; the right one's hash."""
    gate, hashed = rt.LoginGate(), rt.hash_password(PASSWORD)
    results: list[bool] = []

    def guess(number: int) -> None:
        for at in range(number, 30, 2):
            results.append(gate.check("Me@example.org", "192.0.2.1", f"guess {at}", hashed, 0.0))

    threads = [threading.Thread(target=guess, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return gate, hashed, results


def test_after_30_wrong_passwords_an_account_and_an_address_are_closed_for_the_hour(tried_gate):
    gate, hashed, results = tried_gate
    assert results == [False] * 30
    for account, address in (("me@EXAMPLE.org", "192.0.2.2"), ("you@example.org", "192.0.2.1")):
        with pytest.raises(rt.TooMany) as refused:
            gate.check(account, address, PASSWORD, hashed, 600.0)
        assert refused.value.retry_after == rt.HOUR - 600
    assert gate.check("you@example.org", "192.0.2.2", PASSWORD, hashed, 600.0)
    assert gate.check("me@example.org", "192.0.2.1", PASSWORD, hashed, rt.HOUR)


def test_made_up_accounts_win_an_address_no_further_tries(tried_gate):
    # reliability.md, row 41: what is refused before a password is read must not push out what is counted
    gate, hashed = rt.LoginGate(), tried_gate[1]
    gate._windows.limit = 2                             # as if 28 had been tried, to save their time
    for _ in range(2):
        assert not gate.check("me@example.org", "192.0.2.1", "wrong", hashed, 0.0)
    for number in range(60_000):
        with pytest.raises(rt.TooMany):
            gate.check(f"{number}@example.org", "192.0.2.1", "wrong", None, 1.0)
    for account, address in (("me@example.org", "192.0.2.2"), ("you@example.org", "192.0.2.1")):
        with pytest.raises(rt.TooMany):
            gate.check(account, address, "wrong", None, 2.0)


def test_a_right_password_costs_nothing_and_an_unknown_account_has_none():
    gate, hashed = rt.LoginGate(), rt.hash_password(PASSWORD)
    gate._windows.limit = 1
    for _ in range(3):
        assert gate.check("me@example.org", "192.0.2.1", PASSWORD, hashed, 0.0)
    assert not gate.check("nobody@example.org", "192.0.2.1", PASSWORD, None, 0.0)
    with pytest.raises(rt.TooMany):
        gate.check("nobody@example.org", "192.0.2.3", PASSWORD, None, 0.0)


@pytest.fixture
def patterns() -> Iterator[rt.Patterns]:
    made = rt.Patterns()
    made.excluded([("x", False)], ["y"])        # its helper is up
    yield made
    made.close()


VERSIONS = ["1.0", "1.0-rc1", "2.0"]


@pytest.mark.parametrize("rules, excluded", [
    ([],                                  [False, False, False]),
    ([("rc", False)],                     [False, True,  False]),
    ([("^1\\.", True)],                   [False, False, True]),
    ([("rc", False), ("^1", True)],       [False, True,  True]),
    ([("^2", False), ("^1", False)],      [True,  True,  True]),
    ([("RC", False)],                     [False, False, False]),
    ([("(?i)RC", False)],                 [False, True,  False]),
])
def test_a_plain_pattern_excludes_what_it_matches_and_an_inverse_one_the_rest(patterns, rules, excluded):
    assert patterns.excluded(rules, VERSIONS) == excluded


def test_versions_of_every_sort_reach_a_pattern_as_they_are(patterns):
    odd = ["line\nbreak", '"quoted"', "é", "\ud800", "x" * 200, ""]
    assert patterns.excluded([("^line\nbreak$|^\"quoted\"$|^é$|^\ud800$|^x{200}$|^$", False)], odd) == [True] * 6


EVIL = "(a+)+$"


def test_an_evil_pattern_stalls_nobody_excludes_nothing_and_is_not_tried_a_fourth_time(patterns, caplog):
    stop, gaps = threading.Event(), []

    def tick() -> None:
        last = time.perf_counter()
        while not stop.wait(0.001):
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    ticker = threading.Thread(target=tick)
    ticker.start()
    took = []
    for attempt in range(4):
        assert patterns.too_slow(EVIL) is (attempt == 3)
        began = time.perf_counter()
        assert patterns.excluded([(EVIL, False), (EVIL + "|x", True)][:1], ["a" * 40 + "b"]) == [False]
        took.append(time.perf_counter() - began)
    stop.set()
    ticker.join()
    assert took[0] >= 0.2 and took[3] < 0.05, took
    assert max(gaps) < 0.25, max(gaps)          # a match in this process would hold every thread for minutes
    assert patterns.excluded([("rc", False)], VERSIONS) == [False, True, False]
    assert sum(EVIL in record.getMessage() for record in caplog.records) >= 3


def test_an_inverse_pattern_that_is_too_slow_excludes_nothing_either(patterns):
    assert patterns.excluded([(EVIL, True), ("rc", False)], ["a" * 40 + "b", "a" * 40 + "b-rc"]) == [False, True]


def test_ten_evil_patterns_cost_a_project_half_a_second(patterns):
    # reliability.md, row 48; a new helper's start is on top of it, which takes 15 ms
    evils = [(f"^(a+)+{letter}$", False) for letter in "bcdefghijk"]
    began = time.perf_counter()
    assert patterns.excluded(evils, ["a" * 199 + "-"]) == [False]
    assert time.perf_counter() - began < 1


def test_patterns_work_where_a_thousand_connections_are_open():
    # a descriptor beyond 1,023 is more than select() takes
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this machine allows no 2,048 open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    patterns = rt.Patterns()
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        stack.callback(patterns.close)
        for _ in range(1100):
            stack.enter_context(open(os.devnull, "rb"))
        assert patterns.excluded([("rc", False)], VERSIONS) == [False, True, False]


def test_the_helper_of_patterns_ends_when_they_are_closed():
    patterns = rt.Patterns()
    patterns.excluded([("x", False)], VERSIONS)
    helper = patterns._helper
    assert helper and helper.poll() is None
    patterns.close()
    assert helper.poll() is not None
    patterns.close()


@pytest.mark.parametrize("requests, seconds, times, waits", [
    (2, 10.0, [0, 0, 0],                 [0, 0, 10]),
    (2, 10.0, [0, 4, 5, 10, 10, 14],     [0, 0, 5, 0, 4, 0]),     # what is refused is not counted
    (1, 1.1,  [0, 1, 1.1, 2.1, 2.2],     [0, 0.1, 0, 0.1, 0]),
    (3, 60.0, [0, 1, 2, 59.5, 60, 60.5], [0, 0, 0, 0.5, 0, 0.5]),
    (1, 5.0,  [100, 50, 105],            [0, 55, 0]),             # a clock that went back
    (1, 1.0,  [0, 1e9],                  [0, 0]),
])
def test_at_most_so_many_are_let_go_in_any_so_many_seconds(requests, seconds, times, waits):
    pace = rt.Pace(requests, seconds)
    assert [pace.take(at) for at in times] == pytest.approx(waits)


def test_whoever_waits_as_long_as_it_was_told_is_let_go_and_no_window_holds_more(seconds=10.0, requests=7):
    pace, at, taken = rt.Pace(requests, seconds), 0.0, []
    for step in range(200):
        at += step % 3 / 4
        if wait := pace.take(at):
            at += wait
            assert pace.take(at) == 0
        taken.append(at)
    for first, last in zip(taken, taken[requests:]):
        assert last - first >= seconds - 1e-6


def test_threads_share_a_pace():
    pace, let_go = rt.Pace(50, 60.0), []

    def take() -> None:
        let_go.extend(pace.take(1.0) == 0 for _ in range(100))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(let_go) == 50 and len(let_go) == 800


def test_a_pace_says_what_it_is():
    assert str(rt.Pace(45, 3600.0)) == "at most 45 times in 3600 s"


# == store =====================================================================


NOW = 1_772_359_200.0       # 2026-03-01T10:00:00Z


@pytest.fixture
def stored(tmp_path: pathlib.Path) -> Iterator[rt.Store]:
    made = rt.Store(str(tmp_path / "stored.db"), clock=lambda: NOW)
    yield made
    made.close()


def an_account(store: rt.Store, email: str = "me@example.org") -> rt.Account:
    return store.add_account("user", email, "Me", "scrypt$00$00", False)


def a_project(store: rt.Store, account: rt.Account, name: str, *releases: rt.Release, events: Any = (),
              **settings: Any) -> rt.Project:
    """A project whose source has been checked, and is due again at once."""
    project, source = store.add_project(account.id, "forge", name, name, settings)
    assert store.claim_source(source.id, "test", NOW)
    assert store.record_found(source.id, "test", rt.Findings(NOW, new=releases, events=events))
    return project


def a_release(version: str, minute: int = 0, **about: Any) -> rt.Release:
    return rt.Release(version, f"2026-03-01T10:{minute:02}:00Z", **about)


def a_hook(store: rt.Store, account: rt.Account, name: str = "hook", **about: Any) -> rt.Destination:
    return store.add_destination(account.id, "webhook", name, {"url": "https://hook.example"}, rt.make_signing_secret(), **about)


def events_for(project: rt.Project, *destinations: rt.Destination, count: int = 1) -> list[rt.Event]:
    return [rt.Event(project.id, {"version": f"{number}"}, "https://forge.example", tuple(
        rt.Recipient(destination.id, NOW) for destination in destinations)) for number in range(count)]


def tell(store: rt.Store, project: rt.Project, events: Sequence[rt.Event]) -> None:
    """Record events of a project, due at once."""
    assert store.claim_source(project.source_id, "teller", NOW)
    assert store.record_found(project.source_id, "teller", rt.Findings(NOW, events=events))


def everything(store: rt.Store) -> dict[str, list[Any]]:
    """All rows of all tables."""
    tables = [name for name, in store._db.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")]
    return {table: sorted(store._db.execute(f"SELECT * FROM {table}").fetchall(), key=repr) for table in tables}


def files_of(store: rt.Store) -> dict[str, bytes]:
    """What stands in the store's file and its companions."""
    folder = pathlib.Path(store.path).parent
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_the_schema_is_strict_and_its_version_is_the_number_of_migrations(stored):
    assert stored._db.execute("PRAGMA user_version").fetchone() == (len(rt.MIGRATIONS),)
    tables = stored._db.execute(
        "SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite%'").fetchall()
    assert len(tables) > 10 and all(strict for _, strict in tables), tables


@pytest.mark.parametrize("pragma, value", [
    ("foreign_keys", 1), ("journal_mode", "wal"), ("synchronous", 2), ("secure_delete", 1), ("busy_timeout", 5000)])
def test_every_connection_is_set_up_as_promised(stored, pragma, value):
    found = []
    thread = threading.Thread(target=lambda: found.append(stored._db.execute(f"PRAGMA {pragma}").fetchone()[0]))
    thread.start()
    thread.join()
    assert [stored._db.execute(f"PRAGMA {pragma}").fetchone()[0], *found] == [value, value]


def test_the_store_and_its_companions_and_its_backups_are_for_their_owner_alone(tmp_path):
    before = os.umask(0o022)
    try:
        store = rt.Store(str(tmp_path / "a.db"))
        an_account(store)
        store.backup(str(tmp_path / "copy.db"))
        modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert {"a.db", "a.db-wal", "a.db-shm", "copy.db"} == set(modes)
    assert set(modes.values()) == {"0o600"}, modes


def newer(path: pathlib.Path) -> None:
    rt.Store(str(path)).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(rt.MIGRATIONS) + 1}")


def foreign(path: pathlib.Path, version: int = 0) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmark (url TEXT)")
        connection.execute(f"PRAGMA user_version = {version}")


def truncated(path: pathlib.Path) -> None:
    rt.Store(str(path)).close()
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("make, words", [
    (newer,                                          "newer"),
    (foreign,                                        "another program"),
    (lambda path: foreign(path, len(rt.MIGRATIONS)), "another program"),
    (lambda path: path.write_text("Dear diary, " * 1000), "not a database"),
    (truncated,                                      "malformed"),
    (lambda path: path.mkdir(),                      "cannot be opened"),
], ids=["newer", "another program's", "another program's of our version", "text", "truncated", "a folder"])
def test_what_is_no_store_of_ours_is_refused_in_one_line_and_left_as_it_is(tmp_path, make, words):
    path = tmp_path / "a.db"
    make(path)
    before = path.is_file() and path.read_bytes()
    with pytest.raises(rt.StoreError) as refused:
        rt.Store(str(path)).close()
    assert str(path) in str(refused.value) and words in str(refused.value).lower()
    assert "\n" not in str(refused.value)
    assert (path.is_file() and path.read_bytes()) == before


@pytest.mark.parametrize("under", ["a file/a.db", "no folder/a.db"])
def test_a_store_that_cannot_be_made_is_told_in_one_line(tmp_path, under):
    (tmp_path / "a file").touch()
    with pytest.raises(rt.StoreError) as refused:
        rt.Store(str(tmp_path / under))
    assert "writable" in str(refused.value) and "\n" not in str(refused.value)


def test_processes_that_make_the_same_store_at_once_all_get_it(tmp_path):
    rounds, program = 12, """if 1:
        import sys, time, releasetrack
        folder, start, rounds = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
        for number in range(rounds):
            time.sleep(max(0, start + number / 8 - time.time()))
            releasetrack.Store(f"{folder}/{number}.db").close()
        """
    start = str(time.time() + 0.8)
    processes = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), start, str(rounds)], text=True,
                                  stderr=subprocess.PIPE, cwd=PROGRAM.parent) for _ in range(4)]
    assert [process.communicate(timeout=30)[1] for process in processes] == [""] * 4
    for number in range(rounds):
        with contextlib.closing(sqlite3.connect(tmp_path / f"{number}.db")) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (len(rt.MIGRATIONS),)


def test_stores_that_open_at_once_in_one_process_all_get_it(tmp_path):
    for number in range(10):
        barrier, faults = threading.Barrier(4), []

        def make() -> None:
            barrier.wait()
            try:
                rt.Store(str(tmp_path / f"{number}.db")).close()
            except rt.StoreError as error:
                faults.append(error)

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []


# How hot queries are served

@dataclasses.dataclass
class Busy:
    """A store with one of everything, for queries to be asked of."""

    store: rt.Store
    account: rt.Account
    key: rt.Key
    tag: rt.Tag
    project: rt.Project
    hook: rt.Destination


@pytest.fixture
def busy(stored: rt.Store) -> Busy:
    account = an_account(stored)
    tag, hook = stored.add_tag(account.id, "home"), a_hook(stored, account)
    note = rt.Note("Title", "<p>x</p>", "https://forge.example")
    project = a_project(stored, account, "acme/app", a_release("1.0", note=note), tags=[tag.id],
                        destinations={"webhook": [hook.id]})
    tell(stored, project, events_for(project, hook))
    key = stored.add_key(account.id, "test", ["10.0.0.0/8"])
    stored._db.execute("INSERT INTO session (token_hash, account_id, address, agent, created_at, seen_at) "
                       "VALUES (x'00', ?, '', '', 0, 0)", (account.id,))
    return Busy(stored, account, key, tag, project, hook)


def plans(store: rt.Store, call: Callable[[], Any]) -> dict[str, list[str]]:
    """The statements that a call runs, with SQLite's plan of each."""
    said: list[str] = []
    store._db.set_trace_callback(said.append)
    try:
        call()
    finally:
        store._db.set_trace_callback(None)
    queries = [statement for statement in said if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE)\b", statement)]
    assert queries, said
    return {query: [row[3] for row in store._db.execute("EXPLAIN QUERY PLAN " + query)] for query in queries}


# Beside these, only what an account has few of (keys, tags, destinations), and json_each.
BIG = "account api_key session source release note project project_tag project_destination event delivery attempt"


def an_outcome(delivery_id: str) -> rt.Outcome:
    return rt.Outcome(NOW, 204, None, 0.1, "127.0.0.1", "", delivery_id, "delivered", NOW)


def a_held_digest(busy: Any) -> None:
    """One that is due."""
    busy.store._db.execute("UPDATE delivery SET is_held = 1, is_digested = 1 WHERE rowid IN (SELECT max(rowid) FROM delivery)")


HOT_QUERIES = {
    "a key by its secret":        (False, lambda b: b.store.key_by_secret(b.key.secret)),
    "an account by its address":  (False, lambda b: b.store.account("ME@example.org")),
    "a project by its id":        (False, lambda b: b.store.project(b.account.id, b.project.id)),
    "a project by its name":      (True, lambda b: b.store.project_by_names(b.account.id, "forge", ["acme/app"])),
    "releases, a page":           (False, lambda b: b.store.releases(b.project.source_id, 1)),
    "a release":                  (True, lambda b: b.store.release_of(b.project.source_id, ["1.0", "1.0/note"])),
    "a note":                     (False, lambda b: b.store.note(b.project.source_id, "1.0")),
    "known releases":             (False, lambda b: b.store.known_releases(b.project.source_id)),
    "due providers":              (False, lambda b: b.store.due_providers(["forge", "npm"], NOW)),
    "claims of sources":          (False, lambda b: b.store.claim_sources({"forge": 5}, "me", NOW)),
    "renewals of sources":        (False, lambda b: b.store.renew_sources("me", NOW, [1])),
    "subscribers":                (True, lambda b: b.store.subscribers(b.project.source_id)),
    "due destinations":           (False, lambda b: b.store.due_destinations(NOW)),
    "claims of deliveries":       (True, lambda b: b.store.claim_deliveries({b.hook.id: 5}, "me", NOW)),
    "renewals of deliveries":     (False, lambda b: b.store.renew_deliveries("me", NOW)),
    "when the next is due":       (False, lambda b: b.store.seconds_until_due(NOW, 2)),
    "what is bound or skipped":   (True, lambda b: (a_held_digest(b), b.store.prepare_due(NOW))),
    "attempts":                   (False, lambda b: b.store.record_attempts("me", [an_outcome("x")], ["x"])),
    "what is past keeping":       (False, lambda b: b.store.sweep(NOW)),
    "an event":                   (False, lambda b: tell(b.store, b.project, events_for(b.project, b.hook))),
    "a failure":                  (False, lambda b: b.store.record_failure(b.project.source_id, "me", "no", NOW)),
    "an account's removal":       (False, lambda b: b.store.remove_account(b.account.id)),
    "a project's removal":        (False, lambda b: b.store.remove_project(b.project.id)),
    "a browser's session":        (False, lambda b: b.store.session("x" * 43)),
    "a feed's account":           (False, lambda b: b.store.feed_of("x")),
    "a badge's account":          (False, lambda b: b.store.account_of_badge("x")),
    "the latest releases":        (True, lambda b: b.store.latest_releases(b.account.id)),
    "the latest security fixes":  (True, lambda b: b.store.latest_releases(b.account.id, is_security=True)),
    "the newest of each":         (False, lambda b: b.store.newest_of([b.project.source_id])),
    "the beginnings of notes":    (False, lambda b: b.store.note_starts(b.project.source_id, ["1.0"])),
    "what is put away":           (True, lambda b: b.store.projects_put_away(b.account.id)),
    "a check that is wished for": (False, lambda b: b.store.check_soon(b.account.id, [b.project.id])),
    "a destination's removal":    (False, lambda b: b.store.remove_destination(b.hook.id)),
    **{f"projects by {order}{', reversed' * is_reversed}, {about}": (
        False, lambda b, order=order, is_reversed=is_reversed, about=about: b.store.projects(
            b.account.id, order, is_reversed, provider="forge" if about == "of a provider" else None,
            tag=b.tag.id if about == "of a tag" else None))
       for order, is_reversed in rt.PROJECT_PAGES for about in ("all", "of a provider", "of a tag")},
}


@pytest.mark.parametrize("about", HOT_QUERIES)
def test_a_hot_query_is_served_by_an_index_and_does_not_sort(busy, about):
    may_sort_few, call = HOT_QUERIES[about]
    partial = {name for name, in busy.store._db.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql LIKE '%WHERE%'")}
    for statement, plan in plans(busy.store, lambda: call(busy)).items():
        for step in plan:
            scan = re.match(r"SCAN (\w+)(?:.* INDEX (\w+))?", step)
            assert not scan or scan[1] not in BIG.split() or scan[2] in partial, (step, statement)
            assert may_sort_few or not step.startswith("USE TEMP B-TREE"), (step, statement)


def test_a_plan_that_scans_or_sorts_would_be_seen(busy):
    steps = [step for plan in plans(busy.store, lambda: busy.store._rows(
        "SELECT id FROM project WHERE note = 'x' ORDER BY note || name")).values() for step in plan]
    assert any(step.startswith("SCAN project") for step in steps)
    assert any(step.startswith("USE TEMP B-TREE") for step in steps)


# Claims

def test_claimants_get_disjoint_work_and_together_all_of_it(stored):
    account = an_account(stored)
    for number in range(40):
        a_project(stored, account, f"acme/{number:02}")
    other = rt.Store(stored.path, clock=lambda: NOW)
    found: dict[str, list[int]] = {"a": [], "b": []}

    def claim(store: rt.Store, me: str) -> None:
        while claimed := store.claim_sources({"forge": 3}, me, NOW):
            found[me] += [source.id for source in claimed]

    threads = [threading.Thread(target=claim, args=work) for work in ((stored, "a"), (other, "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert len(found["a"] + found["b"]) == len({*found["a"], *found["b"]}) == 40


def test_sources_are_claimed_longest_due_first_and_so_many_of_each_provider(stored):
    account = an_account(stored)
    for number, provider in enumerate(["npm", "forge", "npm", "npm", "forge", "git"]):
        _, source = stored.add_project(account.id, provider, f"p{number}", f"p{number}", {})
        assert stored.claim_source(source.id, "test", NOW)
        stored.record_failure(source.id, "test", "no", NOW - number)
    claimed = stored.claim_sources({"npm": 2, "forge": 5}, "me", NOW)
    assert sorted(source.name for source in claimed) == ["p1", "p2", "p3", "p4"]
    assert stored.due_providers(["npm", "forge", "git", "hex"], NOW) == ["npm", "git"]


@pytest.mark.parametrize("claimed_at, renewed_at, asked_at, is_free", [
    (0,         None, 1,                  False),
    (0,         None, rt.LEASE - 0.1,     False),
    (0,         None, rt.LEASE + 0.1,     True),          # who claimed it is dead
    (0,         2,    rt.LEASE + 0.1,     False),
    (0,         2,    rt.LEASE + 2.1,     True),
    (365 * rt.DAY, None, 0,               True),          # the clock was set back
    (60,        None, 0,                  True),
])
def test_a_claim_lasts_a_lease_unless_it_is_renewed_and_one_from_the_future_counts_for_nothing(
        busy, claimed_at, renewed_at, asked_at, is_free):
    store, later = busy.store, NOW + 2 * 365 * rt.DAY
    store._db.execute("UPDATE source SET next_check_at = 0")
    store._db.execute("UPDATE delivery SET next_attempt_at = 0")
    assert store.claim_sources({"forge": 1}, "a", NOW + claimed_at)
    assert store.claim_deliveries({busy.hook.id: 1}, "a", NOW + claimed_at)
    if renewed_at is not None:
        store.renew_sources("a", NOW + renewed_at, [source.id for source in store.sources()])
        store.renew_deliveries("a", NOW + renewed_at)
    asked = NOW + asked_at
    assert store.due_providers(["forge"], asked) == ["forge"] * is_free
    assert list(store.due_destinations(asked)) == [busy.hook.id] * is_free
    assert bool(store.claim_deliveries({busy.hook.id: 1}, "b", asked)) is is_free
    assert bool(store.claim_sources({"forge": 1}, "b", asked)) is is_free
    assert bool(store.claim_source(busy.project.source_id, "c", later))       # in the end, anyhow


def test_a_check_of_a_project_that_was_removed_meanwhile_is_not_recorded_under_the_next(stored):
    account = an_account(stored)
    first, source = stored.add_project(account.id, "forge", "a/a", "a/a", {})
    assert stored.claim_source(source.id, "me", NOW)
    stored.remove_project(first.id)
    _, other = stored.add_project(account.id, "forge", "b/b", "b/b", {})
    assert stored.claim_source(other.id, "me", NOW)
    assert not stored.record_found(source.id, "me", rt.Findings(NOW + 9, new=[a_release("1.0")]))
    assert stored.releases(other.id, 1)[0] == []


def test_a_destination_of_which_somebody_has_a_delivery_is_left_to_him(busy):
    other = a_hook(busy.store, busy.account, "other")
    tell(busy.store, busy.project, events_for(busy.project, busy.hook, other, count=3))
    wanted = {busy.hook.id: 2, other.id: 1}
    first = busy.store.claim_deliveries(wanted, "a", NOW)
    assert {id_: len(batch) for id_, batch in first.items()} == wanted
    assert busy.store.claim_deliveries(wanted, "b", NOW + 1) == {}
    assert busy.store.due_destinations(NOW + 1) == {}
    delivery = first[other.id][0]
    busy.store.record_attempts("a", [an_outcome(delivery.id)], [])
    assert list(busy.store.claim_deliveries(wanted, "b", NOW + 1)) == [other.id]


def test_deliveries_of_a_destination_are_claimed_in_the_order_in_which_they_came(busy):
    tell(busy.store, busy.project, events_for(busy.project, busy.hook, count=5))
    claimed = busy.store.claim_deliveries({busy.hook.id: 4}, "a", NOW)[busy.hook.id]
    assert [delivery.body["version"] for delivery in claimed] == ["0", "0", "1", "2"]


@pytest.mark.parametrize("record", [
    lambda store, id_: store.record_found(id_, "a", rt.Findings(NOW + 9, new=[a_release("2.0")])),
    lambda store, id_: store.record_failure(id_, "a", "it is gone", NOW + 9, is_not_found=True),
], ids=["found", "failed"])
def test_who_has_lost_the_claim_of_a_source_writes_nothing(busy, record):
    store, source_id = busy.store, busy.project.source_id
    assert store.claim_source(source_id, "a", NOW)
    assert store.claim_source(source_id, "b", NOW + rt.LEASE + 1)
    before = everything(store)
    assert not record(store, source_id)
    assert everything(store) == before
    assert store.record_found(source_id, "b", rt.Findings(NOW + 9, new=[a_release("2.0")]))
    assert [release.version for release in store.releases(source_id, 1)[0]] == ["2.0", "1.0"]


@pytest.mark.parametrize("outcome", ["none", "pending"])
def test_who_has_lost_the_claim_of_a_delivery_does_not_take_it_from_who_has_it_now(busy, outcome):
    # a process that stood still for longer than a lease, and then goes on
    claim = busy.store.claim_deliveries({busy.hook.id: 1}, "a", NOW)[busy.hook.id]
    assert busy.store.claim_deliveries({busy.hook.id: 1}, "b", NOW + rt.LEASE + 1)
    id_ = claim[0].id
    if outcome == "none":
        busy.store.record_attempts("a", [], [id_])
    else:
        busy.store.record_attempts("a", [rt.Outcome(NOW, 503, None, 1.0, None, None, id_, "pending", NOW)], [])
    assert busy.store.claim_deliveries({busy.hook.id: 1}, "c", NOW + rt.LEASE + 2) == {}


def test_a_store_of_the_first_schema_is_brought_up_to_date_and_a_copy_kept(tmp_path):
    path = str(tmp_path / "old.db")
    with contextlib.closing(sqlite3.connect(path)) as old:
        old.executescript("PRAGMA journal_mode = WAL;" + rt.MIGRATIONS[0] + """
            INSERT INTO account (id, type, email, name, password, is_admin, created_at)
                 VALUES ('a', 'user', 'me@example.org', 'Me', 'x', 1, 0);
            INSERT INTO source (id, provider, key, name, next_check_at, checked_at, succeeded_at)
                 VALUES (1, 'github', 'o/r', 'o/R', 9.0, 5.0, 5.0);
            INSERT INTO source (id, provider, key, name, next_check_at, checked_at, failures, error, is_missing)
                 VALUES (2, 'github', 'o/gone', 'o/gone', 9.0, 5.0, 1, 'gone', 1);
            INSERT INTO release (id, source_id, version, date, is_prerelease) VALUES (1, 1, '1.0', '2026-05-01T08:00:00', 0);
            INSERT INTO note (release_id, fingerprint, title, message, url) VALUES (1, 7, 'One', '<p>x</p>', '');
            INSERT INTO project (id, account_id, source_id, provider, name, email_notification, newest_date, added_at)
                 VALUES ('p', 'a', 1, 'github', 'o/R', 'daily', '2026-05-01T08:00:00', 1),
                        ('q', 'a', 2, 'github', 'o/gone', 'daily', '', 2);
            """)
    store = rt.Store(path)
    assert [(one.name, one.health.checked_at, one.health.missing_since, one.health.is_missing)
            for one in store.projects("a", "added", True)[0]] == [("o/R", 5.0, None, False), ("o/gone", 5.0, 5.0, False)]
    assert [one.as_json() for one in store.releases(1, 1)[0]] == [{"version": "1.0", "date": MAY, "has_note": True}]
    store.close()
    copy, = [name for name in tmp_path.iterdir() if name.suffix not in (".db", ".db-wal", ".db-shm")]
    with contextlib.closing(sqlite3.connect(copy)) as kept:
        assert kept.execute("PRAGMA user_version").fetchone() == (1,)
        assert kept.execute("SELECT count(*) FROM project").fetchone() == (2,)


def test_a_project_is_missing_when_it_was_not_found_three_times_over_a_day(tmp_path):
    now = [NOW]
    with contextlib.closing(rt.Store(str(tmp_path / "x.db"), clock=lambda: now[0])) as store:
        account = an_account(store)
        project, source = store.add_project(account.id, "forge", "o/r", "o/r", {})

        def check(after: float, is_not_found: bool | None) -> tuple[bool, float | None]:
            now[0] += after
            assert store.claim_source(source.id, "a", now[0])
            if is_not_found is None:
                store.record_found(source.id, "a", rt.Findings(now[0]))
            else:
                store.record_failure(source.id, "a", "no", now[0], is_not_found=is_not_found)
            found = store.source(source.id)
            return found.is_missing, found.missing_since

        assert check(0, True) == check(rt.HOUR, True) == check(rt.HOUR, True) == (False, NOW)   # thrice, in two hours
        assert check(rt.DAY, False) == (False, NOW)                                             # another fault
        assert check(1, True) == (True, NOW)
        assert store.project(account.id, project.id).health.as_json() == {
            "checked_at": rt.timestamp(now[0]), "next_check_at": rt.timestamp(now[0]), "error": "no",
            "missing_since": rt.timestamp(NOW), "is_missing": True}
        assert check(1, False) == (True, NOW)
        assert check(1, None) == (False, None)
        assert check(1, True) == (False, now[0])                                                # counted anew


def test_a_claim_that_another_process_prevents_does_not_make_later_writes_less_durable(stored, tmp_path):
    project = a_project(stored, an_account(stored), "acme/app")
    stored._db.execute("PRAGMA busy_timeout = 10")
    with contextlib.closing(sqlite3.connect(stored.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(rt.StoreUnavailable):
            stored.claim_source(project.source_id, "a", NOW)
        other.execute("ROLLBACK")
    assert stored._db.execute("PRAGMA synchronous").fetchone() == (2,)     # FULL
    assert stored.claim_source(project.source_id, "a", NOW)
    assert stored._db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_provider_that_is_to_be_asked_seldom_is_not_brought_forward_to_the_others_interval(stored):
    account = an_account(stored)
    for provider in ("forge", "slow"):
        source = stored.add_project(account.id, provider, "o/r", "o/r", {})[1]
        assert stored.claim_source(source.id, "a", NOW)
        stored.record_found(source.id, "a", rt.Findings(NOW + rt.HOUR))
    stored.bring_forward(NOW, 60, {"slow": rt.HOUR})
    assert stored.due_providers(["forge", "slow"], NOW + 70) == ["forge"]
    assert stored.due_providers(["forge", "slow"], NOW + rt.HOUR) == ["forge", "slow"]


def test_a_clock_that_was_a_year_fast_puts_nothing_off_for_a_year(busy):
    # reliability.md, row 14: nothing waits longer than a day and its spread
    store, fast = busy.store, NOW + 365 * rt.DAY
    assert store.claim_source(busy.project.source_id, "a", fast)
    store.record_failure(busy.project.source_id, "a", "no", fast + rt.HOUR)
    delivery = store.claim_deliveries({busy.hook.id: 1}, "a", fast)[busy.hook.id][0]
    store.record_attempts("a", [rt.Outcome(fast, 503, None, 1.0, None, None, delivery.id, "pending", fast + 30)], [])
    store.sweep(NOW)
    store.bring_forward(NOW, rt.HOUR)
    assert list(store.due_destinations(NOW + rt.DAY * 1.1)) == [busy.hook.id]
    assert store.due_providers(["forge"], NOW + rt.DAY * 1.1) == ["forge"]


# What goes, and what stays

def test_removing_an_account_leaves_nothing_of_it_in_any_table(stored):
    def fill(email: str, *names: str) -> rt.Account:
        account = an_account(stored, email)
        tag = stored.add_tag(account.id, "home")
        hook = a_hook(stored, account, tags=(tag.id,))
        stored.add_key(account.id, "test", ["10.0.0.0/8"])
        for name in names:
            project = a_project(stored, account, name, a_release("1.0", note=rt.Note(name, "x", "y")), tags=[tag.id],
                                destinations={"webhook": [hook.id]})
            tell(stored, project, events_for(project, hook))
        delivery = stored.claim_deliveries({hook.id: 1}, "me", NOW)[hook.id][0]
        stored.record_attempts("me", [an_outcome(delivery.id)], [])
        stored._db.execute("INSERT INTO session (token_hash, account_id, address, agent, created_at, seen_at) "
                           "VALUES (?, ?, '', '', 0, 0)", (email.encode(), account.id))
        return account

    fill("stays@example.org", "acme/shared", "acme/theirs")
    before = everything(stored)
    goes = fill("goes@example.org", "acme/shared", "acme/own")
    filled = everything(stored)
    assert all(len(rows) > len(before[table]) for table, rows in filled.items()), "a table was not filled"
    stored.remove_account(goes.id)
    assert everything(stored) == before
    assert stored._db.execute("PRAGMA foreign_key_check").fetchall() == []


def test_the_last_project_of_a_source_takes_it_and_its_releases_along(stored):
    me, you = an_account(stored), an_account(stored, "you@example.org")
    mine = a_project(stored, me, "acme/app", a_release("1.0", note=rt.Note("t", "m", "u")))
    yours, _ = stored.add_project(you.id, "forge", "acme/app", "acme/app", {})
    assert mine.source_id == yours.source_id
    stored.remove_project(mine.id)
    assert stored.source(mine.source_id) and stored.note(mine.source_id, "1.0")
    stored.remove_project(yours.id)
    assert not any(everything(stored)[table] for table in ("source", "release", "note", "project"))


@pytest.mark.parametrize("about", ["a key", "a webhook", "an account"])
def test_a_secret_that_was_removed_stands_in_no_file_any_more(busy, about):
    # reliability.md, row 25
    store, account = busy.store, busy.account
    second = rt.Store(store.path)           # another process, as it were
    second.accounts()
    secrets_ = {"a key": [busy.key.secret.encode(), rt.secret_hash(busy.key.secret)],
                "a webhook": [busy.hook.secret.encode()],
                "an account": [busy.key.secret.encode(), busy.hook.secret.encode(), b"scrypt$00$00"]}[about]
    assert all(any(secret in data for data in files_of(store).values()) for secret in secrets_)
    if about == "a key":
        assert store.remove_key(account.id, "test")
        assert store.key_by_secret(busy.key.secret) is None
    elif about == "a webhook":
        store.remove_destination(busy.hook.id)
    else:
        store.remove_account(account.id)
    found = [name for secret in secrets_ for name, data in files_of(store).items() if secret in data]
    second.close()
    assert found == []


def test_how_many_projects_there_are_is_true_after_whatever_was_added_and_removed(stored):
    accounts = [an_account(stored, f"{number}@example.org") for number in range(3)]
    projects: dict[str, list[str]] = {account.id: [] for account in accounts}
    for number in range(60):
        account = accounts[number * 7 % 3]
        project, _ = stored.add_project(account.id, ["npm", "git", "hex"][number // 3 % 3],
                                        f"p{number // 2}", f"p{number // 2}", {})
        projects[account.id].append(project.id)
        if number % 4 == 3:
            stored.remove_project(projects[account.id].pop(0))
    with pytest.raises(rt.Invalid):         # refused, and not counted
        known = stored.project(accounts[0].id, projects[accounts[0].id][0])
        assert known
        stored.add_project(accounts[0].id, known.provider, known.name, known.name, {})
    stored.remove_account(accounts[2].id)
    for project_id in [one.id for one in stored.projects(accounts[1].id, "name", False, "git")[0]]:
        stored.remove_project(project_id)
        projects[accounts[1].id].remove(project_id)
    assert stored.providers_of(accounts[1].id) == ["hex", "npm"]
    counted = stored._db.execute("SELECT account_id, provider, count(*) FROM project GROUP BY 1, 2 ORDER BY 1, 2")
    assert stored._db.execute("SELECT * FROM project_count ORDER BY 1, 2").fetchall() == counted.fetchall()
    for account in accounts[:2]:
        pages = -(-len(projects[account.id]) // 20)
        assert stored.projects(account.id, "added", False)[1] == pages
        listed = [one.id for page in range(1, pages + 1)
                  for one in stored.projects(account.id, "added", True, page=page)[0]]
        assert listed == projects[account.id]


@pytest.mark.parametrize("order, names", [
    ("updated", ["b", "c", "a", "D"]),
    ("added",   ["D", "c", "b", "a"]),
    ("name",    ["a", "b", "c", "D"]),
])
def test_projects_are_listed_in_each_order_and_its_reverse(stored, order, names):
    ticks = iter(range(100))
    stored.clock = lambda: NOW + next(ticks)
    account = an_account(stored)
    for name, minutes in (("a", [1]), ("b", [2, 9]), ("c", [5]), ("D", [])):
        a_project(stored, account, name, *(a_release(f"{minute}.0", minute) for minute in minutes))
    assert [one.name for one in stored.projects(account.id, order, False)[0]] == names
    assert [one.name for one in stored.projects(account.id, order, True)[0]] == names[::-1]


def test_releases_within_one_second_are_newest_first_too(stored):
    project = a_project(stored, an_account(stored), "acme/app", *(
        rt.Release(version, rt.utc(date)) for version, date in (
            ("1.0", "2026-03-01T10:00:00Z"), ("1.1", "2026-03-01T10:00:00.25Z"), ("1.2", "2026-03-01T10:00:00.5Z"))))
    assert [release.version for release in stored.releases(project.source_id, 1)[0]] == ["1.2", "1.1", "1.0"]


# Backups, locks and full disks

def fill_with_notes(store: rt.Store, megabytes: int) -> rt.Account:
    """An account with a project whose notes take so much."""
    account, note = an_account(store), rt.Note("t", os.urandom(rt.MIB // 16).hex(), "u")
    a_project(store, account, "acme/app", *(a_release(f"1.{number}", note=note) for number in range(8 * megabytes)))
    return account


def test_a_backup_while_others_write_ends_and_is_consistent(stored, tmp_path):
    # reliability.md, row 22: at 100 rows a second. A copy made in steps begins again with each of them.
    account = fill_with_notes(stored, 16)
    stop, written = threading.Event(), []

    def write() -> None:
        while not stop.wait(0.01):
            written.append(stored.add_tag(account.id, f"tag {len(written):05}").name)

    def watch(*_: Any) -> None:
        seen = len(written)
        until(lambda: len(written) > seen)      # between any two steps somebody has written
        assert time.monotonic() < end, "the backup begins again and again"

    writer = threading.Thread(target=write)
    writer.start()
    until(lambda: len(written) > 5)
    earlier, end = len(written), time.monotonic() + 4
    try:
        stored.backup(str(tmp_path / "copy.db"), watch)
    finally:
        stop.set()
        writer.join()
    with contextlib.closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert copy.execute("PRAGMA foreign_key_check").fetchall() == []
        tags = [name for name, in copy.execute("SELECT name FROM tag ORDER BY name")]
    assert tags == written[:len(tags)] and earlier <= len(tags) <= len(written)
    restored = rt.Store(str(tmp_path / "copy.db"))
    assert restored.account("me@example.org") == account
    restored.close()


def test_a_backup_that_fails_leaves_the_old_one_and_nothing_else(stored, tmp_path):
    fill_with_notes(stored, 1)
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / "copy.db").write_text("the old one")
    finished = subprocess.run(          # no file may grow beyond 200 KiB: a disk that is full for the copy alone
        ["bash", "-c", 'ulimit -f 200; exec "$@"', "bash", sys.executable, str(PROGRAM), "backup",
         str(tmp_path / "backups" / "copy.db"), "--db", stored.path], capture_output=True, text=True)
    assert finished.returncode == 1 and finished.stdout == ""
    assert finished.stderr.count("\n") == 1 and "copy.db" in finished.stderr, finished.stderr
    assert [path.name for path in (tmp_path / "backups").iterdir()] == ["copy.db"]
    assert (tmp_path / "backups" / "copy.db").read_text() == "the old one"


@pytest.fixture
def held(stored: rt.Store) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the store's write lock."""
    an_account(stored)
    process = subprocess.Popen(
        [sys.executable, "-c", "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None); "
         "db.execute('BEGIN IMMEDIATE'); print('held', flush=True); input()", stored.path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_while_another_process_holds_the_lock_writes_fail_within_6_seconds_and_reads_go_on(stored, held):
    account, took = stored.accounts()[0], []

    def write(name: str) -> None:
        began = time.monotonic()
        with pytest.raises(rt.StoreUnavailable):
            stored.add_tag(account.id, name)
        took.append(time.monotonic() - began)

    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for writer in writers:
        writer.start()
        time.sleep(0.2)
    began = time.monotonic()
    assert stored.accounts() == [account] and stored.tags(account.id) == []
    assert time.monotonic() - began < 0.5
    for writer in writers:
        writer.join()
    held.communicate("\n")
    assert stored.add_tag(account.id, "d").name == "d"
    assert len(took) == 3 and max(took) < 6, took


def test_a_store_can_be_opened_and_read_while_another_process_holds_the_lock(stored, held):
    began = time.monotonic()
    second = rt.Store(stored.path)
    assert second.accounts() == stored.accounts()
    assert time.monotonic() - began < 1
    second.close()


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file system of 3 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("no small file system can be mounted here (that takes root)")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_on_a_full_disk_writes_fail_reads_go_on_and_all_is_well_once_there_is_space(small_disk):
    # reliability.md, row 19
    store = rt.Store(str(small_disk / "a.db"))
    account, kept = an_account(store), []
    with pytest.raises(OSError), open(small_disk / "filler", "wb", buffering=0) as filler:
        while True:
            assert filler.write(bytes(4096))
    with pytest.raises(rt.StoreUnavailable):
        for number in range(2000):
            kept.append(store.add_tag(account.id, f"tag {number:04}").name)
    for _ in range(3):
        with pytest.raises(rt.StoreUnavailable):
            a_project(store, account, "acme/app", a_release("1.0", note=rt.Note("t", "m" * 200_000, "u")))
    assert [tag.name for tag in store.tags(account.id)] == kept
    read: list[Any] = []
    reader = threading.Thread(target=lambda: read.append(store.accounts()))     # a thread that comes anew
    reader.start()
    reader.join()
    assert read == [[account]]
    (small_disk / "filler").unlink()
    assert store.add_tag(account.id, "zz").name == "zz"
    assert [tag.name for tag in store.tags(account.id)] == [*kept, "zz"]
    assert store._db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    store.close()


# == fetching ==================================================================


class Raw:
    """A server on loopback that answers below HTTP: ``talk`` is given each connection, which then ends."""

    def __init__(self, talk: Callable[[socket.socket], Any]) -> None:
        self.connections = 0
        self.got: list[bytes] = []          # heads, as they came
        self._talk = talk
        self._open: set[socket.socket] = set()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = self._socket.accept()[0]
                self.connections += 1
                self._open.add(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:      # the other side goes away when it has had enough
            self._talk(connection)
        self._open.discard(connection)

    def read_head(self, connection: socket.socket) -> bytes:
        head = b""
        while b"\r\n\r\n" not in head and (more := connection.recv(65536)):
            head += more
        self.got.append(head)
        return head

    def close(self) -> None:
        for one in (self._socket, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            if one is self._socket:
                one.close()
        self._thread.join(5)


@pytest.fixture
def talk() -> Iterator[Callable[..., Raw]]:
    """Makes raw servers: of a function that is given ``(server, connection)``, or of bytes to answer with."""
    with contextlib.ExitStack() as stack:
        def make(how: bytes | Callable[[Raw, socket.socket], Any]) -> Raw:
            def answer(connection: socket.socket) -> None:
                if callable(how):
                    how(server, connection)
                elif server.read_head(connection):
                    connection.sendall(how)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):       # closing with something unread would take the answer back
                        pass
            server = Raw(answer)
            stack.callback(server.close)
            return server
        yield make


class Hurried(rt.Fetcher):
    """A fetcher that has half a second for an exchange, and 256 KiB for a provider's answer."""

    def _exchange(self, terms: rt.Terms, is_trusted: bool) -> Any:
        hurried = dataclasses.replace(terms, seconds=0.5, most_bytes=min(terms.most_bytes, 256 * rt.KIB))
        return super()._exchange(hurried, is_trusted)


def a_post(url: str, body: bytes = b"{}", **headers: str) -> rt.Request:
    return rt.Request(url, {name.replace("_", "-"): value for name, value in headers.items()}, "POST", body)


def failure_of(ask: Callable[[], Any], kind: type[rt.ProviderError] = rt.Unreachable) -> str:
    """What went wrong, in words: one sentence without the name of a Python type."""
    with pytest.raises(rt.ProviderError) as caught:
        ask()
    words = str(caught.value)
    assert type(caught.value) is kind, words
    assert len(words) > 5 and "\n" not in words and "Error(" not in words, words
    return words


def drip(connection: socket.socket, data: bytes) -> None:
    for at in range(len(data)):
        connection.sendall(data[at:at + 1])
        time.sleep(0.02)


def drips_its_headers(server: Raw, connection: socket.socket) -> None:
    server.read_head(connection)
    drip(connection, b"HTTP/1.1 200 OK\r\n" + b"X-More: x\r\n" * 1000)


def drips_its_body(server: Raw, connection: socket.socket) -> None:
    server.read_head(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    drip(connection, b"x" * 1000)


def says_continue_for_ever(server: Raw, connection: socket.socket) -> None:
    server.read_head(connection)
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def sends_a_body_for_ever(server: Raw, connection: socket.socket) -> None:
    server.read_head(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"x" * 65536)
        server.got.append(b"x" * 65536)


def sends_headers_for_ever(server: Raw, connection: socket.socket) -> None:
    server.read_head(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        connection.sendall(b"x" * 65536)


def is_silent(server: Raw, connection: socket.socket) -> None:
    server.read_head(connection)
    time.sleep(3)


def reads_nothing(server: Raw, connection: socket.socket) -> None:
    time.sleep(3)


def drips_a_handshake(server: Raw, connection: socket.socket) -> None:
    connection.recv(65536)
    drip(connection, b"\x16\x03\x03\x10\x00\x02\x00\x0f\xfc\x03\x03" + b"x" * 1000)


TOO_LONG, TOO_MUCH = "longer than 0.5 s", "larger than"


@pytest.mark.parametrize("peer,                   scheme,  post_says, fetch_says", [
    (drips_its_headers,                           "http",  TOO_LONG,  TOO_LONG),
    (drips_its_body,                              "http",  200,       TOO_LONG),
    (says_continue_for_ever,                      "http",  TOO_MUCH,  TOO_MUCH),
    (sends_a_body_for_ever,                       "http",  200,       TOO_MUCH),
    (sends_headers_for_ever,                      "http",  TOO_MUCH,  "no HTTP"),
    (is_silent,                                   "http",  TOO_LONG,  TOO_LONG),
    (reads_nothing,                               "http",  TOO_LONG,  TOO_LONG),
    (reads_nothing,                               "https", "in time", "in time"),
    (drips_a_handshake,                           "https", "in time", "in time"),
])
def test_whatever_a_peer_does_an_exchange_ends_in_time_and_within_its_bytes(talk, peer, scheme, post_says, fetch_says):
    server, fetcher = talk(peer), Hurried(rt.Settings())
    url = server.url.replace("http", scheme)
    big = a_post(url, bytes(30 * rt.MIB if peer is reads_nothing and scheme == "http" else 2))
    fetcher.check_certificates()        # reading them is no part of an exchange
    for ask, says in ((lambda: fetcher.post(big, True), post_says),
                      (lambda: fetcher.fetch(rt.Request(url)), fetch_says)):
        began, worked = time.monotonic(), time.thread_time()
        if isinstance(says, int):
            answer = ask()
            assert answer.status == says and len(answer.body) <= big.reads <= 64 * rt.KIB
        else:
            assert says in failure_of(ask)
        assert time.monotonic() - began < 1.0
        assert time.thread_time() - worked < 0.2
    assert server.connections == 2
    assert sum(map(len, server.got)) < 32 * rt.MIB      # what the kernel's buffers take, and no more


def test_the_terms_are_those_that_are_promised():
    assert (rt.NOTIFICATION_TERMS.seconds, rt.NOTIFICATION_TERMS.most_bytes) == (15, 64 * rt.KIB)
    assert (rt.PROVIDER_TERMS.seconds, rt.PROVIDER_TERMS.most_bytes) == (30, 20 * rt.MIB)
    assert (rt.NOTIFICATION_TERMS.redirects, rt.PROVIDER_TERMS.redirects) == (0, 5)


def test_a_stopping_program_waits_for_no_peer(talk):
    server, fetcher = talk(is_silent), rt.Fetcher(rt.Settings())
    threading.Timer(0.2, fetcher.stopping.set).start()
    began = time.monotonic()
    assert "stopped" in failure_of(lambda: fetcher.post(a_post(server.url), True), rt.Stopped)
    assert time.monotonic() - began < 2


# A certificate authority of these tests (openssl, EC P-256), valid until 2126.
CA = """\
-----BEGIN CERTIFICATE-----
MIIBpDCCAUugAwIBAgIUWxaJ6C36772+/T7qhT+xw4UGTlgwCgYIKoZIzj0EAwIw
HzEdMBsGA1UEAwwUcmVsZWFzZXRyYWNrIHRlc3QgQ0EwIBcNMjYxMTIxMDkwNDE3
WhgPMjEyNjEwMjgwOTA0MTdaMB8xHTAbBgNVBAMMFHJlbGVhc2V0cmFjayB0ZXN0
IENBMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAET/dMjYpkEISLalBSF1SpnYNJ
KnXeMB08l95H0kcpsorqga5nM6aoNX/pih90LUqokwtFLM0JyyK8Ooqd+D9yNKNj
MGEwHQYDVR0OBBYEFDsG57AzifQ9/GUh+Pwu0+vMdCF4MB8GA1UdIwQYMBaAFDsG
57AzifQ9/GUh+Pwu0+vMdCF4MA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQD
AgIEMAoGCCqGSM49BAMCA0cAMEQCIE3vhxGeFEUVKg+NaOGxchPgCpJjYL0zOdWo
WGx218cdAiBqKdXCxMiYXm6VWNY52IjRNSFfq9y4q9iwYOqf9SU/bA==
-----END CERTIFICATE-----
"""
# Leaves of it, each with its key: for localhost, for another name, and for localhost until 2021; one of nobody's.
LEAVES = {
    "good": """\
-----BEGIN CERTIFICATE-----
MIIBgjCCASigAwIBAgIBATAKBggqhkjOPQQDAjAfMR0wGwYDVQQDDBRyZWxlYXNl
dHJhY2sgdGVzdCBDQTAgFw0yNDAxMDEwMDAwMDBaGA8yMTI0MDEwMTAwMDAwMFow
DzENMAsGA1UEAwwEZ29vZDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPF4bQid
eSOW5D321+pT+uEBvErGJnAL64oxRh5//QrR0GPVR51YXHAqbCwOxk7F3+xkzBX3
kPl6qWTcR6142u2jYzBhMBQGA1UdEQQNMAuCCWxvY2FsaG9zdDAJBgNVHRMEAjAA
MB0GA1UdDgQWBBT7knG7Vkci3wk78wFsRXt+2tOB+TAfBgNVHSMEGDAWgBQ7Buew
M4n0PfxlIfj8LtPrzHQheDAKBggqhkjOPQQDAgNIADBFAiBce+WMo0wHdI8GTbQy
oDxuaUNTTbUDG4ADme7PxpiR9gIhAIthanVuFf8Enx+UMQgWlgBt7oF8zGSoaNdZ
frTktoLw
-----END CERTIFICATE-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIPMSIIuymqZ2efgYQR8KnGoeDw/l8YOlDfY3Dcm1aBQHoAoGCCqGSM49
AwEHoUQDQgAE8XhtCJ15I5bkPfbX6lP64QG8SsYmcAvrijFGHn/9CtHQY9VHnVhc
cCpsLA7GTsXf7GTMFfeQ+XqpZNxHrXja7Q==
-----END EC PRIVATE KEY-----
""",
    "other": """\
-----BEGIN CERTIFICATE-----
MIIBhzCCAS2gAwIBAgIBATAKBggqhkjOPQQDAjAfMR0wGwYDVQQDDBRyZWxlYXNl
dHJhY2sgdGVzdCBDQTAgFw0yNDAxMDEwMDAwMDBaGA8yMTI0MDEwMTAwMDAwMFow
EDEOMAwGA1UEAwwFb3RoZXIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARK67uu
HaG9htpL7uDuFTy+rnHxC5j40WOKD3oV+AuGF4ETtErHWKbkPXmYakAhEz2VwdCO
bmkxzuwtnM7IVzdXo2cwZTAYBgNVHREEETAPgg1vdGhlci5leGFtcGxlMAkGA1Ud
EwQCMAAwHQYDVR0OBBYEFAGa+sUMZgyDWvEAFw6S++8nn80+MB8GA1UdIwQYMBaA
FDsG57AzifQ9/GUh+Pwu0+vMdCF4MAoGCCqGSM49BAMCA0gAMEUCIQDWhbmY/YTZ
P0J1EAWvITNuXp4SH5nf2+kbDW/t/8KJ5wIga/Fd/kTCyzIR2oEc31khWlNuQoBQ
UgUmEndqyyMsMBI=
-----END CERTIFICATE-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIEhu7l6xxNQHVz9AUY5Mi5DbL05jlAVAp1IRNjiI+G1boAoGCCqGSM49
AwEHoUQDQgAESuu7rh2hvYbaS+7g7hU8vq5x8QuY+NFjig96FfgLhheBE7RKx1im
5D15mGpAIRM9lcHQjm5pMc7sLZzOyFc3Vw==
-----END EC PRIVATE KEY-----
""",
    "expired": """\
-----BEGIN CERTIFICATE-----
MIIBgzCCASmgAwIBAgIBATAKBggqhkjOPQQDAjAfMR0wGwYDVQQDDBRyZWxlYXNl
dHJhY2sgdGVzdCBDQTAeFw0yMDAxMDEwMDAwMDBaFw0yMTAxMDEwMDAwMDBaMBIx
EDAOBgNVBAMMB2V4cGlyZWQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARA7A6q
U5ubaaK8z7YBEI7AjB3bxZqwo0cTuVuXr07cwBejrhEB4TZn0gxnum64PNldJRfm
yz8bDXRJC6deGhCxo2MwYTAUBgNVHREEDTALgglsb2NhbGhvc3QwCQYDVR0TBAIw
ADAdBgNVHQ4EFgQUFtuvGT0ZAM5ZYVKvB7GB8KLUp3QwHwYDVR0jBBgwFoAUOwbn
sDOJ9D38ZSH4/C7T68x0IXgwCgYIKoZIzj0EAwIDSAAwRQIgG2ZXmA3WZRrkt0G9
8ORmDdPiTU5k/eggkPpOnszSA3ECIQDp9xucu7VORNQTDzJA5bUtHKlicxkKMqld
sHqFfQYNeQ==
-----END CERTIFICATE-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIFxeZ0NII/6wC0KYg3hhqI0TljApMJGaBzERmMYz/8b0oAoGCCqGSM49
AwEHoUQDQgAEQOwOqlObm2mivM+2ARCOwIwd28WasKNHE7lbl69O3MAXo64RAeE2
Z9IMZ7puuDzZXSUX5ss/Gw10SQunXhoQsQ==
-----END EC PRIVATE KEY-----
""",
    "self": """\
-----BEGIN CERTIFICATE-----
MIIBizCCATGgAwIBAgIUUzIghseRH/BqCdIh+94BqmYN6QAwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEc2VsZjAgFw0yNjExMjEwOTA0MTdaGA8yMTI2MTAyODA5MDQx
N1owDzENMAsGA1UEAwwEc2VsZjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABOUn
tGDKY1Aag5AfAIxkH9ShbLIvGoCt96BCNVK/ok8m7BD+1ar/c9/IOV7oBjQCQNQT
RUFwG+0rq2dPcmxBmOSjaTBnMB0GA1UdDgQWBBTKetb8wuPQ0wzb2uEi2Uvqn3Ub
UzAfBgNVHSMEGDAWgBTKetb8wuPQ0wzb2uEi2Uvqn3UbUzAPBgNVHRMBAf8EBTAD
AQH/MBQGA1UdEQQNMAuCCWxvY2FsaG9zdDAKBggqhkjOPQQDAgNIADBFAiByF9JK
EtpHuQBN3Zexv6tO1mGhM89J5misFmDUezXzzgIhAOJNUm2PMd38RJE8WGfOtQwr
VEpzRp4zovvU24/i9z2Z
-----END CERTIFICATE-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIAg8E0PbWO58Mra+NiCjLJll+NSPNB4/DWSo2v+m2J5+oAoGCCqGSM49
AwEHoUQDQgAE5Se0YMpjUBqDkB8AjGQf1KFssi8agK33oEI1Ur+iTybsEP7Vqv9z
38g5XugGNAJA1BNFQXAb7SurZ09ybEGY5A==
-----END EC PRIVATE KEY-----
""",
}


def tls_server(talk: Callable[..., Raw], folder: pathlib.Path, leaf: str, newest: Any = None) -> Raw:
    """A server with one of the leaves, that answers 204."""
    path = folder / f"{leaf}.pem"
    path.write_text(LEAVES[leaf])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    if newest:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, newest

    def answer(server: Raw, connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            server.read_head(secured)
            secured.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            while secured.recv(65536):
                pass
    return talk(answer)


@pytest.fixture
def trusted(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine trusts the tests' authority, and no other."""
    (tmp_path / "ca.pem").write_text(CA)
    (tmp_path / "none").mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))


@pytest.mark.parametrize("leaf, newest,            says", [
    ("good",     None,                              None),
    ("other",    None,                              "certificate is not valid: Hostname mismatch"),
    ("expired",  None,                              "certificate is not valid: certificate has expired"),
    ("self",     None,                              "certificate is not valid: self.signed certificate"),
    ("good",     ssl.TLSVersion.TLSv1_1,            "TLS failed|no HTTP|closed|reset"),
])
def test_tls_is_verified_against_the_name_and_there_is_no_plain_fallback(talk, tmp_path, trusted, leaf, newest, says):
    server, fetcher = tls_server(talk, tmp_path, leaf, newest), rt.Fetcher(rt.Settings())
    url = f"https://localhost:{server.port}/hook"
    for ask in (lambda: fetcher.post(a_post(url), True), lambda: fetcher.fetch(rt.Request(url))):
        if says is None:
            assert ask().status == 204
        else:
            assert re.search(says, failure_of(ask))
    assert len(server.got) == (2 if says is None else 0)
    assert server.connections == 2


def test_a_machine_without_certificates_is_warned_of_at_start(tmp_path, trusted, caplog):
    rt.Fetcher(rt.Settings()).check_certificates()
    assert not caplog.records
    (tmp_path / "ca.pem").write_text("")
    rt.Fetcher(rt.Settings()).check_certificates()
    assert "none to trust" in caplog.text


@pytest.mark.parametrize("host", ["name.invalid", "a..b", "x" * 64 + ".example", "%zz"])
def test_a_name_that_does_not_resolve_is_said_within_the_time_for_lookups(host):
    fetcher, began = rt.Fetcher(rt.Settings()), time.monotonic()
    words = failure_of(lambda: fetcher.post(a_post(f"http://{host}/"), True))
    assert host in words and re.search("no address|looked up", words)
    assert time.monotonic() - began < 3.5


MUTE = """
import socket, sys, time
sys.path.insert(0, sys.argv[1])
import releasetrack as rt
mute = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
mute.bind(("127.0.0.1", 53))
began = time.monotonic()
try:
    rt.Fetcher(rt.Settings()).post(rt.Request("http://hook.example/", {}, "POST", b""), True)
except rt.Unreachable as error:
    print(f"{time.monotonic() - began:.2f} {error}")
"""


def test_mute_name_servers_are_waited_for_three_seconds(tmp_path):
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    shell = f"ip link set lo up && mount --bind {tmp_path}/resolv.conf /etc/resolv.conf && exec \"$@\""
    inside = ["unshare", "--map-root-user", "--net", "--mount", "sh", "-c", shell, "sh"]
    if not shutil.which("unshare") or subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody make a network namespace")
    asked = subprocess.run([*inside, sys.executable, "-c", MUTE, str(PROGRAM.parent)], capture_output=True, text=True)
    seconds, _, words = asked.stdout.partition(" ")
    assert "hook.example could not be looked up within 3 s" in words, asked.stderr
    assert 2.9 < float(seconds) < 3.5


def names(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Has the name flip.example resolve to these addresses, one list a lookup; the lookups that were made."""
    real, asked = socket.getaddrinfo, []

    def look_up(host: Any, port: Any, *args: Any, **about: Any) -> Any:
        if host != "flip.example":
            return real(host, port, *args, **about)
        if about.get("flags", 0) & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not a number")
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
                for address in answers[min(len(asked), len(answers)) - 1]]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


def test_the_address_that_is_dialled_is_the_one_that_was_judged(listen, monkeypatch):
    receiver = listen(204)
    asked = names(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
    fetcher = rt.Fetcher(rt.Settings(allow_network=("127.0.0.1",)))
    url = f"http://flip.example:{receiver.port}/"
    assert fetcher.post(a_post(url), False).address == "127.0.0.1"
    assert len(asked) == 1 and receiver.seen[0].headers["host"] == f"flip.example:{receiver.port}"
    assert "127.0.0.2 is a private address" in failure_of(lambda: fetcher.post(a_post(url), False))
    assert len(asked) == 2 and len(receiver.seen) == 1


@pytest.mark.parametrize("addresses", [["127.0.0.1", "169.254.169.254"], ["127.0.0.1", "10.0.0.1"],
                                       ["10.0.0.1", "127.0.0.1"]])
def test_a_name_with_one_forbidden_address_is_not_dialled_at_all(listen, monkeypatch, addresses):
    receiver = listen(204)
    names(monkeypatch, addresses)
    fetcher = rt.Fetcher(rt.Settings(allow_network=("127.0.0.1",)))
    failure_of(lambda: fetcher.post(a_post(f"http://flip.example:{receiver.port}/"), False))
    assert receiver.seen == []


def test_the_next_address_of_a_name_is_tried_when_one_refuses(listen, monkeypatch):
    receiver = listen(204)
    names(monkeypatch, ["127.0.0.9", "127.0.0.1"])
    fetcher = rt.Fetcher(rt.Settings())
    assert fetcher.post(a_post(f"http://flip.example:{receiver.port}/"), True).address == "127.0.0.1"


PUBLIC, PRIVATE, NEVER = "public", "private", "never"


@pytest.mark.parametrize("address, kind", [
    ("1.1.1.1",                 PUBLIC), ("2606:4700:4700::1111",   PUBLIC), ("::ffff:8.8.8.8",     PUBLIC),
    ("172.32.0.1",              PUBLIC), ("100.128.0.1",            PUBLIC), ("11.0.0.1",           PUBLIC),
    ("192.169.0.1",             PUBLIC), ("2001:4860:4860::8888",   PUBLIC),
    ("127.0.0.1",              PRIVATE), ("127.255.255.254",       PRIVATE), ("::1",               PRIVATE),
    ("::ffff:127.0.0.1",       PRIVATE), ("10.0.0.1",              PRIVATE), ("172.16.0.1",        PRIVATE),
    ("172.31.255.255",         PRIVATE), ("192.168.1.1",           PRIVATE), ("100.64.0.1",        PRIVATE),
    ("fd00::1",                PRIVATE), ("fc00::1",               PRIVATE), ("::ffff:10.0.0.1",   PRIVATE),
    ("0.0.0.0",                  NEVER), ("0.1.2.3",                 NEVER), ("::",                  NEVER),
    ("169.254.1.1",              NEVER), ("169.254.169.254",         NEVER), ("::ffff:169.254.169.254", NEVER),
    ("fe80::1",                  NEVER), ("fe80::1%lo",              NEVER), ("224.0.0.1",           NEVER),
    ("239.255.255.250",          NEVER), ("ff02::1",                 NEVER), ("240.0.0.1",           NEVER),
    ("255.255.255.255",          NEVER), ("192.0.0.9",               NEVER), ("192.88.99.1",         NEVER),
    ("192.0.2.1",                NEVER), ("198.18.0.1",              NEVER), ("203.0.113.7",         NEVER),
    ("::127.0.0.1",              NEVER), ("64:ff9b::7f00:1",         NEVER), ("64:ff9b::a9fe:a9fe",  NEVER),
    ("64:ff9b:1::1",             NEVER), ("2002:7f00:1::",           NEVER), ("2001:db8::1",         NEVER),
    ("fec0::1",                  NEVER), ("3fff::1",                 NEVER), ("5f00::1",             NEVER),
    ("168.63.129.16",            NEVER), ("100.100.100.200",         NEVER), ("fd00:ec2::254",       NEVER),
    ("::ffff:100.100.100.200",   NEVER), ("::ffff:0.0.0.0",          NEVER), ("not an address",      NEVER),
])
def test_addresses_are_judged_by_what_they_are(address, kind):
    everything = ("0.0.0.0/0", "::/0")
    trusted, untrusted = rt.refusal(address, (), True), rt.refusal(address, (), False)
    allowed = rt.refusal(address, everything, False)
    assert (trusted is None, untrusted is None, allowed is None) == {
        PUBLIC: (True, True, True), PRIVATE: (True, False, True), NEVER: (False, False, False)}[kind]
    if kind == PRIVATE:
        assert address in untrusted and "private" in untrusted and "--allow-network" in untrusted
    if kind == NEVER:
        assert address in untrusted and "never" in untrusted and rt.refusal(address, (address,), False)


@pytest.mark.parametrize("host, is_loopback", [
    ("127.1", True), ("2130706433", True), ("0x7f000001", True), ("0177.0.0.1", True), ("①②⑦.0.0.1", True),
    ("127。0。0。1", True), ("[::ffff:127.0.0.1]", True), ("localhost", True), ("0", False),
    ("[::ffff:a9fe:a9fe]", False), ("[fe80::1%lo]", False), ("[::]", False), ("[::ffff:0:0]", False)])
def test_no_spelling_of_an_address_reaches_loopback_for_an_account_that_may_not(talk, host, is_loopback):
    server = talk(b"HTTP/1.1 204 No Content\r\n\r\n")
    url, fetcher = f"http://{host}:{server.port}/", rt.Fetcher(rt.Settings())
    words = failure_of(lambda: fetcher.post(a_post(url), False))
    assert ("--allow-network" if is_loopback else "never sent to") in words
    assert fetcher.refusal_of(url, False) == words          # said when it is saved, too
    assert server.connections == 0
    if is_loopback:
        assert fetcher.post(a_post(url), True).status == 204
        open_to_all = rt.Fetcher(rt.Settings(allow_network=("127.0.0.0/8", "::1")))
        assert open_to_all.post(a_post(url), False).status == 204
        assert open_to_all.refusal_of(url, False) is None
    else:
        failure_of(lambda: fetcher.post(a_post(url), True))


@pytest.mark.parametrize("target", [
    "http://127.0.0.1:{over}/", "http://127.0.0.1:-1/", "http://127.0.0.1:x/", "http://user:word@127.0.0.1:{port}/",
    "http://user@127.0.0.1:{port}/", "file:///etc/hostname", "ftp://127.0.0.1:{port}/", "data:,x",
    "//127.0.0.1:{port}/",
    "http://", "https:///x", "", "http://[::1", "gopher://127.0.0.1:{port}/",
    "http://127.0.0.1 :{port}/"])
def test_what_is_no_plain_web_address_is_asked_by_nobody(talk, target):
    server = talk(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    url, fetcher = target.format(port=server.port, over=65536 + server.port), rt.Fetcher(rt.Settings())
    failure_of(lambda: fetcher.post(a_post(url), True))
    failure_of(lambda: fetcher.fetch(rt.Request(url)))
    with pytest.raises(rt.Invalid):
        rt.read_settings("webhook", [("url", url)])
    assert server.connections == 0


@pytest.mark.parametrize("line, is_taken", [
    ("Authorization: Bearer x",             True),  ("X-Api-Key:x",                     True),
    ("X-Name: J\u00fcrgen \xa7",            True),  ("X-Empty:",                        True),
    ("X-Crlf: 1\r\nX-Other: 2",             False), ("X-Folded: 1\r\n 2",               False),
    ("X-Nul: 1\x002",                       False), ("X-Tab: 1\t2",                     False),
    ("X-Newline: 1\n",                      False), ("X-Wide: \u2603",                  False),
    ("X-Long: " + "x" * 10_000,             False), ("X-\r\nY: 1",                      False),
    ("Host: other.example",                 False), ("Content-Length: 0",               False),
    ("content-type: text/plain",            False), ("Transfer-Encoding: chunked",      False),
    ("Connection: keep-alive",              False), ("User-Agent: x",                   False),
    ("Webhook-Id: 1",                       False), ("webhook-signature: v1,x",         False),
    ("X-Service-Signature: x",              False), ("x-service-timestamp: 1",          False),
    ("No colon",                            False), (": value",                         False),
    ("Spaced Name: x",                      False), ("N\u00e4me: x",                    False),
    ("X" * 65 + ": 1",                      False), ("X_Under: 1",                      False),
])
def test_a_custom_header_is_refused_unless_it_can_go_out_as_it_is(line, is_taken):
    if is_taken:
        name, _, value = line.partition(":")
        assert rt.read_settings("webhook", [("url", "https://hook.example/"), ("header", line)])["headers"] == {name: value.strip()}
    else:
        with pytest.raises(rt.Invalid) as caught:
            rt.read_settings("webhook", [("url", "https://hook.example/"), ("header", line)])
        assert caught.value.errors[0].startswith("Setting header: ")


def test_what_goes_over_the_wire_is_the_custom_headers_and_our_own(talk):
    def capture(server: Raw, connection: socket.socket) -> None:
        head, _, body = server.read_head(connection).partition(b"\r\n\r\n")
        size = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
        while len(body) < size:
            body += connection.recv(65536)
        server.got = [head + b"\r\n\r\n" + body]
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
    server, fetcher = talk(capture), rt.Fetcher(rt.Settings())
    settings = rt.read_settings("webhook", [
        ("url", f"{server.url}/a/\u00e9?q=\u00e9#f"), ("header", "Authorization: Basic eDp5"),
        ("header", "X-Name: J\u00fcrgen")])
    destination = rt.Destination("d", "a", "webhook", "hook", settings, rt.make_signing_secret())
    fetcher.post(request_of(a_delivery(destination)), True)
    head, _, body = server.got[0].partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    found = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    assert first == "POST /a/%C3%A9?q=%C3%A9 HTTP/1.1"
    assert len(found) == len(lines)
    assert found["authorization"] == "Basic eDp5" and found["x-name"] == "J\u00fcrgen"
    assert found["host"] == f"127.0.0.1:{server.port}" and found["content-length"] == str(len(body))
    assert set(found) - {"accept-encoding"} == {
        "host", "content-length", "content-type", "user-agent", "connection", "authorization", "x-name", "webhook-id",
        "webhook-timestamp", "webhook-signature", "x-service-timestamp", "x-service-signature"}


def forwarding(server: Raw, connection: socket.socket) -> None:
    """What a proxy does, for names that it takes for loopback: CONNECT, and requests with a whole URL."""
    head = server.read_head(connection)
    method, target, _ = head.split(b" ", 2)
    port = int(re.search(rb":(\d+)", target.partition(b"://")[2] or target)[1])
    with socket.create_connection(("127.0.0.1", port)) as other:
        if method == b"CONNECT":
            connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            other.sendall(head)

        def pump(one: socket.socket, to: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while data := one.recv(65536):
                    to.sendall(data)
                to.shutdown(socket.SHUT_WR)
        back = threading.Thread(target=pump, args=(connection, other), daemon=True)
        back.start()
        pump(other, connection)


def test_a_proxy_in_the_environment_is_not_used(listen, talk, monkeypatch):
    proxy, receiver = talk(forwarding), listen(204)
    for variable in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(variable, proxy.url)
    fetcher = rt.Fetcher(rt.Settings())
    fetcher.post(a_post(receiver.url), True)
    fetcher.fetch(rt.Request(receiver.url))
    assert len(receiver.seen) == 2 and proxy.connections == 0


def test_the_proxy_that_the_operator_names_is_used_for_all_that_is_fetched_and_sent(
        listen, talk, tmp_path, trusted, monkeypatch):
    proxy, receiver, secure = talk(forwarding), listen(204), tls_server(talk, tmp_path, "good")
    monkeypatch.setenv("no_proxy", "*")         # is for other programs
    fetcher = rt.Fetcher(rt.Settings(outgoing_proxy=proxy.url))
    assert fetcher.post(a_post(f"http://hook.example:{receiver.port}/x"), True).status == 204
    assert fetcher.fetch(rt.Request(f"http://forge.example:{receiver.port}/y")).status == 204
    assert fetcher.fetch(rt.Request(f"https://localhost:{secure.port}/z")).status == 204
    lines = [head.split(b"\r\n")[0].decode() for head in proxy.got]
    assert lines == [f"POST http://hook.example:{receiver.port}/x HTTP/1.1",
                     f"GET http://forge.example:{receiver.port}/y HTTP/1.1",
                     lines[2]]
    assert lines[2].startswith(f"CONNECT localhost:{secure.port} HTTP/1.")
    assert [seen.method for seen in receiver.seen] == ["POST", "GET"]
    assert secure.got[0].startswith(b"GET /z HTTP/1.1\r\n")


def test_certificates_are_verified_through_the_proxy_too(talk, tmp_path, trusted):
    proxy, secure = talk(forwarding), tls_server(talk, tmp_path, "other")
    fetcher = rt.Fetcher(rt.Settings(outgoing_proxy=proxy.url))
    url = f"https://localhost:{secure.port}/"
    assert "certificate is not valid" in failure_of(lambda: fetcher.fetch(rt.Request(url)))
    assert secure.got == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "①②⑦.0.0.1", "[::1]", "169.254.169.254"])
def test_an_address_that_is_spelled_out_is_judged_before_the_proxy_is_asked(talk, monkeypatch, host):
    proxy, receiver = talk(forwarding), talk(b"HTTP/1.1 204 No Content\r\n\r\n")
    monkeypatch.setenv("no_proxy", "*")
    fetcher = rt.Fetcher(rt.Settings(outgoing_proxy=proxy.url))
    failure_of(lambda: fetcher.post(a_post(f"http://{host}:{receiver.port}/"), False))
    assert (proxy.connections, receiver.connections) == (0, 0)


def test_no_proxy_in_the_environment_opens_no_way_around_the_judge(talk, monkeypatch):
    proxy, receiver = talk(forwarding), talk(b"HTTP/1.1 204 No Content\r\n\r\n")
    monkeypatch.setenv("no_proxy", "*")
    fetcher = rt.Fetcher(rt.Settings(outgoing_proxy=proxy.url))
    with contextlib.suppress(rt.Unreachable):
        fetcher.post(a_post(f"http://localhost:{receiver.port}/"), False)
    assert receiver.connections == proxy.connections, "loopback was dialled, and not by the proxy"


GZIPPED = gzip.compress(b'{"a": 1}' * 100)
OK = b"HTTP/1.1 200 OK\r\n"


def resets(server: Raw, connection: socket.socket) -> None:
    server.read_head(connection)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def hangs_up(server: Raw, connection: socket.socket) -> None:
    server.read_head(connection)


def answers(head: bytes, body: bytes = b"") -> bytes:
    return OK + head + b"Content-Length: %d\r\n\r\n" % len(body) + body


HOSTILE = {
    # what it answers, and what is said
    "no answer":                    (hangs_up,
                                     "without an answer|reset"),
    "a reset":                      (resets,
                                     "reset|without an answer"),
    "no HTTP":                      (b"220 smtp.example ESMTP\r\n",                               "no HTTP"),
    "a status that is no number":   (b"HTTP/1.1 abc OK\r\n\r\n",                                  "no HTTP"),
    "a status of four digits":      (b"HTTP/1.1 1000 OK\r\n\r\n",                                 "no HTTP"),
    "a status below 100":           (b"HTTP/1.1 42 OK\r\n\r\n",                                   "no HTTP"),
    "another version":              (b"HTTP/9.9 200 OK\r\n\r\n",                                  "no HTTP"),
    "binary":                       (bytes(range(256)) * 8,                                       "no HTTP"),
    "a long status line":           (b"HTTP/1.1 200 " + b"x" * 70_000 + b"\r\n\r\n",              "no HTTP|larger"),
    "a long header line":           (OK + b"X: " + b"x" * 70_000 + b"\r\n\r\n",                   "no HTTP|larger"),
    "101 headers":                  (OK + b"X: 1\r\n" * 101 + b"\r\n",                            "no HTTP"),
    "many small headers":           (OK + b"X: 1\r\n" * 60_000 + b"\r\n",                         "no HTTP"),
    "less than Content-Length":     (OK + b"Content-Length: 50\r\n\r\n" + b"x" * 10,              "ended early"),
    "4 GB of Content-Length":       (OK + b"Content-Length: 4294967296\r\n\r\nx",                 "ended early|larger"),
    "a chunk that is no number":    (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nx",
                                     "ended early|no HTTP"),
    "a negative chunk":             (OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nxxxxx\r\n0\r\n\r\n",
                                     "ended early|no HTTP|length"),
    "a chunk that is cut":          (OK + b"Transfer-Encoding: chunked\r\n\r\n50\r\nxx",          "ended early"),
    "chunks without an end":        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nxx\r\n",
                                     "ended early|no HTTP"),
    "a long line of a chunk":       (OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 70_000,
                                     "ended early|no HTTP"),
    "what is no gzip":              (answers(b"Content-Encoding: gzip\r\n", b"not gzip"),         "no gzip"),
    "half of a gzip":               (answers(b"Content-Encoding: gzip\r\n", GZIPPED[:-12]),       "ended early"),
    "a gzip with a wrong sum":      (answers(b"Content-Encoding: gzip\r\n", GZIPPED[:-6] + b"xxxxxx"), "no gzip"),
    "a redirect to a file":         (b"HTTP/1.1 302 -\r\nLocation: file:///etc/hostname\r\n\r\n", "no web address"),
    "a redirect to ftp":            (b"HTTP/1.1 302 -\r\nLocation: ftp://127.0.0.1/\r\n\r\n",     "no web address"),
    "a redirect to data":           (b"HTTP/1.1 302 -\r\nLocation: data:,x\r\n\r\n",              "no web address"),
    "a redirect with a password":   (b"HTTP/1.1 302 -\r\nLocation: http://u:p@127.0.0.1/\r\n\r\n", "no web address"),
    "a redirect to half a host":    (b"HTTP/1.1 302 -\r\nLocation: http://[::1\r\n\r\n",
                                     "no web address|IPv6"),
    "a redirect beyond the ports":  (b"HTTP/1.1 302 -\r\nLocation: http://127.0.0.1:99999/\r\n\r\n",
                                     "[Pp]ort|no web address"),
    "a redirect to a metadata":     (b"HTTP/1.1 302 -\r\nLocation: http://169.254.169.254/\r\n\r\n", "never sent to"),
    "a redirect to itself":         (b"HTTP/1.1 302 -\r\nLocation: /\r\n\r\n",                    "more than 5 times"),
}
# Of a notification the status alone counts, so what comes behind it, and where it points, is nothing to it.
AFTER_THE_HEAD = frozenset(list(HOSTILE)[list(HOSTILE).index("less than Content-Length"):])


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_answer_is_a_failure_in_words(talk, case):
    answer, says = HOSTILE[case]
    server, fetcher = talk(answer), Hurried(rt.Settings())
    assert re.search(says, failure_of(lambda: fetcher.fetch(rt.Request(server.url))))
    if case in AFTER_THE_HEAD:
        assert fetcher.post(a_post(server.url), True).status in (200, 302)
    else:
        assert re.search(says, failure_of(lambda: fetcher.post(a_post(server.url), True)))


def test_a_port_where_nobody_listens_is_said_to_refuse(listen):
    receiver = listen()
    receiver.close()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        assert "refused" in failure_of(lambda: rt.Fetcher(rt.Settings()).post(a_post(url), True))


def test_a_zip_bomb_costs_no_more_than_the_bound(listen):
    import tracemalloc
    bomb = gzip.compress(bytes(64 * rt.MIB))
    receiver = listen(lambda seen: (200, bomb, {"Content-Encoding": "gzip"}))
    fetcher = Hurried(rt.Settings())
    tracemalloc.start()
    try:
        assert "larger than 256 KiB" in failure_of(lambda: fetcher.fetch(rt.Request(receiver.url)))
        assert tracemalloc.get_traced_memory()[1] < 4 * rt.MIB
    finally:
        tracemalloc.stop()


def test_gzip_is_asked_for_and_undone(listen):
    receiver = listen(lambda seen: (200, GZIPPED, {"Content-Encoding": "gzip"}))
    answer = rt.Fetcher(rt.Settings()).fetch(rt.Request(receiver.url))
    assert answer.body == b'{"a": 1}' * 100
    assert receiver.seen[0].headers["accept-encoding"] == "gzip"
    assert re.match(r"releasetrack/\d", receiver.seen[0].headers["user-agent"])


def test_a_gzip_of_several_members_is_read_whole(listen):
    members = gzip.compress(b"[1,") + gzip.compress(b"2]")
    receiver = listen(lambda seen: (200, members, {"Content-Encoding": "gzip"}))
    assert rt.Fetcher(rt.Settings()).fetch(rt.Request(receiver.url)).body == b"[1,2]"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_notification_is_never_redirected(listen, status):
    target = listen(204)
    receiver = listen(lambda seen: (status, b"", {"Location": f"{target.url}/"}))
    answer = rt.Fetcher(rt.Settings()).post(a_post(receiver.url, Authorization="Bearer x"), True)
    assert answer.status == status
    assert target.seen == [] and len(receiver.seen) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("hops, arrives", [(1, True), (5, True), (6, False)])
def test_a_provider_is_followed_five_times(listen, status, hops, arrives):
    def answer(seen: Seen) -> Any:
        at = int(seen.path.strip("/") or 0)
        return (200, b"here") if at == hops else (status, b"", {"Location": f"/{at + 1}"})
    provider, fetcher = listen(answer), rt.Fetcher(rt.Settings())
    if arrives:
        found = fetcher.fetch(rt.Request(provider.url + "/0"))
        assert (found.body, found.url, found.asked) == (b"here", f"{provider.url}/{hops}", provider.url + "/0")
        assert len(provider.seen) == hops + 1
    else:
        assert "more than 5 times" in failure_of(lambda: fetcher.fetch(rt.Request(provider.url + "/0")))
        assert len(provider.seen) == 6


@pytest.mark.parametrize("header", ["Authorization", "PRIVATE-TOKEN"])
def test_a_token_goes_to_no_other_host_or_port_by_a_redirect(listen, header):
    there = listen(lambda seen: (200, b"there"))
    here = listen(lambda seen: (302, b"", {"Location": f"{there.url}/"}) if seen.path == "/away" else
                  (302, b"", {"Location": "/end"}) if seen.path == "/within" else (200, b"here"))
    fetcher = rt.Fetcher(rt.Settings())
    fetcher.fetch(rt.Request(here.url + "/within", {header: "secret", "Accept": "x/y"}))
    fetcher.fetch(rt.Request(here.url + "/away", {header: "secret", "Accept": "x/y"}))
    assert [seen.headers.get(header.lower()) for seen in here.seen] == ["secret"] * 3
    assert header.lower() not in there.seen[0].headers and there.seen[0].headers["accept"] == "x/y"
    assert "secret" not in str(there.seen[0].headers)


@pytest.mark.parametrize("sent, back", [
    ({"ETag": '"one"'},                                                     ("if-none-match", '"one"')),
    ({"ETag": 'W/"one"', "Last-Modified": "Sun, 01 Mar 2026 10:00:00 GMT"}, ("if-none-match", 'W/"one"')),
    ({"Last-Modified": "Sun, 01 Mar 2026 10:00:00 GMT"},    ("if-modified-since", "Sun, 01 Mar 2026 10:00:00 GMT")),
])
def test_what_has_not_changed_is_answered_with_nothing_new(listen, sent, back):
    document = {"versions": [{"versionKey": {"version": "1.0"}, "publishedAt": "2026-03-01T10:00:00Z"}]}
    provider = listen(lambda seen: 304 if back[0] in seen.headers else (200, document, sent))
    row = rt.providers_with([("npm", "depsdev", provider.url)])["npm"]
    fetcher = rt.Fetcher(rt.Settings())
    vouched = rt.releases_of(row, "left-pad", fetcher.fetch).vouched
    validators = rt.Validators(vouched.asked, vouched.headers.get("etag"), vouched.headers.get("last-modified"))
    assert rt.releases_of(row, "left-pad", fetcher.fetch, known={"1.0": None}, validators=validators) is None
    conditional = {name: value for name, value in provider.seen[1].headers.items() if name.startswith("if-")}
    assert conditional == dict([back]) and len(provider.seen) == 2


@pytest.mark.parametrize("status, headers,                                          seconds", [
    (429, {"Retry-After": "120"},                                                   120),
    (429, {},                                                                       60),
    (429, {"Retry-After": "0"},                                                     60),
    (429, {"Retry-After": "-5"},                                                    60),
    (429, {"Retry-After": "soon"},                                                  60),
    (429, {"Retry-After": "1000000000"},                                            86400),
    (429, {"Retry-After": "Sat, 01 Mar 2031 10:05:00 GMT", "Date": "Sat, 01 Mar 2031 10:00:00 GMT"}, 300),
    (503, {"Retry-After": "90"},                                                    90),
    (403, {"Retry-After": "90"},                                                    90),
    (403, {"x-ratelimit-remaining": "0"},                                           60),
    (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "+300"},              300),
    (429, {"ratelimit-reset": "400"},                                               400),
])
def test_a_host_that_asks_for_patience_is_left_alone_as_a_whole(talk, listen, status, headers, seconds):
    now = [2e9]
    lines = dict(headers)
    if lines.get("x-ratelimit-reset", "").startswith("+"):      # GitHub's is an instant, by the server's clock
        lines |= {"x-ratelimit-reset": str(1772359200 + int(lines["x-ratelimit-reset"])),
                  "Date": "Sun, 01 Mar 2026 10:00:00 GMT"}
    fields = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    busy, other = talk(f"HTTP/1.1 {status} Busy\r\n{fields}Content-Length: 0\r\n\r\n".encode()), listen(200)
    fetcher = rt.Fetcher(rt.Settings(), clock=lambda: now[0])
    for path, later, asked in (("/a", 0, 1), ("/b", seconds - 1, 1), ("/c", 2, 2)):
        now[0] += later
        with pytest.raises(rt.Throttled) as caught:
            fetcher.fetch(rt.Request(busy.url + path))
        assert busy.connections == asked, path
        assert caught.value.seconds == pytest.approx(1 if path == "/b" else seconds, abs=0.01)
    assert fetcher.fetch(rt.Request(other.url)).status == 200


def test_an_answer_that_spends_the_quota_counts_and_the_next_one_waits(listen):
    now = [time.time()]
    spent = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + 300)}
    provider = listen(lambda seen: (200, b"ok", spent))
    fetcher = rt.Fetcher(rt.Settings(), clock=lambda: now[0])
    assert fetcher.fetch(rt.Request(provider.url)).body == b"ok"
    failure_of(lambda: fetcher.fetch(rt.Request(provider.url)), rt.Throttled)
    now[0] += 310
    assert fetcher.fetch(rt.Request(provider.url)).body == b"ok"
    assert len(provider.seen) == 2


@pytest.mark.parametrize("status, headers", [
    (403, {}), (503, {}), (500, {"Retry-After": "60"}), (404, {}), (200, {"x-ratelimit-remaining": "0"})])
def test_other_answers_hold_nobody(listen, status, headers):
    provider = listen(lambda seen: (status, b"", headers))
    fetcher = rt.Fetcher(rt.Settings())
    assert [fetcher.fetch(rt.Request(provider.url)).status for _ in range(2)] == [status] * 2


@pytest.mark.parametrize("limit", [1, 3])
def test_a_host_is_asked_by_no_more_at_once_than_the_limit(listen, limit):
    lock, under_way, most = threading.Lock(), [0], [0]

    def answer(seen: Seen) -> Any:
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        time.sleep(0.05)
        with lock:
            under_way[0] -= 1
        return 200
    provider, fetcher = listen(answer), rt.Fetcher(rt.Settings(host_limit=limit))
    threads = [threading.Thread(target=fetcher.fetch, args=(rt.Request(f"{provider.url}/{at}"),)) for at in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(provider.seen) == 9 and most[0] == limit


@pytest.mark.parametrize("provider", sorted(set(rt.PROVIDERS) - {"git"}))       # its hosts are users'
def test_every_public_host_has_a_limit(provider):
    assert rt.host_of(rt.PROVIDERS[provider].site) in rt.HOST_LIMITS


def test_hosts_that_are_asked_beside_a_provider_s_own_have_a_limit():
    assert {"api.github.com", "crates.io", "api.deps.dev"} <= set(rt.HOST_LIMITS)


def test_limits_keep_below_what_is_documented():
    """https://docs.github.com/rest/rate-limit, Bitbucket's, https://crates.io/data-access, hex.pm's, rubygems.org's."""
    def hourly(host: str, field: str = "requests") -> float:
        return getattr(rt.HOST_LIMITS[host], field) * rt.HOUR / rt.HOST_LIMITS[host].seconds
    assert hourly("api.github.com") < 60 and hourly("api.github.com", "with_token") < 5000
    assert hourly("api.bitbucket.org") < 60 and hourly("api.bitbucket.org", "with_token") < 1000
    assert hourly("crates.io") < 3600 and hourly("hex.pm") < 6000 and hourly("rubygems.org") < 36_000
    for host, limit in rt.HOST_LIMITS.items():
        assert limit.requests > 0 and limit.seconds > 0 and (not limit.with_token or limit.with_token > limit.requests), host


def test_a_host_of_the_operator_s_own_is_not_paced(listen):
    provider, fetcher = listen(lambda seen: (200, {})), rt.Fetcher(rt.Settings())
    began = time.monotonic()
    for _ in range(50):
        assert fetcher.fetch(rt.Request(provider.url)).status == 200
    assert time.monotonic() - began < 3 and len(provider.seen) == 50


def test_a_public_host_is_asked_at_most_as_often_as_its_limit_says_and_oftener_with_a_token(listen):
    """Through a proxy on loopback, which takes the place of the host."""
    proxy = listen(lambda seen: (200, {}))
    fetcher = rt.Fetcher(rt.Settings(outgoing_proxy=proxy.url))
    request = rt.Request("http://api.github.com/repos/o/r")
    for _ in range(45):
        fetcher.fetch(request)
    with pytest.raises(rt.Throttled, match="api.github.com is asked at most 45 times in 3600 s") as caught:
        fetcher.fetch(request)
    assert 3500 < caught.value.seconds <= 3600
    fetcher.fetch(dataclasses.replace(request, headers={"Authorization": "Bearer t"}))
    fetcher.fetch(rt.Request("http://hub.docker.com/v2/"))       # another host has its own
    assert len(proxy.seen) == 47


def test_behind_a_proxy_too_a_user_s_address_is_judged_and_where_it_leads(listen):
    proxy = listen(lambda seen: (302, b"", {"Location": "http://169.254.169.254/x"}))
    fetcher = rt.Fetcher(rt.Settings(outgoing_proxy=proxy.url))
    for url in ("http://169.254.169.254/x.git", "http://127.0.0.1:1/x.git", "http://192.168.1.1/x.git"):
        with pytest.raises(rt.Unreachable, match="address"):
            fetcher.fetch(rt.Request(url, is_guarded=True), is_trusted=False)
    assert not proxy.seen
    with pytest.raises(rt.Unreachable, match="169.254.169.254 is a link-local"):
        fetcher.fetch(rt.Request("http://git.example/x.git", is_guarded=True), is_trusted=False)
    assert len(proxy.seen) == 1


def test_a_short_wait_for_a_host_is_waited_for_and_ends_with_the_program(listen):
    proxy = listen(lambda seen: (200, {}))
    fetcher, began = rt.Fetcher(rt.Settings(outgoing_proxy=proxy.url)), time.monotonic()
    for _ in range(3):
        fetcher.fetch(rt.Request("http://sourceforge.net/projects/foo/rss"))        # twice in a second
    assert 0.9 < time.monotonic() - began < 3
    fetcher.stopping.set()
    with pytest.raises(rt.Stopped):
        for _ in range(3):
            fetcher.fetch(rt.Request("http://sourceforge.net/projects/foo/rss"))


# == providers =================================================================


def answering(answers: dict[str, Any]) -> Answering:
    """Answers by path, with its query where the table names one; everything else is not there."""
    def answer(seen: Seen) -> Any:
        for path in (f"{seen.method} {seen.path}", seen.path, seen.path.partition("?")[0]):
            if path in answers:
                found = answers[path]
                found = found(seen) if callable(found) else found
                return found if isinstance(found, (tuple, int)) else (200, found, {"Content-Type": "application/json"})
        return 404, {"message": "Not Found"}
    return answer


def row_of(dialect: str, site: str, id_: str = "") -> rt.Provider:
    """A provider at ``site`` that speaks a dialect."""
    id_ = id_ or {"depsdev": "npm"}.get(dialect, f"my-{dialect}")
    return rt.providers_with([(id_, dialect, site)])[id_]


def listed(dialect: str, site: str, name: str, token: str | None = None, known: Any = None) -> list[tuple[Any, ...]]:
    """What a provider has: ``(version, date, is a pre-release, title, message, evidence)`` of each release."""
    listing = rt.releases_of(row_of(dialect, site), name, rt.Fetcher(rt.Settings()).fetch, token, known)
    return [(one.version, one.date, one.is_prerelease, one.note and one.note.title, one.note and one.note.message,
             one.evidence) for one in listing.releases]


MAY, JUNE = "2026-05-01T08:00:00Z", "2026-06-01T08:00:00Z"
AMAY, AJUNE = (f"{day[:-1]}.120Z" for day in (MAY, JUNE))       # as many services write them
MAY_120, JUNE_120 = (f"{day[:-1]}.120000Z" for day in (MAY, JUNE))


def atom(*entries: tuple[str, str, str, str]) -> str:
    """GitHub's feed, of (tag, date, title, content)."""
    return '<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom"><title>r</title>' + "".join(
        f'<entry><id>tag:github.com,2008:Repository/7/{tag}</id><updated>{date}</updated><title>{title}</title>'
        f'<link rel="alternate" type="text/html" href="https://github.com/o/r/releases/tag/{tag}"/>'
        f'<content type="html">{content}</content></entry>' for tag, date, title, content in entries) + "</feed>"


GITHUB_RELEASES = [
    {"tag_name": "v1.0", "name": "One", "draft": False, "prerelease": False, "created_at": MAY, "published_at": MAY,
     "html_url": "https://github.com/o/r/releases/tag/v1.0", "body_html": "<p>Fixes CVE-2026-1234</p>"},
    {"tag_name": "v2.0", "name": None, "draft": False, "prerelease": True, "created_at": MAY, "published_at": JUNE,
     "html_url": "https://github.com/o/r/releases/tag/v2.0", "body": "# <Two>"},
    {"tag_name": "v3.0", "name": "Draft", "draft": True, "prerelease": False, "created_at": MAY, "published_at": None,
     "html_url": "https://github.com/o/r/releases/tag/v3.0", "body_html": "<p>hidden</p>"}]
GITLAB_RELEASES = [
    {"tag_name": "v2.1", "name": "Otter", "description": "x", "description_html": "<p>Fixed</p>", "released_at": AJUNE,
     "upcoming_release": False},
    {"tag_name": "v2.0-rc1", "name": "v2.0-rc1", "description": "- x", "released_at": AMAY},
    {"tag_name": "v9", "name": "v9", "description": "", "released_at": "2099-01-01T00:00:00Z",
     "upcoming_release": True}]
FORGEJO_RELEASES = [
    {"tag_name": "v1.0", "name": "One", "body": "# One", "draft": False, "prerelease": False, "published_at": MAY,
     "html_url": "https://forge.example/o/r/releases/tag/v1.0"},
    {"tag_name": "v2.0", "name": "Two", "body": "# Two", "draft": False, "prerelease": True,
     "published_at": "2026-06-01T10:00:00+02:00", "html_url": "https://forge.example/o/r/releases/tag/v2.0"}]
FORGEJO_FEED = ('<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"><channel><item>'
                '<title>Two</title>'
                '<link>https://forge.example/o/r/releases/tag/v2.0</link>'
                '<content:encoded>&lt;h1&gt;Two&lt;/h1&gt;</content:encoded></item></channel></rss>')
FORGEJO_TAGS = [{"name": "1.1", "message": "first\n", "id": "t", "commit": {"sha": "b" * 40, "created": JUNE}},
                {"name": "1.0", "message": "", "id": "t", "commit": {"sha": "a" * 40, "created": MAY}}]
GITLAB_TAGS = [{"name": "1.1", "message": "signed", "created_at": AJUNE,
                "commit": {"id": "b" * 40, "created_at": AMAY}},
               {"name": "1.0", "message": None, "created_at": None, "commit": {"id": "a" * 40, "created_at": AMAY}}]
GITHUB_TAGS = [{"name": "v1.2.0", "commit": {"sha": "b" * 40}}, {"name": "v1.10.0", "commit": {"sha": "a" * 40}}]
HUB_TAGS = {"count": 3, "next": None, "results": [
    {"name": "2.0-rc1", "last_updated": JUNE, "tag_last_pushed": JUNE, "digest": "sha256:b"},
    {"name": "1.9-alpine", "last_updated": MAY, "tag_last_pushed": None, "digest": "sha256:a"},
    {"name": "sha256-" + "a" * 64 + ".sig", "last_updated": MAY, "tag_last_pushed": MAY, "digest": "sha256:c"}]}
DEPSDEV = {"packageKey": {"system": "NPM", "name": "@s/p"}, "versions": [
    {"versionKey": {"system": "NPM", "name": "@s/p", "version": "1.0.0"}, "publishedAt": MAY, "isDefault": True},
    {"versionKey": {"system": "NPM", "name": "@s/p", "version": "2.0.0-next.1"}, "publishedAt": JUNE},
    {"versionKey": {"system": "NPM", "name": "@s/p", "version": "0.1.0"}}]}
NPM_LONG = {"name": "@s/p", "versions": {"1.0.0": {"version": "1.0.0"}, "2.0.0-beta.1": {"version": "2.0.0-beta.1"}},
            "time": {"created": MAY, "modified": JUNE, "0.9.0": MAY, "1.0.0": AMAY, "2.0.0-beta.1": AJUNE}}
NPM_SHORT = {"name": "@s/p", "modified": JUNE, "versions": NPM_LONG["versions"], "dist-tags": {"latest": "1.0.0"}}
SIMPLE = {"meta": {"api-version": "1.4"}, "name": "holy-grail", "versions": ["1.0", "2.0rc1", "0.9", "0.8"], "files": [
    {"filename": "holy_grail-1.0-py3-none-any.whl", "upload-time": "2026-05-01T09:00:00.5Z", "yanked": False,
     "url": "x"},
    {"filename": "holy.grail-1.0.tar.gz", "upload-time": MAY, "yanked": False, "url": "x"},
    {"filename": "holy-grail-2.0rc1.tar.gz", "upload-time": JUNE, "url": "x"},
    {"filename": "holy-grail-0.8.tar.gz", "upload-time": MAY, "yanked": "broken", "url": "x"},
    {"filename": "holy-grail-0.8.zip", "upload-time": MAY, "yanked": True, "url": "x"}]}
SIMPLE_HTML = """<!DOCTYPE html><html><body>
<a href="https://files.example/holy_grail-1.0-py3-none-any.whl#sha256=0">holy_grail-1.0-py3-none-any.whl</a><br/>
<a href="../../holy-grail-2.0.dev1.tar.gz" data-requires-python="&gt;=3.8">holy-grail-2.0.dev1.tar.gz</a>
<a href="holy-grail-1.5.tar.gz" data-yanked="broken">holy-grail-1.5.tar.gz</a>
<a href="holy-grail-1.6.tar.gz" data-yanked>x</a>
</body></html>"""
OCI_TAGS = {"name": "o/i", "tags": ["1.0", "1.1-rc1", "latest", "sha256-" + "a" * 64 + ".sig", "0a1b2c3d4e5f",
                                    "1.0-amd64",
                                    "buildcache"]}
MANIFEST = {"schemaVersion": 2, "config": {"digest": "sha256:config"}, "layers": []}
OCI = {"/v2/o/i/tags/list": OCI_TAGS,
       "/v2/o/i/manifests/1.0": (200, {"manifests": [
           {"digest": "sha256:none", "platform": {"os": "unknown", "architecture": "unknown"}},
           {"digest": "sha256:amd", "platform": {"os": "linux", "architecture": "amd64"}}]},
           {"Docker-Content-Digest": "sha256:index"}),
       "/v2/o/i/manifests/sha256:amd": MANIFEST,
       "/v2/o/i/blobs/sha256:config": {"created": "2026-05-01T08:00:00.123456789Z"},
       "/v2/o/i/manifests/1.1-rc1": (200, {**MANIFEST, "annotations": {"org.opencontainers.image.created": JUNE}},
                                     {"Docker-Content-Digest": "sha256:rc"})}
GOOGLE = {"/v2/p/i/tags/list": {"child": [], "tags": ["v1", "v2", "main"], "manifest": {
    "sha256:a": {"tag": ["v1", "main"], "timeCreatedMs": "0", "timeUploadedMs": "1777622400000"},
    "sha256:b": {"tag": ["v2"], "timeUploadedMs": "1780300800000"}}}}
NOTHING = (None, None)
FIRST_TAG, SECOND_TAG = "commit:" + "a" * 40, "commit:" + "b" * 40

LISTED = {
    "github": ("github", "o/r", "token", {"/api/v3/repos/o/r/releases": GITHUB_RELEASES}, [
        ("v2.0", JUNE, True, "v2.0", "<pre># &lt;Two&gt;</pre>", f"published:{JUNE}"),
        ("v1.0", MAY, False, "One", "<p>Fixes CVE-2026-1234</p>", f"published:{MAY}")]),
    "github tags": ("github", "o/r", "token", {
        "/api/v3/repos/o/r/releases": [], "/api/v3/repos/o/r/tags": GITHUB_TAGS}, [
        ("v1.10.0", None, False, *NOTHING, FIRST_TAG), ("v1.2.0", None, False, *NOTHING, SECOND_TAG)]),
    "github feed": ("github", "o/r", None, {"/o/r/releases.atom": (200, atom(
        ("v2.0-beta1", JUNE, "Two", "&lt;p&gt;Two&lt;/p&gt;"), ("pkg/v1%2B1", MAY, "pkg/v1+1", "")))}, [
        ("v2.0-beta1", JUNE, True, "Two", "<p>Two</p>", None), ("pkg/v1+1", MAY, False, *NOTHING, None)]),
    "github feed of tags": ("github", "o/r", None, {
        "/o/r/releases.atom": (200, atom()), "/o/r/tags.atom": (200, atom(("1.0", MAY, "1.0", "")))}, [
        ("1.0", MAY, False, *NOTHING, None)]),
    "gitlab": ("gitlab", "g/s/p", None, {"/api/v4/projects/g%2Fs%2Fp/releases": GITLAB_RELEASES}, [
        ("v2.1", JUNE_120, False, "Otter", "<p>Fixed</p>", f"published:{AJUNE}"),
        ("v2.0-rc1", MAY_120, True, "v2.0-rc1", "<pre>- x</pre>", f"published:{AMAY}")]),
    "gitlab tags": ("gitlab", "g/p", None, {
        "/api/v4/projects/g%2Fp/releases": [], "/api/v4/projects/g%2Fp/repository/tags": GITLAB_TAGS}, [
        ("1.1", JUNE_120, False, "1.1", "<pre>signed</pre>", SECOND_TAG),
        ("1.0", MAY_120, False, *NOTHING, FIRST_TAG)]),
    "gitlab without releases": ("gitlab", "g/p", None, {
        "/api/v4/projects/g%2Fp/releases": (403, {}), "/api/v4/projects/g%2Fp/repository/tags": GITLAB_TAGS[1:]}, [
        ("1.0", MAY_120, False, *NOTHING, FIRST_TAG)]),
    "forgejo": ("forgejo", "o/r", None, {
        "/api/v1/repos/o/r/releases": FORGEJO_RELEASES, "/o/r/releases.rss": (200, FORGEJO_FEED)}, [
        ("v2.0", JUNE, True, "Two", "<h1>Two</h1>", "published:2026-06-01T10:00:00+02:00"),
        ("v1.0", MAY, False, "One", "<pre># One</pre>", f"published:{MAY}")]),
    "forgejo without a feed": ("forgejo", "o/r", None, {"/api/v1/repos/o/r/releases": FORGEJO_RELEASES[:1]}, [
        ("v1.0", MAY, False, "One", "<pre># One</pre>", f"published:{MAY}")]),
    "forgejo tags": ("forgejo", "o/r", None, {
        "/api/v1/repos/o/r/releases": [], "/api/v1/repos/o/r/tags": FORGEJO_TAGS}, [
        ("1.1", JUNE, False, "1.1", "<pre>first\n</pre>", SECOND_TAG), ("1.0", MAY, False, *NOTHING, FIRST_TAG)]),
    "dockerhub": ("dockerhub", "library/i", None, {"/v2/repositories/library/i/tags": HUB_TAGS}, [
        ("2.0-rc1", JUNE, True, *NOTHING, "digest:sha256:b"), ("1.9-alpine", MAY, False, *NOTHING, "digest:sha256:a")]),
    "depsdev": ("depsdev", "@s/p", None, {"/v3/systems/NPM/packages/%40s%2Fp": DEPSDEV}, [
        ("2.0.0-next.1", JUNE, True, *NOTHING, None), ("1.0.0", MAY, False, *NOTHING, None),
        ("0.1.0", None, False, *NOTHING, None)]),
    "depsdev of pypi": ("depsdev", "left-pad", None, {
        "/v3/systems/PYPI/packages/left-pad": DEPSDEV, "/v3/systems/NPM/packages/left-pad": DEPSDEV}, [
        ("2.0.0-next.1", JUNE, True, *NOTHING, None), ("1.0.0", MAY, False, *NOTHING, None),
        ("0.1.0", None, False, *NOTHING, None)]),
    "npm": ("npm", "@s/p", None, {
        "/@s%2Fp": lambda seen: NPM_SHORT if "install-v1" in seen.headers["accept"] else NPM_LONG}, [
        ("2.0.0-beta.1", JUNE_120, True, *NOTHING, None), ("1.0.0", MAY_120, False, *NOTHING, None)]),
    "npm that has no short form": ("npm", "p", None, {"/p": NPM_LONG}, [
        ("2.0.0-beta.1", JUNE_120, True, *NOTHING, None), ("1.0.0", MAY_120, False, *NOTHING, None)]),
    "simple": ("simple", "holy-grail", None, {"/holy-grail/": SIMPLE}, [
        ("2.0rc1", JUNE, True, *NOTHING, None), ("1.0", MAY, False, *NOTHING, None),
        ("0.9", None, False, *NOTHING, None)]),
    "simple below its folder": ("simple", "holy-grail", None, {"/simple/holy-grail/": SIMPLE}, [
        ("2.0rc1", JUNE, True, *NOTHING, None), ("1.0", MAY, False, *NOTHING, None),
        ("0.9", None, False, *NOTHING, None)]),
    "simple HTML": ("simple", "holy-grail", None, {"/holy-grail/": (200, SIMPLE_HTML, {"Content-Type": "text/html"})}, [
        ("2.0.dev1", None, True, *NOTHING, None), ("1.0", None, False, *NOTHING, None)]),
    "oci": ("oci", "o/i", None, OCI, [
        ("1.1-rc1", JUNE, True, *NOTHING, "digest:sha256:rc"),
        ("1.0", "2026-05-01T08:00:00.123456Z", False, *NOTHING, "digest:sha256:index"),
        ("latest", None, False, *NOTHING, None)]),
    "oci as Google speaks it": ("oci", "p/i", None, GOOGLE, [
        ("v2", "2026-06-01T08:00:00Z", False, *NOTHING, "digest:sha256:b"),
        ("v1", "2026-05-01T08:00:00Z", False, *NOTHING, "digest:sha256:a"),
        ("main", "2026-05-01T08:00:00Z", False, *NOTHING, "digest:sha256:a")]),
}


def rss(*items: tuple[str, str, str, str]) -> tuple[int, str, dict[str, str]]:
    """A feed, of (title, link, date, description); the texts are escaped already."""
    body = "".join(
        f"<item><title>{title}</title><link>{link}</link><pubDate>{date}</pubDate>"
        f"<description>{description}</description></item>" for title, link, date, description in items)
    head = '<?xml version="1.0" encoding="UTF-8"?><rss version="2.0"><channel><title>refs</title>'
    return 200, f"{head}{body}</channel></rss>", {"Content-Type": "application/rss+xml"}


def refs(*lines: str, end: bytes = b"0000") -> tuple[int, bytes, dict[str, str]]:
    """What a repository advertises over smart HTTP: pkt-lines of ``commit ref``."""
    def packet(line: bytes) -> bytes:
        return b"%04x" % (len(line) + 4) + line
    first, *others = [line.encode() for line in lines]
    body = packet(b"# service=git-upload-pack\n") + b"0000" + packet(first + b"\0multi_ack side-band-64k\n")
    body += b"".join(packet(line + b"\n") for line in others) + end
    return 200, body, {"Content-Type": "application/x-git-upload-pack-advertisement"}


def here(seen: Seen) -> str:
    """The address that was asked, as answers name it themselves."""
    return f"http://{seen.headers.get('host', 'provider.example')}"


def leaf(version: str, published: str | None, listed: bool = True) -> dict[str, Any]:
    return {"catalogEntry": {"version": version, "published": published, "listed": listed, "deprecation": None}}


def bitbucket_tags(seen: Seen) -> Any:
    if "page=2" in seen.path:
        return {"values": [{"name": "v1.0", "date": None, "message": None, "target": {"date": MAY, "hash": "a" * 40}}]}
    signed = {"name": "v1.1-rc1", "date": "2026-06-01T10:00:00+02:00", "message": "Fixes CVE-2026-1 <b>\n",
              "target": {"date": MAY, "hash": "b" * 40}}
    return {"values": [signed], "next": f"{here(seen)}/2.0/repositories/w/r/refs/tags?sort=-target.date&pagelen=100&page=2"}


def quay_tags(seen: Seen) -> Any:
    """The newest first; a moved tag stands where its move was."""
    if "page=2" in seen.path:
        return {"page": 2, "has_additional": False, "tags": [
            {"name": "v3.0", "start_ts": 1777622400, "manifest_digest": "sha256:a", "size": 1}]}
    return {"page": 1, "has_additional": True, "tags": [
        {"name": "v3.1-rc.1", "start_ts": 1780300800, "manifest_digest": "sha256:b", "size": 1},
        {"name": "sha256-" + "a" * 64 + ".att", "start_ts": 1780300800, "manifest_digest": "sha256:c", "size": 1}]}


def nuget_index(path: str) -> Callable[[Seen], Any]:
    """The service index, whose resources are at the server's own address."""
    return lambda seen: {"version": "3.0.0", "resources": [
        {"@id": f"{here(seen)}/old/", "@type": "RegistrationsBaseUrl"},
        {"@id": f"{here(seen)}{path}", "@type": "RegistrationsBaseUrl/3.6.0"},
        {"@id": f"{here(seen)}/flat/", "@type": "PackageBaseAddress/3.0.0"}]}


ARTIFACT = {"package_id": "0-1", "name": "p", "version": "1.19.0", "app_version": "v1.19.0", "available_versions": [
    {"version": "1.20.0-alpha.0", "ts": 1780300800, "prerelease": True, "contains_security_updates": False},
    {"version": "1.19.0", "ts": 1777622400, "prerelease": False, "contains_security_updates": True}]}
ARTIFACT_CHANGES = [
    {"version": "1.20.0-alpha.0", "ts": 1780300800, "changes": []},
    {"version": "1.19.0", "ts": 1777622400, "changes": [
        {"kind": "security", "description": "CVE-2026-1234 <fixed>", "links": []}, {"description": "Faster"}]}]
CRATE = "\n".join(json.dumps(line) for line in (
    {"name": "foo", "vers": "0.2.0", "yanked": False, "deps": [], "cksum": "0"},
    {"name": "foo", "vers": "0.3.0", "yanked": True, "pubtime": MAY, "deps": [], "cksum": "0"},
    {"name": "foo", "vers": "0.3.1+build.5", "yanked": False, "pubtime": MAY, "deps": [], "cksum": "0"},
    {"name": "foo", "vers": "0.4.0-rc.1", "yanked": False, "pubtime": JUNE, "deps": [], "cksum": "0"})) + "\n"
CRATES = [("0.4.0-rc.1", JUNE, True, *NOTHING, None), ("0.3.1+build.5", MAY, False, *NOTHING, None),
          ("0.2.0", None, False, *NOTHING, None)]
ADVERTISED = refs(f"{'c' * 40} HEAD", f"{'c' * 40} refs/heads/main", f"{'f' * 40} refs/pull/1/head",
                  f"{'a' * 40} refs/tags/v1.9", f"{'d' * 40} refs/tags/v1.10-rc1",
                  f"{'b' * 40} refs/tags/v1.10-rc1^{{}}")
ADVERTISED_TAGS = [("v1.10-rc1", None, True, *NOTHING, SECOND_TAG), ("v1.9", None, False, *NOTHING, FIRST_TAG)]
GO_INFO = {version: {"Version": version, "Time": date} for version, date in (
    ("v1.2.0", MAY), ("v1.10.0-rc.1", JUNE), ("v2.0.0+incompatible", "2026-04-01T08:00:00Z"))}
GO_MOD = """module m.example/x // retract v1.10.0

go 1.22
retract v1.2.0 // published by mistake
retract (
    // broken
    [v1.0.0, v1.0.99]
    v1.1.0
)
"""
HACKAGE_LOG = "&lt;dl&gt;x&lt;/dl&gt;&lt;h1&gt;Changelog&lt;/h1&gt;" + "".join(
    f"&lt;h2&gt;{version} (2026)&lt;/h2&gt;&lt;p&gt;{text}&lt;/p&gt;" for version, text in (
        ("3.10", "Fixes CVE-2026-1234"), ("3.1", "Fixes CVE-2025-0001"), ("3.1.0", "older")))
MAVEN = (200, "<metadata><groupId>g.h</groupId><artifactId>a</artifactId><versioning><latest>4.1.0-RC1</latest>"
         "<release>4.1.0-RC1</release><versions><version>4.0.6</version><version>4.1.0.Final</version>"
         "<version>4.1.1-M1</version><version>4.2-SNAPSHOT</version></versions>"
         "<lastUpdated>20260423101112</lastUpdated></versioning></metadata>", {"Content-Type": "text/xml"})
MAVEN_FOLDER = (200, '<!DOCTYPE html><html><head><title>Central: g/h/a</title></head><body><h1>g/h/a</h1><hr/><pre>'
                '<a href="../">../</a>\n'
                '<a href="4.0.6/" title="4.0.6/">4.0.6/</a>                              2026-05-01 08:00         -\n'
                '<a href="4.1.1-M1/" title="4.1.1-M1/">4.1.1-M1/</a>                     2026-06-01 08:00         -\n'
                '<a href="maven-metadata.xml">maven-metadata.xml</a>      2026-06-02 08:00       600\n'
                '</pre></body></html>', {"Content-Type": "text/html"})
CPAN = {"total": 3, "releases": [
    {"name": "Mojo-Lite-9.41_01", "version": "9.41_01", "date": "2026-06-01T08:00:00", "author": "SRI",
     "status": "cpan", "maturity": "developer", "authorized": True},
    {"name": "Mojo-Lite-9.5", "version": "9.5", "date": "2026-05-20T08:00:00", "author": "EVIL",
     "status": "cpan", "maturity": "released", "authorized": False},
    {"name": "Mojo-Lite-9.40", "version": "9.40", "date": "2026-05-01T08:00:00", "author": "SRI", "status": "latest",
     "maturity": "released", "authorized": True}]}
CPAN_CHANGES = {"content": "Revision history\n\n9.40  2026-05-01\n  - Fixes CVE-2026-1234 & more\n\n"
                           "9.4 2025-01-01\n  - Fixes CVE-2025-0001\n"}
CPAN_FOUND = [
    ("9.41_01", JUNE, True, *NOTHING, None),
    ("9.40", MAY, False, "9.40", "<pre>9.40  2026-05-01\n  - Fixes CVE-2026-1234 &amp; more</pre>", None)]
NUGET_FOUND = [("2.0.0-beta.1", JUNE, True, *NOTHING, None), ("1.0.0.1", MAY, False, *NOTHING, None)]
PACKAGIST = {"minified": "composer/2.0", "packages": {"v/p": [
    {"version": "3.0.0-beta1", "version_normalized": "3.0.0.0-beta1", "time": "2026-06-01T10:00:00+02:00",
     "source": {"url": "https://github.com/v/p.git", "reference": "b" * 40}, "abandoned": True},
    {"version": "2.0.0-p1", "version_normalized": "2.0.0.0-patch1", "time": MAY, "source": {"reference": "a" * 40}},
    {"version": "dev-main", "version_normalized": "dev-main", "time": JUNE},
    {"version": "1.1.0", "version_normalized": "1.1.0.0", "source": "__unset", "abandoned": "__unset", "time": MAY},
    {"version": "1.0.0", "version_normalized": "1.0.0.0"}]}}


def file_item(path: str, date: str) -> tuple[str, str, str, str]:
    return (f"<![CDATA[{path}]]>", f"https://sourceforge.net/projects/foo/files{path}/download", date,
            f"<![CDATA[{path}]]>")


SOURCEFORGE = rss(
    file_item("/1.3/README.md",                     "Wed, 03 Jun 2026 08:00:00 UT"),
    file_item("/1.3/1.3.0/foo-1.3.0-rc2.tar.gz",    "Mon, 01 Jun 2026 09:00:00 UT"),
    file_item("/1.3/1.3.0-rc2/foo-setup.exe",       "Mon, 01 Jun 2026 08:00:00 UT"),
    file_item("/1.3/1.3.0-rc2/foo-setup.exe.asc",   "Sun, 03 May 2026 08:00:00 UT"),
    file_item("/1.2/1.2.3/foo-1.2.3.zip",           "Fri, 01 May 2026 10:00:00 UT"),
    file_item("/1.2/1.2.3/foo-1.2.3-x86_64.tar.xz", "Fri, 01 May 2026 08:00:00 UT"),
    file_item("/1.2/1.2.3/sha256sums.txt",          "Tue, 03 Feb 2026 10:00:00 UT"),
    file_item("/ubuntu-22.04LTS/foo_1.1_amd64.deb", "Wed, 01 Apr 2026 08:00:00 UT"),
    file_item("/README",                            "Fri, 01 May 2026 08:00:00 UT"))

LISTED |= {
    "artifacthub": ("artifacthub", "helm/r/p", None, {
        "/api/v1/packages/helm/r/p": ARTIFACT, "/api/v1/packages/0-1/changelog": ARTIFACT_CHANGES}, [
        ("1.20.0-alpha.0", JUNE, True, *NOTHING, None),
        ("1.19.0", MAY, False, "1.19.0", "<ul><li>security CVE-2026-1234 &lt;fixed&gt;</li><li> Faster</li></ul>",
         None)]),
    "artifacthub without a list of changes": ("artifacthub", "helm/r/p", None, {
        "/api/v1/packages/helm/r/p": ARTIFACT, "/api/v1/packages/0-1/changelog": (404, {})}, [
        ("1.20.0-alpha.0", JUNE, True, *NOTHING, None), ("1.19.0", MAY, False, *NOTHING, None)]),
    "bitbucket": ("bitbucket", "w/r", None, {"/2.0/repositories/w/r/refs/tags": bitbucket_tags}, [
        ("v1.1-rc1", JUNE, True, "v1.1-rc1", "<pre>Fixes CVE-2026-1 &lt;b&gt;\n</pre>", SECOND_TAG),
        ("v1.0", MAY, False, *NOTHING, FIRST_TAG)]),
    "cargo": ("cargo", "Serde_json", None, {"/se/rd/serde_json": (200, CRATE)}, CRATES),
    "cargo of one letter": ("cargo", "a", None, {"/1/a": (200, CRATE)}, CRATES),
    "cargo of two letters": ("cargo", "ab", None, {"/2/ab": (200, CRATE)}, CRATES),
    "cargo of three letters": ("cargo", "Abc", None, {"/3/a/abc": (200, CRATE)}, CRATES),
    "git": ("git", "{site}/any/r.git", None, {"/any/r.git/info/refs": ADVERTISED}, ADVERTISED_TAGS),
    "go": ("goproxy", "github.com/BurntSushi/toml", None, {
        "/github.com/!burnt!sushi/toml/@v/list": (200, "v1.2.0\nv2.0.0+incompatible\nv1.10.0-rc.1\n"),
        **{f"/github.com/!burnt!sushi/toml/@v/{version}.info": info for version, info in GO_INFO.items()}}, [
        ("v1.10.0-rc.1", JUNE, True, *NOTHING, None), ("v1.2.0", MAY, False, *NOTHING, None),
        ("v2.0.0+incompatible", "2026-04-01T08:00:00Z", False, *NOTHING, None)]),
    "go with a second major version": ("goproxy", "example.org/m", None, {
        "/example.org/m/@v/list": (200, "v1.2.0\n"), "/example.org/m/@v/v1.2.0.info": GO_INFO["v1.2.0"],
        "/example.org/m/v2/@v/list": (200, "v2.0.0\n"), "/example.org/m/v2/@v/v2.0.0.info": {
            "Version": "v2.0.0", "Time": JUNE}}, [
        ("v2.0.0", JUNE, False, *NOTHING, None), ("v1.2.0", MAY, False, *NOTHING, None)]),
    "go whose list does not end its last line": ("goproxy", "m.example/x", None, {
        "/m.example/x/@v/list": (200, "v1.2.0\nv1.10.0-rc.1"),
        **{f"/m.example/x/@v/{version}.info": info for version, info in GO_INFO.items()}}, [    # as Athens answers
        ("v1.10.0-rc.1", JUNE, True, *NOTHING, None), ("v1.2.0", MAY, False, *NOTHING, None)]),
    "go that takes versions back": ("goproxy", "m.example/x", None, {
        "/m.example/x/@v/list": (200, "v1.0.0\nv1.0.1\nv1.1.0\nv1.2.0\nv1.3.0\nv1.10.0\n"),
        "/m.example/x/@v/v1.10.0.mod": (200, GO_MOD)}, [
        ("v1.10.0", None, False, *NOTHING, None), ("v1.3.0", None, False, *NOTHING, None)]),
    "go without tags": ("goproxy", "m.example/x", None, {
        "/m.example/x/@v/list": (200, ""), "/m.example/x/@latest": {
            "Version": "v0.0.0-20260601080000-0123456789ab", "Time": JUNE}}, [
        ("v0.0.0-20260601080000-0123456789ab", JUNE, True, *NOTHING, None)]),
    "hackage": ("hackage", "text-icu", None, {"/package/text-icu.rss": rss(
        ("text-icu-3.10 (Bindings)", "https://hackage.example/package/text-icu-3.10", "Mon, 01 Jun 2026 08:00:00 UT",
         HACKAGE_LOG),
        ("text-icu-3.1 (Bindings)", "https://hackage.example/package/text-icu-3.1", "Fri, 01 May 2026 08:00:00 UT",
         HACKAGE_LOG),
        ("text-icu-3 (Bindings)", "https://hackage.example/package/text-icu-3", "Tue, 03 Feb 2026 10:00:00 UTC",
         HACKAGE_LOG))}, [
        ("3.10", JUNE, False, "3.10", "<h2>3.10 (2026)</h2><p>Fixes CVE-2026-1234</p>", None),
        ("3.1", MAY, False, "3.1", "<h2>3.1 (2026)</h2><p>Fixes CVE-2025-0001</p>", None),
        ("3", "2026-02-03T10:00:00Z", False, *NOTHING, None)]),
    "hex": ("hex", "plug", None, {"/api/packages/plug": {
        "name": "plug", "latest_version": "1.17.0-rc.0", "latest_stable_version": "1.16.1",
        "html_url": "https://hex.pm/packages/plug", "releases": [
            {"version": "1.17.0-rc.0", "inserted_at": "2026-06-01T08:00:00.120000Z"},
            {"version": "1.16.1", "inserted_at": MAY}, {"version": "1.0.0", "inserted_at": MAY}],
        "retirements": {"1.0.0": {"reason": "security", "message": "x"}}}}, [
        ("1.17.0-rc.0", JUNE_120, True, *NOTHING, None), ("1.16.1", MAY, False, *NOTHING, None)]),
    "maven": ("maven", "g.h:a", None, {"/g/h/a/maven-metadata.xml": MAVEN, "/g/h/a/": MAVEN_FOLDER}, [
        ("4.1.1-M1", JUNE, True, *NOTHING, None), ("4.0.6", MAY, False, *NOTHING, None),
        ("4.1.0.Final", None, False, *NOTHING, None)]),
    "maven without a listing": ("maven", "g.h:a", None, {"/g/h/a/maven-metadata.xml": MAVEN}, [
        ("4.1.1-M1", None, True, *NOTHING, None), ("4.0.6", None, False, *NOTHING, None),
        ("4.1.0.Final", None, False, *NOTHING, None)]),
    "metacpan": ("metacpan", "Mojo-Lite", None, {
        "/v1/release/versions/Mojo-Lite": CPAN, "/v1/changes/SRI/Mojo-Lite-9.40": CPAN_CHANGES}, CPAN_FOUND),
    "metacpan by a module's name": ("metacpan", "Mojo-Lite-Base", None, {
        "/v1/release/versions/Mojo-Lite-Base": {"total": 0, "releases": []},
        "/v1/module/Mojo::Lite::Base": {"distribution": "Mojo-Lite"},
        "/v1/release/versions/Mojo-Lite": CPAN, "/v1/changes/SRI/Mojo-Lite-9.40": CPAN_CHANGES}, CPAN_FOUND),
    "nuget": ("nuget", "New.Json", None, {
        "/v3/index.json": nuget_index("/reg/"), "/reg/new.json/index.json": {"count": 1, "items": [
            {"@id": "x", "items": [leaf("0.9.0", "1900-01-01T00:00:00+00:00", False),
                                   leaf("1.0.0.1", "2026-05-01T08:00:00+00:00"),
                                   leaf("2.0.0-beta.1+sha.1", JUNE)]}]}}, NUGET_FOUND),
    "nuget of many versions": ("nuget", "New.Json", None, {
        "/v3/index.json": nuget_index("/reg/"),
        "/reg/new.json/index.json": lambda seen: {"count": 2, "items": [
            {"@id": f"{here(seen)}/reg/new.json/page/1.json", "lower": "0.9.0", "upper": "1.0.0.1"},
            {"@id": f"{here(seen)}/reg/new.json/page/2.json", "lower": "2.0.0", "upper": "2.0.0"}]},
        "/reg/new.json/page/1.json": {"items": [leaf("0.9.0", None, False), leaf("1.0.0.1", MAY)]},
        "/reg/new.json/page/2.json": {"items": [leaf("2.0.0-beta.1", JUNE)]}}, NUGET_FOUND),
    "packagist": ("packagist", "v/p", None, {"/p2/v/p.json": PACKAGIST}, [
        ("3.0.0-beta1", JUNE, True, *NOTHING, SECOND_TAG), ("2.0.0-p1", MAY, False, *NOTHING, FIRST_TAG),
        ("1.1.0", MAY, False, *NOTHING, None), ("1.0.0", MAY, False, *NOTHING, None)]),
    "pub": ("pub", "http", None, {"/api/packages/http": {
        "name": "http", "latest": {"version": "1.5.0"}, "versions": [
            {"version": "1.4.0", "published": AMAY, "pubspec": {}}, {"version": "1.5.0", "pubspec": {}},
            {"version": "1.4.1", "published": MAY, "retracted": True, "pubspec": {}},
            {"version": "1.6.0-beta", "published": JUNE, "pubspec": {}}]}}, [
        ("1.6.0-beta", JUNE, True, *NOTHING, None), ("1.4.0", MAY_120, False, *NOTHING, None),
        ("1.5.0", None, False, *NOTHING, None)]),
    "quay": ("quay", "o/i", None, {"/api/v1/repository/o/i/tag/": quay_tags}, [
        ("v3.1-rc.1", JUNE, True, *NOTHING, "digest:sha256:b"), ("v3.0", MAY, False, *NOTHING, "digest:sha256:a")]),
    "rubygems": ("rubygems", "rails", None, {"/api/v1/versions/rails.json": [
        {"number": "8.1.0.rc1", "platform": "ruby", "prerelease": True, "created_at": AJUNE, "built_at": MAY},
        {"number": "8.0.0", "platform": "java", "prerelease": False, "created_at": JUNE},
        {"number": "8.0.0", "platform": "ruby", "prerelease": False, "created_at": MAY}]}, [
        ("8.1.0.rc1", JUNE_120, True, *NOTHING, None), ("8.0.0", MAY, False, *NOTHING, None)]),
    "savannah": ("savannah", "bash", None, {"/git/bash.git/info/refs": ADVERTISED}, ADVERTISED_TAGS),
    "sourceforge": ("sourceforge", "foo", None, {"/projects/foo/rss": SOURCEFORGE}, [
        ("1.3.0", "2026-06-01T09:00:00Z", False, *NOTHING, None), ("1.3.0-rc2", JUNE, True, *NOTHING, None),
        ("1.2.3", MAY, False, *NOTHING, None), ("1.1", "2026-04-01T08:00:00Z", False, *NOTHING, None)]),
    "sourcehut": ("sourcehut", "~u/r", None, {"/~u/r/refs/rss.xml": rss(
        ("1.4.0-rc1", "https://git.sr.ht/~u/r/refs/1.4.0-rc1", "Mon, 01 Jun 2026 10:00:00 +0200", "&lt;p&gt;x&lt;/p&gt;"),
        ("1.3.0", "https://git.sr.ht/~u/r/refs/1.3.0", "Fri, 01 May 2026 08:00:00 +0000", ""))}, [
        ("1.4.0-rc1", JUNE, True, "1.4.0-rc1", "<p>x</p>", None), ("1.3.0", MAY, False, *NOTHING, None)]),
}


@pytest.mark.parametrize("case", LISTED)
def test_what_a_provider_has_is_read(listen, case):
    dialect, name, token, answers_by_path, expected = LISTED[case]
    site = listen(answering(answers_by_path)).url
    found = listed(dialect, site, name.replace("{site}", site), token)
    assert sorted(found, key=repr) == sorted(expected, key=repr)        # those of one date stand in no promised order
    dates = [row[1] or "" for row in found]
    assert dates == sorted(dates, reverse=True)


def test_every_dialect_is_read():
    assert {row[0] for row in LISTED.values()} == set(rt.DIALECTS)


@pytest.mark.parametrize("case, cves", [
    ("hackage",     {"3.10": ("CVE-2026-1234",), "3.1": ("CVE-2025-0001",), "3": ()}),
    ("metacpan",    {"9.41_01": (), "9.40": ("CVE-2026-1234",)}),
    ("artifacthub", {"1.20.0-alpha.0": (), "1.19.0": ("CVE-2026-1234",)}),
])
def test_of_a_log_of_all_changes_only_the_version_s_own_cves_are_named(listen, case, cves):
    dialect, name, token, answers_by_path, _ = LISTED[case]
    row = row_of(dialect, listen(answering(answers_by_path)).url)
    listing = rt.releases_of(row, name, rt.Fetcher(rt.Settings()).fetch, token)
    assert {release.version: release.cve for release in listing.releases} == cves


@pytest.mark.parametrize("case, links", [
    ("artifacthub", ["{site}/packages/helm/r/p/1.19.0"]),
    ("bitbucket",   ["https://bitbucket.org/w/r/src/v1.1-rc1"]),
    ("hackage",     ["https://hackage.example/package/text-icu-3.1", "https://hackage.example/package/text-icu-3.10"]),
    ("metacpan",    ["https://metacpan.org/release/SRI/Mojo-Lite-9.40/changes"]),
    ("sourcehut",   ["https://git.sr.ht/~u/r/refs/1.4.0-rc1"]),
])
def test_a_note_says_where_it_stands(listen, case, links):
    dialect, name, token, answers_by_path, _ = LISTED[case]
    row = row_of(dialect, listen(answering(answers_by_path)).url)
    listing = rt.releases_of(row, name, rt.Fetcher(rt.Settings()).fetch, token)
    assert sorted(release.note.url for release in listing.releases if release.note) == [
        link.replace("{site}", row.site) for link in links]


def test_a_module_s_distribution_is_what_is_tracked(listen):
    answers_by_path = LISTED["metacpan by a module's name"][3]
    row = row_of("metacpan", listen(answering(answers_by_path)).url)
    assert rt.releases_of(row, "Mojo-Lite-Base", rt.Fetcher(rt.Settings()).fetch).name == "Mojo-Lite"


@pytest.mark.parametrize("module", [404, {"distribution": "No-Such"}])
def test_a_distribution_that_is_not_there_is_missing_though_its_list_is_only_empty(listen, module):
    site = listen(answering({"/v1/release/versions/No-Such": {"total": 0, "releases": []},
                             "/v1/module/No::Such": module})).url
    with pytest.raises(rt.ProjectMissing, match="No-Such"):
        listed("metacpan", site, "No-Such")


@pytest.mark.parametrize("name_now", [None, True, 5, 1.5, [], ["o/r"], {}, {"a": 1}])
@pytest.mark.parametrize("dialect, field", [("forgejo", "full_name"), ("gitlab", "path_with_namespace")])
def test_what_a_host_calls_a_project_that_it_moved_is_text_or_nothing(dialect, field, name_now):
    entry = {"forgejo": [FORGEJO_RELEASES[0] | {"body": ""}], "gitlab": GITLAB_RELEASES[:1]}[dialect]

    def ask(request: rt.Request) -> rt.Answer:
        is_list = "/releases?" in request.url
        url = request.url.replace("o%2Fr", "7").replace("o/r", "n/r")
        return rt.Answer(url, 200, {}, json.dumps(entry if is_list else {field: name_now}).encode(), request.url)
    listing = rt.releases_of(row_of(dialect, "https://h.example"), "o/r", ask)
    assert listing.releases and listing.name is None


# What is asked is under "GET" and a path; a page, a changelog or a date that is known is not asked for again.
@pytest.mark.parametrize("case, known, requests", [
    ("artifacthub",                    ["1.20.0-alpha.0", "1.19.0"],   1),
    ("artifacthub",                    ["1.19.0"],                     2),
    ("bitbucket",                      ["v1.1-rc1"],                   1),
    ("quay",                           ["v3.1-rc.1"],                  1),     # its page holds a signature as well
    ("nuget",                          [],                             2),
    ("nuget of many versions",         [],                             4),
    ("nuget of many versions",         ["2.0.0-beta.1"],               3),
    ("maven",                          ["4.0.6", "4.1.0.Final", "4.1.1-M1", "4.2-SNAPSHOT"], 1),
    ("maven",                          ["4.0.6"],                      2),
    ("metacpan",                       ["9.41_01", "9.5", "9.40"],     1),
    ("metacpan",                       ["9.5", "9.41_01"],             2),
    ("go",                             list(GO_INFO),                  2),      # its list, and that of a next major
    ("go",                             ["v1.2.0"],                     5),      # go.mod, and two dates
    ("go with a second major version", ["v1.2.0", "v2.0.0"],           3),
    ("cargo",                          [],                             1),
])
def test_what_is_known_is_not_asked_for_again(listen, case, known, requests):
    dialect, name, token, answers_by_path, _ = LISTED[case]
    provider = listen(answering(answers_by_path))
    listed(dialect, provider.url, name, known=dict.fromkeys(known, rt.Known(MAY, None, None)))
    assert len(provider.seen) == requests, [seen.path for seen in provider.seen]


def test_a_go_proxy_is_asked_for_what_it_has_and_to_fetch_nothing(listen):
    provider = listen(answering(LISTED["go with a second major version"][3]))
    listed("goproxy", provider.url, "example.org/m")
    assert {seen.headers["disable-module-fetch"] for seen in provider.seen} == {"true"}


@pytest.mark.parametrize("provider, name, answers_by_url, expected", [
    ("cargo", "foo", {
        "https://index.crates.io/3/f/foo": CRATE,
        "https://crates.io/api/v1/crates/foo/versions?per_page=100&sort=date": json.dumps({"versions": [
            {"num": "0.2.0", "created_at": "2026-02-03T10:00:00.5+00:00"}]})},
     {"0.4.0-rc.1": JUNE, "0.3.1+build.5": MAY, "0.2.0": "2026-02-03T10:00:00.500000Z"}),
    ("cargo", "foo", {"https://index.crates.io/3/f/foo": CRATE},
     {"0.4.0-rc.1": JUNE, "0.3.1+build.5": MAY, "0.2.0": None}),
    ("go", "example.org/M", {
        "https://proxy.golang.org/example.org/!m/@v/list": "v1.0.0\nv1.1.0\n",
        "https://proxy.golang.org/example.org/!m/@v/v1.1.0.info": json.dumps({"Version": "v1.1.0", "Time": JUNE}),
        "https://api.deps.dev/v3/systems/GO/packages/example.org%2FM": json.dumps({"versions": [
            {"versionKey": {"system": "GO", "name": "example.org/M", "version": "v1.0.0"}, "publishedAt": MAY}]})},
     {"v1.1.0": JUNE, "v1.0.0": MAY}),
])
def test_dates_that_a_public_registry_does_not_tell_are_asked_for_beside_it(provider, name, answers_by_url, expected):
    def ask(request: rt.Request) -> rt.Answer:
        body = answers_by_url.get(request.url)
        return rt.Answer(request.url, 200 if body else 404, {}, (body or "").encode(), request.url)
    listing = rt.releases_of(rt.PROVIDERS[provider], name, ask)
    assert {release.version: release.date for release in listing.releases} == expected


# What a dialect asks for first, to the letter: an order that is left out makes the newest be on no page that is read.
@pytest.mark.parametrize("dialect, name, url", [
    ("bitbucket", "w/r",  "/2.0/repositories/w/r/refs/tags?sort=-target.date&pagelen=100"),
    ("dockerhub", "o/i",  "/v2/repositories/o/i/tags?page_size=100&ordering=last_updated"),
    ("forgejo",   "o/r",  "/api/v1/repos/o/r/releases?draft=false&page=1&limit=50"),
    ("gitlab",    "g/p",  "/api/v4/projects/g%2Fp/releases?per_page=100&order_by=released_at&sort=desc"
                          "&include_html_description=true"),
    ("oci",       "o/i",  "/v2/o/i/tags/list?n=1000"),
    ("quay",      "o/i",  "/api/v1/repository/o/i/tag/?limit=100&onlyActiveTags=true&page=1"),
    ("sourceforge", "p",  "/projects/p/rss?path=/"),
])
def test_what_is_asked_for_first_is_what_the_api_documents(listen, dialect, name, url):
    provider = listen(404)
    with pytest.raises(rt.ProviderError):
        listed(dialect, provider.url, name)
    assert provider.seen[0].path == url


@pytest.mark.parametrize("case", ["github", "github feed", "gitlab", "forgejo", "hackage", "sourceforge", "sourcehut"])
def test_a_list_of_the_newest_alone_says_that_it_is_one(listen, case):
    dialect, name, token, answers_by_path, _ = LISTED[case]
    site = listen(answering(answers_by_path)).url
    assert rt.releases_of(row_of(dialect, site), name, rt.Fetcher(rt.Settings()).fetch, token).is_window


@pytest.mark.parametrize("dialect, path, body", [
    ("npm",         "/p",                                                   {}),
    ("npm",         "/p",                                                   {"error": "x"}),
    ("npm",         "/p",                                                   {"versions": []}),
    ("cargo",       "/1/p",                                                 b""),
    ("depsdev",     "/v3/systems/NPM/packages/p",                           {"versions": {}}),
    ("hex",         "/api/packages/p",                                      {"releases": {}}),
    ("pub",         "/api/packages/p",                                      {"versions": {}}),
    ("metacpan",    "/v1/release/versions/p",                               {"releases": {}}),
    ("packagist",   "/p2/p/p.json",                                         {"packages": {"p/p": {}}}),
    ("bitbucket",   "/2.0/repositories/p/p/refs/tags",                      {"values": {}}),
    ("dockerhub",   "/v2/repositories/p/p/tags",                            {"results": {}}),
    ("quay",        "/api/v1/repository/p/p/tag/",                          {"tags": {}}),
    ("hackage",     "/package/p.rss",                                       b"<rss></rss>"),
    ("sourcehut",   "/~p/p/refs/rss.xml",                                   b"<rss></rss>"),
    ("sourceforge", "/projects/p/rss",                                      b"<rss></rss>"),
    ("maven",       "/p/p/maven-metadata.xml",                              b"<metadata/>"),
])
def test_what_lacks_its_list_is_no_project_without_releases(listen, dialect, path, body):
    """Else the list that comes next would be news, all of it."""
    name = {"packagist": "p/p", "bitbucket": "p/p", "dockerhub": "p/p", "quay": "p/p", "maven": "p:p",
            "sourcehut": "~p/p"}.get(dialect, "p")
    with pytest.raises(rt.ProviderError, match="answered no list of releases"):
        listed(dialect, listen(answering({path: (200, body)})).url, name)


def test_an_unpublished_package_is_there_without_a_version(listen):
    site = listen(answering({"/p": {"name": "p", "time": {"unpublished": {"time": MAY}}}})).url
    assert listed("npm", site, "p") == []


def test_a_page_with_a_tag_that_is_no_release_is_known_all_the_same(listen):
    def answer(seen: Seen) -> Any:
        page = int((re.search(r"page=(\d+)$", seen.path) or [0, 1])[1])
        entries = [{"name": f"{9 - page}.0{suffix}", "last_updated": MAY, "digest": f"sha256:{page}"}
                   for suffix in ("", "-amd64")]
        return 200, {"results": entries, "next": f"{provider.url}{seen.path.partition('&page')[0]}&page={page + 1}"}
    provider = listen(answer)
    first = listed("dockerhub", provider.url, "o/i")
    assert len(provider.seen) == 10
    provider.seen.clear()
    listed("dockerhub", provider.url, "o/i", known={row[0]: rt.Known(row[1], row[5], None) for row in first})
    assert len(provider.seen) == 1


def test_releases_that_are_shown_no_more_do_not_make_tags_news_though_the_next_answer_is_another(listen):
    answers = iter((403, (200, [])))
    provider = listen(lambda seen: next(answers, 404) if "/releases?" in seen.path else (200, GITLAB_TAGS))
    known = {"v1": rt.Known(MAY, f"published:{MAY}", None)}
    with pytest.raises(rt.ProviderError, match="does not show the releases of g/p any more"):
        listed("gitlab", provider.url, "g/p", known=known)


def test_every_known_major_version_of_a_go_module_is_asked_for(listen):
    lists = {"": "v1.0.0\n", "/v2": "v2.0.0\nv2.0.1\n", "/v3": "v3.0.0\n"}
    answers = {f"/m{major}/@v/list": (200, text) for major, text in lists.items()}
    provider = listen(answering(answers))
    known = {version: rt.Known(MAY, None, None) for version in ("v1.0.0", "v2.0.0", "v3.0.0")}
    assert "v2.0.1" in [row[0] for row in listed("goproxy", provider.url, "m", known=known)]
    assert "/m/v5/@v/list" not in [seen.path for seen in provider.seen]


def test_a_project_of_gitlab_s_that_is_named_by_its_number_gets_its_name(listen):
    site = listen(answering({"/api/v4/projects/7/releases": GITLAB_RELEASES,
                             "/api/v4/projects/7": {"path_with_namespace": "g/p"}})).url
    assert rt.releases_of(row_of("gitlab", site), "7", rt.Fetcher(rt.Settings()).fetch).name == "g/p"


def test_of_every_page_of_google_s_registries_the_dates_are_read(listen):
    pages = {"/v2/p/i/tags/list?n=1000": (200, {**GOOGLE["/v2/p/i/tags/list"], "tags": ["v1"]}, {
                 "Link": '</v2/p/i/tags/list?n=1000&last=v1>; rel="next"'}),
             "/v2/p/i/tags/list?n=1000&last=v1": {"tags": ["v9"], "manifest": {
                 "sha256:c": {"tag": ["v9"], "timeUploadedMs": "1780300800000"}}}}
    found = {row[0]: row[1] for row in listed("oci", listen(answering(pages)).url, "p/i")}
    assert found["v9"] == JUNE


def test_an_item_of_a_feed_without_a_date_does_not_hide_the_others(listen):
    feed = rss(("1.1", "https://x.example/1.1", "Fri, 01 May 2026 08:00:00 UT", ""))[1].replace(
        "</channel>", "<item><title>2</title></item></channel>")
    assert [row[0] for row in listed("sourcehut", listen(answering({"/~u/r/refs/rss.xml": (200, feed)})).url, "~u/r")] == [
        "1.1"]


@pytest.mark.parametrize("where", ["a realm that is not https", "another host that asked"])
def test_a_registry_s_password_goes_to_nobody_who_could_have_been_listened_to_or_is_another(where):
    row = dataclasses.replace(rt.PROVIDERS["ghcr"])
    sent: list[rt.Request] = []

    def ask(request: rt.Request) -> rt.Answer:
        sent.append(request)
        if "/token" in request.url:
            return rt.Answer(request.url, 200, {}, b'{"token": "t"}', request.url)
        elsewhere = request.url.replace("ghcr.io", "mirror.example") if where != "a realm that is not https" else request.url
        realm = "http://ghcr.io/token" if where == "a realm that is not https" else "https://mirror.example/token"
        return rt.Answer(elsewhere, 401, {"www-authenticate": f'Bearer realm="{realm}"'}, b"", request.url)
    with pytest.raises(rt.ProviderError):
        rt.releases_of(row, "o/i", ask, "me:word")
    assert not [request for request in sent if any(
        value.startswith("Basic") for name, value in request.headers.items() if name == "Authorization")]


def test_names_of_files_that_a_hostile_index_lists_are_read_in_good_time():
    begin = time.monotonic()
    rt._version_of_file("a-" * 100_000 + "1.0.zip", "a")
    for _ in range(20_000):
        rt._version_of_file("x-" * 90 + "1.0.zip", "holy-grail")
    assert time.monotonic() - begin < 5


def test_a_provider_of_one_s_own_takes_nothing_from_the_public_one_of_its_dialect():
    table = rt.providers_with([("acme", "packagist", "https://pk.example"), ("corp", "nuget", "https://nu.example")])
    assert rt.project_in(table, "https://packagist.org/packages/v/p")[0].id == "packagist"
    assert rt.project_at(table, "packagist", "https://packagist.org/packages/v/p")[1] == "v/p"
    assert rt.project_in(table, "https://pk.example/packages/v/p")[0].id == "acme"
    assert rt.page_of(table["acme"], "v/p", "1.0") == "https://pk.example/packages/v/p"
    assert rt.page_of(table["corp"], "Inner") == "https://nu.example"
    moved = rt.providers_with([("packagist", "packagist", "https://mirror.example")])
    assert rt.project_in(moved, "https://packagist.org/packages/v/p")[0].site == "https://mirror.example"


def test_any_repository_is_read_by_its_address_but_not_one_at_a_private_address_for_everybody(listen):
    site = listen(answering({"/any/r.git/info/refs?service=git-upload-pack": ADVERTISED})).url
    fetcher, git = rt.Fetcher(rt.Settings()), rt.PROVIDERS["git"]
    name = rt.name_at(git, f"{site}/any/r.git")[0]
    listing = rt.releases_of(git, name, lambda request: fetcher.fetch(request, is_trusted=True))
    assert [release.version for release in listing.releases] == ["v1.10-rc1", "v1.9"]
    with pytest.raises(rt.Unreachable, match="127.0.0.1 is a private address.*--allow-network"):
        rt.releases_of(git, name, lambda request: fetcher.fetch(request, is_trusted=False))
    allowed = rt.Fetcher(rt.Settings(allow_network=("127.0.0.0/8",)))
    assert rt.releases_of(git, name, lambda request: allowed.fetch(request, is_trusted=False))


def test_a_provider_of_the_operator_s_may_be_at_a_private_address_for_everybody(listen):
    site, fetcher = listen(answering(LISTED["savannah"][3])).url, rt.Fetcher(rt.Settings())
    assert rt.releases_of(row_of("savannah", site), "bash", lambda request: fetcher.fetch(request, is_trusted=False))


@pytest.mark.skipif(not shutil.which("git"), reason="without git there is nothing to compare with")
def test_what_git_itself_advertises_is_read(listen, tmp_path):
    def git(*arguments: str) -> bytes:
        env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        return subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org",
                               *arguments], env=env, check=True, capture_output=True).stdout
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    git("tag", "v1.0")
    git("tag", "-a", "v1.1", "-m", "second")
    git("tag", "größer/1.2")
    head = "001e# service=git-upload-pack\n0000".encode()
    advertised = head + git("upload-pack", "--advertise-refs", str(tmp_path))
    commit = "commit:" + git("rev-parse", "HEAD").decode().strip()
    site = listen(lambda seen: (200, advertised)).url
    assert {(row[0], row[5]) for row in listed("git", site, f"{site}/r")} == {
        ("v1.0", commit), ("v1.1", commit), ("größer/1.2", commit)}


def test_cves_of_a_note_are_named(listen):
    site = listen(answering(LISTED["github"][3])).url
    listing = rt.releases_of(row_of("github", site), "o/r", rt.Fetcher(rt.Settings()).fetch, "token")
    assert [release.cve for release in listing.releases] == [(), ("CVE-2026-1234",)]


def test_pages_are_followed_up_to_what_is_known(listen):
    def answer(seen: Seen) -> Any:
        page = int((re.search(r"&page=(\d+)$", seen.path) or [0, 1])[1])
        entries = [{"name": f"{50 - page}.{part}", "message": "", "commit": {"id": "a", "created_at": MAY}}
                   for part in (1, 0)]
        path = "/api/v4/projects/g%2Fp/repository/tags"
        link = {"Link": f'<{path}?x=1&page={page + 1}>; rel="next", <https://x/>; rel="last"'}
        return (200, entries, link) if "/tags" in seen.path else (200, [])
    provider = listen(answer)
    assert len(listed("gitlab", provider.url, "g/p")) == 20     # ten pages at most
    provider.seen.clear()
    known = dict.fromkeys(("47.1", "47.0", "46.1", "46.0"))
    assert [row[0] for row in listed("gitlab", provider.url, "g/p", known=known)] == [
        "49.1", "49.0", "48.1", "48.0", "47.1", "47.0"]
    assert len(provider.seen) == 4      # the releases, and three pages of tags


def test_of_two_challenges_the_bearer_s_realm_is_asked(listen):
    """As the registries of Forgejo and Gitea answer."""
    def answer(seen: Seen) -> Any:
        if seen.path.startswith("/v2/token"):
            return 200, {"token": "t"}
        if seen.headers.get("authorization") == "Bearer t":
            return 200, {"name": "o/i", "tags": []}
        return 401, {}, {"WWW-Authenticate": f'Bearer realm="{provider.url}/v2/token",service="s",scope="*", '
                                             'Basic realm="Gitea Container Registry"'}
    provider = listen(answer)
    assert listed("oci", provider.url, "o/i") == []


def test_a_token_goes_to_no_other_host_with_the_next_page_after_a_redirect(listen):
    other = listen(lambda seen: (200, GITLAB_TAGS if "/tags" in seen.path else [], {
        "Link": f'<{other.url}/api/v4/projects/g%2Fp/repository/tags?page=2>; rel="next"'}))
    provider = listen(lambda seen: (302, b"", {"Location": other.url + seen.path}))
    listed("gitlab", provider.url, "g/p", "secret")
    assert other.seen and not [seen for seen in other.seen if "private-token" in seen.headers]


def test_where_a_host_thinks_that_it_is_elsewhere_its_next_page_is_asked_where_it_is(listen):
    def answer(seen: Seen) -> Any:
        page = int((re.search(r"[?&]page=(\d+)", seen.path) or [0, 1])[1])
        entry = {"tag_name": f"v{page}", "name": "", "body": "", "draft": False, "prerelease": False,
                 "html_url": "", "published_at": MAY}
        link = {"Link": f'<https://root.example/api/v1/repos/o/r/releases?page={page + 1}>; rel="next"'}
        return (200, [entry], link if page < 3 else {}) if "/releases?" in seen.path else (404, {})
    provider = listen(answer)
    assert sorted(row[0] for row in listed("forgejo", provider.url, "o/r")) == ["v1", "v2", "v3"]


def test_every_page_of_github_s_tags_is_read_for_they_are_in_no_order(listen):
    def answer(seen: Seen) -> Any:
        if "/tags" not in seen.path:
            return 200, []
        page = int((re.search(r"[?&]page=(\d+)", seen.path) or [0, 1])[1])
        entries = [{"name": f"v{n}", "commit": {"sha": "a"}} for n in ((9, 8) if page == 1 else (10, 1))]
        return 200, entries, {"Link": f'<{seen.path.partition("&page")[0]}&page=2>; rel="next"'} if page == 1 else {}
    provider = listen(answer)
    known = {name: rt.Known(MAY, "commit:a", None) for name in ("v9", "v8", "v1")}
    assert "v10" in [row[0] for row in listed("github", provider.url, "o/r", "t", known=known)]


def test_what_keeps_programs_out_of_the_releases_does_not_make_tags_news(listen):
    provider = listen(lambda seen: (403, "<html>") if "/releases" in seen.path else (200, GITLAB_TAGS))
    known = {"v1": rt.Known(MAY, f"published:{MAY}", None)}
    with pytest.raises(rt.ProviderError, match="status 403"):
        listed("gitlab", provider.url, "g/p", known=known)


def test_an_image_that_says_nonsense_of_its_making_has_no_date(listen):
    def answer(seen: Seen) -> Any:
        if "/tags/list" in seen.path:
            return 200, {"name": "o/i", "tags": ["1.0"]}
        return 200, {"annotations": {"org.opencontainers.image.created": "2026-11-01T10:00Z"}}, {
            "Docker-Content-Digest": "sha256:a"}
    provider = listen(answer)
    assert [(row[0], row[1]) for row in listed("oci", provider.url, "o/i")] == [("1.0", None)]


def test_a_name_may_begin_with_a_dot_but_be_no_way_up():
    github = rt.PROVIDERS["github"]
    assert rt.name_at(github, "owner/.github")[0] == "owner/.github"
    for name in ("owner/..", "./repo", "../repo", "owner/."):
        with pytest.raises(rt.Invalid):
            rt.name_at(github, name)


def test_pages_elsewhere_are_not_followed(listen):
    other = listen(lambda seen: (200, []))
    link = {"Link": f'<{other.url}/next>; rel="next"'}
    provider = listen(lambda seen: (200, GITLAB_TAGS if "/tags" in seen.path else [], link))
    assert len(listed("gitlab", provider.url, "g/p", "secret")) == 2
    assert other.seen == []


def test_dockerhub_is_read_up_to_the_first_page_that_is_known(listen):
    def answer(seen: Seen) -> Any:
        page = int((re.search(r"[?&]page=(\d+)", seen.path) or [0, 1])[1])
        results = [{"name": f"{9 - page}.0", "last_updated": MAY, "tag_last_pushed": MAY, "digest": "sha256:a"}]
        return 200, {"next": f"{provider.url}/v2/repositories/o/i/tags?page={page + 1}", "results": results}
    provider = listen(answer)
    assert [row[0] for row in listed("dockerhub", provider.url, "o/i", known={
        "6.0": rt.Known(MAY, "digest:sha256:a", None)})] == ["8.0", "7.0", "6.0"]
    assert "page_size=100" in provider.seen[0].path and "ordering=last_updated" in provider.seen[0].path
    assert len(provider.seen) == 3


def test_npm_asks_for_the_long_form_only_when_there_is_something_new(listen):
    provider = listen(answering(LISTED["npm"][3]))
    listed("npm", provider.url, "@s/p", known={"1.0.0": None, "2.0.0-beta.1": None})
    assert len(provider.seen) == 1 and "application/vnd.npm.install-v1+json" in provider.seen[0].headers["accept"]
    listed("npm", provider.url, "@s/p", known={"1.0.0": None})
    assert len(provider.seen) == 3 and "install-v1" not in provider.seen[2].headers["accept"]


def test_forgejo_asks_for_the_feed_only_when_a_note_is_new_or_was_edited(listen):
    provider = listen(answering(LISTED["forgejo"][3]))
    table = rt.providers_with([("f", "forgejo", provider.url)])

    def feeds(known):
        provider.seen.clear()
        listing = rt.releases_of(table["f"], "o/r", rt.Fetcher(rt.Settings()).fetch, None, known)
        return listing, sum("releases.rss" in seen.path for seen in provider.seen)

    listing, asked = feeds({})
    assert asked == 1
    known = {one.version: rt.Known(one.date or "", one.evidence, one.note.fingerprint if one.note else None)
             for one in listing.releases}
    listing, asked = feeds(known)
    assert asked == 0 and not rt.compare(known, listing, 0.0)[0].noted      # the rendered notes stay
    noted = next(one.version for one in listing.releases if one.note)
    assert feeds({**known, noted: dataclasses.replace(known[noted], fingerprint=1)})[1] == 1


def test_a_registry_that_wants_a_token_is_asked_for_one_of_its_realm(listen):
    def answer(seen: Seen) -> Any:
        path, _, query = seen.path.partition("?")
        if path == "/token":
            asked = dict(urllib.parse.parse_qsl(query))
            assert asked["service"] == "r.example"
            return 200, {"access_token": f"for {asked['scope']}", "expires_in": 300}
        if seen.headers.get("authorization") != "Bearer for repository:o/i:pull":
            return 401, {"errors": []}, {"WWW-Authenticate": (
                f'Basic realm="x", Bearer realm="{provider.url}/token",service="r.example",'
                'scope="repository:user/image:pull"')}
        return answering(OCI)(seen)
    provider = listen(answer)
    assert {row[0] for row in listed("oci", provider.url, "o/i")} == {"1.0", "1.1-rc1", "latest"}
    assert sum(seen.path.startswith("/token") for seen in provider.seen) == 1


@pytest.mark.parametrize("token, user", [("me:word", b"me:word"), ("word", b"token:word")])
def test_a_registry_that_wants_a_password_is_given_the_token(listen, token, user):
    def answer(seen: Seen) -> Any:
        if seen.headers.get("authorization") != "Basic " + base64.b64encode(user).decode():
            return 401, {"errors": []}, {"WWW-Authenticate": 'Basic realm="Registry"'}
        return answering(OCI)(seen)
    provider = listen(answer)
    assert "1.0" in [row[0] for row in listed("oci", provider.url, "o/i", token)]
    with pytest.raises(rt.ProviderError, match="needs a token in MY_OCI_TOKEN"):
        listed("oci", provider.url, "o/i")


def test_a_registry_that_refuses_the_token_is_not_asked_for_ever(listen):
    provider = listen(lambda seen: (200, {"token": "x"}) if seen.path.startswith("/token") else (
        401, {}, {"WWW-Authenticate": 'Bearer realm="/token"'}))
    with pytest.raises(rt.ProviderError, match="401"):
        listed("oci", provider.url, "o/i")
    assert len(provider.seen) == 3


def test_tags_of_a_registry_are_read_page_after_page_by_relative_links(listen):
    pages = {"/v2/o/i/tags/list?n=1000": (200, {"tags": ["a"]},
                                          {"Link": '</v2/o/i/tags/list?n=1000&last=a>; rel="next"'}),
             "/v2/o/i/tags/list?n=1000&last=a": (200, {"tags": None},
                                                 {"Link": '</v2/o/i/tags/list?n=1000&last=b>; rel=next'}),
             "/v2/o/i/tags/list?n=1000&last=b": {"tags": ["b", "a"]}}
    provider = listen(lambda seen: answering(pages)(seen) if "/tags/" in seen.path else 404)
    assert sorted(row[0] for row in listed("oci", provider.url, "o/i")) == ["a", "b"]


def test_a_date_that_a_build_made_up_is_none(listen):
    answers_by_path = {**OCI, "/v2/o/i/blobs/sha256:config": {"created": "1970-01-01T00:00:00Z"}}
    found = {row[0]: row[1] for row in listed("oci", listen(answering(answers_by_path)).url, "o/i")}
    assert found["1.0"] is None and found["1.1-rc1"] == JUNE


def test_a_check_of_a_registry_looks_at_few_manifests(listen):
    tags = [f"1.{minor}" for minor in range(200)]
    provider = listen(lambda seen: (200, {"tags": tags}) if "/tags/" in seen.path else (
        (200, MANIFEST | {"annotations": {"org.opencontainers.image.created": MAY}},
         {"Docker-Content-Digest": "sha256:x"})))
    known = dict.fromkeys(tags[:190])
    found = {row[0]: row for row in listed("oci", provider.url, "o/i", known=known)}
    assert len(found) == 200 and len(provider.seen) <= 11
    assert found["1.199"][1] == MAY and found["1.199"][5] == "digest:sha256:x"
    assert found["1.189"][5] == "digest:sha256:x"       # a known one that may have moved


@pytest.mark.parametrize("dialect, token, header, value", [
    ("github",        "t",     "authorization",    "Bearer t"),
    ("gitlab",        "t",     "private-token",    "t"),
    ("forgejo",       "t",     "authorization",    "token t"),
    ("npm",           "t",     "authorization",    "Bearer t"),
    ("dockerhub",     "t",     "authorization",    "Bearer t"),
    ("simple",        "me:w",  "authorization",    "Basic bWU6dw=="),
    ("simple",        "t",     "authorization",    "Basic " + base64.b64encode(b"__token__:t").decode()),
    ("bitbucket",     "t",     "authorization",    "Bearer t"),
    ("quay",          "t",     "authorization",    "Bearer t"),
    ("pub",           "t",     "authorization",    "Bearer t"),
    ("hex",           "t",     "authorization",    "t"),
    ("packagist",     "me:w",  "authorization",    "Basic bWU6dw=="),
    ("maven",         "me:w",  "authorization",    "Basic bWU6dw=="),
    ("artifacthub",   "me:w",  "x-api-key-id",     "me"),
    ("artifacthub",   "me:w",  "x-api-key-secret", "w"),
])
def test_a_token_is_sent_to_its_provider_and_to_no_other_host(listen, dialect, token, header, value):
    other = listen(lambda seen: (200, []))
    provider = listen(lambda seen: (302, b"", {"Location": f"{other.url}{seen.path}"}))
    with contextlib.suppress(rt.ProviderError):
        listed(dialect, provider.url, next(row[1] for row in LISTED.values() if row[0] == dialect), token)
    assert provider.seen[0].headers[header] == value
    assert other.seen and not any(header in seen.headers for seen in other.seen)


@pytest.mark.parametrize("case", sorted({row[0]: case for case, row in LISTED.items()}.values()))
def test_what_a_provider_does_not_have_or_show_is_said(listen, case):
    status = [404]
    site = listen(lambda seen: (status[0], {"message": "x"})).url
    dialect, name, token, _, _ = LISTED[case]
    for status[0], kind, says in ((404, rt.ProjectMissing, "has no project"), (410, rt.ProjectMissing, "has no project"),
                                  (451, rt.ProjectMissing, "has no project"), (401, rt.ProviderError, "private"),
                                  (403, rt.ProviderError, "private"), (500, rt.ProviderError, "status 500"),
                                  (503, rt.ProviderError, "status 503"), (304, rt.ProviderError, "status 304")):
        with pytest.raises(rt.ProviderError, match=says) as caught:
            listed(dialect, site, name.replace("{site}", site), token)
        assert type(caught.value) is kind, status
    status[0] = 429
    with pytest.raises(rt.Throttled):
        listed(dialect, site, name.replace("{site}", site), token)


@pytest.mark.parametrize("provider, text,             name,               key", [
    ("github",    "Bottlepy/Bottle",                  "Bottlepy/Bottle",  "bottlepy/bottle"),
    ("github",    " /o/r.js/\n",                      "o/r.js",           "o/r.js"),
    ("gitlab",    "Group/sub/Project",                "Group/sub/Project", "group/sub/project"),
    ("gitlab",    "15578026",                         "15578026",         "15578026"),
    ("codeberg",  "o//r",                             "o/r",              "o/r"),
    ("dockerhub", "nginx",                            "library/nginx",    "library/nginx"),
    ("dockerhub", "Grafana/Grafana",                  "grafana/grafana",  "grafana/grafana"),
    ("ghcr",      "Owner/Image/Sub",                  "owner/image/sub",  "owner/image/sub"),
    ("k8s",       "pause",                            "pause",            "pause"),
    ("pypi",      "Holy_._Grail",                     "holy-grail",       "holy-grail"),
    ("npm",       "@nestjs/cli",                      "@nestjs/cli",      "@nestjs/cli"),
    ("npm",       "JSONStream",                       "JSONStream",       "JSONStream"),
    ("yarn",      "left-pad",                         "left-pad",         "left-pad"),
    ("github-npm", "@o/p",                            "@o/p",             "@o/p"),
])
def test_names_are_written_as_the_provider_does(provider, text, name, key):
    assert rt.name_at(rt.PROVIDERS[provider], text) == (name, key)


@pytest.mark.parametrize("provider, text", [
    ("github", "bottle"), ("github", "o/r/x"), ("github", "o/r?x=1"), ("github", "o/../r"), ("github", ".."),
    ("github", "o/.."),
    ("github", "o/r#x"), ("github", "o r/x"), ("github", ""), ("github", "o/" + "r" * 300),
    ("github", "\u00f6/r"), ("gitlab", "project"), ("gitlab", "g/../p"), ("gitlab", "g/p?x"), ("codeberg", "o"),
    ("dockerhub", "a/b/c"), ("dockerhub", "-x"), ("ghcr", "o/i:1.0"), ("ghcr", "o/i@sha256"), ("pypi", "a/b"),
    ("pypi", "-"),
    ("pypi", "a b"), ("npm", "@scope"), ("npm", "a/b"), ("npm", "@s/p/x"), ("npm", "../x"), ("yarn", "p?x"),
    ("k8s", "../x")])
def test_a_name_of_another_form_is_refused_with_the_form_that_it_takes(provider, text):
    with pytest.raises(rt.Invalid) as caught:
        rt.name_at(rt.PROVIDERS[provider], text)
    assert rt.PROVIDERS[provider].dialect.form in str(caught.value) and provider in str(caught.value)


@pytest.mark.parametrize("provider, name,  version,   page", [
    ("github",    "o/r",                    None,      "https://github.com/o/r/releases"),
    ("github",    "o/r",                    "a/v1+1",  "https://github.com/o/r/releases/tag/a%2Fv1%2B1"),
    ("gitlab",    "g/s/p",                  None,      "https://gitlab.com/g/s/p/-/releases"),
    ("gitlab",    "g/s/p",                  "v1",      "https://gitlab.com/g/s/p/-/releases/v1"),
    ("codeberg",  "o/r",                    "v1",      "https://codeberg.org/o/r/releases/tag/v1"),
    ("dockerhub", "library/nginx",          "1",       "https://hub.docker.com/_/nginx/tags"),
    ("dockerhub", "grafana/grafana",        None,      "https://hub.docker.com/r/grafana/grafana/tags"),
    ("ghcr",      "o/i",                    "1",       "https://ghcr.io/o/i"),
    ("ecr-public", "a/i",                   None,      "https://gallery.ecr.aws/a/i"),
    ("pypi",      "bottle",                 None,      "https://deps.dev/pypi/bottle"),
    ("npm",       "@nestjs/cli",            "1.0.0",   "https://deps.dev/npm/%40nestjs%2Fcli/1.0.0"),
    ("yarn",      "@s/p",                   None,      "https://yarnpkg.com/package?name=%40s%2Fp"),
])
def test_people_find_a_project_and_its_releases_at_the_providers_page(provider, name, version, page):
    assert rt.page_of(rt.PROVIDERS[provider], name, version) == page


# Not every public registry may be named by its own host here; any other top level is taken as well.
PASTED = [
    #  address                                                                    provider              name
    ("https://artifacthub.io/packages/helm/cert-manager/cert-manager",            "artifacthub",        "helm/cert-manager/cert-manager"),
    ("artifacthub.io/packages/olm/r/p/1.2.0?modal=changelog#x",                   "artifacthub",        "olm/r/p"),
    ("https://bitbucket.org/Snakeyaml/snakeyaml/src/v2.2/",                       "bitbucket",          "snakeyaml/snakeyaml"),
    ("https://bitbucket.org/w/r/downloads/?tab=tags",                             "bitbucket",          "w/r"),
    ("git@bitbucket.org:w/r.git",                                                 "bitbucket",          "w/r"),
    ("https://me@bitbucket.org/w/r.git",                                          "bitbucket",          "w/r"),    # as Bitbucket shows it
    ("https://crates.io/crates/serde/1.0.200",                                    "cargo",              "serde"),
    ("crates.io/crates/serde/",                                                   "cargo",              "serde"),
    ("https://lib.rs/crates/serde_json",                                          "cargo",              "serde_json"),
    ("https://docs.rs/serde/latest/serde/",                                       "cargo",              "serde"),
    ("https://docs.rs/crate/serde/1.0.200",                                       "cargo",              "serde"),
    ("https://codeberg.org/forgejo/forgejo/releases/tag/v9.0.3",                  "codeberg",           "forgejo/forgejo"),
    ("https://Codeberg.org/o/r.git",                                              "codeberg",           "o/r"),
    ("https://metacpan.org/dist/Mojolicious/view/lib/Mojo.pm",                    "cpan",               "Mojolicious"),
    ("https://metacpan.org/release/SRI/Mojolicious-9.40/changes",                 "cpan",               "Mojolicious"),
    ("https://metacpan.org/release/ABC/Foo-Bar-v1.2.0",                           "cpan",               "Foo-Bar"),
    ("https://metacpan.org/pod/Mojo::Base",                                       "cpan",               "Mojo-Base"),
    ("https://salsa.debian.org/debian/devscripts/-/tags",                         "debian-gitlab",      "debian/devscripts"),
    ("git@salsa.debian.org:debian/devscripts.git",                                "debian-gitlab",      "debian/devscripts"),
    ("https://hub.docker.com/_/nginx/tags?page=1&name=1.2",                       "dockerhub",          "library/nginx"),
    ("https://hub.docker.com/r/grafana/grafana",                                  "dockerhub",          "grafana/grafana"),
    ("https://hub.docker.com/repository/docker/o/i/general",                      "dockerhub",          "o/i"),
    ("docker.io/library/nginx@sha256:" + "0" * 64,                                "dockerhub",          "library/nginx"),
    ("docker.io/grafana/grafana:11.0.0",                                          "dockerhub",          "grafana/grafana"),
    ("registry-1.docker.io/o/i:1.2@sha256:" + "0" * 64,                           "dockerhub",          "o/i"),
    ("https://gallery.ecr.aws/docker/library/redis",                              "ecr-public",         "docker/library/redis"),
    ("public.ecr.aws/docker/library/redis:7-alpine",                              "ecr-public",         "docker/library/redis"),
    ("https://git.exozy.me/o/r/releases",                                         "exozyme",            "o/r"),
    ("https://git.exozy.me/o/r.git",                                              "exozyme",            "o/r"),
    ("https://gitlab.freedesktop.org/mesa/mesa/-/releases/mesa-26.0",             "freedesktop-gitlab", "mesa/mesa"),
    ("https://gitlab.freedesktop.org/mesa/mesa.git",                              "freedesktop-gitlab", "mesa/mesa"),
    ("gcr.io/distroless/static:nonroot",                                          "gcr",                "distroless/static"),
    ("https://gcr.io/distroless/static",                                          "gcr",                "distroless/static"),
    ("https://rubygems.org/gems/rails/versions/8.0.0",                            "gems",               "rails"),
    ("rubygems.org/gems/rails/",                                                  "gems",               "rails"),
    ("ghcr.io/o/i:1.2",                                                           "ghcr",               "o/i"),
    ("ghcr.io/Owner/Image/sub@sha256:" + "0" * 64,                                "ghcr",               "owner/image/sub"),
    ("https://github.com/home-assistant/core/pkgs/container/home-assistant",      "ghcr",               "home-assistant/home-assistant"),
    ("https://github.com/orgs/o/packages/container/package/i%2Fsub",              "ghcr",               "o/i/sub"),
    ("https://github.com/users/o/packages/container/i/versions",                  "ghcr",               "o/i"),
    ("https://git.kernel.org/pub/scm/git/git.git",                                "git",                "https://git.kernel.org/pub/scm/git/git.git"),
    ("git+https://Git.Example/a/b.git#main",                                      "git",                "https://git.example/a/b.git"),
    ("https://github.com@git.example/a/b.git",                                    "git",                "https://git.example/a/b.git"),   # the host is behind it
    ("git@git.example:a/b.git",                                                   "git",                "https://git.example/a/b.git"),
    ("https://gitea.com/gitea/tea/releases/tag/v0.10",                            "gitea",              "gitea/tea"),
    ("ssh://git@gitea.com/gitea/tea.git",                                         "gitea",              "gitea/tea"),
    ("https://github.com/bottlepy/bottle",                                        "github",             "bottlepy/bottle"),
    ("http://www.github.com/bottlepy/bottle/",                                    "github",             "bottlepy/bottle"),
    ("github.com/bottlepy/bottle",                                                "github",             "bottlepy/bottle"),
    ("HTTPS://GITHUB.COM/bottlepy/Bottle",                                        "github",             "bottlepy/Bottle"),
    ("  https://github.com/o/r/releases/tag/v1.0?x=1#y \n",                       "github",             "o/r"),
    ("https://github.com/o/r.js/tree/main/src",                                   "github",             "o/r.js"),
    ("https://github.com/o/r.git",                                                "github",             "o/r"),
    ("git://github.com/o/r.git",                                                  "github",             "o/r"),
    ("git@github.com:o/r.git",                                                    "github",             "o/r"),
    ("ssh://git@github.com/o/r.git",                                              "github",             "o/r"),
    ("git+ssh://git@github.com/o/r.git",                                          "github",             "o/r"),    # as in package.json
    ("git+https://github.com/o/r.git",                                            "github",             "o/r"),
    ("https://github.com/o/.github",                                              "github",             "o/.github"),
    ("https://github.com/o/r/pkgs/npm/p",                                         "github-npm",         "@o/p"),
    ("https://github.com/o/r/pkgs/npm/p/versions?x",                              "github-npm",         "@o/p"),
    ("https://gitlab.com/gitlab-org/gitlab-runner/-/releases/v17.0.0",            "gitlab",             "gitlab-org/gitlab-runner"),
    ("https://gitlab.com/g/s/t/p/",                                               "gitlab",             "g/s/t/p"),
    ("git@gitlab.com:g/s/p.git",                                                  "gitlab",             "g/s/p"),
    ("https://gitlab.gnome.org/GNOME/gtk/-/tags",                                 "gnome-gitlab",       "GNOME/gtk"),
    ("gitlab.gnome.org/GNOME/gtk",                                                "gnome-gitlab",       "GNOME/gtk"),
    ("https://git.savannah.gnu.org/cgit/bash.git/refs/",                          "gnu-savannah",       "bash"),
    ("https://git.savannah.gnu.org/git/bash.git",                                 "gnu-savannah",       "bash"),
    ("https://savannah.gnu.org/projects/bash/",                                   "gnu-savannah",       "bash"),
    ("https://savannah.gnu.org/git/?group=bash",                                  "gnu-savannah",       "bash"),
    ("https://ftp.gnu.org/gnu/bash/",                                             "gnu-savannah",       "bash"),
    ("https://www.gnu.org/software/bash/manual/",                                 "gnu-savannah",       "bash"),
    ("https://pkg.go.dev/golang.org/x/text@v0.3.0/unicode",                       "go",                 "golang.org/x/text"),
    ("pkg.go.dev/github.com/BurntSushi/toml?tab=versions",                        "go",                 "github.com/BurntSushi/toml"),
    ("https://hackage.haskell.org/package/pandoc-3.1/changelog",                  "hackage",            "pandoc"),
    ("https://hackage.haskell.org/package/text-icu",                              "hackage",            "text-icu"),
    ("https://hex.pm/packages/plug/1.16.1",                                       "hex",                "plug"),
    ("https://hexdocs.pm/plug/readme.html",                                       "hex",                "plug"),
    ("registry.k8s.io/kube-apiserver:v1.30.0",                                    "k8s",                "kube-apiserver"),
    ("https://registry.k8s.io/v2/kube-apiserver/tags/list",                       "k8s",                "kube-apiserver"),
    ("registry.k8s.io/ingress-nginx/controller@sha256:" + "0" * 64,               "k8s",                "ingress-nginx/controller"),
    ("https://invent.kde.org/graphics/krita/-/tags/v5.2",                         "kde-gitlab",         "graphics/krita"),
    ("invent.kde.org/graphics/krita.git",                                         "kde-gitlab",         "graphics/krita"),
    ("https://central.sonatype.com/artifact/com.google.guava/guava/33.0/versions", "maven",             "com.google.guava:guava"),
    ("https://mvnrepository.com/artifact/com.google.guava/guava",                 "maven",              "com.google.guava:guava"),
    ("https://search.maven.org/artifact/com.google.guava/guava/33.0/jar",         "maven",              "com.google.guava:guava"),
    ("https://www.npmjs.example/package/@angular/core/v/1.0.0",                   "npm",                "@angular/core"),
    ("https://npmjs.example/package/react?activeTab=versions",                    "npm",                "react"),
    ("https://deps.dev/npm/%40angular%2Fcore/1.0.0",                              "npm",                "@angular/core"),
    ("https://www.nuget.org/packages/Newtonsoft.Json/13.0.3#versions-body-tab",   "nuget",              "Newtonsoft.Json"),
    ("nuget.org/packages/Newtonsoft.Json/",                                       "nuget",              "Newtonsoft.Json"),
    ("https://packagist.org/packages/Monolog/monolog#3.9.0",                      "packagist",          "monolog/monolog"),
    ("https://packagist.org/packages/monolog/monolog/stats",                      "packagist",          "monolog/monolog"),
    ("https://pub.dev/packages/http/versions/1.5.0",                              "pub",                "http"),
    ("https://pub.dev/packages/http/changelog#150",                               "pub",                "http"),
    ("https://pypi.example/project/Holy_Grail/1.0/#history",                      "pypi",               "holy-grail"),
    ("https://piwheels.org/project/bottle/",                                      "pypi",               "bottle"),
    ("deps.dev/pypi/bottle/0.13",                                                 "pypi",               "bottle"),
    ("https://quay.io/repository/prometheus/prometheus?tab=tags",                 "quay",               "prometheus/prometheus"),
    ("quay.io/prometheus/prometheus:v3.0.0",                                      "quay",               "prometheus/prometheus"),
    ("https://quay.io/repository/prometheus/prometheus/manifest/sha256:" + "0" * 64, "quay",            "prometheus/prometheus"),
    ("https://sourceforge.net/projects/sevenzip/files/7-Zip/26.01/",              "sourceforge",        "sevenzip"),
    ("https://sevenzip.sourceforge.io/",                                          "sourceforge",        "sevenzip"),
    ("http://sevenzip.sf.net/index.html",                                         "sourceforge",        "sevenzip"),
    ("https://sourceforge.net/p/sevenzip/discussion/",                            "sourceforge",        "sevenzip"),
    ("https://downloads.sourceforge.net/project/sevenzip/7z.exe",                 "sourceforge",        "sevenzip"),
    ("https://git.sr.ht/~sircmpwn/scdoc/refs/1.11.3",                             "sourcehut",          "~sircmpwn/scdoc"),
    ("git@git.sr.ht:~sircmpwn/scdoc",                                             "sourcehut",          "~sircmpwn/scdoc"),
    ("https://gitlab.xfce.org/xfce/xfce4-panel/-/tags",                           "xfce-gitlab",        "xfce/xfce4-panel"),
    ("https://gitlab.xfce.org/xfce/xfce4-panel.git",                              "xfce-gitlab",        "xfce/xfce4-panel"),
    ("https://yarnpkg.com/package?name=%40angular%2Fcore&version=1.0.0",          "yarn",               "@angular/core"),
    ("https://classic.yarnpkg.com/en/package/react",                              "yarn",               "react"),
    ("https://registry.yarnpkg.com/react",                                        "yarn",               "react"),
    # https://github.com/package-url/purl-spec
    ("pkg:npm/%40angular/core@12.0.0?x=1#sub/path",                               "npm",                "@angular/core"),
    ("pkg:npm/foobar@12.3.1",                                                     "npm",                "foobar"),
    ("pkg:pypi/Django_Package@1.11.1.dev1",                                       "pypi",               "django-package"),
    ("pkg:golang/github.com/BurntSushi/toml@v1.0.0#cmd/tomlv",                    "go",                 "github.com/BurntSushi/toml"),
    ("pkg:golang/google.golang.org/genproto@abcdedf",                             "go",                 "google.golang.org/genproto"),
    ("pkg:maven/org.apache.xmlgraphics/batik-anim@1.9.1?type=pom",                "maven",              "org.apache.xmlgraphics:batik-anim"),
    ("pkg:docker/nginx@sha256%3A" + "0" * 64,                                     "dockerhub",          "library/nginx"),
    ("pkg:docker/grafana/grafana@11.0",                                           "dockerhub",          "grafana/grafana"),
    ("pkg:docker/o/i@sha256%3A244?repository_url=gcr.io",                         "gcr",                "o/i"),
    ("pkg:docker/o/i@1.2?repository_url=https://ghcr.io",                         "ghcr",               "o/i"),
    ("pkg:oci/debian@sha256%3A244?repository_url=docker.io/library/debian&arch=amd64&tag=latest", "dockerhub", "library/debian"),
    ("pkg:oci/static@sha256%3A244?repository_url=gcr.io/distroless/static&tag=latest", "gcr",           "distroless/static"),
    ("pkg:composer/laravel/laravel@5.5.0",                                        "packagist",          "laravel/laravel"),
    ("pkg:gem/jruby-launcher@1.1.2?platform=java",                                "gems",               "jruby-launcher"),
    ("pkg:cargo/rand@0.7.2",                                                      "cargo",              "rand"),
    ("pkg:nuget/EnterpriseLibrary.Common@6.0.1304",                               "nuget",              "EnterpriseLibrary.Common"),
    ("pkg:hex/jason@1.1.2",                                                       "hex",                "jason"),
    ("pkg:pub/characters@1.2.0",                                                  "pub",                "characters"),
    ("pkg:hackage/3d-graphics-examples@0.0.0.2",                                  "hackage",            "3d-graphics-examples"),
    ("pkg:cpan/DROLSKY/DateTime@1.55",                                            "cpan",               "DateTime"),
    ("pkg:CPAN/DROLSKY/DateTime@1.55",                                            "cpan",               "DateTime"),     # types have no case
    ("pkg:cpan/URI::PackageURL@2.11",                                             "cpan",               "URI-PackageURL"),
    ("pkg:github/package-url/purl-spec@244fd47e07d1004f0aed9c",                   "github",             "package-url/purl-spec"),
    ("pkg:GitHub/o/r",                                                            "github",             "o/r"),
    ("pkg:gitlab/g/p@1",                                                          "gitlab",             "g/p"),
    ("pkg:bitbucket/birkenfeld/pygments-main@244fd47e07d1014f0aed9c",             "bitbucket",          "birkenfeld/pygments-main"),
    ("PKG://cargo/rand@0.7.2",                                                    "cargo",              "rand"),
]


@pytest.mark.parametrize("address, provider, name", PASTED)
def test_the_project_of_a_pasted_address_is_known(address, provider, name):
    found = rt.project_in(rt.PROVIDERS, address)
    assert found and (found[0].id, found[1]) == (provider, name)
    assert rt.name_at(*found)[0] == name        # as the provider writes it already


def test_every_provider_has_two_addresses_in_the_table():
    counts = {id_: sum(row[1] == id_ for row in PASTED) for id_ in rt.PROVIDERS}
    assert min(counts.values()) >= 2, counts


def test_every_type_of_purl_that_a_provider_takes_is_in_the_table():
    types = {type_ for provider in rt.PROVIDERS.values() for type_ in provider.purl}
    assert types <= {match[1] for row in PASTED if (match := re.match("pkg:/*([a-z]+)", row[0].lower()))}


HOSTILE_ADDRESSES = ["a" * 100_000, "https://" + "a/" * 50_000, "https://github.com/" + "a" * 100_000, "git@" + "x" * 100_000,
                     "://" * 30_000, "https://gitlab.com/" + "/-" * 50_000, "https://gitlab.com/" + "a/-" * 30_000,
                     "https://hackage.haskell.org/package/" + "-1" * 50_000, "https://h/" + "x.git/" * 20_000 + ".git",
                     "https://example.org/?" + "name=x&" * 30_000, "pkg:npm/" + "@" * 50_000 + "/x",
                     "pkg:npm/" + "%40" * 30_000 + "/x", "pkg:npm/x y?" + "a=1&" * 30_000,
                     "pkg:oci/x?repository_url=" * 4_000, "pkg:docker/x?repository_url=" * 4_000, "pkg:" * 30_000,
                     "ghcr.io/" + "a-" * 50_000, "ghcr.io/" + "a/" * 490 + "!", "#" * 100_000, "?" * 100_000, "%" * 100_000,
                     "\0" * 100_000, " " * 100_000, "\ud800" * 50_000, "https://github.com/" + "\ud800" * 400]


@pytest.mark.parametrize("text", [
    "", " ", "/", "bottle", "owner/repo", "1.2.3", "me@example.org", "https://", "https:///", "https://[", "https://[::1",
    "https://[::1]/o/r", "http://[x]/", "https://example.org", "https://example.org/", "https://example.org/o/r",
    "https://github.com", "https://github.com/", "https://github.com/owner", "https://github.com/owner/",
    "https://github.com/orgs/x", "https://github.com/orgs/x/repositories", "https://github.com/users/x/packages",
    "https://github.com/owner?name=repo", "https://github.com/o/..", "https://github.com/../..", "https://github.com/o r/x",
    "https://github.com.example.org/o/r", "https://notgithub.com/o/r", "https://example.org/github.com/o/r",
    "https://github.com:99999/o/r", "https://github.com:x/o/r", "https://gitlab.com/groups/x", "https://gitlab.com/x",
    "https://crates.io/", "https://hub.docker.com/", "https://hub.docker.com/search?q=nginx", "docker.io/a/b/c",
    "https://pub.dev/packages", "https://sourceforge.net/", "https://quay.io/search?q=x", "https://deps.dev/",
    "https://sourceforge.net/directory/", "https://deps.dev/npm", "https://rubygems.org/search?query=x",
    "pkg:", "pkg:/", "pkg:npm", "pkg:npm/", "pkg:npm/@1.0", "pkg:deb/x", "pkg:deb/debian/curl@7.50.3-1?arch=i386",
    "pkg:github/owner", "pkg:docker/a/b/c/d", "pkg:oci/x?repository_url=example.org/x",
    "pkg:oci/x?repository_url=pkg:oci/x", "pkg:%zz/%zz", "pkg:maven/g@1",
    "git@", "git@:", "git@x:", "ssh://git@", "https://user:word@git.example/a/b.git", "https://git.example/a b.git",
    "https://git.example/../x.git", "javascript:alert(1)", "file:///etc/passwd", "https://github.com/o/r\0",
    "https://github.com/\ud800/r", "\ud800", "\0", "https://github.com/o%2Fr/x%00", "https://github.com/%/%",
    *HOSTILE_ADDRESSES], ids=lambda text: ascii(text[:40]))
def test_a_text_that_is_no_project_s_address_is_none_in_no_time(text):
    began = time.process_time()
    assert rt.project_in(rt.PROVIDERS, text) is None
    for id_ in (None, "github", "git", "npm", "maven", "gitlab"):
        with contextlib.suppress(rt.Invalid):
            rt.project_at(rt.PROVIDERS, id_, text)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("site,                            address,                                           found", [
    ("gitlab=https://git.example/gl",        "https://git.example/gl/g/s/p/-/releases/v1",      "g/s/p"),
    ("gitlab=https://git.example/gl",        "HTTPS://GIT.EXAMPLE/gl/g/p.git",                  "g/p"),
    ("gitlab=https://git.example/gl",        "git.example/gl/g/p/",                             "g/p"),
    ("gitlab=https://git.example",           "git@git.example:g/p.git",                         "g/p"),
    ("forgejo=http://127.0.0.1:3000",        "http://127.0.0.1:3000/o/r/releases",              "o/r"),
    ("forgejo=https://www.example.org",      "https://www.example.org/o/r",                     "o/r"),
    ("forgejo=https://Git.Example",          "https://git.example/o/r",                         "o/r"),
    ("github=https://ghe.example",           "https://ghe.example/o/r/releases/tag/1",          "o/r"),
    ("oci=http://localhost:5000",            "localhost:5000/o/i:1.2",                          "o/i"),
    ("oci=http://localhost:5000",            "http://localhost:5000/v2/o/i/tags/list",          "o/i"),
    ("simple=https://index.example/base",    "https://index.example/base/simple/Holy.Grail/",   "holy-grail"),
    ("simple=https://index.example/simple",  "https://index.example/simple/holy-grail/",        "holy-grail"),
    ("npm=https://npm.example",              "https://npm.example/@s%2Fp",                      "@s/p"),
    ("npm=https://npm.example",              "https://npm.example/@s/p",                        "@s/p"),
    ("rubygems=https://gems.example",        "https://gems.example/gems/rails",                 "rails"),
])
def test_a_project_s_address_at_a_provider_of_the_operator_s_is_known(site, address, found):
    dialect, _, site = site.partition("=")
    table = rt.providers_with([("home", dialect, rt._web_address(site))])
    provider, name = rt.project_in(table, address) or (None, None)
    assert provider is table["home"] and name == found
    assert rt.project_at(table, "home", address)[:2] == (provider, found)


# Whose page says less than its name: npm.pkg.github.com shows packages below a repository that nothing tells.
ONE_WAY = {"github-npm"}


@pytest.mark.parametrize("provider", sorted(set(rt.PROVIDERS) - ONE_WAY))
def test_the_page_of_a_project_leads_back_to_it(provider):
    row = rt.PROVIDERS[provider]
    name = rt.name_at(row, row.example)[0]
    for page in (rt.page_of(row, name), rt.page_of(row, name, "1.2.3"), rt.page_of(row, name, "2026.10")):
        assert rt.project_in(rt.PROVIDERS, page) == (row, name), page


@pytest.mark.parametrize("dialect", sorted(id_ for id_, row in rt.DIALECTS.items() if "{site}/" in row.page))
def test_the_page_of_a_project_at_a_provider_of_the_operator_s_leads_back_to_it(dialect):
    example = next((row.example for row in rt.PROVIDERS.values() if row.dialect.read is rt.DIALECTS[dialect].read),
                   "holy-grail")
    for site in ("https://own.example", "https://own.example/below", "http://127.0.0.1:8081"):
        table = rt.providers_with([("home", dialect, site)])
        name = rt.name_at(table["home"], example)[0]
        for page in (rt.page_of(table["home"], name), rt.page_of(table["home"], name, "1.2.3")):
            assert rt.project_in(table, page) == (table["home"], name), page


@pytest.mark.parametrize("id_,            text,                                            provider,       name,            key", [
    ("github",       "Bottlepy/Bottle",                               "github",       "Bottlepy/Bottle",      "bottlepy/bottle"),
    ("github",       "https://github.com/o/R/releases",               "github",       "o/R",                  "o/r"),
    ("github",       "github.com/o/r",                                "github",       "o/r",                  "o/r"),
    (None,           "https://github.com/o/R",                        "github",       "o/R",                  "o/r"),
    (None,           "github.com/o/r",                                "github",       "o/r",                  "o/r"),
    (None,           "pkg:npm/%40angular/core@1",                     "npm",          "@angular/core",        "@angular/core"),
    ("yarn",         "pkg:npm/%40angular/core@1",                     None,           "npm, not yarn",        ""),
    ("ghcr",         "ghcr.io/o/i:1.2",                               "ghcr",         "o/i",                  "o/i"),
    ("git",          "https://github.com/o/r.git/",                   "git",          "https://github.com/o/r.git", "github.com/o/r"),
    ("git",          "git+https://git.example/a/b",                   "git",          "https://git.example/a/b", "git.example/a/b"),
    ("go",           "github.com/o/r",                                "go",           "github.com/o/r",       "github.com/o/r"),
    ("go",           "https://pkg.go.dev/github.com/o/r",             "go",           "github.com/o/r",       "github.com/o/r"),
    ("go",           "https://github.com/o/r",                        None,           "github, not go",       ""),
    ("npm",          "https://npmjs.example/package/react",           "npm",          "react",                "react"),
    ("gitlab",       "https://github.com/o/r",                        None,           "github, not gitlab",   ""),
    ("gnome-gitlab", "https://gitlab.com/g/p",                        None,           "gitlab, not gnome-gitlab", ""),
    ("pypi",         "git@github.com:o/r.git",                        None,           "github, not pypi",     ""),
    ("github",       "https://git.example/a/b.git",                   None,           "git, not github",      ""),
    ("github",       "https://example.org/o/r",                       None,           "has not the form that github takes", ""),
    ("github",       "bottle",                                        None,           "has not the form that github takes", ""),
    ("nonsense",     "o/r",                                           None,           "'nonsense' is not known", ""),
    ("nonsense",     "https://github.com/o/r",                        None,           "'nonsense' is not known", ""),
    (None,           "bottle",                                        None,           "Provider is required.*'bottle'", ""),
    (None,           "o/r",                                           None,           "Provider is required.*'o/r'", ""),
    (None,           "https://example.org/",                          None,           "Provider is required.*example.org", ""),
    (None,           "",                                              None,           "Provider is required", ""),
    (None,           "https://github.com/owner",                      None,           "Provider is required", ""),
    ("git",          "o/r",                                           None,           "has not the form that git takes", ""),
    ("git",          "https://me:word@git.example/a/b.git",           None,           "must not hold user and password", ""),
])
def test_a_project_is_named_by_a_provider_and_its_name_or_by_an_address(id_, text, provider, name, key):
    if provider is None:
        with pytest.raises(rt.Invalid, match=name):
            rt.project_at(rt.PROVIDERS, id_, text)
    else:
        found = rt.project_at(rt.PROVIDERS, id_, text)
        assert (found[0].id, *found[1:]) == (provider, name, key)


@pytest.mark.parametrize("provider, names", [
    ("github",      ["Bottlepy/Bottle", "bottlepy/bottle", "bottlepy/bottle.git", "/bottlepy/bottle/"]),
    ("gitlab",      ["Group/Sub/Project", "group/sub/project", "group/sub/project.git"]),
    ("codeberg",    ["Owner/Repo", "owner/repo", "owner//repo.git"]),
    ("bitbucket",   ["Workspace/Repo", "workspace/repo", "workspace/repo.git"]),
    ("packagist",   ["Monolog/Monolog", "monolog/monolog"]),
    ("nuget",       ["Newtonsoft.Json", "newtonsoft.json", "NEWTONSOFT.JSON"]),
    ("cargo",       ["serde_json", "serde-json", "Serde-JSON"]),
    ("hex",         ["Plug", "plug"]),
    ("pub",         ["Http", "http"]),
    ("dockerhub",   ["nginx", "library/nginx", "Library/Nginx"]),
    ("ghcr",        ["Owner/Image", "owner/image"]),
    ("quay",        ["Owner/Image", "owner/image"]),
    ("maven",       ["g.h:a", "g.h/a", "/g.h/a/"]),
    ("git",         ["https://git.example/A/b", "https://Git.Example/A/b.git", "http://git.example/A/b/",
                     "git+https://git.example/A/b.git/", "https:/git.example/A/b"]),
    ("cpan",        ["Mojo::Base", "Mojo-Base"]),
    ("pypi",        ["Holy_._Grail", "holy-grail", "Holy.Grail"]),
    ("artifacthub", ["helm/r/p", "r/p"]),
    ("sourceforge", ["SevenZip", "sevenzip"]),
    ("gnu-savannah", ["bash", "bash.git"]),
])
def test_one_project_is_not_tracked_under_two_names(provider, names):
    keys = {rt.name_at(rt.PROVIDERS[provider], name)[1] for name in names}
    assert len(keys) == 1, keys


@pytest.mark.parametrize("provider, one,      other", [
    ("npm",     "JSONStream",                 "jsonstream"),
    ("go",      "example.org/M",              "example.org/m"),
    ("cpan",    "Text-CSV",                   "Text-Csv"),
    ("hackage", "HTTP",                       "http"),
    ("gems",    "RedCloth",                   "redcloth"),
    ("git",     "https://git.example/A/b",    "https://git.example/a/b"),
    ("maven",   "g:a",                        "g:A"),
    ("hex",     "plug_cowboy",                "plug"),
])
def test_names_that_differ_where_their_registry_tells_them_apart_are_two_projects(provider, one, other):
    assert rt.name_at(rt.PROVIDERS[provider], one)[1] != rt.name_at(rt.PROVIDERS[provider], other)[1]


@pytest.mark.parametrize("provider", rt.PROVIDERS)
def test_a_name_that_was_normalised_stays_as_it_is(provider):
    row = rt.PROVIDERS[provider]
    name, key = rt.name_at(row, row.example)
    assert rt.name_at(row, name) == (name, key)


@pytest.mark.parametrize("provider, version, is_prerelease", [
    ("pypi",        "1.0rc1",                        True),
    ("pypi",        "1.0.dev3",                      True),
    ("pypi",        "2.0b2",                         True),
    ("pypi",        "1.0.post1",                     False),
    ("pypi",        "1.0.post1.dev2",                True),
    ("pypi",        "1!1.0",                         False),
    ("pypi",        "1.0+local.rc1",                 False),
    ("npm",         "1.0.0-0",                       True),
    ("npm",         "2.0.0-next.1",                  True),
    ("npm",         "1.0.0+build",                   False),
    ("npm",         "1.0.0+build-1",                 False),
    ("cargo",       "0.4.0-rc.1",                    True),
    ("cargo",       "1.0.0+zstd.1.5.6",              False),
    ("hex",         "1.17.0-rc.0",                   True),
    ("pub",         "1.5.0-beta",                    True),
    ("pub",         "1.5.0+1",                       False),
    ("go",          "v1.2.0-rc.1",                   True),
    ("go",          "v2.0.0+incompatible",           False),
    ("go",          "v1.2.0",                        False),
    ("artifacthub", "1.20.0-alpha.0",                True),
    ("artifacthub", "v1.20.0",                       False),
    ("nuget",       "1.0.0.4",                       False),
    ("nuget",       "1.0.0.4-Beta",                  True),
    ("nuget",       "13.0.1-BETA2",                  True),
    ("gems",        "8.1.0.rc1",                     True),
    ("gems",        "1.0.0.pre",                     True),
    ("gems",        "1.0.0.beta.2",                  True),
    ("gems",        "1.16.0",                        False),
    ("packagist",   "3.0.0-RC1",                     True),
    ("packagist",   "3.0.0-alpha",                   True),
    ("packagist",   "v1.0.0-beta2",                  True),
    ("packagist",   "2.0.0-p1",                      False),
    ("packagist",   "2.0.0-patch1",                  False),
    ("maven",       "4.1.0-RC1",                     True),
    ("maven",       "5.0.0.CR1",                     True),
    ("maven",       "6.0.0-M1",                      True),
    ("maven",       "6.0.0.M1",                      True),
    ("maven",       "1.0-b05",                       True),
    ("maven",       "1.0-b20260601",                 True),
    ("maven",       "1.0-alpha-1",                   True),
    ("maven",       "5.0.0.Beta1",                   True),
    ("maven",       "1.0-milestone-2",               True),
    ("maven",       "6.1.0.Final",                   False),
    ("maven",       "5.0.0.GA",                      False),
    ("maven",       "5.0.0.RELEASE",                 False),
    ("maven",       "2.0-SP1",                       False),
    ("maven",       "33.0.0-jre",                    False),
    ("maven",       "33.0.0-android",                False),
    ("hackage",     "3.1.99",                        False),
    ("dockerhub",   "1.29.1-alpine",                 False),
    ("dockerhub",   "3.13-rc-alpine",                True),
    ("dockerhub",   "3.14.0b2-slim",                 True),
    ("dockerhub",   "20-alpine3.20",                 False),
    ("dockerhub",   "10.9.1-ls446",                  False),
    ("dockerhub",   "1.2.3-r1",                      False),
    ("dockerhub",   "latest",                        False),
    ("dockerhub",   "edge",                          True),
    ("dockerhub",   "1.40.2.8395-c67dce28e",         False),    # Plex: a commit's hash is not "c" with a number
    ("ghcr",        "version-1.40.2.8395-c67dce28e", False),
    ("ghcr",        "2026.11.0b3",                   True),
    ("ghcr",        "v1.2.0-beta.1",                 True),
    ("quay",        "v3.1-rc.1",                     True),
    ("quay",        "v3.1-trusty",                   False),
    ("k8s",         "v1.36.0-alpha.1",               True),
    ("gnu-savannah", "bash-5.3-rc2",                 True),
    ("gnu-savannah", "bash-5.3",                     False),
    ("git",         "v6.12-rc7",                     True),
    ("git",         "n7.1-dev",                      True),
    ("git",         "OpenSSL_1_0_2b",                False),
    ("git",         "curl-8_5_0",                    False),
    ("git",         "v2.0-m2",                       True),
    ("git",         "1.0b20260601",                  True),
    ("git",         "v1.0-5-gc67dce28e",             False),
    ("github",      "v2.0.0-RC1",                    True),
    ("github",      "9.8p1",                         False),
    ("github",      "V_9_8_P1",                      False),
    ("github",      "1.2.3-p1",                      False),
    ("github",      "1.0-hotfix.1",                  False),
    ("github",      "v1.2.3+build.7",                False),
    ("github",      "jenkins-2.1",                   False),
    ("github",      "insiders",                      True),
    ("gitlab",      "v17.0.0-ee",                    False),
    ("gitlab",      "v17.0.0-rc42-ee",               True),
    ("gnome-gitlab", "46.beta",                      True),
    ("gnome-gitlab", "46.alpha.1",                   True),
    ("debian-gitlab", "debian/1.2-3",                False),
    ("debian-gitlab", "debian/1.2_rc1-3",            True),
    ("sourceforge", "1.3.0-rc2",                     True),
    ("sourceforge", "1.2.3",                         False),
    ("bitbucket",   "snakeyaml-2.2",                 False),
    ("sourcehut",   "0.21.0-rc1",                    True),
])
def test_what_is_a_prerelease_at_each_provider(provider, version, is_prerelease):
    assert rt.PROVIDERS[provider].dialect.is_prerelease(version) is is_prerelease


def test_the_operators_rows_add_and_move_providers():
    table = rt.providers_with([("home", "forgejo", "https://git.example"), ("gitlab", "gitlab", "https://gl.example"),
                               ("pypi", "simple", "https://index.example/simple"),
                               ("npm", "npm", "https://npm.example")])
    assert list(table) == sorted(table) and set(rt.PROVIDERS) | {"home"} == set(table)
    assert rt.page_of(table["home"], "o/r") == "https://git.example/o/r/releases"
    assert table["home"].token_variable == "HOME_TOKEN"
    assert rt.page_of(table["gitlab"], "g/p", "1") == "https://gl.example/g/p/-/releases/1"
    assert rt.page_of(table["pypi"], "bottle") == "https://index.example/simple/bottle/"
    assert rt.name_at(table["pypi"], "A_b") == ("a-b", "a-b")
    assert table["npm"].dialect is rt.DIALECTS["npm"]
    assert rt.PROVIDERS["gitlab"].site == "https://gitlab.com"      # of this process's other services
    own = rt.Provider("mine", "https://x.example", rt.DIALECTS["oci"])
    assert rt.providers_with([], [own])["mine"] is own


@pytest.mark.parametrize("row, says", [
    (("x", "svn", "https://x.example"),     "no dialect 'svn'.*forgejo.*gitlab"),
    (("x", "depsdev", "https://x.example"), "no registry 'x'.*pypi"),
])
def test_a_row_that_cannot_work_is_refused(row, says):
    with pytest.raises(rt.SettingError, match=says):
        rt.providers_with([row])


def test_a_private_index_keeps_its_token_variable_when_a_provider_is_moved():
    moved = rt.providers_with([("github-npm", "npm", "https://n.example")])["github-npm"]
    assert moved.token_variable == "GITHUB_TOKEN"


# What every reader of every dialect is given instead of what it expects.
WRONG = [None, True, 0, -1, 1.5, float("nan"), 10**400, "", " ", "x" * 300, "\ud800", "https://x.example/\ud800",
         "a\0b", "1\n2", [], [None], {}, {"": None},
         "2026-13-45T99:99:99Z", "9999-12-31T23:59:59-23:59",
         10**17, -10**17, "10" * 100]       # a time that C refuses with an OSError, not with a ValueError


def variants(value: Any) -> Iterator[Any]:
    """The document with something wrong at one place, for each of its places, and without each of its members."""
    yield from WRONG
    if isinstance(value, dict):
        for name, inner in value.items():
            yield {other: about for other, about in value.items() if other != name}
            for one in variants(inner):
                yield {**value, name: one}
                if one is None:     # names are data too
                    yield {"\ud800" if other == name else other: about for other, about in value.items()}
                    yield {"x" * 300 if other == name else other: about for other, about in value.items()}
    elif isinstance(value, list) and value:
        for one in variants(value[0]):
            yield [one, *value[1:]]


def is_sound(releases: Any) -> bool:
    """Whether these can be stored, shown and sent."""
    for release in releases:
        texts = [release.version, release.evidence or "", *release.cve]
        if release.note:
            texts += [release.note.title, release.note.message, release.note.url]
            assert release.note.message.strip() and len(release.note.message) <= rt.NOTE_LIMIT
            assert 0 < len(release.note.title) <= rt.NAME_LIMIT
            assert not release.note.url or release.note.url.startswith(("https://", "http://"))
        assert 0 < len(release.version) <= rt.NAME_LIMIT and release.version.isprintable(), release
        assert release.version == release.version.strip()
        assert type(release.is_prerelease) is bool and all(type(text) is str for text in texts), release
        "".join(texts).encode("utf-8")      # raises for half a surrogate pair, as SQLite does
        assert release.date is None or re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z", release.date), release
    versions = [release.version for release in releases]
    return len(set(versions)) == len(versions)


class Canned:
    """Answers without a network, as the dialects cannot tell; ``changed`` replaces the body of one path."""

    def __init__(self, dialect: str, answers_by_path: dict[str, Any]) -> None:
        self._answer = answering(answers_by_path)
        self.row = row_of(dialect, "http://provider.example")
        self.changed: dict[str, bytes] = {}
        self.bodies: dict[str, bytes] = {}

    def fetch(self, request: rt.Request) -> rt.Answer:
        path = request.url.removeprefix("http://provider.example")
        seen = Seen(request.method, path, {name.lower(): value for name, value in request.headers.items()}, b"", 0.0)
        answer = self._answer(seen)
        status, body, headers = (*(answer if isinstance(answer, tuple) else (answer, b"")), {})[:3]
        if not isinstance(body, bytes):
            body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        if status == 200:
            self.bodies[path] = body
            body = self.changed.get(path, body)
        found = {name.lower(): value for name, value in headers.items()}
        return rt.Answer(request.url, status, found, body, request.url)


PAGE = b"<!DOCTYPE html><html><body><h1>Just a moment...</h1></body></html>"


def versions_in(canned: Canned, name: str, token: str | None) -> frozenset[str] | None:
    """The versions that are read; None where it is refused in words. Anything else that comes of it is a fault."""
    try:
        listing = rt.releases_of(canned.row, name, canned.fetch, token)
    except rt.ProviderError as error:
        assert str(error).isprintable() and len(str(error)) < 1000, str(error)
        return None
    assert is_sound(listing.releases)
    return frozenset(release.version for release in listing.releases)


def lines_of_json(body: bytes) -> list[Any]:
    """The JSON values of a body, which is one or has one in each line; none of a body that is something else."""
    for pieces in ([body], body.splitlines()):
        with contextlib.suppress(ValueError):
            return [json.loads(piece) for piece in pieces]
    return []


def wrong_bodies(body: bytes) -> Iterator[bytes]:
    """What may come in a body's place, web pages and cut ones aside."""
    yield from (b"", b"null", b"[]", b"{}", b"0", b'"x"', b"\xff\xfe", b"NaN", b"<html>" + b"\0" * 50, b"9" * 5000,
                b"[" * 100_000, b'{"a":' * 100_000, b"<a>" * 100_000, "[]".encode("utf-16"), b"<feed/>", b"<rss/>",
                b"<metadata/>", b"<!", b"<![CDATA[", b"<![x[", b'[{"tag_name": ' + b"9" * 5000 + b"}]",
                b'{"tags": [' + b"9" * 5000 + b"]}", b'{"vers": "1", "yanked": ' + b"9" * 5000 + b"}",
                b"v1.0\n" + b"x" * 100_000, b"v1.0\0\nv1." + b"9" * 100_000, b"001e# service=git-upload-pack\n",
                b"001e# service=git-upload-pack\n0000" + b"0" * 100_000)
    values = lines_of_json(body)
    for at, value in enumerate(values):
        for one in variants(value):
            yield b"\n".join(json.dumps(one if at == place else other).encode() for place, other in enumerate(values))
    if not values:
        for piece in set(re.findall(rb"[^<>\"=/ \n]+", body)):
            for new in (b"", b"x" * 3000, b"&#0;", b"&#xFFFF;", b"\0", b"\n", b"\xff", b"<![x[", b"&amp;lt;"):
                yield body.replace(piece, new)


@pytest.mark.parametrize("case", LISTED)
def test_nothing_that_a_provider_sends_is_more_than_an_error_in_words(case):
    dialect, name, token, answers_by_path, expected = LISTED[case]
    name = name.replace("{site}", "http://provider.example")
    canned = Canned(dialect, answers_by_path)
    whole = versions_in(canned, name, token)
    assert whole == {row[0] for row in expected}
    for path, body in list(canned.bodies.items()):
        for one in wrong_bodies(body):
            canned.changed = {path: one}
            versions_in(canned, name, token)


@pytest.mark.parametrize("case", LISTED)
def test_a_web_page_in_an_answer_s_place_is_no_list_of_releases(case):
    """Notes and dates beside the list may be one: what is there besides is known without them."""
    dialect, name, token, answers_by_path, expected = LISTED[case]
    name = name.replace("{site}", "http://provider.example")
    canned = Canned(dialect, answers_by_path)
    versions_in(canned, name, token)
    for at, path in enumerate(list(canned.bodies)):
        canned.changed = {path: PAGE}
        found = versions_in(canned, name, token)
        assert found is None or at > 0 and found == {row[0] for row in expected}, path


# What is taken back is told by go.mod alone, and of a text that ends after a line nobody can tell that more was to come.
@pytest.mark.parametrize("case", sorted(LISTED.keys() - {"go that takes versions back"}))
def test_an_answer_that_is_cut_short_names_no_version_that_the_whole_does_not(case):
    dialect, name, token, answers_by_path, expected = LISTED[case]
    name = name.replace("{site}", "http://provider.example")
    canned = Canned(dialect, answers_by_path)
    whole = versions_in(canned, name, token)
    for path, body in list(canned.bodies.items()):
        is_json = len(lines_of_json(body)) == 1
        for end in range(1, len(body)):
            canned.changed = {path: body[:end]}
            found = versions_in(canned, name, token)
            assert found is None or found <= whole, (path, body[:end][-40:], found - whole)
            assert not (is_json and body[:end].strip() != body.strip()) or found is None, (path, body[:end])


@pytest.mark.parametrize("tag, commit", [("v1.00001", "a" * 40), ("v1.9", "a" * 20 + "0000" + "b" * 16)])
def test_an_advertisement_of_tags_that_is_cut_short_is_refused_wherever_it_is(tag, commit):
    """Also where the last that came looks like the mark of its end."""
    answer = refs(f"{'c' * 40} HEAD", f"{commit} refs/tags/{tag}", f"{commit} refs/tags/{tag}-x")
    canned = Canned("savannah", {"/git/r.git/info/refs": answer})
    assert versions_in(canned, "r", None) == {tag, f"{tag}-x"}
    for end in range(1, len(answer[1])):
        canned.changed = {"/git/r.git/info/refs?service=git-upload-pack": answer[1][:end]}
        assert versions_in(canned, "r", None) is None, answer[1][:end][-60:]


@pytest.mark.parametrize("last, cut", [
    ("v1.1.10", "v1.1.1"), ("v1.2.0-rc.1", "v1.2.0"), ("v1.2.0-rc.10", "v1.2.0-rc.1"),
    ("v2.0.0+incompatible", "v2.0.0"), ("v1.10.0", "v1.1"), ("v1.10.0", "v1.10.")])
def test_a_go_list_that_ends_early_makes_no_version_of_a_beginning(last, cut):
    """Proxies may leave the last line without its end, but a version that there is none of has no .info."""
    canned = Canned("goproxy", {"/m.example/x/@v/list": (200, f"v1.0.0\n{cut}"), "/m.example/x/@v/v1.0.0.info": {
        "Version": "v1.0.0", "Time": MAY}})
    found = versions_in(canned, "m.example/x", None)
    assert found is None or found <= {"v1.0.0"}


@pytest.mark.parametrize("field, at", [("ts", "artifacthub"), ("start_ts", "quay")])
@pytest.mark.parametrize("value", [10**11, 10**12, 10**15, 10**17, 10**19, -10**17, 1e300, -1])
def test_a_time_in_seconds_that_no_calendar_has_is_an_error_in_words(field, at, value):
    """10**17 is one that C refuses with an OSError."""
    dialect, name, token, answers_by_path, _ = LISTED[at]
    canned = Canned(dialect, answers_by_path)
    versions_in(canned, name, token)
    path, body = next(iter(canned.bodies.items()))
    canned.changed = {path: re.sub(rf'"{field}": \d+'.encode(), f'"{field}": {value}'.encode(), body)}
    versions_in(canned, name, token)


@pytest.mark.parametrize("dialect", ["cargo", "git", "goproxy", "hackage", "metacpan", "nuget", "rubygems", "savannah",
                                     "sourceforge", "sourcehut"])
def test_a_dialect_without_tokens_sends_none(listen, dialect):
    row = next(row for row in LISTED.values() if row[0] == dialect)
    provider = listen(answering(row[3]))
    assert not row_of(dialect, provider.url).takes_token
    listed(dialect, provider.url, row[1].replace("{site}", provider.url), "secret")
    assert "secret" not in repr(provider.seen)


@pytest.mark.parametrize("path, version", [
    ("/stable/1.2/foo-1.2.tar.gz",               "1.2"),
    ("/foo-setup-x86_64.exe",                    None),
    ("/foo-win-32.zip",                          None),
    ("/foo-utf-8.zip",                           None),
    ("/1.2/1.2.3/foo-1.2.3.tar.gz",              "1.2.3"),
    ("/v2.0-rc1/foo.zip",                        "2.0-rc1"),
    ("/foo-3.1/setup.exe",                       "3.1"),
    ("/Foo 3.1/setup.exe",                       "3.1"),
    ("/foo-1.2.3-x86_64.tar.xz",                 "1.2.3"),
    ("/foo_1.1_amd64.deb",                       "1.1"),
    ("/foo-1.1-win32.zip",                       "1.1"),
    ("/foo-20260601.zip",                        "20260601"),
    ("/7-Zip/26.01/7z2601-x64.exe",              "26.01"),
    ("/ubuntu-22.04LTS/foo-2.0.deb",             "2.0"),
    ("/foo-1.0.2b.tar.gz",                       "1.0.2b"),
    ("/foo-1.0beta2.tar.gz",                     "1.0beta2"),
    ("/1.2/README",                              None),
    ("/1.2/readme.md",                           None),
    ("/1.2/foo-1.2.tar.gz.asc",                  None),
    ("/1.2/foo-1.2.tar.gz.sha256",               None),
    ("/1.2/SHA256SUMS.txt",                      None),
    ("/manual.pdf",                              None),
    ("/ubuntu-22.04LTS/manual.pdf",              None),
    ("",                                         None),
    ("/",                                        None),
])
def test_the_version_of_a_file_is_its_deepest_folder_s_or_its_own(path, version):
    items = rss(file_item(path, "Fri, 01 May 2026 08:00:00 UT"))
    canned = Canned("sourceforge", {"/projects/foo/rss": items})
    assert versions_in(canned, "foo", None) == ({version} if version else set())


@pytest.mark.parametrize("version, changes, section", [
    ("1.2",  "1.2 2026-01-01\n - new\n1.1\n - old",                   "1.2 2026-01-01\n - new"),
    ("1.1",  "1.2 2026-01-01\n - new\n1.1\n - old",                   "1.1\n - old"),
    ("1.1",  "v1.2\n - new\nv1.1:\n - old",                           "v1.1:\n - old"),
    ("1.1",  "## Version 1.2\nnew\n## Version 1.1\nold",              "## Version 1.1\nold"),
    ("1.1",  "== 1.1 ==\n\n  1.0.5 is mended\n\n== 1.0 ==\nolder",    "== 1.1 ==\n\n  1.0.5 is mended"),
    ("1.1",  "[1.1] - 2026\nx\n[1.0] - 2025\ny",                      "[1.1] - 2026\nx"),
    ("1.1",  "1.10\n - ten\n1.0\n - old",                             ""),
    ("1.1",  "",                                                      ""),
])
def test_of_a_file_of_changes_a_version_s_own_are_its_note(version, changes, section):
    entry = {"name": f"P-{version}", "version": version, "date": "2026-05-01T08:00:00", "author": "A",
             "maturity": "released"}
    canned = Canned("metacpan", {"/v1/release/versions/P": {"releases": [entry]},
                                 f"/v1/changes/A/P-{version}": {"content": changes}})
    release, = rt.releases_of(canned.row, "P", canned.fetch).releases
    assert (release.note.message if release.note else "") == (f"<pre>{section}</pre>" if section else "")


FILES, FEED = "/projects/foo/rss", "/package/text-icu.rss"
FRIDAY = "Fri, 01 May 2026 08:00:00 UT"


@pytest.mark.parametrize("case, path, text", [
    ("sourceforge", FILES, rss(file_item("/" + "-1" * 30_000, FRIDAY))),
    ("sourceforge", FILES, rss(file_item("/x-" + "1." * 30_000, FRIDAY))),
    ("sourceforge", FILES, rss(file_item("/x-" + "1" * 60_000 + "x", FRIDAY))),
    ("sourceforge", FILES, rss(file_item("/x-" + "1.1a" * 15_000 + "x", FRIDAY))),
    ("sourceforge", FILES, rss(file_item("/1.1-a" * 10_000 + "/x", FRIDAY))),
    ("hackage",     FEED,  rss(("p-1.0", "https://h/p-1.0", FRIDAY, "&lt;h1&gt;" * 15_000))),
    ("hackage",     FEED,  rss(("p-1.0", "https://h/p-1.0", FRIDAY, "&lt;h1" * 15_000))),
    ("hackage",     FEED,  rss(("p-1.0", "https://h/p-1.0", FRIDAY, "&lt;h1&gt;" + "1." * 30_000))),
    ("hackage",     FEED,  rss(("p-1.0", "https://h/p-1.0", FRIDAY, "&lt;h1&gt;" + "&lt;b" * 15_000))),
    ("maven",       "/g/h/a/", (200, '<a href="1/"' * 20_000)),
    ("maven",       "/g/h/a/", (200, '<a href="1/">' + " " * 60_000)),
    ("maven",       "/g/h/a/", (200, '<a href="1/">x</a>' + ('<a href="1/">x</a>' + " " * 150) * 400)),
    ("metacpan",    "/v1/changes/SRI/Mojo-Lite-9.40", {"content": "=" * 60_000}),
    ("metacpan",    "/v1/changes/SRI/Mojo-Lite-9.40", {"content": "=\n" * 30_000}),
    ("metacpan",    "/v1/changes/SRI/Mojo-Lite-9.40", {"content": "9.40" * 15_000}),
    ("savannah",    "/git/bash.git/info/refs", (200, b"001e# service=git-upload-pack\n0000" + b"a" * 200_000)),
    ("savannah",    "/git/bash.git/info/refs", (200, b"001e# service=git-upload-pack\n0000" + b"0004" * 50_000)),
    ("go that takes versions back", "/m.example/x/@v/list", (200, "v1.0" + "." * 60_000)),
    ("go that takes versions back", "/m.example/x/@v/list", (200, "v1.0.0-" + "a." * 30_000)),
    *(("go that takes versions back", "/m.example/x/@v/v1.10.0.mod", (200, mod)) for mod in (
        "\n" * 60_000, " \n" * 30_000, "retract ([" + "[" * 60_000 + ")", "retract (" + "[v1" * 20_000 + ")",
        "retract (\n" * 6_000, "retract " * 8_000, "retract (" + "[v1 ," * 12_000 + ")", "/" * 60_000,
        "retract (" + "[ " * 30_000 + ")", "retract" + " " * 60_000 + "(", "retract v1." + "1." * 30_000)),
])
def test_no_answer_takes_long_to_be_read(case, path, text):
    dialect, name, token, answers_by_path, _ = LISTED[case]
    canned = Canned(dialect, {**answers_by_path, path: text})
    began = time.process_time()
    versions_in(canned, name, token)
    assert time.process_time() - began < 1


def test_a_web_page_instead_of_a_list_is_called_one(listen):
    page = "<!doctype html><title>Checking your browser</title>"
    site = listen(lambda seen: (200, page, {"Content-Type": "text/html"})).url
    for case, says in (("gitlab", "web page"), ("forgejo", "web page"), ("oci", "web page"), ("dockerhub", "web page"),
                       ("depsdev", "web page"), ("npm", "web page"), ("simple", "web page"), ("github feed", "no XML"),
                       ("github", "web page"), ("artifacthub", "web page"), ("bitbucket", "web page"), ("cargo", "JSON"),
                       ("git", "no git repository"), ("go", "no list of versions"), ("hackage", "no XML"),
                       ("hex", "web page"), ("maven", "no XML"), ("metacpan", "web page"), ("nuget", "web page"),
                       ("packagist", "web page"), ("pub", "web page"), ("quay", "web page"), ("rubygems", "web page"),
                       ("savannah", "no git repository"), ("sourceforge", "no XML"), ("sourcehut", "no XML")):
        dialect, name, token, _, _ = LISTED[case]
        with pytest.raises(rt.ProviderError, match=says):
            listed(dialect, site, name.replace("{site}", site), token)


def test_ten_thousand_entries_are_read_in_good_time():
    entries = [{**FORGEJO_RELEASES[0], "tag_name": f"v1.{minor}", "body": "x" * 1000} for minor in range(10_000)]
    canned, began = Canned("forgejo", {"/api/v1/repos/o/r/releases": entries}), time.process_time()
    assert versions_in(canned, "o/r", None)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("name, value", [
    ("Link", "<" * 20_000), ("Link", "<x>" + ";" * 20_000), ("Link", "<>" * 10_000),
    ("Link", "<x>; rel=" + "x" * 20_000),
    ("WWW-Authenticate", "Bearer " + "a" * 20_000), ("WWW-Authenticate", "Bearer " * 3_000),
    ("WWW-Authenticate", 'Bearer realm="' + "a" * 20_000), ("WWW-Authenticate", 'Bearer ' + 'a="' * 7_000)])
def test_no_header_takes_long_to_be_read(name, value):
    status = 401 if name == "WWW-Authenticate" else 200
    canned = Canned("oci", {"/v2/o/i/tags/list": (status, OCI_TAGS, {name: value}), "/": 404})
    began = time.process_time()
    versions_in(canned, "o/i", None)
    assert time.process_time() - began < 0.2


# == tracker ===================================================================


def was(date: str, evidence: str | None = None, note: rt.Note | None = None) -> rt.Known:
    return rt.Known(date, evidence, note and note.fingerprint)


seen_as = rt.Release
NOTE, EDITED = rt.Note("One", "<p>One</p>", ""), rt.Note("One", "<p>One, and more</p>", "")
APRIL = "2026-04-01T08:00:00Z"
NOW = 1_790_000_000.0
# what was known, what is listed, whether that is a window; versions new, updated, evidenced, noted, and news
COMPARED = {
    "nothing known":            ({}, [seen_as("1", MAY)],                         False, ("1", "", "", "", "1")),
    "nothing new":              ({"1": was(MAY)}, [seen_as("1", MAY)],        False, ("", "", "", "", "")),
    "one new":                  ({"1": was(MAY)}, [seen_as("2", JUNE), seen_as("1", MAY)], False,
                                 ("2", "", "", "", "2")),
    "two new, oldest first":    ({"1": was(APRIL)}, [seen_as("3", JUNE), seen_as("2", MAY), seen_as("1", APRIL)],
                                 False, ("23", "", "", "", "23")),
    "another order":            ({"1": was(MAY), "2": was(JUNE)}, [seen_as("1", MAY), seen_as("2", JUNE)],
                                 False, ("", "", "", "", "")),
    "one that vanished":        ({"1": was(MAY), "2": was(JUNE)}, [seen_as("1", MAY)], False,
                                 ("", "", "", "", "")),
    "another date alone":       ({"1": was(MAY)}, [seen_as("1", JUNE)],       False, ("", "", "", "", "")),
    "the same evidence":        ({"1": was(MAY, "digest:a")}, [seen_as("1", MAY, evidence="digest:a")], False,
                                 ("", "", "", "", "")),
    "other evidence":           ({"1": was(MAY, "digest:a")}, [seen_as("1", JUNE, evidence="digest:b")], False,
                                 ("", "1", "", "", "1")),
    "evidence of another kind": ({"1": was(MAY, "commit:a")}, [seen_as("1", MAY, evidence="published:b")], False,
                                 ("", "", "1", "", "")),
    "the first evidence":       ({"1": was(MAY)}, [seen_as("1", MAY, evidence="digest:b")], False,
                                 ("", "", "1", "", "")),
    "no evidence any more":     ({"1": was(MAY, "digest:a")}, [seen_as("1", MAY)], False, ("", "", "", "", "")),
    "a kind with a like name":  ({"1": was(MAY, "digests:a")}, [seen_as("1", MAY, evidence="digest:b")], False,
                                 ("", "", "1", "", "")),
    "the same note":            ({"1": was(MAY, None, NOTE)}, [seen_as("1", MAY, note=NOTE)], False,
                                 ("", "", "", "", "")),
    "another note alone":       ({"1": was(MAY, None, NOTE)}, [seen_as("1", MAY, note=EDITED)], False,
                                 ("", "", "", "1", "")),
    "the first note":           ({"1": was(MAY)}, [seen_as("1", MAY, note=NOTE)], False, ("", "", "", "1", "")),
    "no note any more":         ({"1": was(MAY, None, NOTE)}, [seen_as("1", MAY)], False, ("", "", "", "", "")),
    "note and evidence":        ({"1": was(MAY, "digest:a", NOTE)}, [seen_as("1", MAY, evidence="digest:b",
                                 note=EDITED)],
                                 False, ("", "1", "", "1", "1")),
    "an old one, listed whole": ({"2": was(MAY)}, [seen_as("2", MAY), seen_as("1", APRIL)], False,
                                 ("1", "", "", "", "1")),
    "an old one in a window":   ({"2": was(MAY)}, [seen_as("2", MAY), seen_as("1", APRIL)], True,
                                 ("1", "", "", "", "")),
    "a backport in a window":   ({"1": was(APRIL), "3": was(JUNE)}, [seen_as("3", JUNE), seen_as("2", MAY)], True,
                                 ("2", "", "", "", "2")),
    "no date in a window":      ({"1": was(MAY)}, [seen_as("2", None), seen_as("1", None)], True,
                                 ("2", "", "", "", "2")),
}


@pytest.mark.parametrize("case", COMPARED)
def test_what_is_listed_is_compared_with_what_is_known(case):
    known, listed_now, is_window, expected = COMPARED[case]
    findings, news = rt.compare(known, rt.Listing(listed_now, is_window=is_window), NOW)
    kinds = (findings.new, findings.updated, findings.evidenced, findings.noted, news)
    assert tuple("".join(release.version for release in kind) for kind in kinds) == expected
    assert all(release.is_updated for release in findings.updated)
    assert all(release.date for kind in kinds[:3] for release in kind)
    assert {release.date for release in findings.updated} <= {known_one.date for known_one in known.values()}


def test_a_release_without_a_date_has_that_of_its_first_sight():
    findings, _ = rt.compare({}, rt.Listing([rt.Release("1", None)]), NOW)
    assert [release.date for release in findings.new] == [rt.timestamp(NOW)]


class Watch:
    """One project at the forge, checked when a test says so, on a clock that a test moves."""

    def __init__(self, board: Board, forge: Forge, name: str = "o/r") -> None:
        self.board, self.forge, self.name, self.now = board, forge, name, time.time()
        settings = rt.Settings(provider=(forge.flag,))
        providers = rt.providers_with(settings.provider)
        self.project, source = board.store.add_project(
            board.account.id, "forge", *reversed(rt.name_at(providers["forge"], name)), {})
        self.id = source.id
        self.heard: list[Any] = []
        self.tracker = rt.Tracker(board.store, rt.Fetcher(settings, lambda: self.now), providers, settings,
                                  board.service.patterns, clock=lambda: self.now, spread=lambda: 0.0)
        self.tracker.listeners.append(self.heard.append)

    def check(self) -> list[str]:
        """The versions that are news, with a ! behind those that were updated."""
        found = self.tracker.check_now(self.id)
        assert found is not None
        return [release.version + "!" * release.is_updated for release in found[1]]

    @property
    def source(self) -> rt.Source:
        return self.board.store.source(self.id)

    @property
    def versions(self) -> list[str]:
        return sorted(self.board.store.known_releases(self.id))

    def wait(self) -> float:
        """Seconds until the source is due again, to the minute."""
        at = self.now
        while not self.board.store.due_providers(["forge"], at):
            at += 60
        return at - self.now


@pytest.fixture
def watch(board: Board, forge: Forge) -> Watch:
    forge.publish("o/r", "1.0", "1.1")
    return Watch(board, forge)


def test_what_was_released_before_the_first_sight_is_history(watch):
    assert watch.check() == [] and watch.heard == []
    assert watch.versions == ["1.0", "1.1"]
    watch.forge.publish("o/r", "2.0-rc1", "2.0")
    assert watch.check() == ["2.0-rc1", "2.0"]
    assert [(event["version"], event.get("is_prerelease", False)) for event in watch.heard] == [
        ("2.0-rc1", True), ("2.0", False)]
    assert watch.check() == [] and len(watch.heard) == 2


def test_the_first_sight_of_a_project_that_failed_before_is_history_too(watch):
    watch.forge.fault = 500
    watch.check()
    watch.forge.fault = None
    assert watch.check() == [] and watch.versions == ["1.0", "1.1"]


def test_a_project_without_releases_tells_of_its_first_one(board, forge):
    forge.releases["o/new"] = []
    watch = Watch(board, forge, "o/new")
    assert watch.check() == []
    forge.publish("o/new", "0.1")
    assert watch.check() == ["0.1"]


def test_one_event_comes_of_whatever_happens_to_a_release(watch):
    watch.check()
    entries = watch.forge.releases["o/r"]
    entries.reverse()
    assert watch.check() == []                              # another order
    entries[0]["body"] = "Notes, with a typo less"
    assert watch.check() == []                              # another note
    assert "typo less" in watch.board.store.note(watch.id, entries[0]["tag_name"]).message
    entries[0]["published_at"] = "2026-07-01T00:00:00Z"
    assert watch.check() == [entries[0]["tag_name"] + "!"]  # published again
    assert watch.check() == []
    entries.append(dict(entries[0]))
    assert watch.check() == []                              # listed twice
    assert [event.get("is_updated") for event in watch.heard] == [True]


def test_a_version_that_vanishes_is_no_event_and_neither_is_its_return(watch):
    watch.check()
    gone = watch.forge.releases["o/r"].pop(0)
    assert watch.check() == [] and gone["tag_name"] in watch.versions
    watch.forge.releases["o/r"].insert(0, gone)
    assert watch.check() == [] and watch.heard == []


def test_what_is_not_changed_is_asked_for_by_its_tag_and_not_sent_again(watch):
    plain = watch.forge.listener.answer

    def tagged(seen: Seen) -> Any:
        status, body = plain(seen)
        tag = f'"{len(json.dumps(body))}"'
        return 304 if seen.headers.get("if-none-match") == tag else (status, body, {"ETag": tag})
    watch.forge.listener.answer = tagged
    watch.check()
    watch.forge.listener.seen.clear()
    assert watch.check() == [] and watch.source.failures == 0
    assert [seen.headers.get("if-none-match") is not None for seen in watch.forge.listener.seen] == [True]
    assert watch.check() == []                              # a 304 leaves the tag as it was
    assert ["if-none-match" in seen.headers for seen in watch.forge.listener.seen] == [True, True]
    watch.forge.publish("o/r", "2.0")
    assert watch.check() == ["2.0"]


GARBAGE = {
    "a web page":       ((200, "<!DOCTYPE html><h1>Just a moment</h1>"),                            "web page"),
    "half of a list":   ((200, '[{"tag_name": "9.9", "name": "x", "bo'),                            "no JSON"),
    "an object":        ((200, {"tag_name": "9.9"}),                                                "no list"),
    "null":             ((200, b"null"),                                                            "no list"),
    "other types":      ((200, [{"tag_name": 9, "name": 9, "published_at": 9, "draft": 0}]),         "another type"),
    "no tag":           ((200, [{"name": "9.9", "draft": False}]),                                  "missing"),
    "no date":          ((200, [{"tag_name": "9.9", "name": "", "body": "", "draft": False, "prerelease": False,
                                 "html_url": "", "published_at": "yesterday"}]),                    "no time"),
    "NaN":              ((200, b"NaN"),                                                             "no list"),
    "a huge number":    ((200, b"[" + b"9" * 5000 + b"]"),                                          ""),
    "deep nesting":     ((200, b"[" * 100_000),                                                     "deep|no JSON"),
    "binary":           ((200, bytes(range(256))),                                                  "no JSON"),
    "no gzip":          ((200, b"[]", {"Content-Encoding": "gzip"}),                                "gzip"),
    "a redirect loop":  ((302, b"", {"Location": "/again"}),                                        "redirected"),
    "an error":         (500,                                                                       "status 500"),
    "a forbidden page": ((403, "<html>"),                                                           "private|kept out"),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_garbage_is_an_error_of_the_source_in_words_and_never_a_release(watch, case):
    watch.check()
    watch.forge.fault, says = GARBAGE[case]
    assert watch.check() == []
    source = watch.source
    assert source.failures == 1 and not source.is_missing
    assert re.search(says, source.error) and "internal" not in source.error and source.error.isprintable()
    assert watch.versions == ["1.0", "1.1"] and watch.heard == []
    watch.forge.fault = None
    watch.forge.publish("o/r", "2.0")
    assert watch.check() == ["2.0"]
    assert (watch.source.failures, watch.source.error) == (0, None)


def test_a_source_that_fails_is_asked_less_and_less_and_keeps_its_releases(watch):
    watch.check()
    assert watch.wait() == pytest.approx(3600, abs=60)
    watch.forge.fault = 500
    waits = []
    for _ in range(6):
        watch.now += watch.wait()
        watch.check()
        waits.append(watch.wait())
    assert waits == sorted(waits) and waits[0] > 3600 and waits[-1] == pytest.approx(6 * 3600, abs=60)
    assert watch.source.failures == 6 and watch.versions == ["1.0", "1.1"]
    watch.forge.fault = None
    watch.check()
    assert watch.wait() == pytest.approx(3600, abs=60)


def test_a_provider_that_asks_to_wait_is_waited_for_and_that_is_no_failure(watch):
    watch.check()
    watch.forge.fault = (429, b"", {"Retry-After": "7200"})
    assert watch.check() == [] and watch.source.failures == 0 and "asked again at" in watch.source.error
    assert watch.wait() == pytest.approx(7200, abs=60)
    count = len(watch.forge.listener.seen)
    assert watch.check() == [] and len(watch.forge.listener.seen) == count      # nor is it asked by hand
    watch.now += 7300
    watch.forge.fault = None
    watch.forge.publish("o/r", "2.0")
    assert watch.check() == ["2.0"] and watch.source.error is None


def test_a_project_that_is_gone_keeps_what_is_known_of_it_until_it_is_back(watch):
    watch.check()
    releases = watch.forge.releases.pop("o/r")
    assert watch.check() == []
    assert watch.source.missing_since and "has no project o/r" in watch.source.error
    assert watch.versions == ["1.0", "1.1"]
    watch.forge.releases["o/r"] = releases
    assert watch.check() == [] and not watch.source.missing_since and watch.heard == []


def renamed(forge: Forge, old: str, new: str) -> None:
    """Have the forge call a project by another name, and send who asks by the old one there."""
    forge.releases[new] = forge.releases.pop(old)
    plain = forge.listener.answer

    def answer(seen: Seen) -> Any:
        if seen.path.startswith(f"/api/v1/repos/{old}/"):
            return 301, b"", {"Location": seen.path.replace(old, new, 1)}
        return (200, {"full_name": new}) if seen.path == f"/api/v1/repos/{new}" else plain(seen)
    forge.listener.answer = answer


def test_a_project_that_was_renamed_keeps_its_history_under_the_new_name(watch):
    watch.check()
    renamed(watch.forge, "o/r", "New/Name")
    watch.forge.publish("New/Name", "2.0")
    assert watch.check() == ["2.0"]                         # told once more under the name that it was added by
    assert (watch.source.name, watch.source.key) == ("New/Name", "new/name")
    assert watch.versions == ["1.0", "1.1", "2.0"]
    project = watch.board.store.project(watch.board.account.id, watch.project.id)
    assert (project.name, project.health.error) == ("New/Name", None)
    assert watch.board.store.project_by_names(watch.board.account.id, "forge", ["new/name"])
    watch.forge.listener.seen.clear()
    assert watch.check() == [] and {"o/r" in seen.path for seen in watch.forge.listener.seen} == {False}


def test_a_project_that_was_renamed_to_one_that_is_tracked_joins_it(watch):
    store, forge = watch.board.store, watch.forge
    other = an_account(store, "you@example.org")
    moved = store.add_project(other.id, "forge", "o/r", "o/r", {})[0]
    watch.check()
    renamed(forge, "o/r", "new/name")
    mine, there = store.add_project(watch.board.account.id, "forge", "new/name", "new/name", {})
    watch.tracker.check_now(there.id)
    watch.check()
    assert watch.source is None                             # nobody is left at the old name
    projects, _ = store.projects(watch.board.account.id, "name", False)
    assert [project.id for project in projects] == [mine.id] and store.providers_of(watch.board.account.id) == ["forge"]
    project, = store.projects(other.id, "name", False)[0]
    assert (project.id, project.name, project.source_id) == (moved.id, "new/name", there.id)
    assert len(store.releases(there.id, 1)[0]) == 2


def test_what_is_released_while_two_names_become_one_is_told_to_each_once(watch):
    store, forge = watch.board.store, watch.forge
    other = an_account(store, "you@example.org")
    watch.check()                                               # knows 1.0, 1.1
    renamed(forge, "o/r", "new/name")
    del forge.releases["new/name"][1:]                          # the new name has only the newest
    there = store.add_project(other.id, "forge", "new/name", "new/name", {})[1]
    watch.tracker.check_now(there.id)
    forge.publish("new/name", "2.0")
    watch.tracker.check_now(there.id)                           # you are told of it here
    watch.heard.clear()
    forge.publish("new/name", "3.0")
    watch.check()                                               # and I of 2.0, as the names are joined
    assert [(event["project"], event["version"]) for event in watch.heard] == [("o/r", "2.0")]
    assert sorted(store.known_releases(there.id)) == ["1.0", "1.1", "2.0"]
    watch.heard.clear()
    watch.tracker.check_now(there.id)
    assert sorted((event["project"], event["version"]) for event in watch.heard) == [("new/name", "3.0")] * 2
    project, = store.projects(watch.board.account.id, "updated", False)[0]
    assert (project.name, store.releases(project.source_id, 1)[0][0].version) == ("new/name", "3.0")


def test_a_listener_holds_up_no_other_check_and_may_check_itself(watch):
    other = watch.board.store.add_project(watch.board.account.id, "forge", "o/other", "o/other", {})[1]
    watch.forge.publish("o/other", "1.0")
    watch.check()
    found: list[Any] = []
    watch.tracker.listeners.append(lambda event: found.append(watch.tracker.check_now(other.id)))
    watch.forge.publish("o/r", "2.0")
    assert watch.check() == ["2.0"]
    assert found[0][0].error is None and watch.board.store.known_releases(other.id)


def test_what_nothing_vouches_for_is_asked_in_full_the_next_time(board, listen):
    """Else a 304 of what vouched before would hide whatever is elsewhere."""
    site = listen(answering({"/m/@v/list": (200, "v1.0.0\n")})).url
    tracker = board.service.tracker
    tracker.providers = rt.providers_with([("go", "goproxy", site)])
    source = board.store.add_project(board.account.id, "go", "m", "m", {})[1]
    assert board.store.claim_source(source.id, "test", time.time())
    board.store.record_found(source.id, "test", rt.Findings(time.time(), f"{site}/m/@v/list", '"1"', None))
    after, _ = tracker.check_now(source.id)
    assert (after.error, after.etag_url, after.etag) == (None, None, None)


def test_a_project_is_asked_for_no_oftener_than_its_host_wishes(board):
    """Artifact Hub: once an hour; others by the interval."""
    settings = rt.Settings(poll_interval=60)
    now = time.time()

    class Public:
        def fetch(self, request: rt.Request, is_trusted: bool = True) -> rt.Answer:
            return rt.Answer(request.url, 200, {}, json.dumps(
                {"version": "1.0.0", "ts": 1777622400, "package_id": "x"} if request.url.endswith("/p") else []).encode(),
                             request.url)

    tracker = rt.Tracker(board.store, Public(), rt.PROVIDERS, settings, board.service.patterns,   # type: ignore[arg-type]
                         clock=lambda: now, spread=lambda: 0.0)
    for id_, name, wait in (("artifacthub", "helm/r/p", 3600), ("gitlab", "g/p", 60)):
        source = board.store.add_project(board.account.id, id_, name, name, {})[1]
        after, _ = tracker.check_now(source.id)
        assert round(after.next_check_at - now) == wait, after


def test_a_host_whose_quota_is_spent_says_until_when_and_holds_back_no_other(watch, listen):
    reset = int(watch.now) + 1800
    watch.check()
    plain = watch.forge.listener.answer
    watch.forge.listener.answer = lambda seen: (*plain(seen)[:2], {"X-RateLimit-Remaining": "7"})
    watch.check()
    assert watch.source.quota_left == 7
    watch.forge.listener.answer = lambda seen: (403, b"", {
        "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(reset), "Date": email.utils.formatdate(watch.now)})
    watch.check()
    assert watch.source.quota_left == 0 and watch.source.as_json()["quota_left"] == 0
    asked = len(watch.forge.listener.seen)
    for _ in range(2):
        until = {rt.timestamp(reset + late)[:16] for late in (0, 3)}        # our clock is asked a moment later
        assert any(minute in watch.source.error for minute in until) and watch.source.failures == 0
        assert 1700 < watch.wait() <= 1900
        watch.check()                                       # waits for the host, which is not asked
    assert len(watch.forge.listener.seen) == asked
    elsewhere = Forge()
    elsewhere.publish("o/r", "3.0")
    watch.tracker.providers = rt.providers_with([("other", "forgejo", elsewhere.listener.url)])
    source = watch.board.store.add_project(watch.board.account.id, "other", "o/r", "o/r", {})[1]
    assert watch.tracker.check_now(source.id)[0].error is None
    elsewhere.close()


def test_a_private_address_that_a_user_chose_is_asked_for_an_administrator_alone(board, listen):
    server = listen(lambda seen: ADVERTISED)
    other = an_account(board.store, "you@example.org")
    tracker = board.service.tracker
    name, key = rt.name_at(rt.PROVIDERS["git"], f"{server.url}/app.git")
    source = board.store.add_project(other.id, "git", key, name, {})[1]
    assert "private address" in tracker.check_now(source.id)[0].error and not server.seen
    board.store.add_project(board.account.id, "git", key, name, {})
    assert tracker.check_now(source.id)[0].error is None
    assert board.store.known_releases(source.id)["v1.10-rc1"].evidence == SECOND_TAG


class Hub:
    """An enterprise server of GitHub's, whose repositories have the versions that a test says."""

    def __init__(self, **versions: list[str]) -> None:
        self.versions = versions
        self.queries: list[str] = []
        self.asked: list[str] = []          # repositories, over REST
        self.listener = Listener(self._answer)

    def _answer(self, seen: Seen) -> Any:
        assert seen.headers["authorization"] == "Bearer word"
        if seen.path == "/api/graphql":
            self.queries.append(seen.json()["query"])
            names = re.findall(r'(r[0-9]+): repository\(owner: "o", name: "([^"]+)"\)', self.queries[-1])
            return 200, {"data": {at: name in self.versions and {"nameWithOwner": f"o/{name}", "releases": {
                "totalCount": len(self.versions[name]), "nodes": self.versions[name]}} or None for at, name in names}}
        name = seen.path.split("/")[5]
        self.asked.append(name)
        return 200, [{"tag_name": version, "name": "", "draft": False, "prerelease": False, "published_at": JUNE,
                      "body_html": "", "html_url": ""} for version in self.versions[name]]


def test_github_with_a_token_is_asked_for_many_repositories_in_one_query(serve, db):
    names = [f"r{number}" for number in range(20)]
    hub = Hub(**{name: ["v1.0"] for name in names})
    store = rt.Store(db)
    account = an_account(store)
    for name in names:
        store.add_project(account.id, "hub", f"o/{name}", f"o/{name}", {})
    process = serve("--provider", f"hub=github:{hub.listener.url}", "--poll-interval", "1", env={"HUB_TOKEN": "word"})
    until(lambda: len(hub.queries) >= 3, 30)
    assert max(query.count("repository(") for query in hub.queries) >= 10
    assert sorted(set(hub.asked)) == sorted(names)
    calm = len(hub.asked)
    until(lambda: len(hub.queries) >= 6, 30)
    assert len(hub.asked) == calm <= 60                     # nothing new, nothing asked for one by one
    hub.versions["r7"] = ["v2.0", "v1.0"]
    source = next(one for one in store.sources() if one.name == "o/r7")
    until(lambda: "v2.0" in store.known_releases(source.id), 30)
    assert set(hub.asked[calm:]) == {"r7"}
    del hub.versions["r7"]
    until(lambda: store.source(source.id).error, 30)        # what the query does not tell is found out by itself
    process.end()
    store.close()
    hub.listener.close()


def test_a_source_whose_provider_was_taken_away_says_so(watch):
    watch.check()
    watch.tracker.providers = dict(rt.PROVIDERS)
    assert watch.check() == [] and "no provider forge here" in watch.source.error


def test_a_source_that_another_process_checks_is_left_to_it(watch):
    assert watch.board.store.claim_source(watch.id, "another", watch.now)
    assert watch.tracker.check_now(watch.id) is None and watch.forge.listener.seen == []
    watch.now += rt.LEASE + 1
    assert watch.check() == [] and watch.versions == ["1.0", "1.1"]


def test_a_project_that_two_accounts_track_is_asked_for_once_and_told_to_both(watch):
    other = watch.board.store.add_account("user", "other@example.org", "Other", "scrypt$00$00", False)
    watch.board.store.add_project(other.id, "forge", "o/r", "o/r", {})
    watch.check()
    watch.forge.listener.seen.clear()
    watch.forge.publish("o/r", "2.0")
    assert watch.check() == ["2.0"]
    assert [(event["version"], event["account"]["name"]) for event in watch.heard] == [("2.0", "Me"), ("2.0", "Other")]
    assert len([seen for seen in watch.forge.listener.seen if "/releases?" in seen.path]) == 1


def test_a_pre_release_that_is_promoted_is_news():
    listing = rt.Listing([rt.Release("2.0", "2026-02-01T00:00:00Z", False, evidence="published:x")])
    before = rt.Known("2026-02-01T00:00:00Z", "published:x", None, 1)
    findings, news = rt.compare({"2.0": before}, listing, 0.0)
    assert news == list(findings.updated) and news[0].is_updated and not news[0].is_prerelease
    for quiet in (dataclasses.replace(before, is_prerelease=0), dataclasses.replace(before, evidence=None)):
        assert rt.compare({"2.0": quiet}, listing, 0.0)[1] == []


def test_a_listener_that_fails_keeps_nothing_from_the_others(tmp_path, forge, caplog):
    board, heard = Board(tmp_path, provider=(forge.flag,)), []
    board.service.on_release(lambda event: 1 // 0)
    board.service.on_release(lambda event: heard.append(event["version"]))
    forge.publish("o/p", "1.0")
    project = board.store.add_project(board.account.id, "forge", "o/p", "o/p", {})[0]
    assert board.service.tracker.check_now(project.source_id)
    forge.publish("o/p", "2.0")
    _, news = board.service.tracker.check_now(project.source_id) or (None, [])
    assert heard == ["2.0"] == [one.version for one in news] and "ZeroDivisionError" in caplog.text
    board.close()


def test_at_first_sight_what_has_no_date_is_not_younger_than_what_has_one():
    """As of a registry, where only the newest numbered tags are looked at for a date."""
    listing = rt.Listing([rt.Release("2.0", "2026-02-01T00:00:00Z"), rt.Release("1.9", "2026-01-01T00:00:00Z"),
                          rt.Release("1.0", None), rt.Release("latest", None)])
    findings, _ = rt.compare({}, listing, 1_800_000_000.0)
    assert [(one.version, one.date) for one in findings.new] == [
        ("latest", "2026-01-01T00:00:00Z"), ("1.0", "2026-01-01T00:00:00Z"), ("1.9", "2026-01-01T00:00:00Z"),
        ("2.0", "2026-02-01T00:00:00Z")]
    known = {"1.0": rt.Known("2026-01-01T00:00:00Z", None, None)}
    findings, _ = rt.compare(known, listing, 1_800_000_000.0)
    assert dict((one.version, one.date) for one in findings.new)["latest"] == "2027-01-15T08:00:00Z"


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


def hook_request(now: float = 1_700_000_000.0, brand: str = "Service", **settings: Any) -> rt.Request:
    """What a webhook of these settings is sent."""
    about = {"url": "http://127.0.0.1:9/", "headers": {}, "fields": {}, **settings}
    return request_of(a_delivery(rt.Destination("d", "a", "webhook", "hook", about, SECRET)), now=now, brand=brand)


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


def test_the_readme_s_ways_to_verify_a_signature_work():
    sent = hook_request(time.time())
    example = re.search(r"```python\n(import hashlib.*?)```", README, re.DOTALL)
    assert example
    names: dict[str, Any] = {}
    exec(example[1], names)
    is_genuine = names["is_genuine"]
    assert is_genuine(SECRET, sent.headers, sent.body)
    assert not is_genuine(SECRET, sent.headers, sent.body + b" ")
    assert not is_genuine("whsec_other", sent.headers, sent.body)
    assert not is_genuine(SECRET, {**sent.headers, "X-Service-Signature": "no hex"}, sent.body)
    old = hook_request(time.time() - 400)
    assert not is_genuine(SECRET, old.headers, old.body)


@pytest.mark.skipif(not shutil.which("openssl"), reason="there is no openssl command")
def test_the_readme_s_line_of_shell_prints_the_signature(tmp_path):
    sent = hook_request()
    (tmp_path / "body").write_bytes(sent.body)
    line = re.search(r"```sh\n(\(printf .*?)#", README)
    assert line
    said = subprocess.run(["sh", "-c", line[1]], cwd=tmp_path, capture_output=True, text=True, check=True, env={
        **os.environ, "TIMESTAMP": sent.headers["X-Service-Timestamp"], "SECRET": SECRET}).stdout
    assert said.split()[-1] == sent.headers["X-Service-Signature"]


def test_a_webhook_s_request_is_signed_over_the_bytes_that_are_sent():
    sent = hook_request(1700000000.9, "Acme", headers={"X-Mine": "1"})
    assert sent.method == "POST" and json.loads(sent.body) == EVENT
    assert sent.body == json.dumps(EVENT, ensure_ascii=False, separators=(",", ":")).encode()
    assert sent.headers["X-Acme-Timestamp"] == sent.headers["webhook-timestamp"] == "1700000000"
    assert sent.headers["X-Acme-Signature"] == rt.signature(SECRET, 1700000000, sent.body)
    assert sent.headers["webhook-id"] == "msg_p5jXN8AQM9LWM0D4loKWxJek"
    assert sent.headers["webhook-signature"] == rt.standard_signature(SECRET, sent.headers["webhook-id"], 1700000000, sent.body)
    assert sent.headers["Content-Type"] == "application/json" and sent.headers["X-Mine"] == "1"
    assert sent.headers["User-Agent"] == f"releasetrack/{rt.__version__}"
    later = hook_request(1700000100.0, "Acme")
    assert later.body == sent.body and later.headers["webhook-id"] == sent.headers["webhook-id"]
    assert later.headers["X-Acme-Signature"] != sent.headers["X-Acme-Signature"]


def test_custom_fields_hold_every_variable_and_are_read_once():
    fields = {name: f"<{{{name}}}>" for name in rt.TEMPLATE_NAMES} | {"json": '{"v": "{version}", {{x}}}', "text": "plain"}
    body = json.loads(hook_request(fields=fields).body)
    assert body == {
        "provider": "<github>", "project": "<o/p>", "version": "<1.0>", "time": "<2026-03-01T10:00:00Z>",
        "cve": "<CVE-2026-1234, CVE-2026-1235>", "is_prerelease": "<true>", "is_updated": "<false>", "note_title": "<One>",
        "note_message": "<<p>a &amp; b</p><script>x</script>>", "note_text": "<a & b>", "account_type": "<user>",
        "account_id": "<abc>", "account_name": "<Mé>", "tags": "<infra>", "project_note": "<{version}>",
        "url": "<https://forge.example/note>", "json": '{"v": "1.0", {x}}', "text": "plain"}


def test_a_body_holds_what_the_contract_says_and_nothing_that_says_nothing():
    account = rt.Account("a1", "organization", "me@example.org", "Team", True, "daily", "UTC", "x")
    project = rt.Project("p1", "a1", 1, "github", "o/p", "daily", False, False, (), "", 0, (), {},
                         rt.Health(None, None, 0.0, None, None, False, None))
    bare = rt.event_body(rt.Subscriber(project, account, (), ()), rt.Release("1.0", "2026-03-01T10:00:00Z"))
    assert bare == {"provider": "github", "project": "o/p", "version": "1.0", "time": "2026-03-01T10:00:00Z",
                    "account": {"type": "organization", "id": "a1", "name": "Team"}}
    full = rt.event_body(
        rt.Subscriber(dataclasses.replace(project, note="mine"), account, (rt.Tag("t1", "infra"),), ()),
        rt.Release("1.0", "2026-03-01T10:00:00Z", True, ("CVE-2026-1234",), rt.Note("T", "<p>M</p>", "u"), None, True))
    assert full == bare | {"cve": ["CVE-2026-1234"], "is_prerelease": True, "is_updated": True, "project_note": "mine",
                           "note": {"title": "T", "message": "<p>M</p>"}, "tags": [{"id": "t1", "name": "infra"}]}


@pytest.mark.parametrize("is_accepted, retry_after, failures, age, state, wait", [
    (True,  None,  1,  0,         "delivered", 0),
    (True,  9.0,   5,  0,         "delivered", 0),
    (True,  None,  1,  0,         "delivered", 0),
    (False, None,  1,  0,         "pending",   30),
    (False, None,  2,  30,        "pending",   60),
    (False, None,  3,  90,        "pending",   120),
    (False, None,  1,  0,         "pending",   30),
    (False, None,  10, 15330,     "pending",   15360),
    (False, None,  11, 30690,     "pending",   21600),
    (False, 3.0,   1,  0,         "pending",   30),
    (False, 100.0, 1,  0,         "pending",   100),
    (False, 1e5,   1,  0,         "pending",   1e5),
    (False, None,  21, 246690,    "failed",    0),
])
def test_what_an_attempt_makes_of_its_delivery(is_accepted, retry_after, failures, age, state, wait):
    assert rt.outcome(is_accepted, retry_after, failures, 30.0, age, 0.0) == (state, wait)


def test_the_wait_is_lengthened_by_a_tenth_at_most():
    assert rt.retry_delay(1, 30.0, 0.0, 0.0) == 30.0 and 32.9 < rt.retry_delay(1, 30.0, 0.0, 0.999) < 33.0


SLACK_HOOK = "https://hooks.slack.com/services/T01234567/B01234567/PLANTEDslackhook0123456x"
DISCORD_HOOK = "https://discord.com/api/webhooks/123456789012345678/PLANTED-discord_" + "x" * 52
CHAT_HOOK = "https://chat.googleapis.com/v1/spaces/AAAAbbbb/messages?key=PLANTEDchatkey00000001&token=PLANTEDchattoken00000002%3D"
FLOW = ("https://prod-01.westeurope.logic.azure.com:443/workflows/0123456789abcdef0123456789abcdef/triggers/manual/paths/"
        "invoke?api-version=2016-06-01&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=PLANTEDteamssig0000000000000000003")
POWER = ("https://default0123456789abcdef0123456789ab.cd.environment.api.powerplatform.com:443/powerautomate/automations/"
         "direct/workflows/0123456789abcdef0123456789abcdef/triggers/manual/paths/invoke?api-version=1&sig=PLANTEDteamssig04")
CONNECTOR = ("https://tenant.webhook.office.com/webhookb2/00000000-0000-0000-0000-000000000000@00000000-0000-0000-0000-"
             "000000000000/IncomingWebhook/0123456789abcdef0123456789abcdef/00000000-0000-0000-0000-000000000000")
BOT = "123456789:AAPLANTED-telegram_token-0123456789"
ROOM_12 = "!31hneApxJ_1o-63DmFrpeqnkFfWppnzWso1JvH3ogLM"
KEY_30 = "uPLANTEDpushoveruser0123456789"
APP_30 = "aPLANTEDpushovertoken123456789"
MATTERMOST_HOOK = "https://chat.example.org/hooks/planted5m4tt3rm05t5hook5ab"
ROCKET_HOOK = "https://chat.example.org/hooks/64a1b2c3d4e5f60718293a4b/PLANTEDr0ck3t0000000000000000000000000005x"
PLANTED_URLS = "tgram://987654321:PLANTEDapprisetelegram/77 discord://111122223333/PLANTEDapprisediscord"

Given = list[tuple[str, str]]


def settings_at(base: str) -> dict[str, Given]:
    """Settings of every kind that is spoken to by HTTP, at a server of ours: each place by a name of its own."""
    def there(url: str) -> str:
        return base + url[url.index("/", 8):]
    return {
        "slack": [("url", there(SLACK_HOOK)), ("server", base)],
        "slack bot": [("token", "xoxb-1234567890-PLANTEDslackbot"), ("channel", "C0123456789"), ("server", base)],
        "telegram": [("token", BOT), ("chat", "-1001234567890"), ("thread", "7"), ("server", base)],
        "discord": [("url", there(DISCORD_HOOK)), ("server", base)],
        "hangouts_chat": [("url", there(CHAT_HOOK)), ("server", base)],
        "microsoft_teams": [("url", there(FLOW)), ("server", base)],
        "mattermost": [("url", there(MATTERMOST_HOOK))],
        "rocketchat": [("url", there(ROCKET_HOOK))],
        "matrix": [("homeserver_url", base), ("internal_room_id", "!ab/c+d:example.org"), ("token", "syt_PLANTEDmatrixtoken_0")],
        "webhook": [("url", base + "/hook"), ("header", "X-Mine: PLANTEDheadervalue")],
        "ntfy": [("topic", "my-releases"), ("token", "tk_PLANTEDntfytoken0000000000000"), ("server", base)],
        "gotify": [("url", base + "/sub"), ("token", "APLANTEDgotify.")],
        "pushover": [("token", APP_30), ("user", KEY_30), ("device", "phone"), ("server", base)],
        "apprise": [("url", base + "/notify/plantedapprisekey0001"), ("tag", "ops")],
    }


HTTP_KINDS = list(settings_at("http://x"))
CHATS = [kind for kind in HTTP_KINDS if kind != "webhook"]      # those that get a text made for people


def kind_of(place: str) -> str:
    return place.partition(" ")[0]


def made_at(place: str, base: str = "http://127.0.0.1:9", **more: str) -> rt.Destination:
    """A destination as ``destination add`` would make it."""
    given = [*settings_at(base)[place], *more.items()] if place != "email" else [*more.items()]
    kind = kind_of(place)
    return rt.Destination("d1", "a1", kind, "mine", rt.read_settings(kind, given), SECRET if kind == "webhook" else "")


NEEDED: dict[str, dict[str, str]] = {
    "slack": {"url": SLACK_HOOK}, "telegram": {"token": BOT, "chat": "-1001234567890"}, "discord": {"url": DISCORD_HOOK},
    "hangouts_chat": {"url": CHAT_HOOK}, "microsoft_teams": {"url": FLOW}, "mattermost": {"url": MATTERMOST_HOOK},
    "rocketchat": {"url": ROCKET_HOOK},
    "matrix": {"homeserver_url": "https://matrix.org", "internal_room_id": "!abc:matrix.org", "token": "syt_PLANTEDmatrixtoken_0"},
    "webhook": {"url": "https://example.org/hook"}, "ntfy": {"topic": "my-releases"},
    "gotify": {"url": "https://gotify.example.org", "token": "APLANTEDgotify."}, "pushover": {"token": APP_30, "user": KEY_30},
    "apprise": {"url": "http://apprise.example.org:8000/notify/home"}, "email": {},
}


def given_for(kind: str, **about: str) -> Given:
    """Settings that will do, but for what is said otherwise."""
    return [(name, text) for name, text in (NEEDED[kind] | about).items() if text != "-"]


def kind_faults(kind: str, given: Given, **about: Any) -> list[str]:
    with pytest.raises(rt.Invalid) as caught:
        rt.read_settings(kind, given, **about)
    return caught.value.errors


def test_there_is_a_table_of_settings_for_every_kind():
    assert set(NEEDED) == set(rt.KINDS) == {kind_of(one) for one in HTTP_KINDS} | {"email"}


@pytest.mark.parametrize("kind, name, text", [
    ("slack", "url", SLACK_HOOK), ("slack", "url", SLACK_HOOK + "/"),
    ("slack", "url", "https://hooks.slack-gov.com/services/T01/B01/abc"),
    ("slack", "channel", "#releases"), ("slack", "team_name", "Ünïted 7"),
    ("telegram", "chat", "123456789"), ("telegram", "chat", "-42"), ("telegram", "chat", "@my_channel"),
    ("telegram", "thread", "12"), ("telegram", "token", "12345678:" + "A" * 35),
    ("telegram", "server", "http://10.0.0.5:8081"), ("telegram", "server", "https://bots.example.org/api"),
    ("discord", "url", DISCORD_HOOK), ("discord", "url", DISCORD_HOOK + "?thread_id=123456789012345678"),
    ("discord", "url", DISCORD_HOOK.replace("discord.com/api", "discordapp.com/api/v10")),
    ("discord", "url", DISCORD_HOOK.replace("discord.com", "canary.discord.com")),
    ("discord", "url", DISCORD_HOOK.replace("discord.com", "ptb.discord.com")),
    ("hangouts_chat", "url", CHAT_HOOK),
    ("hangouts_chat", "url", CHAT_HOOK + "&threadKey=releases&messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"),
    ("microsoft_teams", "url", FLOW), ("microsoft_teams", "url", POWER), ("microsoft_teams", "url", CONNECTOR),
    ("microsoft_teams", "url", POWER.replace("/direct/", "/direct/cu/01/")), ("microsoft_teams", "url", POWER.replace(":443", "")),
    ("mattermost", "url", "https://chat.example.org/sub/path/hooks/abcdefghijklmnopqrstuvwxyz"),
    ("mattermost", "url", "http://10.0.0.5:8065/hooks/abcdefghijklmnopqrstuvwxyz/"),
    ("rocketchat", "url", "https://chat.example.org/hooks/abc123/tok%2Fen"),
    ("rocketchat", "url", "https://chat.example.org/sub/hooks/abc123/user9/token"),
    ("matrix", "internal_room_id", "!abc:matrix.org"), ("matrix", "internal_room_id", "!a/b+c=:[2001:db8::1]:8448"),
    ("matrix", "internal_room_id", ROOM_12), ("matrix", "internal_room_id", "!Ünï:example.org"),
    ("matrix", "homeserver_url", "https://example.org:8448"), ("matrix", "token", "mct_abcDEF+/=~"),
    ("webhook", "header", "Authorization: Bearer a:b=c"), ("webhook", "header", "X-Empty:"), ("webhook", "field", "v={version}"),
    ("webhook", "field", "text={{literal}} {project}: {note_text}=x"), ("webhook", "url", "http://[2001:db8::1]:8080/x?y=z"),
    ("ntfy", "topic", "a" * 64), ("ntfy", "token", "phil:mypass"), ("ntfy", "priority", "5"), ("ntfy", "server", "https://ntfy.example.org/"),
    ("gotify", "token", "gtfy_app." + "A" * 43), ("gotify", "url", "http://10.0.0.5/gotify/"), ("gotify", "priority", "0"),
    ("gotify", "priority", "10"), ("pushover", "priority", "-2"), ("pushover", "device", "my-phone,tablet_2"),
    ("apprise", "url", "https://apprise.example.org/sub/notify/home-1_b"), ("apprise", "url", "http://apprise.example.org:8000/notify"),
    ("apprise", "urls", "tgram://1:x/2, discord://3/4"), ("apprise", "tag", "ops, dev"), ("email", "to", "a.b+c@mail.example.org"),
])
def test_take_what_their_services_hand_out(kind, name, text):
    about = rt.read_settings(kind, given_for(kind, **{name: text}))
    kept = next(ask.kept_as for ask in rt.KINDS[kind].asks if ask.name == name)
    if kept:
        assert len(about[kept]) == 1
    else:
        assert about[name] == (text.rstrip("/") if name == "server" or (kind, name) == ("gotify", "url") else text)


@pytest.mark.parametrize("kind, name, text, said", [
    ("slack", "url", "http://hooks.slack.com/services/T01/B01/abc", "https://hooks.slack.com/services/"),
    ("slack", "url", "https://hooks.slack.com/workflows/T01/A01/123/abc", "https://hooks.slack.com/services/"),
    ("slack", "url", "https://hooks.slack.com/triggers/T01/123/abc", "https://hooks.slack.com/services/"),
    ("slack", "url", "https://hooks.slack.com.evil.example/services/T01/B01/abc", "https://hooks.slack.com/services/"),
    ("slack", "url", "https://evil.example/?https://hooks.slack.com/services/T01/B01/abc", "server says where"),
    ("slack", "url", "https://me:pw@hooks.slack.com/services/T01/B01/abc", "user and password"),
    ("slack", "url", "hooks.slack.com/services/T01/B01/abc", "https://"),
    ("telegram", "token", "AAF-only-the-second-half-of-a-token-0000", "123456789:AAF"),
    ("telegram", "token", "bot" + BOT, "123456789:AAF"), ("telegram", "token", BOT + "/getMe", "123456789:AAF"),
    ("telegram", "chat", "my_channel", "@name"), ("telegram", "chat", "https://t.me/my_channel", "@name"),
    ("telegram", "chat", "@a", "@name"), ("telegram", "chat", "--5", "-1001234567890"), ("telegram", "chat", "", "@name"),
    ("telegram", "chat", "１２３４５", "-1001234567890"),         # digits, but not those of the service
    ("telegram", "thread", "general", "a number"), ("telegram", "thread", "-1", "a number"), ("telegram", "thread", "٣", "a number"),
    ("telegram", "server", "api.telegram.org", "https://"), ("telegram", "server", "ftp://api.telegram.org", "https://"),
    ("telegram", "server", "https://api.telegram.org/?x=1", "https://"),
    ("discord", "url", "https://discord.com/api/webhooks/123456789012345678", "https://discord.com/api/webhooks/"),
    ("discord", "url", DISCORD_HOOK + "/slack", "https://discord.com/api/webhooks/"),
    ("discord", "url", DISCORD_HOOK + "/github", "https://discord.com/api/webhooks/"),
    ("discord", "url", "https://discord.com/channels/1/2", "https://discord.com/api/webhooks/"),
    ("discord", "url", DISCORD_HOOK.replace("discord.com", "discord.com.evil.example"), "https://discord.com/api/webhooks/"),
    ("discord", "url", DISCORD_HOOK.replace("https", "http"), "https://discord.com/api/webhooks/"),
    ("hangouts_chat", "url", "https://chat.googleapis.com/v1/spaces/AAAA/messages", "key="),
    ("hangouts_chat", "url", "https://chat.googleapis.com/v1/spaces/AAAA/messages?key=only", "token="),
    ("hangouts_chat", "url", "https://mail.google.com/chat/u/0/#chat/space/AAAA", "https://chat.googleapis.com/v1/spaces/"),
    ("microsoft_teams", "url", FLOW.replace("logic.azure.com", "logic.azure.com.evil.example"), "api.powerplatform.com"),
    ("microsoft_teams", "url", FLOW.partition("?")[0], "api.powerplatform.com"),
    ("microsoft_teams", "url", "https://teams.microsoft.com/l/channel/19%3Aabc", "api.powerplatform.com"),
    ("microsoft_teams", "url", FLOW.replace("https", "http"), "api.powerplatform.com"),
    ("mattermost", "url", "https://chat.example.org/hooks/", "/hooks/"),
    ("mattermost", "url", "https://chat.example.org/team/channels/town-square", "/hooks/"),
    ("mattermost", "url", ROCKET_HOOK, "/hooks/"),
    ("rocketchat", "url", "https://chat.example.org/hooks/onlyanid", "/hooks/"), ("rocketchat", "url", "https://chat.example.org/", "/hooks/"),
    ("matrix", "internal_room_id", "#releases:matrix.org", "not an address such as #room"),
    ("matrix", "internal_room_id", "abc:matrix.org", "!abcdef:example.org"), ("matrix", "internal_room_id", "!", "!abcdef:example.org"),
    ("matrix", "internal_room_id", "https://matrix.to/#/!abc:matrix.org", "!abcdef:example.org"),
    ("matrix", "internal_room_id", "!a b:matrix.org", "!abcdef:example.org"),
    ("matrix", "internal_room_id", "!" + "a" * 300 + ":matrix.org", "!abcdef:example.org"),        # 255 bytes, the specification says
    ("matrix", "homeserver_url", "matrix.org", "https://"), ("matrix", "homeserver_url", "", "matrix.org"),
    ("matrix", "token", "syt with spaces", "access token"), ("matrix", "token", "", "access token"),
    ("webhook", "url", "ftp://example.org/", "https://"), ("webhook", "url", "https://me:pw@example.org/", "Authorization header"),
    ("webhook", "url", "https://example.org:99999/", "ort"), ("webhook", "url", "", "where it is sent"),
    ("webhook", "header", "no colon", "Name: value"), ("webhook", "header", "X Y: z", "Name: value"),
    ("webhook", "header", "X-A: a\r\nX-B: b", "printable"), ("webhook", "header", "X-A: ☃", "Latin-1"),
    ("webhook", "header", "Content-Type: text/plain", "set by the request"), ("webhook", "header", "webhook-id: 1", "set by the request"),
    ("webhook", "header", "X-Service-Signature: 00", "set by the request"),
    ("webhook", "header", "x-service-timestamp: 1", "set by the request"), ("webhook", "header", "HOST: evil", "set by the request"),
    ("webhook", "field", "no template", "NAME=TEMPLATE"), ("webhook", "field", "=x", "NAME=TEMPLATE"),
    ("webhook", "field", "x={secret}", "{secret}"), ("webhook", "field", "x=" + "a" * 70000, "65536"),
    ("ntfy", "topic", "my topic", "64"), ("ntfy", "topic", "a" * 65, "64"), ("ntfy", "topic", "https://ntfy.sh/mine", "64"),
    ("ntfy", "priority", "0", "from 1 to 5"), ("ntfy", "priority", "6", "from 1 to 5"), ("ntfy", "priority", "high", "from 1 to 5"),
    ("ntfy", "token", "two words", "a token"),
    ("gotify", "url", "", "the server's address"), ("gotify", "url", "gotify.example.org", "https://"), ("gotify", "token", "has space", "a token"),
    ("gotify", "priority", "11", "from 0 to 10"), ("gotify", "priority", "-1", "from 0 to 10"),
    ("pushover", "user", "me@example.org", "30 letters and digits"), ("pushover", "token", APP_30[:-1], "30 letters and digits"),
    ("pushover", "priority", "2", "from -2 to 1"), ("pushover", "device", "my phone", "device's name"),
    ("apprise", "url", "http://apprise.example.org:8000/", "/notify/"), ("apprise", "url", "http://apprise.example.org/cfg/home", "/notify/"),
    ("apprise", "url", "http://apprise.example.org/notify/a b", "https://"),
    ("email", "to", "not an address", "a mail address"), ("email", "to", "a@b\r\nBcc: c@d", "a mail address"),
    ("email", "to", "Me <me@example.org>", "a mail address"), ("email", "to", "a@example.org, b@example.org", "a mail address"),
])
def test_refuse_what_cannot_work_and_say_which_setting_and_what_it_takes(kind, name, text, said):
    fault, = kind_faults(kind, [(one, value) for one, value in given_for(kind) if one != name] + [(name, text)])
    assert fault.startswith(f"Setting {name}") and said in fault, fault


@pytest.mark.parametrize("kind, name", [(kind, name) for kind, about in NEEDED.items() if kind != "slack" for name in about])
def test_say_which_setting_is_missing_and_where_to_find_it(kind, name):
    fault, = kind_faults(kind, given_for(kind, **{name: "-"}))
    about = next(ask.about for ask in rt.KINDS[kind].asks if ask.name == name)
    assert fault == f"Setting {name} is required ({about})."


@pytest.mark.parametrize("about", [
    {"url": "-"}, {"token": "xoxb-123456789"}, {"url": "-", "token": "xoxb-123456789"}, {"url": "-", "channel": "C0123456789"}])
def test_slack_takes_a_hook_or_a_bot_and_says_so(about):
    fault, = kind_faults("slack", given_for("slack", **about))
    assert "url, or token and channel" in fault


def test_slack_refuses_a_token_that_is_none_without_saying_it():
    faults = kind_faults("slack", given_for("slack", url="-", token="PLANTED-no-token", channel="C0123456789"))
    assert len(faults) == 1 and "xoxb-" in faults[0] and "PLANTED" not in faults[0]


@pytest.mark.parametrize("kind, given, count", [
    ("telegram",   [("token", "x"), ("chat", "y"), ("thread", "z"), ("server", "w"), ("colour", "red")],             5),
    ("matrix",     [("homeserver_url", "x"), ("internal_room_id", "#a:b"), ("token", "")],                            3),
    ("pushover",   [("priority", "9"), ("device", "?")],                                                               4),
    ("webhook",    [("url", "x"), ("header", "a"), ("header", "Host: b"), ("field", "c"), ("field", "d={e}")],        5),
    ("apprise",    [("url", "http://apprise.example.org/wrong"), ("tag", "\n")],                                      2),
    ("slack",      [("url", "https://example.org/services/T01/B01/abc"), ("channel", "\n")],                          2),
    ("discord",    [("url", "https://example.org/hook"), ("colour", "red")],                                           2),
    ("rocketchat", [("url", "https://example.org/hook"), ("channel", "#a")],                                          2),
    ("ntfy",       [("priority", "9"), ("server", "nowhere")],                                                         3),
])
def test_tell_every_fault_of_their_settings_at_once(kind, given, count):
    faults = kind_faults(kind, given)
    assert len(faults) == count and len(set(faults)) == count, faults


@pytest.mark.parametrize("kind", list(NEEDED))
def test_refuse_an_unknown_setting_and_name_those_that_there_are(kind):
    fault, = kind_faults(kind, [*given_for(kind), ("colour", "red")])
    assert "'colour'" in fault and kind in fault and all(ask.name in fault for ask in rt.KINDS[kind].asks)


@pytest.mark.parametrize("kind", [kind for kind in rt.KINDS if {"url", "server"} <= {ask.name for ask in rt.KINDS[kind].asks}])
def test_at_a_place_of_ones_own_take_its_address_and_no_other(kind):
    own = "https://hooks.example.org:8443"
    url = own + "/proxy" + NEEDED[kind]["url"][8:]
    assert rt.read_settings(kind, [("url", url), ("server", own)])["url"] == url
    assert "server says where" in kind_faults(kind, [("url", url)])[0]
    for other in ("https://hooks.example.org", "http://hooks.example.org:8443", "https://hooks.example.org.evil.example:8443"):
        fault, = kind_faults(kind, [("url", url), ("server", other)])
        assert fault.startswith("Setting url:") and other in fault


@pytest.mark.parametrize("kind, default", [
    ("telegram", "https://api.telegram.org"), ("ntfy", "https://ntfy.sh"), ("pushover", "https://api.pushover.net")])
def test_with_a_public_host_use_it_where_no_server_is_said_or_an_empty_one(kind, default):
    assert rt.read_settings(kind, given_for(kind))["server"] == default
    assert rt.read_settings(kind, given_for(kind, server=""))["server"] == default


def test_a_webhook_s_headers_may_not_be_those_of_the_brand():
    given = [("url", "https://example.org/"), ("header", "X-Acme-Signature: 1"), ("header", "X-Service-Signature: 2")]
    fault, = kind_faults("webhook", given, brand="Acme")
    assert fault == "Setting header: X-Acme-Signature is set by the request itself."
    fault, = kind_faults("webhook", given)
    assert fault == "Setting header: X-Service-Signature is set by the request itself."


def test_a_webhook_takes_20_headers_and_50_fields():
    given = [("url", "https://example.org/"), *[("header", f"X-{n}: v") for n in range(20)], *[("field", f"f{n}=v") for n in range(50)]]
    about = rt.read_settings("webhook", given)
    assert (len(about["headers"]), len(about["fields"])) == (20, 50)
    for more in (("header", "X-20: v"), ("field", "f50=v")):
        fault, = kind_faults("webhook", [*given, more])
        assert "20 headers and 50 fields" in fault


@pytest.mark.parametrize("place", HTTP_KINDS)
def test_what_was_given_makes_the_same_settings_again(place):
    destination = made_at(place)
    assert rt.read_settings(destination.kind, rt.settings_as_given(destination)) == destination.settings


def test_a_bot_of_slack_that_is_stored_can_be_changed(db):
    done("account", "add", "me@example.org", "--db", db, "--admin", "--password-stdin", stdin=PASSWORD + "\n")
    done("destination", "add", "me@example.org", "slack", "bot", "--db", db, "--set", "token=xoxb-123456789", "--set", "channel=C0123456789")
    done("destination", "change", "me@example.org", "slack", "bot", "--db", db, "--schedule", "daily", "--set", "channel=C9876543210")
    *_, row = json.loads(done("destination", "list", "me@example.org", "--db", db, "--json"))
    assert row["schedule"] == "daily" and row["settings"]["channel"] == "C9876543210"


@pytest.mark.parametrize("kind", [id_ for id_, kind in rt.KINDS.items() if kind.address])
def test_an_address_that_a_refusal_shows_as_an_example_would_be_taken(kind):
    example = [("url", rt.KINDS[kind].example)]
    assert rt.read_settings(kind, example)["url"] == rt.KINDS[kind].example
    assert rt.KINDS[kind].example in kind_faults(kind, [("url", "https://elsewhere.example/x")])[0]


@pytest.mark.parametrize("kind", list(NEEDED))
def test_a_refusal_never_repeats_a_secret(kind):
    secret = {ask.name for ask in rt.KINDS[kind].asks if ask.is_secret and not ask.kept_as}
    bad = [(name, f"PLANTED {name}\n") for name in secret]
    if bad:
        assert "PLANTED" not in " ".join(kind_faults(kind, [*[one for one in given_for(kind) if one[0] not in secret], *bad]))


def sent_as_seen(request: rt.Request) -> Seen:
    """A request as the service's end would see it."""
    parts = urllib.parse.urlsplit(request.url)
    return Seen(request.method, parts.path + ("?" + parts.query if parts.query else ""),
                {name.lower(): value for name, value in request.headers.items()}, request.body or b"", 0.0)


def units_16(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def json_posted(seen: Seen, method: str = "POST") -> dict[str, Any]:
    assert seen.method == method, seen.method
    assert seen.headers["content-type"].partition(";")[0] == "application/json", seen.headers
    assert seen.headers["user-agent"].startswith("releasetrack/")
    value = json.loads(seen.body.decode("utf-8"), parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert isinstance(value, dict)
    return value


class Tags(html.parser.HTMLParser):
    """The text of a service's few tags; fails for any other, for one that is not closed, and for an entity that it
    does not know."""

    def __init__(self, text: str, *allowed: str) -> None:
        super().__init__(convert_charrefs=False)
        self.allowed, self.open, self.text, self.links = allowed, [], "", []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag in self.allowed, f"<{tag}>"
        assert [name for name, _ in attrs] == (["href"] if tag == "a" else []), attrs
        if tag == "br":
            self.text += "\n"
            return
        self.open.append(tag)
        self.links += [attrs[0][1]] if tag == "a" else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        assert "<" not in data and "&" not in data, data[:80]
        self.text += data

    def handle_entityref(self, name: str) -> None:
        assert name in ("lt", "gt", "amp", "quot"), name        # those that Telegram knows
        self.text += html.unescape(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.text += html.unescape(f"&#{name};")

    def handle_comment(self, data: str) -> None:
        pytest.fail("a comment")

    handle_decl = handle_pi = unknown_decl = handle_comment


OWN_URL = re.compile(r"https://forge\.example/[^\s<>\[\]()|\"]*")


def no_live_at(text: str) -> None:
    """Telegram, Mattermost and Rocket.Chat read a name behind @; an invisible space between makes it text."""
    outside = OWN_URL.sub("", text)
    assert not re.search(r"@(?!\u200b)", outside), re.search(r".{0,20}@(?!\u200b).{0,20}", outside, re.DOTALL)


def no_links_but_ours(text: str) -> None:
    """Markdown: ``](`` that no backslash disarms begins a link's address."""
    for match in re.finditer(r"(?<!\\)((?:\\\\)*)\]\(", text):
        assert OWN_URL.match(text, match.end()), text[max(0, match.start() - 40):match.end() + 40]


def taken_by_slack(seen: Seen) -> tuple[Any, ...]:
    content = json_posted(seen)
    if seen.path.endswith("/api/chat.postMessage"):
        assert seen.headers["authorization"] == "Bearer xoxb-1234567890-PLANTEDslackbot" and content.pop("channel") == "C0123456789"
    assert content.keys() == {"text", "blocks", "unfurl_links", "unfurl_media"}
    assert content["unfurl_links"] is content["unfurl_media"] is False
    assert 0 < len(content["text"]) <= 4000 and 0 < len(content["blocks"]) <= 50
    sections = [block["text"]["text"] for block in content["blocks"]]
    assert all(block["type"] == "section" and block["text"]["type"] == "mrkdwn" and block["text"]["verbatim"] is True
               for block in content["blocks"])
    assert all(0 < len(section) <= 3000 for section in sections), max(map(len, sections))
    assert sum(map(len, sections)) <= 13_200
    for text in (content["text"], *sections):
        rest = re.sub(r"<https?://[^<>|\s]+\|[^<>]*>", lambda match: "" if OWN_URL.match(match[0], 1) else match[0], text)
        assert "<" not in rest and ">" not in rest, rest[:200]
        assert not re.search("&(?!amp;|lt;|gt;)", rest), rest[:200]
    if seen.path.endswith("/api/chat.postMessage"):
        return 200, {"ok": True, "channel": "C0123456789", "ts": "1503435956.000247"}
    assert seen.path == SLACK_HOOK[len("https://hooks.slack.com"):]
    return 200, "ok"


def taken_by_telegram(seen: Seen) -> tuple[Any, ...]:
    content = json_posted(seen)
    assert urllib.parse.unquote(seen.path) == f"/bot{BOT}/sendMessage"
    assert content["chat_id"] == "-1001234567890" and content["message_thread_id"] == 7
    assert content["parse_mode"] == "HTML" and content["link_preview_options"] == {"is_disabled": True}
    parsed = Tags(content["text"], "b", "a")
    assert 0 < units_16(parsed.text.strip()) <= 4096
    assert all(OWN_URL.match(link) for link in parsed.links)
    no_live_at(parsed.text)
    return 200, {"ok": True, "result": {"message_id": 5}}


def taken_by_discord(seen: Seen) -> tuple[Any, ...]:
    content = json_posted(seen)
    path, _, query = seen.path.partition("?")
    assert path == DISCORD_HOOK[len("https://discord.com"):] and urllib.parse.parse_qs(query)["wait"] == ["true"]
    assert content["allowed_mentions"] == {"parse": []} and 0 < len(content["embeds"]) <= 10
    total = 0
    for embed in content["embeds"]:
        assert 0 < len(embed["title"].strip()) <= 256 and units_16(embed["description"]) <= 4096
        assert 0 <= embed["color"] <= 0xFFFFFF
        assert not embed.get("url") or len(embed["url"]) <= 2048 and re.fullmatch(r"https?://\S+", embed["url"])
        assert "timestamp" not in embed or datetime.datetime.fromisoformat(embed["timestamp"].replace("Z", "+00:00"))
        no_links_but_ours(embed["description"])
        assert not re.search(r"(?<!\\)(?:\\\\)*<", embed["description"])
        assert "](" not in embed["title"] or embed.get("url")
        total += units_16(embed["title"]) + units_16(embed["description"])
    assert total <= 6000
    return 200, {"id": "1234567890", "type": 0}


def taken_by_hangouts_chat(seen: Seen) -> tuple[Any, ...]:
    content = json_posted(seen)
    assert seen.path == CHAT_HOOK[len("https://chat.googleapis.com"):]
    assert len(seen.body) <= 32_000, len(seen.body)
    assert content.keys() <= {"cardsV2", "text"}
    if "text" in content:
        assert "<" not in content["text"]
    widgets = 0
    for one in content["cardsV2"]:
        card = one["card"]
        assert 0 < len(card["header"]["title"]) <= 200
        for section in card["sections"]:
            assert section["widgets"]
            for widget in section["widgets"]:
                widgets += 1
                if "textParagraph" in widget:
                    parsed = Tags(widget["textParagraph"]["text"], "b", "a", "br")
                    assert parsed.text.strip() and all(OWN_URL.match(link) for link in parsed.links)
    assert widgets <= 100, f"{widgets} widgets: what is beyond 100 is ignored, silently"
    return 200, {"name": "spaces/AAAAbbbb/messages/1.2"}


def taken_by_microsoft_teams(seen: Seen) -> tuple[Any, ...]:
    content = json_posted(seen)
    assert seen.path == FLOW[len("https://prod-01.westeurope.logic.azure.com:443"):]
    assert len(seen.body) <= 28 * 1024, len(seen.body)
    assert content["type"] == "message"
    attachment, = content["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert card["type"] == "AdaptiveCard" and re.fullmatch(r"1\.[2-5]", card["version"]) and card["body"]
    for element in card["body"]:
        if element["type"] == "RichTextBlock":
            assert element["inlines"] and all(run["type"] == "TextRun" and run["text"] for run in element["inlines"])
        else:       # markdown: nothing but our link
            assert element["type"] == "TextBlock" and re.fullmatch(r"\[Read on\]\(https://forge\.example/[^\s()\[\]<>]*\)", element["text"])
    for action in card.get("actions", ()):
        assert action["type"] == "Action.OpenUrl" and OWN_URL.match(action["url"])
    assert not card.get("msteams", {}).get("entities")
    return 202, b""


def taken_by_mattermost(seen: Seen) -> tuple[Any, ...]:
    content = json_posted(seen)
    assert seen.path == MATTERMOST_HOOK[len("https://chat.example.org"):] and content.keys() == {"text"}
    assert 0 < len(content["text"].strip()) <= 16_383, len(content["text"])
    no_live_at(content["text"])
    no_links_but_ours(content["text"])
    assert "<" not in content["text"]           # its server makes mentions and links of <...>, backslash or not
    return 200, "ok", {"Content-Type": "text/plain"}


def taken_by_rocketchat(seen: Seen) -> tuple[Any, ...]:
    content = json_posted(seen)
    assert seen.path == ROCKET_HOOK[len("https://chat.example.org"):]
    assert content.keys() == {"text", "parseUrls"} and content["parseUrls"] is False
    assert 0 < units_16(content["text"].strip()) <= 5000, units_16(content["text"])
    no_live_at(content["text"])
    no_links_but_ours(content["text"])
    assert not re.search("<(?!\u200b)", content["text"])
    return 200, {"success": True}


def taken_by_matrix(seen: Seen) -> tuple[Any, ...]:
    content = json_posted(seen, "PUT")
    *way, room, send, type_, transaction = seen.path.split("/")
    assert "/".join(way) == "/_matrix/client/v3/rooms" and (send, type_) == ("send", "m.room.message")
    assert urllib.parse.unquote(room) == "!ab/c+d:example.org" and re.fullmatch("[A-Za-z0-9._~-]+", transaction)
    assert seen.headers["authorization"] == "Bearer syt_PLANTEDmatrixtoken_0"
    assert content["msgtype"] in ("m.text", "m.notice") and content["format"] == "org.matrix.custom.html"
    assert content["m.mentions"] == {}, "push rules would look for names in the body"
    assert len(seen.body) <= 60_000, len(seen.body)         # of 65,536 the event's other members and signatures take some
    parsed = Tags(content["formatted_body"], "b", "a", "br")
    assert content["body"].strip() and parsed.text.strip() and all(OWN_URL.match(link) for link in parsed.links)
    return 200, {"event_id": "$abc"}


def taken_by_webhook(seen: Seen) -> tuple[Any, ...]:
    body = json_posted(seen)
    assert {"provider", "project", "version", "time", "account"} <= body.keys() and seen.headers["x-mine"] == "PLANTEDheadervalue"
    moment = seen.headers["x-service-timestamp"]
    assert hmac.new(SECRET.encode(), moment.encode() + b"." + seen.body, hashlib.sha256).hexdigest() == seen.headers["x-service-signature"]
    return 204,


def taken_by_ntfy(seen: Seen) -> tuple[Any, ...]:
    content = json_posted(seen)
    assert seen.path == "/" and seen.headers["authorization"] == "Bearer tk_PLANTEDntfytoken0000000000000"
    assert len(seen.body) <= 8192, f"41303: {len(seen.body)} bytes of JSON"
    assert re.fullmatch("[-_A-Za-z0-9]{1,64}", content["topic"]) and content["topic"] == "my-releases"
    assert 0 < len(content["message"].encode()) <= 4096 and 0 < len(content["title"]) <= 250
    assert content["priority"] in (1, 2, 3, 4, 5) and type(content["priority"]) is int
    assert all(isinstance(tag, str) and "," not in tag for tag in content["tags"])
    assert "click" not in content or OWN_URL.match(content["click"])
    assert content.keys() <= {"topic", "title", "message", "tags", "priority", "click", "actions"} and not content.get("markdown")
    return 200, {"id": "sPs71M8A2T", "time": 1, "event": "message", "topic": "my-releases"}


def taken_by_gotify(seen: Seen) -> tuple[Any, ...]:
    content = json_posted(seen)
    assert seen.path == "/sub/message" and seen.headers["x-gotify-key"] == "APLANTEDgotify."
    assert 0 < len(content["message"].encode()) <= 65_535 and 0 < len(content["title"].encode()) <= 65_535
    assert 0 <= content["priority"] <= 10 and content["extras"]["client::display"] == {"contentType": "text/plain"}
    click = content["extras"].get("client::notification", {}).get("click")
    assert click is None or OWN_URL.match(click["url"])
    return 200, {"id": 25, "appid": 5, "message": content["message"], "title": content["title"], "priority": content["priority"]}


def taken_by_pushover(seen: Seen) -> tuple[Any, ...]:
    content = json_posted(seen)
    assert seen.path == "/1/messages.json" and (content["token"], content["user"], content["device"]) == (APP_30, KEY_30, "phone")
    assert 0 < len(content["message"].strip()) <= 1024 and len(content["title"]) <= 250
    assert content["priority"] in (-2, -1, 0, 1) and "html" not in content
    assert len(content.get("url", "")) <= 512 and len(content.get("url_title", "")) <= 100
    return 200, {"status": 1, "request": "647d2300-702c-4b38-8b2f-d56326ae460b"}


def taken_by_apprise(seen: Seen) -> tuple[Any, ...]:
    content = json_posted(seen)
    assert seen.path == "/notify/plantedapprisekey0001" and seen.headers["accept"] == "application/json"
    assert content["type"] in ("info", "success", "warning", "failure") and content["format"] == "text" and content["tag"] == "ops"
    assert isinstance(content["title"], str) and content["body"].strip() and len(seen.body) <= 2_500_000
    return 200, {"error": None, "details": []}


SERVICES: dict[str, Callable[[Seen], tuple[Any, ...]]] = {
    name.removeprefix("taken_by_"): value for name, value in list(globals().items()) if name.startswith("taken_by_")}


class Exchange:
    """A board and a receiver that many tests use, for each costs more than most of them: each test has destinations
    and projects of its own there, and all that stays pending is due at no moment that another test asks for."""

    def __init__(self, path: pathlib.Path) -> None:
        self.board, self.listener = Board(path), Listener()

    def add(self, place: str, given: Given | None = None) -> rt.Destination:
        """A stored destination of a kind at the receiver."""
        kind = kind_of(place)
        about = rt.read_settings(kind, settings_at(self.listener.url)[place] if given is None else given)
        return self.board.store.add_destination(self.board.account.id, kind, rt.make_id(), about, SECRET if kind == "webhook" else "")

    def send(self, destination: rt.Destination, answer: Any, **more: Any) -> tuple[rt.Entry, rt.Attempt, float]:
        """A release for the destination, answered so: its entry, its attempt, the seconds until the next one."""
        clock = Clock()
        self.listener.answer = answer
        courier = courier_of(self.board, clock)
        tell_release(self.board, destination, **more)
        assert len(courier.send_due()) == 1
        entry = self.board.store.journal(self.board.account.id, destination_id=destination.id)[0]
        attempt, = self.board.store.attempts(entry.id)
        return entry, attempt, entry.next_attempt_at - clock.now

    def answered(self, place: str, refused: Any = None) -> tuple[rt.Entry, rt.Attempt, float]:
        """What becomes of a delivery that the service would take, and answers so."""
        faults: list[str] = []

        def answer(seen: Seen) -> Any:
            try:
                taken = SERVICES[kind_of(place)](seen)
            except Exception as error:
                faults.append(repr(error)[:400])
                return 400, {"error": "not what the service takes"}
            return taken if refused is None else refused

        found = self.send(self.add(place), answer)
        assert not faults, faults
        return found


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    made = Exchange(tmp_path_factory.mktemp("kinds"))
    yield made
    made.listener.close()
    made.board.close()


def tell_release(board: Board, destination: rt.Destination, **more: Any) -> None:
    """A release for a destination, now."""
    project = board.track("github", f"o/p{time.monotonic_ns()}")
    body = {**release_body(), **more}
    board.record(project.source_id, rt.Release(body["version"], body["time"]), events=[rt.Event(
        project.id, body, "https://forge.example/o/p/releases/1.0?a=b&c=d", (rt.Recipient(destination.id, board.store.clock()),))])


def release_body(**more: Any) -> dict[str, Any]:
    return {"provider": "github", "project": "o/p", "version": "1.0", "time": "2026-03-01T10:00:00Z",
            "note": {"title": "Out now", "message": "<p>It is <b>here</b> &amp; works.</p>"},
            "account": {"type": "user", "id": "abc", "name": "Me"}, **more}


@pytest.mark.parametrize("place", HTTP_KINDS)
def test_a_delivery_is_what_its_service_takes_and_the_service_s_yes_is_understood(exchange, place):
    entry, attempt, _ = exchange.answered(place)
    assert (entry.state, entry.error) == ("delivered", None) and attempt.status in (200, 202, 204)


@pytest.mark.parametrize("place, answer", [
    ("microsoft_teams", (200, b"1")),                   # an old connector
    ("microsoft_teams", (200, b"")),
    ("microsoft_teams", (200, {"status": "posted"})),   # a Response action, as the flow's owner chose
    ("microsoft_teams", (200, "Thank you")),            # so too
    ("apprise", (200, "Notification(s) sent.", {"Content-Type": "text/html"})),      # its first versions
    ("pushover", (200, {"status": 1, "request": "x", "info": "no active devices to send to"})),
    ("rocketchat", (200, {"success": True, "responses": []})),
    ("ntfy", (200, {"id": "x", "event": "message", "attachment": {"name": "attachment.txt"}})),
    ("slack bot", (200, {"ok": True, "ts": "1.2", "response_metadata": {"warnings": ["superfluous_charset"]}})),
    ("webhook", (200, "<html>anything")), ("webhook", (202, {"error": "ignored, the contract says"})), ("webhook", (204,)),
])
def test_other_ways_to_say_yes_are_understood(exchange, place, answer):
    entry, _, _ = exchange.answered(place, answer)
    assert entry.state == "delivered", entry.error


PORTAL = (200, "<!DOCTYPE html>\n<html><head><title>Guest Wi-Fi</title></head><body>Please log in.</body></html>",
          {"Content-Type": "text/html; charset=utf-8"})


@pytest.mark.parametrize("place, answer, words", [
    ("slack", (200, "invalid_payload"), "invalid_payload"),
    ("slack", (404, "no_service"), "404: no_service"), ("slack", (410, "channel_is_archived"), "410: channel_is_archived"),
    ("slack", (403, "invalid_token"), "403: invalid_token"),
    ("slack bot", (200, {"ok": False, "error": "not_in_channel"}), "not_in_channel"),
    ("slack bot", (200, {"ok": False, "error": "missing_scope", "needed": "chat:write", "provided": "identify"}), "missing_scope"),
    ("telegram", (400, {"ok": False, "error_code": 400, "description": "Bad Request: chat not found"}), "Bad Request: chat not found"),
    ("telegram", (200, {"ok": False, "error_code": 400, "description": "Bad Request: chat not found"}), "Bad Request: chat not found"),
    ("telegram", (403, {"ok": False, "error_code": 403, "description": "Forbidden: bot was kicked"}), "403: Forbidden: bot was kicked"),
    ("discord", (404, {"message": "Unknown Webhook", "code": 10015}), "404: Unknown Webhook"),
    ("discord", (400, {"message": "Invalid Form Body", "code": 50035, "errors": {"embeds": {"0": {"title": {"_errors": [
        {"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 256 or fewer in length."}]}}}}}), "Must be 256 or fewer in length."),
    ("discord", (204, b""), "204"),                     # no proof that the message was stored; with wait it is 200
    ("hangouts_chat", (400, {"error": {"code": 400, "message": "Unknown name \"x\"", "status": "INVALID_ARGUMENT"}}), "400: Unknown name"),
    ("hangouts_chat", (403, {"error": {"code": 403, "message": "The caller does not have permission"}}), "does not have permission"),
    ("microsoft_teams", (200, "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 403 with "
                              "ContextId x"), "returned HTTP error 403"),
    ("microsoft_teams", (401, {"error": {"code": "DirectApiInvalidAuthorization", "message": "You have no permission"}}), "no permission"),
    ("microsoft_teams", (404, {"error": {"code": "WorkflowNotFound", "message": "The workflow is gone"}}), "The workflow is gone"),
    ("mattermost", (400, {"id": "web.incoming_webhook.invalid.app_error", "message": "Invalid webhook.", "status_code": 400}),
     "400: Invalid webhook."),
    ("rocketchat", (400, {"success": False, "error": "Not enough permission"}), "400: Not enough permission"),
    ("rocketchat", (200, {"success": False, "error": "error-action-not-allowed"}), "error-action-not-allowed"),
    ("rocketchat", (200, b""), "does not say that it took the message"),
    ("matrix", (403, {"errcode": "M_FORBIDDEN", "error": "User @bot:example.org not in room"}), "403: User @bot:example.org not in room"),
    ("matrix", (401, {"errcode": "M_UNKNOWN_TOKEN", "error": "Unrecognised access token", "soft_logout": False}), "access token"),
    ("matrix", (413, {"errcode": "M_TOO_LARGE", "error": "event too large"}), "413: event too large"),
    ("webhook", (500, {"error": "anything"}), "it answered 500"), ("webhook", (302, b""), "it answered 302"),
    ("ntfy", (403, {"code": 40301, "http": 403, "error": "forbidden", "link": "https://ntfy.sh/docs"}), "403: forbidden"),
    ("ntfy", (413, {"code": 41303, "http": 413, "error": "JSON body too large"}), "413: JSON body too large"),
    ("ntfy", (502, "<html><body>Bad Gateway</body></html>"), "it answered 502"),
    ("gotify", (401, {"error": "Unauthorized", "errorCode": 401, "errorDescription": "you need to provide a valid access token"}),
     "401: you need to provide a valid access token"),
    ("pushover", (400, {"user": "invalid", "errors": ["user identifier is not a valid user"], "status": 0, "request": "x"}),
     "user identifier is not a valid user"),
    ("pushover", (200, {"status": 0, "errors": ["message cannot be blank"], "request": "x"}), "message cannot be blank"),
    ("apprise", (424, {"error": "One or more notification could not be sent.", "details": [["ERROR", "x", "y"]]}),
     "424: One or more notification could not be sent."),
    ("apprise", (204, b""), "204"),
    *((place, PORTAL, "it answered 200") for place in CHATS),
    *((place, (200, b"[" * 5000), "it answered 200") for place in ("telegram", "discord", "gotify")),
    *((place, (200, b"[1]"), "it answered 200") for place in ("telegram", "discord", "matrix", "gotify", "pushover")),
    *((place, (503, b"\xff\xfe junk \x00"), "it answered 503") for place in ("slack", "telegram", "ntfy")),
    *((place, (301, b"", {"Location": "http://127.0.0.1:9/"}), "it answered 301") for place in CHATS),
])
def test_each_service_s_no_is_a_failure_with_its_own_words(exchange, place, answer, words):
    entry, attempt, wait = exchange.answered(place, answer)
    assert (entry.state, wait, attempt.status) == ("pending", 30.0, answer[0])
    assert entry.error and words in entry.error and "<" not in entry.error and len(entry.error) < 500, entry.error


@pytest.mark.parametrize("place", ["telegram", "ntfy", "slack bot", "matrix"])
def test_words_that_cannot_be_stored_or_would_command_a_terminal_are_a_failure_like_any(exchange, place, caplog):
    hostile = b'{"ok": false, "description": "bad \\ud800\\u001b[2J\\u202eword", "error": "bad \\ud800\\u001b[2J\\u202eword"}'
    entry, attempt, wait = exchange.answered(place, (400, hostile))
    assert (entry.state, wait) == ("pending", 30.0) and "bad" in entry.error and "word" in entry.error
    assert not re.search("[\x1b\ud800\u202e]", entry.error + caplog.text)


@pytest.mark.parametrize("place, answer, wait", [
    ("slack", (429, "", {"Retry-After": "120"}), 120),
    ("slack bot", (429, {"ok": False, "error": "ratelimited"}, {"Retry-After": "45"}), 45),
    ("telegram", (429, {"ok": False, "error_code": 429, "description": "Too Many Requests: retry after 77",
                        "parameters": {"retry_after": 77}}), 77),
    ("telegram", (429, {"ok": False, "error_code": 429, "parameters": {"retry_after": 77}}, {"Retry-After": "90"}), 90),
    ("discord", (429, {"message": "You are being rate limited.", "retry_after": 64.57, "global": False},
                 {"Retry-After": "65", "X-RateLimit-Reset": "1800000064.57", "X-RateLimit-Reset-After": "64.57"}), 65),
    ("discord", (429, {"message": "You are being rate limited.", "retry_after": 64.57, "global": True}), 64.57),
    ("discord", (429, "error code: 1015", {"Retry-After": "600", "Content-Type": "text/plain"}), 600),
    ("matrix", (429, {"errcode": "M_LIMIT_EXCEEDED", "error": "Too Many Requests", "retry_after_ms": 61_500}), 61.5),
    ("matrix", (429, {"errcode": "M_LIMIT_EXCEEDED", "error": "Too Many Requests", "retry_after_ms": 61_500}, {"Retry-After": "62"}), 62),
    ("rocketchat", (429, {"success": False, "error": "Error, too many requests. You must wait 48 seconds."},
                    {"X-RateLimit-Reset": "1800000048000"}), 48),
    ("rocketchat", (400, {"success": False, "error": "x"}, {"X-RateLimit-Reset": "1800000048000"}), 30),
    ("rocketchat", (429, {"success": False, "error": "x"}, {"X-RateLimit-Reset": "1799999999000"}), 30),        # already over
    ("microsoft_teams", (429, {"error": {"code": "TooManyRequests", "message": "Rate limit"}}, {"Retry-After": "300"}), 300),
    ("hangouts_chat", (429, {"error": {"code": 429, "message": "Resource has been exhausted", "status": "RESOURCE_EXHAUSTED"}}), 30),
    ("ntfy", (429, {"code": 42901, "http": 429, "error": "limit reached: too many requests"}), 30),
    ("pushover", (429, {"status": 0, "errors": ["application is over its quota"]}, {"X-Limit-App-Reset": "1802000000"}), 30),
    ("apprise", (503, {"error": "busy"}, {"Retry-After": "40"}), 40),
    # what makes no sense is no wish
    ("telegram", (429, {"ok": False, "parameters": {"retry_after": "soon"}}), 30), ("telegram", (429, {"ok": False, "parameters": [99]}), 30),
    ("telegram", (429, {"ok": False, "parameters": {"retry_after": -99}}), 30), ("discord", (429, b'{"retry_after": NaN}'), 30),
    ("discord", (429, b'{"retry_after": 1e999}'), 30), ("discord", (429, {"retry_after": True}), 30),
    ("discord", (429, {"retry_after": 10**9}), 86_400), ("matrix", (429, {"retry_after_ms": 10**11}), 86_400),
    ("rocketchat", (429, b"", {"X-RateLimit-Reset": "9999999999999"}), 86_400),
])
def test_wait_as_long_as_the_service_asks(exchange, place, answer, wait):
    entry, _, waits = exchange.answered(place, answer)
    assert entry.state == "pending" and waits == pytest.approx(wait, abs=0.01)


EVIL_WORDS = "<script>alert(1)</script> @everyone @here @all @channel <!channel> <!here> <@U012AB3CD> <@123> <#C01> <users/all> <at>All</at>"
HOSTILE_NOTES = {
    "ascii": "All work and no play. " * 9100,
    "one word": "a" * 200_000,
    "emoji": "😀" * 50_000,
    "cjk": "变更日志。" * 13_000,
    "combined": "👩‍👩‍👧‍👦é̂" * 9000,
    "markup": "*_~`|>#[](){}<>&\\!-+=." * 9000,
    "ampersands": "&" * 200_000,
    "quotes": "\"\\" * 100_000,
    "lines": "x\n" * 100_000,
    "gaps": "x\n\n" * 60_000,
    "calls": (EVIL_WORDS + "\n") * 1500,
    "links": "[click me](http://evil.example) ![x](http://evil.example) <http://evil.example|click> [a]: http://evil.example\n" * 1500,
    "links cut": "](http://evil.example)" * 9000,
    "code": "``` `a` ```` ```\n" * 9000,
    "entities": "&lt;b&gt; &amp;amp; &#60;script&#62; &nbsp;" * 4000,
    "tags": "</b></a><a href=\"http://evil.example\">x</a><b><br><!-- " * 3000,
    "control": "\x00\x01\x02\x07\x08\x0b\x0c\x1b[31m\x7f\x85\u2028\u2029\u202e" * 9000,
    "bells": "\x07" * 200_000,
    "nothing": "",
}


def raw_note(text: str) -> dict[str, str]:
    """A note whose readable text is this, as a provider's HTML."""
    return {"title": text[:200].strip(), "message": f"<pre>{html.escape(text, quote=False)}</pre>"}


def kind_request(place: str, *bodies: dict[str, Any], url: str = "https://forge.example/o/p/releases/1.0?a=b&c=d", **about: Any) -> Any:
    destination = made_at(place)
    return request_of(*(a_delivery(destination, body, id=f"id{n}", url=url, **about) for n, body in enumerate(bodies)))


@functools.lru_cache(maxsize=None)
def hostile_message(note: str, count: int, size: int = 10**9) -> rt.Message:
    """A message of hostile notes, whose items are read once for all kinds."""
    text = HOSTILE_NOTES[note][:size]
    bodies = [release_body(note=raw_note(text), version=f"1.{n}", project_note=text[:10_000]) for n in range(count)]
    parcel = [a_delivery(made_at("telegram"), body, id=f"id{n}") for n, body in enumerate(bodies)]
    return rt.message_of(parcel, rt.Sender("Service", "releases@example.org", "example.org", ""), 1.7e9)


def message_at(place: str, message: rt.Message) -> Any:
    destination = made_at(place)
    return rt.notification(dataclasses.replace(message, parcel=[
        dataclasses.replace(delivery, destination=destination) for delivery in message.parcel]))


ONCE = [place for place in HTTP_KINDS if place != "slack bot"]      # it has the other's text


@pytest.mark.parametrize("note", list(HOSTILE_NOTES))
@pytest.mark.parametrize("place", ONCE)
def test_hostile_notes_of_200_kb_become_what_the_service_takes_and_no_markup(place, note):
    SERVICES[place](sent_as_seen(message_at(place, hostile_message(note, 1))))


@pytest.mark.parametrize("note", list(HOSTILE_NOTES))
@pytest.mark.parametrize("place", [place for place in ONCE if place != "webhook"])
def test_hostile_notes_in_a_digest_become_what_the_service_takes_and_no_markup(place, note):
    SERVICES[place](sent_as_seen(message_at(place, hostile_message(note, 4, 20_000))))


def test_lone_surrogates_do_not_stop_a_message():
    """Providers' are replaced before, but data to test with comes from a command line."""
    body = release_body(note=raw_note("a\ud800b\udfff" * 50), project_note="\ud83d")
    for place in HTTP_KINDS:
        SERVICES[kind_of(place)](sent_as_seen(kind_request(place, body)))
    check_mail(plain_message(body))


HOSTILE_NAMES = ["*b* _i_ ~s~ `c`", "[x](http://evil.example)", "<!channel>", "<script>x</script>", "@everyone", "a|b>c", "&amp;", "](http://evil.example)",
                 "\\", "**", "\u202egnp.exe", "#releases", "{{7*7}}", "=?utf-8?q?x?="]


@pytest.mark.parametrize("place", HTTP_KINDS)
def test_names_with_markup_are_told_as_text(place):
    for name in HOSTILE_NAMES:
        body = release_body(project=f"o/{name}", version=f"1.0-{name}", tags=[{"id": "t", "name": name}], cve=["CVE-2026-0001"])
        SERVICES[kind_of(place)](sent_as_seen(kind_request(place, body)))
        if place != "webhook":
            SERVICES[kind_of(place)](sent_as_seen(kind_request(place, body, body, release_body())))


HUGE = {
    "names": release_body(project="o/" + "语" * 198, version="😀" * 200),
    "cves": release_body(cve=[f"CVE-2026-{n:05}" for n in range(5000)]),
    "everything": release_body(project="o/" + "😀" * 198, version="语" * 200, cve=[f"CVE-2026-{n:05}" for n in range(200)],
                               project_note="记" * 10_000, note=raw_note(HOSTILE_NOTES["cjk"]), is_prerelease=True, is_updated=True),
}
LONG_URLS = {"short": "https://forge.example/x", "long": "https://forge.example/" + "a" * 1970,
             "long and not ascii": "https://forge.example/" + "语" * 1970}


@pytest.mark.parametrize("url", list(LONG_URLS))
@pytest.mark.parametrize("huge", list(HUGE))
@pytest.mark.parametrize("place", [place for place in ONCE if place != "webhook"])
def test_keep_within_the_service_s_limits_where_names_marks_and_links_are_as_long_as_can_be(place, huge, url):
    """The longest that a source may bring: 200 characters of name and of version, 2,000 of address."""
    SERVICES[kind_of(place)](sent_as_seen(kind_request(place, HUGE[huge], url=LONG_URLS[url])))
    SERVICES[kind_of(place)](sent_as_seen(kind_request(place, *[HUGE[huge]] * 50, url=LONG_URLS[url])))


def test_40_ordinary_releases_with_a_note_of_the_project_are_within_the_28_kb_of_teams():
    destination = made_at("microsoft_teams")
    parcel = [a_delivery(destination, release_body(project=f"organisation-{n}/project-{n}", project_note="why we have it: " * 18), id=f"id{n}",
                         url=f"https://forge.example/organisation-{n}/project-{n}/releases/tag/v1.0") for n in range(40)]
    SERVICES["microsoft_teams"](sent_as_seen(request_of(*parcel)))


def texts_of(place: str, request: Any) -> list[str]:
    """What a reader sees of a request: a text for each way in which he may see it."""
    if place == "email":
        mail = email.message_from_bytes(request.content, policy=email.policy.default)
        return [part.get_content() for part in mail.walk() if not part.is_multipart()]
    content = json.loads(request.body)
    kind = kind_of(place)
    if kind == "matrix":
        return [content["body"], content["formatted_body"]]
    if kind == "slack":
        return ["\n".join(block["text"]["text"] for block in content["blocks"])]
    if kind == "hangouts_chat":
        return ["\n".join(widget["textParagraph"]["text"] for one in content["cardsV2"] for section in one["card"]["sections"]
                          for widget in section["widgets"])]
    if kind == "microsoft_teams":
        return ["\n".join(run["text"] for element in content["attachments"][0]["content"]["body"]
                          for run in element.get("inlines", [element]))]
    if kind == "discord":
        return ["\n".join(embed["title"] + "\n" + embed["description"] for embed in content["embeds"])]
    return [content.get("text") or content.get("message") or content["body"]]


@pytest.mark.parametrize("count", [2, 60, 150, 2000])
@pytest.mark.parametrize("place", [place for place in ONCE if place != "webhook"])
def test_a_digest_keeps_to_the_limits_and_says_how_many_it_left_out(place, count):
    bodies = [release_body(version=f"v{n:04}x", project=f"o/p{n // 3}") for n in range(count)]
    for url in ("https://forge.example/o/p", "") if count < 2000 else ("",):
        request = kind_request(place, *bodies, url=url)
        SERVICES[kind_of(place)](sent_as_seen(request))
        for text in texts_of(place, request):
            shown = set(re.findall(r"v\d{4}x", text))
            left_out = sum(int(more) for more in re.findall(r"and (\d+) more", text))
            assert shown and len(shown) + left_out == count, (len(shown), left_out)
            assert shown and (left_out or len(shown) == count)


@pytest.mark.parametrize("place", CHATS)
def test_an_item_that_takes_all_the_room_does_not_hide_the_rest_of_a_digest(place):
    """One project with an address of 2,000 characters, and 5 others."""
    destination = made_at(place)
    parcel = [a_delivery(destination, release_body(version=f"v000{n}x", project=f"o/p{n}"), id=f"id{n}",
                         url=LONG_URLS["long and not ascii"] if n == 0 else "https://forge.example/x") for n in range(6)]
    for text in texts_of(place, request_of(*parcel)):
        assert set(re.findall(r"v\d{4}x", text)) == {f"v000{n}x" for n in range(6)}


def mail_of(message: rt.Message) -> tuple[Any, bytes]:
    """A mail as a mail program reads it, and as it goes over the wire."""
    sent = message_at("email", message)
    assert sent.recipient == "me@example.org"
    return email.message_from_bytes(sent.content, policy=email.policy.default), sent.content


def plain_message(*bodies: dict[str, Any]) -> rt.Message:
    parcel = [a_delivery(made_at("email"), body, id=f"id{n}") for n, body in enumerate(bodies)]
    return rt.message_of(parcel, rt.Sender("Service", "releases@example.org", "example.org", ""), 1.7e9)


def check_mail(message: rt.Message) -> Any:
    mail, content = mail_of(message)
    assert all(len(line) <= 998 for line in content.split(b"\r\n")) and b"\n" not in content.replace(b"\r\n", b"")
    assert content.isascii() and b"\x00" not in content
    assert sorted(mail.keys()) == sorted({"Subject", "From", "To", "Date", "Message-ID", "List-Id", "List-Unsubscribe", "Auto-Submitted",
                                          "MIME-Version", "Content-Type"})
    assert mail["To"] == "me@example.org" and [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]
    page = mail.get_body(("html",)).get_content()
    for tag in re.findall(r"<\s*([a-zA-Z!/]+)", page):
        assert tag.lower().strip("/!") in {"doctype", "html", "head", "meta", "title", "body", "div", "h", "p", "a", "ul", "li", "strong"}, tag
    assert all(href.startswith("https://forge.example/") for href in re.findall(r'href="([^"]*)"', page))
    return mail


@pytest.mark.parametrize("note", list(HOSTILE_NOTES))
def test_a_mail_of_a_hostile_note_is_sound(note):
    for message in (hostile_message(note, 1), hostile_message(note, 4, 20_000)):
        check_mail(message)


def test_a_mail_s_headers_hold_no_more_than_they_should_whatever_names_say():
    for name in [*HOSTILE_NAMES, "=?utf-8?q?a=0D=0ABcc:_x=40y.z?=", "a, b <c@d.example>", "😀" * 100]:
        mail = check_mail(plain_message(release_body(project=f"o/{name}", version=name, cve=["CVE-2026-0001"])))
        assert "Bcc" not in mail and "\n" not in mail["Subject"]


def test_a_mail_of_600_releases_with_long_notes_is_one_that_a_mail_server_takes():
    """Postfix takes 10,240,000 bytes unless told otherwise: https://www.postfix.org/postconf.5.html#message_size_limit"""
    body = release_body(note=raw_note("变更日志。" * 400))
    mail, content = mail_of(plain_message(*[{**body, "version": f"v{n:04}x", "project": f"o/p{n}"} for n in range(600)]))
    assert len(content) < 10_240_000, len(content)
    text = mail.get_body(("plain",)).get_content()
    assert len(set(re.findall(r"v\d{4}x", text))) + sum(map(int, re.findall(r"and (\d+) more", text))) == 600


@pytest.mark.parametrize("place", [*CHATS, "email"])
def test_a_message_says_the_project_the_version_the_marks_the_project_s_note_and_the_note(place):
    request = kind_request(place, release_body(version="v2x", cve=["CVE-2026-12345"], is_prerelease=True, is_updated=True,
                                               project_note="runs at home", note={"title": "Big", "message": "<p>Reads well</p>"}))
    content = json.loads(request.body) if place != "email" else {}
    for text in texts_of(place, request):
        text = " ".join([str(content.get("title", "")), text, *(str(embed["title"]) for embed in content.get("embeds", ()))])
        plain = html.unescape(re.sub(r"<(?!https?:)[^<>]*>|\\", "", text.replace("\u200b", "")))
        for word in ("o/p v2x", "CVE-2026-12345", "pre-release", "updated", "runs at home", "Reads well"):
            assert word in plain, (word, plain)
    where = request.content.decode() if place == "email" else request.body.decode()
    if place == "email":
        where = " ".join(texts_of(place, request))
    if place != "apprise":          # a text alone: there is no place for a link but the text
        assert "https://forge.example/o/p/releases/1.0" in where
    unmarked = kind_request(place, release_body(version="v2x"))
    assert "pre-release" not in str(texts_of(place, unmarked)) and "updated" not in str(texts_of(place, unmarked))


def test_an_apprise_message_holds_the_link():
    """It has no member for it, so that the text is its only place."""
    assert "https://forge.example/o/p/releases/1.0" in json.loads(kind_request("apprise", release_body()).body)["body"]


@pytest.mark.parametrize("place, least", [("ntfy", 4), ("gotify", 8), ("pushover", 1)])
@pytest.mark.parametrize("own", ["1", "0", "-2", "5", "9"])
def test_a_security_fix_has_a_high_priority_and_the_rest_that_of_the_settings(place, least, own):
    try:
        destination = made_at(place, priority=own)
    except rt.Invalid:
        return
    plain, fix = (json.loads(request_of(a_delivery(destination, body)).body)["priority"] for body in (
        release_body(), release_body(cve=["CVE-2026-0001"])))
    assert plain == int(own) and fix == max(int(own), least)
    digest = [a_delivery(destination, body, id=f"i{n}") for n, body in enumerate((release_body(), release_body(cve=["CVE-2026-0001"])))]
    assert json.loads(request_of(*digest).body)["priority"] == fix


@pytest.mark.parametrize("place", [*CHATS, "email"])
def test_a_security_fix_looks_otherwise_than_another_release(place):
    fix = kind_request(place, release_body(cve=["CVE-2026-0001"]))
    told = " ".join(texts_of(place, fix)) + (fix.body.decode() if place != "email" else "")
    assert "CVE-2026-0001" in told.replace("\\", "")
    if place == "discord":
        assert json.loads(fix.body)["embeds"][0]["color"] != json.loads(kind_request(place, release_body()).body)["embeds"][0]["color"]
    if place == "ntfy":
        assert json.loads(fix.body)["tags"] != json.loads(kind_request(place, release_body()).body)["tags"]
    if place == "apprise":
        assert json.loads(fix.body)["type"] == "warning" and json.loads(kind_request(place, release_body()).body)["type"] == "info"


@pytest.mark.parametrize("place", [*CHATS, "email"])
def test_a_digest_has_security_fixes_on_top_then_projects_together_newest_first(place):
    def at(project: str, version: str, hour: int, **more: Any) -> dict[str, Any]:
        return release_body(project=project, version=version, time=f"2026-03-01T{hour:02}:00:00Z", **more)

    bodies = [at("o/a", "v0001x", 1), at("o/b", "v0002x", 2), at("o/c", "v0003x", 3, cve=["CVE-2026-0001"]), at("o/a", "v0004x", 4),
              at("o/c", "v0005x", 5), at("o/b", "v0006x", 6), at("o/d", "v0007x", 2, cve=["CVE-2026-0002"])]
    for text in texts_of(place, kind_request(place, *bodies)):
        assert list(dict.fromkeys(re.findall(r"v\d{4}x", text))) == [
            "v0005x", "v0003x", "v0007x", "v0006x", "v0002x", "v0004x", "v0001x"]


def test_projects_of_one_name_at_two_providers_are_not_mixed_in_a_digest():
    def at(provider: str, version: str, hour: int) -> dict[str, Any]:
        return release_body(provider=provider, version=version, time=f"2026-03-01T{hour:02}:00:00Z")

    text, = texts_of("telegram", kind_request("telegram", at("github", "v1x", 1), at("gitlab", "v2x", 2), at("github", "v3x", 3)))
    assert re.findall(r"v\dx", text) == ["v3x", "v1x", "v2x"]


@pytest.mark.parametrize("place", ["discord", "mattermost"])
def test_an_address_in_a_note_stays_one_that_can_be_followed(place):
    """Their clients take an address with all that is in it, backslashes too: inside there is no escape."""
    url = "https://github.example/o/some_project/compare/v1.0.0...v1.1.0"
    text, = texts_of(place, kind_request(place, release_body(note={"title": "", "message": f"<p>Full Changelog: {url}</p>"})))
    assert url in text


@pytest.mark.parametrize("place", CHATS)
@pytest.mark.parametrize("url", ["javascript:alert(1)", "", "ftp://forge.example/x"])
def test_a_link_that_is_none_is_left_out(place, url):
    request = kind_request(place, release_body(), url=url)
    assert "javascript" not in request.body.decode() and "ftp:" not in request.body.decode()
    SERVICES[kind_of(place)](sent_as_seen(request))


@pytest.mark.parametrize("place", [*CHATS, "email"])
def test_a_source_s_failing_is_told_in_words(place):
    body = {"provider": "github", "project": "o/p", "time": "2026-03-01T10:00:00Z", "error": "it answered <b>404</b> @all",
            "account": {"type": "user", "id": "a", "name": "Me"}, "project_note": "mine"}
    told = {}
    for kind in ("failing", "recovered"):
        request = kind_request(place, body, kind=kind)
        if place != "email":
            SERVICES[kind_of(place)](sent_as_seen(request))
        told[kind] = " ".join(texts_of(place, request)) + (request.body.decode() if place != "email" else "")
        assert "o/p" in told[kind] and "404" in told[kind] and "mine" in told[kind]
    assert "again" in told["recovered"] and told["failing"] != told["recovered"]


def test_a_matrix_message_keeps_its_transaction_over_attempts_and_no_two_share_one():
    destination = made_at("matrix")
    first, again = (request_of(a_delivery(destination, release_body(), id="one"), now=now) for now in (1e9, 2e9))
    other = request_of(a_delivery(destination, release_body(), id="two"))
    assert (first.url, first.body) == (again.url, again.body) and other.url != first.url


PLANTED: dict[str, list[str]] = {
    "slack": ["PLANTEDslackhook0123456x"], "slack bot": ["xoxb-1234567890-PLANTEDslackbot"], "telegram": [BOT],
    "discord": ["PLANTED-discord_" + "x" * 52], "hangouts_chat": ["PLANTEDchatkey00000001", "PLANTEDchattoken00000002%3D"],
    "microsoft_teams": ["PLANTEDteamssig0000000000000000003"], "mattermost": ["planted5m4tt3rm05t5hook5ab"],
    "rocketchat": ["PLANTEDr0ck3t0000000000000000000000000005x"], "matrix": ["syt_PLANTEDmatrixtoken_0"],
    "webhook": ["PLANTEDheadervalue", SECRET], "ntfy": ["tk_PLANTEDntfytoken0000000000000"], "gotify": ["APLANTEDgotify."],
    "pushover": [APP_30, KEY_30], "apprise": ["plantedapprisekey0001"],
}


def shown_of(secret: str, text: str) -> str:
    """A piece of a secret that a text shows, if it shows one of 10 characters."""
    return next((secret[at:at + 10] for at in range(len(secret) - 9) if secret[at:at + 10] in text), "")


def said_of(exchange: Exchange, destination: rt.Destination, answer: Any, caplog: Any) -> str:
    """All that is kept and logged of a delivery that the receiver answers so."""
    caplog.clear()
    with caplog.at_level("DEBUG"):
        entry, attempt, _ = exchange.send(destination, answer)
    return "\n".join([json.dumps(entry.as_json(), ensure_ascii=False), json.dumps(attempt.as_json(), ensure_ascii=False), caplog.text])


@pytest.mark.parametrize("echo", ["words", "json", "path", "quoted", "decoded", "request"])
@pytest.mark.parametrize("place", HTTP_KINDS)
def test_what_a_receiver_repeats_of_a_secret_is_shown_nowhere(exchange, caplog, place, echo):
    secrets = PLANTED[place]

    def answer(seen: Seen) -> Any:
        said = {"words": f"the key {secrets[0]} is not known",
                "json": json.dumps({"error": f"no {secrets[0]}", "message": secrets[-1], "description": " ".join(secrets)}),
                "path": f"cannot POST {seen.path}",
                "quoted": "unknown: " + " ".join(urllib.parse.quote(one, safe="") for one in secrets),
                "decoded": "unknown: " + " ".join(urllib.parse.unquote(one) for one in secrets),
                "request": f"{seen.path} {seen.headers.get('authorization')} {seen.headers.get('x-gotify-key')} "
                           f"{seen.headers.get('x-mine')}"}[echo]
        return 403, said

    said = said_of(exchange, exchange.add(place), answer, caplog)
    for one in secrets:
        for form in (one, urllib.parse.unquote(one)):
            assert not shown_of(form, said), shown_of(form, said)


@pytest.mark.parametrize("length", [280, 290, 1000, 1010])
@pytest.mark.parametrize("place", ["telegram", "discord", "matrix", "webhook", "gotify"])
def test_a_secret_that_stands_where_an_answer_is_cut_is_not_shown_in_part(exchange, caplog, place, length):
    secret = PLANTED[place][0]
    said = said_of(exchange, exchange.add(place), lambda seen: (403, "y" * (length - 1) + "=" + secret), caplog)
    assert not shown_of(secret[:14], said), shown_of(secret[:14], said)


def test_each_of_several_addresses_of_apprise_is_secret(exchange, caplog):
    destination = exchange.add("apprise", [("url", exchange.listener.url + "/notify"), ("urls", PLANTED_URLS)])
    said = said_of(exchange, destination, lambda seen: (424, {
        "error": "could not notify " + PLANTED_URLS.split()[1], "details": [["ERROR", "now", PLANTED_URLS.split()[0]]]}), caplog)
    assert "PLANTED" not in said


@pytest.mark.parametrize("header", ["Authorization: Bearer PLANTEDbearertoken0001", "Authorization: Token token=PLANTEDbearertoken0001",
                                    "Cookie: session=PLANTEDbearertoken0001; a=b"])
def test_the_token_in_a_webhook_s_header_is_secret_without_the_word_before_it(exchange, caplog, header):
    destination = exchange.add("webhook", [("url", exchange.listener.url), ("header", header)])
    assert "PLANTEDbearertoken0001" not in said_of(
        exchange, destination, lambda seen: (401, "token PLANTEDbearertoken0001 has expired"), caplog)


def test_the_password_of_ntfy_is_secret_in_every_form(exchange, caplog):
    destination = exchange.add("ntfy", [("topic", "t"), ("token", "phil:PLANTEDpassword"), ("server", exchange.listener.url)])
    said = said_of(exchange, destination, lambda seen: (401, {"error": f"no: {seen.headers['authorization']}, PLANTEDpassword"}), caplog)
    assert base64.b64encode(b"phil:PLANTEDpassword").decode() not in said and "PLANTEDpassword" not in said


@pytest.mark.parametrize("place", HTTP_KINDS)
def test_a_failed_connection_s_words_hold_no_secret(exchange, caplog, place):
    said = said_of(exchange, exchange.add(place, settings_at("http://127.0.0.1:9")[place]), 204, caplog)
    assert "refused" in said
    for one in PLANTED[place]:
        assert not shown_of(one, said)


@pytest.mark.parametrize("kind", ["telegram", "hangouts_chat", "apprise"])
def test_a_printed_test_message_shows_the_request_and_no_secret(serve, db, listen, kind):
    listener = listen(lambda seen: (403, {"error": "z" * 900 + f" {seen.path} {seen.body.decode()}", "description": seen.path}))
    done("account", "add", "me@example.org", "--db", db, "--admin", "--password-stdin", stdin=PASSWORD + "\n")
    given = settings_at(listener.url)[kind] if kind != "apprise" else [("url", listener.url + "/notify"), ("urls", PLANTED_URLS)]
    finished = run("destination", "test", "me@example.org", kind, "--db", db,
                   *(word for name, text in given for word in ("--set", f"{name}={text}")), "--data", "version=9.9.9")
    assert finished.returncode == 1 and finished.stdout.startswith("POST ") and "9.9.9" in finished.stdout, finished.stderr
    assert "PLANTED" not in finished.stdout + finished.stderr, finished.stdout


def test_a_custom_field_stays_within_64_kib_and_takes_little_memory_however_often_it_repeats_a_note():
    """Row 47 of the reliability plan: a width bomb. A template may repeat a note of 256 KiB 4,000 times; here it is 100."""
    body = release_body(note={"title": "t", "message": "語" * rt.NOTE_LIMIT})
    tracemalloc.start()
    found = json.loads(rt.notification_body({"fields": {"x": "{note_message}" * 100}}, body, ""))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found["x"]) <= 65_536 and peak < 10 * 2**20, f"{peak / 2**20:.0f} MiB"


def test_50_fields_that_repeat_a_note_make_a_body_of_64_kib_at_most():
    note = {"title": "t", "message": "x" * rt.NOTE_LIMIT}
    body = rt.notification_body({"fields": {f"f{n}": "{note_message}" for n in range(50)}}, release_body(note=note), "")
    values = json.loads(body).values()
    assert sum(map(len, values)) <= 65_536 and len(values) == 50, len(body)


@pytest.mark.parametrize("value", ['", "admin": true, "x": "', '"}{"admin":true}', "\\", '\\"', "\n\r\t\x00\x1f", "</script>", "\u2028", "\ud800"])
def test_no_value_breaks_out_of_the_json_of_custom_fields(value):
    body = release_body(version=value, project=value, project_note=value, note={"title": value, "message": value},
                        tags=[{"id": "t", "name": value}])
    fields = {"text": "{version}|{project}|{project_note}", "{version}": "{note_title}", '"': '{"v": "{note_message}"}'}
    found = json.loads(rt.notification_body({"fields": fields}, body, "").decode("utf-8"))
    value = value.replace("\ud800", "?")
    assert found == {"text": "|".join([value] * 3), "{version}": value, '"': f'{{"v": "{value}"}}'}


def test_a_format_string_in_a_webhook_s_field_is_text_from_the_settings_to_the_wire(exchange):
    attacks = ["{version.__class__.__init__.__globals__}", "{version:>1000000000}", "{version!r}", "{0}", "{version[0]}", "%(version)s",
               "${{7*7}}", "{account_name.secret}", "{ version }"]
    destination = exchange.add("webhook", [("url", exchange.listener.url), *[("field", f"f{n}={text}") for n, text in enumerate(attacks)]])
    exchange.send(destination, 204, version="{project}")
    assert exchange.listener.seen[-1].json() == {f"f{n}": text.replace("{{", "{").replace("}}", "}") for n, text in enumerate(attacks)}


def test_a_sample_takes_every_name_of_a_template_but_what_follows_from_others():
    account = rt.Account("a1", "organization", "me@example.org", "Team", True, "daily", "UTC", "x")
    body, url = rt.sample([], account)
    assert {"provider", "project", "version", "time", "note", "account"} == body.keys() and url.startswith("https://")
    given = ["provider=npm", "project=@a/b=c", "version=1=2", "time=2026-03-01T10:00:00.5Z", "cve=CVE-2026-0001, CVE-2026-0002", "is_prerelease=true",
             "is_updated=true", "note_title=T", "note_message=<b>M</b>", "account_type=user", "account_id=i", "account_name=N", "tags=a, b c,",
             "project_note=mine", "url=https://forge.example/x"]
    body, url = rt.sample(given, account)
    assert [tag["name"] for tag in body.pop("tags")] == ["a", "b c"] and url == "https://forge.example/x"
    assert body == {
        "provider": "npm", "project": "@a/b=c", "version": "1=2", "time": "2026-03-01T10:00:00.500000Z", "cve": ["CVE-2026-0001", "CVE-2026-0002"],
        "is_prerelease": True, "is_updated": True, "note": {"title": "T", "message": "<b>M</b>"},
        "account": {"type": "user", "id": "i", "name": "N"}, "project_note": "mine"}


@pytest.mark.parametrize("given, count", [
    (["colour=red"], 1), (["version"], 1), (["is_updated=yes"], 1), (["time=yesterday"], 1), (["time=2026-99-99T99:99:99Z"], 1),
    (["account_type=robot", "time=x", "is_prerelease=", "nonsense"], 4)])
def test_a_sample_s_data_that_make_no_sense_are_refused_all_at_once(given, count):
    account = rt.Account("a1", "user", "me@example.org", "Me", True, "daily", "UTC", "x")
    with pytest.raises(rt.Invalid) as caught:
        rt.sample(given, account)
    assert len(caught.value.errors) == count and all(error.startswith("Data ") for error in caught.value.errors)


@pytest.mark.parametrize("size", [len, rt.utf16_units, rt.utf8_bytes])
@pytest.mark.parametrize("escape", [str, html.escape, lambda text: re.sub(r"([*_\\])", r"\\\1", text)])
@pytest.mark.parametrize("text", ["", "short", "a" * 500, "word " * 100, "😀" * 200, "&<>\"'" * 60, "*_\\" * 100, "语言 " * 90, "a" * 90 + " " + "b" * 400])
def test_what_is_cut_fits_says_so_and_is_a_beginning(text, escape, size):
    whole = escape(text)
    for room in (*range(12), 50, 99, 100, 101, 200, 10_000):
        cut = rt.shortened(text, room, escape, size)
        assert size(cut) <= room
        if size(whole) <= room:
            assert cut == whole
        elif cut:
            assert cut.endswith("…") and whole.startswith(cut[:-1])
            assert any(escape(text[:at]) == cut[:-1] for at in range(len(text))), "an escape was cut in two"


@dataclasses.dataclass
class Taken:
    """A message that a mail server took, without what was stuffed into it."""

    sender: str
    recipient: str
    content: bytes
    is_secured: bool
    user: str | None


class Ended(Exception):
    """A conversation is over."""


class MailServer:
    """A real and strict SMTP server (RFC 5321, 3207, 4954): keeps what it is told and the messages that it takes.

    ``replies``: by the step (GREETING EHLO HELO STARTTLS AUTH MAIL RCPT DATA MESSAGE QUIT) what it says instead, with
    no further effect; or what it does with the connection, which then ends.
    """

    def __init__(self, security: str, context: ssl.SSLContext | None, login: tuple[str, str] | None, mechanisms: str,
                 replies: dict[str, str | Callable[[Any], Any]]) -> None:
        self.security, self.login, self.mechanisms, self.replies = security, login, mechanisms, replies
        self.said: list[tuple[bool, str]] = []      # lines of the client, and whether TLS hid them
        self.taken: list[Taken] = []
        self.port = 0
        self._context = context

    def url(self, user: str = "", scheme: str = "", host: str = "localhost") -> str:
        return f"{scheme or self.security}://{user}{host}:{self.port}"

    def words(self) -> list[str]:
        """The verbs that it was told, in their order."""
        return [line.split(" ")[0].upper() for _, line in self.said]

    def talk(self, raw: Raw, connection: socket.socket) -> None:
        with contextlib.ExitStack() as stack, contextlib.suppress(Ended):
            self._peer: Any = connection
            is_secured, user, is_greeted, sender, recipient = self.security == "smtps", None, False, "", ""
            if is_secured:
                self._peer = stack.enter_context(self._secured(connection))
            lines = stack.enter_context(self._peer.makefile("rb"))
            self._says("GREETING", "220 mail.test ESMTP")
            while line := lines.readline().decode("latin-1").rstrip("\r\n"):
                self.said.append((is_secured, line))
                verb, _, rest = line.partition(" ")
                verb = verb.upper()
                if verb in ("EHLO", "HELO"):
                    offers = ["mail.test", *["STARTTLS"] * (self.security == "smtp+starttls" and not is_secured),
                              *[f"AUTH {self.mechanisms}"] * bool(self.login), "SIZE 10240000"][:9 if verb == "EHLO" else 1]
                    usual = "\r\n".join(f"250{'-' * (one is not offers[-1]) or ' '}{one}" for one in offers)
                    is_greeted = self._says(verb, usual)
                elif verb == "QUIT":
                    self._says(verb, "221 2.0.0 bye")
                    return
                elif not is_greeted:
                    self._send("503 5.5.1 EHLO first")
                elif verb == "STARTTLS" and self._says(verb, "220 2.0.0 go ahead"):
                    self._peer = stack.enter_context(self._secured(connection))
                    lines = stack.enter_context(self._peer.makefile("rb"))
                    is_secured, is_greeted = True, False
                elif verb == "AUTH" and self._answers(verb):
                    mechanism, _, first = rest.partition(" ")
                    parts = [first or self._asked(lines, "334 ")]
                    parts += [self._asked(lines, "334 UGFzc3dvcmQ6")] if mechanism == "LOGIN" else []
                    given = [base64.b64decode(part).decode() for part in parts]
                    given = given if mechanism == "LOGIN" else given[0].split("\0")[1:]
                    user = given[0] if tuple(given) == self.login else None
                    self._send("235 2.7.0 welcome" if user else "535 5.7.8 credentials invalid")
                elif verb == "MAIL" and (self.login is None or user) and self._says(verb, "250 2.1.0 ok"):
                    sender = rest.removeprefix("FROM:").removeprefix("from:").strip("<>")
                elif verb == "RCPT" and sender and self._says(verb, "250 2.1.5 ok"):
                    recipient = rest.removeprefix("TO:").removeprefix("to:").strip("<>")
                elif verb == "DATA" and recipient and self._says(verb, "354 go on"):
                    content = b""
                    while (data := lines.readline()) != b".\r\n":
                        if not data:
                            return
                        content += data.removeprefix(b".")
                    if self._says("MESSAGE", f"250 2.0.0 queued as {len(self.taken) + 1}"):
                        self.taken.append(Taken(sender, recipient, content, is_secured, user))
                    sender = recipient = ""
                elif verb not in self.replies:
                    self._send("503 5.5.1 not now")

    def _secured(self, connection: socket.socket) -> ssl.SSLSocket:
        assert self._context
        return self._context.wrap_socket(connection, server_side=True)

    def _send(self, line: str) -> None:
        self._peer.sendall(line.encode() + b"\r\n")

    def _asked(self, lines: Any, question: str) -> str:
        self._send(question)
        return lines.readline().decode().strip()

    def _answers(self, step: str) -> bool:
        """Whether a step is left to the server; else it was answered as the test wants."""
        reply = self.replies.get(step)
        if isinstance(reply, str):
            self._send(reply)
        elif reply:
            reply(self._peer)
            raise Ended
        return reply is None

    def _says(self, step: str, usual: str) -> bool:
        """Whether the usual was said."""
        if is_usual := self._answers(step):
            self._send(usual)
        return is_usual


@pytest.fixture
def mail_server(talk: Callable[..., Raw], tmp_path: pathlib.Path) -> Callable[..., MailServer]:
    """Makes mail servers, which end with the test: ``security`` is the scheme of their URL."""
    def make(security: str = "smtp", leaf: str = "good", login: tuple[str, str] | None = None,
             mechanisms: str = "PLAIN LOGIN", **replies: Any) -> MailServer:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        (tmp_path / f"{leaf}.pem").write_text(LEAVES[leaf])
        context.load_cert_chain(tmp_path / f"{leaf}.pem")
        made = MailServer(security, context, login, mechanisms, replies)
        made.port = talk(made.talk).port
        return made
    return make


@pytest.fixture
def mail_board(tmp_path: pathlib.Path) -> Iterator[Callable[..., Board]]:
    """Makes a board with the mail server of a URL."""
    made: list[Board] = []

    def make(smtp_url: str, **settings: Any) -> Board:
        folder = tmp_path / f"board {len(made)}"
        folder.mkdir()
        made.append(Board(folder, smtp_url=smtp_url, **settings))
        return made[-1]

    yield make
    for board in made:
        board.close()


def mailbox(board: Board, to: str = "", name: str = "") -> rt.Destination:
    """The account's own mail destination, or another with an address of its own."""
    if not name:
        own, = board.store.destinations(board.account.id, "email", "account")
        return own
    return board.store.add_destination(board.account.id, "email", name, rt.read_settings("email", [("to", to)]), "")


def put_release(board: Board, project: rt.Project, destinations: Sequence[rt.Destination], is_digested: bool = False,
                url: str = "https://forge.example/notes", **body: Any) -> None:
    """A release of a project, and its deliveries, due at once."""
    body = {"provider": project.provider, "project": project.name, "version": "1.0", "time": "2026-03-01T10:00:00Z",
            "account": {"type": "user", "id": board.account.id, "name": "Me"}, **body}
    board.record(project.source_id, events=[rt.Event(project.id, body, url, tuple(
        rt.Recipient(one.id, board.store.clock(), is_digested) for one in destinations))])


def sent_once(board: Board, **about: Any) -> tuple[rt.Entry, rt.Attempt]:
    """What came of one release that the account's own mail destination is told of."""
    put_release(board, board.track("github", "o/p"), [mailbox(board)])
    post = about.get("post", board.service.fetcher.post)
    rt.Courier(board.store, post, board.service.settings, spread=lambda: 0.0).send_due()
    entry, = board.store.journal(board.account.id)
    return entry, board.store.attempts(entry.id)[-1]


def a_mail(settings: dict[str, Any] | None = None, sender: str = "releases@example.org",
           base_url: str = "https://releases.example.org", now: float = 1_700_000_000.0, **about: Any) -> rt.Mail:
    """The mail of one event; ``about`` is of the event, or replaces the event's body by ``body``."""
    body, url, kind = about.pop("body", EVENT), about.pop("url", "https://forge.example/note"), about.pop("kind", "release")
    destination = rt.Destination("d", "a", "email", "mine", settings or {"to": ""}, "")
    delivery = a_delivery(destination, {**body, **about}, url=url, kind=kind)
    made = rt.notification(rt.message_of([delivery], rt.Sender("Service", sender, sender.partition("@")[2], base_url), now))
    assert isinstance(made, rt.Mail)
    return made


MAIL_HEADERS = ["List-Id", "List-Unsubscribe", "Subject", "From", "To", "Date", "Message-ID", "Auto-Submitted",
                "MIME-Version", "Content-Type"]


def read_mail(content: bytes) -> Any:
    """The message, as Python reads it; fails unless it may go over any wire (RFC 5321, 5322, 2045) and has our headers,
    each once."""
    assert content.endswith(b"\r\n") and not re.search(rb"(?<!\r)\n|\r(?!\n)", content), "a bare CR or LF"
    assert max(map(len, content.split(b"\r\n"))) <= 998
    assert max(content) < 128 and b"\0" not in content, "not 7 bit"
    head = re.sub(rb"\r\n[ \t]+", b" ", content.partition(b"\r\n\r\n")[0]).decode("ascii").split("\r\n")
    assert [line.partition(":")[0] for line in head] == MAIL_HEADERS, head
    message = email.message_from_bytes(content, policy=email.policy.default)
    assert not message.defects
    return message


def raw_header(content: bytes, name: str) -> str:
    """A header's value as it was sent, unfolded and not decoded: what readers of addresses and ids take."""
    head = re.sub(rb"\r\n(?=[ \t])", b"", content.partition(b"\r\n\r\n")[0]).decode("ascii")
    found, = re.findall(rf"^{name}:[ \t]*(.*?)\r?$", head, re.MULTILINE)
    return found


def parts_of(content: bytes) -> tuple[str, str]:
    """The text and the HTML of a mail."""
    message = read_mail(content)
    assert message.get_content_type() == "multipart/alternative"
    text, page = message.iter_parts()
    assert (text.get_content_type(), page.get_content_type()) == ("text/plain", "text/html")
    assert not text.defects and not page.defects
    return text.get_content().replace("\r\n", "\n"), page.get_content().replace("\r\n", "\n")


class Page(html.parser.HTMLParser):
    """What an HTML reader sees: tags, addresses and text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.shown = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.shown += data


@pytest.mark.parametrize("mechanisms", ["", "PLAIN", "XOAUTH2 LOGIN"])
@pytest.mark.parametrize("security", ["smtp", "smtp+starttls", "smtps"])
def test_mail_arrives_with_and_without_tls_and_log_in(mail_server, mail_board, trusted, security, mechanisms):
    login = ("relay@example.org", "p:a/s@s%w?r#d x") if mechanisms else None
    server = mail_server(security, login=login, mechanisms=mechanisms)
    user = f"{urllib.parse.quote(login[0], safe='')}:{urllib.parse.quote(login[1], safe='')}@" if login else ""
    board = mail_board(server.url(user), mail_from="releases@example.org")
    own, other = mailbox(board), mailbox(board, "you@example.org", "other")
    put_release(board, board.track("github", "o/p"), [own, other])
    assert len(courier_of(board).send_due()) == 2
    entries = board.store.journal(board.account.id)
    assert [entry.state for entry in entries] == ["delivered"] * 2
    attempts = [board.store.attempts(entry.id) for entry in entries]
    assert {(one.status, one.error, one.address) for one, in attempts} == {(250, None, "127.0.0.1")}
    assert {one.answer for one, in attempts} == {"2.0.0 queued as 1", "2.0.0 queued as 2"}
    assert [(one.sender, one.recipient) for one in server.taken] == [
        ("releases@example.org", "me@example.org"), ("releases@example.org", "you@example.org")]
    assert {(one.is_secured, one.user) for one in server.taken} == {(security != "smtp", login and login[0])}
    assert [read_mail(one.content)["To"] for one in server.taken] == ["me@example.org", "you@example.org"]
    if security == "smtp+starttls":
        in_the_clear = [line.split()[0].lower() for is_secured, line in server.said if not is_secured]
        assert in_the_clear == ["ehlo", "starttls"] * 2


def test_a_mail_is_what_was_made_whatever_its_lines_begin_with(mail_server, mail_board):
    server = mail_server()
    board = mail_board(server.url())
    note = "<pre>.\n..\n.end\nQUIT\n\n.\n\n" + "x" * 5000 + "</pre>"
    put_release(board, board.track("github", "o/p"), [mailbox(board)], note={"title": "", "message": note})
    courier_of(board).send_due()
    text, page = parts_of(server.taken[0].content)
    for shown in (text, Page(page).shown):
        assert "\n".join([".", "..", ".end", "QUIT", "", ".", "", "x" * 5000]) in shown


def test_what_was_said_before_tls_does_not_count_after_it(mail_server, mail_board, trusted):
    """https://nvd.nist.gov/vuln/detail/CVE-2011-0411 and its like: answers that somebody slips in."""
    server = mail_server("smtp+starttls", login=("u", "p"))
    usual = server._says
    server._says = lambda step, words: usual(        # type: ignore[method-assign]
        step, words + "\r\n250-evil.test\r\n250 AUTH PLAIN" if step == "STARTTLS" else words)
    entry, attempt = sent_once(mail_board(server.url("u:p@")))
    assert (entry.state, attempt.answer, len(server.taken)) == ("delivered", "2.0.0 queued as 1", 1)


@pytest.mark.parametrize("security, leaf, says", [
    ("smtp+starttls", "other",   "certificate is not valid: Hostname mismatch"),
    ("smtp+starttls", "expired", "certificate is not valid: certificate has expired"),
    ("smtp+starttls", "self",    "certificate is not valid: self.signed certificate"),
    ("smtps",         "other",   "certificate is not valid: Hostname mismatch"),
    ("smtps",         "expired", "certificate is not valid: certificate has expired"),
    ("smtps",         "self",    "certificate is not valid: self.signed certificate"),
])
def test_a_mail_server_s_certificate_is_verified_and_nothing_is_said_to_another(
        mail_server, mail_board, trusted, security, leaf, says):
    server = mail_server(security, leaf, login=("user", "w0rd"))
    entry, attempt = sent_once(mail_board(server.url("user:w0rd@")))
    assert (entry.state, attempt.status, server.taken) == ("pending", None, [])
    assert re.search(says, attempt.error)
    assert set(server.words()) <= {"EHLO", "STARTTLS"}


@pytest.mark.parametrize("offered, scheme, replies, says", [
    ("smtp",          "smtp+starttls", {},                                       "STARTTLS"),
    ("smtp+starttls", "smtp+starttls", {"STARTTLS": "454 4.7.0 TLS is not available"}, "454: 4.7.0 TLS is not available"),
    ("smtp+starttls", "smtp+starttls", {"EHLO": "502 5.5.1 what?"},              "STARTTLS"),
    ("smtp",          "smtps",         {},                                       "TLS failed"),
])
def test_without_the_tls_that_was_asked_for_neither_password_nor_message_is_sent(
        mail_server, mail_board, trusted, offered, scheme, replies, says):
    server = mail_server(offered, login=("user", "w0rd"), **replies)
    entry, attempt = sent_once(mail_board(server.url("user:w0rd@", scheme)))
    assert (entry.state, server.taken) == ("pending", [])
    assert says in attempt.error
    assert not {"AUTH", "MAIL", "RCPT", "DATA"} & set(server.words())


def test_a_log_in_that_the_server_does_not_know_is_said(mail_server, mail_board):
    server = mail_server()
    entry, attempt = sent_once(mail_board(server.url("user:w0rd@")))
    assert (entry.state, server.taken) == ("pending", []) and "AUTH" in attempt.error


def test_a_password_of_any_letters_logs_in(mail_server, mail_board, trusted):
    """RFC 4616: user and password are UTF-8."""
    server = mail_server("smtps", login=("relay", "pässwörd✓"))
    entry, attempt = sent_once(mail_board(server.url(f"relay:{urllib.parse.quote('pässwörd✓')}@")))
    assert (entry.state, attempt.error) == ("delivered", None)


REFUSALS = [
    # at         the server's words                                  status
    ("GREETING", "421 4.3.2 closed for the night",                   421),
    ("GREETING", "554 5.7.1 not from your address",                  554),
    ("MAIL",     "550 5.7.1 sender rejected",                        550),
    ("MAIL",     "530 5.7.0 authentication required",                530),
    ("MAIL",     "452 4.3.1 insufficient storage",                   452),
    ("RCPT",     "550 5.1.1 no such user",                           550),
    ("RCPT",     "550-5.1.1 no such user\r\n550 5.1.1 see our page", 550),
    ("RCPT",     "450 4.2.0 greylisted, try again",                  450),
    ("RCPT",     "552 5.2.2 mailbox full",                           552),
    ("RCPT",     "421 4.7.0 too many connections",                   421),
    ("DATA",     "451 4.3.0 try later",                              451),
    ("DATA",     "554 5.5.1 no valid recipients",                    554),
    ("MESSAGE",  "552 5.3.4 message too big",                        552),
    ("MESSAGE",  "554 5.7.1 looks like spam: größer ✉",              554),
    ("MESSAGE",  "450 4.7.1 come back",                              450),
]


@pytest.mark.parametrize("step, words, status", REFUSALS)
def test_a_refusal_at_any_step_is_a_failure_with_the_server_s_words(mail_server, mail_board, step, words, status):
    server = mail_server(**{step: words})
    entry, attempt = sent_once(mail_board(server.url()))
    assert (entry.state, attempt.status, server.taken) == ("pending", status, [])
    for line in words.split("\r\n"):
        assert line[4:] in attempt.error and line[4:] in attempt.answer
    assert str(status) in attempt.error


@pytest.mark.parametrize("step", ["GREETING", "MAIL", "RCPT", "DATA", "MESSAGE"])
def test_a_conversation_that_a_server_refused_to_go_on_with_is_ended_with_quit(mail_server, mail_board, step):
    """RFC 5321 part 4.1.1.10: the channel is not closed before QUIT."""
    server = mail_server(**{step: "554 5.7.1 no"})
    sent_once(mail_board(server.url()))
    assert server.words()[-1] == "QUIT"


@pytest.mark.parametrize("words, status", [
    ("535 5.7.8 credentials invalid", 535), ("454 4.7.0 temporary failure", 454), ("534 5.7.9 use an app password", 534)])
def test_a_refused_log_in_is_a_failure_with_the_server_s_words(mail_server, mail_board, trusted, words, status):
    server = mail_server("smtps", login=("user", "w0rd"), AUTH=words)
    entry, attempt = sent_once(mail_board(server.url("user:w0rd@")))
    assert (entry.state, attempt.status, server.taken) == ("pending", status, [])
    assert words[4:] in attempt.error and "MAIL" not in server.words()


@pytest.mark.parametrize("security, step, words", [
    ("smtp",          "GREETING", "221 2.0.0 closing"),
    ("smtp",          "GREETING", "250 hello"),
    ("smtp",          "MAIL",     "200 fine"),
    ("smtp",          "MAIL",     "251 fine"),
    ("smtp",          "RCPT",     "252 cannot say whether there is one"),
    ("smtp",          "RCPT",     "220 fine"),
    ("smtp",          "DATA",     "250 what?"),
    ("smtp",          "MESSAGE",  "354 go on"),
    ("smtp+starttls", "STARTTLS", "250 fine"),
    ("smtps",         "AUTH",     "250 fine"),
])
def test_a_mail_that_the_server_was_not_given_is_never_held_for_delivered(mail_server, mail_board, trusted, security, step, words):
    """A word of consent in the wrong place is none (RFC 5321 part 4.3.2)."""
    server = mail_server(security, login=("user", "w0rd") if step == "AUTH" else None, **{step: words})
    entry, attempt = sent_once(mail_board(server.url("user:w0rd@" if step == "AUTH" else "")))
    assert server.taken == []
    assert entry.state == "pending" and attempt.error


def test_a_server_that_knows_only_helo_takes_mail(mail_server, mail_board):
    server = mail_server(EHLO="500 5.5.1 what?")
    assert sent_once(mail_board(server.url()))[0].state == "delivered" and len(server.taken) == 1


def test_a_recipient_that_is_forwarded_is_taken(mail_server, mail_board):
    server = mail_server()
    usual = server._says
    server._says = lambda step, words: usual(        # type: ignore[method-assign]
        step, "251 user not local; will forward" if step == "RCPT" else words)
    assert sent_once(mail_board(server.url()))[0].state == "delivered" and len(server.taken) == 1


@pytest.mark.parametrize("greeting", ["SSH-2.0-OpenSSH_9.2", "HTTP/1.1 400 Bad Request", "+OK POP3 ready", "* OK IMAP4", ""])
def test_what_does_not_speak_smtp_is_said_in_words(mail_server, mail_board, greeting):
    server = mail_server(GREETING=greeting)
    entry, attempt = sent_once(mail_board(server.url()))
    assert (entry.state, server.taken) == ("pending", [])
    assert attempt.status is None and "-1" not in attempt.error and "SMTP" in attempt.error


def _sends_for_ever(data: bytes) -> Callable[[Any], None]:
    def send(peer: Any) -> None:
        for _ in range(200_000_000 // len(data)):
            peer.sendall(data)
    return send


def _drips_words(peer: Any) -> None:
    drip(peer, b"220-mail.test is slow\r\n" * 100)


def _hangs(peer: Any) -> None:
    time.sleep(1.5)


def _closes(peer: Any) -> None:
    pass


def _resets(peer: Any) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


STEPS = ["GREETING", "EHLO", "MAIL", "RCPT", "DATA", "MESSAGE"]


@pytest.mark.parametrize("step, does, says", [
    *[(step, _closes,                                  "closed") for step in STEPS],
    *[(step, _hangs,                                   TOO_LONG) for step in ("GREETING", "MAIL", "MESSAGE")],
    *[(step, _drips_words,                             TOO_LONG) for step in ("GREETING", "EHLO", "MESSAGE")],
    *[(step, _sends_for_ever(b"220-more\r\n" * 1000),  TOO_MUCH) for step in ("GREETING", "EHLO", "RCPT", "MESSAGE")],
    *[(step, _resets,                                  "reset|closed") for step in ("GREETING", "MAIL", "MESSAGE")],
    ("GREETING", _sends_for_ever(b"220-" + b"x" * 65536), "larger than|500|[Ll]ine"),
])
def test_whatever_a_mail_server_does_the_exchange_ends_in_time_and_within_its_bytes(mail_server, step, does, says):
    server = mail_server(**{step: does})
    fetcher = Hurried(rt.Settings(smtp_url=server.url()))
    fetcher.check_certificates()
    mail, began, worked = rt.Mail("a@example.org", "b@example.org", b"Subject: x\r\n\r\nx\r\n"), time.monotonic(), time.thread_time()
    try:
        answer = fetcher.post(mail, True)
    except rt.Unreachable as error:
        words = str(error)
        assert len(words) > 5 and "Error(" not in words and "\n" not in words
    else:
        assert answer.status >= 400 and len(answer.body) <= 64 * rt.KIB
        words = f"{answer.status}"
    assert re.search(says, words), words
    assert time.monotonic() - began < 1.0
    assert time.thread_time() - worked < 0.2
    assert server.taken == []


def test_a_mail_server_that_reads_nothing_is_given_up_in_time(mail_server):
    server = mail_server()
    usual = server._says

    def says(step: str, words: str) -> bool:
        if usual(step, words) and step == "DATA":
            _hangs(None)
            raise Ended
        return True

    server._says = says       # type: ignore[method-assign]
    began = time.monotonic()
    words = failure_of(lambda: Hurried(rt.Settings(smtp_url=server.url())).post(
        rt.Mail("a@example.org", "b@example.org", b"x" * 70 + b"\r\n" * (20 * rt.MIB)), True))
    assert TOO_LONG in words and time.monotonic() - began < 1.5


@pytest.mark.parametrize("security", ["smtps", "smtp+starttls"])
def test_a_mail_server_that_does_not_end_its_handshake_is_given_up_in_time(mail_server, talk, trusted, security):
    server = mail_server(security)

    def secured(connection: socket.socket) -> Any:
        _hangs(connection)
        raise Ended

    server._secured = secured       # type: ignore[method-assign]
    fetcher, began = Hurried(rt.Settings(smtp_url=server.url())), time.monotonic()
    fetcher.check_certificates()
    failure_of(lambda: fetcher.post(rt.Mail("a@example.org", "b@example.org", b"x\r\n"), True))
    assert time.monotonic() - began < 1.0


@pytest.mark.parametrize("ending", ["500 what?", "421 4.4.2 gone", "junk", _closes, _resets, _hangs, _drips_words,
                                    _sends_for_ever(b"221-bye\r\n" * 1000)])
def test_a_mail_that_was_taken_is_delivered_however_the_server_says_goodbye(mail_server, mail_board, ending):
    server = mail_server(QUIT=ending)
    board, began = mail_board(server.url()), time.monotonic()
    entry, attempt = sent_once(board, post=Hurried(board.service.settings).post)
    assert (entry.state, attempt.status, attempt.error, attempt.answer) == ("delivered", 250, None, "2.0.0 queued as 1")
    assert len(server.taken) == 1 and time.monotonic() - began < 1.5


def test_a_mail_that_was_taken_is_delivered_though_the_program_is_stopped_at_its_goodbye(mail_server, mail_board):
    board = None

    def stops(peer: Any) -> None:
        board.service.fetcher.stopping.set()      # type: ignore[union-attr]
        _hangs(peer)

    server = mail_server(QUIT=stops)
    board = mail_board(server.url())
    assert sent_once(board)[0].state == "delivered" and len(server.taken) == 1


def test_a_mail_server_that_is_not_there_is_said_in_words():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    mail = rt.Mail("a@example.org", "b@example.org", b"x\r\n")
    assert "refused" in failure_of(lambda: rt.Fetcher(rt.Settings(smtp_url=f"smtp://127.0.0.1:{port}")).post(mail, True))
    assert "--smtp-url" in failure_of(lambda: rt.Fetcher(rt.Settings()).post(mail, True))
    words = failure_of(lambda: rt.Fetcher(rt.Settings(smtp_url="smtp://mail.invalid")).post(mail, True))
    assert "mail.invalid" in words


def test_a_mail_says_all_in_text_and_in_html():
    made = a_mail(project_note="ours: Größe <3", is_updated=True,
                  note={"title": "Öne", "message": "<h2>News</h2><ul><li>first &amp; second</li><li>日本語</li></ul>"})
    assert (made.sender, made.recipient) == ("releases@example.org", "me@example.org")
    text, page = parts_of(made.content)
    shown = Page(page).shown
    for said in ("o/p 1.0", "pre-release", "updated", "CVE-2026-1234, CVE-2026-1235", "ours: Größe <3", "Öne", "News",
                 "- first & second", "日本語"):
        assert said in text and said in shown, said
    assert "https://forge.example/note" in text.split() and ("href", "https://forge.example/note") in Page(page).attributes
    assert "2026-03-01" in shown and "<" not in text.replace("<3", "") and "&amp;" not in text


def test_a_mail_has_the_headers_of_an_automatic_message_of_a_list():
    """RFC 5322, 2919, 2369 and 3834."""
    made = a_mail(now=1_772_359_200.0)
    message = read_mail(made.content)
    assert message["Subject"].startswith("o/p 1.0") and "CVE-2026-1234" in message["Subject"]
    sender, = message["From"].addresses
    assert (sender.display_name, sender.addr_spec) == ("releasetrack", "releases@example.org")
    assert [one.addr_spec for one in message["To"].addresses] == ["me@example.org"]
    assert message["Date"].datetime.timestamp() == 1_772_359_200
    assert re.fullmatch(r"<[A-Za-z0-9_.-]+@example\.org>", raw_header(made.content, "Message-ID"))
    assert re.fullmatch(r"(\w+ )?<[a-z0-9-]+(\.[a-z0-9-]+)+>", raw_header(made.content, "List-Id"))
    assert raw_header(made.content, "List-Unsubscribe").split(", ") == [
        "<https://releases.example.org/>", "<mailto:releases@example.org?subject=unsubscribe>"]
    assert raw_header(made.content, "Auto-Submitted") == "auto-generated"
    assert "List-Unsubscribe" in a_mail(base_url="").content.decode()


def test_the_same_mail_has_the_same_id_at_every_attempt_and_another_has_another(mail_server, mail_board):
    server = mail_server(MESSAGE="451 4.3.0 try later")
    board, kept = mail_board(server.url()), []
    project, clock = board.track("github", "o/p"), Clock()
    board.store.clock = clock
    put_release(board, project, [mailbox(board)])
    courier = rt.Courier(board.store, lambda mail, is_trusted: kept.append(mail) or board.service.fetcher.post(mail, is_trusted),
                         board.service.settings, clock, lambda: 0.0)
    courier.send_due()
    server.replies.clear()
    clock.now += 31
    courier.send_due()
    put_release(board, project, [mailbox(board)], version="2.0")
    clock.now += 31
    courier.send_due()
    ids = [raw_header(mail.content, "Message-ID") for mail in kept]
    assert len(ids) == 3 and ids[0] == ids[1] != ids[2]
    assert [raw_header(one.content, "Message-ID") for one in server.taken] == ids[1:]


def test_a_source_that_fails_and_recovers_is_told_by_mail():
    body = {"provider": "github", "project": "o/p", "time": "2026-03-01T10:00:00Z", "error": "it refused the connection",
            "account": EVENT["account"], "tags": [], "project_note": ""}
    destination, subjects = rt.Destination("d", "a", "email", "mine", {"to": ""}, ""), []
    for kind in ("failing", "recovered"):
        text, page = parts_of((made := request_of(a_delivery(destination, body, kind=kind))).content)
        subjects.append(read_mail(made.content)["Subject"])
        assert "o/p" in subjects[-1]
        assert "it refused the connection" in text and "it refused the connection" in Page(page).shown
    assert subjects[0] != subjects[1]


def test_a_digest_is_one_mail_in_order_with_counts(mail_server, mail_board):
    server = mail_server()
    board = mail_board(server.url(), base_url="https://releases.example.org")
    calm, risky = board.track("github", "o/calm"), board.track("npm", "risky")
    for project, version, hour, cve in ((calm, "1.0", 8, ()), (risky, "5.0", 7, ("CVE-2026-7",)), (calm, "1.1", 10, ()),
                                        (risky, "5.1", 9, ())):
        put_release(board, project, [mailbox(board)], True, version=version, time=f"2026-03-01T{hour:02}:00:00Z", cve=list(cve),
                    note={"title": "", "message": f"<p>notes of {version} {'wörd ' * 4000}</p>"})
    assert len(courier_of(board).send_due()) == 4
    assert {entry.state for entry in board.store.journal(board.account.id)} == {"delivered"}
    taken, = server.taken
    text, page = parts_of(taken.content)
    for shown in (text, Page(page).shown):
        places = [shown.index(words) for words in ("risky 5.1\n", "risky 5.0", "o/calm 1.1\n", "o/calm 1.0\n")]
        assert places == sorted(places)
        assert 4 * 1000 < shown.count("wörd") * 5 < 4 * 2000      # notes are cut, and say so
        assert shown.count("…") == 4
    subject = read_mail(taken.content)["Subject"]
    for shown in (subject, Page(page).shown):
        assert "4 releases" in shown and "1 with security fixes" in shown


def test_a_long_note_is_cut_and_says_so():
    made = a_mail(note={"title": "", "message": "<p>" + "word " * 50_000 + "</p>"})
    text, page = parts_of(made.content)
    for shown in (text, Page(page).shown):
        assert 15_000 < shown.count("word") * 5 <= 20_000 and "word…" in shown
    assert "https://forge.example/note" in text


def test_a_digest_of_a_busy_week_fits_what_mail_servers_take():
    """10,240,000 bytes, which Postfix takes unless told otherwise: https://www.postfix.org/postconf.5.html"""
    destination = rt.Destination("d", "a", "email", "mine", {"to": ""}, "")
    note = {"title": "", "message": "<p>" + "発行" * 1000 + "</p>"}
    parcel = [a_delivery(destination, {**EVENT, "project": f"o/p{n % 500}", "version": f"1.{n}", "note": note}, id=f"msg_{n}",
                         digest_id="digest") for n in range(700)]
    assert len(request_of(*parcel).content) < 10_240_000


HOSTILE_MAIL = {
    "CR LF":               "a\r\nBcc: x@y.z",
    "LF":                  "a\nBcc: x@y.z",
    "CR":                  "a\rBcc: x@y.z",
    "a line end last":     "a\r\n",
    "an end of headers":   "a\r\n\r\n<h1>b</h1>",
    "a folded line":       "a\r\n Bcc: x@y.z",
    "an encoded word":     "=?utf-8?q?a=0D=0ABcc:_x=40y.z?=",
    "one in base 64":      "=?utf-8?b?YQ0KQmNjOiB4QHkueg==?=",
    "one in another":      "=?=?utf-8?q?utf-8?q?a=0D=0ABcc:_x=40y.z?=",
    "one with a line end": "=\n?utf-8?q?a=0D=0ABcc:_x=40y.z?=",
    "one with a NUL":      "=\0?utf-8?q?a=0D=0ABcc:_x=40y.z?=",
    "one after a letter":  "ü=?utf-8?q?a=0D=0ABcc:_x=40y.z?= é",
    "NUL":                 "a\0b",
    "controls":            "a\x01\x07\x08\x0b\x0c\x1b[31m\x1c\x1d\x1e\x7fb",
    "U+2028":              "a\u2028Bcc: x@y.z\u2029b",
    "U+0085":              "a\x85Bcc: x@y.z",
    "half a surrogate":    "a\ud800b",
    "an escaped byte":     "a\udc80b",
    "5,000 letters":       "x" * 5000,
    "5,000 pictures":      "🎉" * 5000,
    "right to left":       "a\u202egpj.exe\u200f\u2066b",
    "addresses":           'a, b <x@y.z>, "c" (d); e:',
    "tags":                "<script>alert(1)</script><img src=x onerror=alert(1)><a href='javascript:alert(1)'>x</a>",
    "an attribute's end":  '"><svg onload=alert(1)> \'><b>',
    "a template's line":   "a\n% import os\n{{!title}}<% 1 %>",
    "ends of MIME parts":  "\n--===============0000000000000000000==--\n",
}
PLACES = {
    "project": lambda text: {"project": text},
    "version": lambda text: {"version": text},
    "title": lambda text: {"note": {"title": text, "message": "<p>m</p>"}},
    "note": lambda text: {"note": {"title": "t", "message": text}},
    "escaped note": lambda text: {"note": {"title": "t", "message": rt.preformatted(text)}},
    "project note": lambda text: {"project_note": text},
    "tag": lambda text: {"tags": [{"id": "t", "name": text}]},
    "account": lambda text: {"account": {"type": "user", "id": "a", "name": text}},
    "cve": lambda text: {"cve": [text]},
    "time": lambda text: {"time": text},
}


@pytest.mark.parametrize("case", HOSTILE_MAIL)
def test_nothing_that_a_stranger_writes_becomes_a_header_or_a_tag(case):
    for place in PLACES:
        made = a_mail(**PLACES[place](HOSTILE_MAIL[case]))
        message = read_mail(made.content)
        subject = str(message["Subject"])
        assert 0 < len(subject) <= 200 and not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", subject)
        assert (made.recipient, message["To"]) == ("me@example.org", "me@example.org") and message["Bcc"] is None
        _, source = parts_of(made.content)
        page = Page(source)
        assert set(page.tags) <= {"html", "head", "meta", "title", "body", "div", "h2", "a", "p"}
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert {value for name, value in page.attributes if name in ("href", "src")} == {"https://forge.example/note"}


@pytest.mark.parametrize("url, is_linked", [
    ("https://forge.example/a?b=c&d=%20#e", True), ("http://forge.example/", True), ("HTTPS://forge.example/", True),
    ("https://forge.example/\"><script>x</script>", None), ("https://forge.example/' onclick='x", None),
    ("javascript:alert(1)", False), ("JavaScript:alert(1)//https://x", False), (" javascript:alert(1)", False),
    ("data:text/html,x", False), ("//forge.example", False), ("mailto:x@y.z", False), ("", False),
    ("\njavascript:https://x", False)])
def test_only_web_addresses_are_links_in_a_mail(url, is_linked):
    text, source = parts_of(a_mail(url=url).content)
    page = Page(source)
    links = [value for name, value in page.attributes if name == "href"]
    assert links == ([url] if is_linked else []) or is_linked is None and all(link == url for link in links)
    assert "script" not in page.tags and not [name for name, _ in page.attributes if name.startswith("on")]
    assert is_linked is not False or not url or url.strip() not in text


def test_a_note_with_a_nul_of_a_provider_is_mailed(mail_server, mail_board, forge):
    """RFC 5322 knows no NUL, and mail servers (Cyrus) refuse a message that has one for good."""
    server = mail_server()
    board = mail_board(server.url(), provider=(forge.flag,))
    settings = board.service.settings
    project, source = board.store.add_project(board.account.id, "forge", "o/r", "o/r", {"email_notification": "instant"})
    tracker = rt.Tracker(board.store, board.service.fetcher, board.service.providers, settings, board.service.patterns)
    forge.publish("o/r", "1.0")
    tracker.check_now(source.id)
    forge.publish("o/r", "1.1", body="a\0b\x1b[0m\ud800 ü")
    forge.releases["o/r"][0]["name"] = "t\0\ud800"
    assert [release.version for release in tracker.check_now(source.id)[1]] == ["1.1"]
    assert [outcome.error for _, outcome in courier_of(board).send_due()] == [None]
    read_mail(server.taken[0].content)


@pytest.mark.parametrize("url", [
    "smtp://mail.lan", "smtp://mail.lan/", "smtp://127.0.0.1:2525", "smtp://[::1]:2525", "SMTP://MAIL.LAN", "",
    "smtps://u:p@mail.example.org", "smtp+starttls://me%40example.org:p%3Aa%2Fs%40s@mail.example.org:587",
    "smtps://u:@mail.lan", "smtps://u:p+w@mail.lan:465", "smtps://u:p%C3%A4ss@mail.lan"])
def test_the_address_of_a_mail_server_is_taken(url):
    assert rt.Settings(smtp_url=url).smtp_url == url


@pytest.mark.parametrize("url", [
    "mail.lan", "mail.lan:25", "smtp:mail.lan", "smtp://", "smtp://:25", "http://mail.lan", "smtp+tls://mail.lan",
    "smtp://mail.lan:0", "smtp://mail.lan:65536", "smtp://mail.lan:x", "smtp://mail.lan/inbox", "smtp://mail.lan?tls=1",
    "smtp://mail.lan#x", "smtp://mail .lan", "smtp://mail.lan\n", "smtp://[::1", "smtp://mäil.lan",
    "smtp://me@mail.lan",
    "smtp://user:t0psecret@", "smtps://user:t0psecret@mail.lan:0", "smtps://user:t0psecret@mail.lan/x",
    "smtps://user:t0psecret@mail.lan extra", "ftp://user:t0psecret@mail.lan", "user:t0psecret@mail.lan",
    "smtp:user:t0psecret@mail.lan", "smtp:/user:t0psecret@mail.lan", "smtps://user:sl/t0psecret@mail.lan",
    "smtps://user:at@t0psecret@mail.lan/x", "smtps://user:t0psecret/x@mail.lan", "smtps://user:ha#t0psecret@mail.lan",
    "smtps://user:qu?t0psecret@mail.lan", "smtps://user:ü/t0psecret@mail.lan", "smtps://user:t0psecretü@mail.lan",
    "smtps://user:t0psecret mail.lan"])
def test_what_is_no_mail_server_is_refused_in_words_that_hold_no_password(url):
    with pytest.raises(rt.SettingError) as refused:
        rt.Settings(smtp_url=url)
    words = str(refused.value)
    assert "smtp_url" in words and "smtp+starttls://" in words and "\n" not in words
    assert "t0psecret" not in words


@pytest.mark.parametrize("address, is_taken", [
    ("releases@example.org", True), ("a.b+c@sub.example.org", True), ("o'neil@example.org", True), ("root@localhost", True),
    ("", True), ("releases", False), ("Releases <releases@example.org>", False), ("a@b@c.example", False),
    ("a b@example.org", False), ("a@example.org\n", False), ("a@example.org,b@example.org", False), ("ä@example.org", False),
    ("a@exämple.org", False), ("<a@example.org>", False), ("a@", False), ("@example.org", False),
    (f"{'a' * 65}@example.org", False), ("=?utf-8?q?x?=@example.org", None), ("a..b@example.org", False), (".a@example.org", False), ("a.@example.org", False),
    ("a@example..org", False), ("a@-example.org", False), ("a@.example.org", False)])
def test_a_sender_and_a_recipient_are_plain_mail_addresses(address, is_taken):
    """RFC 5321 part 4.1.2: a Dot-string has no empty part; what is taken can be mailed."""
    if is_taken is None:        # it may be either
        with contextlib.suppress(rt.Invalid):
            is_taken = bool(rt.read_settings("email", [("to", address)]))
    if is_taken:
        assert rt.Settings(mail_from=address).mail_from == address
        about = rt.read_settings("email", [("to", address)])
        made = a_mail(about, sender=address or "x@example.org")
        assert made.recipient == (address or "me@example.org")
    else:
        with pytest.raises(rt.SettingError, match="mail_from.*takes a mail address"):
            rt.Settings(mail_from=address)
        with pytest.raises(rt.Invalid, match="Setting to.*it takes a mail address"):
            rt.read_settings("email", [("to", address)])


@pytest.mark.parametrize("settings, address, domain", [
    ({"mail_from": "r@example.org", "smtp_url": "smtps://me%40else.example:p@mail.lan"}, "r@example.org", "example.org"),
    ({"smtp_url": "smtps://me%40else.example:p@mail.lan", "base_url": "https://r.example.org"}, "me@else.example", "else.example"),
    ({"smtp_url": "smtps://relay:p@mail.lan", "base_url": "https://r.example.org:8443/x"}, "releasetrack@r.example.org", "r.example.org"),
    ({"smtp_url": "smtp://mail.lan", "base_url": "https://r.example.org"}, "releasetrack@r.example.org", "r.example.org"),
    ({"smtp_url": "smtps://a%0Ab%40x.example:p@mail.lan", "base_url": "https://r.example.org"}, "releasetrack@r.example.org", "r.example.org"),
    ({"smtp_url": "smtps://a..b%40x.example:p@mail.lan", "base_url": "https://r.example.org"}, "releasetrack@r.example.org", "r.example.org"),
])
def test_who_mail_is_from(settings, address, domain):
    sender = rt.sender_of(rt.Settings(**settings))
    assert (sender.address, sender.domain) == (address, domain)


def test_mail_is_from_this_machine_where_nothing_is_said():
    sender = rt.sender_of(rt.Settings(smtp_url="smtp://mail.lan"))
    assert sender.address in (f"releasetrack@{socket.gethostname()}", "releasetrack@localhost")
    read_mail(a_mail(sender=sender.address).content)


@pytest.mark.parametrize("has_server", [True, False])
def test_mail_is_queued_only_where_there_is_a_mail_server(mail_server, mail_board, forge, has_server):
    board = mail_board(mail_server().url() if has_server else "", provider=(forge.flag,))
    project, source = board.store.add_project(board.account.id, "forge", "o/r", "o/r", {"email_notification": "instant"})
    tracker = rt.Tracker(board.store, board.service.fetcher, board.service.providers, board.service.settings, board.service.patterns)
    forge.publish("o/r", "1.0")
    tracker.check_now(source.id)
    forge.publish("o/r", "1.1")
    tracker.check_now(source.id)
    assert [(entry.kind, entry.version) for entry in board.store.journal(board.account.id)] == [("email", "1.1")] * has_server


LONGEST = f"{'a' * 64}@{'b' * 63}.{'c' * 63}.{'d' * 40}.example"


@pytest.mark.parametrize("address", [
    "a@b.example", "o'neil+x=y@example.org", "!#$%&'*+-/?=^_`{|}~@example.org", "0@1.example", "root@localhost", "a.b.c.d@example.org",
    "a@xn--exmple-cua.example", f"{'a' * 64}@example.org", LONGEST])
def test_an_address_stands_in_envelope_and_headers_as_it_is(mail_server, mail_board, address):
    server = mail_server()
    board = mail_board(server.url(), mail_from=address)
    put_release(board, board.track("github", "o/p"), [mailbox(board, address, "strange")])
    assert [outcome.error for _, outcome in courier_of(board).send_due()] == [None]
    taken, = server.taken
    assert (taken.sender, taken.recipient) == (address, address)
    assert re.sub(r"\s", "", raw_header(taken.content, "To")).strip("<>") == address
    assert raw_header(taken.content, "From").endswith(f"<{address}>")
    assert raw_header(taken.content, "Message-ID").endswith(f"@{address.partition('@')[2]}>")
    assert raw_header(taken.content, "List-Id").endswith(f".{address.partition('@')[2]}>")


@pytest.mark.parametrize("sender, base_url", [
    (LONGEST, ""), (f"{'a' * 60}@example.org", "https://releases.example.org"), ("r@example.org", "https://" + "r" * 55 + ".example"),
    ("r@example.org", "https://releases.exämple.org"), ("a?b&c%d#e/f@example.org", "https://releases.example.org")])
def test_what_leads_out_of_the_list_is_an_address_that_programs_can_read(sender, base_url):
    """RFC 2369: URLs between angle brackets, which are not encoded words; RFC 6068 for what mailto may hold."""
    value = raw_header(a_mail(sender=sender, base_url=base_url).content, "List-Unsubscribe")
    urls = re.findall(r"<([!-;=?-~]+)>", value)
    assert "=?" not in value and re.fullmatch(r"(<[!-;=?-~]+>)(,\s*<[!-;=?-~]+>)*", value), value
    to = urllib.parse.urlsplit(urls[-1])
    assert (to.scheme, urllib.parse.unquote(to.path), to.query, to.fragment) == ("mailto", sender, "subject=unsubscribe", "")


@pytest.mark.parametrize("address", ["mé@example.org", "me@exämple.org", 'a"b@x.example', "a,b@x.example", "a<b>@x.example", "a@x@y",
                                     "a..b@x.example", "a@x..y"])
def test_an_account_whose_address_no_mail_can_go_to_is_told_so_in_words(mail_server, mail_board, address, caplog):
    """Accounts may be called what is no plain mail address; then the destination says what is wrong, not a log."""
    server = mail_server()
    board = mail_board(server.url())
    board.account = board.store.add_account("user", address, "Them", HASHED, True)
    entry, attempt = sent_once(board)
    if entry.state == "delivered":
        assert server.taken[0].recipient == address and "=?" not in raw_header(server.taken[0].content, "To")
        return
    assert "internal error" not in attempt.error and "codec" not in attempt.error and address in attempt.error
    assert "Traceback" not in caplog.text and not [one for one in caplog.records if one.levelname == "ERROR"]


def test_the_password_of_the_mail_server_is_nowhere_to_be_read_and_the_server_s_other_words_are(mail_server, mail_board, trusted, caplog):
    user, password = "relay-user-77", "hunter2/secret word"
    encoded = base64.b64encode(f"\0{user}\0{password}".encode()).decode()
    forms = [password, urllib.parse.quote(password, safe=""), encoded, base64.b64encode(password.encode()).decode()]
    caplog.set_level("DEBUG")
    echo = " ".join([*forms, user])
    for step, words in (("AUTH", f"535 5.7.8 not {echo}"), ("MAIL", f"550 5.7.1 sender not allowed for {echo}"),
                        ("MESSAGE", f"554 5.7.1 no {echo}")):
        server = mail_server("smtps", login=(user, password), **{step: words})
        board = mail_board(server.url(f"{user}:{urllib.parse.quote(password, safe='')}@"))
        put_release(board, board.track("github", f"o/{step}"), [mailbox(board)])
        courier_of(board).send_due()
        assert "AUTH" in server.words()
        shown = [json.dumps([entry.as_json(), [one.as_json() for one in board.store.attempts(entry.id)]])
                 for entry in board.store.journal(board.account.id)]
        tried = board.service.courier.try_out(mailbox(board), board.account, EVENT, "")
        for form in forms:
            assert form not in caplog.text and form not in "".join(shown), (step, form)
            assert form not in str(tried[2]) and form not in tried[1].text(), (step, form)
        assert user in tried[1].text()


def test_a_test_mail_shows_what_was_sent_and_what_was_answered(mail_server, tmp_path, db):
    server = mail_server()
    first_key(db)
    env = {"RELEASETRACK_SMTP_URL": server.url(), "RELEASETRACK_MAIL_FROM": "releases@example.org"}
    tested = done("destination", "test", "me@example.org", "email", "account", "--db", db, env=env)
    for words in ("from releases@example.org to me@example.org", "Subject: octocat/hello-world 1.2.3", "250", "2.0.0 queued as 1"):
        assert words in tested
    taken, = server.taken
    assert taken.recipient == "me@example.org" and "octocat/hello-world 1.2.3" in parts_of(taken.content)[0]
    server.replies["RCPT"] = "550 5.1.1 no such user"
    refused = run("destination", "test", "me@example.org", "email", "--set", "to=nobody@example.org", "--db", db, env=env)
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1
    assert "550" in refused.stderr and "5.1.1 no such user" in refused.stderr
    assert done("deliveries", "list", "me@example.org", "--db", db) == ""
    without = run("destination", "test", "me@example.org", "email", "account", "--db", db)
    assert without.returncode == 1 and "--smtp-url" in without.stderr


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
        rt.Event(project.id, body, "", tuple(rt.Recipient(one.id, board.store.clock()) for one in destinations))])


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
    board.store.clock, began = clock, clock.now
    put_event(board, board.track("github", "o/p"), "1.0", board.webhook(receiver.url))
    courier, times = courier_of(board, clock), []
    while left:
        if courier.send_due():
            times.append(clock.now - began)
        else:
            clock.now += board.store.seconds_until_due(clock.now, rt.DAY)
    assert times == attempted_at
    assert len({seen.body for seen in receiver.seen}) == len({seen.headers["webhook-id"] for seen in receiver.seen}) == 1
    entry, = board.store.journal(board.account.id)
    assert (entry.state, entry.attempts, target.seen) == ("delivered", len(statuses), [])
    assert [attempt.status for attempt in board.store.attempts(entry.id)] == statuses


def test_a_receiver_that_is_down_for_days_is_tried_by_the_schedule_and_then_the_delivery_has_failed(board):
    clock, times = Clock(), []

    def post(request: rt.Request, is_trusted: bool) -> rt.Answer:
        times.append(clock.now)
        raise rt.Unreachable("it refused the connection")

    board.store.clock, began = clock, clock.now
    put_event(board, board.track("github", "o/p"), "1.0", board.webhook("http://127.0.0.1:9/"))
    courier = rt.Courier(board.store, post, board.service.settings, clock, lambda: 0.0)
    while clock.now < began + 80 * rt.HOUR:
        if not courier.send_due():
            clock.now += board.store.seconds_until_due(clock.now, rt.HOUR)
    waits = [later - sooner for sooner, later in zip(times, times[1:])]
    assert waits == [30.0 * 2 ** n for n in range(10)] + [6 * rt.HOUR] * (len(waits) - 10)
    assert 66 * rt.HOUR < times[-1] - began <= 72 * rt.HOUR
    entry, = board.store.journal(board.account.id)
    assert (entry.state, entry.attempts) == ("failed", len(times))
    assert {attempt.error for attempt in board.store.attempts(entry.id)} == {"it refused the connection"}


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
    assert courier.send_due() == []
    put_event(board, project, "2.0", hook)
    assert len(courier.send_due()) == 2
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
    assert {entry.state for entry in board.store.journal(board.account.id)} == {"delivered"}


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
    assert len(courier.send_due()) == 1
    entry, = board.store.journal(board.account.id)
    assert (entry.state, entry.attempts) == ("pending", 1) and board.store.attempts(entry.id)[0].error == "internal error, see the log"
    assert "ZeroDivisionError" in caplog.text


def test_a_claim_that_nobody_renews_is_taken_up_when_its_lease_is_over(board, listen):
    clock, receiver = Clock(), listen(204)
    hook = board.webhook(receiver.url)
    courier = courier_of(board, clock)
    put_event(board, board.track("github", "o/p"), "1.0", hook)
    assert board.store.claim_deliveries({hook.id: 9}, "dead", clock.now)
    assert courier.send_due() == []
    clock.now += rt.LEASE + 0.1
    assert len(courier.send_due()) == 1


def moment(text: str) -> float:
    """An instant, from RFC 3339 with the offset that the clocks there show."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


BOUNDARIES = [
    # schedule, zone,                 now,                            told
    ("instant", "Europe/Berlin",       "2026-03-29T02:00:00+01:00",   "2026-03-29T02:00:00+01:00"),
    ("hourly",  "UTC",                 "2026-06-10T10:20:00Z",        "2026-06-10T11:00:00Z"),
    ("hourly",  "UTC",                 "2026-06-10T10:59:59.500Z",    "2026-06-10T11:00:00Z"),
    ("hourly",  "UTC",                 "2026-06-10T10:00:00Z",        "2026-06-10T11:00:00Z"),
    ("hourly",  "Asia/Kolkata",        "2026-06-10T10:20:00+05:30",   "2026-06-10T11:00:00+05:30"),
    ("hourly",  "Asia/Kathmandu",      "2026-06-10T10:20:00+05:45",   "2026-06-10T11:00:00+05:45"),
    ("hourly",  "Australia/Lord_Howe", "2026-06-10T10:20:00+10:30",   "2026-06-10T11:00:00+10:30"),
    ("hourly",  "Australia/Lord_Howe", "2026-12-10T10:20:00+11:00",   "2026-12-10T11:00:00+11:00"),
    ("hourly",  "Europe/Berlin",       "2026-03-29T01:30:00+01:00",   "2026-03-29T03:00:00+02:00"),
    ("hourly",  "Europe/Berlin",       "2026-10-25T02:30:00+02:00",   "2026-10-25T02:00:00+01:00"),
    ("hourly",  "Europe/Berlin",       "2026-10-25T02:30:00+01:00",   "2026-10-25T03:00:00+01:00"),
    ("daily",   "UTC",                 "2026-06-10T07:59:59Z",        "2026-06-10T08:00:00Z"),
    ("daily",   "UTC",                 "2026-06-10T08:00:00Z",        "2026-06-11T08:00:00Z"),
    ("daily",   "Asia/Kolkata",        "2026-06-10T23:00:00+05:30",   "2026-06-11T08:00:00+05:30"),
    ("daily",   "Pacific/Kiritimati",  "2026-06-10T00:10:00+14:00",   "2026-06-10T08:00:00+14:00"),
    ("daily",   "Pacific/Pago_Pago",   "2026-06-10T23:50:00-11:00",   "2026-06-11T08:00:00-11:00"),
    ("daily",   "Europe/Berlin",       "2026-03-28T09:00:00+01:00",   "2026-03-29T08:00:00+02:00"),
    ("daily",   "Europe/Berlin",       "2026-03-29T00:30:00+01:00",   "2026-03-29T08:00:00+02:00"),
    ("daily",   "Europe/Berlin",       "2026-10-24T09:00:00+02:00",   "2026-10-25T08:00:00+01:00"),
    ("daily",   "Europe/Berlin",       "2026-10-25T02:30:00+02:00",   "2026-10-25T08:00:00+01:00"),
    ("daily",   "America/New_York",    "2026-03-07T20:00:00-05:00",   "2026-03-08T08:00:00-04:00"),
    ("daily",   "America/New_York",    "2026-11-01T01:30:00-04:00",   "2026-11-01T08:00:00-05:00"),
    ("daily",   "Pacific/Apia",        "2011-12-29T07:00:00-10:00",   "2011-12-29T08:00:00-10:00"),
    ("daily",   "Pacific/Apia",        "2011-12-29T09:00:00-10:00",   "2011-12-31T08:00:00+14:00"),
    ("weekly",  "Pacific/Apia",        "2011-12-29T09:00:00-10:00",   "2012-01-02T08:00:00+14:00"),
    ("weekly",  "UTC",                 "2026-06-10T12:00:00Z",        "2026-06-15T08:00:00Z"),
    ("weekly",  "UTC",                 "2026-06-15T07:59:59Z",        "2026-06-15T08:00:00Z"),
    ("weekly",  "UTC",                 "2026-06-15T08:00:00Z",        "2026-06-22T08:00:00Z"),
    ("weekly",  "Europe/Berlin",       "2026-03-29T00:30:00+01:00",   "2026-03-30T08:00:00+02:00"),
    ("weekly",  "Europe/Berlin",       "2026-03-23T08:00:00+01:00",   "2026-03-30T08:00:00+02:00"),
    ("weekly",  "Europe/Berlin",       "2026-10-19T08:00:00+02:00",   "2026-10-26T08:00:00+01:00"),
    ("weekly",  "America/New_York",    "2026-03-08T12:00:00-04:00",   "2026-03-09T08:00:00-04:00"),
    ("weekly",  "America/New_York",    "2026-10-31T12:00:00-04:00",   "2026-11-02T08:00:00-05:00"),
    ("daily",   "Mars/Olympus_Mons",   "2026-06-10T09:00:00Z",        "2026-06-11T08:00:00Z"),
    ("weekly",  "",                    "2026-06-10T09:00:00Z",        "2026-06-15T08:00:00Z"),
    ("hourly",  "../../etc/passwd",    "2026-06-10T09:30:00Z",        "2026-06-10T10:00:00Z"),
    ("daily",   "Europe",              "2026-06-10T09:00:00Z",        "2026-06-11T08:00:00Z"),
]


@pytest.mark.parametrize("schedule, zone, now, told", BOUNDARIES)
def test_a_schedule_tells_at_its_next_boundary_by_the_clocks_of_the_zone(schedule, zone, now, told):
    assert rt.next_boundary(schedule, moment(now), zone) == moment(told)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe",
                                  "Africa/Casablanca", "America/Santiago", "Pacific/Apia", "Antarctica/Troll", "no/such"])
def test_a_boundary_is_never_past_nor_more_than_a_week_and_an_hour_off_and_at_8_there(zone):
    random_, most = random.Random(zone), {"hourly": 1.5 * rt.HOUR, "daily": 25 * rt.HOUR + rt.HOUR, "weekly": 7 * rt.DAY + rt.HOUR}
    there = datetime.timezone.utc if zone == "no/such" else rt.zone_of(zone)
    if zone == "Antarctica/Troll":
        most = {name: limit + 2 * rt.HOUR for name, limit in most.items()}     # its clocks change by two hours
    for _ in range(400):
        now = random_.uniform(moment("2012-01-05T00:00:00Z"), moment("2036-01-01T00:00:00Z"))
        for schedule, limit in most.items():
            told = rt.next_boundary(schedule, now, zone)
            assert 0 < told - now <= limit, (schedule, now)
            local = datetime.datetime.fromtimestamp(told, there)
            assert (local.minute in (0, 30), local.second, local.microsecond) == (True, 0, 0)
            if schedule != "hourly":
                assert (local.hour, local.minute) == (8, 0), (schedule, now, local)
                assert schedule == "daily" or local.weekday() == 0
                assert rt.next_boundary(schedule, told - 0.001, zone) == told


@pytest.mark.parametrize("name", ["Mars/Olympus_Mons", "", "../../etc/passwd", "/etc/localtime", "Europe", "a\0b", "x" * 5000, "."])
def test_a_name_that_is_no_time_zone_is_refused_in_words(name):
    with pytest.raises(ValueError, match="such as Europe/Berlin or UTC"):
        rt.zone_of(name)


class Office:
    """Projects at a forge that are checked when a test says so, and a courier, all on a clock that a test moves."""

    def __init__(self, board: Board, forge: Forge, at: str = "2026-06-10T09:00:00+02:00", *names: str,
                 zone: str = "Europe/Berlin", has_mail: bool = False, flag: str = "") -> None:
        self.board, self.forge, self.store, self.clock = board, forge, board.store, Clock(moment(at))
        self.store.clock = self.clock
        self.store.update_account(dataclasses.replace(board.account, time_zone=zone))
        self.mails: list[tuple[float, rt.Mail]] = []
        self.mail_fault: str | None = None
        settings = rt.Settings(provider=(flag or forge.flag,), smtp_url="smtp://127.0.0.1:9" if has_mail else "")
        self.providers = rt.providers_with(settings.provider)
        self.tracker = rt.Tracker(self.store, rt.Fetcher(settings, self.clock), self.providers, settings, board.service.patterns,
                                  clock=self.clock, spread=lambda: 0.0)
        self.courier = rt.Courier(self.store, self._post, settings, self.clock, lambda: 0.0)
        self.projects: dict[str, rt.Project] = {}
        for name in names or ("o/a",):
            self.track(name)

    def _post(self, request: rt.Request | rt.Mail, is_trusted: bool) -> rt.Answer:
        if isinstance(request, rt.Mail):
            self.mails.append((self.clock.now, request))
            if self.mail_fault:
                raise rt.Unreachable(self.mail_fault)
            return rt.Answer("smtp://127.0.0.1:9", 250, {})
        return self.board.service.fetcher.post(request, is_trusted)

    def track(self, name: str, **settings: Any) -> rt.Project:
        provider, = [one for one in self.providers if one in ("forge", "hub")]
        if provider == "forge" and name not in self.forge.releases:
            self.forge.publish(name, "0.1")
        project, _ = self.store.add_project(
            self.board.account.id, provider, *reversed(rt.name_at(self.providers[provider], name)), settings)
        self.projects[name] = project
        self.check(name)
        return project

    def set(self, name: str, **settings: Any) -> Any:
        """Settings of a project, through the API."""
        return self.board.ask("POST", f"/v1/projects/{self.projects[name].id}", settings)

    def check(self, *names: str) -> list[str]:
        """The versions that are news."""
        news: list[str] = []
        for name in names or self.projects:
            found = self.tracker.check_now(self.projects[name].source_id)
            assert found is not None
            news += [release.version for release in found[1]]
        return news

    def release(self, name: str, version: str, notes: str = "", at: str = "", **about: Any) -> None:
        """Publish a version, and find it."""
        self.forge.publish(name, version, published_at=at or rt.timestamp(self.clock.now), body=notes or f"Notes of {version}",
                           **about)
        assert self.check(name) == [version]

    def at(self, text: str) -> list[tuple[rt.Delivery, rt.Outcome]]:
        """Move the clock to an instant, and send what is due then."""
        assert moment(text) >= self.clock.now, "the clock goes forward here"
        self.clock.now = moment(text)
        return self.courier.send_due()

    def states(self, destination: rt.Destination | None = None) -> dict[str, str]:
        """version -> state, of all deliveries or a destination's."""
        return {entry.version: entry.state for entry in self.store.journal(
            self.board.account.id, destination_id=destination and destination.id, limit=10_000)}

    def room(self, listener: Listener, name: str = "room", **about: Any) -> rt.Destination:
        """A Matrix room, whose transaction ids stand in the path."""
        return a_room(self.store, self.board.account.id, listener.url, name, **about)


def a_room(store: rt.Store, account_id: str, url: str, name: str = "room", **about: Any) -> rt.Destination:
    settings = rt.read_settings("matrix", [("homeserver_url", url), ("internal_room_id", f"!{name}:example.org"),
                                           ("token", "syt_a_secret_token")])
    return store.add_destination(account_id, "matrix", name, settings, **about)


def an_ntfy_topic(board: Board, url: str, name: str = "topic", **about: Any) -> rt.Destination:
    return board.store.add_destination(
        board.account.id, "ntfy", name, rt.read_settings("ntfy", [("topic", "releases"), ("server", url)]), **about)


def homeserver(seen: Seen) -> Any:
    return 200, {"event_id": "$1"}


def pushed(seen: Seen) -> Any:
    return 200, {"id": "x"}


def told_of(seen: Seen) -> list[str]:
    """What a Matrix message or one of ntfy tells of, in its order: ``o/a 1.0``."""
    body = seen.json()
    text = body["body"] if "body" in body else f"{body['title']}\n{body['message']}"
    return list(dict.fromkeys(re.findall(r"^(?:\* )?(o/[a-z0-9]+ [0-9.]+)(?= \(|$)", text, re.MULTILINE)))


def id_of(seen: Seen) -> str:
    return seen.path.rpartition("/")[2]


def test_a_digest_tells_all_of_its_period_once_newest_first_by_project_and_security_on_top(board, forge, listen):
    receiver = listen(homeserver)
    desk = Office(board, forge, "2026-06-10T09:00:00+02:00", "o/a", "o/b", "o/c")
    desk.room(receiver, schedule="daily")
    for at, name, version, notes in [("10:00", "o/a", "2.0", ""), ("12:00", "o/b", "2.0", ""), ("13:00", "o/c", "2.0", ""),
                                     ("15:00", "o/c", "2.1", "Fixes CVE-2026-1234"), ("18:00", "o/a", "2.1", "")]:
        assert desk.at(f"2026-06-10T{at}:00+02:00") == []
        desk.release(name, version, notes)
    assert desk.at("2026-06-11T07:59:59+02:00") == [] and receiver.seen == []
    assert len(desk.at("2026-06-11T08:00:00+02:00")) == 5
    seen, = receiver.seen
    assert told_of(seen) == ["o/c 2.1", "o/c 2.0", "o/a 2.1", "o/a 2.0", "o/b 2.0"]
    assert "5 releases, 1 with security fixes" in seen.json()["body"]
    assert desk.at("2026-06-12T08:00:00+02:00") == [] and len(receiver.seen) == 1      # an empty period is silent
    desk.release("o/b", "2.2")
    assert desk.at("2026-06-12T20:00:00+02:00") == []
    assert len(desk.at("2026-06-13T08:00:00+02:00")) == 1
    assert told_of(receiver.seen[1]) == ["o/b 2.2"] and id_of(receiver.seen[1]) != id_of(seen)


@pytest.mark.parametrize("schedule, zone, came, told_at", [
    ("hourly", "Asia/Kolkata",     ["10:10:00+05:30", "10:40:00+05:30", "10:59:45+05:30"], "2026-06-10T11:00:00+05:30"),
    ("daily",  "America/New_York", ["07:00:00-04:00", "07:59:45-04:00"],                   "2026-06-10T08:00:00-04:00"),
    ("weekly", "Europe/Berlin",    ["09:00:00+02:00", "23:00:00+02:00"],                   "2026-06-15T08:00:00+02:00"),
])
def test_what_comes_in_a_period_is_told_at_its_end(board, forge, listen, schedule, zone, came, told_at):
    receiver = listen(pushed)
    desk = Office(board, forge, "2026-06-09T00:00:00Z", zone=zone)
    an_ntfy_topic(board, receiver.url, schedule=schedule)
    for n, at in enumerate(came):
        assert desk.at(f"2026-06-10T{at}") == []
        desk.release("o/a", f"2.{n}")
    desk.clock.now = moment(told_at) - 0.01
    assert desk.courier.send_due() == []
    assert len(desk.at(told_at)) == len(came) and len(receiver.seen) == 1
    assert told_of(receiver.seen[0]) == [f"o/a 2.{n}" for n in reversed(range(len(came)))]


def test_what_comes_in_the_last_ten_seconds_goes_into_the_next_digest(board, forge, listen):
    receiver = listen(homeserver)
    desk = Office(board, forge)
    desk.room(receiver, schedule="daily")
    for at, version in (("07:59:49", "2.0"), ("07:59:51", "2.1"), ("07:59:59.900", "2.2")):
        assert desk.at(f"2026-06-11T{at}+02:00") == []
        desk.release("o/a", version)
    desk.at("2026-06-11T08:00:00+02:00")
    desk.at("2026-06-11T08:00:20+02:00")
    assert [told_of(seen) for seen in receiver.seen] == [["o/a 2.0"]]
    desk.at("2026-06-12T08:00:00+02:00")
    assert [told_of(seen) for seen in receiver.seen[1:]] == [["o/a 2.2", "o/a 2.1"]]


def test_releases_of_one_moment_stand_in_a_digest_the_last_one_first(board, forge, listen):
    """A provider may give several releases one date, or none, which makes it the check's; they are listed newest first."""
    receiver = listen(homeserver)
    desk = Office(board, forge)
    desk.room(receiver, schedule="daily")
    forge.publish("o/a", "2.0", "2.1", "2.2", published_at="2026-06-10T07:00:00Z")
    assert desk.check() == ["2.0", "2.1", "2.2"]
    desk.at("2026-06-11T08:00:00+02:00")
    assert told_of(receiver.seen[0]) == ["o/a 2.2", "o/a 2.1", "o/a 2.0"]


def test_a_destination_without_a_schedule_is_told_at_once_beside_one_that_has_one(board, forge, listen):
    at_once, later, hook = listen(pushed), listen(pushed), listen(204)
    desk = Office(board, forge)
    an_ntfy_topic(board, at_once.url, "now"), an_ntfy_topic(board, later.url, "later", schedule="hourly"), board.webhook(hook.url)
    desk.release("o/a", "2.0")
    desk.clock.now += 60
    desk.release("o/a", "2.1")
    assert len(desk.courier.send_due()) == 4
    assert [told_of(seen) for seen in at_once.seen] == [["o/a 2.0"], ["o/a 2.1"]]
    assert [seen.json()["version"] for seen in hook.seen] == ["2.0", "2.1"] and later.seen == []
    desk.at("2026-06-10T10:00:00+02:00")
    assert [told_of(seen) for seen in later.seen] == [["o/a 2.1", "o/a 2.0"]]


def test_a_webhook_has_no_schedule_whatever_the_store_says(board, forge, listen):
    """An embedding program makes destinations by the store, which takes any schedule: a digest would lose all but one."""
    hook = listen(204)
    desk = Office(board, forge)
    board.store.add_destination(board.account.id, "webhook", "hook", {"url": hook.url, "headers": {}, "fields": {}},
                                rt.make_signing_secret(), schedule="weekly")
    desk.release("o/a", "2.0"), desk.release("o/a", "2.1")
    desk.courier.send_due()
    desk.at("2026-06-15T08:00:00+02:00")
    assert [seen.json()["version"] for seen in hook.seen] == ["2.0", "2.1"]


def letters_of(desk: Office) -> list[tuple[str, list[str]]]:
    """When a mail went out, in UTC, and of what it tells."""
    found = []
    for at, mail in desk.mails:
        text = email.message_from_bytes(mail.content, policy=email.policy.default).get_body(("plain",)).get_content()
        found.append((rt.timestamp(at), re.findall(r"^(o/\w+) [0-9.]+$", text.replace("\r", ""), re.MULTILINE)))
    return found


def test_mail_goes_by_each_projects_setting(board, forge):
    desk = Office(board, forge, "2026-06-13T09:30:00Z", "o/none", "o/instant", "o/hourly", "o/daily", "o/weekly", "o/unset",
                  zone="UTC", has_mail=True)
    for name in ("none", "instant", "hourly", "daily", "weekly"):
        assert desk.set(f"o/{name}", email_notification=name)["email_notification"] == name
    assert board.ask("GET", f"/v1/projects/{desk.projects['o/unset'].id}")["email_notification"] == "daily"
    for name in desk.projects:
        desk.release(name, "2.0")
    for at in ("13T09:31", "13T10:00", "13T23:00", "14T08:00", "14T20:00", "15T08:00", "22T08:00"):
        desk.at(f"2026-06-{at}:00Z")
    assert [(at, sorted(names)) for at, names in letters_of(desk)] == [
        ("2026-06-13T09:31:00Z", ["o/instant"]), ("2026-06-13T10:00:00Z", ["o/hourly"]),
        ("2026-06-14T08:00:00Z", ["o/daily", "o/unset"]), ("2026-06-15T08:00:00Z", ["o/weekly"])]


def test_default_means_the_accounts_own_setting_when_it_is_set(board, forge):
    desk = Office(board, forge, "2026-06-13T09:30:00Z", zone="UTC", has_mail=True)
    account = board.store.account_of(board.account.id)
    board.store.update_account(dataclasses.replace(account, email_notification="hourly"))
    assert desk.set("o/a", email_notification="default")["email_notification"] == "hourly"
    board.store.update_account(dataclasses.replace(account, email_notification="weekly"))
    desk.release("o/a", "2.0")
    desk.at("2026-06-13T10:00:00Z")
    assert letters_of(desk) == [("2026-06-13T10:00:00Z", ["o/a"])]


def test_what_is_due_at_one_moment_by_several_settings_is_one_mail(board, forge):
    desk = Office(board, forge, "2026-06-15T07:10:00Z", "o/hourly", "o/daily", "o/weekly", zone="UTC", has_mail=True)
    for name in ("hourly", "daily", "weekly"):
        desk.set(f"o/{name}", email_notification=name)
        desk.release(f"o/{name}", "2.0")
    desk.at("2026-06-15T08:00:00Z")
    (at, names), = letters_of(desk)
    assert (at, sorted(names)) == ("2026-06-15T08:00:00Z", ["o/daily", "o/hourly", "o/weekly"])


def test_without_a_mail_server_no_mail_is_queued(board, forge):
    desk = Office(board, forge)
    desk.release("o/a", "2.0")
    assert desk.states() == {}


def test_boundaries_that_were_missed_are_made_up_for_by_one_digest(board, forge, listen):
    receiver = listen(homeserver)
    desk = Office(board, forge)
    desk.room(receiver, schedule="daily")
    for day in (10, 11, 12):            # found, but nothing is sent: the machine goes down each time
        desk.clock.now = moment(f"2026-06-{day}T18:00:00+02:00")
        desk.release("o/a", f"2.{day}")
    assert len(desk.at("2026-06-14T15:00:00+02:00")) == 3
    assert [told_of(seen) for seen in receiver.seen] == [["o/a 2.12", "o/a 2.11", "o/a 2.10"]]
    desk.release("o/a", "3.0")
    assert desk.at("2026-06-14T23:00:00+02:00") == [] and len(desk.at("2026-06-15T08:00:00+02:00")) == 1


def test_a_failed_digest_is_sent_again_as_it_was_and_what_came_meanwhile_goes_into_the_next(board, forge, listen):
    receiver = listen(503)
    desk = Office(board, forge, "2026-06-10T09:00:00+02:00", "o/a", "o/b")
    desk.room(receiver, schedule="daily")
    desk.release("o/b", "2.0")
    desk.clock.now += 60
    desk.release("o/a", "2.0")
    assert len(desk.at("2026-06-11T08:00:00+02:00")) == 2
    assert desk.at("2026-06-11T08:00:29+02:00") == [] and len(desk.at("2026-06-11T08:00:30+02:00")) == 2
    desk.release("o/b", "2.1")                                  # the next release of a project: waiting ones at once
    assert len(desk.courier.send_due()) == 2
    receiver.answer = homeserver
    assert len(desk.at("2026-06-11T20:00:00+02:00")) == 2
    assert desk.at("2026-06-12T07:59:00+02:00") == []
    assert len(desk.at("2026-06-12T08:00:00+02:00")) == 1
    first, *again, last = receiver.seen
    assert [told_of(seen) for seen in (first, last)] == [["o/a 2.0", "o/b 2.0"], ["o/b 2.1"]]
    assert len(again) == 3 and {(seen.path, seen.body) for seen in again} == {(first.path, first.body)}
    assert id_of(last) != id_of(first)
    assert {entry.attempts for entry in board.store.journal(board.account.id) if entry.version == "2.0"} == {4}


def test_a_digest_of_releases_of_one_moment_is_sent_again_in_the_same_order(board, forge, listen):
    receiver = listen(503)
    desk = Office(board, forge, "2026-06-10T09:00:00+02:00", "o/a", "o/b")
    desk.room(receiver, schedule="daily")
    desk.release("o/a", "2.0"), desk.release("o/b", "2.0")
    desk.at("2026-06-11T08:00:00+02:00")
    desk.release("o/b", "2.1")          # has the one of o/b due before that of o/a
    assert len(desk.courier.send_due()) == 2
    assert [told_of(seen) for seen in receiver.seen] == [told_of(receiver.seen[0])] * 2


def test_a_mail_that_is_repeated_has_the_same_message_id_and_text(board, forge):
    desk = Office(board, forge, "2026-06-10T09:00:00Z", zone="UTC", has_mail=True)
    desk.release("o/a", "2.0"), desk.release("o/a", "2.1")
    desk.mail_fault = "450 try again"
    desk.at("2026-06-11T08:00:00Z")
    desk.mail_fault = None
    desk.at("2026-06-11T08:01:00Z")
    one, two = [email.message_from_bytes(mail.content, policy=email.policy.default) for _, mail in desk.mails]
    assert one["Message-ID"] == two["Message-ID"] and one["Subject"] == two["Subject"]
    assert [one.get_body((kind,)).get_content() for kind in ("plain", "html")] == [
        two.get_body((kind,)).get_content() for kind in ("plain", "html")]


def test_a_digest_that_was_attempted_stays_as_it_was_when_a_source_recovers_meanwhile(board, forge, listen):
    """The receiver may have the first one, and know repeats by their id: another content under it would be lost on it."""
    receiver = listen(503)
    desk = Office(board, forge, "2026-06-10T09:00:00+02:00", "o/a", "o/b")
    desk.room(receiver, schedule="hourly")
    forge.fault = 500
    times, seconds = rt.TOLD_AFTER
    for _ in range(times):
        desk.clock.now += seconds / (times - 1)
        desk.check("o/a")
    forge.fault = None
    desk.release("o/b", "2.0")
    assert len(desk.store.journal(board.account.id)) == 2
    desk.clock.now += rt.HOUR
    assert len(desk.courier.send_due()) == 2
    desk.check("o/a")
    desk.clock.now += rt.MINUTE
    desk.courier.send_due()
    assert len(receiver.seen) > 1
    assert len({id_of(seen) for seen in receiver.seen}) == len({seen.body for seen in receiver.seen}) == 1


@pytest.mark.parametrize("schedule", ["instant", "daily"])
def test_what_fell_due_while_the_service_was_off_for_days_has_a_whole_schedule_of_attempts(board, forge, listen, schedule):
    """A machine that is switched on again after a holiday often has its network some seconds later."""
    receiver = listen(503)
    desk = Office(board, forge)
    desk.room(receiver, schedule=schedule)
    desk.release("o/a", "2.0")
    assert len(desk.at("2026-06-15T09:00:00+02:00")) == 1
    assert desk.states() == {"2.0": "pending"}
    receiver.answer = homeserver
    desk.at("2026-06-15T09:00:30+02:00")
    assert desk.states() == {"2.0": "delivered"}


def put_digest(store: rt.Store, project: rt.Project, destinations: Sequence[rt.Destination], versions: Sequence[str],
               due_at: float) -> None:
    """Releases of a project, and deliveries of them that are to go out together."""
    body = {"provider": project.provider, "project": project.name, "time": "2026-03-01T10:00:00Z",
            "account": {"type": "user", "id": project.account_id, "name": "Me"}}
    events = [rt.Event(project.id, {**body, "version": version}, "",
                       tuple(rt.Recipient(one.id, due_at, is_digested=True) for one in destinations)) for version in versions]
    assert store.claim_source(project.source_id, "digests", store.clock())
    assert store.record_found(project.source_id, "digests", rt.Findings(
        store.clock() + rt.HOUR, new=[rt.Release(version, "2026-03-01T10:00:00Z") for version in versions], events=events))


@pytest.mark.parametrize("count", [1, 130, 600])
@pytest.mark.parametrize("limit", [1, 128])
def test_a_claim_takes_a_digest_whole_however_many_it_has(board, count, limit):
    now = board.store.clock()
    topic, project = an_ntfy_topic(board, "http://127.0.0.1:9"), board.track("github", "o/p")
    put_digest(board.store, project, [topic], [f"1.{n}" for n in range(count)], now - 1)
    put_event(board, project, "2.0", topic)
    board.store.prepare_due(now + 1)
    claimed = board.store.claim_deliveries({topic.id: limit}, "me", now + 1)[topic.id]
    assert sum(one.digest_id is not None for one in claimed) == count
    assert len({one.digest_id for one in claimed if one.digest_id}) == 1
    assert board.store.claim_deliveries({topic.id: limit}, "other", now + 1) == {}


@pytest.mark.parametrize("before", [100, 200])
def test_a_claim_that_is_full_of_others_takes_a_digest_behind_them_whole_or_not_at_all(board, before):
    now = board.store.clock()
    topic, project = an_ntfy_topic(board, "http://127.0.0.1:9"), board.track("github", "o/p")
    for n in range(before):
        put_event(board, project, f"1.{n}", topic)
    now = board.store.clock()
    put_digest(board.store, project, [topic], [f"2.{n}" for n in range(300)], now)
    board.store.prepare_due(now)
    claimed = board.store.claim_deliveries({topic.id: 128}, "me", now)[topic.id]
    assert sum(one.digest_id is not None for one in claimed) in (0, 300)
    assert sum(one.digest_id is None for one in claimed) == min(before, 128)


def test_a_digest_of_hundreds_is_one_message_and_all_of_it_is_delivered(board, listen):
    receiver, project = listen(pushed), board.track("github", "o/p")
    topic = an_ntfy_topic(board, receiver.url)
    put_digest(board.store, project, [topic], [f"1.{n}" for n in range(600)], board.store.clock() - 1)
    courier = courier_of(board)
    courier.start()
    receiver.wait(1)
    entries = until(lambda: [one for one in board.store.journal(board.account.id, limit=999) if one.state == "delivered"])
    courier.stop()
    courier.join()
    assert len(entries) == 600 and len({entry.digest_id for entry in entries}) == 1 and len(receiver.seen) == 1
    assert receiver.seen[0].json()["title"] == "600 releases"


@pytest.mark.parametrize("sooner", [0.001, 0.3, 1.0])
def test_a_claim_stands_against_one_whose_clock_was_read_a_moment_before(board, sooner):
    """As by another process that read its clock and then waited for the lock, or when the clock is set right by a bit."""
    now = board.store.clock()
    hook, project = board.webhook("http://127.0.0.1:9/"), board.track("github", "o/p")
    put_event(board, project, "1.0", hook)
    assert board.store.claim_deliveries({hook.id: 1}, "me", now + 5)
    assert board.store.due_destinations(now + 5 - sooner) == {}
    assert board.store.claim_deliveries({hook.id: 1}, "other", now + 5 - sooner) == {}
    assert board.store.claim_source(project.source_id, "me", now + 5)
    assert board.store.claim_source(project.source_id, "other", now + 5 - sooner) is None
    assert board.store.claim_sources({"github": 5}, "other", now + 5 - sooner, {"github": now + rt.DAY}) == []


def test_two_couriers_on_one_store_send_no_digest_twice_and_none_in_halves(board, listen):
    receiver = listen(homeserver)
    destinations = [a_room(board.store, board.account.id, receiver.url, f"r{n}") for n in range(20)]
    projects = [board.track("github", f"o/p{n}") for n in range(3)]
    now = board.store.clock()
    for project in projects:
        put_digest(board.store, project, destinations, ["1.0", "2.0"], now + 0.5)
    others = [rt.Store(board.store.path) for _ in range(2)]
    couriers = [courier_of(board)] + [rt.Courier(one, board.service.fetcher.post, board.service.settings) for one in others]
    for courier in couriers:
        courier.start()
    receiver.wait(20)
    until(lambda: {one.state for one in board.store.journal(board.account.id, limit=999)} == {"delivered"})
    for courier in couriers:
        courier.stop()
    for courier in couriers:
        courier.join()
    for one in others:
        one.close()
    assert len({id_of(seen) for seen in receiver.seen}) == len(receiver.seen) == 20
    assert all(len(told_of(seen)) == 6 for seen in receiver.seen)


def test_a_digest_is_sent_whole_or_not_yet_when_the_courier_is_killed_in_the_midst(serve, db, listen):
    """Each round a new digest, and one more of a room that has them in every round, and a SIGKILL while they are sent."""
    kills, random_ = int(os.environ.get("RELEASETRACK_TEST_KILLS", "10")), random.Random(11)
    receiver = listen(lambda seen: time.sleep(0.06) or homeserver(seen))
    first_key(db)
    store = rt.Store(db)
    account = store.account("me@example.org")
    projects = []
    for name in ("o/a", "o/b"):
        project, source = store.add_project(account.id, "github", name, name, {})
        projects.append(project)
    first = a_room(store, account.id, receiver.url, "first")
    flags = ("--retry-first", "0.1", "--poll-interval", "86400")
    expected: dict[tuple[str, str], set[str]] = {}          # room and round -> what is told of

    def room_of(seen: Seen) -> str:
        return re.search("%21([a-z0-9]+)%3A", seen.path)[1]

    for n in range(kills):
        room = a_room(store, account.id, receiver.url, f"r{n}")
        for project in projects:
            put_digest(store, project, [room, first], [f"{n}.{k}" for k in range(4)], time.time() - 1)
        for one in (room, first):
            expected[one.name, str(n)] = {f"{project.name} {n}.{k}" for project in projects for k in range(4)}
        process = serve(*flags)
        time.sleep(random_.uniform(0.0, 0.2))
        assert process.end(signal.SIGKILL) == -signal.SIGKILL
    process = serve(*flags)
    until(lambda: store.counts()["pending_deliveries"] == 0, 20)
    assert process.end() == 0
    entries = store.journal(account.id, limit=10_000)
    store.close()
    assert {entry.state for entry in entries} == {"delivered"} and len(entries) == kills * 16
    came: dict[str, list[Seen]] = {}
    for seen in receiver.seen:
        came.setdefault(id_of(seen), []).append(seen)
    assert all(len({(seen.path, seen.body) for seen in same}) == 1 for same in came.values()), "a repeat differs"
    assert all(len(same) <= kills + 1 for same in came.values())
    digests: dict[tuple[str, str], list[str]] = {}          # room and release -> digests that tell of it
    for id_, (seen, *_) in came.items():
        for one in told_of(seen):
            digests.setdefault((room_of(seen), one), []).append(id_)
    wanted = {(room, one) for (room, _), releases in expected.items() for one in releases}
    assert digests.keys() == wanted, "lost"
    assert all(len(ids) == 1 for ids in digests.values()), "told in two digests"
    rounds = {(room, n): {digests[room, one][0] for one in releases} for (room, n), releases in expected.items()}
    assert all(len(ids) == 1 for ids in rounds.values()), "a digest in halves"
    assert {entry.digest_id for entry in entries} == came.keys()


def holding(board: Board, forge: Forge, listener: Listener, days: int = 7, **about: Any) -> tuple[Office, rt.Destination]:
    desk = Office(board, forge)
    topic = an_ntfy_topic(board, listener.url, **about)
    assert desk.set("o/a", hold_days=days)["hold_days"] == days
    return desk, topic


@pytest.fixture
def pager(listen: Callable[..., Listener]) -> Listener:
    return listen(pushed)


HELD = {
    # case: what about the release that is found at 2026-06-10T09:00+02:00; when it is told
    "dated now":            ({},                                          "2026-06-17T09:00:00+02:00"),
    "out for three days":   ({"at": "2026-06-07T07:00:00Z"},              "2026-06-14T09:00:00+02:00"),
    "out for long enough":  ({"at": "2026-06-03T07:00:00Z"},              "2026-06-10T09:00:00+02:00"),
    "out for months":       ({"at": "2026-03-03T07:00:00Z"},              "2026-06-10T09:00:00+02:00"),
    "dated in the future":  ({"at": "2026-06-20T07:00:00Z"},              "2026-06-17T09:00:00+02:00"),
    "names a CVE":          ({"notes": "Fixes CVE-2026-1234, at last"},   "2026-06-10T09:00:00+02:00"),
}


@pytest.mark.parametrize("case", HELD)
def test_a_release_that_is_held_is_told_once_it_has_been_out_that_long(board, forge, pager, case):
    about, told_at = HELD[case]
    desk, _ = holding(board, forge, pager)
    desk.release("o/a", "2.0", **about)
    if moment(told_at) > desk.clock.now:
        while desk.clock.now < moment(told_at) - rt.DAY:
            assert desk.courier.send_due() == []
            desk.clock.now += rt.DAY
            desk.check()
        desk.clock.now = moment(told_at) - 0.01
        assert desk.courier.send_due() == [] and pager.seen == []
    assert len(desk.at(told_at)) == 1 and told_of(pager.seen[0]) == ["o/a 2.0"]


def test_a_held_release_that_vanished_is_skipped_without_an_attempt(board, forge, pager):
    desk, _ = holding(board, forge, pager)
    desk.release("o/a", "2.0"), desk.release("o/a", "2.1")
    desk.clock.now += rt.DAY
    forge.releases["o/a"] = [entry for entry in forge.releases["o/a"] if entry["tag_name"] != "2.0"]
    desk.check()
    assert len(desk.at("2026-06-17T09:00:00+02:00")) == 1
    assert desk.states() == {"2.0": "skipped", "2.1": "delivered"} and [told_of(seen) for seen in pager.seen] == [["o/a 2.1"]]
    entry, = [one for one in desk.store.journal(board.account.id, state="skipped")]
    assert entry.attempts == 0 and desk.store.attempts(entry.id) == []


def test_a_held_release_that_vanished_and_came_back_is_told(board, forge, pager):
    desk, _ = holding(board, forge, pager)
    desk.release("o/a", "2.0"), desk.release("o/a", "2.1")
    whole, forge.releases["o/a"] = forge.releases["o/a"], forge.releases["o/a"][:1]
    desk.check()
    forge.releases["o/a"] = whole
    desk.clock.now += rt.DAY
    assert desk.check() == []
    desk.at("2026-06-17T09:00:00+02:00")
    assert desk.states() == {"2.0": "delivered", "2.1": "delivered"}


def test_a_held_release_that_was_skipped_for_a_moment_s_absence_is_told_though_nothing_else_changes(board, forge, pager):
    """One 404 as its time comes, and answers of 304 from then on."""
    desk, _ = holding(board, forge, pager)
    desk.release("o/a", "2.0")
    whole, tag = forge.releases["o/a"], '"same"'
    listing = forge.listener.answer

    def unchanged(seen: Seen) -> Any:
        answer = listing(seen)
        if answer[0] == 200 and seen.headers.get("if-none-match") == tag:
            return 304, b"", {}
        return (*answer[:2], {"ETag": tag}) if answer[0] == 200 else answer

    forge.listener.answer = unchanged
    desk.check()
    del forge.releases["o/a"]
    desk.clock.now = moment("2026-06-17T08:59:00+02:00")
    desk.check()
    desk.at("2026-06-17T09:01:00+02:00")
    assert desk.states()["2.0"] == "skipped"
    forge.releases["o/a"] = whole
    desk.clock.now += 3 * rt.HOUR
    desk.check()
    desk.courier.send_due()
    assert desk.states()["2.0"] == "delivered"


def test_a_service_that_asks_for_patience_is_left_alone_by_all_that_waits_for_it(board, listen):
    answers = [(429, {"error": "limit reached"}, {"Retry-After": "3600"})]
    receiver, clock = listen(lambda seen: answers.pop() if answers else pushed(seen)), Clock()
    courier, project = courier_of(board, clock), board.track("github", "o/p")
    topic = an_ntfy_topic(board, receiver.url)
    for n in range(5):
        put_event(board, project, f"1.{n}", topic)
    courier.send_due()
    clock.now += 1800
    assert courier.send_due() == [] and len(receiver.seen) == 1
    clock.now += 1801
    courier.send_due()
    assert len(receiver.seen) == 6 and {entry.state for entry in board.store.journal(board.account.id)} == {"delivered"}


def test_a_destination_for_security_fixes_alone_hears_of_a_source_that_fails_too(board):
    """Else it would take silence for safety."""
    hook = board.store.add_destination(board.account.id, "ntfy", "phone", {}, is_security_only=True)
    project = board.track("github", "o/p")
    subscriber, = board.store.subscribers(project.source_id)
    assert [one.destination_id for one in rt.recipients_of(subscriber, None, time.time(), False)] == [hook.id]
    assert rt.recipients_of(subscriber, rt.Release("1", "2026-03-01T10:00:00Z"), time.time(), False) == ()


def test_a_held_release_waits_through_sweeps_and_is_told_when_the_hold_is_taken_away_or_shortened(board, forge, pager):
    desk, _ = holding(board, forge, pager)
    desk.release("o/a", "2.0")
    desk.store.sweep(desk.clock.now)
    desk.clock.now += rt.DAY
    desk.store.sweep(desk.clock.now)
    assert desk.courier.send_due() == []
    desk.set("o/a", hold_days=3)
    assert desk.courier.send_due() == []
    desk.clock.now += 2 * rt.DAY
    assert len(desk.courier.send_due()) == 1
    desk.set("o/a", hold_days=300)
    desk.release("o/a", "3.0")
    desk.set("o/a", hold_days=0)
    assert len(desk.courier.send_due()) == 1


def test_a_held_release_whose_note_names_a_cve_later_is_told_then_with_it(board, forge, pager):
    desk, _ = holding(board, forge, pager)
    desk.release("o/a", "2.0")
    forge.releases["o/a"][0]["body"] = "It turned out that this fixes CVE-2026-4711."
    desk.clock.now += rt.HOUR
    desk.check()
    assert len(desk.courier.send_due()) == 1
    assert "CVE-2026-4711" in pager.seen[-1].body.decode()


def test_a_digest_waits_for_its_week_through_sweeps(board, forge, listen):
    desk, receiver = Office(board, forge, "2026-06-10T09:00:00+02:00"), listen(homeserver)
    desk.store.add_destination(board.account.id, "matrix", "room", rt.read_settings("matrix", [
        ("homeserver_url", receiver.url), ("internal_room_id", "!room:example.org"), ("token", "syt_token")]), schedule="weekly")
    desk.release("o/a", "2.0")
    for _ in range(3):
        desk.clock.now += rt.DAY
        desk.store.sweep(desk.clock.now)
        assert desk.courier.send_due() == []
    assert len(desk.at("2026-06-15T08:00:01+02:00")) == len(receiver.seen) == 1


def test_a_release_that_comes_back_does_not_make_a_second_digest_of_its_day(board, forge, listen):
    desk, receiver = Office(board, forge, "2026-06-10T09:00:00+02:00"), listen(homeserver)
    desk.store.add_destination(board.account.id, "matrix", "room", rt.read_settings("matrix", [
        ("homeserver_url", receiver.url), ("internal_room_id", "!room:example.org"), ("token", "syt_token")]), schedule="daily")
    desk.set("o/a", hold_days=1)
    desk.release("o/a", "2.0"), desk.release("o/a", "2.1")
    whole = list(forge.releases["o/a"])
    forge.releases["o/a"] = [entry for entry in whole if entry["tag_name"] != "2.0"]
    desk.check()
    desk.at("2026-06-12T08:00:01+02:00")
    assert desk.states() == {"2.0": "skipped", "2.1": "delivered"}
    forge.releases["o/a"] = whole
    desk.clock.now += 6 * rt.HOUR
    desk.check()
    assert desk.courier.send_due() == []
    desk.at("2026-06-13T08:00:01+02:00")
    assert desk.states()["2.0"] == "delivered" and len(receiver.seen) == 2


def test_held_releases_of_a_project_that_vanished_whole_are_skipped(board, forge, pager):
    """As a registry does with a package that turned out to be malicious."""
    desk, _ = holding(board, forge, pager)
    desk.release("o/a", "2.0")
    del forge.releases["o/a"]
    for _ in range(6):
        desk.clock.now += rt.DAY
        desk.check()
    assert desk.store.source(desk.projects["o/a"].source_id).is_missing
    desk.at("2026-06-17T09:00:00+02:00")
    assert "2.0" not in [version for seen in pager.seen for version in told_of(seen)] and desk.states()["2.0"] == "skipped"


def test_what_could_not_be_checked_lately_is_told_all_the_same(board, forge, pager):
    desk, _ = holding(board, forge, pager)
    desk.release("o/a", "2.0")
    forge.fault = 500
    desk.clock.now += 6.9 * rt.DAY
    desk.check()
    desk.at("2026-06-17T09:00:00+02:00")
    assert desk.states() == {"2.0": "delivered"}


def test_an_update_of_a_known_version_is_held_from_now(board, forge, pager):
    desk, _ = holding(board, forge, pager)
    desk.clock.now += 30 * rt.DAY
    forge.releases["o/a"][0]["published_at"] = rt.timestamp(desk.clock.now - 20 * rt.DAY)
    assert desk.check() == ["0.1"]
    assert desk.courier.send_due() == []
    desk.clock.now += 7 * rt.DAY - 1
    assert desk.courier.send_due() == []
    desk.clock.now += 1
    assert len(desk.courier.send_due()) == 1


def test_a_digest_tells_of_held_releases_at_the_first_boundary_after_their_hold(board, forge, pager):
    desk, _ = holding(board, forge, pager, 2, schedule="daily")
    desk.release("o/a", "2.0")                                      # until the 12th at 9
    desk.at("2026-06-12T07:00:00+02:00")
    desk.release("o/a", "2.1", "Fixes CVE-2026-1234")               # not held
    assert len(desk.at("2026-06-12T08:00:00+02:00")) == 1 and told_of(pager.seen[0]) == ["o/a 2.1"]
    assert desk.at("2026-06-12T09:00:00+02:00") == []
    assert len(desk.at("2026-06-13T08:00:00+02:00")) == 1 and told_of(pager.seen[1]) == ["o/a 2.0"]


def test_what_vanished_between_its_hold_and_its_digest_is_left_out(board, forge, pager):
    desk, _ = holding(board, forge, pager, 2, schedule="weekly")
    desk.release("o/a", "2.0"), desk.release("o/a", "2.1")
    desk.clock.now += 4 * rt.DAY
    del forge.releases["o/a"][0]
    desk.check()
    assert len(desk.at("2026-06-15T08:00:00+02:00")) == 1 and told_of(pager.seen[0]) == ["o/a 2.0"]
    assert desk.states() == {"2.0": "delivered", "2.1": "skipped"}


def test_a_held_release_that_many_newer_ones_have_pushed_out_of_a_window_is_told(board, forge, pager):
    """A feed shows the newest ten: what stands in it no more has not vanished."""
    desk, _ = holding(board, forge, pager)
    desk.release("o/a", "2.0")
    desk.clock.now += rt.HOUR
    forge.publish("o/a", *(f"3.{n}" for n in range(10)), published_at=rt.timestamp(desk.clock.now))
    del forge.releases["o/a"][10:]
    assert len(desk.check()) == 10
    desk.at("2026-06-17T09:00:00+02:00")
    assert desk.states()["2.0"] == "delivered"


def test_a_held_image_that_rebuilt_tags_have_pushed_off_the_first_page_is_told(board, forge, pager, listen):
    """Docker Hub lists what was pushed last first, and a page on which nothing is new is the last one read."""
    tags: list[dict[str, Any]] = []         # of the last push first; four to a page

    def push(name: str, at: float) -> None:
        tags[:] = [{"name": name, "last_updated": rt.timestamp(at), "tag_last_pushed": rt.timestamp(at),
                    "digest": f"sha256:{name}{at}"}] + [one for one in tags if one["name"] != name]

    def answer(seen: Seen) -> Any:
        page = int((re.search(r"[?&]page=(\d+)", seen.path) or [0, 1])[1])
        more = f"{hub.url}{seen.path.partition('?')[0]}?page={page + 1}" if len(tags) > 4 * page else None
        return 200, {"next": more, "results": tags[4 * page - 4:4 * page]}

    hub = listen(answer)
    for n, name in enumerate(("2025", "stable", "edge", "latest")):
        push(name, moment("2025-01-01T00:00:00Z") + n * rt.DAY)
    desk = Office(board, forge, "2026-06-10T09:00:00+02:00", "o/image", flag=f"hub=dockerhub:{hub.url}")
    an_ntfy_topic(board, pager.url)
    desk.set("o/image", hold_days=7, exclude_updated=True)
    push("2.0", desk.clock.now)
    assert desk.check() == ["2.0"]
    desk.clock.now += rt.DAY
    for name in ("2025", "stable", "edge", "latest"):       # rebuilt on a new base
        push(name, desk.clock.now)
    assert len(desk.check()) == 4
    assert desk.check() == []
    desk.at("2026-06-17T09:00:00+02:00")
    assert desk.states() == {"2.0": "delivered"}


def test_nothing_is_held_by_default(board, forge, pager):
    desk = Office(board, forge)
    an_ntfy_topic(board, pager.url)
    assert "hold_days" not in board.ask("GET", f"/v1/projects/{desk.projects['o/a'].id}")
    desk.release("o/a", "2.0")
    assert len(desk.courier.send_due()) == 1


@pytest.mark.parametrize("value", [-1, 366, True, False, "1", 1.5, 1.0, [], {}, 10**30])
def test_a_hold_that_is_no_whole_number_of_days_up_to_a_year_is_refused_by_name(board, value):
    project = board.track("github", "o/p")
    fault, = board.faults("POST", f"/v1/projects/{project.id}", {"hold_days": value})
    assert "hold_days" in fault and "0" in fault and "365" in fault
    assert "hold_days" not in board.ask("GET", f"/v1/projects/{project.id}")


@pytest.mark.parametrize("value", [1, 365])
def test_a_hold_is_set_shown_left_alone_and_taken_away(board, value):
    path = f"/v1/projects/{board.track('github', 'o/p').id}"
    assert board.ask("POST", path, {"hold_days": value})["hold_days"] == value
    assert board.ask("POST", path, {"note": "x"})["hold_days"] == board.ask("POST", path, {"hold_days": None})["hold_days"] == value
    assert board.ask("GET", "/v1/projects")["projects"][0]["hold_days"] == value
    assert "hold_days" not in board.ask("POST", path, {"hold_days": 0}) and "hold_days" not in board.ask("GET", path)


PLAIN, FIX = rt.Release("1.0", "2026-03-01T10:00:00Z"), rt.Release("1.1", "2026-03-01T10:00:00Z", cve=("CVE-2026-1234",))
MEANT = {
    # destination                                              project's tags; whether it lists it; hears of a release, of a fix
    "every project":             ({},                                                   "",   False, True,  True),
    "only listed":               ({"is_for_every_project": False},                      "",   False, False, False),
    "only listed, listed":       ({"is_for_every_project": False},                      "",   True,  True,  True),
    "security only":             ({"is_security_only": True},                           "",   False, False, True),
    "security only, listed":     ({"is_security_only": True},                           "",   True,  False, True),
    "a tag it has":              ({"tags": "x"},                                        "x",  False, True,  True),
    "a tag among others":        ({"tags": "xy"},                                       "yz", False, True,  True),
    "a tag it has not":          ({"tags": "x"},                                        "y",  False, False, False),
    "a tag, and it has none":    ({"tags": "x"},                                        "",   False, False, False),
    "without a tag it has":      ({"without_tags": "x"},                                "x",  False, False, False),
    "without a tag it has not":  ({"without_tags": "x"},                                "y",  False, True,  True),
    "one but not the other":     ({"tags": "x", "without_tags": "y"},                   "x",  False, True,  True),
    "one and the other":         ({"tags": "x", "without_tags": "y"},                   "xy", False, False, False),
    "a tag, security only":      ({"tags": "x", "is_security_only": True},              "x",  False, False, True),
    "another, security only":    ({"tags": "x", "is_security_only": True},              "y",  False, False, False),
    "listed, a tag it has not":  ({"tags": "x", "is_for_every_project": False},         "",   True,  False, False),
    "listed, a tag it has":      ({"tags": "x", "is_for_every_project": False},         "x",  True,  True,  True),
}


def test_a_destination_hears_of_what_it_was_chosen_for(board):
    ids = {name: board.ask("POST", "/v1/tags", {"name": name})["id"] for name in "xyz"}
    found = {}
    for case, (about, has, is_listed, *_) in MEANT.items():
        about = {name: tuple(ids[tag] for tag in value) if "tags" in name else value for name, value in about.items()}
        topic = an_ntfy_topic(board, "http://127.0.0.1:9", case, **about)
        id_ = board.track("github", f"o/p{len(found)}").id
        board.ask("POST", f"/v1/projects/{id_}", {
            "tags": [ids[tag] for tag in has], **({"ntfy_topics": [topic.id]} if is_listed else {})})
        project, destination = board.store.project(board.account.id, id_), board.store.destination(topic.id)
        found[case] = tuple(rt.is_meant(destination, project, release) for release in (PLAIN, FIX))
    assert found == {case: tuple(expected[-2:]) for case, expected in MEANT.items()}


def test_a_project_that_lists_a_destination_is_told_there_and_not_at_others_of_its_kind(board, forge, listen):
    every, mine, hook = listen(pushed), listen(pushed), listen(204)
    desk = Office(board, forge, "2026-06-10T09:00:00+02:00", "o/a", "o/b")
    an_ntfy_topic(board, every.url, "every"), board.webhook(hook.url)
    topic = an_ntfy_topic(board, mine.url, "mine", is_for_every_project=False)
    assert desk.set("o/a", ntfy_topics=[topic.id])["ntfy_topics"] == [topic.id]
    desk.release("o/a", "2.0"), desk.release("o/b", "2.0")
    desk.courier.send_due()
    assert [told_of(seen) for seen in mine.seen] == [["o/a 2.0"]] and [told_of(seen) for seen in every.seen] == [["o/b 2.0"]]
    assert len(hook.seen) == 2                                  # another kind, of which the project says nothing
    assert "ntfy_topics" not in desk.set("o/a", ntfy_topics=[])
    desk.release("o/a", "2.1")
    desk.courier.send_due()
    assert told_of(every.seen[-1]) == ["o/a 2.1"] and len(mine.seen) == 1


def test_exposed_services_at_once_and_the_rest_weekly_are_two_destinations(board, forge, listen):
    at_once, weekly = listen(homeserver), listen(homeserver)
    desk = Office(board, forge, "2026-06-10T09:00:00+02:00", "o/edge", "o/inner")
    exposed = board.ask("POST", "/v1/tags", {"name": "exposed"})["id"]
    desk.room(at_once, "now", tags=(exposed,))
    desk.room(weekly, "later", without_tags=(exposed,), schedule="weekly")
    desk.set("o/edge", tags=[exposed])
    desk.release("o/edge", "2.0"), desk.release("o/inner", "2.0")
    desk.courier.send_due()
    assert [told_of(seen) for seen in at_once.seen] == [["o/edge 2.0"]] and weekly.seen == []
    desk.at("2026-06-15T08:00:00+02:00")
    assert [told_of(seen) for seen in weekly.seen] == [["o/inner 2.0"]] and len(at_once.seen) == 1
    desk.set("o/edge", tags=[])
    desk.release("o/edge", "2.1")
    desk.at("2026-06-22T08:00:00+02:00")
    assert told_of(weekly.seen[-1]) == ["o/edge 2.1"] and len(at_once.seen) == 1


def test_a_destination_whose_tag_is_removed_does_not_begin_to_hear_of_everything(board, forge, listen):
    receiver = listen(homeserver)
    desk = Office(board, forge, "2026-06-10T09:00:00+02:00", "o/edge", "o/inner")
    exposed = board.ask("POST", "/v1/tags", {"name": "exposed"})["id"]
    desk.room(receiver, tags=(exposed,))
    desk.set("o/edge", tags=[exposed])
    board.ask("DELETE", f"/v1/tags/{exposed}")
    desk.release("o/inner", "2.0")
    desk.courier.send_due()
    assert receiver.seen == []


def test_of_a_project_that_is_removed_nothing_is_told_later_but_what_was_attempted_goes_on(board, forge, listen):
    receiver, later, digested = listen(503), listen(homeserver), listen(homeserver)
    desk = Office(board, forge, "2026-06-10T09:00:00+02:00", "o/a", "o/b")
    tried, daily = desk.room(receiver, "tried"), desk.room(later, "daily", schedule="daily")
    hourly = desk.room(digested, "hourly", schedule="hourly")
    desk.release("o/a", "2.0")
    desk.courier.send_due()
    digested.answer = 503
    assert len(desk.at("2026-06-10T10:00:00+02:00")) > 1
    board.ask("DELETE", f"/v1/projects/{desk.projects['o/a'].id}")
    receiver.answer = digested.answer = homeserver
    desk.at("2026-06-11T08:00:00+02:00")
    assert [desk.states(one) for one in (tried, daily, hourly)] == [{"2.0": "delivered"}, {"2.0": "skipped"}, {"2.0": "delivered"}]
    assert later.seen == []


def test_a_digest_that_was_attempted_stays_as_it_was_when_one_of_its_projects_is_removed(board, forge, listen):
    receiver = listen(503)
    desk = Office(board, forge, "2026-06-10T09:00:00+02:00", "o/a", "o/b")
    desk.room(receiver, schedule="hourly")
    desk.release("o/a", "2.0")
    desk.clock.now += 60
    desk.release("o/b", "2.0")
    desk.at("2026-06-10T10:00:00+02:00")
    board.ask("DELETE", f"/v1/projects/{desk.projects['o/a'].id}")
    receiver.answer = homeserver
    desk.at("2026-06-10T10:00:30+02:00")
    one, two = receiver.seen
    assert (one.path, one.body) == (two.path, two.body) and told_of(one) == ["o/b 2.0", "o/a 2.0"]


def fail(store: rt.Store, destination: rt.Destination, limit: int, status: int = 500) -> None:
    """One attempt of everything that is due at a destination, with which all has failed for good."""
    now = store.clock()
    store.record_attempts("failing", [
        rt.Outcome(now, status, f"it answered {status}", 0.1, "127.0.0.1", "no", delivery.id, "failed", now)
        for delivery in store.claim_deliveries({destination.id: limit}, "failing", now)[destination.id]])


def test_whoever_sends_again_is_told_how_many(board, listen):
    """Python before 3.12 counts no rows of a statement that begins with WITH."""
    receiver = listen(204)
    courier, hook, project = courier_of(board), board.webhook(receiver.url), board.track("github", "o/p")
    for n in range(5):
        put_event(board, project, f"1.{n}", hook)
    courier.send_due()
    entries = board.store.journal(board.account.id)
    assert board.store.resend(board.account.id, delivery_id="no" * 13) == 0
    assert board.store.resend(board.account.id) == 0
    assert board.store.resend(board.account.id, delivery_id=entries[0].id) == 1
    for n in range(3):
        put_event(board, project, f"2.{n}", hook)
    fail(board.store, hook, 4)
    assert board.store.resend(board.account.id, destination_id=hook.id) == 4


def test_one_delivery_is_sent_again_under_its_id_and_its_attempts_are_kept(board, listen):
    receiver, clock = listen(204), Clock()
    courier, hook = courier_of(board, clock), board.webhook(receiver.url)
    for version in ("1.0", "1.1"):
        put_event(board, board.track("github", f"o/p{version[-1]}"), version, hook)
    courier.send_due()
    entry, = [one for one in board.store.journal(board.account.id) if one.version == "1.0"]
    clock.now += rt.DAY
    board.store.resend(board.account.id, delivery_id=entry.id)
    courier.send_due()
    one, _, again = receiver.seen
    assert again.headers["webhook-id"] == one.headers["webhook-id"] == entry.id and again.body == one.body
    assert int(again.headers["webhook-timestamp"]) == clock.now
    assert [attempt.attempted_at for attempt in board.store.attempts(entry.id)] == [clock.now - rt.DAY, clock.now]


def test_nothing_of_another_account_is_sent_again(board, listen):
    receiver = listen(204)
    courier, hook = courier_of(board), board.webhook(receiver.url)
    put_event(board, board.track("github", "o/p"), "1.0", hook)
    courier.send_due()
    other = board.store.add_account("user", "other@example.org", "Other", "scrypt$00$00", False)
    entry, = board.store.journal(board.account.id)
    for about in ({"delivery_id": entry.id}, {"destination_id": hook.id}, {}):
        board.store.resend(other.id, **about)
    assert courier.send_due() == []


def test_a_member_of_a_digest_that_is_sent_again_takes_its_digest_along(board, forge, listen):
    receiver = listen(homeserver)
    desk = Office(board, forge, "2026-06-10T09:00:00+02:00", "o/a", "o/b")
    desk.room(receiver, schedule="daily")
    for name, version in (("o/a", "2.0"), ("o/b", "2.0"), ("o/a", "2.1")):
        desk.clock.now += 60
        desk.release(name, version)
    desk.at("2026-06-11T08:00:00+02:00")
    desk.release("o/b", "2.1")                                  # of the next digest: not of this
    member = [entry for entry in desk.store.journal(board.account.id) if (entry.project, entry.version) == ("o/b", "2.0")][0]
    desk.store.resend(board.account.id, delivery_id=member.id)
    desk.at("2026-06-11T08:01:00+02:00")
    one, again = receiver.seen
    assert (one.path, one.body) == (again.path, again.body) and told_of(again) == ["o/a 2.1", "o/a 2.0", "o/b 2.0"]
    desk.at("2026-06-12T08:00:00+02:00")
    assert [told_of(seen) for seen in receiver.seen[2:]] == [["o/b 2.1"]]


def test_all_that_failed_at_a_destination_in_a_range_of_time_is_sent_again_and_nothing_else(board, listen):
    receiver, clock = listen(204), Clock()
    courier, project = courier_of(board, clock), board.track("github", "o/p")
    hook, other = board.webhook(receiver.url, "hook"), board.webhook(receiver.url, "other")
    began = clock.now
    for day in range(4):
        put_event(board, project, f"1.{day}", hook, other)
        for one in (hook, other):
            if (day, one) != (2, hook):     # which is delivered
                fail(board.store, one, 9)
        courier.send_due()
        clock.now += rt.DAY
    assert [seen.json()["version"] for seen in receiver.seen] == ["1.2"]
    board.store.resend(board.account.id, destination_id=hook.id, since=began + rt.HOUR, until=began + 3.5 * rt.DAY)
    clock.now += 1
    courier.send_due()
    assert [seen.json()["version"] for seen in receiver.seen] == ["1.2", "1.1", "1.3"]
    assert {entry.version for entry in board.store.journal(board.account.id, destination_id=hook.id, state="failed")} == {"1.0"}


def put_many(board: Board, count: int, *destinations: rt.Destination, each: int = 100) -> None:
    """Releases of many projects, of each so many."""
    for n in range(0, count, each):
        project = board.track("github", f"o/many{n}")
        events = [rt.Event(project.id, {"provider": "github", "project": project.name, "version": f"{n + k}", "time": "",
                                        "account": {"type": "user", "id": "a", "name": "Me"}}, "",
                           tuple(rt.Recipient(one.id, board.store.clock()) for one in destinations)) for k in range(each)]
        board.record(project.source_id, events=events)


def test_ten_thousand_that_failed_are_queued_again_apart_under_their_ids_with_their_attempts(board):
    clock = Clock()
    board.store.clock = clock
    hook = board.webhook("http://127.0.0.1:9/")
    put_many(board, 10_000, hook)
    fail(board.store, hook, 10_000)
    before = {entry.id: entry.created_at for entry in board.store.journal(board.account.id, limit=20_000, state="failed")}
    clock.now += rt.DAY
    began = time.monotonic()
    board.store.resend(board.account.id, destination_id=hook.id)
    assert time.monotonic() - began < 5
    after = board.store.journal(board.account.id, limit=20_000)
    assert {entry.id: entry.created_at for entry in after} == before and len(before) == 10_000
    assert {(entry.state, entry.attempts) for entry in after} == {("pending", 1)}
    due_at = sorted(entry.next_attempt_at for entry in after)
    assert min(later - sooner for sooner, later in zip(due_at, due_at[1:])) > 0.9 * rt.RESENT_EVERY
    assert due_at[0] == clock.now and due_at[-1] - clock.now < 1.1 * 10_000 * rt.RESENT_EVERY
    assert len(board.store.claim_deliveries({hook.id: 10_000}, "me", clock.now + 10 * rt.RESENT_EVERY)[hook.id]) <= 11


def test_hundreds_that_are_sent_again_come_apart_in_their_order_under_their_ids(board, listen):
    receiver, clock = listen(500), Clock()
    courier, hook = courier_of(board, clock), board.webhook(receiver.url)
    put_many(board, 300, hook)
    fail(board.store, hook, 300)
    ids = [entry.id for entry in reversed(board.store.journal(board.account.id, limit=999))]
    receiver.answer = 204
    board.store.resend(board.account.id, destination_id=hook.id)
    began, most = clock.now, 0
    while board.store.counts()["pending_deliveries"]:
        most = max(most, len(courier.send_due()))
        clock.now += 10 * rt.RESENT_EVERY
    assert most <= 11 and clock.now - began >= 299 * rt.RESENT_EVERY
    assert [seen.headers["webhook-id"] for seen in receiver.seen] == ids
    assert [seen.json()["version"] for seen in receiver.seen] == [str(n) for n in range(300)]
    assert {len(board.store.attempts(id_)) for id_ in ids} == {2}


def test_what_is_sent_again_after_days_has_a_whole_schedule_of_attempts_anew(board):
    clock, times = Clock(), []

    def post(request: rt.Request, is_trusted: bool) -> rt.Answer:
        times.append(clock.now)
        raise rt.Unreachable("it refused the connection")

    def try_for(seconds: float) -> list[float]:
        began, clock_end = clock.now, clock.now + seconds
        times.clear()
        while clock.now < clock_end:
            if not courier.send_due():
                clock.now += board.store.seconds_until_due(clock.now, rt.HOUR)
        return [at - began for at in times]

    board.store.clock = clock
    put_event(board, board.track("github", "o/p"), "1.0", board.webhook("http://127.0.0.1:9/"))
    courier = rt.Courier(board.store, post, board.service.settings, clock, lambda: 0.0)
    first = try_for(80 * rt.HOUR)
    entry, = board.store.journal(board.account.id, state="failed")
    board.store.resend(board.account.id, delivery_id=entry.id)
    assert try_for(80 * rt.HOUR) == first and len(first) > 15
    entry, = board.store.journal(board.account.id)
    assert entry.state == "failed" and entry.attempts == 2 * len(first)


def test_what_is_being_sent_is_not_queued_again_and_what_waits_for_a_retry_is_sent_at_once(board, listen):
    receiver, clock = listen(503), Clock()
    courier, hook = courier_of(board, clock), board.webhook(receiver.url)
    put_event(board, board.track("github", "o/p"), "1.0", hook)
    entry, = board.store.journal(board.account.id)
    claimed = board.store.claim_deliveries({hook.id: 1}, courier._me, clock.now)[hook.id]
    board.store.resend(board.account.id, delivery_id=entry.id)
    board.store.record_attempts(courier._me, courier.attempt(claimed))
    assert courier.send_due() == []
    board.store.resend(board.account.id, delivery_id=entry.id)
    receiver.answer = 204
    assert len(courier.send_due()) == 1 and len({seen.headers["webhook-id"] for seen in receiver.seen}) == 1


def test_2xx_of_a_webhook_is_success_and_all_else_is_tried_again_and_no_redirect_is_followed(board, listen):
    clock, target = Clock(), listen(200)
    accepted = {200, 201, 204, 299}
    refused = {300, 301, 302, 303, 304, 305, 307, 308, 400, 401, 403, 404, 410, 418, 422, 429, 500, 502, 503, 504, 599}
    receiver = listen(lambda seen: (int(seen.path[1:]), b"", {"Location": target.url}))
    courier = courier_of(board, clock)
    put_event(board, board.track("github", "o/p"), "1.0", *(
        board.webhook(f"{receiver.url}/{status}", str(status)) for status in accepted | refused))
    courier.send_due()
    entries = {int(entry.destination): entry for entry in board.store.journal(board.account.id)}
    assert {status for status, entry in entries.items() if entry.state == "delivered"} == accepted
    for status in refused:
        entry = entries[status]
        assert (entry.state, entry.next_attempt_at) == ("pending", clock.now + 30) and str(status) in entry.error
    receiver.answer, clock.now = 204, clock.now + 30
    assert len(courier.send_due()) == len(refused) and target.seen == []
    assert {entry.state for entry in board.store.journal(board.account.id)} == {"delivered"}


def test_a_wait_that_is_asked_for_only_lengthens_and_a_day_at_most(board, listen):
    clock = Clock(moment("2027-01-15T08:00:00Z"))
    asked = {"3": 30, "1000": 1000, "1000000000": 86400, "-1": 30, "soon": 30, "": 30, "Fri, 15 Jan 2027 08:10:00 GMT": 600,
             "Fri, 15 Jan 2021 08:10:00 GMT": 30, "Sun, 15 Jan 2040 08:00:00 GMT": 86400}
    headers = list(asked)
    receiver = listen(lambda seen: (int(seen.path[1:4]), b"", {"Retry-After": headers[int(seen.path[5:])]}))
    courier = courier_of(board, clock)
    put_event(board, board.track("github", "o/p"), "1.0", *(
        board.webhook(f"{receiver.url}/{status}/{n}", f"{status} {header}") for status in (429, 503) for n, header in enumerate(asked)))
    courier.send_due()
    assert {entry.destination: entry.next_attempt_at - clock.now for entry in board.store.journal(board.account.id)} == {
        f"{status} {header}": wait for status in (429, 503) for header, wait in asked.items()}


@pytest.mark.parametrize("jump", [-365 * rt.DAY, -rt.HOUR, 365 * rt.DAY])
@pytest.mark.parametrize("what", ["a retry", "a long wait", "a new one", "a digest", "sent again"])
def test_nothing_waits_for_more_than_a_day_longer_when_the_clock_is_set(board, listen, jump, what):
    receiver, clock = listen(503), Clock()
    courier, project = courier_of(board, clock), board.track("github", "o/p")
    topic, hook = an_ntfy_topic(board, receiver.url), board.webhook(receiver.url)
    wait = 1.1 * rt.DAY
    if what == "a digest":
        put_digest(board.store, project, [topic], ["1.0"], clock.now + rt.HOUR)
    else:
        if what == "sent again":        # at a time at which the clock was not ahead yet
            clock.now -= max(0.0, -jump)
        put_event(board, project, "1.0", hook)
    if what in ("a retry", "a long wait"):
        receiver.answer = lambda seen: (503, b"", {"Retry-After": "90000" if what == "a long wait" else "0"})
        courier.send_due()
    if what == "sent again":
        fail(board.store, hook, 1)
        clock.now += max(0.0, -jump)
        board.store.resend(board.account.id)
    clock.now += jump
    began = clock.now
    while not (made := courier.send_due()) and clock.now < began + 2 * rt.DAY:
        board.store.sweep(clock.now)        # as the courier's loop does once a minute
        clock.now += rt.HOUR
    assert made and clock.now - began <= wait


def test_deliveries_that_wait_for_retries_do_not_end_early_when_the_clock_is_set_forward_a_year(board, listen):
    """As on a board without a battery, which starts with an old time and is set right once its network is there."""
    receiver, clock = listen(503), Clock()
    courier, project = courier_of(board, clock), board.track("github", "o/p")
    put_event(board, project, "1.0", board.webhook(receiver.url))
    clock.now += 365 * rt.DAY
    courier.send_due()
    clock.now += rt.HOUR
    courier.send_due()
    assert [entry.state for entry in board.store.journal(board.account.id)] == ["pending"] and len(receiver.seen) == 2


def signatures(seen: Seen, secret: str) -> tuple[str, str]:
    """The contract's signature and that of Standard Webhooks, by their specifications."""
    stamp, id_ = seen.headers["webhook-timestamp"], seen.headers["webhook-id"]
    contract = hmac.new(secret.encode(), stamp.encode() + b"." + seen.body, hashlib.sha256).hexdigest()
    key = base64.b64decode(secret.split("_")[1])
    standard = hmac.new(key, f"{id_}.{stamp}.".encode() + seen.body, hashlib.sha256).digest()
    return contract, "v1," + base64.b64encode(standard).decode()


def test_for_a_day_after_its_renewal_the_previous_secret_signs_too(board, listen):
    receiver, clock = listen(204), Clock()
    courier, hook, project = courier_of(board, clock), board.webhook(receiver.url), board.track("github", "o/p")

    def sent(version: str) -> Seen:
        put_event(board, project, version, hook)
        courier.send_due()
        return receiver.seen[-1]

    old, before = hook.secret, sent("1.0")
    new = board.store.renew_secret(hook.id)
    assert new != old and before.headers["webhook-signature"] == signatures(before, old)[1]
    for version, later in (("1.1", 0.0), ("1.2", rt.DAY - 2)):
        clock.now += later
        seen = sent(version)
        assert set(seen.headers["webhook-signature"].split(" ")) == {signatures(seen, secret)[1] for secret in (new, old)}
        assert seen.headers["x-service-signature"] == signatures(seen, new)[0]
    clock.now += 3
    after = sent("1.3")
    assert after.headers["webhook-signature"] == signatures(after, new)[1]
    assert after.headers["x-service-signature"] == signatures(after, new)[0]


def test_what_failed_before_a_renewal_is_repeated_with_both_signatures_and_the_same_body(board, listen):
    receiver, clock = listen(500), Clock()
    courier, hook = courier_of(board, clock), board.webhook(receiver.url)
    put_event(board, board.track("github", "o/p"), "1.0", hook)
    courier.send_due()
    new = board.store.renew_secret(hook.id)
    clock.now += 30
    courier.send_due()
    one, two = receiver.seen
    assert one.body == two.body and one.headers["webhook-id"] == two.headers["webhook-id"]
    assert two.headers["webhook-signature"].split(" ") == [signatures(two, new)[1], signatures(two, hook.secret)[1]]


def mattermost(seen: Seen) -> Any:
    return 200, b"ok", {"Content-Type": "text/plain"}


def test_a_kind_that_wishes_a_pace_is_sent_no_faster_and_delays_no_other(board, listen):
    slow, quick = listen(mattermost), listen(pushed)
    every = rt.KINDS["mattermost"].every
    assert every > 0
    paced = [board.store.add_destination(board.account.id, "mattermost", f"channel {n}", rt.read_settings(
        "mattermost", [("url", f"{slow.url}/hooks/abc{n}")])) for n in range(5)]
    topic, project = an_ntfy_topic(board, quick.url), board.track("github", "o/p")
    for n in range(6):
        put_event(board, project, f"1.{n}", *paced, topic)
    courier, began = courier_of(board), time.monotonic()
    courier.start()
    quick.wait(6)
    slow.wait(30)
    until(lambda: board.store.counts()["pending_deliveries"] == 0)
    courier.stop()
    courier.join()
    assert max(seen.at for seen in quick.seen) - began < 2.5 * every
    for n in range(5):
        times = [seen.at for seen in slow.seen if seen.path == f"/hooks/abc{n}"]
        assert min(later - sooner for sooner, later in zip(times, times[1:])) >= every - 0.005
    assert slow.seen[-1].at - began < 5 * every + 1.5, "they wait side by side"


def test_a_check_that_sends_keeps_the_pace_of_a_kind_too(board, listen):
    receiver = listen(mattermost)
    every, project = rt.KINDS["mattermost"].every, board.track("github", "o/p")
    channel = board.store.add_destination(board.account.id, "mattermost", "channel", rt.read_settings(
        "mattermost", [("url", f"{receiver.url}/hooks/abc")]))
    for n in range(4):
        put_event(board, project, f"1.{n}", channel)
    assert len(courier_of(board).send_due()) == 4
    times = [seen.at for seen in receiver.seen]
    assert min(later - sooner for sooner, later in zip(times, times[1:])) >= every - 0.005


@pytest.mark.parametrize("way", ["told", "for nobody", "excluded"])
def test_the_next_release_of_a_project_has_waiting_retries_due_at_once_whoever_is_told_of_it(board, forge, listen, way):
    """The contract: retried with back-off, or as soon as another release of the project occurs."""
    receiver = listen(503)
    desk = Office(board, forge)
    an_ntfy_topic(board, receiver.url, is_security_only=way == "for nobody")
    desk.release("o/a", "2.0", "Fixes CVE-2026-1234")
    desk.set("o/a", exclude_prereleases=way == "excluded")
    desk.courier.send_due()
    desk.clock.now += 1
    receiver.answer = pushed
    assert desk.courier.send_due() == []
    desk.release("o/a", "2.1", prerelease=way == "excluded")
    desk.courier.send_due()
    assert desk.states()["2.0"] == "delivered"


@pytest.fixture
def second_schema(tmp_path: Any) -> str:
    """A store as the program of schema 2 left it."""
    path = str(tmp_path / "old.db")
    with contextlib.closing(sqlite3.connect(path)) as db:
        for script in rt.MIGRATIONS[:2]:
            db.executescript(script)
        db.executescript("""
            INSERT INTO account VALUES ('a1', 'user', 'me@example.org', 'Me', 'scrypt$00$00', 1, 'weekly', 'Europe/Berlin', 1000.5);
            INSERT INTO account VALUES ('a2', 'organization', 'team@example.org', 'Team', 'scrypt$00$00', 0, 'daily', 'UTC', 2000.0);
            INSERT INTO source (id, provider, key, name, next_check_at, checked_at, succeeded_at, failures, error)
                 VALUES (1, 'github', 'o/p', 'o/p', 9e9, 3000, 3000, 0, NULL), (2, 'github', 'o/bad', 'o/bad', 9e9, 5000, 4000, 7, 'no');
            INSERT INTO release (id, source_id, version, date, is_prerelease, cve, evidence)
                 VALUES (1, 1, '1.0', '2026-03-01T10:00:00', 0, 'CVE-2026-1234', 'published:x');
            INSERT INTO note VALUES (1, 42, 'One', '<p>One</p>', 'https://x.example');
            INSERT INTO project (id, account_id, source_id, provider, name, email_notification, exclude_prereleases, note, added_at)
                 VALUES ('p1', 'a1', 1, 'github', 'o/p', 'hourly', 1, 'mine', 1500), ('p2', 'a2', 2, 'github', 'o/bad', 'daily', 0, '', 1);
            INSERT INTO tag VALUES ('t1', 'a1', 'infra');
            INSERT INTO project_tag VALUES ('p1', 't1');
            INSERT INTO destination (id, account_id, kind, name, settings, secret, created_at) VALUES
                ('d1', 'a1', 'webhook', 'hook', '{"url":"http://127.0.0.1:9/","headers":{},"fields":{}}', 'whsec_AAAA', 1600);
            INSERT INTO project_destination VALUES ('p1', 'd1');
            INSERT INTO event VALUES (1, 'a1', 'p1', '{"provider":"github","project":"o/p","version":"1.0","time":"2026-03-01T10:00:00Z","account":{"type":"user","id":"a1","name":"Me"}}', 'https://x.example', 2000);
            INSERT INTO delivery (id, event_id, destination_id, state, next_attempt_at, attempts, created_at, settled_at)
                 VALUES ('v1', 1, 'd1', 'pending', 2030, 1, 2000, NULL), ('v2', 1, 'd1', 'delivered', 2000, 1, 2001, 2002);
            INSERT INTO attempt (id, delivery_id, attempted_at, status, error, duration, address)
                 VALUES (1, 'v1', 2000, 500, 'it answered 500', 0.1, '127.0.0.1'), (2, 'v2', 2002, 204, NULL, 0.1, '127.0.0.1');
            """)
    return path


def test_a_store_of_the_second_schema_keeps_everything_and_gains_mail_and_a_journal(second_schema):
    with contextlib.closing(sqlite3.connect(second_schema)) as db:
        tables = [name for name, in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")]
        columns = {table: [row[1] for row in db.execute(f"PRAGMA table_info({table})")] for table in tables}
        before = {table: db.execute(f"SELECT {', '.join(columns[table])} FROM {table} ORDER BY 1, 2").fetchall() for table in tables}
    store = rt.Store(second_schema, clock=lambda: 2040.0)
    try:
        for table in tables:
            rows = store._db.execute(f"SELECT {', '.join(columns[table])} FROM {table} ORDER BY 1, 2").fetchall()
            assert [row for row in rows if table != "destination" or row[2] != "email"] == before[table], table
        assert store._db.execute("PRAGMA user_version").fetchone() == (len(rt.MIGRATIONS),)
        assert store._db.execute("SELECT id, queued_at FROM delivery ORDER BY id").fetchall() == [("v1", 2000.0), ("v2", 2001.0)]
        assert store._db.execute("PRAGMA foreign_key_check").fetchall() == []
        for account in store.accounts():
            mail, = store.destinations(account.id, "email")
            assert mail.settings["to"] == "" and mail.is_for_every_project and len(mail.id) == 26
        assert store.project("a1", "p1").hold_days == 0 and store.project("a1", "p1").destinations == {"webhook": ("d1",)}
        assert [(entry.id, entry.state, entry.attempts, entry.version) for entry in store.journal("a1")] == [
            ("v2", "delivered", 1, "1.0"), ("v1", "pending", 1, "1.0")]
        assert store.source(1).failing_since is None and store.source(2).failing_since == 4000
        claimed = store.claim_deliveries({"d1": 9}, "me", 2040.0)["d1"]
        assert [(one.id, one.attempts, one.queued_at, one.digest_id) for one in claimed] == [("v1", 1, 2000.0, None)]
    finally:
        store.close()
    with contextlib.closing(sqlite3.connect(f"{second_schema}.schema-2")) as copy:
        assert copy.execute("PRAGMA user_version").fetchone() == (2,)
        assert copy.execute("SELECT count(*) FROM delivery").fetchone() == (2,)


def test_what_a_store_of_the_second_schema_had_to_send_is_sent_and_its_mail_is_the_accounts(second_schema, listen):
    receiver = listen(204)
    with contextlib.closing(sqlite3.connect(second_schema)) as db, db:
        db.execute("UPDATE destination SET settings = ?", (json.dumps({"url": receiver.url, "headers": {}, "fields": {}}),))
    service = rt.Service(rt.Settings(db=second_schema))
    clock = Clock(2040.0)
    service.store.clock = clock
    try:
        courier = rt.Courier(service.store, service.fetcher.post, service.settings, clock, lambda: 0.0)
        assert [delivery.id for delivery, _ in courier.send_due()] == ["v1"]
        assert receiver.seen[0].headers["webhook-id"] == "v1"
        mail, = service.store.destinations("a2", "email")
        about = service.store.account_of("a2")
        letter = rt.notification(rt.message_of([rt.Delivery("x" * 26, mail, about.email, False, json.loads(receiver.seen[0].body),
                                                            "", "release", 0, 0.0)], rt.sender_of(service.settings), 2040.0))
        assert letter.recipient == "team@example.org"
    finally:
        service.stop()


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
    secret = board.store.add_key(board.account.id, "narrow", [rt.read_network(one) for one in networks]).secret
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


def test_the_log_in_s_endpoint_cannot_be_reached_with_a_key_by_another_spelling(live):
    for path in ("/v1/auth%2Fkeys", "/v1/auth%2fkeys", "/v1//auth/keys", "/v1/auth/keys/", "/v1/auth%252Fkeys"):
        status, _, value = live.client.ask("GET", path)
        assert status in (401, 404) and "keys" not in value, path
    assert live.client.ask("GET", "/v1/projects%2Fsearch?q=a")[0] == 404


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
    assert answer.json == {"message": rt.REASONS[status], "code": status}


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
                       "url": "https://github.com/bottlepy/bottle/releases", "email_notification": "daily",
                       "source": {"next_check_at": project["source"]["next_check_at"]}}
    for path in (f"/v1/projects/{project['id']}", "/v1/projects/github/bottlepy/bottle",
                 f"/v1/project/{project['id']}", "/v1/project/github/bottlepy/bottle",
                 "/v1/projects/github/BottlePy/Bottle", "/v1/projects/github/bottlepy%2Fbottle"):
        assert board.ask("GET", path) == project


@pytest.mark.parametrize("body, errors", [
    ({"provider": "github"},                    ["Project name is required."]),
    ({"provider": "github", "name": ""},        ["Project name is required."]),
    ({"provider": "github", "name": None},      ["Project name is required."]),
    ({"provider": "github", "name": "  "},      ["Project name is required."]),
    ({"name": "a/b"},                           ["Provider is required, unless"]),
    ({},                                        ["Provider is required.", "Project name is required."]),
    ({"provider": "nope", "name": "a/b"},       ["Provider 'nope' is not known"]),
    ({"provider": 3, "name": []},               ["Field provider takes a text.", "Field name takes a text."]),
    ({"provider": "github", "name": "a"},       ["Project name 'a' has not the form that github takes"]),
    ({"provider": "github", "name": "a/b/c"},   ["Project name 'a/b/c' has not the form"]),
    ({"provider": "github", "name": "a/.."},    ["Project name 'a/..' has not the form"]),
    ({"provider": "github", "name": "a\0/b"},   ["Field name takes a text of at most 2000"]),
    ({"provider": "github", "name": "a/" + "b" * 300},      ["Project name 'a/bbb"]),
    ({"provider": "pypi", "name": "b\u00f6ttle"},           ["Project name 'böttle' has not the form"]),
    ({"provider": "github", "name": "\ud800/b"},            ["Field name takes a text of at most 2000"]),
    ({"name": "https://example.org/x"},                     ["Provider is required, unless"]),
    ({"provider": "gitlab", "name": "https://github.com/a/b"}, [
        "Project name 'https://github.com/a/b' is an address of the provider github, not gitlab."]),
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


def test_a_project_is_added_by_an_address_where_no_provider_is_named(board):
    for sent, provider, name in (
            ({"name": "https://github.com/bottlepy/bottle/releases/tag/0.13"},        "github",    "bottlepy/bottle"),
            ({"name": " hub.docker.com/_/nginx ", "provider": ""},                    "dockerhub", "library/nginx"),
            ({"name": "pkg:npm/%40angular/core@17.0.0", "provider": None},            "npm",       "@angular/core"),
            ({"name": "https://gitlab.gnome.org/GNOME/gtk", "provider": "gnome-gitlab"}, "gnome-gitlab", "GNOME/gtk")):
        project = board.ask("POST", "/v1/projects", sent)
        assert (project["provider"], project["name"]) == (provider, name)
    assert board.faults("POST", "/v1/projects", {"name": "github.com/BottlePy/bottle.git"})     # which is tracked already


def test_a_project_says_how_the_checks_of_it_go(board):
    project = board.track("github", "a/b", a_release("1.0"))
    assert board.store.claim_source(project.source_id, "test", time.time())
    board.store.record_failure(project.source_id, "test", "it refused the connection", time.time() + 60)
    for shown in (board.ask("GET", f"/v1/projects/{project.id}"), board.ask("GET", "/v1/projects")["projects"][0],
                  board.ask("GET", "/v1/projects/search?q=a")["projects"][0]):
        source = shown["source"]
        assert source.pop("error") == "it refused the connection"
        assert sorted(source) == ["checked_at", "next_check_at", "succeeded_at"]
        assert source["succeeded_at"] <= source["checked_at"] < source["next_check_at"]


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
    assert set(emptied) == {"id", "name", "provider", "url", "email_notification", "source"}
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


def test_while_the_store_cannot_be_written_reads_go_on_and_writes_are_told_to_come_again(board):
    with contextlib.closing(sqlite3.connect(board.store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert board.ask("GET", "/v1/tags") == {"tags": []}
        answer = board.app.post_json("/v1/tags", {"name": "x"}, headers={"X-Key": board.key}, expect_errors=True)
        assert (answer.status_int, answer.json) == (503, {"message": "Service Unavailable", "code": 503})
        assert int(answer.headers["Retry-After"]) > 0
        other.execute("ROLLBACK")
    assert board.ask("POST", "/v1/tags", {"name": "x"})["name"] == "x"


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
    for _ in range(10_000):
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
            assert value["message"] == rt.REASONS[status] and ("errors" in value) == (status == 400)
            assert all(isinstance(one, str) and one for one in value.get("errors", ["x"]))
    board.close()


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


def test_a_project_is_named_by_an_address_wherever_one_is_named(accounts, forge):
    forge.publish("acme/app", "v1.0")
    flags = ("--db", accounts, "--provider", forge.flag)
    address = f"{forge.listener.url}/acme/app/releases/tag/v1.0"
    id_ = done("project", "add", "me@example.org", address, *flags)
    row, = json.loads(done("project", "list", "me@example.org", "--json", *flags))
    assert (row["provider"], row["name"], row["id"]) == ("forge", "acme/app", id_)
    forge.publish("acme/app", "v1.1")
    assert done("check", "me@example.org", address, *flags) == "forge\tacme/app\tv1.1\tnew"
    assert done("fetch", address, *flags[2:]) == done("fetch", "forge", address, *flags[2:])
    status, _, said = ended(run("fetch", "github", address, *flags[2:]))
    assert status == 1 and "is an address of the provider forge, not github" in said
    status, _, said = ended(run("project", "add", "me@example.org", "https://example.org/x", *flags))
    assert status == 1 and "Provider is required, unless" in said and said.count("\n") == 1
    done("project", "remove", "me@example.org", address, *flags)
    assert done("project", "list", "me@example.org", *flags) == ""


@pytest.mark.parametrize("id_", rt.PROVIDERS)
def test_fetch_prints_what_each_provider_has(listen, capsys, id_):
    dialect = next(name for name, about in rt.DIALECTS.items() if about.read is rt.PROVIDERS[id_].dialect.read)
    _, name, _, answers_by_path, expected = next(
        row for row in LISTED.values() if row[0] == dialect and row[2] is None and (id_ != "pypi" or row[1] == "left-pad"))
    site = listen(answering(answers_by_path)).url
    # A warning is as loud as it may be to others in this process: a command changes what the log says for good.
    status = rt.main(["fetch", id_, name.replace("{site}", site), "--json", "--provider", f"{id_}={dialect}:{site}",
                      "--log-level", "warning"])
    assert status == 0
    found = {row["version"]: row for row in json.loads(capsys.readouterr().out)}
    assert found.keys() == {row[0] for row in expected}
    for version, date, is_prerelease, title, message, _ in expected:
        shown = found[version]
        assert (shown["date"], shown["is_prerelease"]) == (date, is_prerelease)
        if message is not None:
            assert (shown["note"]["title"], shown["note"]["message"]) == (title, message)


def test_a_command_that_does_not_know_a_provider_leaves_its_projects_as_they_are(accounts, forge):
    forge.publish("acme/app", "v1.0")
    flags = ("--db", accounts, "--provider", forge.flag)
    done("project", "add", "me@example.org", "forge", "acme/app", *flags)
    before = json.loads(done("project", "list", "me@example.org", "--json", *flags))
    status, said, wrong = ended(run("check", "--db", accounts))
    assert (status, said) == (1, "") and "no provider forge here" in wrong and "--provider forge=..." in wrong
    assert json.loads(done("project", "list", "me@example.org", "--json", *flags)) == before
    row, = json.loads(done("project", "list", "me@example.org", "--json", "--db", accounts))
    assert "no provider forge here" in row["error"]


def test_a_host_that_asked_to_wait_is_waited_for_by_the_next_command_too_unless_the_project_is_named(accounts, forge):
    forge.publish("acme/app", "v1.0")
    flags = ("--db", accounts, "--provider", forge.flag)
    done("project", "add", "me@example.org", "forge", "acme/app", *flags)
    forge.fault = (429, b"", {"Retry-After": "600"})
    assert ended(run("check", *flags))[0] == 1
    asked = len(forge.listener.seen)
    status, _, wrong = ended(run("check", *flags))
    assert status == 1 and "it is asked again at" in wrong and len(forge.listener.seen) == asked
    assert ended(run("check", "me@example.org", "forge", "acme/app", *flags))[0] == 1
    assert len(forge.listener.seen) > asked


@pytest.mark.parametrize("words, says", [
    (("github",),                                           "github is a provider; the name of a project is missing"),
    (("git", "https://me:secret@git.example/x.git"),        "must not hold user and password"),
    (("https://me:secret@git.example/x.git",),              "must not hold user and password"),
    (("git", "pkg:npm/x"),                                  "has not the form that git takes"),
])
def test_a_project_that_is_named_wrongly_is_told_how_and_no_password_is_repeated(words, says):
    status, _, wrong = ended(run("fetch", *words))
    assert status == 1 and says in wrong and wrong.count("\n") == 1 and "secret" not in wrong


def test_the_address_of_a_repository_may_be_written_as_git_takes_it():
    for text in ("git@git.example:o/r.git", "https://git.example/o/r.git", "git+https://git.example/o/r.git"):
        assert rt.project_at(rt.PROVIDERS, "git", text)[1] == "https://git.example/o/r.git"


def test_who_asks_with_a_token_is_told_that_it_does_not_open_the_project(listen):
    site = listen(401).url
    with pytest.raises(rt.ProviderError, match="private and needs a token in MY_FORGEJO_TOKEN"):
        listed("forgejo", site, "o/r")
    with pytest.raises(rt.ProviderError, match="the token in MY_FORGEJO_TOKEN does not open it"):
        listed("forgejo", site, "o/r", "t")
    with pytest.raises(rt.ProviderError, match="it does not exist, is private, or programs are kept out"):
        listed("cargo", site, "r")


def test_the_providers_are_listed_with_those_that_the_operator_added():
    rows = {row["id"]: row for row in json.loads(done("providers", "--json", "--provider", "home=gitlab:http://g.lan"))}
    assert set(rows) == {*rt.PROVIDERS, "home"}
    assert rows["home"] == {"id": "home", "form": "group/project", "example": None, "token_variable": "HOME_TOKEN",
                            "dialect": "gitlab", "site": "http://g.lan"}
    assert rows["gems"]["token_variable"] is None and rows["github-npm"]["token_variable"] == "GITHUB_TOKEN"
    assert "maven\tgroup:artifact\tcom.google.guava:guava\tMAVEN_TOKEN\tmaven" in done("providers")


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
    listed = json.loads(done("project", "list", "me@example.org", "--db", db, "--json",
                             "--provider", "dead=forgejo:http://127.0.0.1:9"))
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
        return json.loads(done("project", "list", "me@example.org", "--db", db, "--json",
                               env={"RELEASETRACK_PROVIDERS": forge.flag}))[0]["error"]

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
    first_key(db)
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


def test_the_first_start_prints_the_link_that_makes_an_account(serve, db):
    process = serve()
    assert process.process.stdout and f"{process.address}/setup?token=".encode() in process.process.stdout.readline()
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
    assert 'href="/releases/style.css"' in app.get("/releases/").follow().text
    board.close()


def test_behind_a_proxy_that_keeps_the_path_the_base_url_s_is_its_root(tmp_path):
    board = Board(tmp_path, base_url="https://home.example/releases/")
    headers = {"X-Key": board.key}
    assert board.app.get("/releases/v1/tags", headers=headers).json == board.app.get("/v1/tags", headers=headers).json
    assert 'action="/releases/login"' in board.app.get("/releases/").follow().text
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


# == cli =======================================================================


@pytest.fixture
def accounts(db: str) -> str:
    """A store with an administrator, me@example.org, and you@example.org, who is none."""
    store = rt.Store(db)
    an_account(store)
    an_account(store, "you@example.org")
    store.close()
    return db


def ended(finished: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return finished.returncode, finished.stdout, finished.stderr


def test_accounts_are_added_listed_changed_and_removed(db):
    add = ("account", "add", "--db", db, "--password-stdin")
    assert ended(run(*add, "me@example.org", "--name", "Me", stdin=PASSWORD + "\n", env={"TZ": "America/New_York"})) == (
        0, "account me@example.org made, an administrator\n", "")
    assert ended(run(*add, "you@example.org", "--type", "organization", "--time-zone", "Europe/Berlin",
                     stdin=PASSWORD + "\n")) == (
        0, "account you@example.org made\n", "")
    assert done("account", "list", "--db", db).splitlines() == [
        "me@example.org\tMe\tuser\tTrue\tAmerica/New_York\tdaily",
        "you@example.org\tyou@example.org\torganization\tFalse\tEurope/Berlin\tdaily"]
    assert json.loads(done("account", "list", "--json", "--db", db))[1] == {
        "email": "you@example.org", "name": "you@example.org", "type": "organization", "is_admin": False,
        "time_zone": "Europe/Berlin", "email_notification": "daily"}
    assert ended(run("account", "passwd", "me@example.org", "--db", db, "--password-stdin", stdin="another one\n")) == (
        0, "", "")
    store = rt.Store(db)
    me = store.account("me@example.org")
    store.close()
    assert me and rt.is_password("another one", me.password)
    assert ended(run("account", "change", "me@example.org", "--name", "I", "--time-zone", "Asia/Kolkata",
                     "--email-notification", "weekly", "--db", db)) == (0, "", "")
    assert ended(run("account", "remove", "you@example.org", "--db", db)) == (0, "", "")
    assert json.loads(done("account", "list", "--json", "--db", db)) == [
        {"email": "me@example.org", "name": "I", "type": "user", "is_admin": True, "time_zone": "Asia/Kolkata",
         "email_notification": "weekly"}]


def test_keys_are_added_listed_and_removed_and_only_add_tells_the_secret(accounts):
    secret = run("key", "add", "me@example.org", "ci", "--db", accounts,
                 "--network", "10.0.0.7/8", "--network", "fd00::1").stdout
    assert re.fullmatch(r"rt_[0-9a-f]{64}\n", secret)
    done("key", "add", "me@example.org", "everywhere", "--db", accounts)
    assert json.loads(done("key", "list", "me@example.org", "--json", "--db", accounts)) == [
        {"name": "ci", "networks": "10.0.0.0/8 fd00::1/128", "used_at": None},
        {"name": "everywhere", "networks": "0.0.0.0/0 ::/0", "used_at": None}]
    assert run("key", "list", "me@example.org", "--db", accounts).stdout == (
        "ci\t10.0.0.0/8 fd00::1/128\t-\neverywhere\t0.0.0.0/0 ::/0\t-\n")
    assert ended(run("key", "remove", "me@example.org", "ci", "--db", accounts)) == (0, "", "")
    assert done("key", "list", "me@example.org", "--db", accounts) == "everywhere\t0.0.0.0/0 ::/0\t-"


def test_fetch_prints_what_a_provider_has_and_makes_no_store(forge, tmp_path):
    forge.publish("acme/app", "v1.0", body="Fixes CVE-2026-12345")
    forge.publish("acme/app", "v2.0-rc1")
    finished = run("fetch", "forge", "acme/app", "--provider", forge.flag, cwd=tmp_path)
    assert ended(finished) == (0, "2026-03-01T10:01:00Z\tv2.0-rc1\tpre-release\n"
                                  "2026-03-01T10:00:00Z\tv1.0\tCVE-2026-12345\n", "")
    newest, oldest = json.loads(done("fetch", "forge", "acme/app", "--json", cwd=tmp_path,
                                     env={"RELEASETRACK_PROVIDERS": forge.flag}))
    assert (newest["version"], newest["date"], newest["is_prerelease"], newest["cve"]) == (
        "v2.0-rc1", "2026-03-01T10:01:00Z", True, [])
    assert (oldest["cve"], oldest["is_prerelease"]) == (["CVE-2026-12345"], False)
    assert oldest["note"]["title"] == "Release v1.0" and "CVE-2026-12345" in oldest["note"]["message"]
    assert oldest["note"]["url"] == "https://forge.example/acme/app/releases/tag/v1.0"
    assert not list(tmp_path.glob("*.db*"))


def test_projects_are_added_checked_listed_and_removed_and_what_is_new_is_told_and_sent(accounts, forge, listen):
    flags = ("--db", accounts, "--provider", forge.flag)
    hook = listen()
    done("webhook", "add", "me@example.org", "hook", hook.url, *flags)
    forge.publish("acme/app", "v1.0")
    id_ = run("project", "add", "me@example.org", "forge", "acme/app", *flags).stdout
    assert re.fullmatch(r"[a-z2-7]{26}\n", id_)
    row, = json.loads(done("project", "list", "me@example.org", "--json", *flags))
    assert all(row.pop(name).endswith("Z") for name in ("checked_at", "succeeded_at", "next_check_at"))
    assert row == {"provider": "forge", "name": "acme/app", "id": id_.strip(), "quota_left": None,
                   "missing_since": None, "error": None}
    assert run("project", "list", "me@example.org", *flags).stdout.split("\t")[:3] == ["forge", "acme/app", id_.strip()]

    assert ended(run("check", *flags, "--send")) == (0, "", "")
    assert hook.seen == []                                                  # history notifies nobody
    forge.publish("acme/app", "v1.1")
    assert ended(run("check", "me@example.org", "forge", "acme/app", *flags)) == (0, "forge\tacme/app\tv1.1\tnew\n", "")
    assert hook.seen == []
    assert ended(run("check", *flags, "--send")) == (0, "", "")
    assert [seen.json()["version"] for seen in hook.seen] == ["v1.1"]
    forge.publish("acme/app", "v1.2", "v1.3")
    assert run("check", *flags, "--send").stdout == "forge\tacme/app\tv1.2\tnew\nforge\tacme/app\tv1.3\tnew\n"
    assert [seen.json()["version"] for seen in hook.seen] == ["v1.1", "v1.2", "v1.3"]

    assert ended(run("check", "you@example.org", *flags)) == (0, "", "")     # tracks nothing
    forge.fault = 500, "out of order"
    finished = run("check", *flags)
    assert (finished.returncode, finished.stdout, finished.stderr.count("\n")) == (1, "", 1), finished.stderr
    assert "acme/app" in finished.stderr
    assert ended(run("project", "remove", "me@example.org", "forge", "acme/app", *flags)) == (0, "", "")
    assert done("project", "list", "me@example.org", *flags) == ""


def test_webhooks_are_added_listed_and_removed_and_their_headers_and_fields_are_sent(accounts, forge, listen):
    flags, hook = ("--db", accounts, "--provider", forge.flag), listen()
    secret = run("webhook", "add", "me@example.org", "chat", hook.url, "--header", "X-Room: kitchen: 2",
                 "--header", "Authorization: Bearer t", "--field", "text={project} {{x}} = {version}",
                 "--field", "pre={is_prerelease}", *flags).stdout
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=\n", secret)
    row, = json.loads(done("webhook", "list", "me@example.org", "--json", *flags))
    assert (row["name"], row["url"]) == ("chat", hook.url) and re.fullmatch("[a-z2-7]{26}", row["id"])
    assert run("webhook", "list", "me@example.org", *flags).stdout == f"chat\t{hook.url}\t{row['id']}\n"
    forge.publish("acme/app", "v1.0")
    done("project", "add", "me@example.org", "forge", "acme/app", *flags)
    forge.publish("acme/app", "v1.1")
    done("check", "--send", *flags)
    seen, = hook.seen
    assert seen.json() == {"text": "acme/app {x} = v1.1", "pre": "false"}
    assert (seen.headers["x-room"], seen.headers["authorization"]) == ("kitchen: 2", "Bearer t")
    assert ended(run("webhook", "remove", "me@example.org", "chat", *flags)) == (0, "", "")
    assert done("webhook", "list", "me@example.org", *flags) == ""


def test_a_private_address_takes_an_administrator_or_the_operators_word(accounts, listen):
    hook = listen()
    refused = run("webhook", "add", "you@example.org", "hook", hook.url, "--db", accounts)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert "127.0.0.1" in refused.stderr and "--allow-network" in refused.stderr
    assert done("webhook", "add", "you@example.org", "hook", hook.url, "--db", accounts,
                "--allow-network", "127.0.0.0/8").startswith("whsec_")
    assert done("webhook", "add", "me@example.org", "hook", hook.url, "--db", accounts).startswith("whsec_")
    metadata = run("webhook", "add", "me@example.org", "evil", "http://169.254.169.254/", "--db", accounts,
                   "--allow-network", "0.0.0.0/0")
    assert metadata.returncode == 1 and "169.254.169.254" in metadata.stderr
    assert hook.seen == []


def test_backup_copies_the_store_of_a_running_service(serve, db, tmp_path):
    service = serve()
    key = first_key(db)
    assert ended(run("backup", str(tmp_path / "copy.db"), "--db", db)) == (0, "", "")
    assert ended(run("backup", str(tmp_path / "copy.db"), "--db", db)) == (0, "", "")     # over the old one
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    copy = rt.Store(str(tmp_path / "copy.db"))
    assert copy.key_by_secret(key)
    copy.close()
    assert not list(tmp_path.glob("*.part*"))
    assert service.end() == 0


MISTAKES = [
    # what is typed                                                       status  what the line names
    ("account add nonsense --password-stdin",                             1, ["nonsense"]),
    ("account add me@example.org --password-stdin",                       1, ["me@example.org", "already"]),
    ("account add new@example.org --password-stdin",                      1, ["8 to 1,024"]),
    ("account add new@example.org --type robot --password-stdin",         2, ["robot", "organization"]),
    ("account passwd nobody@example.org --password-stdin",                1, ["nobody@example.org"]),
    ("account remove nobody@example.org",                                 1, ["nobody@example.org"]),
    ("key add nobody@example.org ci",                                     1, ["nobody@example.org"]),
    ("key add me@example.org ci --network 10.0.0.0/99",                   1, ["--network", "192.168.0.0/16"]),
    ("key remove me@example.org ci",                                      1, ["ci"]),
    ("fetch nowhere acme/app",                                            1, ["nowhere", "github"]),
    ("fetch forge acme",                                                  1, ["'acme'", "form", "owner/repo"]),
    ("fetch forge acme/nothing",                                          1, ["acme/nothing"]),
    ("fetch closed acme/app",                                             1, ["closed"]),
    ("project add me@example.org nowhere acme/app",                       1, ["nowhere"]),
    ("project add me@example.org forge ../../etc",                        1, ["../../etc", "form"]),
    ("project add me@example.org forge acme/nothing",                     1, ["acme/nothing"]),
    ("project remove me@example.org forge acme/app",                      1, ["acme/app"]),
    ("check nobody@example.org",                                          1, ["nobody@example.org"]),
    ("check me@example.org forge",                                        2, ["NAME"]),
    ("check me@example.org forge acme/app",                               1, ["acme/app"]),
    ("webhook add me@example.org hook ftp://hook.example",                1, ["ftp://hook.example"]),
    ("webhook add me@example.org hook http://user:pw@hook.example",       1, ["hook.example"]),
    ("webhook add me@example.org hook http://127.0.0.1:65616",            1, ["65616"]),
    ("webhook add me@example.org hook http://127.0.0.1 --header Host:x",  1, ["Host"]),
    ("webhook add me@example.org hook http://127.0.0.1 --header X",       1, ["X"]),
    ("webhook add me@example.org hook http://127.0.0.1 --field a={secret}", 1, ["{secret}", "note_text"]),
    ("webhook remove me@example.org hook",                                1, ["hook"]),
    ("backup no-such-folder/copy.db",                                     1, ["no-such-folder/copy.db"]),
    ("backup copy.db --db no-such.db",                                    1, ["no-such.db"]),
    ("account list --db no-such-folder/a.db",                             1, ["no-such-folder/a.db"]),
    ("account list --db newer.db",                                        1, ["newer.db", "newer releasetrack"]),
    ("serve --db newer.db --port 0",                                      1, ["newer.db", "newer releasetrack"]),
    ("serve --db a-file/a.db --port 0",                                   1, ["a-file/a.db", "writable"]),
    ("serve --port {taken}",                                              1, ["{taken}"]),
    ("serve --host 192.0.2.1 --port 0",                                   1, ["192.0.2.1"]),
    ("backup releasetrack.db",                                            1, ["the store itself"]),
    ("backup newer.db-wal --db newer.db",                                 1, ["newer.db"]),
    ("serve --db :memory: --port 0",                                      1, ["takes a file"]),
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[pathlib.Path, dict[str, str], str]]:
    """A folder with a store, an environment that names it and a forge, and a port that is taken."""
    folder = tmp_path_factory.mktemp("desk")
    store = rt.Store(str(folder / "releasetrack.db"))
    an_account(store)
    store.close()
    newer(folder / "newer.db")
    (folder / "a-file").touch()
    forge = Forge()
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield folder, {"RELEASETRACK_PROVIDERS": f"{forge.flag} closed=forgejo:http://127.0.0.1:{closed}"}, str(
            taken.getsockname()[1])
    forge.close()


@pytest.mark.parametrize("typed, status, words", MISTAKES)
def test_a_mistake_is_told_in_one_line_and_nothing_comes_of_it(desk, typed, status, words):
    folder, env, taken = desk
    store = rt.Store(str(folder / "releasetrack.db"))
    before = everything(store), sorted(path.name for path in folder.iterdir())
    finished = run(*typed.replace("{taken}", taken).split(), env=env, cwd=folder, stdin="short\n")
    assert (finished.returncode, finished.stdout) == (status, ""), finished.stderr
    assert finished.stderr.count("\n") == 1 and "Traceback" not in finished.stderr, finished.stderr
    assert all(word.replace("{taken}", taken) in finished.stderr for word in words), finished.stderr
    assert (everything(store), sorted(path.name for path in folder.iterdir())) == before
    store.close()


def test_a_project_whose_provider_does_not_answer_is_added_and_tried_again_later(accounts):
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()[1]
    finished = run("project", "add", "me@example.org", "closed", "acme/app", "--db", accounts,
                   "--provider", f"closed=forgejo:http://127.0.0.1:{closed}")
    assert finished.returncode == 0 and re.fullmatch(r"[a-z2-7]{26}\n", finished.stdout)
    assert finished.stderr.count("\n") == 1 and "later" in finished.stderr


class Desk:
    """A person at the command line, in this process: a store with an administrator, me@example.org, and
    you@example.org, who is none."""

    def __init__(self, db: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.db, self._capsys = db, capsys
        self.store = rt.Store(db)
        self.me, self.you = (
            self.store.account(f"{name.lower()}@example.org")
            or self.store.add_account("user", f"{name.lower()}@example.org", name, HASHED, name == "Me")
            for name in ("Me", "You"))

    def type(self, *words: str) -> tuple[int, str, str]:
        """``(status, standard output, standard error)`` of a command."""
        self._capsys.readouterr()
        level = rt.log.level
        try:
            status = rt.main([*words, *(() if "--help" in words else ("--db", self.db))])
        except SystemExit as ending:
            status = int(ending.code or 0)
        finally:
            rt.log.setLevel(level)      # a command quietens the log of its process
        said = self._capsys.readouterr()
        return status, said.out, said.err

    def ok(self, *words: str) -> str:
        status, out, err = self.type(*words)
        assert (status, err) == (0, ""), (words, err)
        return out

    def json(self, *words: str) -> Any:
        return json.loads(self.ok(*words, "--json"))

    def refused(self, *words: str, status: int = 1) -> str:
        """What is said of a mistake: one line, status 1 or the given one, and nothing has changed."""
        before = everything(self.store)
        found, out, err = self.type(*words)
        assert (found, out) == (status, ""), (words, out, err)
        assert err.startswith("releasetrack: ") and err.endswith("\n") and len(err.splitlines()) == 1, err
        assert all(letter.isprintable() for letter in err.rstrip("\n")), err
        assert everything(self.store) == before
        return err

    def add(self, kind: str, name: str, *settings: str, account: str = "me@example.org", more: Sequence[str] = ()) -> str:
        return self.ok("destination", "add", account, kind, name, *sets(*settings), *more).strip()

    def row(self, name: str, account: str = "me@example.org") -> dict[str, Any]:
        """A destination as the list shows it to programs."""
        row, = [row for row in self.json("destination", "list", account) if row["name"] == name]
        return row

    def destination(self, kind: str, name: str) -> rt.Destination:
        found, = self.store.destinations(self.me.id, kind, name)
        return found


def sets(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store that many mistakes are typed at, none of which changes it: two topics of ntfy, a tag, a delivery of mine
    and one of another account's."""
    path = str(tmp_path_factory.mktemp("furnished") / "releases.db")
    store = rt.Store(path)
    for name in ("me", "you"):
        account = store.add_account("user", f"{name}@example.org", name, HASHED, name == "me")
        hook = store.add_destination(account.id, "webhook", "hook", rt.read_settings(
            "webhook", [("url", "http://127.0.0.1:9")]), rt.make_signing_secret())
        project, source = store.add_project(account.id, "github", "o/p", "o/p", {})
        assert store.claim_source(source.id, "test", time.time())
        body = {"provider": "github", "project": "o/p", "version": "1", "time": "2026-03-01T10:00:00Z",
                "account": {"type": "user", "id": account.id, "name": name}}
        store.record_found(source.id, "test", rt.Findings(time.time() + 3600, events=[
            rt.Event(project.id, body, "", (rt.Recipient(hook.id, time.time()),))]))
    me = store.account("me@example.org")
    assert me
    store.add_tag(me.id, "infra")
    for name in ("phone", "tablet"):
        store.add_destination(me.id, "ntfy", name, rt.read_settings("ntfy", [
            ("topic", "a"), ("server", "http://127.0.0.1:9")]))
    store.close()
    return path


@pytest.fixture
def mistaken(furnished: str, capsys: pytest.CaptureFixture[str]) -> Iterator[Desk]:
    made = Desk(furnished, capsys)
    yield made
    made.store.close()


@pytest.fixture
def typed(db: str, capsys: pytest.CaptureFixture[str]) -> Iterator[Desk]:
    made = Desk(db, capsys)
    yield made
    made.store.close()


def planted(url: str) -> dict[str, tuple[list[str], list[str]]]:
    """For each kind settings that lead to ``url``, and what of them nobody may be shown."""
    return {
        "slack": ([f"url={url}/services/T000/B000/slackSECRETslack0001", f"server={url}", "channel=#releases",
                   "team_name=Home"], ["slackSECRETslack0001"]),
        "telegram": (["token=123456789:telegramSECRETtelegramSECRETtel01", "chat=-42", f"server={url}"],
                     ["telegramSECRETtelegramSECRETtel01"]),
        "discord": ([f"url={url}/api/webhooks/123456789012345678/discordSECRETdiscord01", f"server={url}"],
                    ["discordSECRETdiscord01"]),
        "hangouts_chat": ([f"url={url}/v1/spaces/AAAA/messages?key=googleSECRETkey00001&token=googleSECRETtoken001",
                           f"server={url}"], ["googleSECRETkey00001", "googleSECRETtoken001"]),
        "microsoft_teams": ([f"url={url}/workflows/x/triggers/manual/paths/invoke?api-version=1&sig=teamsSECRETsig000001",
                             f"server={url}"], ["teamsSECRETsig000001"]),
        "mattermost": ([f"url={url}/hooks/mattermostSECRET0001"], ["mattermostSECRET0001"]),
        "rocketchat": ([f"url={url}/hooks/64f0c0ffee0000000000/rocketSECRETrocket001"], ["rocketSECRETrocket001"]),
        "matrix": ([f"homeserver_url={url}", "internal_room_id=!room:example.org", "token=matrixSECRETmatrix001"],
                   ["matrixSECRETmatrix001"]),
        "webhook": ([f"url={url}/hook", "header=Authorization: Bearer webhookSECRETheader01", "header=X-Room: kitchen"],
                    ["webhookSECRETheader01"]),
        "ntfy": (["topic=releases", "token=me:ntfySECRETpassword01", f"server={url}"], ["ntfySECRETpassword01"]),
        "gotify": ([f"url={url}", "token=gotifySECRET0001"], ["gotifySECRET0001"]),
        "pushover": (["token=pushoverSECRETpushoverSECRET01", "user=pushoverUSERpushoverUSER000001", f"server={url}"],
                     ["pushoverSECRETpushoverSECRET01", "pushoverUSERpushoverUSER000001"]),
        "apprise": ([f"url={url}/notify/appriseSECRETkey0001", "urls=tgram://appriseSECRETurls001/42"],
                    ["appriseSECRETkey0001", "appriseSECRETurls001"]),
        "email": (["to=me@example.net"], []),
    }


def echo(seen: Seen) -> Any:
    """A receiver that refuses, and says back all that it was sent."""
    return 500, {"error": {"path": seen.path, "headers": list(seen.headers.values()), "body": seen.body.decode()}}


def accept(seen: Seen) -> Any:
    """A receiver that takes everything, in the words of every service."""
    is_hook = re.match("/(services|hooks/mattermost)", seen.path)
    return 200, b"ok" if is_hook else {"ok": True, "id": "1", "name": "n", "success": True, "event_id": "$e", "status": 1}


def no_secrets(text: str, *secrets: str) -> None:
    assert not [secret for secret in secrets if secret in text], text


def test_destinations_of_every_kind_are_added_listed_renamed_and_removed(typed):
    """Each is there under its kind and name; the list tells what it hears of, and no secret."""
    kinds = planted("http://127.0.0.1:9")
    assert set(kinds) == set(rt.KINDS)
    for kind, (settings, _) in kinds.items():
        status, said, err = typed.type("destination", "add", "me@example.org", kind, f"my {kind}", *sets(*settings))
        assert status == 0 and ("--smtp-url" in err if kind == "email" else err == ""), err
        said = said.strip()
        assert re.fullmatch("whsec_.{44}" if kind == "webhook" else "[a-z2-7]{26}", said)
    rows = [row for row in typed.json("destination", "list", "me@example.org") if row["name"].startswith("my ")]
    assert [row["kind"] for row in rows] == list(kinds)
    plain = typed.ok("destination", "list", "me@example.org")
    secrets = [secret for _, secrets in kinds.values() for secret in secrets]
    secrets += [one.secret for one in typed.store.destinations(typed.me.id, "webhook")]
    no_secrets(plain + json.dumps(rows), *secrets)
    assert all(row["is_for_every_project"] and not row["is_security_only"] for row in rows)
    by_kind = {row["kind"]: row["settings"] for row in rows}
    assert by_kind["slack"]["channel"] == "#releases" and by_kind["ntfy"]["topic"] == "releases"
    for kind in kinds:
        assert typed.ok("destination", "change", "me@example.org", kind, f"my {kind}", "--rename", "other") == ""
        assert typed.ok("destination", "remove", "me@example.org", kind, "other") == ""
    assert not [row for row in typed.json("destination", "list", "me@example.org") if row["kind"] != "email"]
    assert typed.store.destinations(typed.you.id, "slack") == []


def test_all_headers_and_fields_of_a_webhook_are_listed_the_headers_without_their_values(typed):
    typed.add("webhook", "hook", "url=http://127.0.0.1:9", "header=X-One: valueSECRETone", "header=X-Two: valueSECRETtwo",
              "field=a={version}", "field=b={project}")
    for said in (typed.ok("destination", "list", "me@example.org"), json.dumps(typed.row("hook"))):
        assert all(word in said for word in ("X-One", "X-Two", "a={version}", "b={project}")), said
        no_secrets(said, "valueSECRETone", "valueSECRETtwo")


def test_a_secret_is_not_listed_however_short_it_is(typed):
    typed.add("ntfy", "phone", "topic=releases", "token=q7z")
    typed.add("webhook", "hook", "url=http://127.0.0.1:9", "header=X-Pin: 42!")
    said = typed.ok("destination", "list", "me@example.org") + typed.ok("destination", "list", "me@example.org", "--json")
    no_secrets(said, "q7z", "42!")


def test_what_a_list_prints_is_a_line_for_each_row_whatever_its_fields_hold(typed):
    typed.add("webhook", "hook", "url=http://127.0.0.1:9", "field=text={project}\n{version}\t\x1b[31m{url}")
    said = typed.ok("destination", "list", "me@example.org")
    assert len(said.splitlines()) == 2 and "\x1b" not in said     # and the account's own mail address
    assert len({line.count("\t") for line in said.splitlines()}) == 1


def test_the_list_of_kinds_holds_every_setting_that_a_kind_takes(typed):
    rows = typed.json("destination", "kinds")
    assert {(row["kind"], row["setting"]) for row in rows} == {
        (id_, ask.name) for id_, kind in rt.KINDS.items() for ask in kind.asks}
    assert all(row["about"] for row in rows)
    assert len(typed.ok("destination", "kinds").splitlines()) == len(rows)


LONG = "x" * 5000
DESTINATION_MISTAKES = [
    # what is typed behind "destination"                                           status  what the line names
    (["add", "me@example.org", "pigeon", "a"],                                         2, ["pigeon", "ntfy"]),
    (["add", "nobody@example.org", "ntfy", "a", "--set", "topic=a"],                   1, ["nobody@example.org"]),
    (["add", "me@example.org", "ntfy", "", "--set", "topic=a"],                        1, ["name", "1 to"]),
    (["add", "me@example.org", "ntfy", "   ", "--set", "topic=a"],                     1, ["name", "1 to"]),
    (["add", "me@example.org", "ntfy", "a\tb", "--set", "topic=a"],                    1, ["name", "printable"]),
    (["add", "me@example.org", "ntfy", "a\nb", "--set", "topic=a"],                    1, ["name", "printable"]),
    (["add", "me@example.org", "ntfy", "a\x1b[31m", "--set", "topic=a"],               1, ["name", "printable"]),
    (["add", "me@example.org", "ntfy", "a\u202eb", "--set", "topic=a"],                1, ["name", "printable"]),
    (["add", "me@example.org", "ntfy", LONG, "--set", "topic=a"],                      1, ["name", "1 to"]),
    (["add", "me@example.org", "ntfy", "a"],                                           1, ["topic", "required"]),
    (["add", "me@example.org", "ntfy", "phone", "--set", "topic=b"],                   1, ["phone", "already"]),
    (["add", "me@example.org", "ntfy", "a", "--set", "topic"],                         1, ["--set", "topic", "SETTING=VALUE"]),
    (["add", "me@example.org", "ntfy", "a", "--set", ""],                              1, ["--set", "SETTING=VALUE"]),
    (["add", "me@example.org", "ntfy", "a", "--set", "=a"],                            1, ["setting", "topic", "server"]),
    (["add", "me@example.org", "ntfy", "a", "--set", "topic=a", "--set", "room=b"],    1, ["room", "topic", "server"]),
    (["add", "me@example.org", "ntfy", "a", "--set", "topic=a", "--set", "a\nb=c"],    1, ["topic", "server"]),
    (["add", "me@example.org", "ntfy", "a", "--set", "topic="],                        1, ["topic"]),
    (["add", "me@example.org", "ntfy", "a", "--set", "topic=a b"],                     1, ["topic", "letters"]),
    (["add", "me@example.org", "ntfy", "a", "--set", "topic=a\n"],                     1, ["topic", "letters"]),
    (["add", "me@example.org", "ntfy", "a", "--set", f"topic={LONG}"],                 1, ["topic", "64"]),
    (["add", "me@example.org", "ntfy", "a", "--set", "topic=a", "--set", "priority=9"],  1, ["priority", "1 to 5"]),
    (["add", "me@example.org", "ntfy", "a", "--set", "topic=a", "--set", "server=ntfy.sh"], 1, ["server", "https://"]),
    (["add", "me@example.org", "ntfy", "a", "--set", "topic=a", "--tag", "nope"],      1, ["tag", "nope", "infra"]),
    (["add", "me@example.org", "ntfy", "a", "--set", "topic=a", "--tag", "a\nb"],      1, ["tag", "infra"]),
    (["add", "me@example.org", "ntfy", "a", "--set", "topic=a", "--without-tag", "nope"], 1, ["tag", "nope", "infra"]),
    (["add", "me@example.org", "ntfy", "a", "--set", "topic=a", "--schedule", "monthly"], 2, ["monthly", "weekly"]),
    (["add", "me@example.org", "webhook", "a", "--set", "url=http://127.0.0.1:9", "--schedule", "daily"],
     1, ["--schedule", "webhook"]),
    (["add", "me@example.org", "email", "a", "--schedule", "daily"],                   1, ["--schedule", "email_notification"]),
    (["add", "me@example.org", "email", "a", "--set", "to=nonsense"],                  1, ["to", "mail address"]),
    (["add", "me@example.org", "email", "a", "--set", "to=a@b.example\r\nBcc: c@d.example"], 1, ["to", "mail address"]),
    (["add", "me@example.org", "gotify", "a", "--set", "token=AbCdEf.123"],            1, ["url", "required"]),
    (["add", "me@example.org", "gotify", "a", "--set", "token=AbCdEf.123", "--set", "url="], 1, ["url"]),
    (["add", "me@example.org", "matrix", "a", "--set", "token=abcdefgh12", "--set", "internal_room_id=!a:b", "--set",
      "homeserver_url="],                                                              1, ["homeserver_url"]),
    (["add", "me@example.org", "matrix", "a", "--set", "token=abcdefgh12", "--set", "internal_room_id=#a:b", "--set",
      "homeserver_url=https://m.example"],                                             1, ["internal_room_id", "#room"]),
    (["add", "me@example.org", "slack", "a"],                                          1, ["url", "token", "channel"]),
    (["add", "me@example.org", "slack", "a", "--set", "token=xoxb-1234567890"],        1, ["channel"]),
    (["add", "me@example.org", "slack", "a", "--set", "url=https://example.org/"],     1, ["url", "hooks.slack.com"]),
    (["add", "me@example.org", "discord", "a", "--set", "url=https://discord.com/channels/1/2"], 1, ["url", "api/webhooks"]),
    (["add", "me@example.org", "telegram", "a", "--set", "token=abc", "--set", "chat=x y"], 1, ["token", "chat", "@name"]),
    (["add", "me@example.org", "webhook", "a", "--set", "url=http://127.0.0.1:9", "--set", "header=Host: a"], 1, ["Host"]),
    (["add", "me@example.org", "webhook", "a", "--set", "url=http://127.0.0.1:9", "--set", "header=X-A: 1\r\nX-B: 2"],
     1, ["X-A", "printable"]),
    (["add", "me@example.org", "webhook", "a", "--set", "url=http://127.0.0.1:9", "--set", "header=X-Service-Signature: 1"],
     1, ["X-Service-Signature"]),
    (["add", "me@example.org", "webhook", "a", "--set", "url=http://127.0.0.1:9", "--set", "field=a"], 1, ["NAME=TEMPLATE"]),
    (["add", "me@example.org", "webhook", "a", "--set", "url=http://127.0.0.1:9", "--set", "field=a={nope}"],
     1, ["{nope}", "note_text"]),
    (["add", "me@example.org", "webhook", "a", "--set", "url=http://127.0.0.1:9", "--set", "field=a\nb={nope}"],
     1, ["{nope}", "note_text"]),
    (["add", "you@example.org", "gotify", "a", "--set", "url=http://127.0.0.1:9", "--set", "token=AbCdEf.123"],
     1, ["127.0.0.1", "--allow-network"]),
    (["add", "me@example.org", "gotify", "a", "--set", "url=http://169.254.169.254", "--set", "token=AbCdEf.123"],
     1, ["169.254.169.254"]),
    (["change", "me@example.org", "ntfy", "nope", "--set", "topic=b"],                 1, ["nope", "phone", "tablet"]),
    (["change", "me@example.org", "ntfy", "no\npe", "--set", "topic=b"],               1, ["ntfy", "phone"]),
    (["change", "me@example.org", "slack", "phone", "--set", "channel=b"],             1, ["slack", "phone"]),
    (["change", "me@example.org", "ntfy", "phone", "--rename", "tablet"],              1, ["tablet", "already"]),
    (["change", "me@example.org", "ntfy", "phone", "--rename", "a\tb"],                1, ["name", "printable"]),
    (["change", "me@example.org", "ntfy", "phone", "--rename", ""],                    1, ["name", "1 to"]),
    (["change", "me@example.org", "ntfy", "phone", "--set", "topic="],                 1, ["topic"]),
    (["change", "me@example.org", "ntfy", "phone", "--set", "nope="],                  1, ["nope", "topic"]),
    (["change", "me@example.org", "ntfy", "phone", "--set", "priority=high"],          1, ["priority", "1 to 5"]),
    (["change", "me@example.org", "ntfy", "phone", "--set", "topic=ok", "--tag", "nope"], 1, ["nope"]),
    (["change", "me@example.org", "ntfy", "phone", "--set", "server=http://169.254.169.254"], 1, ["169.254.169.254"]),
    (["remove", "me@example.org", "ntfy", "nope"],                                     1, ["nope", "phone"]),
    (["remove", "you@example.org", "ntfy", "phone"],                                   1, ["you@example.org", "phone"]),
    (["list", "nobody@example.org"],                                                   1, ["nobody@example.org"]),
    (["list", "no\nbody@example.org"],                                                 1, ["example.org"]),
    (["test", "me@example.org", "ntfy", "nope"],                                       1, ["nope", "phone"]),
    (["test", "me@example.org", "ntfy"],                                               1, ["topic", "required"]),
    (["test", "me@example.org", "ntfy", "phone", "--data", "colour=red"],              1, ["colour", "NAME=VALUE", "version"]),
    (["test", "me@example.org", "ntfy", "phone", "--data", "version"],                 1, ["version", "NAME=VALUE"]),
    (["test", "me@example.org", "ntfy", "phone", "--data", ""],                        1, ["NAME=VALUE"]),
    (["test", "me@example.org", "ntfy", "phone", "--data", "a\nb=c"],                  1, ["NAME=VALUE"]),
    (["test", "me@example.org", "ntfy", "phone", "--data", "is_prerelease=yes"],       1, ["is_prerelease", "true or false"]),
    (["test", "me@example.org", "ntfy", "phone", "--data", "time=yesterday"],          1, ["time", "2026-01-31T08:00:00Z"]),
    (["test", "me@example.org", "ntfy", "phone", "--data", "time=2026-13-45T99:99:99Z"], 1, ["time", "2026-01-31T08:00:00Z"]),
    (["test", "me@example.org", "ntfy", "phone", "--data", "account_type=robot"],      1, ["account_type", "organization"]),
    (["test", "me@example.org", "ntfy", "phone", "--data", "note_text=a"],             1, ["note_text", "note_message"]),
]


@pytest.mark.parametrize("words, status, said", DESTINATION_MISTAKES, ids=[
    " ".join(words).encode("unicode_escape").decode()[:110] for words, _, _ in DESTINATION_MISTAKES])
def test_a_mistake_with_a_destination_is_told_in_one_line_and_changes_nothing(mistaken, words, status, said):
    err = mistaken.refused("destination", *words, status=status)
    assert all(word in err for word in said), err
    assert len(err) < 2000, "a mistake is told in a line that can be read"


def test_a_server_that_is_given_as_nothing_is_the_service_s_own(typed):
    """An empty setting is as good as none: what is stored can be sent to."""
    for kind, settings in (("ntfy", ["topic=a"]), ("telegram", planted("")["telegram"][0][:2]),
                           ("pushover", planted("")["pushover"][0][:2])):
        typed.add(kind, "a", *settings, "server=")
        made = typed.destination(kind, "a")
        sent = request_of(a_delivery(made))
        assert re.match("https://(ntfy.sh|api.telegram.org|api.pushover.net)/", sent.url), (kind, sent.url)


def test_a_change_leaves_what_it_does_not_name(typed):
    for name in ("infra", "toys"):
        typed.store.add_tag(typed.me.id, name)
    typed.add("ntfy", "phone", "topic=a", "token=tk_SECRETSECRET", "priority=4", "server=http://127.0.0.1:9", more=[
        "--schedule", "daily", "--only-listed", "--tag", "infra", "--without-tag", "TOYS", "--security-only"])
    change = ("destination", "change", "me@example.org", "ntfy")
    first = typed.destination("ntfy", "phone")
    assert typed.row("phone") == {
        "kind": "ntfy", "name": "phone", "id": first.id, "schedule": "daily", "is_for_every_project": False,
        "tags": ["infra"], "without_tags": ["toys"], "is_security_only": True,
        "settings": {"topic": "a", "token": "***", "priority": "4", "server": "http://127.0.0.1:9"}}
    plain = typed.ok("destination", "list", "me@example.org").splitlines()[-1]
    assert all(word in plain for word in ("ntfy", "phone", "daily", "listed", "infra", "toys", "security", "topic=a"))

    typed.ok(*change, "phone", "--set", "topic=b")
    changed = typed.destination("ntfy", "phone")
    assert changed == dataclasses.replace(first, settings={**first.settings, "topic": "b"})
    typed.ok(*change, "phone", "--rename", "mobile", "--schedule", "weekly")
    typed.ok(*change, "mobile", "--every-project", "--all-releases")
    typed.ok(*change, "mobile", "--tag", "")
    now = typed.destination("ntfy", "mobile")
    assert now == dataclasses.replace(changed, name="mobile", schedule="weekly", is_for_every_project=True,
                                      is_security_only=False, tags=())
    typed.ok(*change, "mobile", "--without-tag", "", "--set", "token=", "--set", "priority=", "--set", "server=")
    last = typed.destination("ntfy", "mobile")
    assert last.without_tags == () and (last.settings["token"], last.settings["priority"], last.settings["server"]) == (
        "", "3", "https://ntfy.sh"), "what was taken away has its default"
    assert last.settings["topic"] == "b"
    typed.ok(*change, "mobile", "--only-listed", "--tag", "infra", "--tag", "toys")
    assert not typed.destination("ntfy", "mobile").is_for_every_project
    assert len(typed.destination("ntfy", "mobile").tags) == 2


def test_a_change_of_a_webhook_leaves_its_secrets_and_what_else_is_not_named(typed):
    typed.add("webhook", "hook", "url=http://127.0.0.1:9/a", "header=X-One: 1", "header=Authorization: Bearer: x y",
              "field=a={version}={url}", "field=b=")
    change = ("destination", "change", "me@example.org", "webhook", "hook")
    typed.ok("webhook", "secret", "me@example.org", "hook", "--renew")
    first = typed.destination("webhook", "hook")
    assert first.settings["headers"] == {"X-One": "1", "Authorization": "Bearer: x y"}
    assert first.settings["fields"] == {"a": "{version}={url}", "b": ""} and first.previous_secret
    typed.ok(*change, "--set", "url=http://127.0.0.1:9/b")
    now = typed.destination("webhook", "hook")
    assert now == dataclasses.replace(first, settings={**first.settings, "url": "http://127.0.0.1:9/b"})
    typed.ok(*change, "--set", "field=")
    now = typed.destination("webhook", "hook")
    assert now.settings["fields"] == {} and now.settings["headers"] == first.settings["headers"]
    typed.ok(*change, "--set", "header=", "--set", "field=text={project}")
    now = typed.destination("webhook", "hook")
    assert (now.settings["headers"], now.settings["fields"]) == ({}, {"text": "{project}"})
    assert (now.secret, now.previous_secret, now.previous_until) == (first.secret, first.previous_secret, first.previous_until)


@pytest.mark.parametrize("settings, change, expected", [
    (["token=xoxb-1234567890", "channel=C1"],  ["channel=C2"],             {"channel": "C2", "token": "xoxb-1234567890", "url": ""}),
    (["token=xoxb-1234567890", "channel=C1"],  ["token=", "url=https://hooks.slack.com/services/T0/B0/secret01"],
     {"channel": "C1", "token": "", "url": "https://hooks.slack.com/services/T0/B0/secret01"}),
    (["url=https://hooks.slack.com/services/T0/B0/secret01"], ["url=", "token=xoxb-1234567890", "channel=C1"],
     {"channel": "C1", "token": "xoxb-1234567890", "url": ""}),
])
def test_a_change_may_go_from_one_way_of_reaching_a_service_to_the_other(typed, settings, change, expected):
    typed.add("slack", "team", *settings)
    typed.ok("destination", "change", "me@example.org", "slack", "team", *sets(*change))
    made = typed.destination("slack", "team")
    assert {name: made.settings[name] for name in expected} == expected
    assert typed.store.destinations(typed.me.id, "slack")[0].as_json()["channel"] == expected["channel"]


def test_one_of_a_digest_that_is_sent_again_goes_with_the_rest_of_it(board, listen, capsys):
    """In one message, under the id that it had."""
    receiver, clock = listen(500), Clock(time.time() - 5 * rt.DAY)
    board.store.clock = clock
    topic = a_topic(board, receiver.url, schedule="hourly")
    project = board.track("github", "o/p")
    for version in ("1.0", "2.0"):
        body = {"provider": "github", "project": "o/p", "version": version, "time": "2026-03-01T10:00:00Z",
                "account": {"type": "user", "id": board.account.id, "name": "Me"}}
        board.record(project.source_id, rt.Release(version, "2026-03-01T10:00:00Z"), events=[
            rt.Event(project.id, body, "", (rt.Recipient(topic.id, clock.now, True),))])
    courier = courier_of(board, clock)
    while {entry.state for entry in board.store.journal(board.account.id)} != {"failed"}:
        if not courier.send_due():
            clock.now += board.store.seconds_until_due(clock.now, rt.HOUR)
    board.store.clock, digests = time.time, {entry.digest_id for entry in board.store.journal(board.account.id)}
    assert len(digests) == 1
    receiver.answer = accept
    receiver.seen.clear()
    desk = Desk(board.store.path, capsys)
    count = desk.ok("deliveries", "resend", "me@example.org", board.store.journal(board.account.id)[0].id)
    desk.store.close()
    until(lambda: courier_of(board).send_due() or receiver.seen)
    until(lambda: {entry.state for entry in board.store.journal(board.account.id)} == {"delivered"}, 3)
    seen, = receiver.seen
    assert "1.0" in seen.json()["message"] and "2.0" in seen.json()["message"]
    assert {entry.digest_id for entry in board.store.journal(board.account.id)} == digests
    assert count == "2\n"


def test_projects_that_list_a_destination_go_on_to_do_so_when_it_is_changed(typed):
    id_ = typed.add("ntfy", "phone", "topic=a")
    project, _ = typed.store.add_project(typed.me.id, "github", "o/p", "o/p", {"destinations": {"ntfy": [id_]}})
    typed.ok("destination", "change", "me@example.org", "ntfy", "phone", "--rename", "b", "--set", "topic=b")
    found = typed.store.project(typed.me.id, project.id)
    assert found and found.destinations == {"ntfy": (id_,)}


# Test messages


def genuine() -> Callable[..., bool]:
    """The README's way to verify a signature."""
    example = re.search(r"```python\n(import hashlib.*?)```", README, re.DOTALL)
    assert example
    names: dict[str, Any] = {}
    exec(example[1], names)
    return names["is_genuine"]


def cased(headers: dict[str, str]) -> dict[str, str]:
    return {name.title(): value for name, value in headers.items()}


@pytest.mark.parametrize("kind", [kind for kind in rt.KINDS if kind != "email"])
def test_a_test_of_a_stored_or_a_proposed_destination_shows_what_was_sent_and_answered_and_enters_no_journal(
        typed, listen, kind):
    receiver = listen(accept)
    settings, secrets = planted(receiver.url)[kind]
    typed.add(kind, "stored", *settings)
    secrets = [*secrets, typed.destination(kind, "stored").secret or secrets[0]]
    before = everything(typed.store)
    for words in (["stored"], sets(*settings)):
        out = typed.ok("destination", "test", "me@example.org", kind, *words, "--data", "version=7.7.7", "--data",
                       "cve=CVE-2026-1234, CVE-2026-1235")
        sent = receiver.seen[-1]
        assert all(word in text.replace("\\", "") for word in ("7.7.7", "CVE-2026-1234") for text in (sent.body.decode(), out))
        assert out.startswith(f"{sent.method} ") and "User-Agent: releasetrack/" in out     # the request
        assert "200" in out and "127.0.0.1" in out                      # and the answer
        no_secrets(out, *secrets)
    assert len(receiver.seen) == 2 and everything(typed.store) == before
    assert typed.ok("deliveries", "list", "me@example.org") == ""


@pytest.mark.parametrize("kind", [kind for kind in rt.KINDS if kind != "email"])
def test_a_test_that_is_refused_says_so_and_no_secret_though_the_receiver_repeats_all_that_it_got(typed, listen, kind):
    receiver = listen(echo)
    settings, secrets = planted(receiver.url)[kind]
    typed.add(kind, "stored", *settings)
    status, out, err = typed.type("destination", "test", "me@example.org", kind, "stored")
    assert status == 1 and len(receiver.seen) == 1
    assert err.startswith(f"releasetrack: {kind} stored: ") and "500" in err and err.count("\n") == 1, err
    assert "-- answered by" in out
    no_secrets(out + err, *secrets, typed.destination(kind, "stored").secret or secrets[0])
    assert typed.ok("deliveries", "list", "me@example.org") == ""


@pytest.mark.parametrize("kind, answer, words", [
    ("slack",    (404, b"no_service"),                                                     "no_service"),
    ("slack",    (200, b"<html>log in first</html>"),                                      "did not say|does not say"),
    ("telegram", (400, {"ok": False, "error_code": 400, "description": "Bad Request: chat not found"}), "chat not found"),
    ("discord",  (404, {"message": "Unknown Webhook", "code": 10015}),                     "Unknown Webhook"),
    ("matrix",   (403, {"errcode": "M_FORBIDDEN", "error": "User not in room"}),           "not in room"),
    ("ntfy",     (403, {"code": 40301, "http": 403, "error": "forbidden"}),                "forbidden"),
    ("gotify",   (401, {"error": "Unauthorized", "errorCode": 401,
                        "errorDescription": "you need to provide a valid access token"}),  "valid access token"),
    ("pushover", (400, {"user": "invalid", "errors": ["user identifier is invalid"], "status": 0}), "user identifier"),
    ("apprise",  (204, b""),                                                               "204"),
    ("webhook",  (302, b"", {"Location": "http://127.0.0.1:9/"}),                          "302"),
])
def test_a_test_that_failed_ends_with_status_1_and_the_receiver_s_words(typed, listen, kind, answer, words):
    receiver = listen(lambda seen: answer)
    status, out, err = typed.type("destination", "test", "me@example.org", kind, *sets(*planted(receiver.url)[kind][0]))
    assert status == 1 and re.search(words, err) and err.count("\n") == 1, err
    assert len(receiver.seen) == 1 and str(answer[0]) in out


def test_a_test_of_a_webhook_is_signed_and_takes_its_custom_fields_from_the_given_data(typed, listen):
    receiver = listen(204)
    secret = typed.add("webhook", "standard", f"url={receiver.url}")
    typed.add("webhook", "own", f"url={receiver.url}", "header=X-Room: kitchen", "field=text={project} {version} {{x}}",
              "field=note={note_text}", "field=tags={tags}", "field=cve={cve}", "field=pre={is_prerelease}")
    typed.ok("destination", "test", "me@example.org", "webhook", "standard", "--data", "project=acme/app=x", "--data",
             "note_message=<p>a = b</p>", "--data", "tags=one, two", "--data", "is_prerelease=true", "--data", "note_title=T")
    seen = receiver.seen[0]
    is_genuine = genuine()
    assert is_genuine(secret, cased(seen.headers), seen.body) and not is_genuine(secret + "x", cased(seen.headers), seen.body)
    body = seen.json()
    assert (body["project"], body["is_prerelease"], body["note"]) == (
        "acme/app=x", True, {"title": "T", "message": "<p>a = b</p>"})
    assert [tag["name"] for tag in body["tags"]] == ["one", "two"] and all(tag["id"] for tag in body["tags"])
    assert body["account"] == {"type": "user", "id": typed.me.id, "name": "Me"} and "cve" not in body
    typed.ok("destination", "test", "me@example.org", "webhook", "own", "--data", "cve=CVE-2026-1 CVE-2026-2", "--data",
             "version=2", "--data", "tags=one", "--data", "note_message=<b>n</b>", "--data", "project=o/p")
    seen = receiver.seen[1]
    assert seen.json() == {"text": "o/p 2 {x}", "note": "n", "tags": "one", "cve": "CVE-2026-1, CVE-2026-2", "pre": "false"}
    assert seen.headers["x-room"] == "kitchen"
    assert is_genuine(typed.destination("webhook", "own").secret, cased(seen.headers), seen.body)


def test_settings_that_are_given_with_a_name_are_tried_or_refused_and_not_passed_over(typed, listen):
    stored, proposed = listen(accept), listen(accept)
    typed.add("ntfy", "phone", "topic=a", f"server={stored.url}")
    status, _, err = typed.type("destination", "test", "me@example.org", "ntfy", "phone", "--set", f"server={proposed.url}")
    assert status != 0 and "--set" in err or len(proposed.seen) == 1, "it tested something else than was asked for"


def test_a_test_to_a_private_address_takes_an_administrator_or_the_operator_s_word(typed, listen):
    receiver = listen(accept)
    add = ("destination", "add", "you@example.org", "gotify", "mine", "--set", f"url={receiver.url}", "--set",
           "token=AbCdEf.123")
    test = ("destination", "test", "you@example.org", "gotify")
    for words in (add, (*test, "--set", f"url={receiver.url}", "--set", "token=AbCdEf.123")):
        err = typed.refused(*words)
        assert "127.0.0.1" in err and "--allow-network" in err and "AbCdEf" not in err
    typed.ok(*add, "--allow-network", "127.0.0.0/8")
    err = typed.refused(*test, "mine")
    assert "127.0.0.1" in err and "--allow-network" in err
    assert receiver.seen == []
    typed.ok(*test, "mine", "--allow-network", "127.0.0.0/8")
    assert len(receiver.seen) == 1


def test_a_test_of_mail_without_a_mail_server_names_the_flag(typed):
    for words in (["account"], ["--set", "to=me@example.net"]):
        status, _, err = typed.type("destination", "test", "me@example.org", "email", *words)
        assert status == 1 and "--smtp-url" in err and err.count("\n") == 1
    assert typed.ok("deliveries", "list", "me@example.org") == ""


def test_a_test_to_a_receiver_that_is_not_there_says_why(typed):
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()[1]
    status, out, err = typed.type("destination", "test", "me@example.org", "gotify", "--set", f"url=http://127.0.0.1:{closed}",
                                  "--set", "token=AbCdEf.123")
    assert status == 1 and "refused" in err and err.count("\n") == 1 and "POST http" in out


# Secrets


@pytest.mark.parametrize("margin", [8, 20])
def test_of_a_secret_that_stands_where_an_answer_is_cut_nothing_is_kept(board, listen, margin):
    """The journal keeps the first KiB, an error the first 300 characters: what is masked is masked before the cut."""
    token = "gotifySECRETgotifySECRET"
    board.store.clock = Clock()
    made = board.store.add_destination(board.account.id, "gotify", "g", rt.read_settings("gotify", [
        ("url", (receiver := listen(0)).url), ("token", token)]))
    courier = courier_of(board, Clock())
    project = board.track("github", "o/p")
    for size in (rt.KIB, 300):
        at = size - margin - (len(b'{"error":"') if size == rt.KIB else 0)
        receiver.answer = lambda seen, at=at: (500, b'{"error":"' + b"x" * at + token.encode() + b"y" * 99 + b'"}')
        put_event(board, project, f"1.{size}", made)
        (_, attempt), = courier.send_due()[:1]
        assert "gotifyS" not in f"{attempt.error} {attempt.answer}", (attempt.error, attempt.answer)


@pytest.mark.parametrize("kind, setting, secret", [
    ("webhook", "header=Authorization: Bearer webhookSECRETheader01", "webhookSECRETheader01"),
    ("webhook", "header=Authorization: Basic bWU6d2ViaG9va1NFQ1JFVA==", "bWU6d2ViaG9va1NFQ1JFVA=="),
    ("ntfy",    "token=me:ntfySECRETpassword01",                        "ntfySECRETpassword01"),
    ("apprise", "urls=tgram://appriseSECRETurls001/42",                 "appriseSECRETurls001"),
    ("apprise", "url={url}/notify/homekey01",                           "homekey01"),
])
def test_a_part_of_a_secret_that_a_receiver_names_by_itself_is_masked(typed, listen, kind, setting, secret):
    receiver = listen(lambda seen: (401, {"error": f"the token {secret} is not valid"}))
    settings = [one for one in planted(receiver.url)[kind][0] if one.partition("=")[0] != setting.partition("=")[0]]
    typed.add(kind, "a", *settings, setting.format(url=receiver.url))
    status, out, err = typed.type("destination", "test", "me@example.org", kind, "a")
    assert status == 1
    no_secrets(out + err, secret)


def test_no_log_list_journal_api_or_backup_shows_a_secret_of_any_kind(typed, serve, forge, listen, tmp_path):
    """A destination of each kind at a receiver that repeats what it gets, a process that logs all it does."""
    receiver = listen(echo)
    kinds = planted(receiver.url)
    for kind, (settings, _) in kinds.items():
        typed.type("destination", "add", "me@example.org", kind, "planted", *sets(*settings))
    key = typed.store.add_key(typed.me.id, "test", ["0.0.0.0/0"]).secret
    secrets = [secret for _, secrets in kinds.values() for secret in secrets]
    secrets += [typed.destination("webhook", "planted").secret, "smtpSECRETpassword01"]
    forge.publish("acme/app", "v1.0")
    typed.ok("project", "add", "me@example.org", "forge", "acme/app", "--provider", forge.flag)
    project = typed.store.projects(typed.me.id, "name", False)[0][0]
    typed.store.update_project(typed.me.id, project.id, {"email_notification": "instant"})
    forge.publish("acme/app", "v1.1")
    service = serve("--provider", forge.flag, "--log-level", "debug", "--poll-interval", "1", "--smtp-url",
                    "smtp://me:smtpSECRETpassword01@127.0.0.1:9")
    until(lambda: len([entry for entry in typed.store.journal(typed.me.id) if entry.attempts]) >= len(kinds))
    client = Client(service.address, key)
    said = [json.dumps(client.get(f"/v1/{field.replace('_', '-')}")) for field in rt.KIND_FIELDS.values()]
    said.append(json.dumps(client.get("/v1/projects")))
    assert service.end() == 0
    entries = typed.store.journal(typed.me.id)
    assert {entry.kind for entry in entries} == set(kinds) and all(entry.error for entry in entries)
    said += [typed.ok("deliveries", "list", "me@example.org", *json_) for json_ in ([], ["--json"])]
    said += [typed.ok("deliveries", "show", "me@example.org", entry.id, "--json") for entry in entries]
    said += [typed.ok("destination", "list", "me@example.org"), typed.ok("destination", "list", "me@example.org", "--json"),
             typed.ok("webhook", "list", "me@example.org")]
    # Each place by itself, so that what is wrong in one does not hide another.
    leaks = {place: [secret for secret in secrets if secret in text] for place, text in {
        "log": service.said(), "journal and lists": "\n".join(said)}.items()}
    for kind in kinds:
        typed.ok("destination", "remove", "me@example.org", kind, "planted")
    typed.ok("backup", str(tmp_path / "copy"))
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if ".log" not in path.name)
    leaks["backup and store"] = [secret for secret in secrets if secret.encode() in kept]
    assert not any(leaks.values()), leaks


def test_a_webhook_s_secret_is_shown_and_renewed_and_both_sign_for_a_day(typed, listen):
    receiver, clock = listen(204), Clock(time.time())
    secret = typed.ok("webhook", "add", "me@example.org", "hook", receiver.url).strip()
    assert typed.ok("webhook", "secret", "me@example.org", "hook").strip() == secret
    renewed = typed.ok("webhook", "secret", "me@example.org", "hook", "--renew").strip()
    assert re.fullmatch("whsec_[A-Za-z0-9+/]{43}=", renewed) and renewed != secret
    assert typed.ok("webhook", "secret", "me@example.org", "hook").strip() == renewed
    typed.ok("destination", "test", "me@example.org", "webhook", "hook")
    sent = receiver.seen[0]
    is_genuine = genuine()
    assert is_genuine(renewed, cased(sent.headers), sent.body) and not is_genuine(secret, cased(sent.headers), sent.body)
    made = typed.destination("webhook", "hook")
    for after, keys in ((0, [renewed, secret]), (86000, [renewed, secret]), (86500, [renewed])):
        now = int(clock.now) + after
        request = request_of(a_delivery(made), now=now)
        assert request.headers["webhook-signature"].split() == [
            rt.standard_signature(key, request.headers["webhook-id"], now, request.body) for key in keys]
        assert request.headers["X-Service-Signature"] == rt.signature(renewed, now, request.body)
    for words in (["secret", "me@example.org", "nope"], ["secret", "you@example.org", "hook"],
                  ["secret", "me@example.org", "nope", "--renew"], ["remove", "me@example.org", "nope"]):
        assert words[2] in typed.refused("webhook", *words)
    assert typed.ok("webhook", "remove", "me@example.org", "hook") == typed.ok("webhook", "list", "me@example.org") == ""


# The journal


DELIVERY_MISTAKES = [
    # what is typed behind "deliveries"                                     status  what the line names
    (["show", "me@example.org", "{theirs}"],                                    1, ["{theirs}", "deliveries list"]),
    (["show", "me@example.org", "nope"],                                        1, ["nope"]),
    (["show", "me@example.org", "no\npe"],                                      1, ["pe"]),
    (["show", "me@example.org", ""],                                            1, ["delivery"]),
    (["show", "me@example.org"],                                                2, ["ID"]),
    (["resend", "me@example.org", "{theirs}"],                                  1, ["{theirs}"]),
    (["resend", "me@example.org"],                                              2, ["ID", "--failed"]),
    (["resend", "me@example.org", ""],                                          2, ["ID", "--failed"]),
    (["resend", "me@example.org", "--failed"],                                  2, ["--failed", "--destination"]),
    (["resend", "me@example.org", "{mine}", "--failed"],                        2, ["--failed"]),
    (["resend", "me@example.org", "--destination", "webhook", "hook"],          2, ["--failed"]),
    (["resend", "me@example.org", "--failed", "--destination", "ntfy", "hook"], 1, ["ntfy", "hook"]),
    (["list", "nobody@example.org"],                                            1, ["nobody@example.org"]),
    (["list", "me@example.org", "--since", "garbage"],                          2, ["--since", "garbage", "24h"]),
    (["list", "me@example.org", "--since", ""],                                 2, ["--since", "24h"]),
    (["list", "me@example.org", "--since", "a\nb"],                             2, ["--since", "24h"]),
    (["list", "me@example.org", "--since", "2026-02-30"],                       2, ["--since", "2026-02-30"]),
    (["list", "me@example.org", "--until", "99999d"],                           2, ["--until", "99999d"]),
    (["list", "me@example.org", "--state", "lost"],                             2, ["lost", "failed"]),
    (["list", "me@example.org", "--destination", "pigeon", "a"],                1, ["pigeon", "ntfy"]),
    (["list", "me@example.org", "--destination", "webhook", "nope"],            1, ["nope", "hook"]),
    (["list", "me@example.org", "--destination", "webhook"],                    2, ["--destination"]),
    (["list", "me@example.org", "--project", "nowhere", "o/p"],                 1, ["nowhere"]),
    (["list", "me@example.org", "--project", "github", "o/nothing"],            1, ["o/nothing"]),
    (["list", "me@example.org", "--project", "github", "nonsense"],             1, ["nonsense"]),
    (["list", "me@example.org", "--limit", "many"],                             2, ["--limit", "many"]),
    (["list", "me@example.org", "--limit", "-1"],                               2, ["--limit"]),
]


@pytest.fixture
def told(mistaken: Desk) -> dict[str, str]:
    """The ids of a delivery of mine and of one of another account's."""
    return {name: mistaken.store.journal(account.id)[0].id
            for name, account in (("mine", mistaken.me), ("theirs", mistaken.you))}


@pytest.mark.parametrize("words, status, said", DELIVERY_MISTAKES, ids=[
    " ".join(words).encode("unicode_escape").decode() for words, _, _ in DELIVERY_MISTAKES])
def test_a_mistake_with_deliveries_is_told_in_one_line_and_changes_nothing(mistaken, told, words, status, said):
    err = mistaken.refused("deliveries", *(word.format(**told) for word in words), status=status)
    assert all(word.format(**told) in err for word in said), err


@pytest.mark.parametrize("since, is_shown", [
    ("1h", True), ("30d", True), ("9999d", True), ("0h", False), ("2000-01-01", True), ("2000-01-01T08:00:00Z", True),
    ("2000-01-01T08:00:00+02:00", True), ("2999-01-01", False), ("0001-01-01", True), ("9999-12-31T23:59:59Z", False)])
def test_the_journal_is_listed_since_a_time_a_day_or_so_long_ago(mistaken, told, since, is_shown):
    time.sleep(0.002)       # so that it is a little ago
    assert bool(mistaken.ok("deliveries", "list", "me@example.org", "--since", since)) is is_shown
    assert bool(mistaken.ok("deliveries", "list", "me@example.org", "--until", since)) is not is_shown or since == "0h"


def test_the_journal_shows_no_control_characters_that_a_receiver_answered(board, listen, capsys):
    receiver = listen(lambda seen: (500, b"\x1b[2J\x1b]0;owned\x07 no\x00 \xc2\x9b31m", {"X-Evil": "\x1b[31m"}))
    put_event(board, board.track("github", "o/p"), "1.0", board.webhook(receiver.url))
    courier_of(board).send_due()
    entry, = board.store.journal(board.account.id)
    desk = Desk(board.store.path, capsys)
    said = desk.ok("deliveries", "show", "me@example.org", entry.id) + desk.type(
        "destination", "test", "me@example.org", "webhook", "hook")[1]
    desk.store.close()
    assert "owned" in said and not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", said), repr(said)


def test_the_journal_tells_each_delivery_from_the_failure_to_the_acceptance(typed, serve, forge, listen):
    """A process that serves, a webhook and a topic of ntfy that refuse at first and repeat what they were sent."""
    is_willing = threading.Event()

    def answer(seen: Seen) -> Any:
        return accept(seen) if is_willing.is_set() else (503, f"not now, {seen.headers.get('authorization')}, " + "y" * 2000)

    receiver, began = listen(answer), time.time()
    flags = ("--provider", forge.flag)
    me = "me@example.org"
    typed.add("webhook", "hook", f"url={receiver.url}", "header=Authorization: Bearer webhookSECRETheader01")
    typed.add("ntfy", "phone", "topic=releases", "token=tk_ntfySECRETtoken", f"server={receiver.url}")
    for name in ("acme/app", "acme/tool"):
        forge.publish(name, "v1.0")
        typed.ok("project", "add", me, "forge", name, *flags)
    service = serve(*flags, "--poll-interval", "1", "--retry-first", "1")
    forge.publish("acme/app", "v1.1")
    until(lambda: len([entry for entry in typed.store.journal(typed.me.id) if entry.attempts]) == 2)
    rows = typed.json("deliveries", "list", me)
    assert {(row["kind"], row["destination"], row["state"], row["version"]) for row in rows} == {
        ("webhook", "hook", "pending", "v1.1"), ("ntfy", "phone", "pending", "v1.1")}
    assert all("503" in row["error"] and row["next_attempt_at"] for row in rows)
    is_willing.set()
    forge.publish("acme/tool", "v2.0")
    until(lambda: [entry.state for entry in typed.store.journal(typed.me.id)] == ["delivered"] * 4)
    assert service.end() == 0

    def listed(*words: str) -> list[tuple[str, str]]:
        return [(row["destination"], row["version"]) for row in typed.json("deliveries", "list", me, *words)]

    both = {("hook", "v1.1"), ("phone", "v1.1")}
    assert set(listed("--project", "forge", "acme/app", *flags)) == both
    assert set(listed("--destination", "ntfy", "phone")) == {("phone", "v1.1"), ("phone", "v2.0")}
    assert listed("--destination", "ntfy", "phone", "--project", "forge", "acme/tool", *flags) == [("phone", "v2.0")]
    assert len(listed("--state", "delivered")) == 4 and listed("--state", "failed") == listed("--state", "pending") == []
    assert len(listed("--since", rt.timestamp(began - 1))) == 4 and listed("--until", "1h") == []
    assert [version for _, version in listed()] == ["v2.0", "v2.0", "v1.1", "v1.1"] and len(listed("--limit", "1")) == 1
    assert typed.json("deliveries", "list", "you@example.org") == []
    plain = typed.ok("deliveries", "list", me).splitlines()
    assert len(plain) == 4 and len({line.count("\t") for line in plain}) == 1

    for kind, secret in (("webhook", "webhookSECRETheader01"), ("ntfy", "tk_ntfySECRETtoken")):
        row, = [row for row in typed.json("deliveries", "list", me) if (row["kind"], row["version"]) == (kind, "v1.1")]
        shown = typed.json("deliveries", "show", me, row["id"])
        first, *_, last = shown["attempts"]
        assert (first["status"], last["status"], shown["state"]) == (503, 200, "delivered")
        assert "503" in first["error"] and last["error"] is None and first["duration"] >= 0
        assert first["address"] == "127.0.0.1" and began - 1 < rt.datetime.datetime.fromisoformat(
            first["attempted_at"].replace("Z", "+00:00")).timestamp() < time.time()
        assert first["answer"].startswith("not now") and 900 < len(first["answer"]) <= 1024
        assert shown["body"]["version"] == "v1.1" and shown["body"]["project"] == "acme/app"
        assert [shown["attempts"]] and row["attempts"] == len(shown["attempts"])
        plain = typed.ok("deliveries", "show", me, row["id"])
        assert sum(line.startswith("attempt\t") for line in plain.splitlines()) == row["attempts"]
        no_secrets(plain + json.dumps(shown), secret)

    # Sent again: the same id and body, and the former attempts are still told of.
    before = len(receiver.seen)
    row, = [row for row in typed.json("deliveries", "list", me) if (row["kind"], row["version"]) == ("webhook", "v1.1")]
    count = typed.ok("deliveries", "resend", me, row["id"])
    assert typed.json("deliveries", "show", me, row["id"])["state"] == "pending"
    typed.ok("check", me, "--send", *flags)
    again, = receiver.seen[before:]
    former = [seen for seen in receiver.seen[:before] if seen.headers.get("webhook-id") == again.headers["webhook-id"]]
    assert len(former) == row["attempts"] and {seen.body for seen in former} == {again.body}
    assert typed.json("deliveries", "show", me, row["id"])["attempts"][row["attempts"]]["status"] == 200
    assert count == "1\n"


def test_who_removes_a_destination_is_told_which_projects_tell_others_from_now_on(typed):
    for name in ("one", "two"):
        typed.add("ntfy", name, f"topic={name}")
    one = typed.destination("ntfy", "one")
    for name, listed_ in (("o/alone", {"ntfy": [one.id]}), ("o/any", {})):
        typed.store.add_project(typed.me.id, "github", name, name, {"destinations": listed_})
    status, said, err = typed.type("destination", "remove", "me@example.org", "ntfy", "one")
    assert (status, said) == (0, "") and "o/alone" in err and "o/any" not in err and err.count("\n") == 1
    assert typed.type("destination", "remove", "me@example.org", "ntfy", "two") == (0, "", "")


def test_all_that_failed_at_a_destination_is_sent_again_with_the_ids_that_it_had(typed, listen):
    """And nothing else: neither what another destination failed to take, nor what was delivered, nor older ones."""
    board_clock = Clock(time.time() - 100 * rt.HOUR)
    receiver = listen(500)
    typed.store.clock = board_clock
    hooks = [typed.store.add_destination(typed.me.id, "webhook", name, {"url": receiver.url + f"/{name}", "headers": {},
                                         "fields": {}}, rt.make_signing_secret()) for name in ("one", "two")]
    project, source = typed.store.add_project(typed.me.id, "github", "o/p", "o/p", {})
    settings = rt.Settings(db=typed.db)
    courier = rt.Courier(typed.store, rt.Fetcher(settings).post, settings, board_clock, lambda: 0.0)

    def publish(version: str) -> None:
        assert typed.store.claim_source(source.id, "test", board_clock.now)
        body = {"provider": "github", "project": "o/p", "version": version, "time": "2026-03-01T10:00:00Z",
                "account": {"type": "user", "id": typed.me.id, "name": "Me"}}
        typed.store.record_found(source.id, "test", rt.Findings(board_clock.now + 3600, events=[
            rt.Event(project.id, body, "", tuple(rt.Recipient(hook.id, board_clock.now) for hook in hooks))]))

    publish("1")
    while any(entry.state == "pending" for entry in typed.store.journal(typed.me.id)):
        if not courier.send_due():
            board_clock.now += typed.store.seconds_until_due(board_clock.now, rt.HOUR)
    later = board_clock.now
    receiver.answer = 204
    publish("2")
    courier.send_due()
    receiver.answer, receiver.seen[:] = 500, []
    typed.store.clock = time.time
    failed = typed.json("deliveries", "list", "me@example.org", "--state", "failed")
    assert [(row["destination"], row["version"]) for row in failed] == [("two", "1"), ("one", "1")]
    resend = ("deliveries", "resend", "me@example.org", "--failed", "--destination", "webhook", "one")
    counts = [typed.ok(*resend, "--since", rt.timestamp(later)), typed.ok(*resend, "--until", rt.timestamp(later)),
              typed.ok(*resend)]     # then it waits, and has not failed
    receiver.answer = 204
    rt.Courier(typed.store, rt.Fetcher(settings).post, settings).send_due()
    seen, = receiver.seen
    assert (seen.path, seen.json()["version"], seen.headers["webhook-id"]) == ("/one", "1", failed[1]["id"])
    states = {(row["destination"], row["version"]): row["state"] for row in typed.json("deliveries", "list", "me@example.org")}
    assert states == {("one", "1"): "delivered", ("two", "1"): "failed", ("one", "2"): "delivered", ("two", "2"): "delivered"}
    assert counts == ["0\n", "1\n", "0\n"]


def test_the_journal_is_kept_for_30_days_and_then_pruned_in_small_steps(board):
    clock = Clock()
    board.store.clock = clock
    hook, project = board.webhook("http://127.0.0.1:9"), board.track("github", "o/p")
    for n in range(30):
        put_event(board, project, f"1.{n}", hook)
    ids = [entry.id for entry in board.store.journal(board.account.id)]
    assert board.store.claim_deliveries({hook.id: 100}, "test", clock.now)
    board.store.record_attempts("test", [rt.Outcome(clock.now, 204, None, 0.1, "127.0.0.1", "", id_, "delivered", clock.now)
                                         for id_ in ids[1:]], ids[:1])
    clock.now += 29 * rt.DAY
    put_event(board, project, "2", hook)
    board.store.sweep(clock.now)
    assert len(board.store.journal(board.account.id)) == 31
    clock.now += 1 * rt.DAY + 1
    left = []
    for _ in range(4):
        board.store.sweep(clock.now, at_most=10)
        left.append(len(board.store.journal(board.account.id)))
    assert left == [21, 11, 2, 2], "what waits is kept, and so is what is younger"
    assert {entry.state for entry in board.store.journal(board.account.id)} == {"pending"}
    assert not any(board.store.attempts(id_) for id_ in ids)


def test_a_delivery_is_in_the_journal_for_30_days_after_it_was_sent_however_long_it_was_held(board):
    clock = Clock()
    board.store.clock = clock
    hook, project = board.webhook("http://127.0.0.1:9"), board.track("github", "o/p")
    put_event(board, project, "1.0", hook)
    entry, = board.store.journal(board.account.id)
    clock.now += 40 * rt.DAY            # as hold_days or a release that was sent again makes it
    assert board.store.claim_deliveries({hook.id: 9}, "test", clock.now)
    board.store.record_attempts("test", [
        rt.Outcome(clock.now, 204, None, 0.1, "127.0.0.1", "", entry.id, "delivered", clock.now)])
    clock.now += rt.DAY
    board.store.sweep(clock.now)
    assert [attempt.status for attempt in board.store.attempts(entry.id)] == [204]
    clock.now += 30 * rt.DAY
    board.store.sweep(clock.now)
    assert board.store.journal(board.account.id) == []


# Failing sources


class Ward:
    """A project at the forge with the tracker and a courier on a clock of the test's."""

    def __init__(self, board: Board, forge: Forge, name: str = "o/r", **settings: Any) -> None:
        self.board, self.forge = board, forge
        self.watch = Watch(board, forge, name)
        about = rt.Settings(provider=(forge.flag,), **settings)
        board.store.clock = self.clock
        self.watch.tracker = rt.Tracker(
            board.store, rt.Fetcher(about, self.clock), rt.providers_with(about.provider), about, board.service.patterns,
            clock=self.clock, spread=lambda: 0.0)
        self._settings = about
        forge.publish(name, "v1")
        self.watch.check()

    @property
    def courier(self) -> rt.Courier:
        """A new one, which knows nothing of when a kind of destination was last sent something, and need not wait."""
        return rt.Courier(self.board.store, self.board.service.fetcher.post, self._settings, self.clock, lambda: 0.0)

    def clock(self) -> float:
        return self.watch.now

    def fail(self, times: int, hours: float = 9, fault: Any = (500, "out of order")) -> None:
        """So many checks that fail, the hours apart."""
        for _ in range(times):
            self.watch.now += hours * rt.HOUR
            self.forge.fault = fault
            self.watch.check()
        self.forge.fault = None

    def recover(self, hours: float = 1) -> None:
        self.watch.now += hours * rt.HOUR
        self.watch.check()

    def told(self) -> list[tuple[str, str, str]]:
        """``(event, destination, state)`` of what the journal has of its health, oldest first."""
        return [(entry.event, entry.destination, entry.state)
                for entry in reversed(self.board.store.journal(self.board.account.id)) if entry.event != "release"]


def a_topic(board: Board, url: str, name: str = "phone", **about: Any) -> rt.Destination:
    return board.store.add_destination(board.account.id, "ntfy", name, rt.read_settings(
        "ntfy", [("topic", "releases"), ("server", url)]), **about)


def without_mail(board: Board) -> None:
    for one in board.store.destinations(board.account.id, "email"):
        board.store.remove_destination(one.id)


@pytest.mark.parametrize("hours, at", [
    (9, 10),        # the tenth comes after 81 hours
    (6, 13),        # the thirteenth after three days
    (24, 10),       # three days are over with the fourth
    (1, 73),
])
def test_a_source_that_fails_is_told_of_after_10_checks_or_3_days_whichever_is_later(board, forge, hours, at):
    a_topic(board, "http://127.0.0.1:9")
    ward = Ward(board, forge)
    ward.fail(at - 1, hours)
    assert ward.told() == []
    ward.fail(1, hours)
    assert ward.told() == [("failing", "phone", "pending")]
    ward.fail(30, hours)
    assert ward.told() == [("failing", "phone", "pending")], "once"


def test_a_failing_source_is_told_to_every_kind_but_webhooks_in_words_and_so_is_its_recovery(board, forge, listen):
    receiver = listen(accept)
    without_mail(board)
    kinds = planted(receiver.url)
    for kind in kinds:
        if kind == "webhook":
            board.webhook(receiver.url, "planted")
        elif kind != "email":
            board.store.add_destination(board.account.id, kind, kind, rt.read_settings(
                kind, [tuple(setting.split("=", 1)) for setting in kinds[kind][0]]))
    ward = Ward(board, forge)
    wanted = set(kinds) - {"email", "webhook"}
    ward.fail(10)
    assert {name for _, name, _ in ward.told()} == wanted
    outcomes = ward.courier.send_due()
    assert [outcome.error for _, outcome in outcomes] == [None] * len(wanted)
    ward.recover()
    ward.courier.send_due()
    assert sorted(ward.told()) == sorted((event, name, "delivered") for event in ("failing", "recovered") for name in wanted)
    by_path: dict[str, list[str]] = {}
    for seen in receiver.seen:
        by_path.setdefault(re.sub("[a-z2-7]{26}", "", seen.path), []).append(seen.body.decode())
    assert all(len(bodies) == 2 for bodies in by_path.values()) and len(by_path) == len(wanted), list(by_path)
    for failing, recovered in by_path.values():
        assert re.search(r"o\W*/\W*r", failing) and "500" in failing and "what is wrong" in failing
        assert re.search(r"o\W*/\W*r", recovered) and "again" in recovered and "what was wrong" in recovered


def test_of_a_recovery_nobody_hears_who_was_not_told_of_the_failure(board, forge):
    a_topic(board, "http://127.0.0.1:9")
    ward = Ward(board, forge)
    ward.fail(9)
    ward.recover()
    assert ward.told() == []
    ward.fail(9)
    assert ward.told() == [], "the count begins anew with every success"
    ward.fail(1)
    assert ward.told() == [("failing", "phone", "pending")]


def test_a_destination_that_came_after_the_failure_was_told_does_not_hear_of_the_recovery(board, forge, listen):
    a_topic(board, listen(accept).url, "old")
    ward = Ward(board, forge)
    ward.fail(10)
    ward.courier.send_due()
    a_topic(board, listen(accept).url, "new")
    ward.recover()
    assert ward.told() == [("failing", "old", "delivered"), ("recovered", "old", "pending")]


def test_a_notice_of_failure_that_still_waits_when_the_source_recovers_is_skipped_and_so_is_the_recovery(
        board, forge, listen):
    receiver, quick = listen(accept), listen(accept)
    a_topic(board, receiver.url, "digest", schedule="weekly")
    a_topic(board, quick.url, "quick")
    ward = Ward(board, forge)
    ward.fail(10)
    ward.courier.send_due()
    assert ward.told() in ([("failing", "digest", "pending"), ("failing", "quick", "delivered")],
                           [("failing", "quick", "delivered"), ("failing", "digest", "pending")])
    ward.recover()
    ward.courier.send_due()
    assert sorted(ward.told()) == [("failing", "digest", "skipped"), ("failing", "quick", "delivered"),
                                   ("recovered", "quick", "delivered")]
    ward.watch.now += 8 * rt.DAY
    assert ward.courier.send_due() == [] and receiver.seen == []


def test_checks_that_were_put_off_are_no_failures(board, forge):
    a_topic(board, "http://127.0.0.1:9")
    ward = Ward(board, forge)
    ward.fail(30, fault=(429, "slow down", {"Retry-After": "60"}))
    assert ward.told() == [] and ward.watch.source.failures == 0
    ward.fail(5)
    ward.fail(30, fault=(429, "slow down", {"Retry-After": "60"}))
    ward.fail(4)
    assert ward.told() == []
    ward.fail(1)
    assert ward.told() == [("failing", "phone", "pending")]


def test_a_source_that_fails_again_is_told_of_again(board, forge, listen):
    receiver = listen(accept)
    a_topic(board, receiver.url)
    ward = Ward(board, forge)
    for _ in range(2):
        ward.fail(12)
        ward.courier.send_due()
        ward.recover()
        ward.courier.send_due()
    assert ward.told() == [("failing", "phone", "delivered"), ("recovered", "phone", "delivered")] * 2
    assert len(receiver.seen) == 4


def test_a_failure_that_was_told_before_a_silent_second_one_does_not_make_its_recovery_told(board, forge, listen):
    a_topic(board, listen(accept).url)
    ward = Ward(board, forge)
    ward.fail(10)
    ward.courier.send_due()
    ward.recover()
    ward.fail(3)
    ward.recover()
    assert [event for event, _, _ in ward.told()] == ["failing", "recovered"]


def test_a_digest_carries_notices_beside_releases(board, forge, listen):
    receiver = listen(accept)
    topic = a_topic(board, receiver.url, schedule="daily")
    ward = Ward(board, forge)
    ward.fail(10)
    put_event(board, board.track("github", "o/other"), "7.0", topic)
    event = board.store.journal(board.account.id)[0]
    assert event.version == "7.0"
    ward.watch.now += 1 * rt.DAY
    outcomes = ward.courier.send_due()
    notices = [seen.json() for seen in receiver.seen if "o/r" in seen.json()["message"]]
    assert len(notices) == 1 and "500" in notices[0]["message"], [seen.json() for seen in receiver.seen]
    assert all(outcome.error is None for _, outcome in outcomes)


def test_a_digest_of_a_notice_and_a_release_is_one_message_with_both(board, forge, listen):
    receiver = listen(accept)
    a_topic(board, receiver.url, schedule="daily")
    ward = Ward(board, forge)
    other = Ward(board, forge, "o/other")
    other.watch.now = ward.watch.now
    ward.fail(10)
    other.watch.now = ward.watch.now
    board.store.clock = ward.clock
    ward.forge.publish("o/other", "v2")
    assert other.watch.check() == ["v2"]
    ward.watch.now += 2 * rt.DAY
    ward.courier.send_due()
    seen, = receiver.seen
    said = seen.json()
    assert "o/other v2" in said["message"] and "o/r" in said["message"] and "what is wrong" in said["message"]
    assert "1 release" in said["title"] and "1 notice" in said["title"]


@pytest.mark.parametrize("setting, has_server, events", [
    ("none",    True,  []), ("instant", True,  ["failing"]), ("weekly", True, ["failing"]), ("instant", False, [])])
def test_mail_tells_of_a_failing_source_where_the_project_wants_mail_and_there_is_a_server(
        board, forge, setting, has_server, events):
    ward = Ward(board, forge, smtp_url="smtp://127.0.0.1:9" if has_server else "")
    board.store.update_project(board.account.id, ward.watch.project.id, {"email_notification": setting})
    ward.fail(10)
    assert [event for event, _, _ in ward.told()] == events


def test_each_account_that_tracks_a_failing_source_is_told_and_no_other(board, forge):
    a_topic(board, "http://127.0.0.1:9", "mine")
    ward = Ward(board, forge)
    you, other = (board.store.add_account("user", f"{name}@example.org", name, HASHED, False) for name in ("you", "other"))
    for account in (you, other):
        board.store.add_destination(account.id, "ntfy", "theirs", rt.read_settings("ntfy", [("topic", "a")]))
    board.store.add_project(you.id, "forge", ward.watch.source.key, "o/r", {})
    ward.fail(10)
    assert [len(board.store.journal(account.id)) for account in (board.account, you, other)] == [1, 1, 0]


# Accounts


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../../etc/passwd", "/etc/passwd", "Europe", "europe/berlin\n", "A" * 5000,
                                  "\x00", "UTC+2"])
def test_a_time_zone_that_there_is_not_is_refused_by_name(mistaken, zone):
    err = mistaken.refused("account", "change", "me@example.org", "--time-zone", zone)
    assert "--time-zone" in err and "Europe/Berlin" in err and len(err) < 400


@pytest.mark.parametrize("words, status, said", [
    (["--name", ""],                   1, ["name", "1 to"]),
    (["--name", "a\nb"],               1, ["name", "printable"]),
    (["--name", "x" * 5000],           1, ["name", "1 to"]),
    (["--email-notification", "default"], 2, ["default", "weekly"]),
    (["--email-notification", ""],     2, ["weekly"]),
])
def test_a_change_of_an_account_that_says_nothing_usable_is_refused(mistaken, words, status, said):
    err = mistaken.refused("account", "change", "me@example.org", *words, status=status)
    assert all(word in err for word in said), err


def test_digests_go_by_the_account_s_time_zone(typed):
    typed.ok("account", "change", "me@example.org", "--time-zone", "Asia/Kolkata")
    account = typed.store.account("me@example.org")
    assert account and account.time_zone == "Asia/Kolkata"
    at = rt.next_boundary("daily", NOW, account.time_zone)
    local = rt.datetime.datetime.fromtimestamp(at, zoneinfo.ZoneInfo("Asia/Kolkata"))
    assert (local.hour, local.minute) == (8, 0)


def test_an_account_has_its_own_mail_address_among_its_destinations(db, capsys):
    add = ("account", "add", "--db", db, "--password-stdin")
    done(*add, "me@example.org", "--time-zone", "Asia/Kolkata", stdin=PASSWORD + "\n")
    refused = run(*add, "you@example.org", "--time-zone", "Mars/Olympus", stdin=PASSWORD + "\n")
    assert refused.returncode == 1 and "Mars/Olympus" in refused.stderr and refused.stderr.count("\n") == 1
    store = rt.Store(db)
    account, = store.accounts()
    made, = store.destinations(account.id)
    store.close()
    assert (account.time_zone, made.kind, made.settings["to"], made.is_for_every_project) == ("Asia/Kolkata", "email", "", True)


def test_destinations_are_kept_on_the_command_line_of_real_processes(db, listen):
    receiver = listen(accept)
    first_key(db)
    me, flags = "me@example.org", ("--db", db)
    settings, secrets = planted(receiver.url)["telegram"]
    id_ = done("destination", "add", me, "telegram", "chat", *sets(*settings), "--schedule", "hourly", *flags)
    assert json.loads(done("destination", "list", me, "--json", *flags))[-1]["id"] == id_
    assert ended(run("destination", "change", me, "telegram", "chat", "--set", "chat=@channel", *flags)) == (0, "", "")
    tested = run("destination", "test", me, "telegram", "chat", *flags)
    assert tested.returncode == 0 and tested.stderr == "" and receiver.seen[0].json()["chat_id"] == "@channel"
    no_secrets(tested.stdout, *secrets)
    receiver.answer = 500
    failed = run("destination", "test", me, "telegram", "chat", *flags)
    assert failed.returncode == 1 and failed.stderr.count("\n") == 1 and "500" in failed.stderr
    mistake = run("destination", "add", me, "telegram", "chat", "--set", "token", *flags)
    assert (mistake.returncode, mistake.stdout, mistake.stderr.count("\n")) == (1, "", 1)
    assert ended(run("destination", "remove", me, "telegram", "chat", *flags)) == (0, "", "")


def test_help_is_spelled_well(typed):
    assert "deliveries: list, show, resend" in typed.type("--help")[1]
    for line in typed.type("destination", "--help")[1].splitlines():
        assert not line.endswith(", the"), "a sentence that is cut short"


CONTRACT = {
    "slack": ("channels", {"channel": "#releases", "team_name": "Home"}), "telegram": ("channels", {"type": "group"}),
    "discord": ("channels", {}), "hangouts_chat": ("webhooks", {}), "microsoft_teams": ("webhooks", {}),
    "mattermost": ("webhooks", {}), "rocketchat": ("webhooks", {}),
    "matrix": ("webhooks", {"homeserver_url": "http://127.0.0.1:9", "internal_room_id": "!room:example.org"}),
    "webhook": ("webhooks", {}), "ntfy": ("topics", {}), "gotify": ("applications", {}), "pushover": ("users", {}),
    "apprise": ("urls", {}), "email": ("emails", {}),
}
PATHS = {
    "slack": "slack-channels", "telegram": "telegram-chats", "discord": "discord-channels",
    "hangouts_chat": "hangouts-chat-webhooks", "microsoft_teams": "microsoft-teams-webhooks",
    "mattermost": "mattermost-webhooks", "rocketchat": "rocketchat-webhooks", "matrix": "matrix-rooms",
    "webhook": "webhooks", "ntfy": "ntfy-topics", "gotify": "gotify-applications", "pushover": "pushover-users",
    "apprise": "apprise-urls", "email": "emails",
}


@pytest.fixture
def hall(board: Board, capsys: pytest.CaptureFixture[str]) -> Board:
    """A board with a destination of each kind, made as the command line makes them, and another account with the same."""
    other = board.store.add_account("user", "you@example.org", "You", HASHED, True)
    board.ids, board.theirs = {}, {}        # type: ignore[attr-defined]
    for account, ids in ((board.account, board.ids), (other, board.theirs)):    # type: ignore[attr-defined]
        for kind, (settings, _) in planted("http://127.0.0.1:9").items():
            made = board.store.add_destination(account.id, kind, f"my {kind}", rt.read_settings(
                kind, [tuple(setting.split("=", 1)) for setting in settings]), "whsec_SECRET" if kind == "webhook" else "")
            ids[kind] = made.id
    return board


@pytest.mark.parametrize("kind", CONTRACT)
def test_the_list_of_a_kind_shows_what_the_contract_says_and_no_secret(hall, kind):
    key, more = CONTRACT[kind]
    found = hall.ask("GET", f"/v1/{PATHS[kind]}")
    row, = [row for row in found[key] if row["name"] == f"my {kind}"]
    assert row == {"id": hall.ids[kind], "name": f"my {kind}", **more}
    no_secrets(json.dumps(found), "SECRET", "USER", "token", hall.theirs[kind])
    assert all(rows == found[key] for rows in found.values())


@pytest.mark.parametrize("chat, type_", [("-42", "group"), ("-1001234567890", "supergroup"), ("42", "private"), ("@news", "channel")])
def test_a_telegram_chat_s_type_is_told_by_its_number(board, chat, type_):
    board.store.add_destination(board.account.id, "telegram", "n", rt.read_settings(
        "telegram", [("token", "123456789:telegramSECRETtelegramSECRETtel01"), ("chat", chat)]))
    assert board.ask("GET", "/v1/telegram-chats")["channels"][0]["type"] == type_


@pytest.mark.parametrize("kind", CONTRACT)
def test_a_project_takes_and_shows_the_ids_of_each_kind_and_refuses_others_by_name(hall, kind):
    field = PATHS[kind].replace("-", "_")
    project = hall.track("github", "o/p")
    path = f"/v1/projects/{project.id}"
    assert field not in hall.ask("GET", path)
    assert hall.ask("POST", path, {field: [hall.ids[kind], hall.ids[kind]]})[field] == [hall.ids[kind]]
    assert hall.ask("GET", path)[field] == [hall.ids[kind]]
    wrong = hall.ids["ntfy" if kind != "ntfy" else "slack"]
    for value in (wrong, hall.theirs[kind], "nonsense", "", 7, None, {"id": hall.ids[kind]}, "x" * 5000):
        faults = hall.faults("POST", path, {field: [hall.ids[kind], value]})
        assert len(faults) == 1 and field in faults[0] and len(faults[0]) < 300, faults
    assert field in hall.faults("POST", path, {field: hall.ids[kind]})[0]
    assert hall.ask("POST", path, {field: None})[field] == [hall.ids[kind]]
    assert hall.ask("GET", path)[field] == [hall.ids[kind]], "nothing refused has changed it"
    assert field not in hall.ask("POST", path, {field: []})
    hall.ask("POST", path, {field: [hall.ids[kind]]})
    hall.store.remove_destination(hall.ids[kind])
    assert field not in hall.ask("GET", path)


def test_all_faults_of_destinations_in_a_body_are_told_at_once(hall):
    project = hall.track("github", "o/p")
    fields = [path.replace("-", "_") for path in PATHS.values()]
    faults = hall.faults("POST", f"/v1/projects/{project.id}", {field: ["nope"] for field in fields} | {"hold_days": -1})
    assert len(faults) == len(fields) + 1 and all(any(field in fault for fault in faults) for field in (*fields, "hold_days"))


@pytest.mark.parametrize("value", [-1, 366, 10**30, 1.5, "3", True, [3], {}])
def test_hold_days_takes_a_whole_number_of_days_of_a_year_at_most(board, value):
    project = board.track("github", "o/p", hold_days=5)
    fault, = board.faults("POST", f"/v1/projects/{project.id}", {"hold_days": value})
    assert "hold_days" in fault and "0 to 365" in fault
    assert board.ask("GET", f"/v1/projects/{project.id}")["hold_days"] == 5


def test_hold_days_are_set_kept_and_taken_away(board):
    path = f"/v1/projects/{board.track('github', 'o/p').id}"
    assert "hold_days" not in board.ask("GET", path)
    assert board.ask("POST", path, {"hold_days": 365})["hold_days"] == 365
    assert board.ask("POST", path, {"note": "x", "hold_days": None})["hold_days"] == 365
    assert "hold_days" not in board.ask("POST", path, {"hold_days": 0})
