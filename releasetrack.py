#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["bottle>=0.13,<0.14", "waitress>=3"]
# ///
# mypy: disable-error-code="import-untyped,no-any-return,unused-ignore,type-arg", allow-subclassing-any
"""releasetrack: know when the software you depend on is released.

    python releasetrack.py serve                            pages and API on http://127.0.0.1:8080
    python releasetrack.py fetch github bottlepy/bottle     a provider's releases of a project
    python releasetrack.py --help                           all commands; serve --help lists all settings

One file, one SQLite database. A project is tracked at a provider; the tracker finds its releases;
a new release is an event; an event is delivered to every destination until it is accepted.

To embed it in a program of yours: help(releasetrack.Service), and the README.

The rooms, each using only some of those above it (`grep -n '^# == '` prints where each begins):
    settings        units, limits, and one table of what an operator may choose
    versions        what a version consists of, their order, and which may follow which: no I/O
    values          frozen dataclasses, errors, times, ids, text of notes, one table of what people choose
    limits          rate limits and pacing: arithmetic on a given time
    security        passwords, tokens, signatures, log-in throttling, a process for strangers' texts
    store           schema and all SQL; it stores what rules decided
    fetching        all outgoing HTTP and mail: deadlines, size bounds, address checks
    providers       one row per provider, and the dialects that they speak: no I/O
    readers         reads the files in which people pin versions: no I/O
    rules           what is new, what is excluded, who is notified and when: no I/O
    tracker         checks what is due, and records what it found
    notifications   one formatter per kind of destination: no I/O
    courier         sends what is due, and records each attempt
    forms           reads and validates what the API, the pages and the commands are given
    api             routes under /v1, JSON answers
    pages           style, templates, handlers, sessions, feeds
    service         builds the store, the threads and the application
    cli             the commands
"""
from __future__ import annotations

import os
import sys

if sys.version_info < (3, 11):
    sys.exit("releasetrack: Python 3.11 or newer is required, and this is " + sys.version.split()[0])
if __name__ == "__main__" and sys.argv[1:2] in (["serve"], ["check"]) and sys.orig_argv[1:] == sys.argv:
    # Python keeps what it parsed of a script until that ends, and nothing of a module: idle memory is 35 MiB
    # as a module and 63 MiB as a script. So the service, which runs for years, starts again as a module. So
    # does check, which cron runs often: compiling a script takes half a second.
    _folder, _file = os.path.split(os.path.abspath(sys.argv[0]))
    _name, _type = os.path.splitext(_file)
    if _name.isidentifier() and _type == ".py":
        # Else glibc keeps what threads have freed of large answers: 233 MiB beside hostile ones, not 131.
        os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", "262144")
        os.execv(sys.executable, [sys.executable, "-c", (
            "import sys; sys.path[0] = sys.argv[1]; del sys.argv[:2]; "
            f"import {_name}; sys.exit({_name}.main())"),
            _folder, *sys.argv])

import argparse
import base64
import bisect
import contextlib
import dataclasses
import datetime
import difflib
import email.headerregistry
import email.message
import email.policy
import email.utils
import errno
import fcntl
import functools
import getpass
import hashlib
import heapq
import hmac
import html
import http.client
import inspect
import io
import ipaddress
import itertools
import json
import logging
import math
import random
import re
import resource
import secrets
import shutil
import signal
import smtplib
import socket
import sqlite3
import ssl
import subprocess
import threading
import time
import tomllib
import urllib.parse
import uuid
import weakref
import zlib
import zoneinfo
from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from urllib.parse import quote, unquote, urljoin, urlsplit

try:
    import bottle
except ImportError:
    if __name__ != "__main__":
        raise
    sys.exit("releasetrack: the packages bottle and waitress are required: pip install bottle waitress")

__version__ = "1.0.0"
# What other programs may use, and what help() shows first. Everything else may change.
__all__ = [
    "Service", "Settings", "main", "verify", "releases_of", "pins_in", "version_order", "PROVIDERS",
    "Provider", "Dialect", "ProjectRef", "Listing", "Release", "Note", "Request", "Answer", "Pin", "Fetcher",
    "Kind", "SettingField", "Message", "utc",
    "ReleasetrackError", "Invalid", "NotFound", "TooMany", "ProviderError", "SettingError", "StoreError"]

log = logging.getLogger("releasetrack")


# == settings ==================================================================
# What an operator may choose, and the limits that nobody may. One row a setting: its default, its
# parser and its help make the flag, the environment variable, the stored setting and the README's line.

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
KIB, MIB = 1024, 1024 * 1024

PAGE_SIZE = 20                          # items on a page, of the API too
BODY_LIMIT = ANSWER_LIMIT = 1 * MIB     # of a request to us, and of our answer
HEAD_TIMEOUT, BODY_TIMEOUT = 10, 60     # seconds from a request's first byte to the end of its head, its body
IDLE_TIMEOUT = 30                       # seconds in which a client asks nothing, or reads none of its answer
UNSENT_LIMIT = 256 * KIB                # bytes of an answer that are kept in memory until they are read
CONNECTIONS, MOST_FILES = 1000, 8192    # to us at once; files and connections that the process asks to have
NAME_LIMIT = 200                        # characters of a project's name, a version, a label
TAG_LIMIT = 100                         # characters of a tag's name
PASSWORD_LIMIT = 1024                   # bytes
PATTERNS_LIMIT = 2000                   # characters of all patterns of a project; 500 of one, of at most 50
WORDS_LIMIT = 8                         # of a search in releases
NOTE_LIMIT = 240 * KIB                  # characters of a release note that are kept
CVE_LIMIT = 100                         # CVE ids of a release that are kept
ADVISORY_LIMIT = 20                     # flaws of an installed version that are kept, the worst
RELEASE_LIMIT = 10_000                  # releases of a project that are kept, the newest
INSTALLED_LIMIT = 100                   # versions installed of a project, at all places
ANSWERS_LIMIT = 20                      # of a project, which versions follow what is installed
CHANGES_LIMIT = 1_000                   # releases that "what changed" lists, the newest
CHANGES_NOTES, CHANGES_LINES = 256 * KIB, 2_000     # bytes and lines of the notes of a page of it
CHANGES_NOTE = 64 * KIB                 # characters of a note that are shown there
JSON_LIMIT, VALUE_LIMIT = 10 * MIB, 400_000     # bytes, and values, of an answer that is parsed: some 50 MiB
NOTE_PREVIEW_CHARS = 2000               # characters of a release note that lists show
FIRST_CHECK_WAIT = 3.0                  # seconds that a request waits for what the tracker does for it
LEASE = 3.0                             # seconds that a claim in the store lasts unless it is renewed
RETRY_MAX_WAIT, RETRY_WINDOW = 6 * HOUR, 3 * DAY
RETRY_MIN_ATTEMPTS = 10                 # failures before a delivery is given up, however long it took
DELIVERY_RETENTION = 30 * DAY           # deliveries and attempts
SENT_LIMIT = 16 * KIB                   # characters of a request that are kept with its delivery
NOTES_WAITS = 10 * MINUTE, HOUR, 6 * HOUR, DAY      # until the note of a new tag is looked for again
FAILURE_ALERT_AFTER = 10, 3 * DAY       # failed checks, and seconds of failing, before accounts are notified
SECRET_OVERLAP = 1 * DAY                # for which a webhook's previous secret signs beside the current one
RESEND_SPACING = 0.1                    # seconds between a destination's deliveries that are resent together
SESSION_IDLE, SESSION_MAX_AGE = 14 * DAY, 90 * DAY      # after which a browser has to sign in again
LOGIN_ATTEMPTS_PER_ACCOUNT = 10         # wrong passwords an hour, from one address
LOGIN_ATTEMPTS_PER_ADDRESS = 30         # wrong passwords an hour, for all accounts together
SESSIONS_PER_ACCOUNT = 100              # the one that was seen longest ago ends
CONFIRMED = 10 * MINUTE                 # for which secrets are shown after the password was typed
CODE_WAIT = 5 * MINUTE                  # between a log-in's password and its code
QUOTAS = {                              # of an account; --quota raises them
    "projects": 1_000, "tags": 1_000, "keys": 100, "destinations": 200,
    "tests": 120,                       # notifications sent as a test, an hour
    "lookups": 2,                       # requests at once that wait for another server
}
USER_AGENT = f"releasetrack/{__version__}"
# What may stand in an envelope and a header as it is: https://www.rfc-editor.org/rfc/rfc5321#section-4.1.2
# without its quoted forms; "=?" would be read as the start of an encoded word.
MAIL_ADDRESS = re.compile(
    r"(?=[^@]{1,64}@.{1,190}\Z)(?!.*=\?)[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*")

class SettingError(ValueError):
    """A setting that cannot be used: which one, its value, and what is expected."""

# Parsers. Their ValueError says what is expected: "a whole number from 1 to 64".
def only_if(is_valid: Callable[[Any], Any], expected: str) -> Callable[[Any], Any]:
    """A reader of the values that are valid, which stay as they are."""
    def read(value: Any) -> Any:
        if not is_valid(value):
            raise ValueError(expected)
        return value
    return read

def text_matching(pattern: str, expected: str) -> Callable[[str], str]:
    """A reader of the texts that the pattern matches as a whole."""
    return only_if(re.compile(pattern, re.ASCII).fullmatch, expected)

def _number(kind: type, pattern: str, what: str, least: float, most: float) -> Callable[[str], Any]:
    def read(value: str) -> Any:
        if not re.fullmatch(pattern, value) or not least <= kind(value) <= most:
            raise ValueError(f"{what} from {least:g} to {most:.0f}")
        return kind(value)
    return read

_whole = functools.partial(_number, int, "[0-9]{1,12}", "a whole number")
_seconds = functools.partial(_number, float, r"[0-9]{1,9}(\.[0-9]{1,6})?", "seconds,")

def read_web_address(value: str) -> str:
    """An http or https URL without query and fragment, without its trailing slash."""
    with contextlib.suppress(ValueError):
        url = urlsplit(value)
        _ = url.port        # raises for a port beyond 65535
        if url.scheme in ("http", "https") and url.hostname and not re.search(r"[\s\x00-\x1f?#]", value):
            return value.rstrip("/")
    raise ValueError("an address such as https://releases.example.org/path")

def _mail_server(value: str) -> str:
    with contextlib.suppress(ValueError):
        url = urlsplit(value)
        if (url.scheme in ("smtp", "smtp+starttls", "smtps") and url.hostname and url.port != 0
                and url.path in ("", "/") and (url.username is None) is (url.password is None)
                and re.fullmatch('[!"$->@-~]+', value)):        # no "?" and no "#"
            return value
    raise ValueError("a mail server such as smtp+starttls://user:password@mail.example.org:587, with "
                     "special characters of user and password written as %40 and so on")

def read_network(value: str) -> str:
    """The network in CIDR notation: ``10.0.0.0/8``, or one address."""
    try:
        return str(ipaddress.ip_network(value.strip(), strict=False))
    except ValueError:
        raise ValueError("a network such as 192.168.0.0/16, 10.1.2.3 or fd00::/8") from None

def _proxy_network(value: str) -> str:
    network = value if value == "unix" else read_network(value)
    if network.endswith("/0"):      # any client could then choose its own address
        raise ValueError("the proxy's own address or network, not every address")
    return network

def _provider_row(value: str) -> tuple[str, str, str]:
    """``(id, dialect, address)`` of ``ID=DIALECT:URL``. Whether the dialect exists, providers_with says.
    An address with a project's name in it may have a query and a fragment, which says how to read it."""
    match = re.fullmatch(r"([a-z0-9][a-z0-9-]{0,39})=([a-z]+):(https?://.+)", value)
    if match and re.search(r"\{(?!(?:name|segment|parts)\})", match[3].partition("#")[0]):
        raise ValueError("an address with {name} where the project's name stands")
    if not match or re.search("[@{]", urlsplit(match[3]).netloc):
        raise ValueError("ID=DIALECT:URL without user and password, such as "
                         "home=forgejo:https://git.example.org")
    address = read_web_address(re.split("[?#]", match[3])[0] if "{name}" in match[3] else match[3])
    return match[1], match[2], match[3] if "{name}" in match[3] else address

def _token(value: str) -> tuple[str, str]:
    """``(provider, token)`` of ``PROVIDER=TOKEN``."""
    match = re.fullmatch(r"([a-z0-9][a-z0-9-]{0,39})=([!-~]{1,4000})", value)
    if not match:
        raise ValueError("PROVIDER=TOKEN, such as github=ghp_...")
    return match[1], match[2]

def _quota(value: str) -> tuple[str, int]:
    """``(name, limit)`` of ``NAME=N``."""
    name, _, limit = value.partition("=")
    if name not in QUOTAS or not re.fullmatch("[1-9][0-9]{0,8}", limit):
        raise ValueError(f"NAME=N, such as keys=200; the names are {', '.join(QUOTAS)}")
    return name, int(limit)

def _text_of(value: Any) -> str:
    if isinstance(value, tuple):        # of a keyed setting, parsed already
        return f"{value[0]}={':'.join(map(str, value[1:]))}"
    if not isinstance(value, (str, int, float, os.PathLike)):
        raise ValueError(f"a text, not {type(value).__name__}")
    return f"{value:f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)

@dataclasses.dataclass(frozen=True)
class Setting:
    """A row of SETTINGS."""
    default: Any                    # where that is "", the empty text is a value too
    parse: Callable[[str], Any]     # reads one text; its ValueError says what is expected
    shape: str                      # the placeholder of a value
    about: str
    is_repeatable: bool = False
    is_keyed: bool = False          # each value is (id, ...), and sources override each other by id
    is_stored: bool = True          # the store may keep it; a change of any other needs a restart
    is_serve_only: bool = False
    is_secret: bool = False
    variable: str = ""
    name: str = ""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    def texts(self, value: Any) -> list[str]:
        """The texts that ``read`` makes this value of; no empty one, which would mean the default."""
        return [_text_of(one) or ("none" if self.default else "")
                for one in (value if isinstance(value, (list, tuple)) else [value])]

    def read(self, given: Any, called: str) -> Any:
        """The value of a text or several, or of a value, which is checked. Raises SettingError."""
        values = []
        for one in given if isinstance(given, (list, tuple)) else [given]:
            try:
                text = _text_of(one)
                values.append(self.parse(text) if text != self.default else text)
            except ValueError as error:
                # A password may be anywhere in a secret, and before the host of an address.
                shown = "" if self.is_secret else f" {re.sub('//[^/?#]*@', '//***@', str(one))!r}"
                raise SettingError(f"{called}: invalid value{shown}; expected {error}") from None
        return tuple(values) if self.is_repeatable else values[0]

    def first(self, sources: Iterable[tuple[Any, str]]) -> Any:
        """The value of the first source; of a keyed setting each id's of the first that names it. A source is
        what is given and what an error calls it; one with None or [] is none."""
        found = [source for source in sources if source[0] not in (None, [])]
        if not self.is_keyed or not found:
            return self.read(*found[0]) if found else None
        return tuple({one[0]: one for source in reversed(found) for one in self.read(*source)}.values())

V = TypeVar("V")
if TYPE_CHECKING:
    class Chosen(Generic[V]):
        """A field that is read as its value, and given as that, as text, or as None."""
        def __get__(self, of: object, kind: Any = None) -> V: ...
        def __set__(self, _: Any, to: V | str | float | Sequence[str] | os.PathLike[str] | None) -> None: ...

def _setting(default: Any, parse: Callable[[str], Any], shape: str, about: str, **more: Any) -> Any:
    row = Setting(default, parse, shape, about, **more)
    return dataclasses.field(default=default, repr=not row.is_secret, metadata={"row": row})

@dataclasses.dataclass(frozen=True)
class Settings:
    """What the operator chose; each field takes its value, its text, or None. Raises SettingError."""
    # name        default, parser, placeholder and help
    db: Chosen[str] = _setting(
        "releasetrack.db", str, "FILE", "the SQLite file that holds everything", is_stored=False)
    host: Chosen[str] = _setting(
        "127.0.0.1", str, "ADDRESS", "the address to listen on", is_serve_only=True, is_stored=False)
    port: Chosen[int] = _setting(8080, _whole(0, 65535), "N", "the port to listen on; 0 picks a free one",
                                 is_serve_only=True, is_stored=False)
    base_url: Chosen[str] = _setting(
        "", read_web_address, "URL", "where people reach the service, if not at the address that it listens "
        "on; with https, nobody can sign in over plain http until it is unset")
    trusted_proxy: Chosen[tuple[str, ...]] = _setting(
        (), _proxy_network, "CIDR", "a reverse proxy whose X-Forwarded-For is believed; unix is one that "
        "connects by a unix socket", is_repeatable=True)
    auth_header: Chosen[str] = _setting(
        "", text_matching("[A-Za-z][A-Za-z0-9-]{0,60}", "the name of a header, such as Remote-User"),
        "NAME", "the header in which the trusted proxy says who is signed in, such as Remote-User")
    auth_accounts: Chosen[str] = _setting(
        "existing", text_matching("existing|create", "existing or create"), "existing|create",
        "whom --auth-header signs in: existing accounts, or anybody, creating accounts on first sight")
    rate_limit: Chosen[int] = _setting(1000, _whole(0, 10**9), "N", "units an hour and key; 0 for no limit")
    quota: Chosen[tuple[tuple[str, int], ...]] = _setting(
        (), _quota, "NAME=N", "how much of something an account may have: " + ", ".join(
            f"{name} (default {limit})" for name, limit in QUOTAS.items()),
        is_repeatable=True, is_keyed=True, variable="RELEASETRACK_QUOTAS")
    poll_interval: Chosen[float] = _setting(
        HOUR, _seconds(1, 30 * DAY), "SECONDS", "seconds between the checks of a project")
    host_limit: Chosen[int] = _setting(
        2, _whole(1, 256), "N", "concurrent requests to one provider's host; at most 16 checks run at once")
    contact: Chosen[str] = _setting(
        "", text_matching(r"(?:mailto:)?[\w.+-]{1,64}@[\w.-]{1,190}|https?://[!-'*-~]{1,200}",
                          "a mail or web address, such as me@example.org"),
        "ADDRESS", "a mail or web address at which providers may reach you; each request names it")
    retry_first: Chosen[float] = _setting(
        30.0, _seconds(0.01, RETRY_MAX_WAIT), "SECONDS", "seconds to wait after a delivery's first failure; "
        "the wait doubles from there")
    osv_url: Chosen[str] = _setting(
        "https://api.osv.dev", lambda text: "" if text in ("", "none") else read_web_address(text), "URL",
        "who is asked once a day which versions that run are vulnerable, and is sent the names of packages "
        "and repositories with their versions; endoflife.date is asked how long they are supported, and "
        "sent names of products. With none, nobody is asked")
    digest_hour: Chosen[int] = _setting(
        8, _whole(0, 23), "HOUR", "the hour of daily and weekly digests, in the account's time zone")
    brand: Chosen[str] = _setting(
        "Service", text_matching("(?=.{1,40}$)[A-Za-z0-9]+(-[A-Za-z0-9]+)*",
                                 "a word of letters and digits, as in the header X-WORD-Signature"),
        "WORD", "the word in the headers X-WORD-Signature and X-WORD-Timestamp")
    provider: Chosen[tuple[tuple[str, str, str], ...]] = _setting(
        (), _provider_row, "ID=DIALECT:URL", "add a provider, or move a built-in one",
        is_repeatable=True, is_keyed=True, variable="RELEASETRACK_PROVIDERS")
    token: Chosen[tuple[tuple[str, str], ...]] = _setting(
        (), _token, "PROVIDER=TOKEN",
        "a provider's API token, unless the provider's own variable such as GITHUB_TOKEN is set",
        is_repeatable=True, is_keyed=True, is_secret=True, variable="RELEASETRACK_TOKENS")
    smtp_url: Chosen[str] = _setting(
        "", _mail_server, "URL", "the mail server: smtp://, smtp+starttls:// or smtps://, with "
        "user:password@ if it needs a log-in; without it, no mail is sent", is_secret=True)
    mail_from: Chosen[str] = _setting(
        "", text_matching(MAIL_ADDRESS.pattern, "a mail address, such as releases@example.org"),
        "ADDRESS", "the sender of mail, if not the user of --smtp-url")
    allow_network: Chosen[tuple[str, ...]] = _setting(
        (), read_network, "CIDR", "a private network that destinations and git repositories of every account "
        "may be in, not only administrators'", is_repeatable=True)
    outgoing_proxy: Chosen[str] = _setting(
        "", only_if(lambda value: value.startswith("http://") and read_web_address(value),
                    "the address of an HTTP proxy, such as http://127.0.0.1:3128"),
        "URL", "an HTTP proxy for all outgoing requests but mail; it resolves names, but for "
        "accounts that are no administrators", is_secret=True)
    scan: Chosen[tuple[str, ...]] = _setting(
        (), str, "PATH", "a file or folder to read installed versions from every hour, for the first "
        "administrator", is_repeatable=True, is_serve_only=True, is_stored=False)
    docker: Chosen[str] = _setting(
        "", text_matching(r"(?:unix://)?/.{1,100}|tcp://[\w.-]{1,200}(?::[0-9]{1,5})?",
                          "a socket such as /var/run/docker.sock, or tcp://127.0.0.1:2375"),
        "SOCKET", "a socket of Docker or Podman to read containers from every hour, for the first "
        "administrator", is_serve_only=True, is_stored=False)
    place: Chosen[str] = _setting(
        "", text_matching(r"[^\x00-\x1f]{1,100}", "a name of at most 100 characters"), "PLACE",
        "the place under which --scan and --docker record what they find", is_serve_only=True,
        is_stored=False)
    threads: Chosen[int] = _setting(8, _whole(1, 64), "N", "concurrent requests to the service",
                                    is_serve_only=True, is_stored=False)
    log_level: Chosen[str] = _setting(
        "info", text_matching("(?i:debug|info|warning|error)", "one of: debug, info, warning, error"),
        "LEVEL", "what is logged", is_stored=False)
    # Names of the settings that were chosen, even where the default was; stored ones do not replace them.
    given: frozenset[str] = dataclasses.field(default=frozenset(), repr=False, compare=False)

    def __post_init__(self) -> None:
        for row in SETTINGS.values():
            given = getattr(self, row.name)
            object.__setattr__(self, row.name, row.default if given is None else row.read(given, row.name))
        chosen = {row.name for row in SETTINGS.values() if getattr(self, row.name) != row.default}
        object.__setattr__(self, "given", self.given | chosen)

    @classmethod
    def from_outside(cls, flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
        """Settings of the command line: a flag, else the environment variable."""
        def sources(row: Setting) -> list[tuple[Any, str]]:
            text = environ.get(row.variable) or None
            return [(flags.get(row.name), row.flag),
                    (text.split() if text and row.is_repeatable else text, row.variable)]
        return cls._of(sources)

    def merged_with(self, *stored: Mapping[str, Sequence[str]]) -> Settings:
        """These settings, completed from stored ones: texts by name. Of several mappings the first wins."""
        return self._of(lambda row: [
            (getattr(self, row.name) if row.name in self.given else None, row.name),
            *((texts.get(row.name), f"config {row.name}") for texts in stored if row.is_stored)])

    def quota_of(self, name: str) -> int:
        """How much of something an account may have."""
        return dict(self.quota).get(name, QUOTAS[name])

    @classmethod
    def _of(cls, sources: Callable[[Setting], Iterable[tuple[Any, str]]]) -> Settings:
        """Settings of which each has the first of its sources, as of ``Setting.first``."""
        found = {name: row.first(sources(row)) for name, row in SETTINGS.items()}
        return cls(**found, given=frozenset(name for name, value in found.items() if value is not None))

SETTINGS: dict[str, Setting] = {
    field.name: dataclasses.replace(
        row, name=field.name, variable=row.variable or f"RELEASETRACK_{field.name.upper()}")
    for field in dataclasses.fields(Settings) if (row := field.metadata.get("row"))}


# == versions ==================================================================
# What a version consists of, how each ecosystem orders versions, which are not final, and which may
# follow which. Pure: one table of words feeds one function that takes a version apart.

# Stages before the final version, lowest first.
PRERELEASE_WORDS = {word: rank for rank, words in enumerate((
    "dev develop development devel snapshot nightly canary main master trunk daily continuous edge tip "
    "unstable experimental exp staging sid rawhide testing test trial internal draft wip pr insiders "
    "insider",
    "alpha prealpha early",
    "beta preview pre prerelease ea eap ctp dp tp next", "milestone", "rc cr candidate",
)) for word in words.split()}
# What single letters mean before a small number or a date: 1.0b2, but not openssl's 1.0.2b or a100.
_PRERELEASE_LETTERS = {"a": "alpha", "b": "beta", "c": "rc", "m": "milestone"}
_REPAIRS = frozenset("post hotfix patch fix security sp p pl".split())      # come after the final version
_COUNTERS = frozenset("ls r b build rev v g u k s rke up ga final release".split())     # are no variants
_NO_NAMES = frozenset("v release releases rel ver version tag tags stable".split())
# Words whose number says what something is built on, wherever another number is the version.
_BASES = frozenset(
    "alpine debian ubuntu ubi ltsc nanoserver servercore windowsservercore windows centos rockylinux rocky "
    "almalinux alma el fedora fc oraclelinux ol amazonlinux photon leap suse php python py ruby jdk jre java "
    "openjdk temurin node nodejs golang cuda cudnn rocm pg postgres postgresql otp erlang perl scala kotlin "
    "dotnet net spark".split())
SYSTEM_WORDS = frozenset("Debian Ubuntu ltsc nanoserver servercore windowsservercore windows".split())
_CODE_NAMES = {name: (system, tuple(map(int, number.split(".")))) for system, names in {
    "Debian": "jessie 8 stretch 9 buster 10 bullseye 11 bookworm 12 trixie 13 forky 14",
    "Ubuntu": "trusty 14.04 xenial 16.04 bionic 18.04 focal 20.04 jammy 22.04 noble 24.04 oracular 24.10 "
              "plucky 25.04 questing 25.10 resolute 26.04"}.items()
    for name, number in zip(names.split()[::2], names.split()[1::2])}
_ARCHITECTURES = (r"amd64|x86[-_]64|i386|arm|arm64(?:v8)?|aarch64|arm32v[567]|arm(?:v[5-8]|hf|el)|ppc64le"
                  "|s390x|riscv64|mips64le|loong64|armv7l|x64|x86|(?:32|64)-?bit")
_HALF = re.compile(rf"(?<![a-z0-9])(?:{_ARCHITECTURES})(?![a-z0-9])[-_.]?")
# The hash of a commit, as in 1.40.2.8395-c67dce28e; not a letter with a date, as in 1.0-b20260601.
_HASH = re.compile(r"(?<![0-9a-z.])g?(?![a-f]?[0-9]+(?![0-9a-z]))[0-9a-f]{7,40}(?![0-9a-z])")
_STAMP = re.compile("20[0-9]{2}-[01][0-9]-[0-3][0-9](?:t[0-9]{2}-[0-9]{2}-[0-9]{2})?")      # MinIO's versions
_JAVA = re.compile("(?<![0-9])([0-9]{1,2})u([0-9]{1,4})(?![0-9])")                          # 8u432
_NUMBERS = re.compile(r"[0-9]+(?:[._][0-9]+)*")
_BEHIND = re.compile(r"([a-z]+)?([-_.:~]?)([0-9]+(?:[._][0-9]+)*)?")
_PLAIN_VERSION = re.compile(r"([vV]?)([0-9]{1,18}(?:\.[0-9]{1,18})*)")
_PADDED = re.compile("(?<![0-9])0[0-9]")
_TOKEN = re.compile(r"[a-z]+|[0-9]+")
# Stages before a final release that are written in a way of their own: Perl's 1.23_01, Minecraft's 24w14a.
_ODD_PRERELEASE = re.compile(r"v?[0-9]+\.[0-9]{2,}_[0-9]{2}|[0-9]{2}w[0-9]{2}[a-z]")

# Tags of an image that are no releases: its halves for one architecture, and what only builds use.
_ODD_TAG = re.compile("|".join((
    rf"(?P<architecture>(?:.*[-_.])?(?:{_ARCHITECTURES})(?:[-_.].*)?|.*-386)",
    r"(?P<part>sha256-[0-9a-f]{64}.*|.*\.(?:sig|att|sbom)|(?:.*[-_.])?(?:build)?cache(?:[-_.].*)?)",
    r"(?P<change>(?i:pr|pull|mr|pull-request|merge-request)[-_.]?[0-9]+(?:[-_.].*)?|"
    r"(?:renovate|dependabot|snyk|feature|feat|fix|bugfix|branch|refs|revert|gh-readonly-queue)[-_].*)",
    r"(?P<hash>(?:sha|commit|git)-[0-9a-f]{6,64}(?:[-_.].*)?|"
    r"(?:[a-z]\w*-(?:\w+-)*g?)?(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,64})",
    r"(?P<stamp>(?!v?[0-9][0-9.]*-1[0-9]{9}$).*-[0-9]{10,}(?:-.*)?)")))     # but Red Hat's 9.6-1752587672

def _odd_kind(tag: str) -> str:
    match = _ODD_TAG.fullmatch(tag)
    kind = match.lastgroup or "" if match else ""
    return f"{kind} {version_parts(tag).architecture}" if kind == "architecture" else kind

def is_left_out(tag: str, installed: Iterable[str]) -> bool:
    """Whether a list leaves out an image's tag: one for one architecture, or that only builds use, unless one
    of that kind is installed."""
    kind = _odd_kind(tag)
    return bool(kind) and kind not in map(_odd_kind, installed)

# What sorts versions: numbers, without zeros at the end, then stages, of which (1, "", 0) is the final one.
VersionOrder = tuple[tuple[int, ...], list[tuple[int, str, int]]]
_FINAL = (1, "", 0)

def _without_zeros(numbers: Sequence[int]) -> tuple[int, ...]:
    kept = list(numbers)
    while kept and not kept[-1]:
        kept.pop()
    return tuple(kept)

@dataclasses.dataclass
class VersionParts:
    """A version of no particular ecosystem, in small letters. It is shared: it does not change."""
    before: str = ""                        # as it is written, such as "v", or a package's name
    name: str = ""                          # of that what is a name: not "v", "release", or the project's own
    numbers: tuple[int, ...] = ()           # the first that say nothing of a base
    is_padded: bool = False                 # one of the numbers begins with a zero
    behind: tuple[str, ...] = ()            # words and numbers; letters that mean a stage as its word
    stages: tuple[tuple[int, str, int], ...] = ()   # before or after the final version: rc1, hotfix-2, p1, 3a
    counter: tuple[int, ...] = ()           # which build it is: -ls30, -r4, -20250101, -31-g1a2b3c4, +k3s1
    build: tuple[int, ...] = ()             # of the counter what stands behind a "+"
    bases: tuple[tuple[str, tuple[int, ...]], ...] = ()     # alpine3.22, bookworm, ltsc2022, php8.2
    variant: tuple[str, ...] = ()           # other words: slim, alpine, jre
    architecture: str = ""
    is_on_base_alone: bool = False          # its only number is a base's, as in "lts-jdk17"

    def __post_init__(self) -> None:
        first, plain = self.numbers[0] if self.numbers else 0, _without_zeros(self.numbers)
        # The kind of the numbers: those of different kinds cannot be compared.
        self.scheme = "year" if 1900 <= first < 2100 else "date" if first > 10_000_000 else ""
        self.product = self.name, self.scheme
        # What is the same for versions that follow each other on any base; for all builds, variants and
        # spellings of a version; and for tags of an image that are meant to be used alike.
        words, self.base = tuple(word for word, _ in self.bases), tuple(numbers for _, numbers in self.bases)
        self.family = *self.product, self.variant, self.architecture, words
        self.release = self.name, plain, self.stages
        self.style = bool(self.counter), self.before in ("", "v")
        # What an image contains and is based on says nothing about its age.
        self.order: VersionOrder = plain, [
            *self.stages, _FINAL, *((3, "", number) for number in self.counter)]

def _numbers_of(group: str) -> tuple[int, ...]:
    return tuple(map(int, re.split("[._]", group)))

def _version_group(text: str) -> tuple[re.Match[str] | None, bool]:
    """``(the numbers that are the version, whether they are a base's)``: the first that stand behind no
    letter but "v"; where all do, as in go1.23rc1, the first that stand behind no base, or the first."""
    groups = list(_NUMBERS.finditer(text))
    words = [re.findall("[a-z]*", text[:group.start()].rstrip("-_."))[-2:][0] for group in groups]
    clear = [group for group, word in zip(groups, words) if word not in _BASES
             and re.search("(?:^|[^a-z])v?$", text[:group.start()])]
    for at, group in enumerate(clear):      # 3d-slicer-5.6.2: a name may begin with a number
        is_last = at + 1 == len(clear) or len(_numbers_of(clear[at + 1][0])) < 2
        if is_last or not re.match("[a-z]+-", text[group.end():]):
            return group, False
    if not groups or words[0] in _BASES and len(_numbers_of(groups[0][0])) < 3:
        return next(iter(groups), None), bool(groups)
    return groups[0], False

@functools.lru_cache(maxsize=8192)      # each installation of a project asks for the same versions
def version_parts(version: str, is_own_name: bool = False) -> VersionParts:
    """The parts of a version: of "12.0.0-M2-alpine3.22" (12, 0, 0), the stage "milestone" 2, and the base
    alpine 3.22. ``is_own_name``: the name before the numbers is the project's own, and says nothing."""
    if plain := _PLAIN_VERSION.fullmatch(version):      # as most are; this takes a third of the time
        numbers = tuple(map(int, plain[2].split(".")))
        return VersionParts(plain[1].lower(), "", numbers, _PADDED.search(version) is not None)
    text, _, build = version.lower().partition("+")
    text = _HASH.sub("", _JAVA.sub(r"\1.\2", text))
    text = _STAMP.sub(lambda stamp: re.sub("[-t]", ".", stamp[0]), text)
    architecture = _HALF.search(text)
    text = _HALF.sub("", text) if architecture else text
    group, is_base = _version_group(text)
    start, end = group.span() if group else (len(text), len(text))
    words = [word for word in re.findall("[a-z0-9]+", text[:start]) if word not in _NO_NAMES]
    name = "" if is_own_name else "-".join(words).removesuffix("v")
    builds = tuple(int(token) for token in _TOKEN.findall(_HASH.sub("", build)) if token.isdigit())
    parts = _parts_behind(text[end:], _JAVA.search(version.lower()) is not None)
    return dataclasses.replace(
        parts, before=text[:start], name=name if name.replace("-", "") else "", build=builds,
        numbers=_numbers_of(group[0]) if group else (), counter=parts.counter + builds,
        is_padded=any(one[0] == "0" != one for one in re.split("[._]", group[0] if group else "0")),
        architecture=architecture[0].strip("-_.") if architecture else "", is_on_base_alone=is_base)

def _parts_behind(text: str, is_java: bool) -> VersionParts:
    """What the text behind the numbers says."""
    behind, stages, counter = list[str](), list[tuple[int, str, int]](), list[int]()
    bases, variant = list[tuple[str, tuple[int, ...]]](), set[str]()
    for at, (word, separator, group) in enumerate(_BEHIND.findall(text)):
        numbers = _numbers_of(group) if group else ()
        if word in _PRERELEASE_LETTERS and numbers and not is_java and (word != "c" or not at):
            is_stage = len(re.split("[._]", group)[0]) in (1, 2, 8) or separator == "."
            word = _PRERELEASE_LETTERS[word] if is_stage else word
        behind += [*[word] * bool(word), *map(str, numbers)]
        if word in PRERELEASE_WORDS and word != "devel":
            stages += [(0, "", PRERELEASE_WORDS[word]), *((3, "", number) for number in numbers)]
        elif word in _REPAIRS:
            stages += [(2, "", 0), *((3, "", number) for number in numbers)]
        elif word in _BASES and numbers:
            bases.append((word, numbers))
        else:
            counter += numbers
            if word in _CODE_NAMES:
                bases.append(_CODE_NAMES[word])
            elif len(word) in (1, 2) and not at and word not in _COUNTERS:
                stages.append((2, word, 0))         # openssl's 1.1.1w
            elif len(word) > 1 and word not in _COUNTERS:
                variant.add(word)
    return VersionParts(behind=tuple(behind), stages=tuple(stages), counter=tuple(counter),
                        bases=tuple(bases), variant=tuple(sorted(variant)))

def prerelease_by_words(version: str) -> bool:
    """Whether a version of no particular ecosystem is not final: ``1.0-rc1`` is not, ``1.0-alpine`` is. Words
    before the numbers may be a name, as in ``snapshot-controller-3.0.6``: they count only all together."""
    if _PLAIN_VERSION.fullmatch(version):       # as most are
        return False
    if _ODD_PRERELEASE.fullmatch(version):
        return True
    label = re.split(r"[@/](?=v?[0-9])", version)[-1]           # without a package's name before it
    parts = version_parts(label)
    words = [word for word in _TOKEN.findall(parts.before) if word != "v"]
    is_stage = all if parts.numbers else any
    return (bool(words) and is_stage(word in PRERELEASE_WORDS for word in words)
            or any(word in PRERELEASE_WORDS or word.endswith("preview") for word in parts.behind))

def _ranked(version: str, rank: Callable[[str], tuple[int, str, int]]) -> VersionOrder:
    """By the numbers, and words behind them by their rank: those below ``_FINAL`` come before the final."""
    parts = version_parts(version)
    stages = ((3, "", int(token)) if token.isdigit() else rank(token) for token in parts.behind)
    return _without_zeros(parts.numbers), [
        *(stage for stage in stages if stage != _FINAL), _FINAL, *((3, "", number) for number in parts.build)]

@functools.lru_cache(maxsize=8192)      # a comparison asks for each several times: a third of its time
def version_order(version: str) -> VersionOrder:
    """A key that sorts versions of no particular ecosystem as people do: ``1.0-rc1`` before ``1.0``."""
    return _ranked(version, lambda word: (
        (0, "", PRERELEASE_WORDS[word]) if word in PRERELEASE_WORDS else (2, word, 0)))

def exact_order(version: str) -> VersionOrder:
    """As ``version_order``, but 2.0.0 is above 2.0: CRAN, Hackage, Composer (whose dev-master is highest)."""
    numbers, stages = version_parts(version).numbers, version_order(version)[1]
    return (9_999_999,) if version == "dev-master" else numbers, stages

_MAVEN_STAGES = {"alpha": (0, "", 0), "beta": (0, "", 1), "milestone": (0, "", 2), "rc": (0, "", 3),
                 "cr": (0, "", 3), "snapshot": (0, "", 4), "ga": _FINAL, "final": _FINAL, "release": _FINAL,
                 "sp": (2, "", 0)}

def maven_order(version: str) -> VersionOrder:
    """https://maven.apache.org/pom.html#version-order-specification: a number behind a dash is below one
    behind a dot; what says nothing, as a zero or "final", is left out before a dash and at the end."""
    ranks, tokens = list[tuple[int, str, int]](), re.findall("([-._]?)([a-z]+|[0-9]+)", version.lower())
    for at, (separator, token) in enumerate(tokens):
        if separator != "." or not token.isdigit():
            while ranks and (ranks[-1] == _FINAL or ranks[-1][0] > 2 and not ranks[-1][2]):
                ranks.pop()
        if token.isdigit():
            ranks.append((4 if separator == "." or not at else 3, "", int(token)))
        else:
            is_before_number = tokens[at + 1:] and not tokens[at + 1][0] and token in ("a", "b", "m")
            stage = _PRERELEASE_LETTERS[token] if is_before_number else token
            ranks.append(_MAVEN_STAGES.get(stage, (2, stage, 0)))
    while ranks and (ranks[-1] == _FINAL or ranks[-1][0] > 2 and not ranks[-1][2]):
        ranks.pop()
    return (), [*ranks, _FINAL]

def _identifiers(text: str) -> list[tuple[int, str, int]]:
    return [(0, "", int(one)) if re.fullmatch("[0-9]+", one) else (0, one, 0)
            for one in text.split(".") if one]

def semver_order(version: str) -> VersionOrder:
    """https://semver.org/#spec-item-11, with any count of numbers, and a "v" before them. Of versions that
    are the same to it the build metadata decide, as https://dart.dev/tools/pub/versioning says."""
    rest, _, build = version.partition("+")
    core, _, stage = rest.partition("-")
    if not re.fullmatch(r"v?[0-9]+(?:\.[0-9]+)*", core):
        return version_order(version)
    numbers = [int(number) for number in core.lstrip("v").split(".")]
    return _without_zeros(numbers), [*(_identifiers(stage) or [_FINAL]), *_identifiers(build)]

def prerelease_by_semver(version: str) -> bool:
    """A hyphen after the numbers, build metadata aside: https://semver.org/#spec-item-9"""
    match = re.match(r"v?[0-9]+(?:\.[0-9]+)*(-)?", version.split("+")[0])
    return bool(match[1]) if match else prerelease_by_words(version)

_PEP440 = re.compile(
    r"v?(?:(?P<epoch>[0-9]+)!)?(?P<numbers>[0-9]+(?:\.[0-9]+)*)"
    r"(?:[-_.]?(?P<stage>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<at>[0-9]*))?"
    r"(?P<post>[-_.]?(?:post|rev|r)[-_.]?(?P<nth>[0-9]*)|-(?P<implicit>[0-9]+))?"
    r"(?P<dev>[-_.]?dev[-_.]?(?P<day>[0-9]*))?(?:\+(?P<local>[a-z0-9._-]*))?", re.ASCII | re.IGNORECASE)

def pep440_order(version: str) -> VersionOrder:
    """https://packaging.python.org/en/latest/specifications/version-specifiers/"""
    match = _PEP440.fullmatch(version)
    if not match:
        numbers, stages = version_order(version)
        return (-1, *numbers), list(stages)
    numbers = _without_zeros([int(number) for number in match["numbers"].split(".")])
    stage, post, dev = (match["stage"] or "").lower(), match["post"], match["dev"]
    first = (0, stage[0] if stage[0] in "ab" else "rc", int(match["at"] or 0)) if stage else (
        (-1, "", 0) if dev and not post else _FINAL)
    after = (1, "", int(match["nth"] or match["implicit"] or 0)) if post else (0, "", 0)
    last = (0, "", int(match["day"] or 0)) if dev else _FINAL
    local = ((2, "", int(one)) if re.fullmatch("[0-9]+", one) else (1, one, 0)
             for one in re.split("[-_.]", (match["local"] or "").lower()) if one)
    return (int(match["epoch"] or 0), *numbers), [first, after, last, *local]

def prerelease_by_pep440(version: str) -> bool:
    """As ``pep440_order``; by words what has another form."""
    match = _PEP440.fullmatch(version)
    return bool(match["stage"] or match["dev"]) if match else prerelease_by_words(version)

def perl_order(version: str) -> VersionOrder:
    """https://metacpan.org/pod/version: 1.23 is 1.230, and 1.2301 above it."""
    match = re.fullmatch(r"([0-9]+)\.([0-9]+)(?:_([0-9]+))?", version)
    if not match:
        return version_order(version)
    decimals = match[2] + (match[3] or "")
    thousands = [int(decimals[at:at + 3].ljust(3, "0")) for at in range(0, len(decimals), 3)]
    return _without_zeros([int(match[1]), *thousands]), [_FINAL]

def debian_order(version: str) -> VersionOrder:
    """As deb-version(7) says: words and numbers in turn, first of the upstream version, then of the revision;
    a tilde is before the end, and letters are before other signs."""
    epoch, _, rest = version.rpartition(":")
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    ranks = list[tuple[int, str, int]]()
    for text in (upstream, revision):
        for letters, number in re.findall("([^0-9]*)([0-9]*)", text):
            ranks += [(0 if one == "~" else 2 if one.isalpha() else 3, one, 0) for one in letters]
            ranks += [_FINAL, (1, "", int(number or 0))]
        ranks.append(_FINAL)
    return (int(epoch) if re.fullmatch("[0-9]+", epoch) else 0,), ranks

def prerelease_by_tag(tag: str) -> bool:
    """As ``prerelease_by_words`` of an image's tag: the word before the numbers counts, -devel does not."""
    parts = version_parts(tag)
    words = {*_TOKEN.findall(parts.before), *parts.behind} - {"devel"}
    return not PRERELEASE_WORDS.keys().isdisjoint(words) or _ODD_PRERELEASE.fullmatch(tag) is not None

class VersionRules(NamedTuple):
    """How an ecosystem orders its versions, which of them are not final, and which may follow which."""
    order: Callable[[str], VersionOrder]
    is_prerelease: Callable[[str], bool]
    is_image: bool = False              # tags of an image move, and say what it is based on
    is_one_family: bool = False         # all versions of a project may follow each other
    own_name: str = ""                  # of the project, its letters and digits: tags may begin with it
    answers: tuple[tuple[str, bool], ...] = ()      # versions, and whether those like them follow mine

    def of(self, name: str, answers: Iterable[tuple[str, bool]] = ()) -> VersionRules:
        """The rules for a project of that name, with what a person said of it."""
        own_name = re.sub("[^a-z0-9]", "", name.rpartition("/")[2].lower())
        return self._replace(own_name=own_name, answers=tuple(answers))

    def parts(self, version: str) -> VersionParts:
        """As ``version_parts``; an image's tag with a base's number alone, as "java17", has no version."""
        parts = version_parts(version)
        if parts.name and parts.name.replace("-", "") == self.own_name:
            parts = version_parts(version, True)
        return VersionParts(parts.before) if parts.is_on_base_alone and self.is_image else parts

    def form(self, one: VersionParts) -> tuple[Any, ...]:
        """What a person's answer is about: the same for a version and those like it."""
        return one.family, self.is_image and (one.base, len(one.numbers), bool(one.counter))

    def answer(self, one: VersionParts) -> bool | None:
        """Whether a person said that such a version follows what is installed; None where nobody did."""
        form = self.form(one) if self.answers else ()
        return next((does for version, does in self.answers if self.form(self.parts(version)) == form), None)

    def is_moving(self, tag: str) -> bool:
        """Whether an image's tag names no version, so that its digest alone says whether it is new."""
        return self.is_image and bool(tag) and not self.parts(tag).numbers

    def follows(self, mine: VersionParts, other: VersionParts) -> str:
        """Whether a version may follow mine, whatever their order: "yes" (in all but the numbers the same, or
        on a higher base), "doubt", or "" for never."""
        answer = True if self.is_one_family else self.answer(other) if self.answers else None
        if answer is not None or not other.numbers or mine.architecture != other.architecture:
            return "yes" if answer else ""
        is_far = mine.is_padded is not other.is_padded and mine.scheme != "date" and any(
            abs(one - another) > 5 for one, another in zip(mine.numbers[:1], other.numbers[:1]))
        if mine.family != other.family or is_far:
            return "doubt"
        return "" if any(one > another for one, another in zip(mine.base, other.base)) else "yes"

GENERIC = VersionRules(version_order, prerelease_by_words)
EXACT = VersionRules(exact_order, prerelease_by_words)
IMAGES = VersionRules(lambda tag: version_parts(tag).order, prerelease_by_tag, is_image=True)
SEMVER = VersionRules(semver_order, prerelease_by_semver)
NUGET = VersionRules(lambda version: semver_order(version.lower()), prerelease_by_semver)
PEP440 = VersionRules(pep440_order, prerelease_by_pep440)
MAVEN = VersionRules(maven_order, prerelease_by_words)
# https://docs.ruby-lang.org/en/master/Gem/Version.html: any letter makes a prerelease, and so does a dash.
GEM = VersionRules(lambda version: _ranked(version, lambda word: (0, word, 0)),
                   lambda version: re.search("[A-Za-z-]", version) is not None)
# https://metacpan.org/pod/CPAN::DistnameInfo: an underscore makes a trial release.
PERL = VersionRules(perl_order, lambda version: "_" in version or prerelease_by_words(version))
DEBIAN = VersionRules(debian_order, prerelease_by_words, is_one_family=True)

def _name_and_numbers(version: str) -> tuple[str, tuple[int, ...]]:
    parts = version_parts(version)
    return parts.name, _without_zeros(parts.numbers)

def version_steps(versions: Collection[str], known: Iterable[str]) -> dict[str, str]:
    """How much each version raises the highest of the ``known`` final ones below it: "major", "minor" or
    "patch"; "" where there is none, or it begins with a date."""
    finals, steps = sorted(map(_name_and_numbers, known)) if versions else [], {}
    for version in versions:
        name, numbers = _name_and_numbers(version)
        at = bisect.bisect_left(finals, (name, numbers)) - 1
        below = finals[at] if at >= 0 else ("", ())
        steps[version] = ""
        if below[0] == name and below[1] and numbers[0] < 10_000:
            first = next(at for at, (now, before) in enumerate(
                itertools.zip_longest(numbers, below[1], fillvalue=0)) if now != before)
            steps[version] = ("major", "minor", "patch")[min(first, 2)]
    return steps

def same_releases(tags: Iterable[str], releases: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """By an image's tag its release in a repository, of ``releases``, newest first: one with the same numbers
    and stage, never the nearest. Of several the one that is called like the tag, then like one of ``names``,
    then the shortest. A tag whose numbers others continue moves, and has none."""
    def key_of(one: VersionParts, numbers: tuple[Any, ...]) -> tuple[Any, ...]:
        return numbers, one.stages, frozenset(PRERELEASE_WORDS.keys() & _TOKEN.findall(one.before))
    own = {"", *(re.sub("[^a-z0-9]", "", name.rpartition("/")[2].lower()) for name in names)}
    there, found = dict[Any, list[tuple[str, VersionParts]]](), dict[str, str]()
    for release in releases:
        parts = version_parts(unquote(release))
        for numbers in (parts.numbers, (*parts.numbers[:3], "*")):
            there.setdefault(key_of(parts, numbers), []).append((release, parts))
    read = {tag: IMAGES.parts(tag) for tag in tags}
    continued = {(), *(mine.numbers[:at] for mine in read.values() for at in range(len(mine.numbers)))}
    for tag, mine in read.items():
        last = str(mine.numbers[-1]) if mine.numbers else ""
        cut = mine.numbers[:-1] if re.fullmatch("0|20[0-9]{6}", last) else ()       # 4.7.0, 26.05.20260608
        for numbers in (mine.numbers, cut, (*mine.numbers, "*")) if mine.numbers not in continued else ():
            fit = [one for one in there.get(key_of(mine, numbers), ())
                   if not mine.counter or one[1].counter in ((), mine.counter)]
            if fit and (numbers == mine.numbers or len({parts.name for _, parts in fit}) == 1):
                found.setdefault(tag, min(fit, key=lambda one: (
                    one[0] != tag, one[0] != f"v{tag}", one[1].name.replace("-", "") not in own, len(one[0]),
                    ))[0])
    return found


# == values ====================================================================
# What the rooms hand to each other: frozen records and errors; times, ids and the text of notes; and one
# table of what people choose for a project, a destination and an account.
# Instants are seconds since the epoch; a release's date is RFC 3339 text in UTC.

# Texts of statuses. The same in every Python: 3.13 renamed 413.
REASONS = {**http.client.responses, 413: "Request Entity Too Large", 422: "Unprocessable Entity"}

def message_of(status: int) -> dict[str, Any]:
    """The contract's Message of a status."""
    return {"message": REASONS.get(status, "Error"), "code": status}

class ReleasetrackError(Exception):
    """What a user, a client or a provider can cause. ``status`` is the API's answer."""
    status = 500

@dataclasses.dataclass(frozen=True)
class Problem:
    """What is wrong with one field of what was sent. ``message`` completes a sentence that begins with the
    field, as "is required" does; without a field it is a whole sentence."""
    field: str                  # as the API names it: "tags", "exclude_version_regexp[0]"; "" for none
    message: str

    def __str__(self) -> str:
        return self.named({})

    def named(self, labels: Mapping[str, str]) -> str:
        """The sentence with the field's label: "Pattern 1 must be ..." for exclude_version_regexp[0]."""
        name, _, index = self.field.rstrip("]").partition("[")
        number = f" {int(index) + 1}" if index else ""
        subject = labels[name] + number if name in labels else self.field
        return f"{subject} {self.message}." if subject else self.message

def pluralize(count: int, noun: str) -> str:
    """A number of things: "1 project", "2,000 projects"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")

class Invalid(ReleasetrackError):
    """What was sent cannot be used; ``problems`` are all its problems. A text is a Problem without field."""
    status = 400

    def __init__(self, *problems: Problem | str) -> None:
        self.problems = [one if isinstance(one, Problem) else Problem("", one) for one in problems]
        super().__init__(" ".join(map(str, self.problems)))

class AlreadyTracked(Invalid):
    """The account has the project."""

class Unauthorized(ReleasetrackError):
    status = 401

class Forbidden(ReleasetrackError):
    status = 403

class NotFound(ReleasetrackError):
    status = 404

class NotAllowed(ReleasetrackError):
    """The path does not have the method; the text lists those that it has."""
    status = 405

class TooLarge(ReleasetrackError):
    status = 413

class TooMany(ReleasetrackError):
    status = 429

    def __init__(self, retry_after: float, text: str = "Too many tries. Try again in an hour.") -> None:
        super().__init__(text)
        self.retry_after = retry_after

class StoreUnavailable(ReleasetrackError):
    """The store cannot be read or written at present: locked by another process, or the disk is full."""
    status = 503

class HelperMissing(ReleasetrackError):
    """There is no process to read files and patterns in."""
    status = 503

class ProviderError(ReleasetrackError):
    """A provider did not answer with releases; the message is for people."""
    status = 502

class ProjectMissing(ProviderError):
    """The provider says that it has no such project."""

class TokenRefused(ProviderError):
    """The provider accepts the token for nothing: a fault of the setting, not of the project."""

class Unreachable(ProviderError):
    """No usable answer: no address, refused, too slow, too large, a bad certificate."""

class Throttled(ProviderError):
    """The provider asks to wait ``seconds``."""
    def __init__(self, message: str, seconds: float, quota_left: int | None = None) -> None:
        super().__init__(message)
        self.seconds = seconds
        self.quota_left = quota_left

# A value as JSON without spaces. One encoder for all: json.dumps would make one for each call.
compact_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

def drop_empty(**members: Any) -> dict[str, Any]:
    """The members that say something: not None, not false, not empty."""
    return {name: value for name, value in members.items()
            if value is not False and value not in (None, "", (), [])}

def make_id() -> str:
    """26 lower-case characters of base 32: 128 random bits."""
    return base64.b32encode(secrets.token_bytes(16)).decode().rstrip("=").lower()

def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question for a message about an unknown word; "" where nothing is alike."""
    alike = difflib.get_close_matches(word.lower(), list(known), 1)
    return f" (did you mean {alike[0]}?)" if alike else ""

def timestamp(at: float) -> str:
    """An instant as RFC 3339 text, to the second."""
    # Not fromtimestamp(), which raises OSError for some values beyond the calendar.
    return (datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=int(at))).isoformat() + "Z"

def instant_of(date: str) -> float:
    return datetime.datetime.fromisoformat(f"{date[:19]}+00:00").timestamp()

def relative_time(at: float, now: float) -> str:
    """How long before or after ``now`` an instant is, by its largest unit: "3 h ago", "in 5 min"."""
    seconds, is_past = abs(now - at), at <= now
    units = {"y": 365 * DAY, "mo": 30 * DAY, "w": 7 * DAY, "d": DAY, "h": HOUR, "min": MINUTE}
    for unit, size in units.items():
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago" if is_past else f"in {seconds // size:.0f} {unit}"
    return "just now" if is_past else "in a moment"

def utc(text: str | None) -> str | None:
    """A provider's ISO 8601 time as RFC 3339 in UTC, also one without a zone. Raises ValueError. None for
    None, and for the years that stand for "unknown": before 1980, and 9999."""
    if text is None:
        return None
    if not re.match(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d", text, re.ASCII):      # a date alone is another thing
        raise ValueError(f"{text[:40]!r} is no time")
    when = datetime.datetime.fromisoformat(text.replace(" UTC", "Z").replace("z", "Z"))
    if not 1980 <= when.year < 9999:
        return None
    when = when.replace(tzinfo=when.tzinfo or datetime.timezone.utc)
    return when.astimezone(datetime.timezone.utc).replace(tzinfo=None).isoformat() + "Z"

def time_zone_of(name: str) -> datetime.tzinfo:
    """The time zone of an IANA name. Raises ValueError with what was expected."""
    try:
        return datetime.timezone.utc if name == "UTC" else zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):     # OSError: a folder, or a damaged file
        raise ValueError(f"a time zone such as Europe/Berlin; {name[:60]!r} is unknown") from None

def retry_after_seconds(header: str | None, now: float) -> float | None:
    """Seconds that a Retry-After header asks for, at most a day; None without a valid one.
    https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3: seconds, or an HTTP date."""
    text = (header or "").strip()
    if re.fullmatch(r"[0-9]{1,20}", text):
        return min(float(text), DAY)
    try:
        until = email.utils.parsedate_to_datetime(text).replace(tzinfo=datetime.timezone.utc)
        wait = until.timestamp() - now
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(wait, DAY) if wait > 0 else None

_DASH = "[-\u2010\u2011\u2013]\u00ad?"
_CVE = re.compile(f"CVE{_DASH}([0-9]{{4}}){_DASH}([0-9]{{4,10}})(?![0-9])", re.IGNORECASE)

def cves_in(*texts: str) -> tuple[str, ...]:
    """The CVE ids in the texts, in their order, each once; at most ``CVE_LIMIT``."""
    found = dict.fromkeys(f"CVE-{year}-{number}" for year, number in _CVE.findall("\0".join(texts)))
    return tuple(itertools.islice(found, CVE_LIMIT))

_BREAKING = re.compile(r"\W*(?:breaking(?: \w+)? changes?\b|BREAKING\b)(?P<rest>.*)", re.IGNORECASE)

def says_breaking(lines: Iterable[str]) -> bool:
    """Whether a line of a note announces breaking changes, and neither it nor the next says "none"."""
    texts = [line for line in lines if line.strip()]
    for line, following in zip(texts, [*texts[1:], ""]):
        match = _BREAKING.match(line)
        if match and not re.match(r"(?i)\W*(?:none|no|n/a|nothing)\b", match["rest"].strip() or following):
            return True
    return any("BREAKING CHANGE" in line for line in texts)

def read_json(body: bytes | bytearray) -> Any:
    """The value of a JSON text. Raises ValueError, also for one that would take too much memory: each value
    is behind one of four marks, of which prose has few."""
    if len(body) > JSON_LIMIT:
        raise ValueError(f"its JSON is larger than {JSON_LIMIT // MIB} MiB")
    if sum(map(body.count, (b",", b"[", b"{", b":"))) > VALUE_LIMIT:
        raise ValueError(f"its JSON has more than {VALUE_LIMIT:,} values")
    try:
        return json.loads(body.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"its answer is no JSON ({error})") from None

@dataclasses.dataclass(frozen=True)
class Request:
    """A request that a dialect or a notification wants sent."""
    url: str
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    method: str = "GET"
    body: bytes | None = None
    accept_statuses: Collection[int] = ()   # beyond 2xx, that are no error
    is_user_supplied: bool = False          # the address is a user's, and checked like a webhook's
    max_response_bytes: int = 20 * MIB      # of a provider's answer
    may_be_cut: bool = False                # a larger one is not an error but cut there
    named_by: str | None = None     # the address that answered with it: a public one may name no private one

@dataclasses.dataclass(frozen=True)
class Mail:
    """A mail for the mail server: the addresses of the envelope, and the message in 7 bits with CR LF."""
    sender: str
    recipient: str
    content: bytes

@dataclasses.dataclass(frozen=True)
class Answer:
    """A response; of a mail server its last reply. ``json`` raises ValueError for another body."""
    url: str                        # after redirects
    status: int
    headers: Mapping[str, str]      # names in lower case; repeated ones joined by ", "
    body: bytes | bytearray = b""
    asked: str = ""                 # the URL before redirects
    address: str | None = None      # that was connected to

    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        start = self.body[:200].lstrip().lower()
        if start.startswith((b"<!doctype", b"<html")):
            raise ValueError("it answered a web page, not JSON")
        return read_json(self.body)

@dataclasses.dataclass(frozen=True)
class Note:
    title: str
    message: str                # HTML of the provider's, untrusted
    url: str
    original: str = ""          # what the message was rendered from, if the provider has it
    mark: int = 0               # of a copy, the fingerprint of what it was copied from; -1 for a link alone

    def as_json(self) -> dict[str, Any]:
        """The contract's Release Note, without control characters, each of which would be six of JSON."""
        message = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "", self.message)
        return {"title": self.title, "message": message, "url": self.url}

    @property
    def fingerprint(self) -> int:
        """Differs between notes, but not between renderings of one note."""
        text = f"{self.title}\0{self.original or self.message}".encode("utf-8", "surrogatepass")
        return self.mark or int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "big")

@dataclasses.dataclass(frozen=True)
class Release:
    version: str
    date: str | None            # None: the provider gives none, and no check has found it yet
    is_prerelease: bool = False
    cve: tuple[str, ...] = ()
    note: Note | None = None
    content_id: str | None = None       # "kind:value" of the content: a digest, a commit, a publication date
    is_updated: bool = False
    has_note: bool = False      # for a release that was read without its note
    is_ruled_out: bool = False  # by a pattern, or what is installed, of the project that it was read for
    step: str = ""              # "major", "minor" or "patch" above the final version below it; else ""
    fingerprint: int | None = None      # of the note that the store has
    gone_at: float | None = None        # since when it is no longer listed
    place: int | None = None    # among the source's releases, the latest last; None: not found out yet

    @property
    def content(self) -> str:
        """Its content id without those of an image's platforms."""
        return (self.content_id or "").partition(" ")[0]

    @property
    def content_kind(self) -> str:
        """Of its content id, which says what list it came from; "" without one."""
        return (self.content_id or "").partition(":")[0]

    def as_json(self) -> dict[str, Any]:
        """The contract's Release, without members that are false or empty."""
        return drop_empty(
            version=self.version, date=self.date, has_note=self.has_note or self.note is not None,
            cve=self.cve, is_prerelease=self.is_prerelease, is_updated=self.is_updated)

@dataclasses.dataclass(frozen=True)
class Account:
    id: str
    type: str                   # one of ACCOUNT_TYPES
    email: str
    name: str
    is_admin: bool
    email_notification: str     # the default of its new projects
    time_zone: str              # an IANA name, such as Europe/Berlin; for digests
    password: str = dataclasses.field(repr=False)       # the hash
    feed_secret: str = dataclasses.field(default="", repr=False)        # in the address of its feed
    badge_secret: str = dataclasses.field(default="", repr=False)       # in those of its badges
    totp_secret: str = dataclasses.field(default="", repr=False)        # in base 32; "": no second factor
    recovery_codes: tuple[str, ...] = dataclasses.field(default=(), repr=False)     # hashes of those left
    digest_hour: int | None = None      # of daily and weekly digests; None: that of the setting
    quiet_from: str = ""        # "22:00": from then on nothing is sent but what is urgent; "": no such hours
    quiet_until: str = ""       # "07:00", perhaps of the next day

    @property
    def zone(self) -> datetime.tzinfo:
        with contextlib.suppress(ValueError):       # the machine that the store came from may have known it
            return time_zone_of(self.time_zone)
        return datetime.timezone.utc

    @property
    def signing_key(self) -> str:
        """Of its browsers' tokens; it changes with the password and the second factor."""
        return self.password + self.totp_secret

@dataclasses.dataclass(frozen=True)
class Session:
    id: str                     # the hash of its token, in hexadecimal
    account_id: str
    address: str                # where the sign-in came from
    agent: str                  # the browser's User-Agent
    created_at: float
    seen_at: float
    confirmed_at: float         # when the password was typed last

@dataclasses.dataclass(frozen=True)
class Key:
    id: str
    account_id: str
    name: str
    networks: tuple[str, ...]
    secret: str = dataclasses.field(repr=False)
    created_at: float
    used_at: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "secret": self.secret, "authorized_networks": list(self.networks)}

@dataclasses.dataclass(frozen=True)
class Tag:
    id: str
    name: str
    feed_secret: str = dataclasses.field(default="", repr=False)        # in the address of its feed

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name}

class _FieldsOfKinds(dict[str, str]):
    def __missing__(self, kind: str) -> str:        # an embedding program's own
        return f"{kind}_destinations"

# Kind of destination -> the field of a project that lists such; with hyphens, the path of the API's list.
KIND_FIELDS = _FieldsOfKinds({
    "slack": "slack_channels", "telegram": "telegram_chats", "discord": "discord_channels",
    "hangouts_chat": "hangouts_chat_webhooks", "microsoft_teams": "microsoft_teams_webhooks",
    "mattermost": "mattermost_webhooks", "rocketchat": "rocketchat_webhooks", "matrix": "matrix_rooms",
    "webhook": "webhooks", "ntfy": "ntfy_topics", "gotify": "gotify_applications",
    "pushover": "pushover_users", "apprise": "apprise_urls", "email": "emails",
})
ACCOUNT_TYPES = ("user", "organization")
SCHEDULE_NAMES = {"none": "never", "instant": "at once", "hourly": "hourly digest", "daily": "daily digest",
                  "weekly": "weekly digest"}
ORIGINS = ("manual", "file", "container", "api")        # of what is known to be installed
OPEN_STATES = ("behind", "new build", "unsure")         # in which there may be an update, surest first

def machine_time_zone() -> str:
    """The time zone of this machine if that is known, else UTC."""
    name = os.environ.get("TZ", "").lstrip(":")
    name = name or os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    with contextlib.suppress(ValueError):
        time_zone_of(name)
        return name
    return "UTC"


# ---- what people choose

_CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f"
UNSTORABLE = re.compile(rf"[{_CONTROLS}\ud800-\udfff]")
STORABLE = f"^[^{_CONTROLS}]*$"         # as a schema says it
NOT_BLANK = rf"^[^{_CONTROLS}]*[^\s{_CONTROLS}][^{_CONTROLS}]*$"

@dataclasses.dataclass(frozen=True)
class ValueType:
    """What a value may be: in JSON, in the text of a form or a flag, in a schema, and on a page."""
    read: Callable[[Any], Any]      # of JSON, as it is stored. Raises ValueError, which says what is expected
    schema: Mapping[str, Any]       # of JSON Schema; null is the same as absent
    from_text: Callable[[str], Any] = str       # the JSON that a text stands for
    widget: str = "text"            # as Field.type; "switch" for one box
    choices: Mapping[str, str] = dataclasses.field(default_factory=dict)    # texts, and their words on pages
    to_json: Callable[[Any], Any] = lambda value: value         # of what is stored

    def shown(self, value: Any) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        return "" if value is None else str(value)

def one_of(choices: Mapping[str, str] | Sequence[str], **schema: Any) -> ValueType:
    """One of these texts; words for them are those given, or the texts themselves."""
    names = tuple(choices)
    words = choices if isinstance(choices, Mapping) else {name: name.capitalize() for name in names}
    return ValueType(only_if(lambda value: value in names, f"one of: {', '.join(names)}"),
                     {"type": ["string", "null"], "enum": [*names, None], **schema}, str, "select", words)

def whole_number(most: int) -> ValueType:
    return ValueType(
        only_if(lambda value: type(value) is int and 0 <= value <= most, f"a whole number from 0 to {most}"),
        {"type": ["integer", "null"], "minimum": 0, "maximum": most},
        lambda text: int(text or 0) if re.fullmatch("[0-9]{0,9}", text) else text)

def any_text(most: int, widget: str = "text") -> ValueType:
    return ValueType(
        only_if(lambda value: isinstance(value, str) and len(value) <= most and not UNSTORABLE.search(value),
                f"a string of at most {most} characters, and no control characters"),
        {"type": ["string", "null"], "maxLength": most, "pattern": STORABLE}, widget=widget)

def _instant_to_come(value: Any) -> float | None:
    with contextlib.suppress(ValueError, TypeError):
        if value == "":
            return None
        if date := utc(value):
            return instant_of(date)
    raise ValueError("a time to come, such as 2030-01-31T08:00:00Z")

SWITCH = ValueType(only_if(lambda value: isinstance(value, bool), "true or false"),
                   {"type": ["boolean", "null"]}, lambda text: {"yes": True, "no": False}.get(text, text),
                   "switch", {"yes": "", "no": ""})
# An instant, or "" for none; a text is a number of days from now, or 0.
INSTANT = ValueType(
    _instant_to_come, {"type": ["string", "null"], "format": "date-time"},
    lambda days: timestamp(time.time() + _whole(0, 365)(days) * DAY) if days != "0" else "",
    to_json=lambda at: at and timestamp(at))
SOURCE = ValueType(lambda value: any_text(3 * NAME_LIMIT).read(
    f"{value.get('provider')} {value.get('name')}" if isinstance(value, Mapping) else value).strip(),
    {"type": ["object", "string", "null"], "maxLength": 3 * NAME_LIMIT, "pattern": STORABLE})
TIME_ZONE = ValueType(lambda name: time_zone_of(name) and name, {"type": "string"})
HOUR_OR_NONE = ValueType(
    lambda value: None if value == "" else _whole(0, 23)(str(value)), {"type": ["integer", "string"]},
    widget="select", choices={"": "Server default", **{str(hour): f"{hour:02}:00" for hour in range(24)}})

@dataclasses.dataclass(frozen=True)
class Option:
    """What people choose for a project, a destination or an account: said here, and nowhere again."""
    name: str               # of the column, the member in JSON and the form's field
    label: str              # on pages, and the help of its flag
    type: ValueType
    group: str = ""         # the legend that it stands below on the page
    hint: str = ""
    flags: Sequence[str] = ()       # where they are others than its name with dashes; the second says no
    shape: str = ""         # of the flag's value
    default: Any = None     # which JSON leaves out
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)      # of its Field

    @property
    def all_flags(self) -> Sequence[str]:
        return self.flags or [f"--{self.name.removeprefix('is_').replace('_', '-')}"]

    @property
    def about(self) -> str:
        return self.label[:1].lower() + self.label[1:] + (f". {self.hint}" if self.hint else "")

# To add an option, add its row, a field of the dataclass below, and a column of the store.
PROJECT_OPTIONS = (
    Option("notify_level", "Notify about", one_of({
        "newer": "Versions newer than yours (all, if none is installed)",
        "minor": "Minor and major releases", "major": "Only major releases",
        "all": "All releases, older ones and other variants too"}), "Filters",
        "After 1.9.4, 2.0.0 is major and 1.10.0 minor. Releases that name a CVE always count.",
        default="newer"),
    Option("exclude_prereleases", "Ignore pre-releases", SWITCH, "Filters"),
    Option("exclude_updated", "Ignore re-published versions", SWITCH, "Filters"),
    Option("hold_days", "Wait (days) before notifying", whole_number(365), "Filters",
           "Releases that name a CVE are sent at once.", shape="N", default=0,
           more={"more": {"inputmode": "numeric"}}),
    Option("is_muted", "Mute", SWITCH, "Notify", "Nothing is sent; updates are still listed."),
    Option("email_notification", "Email schedule", one_of({**SCHEDULE_NAMES, "default": "Account default"}),
           "Notify", flags=("--email",)),
    Option("note", "Note (added to every notification)", any_text(10_000, "textarea"), "Labels"),
    Option("notes_from", "Notes from", SOURCE, "Labels", "The repository whose notes an image gets, such as "
           "github grafana/grafana, or none; empty: what is found.", shape="SOURCE"),
    Option("skipped_version", "Ignore this version until a newer one comes", any_text(NAME_LIMIT),
           hint="'' for none.", flags=("--skip",), shape="VERSION"),
    Option("snoozed_until", "Ignore what is behind for so many days", INSTANT, hint="0 ends it.",
           flags=("--snooze",), shape="DAYS"),
)
DESTINATION_OPTIONS = (
    Option("schedule", "Schedule", one_of({
        name: words for name, words in SCHEDULE_NAMES.items() if name != "none"})),
    Option("is_for_every_project", "Projects", dataclasses.replace(SWITCH, widget="select", choices={
        "yes": "All projects", "no": "Only projects I pick"}), hint="Pick them in the projects' options.",
        flags=("--every-project", "--only-listed")),
    Option("is_security_only", "Only security releases (those that name a CVE)", SWITCH,
           flags=("--security-only", "--all-releases")),
    Option("report", "Report of what is behind", one_of(("none", "weekly", "monthly")),
           hint="Of the versions that you run. Nothing is sent when all are up to date."),
)
ACCOUNT_OPTIONS = (
    Option("time_zone", "Time zone", TIME_ZONE, hint="Of the times on pages, and of digests.", shape="ZONE",
           more={"is_required": True}),
    Option("email_notification", "Email schedule", one_of(SCHEDULE_NAMES), "Notifications",
           'Of projects set to "Account default".'),
    Option("digest_hour", "Digests at (hour)", HOUR_OR_NONE, "Notifications", flags=("--digests-at",),
           shape="HOUR"),
    Option("quiet_from", "Quiet hours from", any_text(5, "time"), "Notifications"),
    Option("quiet_until", "Quiet hours until", any_text(5, "time"), "Notifications",
           "In quiet hours only security fixes are sent; everything else waits for their end. Webhooks have "
           "no quiet hours. Leave both empty for none."),
)

@dataclasses.dataclass(frozen=True)
class Health:
    checked_at: float | None        # the last answer of any kind
    succeeded_at: float | None      # the last answer with releases; None: never
    next_check_at: float
    error: str | None               # of the last check
    missing_since: float | None     # when the provider first reported no such project
    is_missing: bool                # reported again a day or more later
    quota_left: int | None          # requests that the provider has left for us

    def as_json(self) -> dict[str, Any]:
        """Instants as RFC 3339, without members that are empty."""
        instants = {name: timestamp(at) for name in (
            "next_check_at", "checked_at", "succeeded_at", "missing_since") if (at := getattr(self, name))}
        return drop_empty(
            is_missing=self.is_missing, error=self.error, quota_left=self.quota_left, **instants)

SEVERITIES = ("", "low", "moderate", "high", "critical")       # of an advisory; "": unknown
# Parts of an urgency, which sorts what is installed: from there on vulnerable, or no longer supported.
VULNERABLE, ENDED = 10_000_000, 1_000_000

@dataclasses.dataclass(frozen=True)
class Advisory:
    """What is known of a flaw of a version that is installed, under all its ids: https://osv.dev"""
    id: str                     # the CVE's, else GitHub's, else another
    aliases: tuple[str, ...] = ()
    title: str = ""
    severity: str = ""          # one of SEVERITIES
    fixed_in: str = ""          # the first version without it, "above X"; "" where none is known
    is_ended: bool | None = None    # by the update to the newest version; None: there is none, or not known
    doubt: str = ""             # "possible", of the tag of a repository; or "notice", such as "unmaintained"

    def __str__(self) -> str:
        fixed = f"fixed in {self.fixed_in}".replace("in above", "above") if self.fixed_in else ""
        about = ", ".join(filter(None, (self.severity, self.doubt, fixed)))
        return f"{self.id} ({about})" if about else self.id

    @property
    def rank(self) -> int:
        """0 for what is no certain flaw; what is not known may be moderate."""
        return 0 if self.doubt else 1 + (SEVERITIES.index(self.severity) or 2)

    def as_json(self) -> dict[str, Any]:
        """Without members that are empty; without ``is_ended`` where that is not known."""
        return drop_empty(**vars(self)) | ({} if self.is_ended is None else {"is_ended": self.is_ended})

@dataclasses.dataclass(frozen=True)
class Installation:
    """A version of a project that runs somewhere, and how it compares with the project's releases."""
    place: str                  # what a person calls it, such as "nas"; may be ""
    version: str                # as it was found, such as a tag; "" where only the digest is known
    digest: str = ""            # "sha256:..." of the image; several with blanks between
    origin: str = "manual"      # one of ORIGINS
    seen_at: float = 0.0
    label: str = ""             # the version that the image itself names
    known_as: str = ""          # the version that a tag such as "latest" is, by its digest or the label
    state: str = "not compared"     # yet; "unknown", "current", or one of OPEN_STATES, as rules found it
    step: str = ""              # to the newest version: "major", "minor" or "patch"
    line: str = ""              # the newest version with the same first number; "" for none
    newest: str = ""            # and of all
    behind: int = 0             # releases up to the newest
    since: str = ""             # when the first of them came out, RFC 3339
    cve: tuple[str, ...] = ()   # that they name
    is_other_base: bool = False     # the newest image is built on another base
    previous: str = ""              # the version before a person said what it was updated to; and the digest
    previous_digest: str = ""
    first_digest: str = ""          # of its tag when first compared, where that of its own build is not known
    previous_label: str = ""
    is_rebuilt: bool = False        # the tag itself has a new build
    may_follow: str = ""            # a newer version of which nobody knows whether it follows this one
    advisories: tuple[Advisory, ...] = ()       # the worst first
    advised_at: float = 0.0         # when OSV was asked last; 0: not yet, or it does not know such projects
    eol: str = ""                   # the day of its end of life; "ended" for one that is not known
    eol_days: int | None = None     # until then, when that was asked

    @property
    def vulnerabilities(self) -> list[Advisory]:
        return [one for one in self.advisories if not one.doubt]

    @property
    def identity(self) -> tuple[str, ...]:
        """What was found where, without when, and how it compares."""
        return self.place, self.version, self.digest, self.origin, self.label

    @property
    def id(self) -> str:
        """What a form calls it, among those of its project."""
        return compact_json(self.identity[:4])

    @property
    def compared_as(self) -> str:
        """The version that is compared with releases."""
        return self.known_as or self.version

    @property
    def shown(self) -> str:
        version = self.version or self.digest[:19]
        return f"{version} ({self.known_as})" if self.known_as else version

    @property
    def urgency(self) -> int:
        """How urgent an update is: by what is vulnerable, then what has ended, then by CVEs, by its step, by
        releases; then a new build, then what is unsure; 0 for none."""
        ended = self.eol_days is not None and self.eol_days <= 0
        first = VULNERABLE * max((one.rank for one in self.advisories), default=0) + ENDED * ended
        if self.state not in OPEN_STATES:
            return first
        step = ("", "patch", "minor", "major").index(self.step)
        return first + (1 if self.state == "unsure" else (
            2 + min(self.behind, 9999) + 10_000 * step + 100_000 * bool(self.cve)))

    def has_digest(self, known: str) -> bool:
        """Whether its image has a digest: an engine may know several of one image, a registry that of the
        index and where those of its platforms begin."""
        return any(mine.startswith(part) for mine in self.digest.split() for part in known.split())

    def as_json(self) -> dict[str, Any]:
        """Without members that are false or empty, but for the version."""
        seen_at = timestamp(self.seen_at) if self.seen_at else ""
        return {"version": self.version} | drop_empty(**vars(self) | {
            "seen_at": seen_at, "behind": self.behind or None, "first_digest": None, "previous_digest": None,
            "previous_label": None, "eol_days": None,
            "advised_at": timestamp(self.advised_at) if self.advised_at else "",
            "advisories": [one.as_json() for one in self.advisories]})

@dataclasses.dataclass(frozen=True)
class Project:
    id: str
    account_id: str
    source_id: int
    provider: str
    name: str
    email_notification: str
    exclude_prereleases: bool
    exclude_updated: bool
    exclude_version_regexp: tuple[tuple[str, bool], ...]    # (pattern, inverse)
    note: str
    hold_days: int                                          # days after a release before anyone is notified
    tags: tuple[str, ...]                                   # ids
    destinations: Mapping[str, tuple[str, ...]]             # kind -> ids; without the kinds that list none
    health: Health                                          # of its source
    notify_level: str = "newer"
    is_muted: bool = False                                  # nothing is sent for it
    former_name: str = ""                                   # before it was renamed at its provider
    installed: tuple[Installation, ...] = ()
    skipped_version: str = ""       # is ignored; it counts until a newer one comes
    snoozed_until: float | None = None
    version_answers: tuple[tuple[str, bool], ...] = ()      # a version, and whether those like it follow mine
    alerted: tuple[str, ...] = ()       # what there were notifications of: rank, flaw and place of each
    notes_from: str = ""            # of an image, as of its Source
    notes_state: str = ""
    notes_source: str = ""          # "provider name" of what it gets notes from
    revision: int = dataclasses.field(default=0, compare=False)     # of all that its rules are applied to

    @classmethod
    def blank(cls, account_id: str, provider: str, name: str, source_id: int = 0) -> Project:
        """One without options, that is not stored."""
        return cls("", account_id, source_id, provider, name, "daily", False, False, (), "", 0, (), {},
                   Health(None, None, 0.0, None, None, False, None))

    @property
    def most_urgent(self) -> Installation | None:
        """What is installed and most urgent to update; what is skipped only where nothing else is open."""
        ranks = {state: -at for at, state in enumerate(OPEN_STATES)}
        return max(self.installed, default=None, key=lambda one: (
            ranks.get(self.state_of(one), -9), one.urgency, one.state != "current"))

    @property
    def urgency(self) -> int:
        return max((one.urgency for one in self.installed), default=0)

    @property
    def vulnerabilities(self) -> list[Advisory]:
        """Of all places, each once, the worst first; ended by the update where it is so everywhere."""
        found = dict[str, Advisory]()
        for each in (each for one in self.installed for each in one.vulnerabilities):
            other = found.get(each.id, each)
            found[each.id] = dataclasses.replace(each, is_ended=each.is_ended and other.is_ended)
        return sorted(found.values(), key=lambda one: -one.rank)

    @property
    def update_state(self) -> str:
        """Of what is installed: "" without any, else the ``state_of`` the most urgent."""
        return self.state_of(self.most_urgent) if self.most_urgent else ""

    @property
    def is_open(self) -> bool:
        """Whether there may be an update, or it is vulnerable or has ended."""
        return self.update_state in OPEN_STATES or self.urgency >= ENDED

    def state(self, now: float) -> str:
        """Its ``update_state``, or "snoozed" where it is open."""
        return "snoozed" if self.is_open and self.is_snoozed(now) else self.update_state

    def state_of(self, one: Installation) -> str:
        """An Installation's state without a version that is skipped; "skipped" where nothing else is open."""
        if one.state == "behind" and not self.skips(one.newest):
            return "behind"
        if one.state == "new build" or one.is_rebuilt:
            return "new build"
        if one.may_follow and not self.skips(one.may_follow):
            return "unsure"
        return "skipped" if one.state in OPEN_STATES else one.state

    def skips(self, version: str) -> bool:
        """Whether a version is the one that is skipped, or another variant of that: 18.1-alpine as 18.1."""
        if not self.skipped_version:
            return False
        one, skipped = version_parts(version), version_parts(self.skipped_version)
        return version == self.skipped_version or bool(one.numbers) and (
            (one.release, one.counter) == (skipped.release, skipped.counter))

    def at(self, place: str) -> Project:
        return dataclasses.replace(self, installed=tuple(one for one in self.installed if one.place == place))

    def is_snoozed(self, now: float) -> bool:
        return self.snoozed_until is not None and self.snoozed_until > now

    def as_json(self, url: str) -> dict[str, Any]:
        """The contract's Project and beyond it ``source``, without members that are false or empty."""
        used = (self.notes_from or self.notes_source).split(" ", 1)
        about: dict[str, Any] = {"id": self.id, "name": self.name, "provider": self.provider, "url": url}
        if self.notes_state or used != [""]:
            about["notes_from"] = dict(zip(("provider", "name"), used)) if used[1:] else None
        return about | drop_empty(
            **{option.name: option.type.to_json(value) for option in PROJECT_OPTIONS
               if (value := getattr(self, option.name)) != option.default and option.name != "notes_from"},
            source=self.health.as_json(),
            exclude_version_regexp=[drop_empty(value=value, inverse=inverse)
                                    for value, inverse in self.exclude_version_regexp],
            tags=self.tags, installed=[one.as_json() for one in self.installed],
            version_answers=[{"version": one, "follows": does} for one, does in self.version_answers],
            **{KIND_FIELDS[kind]: ids for kind, ids in self.destinations.items()})

@dataclasses.dataclass(frozen=True)
class ReleaseListItem:
    """A release of one of an account's projects, as lists over all of them show it."""
    project: Project
    release: Release
    found_at: float | None          # None: it was out before the first check
    note: Note | None               # with a preview of its message
    is_unread: bool
    is_recent: bool                 # found since the account marked all as read

@dataclasses.dataclass(frozen=True)
class Source(Health):
    """A project at its provider, shared by all accounts that track it."""
    id: int
    provider: str
    key: str                        # identifies it there, however the name is spelled
    name: str
    failures: int                   # since the last success
    failing_since: float | None
    alert_sent: bool                # its accounts were notified that it keeps failing
    etag_url: str | None            # the request that ``etag`` belongs to
    etag: str | None                # of its answer; or that one's Last-Modified, where it had no ETag
    is_trusted: bool                # administrators alone track it
    former_name: str = ""           # before it was renamed there
    notes_from: str = ""            # of an image "provider name" or "none", as a person chose
    notes_source_id: int | None = None      # whose notes it gets
    labels: str = ""                # JSON: what the newest tag says of itself, and "of" which; "": not known

@dataclasses.dataclass(frozen=True)
class Destination:
    id: str
    account_id: str
    kind: str
    name: str
    settings: Mapping[str, Any] = dataclasses.field(repr=False)     # of its kind; "shown": in the API's list
    secret: str = dataclasses.field(repr=False)                     # of a webhook's signatures
    schedule: str = "instant"           # for e-mail each project has its own
    is_for_every_project: bool = True   # else only for those that list it
    tags: tuple[str, ...] = ()          # ids; only for projects with one of them, if there are any
    without_tags: tuple[str, ...] = ()  # ids; not for projects with one of them
    is_security_only: bool = False      # only for releases that name a CVE
    report: str = "none"                # how often it is sent what is behind
    reported_at: float | None = None    # when that was due last, or was chosen
    previous_secret: str | None = dataclasses.field(default=None, repr=False)
    previous_until: float | None = None     # the previous secret signs too until then
    failing_since: float | None = None      # the first failed attempt since the last that succeeded
    failed_at: float | None = None          # the last failed attempt since then
    error: str | None = None                # of that one
    alert_sent: bool = False                # its account was notified of that

    def as_json(self) -> dict[str, Any]:
        """As a list of the API shows it: id, name, and what the kind's settings add."""
        return {"id": self.id, "name": self.name} | dict(self.settings.get("shown", {}))

@dataclasses.dataclass(frozen=True)
class Subscriber:
    """A project that tracks a source, with everything that its events need."""
    project: Project
    account: Account
    tags: tuple[Tag, ...]
    destinations: tuple[Destination, ...]
    has_image: bool = False         # the account is notified of an image with these notes

@dataclasses.dataclass(frozen=True)
class Recipient:
    """A destination that is notified of an event, and when."""
    destination_id: str
    due_at: float
    is_digested: bool = False       # sent together with what else is due there
    is_held: bool = False           # sent only if the release is still listed then

@dataclasses.dataclass(frozen=True)
class Event:
    """What a project's destinations are notified of. ``body``: of a release the contract's JSON object; of
    other kinds ``provider``, ``project``, ``time``, ``account`` and so on, and an ``error`` or a ``text``; of
    a failing destination ``destination``, ``kind`` and ``since`` instead of the project."""
    project_id: str | None          # None: the account's own
    body: Mapping[str, Any]
    url: str
    recipients: tuple[Recipient, ...]
    kind: str = "release"           # or "summary", "failing", "recovered"

@dataclasses.dataclass(frozen=True)
class Delivery:
    """An event on its way to a destination, claimed by its reader."""
    id: str
    destination: Destination
    account: Account
    body: Mapping[str, Any]         # of the event
    url: str
    kind: str                       # of the event
    attempts: int                   # since it was queued
    queued_at: float                # when its first attempt was or will be due; the last resend counts
    digest_id: str | None = None    # of the digest that it belongs to
    project_id: str | None = None   # None: it is about the account

@dataclasses.dataclass(frozen=True)
class Attempt:
    attempted_at: float
    status: int | None              # None: no answer
    error: str | None
    duration: float                 # seconds
    address: str | None             # that was connected to
    answer: str | None              # the first KiB, with secrets masked

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "attempted_at": timestamp(self.attempted_at),
                "duration": round(self.duration, 3)}

@dataclasses.dataclass(frozen=True)
class Outcome(Attempt):
    """An attempt, and the state of its delivery after it."""
    delivery_id: str
    state: str                      # "delivered", "pending" or "failed"
    next_attempt_at: float
    sent: str = ""                  # the request as people read it, without secrets

# "retrying" is pending after an attempt that failed.
DELIVERY_STATES = ("pending", "retrying", "delivered", "failed", "skipped")

@dataclasses.dataclass(frozen=True)
class DeliverySummary:
    id: str
    event_id: int
    kind: str                       # of its destination
    destination: str                # its name
    destination_id: str
    event: str                      # its kind
    provider: str
    project: str
    project_id: str | None
    version: str
    state: str                      # one of DELIVERY_STATES
    attempts: int
    created_at: float
    next_attempt_at: float
    settled_at: float | None
    digest_id: str | None
    error: str | None               # of the last attempt; or why it was skipped

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "created_at": timestamp(self.created_at),
                "next_attempt_at": timestamp(self.next_attempt_at) if self.is_waiting else None,
                "settled_at": self.settled_at and timestamp(self.settled_at)}

    @property
    def is_waiting(self) -> bool:
        return self.state in ("pending", "retrying")

K = TypeVar("K")

class Recent(dict[K, V]):
    """The values that were set last, at most ``limit``: what is kept by names that others choose."""
    def __init__(self, limit: int) -> None:
        self._limit = limit

    def __setitem__(self, name: K, value: V) -> None:
        self.pop(name, None)
        super().__setitem__(name, value)
        if len(self) > self._limit:
            with contextlib.suppress(RuntimeError, KeyError):       # another thread does so, too
                del self[next(iter(self))]

@dataclasses.dataclass(frozen=True)
class Job:
    """What a worker has to do, or is doing."""
    id: Any                     # of a source or a destination
    account_id: str             # in whose share it counts
    host: str                   # where only some may be under way at once
    is_failing: bool = False    # the last one did

@dataclasses.dataclass(frozen=True)
class RuleResult:
    """What a project's patterns and installations say of the releases that there are."""
    project: Project                            # as it was judged, with its installations compared
    ruled_out: Collection[str] = ()             # versions that are excluded
    wanted: Collection[str] | None = None       # versions that are news for them; None: all
    rebuilds: Collection[str] = ()              # tags of which a new build is news

@dataclasses.dataclass(frozen=True)
class CheckResult:
    """The result of a check, recorded in one transaction."""
    next_check_at: float
    etag_url: str | None = None
    etag: str | None = None
    quota_left: int | None = None
    error: str | None = None                    # why it brought no releases
    counts: bool = True                         # as a failure; False: the provider asked to wait
    is_not_found: bool = False                  # the provider says that there is no such project
    renamed: tuple[str, str] | None = None      # the project's new name and key
    before: Mapping[str, Release] = dataclasses.field(default_factory=dict)    # what was known, by version
    after: Mapping[str, Release] = dataclasses.field(default_factory=dict)     # and is now, as of compare()
    news: Sequence[str] = ()            # versions, new or updated, since the first check
    events: Sequence[Event] = ()
    verdicts: Mapping[str, RuleResult] = dataclasses.field(default_factory=dict)     # by project id
    labels: str | None = None           # of an image, as of its Source; None: as before, like the next two
    notes_source_id: int | None = None
    notes_state: str = ""               # what is wrong with its notes

    @property
    def changed(self) -> list[Release]:
        """The releases that are new or other than before, or have another note; new ones oldest first."""
        return [one for version, one in self.after.items() if one is not self.before.get(version)]


# == limits ====================================================================
# The hourly windows of keys and addresses, how often a host may be sent requests, and whose turn it is in a
# pool of workers: arithmetic on a given time, in seconds of a monotonic clock.

@dataclasses.dataclass(frozen=True)
class Window:
    """The state of a key's hour after a request; ``is_open`` says whether the request may go on."""
    limit: int
    remaining: int
    reset: float                # seconds until the window starts over
    is_open: bool

class RateLimiter:
    """Hourly budgets, one for each name. A window starts with the name's first request."""
    def __init__(self, limit: int, most_names: int = 50_000) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._state = Recent[str, tuple[float, int]](most_names)        # name -> (start, used)

    def take(self, name: str, cost: int, now: float, limit: int = 0) -> Window:
        """The window after ``cost``; one that costs more than remains is refused and costs nothing.
        ``limit``: of this name, if not that of all."""
        limit = limit or self.limit
        with self._lock:
            start, used = self._state.get(name, (now, 0))
            if now - start >= HOUR:
                start, used = now, 0
            is_open = used + cost <= limit
            if is_open:
                used += cost
                self._state[name] = start, used
            return Window(limit, max(0, limit - used), start + HOUR - now, is_open)

    def give_back(self, name: str, cost: int) -> None:
        """Undo a ``take`` that should not count after all."""
        with self._lock:
            if name in self._state:
                start, used = self._state[name]
                self._state[name] = start, max(0, used - cost)

class ConcurrencyLimit:
    """Limits how many threads that answer wait for another server or a hash, in total and by account or kind,
    so that some stay free."""
    def __init__(self, in_total: int) -> None:
        self._in_total, self._lock = in_total, threading.Lock()
        self._waiting: list[str] = []

    @contextlib.contextmanager
    def slot(self, name: str, limit: int) -> Iterator[bool]:
        """True if there is one, at most ``limit`` of a name, which is taken until the block ends."""
        with self._lock:
            if is_free := len(self._waiting) < self._in_total and self._waiting.count(name) < limit:
                self._waiting.append(name)
        try:
            yield is_free
        finally:
            if is_free:
                self._waiting.remove(name)

class Pace:
    """At most ``requests`` in any ``seconds``."""
    def __init__(self, requests: int, seconds: float) -> None:
        self._seconds = seconds
        self._taken: deque[float] = deque(maxlen=requests)
        self._lock = threading.Lock()

    def take(self, now: float) -> float:
        """0 when the request may go now, and it is counted; else the seconds to wait before asking again."""
        with self._lock:
            if len(self._taken) == self._taken.maxlen and (wait := self._taken[0] + self._seconds - now) > 0:
                return wait
            self._taken.append(now)
            return 0.0

    def __str__(self) -> str:
        return f"at most {self._taken.maxlen} times in {self._seconds:g} s"

def schedule_jobs(waiting: Sequence[Job], busy: Collection[Job], size: int, per_host: int) -> list[Job]:
    """What of the ``waiting``, oldest first, begins now in a pool in which ``busy`` is under way: accounts in
    turn, next is the one with the fewest under way; at a host at most ``per_host``."""
    begun, waiting = list[Job](), list(waiting)
    under_way, at_host = Counter(job.account_id for job in busy), Counter(job.host for job in busy)
    while len(busy) + len(begun) < size and (
            waiting := [job for job in waiting if at_host[job.host] < per_host]):
        job = min(waiting, key=lambda job: under_way[job.account_id])
        waiting.remove(job)
        begun.append(job)
        under_way[job.account_id] += 1
        at_host[job.host] += 1
    return begun


# == security ==================================================================
# What keeps strangers out: passwords, tokens and signatures, which addresses may be reached, the throttle
# of log-ins, the process that reads strangers' files and patterns, and what makes their HTML harmless.

# OWASP's password storage cheat sheet: of the choices of equal strength the one with the least memory.
_SCRYPT = {"n": 2**14, "r": 8, "p": 5}

def hash_password(password: str, salt: bytes | None = None) -> str:
    """``scrypt$salt$hash``, both in hexadecimal. Takes about 0.2 s and 16 MiB."""
    salt = salt or secrets.token_bytes(16)
    digest = hashlib.scrypt(password.encode("utf-8", "surrogatepass"), salt=salt, **_SCRYPT, dklen=32)
    return f"scrypt${salt.hex()}${digest.hex()}"

# Compared with where there is no such account, so that the time of an answer does not show that.
NO_PASSWORD = "scrypt$" + "00" * 16 + "$" + "00" * 32

def is_password(password: str, hashed: str) -> bool:
    salt = bytes.fromhex(hashed.split("$")[1])
    return hmac.compare_digest(hash_password(password, salt).encode(), hashed.encode())

def secret_hash(secret: str) -> bytes:
    """What a key or session is looked up by, so that no comparison's time says anything of the secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()

def make_signing_secret() -> str:
    """``whsec_`` and 32 random bytes in base 64, the form of https://www.standardwebhooks.com"""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()

def signature(secret: str, moment: int, body: bytes) -> str:
    """The contract's signature: HMAC-SHA256, keyed with the whole secret, in hexadecimal."""
    return hmac.new(secret.encode(), b"%d." % moment + body, hashlib.sha256).hexdigest()

def sign(text: str, key: str, purpose: str) -> str:
    """The text and a signature, which holds for that purpose alone."""
    return f"{text}.{hmac.new(key.encode(), f'{purpose} {text}'.encode(), hashlib.sha256).hexdigest()}"

def signed(token: str, key: str, purpose: str) -> str:
    """The text that was signed; "" for anything else."""
    text = token.rpartition(".")[0]
    return text if hmac.compare_digest(token.encode(), sign(text, key, purpose).encode()) else ""

def one_time_code(secret: str, step: int) -> str:
    """The six digits of a step of 30 s: https://www.rfc-editor.org/rfc/rfc6238 and RFC 4226, section 5.3."""
    digest = hmac.digest(base64.b32decode(secret), step.to_bytes(8, "big", signed=True), "sha1")
    at = digest[-1] & 15
    return f"{(int.from_bytes(digest[at:at + 4], 'big') & 0x7fffffff) % 10**6:06}"

def step_of_code(secret: str, code: str, now: float) -> int:
    """The step whose code this is, one before or after the current one at most; 0 if it is none's."""
    given, current = code.replace(" ", "").encode("utf-8", "replace"), int(now // 30)
    return next((step for step in range(current - 1, current + 2)
                 if hmac.compare_digest(one_time_code(secret, step).encode(), given)), 0)

def make_base32(size: int) -> str:
    """Random bytes in base 32: 20 for a secret, as RFC 4226 section 4 recommends."""
    return base64.b32encode(secrets.token_bytes(size)).decode()

def standard_signature(secret: str, id_: str, moment: int, body: bytes) -> str:
    """The signature of Standard Webhooks: keyed with the bytes behind ``whsec_``."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{id_}.{moment}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()

def verify(secret: str, headers: Mapping[str, str], body: bytes, now: float | None = None) -> bool:
    """Whether a webhook is genuine and was sent at most five minutes ago: one of its ``webhook-signature``
    is of its id, time and body. ``secret``: of the destination; ``headers``: in upper or lower case."""
    given = {name.lower(): value for name, value in headers.items()}
    moment = given.get("webhook-timestamp", "")
    if not re.fullmatch("[0-9]{1,12}", moment) or abs((now or time.time()) - int(moment)) > 300:
        return False
    expected = standard_signature(secret, given.get("webhook-id", ""), int(moment), body)
    return any(hmac.compare_digest(sent.encode(), expected.encode())
               for sent in given.get("webhook-signature", "").split())

@functools.lru_cache(maxsize=64)        # for the courier, which needs the same with each delivery
def masking(*hidden: str) -> Callable[[str], str]:
    """A function that masks texts of four characters and more, however they are spelled. It never raises."""
    spelled = {form for one in hidden for form in (
        one, base64.b64encode(one.encode("utf-8", "replace")).decode())}
    spelled |= {form for one in spelled for form in (
        unquote(one), quote(one, safe="", errors="replace"), json.dumps(one)[1:-1])}
    longest_first = sorted((one for one in spelled if len(one) >= 4), key=len, reverse=True)
    found = re.compile("|".join(map(re.escape, longest_first)))
    # Most texts hold none; to find that out so takes a tenth of the time.
    return lambda text: found.sub("***", text) if any(one in text for one in longest_first) else text

@functools.lru_cache(maxsize=256)
def ascii_url(url: str) -> str:
    """The URL as it is sent. Raises ValueError, as for user and password, which would be read as a host."""
    parts = urlsplit(url)
    if parts.username is not None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a web address without user and password")
    _ = parts.port      # raises beyond 65535
    host = parts.netloc
    if not parts.hostname.isascii():
        host = parts.hostname.encode("idna").decode() + (f":{parts.port}" if parts.port else "")
    return parts._replace(netloc=host, path=quote(parts.path, safe="/%:@!$&'()*+,;=~-._"),
                          query=quote(parts.query, safe="/%:@!$&'()*+,;=~-._?"), fragment="").geturl()

@functools.lru_cache(maxsize=4096)
def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address, IPv4 out of its IPv6 wrapper; None for what is not one."""
    try:
        address = ipaddress.ip_address(text.strip().partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address

@functools.lru_cache(maxsize=4096)
def in_networks(address: str, networks: tuple[str, ...]) -> bool:
    """Whether the address is in one of the networks; what is none, as at a unix socket, is in "unix"."""
    parsed = parse_address(address)
    return "unix" in networks if parsed is None else any(
        parsed in ipaddress.ip_network(text) for text in networks if text != "unix")

def network_of(address: str) -> str:
    """What a client counts by: its address, or of IPv6 its /64 network, all of which is its own."""
    parsed = parse_address(address)
    if parsed and parsed.version == 6:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed or address)

# Where home users' receivers are: for administrators, and for others where the operator allows it.
_PRIVATE = (
    "127.0.0.0/8", "::1", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
# Never: https://www.iana.org/assignments/iana-ipv4-special-registry and -ipv6-, what wraps an IPv4 address,
# and the metadata services of clouds. A list of our own, since ``is_global`` differs between Pythons.
_NEVER = (
    "0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
    "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "100.100.100.200", "168.63.129.16",
    "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16",
    "3fff::/20", "5f00::/16", "fe80::/10", "fec0::/10", "ff00::/8", "fd00:ec2::254")

def blocked_reason(address: str, allowed: tuple[str, ...], is_trusted: bool) -> str | None:
    """Why nothing may be sent to an address, if so: names the rule, and the flag that would allow it. If
    ``is_trusted``, as for providers and administrators' webhooks, private addresses are allowed."""
    if parse_address(address) is None or address != "::1" and in_networks(address, _NEVER):
        return f"{address} is a link-local, metadata, reserved or wrapped address, which is never sent to"
    if in_networks(address, _PRIVATE) and not is_trusted and not in_networks(address, allowed):
        return (f"{address} is a private address, which administrators alone may use; "
                f"--allow-network {address} allows it to every account")
    return None

class LoginThrottle:
    """Lets few wrong passwords and codes be tried, two hashed at a time (16 MiB each): counted by account and
    network together, and by network, so that nobody is locked out from elsewhere."""
    def __init__(self, per_account: int = LOGIN_ATTEMPTS_PER_ACCOUNT,
                 per_address: int = LOGIN_ATTEMPTS_PER_ADDRESS) -> None:
        self._by_account, self._by_address = RateLimiter(per_account), RateLimiter(per_address)
        self._waits = ConcurrencyLimit(4)      # log-ins under way, each in a thread that answers
        self._hashing = threading.BoundedSemaphore(2)
        self.secret = secrets.token_urlsafe(32)      # for what does not outlive the process

    def check(self, email: str, address: str, password: str, hashed: str | None, now: float) -> bool:
        """Whether the password is right; it takes as long for no account (``hashed`` None). Raises TooMany.
        Right ones do not count: programs log in often."""
        network = network_of(address)
        account = f"{secret_hash(email.lower()).hex()} from {network}"
        windows = [(self._by_account, account)]
        if network:         # else it is that of all clients, whom one of them would lock out
            windows.insert(0, (self._by_address, network))
        with self._waits.slot("", sys.maxsize) as may_wait:
            if not may_wait:
                raise TooMany(1, "Too many are signing in just now. Try again in a moment.")
            with self._hashing:
                return self._count(windows, now, lambda: is_password(
                    password[:PASSWORD_LIMIT], hashed or NO_PASSWORD))

    def check_code(self, who: str, is_right: Callable[[], bool], now: float) -> bool:
        """Whether a code is right. Raises TooMany. Wrong ones count by ``who`` alone, an account: whoever
        knows the password could try them from many addresses."""
        return self._count([(self._by_account, f"code {who}")], now, is_right)

    def _count(self, windows: Sequence[tuple[RateLimiter, str]], now: float,
               is_right: Callable[[], bool]) -> bool:
        """Try once, which counts in all windows unless it is right. Raises TooMany when one is used up."""
        with contextlib.ExitStack() as uncount:
            for limiter, name in windows:
                window = limiter.take(name, 1, now)
                if not window.is_open:
                    raise TooMany(window.reset)
                uncount.callback(limiter.give_back, name, 1)
            found = is_right()
            if not found:
                uncount.pop_all()
            return found

def match_patterns(rules: Sequence[tuple[str, bool]],
                   versions: Collection[str]) -> tuple[list[str], list[tuple[int, str]]]:
    """``(versions that are excluded, (index, problem) of patterns)``. A plain pattern excludes what it finds
    something in, an inverse one the rest, one with a problem nothing: rather a release too many than one
    hidden. For ``Helper``: ``re`` heeds its signal, and each pattern may take its part of two seconds."""
    found, problems = set[str](), list[tuple[int, str]]()
    for index, (pattern, inverse) in enumerate(rules):
        signal.setitimer(signal.ITIMER_PROF, 2 / len(rules))
        try:
            search = re.compile(pattern).search
            found.update([text for text in versions if bool(search(text)) is not inverse])
        except TimeoutError:
            problems.append((index, f"must be matched with all versions in time; {pattern!r} takes longer"))
        except (re.error, OverflowError, RecursionError) as error:
            problems.append((index, f"must be a Python regular expression; {pattern!r} is not: {error}"))
        signal.setitimer(signal.ITIMER_PROF, 0)
    return list(found), problems

class Helper:
    """Reads what strangers wrote, one text at a time, in a process of its own: what takes long would hold
    this interpreter's lock, and memory would stay taken. It ends after a minute without a text."""
    SECONDS = 5                         # of the processor's time for a text
    MEMORY = 1024                       # MiB of address space; the largest files take half of it
    # The module of this file, wherever it is: in a folder, a package or a zip file.
    _PROGRAM = """if True:
        import importlib.machinery, importlib.util, json, sys
        folder, name, sys.path[:] = json.loads(sys.argv[1])
        try:
            spec = importlib.machinery.PathFinder.find_spec(name, [folder])
            sys.modules[name] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        except BaseException as error:
            print(json.dumps(["missing", f"{type(error).__name__}: {error}"]))
        else:
            module.Helper.serve()"""

    def __init__(self) -> None:
        self._lock = threading.Lock()   # held while a text is worked on
        self._patience = 30.0           # seconds after which the process is killed; the machine may be busy
        self._processes: dict[int, subprocess.Popen[bytes]] = {}    # by who started it: we may be forked

    def run(self, function: Callable[..., Any], *values: Any, wait: float = -1) -> Any:
        """What a function of this module returns for values, as JSON has it; a dataclass is the list of its
        fields. Raises ValueError, as the function does, or at a limit; TooMany where others keep the process
        for longer than ``wait``, or it was killed; HelperMissing."""
        line = compact_json([function.__name__, values]).encode("utf-8", "surrogatepass") + b"\n"
        if not self._lock.acquire(timeout=wait):
            raise TooMany(1, "The files or patterns of others take long. Try again in a few seconds.")
        try:        # again where it has just ended, after its minute
            kind, answer = self._ask(line) or self._ask(line) or ["killed", None]
        except OSError as error:
            kind, answer = "missing", error
        finally:
            self._lock.release()
        if kind == "done":
            return answer
        raise {"killed": TooMany(10, "What was sent could not be read: the machine is too busy."),
               "missing": HelperMissing(f"Files and patterns cannot be read: {answer}"),
               "failed": RuntimeError(f"{function.__name__}: {answer}"), "wrong": ValueError(answer)}[kind]

    def match(self, rules: Sequence[tuple[str, bool]], versions: Collection[str],
              wait: float = -1) -> tuple[set[str], dict[int, str]]:
        """As ``match_patterns``. Raises TooMany, HelperMissing."""
        found, problems = self.run(match_patterns, rules, list(versions), wait=wait) if rules else ((), ())
        return set(found), dict(problems)

    def close(self) -> None:
        """End the process when it has read its text."""
        with self._lock:
            if process := self._processes.pop(os.getpid(), None):
                process.communicate()

    def _ask(self, line: bytes) -> Sequence[Any] | None:
        """``[kind, answer]`` of a line to the process; None if it had ended."""
        process = self._processes.get(os.getpid())
        if not process:
            folder, file = os.path.split(os.path.abspath(__file__))
            given = json.dumps([folder, os.path.splitext(file)[0], sys.path])
            is_python = os.path.basename(sys.executable or "").startswith(("python", "pypy"))  # not uWSGI
            beside = "python{}.{}".format(*sys.version_info)
            python = sys.executable if is_python else os.path.join(sys.exec_prefix, "bin", beside)
            process = self._processes[os.getpid()] = subprocess.Popen(
                [python, "-I", "-S", "-c", self._PROGRAM, given],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        killer = threading.Timer(self._patience, process.kill)
        killer.start()
        said = b""
        with contextlib.suppress(BrokenPipeError):
            assert process.stdin and process.stdout
            process.stdin.write(line)
            process.stdin.flush()
            said = process.stdout.readline()
        killer.cancel()
        if said:
            return json.loads(said)
        with contextlib.suppress(BrokenPipeError):
            self._processes.pop(os.getpid()).communicate()
        return ["killed", None] if process.returncode == -signal.SIGKILL else None

    @classmethod
    def serve(cls) -> None:
        """In the process: answer each line."""
        def stop(*_: Any) -> None:
            raise TimeoutError
        with contextlib.suppress(ValueError, OSError):      # macOS has no such limit
            resource.setrlimit(resource.RLIMIT_AS, (cls.MEMORY * MIB, cls.MEMORY * MIB))
        signal.signal(signal.SIGPROF, stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)        # Ctrl-C is for the service, which ends this
        # In KiB. On Linux it begins at the memory of the process that started this one.
        most = max(256 * KIB, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        for line in sys.stdin.buffer:
            signal.alarm(0)
            print(cls._answer(line), flush=True)
            if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > most:       # it would stay taken
                break
            signal.alarm(60)            # ends the process

    @classmethod
    def _answer(cls, line: bytes) -> str:
        limits = {TimeoutError: f"takes longer than {cls.SECONDS} s to read",
                  MemoryError: f"takes more than {cls.MEMORY} MiB of memory to read",
                  RecursionError: "is nested too deep"}
        try:
            name, values = json.loads(line)
            signal.setitimer(signal.ITIMER_PROF, cls.SECONDS)
            answer = globals()[name](*values)
            return json.dumps(["done", answer], default=lambda one: list(vars(one).values()))
        except (*limits, ValueError) as error:
            return json.dumps(["wrong", limits.get(type(error), str(error))])
        except Exception as error:      # a fault of ours
            return json.dumps(["failed", f"{type(error).__name__}: {error}"])
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

# A tag ends at its ">" or where the next "<" begins, so that each character is read once. html.parser takes
# half a minute for 64 KiB of "<a ", and raises for other notes.
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<(?P<end>/?)(?P<tag>[A-Za-z][A-Za-z0-9]*)[^<>]*>?|<[!?][^<>]*>?", re.DOTALL)
_HIDDEN = frozenset(("script", "style", "head", "title", "template", "noscript"))
_BLOCKS = frozenset("p div br li ul ol dl h1 h2 h3 h4 h5 h6 pre tr table blockquote section hr dd dt details "
                    "summary".split())
_KINDS_OF_LINES = {"li": "item", "pre": "code"} | {f"h{level}": "heading" for level in range(1, 7)}
_LINK = re.compile(r"""(\s(?:href|src)\s*=\s*)("[^"]*"|'[^']*'|[^\s"'>]+)""", re.IGNORECASE)

class Run(NamedTuple):
    """A piece of a line, and its look."""
    text: str
    is_bold: bool = False
    is_code: bool = False
    href: str = ""              # as the HTML has it

class Line(NamedTuple):
    """A line that a person reads of HTML."""
    kind: str                   # "" of a paragraph, "heading", "item" of a list, "code"
    runs: Sequence[Run]         # none: a blank line

    @property
    def text(self) -> str:
        return "".join(run.text for run in self.runs)

class _LineReader:
    """Collects the lines of HTML. Text without markup for lines, and preformatted text, has its own; in a
    ``preformatted`` text some of Markdown is known."""
    def __init__(self, markup: str) -> None:
        self.lines: list[tuple[str, list[Run]]] = [("", [])]
        self._is_text = markup.startswith("<pre>")
        self._is_folded = bool(re.search("<(?:p|li|br|h[1-6])[ >/]", markup, re.IGNORECASE))
        self._is_pre = self._is_bold = self._is_code = False
        self._href = ""

    def add(self, words: str) -> None:
        words = html.unescape(words)
        is_kept = self._is_pre or not self._is_folded
        for at, part in enumerate(words.split("\n") if is_kept else [words.replace("\n", " ")]):
            is_block = self._is_pre and not self._is_text
            if at:
                self.lines.append(("code" if is_block else "", []))
            if not is_block:
                part = re.sub(r"[ \t\r\f\v]+", " ", part)
            elif not self.lines[-1][1]:
                self.lines[-1] = "code", []
            if self._is_text and (mark := re.match(r" ?(?:(#{1,6})|[-*+]) (?=\S)", part)):
                self.lines[-1], part = ("heading" if mark[1] else "item", []), part[mark.end():]
            runs = self.lines[-1][1]
            if not is_block and (not runs or runs[-1].text.endswith(" ")):
                part = part.lstrip(" ")
            if part:
                runs.append(Run(part, self._is_bold, self._is_code and not is_block, self._href))

    def tag(self, name: str, is_end: bool, source: str) -> None:
        if name in _BLOCKS and not (name in ("li", "tr") and is_end):
            self._is_pre = self._is_pre if name != "pre" else not is_end
            kind = "" if is_end or self._is_text else _KINDS_OF_LINES.get(name, "")
            if kind or self.lines[-1][1] or self.lines[-1][0] != "item":    # a paragraph may begin an item
                self.lines.append((kind, []))
            if name != "br":
                self._is_bold, self._is_code, self._href = False, False, ""
        elif name in ("b", "strong"):
            self._is_bold = not is_end
        elif name in ("code", "tt", "kbd", "samp"):
            self._is_code = not is_end
        elif name == "a":
            link = None if is_end else _LINK.search(source)
            self._href = html.unescape(link[2].strip("\"'")).strip() if link else ""
        elif name in ("td", "th"):
            self.add(" ")

def lines_of(markup: str) -> list[Line]:
    """What a person would read of HTML, line by line; blank lines stand alone, and between others."""
    markup = re.sub(r"&#[0-9]{8,};?", "\ufffd", markup)     # int() refuses 5,000 digits
    reader, hidden, at = _LineReader(markup), 0, 0
    for match in _MARKUP.finditer(markup):
        if not hidden:
            reader.add(markup[at:match.start()])
        at, tag, is_end = match.end(), (match["tag"] or "").lower(), bool(match["end"])
        if tag in _HIDDEN:
            hidden = max(0, hidden - 1) if is_end else hidden + 1
        elif not hidden:
            reader.tag(tag, is_end, match[0])
    if not hidden:
        reader.add(markup[at:])
    lines, is_blank = list[Line](), False
    for kind, runs in reader.lines:
        while runs and not runs[-1].text.strip():
            runs.pop()
        if runs:
            if is_blank and lines and not lines[-1].kind == kind == "item":
                lines.append(Line("", []))
            lines.append(Line(kind, [*runs[:-1], runs[-1]._replace(text=runs[-1].text.rstrip())]))
        is_blank = not runs
    return lines

def plain_text(markup: str) -> str:
    """The text that a person would read of HTML: no markup, blocks as lines, blank runs folded."""
    return "\n".join(("- " if line.kind == "item" else "") + line.text.strip() for line in lines_of(markup))

def preformatted(text: str) -> str:
    """Text or Markdown as HTML that shows it as it is."""
    return f"<pre>{html.escape(text, quote=False)}</pre>" if text.strip() else ""

# Links other than whole web addresses, which need no change. The first are sought anywhere, not only inside
# tags: browsers and patterns disagree on where a tag ends.
_ODD = r"""(?!["']?https?://)"""
_ODD_HREF = re.compile(rf"""((?:href|action)\s*=\s*){_ODD}("[^"]*"|'[^']*'|[^\s>]+)""", re.IGNORECASE)
_ODD_LINK = re.compile(_LINK.pattern.replace(")(", f"){_ODD}("), re.IGNORECASE)

def harmless_links(markup: str) -> str:
    """The HTML with "#" in place of links that are script, or anything but web and mail addresses."""
    def one(match: re.Match[str]) -> str:
        link = re.sub(r"[\x00-\x20]", "", html.unescape(match[2].strip("\"'"))).lower()
        scheme = re.match(r"([a-z][a-z0-9+.-]*):", link)
        return f'{match[1]}"#"' if scheme and scheme[1] not in ("http", "https", "mailto") else match[0]
    return _ODD_HREF.sub(one, markup)

def absolute_links(markup: str, base: str) -> str:
    """The HTML with its links and pictures resolved against the page ``base``."""
    def one(match: re.Match[str]) -> str:
        is_quoted = match[2][0] in "\"'"
        mark, link = (match[2][0], match[2][1:-1]) if is_quoted else ('"', match[2])
        with contextlib.suppress(ValueError):       # a broken address stays as it is
            link = urljoin(base, link.strip())
        return f"{match[1]}{mark}{link}{mark}"
    return re.sub(r"<[A-Za-z][^<>=]*=[^<>]*>", lambda tag: _ODD_LINK.sub(one, tag[0]), markup)


# == store =====================================================================
# Everything that is remembered, and all SQL. Threads and processes meet here: each thread has its
# own connection, the writers of a process queue at one lock, work is claimed with a lease, by a
# Worker. What a method wrote is on the disk when it returns.
# No policy: rules decides. SQLite in WAL mode: https://www.sqlite.org/wal.html

SCHEMA = """
-- password: its hash. read_until: what came until then is read; of later releases, those that read_release
-- has. digest_hour: NULL for that of the setting. Quiet hours, in which nothing is sent: "22:00" and "07:00".
CREATE TABLE account (
    id TEXT PRIMARY KEY, type TEXT NOT NULL CHECK (type IN ('user', 'organization')),
    email TEXT NOT NULL COLLATE NOCASE UNIQUE, name TEXT NOT NULL, password TEXT NOT NULL,
    is_admin INTEGER NOT NULL CHECK (is_admin IN (0, 1)), email_notification TEXT NOT NULL DEFAULT 'daily',
    time_zone TEXT NOT NULL DEFAULT 'UTC', feed_secret TEXT NOT NULL UNIQUE,
    badge_secret TEXT NOT NULL UNIQUE, created_at REAL NOT NULL, read_until REAL NOT NULL DEFAULT 0,
    digest_hour INTEGER CHECK (digest_hour BETWEEN 0 AND 23), quiet_from TEXT NOT NULL DEFAULT '',
    quiet_until TEXT NOT NULL DEFAULT ''
) STRICT;
-- The API shows an account its keys, so they are kept; they are looked up by their hash.
CREATE TABLE api_key (
    id TEXT PRIMARY KEY, account_id TEXT NOT NULL REFERENCES account ON DELETE CASCADE, name TEXT NOT NULL,
    secret TEXT NOT NULL, secret_hash BLOB NOT NULL UNIQUE, networks TEXT NOT NULL, created_at REAL NOT NULL,
    used_at REAL, UNIQUE (account_id, name)
) STRICT;
-- id: the hash of its token. confirmed_at: when the password was typed last.
CREATE TABLE session (
    id TEXT PRIMARY KEY, account_id TEXT NOT NULL REFERENCES account ON DELETE CASCADE, address TEXT NOT NULL,
    agent TEXT NOT NULL, created_at REAL NOT NULL, seen_at REAL NOT NULL, confirmed_at REAL NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX session_of_account ON session (account_id);
CREATE INDEX session_by_time ON session (created_at);
-- recovery_codes: JSON list of hashes; last_step: the last time step whose code was used, RFC 6238.
CREATE TABLE second_factor (
    account_id TEXT PRIMARY KEY REFERENCES account ON DELETE CASCADE, totp_secret TEXT NOT NULL,
    last_step INTEGER NOT NULL, recovery_codes TEXT NOT NULL
) STRICT;
-- An id is never used twice: a check that is under way would record its result under another source.
-- owner_id: the account in whose turn it is checked, the first that tracks it. former_name: before it was
-- renamed there. notes_source_id, notes_state: whose notes an image gets, and what is wrong with them.
CREATE TABLE source (
    id INTEGER PRIMARY KEY AUTOINCREMENT, provider TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL,
    next_check_at REAL NOT NULL, checked_at REAL, succeeded_at REAL,
    failures INTEGER NOT NULL DEFAULT 0, failing_since REAL, error TEXT,
    alert_sent INTEGER NOT NULL DEFAULT 0 CHECK (alert_sent IN (0, 1)), missing_since REAL,
    is_missing INTEGER NOT NULL DEFAULT 0 CHECK (is_missing IN (0, 1)), quota_left INTEGER, etag_url TEXT,
    etag TEXT, owner_id TEXT, former_name TEXT NOT NULL DEFAULT '', notes_from TEXT NOT NULL DEFAULT '',
    notes_source_id INTEGER REFERENCES source ON DELETE SET NULL, notes_state TEXT NOT NULL DEFAULT '',
    labels TEXT NOT NULL DEFAULT '', UNIQUE (provider, key)
) STRICT;
CREATE INDEX source_of_notes ON source (notes_source_id) WHERE notes_source_id IS NOT NULL;
CREATE INDEX source_due_of_owner ON source (owner_id, provider, next_check_at);
-- date is without its Z, so that 10:00:00 sorts before 10:00:00.5. found_at: NULL for history. step: of a
-- version above the final one below it. place: among the releases of a source, the latest last.
CREATE TABLE release (
    id INTEGER PRIMARY KEY, source_id INTEGER NOT NULL REFERENCES source ON DELETE CASCADE,
    version TEXT NOT NULL, date TEXT NOT NULL, is_prerelease INTEGER NOT NULL CHECK (is_prerelease IN (0, 1)),
    is_updated INTEGER NOT NULL DEFAULT 0 CHECK (is_updated IN (0, 1)), cve TEXT, content_id TEXT,
    gone_at REAL, found_at REAL, step TEXT CHECK (step IN ('', 'patch', 'minor', 'major')), place INTEGER,
    UNIQUE (source_id, version)
) STRICT;
CREATE INDEX release_newest_of_source ON release (source_id, date, id, cve);
CREATE INDEX release_found ON release (source_id, found_at) WHERE found_at IS NOT NULL;
CREATE INDEX release_by_place ON release (source_id, place, date);
CREATE TABLE note (
    release_id INTEGER PRIMARY KEY REFERENCES release ON DELETE CASCADE, fingerprint INTEGER NOT NULL,
    title TEXT NOT NULL, message TEXT NOT NULL, url TEXT NOT NULL
) STRICT;
CREATE TABLE read_release (
    account_id TEXT NOT NULL REFERENCES account ON DELETE CASCADE,
    release_id INTEGER NOT NULL REFERENCES release ON DELETE CASCADE, PRIMARY KEY (account_id, release_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX read_release_of_release ON read_release (release_id);
-- installed: a JSON list of Installations; places: at which anything is installed, a JSON list. update_state,
-- urgency: as of a Project and of its most urgent Installation, which lists of updates sort by.
-- revision: rises when it or, where it has rules, its releases change; judged_revision: as of its rules.
-- newest_date: of the newest release, so that lists by it do not read the releases of every project.
-- is_narrow: lists leave out what its rules exclude, such as an image's 300 other tags.
CREATE TABLE project (
    id TEXT PRIMARY KEY, account_id TEXT NOT NULL REFERENCES account ON DELETE CASCADE,
    source_id INTEGER NOT NULL REFERENCES source, email_notification TEXT NOT NULL,
    exclude_prereleases INTEGER NOT NULL DEFAULT 0 CHECK (exclude_prereleases IN (0, 1)),
    exclude_updated INTEGER NOT NULL DEFAULT 0 CHECK (exclude_updated IN (0, 1)),
    is_muted INTEGER NOT NULL DEFAULT 0 CHECK (is_muted IN (0, 1)),
    exclude_version_regexp TEXT NOT NULL DEFAULT '[]', revision INTEGER NOT NULL DEFAULT 0,
    judged_revision INTEGER NOT NULL DEFAULT 0,
    notify_level TEXT NOT NULL DEFAULT 'newer' CHECK (notify_level IN ('newer', 'minor', 'major', 'all')),
    hold_days INTEGER NOT NULL DEFAULT 0, note TEXT NOT NULL DEFAULT '', newest_date TEXT NOT NULL DEFAULT '',
    is_narrow INTEGER NOT NULL DEFAULT 0 CHECK (is_narrow IN (0, 1)), installed TEXT NOT NULL DEFAULT '[]',
    places TEXT NOT NULL DEFAULT '[]', update_state TEXT NOT NULL DEFAULT '',
    urgency INTEGER NOT NULL DEFAULT 0, skipped_version TEXT NOT NULL DEFAULT '', snoozed_until REAL,
    added_at REAL NOT NULL, version_answers TEXT NOT NULL DEFAULT '[]', alerted TEXT NOT NULL DEFAULT '[]',
    UNIQUE (account_id, source_id)
) STRICT;
CREATE INDEX project_of_source ON project (source_id);
CREATE INDEX project_by_newest ON project (account_id, newest_date);
CREATE INDEX project_snoozed ON project (snoozed_until) WHERE snoozed_until IS NOT NULL;
CREATE INDEX project_installed ON project (account_id, urgency) WHERE update_state != '';
CREATE TRIGGER project_added AFTER INSERT ON project BEGIN
    UPDATE source SET owner_id = NEW.account_id WHERE id = NEW.source_id AND owner_id IS NULL;
END;
CREATE TRIGGER project_passed_on AFTER DELETE ON project BEGIN
    UPDATE source
       SET owner_id = (SELECT account_id FROM project WHERE source_id = OLD.source_id ORDER BY rowid LIMIT 1)
     WHERE id = OLD.source_id AND owner_id = OLD.account_id;
END;
-- What a project's rules exclude.
CREATE TABLE excluded_release (
    project_id TEXT NOT NULL REFERENCES project ON DELETE CASCADE,
    release_id INTEGER NOT NULL REFERENCES release ON DELETE CASCADE, PRIMARY KEY (project_id, release_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX excluded_release_of_release ON excluded_release (release_id);
CREATE TABLE tag (
    id TEXT PRIMARY KEY, account_id TEXT NOT NULL REFERENCES account ON DELETE CASCADE,
    name TEXT NOT NULL COLLATE NOCASE, feed_secret TEXT NOT NULL UNIQUE, UNIQUE (account_id, name)
) STRICT;
CREATE TABLE project_tag (
    project_id TEXT NOT NULL REFERENCES project ON DELETE CASCADE,
    tag_id TEXT NOT NULL REFERENCES tag ON DELETE CASCADE, PRIMARY KEY (project_id, tag_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX project_tag_of_tag ON project_tag (tag_id);
-- failing_since, failed_at, error: of the failed attempts since the last that succeeded, the first, the last,
-- what was wrong then. reported_at: when the report on what is behind was due last, or was chosen.
CREATE TABLE destination (
    id TEXT PRIMARY KEY, account_id TEXT NOT NULL REFERENCES account ON DELETE CASCADE, kind TEXT NOT NULL,
    name TEXT NOT NULL, settings TEXT NOT NULL, secret TEXT NOT NULL, previous_secret TEXT,
    previous_until REAL,
    schedule TEXT NOT NULL DEFAULT 'instant' CHECK (schedule IN ('instant', 'hourly', 'daily', 'weekly')),
    is_for_every_project INTEGER NOT NULL DEFAULT 1 CHECK (is_for_every_project IN (0, 1)),
    is_security_only INTEGER NOT NULL DEFAULT 0 CHECK (is_security_only IN (0, 1)), created_at REAL NOT NULL,
    failing_since REAL, failed_at REAL, error TEXT,
    alert_sent INTEGER NOT NULL DEFAULT 0 CHECK (alert_sent IN (0, 1)),
    report TEXT NOT NULL DEFAULT 'none' CHECK (report IN ('none', 'weekly', 'monthly')), reported_at REAL,
    UNIQUE (account_id, kind, name)
) STRICT;
CREATE TABLE project_destination (
    project_id TEXT NOT NULL REFERENCES project ON DELETE CASCADE,
    destination_id TEXT NOT NULL REFERENCES destination ON DELETE CASCADE,
    PRIMARY KEY (project_id, destination_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX project_destination_of_destination ON project_destination (destination_id);
CREATE TABLE destination_tag (
    destination_id TEXT NOT NULL REFERENCES destination ON DELETE CASCADE,
    tag_id TEXT NOT NULL REFERENCES tag ON DELETE CASCADE,
    is_without INTEGER NOT NULL CHECK (is_without IN (0, 1)), PRIMARY KEY (destination_id, tag_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX destination_tag_of_tag ON destination_tag (tag_id);
CREATE TABLE event (
    id INTEGER PRIMARY KEY, account_id TEXT NOT NULL REFERENCES account ON DELETE CASCADE,
    project_id TEXT REFERENCES project ON DELETE SET NULL,
    release_id INTEGER REFERENCES release ON DELETE SET NULL,
    kind TEXT NOT NULL CHECK (kind IN ('release', 'summary', 'failing', 'recovered')), body TEXT NOT NULL,
    url TEXT NOT NULL, created_at REAL NOT NULL
) STRICT;
CREATE INDEX event_of_account ON event (account_id);
CREATE INDEX event_of_project ON event (project_id);
CREATE INDEX event_of_release ON event (release_id) WHERE release_id IS NOT NULL;
CREATE INDEX event_by_time ON event (created_at);
-- queued_at: when it was first attempted or is to be, reset by sending it again; retries count from it.
-- reason: why it was skipped.
CREATE TABLE delivery (
    id TEXT PRIMARY KEY, account_id TEXT NOT NULL REFERENCES account ON DELETE CASCADE,
    event_id INTEGER NOT NULL REFERENCES event ON DELETE CASCADE,
    destination_id TEXT NOT NULL REFERENCES destination ON DELETE CASCADE,
    state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed', 'skipped')),
    next_attempt_at REAL NOT NULL, queued_at REAL NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
    is_held INTEGER NOT NULL DEFAULT 0 CHECK (is_held IN (0, 1)),
    is_digested INTEGER NOT NULL DEFAULT 0 CHECK (is_digested IN (0, 1)), digest_id TEXT,
    created_at REAL NOT NULL, settled_at REAL, reason TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX delivery_of_account ON delivery (account_id);
CREATE INDEX delivery_of_event ON delivery (event_id);
CREATE INDEX delivery_of_destination ON delivery (destination_id);
CREATE INDEX delivery_of_digest ON delivery (digest_id) WHERE digest_id IS NOT NULL;
CREATE INDEX delivery_due ON delivery (next_attempt_at) WHERE state = 'pending';
CREATE INDEX delivery_due_at_destination ON delivery (destination_id, next_attempt_at)
 WHERE state = 'pending';
CREATE INDEX delivery_undigested ON delivery (next_attempt_at)
 WHERE state = 'pending' AND is_digested AND digest_id IS NULL;
CREATE INDEX delivery_held ON delivery (next_attempt_at) WHERE state = 'pending' AND is_held;
CREATE INDEX delivery_settled ON delivery (settled_at) WHERE settled_at IS NOT NULL;
-- sent: the request as people read it, without secrets: of a delivery's last attempt, of a digest's first
-- delivery.
CREATE TABLE attempt (
    id INTEGER PRIMARY KEY, delivery_id TEXT NOT NULL REFERENCES delivery ON DELETE CASCADE,
    attempted_at REAL NOT NULL, status INTEGER, error TEXT, duration REAL NOT NULL, address TEXT, answer TEXT,
    sent TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX attempt_of_delivery ON attempt (delivery_id);
-- Who works at what, until when unless it is renewed. id: of a source, a number; or of a destination, a text.
CREATE TABLE lease (id ANY PRIMARY KEY, claimant TEXT NOT NULL, until REAL NOT NULL) STRICT, WITHOUT ROWID;
-- What the operator has set, a JSON list of texts; and as "serve", what the last serve was started with.
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
-- What others say of versions, as JSON, by its address or id; version: such as its ETag.
CREATE TABLE document (
    name TEXT PRIMARY KEY, version TEXT NOT NULL, body TEXT NOT NULL, read_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
PRAGMA application_id = 1920234091;
PRAGMA user_version = 10;
"""
# A source goes with its last project and the last image that gets its notes. They go where that is another.
_TRIGGERS = "".join(f"""
CREATE TRIGGER {name} ON {table} WHEN OLD.{column} IS NOT NULL BEGIN
    DELETE FROM source
     WHERE id = OLD.{column} AND NOT EXISTS (SELECT 1 FROM project WHERE source_id = OLD.{column})
       AND NOT EXISTS (SELECT 1 FROM source AS image WHERE image.notes_source_id = OLD.{column});{more}
END;""" for name, table, column, more in (
    ("project_removed AFTER DELETE", "project", "source_id", ""),
    ("notes_removed AFTER DELETE", "source", "notes_source_id", ""),
    ("notes_changed AFTER UPDATE OF notes_source_id", "source", "notes_source_id", """
    DELETE FROM note WHERE OLD.notes_source_id IS NOT NEW.notes_source_id
                       AND release_id IN (SELECT id FROM release WHERE source_id = OLD.id);
    UPDATE release SET cve = NULL
     WHERE source_id = OLD.id AND cve IS NOT NULL AND OLD.notes_source_id IS NOT NEW.notes_source_id;""")))
# What brings an empty file to the present schema, and a store of each older one to the next; others are
# refused. One that has landed is never edited: the tests hold a store of each.
MIGRATIONS: Mapping[int, str] = {0: SCHEMA.replace("\nPRAGMA", f"{_TRIGGERS}\nPRAGMA", 1), 7: """
ALTER TABLE delivery ADD COLUMN reason TEXT NOT NULL DEFAULT '';
UPDATE delivery SET reason = 'the release or its project was removed, or it was skipped or snoozed'
 WHERE state = 'skipped';
ALTER TABLE project ADD COLUMN version_answers TEXT NOT NULL DEFAULT '[]';
ALTER TABLE project ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
ALTER TABLE project ADD COLUMN judged_revision INTEGER NOT NULL DEFAULT 0;
UPDATE project SET revision = 1 WHERE judged_by != exclude_version_regexp OR installed != '[]';
ALTER TABLE project DROP COLUMN judged_by;
-- A lease belongs to what is served.
CREATE TABLE lease (id ANY PRIMARY KEY, claimant TEXT NOT NULL, until REAL NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO lease (id, claimant, until)
SELECT id, claimed_by, claimed_until FROM source WHERE claimed_by IS NOT NULL;
DROP INDEX source_claimed;
DROP INDEX delivery_claimed;
ALTER TABLE source DROP COLUMN claimed_by;
ALTER TABLE source DROP COLUMN claimed_until;
ALTER TABLE delivery DROP COLUMN claimed_by;
ALTER TABLE delivery DROP COLUMN claimed_until;
-- One row for what serve was started with.
CREATE TABLE setting_8 (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO setting_8 (name, value)
SELECT name, value FROM setting WHERE origin = 'operator'
 UNION ALL
SELECT 'serve', json_group_object(name, json(value)) FROM setting WHERE origin = 'serve' GROUP BY origin;
DROP TABLE setting;
ALTER TABLE setting_8 RENAME TO setting;
ALTER TABLE project ADD COLUMN is_muted INTEGER NOT NULL DEFAULT 0 CHECK (is_muted IN (0, 1));
PRAGMA user_version = 8;
""", 8: """
ALTER TABLE project ADD COLUMN alerted TEXT NOT NULL DEFAULT '[]';
CREATE TABLE document (
    name TEXT PRIMARY KEY, version TEXT NOT NULL, body TEXT NOT NULL, read_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 9;
""", 9: f"""
ALTER TABLE source ADD COLUMN notes_from TEXT NOT NULL DEFAULT '';
ALTER TABLE source ADD COLUMN notes_source_id INTEGER REFERENCES source ON DELETE SET NULL;
ALTER TABLE source ADD COLUMN notes_state TEXT NOT NULL DEFAULT '';
ALTER TABLE source ADD COLUMN labels TEXT NOT NULL DEFAULT '';
CREATE INDEX source_of_notes ON source (notes_source_id) WHERE notes_source_id IS NOT NULL;
DROP TRIGGER project_removed;{_TRIGGERS}
PRAGMA user_version = 10;
"""}
# Created again after a migration; one that drops a column of theirs drops them first. They use no functions
# of JSON, which are "unsafe" there in some versions of SQLite where trusted_schema is off.
VIEWS = """
CREATE VIEW account_view AS
SELECT account.rowid AS number, account.*, coalesce(totp_secret, '') AS totp_secret, recovery_codes
  FROM account LEFT JOIN second_factor ON account_id = account.id;
CREATE VIEW destination_view AS
SELECT rowid AS number, destination.*,
       (SELECT '["' || group_concat(tag_id, '","') || '"]' FROM destination_tag
         WHERE destination_id = destination.id AND NOT is_without) AS tags,
       (SELECT '["' || group_concat(tag_id, '","') || '"]' FROM destination_tag
         WHERE destination_id = destination.id AND is_without) AS without_tags
  FROM destination;
CREATE VIEW release_view AS
SELECT release.*, release_id IS NOT NULL AS has_note, fingerprint
  FROM release LEFT JOIN note ON release_id = release.id;
-- is_ruled_out: by a pattern, or by what is installed; is_excluded: by that, or as rules say of an option.
CREATE VIEW project_release_view AS
SELECT own.*, is_ruled_out OR exclude_prereleases AND is_prerelease OR exclude_updated AND is_updated
              OR version = skipped_version OR cve IS NULL AND notify_level IN ('minor', 'major')
                 AND coalesce(step, '') NOT IN ('', 'major', notify_level) AS is_excluded
  FROM (SELECT project.id AS project_id, account_id, is_narrow, exclude_prereleases, exclude_updated,
               skipped_version, notify_level, release_view.*,
               EXISTS (SELECT 1 FROM excluded_release
                        WHERE project_id = project.id AND release_id = release_view.id) AS is_ruled_out
          FROM project JOIN release_view USING (source_id)) AS own;
-- is_trusted: administrators alone track it.
CREATE VIEW source_view AS
SELECT source.*, NOT EXISTS (SELECT 1 FROM project JOIN account ON account.id = account_id
                              WHERE source_id = source.id AND NOT is_admin) AS is_trusted
  FROM source;
CREATE VIEW unread_view AS
SELECT account_id, project.id AS project_id, release.id AS release_id
  FROM account JOIN project ON account_id = account.id JOIN release USING (source_id)
 WHERE found_at > read_until AND NOT EXISTS (
       SELECT 1 FROM read_release
        WHERE read_release.account_id = account.id AND release_id = release.id)
   AND (NOT is_narrow OR NOT EXISTS (
       SELECT 1 FROM excluded_release WHERE project_id = project.id AND release_id = release.id));

-- What the delivery history is searched by. state: one of DELIVERY_STATES.
CREATE VIEW delivery_view AS
SELECT delivery.rowid AS place, delivery.id, delivery.account_id, event_id, destination_id, project_id,
       CASE WHEN state = 'pending' AND attempts > 0 THEN 'retrying' ELSE state END AS state,
       delivery.created_at, next_attempt_at, settled_at, reason, digest_id, event.kind AS event, body
  FROM event JOIN delivery ON event_id = event.id;
"""

def _assignments(options: Iterable[Option]) -> str:
    return ", ".join(f"{option.name} = :{option.name}" for option in options)

_UPDATE_PROJECT = f"""
    UPDATE project SET {_assignments(one for one in PROJECT_OPTIONS if one.name != "notes_from")},
           exclude_version_regexp = :exclude_version_regexp, version_answers = :version_answers,
           installed = :installed, places = :places,
           update_state = :update_state, urgency = :urgency, revision = revision + 1,
           is_narrow = :installed != '[]' AND :notify_level != 'all',
           judged_revision = judged_revision + :has_same_rules
     WHERE id = :id"""
_UPDATE_ACCOUNT = f"""
    UPDATE account SET email = :email, name = :name, password = :password, is_admin = :is_admin,
           feed_secret = :feed_secret, badge_secret = :badge_secret, {_assignments(ACCOUNT_OPTIONS)}
     WHERE id = :id"""
_UPDATE_DESTINATION = f"""
    UPDATE destination SET name = :name, settings = :settings, {_assignments(DESTINATION_OPTIONS)},
           reported_at = iif(report = :report, reported_at, :now)
     WHERE id = :id"""

APPLICATION = 1920234091        # "rtrk": marks a database as ours
BUSY_TIMEOUT = 3.0              # seconds that a writer waits in its process, and again for other processes

# Faults of the file, its disk, or another process that uses it: https://www.sqlite.org/rescode.html
_DAMAGED = sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB
_OUT_OF_ORDER = (
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL)

class StoreError(ReleasetrackError):
    """The store cannot be opened at all: not a store, of a newer version, or no permission."""

def search_term(text: str | None) -> str:
    """As much of a text as is sought, by instr(): hostile words and notes can make LIKE take a minute."""
    return (text or "")[:NAME_LIMIT].encode("utf-8", "replace").decode().replace("\0", "\ufffd")

Values = Mapping[str, Any] | Sequence[Any]          # of the placeholders of a statement
_READERS: dict[str, Callable[[Any], Any]] = {       # of a column, by the type of the field
    "bool": bool,
    "tuple[str, ...]": lambda text: tuple(json.loads(text)) if text else (),
    "tuple[tuple[str, bool], ...]": lambda text: tuple(map(tuple, json.loads(text))),
    "tuple[Installation, ...]": lambda text: tuple(
        Installation(**one | {"cve": tuple(one.get("cve", ())), "advisories": tuple(
            Advisory(**each | {"aliases": tuple(each["aliases"])}) for each in one.get("advisories", ()))})
        for one in json.loads(text)),
    "Mapping[str, tuple[str, ...]]": lambda text: {
        kind: tuple(ids) for kind, ids in json.loads(text).items()},
    "Mapping[str, Any]": json.loads,
}

@functools.cache
def _readers(kind: Any) -> dict[str, Callable[[Any], Any] | None]:
    return {field.name: _READERS.get(str(field.type)) for field in dataclasses.fields(kind)}

def _value(kind: Callable[..., V], row: sqlite3.Row, **more: Any) -> V:
    """A dataclass of the columns with its fields' names; tuples and mappings are kept as JSON."""
    found = dict(zip(row.keys(), row))      # dict(row) looks for each name from the first on
    read = {name: reader(found[name]) if reader else found[name]
            for name, reader in _readers(kind).items() if name in found}
    return kind(**{**read, **more})

class _StoreConnection(sqlite3.Connection):
    """Closes itself with the thread that it belongs to."""
    def __del__(self) -> None:
        with contextlib.suppress(sqlite3.Error):    # it was never opened
            self.close()

def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""

def _has_foreign_log(path: str) -> bool:
    """Whether a backup (its byte 18 is 1) was copied over a store whose write-ahead log is still there."""
    if not os.path.exists(f"{path}-wal") or not os.path.getsize(f"{path}-wal"):
        return False
    # Not closed: that would release the locks that SQLite may hold on the file in this process (POSIX).
    return os.pread(os.open(path, os.O_RDONLY), 1, 18) == b"\x01"

def _check_schema(db: sqlite3.Connection, path: str, scripts: Mapping[int, str]) -> int:
    """The version of the schema; 0 for an empty file. Raises StoreError for one that cannot be used."""
    known = max(scripts) + 1
    version, owner, tables = db.execute("""
        SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
          FROM pragma_user_version, pragma_application_id""").fetchone()
    if tables and owner != APPLICATION:
        raise StoreError(f"{path} is a database of another program; name another file")
    if version > known:
        raise StoreError(f"{path} was made by a newer releasetrack (its schema is {version}, this program "
                         f"knows {known}); run that one, or restore a backup")
    if version not in scripts and version != known or tables and not version:
        raise StoreError(f"{path} has schema {version} of a releasetrack from before 24 November 2026, which "
                         "cannot be upgraded; it is left as it is: name another file with --db, and add your "
                         "projects again")
    return int(version)

def _upgrade(db: sqlite3.Connection, scripts: Mapping[int, str]) -> None:
    """Run the scripts that bring a database to the present schema, and create its views."""
    while script := scripts.get(db.execute("PRAGMA user_version").fetchone()[0]):
        for statement in _statements(script):
            db.execute(statement)
    views = db.execute("SELECT name FROM sqlite_schema WHERE type = 'view'").fetchall()
    for statement in (*(f'DROP VIEW "{view[0]}"' for view in views), *_statements(VIEWS)):
        db.execute(statement)

def _copy_whole(db: sqlite3.Connection, path: str) -> None:
    """Replace the file at ``path`` by a copy of a database, once it is whole; for its owner alone."""
    part = f"{path}.{make_id()}.part"
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        db.execute("VACUUM INTO ?", (part,))        # of one moment, while others write
        with open(part, "rb") as whole:
            os.fsync(whole.fileno())
        os.replace(part, path)
    finally:
        for rest in (part, f"{part}-journal"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(rest)

class Database:
    """The file: a connection for each thread, reads, transactions, copies."""
    def __init__(self, path: str, clock: Callable[[], float], migrations: Mapping[int, str],
                 quota_of: Callable[[str], int]) -> None:
        if path.startswith(":memory:") or not path:
            raise StoreError("the store must be a file, which threads and processes share; use --db")
        self.path, self.clock, self.quota_of = os.path.abspath(path), clock, quota_of
        # How threads of this process wake each other. What is to be done then, they read from the store.
        self.check_wakeup, self.send_wakeup = threading.Event(), threading.Event()
        self.has_to_compare = threading.Event()     # something was installed, or found beside that
        self.has_tracker = False                    # in this process
        self._scripts = migrations
        self._inherited: list[Any] = []             # of the process that this one was forked from
        self._fault, self._fault_at = "", 0.0       # the last one, and when on the monotonic clock
        self._enter_process()
        try:
            self._open()
        except (OSError, sqlite3.Error, ReleasetrackError) as error:
            self.close()
            if isinstance(error, StoreError):
                raise
            reason = getattr(error, "strerror", None) or str(error)
            raise StoreError(f"{path} cannot be opened as a store: {reason}; the file and its folder must be "
                             "writable; restore a backup, or name another file with --db") from error

    def _enter_process(self) -> None:
        """Begin with connections and locks of this process: SQLite's must not be carried over a fork."""
        self._process = os.getpid()
        self._local = threading.local()
        self._connections: weakref.WeakSet[_StoreConnection] = weakref.WeakSet()
        self._writing, self._watching = threading.Lock(), threading.Lock()
        self._watcher: sqlite3.Connection | None = None
        self._watched_since = 0                     # in nanoseconds: other revisions after a fork or a fault

    def _open(self) -> None:
        if sqlite3.sqlite_version_info < (3, 37):
            raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old; 3.37 or newer is required")
        if not os.path.exists(self.path):   # its companions get these permissions too
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        if not os.access(self.path, os.W_OK):   # SQLite would open it read-only
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if _has_foreign_log(self.path):
            raise StoreError(f"{self.path} is a backup beside the write-ahead log of another store; delete "
                             f"{self.path}-wal and {self.path}-shm, or use the command restore")
        self._file = os.stat(self.path)
        version = _check_schema(self.connection, self.path, self._scripts)
        self._enter_wal(self.connection)
        if version and version in self._scripts:
            self.backup(f"{self.path}.schema-{version}")
        if version in self._scripts:
            with self.transaction() as db:
                _upgrade(db, self._scripts)     # another process may have done it meanwhile

    def _follow_fork(self) -> None:
        if self._process != os.getpid():
            self._inherited.append((self._local, list(self._connections), self._watcher))
            self._enter_process()

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's connection."""
        self._follow_fork()
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is None:
            db = self._local.db = self._connect()
        return db

    def _connect(self) -> sqlite3.Connection:
        """A connection to the file; where that was moved or deleted, no new one is made. Each of
        50 threads has one, which keeps few pages and statements: they fill up in hours."""
        db = sqlite3.connect(f"file:{quote(self.path)}?mode=rw", uri=True, timeout=BUSY_TIMEOUT,
                             isolation_level=None, check_same_thread=False, cached_statements=64,
                             factory=_StoreConnection)
        self._connections.add(db)
        db.row_factory = sqlite3.Row
        db.executescript("""
            PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;
            PRAGMA trusted_schema = OFF; PRAGMA cache_size = -100""")
        return db

    def _enter_wal(self, db: sqlite3.Connection) -> None:
        """SQLite does not wait for its lock here, so this does: another process may be doing the same."""
        end = time.monotonic() + BUSY_TIMEOUT
        while db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            if time.monotonic() > end:
                raise StoreError(f"{self.path} cannot have a write-ahead log; the file must be on a local "
                                 "disk, and no other program may hold it")
            with contextlib.suppress(sqlite3.OperationalError):
                db.execute("PRAGMA journal_mode = WAL").fetchall()
            time.sleep(0.02)

    def close(self) -> None:
        for db in list(self._connections):
            with contextlib.suppress(sqlite3.Error):
                db.close()
        self._local = threading.local()

    @contextlib.contextmanager
    def _translating_faults(self, done: str) -> Iterator[None]:
        """Raises StoreUnavailable for a fault of the store, and remembers it for ``problem``."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xff
            if code not in _DAMAGED + _OUT_OF_ORDER:
                raise
            advice = "; stop the service and restore a backup" if code in _DAMAGED else ""
            self._fault = f"the store cannot be {done}: {error}{advice}"
            self._fault_at = time.monotonic()
            raise StoreUnavailable(self._fault) from error

    def rows(self, sql: str, values: Values = ()) -> list[sqlite3.Row]:
        """All rows: an unfinished cursor would keep the write-ahead log from shrinking."""
        with self._translating_faults("read"):
            return self.connection.execute(sql, values).fetchall()

    def row(self, sql: str, values: Values = ()) -> sqlite3.Row | None:
        return next(iter(self.rows(sql, values)), None)

    def all(self, kind: Callable[..., V], sql: str, values: Values = ()) -> list[V]:
        return [_value(kind, row) for row in self.rows(sql, values)]

    def one(self, kind: Callable[..., V], sql: str, values: Values = ()) -> V | None:
        return next(iter(self.all(kind, sql, values)), None)

    def value(self, sql: str, values: Values = ()) -> Any:
        row = self.row(sql, values)
        return row[0] if row else None

    def await_others(self, is_done: Callable[[], Any], seconds: float) -> None:
        """Wait until ``is_done``, at most so long, where threads of this process do what is to be done."""
        end = time.monotonic() + seconds
        while self.has_tracker and time.monotonic() < end and not is_done():
            time.sleep(0.05)

    def write(self, sql: str, values: Values = ()) -> int:
        """How many rows one statement has changed, in a transaction of its own."""
        with self.transaction() as db:
            return db.execute(sql, values).rowcount

    def require_quota(self, name: str, used: int) -> None:
        """Raise Invalid, in the transaction that adds one more, where an account has all that it may have."""
        if used >= (limit := self.quota_of(name)):
            raise Invalid(f"An account may have at most {pluralize(limit, name[:-1])}; --quota {name}=N "
                          "raises that.")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A write, whole or not at all, and on the disk when the block has ended. Raises StoreUnavailable.
        One at a time in a process, because SQLite's own waiting is unfair."""
        with self._translating_faults("written"):
            connection = self.connection
            if not self._writing.acquire(timeout=BUSY_TIMEOUT):
                raise StoreUnavailable("the store cannot be written: other writers take too long")
            try:
                with connection as db:      # which commits, or else rolls back
                    db.execute("BEGIN IMMEDIATE")
                    yield db
                    self._check_place()
            finally:
                self._writing.release()

    def _check_place(self) -> None:
        """Raises StoreUnavailable where another file, or none, is in its place: what is written is lost."""
        if not os.path.exists(self.path) or not os.path.samestat(os.stat(self.path), self._file):
            raise StoreUnavailable("the store cannot be written: its file was moved, deleted or replaced; "
                                   "restart the service")

    def revision(self) -> int:
        """A number that rises when the store has changed. Whoever keeps an answer asks before reading the
        rows that it is made of."""
        self._follow_fork()
        with self._watching:
            try:
                if self._watcher is None:
                    self._watcher, self._watched_since = self._connect(), time.monotonic_ns()
                return self._watched_since + self._watcher.execute("PRAGMA data_version").fetchone()[0]
            except sqlite3.Error:
                self._watcher = None
                return time.monotonic_ns()

    def empty_log(self) -> None:
        """Move the write-ahead log into the file, where ``secure_delete`` has overwritten what was deleted.
        Readers may prevent that; then a later checkpoint does it."""
        with contextlib.suppress(StoreUnavailable):
            self.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def backup(self, path: str) -> None:
        """Write a consistent copy while others write. Raises OSError and sqlite3.Error."""
        _copy_whole(self.connection, path)

    def problem(self) -> str:
        """What is wrong with the file or its disk, or was found wrong within 10 seconds; "" if nothing is."""
        try:
            self.rows("SELECT 1 FROM sqlite_schema LIMIT 1")
            self._check_place()
            if shutil.disk_usage(os.path.dirname(self.path)).free < MIB:
                return "the disk is full"
        except (StoreUnavailable, OSError) as error:
            return str(error)
        return self._fault if self._fault and time.monotonic() - self._fault_at < 10 else ""

    def size(self) -> int:
        return sum(os.path.getsize(path) for path in (self.path, f"{self.path}-wal") if os.path.exists(path))

def is_in_use(path: str) -> bool:
    """Whether another process has the store open, or it is not ours to open: each connection of SQLite locks
    one of these bytes: https://www.sqlite.org/src/file/src/os.h  Locks of this process' own end here."""
    try:
        with open(path, "rb+") as store:
            fcntl.lockf(store, fcntl.LOCK_EX | fcntl.LOCK_NB, 512, 0x40000000)
    except OSError as error:
        return not isinstance(error, FileNotFoundError)
    return False

def restore(copy: str, path: str) -> None:
    """Replace the store at ``path``, which this process must not have open, by a backup. Raises StoreError,
    and leaves it, when a process uses it, or the backup is damaged, another program's, or of a newer one."""
    try:
        if os.path.exists(copy) and not os.path.isfile(copy):       # a pipe would never end
            raise StoreError(f"{copy} is no file; name a backup")
        with contextlib.closing(sqlite3.connect(
                f"file:{quote(os.path.abspath(copy))}?mode=ro", uri=True, isolation_level=None)) as source:
            if not (version := _check_schema(source, copy, MIGRATIONS)):
                raise StoreError(f"{copy} is empty; name a backup")
            ours = "".join((*MIGRATIONS.values(), VIEWS))
            kinds = "trigger", "" if version in MIGRATIONS else "view"      # which an upgrade creates again
            for name, sql in source.execute("SELECT name, sql FROM sqlite_schema WHERE type IN (?,?)", kinds):
                if sql not in ours:
                    raise StoreError(f"{copy} has a trigger or view that is not releasetrack's: {name}")
            found = source.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok" or source.execute("PRAGMA foreign_key_check").fetchone():
                raise sqlite3.DatabaseError("the backup is damaged")
            if is_in_use(path):
                raise StoreError(f"{path} is in use, or not yours; stop what uses it first")
            _copy_whole(source, path)
            for companion in (f"{path}-wal", f"{path}-shm", f"{path}-journal"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(companion)
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StoreError(f"{copy} cannot be restored: {reason}") from error

def page_count(count: int, size: int) -> int:
    return max(1, -(-count // size))

class _Part:
    """A part of the store. Its methods return values, never rows; each is one statement or transaction."""
    def __init__(self, store: Store) -> None:
        self._store, self._db = store, store.database

class Config(_Part):
    """What the operator has set; and as "serve" what the last ``serve`` was started with. Unchecked."""
    def all(self) -> dict[str, Any]:
        """What is stored, by name: the texts of a setting; those of "serve" by name."""
        return {row["name"]: json.loads(row["value"]) for row in self._db.rows(
            "SELECT name, value FROM setting ORDER BY name")}

    def change(self, name: str, change: Callable[[Any], Any]) -> bool:
        """Replace what is stored under a name by what ``change`` makes of it ([]: nothing), in one
        transaction; whether it differs. Nothing of the old stays in the file."""
        with self._db.transaction() as db:
            before = self._db.value("SELECT value FROM setting WHERE name = ?", (name,))
            values = change(json.loads(before or "[]"))
            after = compact_json(values) if values else None
            db.execute("DELETE FROM setting WHERE name = ?", (name,))
            if after:
                db.execute("INSERT INTO setting (name, value) VALUES (?, ?)", (name, after))
        self._db.empty_log()
        return after != before

    def setup_token(self) -> str:
        """What the link that makes the first account carries: the same in all processes, until it is used."""
        if value := self._db.value("SELECT value FROM setting WHERE name = 'setup_token'"):
            return str(json.loads(value)[0])
        self.change("setup_token", lambda before: before or [secrets.token_urlsafe(32)])
        return self.setup_token()

@contextlib.contextmanager
def _unique(what: str, kind: type[Invalid] = Invalid) -> Iterator[None]:
    """Raises Invalid where a row would be the second one of its name."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise kind(f"There is {what} already.") from None

class Accounts(_Part):
    def add(self, type: str, email: str, name: str, password: str, is_admin: bool, zone: str = "UTC",
            as_first: bool = False) -> Account:
        """The new account, with its address as a destination; the first of all is an administrator. To one
        without a password, which a program made, nobody can sign in: ``as_first`` is that one, if there is
        one. Raises Invalid when the address has an account, or when it is to be the first and is not."""
        with self._db.transaction() as db, _unique(f"an account {email}"):
            is_first, now = not (self.count() if password else self.all()), self._db.clock()
            if as_first and not is_first:
                raise Invalid("The first account exists already.")
            if password:
                db.execute("DELETE FROM setting WHERE name = 'setup_token'")
            if as_first and (made := self._db.one(Account, """
                    SELECT * FROM account_view WHERE password = '' ORDER BY number""")):
                account = dataclasses.replace(made, email=email, name=name, password=password, is_admin=True)
                db.execute(_UPDATE_ACCOUNT, vars(account))
                return account
            account = Account(make_id(), type, email, name, is_admin or is_first, "daily", zone, password,
                              make_id(), make_id())
            db.execute("""
                INSERT INTO account (id, type, email, name, is_admin, email_notification, time_zone, password,
                                     feed_secret, badge_secret, created_at)
                VALUES (:id, :type, :email, :name, :is_admin, :email_notification, :time_zone, :password,
                        :feed_secret, :badge_secret, :now)""", vars(account) | {"now": now})
            db.execute("""
                INSERT INTO destination (id, account_id, kind, name, settings, secret, created_at)
                VALUES (?, ?, 'email', 'account', '{"to":""}', '', ?)""", (make_id(), account.id, now))
        return account

    def all(self) -> list[Account]:
        return self._db.all(Account, "SELECT * FROM account_view ORDER BY number")

    def count(self) -> int:
        """How many accounts somebody can sign in to."""
        return int(self._db.value("SELECT count(*) FROM account WHERE password != ''"))

    def by_email(self, email: str) -> Account | None:
        return self._db.one(Account, "SELECT * FROM account_view WHERE email = ?", (email,))

    def get(self, account_id: str) -> Account | None:
        return self._db.one(Account, "SELECT * FROM account_view WHERE id = ?", (account_id,))

    def of_ids(self, ids: Sequence[str]) -> list[Account]:
        """The accounts of these ids that exist."""
        return self._db.all(Account, """
            SELECT * FROM account_view WHERE id IN (SELECT value FROM json_each(?))""", (compact_json(ids),))

    def change(self, account_id: str, values: Mapping[str, Any]) -> None:
        """Set fields of an account by name; a new password ends its sessions. Raises Invalid when another
        account has the e-mail address, or when no administrator would be left."""
        with self._db.transaction() as db, _unique(f"an account {values.get('email')}"):
            if account := self.get(account_id):
                db.execute(_UPDATE_ACCOUNT, vars(dataclasses.replace(account, **values)))
                if "is_admin" in values:
                    self._require_administrator(account)
            if "password" in values:
                db.execute("DELETE FROM session WHERE account_id = ?", (account_id,))

    def _require_administrator(self, account: Account) -> None:
        if self.count() and not self._db.value("SELECT 1 FROM account WHERE is_admin LIMIT 1"):
            raise Invalid(f"There would be no administrator without {account.email}; add another first")

    def by_feed(self, secret: str) -> tuple[str, Tag | None] | None:
        """``(account id, the tag if the feed is a tag's)`` of a feed's secret."""
        if account_id := self._db.value("SELECT id FROM account WHERE feed_secret = ?", (secret,)):
            return account_id, None
        row = self._db.row("SELECT account_id, id, name FROM tag WHERE feed_secret = ?", (secret,))
        return (row["account_id"], Tag(row["id"], row["name"])) if row else None

    def by_badge(self, secret: str) -> str | None:
        return self._db.value("SELECT id FROM account WHERE badge_secret = ?", (secret,))

    def sign_out(self, account_id: str, and_keys: bool) -> None:
        """End all sessions of an account, and revoke its API keys if wanted."""
        with self._db.transaction() as db:
            db.execute("DELETE FROM session WHERE account_id = ?", (account_id,))
            if and_keys:
                db.execute("DELETE FROM api_key WHERE account_id = ?", (account_id,))
        self._db.empty_log()

    def turn_on_second_factor(self, account_id: str, secret: str, step: int, codes: Sequence[str]) -> None:
        """Ask for codes at log-ins. ``step``: of the code typed; ``codes``: hashes. Raises Invalid if on."""
        with _unique("a second factor"):
            self._db.write("""
                INSERT INTO second_factor (account_id, totp_secret, last_step, recovery_codes)
                VALUES (?, ?, ?, ?)""", (account_id, secret, step, compact_json(codes)))

    def turn_off_second_factor(self, account_id: str) -> bool:
        """Whether it was on. Nothing of it stays in the file."""
        removed = self._db.write("DELETE FROM second_factor WHERE account_id = ?", (account_id,))
        self._db.empty_log()
        return removed > 0

    def use_code(self, account_id: str, step: int, recovery_code: str) -> bool:
        """Whether a step's code, or else a recovery code (its hash), could be used: each can be once."""
        return self._db.write("""
            UPDATE second_factor SET last_step = :step WHERE account_id = :account AND last_step < :step
            """, {"account": account_id, "step": step}) > 0 or self._db.write("""
            UPDATE second_factor
               SET recovery_codes = (SELECT json_group_array(value) FROM json_each(recovery_codes)
                                      WHERE value <> :code)
             WHERE account_id = :account AND :code IN (SELECT value FROM json_each(recovery_codes))
            """, {"account": account_id, "code": recovery_code}) > 0

    def remove(self, account_id: str) -> None:
        """Remove an account and all that it owns. Raises Invalid for the only administrator of several."""
        if account := self.get(account_id):
            with self._db.transaction() as db:
                db.execute("DELETE FROM account WHERE id = ?", (account_id,))
                self._require_administrator(account)
        self._db.empty_log()

class Sessions(_Part):
    def add(self, account_id: str, token: str, address: str, agent: str) -> None:
        now = self._db.clock()
        with self._db.transaction() as db:
            db.execute("""
                INSERT INTO session (id, account_id, address, agent, created_at, seen_at, confirmed_at)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """, (secret_hash(token).hex(), account_id, address, agent[:300], now, now, now))
            db.execute("""
                DELETE FROM session WHERE id IN (SELECT id FROM session WHERE account_id = ?
                                                  ORDER BY seen_at DESC, rowid DESC LIMIT -1 OFFSET ?)
                """, (account_id, SESSIONS_PER_ACCOUNT))

    def find(self, token: str) -> Session | None:
        """The session of a token, unless it has expired."""
        session = next(iter(self.of_account("", secret_hash(token).hex())), None)
        now = self._db.clock()
        if session and now - session.seen_at > HOUR:      # so that reading rarely costs a write
            with contextlib.suppress(StoreUnavailable):
                self._db.write("UPDATE session SET seen_at = ? WHERE id = ?", (now, session.id))
        return session

    def of_account(self, account_id: str, session_id: str = "") -> list[Session]:
        """The sessions of an account, or the one with an id, that have not expired; last seen first."""
        now = self._db.clock()
        return self._db.all(Session, """
            SELECT id, account_id, address, agent, created_at, seen_at, confirmed_at FROM session
             WHERE (id = ? OR account_id = ?) AND seen_at >= ? AND created_at >= ? ORDER BY seen_at DESC
            """, (session_id, account_id, now - SESSION_IDLE, now - SESSION_MAX_AGE))

    def confirm(self, session_id: str) -> None:
        self._db.write("UPDATE session SET confirmed_at = ? WHERE id = ?", (self._db.clock(), session_id))

    def end(self, account_id: str, session_id: str) -> None:
        self._db.write("DELETE FROM session WHERE account_id = ? AND id = ?", (account_id, session_id))

class Keys(_Part):
    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._used_at = Recent[str, float](10_000)      # when the last use of one was written

    def add(self, account_id: str, name: str, networks: Sequence[str]) -> Key:
        """A new key. Raises Invalid when the account has one of that name, or too many."""
        secret = "rt_" + secrets.token_hex(32)      # behind a prefix that secret scanners can look for
        key = Key(make_id(), account_id, name, tuple(networks), secret, self._db.clock())
        with self._db.transaction() as db, _unique(f"a key {name}"):
            self._db.require_quota("keys", len(self.of_account(account_id)))
            db.execute("""
                INSERT INTO api_key (id, account_id, name, secret, secret_hash, networks, created_at)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """, (key.id, account_id, name, secret, secret_hash(secret), compact_json(networks),
                      key.created_at))
        return key

    def of_account(self, account_id: str) -> list[Key]:
        return self._db.all(Key, """
            SELECT id, account_id, name, networks, secret, created_at, used_at
              FROM api_key WHERE account_id = ? ORDER BY rowid""", (account_id,))

    def by_secret(self, secret: str) -> tuple[str, str, tuple[str, ...]] | None:
        """``(key id, account id, networks)`` of a key, for each request of the API."""
        row = self._db.row("SELECT id, account_id, networks FROM api_key WHERE secret_hash = ?",
                           (secret_hash(secret),))
        return (row["id"], row["account_id"], tuple(json.loads(row["networks"]))) if row else None

    def record_use(self, key_id: str) -> None:
        """Remember that a key is used, to the hour, so that reading rarely costs a write."""
        now = self._db.clock()
        if now - self._used_at.get(key_id, -HOUR) >= HOUR:
            self._used_at[key_id] = now - HOUR + MINUTE         # where it cannot be written now
            with contextlib.suppress(StoreUnavailable):
                self._db.write("UPDATE api_key SET used_at = ? WHERE id = ?", (now, key_id))
                self._used_at[key_id] = now

    def remove(self, account_id: str, name: str) -> bool:
        """Whether there was such a key. Nothing of it stays in the file."""
        removed = self._db.write("DELETE FROM api_key WHERE account_id = ? AND name = ?", (account_id, name))
        self._db.empty_log()
        return removed > 0

class Tags(_Part):
    def of_account(self, *account_ids: str) -> list[Tag]:
        return self._db.all(Tag, """
            SELECT id, name, feed_secret FROM tag WHERE account_id IN (SELECT value FROM json_each(?))
             ORDER BY name""", (compact_json(account_ids),))

    def get(self, account_id: str, tag_id: str) -> Tag | None:
        return next((tag for tag in self.of_account(account_id) if tag.id == tag_id), None)

    def add(self, account_id: str, name: str) -> Tag:
        """The new tag. Raises Invalid when the account has one of that name, or too many."""
        tag = Tag(make_id(), name, make_id())
        with self._db.transaction() as db, _unique(f"a tag {name}"):
            self._db.require_quota("tags", len(self.of_account(account_id)))
            db.execute("INSERT INTO tag (id, account_id, name, feed_secret) VALUES (?, ?, ?, ?)",
                       (tag.id, account_id, name, tag.feed_secret))
        return tag

    def project_counts(self, account_id: str) -> dict[str, int]:
        return {row["tag_id"]: row["count"] for row in self._db.rows("""
            SELECT tag_id, count(*) AS count FROM project_tag JOIN tag ON tag.id = tag_id
             WHERE account_id = ? GROUP BY tag_id""", (account_id,))}

    def rename(self, account_id: str, tag_id: str, name: str) -> Tag | None:
        """The tag with its new name; None when the account has no such tag. Raises Invalid as ``add``."""
        with _unique(f"a tag {name}"):
            self._db.write("UPDATE tag SET name = ? WHERE id = ? AND account_id = ?",
                           (name, tag_id, account_id))
        return self.get(account_id, tag_id)

    def reset_feed(self, account_id: str, tag_id: str) -> None:
        """Give a tag's feed a new address; the old one ends."""
        self._db.write("UPDATE tag SET feed_secret = ? WHERE id = ? AND account_id = ?",
                       (make_id(), tag_id, account_id))

    def remove(self, account_id: str, tag_id: str) -> bool:
        """Whether there was such a tag; projects and destinations lose it."""
        with self._db.transaction() as db:
            # A destination for projects with this tag alone must not be for every project from now on.
            db.execute("""
                UPDATE destination SET is_for_every_project = 0 WHERE account_id = :account AND id IN (
                       SELECT destination_id FROM destination_tag WHERE NOT is_without
                        GROUP BY destination_id HAVING min(tag_id) = :tag AND max(tag_id) = :tag)
                """, {"tag": tag_id, "account": account_id})
            return db.execute("DELETE FROM tag WHERE id = ? AND account_id = ?",
                              (tag_id, account_id)).rowcount > 0

class Destinations(_Part):
    def add(self, new: Destination) -> Destination:
        """The new destination. Raises Invalid when there is one of that kind and name, or too many."""
        with self._db.transaction() as db:
            self._db.require_quota("destinations", len(self.of_account(new.account_id)))
            db.execute("""
                INSERT INTO destination (id, account_id, kind, name, settings, secret, created_at)
                VALUES (:id, :account_id, :kind, :id, '', :secret, :now)
                """, vars(new) | {"now": self._db.clock()})
            self._write(db, new)
        return new

    def update(self, destination: Destination) -> None:
        """Write all of a destination but its secrets. Raises Invalid as ``add``."""
        with self._db.transaction() as db:
            self._write(db, destination)

    def _write(self, db: sqlite3.Connection, destination: Destination) -> None:
        with _unique(f"a destination {destination.kind} {destination.name}"):
            db.execute(_UPDATE_DESTINATION, vars(destination) | {
                "settings": compact_json(destination.settings), "now": self._db.clock()})
        db.execute("DELETE FROM destination_tag WHERE destination_id = ?", (destination.id,))
        db.executemany("""
            INSERT INTO destination_tag (destination_id, tag_id, is_without)
            SELECT destination.id, tag.id, ? FROM destination JOIN tag USING (account_id)
             WHERE destination.id = ? AND tag.id = ?
            """, [(0, destination.id, tag) for tag in destination.tags] + [
                (1, destination.id, tag) for tag in destination.without_tags])

    def reset_secret(self, destination_id: str) -> str:
        """A webhook's new secret; the previous one signs too for ``SECRET_OVERLAP`` seconds."""
        secret = make_signing_secret()
        self._db.write("""
            UPDATE destination SET previous_secret = secret, previous_until = ?, secret = ? WHERE id = ?
            """, (self._db.clock() + SECRET_OVERLAP, secret, destination_id))
        return secret

    def of_account(self, *account_ids: str, kind: str | None = None) -> list[Destination]:
        return self._db.all(Destination, """
            SELECT * FROM destination_view WHERE coalesce(?, kind) = kind
               AND account_id IN (SELECT value FROM json_each(?))
             ORDER BY number""", (kind, compact_json(account_ids)))

    def get(self, destination_id: str) -> Destination | None:
        return self._db.one(Destination, "SELECT * FROM destination_view WHERE id = ?", (destination_id,))

    def remove(self, destination_id: str) -> None:
        """Remove a destination with its deliveries; nothing of its secrets stays in the file."""
        self._db.write("DELETE FROM destination WHERE id = ?", (destination_id,))
        self._db.empty_log()

    def failing(self, with_alerted: bool = True) -> list[Destination]:
        """Those of all accounts whose last attempt failed, longest first; or those not alerted of."""
        return self._db.all(Destination, """
            SELECT * FROM destination_view WHERE failing_since IS NOT NULL AND (? OR NOT alert_sent)
             ORDER BY failing_since""", (with_alerted,))

    def with_report(self) -> list[Destination]:
        return self._db.all(Destination, "SELECT * FROM destination_view WHERE report != 'none'")

class Leases(_Part):
    """Who works at what: a source or a destination has one claimant, for ``LEASE`` seconds unless it renews
    that. What takes ``db`` is part of that transaction."""
    def take(self, db: sqlite3.Connection, ids: Sequence[Any], claimant: str, now: float) -> list[Any]:
        """Those of the ids that nobody held, and that the claimant holds now."""
        return [row["id"] for row in db.execute("""
            INSERT INTO lease (id, claimant, until)
            SELECT value, :claimant, :until FROM json_each(:ids) WHERE true
                ON CONFLICT DO UPDATE SET claimant = excluded.claimant, until = excluded.until
                 WHERE lease.until < :now
            RETURNING id""", {
                "ids": compact_json(ids), "claimant": claimant, "until": now + LEASE, "now": now}).fetchall()]

    def renew(self, ids: Collection[Any], claimant: str, now: float) -> None:
        """Hold on to what the claimant still holds of these; its other leases end."""
        if ids:
            self._db.write("""
                UPDATE lease SET until = ? WHERE claimant = ? AND id IN (SELECT value FROM json_each(?))
                """, (now + LEASE, claimant, compact_json(list(ids))))

    def drop(self, db: sqlite3.Connection, id_: Any, claimant: str) -> bool:
        """Whether the claimant held it. What has passed to another stays with that."""
        return db.execute("DELETE FROM lease WHERE id = ? AND claimant = ?", (id_, claimant)).rowcount > 0

    def drop_all(self, claimant: str, since: float = math.inf) -> None:
        """End the claimant's leases; or those that it has not renewed since then."""
        if self._db.row("SELECT 1 FROM lease WHERE claimant = ? AND until < ?", (claimant, since)):
            self._db.write("DELETE FROM lease WHERE claimant = ? AND until < ?", (claimant, since))

class Outbox(_Part):
    """Deliveries to destinations, and their attempts. What takes ``db`` is part of that transaction."""
    def insert(self, db: sqlite3.Connection, event: Event, now: float) -> None:
        if not event.recipients:
            return
        inserted = db.execute("""
            INSERT INTO event (account_id, project_id, release_id, kind, body, url, created_at)
            SELECT account_id, project.id, release.id, :kind, :body, :url, :now
              FROM project LEFT JOIN release ON release.source_id = project.source_id AND version = :version
             WHERE project.id = :project
             UNION ALL
            SELECT id, NULL, NULL, :kind, :body, :url, :now
              FROM account WHERE :project IS NULL AND id = json_extract(:body, '$.account.id')
            """, {"kind": event.kind, "body": compact_json(event.body), "url": event.url, "now": now,
                  "version": event.body.get("version"), "project": event.project_id})
        if inserted.rowcount:       # the project may have been removed since
            db.executemany("""
                INSERT INTO delivery (id, account_id, event_id, destination_id, next_attempt_at, queued_at,
                                      created_at, is_digested, is_held)
                SELECT :id, account_id, :event, id, :due_at, :due_at, :now, :is_digested, :is_held
                  FROM destination WHERE id = :destination_id
                """, [{**vars(recipient), "id": make_id(), "event": inserted.lastrowid, "now": now}
                      for recipient in event.recipients])

    # What is written with an event that is inserted once, whichever process does so first.
    _ONCE = {
        "report": "UPDATE destination SET reported_at = :now WHERE id = :id AND reported_at = :reported_at",
        "reminder": "UPDATE project SET snoozed_until = NULL WHERE id = :id AND snoozed_until <= :now",
        "alert": """UPDATE destination SET alert_sent = 1
                     WHERE id = :id AND failing_since IS NOT NULL AND NOT alert_sent"""}

    def send(self, event: Event | None, once: str = "", about: Destination | Project | None = None) -> None:
        """Insert an event in a transaction of its own, and have it sent; as a report, a reminder or an alert
        only once about a destination or a project."""
        now = self._db.clock()
        with self._db.transaction() as db:
            is_first = not about or db.execute(self._ONCE[once], vars(about) | {"now": now}).rowcount
            if is_first and event:
                self.insert(db, event, now)
        self._db.send_wakeup.set()

    def due_destinations(self, now: float, kinds: Iterable[str]) -> list[Job]:
        """The destinations of these kinds with a delivery due at ``now`` that nobody serves. What was held is
        judged now: skipped where its release is gone, or is that of an image that the account tracks. What is
        due for digests of a destination is bound into one, which stays as it is."""
        with self._db.transaction() as db:
            db.execute("""
                UPDATE delivery SET is_held = 0, state = iif(gone = '', 'pending', 'skipped'),
                       settled_at = iif(gone = '', NULL, :now), reason = gone
                  FROM (SELECT delivery.id AS judged, CASE
                          WHEN gone_at IS NOT NULL OR is_missing THEN 'the release was removed'
                          WHEN EXISTS (
                               SELECT 1 FROM source AS image JOIN project ON project.source_id = image.id
                                 JOIN release AS tag ON tag.source_id = image.id
                                 JOIN note AS own ON own.release_id = tag.id
                                 LEFT JOIN note AS its ON its.release_id = release.id
                                WHERE notes_source_id = source.id AND project.account_id = event.account_id
                                  AND iif(own.fingerprint = -1, own.title = release.version,
                                          own.fingerprint = its.fingerprint)
                               ) THEN 'an image of it was announced' ELSE '' END AS gone
                          FROM delivery JOIN event ON event.id = event_id
                          LEFT JOIN release ON release.id = release_id
                          LEFT JOIN source  ON source.id = source_id
                         WHERE state = 'pending' AND is_held AND next_attempt_at <= :now)
                 WHERE id = judged""", {"now": now})
            db.execute("""
                UPDATE delivery INDEXED BY delivery_undigested SET digest_id = :id || destination_id
                 WHERE state = 'pending' AND is_digested AND digest_id IS NULL AND next_attempt_at <= :now
                """, {"id": make_id(), "now": now})
        return self._db.all(Job, """
            SELECT id, account_id, id AS host, failing_since IS NOT NULL AS is_failing FROM destination
             WHERE EXISTS (SELECT 1 FROM delivery WHERE destination_id = destination.id
                              AND state = 'pending' AND next_attempt_at <= :now AND NOT is_held)
               AND id NOT IN (SELECT id FROM lease WHERE until >= :now)
               AND kind IN (SELECT value FROM json_each(:kinds))
            """, {"now": now, "kinds": compact_json([*kinds])})

    def claim(self, destination_id: str, limit: int, claimant: str, now: float) -> list[Delivery]:
        """Up to so many due deliveries of a destination, which the claimant serves now, oldest first; more
        only where a digest is due, which is read whole. None while another serves it."""
        with self._db.transaction() as db:
            if not self._store.leases.take(db, [destination_id], claimant, now):
                return []
        destination = self._store.destinations.get(destination_id)
        account = self._store.accounts.get(destination.account_id) if destination else None
        # In a digest long notes are cut off.
        return [_value(Delivery, row, destination=destination, account=account) for row in self._db.rows("""
            WITH due AS MATERIALIZED (
                SELECT id, digest_id FROM delivery
                 WHERE destination_id = :destination AND state = 'pending' AND next_attempt_at <= :now
                   AND NOT is_held AND (NOT is_digested OR digest_id IS NOT NULL)
                 ORDER BY next_attempt_at, rowid LIMIT :limit)
            SELECT delivery.id, iif(digest_id IS NULL, body, json_replace(
                       body, '$.note.message', substr(json_extract(body, '$.note.message'), 1, 16000)))
                       AS body, url, kind, attempts, queued_at, digest_id, event.project_id
              FROM delivery JOIN event ON event.id = event_id
             WHERE state = 'pending' AND (delivery.id IN (SELECT id FROM due) OR digest_id IN (
                       SELECT digest_id FROM due WHERE digest_id IS NOT NULL))
             ORDER BY min(next_attempt_at) OVER (PARTITION BY coalesce(digest_id, delivery.id)),
                      delivery.rowid""", {"destination": destination_id, "now": now, "limit": limit})]

    def record_attempts(self, destination_id: str, claimant: str, attempts: Sequence[Outcome]) -> None:
        """Record attempts of a destination's deliveries, whose claimant serves it no longer."""
        values = [vars(attempt) for attempt in attempts]
        with self._db.transaction() as db:
            db.executemany("UPDATE attempt SET sent = '' WHERE delivery_id = :delivery_id AND sent != ''",
                           values)
            db.executemany("""
                INSERT INTO attempt (delivery_id, attempted_at, status, error, duration, address, answer,
                                     sent)
                SELECT id, :attempted_at, :status, :error, :duration, :address, :answer, :sent
                  FROM delivery WHERE id = :delivery_id""", values)
            db.executemany("""
                UPDATE delivery SET state = :state, next_attempt_at = :next_attempt_at,
                       attempts = attempts + 1, queued_at = iif(attempts = 0, :attempted_at, queued_at),
                       settled_at = iif(:state = 'pending', NULL, :attempted_at)
                 WHERE id = :delivery_id AND state = 'pending'""", values)
            db.executemany("""
                UPDATE destination SET failing_since = iif(:error IS NULL, NULL, min(:attempted_at, coalesce(
                           failing_since, :attempted_at))),        -- a clock may have been set back
                       failed_at = iif(:error IS NULL, NULL, :attempted_at), error = :error,
                       alert_sent = alert_sent AND :error IS NOT NULL
                 WHERE id = (SELECT destination_id FROM delivery WHERE id = :delivery_id)
                   AND (:error IS NOT NULL OR failing_since IS NOT NULL)""", values)
            self._store.leases.drop(db, destination_id, claimant)

    def seconds_until_due(self, now: float, at_most: float) -> float:
        """Until the next delivery becomes due that is not due yet."""
        first_at = self._db.value("""
            SELECT min(next_attempt_at) FROM delivery WHERE state = 'pending' AND next_attempt_at > ?
            """, (now,))
        return at_most if first_at is None else min(first_at - now, at_most)

    def last_sent(self, delivery_id: str) -> str:
        """The request of a delivery's last attempt, of a digest the whole message; "" before the first."""
        return self._db.value("""
            SELECT sent FROM attempt JOIN delivery ON delivery.id = delivery_id
             WHERE sent != '' AND (delivery.id = :id OR digest_id = (
                       SELECT digest_id FROM delivery WHERE id = :id))
             ORDER BY attempt.id DESC LIMIT 1""", {"id": delivery_id}) or ""

    def attempts(self, delivery_id: str) -> list[Attempt]:
        return self._db.all(Attempt, """
            SELECT attempted_at, status, error, duration, address, answer FROM attempt
             WHERE delivery_id = ? ORDER BY id DESC LIMIT 50""", (delivery_id,))[::-1]

    def resend(self, account_id: str, *, delivery_id: str | None = None, destination_id: str | None = None,
               since: float = 0.0, until: float = math.inf) -> int:
        """Queue again one delivery or all failed ones of a destination, with what was sent together with
        them; how many. What was never due stays as it is."""
        count = self._db.write("""
            UPDATE delivery SET state = 'pending', attempts = 0, settled_at = NULL, is_held = 0,
                   next_attempt_at = :now + place * :every, queued_at = :now + place * :every
              FROM (WITH wanted AS (
                        SELECT id, digest_id FROM delivery_view
                         WHERE account_id = :account AND (:id IS NULL OR id = :id)
                           AND (:destination IS NULL OR destination_id = :destination)
                           AND (state IN ('failed', 'retrying') OR :id IS NOT NULL AND state != 'pending')
                           AND created_at BETWEEN :since AND :until)
                    SELECT id AS placed,
                           row_number() OVER (PARTITION BY destination_id ORDER BY rowid) - 1 AS place
                      FROM delivery
                     WHERE id IN (SELECT id FROM wanted)
                        OR digest_id IN (SELECT digest_id FROM wanted WHERE digest_id IS NOT NULL))
             WHERE id = placed
            """, {"account": account_id, "id": delivery_id, "destination": destination_id, "since": since,
                  "until": until, "now": self._db.clock(), "every": RESEND_SPACING})
        self._db.send_wakeup.set()
        return count

    def history(self, account_id: str, *, delivery_id: str | None = None, destination_id: str | None = None,
                project_id: str | None = None, state: str | None = None, since: float = 0.0,
                until: float = math.inf, limit: int = -1, offset: int = 0) -> list[DeliverySummary]:
        """An account's deliveries that were created between two instants, newest first; or one of them."""
        return self._db.all(DeliverySummary, """
            SELECT delivery.id, event_id, destination.kind, destination.name AS destination, destination_id,
                   event, coalesce(json_extract(body, '$.provider'), '') AS provider,
                   coalesce(json_extract(body, '$.project'), 'destination ' || json_extract(
                       body, '$.destination'), json_extract(body, '$.heading')) AS project, project_id,
                   coalesce(json_extract(body, '$.version'), '') AS version,
                   state, (SELECT count(*) FROM attempt WHERE delivery_id = delivery.id) AS attempts,
                   delivery.created_at, next_attempt_at, settled_at, digest_id,
                   iif(state = 'skipped', reason, (
                       SELECT error FROM attempt WHERE delivery_id = delivery.id
                        ORDER BY attempt.id DESC LIMIT 1)) AS error
              FROM delivery_view AS delivery JOIN destination ON destination.id = destination_id
             WHERE delivery.account_id = :account AND (:id IS NULL OR delivery.id = :id)
               AND (:destination IS NULL OR destination_id = :destination)
               AND (:project IS NULL OR project_id = :project) AND (:state IS NULL OR state = :state)
               AND delivery.created_at BETWEEN :since AND :until
             ORDER BY place DESC LIMIT :limit OFFSET :offset
            """, {"account": account_id, "id": delivery_id, "destination": destination_id,
                  "project": project_id, "state": state, "since": since, "until": until, "limit": limit,
                  "offset": offset})

def _state_of(project: Project) -> dict[str, Any]:
    """What is installed of a project, and how urgent an update is, as they are stored."""
    installed = [vars(one) | {"advisories": list(map(vars, one.advisories))} for one in project.installed]
    return {"id": project.id, "installed": compact_json(installed),
            "places": compact_json(sorted({each.place for each in project.installed})),
            "update_state": project.update_state, "urgency": project.urgency}

def _write_verdicts(db: sqlite3.Connection, verdicts: RuleResult, revision: int) -> None:
    """Keep what a project's rules exclude, and how its installations compare, if it is of that revision."""
    values = _state_of(verdicts.project) | {
        "revision": revision, "ruled_out": compact_json(list(verdicts.ruled_out))}
    if db.execute("""
            UPDATE project SET installed = :installed, update_state = :update_state, urgency = :urgency,
                   judged_revision = :revision
             WHERE id = :id AND revision = :revision""", values).rowcount:
        db.execute("""
            DELETE FROM excluded_release WHERE project_id = :id AND release_id NOT IN (
                SELECT release.id FROM project JOIN release USING (source_id)
                 WHERE project.id = :id AND version IN (SELECT value FROM json_each(:ruled_out)))""", values)
        db.execute("""
            INSERT OR IGNORE INTO excluded_release (project_id, release_id)
            SELECT project.id, release.id FROM project JOIN release USING (source_id)
             WHERE project.id = :id AND version IN (SELECT value FROM json_each(:ruled_out))""", values)

def _raise_revision(db: sqlite3.Connection, source_id: int) -> None:
    """Have what changed in a source judged by the rules of its projects."""
    db.execute("""
        UPDATE project SET revision = revision + 1
         WHERE source_id = ? AND (exclude_version_regexp != '[]' OR installed != '[]')""", (source_id,))

def _write_newest(db: sqlite3.Connection, source_id: int) -> None:
    """Keep the date of the newest release of the source's projects, after what they list has changed."""
    db.execute("""
        UPDATE project SET newest_date = coalesce((
            SELECT date FROM project_release_view
             WHERE project_id = project.id AND NOT (is_narrow AND is_ruled_out)
             ORDER BY date DESC LIMIT 1), '')
         WHERE source_id = ?""", (source_id,))

class Sources(_Part):
    """What is checked: projects at their providers, each once for all accounts."""
    def get(self, source_id: int) -> Source | None:
        return self._db.one(Source, "SELECT * FROM source_view WHERE id = ?", (source_id,))

    def id_of(self, provider: str, key: str) -> int:
        """The id of a source; 0 when nobody tracks it."""
        return self._db.value("SELECT id FROM source WHERE provider = ? AND key = ?", (provider, key)) or 0

    def all(self, account_id: str | None = None) -> list[Source]:
        return self._db.all(Source, """
            SELECT * FROM source_view WHERE :account IS NULL
                OR id IN (SELECT source_id FROM project WHERE account_id = :account)
             ORDER BY provider, key""", {"account": account_id})

    def await_check(self, source_id: int, since: float, seconds: float) -> Source | None:
        """The source once a check that began after ``since`` was recorded, or as it is when time is up."""
        self._db.await_others(lambda: not self._db.value(
            "SELECT 1 FROM source WHERE id = ? AND coalesce(checked_at, 0) < ?", (source_id, since)), seconds)
        return self.get(source_id)

    def hold_notes(self, image: Source, provider: str, name: str, key: str) -> Source:
        """The source of notes for an image, which goes with it; it is made where there is none."""
        held = self._db.one(Source, """
            SELECT * FROM source_view WHERE provider = :provider AND (
                   key = :key OR id = :held AND lower(former_name) = :key) ORDER BY key = :key
            """, {"provider": provider, "key": key, "held": image.notes_source_id})
        if held is None:
            self._db.write("""INSERT OR IGNORE INTO source (provider, key, name, next_check_at)
                              VALUES (?, ?, ?, 0)""", (provider, key, name))
        return held or self.hold_notes(image, provider, name, key)

    def note_missed_at(self, image_id: int) -> float:
        """When the newest tag of an image was found that has no note; 0 for never."""
        return self._db.value("""
            SELECT max(found_at) FROM release WHERE source_id = ? AND found_at IS NOT NULL AND NOT is_updated
               AND id NOT IN (SELECT release_id FROM note)""", (image_id,)) or 0.0

    def due(self, providers: Collection[str], now: float, limit: int) -> list[tuple[int, str, str, str]]:
        """``(id, account, provider, name)`` of sources that are due and not claimed, longest due first: of
        each account and provider up to so many, so that the cost does not follow how many are due."""
        return [(row["id"], row["owner_id"], row["provider"], row["name"]) for row in self._db.rows("""
            SELECT source.id, owner_id, provider, source.name
              FROM account CROSS JOIN json_each(:providers) AS wanted
             CROSS JOIN source ON source.id IN (
                   SELECT id FROM source
                    WHERE owner_id = account.id AND provider = wanted.value AND next_check_at <= :now
                      AND id NOT IN (SELECT id FROM lease)
                    ORDER BY next_check_at LIMIT :limit)
             ORDER BY next_check_at
            """, {"providers": compact_json(list(providers)), "now": now, "limit": limit})]

    def claim(self, ids: Sequence[int], claimant: str, now: float,
              due_at: float = sys.maxsize) -> list[Source]:
        """Those of these sources that are due at an instant and not claimed; the claimant has them now."""
        with self._db.transaction() as db:
            due = db.execute("""
                SELECT id FROM source WHERE id IN (SELECT value FROM json_each(?)) AND next_check_at <= ?
                """, (compact_json(ids), due_at)).fetchall()
            claimed = self._store.leases.take(db, [row["id"] for row in due], claimant, now)
        return self._db.all(Source, "SELECT * FROM source_view WHERE id IN (SELECT value FROM json_each(?))",
                            (compact_json(claimed),))

    def claim_abandoned(self, claimant: str, now: float) -> list[Source]:
        """Sources whose check did not end, as their process did; now claimed. The claimant's own could not be
        recorded, and are free after a minute."""
        self._store.leases.drop_all(claimant, now - MINUTE)
        abandoned = self._db.rows(
            "SELECT id FROM lease WHERE claimant != ? AND until < ?", (claimant, now - LEASE))
        return self.claim([row["id"] for row in abandoned], claimant, now)

    def bring_forward(self, now: float, interval: float, intervals: Mapping[str, float]) -> None:
        """Have no source wait longer than the interval, or its provider's own among ``intervals``; nor a
        failing one for more than a day: an interval may be shorter than it was, or a clock ahead of time."""
        self._db.write("""
            UPDATE source SET next_check_at = :now + wanted * (id % 100) / 100.0
              FROM (SELECT id AS wanted_by,
                           coalesce(json_extract(:intervals, '$."' || provider || '"'), :interval) AS wanted
                      FROM source WHERE next_check_at > :now + 1.11 * :interval)
             WHERE id = wanted_by
               AND next_check_at > :now + 1.11 * iif(error IS NULL, wanted, max(wanted, 86400))
            """, {"now": now, "interval": interval, "intervals": compact_json(intervals)})

    def record_check(self, source_id: int, claimant: str, found: CheckResult) -> CheckResult | None:
        """What was recorded of a check: releases, notes, events and their deliveries in one transaction.
        None, and nothing written, when the claim has passed to another or the source is gone. A project is
        missing that is not found a day or more after the first time."""
        now = self._db.clock()
        with self._db.transaction() as db:
            if not self._store.leases.drop(db, source_id, claimant) or not db.execute("""
                UPDATE source SET checked_at = :now, next_check_at = :next_check_at,
                       error = :error, quota_left = coalesce(:quota_left, quota_left),
                       succeeded_at = iif(:is_success, :now, succeeded_at),
                       etag_url = iif(:is_success, :etag_url, etag_url), etag = iif(:is_success, :etag, etag),
                       failures = iif(:is_success, 0, failures + :counts),
                       failing_since = iif(
                           :is_success, NULL, coalesce(failing_since, iif(:counts, :now, NULL))),
                       missing_since = iif(
                           :is_success, NULL, coalesce(missing_since, iif(:is_not_found, :now, NULL))),
                       is_missing = NOT :is_success AND (is_missing
                           OR :is_not_found AND coalesce(:now - missing_since, 0) >= 86400),
                       alert_sent = NOT :is_success AND (alert_sent OR :has_events),
                       notes_state = iif(:labels IS NULL, notes_state, :notes_state),
                       notes_source_id = iif(:labels IS NULL, notes_source_id, (
                           SELECT id FROM source WHERE id = :notes_source_id)),
                       labels = coalesce(:labels, labels)
                 WHERE id = :id""", vars(found) | {
                    "now": now, "id": source_id, "has_events": bool(found.events),
                    "is_success": found.error is None, "error": found.error and found.error[:1000]}).rowcount:
                return None
            if found.renamed:
                found = self._rename(db, source_id, found, *found.renamed, now)
            changed = found.changed
            self._write_releases(db, source_id, found, changed, now)
            for verdicts in found.verdicts.values():
                _write_verdicts(db, verdicts, verdicts.project.revision + bool(changed))
            if changed or found.verdicts:
                _write_newest(db, source_id)
            for event in found.events:
                self._store.outbox.insert(db, event, now)
        if found.events or changed:
            self._db.send_wakeup.set()
        return found

    def _write_releases(self, db: sqlite3.Connection, source_id: int, found: CheckResult,
                        changed: Sequence[Release], now: float) -> None:
        db.executemany("""
            INSERT INTO release (source_id, version, date, is_prerelease, is_updated, cve, content_id, step,
                                 place, gone_at)
            VALUES (:source, :version, :date, :is_prerelease, :is_updated, :cve, :content_id, :step, :place,
                    :gone_at)
                ON CONFLICT DO UPDATE SET is_prerelease = excluded.is_prerelease,
                   is_updated = excluded.is_updated, cve = excluded.cve, content_id = excluded.content_id,
                   step = excluded.step, place = excluded.place, gone_at = excluded.gone_at
            """, [vars(one) | {"source": source_id, "date": (one.date or "").rstrip("Z"),
                               "cve": compact_json(one.cve) if one.cve else None} for one in changed])
        db.executemany("DELETE FROM release WHERE source_id = ? AND version = ?",
                       [(source_id, version) for version in found.before if version not in found.after])
        if changed:
            _raise_revision(db, source_id)
        news = [(source_id, version) for version in found.news]
        db.executemany("UPDATE release SET found_at = ? WHERE source_id = ? AND version = ?",
                       [(now, *one) for one in news])
        db.executemany("""
            DELETE FROM read_release
             WHERE release_id = (SELECT id FROM release WHERE source_id = ? AND version = ?)""", news)
        db.executemany("""
            INSERT OR REPLACE INTO note (release_id, fingerprint, title, message, url)
            SELECT id, :fingerprint, :title, :message, :url
              FROM release WHERE source_id = :source AND version = :version
            """, [vars(note) | {"fingerprint": note.fingerprint, "source": source_id, "version": one.version}
                  for one in changed if (note := one.note)])
        if found.news:      # what waits for another attempt is sent now, before what is new
            db.execute("""
                UPDATE delivery SET next_attempt_at = min(next_attempt_at, created_at)
                 WHERE state = 'pending' AND attempts > 0
                   AND event_id IN (SELECT event.id FROM event JOIN project ON project.id = project_id
                                     WHERE source_id = ?)
                   AND EXISTS (SELECT 1 FROM destination JOIN account ON account.id = destination.account_id
                                WHERE destination.id = destination_id
                                  AND (kind = 'webhook' OR quiet_from = ''))""", (source_id,))

    @staticmethod
    def _rename(db: sqlite3.Connection, source_id: int, found: CheckResult, name: str, key: str,
                now: float) -> CheckResult:
        """Give a source its new name; what is left to be recorded of the check. Where another has that name,
        projects and history move there, and its next check, soon, notifies them of what is new to it."""
        other = db.execute("""
            SELECT id FROM source WHERE key = ? AND provider = (SELECT provider FROM source WHERE id = ?)
            """, (key, source_id)).fetchone()
        if other is None or other["id"] == source_id:
            db.execute("UPDATE source SET former_name = name, name = ?, key = ? WHERE id = ?",
                       (name, key, source_id))
            return found
        values = {"old": source_id, "new": other["id"], "now": now}
        has = {row["version"] for row in db.execute(
            "SELECT version FROM release WHERE source_id = :new", values)}
        db.execute("UPDATE OR IGNORE release SET source_id = :new WHERE source_id = :old", values)
        db.execute("""
            UPDATE source SET next_check_at = :now, former_name = (SELECT name FROM source WHERE id = :old)
             WHERE id = :new""", values)
        db.execute("UPDATE OR IGNORE project SET source_id = :new WHERE source_id = :old", values)
        db.execute("DELETE FROM project WHERE source_id = :old", values)        # the account has both
        db.execute("UPDATE source SET notes_source_id = :new WHERE notes_source_id = :old", values)
        _raise_revision(db, other["id"])
        _write_newest(db, other["id"])
        db.execute("DELETE FROM source WHERE id = :old", values)
        return CheckResult(found.next_check_at, events=[
            event for event in found.events
            if event.kind == "recovered" or event.body.get("version") in has])

_UPDATE_GROUPS = {      # the states of a project in each
    "behind": ("behind", "new build"), "unsure": ("unsure",), "quiet": ("skipped", "snoozed"),
    "unknown": ("unknown", "not compared"), "current": ("current",)}

class Projects(_Part):
    def add(self, account_id: str, provider: str, key: str, name: str,
            settings: Mapping[str, Any], labels: str = "") -> tuple[Project, Source]:
        """The new project and its source, now due. Raises Invalid when the account has it, or too many.
        ``labels``: of an image that a scan found; they count where nobody tracks it yet."""
        project_id, now = make_id(), self._db.clock()
        with self._db.transaction() as db:
            self._db.require_quota("projects", self._db.value(
                "SELECT count(*) FROM project WHERE account_id = ?", (account_id,)))
            source, = db.execute("""
                INSERT INTO source (provider, key, name, next_check_at, labels) VALUES (?, ?, ?, ?, ?)
                    ON CONFLICT DO UPDATE SET next_check_at = excluded.next_check_at
                RETURNING id, name""", (provider, key, name, now, labels)).fetchall()
            with _unique(f"a project {source['name']} of {provider}", AlreadyTracked):
                db.execute("""
                    INSERT INTO project (id, account_id, source_id, email_notification, added_at)
                    VALUES (?, ?, ?, 'daily', ?)""", (project_id, account_id, source["id"], now))
            _write_newest(db, source["id"])
            self._write_settings(db, account_id, project_id, settings)
        self._db.check_wakeup.set()
        added, its_source = self.get(account_id, project_id), self._store.sources.get(source["id"])
        assert added and its_source
        return added, its_source

    def update(self, account_id: str, ids: Iterable[str], settings: Mapping[str, Any]) -> None:
        """Set what ``settings`` holds of projects; what it does not hold stays."""
        with self._db.transaction() as db:
            for project_id in ids:
                self._write_settings(db, account_id, project_id, settings)

    def _write_settings(self, db: sqlite3.Connection, account_id: str, project_id: str,
                        settings: Mapping[str, Any]) -> None:
        """``settings``: fields of a project by name, of which ``destinations`` may hold some kinds only; a
        value may be a function of the project as it is."""
        project = self.get(account_id, project_id)
        if project is None:
            return
        after = dataclasses.replace(project, **{
            name: value(project) if callable(value) else value for name, value in settings.items()
            if name not in ("tags", "destinations")})
        before, rules = ({name: compact_json(getattr(one, name)) for name in (
            "exclude_version_regexp", "version_answers")} for one in (project, after))
        has_same_rules = rules == before and after.notify_level == project.notify_level and (
            {one.identity for one in after.installed} == {one.identity for one in project.installed})
        db.execute(_UPDATE_PROJECT, vars(after) | rules | _state_of(after) | {
            "has_same_rules": has_same_rules})
        if not has_same_rules:
            _write_newest(db, project.source_id)
        if after.notes_from != project.notes_from:
            db.execute("UPDATE source SET notes_from = ?, labels = '', next_check_at = ? WHERE id = ?",
                       (after.notes_from, self._db.clock(), project.source_id))
            self._db.check_wakeup.set()
        if after.skipped_version or after.snoozed_until or after.is_muted:
            self._skip_deliveries(db, after)
        if days := after.hold_days - project.hold_days:
            db.execute("""
                UPDATE delivery SET next_attempt_at = max(:now, next_attempt_at + :shift),
                                    queued_at = max(:now, next_attempt_at + :shift)
                 WHERE state = 'pending' AND is_held
                   AND event_id IN (SELECT id FROM event WHERE project_id = :project)
                """, {"now": self._db.clock(), "shift": days * DAY, "project": project_id})
            self._db.send_wakeup.set()
        if "tags" in settings:
            db.execute("DELETE FROM project_tag WHERE project_id = ?", (project_id,))
            db.executemany("""
                INSERT INTO project_tag (project_id, tag_id)
                SELECT project.id, tag.id FROM project JOIN tag USING (account_id)
                 WHERE project.id = ? AND tag.id = ?""", [(project_id, tag) for tag in settings["tags"]])
        for kind, ids in settings.get("destinations", {}).items():
            db.execute("""
                DELETE FROM project_destination
                 WHERE project_id = ? AND destination_id IN (SELECT id FROM destination WHERE kind = ?)
                """, (project_id, kind))
            db.executemany("""
                INSERT INTO project_destination (project_id, destination_id)
                SELECT project.id, destination.id FROM project JOIN destination USING (account_id)
                 WHERE project.id = ? AND kind = ? AND destination.id = ?
                """, [(project_id, kind, one) for one in ids])

    def _skip_deliveries(self, db: sqlite3.Connection, project: Project) -> None:
        """Take what is skipped or muted, or snoozed and without a CVE, out of digests not sent yet."""
        now = self._db.clock()
        skipped = [row["id"] for row in db.execute("""
            SELECT id, json_extract(body, '$.version') AS version, json_extract(body, '$.cve') AS cve
              FROM event WHERE project_id = ? AND kind = 'release'""", (project.id,))
                   if project.is_muted or project.skips(row["version"])
                   or project.is_snoozed(now) and not row["cve"]]
        db.execute("""
            UPDATE delivery SET state = 'skipped', settled_at = :now,
                                reason = 'the version was skipped, or the project snoozed or muted'
             WHERE state = 'pending' AND attempts = 0 AND digest_id IS NULL AND next_attempt_at > :now
               AND event_id IN (SELECT value FROM json_each(:events))
            """, {"now": now, "events": compact_json(skipped)})

    def remove(self, project_id: str) -> None:
        """Remove a project, and its source with the last one. What was to be sent later is skipped."""
        with self._db.transaction() as db:
            db.execute("""
                UPDATE delivery SET state = 'skipped', settled_at = :now, reason = 'the project was removed'
                 WHERE state = 'pending' AND next_attempt_at > :now AND attempts = 0
                   AND event_id IN (SELECT id FROM event WHERE project_id = :project)
                """, {"now": self._db.clock(), "project": project_id})
            db.execute("DELETE FROM project WHERE id = ?", (project_id,))

    def check_soon(self, account_id: str, ids: Sequence[str]) -> None:
        """Have projects of the account checked at once. One more failure then does not lengthen the wait."""
        self._db.write("""
            UPDATE source SET next_check_at = ?, failures = max(failures - 1, 0)
             WHERE id IN (SELECT source_id FROM project
                           WHERE account_id = ? AND id IN (SELECT value FROM json_each(?)))
            """, (self._db.clock(), account_id, compact_json(list(ids))))
        self._db.check_wakeup.set()

    def get(self, account_id: str, project_id: str) -> Project | None:
        return next(iter(self.of_ids(account_id, [project_id])), None)

    def of_ids(self, account_id: str | None, ids: Sequence[str], place: str | None = None) -> list[Project]:
        """The projects (of an account) with these ids, in their order; with what is installed at a place."""
        # Not by the index of the account, which leads to all its projects.
        found = [_value(Project, row, health=_value(Health, row)) for row in self._db.rows("""
            SELECT project.*, provider, name, former_name, checked_at, succeeded_at, next_check_at, error,
                   missing_since, is_missing, quota_left, notes_from, notes_state,
                   coalesce((SELECT provider || ' ' || name FROM source AS notes
                              WHERE notes.id = source.notes_source_id), '') AS notes_source,
                   (SELECT json_group_array(tag_id) FROM project_tag WHERE project_id = project.id) AS tags,
                   (SELECT json_group_object(kind, json(ids))
                      FROM (SELECT kind, json_group_array(destination_id) AS ids
                              FROM project_destination JOIN destination ON destination.id = destination_id
                             WHERE project_id = project.id GROUP BY kind)) AS destinations
              FROM json_each(?) AS wanted JOIN project ON project.id = value
              JOIN source ON source.id = source_id
             WHERE coalesce(?, account_id) = +account_id
             ORDER BY wanted.id""", (compact_json(list(ids)), account_id))]
        return found if place is None else [project.at(place) for project in found]

    def by_names(self, account_id: str, provider: str, keys: Sequence[str]) -> tuple[Project, str] | None:
        """``(project, key)`` of the longest of the names that the account tracks there."""
        row = self._db.row("""
            SELECT project.id, key FROM source JOIN project ON source_id = source.id
             WHERE source.provider = ? AND key IN (SELECT value FROM json_each(?)) AND +account_id = ?
             ORDER BY length(key) DESC LIMIT 1""", (provider, compact_json(list(keys)), account_id))
        project = self.get(account_id, row["id"]) if row else None
        return (project, row["key"]) if row and project else None

    def page(self, account_id: str, order: str, is_reversed: bool, provider: str | None = None,
             tag: str | None = None, page: int = 1, *, text: str | None = None, is_failing: bool = False,
             size: int = PAGE_SIZE) -> tuple[list[Project], int]:
        """A page of an account's projects, and how many there are on all: of a provider, a tag, a text,
        failing. ``order``: "name", "updated" (newest release), "latest" (as shown), or "added"."""
        ids = [row["id"] for row in self._db.rows("""
            SELECT project.id FROM project JOIN source ON source.id = source_id
             WHERE account_id = :account AND (:provider IS NULL OR provider = :provider)
               AND (:text = '' OR instr(lower(name), lower(:text)))
               AND (:tag IS NULL OR project.id IN (SELECT project_id FROM project_tag WHERE tag_id = :tag))
               AND (NOT :is_failing OR error IS NOT NULL)
             ORDER BY CASE :order WHEN 'updated' THEN newest_date WHEN 'added' THEN added_at
                                  WHEN 'latest' THEN coalesce(iif(is_narrow,
                          (SELECT date FROM project_release_view
                            WHERE project_id = project.id AND NOT is_ruled_out
                            ORDER BY place DESC, date DESC, id DESC LIMIT 1), NULL),
                          (SELECT date FROM release WHERE source_id = source.id
                            ORDER BY place DESC, date DESC LIMIT 1)) END DESC,
                      CASE :order WHEN 'name' THEN name END COLLATE NOCASE,
                      CASE :order WHEN 'name' THEN provider END, project.rowid DESC
            """, {"account": account_id, "order": order, "provider": provider, "tag": tag,
                  "text": search_term(text), "is_failing": is_failing})]
        if is_reversed:
            ids.reverse()
        return self.of_ids(account_id, ids[(page - 1) * size:page * size]), len(ids)

    def search(self, account_id: str, text: str, provider: str | None = None) -> list[Project]:
        return self.page(account_id, "name", False, provider, text=text, size=sys.maxsize)[0]

    def providers(self, account_id: str) -> list[str]:
        return [row["provider"] for row in self._db.rows("""
            SELECT DISTINCT provider FROM project JOIN source ON source.id = source_id
             WHERE account_id = ? ORDER BY provider""", (account_id,))]

    def with_pending_rules(self, ids: Collection[str] | None = None) -> list[tuple[str, str]]:
        """``(account, id)`` of projects whose rules have not judged all releases; accounts in turn."""
        return [(row["account_id"], row["id"]) for row in self._db.rows("""
            SELECT id, account_id FROM project
             WHERE revision != judged_revision
               AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
             ORDER BY row_number() OVER (PARTITION BY account_id ORDER BY rowid)
            """, {"ids": None if ids is None else compact_json(list(ids))})]

    def await_verdicts(self, ids: Collection[str], seconds: float) -> None:
        """Have the tracker compare what is installed of projects, and wait for it, at most so long."""
        self._db.has_to_compare.set()
        self._db.check_wakeup.set()
        self._db.await_others(lambda: not self.with_pending_rules(ids), seconds)

    def record_verdicts(self, verdicts: RuleResult) -> None:
        with self._db.transaction() as db:
            _write_verdicts(db, verdicts, verdicts.project.revision)
            _write_newest(db, verdicts.project.source_id)

    def record_advice(self, project: Project,
                      change: Callable[[Project], tuple[Project, Event | None]]) -> None:
        """Write what was found out about what is installed of a project, as it is now, with an event."""
        with self._db.transaction() as db:
            if before := self.get(project.account_id, project.id):
                after, event = change(before)
                db.execute("""
                    UPDATE project SET installed = :installed, urgency = :urgency, alerted = :alerted,
                           revision = revision + 1, judged_revision = judged_revision + 1
                     WHERE id = :id""", _state_of(after) | {"alerted": compact_json(after.alerted)})
                if event:
                    self._store.outbox.insert(db, event, self._db.clock())
        self._db.send_wakeup.set()
        if self.with_pending_rules([project.id]):       # as it is judged just now, which is not written then
            self._db.has_to_compare.set()

    def versions_installed(self, source_id: int) -> list[str]:
        return [row["version"] for row in self._db.rows("""
            SELECT DISTINCT json_extract(value, '$.version') AS version FROM project JOIN json_each(installed)
             WHERE source_id = ? AND version != ''""", (source_id,))]

    def updates(self, account_id: str, place: str | None = None, tag: str | None = None,
                text: str | None = None, least: int = 0) -> dict[str, list[str]]:
        """The ids of projects of which something is installed, most urgent first, by the groups of
        ``_UPDATE_GROUPS``. At a place, with a tag, a text; of an urgency, such as VULNERABLE, and above."""
        now = self._db.clock()
        found = [(row["id"], row["state"], row["urgency"]) for row in self._db.rows("""
            SELECT project.id, urgency,
                   CASE WHEN (update_state IN ('behind', 'new build', 'unsure') OR urgency >= :ended)
                        AND snoozed_until > :now THEN 'snoozed' ELSE update_state END AS state
              FROM project JOIN source ON source.id = source_id
             WHERE account_id = :account AND update_state != ''
               AND (:place IS NULL OR EXISTS (SELECT 1 FROM json_each(places) WHERE value = :place))
               AND (:tag IS NULL OR EXISTS (
                    SELECT 1 FROM project_tag WHERE project_id = project.id AND tag_id = :tag))
               AND (:text = '' OR instr(lower(name), lower(:text)))
             ORDER BY urgency DESC, name COLLATE NOCASE, project.id
            """, {"account": account_id, "now": now, "place": place, "tag": tag, "text": search_term(text),
                  "ended": ENDED})]
        if place is not None:       # what other places run does not count
            narrow = self.of_ids(account_id, [id_ for id_, *_ in found], place)
            narrow.sort(key=lambda one: one.urgency, reverse=True)
            found = [(one.id, one.state(now), one.urgency) for one in narrow if one.installed]
        # What is vulnerable or has ended is no quiet matter, whether there is an update or not.
        grouped = [(id_, "behind" if urgency >= ENDED and state != "snoozed" else state)
                   for id_, state, urgency in found if urgency >= least]
        return {group: [id_ for id_, state in grouped if state in states]
                for group, states in _UPDATE_GROUPS.items()}

    def with_updates(self, account_id: str, with_all: bool = True, place: str | None = None,
                     tag: str | None = None, least: int = 0) -> list[Project]:
        """The projects that are behind, the most urgent first, then those that are unsure; or all of which
        something is installed."""
        groups = self.updates(account_id, place, tag, least=least)
        wanted = groups.values() if with_all else [groups["behind"], groups["unsure"]]
        return self.of_ids(account_id, list(itertools.chain.from_iterable(wanted)))

    def places(self, account_id: str) -> list[str]:
        return sorted({place for row in self._db.rows(
            "SELECT DISTINCT places FROM project WHERE account_id = ? AND update_state != ''", (account_id,))
            for place in json.loads(row["places"])})

    def ids_by_key(self, account_id: str) -> dict[tuple[str, str], str]:
        """The ids of the account's projects by ``(provider, key)``."""
        return {(row["provider"], row["key"]): row["id"] for row in self._db.rows("""
            SELECT project.id, provider, key FROM project JOIN source ON source.id = source_id
             WHERE account_id = ?""", (account_id,))}

    def count_updates(self, account_id: str | None = None) -> dict[str, int]:
        """How many projects, of an account or of all, are behind, and unsure; without skipped and snoozed."""
        row, = self._db.rows("""
            SELECT count(*) FILTER (WHERE update_state IN ('behind', 'new build')) AS behind,
                   count(*) FILTER (WHERE update_state = 'unsure') AS unsure,
                   count(*) FILTER (WHERE urgency >= :vulnerable) AS vulnerable
              FROM project
             WHERE update_state != '' AND (:account IS NULL OR account_id = :account)
               AND coalesce(snoozed_until, 0) <= :now
            """, {"account": account_id, "now": self._db.clock(), "vulnerable": VULNERABLE})
        return dict(row)

    def snooze_ended(self, now: float) -> list[Project]:
        return self.of_ids(None, [row["id"] for row in self._db.rows(
            "SELECT id FROM project WHERE snoozed_until <= ?", (now,))])

    def installed(self) -> list[Project]:
        """The projects of all accounts of which something is installed."""
        return self.of_ids(None, [row["id"] for row in self._db.rows(
            "SELECT id FROM project WHERE update_state != '' ORDER BY rowid")])

    def with_rules(self, source_id: int, is_unjudged: bool) -> list[Project]:
        """The projects of a source that have rules; or those whose rules have not judged all of it."""
        return self.of_ids(None, [row["id"] for row in self._db.rows("""
            SELECT id FROM project
             WHERE source_id = ? AND (revision != judged_revision OR NOT ? AND (
                   exclude_version_regexp != '[]' OR installed != '[]'))""", (source_id, is_unjudged))])

    def subscribers(self, source_id: int) -> list[Subscriber]:
        """The projects that track a source, with their accounts, tags, and the accounts' destinations."""
        projects = self.of_ids(None, [row["id"] for row in self._db.rows(
            "SELECT id FROM project WHERE source_id = ? ORDER BY rowid", (source_id,))])
        accounts = {one.id: one for one in self._store.accounts.of_ids([one.account_id for one in projects])}
        destinations = self._store.destinations.of_account(*accounts)
        tags = self._store.tags.of_account(*accounts)
        with_image = {row["account_id"] for row in self._db.rows("""
            SELECT account_id FROM source JOIN project ON source_id = source.id AND NOT is_muted
             WHERE notes_source_id = ? AND EXISTS (SELECT 1 FROM note JOIN release ON release.id = release_id
                                                    WHERE release.source_id = source.id)""", (source_id,))}
        return [Subscriber(
            one, accounts[one.account_id], tuple(tag for tag in tags if tag.id in one.tags),
            tuple(each for each in destinations if each.account_id == one.account_id),
            one.account_id in with_image)
                for one in projects if one.account_id in accounts]      # else removed since

def _release(row: sqlite3.Row) -> Release:
    return _value(Release, row, date=f"{row['date']}Z", step=row["step"] or "")

class Releases(_Part):
    def page(self, project: Project, page: int, size: int = PAGE_SIZE, text: str = "",
             is_final: bool = False) -> tuple[list[Release], int]:
        """A page of a project's releases, newest first, without their notes; and how many pages there are.
        With a text in the version or the note; only final ones."""
        ids = [row["id"] for row in self._db.rows("""
            SELECT id FROM release WHERE source_id = :source AND NOT (:is_final AND is_prerelease)
               AND (instr(lower(version), lower(:text)) OR EXISTS (
                    SELECT 1 FROM note
                     WHERE release_id = release.id AND instr(lower(title || ' ' || message), lower(:text))))
             ORDER BY date DESC, id DESC
            """, {"source": project.source_id, "text": search_term(text), "is_final": is_final})]
        found = self._db.rows("""
            SELECT version, date, is_prerelease, is_updated, cve, has_note, is_ruled_out, step
              FROM project_release_view
             WHERE project_id = ? AND id IN (SELECT value FROM json_each(?)) ORDER BY date DESC, id DESC
            """, (project.id, compact_json(ids[(page - 1) * size:page * size])))
        return [_release(row) for row in found], page_count(len(ids), size)

    def get(self, project: Project, versions: Sequence[str]) -> Release | None:
        """The release of the longest of these versions that the project has, without its note."""
        return next(map(_release, self._db.rows("""
            SELECT * FROM project_release_view WHERE project_id = ?
               AND version IN (SELECT value FROM json_each(?))
             ORDER BY length(version) DESC LIMIT 1""", (project.id, compact_json(list(versions))))), None)

    def newest_wanted(self, project: Project, since: str = "") -> Release | None:
        """The latest release that the project does not exclude, without its note: the highest final one; or
        the highest prerelease after a date."""
        return next(map(_release, self._db.rows("""
            SELECT * FROM project_release_view WHERE project_id = :id AND NOT is_excluded
               AND (:since = '' OR is_prerelease AND gone_at IS NULL AND date > :since)
             ORDER BY place DESC, date DESC, id DESC LIMIT 1
            """, {"id": project.id, "since": since})), None)

    def note(self, source_id: int, version: str) -> Note | None:
        return self.notes(source_id, [version]).get(version)

    def notes(self, source_id: int, versions: Sequence[str], length: int = NOTE_LIMIT) -> dict[str, Note]:
        """By version, the notes of these of a source's versions, their messages cut to a length."""
        return {row["version"]: _value(Note, row) for row in self._db.rows("""
            SELECT version, title, substr(message, 1, ?) AS message, url
              FROM note JOIN release ON release.id = release_id
             WHERE source_id = ? AND version IN (SELECT value FROM json_each(?))
            """, (length, source_id, compact_json(list(versions))))}

    def note_sizes(self, source_id: int, versions: Sequence[str], line: int) -> dict[str, int]:
        """By version, the bytes of its note; of one with short lines, as if each had ``line`` bytes."""
        return {row["version"]: row["size"] for row in self._db.rows("""
            SELECT version, max(length(CAST(message AS BLOB)),
                                (length(message) - length(replace(message, char(10), ''))) * ?) AS size
              FROM note JOIN release ON release.id = release_id
             WHERE source_id = ? AND version IN (SELECT value FROM json_each(?))
            """, (line, source_id, compact_json(list(versions))))}

    def known(self, source_id: int) -> dict[str, Release]:
        """What the store has of a source's releases, newest first, without their notes."""
        return {row["version"]: _release(row) for row in self._db.rows("""
            SELECT * FROM release_view WHERE source_id = ? ORDER BY date DESC, id DESC""", (source_id,))}

    def latest(self, account_id: str, page: int = 1, provider: str | None = None, tag: str | None = None,
               text: str | None = None, is_security: bool = False, size: int = PAGE_SIZE,
               is_unread: bool = False) -> tuple[list[ReleaseListItem], bool]:
        """A page of the releases of an account, newest first, and whether there are more: of a provider, a
        tag, with CVEs, unread; and with each word of a text. A search of 100,000 notes takes 0.3 to 0.7 s."""
        # Releases from a date on are enough: as many projects as the page reaches down to have one.
        found = self._db.rows("""
            WITH matching AS NOT MATERIALIZED (
                SELECT project.id, source_id, newest_date, name, is_narrow
                  FROM project JOIN source ON source.id = source_id
                 WHERE account_id = :account AND (:provider IS NULL OR provider = :provider)
                   AND (:tag IS NULL
                        OR project.id IN (SELECT project_id FROM project_tag WHERE tag_id = :tag))
            ), since AS MATERIALIZED (
                SELECT coalesce((SELECT newest_date FROM matching
                                  WHERE NOT (:is_security OR :is_unread) AND :words = '[]'
                                  ORDER BY newest_date DESC LIMIT 1 OFFSET :reach), '') AS date
            )
            SELECT project_release_view.*, title, substr(message, 1, :start) AS message, url,
                   found_at > (SELECT read_until FROM account WHERE id = :account) AS is_recent,
                   EXISTS (SELECT 1 FROM read_release
                            WHERE read_release.account_id = :account AND release_id = wanted_id) AS is_marked
              FROM (SELECT release.id AS wanted_id, matching.id AS wanted_by
                      FROM since CROSS JOIN matching ON newest_date >= since.date
                     CROSS JOIN release ON release.source_id = matching.source_id
                            AND release.date >= since.date
                     WHERE (NOT :is_security OR cve IS NOT NULL)
                       AND (NOT is_narrow OR NOT EXISTS (
                            SELECT 1 FROM excluded_release
                             WHERE project_id = matching.id AND release_id = release.id))
                       AND (NOT :is_unread OR release.id IN (
                            SELECT release_id FROM unread_view WHERE account_id = :account))
                       AND (:words = '[]' OR NOT EXISTS (
                            SELECT 1 FROM json_each(:words)
                             WHERE NOT instr(lower(name || ' ' || version), lower(value))
                               AND NOT EXISTS (
                                   SELECT 1 FROM note
                                    WHERE release_id = release.id
                                      AND instr(lower(title || ' ' || message), lower(value)))))
                     ORDER BY release.date DESC, release.id DESC LIMIT :limit OFFSET :offset)
             CROSS JOIN project_release_view ON id = wanted_id AND project_id = wanted_by
              LEFT JOIN note ON release_id = wanted_id
             ORDER BY date DESC, id DESC
            """, {"limit": size + 1, "offset": (page - 1) * size, "reach": page * size, "account": account_id,
                  "provider": provider, "tag": tag, "is_security": is_security,
                  "words": compact_json(search_term(text).split()[:WORDS_LIMIT]),
                  "is_unread": is_unread, "start": NOTE_PREVIEW_CHARS})
        projects = {project.id: project for project in self._store.projects.of_ids(
            account_id, list(dict.fromkeys(row["project_id"] for row in found)))}
        items = [ReleaseListItem(projects[row["project_id"]], _release(row), row["found_at"],
                                 _value(Note, row) if row["has_note"] else None,
                                 bool(row["is_recent"]) and not row["is_marked"], bool(row["is_recent"]))
                 for row in found[:size] if row["project_id"] in projects]
        return items, len(found) > size

    def unread(self, account_id: str) -> int:
        return int(self._db.value("SELECT count(*) FROM unread_view WHERE account_id = ?", (account_id,)))

    def mark(self, account_id: str, those: Sequence[tuple[str, str]] | None, is_read: bool = True) -> None:
        """Mark releases, by project ids and versions, as read or as unread; None: all found so far."""
        values = [(account_id, *one) for one in those or ()]
        with self._db.transaction() as db:
            if those is None:
                db.execute("UPDATE account SET read_until = ? WHERE id = ?", (self._db.clock(), account_id))
                db.execute("DELETE FROM read_release WHERE account_id = ?", (account_id,))
            elif is_read:
                db.executemany("""
                    INSERT OR IGNORE INTO read_release (account_id, release_id)
                    SELECT account_id, release.id FROM project JOIN release USING (source_id)
                     WHERE account_id = ? AND project.id = ? AND version = ?""", values)
            else:
                db.executemany("""
                    DELETE FROM read_release WHERE account_id = ? AND release_id IN (
                        SELECT release.id FROM project JOIN release USING (source_id)
                         WHERE project.id = ? AND version = ?)""", values)

    def newest(self, account_id: str, source_ids: Collection[int]) -> dict[int, Release]:
        """The latest release of each of these sources of an account that has any: the highest final one, and
        of those first that may follow what is installed."""
        return {row["source_id"]: _release(row) for row in self._db.rows("""
            SELECT source_id, version, date, is_prerelease, is_updated, cve, has_note, is_ruled_out, step
              FROM project_release_view WHERE +account_id = ? AND id IN (
                   SELECT coalesce((SELECT id FROM project_release_view
                                     WHERE project_id = project.id AND is_narrow AND NOT is_ruled_out
                                     ORDER BY place DESC, date DESC, id DESC LIMIT 1),
                                   (SELECT id FROM release WHERE release.source_id = project.source_id
                                     ORDER BY place DESC, date DESC, id DESC LIMIT 1))
                     FROM json_each(?) CROSS JOIN project ON project.source_id = value
                    WHERE account_id = ?)
            """, (account_id, compact_json(list(source_ids)), account_id))}

    def summary(self, account_id: str) -> dict[str, int]:
        """An account's numbers, for a dashboard: of projects, of their releases of the last seven days, ...
        The cost follows the number of projects, and of news since the account has read all."""
        week = timestamp(self._db.clock() - 7 * DAY).rstrip("Z")
        row, = self._db.rows("""
            SELECT (SELECT count(*) FROM project WHERE account_id = :account) AS projects,
                   (SELECT count(*) FROM project JOIN project_release_view ON project_id = project.id
                     WHERE project.account_id = :account AND newest_date >= :week AND date >= :week
                       AND NOT is_excluded) AS new_this_week,
                   (SELECT count(*) FROM project JOIN source ON source.id = source_id
                     WHERE account_id = :account AND error IS NOT NULL) AS failing,
                   (SELECT count(*) FROM unread_view WHERE account_id = :account) AS unread,
                   (SELECT count(*) FROM destination JOIN delivery ON destination_id = destination.id
                     WHERE destination.account_id = :account AND state = 'pending') AS waiting_deliveries
            """, {"account": account_id, "week": week})
        return dict(row) | self._store.projects.count_updates(account_id)

class Documents(_Part):
    """What others said of versions, by address or id: with its version there, and when it was read."""
    def of(self, names: Iterable[str]) -> dict[str, tuple[str, Any, float]]:
        return {row["name"]: (row["version"], json.loads(row["body"]), row["read_at"])
                for row in self._db.rows("""
            SELECT name, version, body, read_at FROM document WHERE name IN (SELECT value FROM json_each(?))
            """, (compact_json(list(names)),))}

    def put(self, name: str, version: str, body: Any) -> None:
        self._db.write("INSERT OR REPLACE INTO document (name, version, body, read_at) VALUES (?, ?, ?, ?)",
                       (name, version, compact_json(body), self._db.clock()))

class Store:
    """All that is remembered. ``quota_of``: name -> how much of it an account may have."""
    def __init__(self, path: str, clock: Callable[[], float] = time.time,
                 migrations: Mapping[int, str] = MIGRATIONS,
                 quota_of: Callable[[str], int] = lambda name: sys.maxsize) -> None:
        self.database = Database(path, clock, migrations, quota_of)
        self.config, self.accounts, self.sessions = Config(self), Accounts(self), Sessions(self)
        self.keys, self.tags, self.destinations = Keys(self), Tags(self), Destinations(self)
        self.leases, self.outbox, self.sources = Leases(self), Outbox(self), Sources(self)
        self.projects, self.releases, self.documents = Projects(self), Releases(self), Documents(self)
        self.close = self.database.close

    def maintain(self, now: float) -> None:
        """Delete what is too old, and bring back what a wrong clock has put off: only a hold or a digest
        waits for more than a day, and what was made in the future would never expire."""
        values = {"now": now, "expired": now - SESSION_MAX_AGE, "too_far": now + HOUR}
        with self.database.transaction() as db:
            db.execute("DELETE FROM session WHERE created_at < :expired OR created_at > :too_far", values)
            db.execute("DELETE FROM document WHERE read_at < :expired", values)
            db.execute("""
                UPDATE destination SET previous_secret = NULL, previous_until = NULL
                 WHERE previous_until < :now""", values)
            db.execute("""
                DELETE FROM lease WHERE until > :too_far
                    OR until < :now - 60 AND id NOT IN (SELECT id FROM source)""", values)
            db.execute("""
                UPDATE delivery SET next_attempt_at = :now, queued_at = min(queued_at, :now)
                 WHERE state = 'pending' AND next_attempt_at > :now + 90000
                   AND (attempts > 0 OR digest_id IS NOT NULL OR created_at > :now + 90000
                        OR NOT (is_held OR is_digested))""", values)
        # In a transaction of its own, and not all at once: it may be much.
        self.database.write("""
            DELETE FROM event WHERE id IN (
                SELECT id FROM event
                 WHERE created_at < :before AND NOT EXISTS (
                       SELECT 1 FROM delivery
                        WHERE event_id = event.id AND (state = 'pending' OR settled_at >= :before))
                 ORDER BY created_at LIMIT 1000)""", {"before": now - DELIVERY_RETENTION})

    def activity(self, since: float) -> dict[str, int]:
        """How much was done since then, of what is still there."""
        row, = self.database.rows("""
            SELECT (SELECT count(*) FROM source WHERE checked_at >= :since) AS projects_checked,
                   (SELECT count(*) FROM release WHERE found_at >= :since) AS releases_found,
                   (SELECT count(*) FROM delivery WHERE settled_at >= :since AND state = 'delivered')
                       AS notifications_delivered,
                   (SELECT count(*) FROM delivery WHERE settled_at >= :since AND state = 'failed')
                       AS notifications_failed,
                   (SELECT count(*) FROM session WHERE created_at >= :since) AS sessions_opened
            """, {"since": since})
        return dict(row)

    def counts(self) -> dict[str, int]:
        row, = self.database.rows("""
            SELECT (SELECT count(*) FROM account) AS accounts, (SELECT count(*) FROM project) AS projects,
                   (SELECT count(*) FROM source) AS sources,
                   (SELECT count(*) FROM source WHERE next_check_at <= :now) AS due_sources,
                   (SELECT count(*) FROM source WHERE error IS NOT NULL) AS failing_sources,
                   (SELECT count(*) FROM delivery WHERE state = 'pending') AS pending_deliveries,
                   (SELECT count(*) FROM delivery WHERE state = 'pending' AND next_attempt_at <= :now)
                       AS due_deliveries,
                   (SELECT count(*) FROM delivery WHERE state = 'failed') AS failed_deliveries
            """, {"now": self.database.clock()})
        return dict(row) | {
            f"{state}_projects": count for state, count in self.projects.count_updates().items()}

@contextlib.contextmanager
def logged(what: str) -> Iterator[None]:
    """What raises inside is logged and ends here."""
    try:
        yield
    except ReleasetrackError as error:
        log.warning("%s: %s", what, error)
    except BaseException:       # of a listener SystemExit, too
        log.exception("%s: failed", what)

class Worker:
    """A thread that hands out to a pool what the store says is due. ``run_once`` does, and returns the
    seconds until more may be due; after a fault, ``idle_seconds`` pass. ``wakeup`` ends its sleep."""
    def __init__(self, name: str, size: int, store: Store, wakeup: threading.Event,
                 idle_seconds: float, run_once: Callable[[], float], clock: Callable[[], float],
                 jitter: Callable[[], float]) -> None:
        self.store = store
        self.heartbeat_at = 0.0                 # of the loop, on the monotonic clock
        self._name, self._size, self._wakeup, self._idle_seconds = name, size, wakeup, idle_seconds
        self._run_once, self._clock, self._jitter = run_once, clock, jitter
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._busy: dict[Job, Future[Any]] = {}     # what the pool has; of the loop alone
        self._claimant = make_id()

    def start(self) -> None:
        self._claimant = make_id()              # another one in a process that was forked since __init__
        self._pool = ThreadPoolExecutor(self._size, thread_name_prefix=f"releasetrack-{self._name}")
        self._thread = threading.Thread(target=self._run, name=f"releasetrack-{self._name}", daemon=True)
        self.heartbeat_at = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Claim nothing further; ``join`` waits for what is under way."""
        self._stopping.set()
        self._wakeup.set()

    def join(self) -> None:
        """End what is claimed, too: what was not done was not abandoned."""
        if self._thread:
            self._thread.join()
        with contextlib.suppress(StoreUnavailable):
            self.store.leases.drop_all(self._claimant)

    def is_alive(self) -> bool:
        has_heartbeat = bool(self.heartbeat_at) and time.monotonic() - self.heartbeat_at < 3 * LEASE
        return self._thread is not None and self._thread.is_alive() and has_heartbeat

    def _run(self) -> None:
        assert self._pool
        with self._renewing(lambda: [job.id for job in list(self._busy)]):
            self._loop()
            self._pool.shutdown(wait=True, cancel_futures=True)

    @contextlib.contextmanager
    def _renewing(self, busy: Callable[[], Collection[Any]]) -> Iterator[None]:
        """Renews the leases of what is busy in good time, until the block ends."""
        is_over = threading.Event()

        def run() -> None:
            while not is_over.wait(LEASE / 3):
                with logged(f"{self._name}: leases"):
                    self.store.leases.renew(busy(), self._claimant, self._clock())
        thread = threading.Thread(target=run, name=f"releasetrack-{self._name}-leases", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self.heartbeat_at, wait = time.monotonic(), self._idle_seconds
            self._wakeup.clear()
            self._busy = {job: work for job, work in self._busy.items() if not work.done()}
            try:
                wait = self._run_once()
            except StoreUnavailable as error:
                log.warning("%s: %s", self._name, error)
                self._stopping.wait(1)
            except Exception:   # a bug costs some turns, not the loop; /healthz reports it meanwhile
                log.exception("%s: a turn failed", self._name)
                self.heartbeat_at = 0.0
                self._stopping.wait(10)
            self._wakeup.wait(wait)

    def _beating(self, items: Iterable[V]) -> Iterator[V]:
        """The items, with a heartbeat before each: many may take longer than a turn should."""
        for item in items:
            self.heartbeat_at = time.monotonic()
            yield item

    def _submit(self, job: Job, work: Callable[..., Any], about: Any) -> None:
        """Have the pool do a job, which is busy until it is done, and wakes the loop then."""
        assert self._pool
        self._busy[job] = self._pool.submit(work, about)
        self._busy[job].add_done_callback(lambda _: self._wakeup.set())


# == fetching ==================================================================
# All outgoing requests, by http.client, and mail, by smtplib. An exchange has a deadline and a budget of
# bytes, headers included; it dials only addresses that were judged, and TLS is verified against the name. No
# proxy that the environment names is used. Redirects of notifications are never followed. A host is sent few
# requests at once, and none before the time that it asked to wait for.

PROVIDER_SECONDS, NOTIFICATION_SECONDS, MAIL_SECONDS = 30.0, 15.0, 30.0     # of one exchange
REPLY_LIMIT = 64 * KIB              # bytes of what a receiver or a mail server answers
_REDIRECTS = 5                      # that are followed to a provider's answer
_CONNECT, _LOOKUP = 5.0, 3.0        # seconds for a TCP or TLS handshake, and for a name's addresses
_SLICE = 1.0                        # seconds after which a waiting exchange looks whether it must stop
_PATIENCE = 5.0                     # seconds that a request waits for its turn at a host
# Bytes beyond which one answer is read and used at a time: JSON becomes up to 24 times as large in memory.
_LARGE = 128 * KIB

@dataclasses.dataclass(frozen=True)
class HostLimit:
    """What we send to a public host at most: so many requests in so many seconds, and how often a project."""
    requests: int
    seconds: float
    with_token: int = 0             # requests that carry a token; 0: as many as without
    every: float = 0.0              # least seconds between two checks of one project

# Well below what their documentation, or experience, allows; the tracker adds all hosts of ours. Another is
# the operator's own: it is sent few requests at once, and its answers say when that is too much.
HOST_LIMITS = {
    #                                  requests, seconds, with a token, every
    "api.github.com":        HostLimit(45,       HOUR,    4500),
    "api.bitbucket.org":     HostLimit(40,       HOUR,    900),
    "crates.io":             HostLimit(1,        1.1),
    "hex.pm":                HostLimit(60,       MINUTE,  300),
    "rubygems.org":          HostLimit(6,        1.0),
    "hub.docker.com":        HostLimit(60,       MINUTE),
    "gitlab.com":            HostLimit(100,      MINUTE,  300),
    "codeberg.org":          HostLimit(60,       MINUTE),
    "sourceforge.net":       HostLimit(2,        1.0,     every=HOUR / 2),
    "artifacthub.io":        HostLimit(1,        2.0,     every=HOUR),
    "api.deps.dev":          HostLimit(5,        1.0),
    "registry.yarnpkg.com":  HostLimit(2,        1.0),
    "github.com":            HostLimit(1,        1.0),
    "public.ecr.aws":        HostLimit(1,        1.1),
    "repology.org":          HostLimit(1,        1.1),
    "endoflife.date":        HostLimit(1,        1.0,     every=6 * HOUR),
    "api.osv.dev":           HostLimit(10,       1.0),
}

def _look_up(host: str, port: int) -> list[str]:
    """The addresses of a host. Raises Unreachable, after ``_LOOKUP`` seconds at the latest.
    getaddrinfo has no timeout, so a thread waits for it and is abandoned."""
    if parse_address(host):
        return [host]
    found = Future[list[str]]()

    def resolve() -> None:
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.set_result([str(entry[4][0]) for entry in entries])
        except (OSError, UnicodeError) as error:
            words = f"DNS lookup of {host} failed ({getattr(error, 'strerror', None) or error})"
            found.set_exception(Unreachable(words))
    threading.Thread(target=resolve, name="releasetrack-lookup", daemon=True).start()
    try:
        return found.result(_LOOKUP)
    except TimeoutError:
        raise Unreachable(
            f"the address of {host} could not be looked up within {_LOOKUP:g} s") from None

class _Exchange:
    """One request's remaining time and bytes, and where it may go. Its methods raise Unreachable."""
    def __init__(self, seconds: float, most_bytes: int, settings: Settings, is_trusted: bool,
                 stopping: threading.Event) -> None:
        self.settings, self.is_trusted = settings, is_trusted
        self.address: str | None = None         # dialled
        self.wait_for_large_slot: Callable[[], Any] | None = None       # before a large answer is read
        self._seconds, self._most_bytes, self._stopping = seconds, most_bytes, stopping
        self._end, self.bytes_left = time.monotonic() + seconds, most_bytes     # negative: there were more

    def remaining_time(self, at_most: float = _SLICE) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise Unreachable(f"it took longer than {self._seconds:g} s")
        if self._stopping.is_set():
            raise Unreachable("the program is being stopped")
        return min(left, at_most)

    def count_bytes(self, count: int) -> None:
        """Count bytes received, or unpacked from these. The wait for other large answers takes no time."""
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise Unreachable(f"its answer is larger than {self._most_bytes // KIB} KiB")
        if self.wait_for_large_slot and self._most_bytes - self.bytes_left > _LARGE:
            began = time.monotonic()
            self.wait_for_large_slot()
            self.wait_for_large_slot = None
            self._end += time.monotonic() - began

    def distrust_if_public(self) -> None:
        """Before using an address that the last one named: a public one may not name one that is private."""
        if self.address and not self.settings.outgoing_proxy and not blocked_reason(self.address, (), False):
            self.is_trusted = False

    def look_up(self, host: str, port: int, is_proxy: bool = False) -> list[str]:
        """The addresses of a host, if all of them may be dialled. The operator chose the proxy."""
        addresses = _look_up(host, port)
        for address in addresses:
            if reason := blocked_reason(address, self.settings.allow_network, self.is_trusted or is_proxy):
                raise Unreachable(reason)
        return addresses

    def dial(self, host: str, port: int) -> "_Socket":
        """A connection to the first address of a host, or of the proxy, that accepts one."""
        failure: OSError | None = None
        for address in self.look_up(host, port, is_proxy=bool(self.settings.outgoing_proxy)):
            seconds = self.remaining_time(_CONNECT)
            connection = _Socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            connection.exchange = self
            try:
                connection.settimeout(seconds)
                connection.connect((address, port))
                self.address = address
                return connection
            except OSError as error:
                connection.close()
                failure = error
        raise failure or Unreachable(f"DNS lookup of {host} found no address")

class _Socket(socket.socket):
    """A socket that sends and receives within the time and bytes of an exchange."""
    exchange: _Exchange

    def sendall(self, data: Any, flags: int = 0) -> None:
        rest = memoryview(data)
        while rest:
            self.settimeout(self.exchange.remaining_time())
            with contextlib.suppress(TimeoutError):
                rest = rest[self.send(rest):]

    def recv_into(self, buffer: Any, *options: int) -> int:
        while True:
            self.settimeout(self.exchange.remaining_time())
            with contextlib.suppress(TimeoutError):
                count = super().recv_into(buffer, *options)
                self.exchange.count_bytes(count)
                return count

class _SecureSocket(_Socket, ssl.SSLSocket):    # type: ignore[misc]
    """The same over TLS."""

class _Connection(http.client.HTTPConnection):
    """A connection for one request, to its host or to the proxy; with ``tls``, verified against the name."""
    def __init__(self, url: urllib.parse.SplitResult, exchange: _Exchange,
                 tls: ssl.SSLContext | None) -> None:
        self.default_port = 443 if tls else 80      # type: ignore[misc]
        self._exchange, self._tls, self._certified = exchange, tls, url.hostname or ""
        self._target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self._headers = {"Host": url.netloc, "Connection": "close"}
        if proxy := exchange.settings.outgoing_proxy:
            super().__init__(urlsplit(proxy).hostname or "", urlsplit(proxy).port or 80)
            self._use_proxy(url, _login_of(proxy))
        else:
            super().__init__(self._certified, url.port or self.default_port)
        self._create_connection = lambda address, *_: exchange.dial(*address)   # as http.client calls it

    def _use_proxy(self, url: urllib.parse.SplitResult, login: tuple[str, str] | None) -> None:
        """It resolves names by itself, but an address that is spelled out can be judged here. What may not go
        everywhere is resolved here, and the proxy gets the address."""
        credentials = base64.b64encode(":".join(login or ()).encode()).decode()
        headers = {"Proxy-Authorization": f"Basic {credentials}"} if login else {}
        if not self._exchange.is_trusted or re.fullmatch(r"[0-9a-fx.]+|.*:.*", self._certified):
            address = self._exchange.look_up(self._certified, 80)[0]
            if not self._exchange.is_trusted:
                host = f"[{address}]" if ":" in address else address
                url = url._replace(netloc=f"{host}:{url.port or self.default_port}")
        if self._tls:
            self.set_tunnel(url.netloc, headers=headers)
        else:
            self._target = url.geturl()
            self._headers |= headers

    def ask(self, request: Request) -> http.client.HTTPResponse:
        self.request(request.method, self._target, request.body, {**self._headers, **request.headers})
        response = self.getresponse()
        # Of interim answers http.client skips 100 alone: https://www.rfc-editor.org/rfc/rfc9110#section-15.2
        while 101 < response.status < 200:
            response.headers = None     # type: ignore[assignment]  # as before the first head
            response.begin()
        return response

    def connect(self) -> None:
        super().connect()
        if self._tls:
            self.sock.settimeout(self._exchange.remaining_time(_CONNECT))
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._certified)
            self.sock.exchange = self._exchange     # type: ignore[attr-defined]

DOCKER_SECONDS = 3.0            # for each answer of an engine

def ask_docker(address: str, path: str) -> Answer:
    """What the API of Docker or Podman answers at its socket, or at tcp://host:port. Raises Unreachable."""
    exchange = _Exchange(DOCKER_SECONDS, 20 * MIB, Settings(), True, threading.Event())
    url, connection = urlsplit(address), http.client.HTTPConnection("docker")
    try:
        with contextlib.closing(connection):
            if url.scheme == "tcp":
                connection.sock = exchange.dial(url.hostname or "", url.port or 2375)
            else:
                connection.sock = plain = _Socket(socket.AF_UNIX, socket.SOCK_STREAM)
                plain.exchange = exchange
                plain.settimeout(exchange.remaining_time())
                plain.connect(address.removeprefix("unix://"))
            connection.request("GET", path, headers={"Connection": "close"})
            response = connection.getresponse()
            return Answer(path, response.status, _headers(response), _read_body(response, exchange, False))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unreachable(_network_error(error)) from error

# What a token stands in, and so is sent to no other host.
SECRET_HEADERS = frozenset(("authorization", "private-token", "x-api-key-id", "x-api-key-secret"))

def host_of(url: str) -> str:
    return urlsplit(url if "://" in url else f"//{url}").netloc.lower()

def _login_of(url: str) -> tuple[str, str] | None:
    parts = urlsplit(url)
    return None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))

def _network_error(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        own = "; SSL_CERT_FILE names the certificates of an authority of your own"
        return f"its certificate is not valid: {error.verify_message}{own * (18 <= error.verify_code <= 21)}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    for kind, words in ((ConnectionRefusedError, "it refused the connection"),
                        (http.client.RemoteDisconnected, "it closed the connection without an answer"),
                        (TimeoutError, "it did not accept the connection in time"),
                        (http.client.IncompleteRead, "its answer ended early")):
        if isinstance(error, kind):
            return words
    if isinstance(error, http.client.HTTPException):
        return f"its answer is not HTTP ({type(error).__name__})"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__

def requests_left(headers: Mapping[str, str]) -> int | None:
    """The requests that an answer says are left to us; None where it does not say."""
    left = headers.get("x-ratelimit-remaining") or headers.get("ratelimit-remaining") or ""
    return int(left) if re.fullmatch(r"[0-9]{1,12}", left) else None

def requested_wait(headers: Mapping[str, str]) -> float:
    """Seconds that an answer asks to wait, 0 when it does not say.
    A reset is seconds since the epoch (GitHub, GitLab) or from now; the Date header says when now is."""
    try:
        now = email.utils.parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (ValueError, TypeError, IndexError):
        now = time.time()
    wait = retry_after_seconds(headers.get("retry-after"), now)
    reset = headers.get("x-ratelimit-reset") or headers.get("ratelimit-reset") or ""
    if wait is None and re.fullmatch(r"[0-9]{1,12}", reset):
        wait = float(reset) - (now if float(reset) > 10**8 else 0)
    return max(wait or 0.0, 0.0)

class _Host:
    """How a host is treated: how many requests at once, how often, and when it may be sent the next."""
    def __init__(self, name: str, at_once: int) -> None:
        self.name, limit = name, HOST_LIMITS.get(name)
        self.slots = threading.BoundedSemaphore(at_once)
        self.free_at = 0.0
        self.paces = (Pace(limit.requests, limit.seconds),
                      Pace(limit.with_token or limit.requests, limit.seconds)) if limit else None

def _headers(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): ", ".join(response.headers.get_all(name, ())) for name in response.headers}

def _read_body(response: http.client.HTTPResponse, exchange: _Exchange, may_be_cut: bool) -> bytearray:
    """The whole body, gzip undone, or what comes within the limit. Raises ValueError if it ends early."""
    is_gzip = response.headers.get("Content-Encoding", "").lower() in ("gzip", "x-gzip")
    body, unpacker, is_whole = bytearray(), zlib.decompressobj(31) if is_gzip else None, True
    try:
        while chunk := response.read(64 * KIB):
            if not unpacker:
                body += chunk
            while unpacker and chunk and not unpacker.eof:
                body += (part := unpacker.decompress(chunk, 64 * KIB))
                exchange.count_bytes(len(part))
                chunk, is_whole = unpacker.unconsumed_tail, unpacker.eof
    except zlib.error as error:
        raise ValueError(f"its answer is not gzip ({error})") from None
    except Unreachable:
        if may_be_cut and exchange.bytes_left < 0:
            return body
        raise
    if response.length or not is_whole:     # http.client says nothing when a bounded read ends early
        raise ValueError("its answer ended early")
    return body

def _redirected(request: Request, target: str) -> Request:
    """The request at a redirect's target, without its secrets if that is another origin."""
    try:
        url = urljoin(request.url, target)
        new, old = urlsplit(ascii_url(url)), urlsplit(request.url)
    except ValueError:
        raise Unreachable("it redirected to something that is not a web address") from None
    if (old.scheme, new.scheme) == ("https", "http"):
        raise Unreachable("it redirected from https to http")
    headers = request.headers
    if new[:2] != old[:2]:
        headers = {name: value for name, value in headers.items() if name.lower() not in SECRET_HEADERS}
    return dataclasses.replace(request, url=url, headers=headers)

class _MailConnection(smtplib.SMTP):
    """A conversation with a mail server within the time and bytes of an exchange."""
    def __init__(self, exchange: _Exchange, tls: ssl.SSLContext, url: urllib.parse.SplitResult) -> None:
        self._exchange, self._tls, self._url = exchange, tls, url
        # The name that it greets with is not looked up: that may take half a minute.
        name = socket.gethostname()
        port = url.port or {"smtp": 25, "smtps": 465}.get(url.scheme, 587)
        super().__init__(url.hostname or "", port, name if "." in name else "[127.0.0.1]")

    def _get_socket(self, host: str, port: int, timeout: Any) -> socket.socket:
        """As smtplib calls it to connect."""
        plain = self._exchange.dial(host, port)
        return self.wrap_socket(plain, host) if self._url.scheme == "smtps" else plain

    def wrap_socket(self, plain: _Socket, server_hostname: str) -> socket.socket:
        """As smtplib calls it of a context for STARTTLS."""
        plain.settimeout(self._exchange.remaining_time(_CONNECT))
        wrapped = self._tls.wrap_socket(plain, server_hostname=server_hostname)
        wrapped.exchange = self._exchange       # type: ignore[attr-defined]
        return wrapped

    def log_in(self, user: str, password: str) -> None:
        """As login() does it, but in UTF-8: https://www.rfc-editor.org/rfc/rfc4616#section-2"""
        if f"{user}{password}".isascii():
            self.login(user, password)
            return
        self.ehlo_or_helo_if_needed()
        secret = base64.b64encode(f"\0{user}\0{password}".encode()).decode()
        code, words = self.docmd("AUTH", f"PLAIN {secret}")
        if code != 235:
            raise smtplib.SMTPAuthenticationError(code, words)

    def hand_over(self, mail: Mail, login: tuple[str, str] | None) -> bytes:
        """What the server says when it has accepted a mail. Raises SMTPResponseException if it does not."""
        if self._url.scheme == "smtp+starttls":
            self.starttls(context=self)     # type: ignore[call-overload]
        if login:
            self.log_in(*login)
        self.ehlo_or_helo_if_needed()
        for ask, value, expected in ((self.mail, mail.sender, {250}), (self.rcpt, mail.recipient, {250, 251}),
                                     (self.data, mail.content, {250})):
            code, words = ask(value)        # type: ignore[arg-type]
            if code not in expected:
                raise smtplib.SMTPResponseException(code, words)
        return words

class Fetcher:
    """Sends requests of providers and of notifications. Shared by all threads."""
    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self.stopping = threading.Event()
        self._clock = clock
        self._lock = threading.Lock()
        self._hosts = Recent[str, _Host](1000)
        self._large = {False: threading.Lock(), True: threading.Lock()}     # True: of users' servers
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Use these settings from the next exchange on."""
        self._settings = settings
        # Servers may echo a log-in. A very short password is part of words that have nothing to do with it.
        logins = filter(None, map(_login_of, (settings.outgoing_proxy, settings.smtp_url)))
        self._mask = masking(*itertools.chain.from_iterable(
            (f"\0{user}\0{password}", f"{user}:{password}", password if len(password) > 5 else "")
            for user, password in logins))
        self.refused_tokens = dict[str, tuple[str, float]]()    # by provider: in words, and until when
        self.outages = dict[str, str]()         # by what could not be found out about versions: why
        with self._lock:
            for host in self._hosts.values():
                host.slots = threading.BoundedSemaphore(settings.host_limit)

    @functools.cached_property
    def _tls(self) -> ssl.SSLContext:
        """Made when it is first needed: reading the certificates takes 20 ms."""
        context = ssl.create_default_context()
        context.sslsocket_class = _SecureSocket
        if not context.cert_store_stats()["x509_ca"]:
            log.warning("certificates: none are trusted here, so no https address can be reached")
        return context

    def fetch(self, request: Request, is_trusted: bool = True,
              large: contextlib.ExitStack | None = None) -> Answer:
        """What a provider answers, redirects followed and gzip undone. ``is_trusted``: also from private
        addresses. ``large``: closed once a large answer was used. Raises Unreachable, Throttled."""
        try:
            name = host_of(ascii_url(request.url))
        except ValueError as error:
            raise Unreachable(str(error)) from None
        with self._lock:
            host = self._hosts[name] = self._hosts.get(name) or _Host(name, self._settings.host_limit)
        wait = host.free_at - self._clock()
        if 0 < wait <= DAY:         # a longer one was asked for before the clock was set back
            raise Throttled(f"{host.name} asked to wait until {timestamp(host.free_at)}", wait)
        slots = host.slots
        if not slots.acquire(timeout=PROVIDER_SECONDS):
            raise Unreachable(f"{host.name} is busy with earlier requests of ours")
        try:
            self._await_turn(host, request)
            answer = self._follow(request, is_trusted or not request.is_user_supplied, large)
        finally:
            slots.release()
        return self._apply_rate_limit(host, answer)

    def post(self, request: Request | Mail, is_trusted: bool) -> Answer:
        """What a receiver answers to a notification, with the beginning of its body. Raises Unreachable."""
        if isinstance(request, Mail):
            return self._mail(request)
        exchange = self._exchange(NOTIFICATION_SECONDS, REPLY_LIMIT, is_trusted)
        with self._open(request, exchange) as response:
            body = b""
            with contextlib.suppress(Unreachable, OSError, http.client.HTTPException, ValueError):
                text = response.read(REPLY_LIMIT // 2).decode("utf-8", "surrogateescape")
                body = self._mask(text).encode("utf-8", "surrogateescape")
            # Without a body its status decides.
            return Answer(request.url, response.status, _headers(response), body, request.url,
                          exchange.address)

    def refusal_of(self, url: str, is_trusted: bool) -> str | None:
        """Why a notification may not go to a URL, as far as its name resolves now."""
        with contextlib.suppress(Unreachable):      # it may resolve when it is needed; judged again then
            for address in _look_up(urlsplit(url).hostname or "", urlsplit(url).port or 80):
                if reason := blocked_reason(address, self._settings.allow_network, is_trusted):
                    return reason
        return None

    def _await_turn(self, host: _Host, request: Request) -> None:
        """Wait until the host's limit allows another request; raise Throttled where that is far off."""
        if not host.paces:
            return
        pace = host.paces[any(name.lower() in SECRET_HEADERS for name in request.headers)]
        while wait := pace.take(time.monotonic()):
            if wait > _PATIENCE:
                until = timestamp(self._clock() + wait)
                more = f", with a token {host.paces[1]}" if str(pace) != str(host.paces[1]) else ""
                raise Throttled(f"{host.name} is asked {pace}{more}; the next one goes out at {until}", wait)
            if self.stopping.wait(wait):
                raise Unreachable("the program is being stopped")

    def _apply_rate_limit(self, host: _Host, answer: Answer) -> Answer:
        """The answer. A host that asks for patience, or whose quota is spent, is left alone for as long."""
        left, wait = requests_left(answer.headers), requested_wait(answer.headers)
        has_wait = answer.status in (403, 503) and "retry-after" in answer.headers
        is_refused = answer.status == 429 or has_wait or answer.status == 403 and left == 0
        if not is_refused and (left != 0 or not wait):
            return answer
        wait = min(max(wait, MINUTE), DAY)
        host.free_at = self._clock() + wait
        if is_refused:
            raise Throttled(f"{host.name} is busy or its quota is spent (status {answer.status}); it is "
                            f"asked again at {timestamp(host.free_at)}", wait, left)
        return answer

    def _exchange(self, seconds: float, most_bytes: int, is_trusted: bool) -> _Exchange:
        return _Exchange(seconds, most_bytes, self._settings, is_trusted, self.stopping)

    def _follow(self, request: Request, is_trusted: bool, large: contextlib.ExitStack | None) -> Answer:
        """The answer at the end of the redirects, each hop judged like the first."""
        exchange = self._exchange(PROVIDER_SECONDS, request.max_response_bytes, is_trusted)
        asked, lock = request.url, self._large[request.is_user_supplied]
        if large:
            exchange.wait_for_large_slot = functools.partial(large.enter_context, lock)
        exchange.address = request.named_by
        exchange.distrust_if_public()
        contact = f"; {self._settings.contact}" if self._settings.contact else ""
        request = dataclasses.replace(request, headers={
            "User-Agent": f"{USER_AGENT} (self-hosted release tracker{contact})", "Accept-Encoding": "gzip",
            **request.headers})
        for _ in range(_REDIRECTS + 1):
            with self._open(request, exchange) as response:
                target = response.headers.get("Location")
                if response.status not in (301, 302, 303, 307, 308) or not target or request.method == "POST":
                    body = _read_body(response, exchange, request.may_be_cut)
                    return Answer(request.url, response.status, _headers(response), body, asked,
                                  exchange.address)
            request = _redirected(request, target)
            exchange.distrust_if_public()
        raise Unreachable(f"it redirected more than {_REDIRECTS} times")

    @contextlib.contextmanager
    def _open(self, request: Request, exchange: _Exchange) -> Iterator[http.client.HTTPResponse]:
        """The answer's head. Raises Unreachable for every way in which none comes, there or in the body."""
        # Where notifications are posted to, the path may be the secret.
        is_shown = request.method in ("GET", "HEAD")
        try:
            url = urlsplit(ascii_url(request.url))
            log.debug("request %s %s%s", request.method, url.netloc, url.path if is_shown else "")
            connection = _Connection(url, exchange, self._tls if url.scheme == "https" else None)
            with contextlib.closing(connection), connection.ask(request) as response:
                yield response
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unreachable(self._mask(_network_error(error))) from error

    def _mail(self, mail: Mail) -> Answer:
        """The mail server's last reply to a message. Raises Unreachable.
        The server is the operator's choice, so it may be anywhere; configured TLS is never left out."""
        url, login = urlsplit(self._settings.smtp_url), _login_of(self._settings.smtp_url)
        if not url.hostname:
            raise Unreachable("no mail server is configured; --smtp-url sets one")
        exchange, code = self._exchange(MAIL_SECONDS, REPLY_LIMIT, is_trusted=True), 250
        try:
            server = _MailConnection(exchange, self._tls, url)
            try:
                words = server.hand_over(mail, login)
            finally:        # what it answers to QUIT does not count
                with contextlib.suppress(OSError, Unreachable):
                    server.quit()
                server.close()
        except smtplib.SMTPResponseException as error:
            # One that accepts is out of turn here: no mail has been handed over.
            code, reply = error.smtp_code if error.smtp_code >= 400 else 0, error.smtp_error
            words = reply if isinstance(reply, bytes) else reply.encode()
        except (OSError, ValueError) as error:
            raise Unreachable(self._mask(f"{url.hostname}: {_network_error(error)}")) from error
        text = self._mask(words.decode("utf-8", "replace"))[:8 * KIB]
        if code != 250 and not 400 <= code < 600:
            raise Unreachable(f"what answers at {url.hostname} does not follow SMTP: {text[:100]!r}")
        return Answer("", code, {}, text.encode(), address=exchange.address)


# == providers =================================================================
# Where projects are released. A provider is a row; the protocol that it speaks is a dialect: a
# generator that yields requests, is sent the answers and returns a listing. Nothing here opens a
# socket or looks at a clock, so recorded answers test it whole.

@dataclasses.dataclass(frozen=True)
class ProjectRef:
    provider: str                   # its id
    site: str                       # the address of its server, without a slash at its end
    name: str                       # there
    token: str | None
    auth: Mapping[str, str]         # the headers with the token
    read_known: Callable[[], Mapping[str, Release]]
    kept: dict[str, str]            # what a dialect keeps for the next check, until one fails
    installed: Collection[str] = ()     # versions that run somewhere

    @property
    def known(self) -> Mapping[str, Release]:
        """What the store has, by version, newest first."""
        return self.read_known()

@dataclasses.dataclass(frozen=True)
class Listing:
    releases: Sequence[Release]
    cache_validator: Answer | None = None   # the answer whose 304 next time means that nothing is new
    is_window: bool = False         # only the newest: what is older than everything known is no news
    name: str | None = None         # the project's present name there, if that is another
    # The kinds of content id of what is gone if it is not listed: another list says nothing. None: all.
    kinds: Collection[str] | None = None
    tags: Collection[str] = ()      # versions that are there, but not listed

Exchange = Generator[Request, Answer, Any]
# What a dialect raises over an answer of another shape.
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
_UNAVAILABLE = (403, 404)           # one list of a project that may have another
_DOCUMENT_LIMIT = 2 * MIB           # of an image's manifest and configuration, a go.mod, a module's list
_REQUEST_LIMIT = 300                # of one check
_READ_LIMIT = 20 * MIB              # of a list's pages together, beyond which no further one is asked for

def make_release(version: Any, date: str | None = None, *, title: str | None = None,
                 message: str | None = None, url: str = "", is_prerelease: bool = False,
                 content: tuple[str, Any] = ("", None), original: str = "") -> Release:
    """A release of what a dialect read. ``content``: the kind and value of its content id; none without a
    value. Raises TypeError, ValueError."""
    if not isinstance(version, str):
        raise TypeError(f"a version is {version!r:.40}, not text")
    message = (message or "")[:NOTE_LIMIT]
    title = (title or "").strip()[:NAME_LIMIT] or version
    note = Note(title, message, url, original) if message.strip() else None
    content_id = ":".join(map(str, content))[:KIB] if content[1] else None
    return Release(version, utc(date), bool(is_prerelease), cves_in(title, message), note, content_id)

def _highest(versions: Iterable[str]) -> list[str]:
    """Of the versions of a list without dates those that are kept, before releases are made of them."""
    sane = (version for version in versions if len(version) <= NAME_LIMIT)
    return heapq.nlargest(RELEASE_LIMIT, sane, key=version_order)

def _tag(entry: Any, date: str | None, commit: str | None, url: str = "") -> Release:
    return make_release(entry["name"], date, message=preformatted(entry.get("message") or ""), url=url,
                        content=("commit", commit))

def _image(project: ProjectRef, tag: str, date: str | None, digest: str | None,
           platforms: Iterable[str | None] = ()) -> Release | None:
    if is_left_out(tag, project.installed):
        return None
    parts = [one[:19] for one in platforms if one] if digest and tag in project.installed else []
    return make_release(tag, date, content=("digest", " ".join([digest or "", *parts])))

def _next_page(answer: Answer, named_in_body: str | None = None) -> str | None:
    """The address of the next page, by the body or the Link header (RFC 8288): always on the host that was
    asked, for the token goes only there: of a link elsewhere, as from servers that do not know their own
    address, only the query is used."""
    links = re.finditer(r"<([^<>]*)>([^<]*)", answer.headers.get("link", ""))
    link = named_in_body or next(
        (link[1] for link in links if re.search(r";\s*rel=\"?next\b", link[2], re.IGNORECASE)), "")
    url, asked = urlsplit(urljoin(answer.url, link)), urlsplit(answer.asked)
    if url[:2] != asked[:2]:
        url = asked._replace(query=url.query)
    return url.geturl() if link and url.query else None

def _pages(project: ProjectRef, request: Request, release_of: Callable[[Any], Release | None],
           within: str = "", is_sorted: bool = True,
           next_of: Callable[[Any], str | None] = lambda page: page.get("next")) -> Exchange:
    """The listing of page after page until one has nothing new; at most ten. ``within``: the list in an
    object, where ``next_of`` finds the next page. A known release with another content id is new: a rebuilt
    image stands first."""
    def is_old(release: Release) -> bool:
        before = project.known.get(release.version)
        return before is not None and before.content in ("", release.content)
    first, releases, size = None, list[Release](), 0
    for _ in range(10):
        answer = yield request
        first = first or answer
        if answer.status in _UNAVAILABLE:
            break
        page = answer.json()
        found = _readable(release_of, _expect_list(page[within] if within else page))
        releases, size = [*releases, *found], size + len(answer.body)
        url = _next_page(answer, next_of(page) if within else None)
        if not url or size > _READ_LIMIT or is_sorted and found and all(map(is_old, found)):
            break
        request = dataclasses.replace(request, url=url)
    return Listing(releases, first)

def _readable(release_of: Callable[[Any], Release | None], entries: Sequence[Any]) -> list[Release]:
    """The releases of the entries that can be read. Raises what the first raises if all, or ten, are odd."""
    found = list[Release | None]()
    for at, entry in enumerate(entries):
        with contextlib.suppress(*_UNREADABLE):     # not kept: an error holds all that was read
            found.append(release_of(entry))
        if at > 8 and not found:
            break
    if entries and not found:
        release_of(entries[0])
    return list(filter(None, found))

def _expect_list(value: Any) -> list[Any]:
    """The value, which must be a list: an object could be iterated as well, and an empty one be no error."""
    if not isinstance(value, list):
        raise ValueError(f"it answered no list but {type(value).__name__}")
    return value

def _renamed_to(releases: Answer, headers: Mapping[str, str]) -> Exchange:
    """The new name of a project whose list of releases its host redirects to its own address, else None."""
    if releases.url == releases.asked or urlsplit(releases.url)[:2] != urlsplit(releases.asked)[:2]:
        return None
    about = yield Request(releases.url.partition("/releases?")[0], headers, accept_statuses=_UNAVAILABLE)
    found = about.json() if about.status == 200 else {}
    name = found.get("full_name") or found.get("path_with_namespace")
    return name if isinstance(name, str) else None

def _above(project: ProjectRef, releases: Sequence[Release], tags: Sequence[Release]) -> list[Release]:
    """The tags without a release that are above the newest final release of their kind of name, if one of
    them is final. Where no final release is a plain version, as of "nightly" alone, all tags that are."""
    rules = GENERIC.of(project.name)

    def placed(release: Release) -> tuple[Any, VersionOrder, bool]:
        parts = rules.parts(release.version)
        return parts.family, rules.order(release.version), bool(parts.numbers) and not parts.name

    def is_final(release: Release) -> bool:
        return not (release.is_prerelease or GENERIC.is_prerelease(release.version))
    finals = sorted(map(placed, filter(is_final, releases)), key=lambda one: one[1])
    highest, has_plain = {family: order for family, order, _ in finals}, any(plain for *_, plain in finals)
    released = {one.version for one in releases}
    found = [tag for tag, (family, order, is_plain) in zip(tags, map(placed, tags)) if (
        order > highest[family] if family in highest else is_plain and not has_plain and is_final(tag))
        and tag.version not in released]
    return found if any(map(is_final, found)) else []

def _releases_or_tags(project: ProjectRef, releases_url: str, tags_url: str,
                      release_of: Callable[[Any], Release | None], tag_of: Callable[[Any], Release],
                      headers: Mapping[str, str],
                      newest: Callable[[ProjectRef], Exchange] | None = None) -> Exchange:
    """The listing of a repository's releases with the tags above them, or of its tags where it has none.
    ``newest``: a feed of the newest tags, where pages of tags are in no order."""
    request = Request(releases_url, headers, accept_statuses=_UNAVAILABLE)
    listing = yield from _pages(project, request, release_of)
    answer = listing.cache_validator
    moved = yield from _renamed_to(answer, headers)
    if listing.releases:
        request = Request(tags_url, headers, accept_statuses=(401, *_UNAVAILABLE))
        page = None if "tags" in project.kept else (yield request)
        has_more = page is None or _next_page(page) is not None
        tags, kinds = list[Release](), ["published"]
        if page and page.status == 200:
            tags = _readable(tag_of, _expect_list(page.json()))
            kinds += ["commit"] * (not has_more)
        if newest and has_more:
            found = (yield from newest(project)).releases
            project.kept.update({"tags": "of the feed"} if found else {})
            tags = [*found, *tags]
        above = _above(project, listing.releases, tags)
        # The ETag of the releases says nothing about the tags; where there are some, both are read.
        return Listing([*listing.releases, *above], None if above else answer, True, moved, kinds,
                       {one.version for one in tags})
    # Tags may be missing where there is a list of releases, though an empty one.
    request = Request(tags_url, headers, accept_statuses=_UNAVAILABLE if answer.status == 200 else ())
    listing = yield from _pages(project, request, tag_of, is_sorted=newest is None)
    if answer.status != 200 and any(        # its tags would all be news
            before.content_kind == "published" for before in project.known.values()):
        raise ProviderError(f"{project.provider} no longer shows the releases of {project.name}")
    return dataclasses.replace(listing, name=moved)

def _published(entry: Any, url: str = "") -> Release | None:
    """A forge's release, if it is out."""
    if entry.get("draft") or entry.get("upcoming_release"):
        return None
    date = entry["published_at"] if "published_at" in entry else entry["released_at"]
    text = entry.get("body") or entry.get("description") or ""
    shown = entry.get("body_html") or entry.get("description_html")
    return make_release(entry["tag_name"], date, title=entry.get("name"), url=url or entry["html_url"],
                        message=shown or preformatted(text), original="" if shown else text,
                        is_prerelease=entry.get("prerelease", False), content=("published", date))

def _any_date(text: str) -> str | None:
    """A date as services write it: ISO 8601, RFC 822, a day, (milli)seconds since the epoch; else None."""
    if re.fullmatch("[0-9]{9,13}", text):
        return timestamp(int(text) / (1000 if len(text) > 11 else 1))
    with contextlib.suppress(ValueError, OverflowError):
        return utc(f"{text}T00:00:00Z" if len(text) == 10 else text or None)
    with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError):
        return utc(email.utils.parsedate_to_datetime(text).isoformat())
    return None

_ENCODING = re.compile(
    rb"(?i)<\?xml[^<>]{0,200}encoding=[\"']((?:iso|latin|mac|win|cp|gb|big5|shift|euc|koi8|ks_c)[\w-]{1,25})")
# An element of a feed's entry, without its prefix, up to the next tag of the same name; some have titles too.
_ELEMENT = re.compile(
    r"<(?:[\w.-]++:)?(title|link|pubDate|published|date|updated|content|encoded|description|summary|source|"
    r"image|author|group)(?![\w.-])([^<>]*?)(?:/>|>((?:[^<]|<(?!/?(?:[\w.-]++:)?\1(?![\w.-])))*+))")

def _xml_text(body: bytes | bytearray) -> str:
    """The first 2 MiB of XML in whatever encoding, its data escaped, without comments, controls, definitions.
    Raises LookupError for an unknown encoding."""
    declared = _ENCODING.search(body, 0, KIB)
    name = declared[1].decode().lower() if declared else "utf-8"
    name = "utf-16" if body[:2] in (b"\xff\xfe", b"\xfe\xff") else name
    name = "gb18030" if name == "gb2312" else name      # mostly its successor
    text = UNSTORABLE.sub("", body[:2 * MIB].decode(name, "replace"))
    return re.sub(r"<!\[CDATA\[(.*?)(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?[^<>]*>|"
                  r"<!DOCTYPE[^<>\[]*+(?:\[.*?(?:\]\s*>|\Z)|>)?",
                  lambda part: html.escape(part[1] or "", quote=False), text, flags=re.DOTALL)

def _feed_entries(answer: Answer, is_loose: bool = False) -> list[dict[str, Any]]:
    """The entries of an Atom or RSS feed, well-formed or not: title, link, date, description. ``is_loose``:
    without a date, too, of JSON (https://www.jsonfeed.org), of a part. Raises ValueError, LookupError."""
    if is_loose and answer.body[:200].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return [{"title": one.get("title") or "", "link": urljoin(answer.url, one.get("url") or ""),
                 "date": _any_date(one.get("date_published") or one.get("date_modified") or ""),
                 "description": one.get("content_html") or preformatted(one.get("content_text") or "")}
                for one in _expect_list(answer.json()["items"])]
    text, entries = _xml_text(answer.body), list[dict[str, Any]]()
    if not re.search(r"<(?:\w+:)?(?:feed|RDF|rss\b[^<>]*>\s*<channel)(?![\w.-])", text[:64 * KIB]):
        raise ValueError("it answered no feed")
    if not (is_loose or re.search(r"</(?:[\w.-]+:)?(?:feed|RDF|rss)\s*>", text[-KIB:]) or len(text) > MIB):
        raise ValueError("it answered only a part of a feed")
    parts = re.split(r"</?(?:[\w.-]++:)?(?:item|entry)(?:\s[^<>]*)?(?<!/)>", text,
                     maxsplit=2 * RELEASE_LIMIT)
    for part in parts[1:-1:2]:      # between those are the feed's own elements
        texts = dict[str, str]()
        for element in _ELEMENT.finditer(part):
            name, markup = element[1], (element[3] or "").strip()
            value = html.unescape(re.sub("<[^<>]*>", "", markup))
            if "<" in markup and name in ("content", "summary", "description"):     # of type xhtml
                value = re.sub(r"<(/?)[\w.-]{1,40}:", r"<\1", markup)
            if name == "link":
                link = re.search(r"""\bhref\s*=\s*(["'])(.*?)\1""", element[2], re.DOTALL)
                is_other = link and re.search(r"""\brel=["'](?!alternate["'])""", element[2])
                value = "" if is_other else urljoin(answer.url, html.unescape(link[2]) if link else value)
            texts[name] = texts.get(name) or value
        date, about = (next(filter(None, map(texts.get, names.split())), "") for names in (
            "pubDate published date updated", "content encoded description summary"))
        entries.append({"title": texts.get("title", ""), "link": texts.get("link", ""),
                        "date": _any_date(date), "description": about})
    return [entry for entry in entries if is_loose or entry["date"]]

def _github_feed(project: ProjectRef, is_extra: bool = False) -> Exchange:
    """The newest ten of releases.atom, which has tags without a release too; tags.atom if it is empty.
    ``is_extra``: nothing where there is none, as of a private repository."""
    for feed in ("releases", "tags"):
        url = f"{project.site}/{project.name}/{feed}.atom"
        answer = yield Request(url, {"Accept": "application/atom+xml"},
                               accept_statuses=range(300, 600) if is_extra else ())
        if is_extra and (answer.status != 200 or b"<feed" not in answer.body[:KIB]):
            return Listing([])
        if entries := _feed_entries(answer):
            break
    moved = answer.url.removeprefix(f"{project.site}/").removesuffix(f"/{feed}.atom")
    return Listing([make_release(unquote(tag[1]), one["date"], title=one["title"], url=one["link"],
                                 message=one["description"]) for one in entries
                    if (tag := re.search("/(?:releases/tag|tree)/(.+)", urlsplit(one["link"]).path))],
                   answer, True, moved if answer.url.startswith(project.site) else None, ("",))

def github(project: ProjectRef) -> Exchange:
    """https://docs.github.com/en/rest/releases/releases; without a token the feeds, which have no quota. The
    ETag of releases counts downloads, so few are asked for. Tags come in no documented order and without
    dates, so every page is read; the newest ten that are unknown have the date of their commit."""
    if not project.token:
        return (yield from _github_feed(project))
    is_public = project.site == "https://github.com"
    at = f"{'https://api.github.com' if is_public else project.site + '/api/v3'}/repos/{project.name}"
    headers = {**project.auth, "Accept": "application/vnd.github.html+json",
               "X-GitHub-Api-Version": "2022-11-28"}
    listing = yield from _releases_or_tags(
        project, f"{at}/releases?per_page={30 if project.known else 100}", f"{at}/tags?per_page=100",
        _published, lambda entry: _tag(entry, None, entry["commit"]["sha"]), headers,
        lambda it: _github_feed(it, is_extra=True))
    commits = {release.version: (release.content_id or "").partition(":")[2] for release in listing.releases
               if not release.date}
    dates = dict[str, str]()
    for version in sorted(commits.keys() - project.known.keys(), key=version_order, reverse=True)[:10]:
        commit = yield Request(f"{at}/commits/{commits[version]}", headers, accept_statuses=range(400, 600))
        if commit.status == 200:
            dates[version] = commit.json()["commit"]["committer"]["date"]
    return dataclasses.replace(
        listing, releases=[dataclasses.replace(one, date=one.date or utc(dates.get(one.version)))
                           for one in listing.releases],
        cache_validator=listing.cache_validator if listing.is_window else None)

def gitlab(project: ProjectRef) -> Exchange:
    """https://docs.gitlab.com/api/releases/, else https://docs.gitlab.com/api/tags/"""
    at = f"{project.site}/api/v4/projects/{quote(project.name, safe='')}"
    page = f"{project.site}/{project.name}/-"

    def tag_of(entry: Any) -> Release:
        commit = entry.get("commit") or {}
        date = entry.get("created_at") or commit.get("created_at") or commit.get("committed_date")
        return _tag(entry, date, commit.get("id"), f"{page}/tags/{quote(entry['name'], safe='')}")
    return (yield from _releases_or_tags(
        project, f"{at}/releases?per_page=100&order_by=released_at&sort=desc&include_html_description=true",
        f"{at}/repository/tags?per_page=100&order_by=updated&sort=desc",
        lambda entry: _published(entry, f"{page}/releases/{quote(entry['tag_name'], safe='')}"),
        tag_of, project.auth))

def forgejo(project: ProjectRef) -> Exchange:
    """https://codeberg.org/api/swagger, for Forgejo and Gitea. The feed, with HTML, is read for new notes."""
    at = f"{project.site}/api/v1/repos/{project.name}"
    listing = yield from _releases_or_tags(
        project, f"{at}/releases?draft=false&page=1&limit=50", f"{at}/tags?page=1&limit=50", _published,
        lambda entry: _tag(entry, entry["commit"]["created"], entry["commit"]["sha"],
                           f"{project.site}/{project.name}/src/tag/{quote(entry['name'])}"), project.auth)
    fingerprints = {version: before.fingerprint for version, before in project.known.items()}
    if not listing.is_window or all(not one.note or one.note.fingerprint == fingerprints.get(one.version)
                                    for one in listing.releases):
        return listing
    feed = yield Request(f"{project.site}/{project.name}/releases.rss", project.auth,
                         accept_statuses=(401, *_UNAVAILABLE))
    notes = {unquote(item["link"].rpartition("/releases/tag/")[2]): item["description"][:NOTE_LIMIT]
             for item in (_feed_entries(feed) if feed.status == 200 else ())}
    return dataclasses.replace(listing, releases=[
        dataclasses.replace(one, note=dataclasses.replace(one.note, message=notes[one.version]))
        if one.note and notes.get(one.version) else one for one in listing.releases])

_MANIFESTS = ("application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
              "application/vnd.docker.distribution.manifest.list.v2+json, "
              "application/vnd.docker.distribution.manifest.v2+json")
_DETAILS_PER_CHECK = 5      # tags or changelogs that one check asks for; a list has neither dates nor changes

def _oci_answer(project: ProjectRef, request: Request) -> Exchange:
    """The answer to a request, with a token where the registry wants one, which is kept until it is refused.
    https://distribution.github.io/distribution/spec/auth/token/"""
    access = project.kept
    passes = (*request.accept_statuses, 401, *([403] if access else []))
    answer = yield dataclasses.replace(request, headers={**request.headers, **access}, accept_statuses=passes)
    if answer.status == 403 and access:     # may have expired
        access.clear()
        return (yield from _oci_answer(project, request))
    if answer.status != 401:
        return answer
    challenge = answer.headers.get("www-authenticate", "")
    is_redirected = urlsplit(answer.url)[:2] != urlsplit(project.site)[:2]
    basic = {} if is_redirected else project.auth       # the token is for the site only
    bearer = re.search(r'bearer\s+((?:\w{1,40}="[^"]{0,2000}"[\s,]{0,9}){1,9})', challenge, re.IGNORECASE)
    if bearer:
        asked = dict(re.findall(r'\b(\w+)="([^"]*)"', bearer[1]))
        realm = urljoin(answer.url, asked["realm"])
        query = drop_empty(service=asked.get("service"), scope=f"repository:{project.name}:pull")
        separator = "&" if "?" in realm else "?"
        token = (yield Request(f"{realm}{separator}{urllib.parse.urlencode(query)}", basic)).json()
        access["Authorization"] = f"Bearer {token.get('token') or token['access_token']}"
    else:
        access.update(basic)
    return (yield dataclasses.replace(request, headers={**request.headers, **access}))

# Where an image says when it was built, what it is built from, the surest first, and on what.
_CREATED, *SOURCE_LABELS = [f"org.{key}" for key in (
    "opencontainers.image.created opencontainers.image.source label-schema.vcs-url opencontainers.image.url "
    "opencontainers.image.base.name").split()]

def _oci_labels(project: ProjectRef, reference: str, wanted: Collection[str]) -> Exchange:
    """``(the digest of an image, what it says of itself)`` by annotations of its index, or of the first image
    there, or of that one's manifest, or by its configuration, up to where one of the ``wanted`` stands."""
    path, digest, labels = f"manifests/{reference}", "", dict[str, str]()
    while path and not any(map(labels.get, wanted)):
        answer = yield from _oci_answer(project, Request(
            f"{project.site}/v2/{project.name}/{path}", {"Accept": _MANIFESTS} if path[0] == "m" else {},
            accept_statuses=_UNAVAILABLE, max_response_bytes=_DOCUMENT_LIMIT))
        if answer.status != 200:
            break
        digest, found = digest or answer.headers.get("docker-content-digest", ""), answer.json()
        image: dict[str, Any] = next((one for one in found.get("manifests") or () if (
            one.get("platform", {}).get("os") != "unknown")), {})
        config = found.get("config") or {}
        for said in (found.get("annotations"), image.get("annotations"), {_CREATED: found.get("created")},
                     config.get("Labels")):
            labels = {key: text[:KIB] for key, text in (said or {}).items() if isinstance(text, str)} | labels
        path = f"manifests/{image['digest']}" if image else (
            f"blobs/{config['digest']}" if "digest" in config else "")
    return digest, labels

def oci(project: ProjectRef) -> Exchange:
    """https://github.com/opencontainers/distribution-spec/blob/main/spec.md#listing-tags, in no order."""
    at = f"{project.site}/v2/{project.name}"
    url: str | None = f"{at}/tags/list?n=1000"
    tags, size, pages = dict[str, None](), 0, 0
    dates, digests = dict[str, str](), dict[str, str]()      # of Google's registries they stand in the list
    while url and size <= _READ_LIMIT and pages < 100:
        answer = yield from _oci_answer(project, Request(url))
        page, url, size, pages = answer.json(), _next_page(answer), size + len(answer.body), pages + 1
        tags |= dict.fromkeys(tag for tag in page["tags"] or () if not is_left_out(tag, project.installed))
        for digest, manifest in (page.get("manifest") or {}).items():
            for tag in manifest["tag"]:
                digests[tag] = digest
                dates[tag] = timestamp(int(manifest.get("timeUploadedMs") or 0) / 1000)
    if not digests:
        installed = [tag for tag in project.installed if tag in tags]
        tags = dict.fromkeys([*installed, *_highest(tags)])
        numbered = sorted((tag for tag in tags if re.search("[0-9]", tag)), key=version_order, reverse=True)
        for tag in [tag for tag in dict.fromkeys([*installed, *numbered])
                    if tag not in project.known][:_DETAILS_PER_CHECK]:
            digests[tag], labels = yield from _oci_labels(project, tag, [_CREATED])
            dates[tag] = _any_date(labels.get(_CREATED, "")) or ""      # the image's author wrote it
        known = [tag for tag in numbered if tag in project.known]
        watched = [*installed, *({"latest"} & tags.keys()), *known]
        for tag in list(dict.fromkeys(watched))[:_DETAILS_PER_CHECK]:
            request = Request(f"{at}/manifests/{tag}", {"Accept": _MANIFESTS}, "HEAD",
                              accept_statuses=_UNAVAILABLE)
            answer = yield from _oci_answer(project, request)
            digests[tag] = answer.headers.get("docker-content-digest", "")
    return Listing([make_release(tag, dates.get(tag) or None, content=("digest", digests.get(tag)))
                    for tag in tags])

def dockerhub(project: ProjectRef) -> Exchange:
    """https://docs.docker.com/reference/api/hub/latest/: the last pushed first."""
    url = f"{project.site}/v2/repositories/{project.name}/tags?page_size=100&ordering=last_updated"
    return (yield from _pages(project, Request(url, project.auth), lambda entry: _image(
        project, entry["name"], entry.get("tag_last_pushed") or entry.get("last_updated"),
        entry.get("digest"), (one.get("digest") for one in entry.get("images") or ())),
        "results"))

def quay(project: ProjectRef) -> Exchange:
    """https://docs.quay.io/api/swagger/: the tags that are not expired, the last moved first."""
    at = f"{project.site}/api/v1/repository/{project.name}/tag/?limit=100&onlyActiveTags=true&page="
    return (yield from _pages(project, Request(f"{at}1", project.auth), lambda entry: _image(
        project, entry["name"], timestamp(entry["start_ts"]), entry.get("manifest_digest")), "tags",
        next_of=lambda page: f"{at}{int(page['page']) + 1}" if page.get("has_additional") else None))

# The systems of https://docs.deps.dev/api/v3/, by provider id.
_DEPSDEV_SYSTEMS = {"pypi": "PYPI", "npm": "NPM", "go": "GO", "maven": "MAVEN", "cargo": "CARGO",
                    "nuget": "NUGET", "gems": "RUBYGEMS"}

def _deprecation(reason: Any) -> str:
    """The note of a package's version that its registry calls deprecated, with the reason if it has one."""
    text = f"Deprecated: {reason}" if isinstance(reason, str) else "Deprecated."
    return preformatted(text) if reason else ""

def _ahead_of(latest: str | None) -> Callable[[str], bool]:
    """Whether a version is above npm's ``latest``, and so for those who ask for it, as by "next"."""
    last = semver_order(latest) if latest else None
    return lambda version: last is not None and semver_order(version) > last

def depsdev(project: ProjectRef) -> Exchange:
    """https://docs.deps.dev/api/v3/#getpackage: all versions in one document, in no promised order."""
    package = f"{_DEPSDEV_SYSTEMS[project.provider]}/packages/{quote(project.name, safe='')}"
    answer = yield Request(f"{project.site}/v3/systems/{package}")
    entries = _expect_list(answer.json()["versions"])
    defaults = [entry["versionKey"]["version"] for entry in entries if entry.get("isDefault")]
    is_ahead = _ahead_of(defaults[0] if defaults and project.provider == "npm" else None)
    return Listing([make_release(
        version := entry["versionKey"]["version"], entry.get("publishedAt"), is_prerelease=is_ahead(version),
        message=_deprecation(entry.get("deprecatedReason") or entry.get("isDeprecated")))
        for entry in entries], answer)

def npm(project: ProjectRef) -> Exchange:
    """https://github.com/npm/registry/blob/main/docs/responses/package-metadata.md
    The short form shows whether anything is new; only then the long one, which has the dates, is read."""
    url = f"{project.site}/{quote(project.name, safe='@')}"
    accept = "application/vnd.npm.install-v1+json, application/json;q=0.5"
    short = yield Request(url, {**project.auth, "Accept": accept})
    package = short.json()
    times = package.get("time")
    versions = {} if times and "unpublished" in times else package["versions"]
    if not isinstance(versions, dict):
        raise ValueError("it answered no versions")
    if times is None and any(version not in project.known for version in versions):
        answer = yield Request(url, {**project.auth, "Accept": "application/json"})
        # It may be too large to be parsed: of what is called so in it, the longest has the dates.
        found = (match[1] for match in re.finditer(rb'"time"\s*:\s*(\{[^{}]*\})', answer.body))
        times = read_json(max(found, key=len, default=b"{}"))
    is_ahead = _ahead_of((package.get("dist-tags") or {}).get("latest"))
    return Listing([make_release(version, (times or {}).get(version), is_prerelease=is_ahead(version),
                                 message=_deprecation(about.get("deprecated")))
                    for version, about in versions.items()], short)

# How versions stand in the names of files and folders, in titles and in texts.
_SUFFIX = r"(?:[-_. ]?(?:alpha|beta|rc|pre|dev|a|b|p|patch)[-_.]?[0-9]*)?"
_DOTTED = rf"[0-9]+(?:\.[0-9]+[a-z]?)+{_SUFFIX}"
_IN_FILE = [re.compile(rf"[-_ ]v?({number})(?![0-9a-z])", re.ASCII | re.IGNORECASE)
            for number in (_DOTTED, "[0-9]+" + _SUFFIX)]
_ARCHITECTURE = re.compile(r"(?i)x86[-_]64|amd64|arm64|(?:win|linux|mac|utf)[-_]?(?:8|16|32|64)(?![0-9])")
_SIDE_FILE = re.compile(r"(?i)readme.*|.*\.(?:asc|sig|sha[0-9]+|sha[0-9]+sums?|md5|txt)")
_ARCHIVE = re.compile(r"\.(?:tar\.(?:gz|bz2|xz|Z)|tgz|zip|whl|egg)$")
_PACKED = re.compile(r"(?i)\.(?:tar(?:\.\w+)?|t[gbx]z|zip|7z|exe|msi|dmg|pkg|apk|deb|rpm|jar|whl|appimage)$")
_NUMBERED = re.compile(rf"(?:{_DOTTED}|[0-9]+{_SUFFIX})(?:[-_+][0-9]+)*", re.ASCII | re.IGNORECASE)
_IN_TITLE = re.compile(r"(?<![0-9.])(?![0-9]{1,2}\.[0-9]{1,2}\.(?:19|20)[0-9]{2}\b)"       # no date
                       r"([0-9]+(?:\.[0-9]+)+[\w.+~-]{0,50})|\Av?([0-9][\w.+~-]*)\Z", re.ASCII)
# The heading of a version in a changelog that is text, and in one that is HTML.
_TEXT_HEADING = re.compile(r"^(?:[=#*][=#* \t]*)?(?:version |release )?[v\[]*([0-9]+\.[0-9][\w.-]*)",
                           re.ASCII | re.IGNORECASE | re.MULTILINE)
_HTML_HEADING = re.compile(r"<h[1-6][^<>]*>(?:[^<]|<(?!/?h[1-6])[^<>]*>)*?(?<![\w.])v?([0-9]+(?:\.[0-9]+)+)",
                           re.ASCII | re.IGNORECASE)

def _simple_files(page: str) -> list[dict[str, Any]]:
    """The files of an index's HTML page, shaped like the JSON form. Raises ValueError for another page."""
    files = list[dict[str, Any]]()
    for link, text in re.findall(r"<a\s([^<>]{0,4000})>([^<>]{0,1000})", page, re.IGNORECASE):
        href = re.search(r"""(?<![\w-])href\s*=\s*["']([^"'<>]*)""", link, re.IGNORECASE)
        name = unquote(urlsplit(html.unescape(href[1] if href else "")).path.rpartition("/")[2])
        files.append({"filename": name if _ARCHIVE.search(name) else html.unescape(text).strip(),
                      "yanked": bool(re.search(r"(?i)(?:^|[\s\"'])data-yanked(?=[\s=]|$)", link))})
    if page.strip() and not any(_ARCHIVE.search(file["filename"]) for file in files):
        raise ValueError("it answered a web page that lists no files")
    return files

def pep503(name: str) -> str:
    """https://packaging.python.org/en/latest/specifications/name-normalization/"""
    return re.sub(r"[-_.]+", "-", name).lower()

def _version_of_file(filename: str, name: str) -> str | None:
    """The version in the name of a package's file; None for other files."""
    spelled, end = "[-_.]+".join(map(re.escape, name.split("-"))), _ARCHIVE.search(filename)
    version = "[^-]*" if filename.endswith((".whl", ".egg")) else ".*"
    match = re.match(f"{spelled}-({version})", filename[:end.start()], re.IGNORECASE) if end else None
    return match[1] if match else None

def simple(project: ProjectRef) -> Exchange:
    """https://packaging.python.org/en/latest/specifications/simple-repository-api/, JSON or HTML.
    A version's date is that of its earliest file; one whose files are all yanked is left out."""
    headers = {**project.auth, "Accept": "application/vnd.pypi.simple.v1+json, "
                                         "application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"}
    answer = yield Request(f"{project.site}/{project.name}/", headers, accept_statuses=(404,))
    if answer.status == 404:        # the folder of the protocol is often left out of an index's address
        answer = yield Request(f"{project.site}/simple/{project.name}/", headers)
    is_json = "json" in answer.headers.get("content-type", "")
    index: dict[str, Any] = answer.json() if is_json else {"files": _simple_files(answer.text())}
    dates, yanked = dict[str, list[str]](), dict[str, bool]()
    for file in _expect_list(index["files"]):
        if version := _version_of_file(file["filename"], project.name):
            dates.setdefault(version, []).append(utc(file.get("upload-time")) or "")
            yanked[version] = yanked.get(version, True) and file.get("yanked", False) is not False
    for listed in index.get("versions") or ():
        dates.setdefault(listed, [])
    return Listing([make_release(version, min(filter(None, found), default=None))
                    for version, found in dates.items() if not yanked.get(version)], answer)

def bitbucket(project: ProjectRef) -> Exchange:
    """https://developer.atlassian.com/cloud/bitbucket/rest/api-group-refs/: tags; it has no releases."""
    url = f"{project.site}/2.0/repositories/{project.name}/refs/tags?sort=-target.date&pagelen=100"

    def tag_of(entry: Any) -> Release:
        target = entry.get("target") or {}
        return _tag(entry, entry.get("date") or target.get("date"), target.get("hash"),
                    f"https://bitbucket.org/{project.name}/src/{quote(entry['name'])}")
    return (yield from _pages(project, Request(url, project.auth), tag_of, "values"))

def sourcehut(project: ProjectRef) -> Exchange:
    """https://man.sr.ht/git.sr.ht/: the feed of a repository's refs, each item a tag with its message."""
    answer = yield Request(f"{project.site}/{project.name}/refs/rss.xml")
    return Listing([make_release(item["title"], item["date"], message=item["description"], url=item["link"])
                    for item in _feed_entries(answer)], answer, is_window=True)

def _version_of_path(path: str, project: str) -> str | None:
    """The version of ``/stable/1.2/foo-1.2.tar.gz``: its deepest folder named by one, else its file."""
    *folders, file = path.strip("/").split("/")
    if _SIDE_FILE.fullmatch(file):
        return None
    file = _ARCHITECTURE.sub("", file)
    in_folder = re.compile(rf"(?:{re.escape(project)}[-_ ]?)?v?({_DOTTED})", re.ASCII | re.IGNORECASE)
    found = next(filter(None, map(in_folder.fullmatch, reversed(folders))), None) or next(
        filter(None, (pattern.search(file) for pattern in _IN_FILE)), None)
    return found[1] if found else None

def sourceforge(project: ProjectRef) -> Exchange:
    """https://sourceforge.net/p/forge/documentation/RSS/: the newest files; each version's are a release."""
    answer = yield Request(f"{project.site}/projects/{project.name}/rss?path=/")
    files = sorted(_feed_entries(answer), key=lambda item: item["date"])     # the first counts
    return Listing([make_release(version, item["date"]) for item in files
                    if (version := _version_of_path(item["title"], project.name))], answer, is_window=True)

def rubygems(project: ProjectRef) -> Exchange:
    """https://guides.rubygems.org/rubygems-org-api/#gem-version-methods: a number once for each platform."""
    answer = yield Request(f"{project.site}/api/v1/versions/{project.name}.json")
    entries = sorted(_expect_list(answer.json()), key=lambda one: one["created_at"])    # the first counts
    return Listing([make_release(entry["number"], entry["created_at"], is_prerelease=entry["prerelease"])
                    for entry in entries], answer)

def packagist(project: ProjectRef) -> Exchange:
    """https://packagist.org/apidoc#get-package-data: where it is minified, each entry has what differs from
    the one before. Of some servers the entries are an object, by version."""
    answer = yield Request(f"{project.site}/p2/{project.name}.json", project.auth)
    document = answer.json()
    found, entries, last = document["packages"][project.name], [], dict[str, Any]()
    for entry in list(found.values()) if found and isinstance(found, dict) else _expect_list(found):
        last = {name: value for name, value in {**(last if "minified" in document else {}), **entry}.items()
                if value != "__unset" and name in ("version", "time", "source")}
        entries.append(last)
    return Listing([make_release(
        entry["version"], entry.get("time"), content=("commit", (entry.get("source") or {}).get("reference")))
        for entry in entries if not re.match(r"dev-|.*-dev$", entry["version"])], answer)

def nuget(project: ProjectRef) -> Exchange:
    """https://learn.microsoft.com/en-us/nuget/api/registration-base-url-resource: pages, the newest last."""
    index = project.site if project.site.endswith(".json") else f"{project.site}/v3/index.json"
    if "base" not in project.kept:
        answer = yield Request(index)
        bases = {one["@type"]: one["@id"] for one in answer.json()["resources"]}
        project.kept.update(base=bases.get("RegistrationsBaseUrl/3.6.0") or bases["RegistrationsBaseUrl"],
                            named_by=answer.address or "")
    first = yield Request(f"{project.kept['base'].rstrip('/')}/{project.name.lower()}/index.json",
                          named_by=project.kept["named_by"])
    releases: list[Release] = []
    for page in _expect_list(first.json()["items"])[:-21:-1]:
        if "items" not in page:
            page = (yield Request(page["@id"])).json()
        entries = [leaf["catalogEntry"] for leaf in page["items"] if leaf["catalogEntry"].get("listed", True)]
        dates = {entry["version"].partition("+")[0]: entry.get("published") for entry in entries}
        releases += [make_release(version, date) for version, date in dates.items()]
        if project.known and dates.keys() <= project.known.keys():
            break
    return Listing(releases, first)

def cargo(project: ProjectRef) -> Exchange:
    """https://doc.rust-lang.org/cargo/reference/registry-index.html#index-protocols: JSON lines.
    Old lines of the public index have no time; the first check asks its API for them."""
    name = project.name.lower()
    folder = {1: "1", 2: "2", 3: f"3/{name[:1]}"}.get(len(name), f"{name[:2]}/{name[2:4]}")
    answer = yield Request(f"{project.site}/{folder}/{name}")
    lines = (read_json(match[0]) for match in re.finditer(rb"[^\r\n]+", answer.body))
    entries = [(line["vers"], line.get("pubtime"), line["yanked"]) for line in lines]
    if not entries:
        raise ValueError("it answered no versions")
    dates = {version: date for version, date, _ in entries}
    if not project.known and project.site == "https://index.crates.io" and None in dates.values():
        api = yield Request(f"https://crates.io/api/v1/crates/{name}/versions?per_page=100&sort=date",
                            accept_statuses=range(400, 600))
        if api.status == 200:
            dates |= {entry["num"]: entry["created_at"] for entry in api.json()["versions"]}
    return Listing([make_release(version, dates[version]) for version, _, is_yanked in entries
                    if not is_yanked], answer)

def hex_(project: ProjectRef) -> Exchange:
    """https://github.com/hexpm/specifications/blob/main/apiary.apib; retired versions are left out."""
    headers = {**project.auth, "Accept": "application/json"}
    organisation, _, name = project.name.rpartition("/")
    place = f"repos/{organisation}/packages/{name}" if organisation else f"packages/{name}"
    answer = yield Request(f"{project.site}/api/{place}", headers)
    package = answer.json()
    retired = package.get("retirements") or {}
    entries = [entry for entry in _expect_list(package["releases"]) if entry["version"] not in retired]
    return Listing([make_release(entry["version"], entry.get("inserted_at")) for entry in entries], answer)

def pub(project: ProjectRef) -> Exchange:
    """https://github.com/dart-lang/pub/blob/master/doc/repository-spec-v2.md, "List all versions"."""
    headers = {**project.auth, "Accept": "application/vnd.pub.v2+json"}
    answer = yield Request(f"{project.site}/api/packages/{project.name}", headers)
    entries = [entry for entry in _expect_list(answer.json()["versions"]) if not entry.get("retracted")]
    return Listing([make_release(entry["version"], entry.get("published")) for entry in entries], answer)

def _section(changes: str, heading: re.Pattern[str], version: str) -> str:
    """A version's part of a changelog: from its heading to the next one."""
    changes, begins = changes[:4 * NOTE_LIMIT], None
    for found in heading.finditer(changes):
        if begins is not None:
            return changes[begins:found.start()].strip()
        if found[1].rstrip(".:-") == version.removeprefix("v"):
            begins = found.start()
    return changes[begins:].strip() if begins is not None else ""

def metacpan(project: ProjectRef) -> Exchange:
    """https://github.com/metacpan/metacpan-api/blob/master/docs/API-docs.md; times without a zone are UTC.
    A missing distribution has an empty list; then the name may be a module's."""
    at, name = f"{project.site}/v1", project.name
    answer = yield Request(f"{at}/release/versions/{name}")
    if not _expect_list(answer.json()["releases"]):
        module = yield Request(f"{at}/module/{name.replace('-', '::')}", accept_statuses=(404,))
        if module.status != 200 or module.json()["distribution"] == name:
            raise ProjectMissing(f"{project.provider} has no distribution {name}")
        name = module.json()["distribution"]
        answer = yield Request(f"{at}/release/versions/{quote(name)}")
    releases, entries = [], answer.json()["releases"]
    # Of others' uploads under the name; one of its own may lack a permission for a single module.
    authors = {entry["author"] for entry in entries if entry.get("authorized", True)}
    entries = [entry for entry in entries if entry["author"] in authors]
    unknown = [entry["version"] for entry in entries if entry["version"] not in project.known]
    for entry in entries:
        path, notes = f"{quote(entry['author'])}/{quote(entry['name'])}", ""
        if entry["version"] in unknown[:_DETAILS_PER_CHECK]:
            changes = yield Request(f"{at}/changes/{path}", accept_statuses=_UNAVAILABLE)
            if changes.status == 200:
                notes = _section(changes.json()["content"], _TEXT_HEADING, entry["version"])
        releases.append(make_release(entry["version"], entry["date"], message=preformatted(notes),
                                     url=f"https://metacpan.org/release/{path}/changes",
                                     is_prerelease=entry["maturity"] == "developer"))
    return Listing(releases, answer, name=name)

def hackage(project: ProjectRef) -> Exchange:
    """https://hackage.haskell.org/api: the feed of a package, each item with the whole rendered changelog."""
    answer = yield Request(f"{project.site}/package/{project.name}.rss")
    return Listing([make_release(
        version := item["link"].rstrip("/").rpartition("-")[2], item["date"], title=item["title"],
        url=item["link"], message=_section(item["description"], _HTML_HEADING, version))
        for item in _feed_entries(answer)], answer, is_window=True)

_GO_VERSION = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")
_RANGE_LIMIT = 200                                  # of a go.mod that are read
_GO_HEADERS = {"Disable-Module-Fetch": "true"}      # answer from the cache, without a fetch from the origin

def _go_majors(project: ProjectRef) -> Exchange:
    """``(address, dates by version)`` of the module and its next majors, which are modules of their own."""
    base, _, major = project.name.rpartition("/v")
    base, named = (base, int(major)) if re.fullmatch("[1-9][0-9]{0,5}", major) else (project.name, 1)
    numbered = re.compile(r"v([0-9]{1,6})\.[0-9.]+[^+]*")
    known = {int(match[1]) for match in map(numbered.fullmatch, project.known) if match} | {named}
    highest = max(known)
    lists: list[tuple[str, dict[str, str | None]]] = []
    for number in (*sorted(number for number in known if number >= named), *range(highest + 1, highest + 20)):
        module = base if number == 1 else f"{base}/v{number}"
        at = f"{project.site}/{re.sub('[A-Z]', lambda letter: '!' + letter[0].lower(), module)}/@"
        answer = yield Request(f"{at}v/list", _GO_HEADERS, accept_statuses=(404, 410) if lists else (),
                               max_response_bytes=_DOCUMENT_LIMIT)
        if answer.status != 200 and number > highest:
            break
        lines = map(str.split, answer.text().splitlines() if answer.status == 200 else ())
        dates = {line[0]: _any_date(line[1]) if len(line) > 1 else None for line in lines if line}
        if not all(map(_GO_VERSION.fullmatch, dates)):
            raise ValueError("it answered no list of versions")
        lists.append((at, dates))
    return lists

def _go_retracted(mod: str, versions: Collection[str]) -> set[str]:
    """Those of the versions that a module's go.mod retracts: https://go.dev/ref/mod#go-mod-file-retract"""
    code = re.sub(r"//[^\n]*", "", mod)         # without comments
    text = " ".join(re.findall(r"^[ \t]*retract[ \t]*(\([^()]*\)|[^\n()]*)", code, re.MULTILINE))
    found = re.findall(r"\[([^\[\],]*),([^\[\],]*)\]|(v[^\s\[\],]*)", text)[:_RANGE_LIMIT]
    ranges = [[version_order((end or single).strip()[:NAME_LIMIT]) for end in (least, most)]
              for least, most, single in found]
    orders = zip(versions, map(version_order, versions))
    return {version for version, order in orders if any(least <= order <= most for least, most in ranges)}

def goproxy(project: ProjectRef) -> Exchange:
    """https://go.dev/ref/mod#goproxy-protocol; a capital is written as ! and its small letter."""
    lists = yield from _go_majors(project)
    places = {version: at for at, listed in lists for version in listed}
    places = {version: places[version] for version in _highest(places)}
    dates = {version: date for _, listed in lists for version, date in listed.items()}
    if not places:      # no version was tagged: the pseudo-version of the last commit
        latest = (yield Request(f"{lists[0][0]}latest", _GO_HEADERS)).json()
        return Listing([make_release(latest["Version"], latest.get("Time"))])
    for at, module_versions in lists:       # the newest of each module retracts
        # Those of before it had a go.mod count where the newest other has none; so it is in cmd/go.
        old = {version for version in module_versions if version.endswith("+incompatible")}
        if any(places.get(version) == at and version not in project.known for version in module_versions):
            newest, last = max(module_versions.keys() - old or old, key=version_order), ""
            mod = yield Request(f"{at}v/{quote(newest, safe='+')}.mod", _GO_HEADERS,
                                accept_statuses=(403, 404, 410), max_response_bytes=_DOCUMENT_LIMIT)
            if mod.status == 200 and not re.search(r"^[ \t]*module\b", mod.text(), re.MULTILINE):
                raise ValueError("it answered no go.mod")
            retracted = _go_retracted(mod.text() if mod.status == 200 else "", places)
            if old and newest not in old and mod.status == 200 and mod.text().split()[1:] != [project.name]:
                latest = yield Request(f"{at}latest", _GO_HEADERS, accept_statuses=(403, 404, 410))
                last = latest.json()["Version"] if latest.status == 200 else newest
            end = version_order(last if last in module_versions else newest)    # of what is final
            places = {version: place for version, place in places.items() if place != at or not (
                version in retracted or last and (
                    version in old or version_order(version) > end and "-" not in version))}
    undated = [version for version in places if version not in project.known and not dates[version]]
    for version in sorted(undated, key=version_order, reverse=True)[:20]:
        url = f"{places[version]}v/{quote(version, safe='+')}.info"
        info = yield Request(url, _GO_HEADERS, accept_statuses=(403, 404, 410))
        dates[version] = info.json().get("Time") if info.status == 200 else None
    return Listing([make_release(version, dates[version]) for version in places])

def maven(project: ProjectRef) -> Exchange:
    """https://maven.apache.org/repositories/metadata.html; only the folder's listing has dates."""
    group, _, artifact = project.name.partition(":")
    at = f"{project.site}/{group.replace('.', '/')}/{artifact}"
    answer = yield Request(f"{at}/maven-metadata.xml", project.auth)
    versioning = re.search(r"<versioning\s*(?:/>|>(.*?)</versioning>)", _xml_text(answer.body), re.DOTALL)
    if not versioning:
        raise ValueError("it answered no metadata of an artifact")
    named = re.findall(r"<version>\s*+([^<>\s]+)", html.unescape(versioning[1] or ""))
    versions = [version for version in named if not version.endswith("-SNAPSHOT")]
    dates: dict[str, str] = {}
    if any(version not in project.known for version in versions):
        listing = yield Request(f"{at}/", project.auth, accept_statuses=range(400, 600))
        dates = {unquote(version): f"{date}:00Z" for version, date in re.findall(
            r'<a href="([^"/<>]+)/"[^<>]*>[^<>]*</a>\s{1,200}([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2})',
            listing.text() if listing.status == 200 else "")}
    return Listing([make_release(version, dates.get(version)) for version in versions], answer)

def artifacthub(project: ProjectRef) -> Exchange:
    """https://artifacthub.io/docs/api/: versions in the package, notes as lists of changes beside it."""
    at, notes = f"{project.site}/api/v1/packages", dict[str, str]()
    answer = yield Request(f"{at}/{project.name}", project.auth)
    package = answer.json()
    entries = package.get("available_versions") or [package]
    if any(entry["version"] not in project.known for entry in entries):
        changes = yield Request(f"{at}/{quote(package['package_id'], safe='')}/changelog", project.auth,
                                accept_statuses=_UNAVAILABLE)
        for entry in changes.json() if changes.status == 200 else ():
            items = [f"<li>{html.escape(one.get('kind') or '')} {html.escape(one['description'])}</li>"
                     for one in entry.get("changes") or ()]
            notes[entry["version"]] = f"<ul>{''.join(items)}</ul>" if items else ""
    return Listing([
        make_release(entry["version"], timestamp(entry["ts"]), is_prerelease=entry.get("prerelease", False),
                     message=notes.get(entry["version"]),
                     url=f"{project.site}/packages/{project.name}/{quote(entry['version'])}")
        for entry in entries], answer)

_GIT_TAG = re.compile(rb"(?:\A|\n|0000)[0-9a-f]{4}([0-9a-f]{40}(?:[0-9a-f]{24})?) refs/tags/([^\n\0 ]+)"
                      rb"(?: peeled:([0-9a-f]+))?")
_GIT_TAGS_ALONE = b"0014command=ls-refs\n%s00010009peel\n001aref-prefix refs/tags/\n0000"

def git(project: ProjectRef) -> Exchange:
    """A repository's tags over smart HTTP, without dates: https://git-scm.com/docs/protocol-v2#_ls_refs, else
    https://git-scm.com/docs/http-protocol#_smart_clients, which lists all refs: lines after their length."""
    version_2 = {"Git-Protocol": "version=2"}
    answer = yield Request(f"{project.name}/info/refs?service=git-upload-pack", version_2)
    head = b"001e# service=git-upload-pack\n0000"
    if answer.body.removeprefix(head).startswith(b"000eversion 2\n"):
        head, url = b"", answer.url.replace("/info/refs?service=", "/")
        hashes = re.search(rb"[0-9a-f]{4}object-format=[a-z0-9]{1,20}\n", answer.body)     # that we can read
        headers = {**version_2, "Content-Type": "application/x-git-upload-pack-request"}
        answer = yield Request(url, headers, "POST", _GIT_TAGS_ALONE % (hashes[0] if hashes else b""))
    if not answer.body.startswith(head):
        raise ValueError("it is no git repository over smart HTTP")
    if not re.search(rb"(?:\A|\n)0000\s*\Z", answer.body[max(len(head), len(answer.body) - 40):]):
        raise ValueError("its answer ended early")
    # An annotated tag has its commit behind it, or comes twice, then as v1^{}. There may be very many tags.
    kept = set(_highest(match[2].decode("utf-8", "replace") for match in _GIT_TAG.finditer(answer.body)
                        if not match[2].endswith(b"^{}")))
    commits = {tag: (match[3] or match[1]).decode() for match in _GIT_TAG.finditer(answer.body)
               if (tag := match[2].decode("utf-8", "replace").removesuffix("^{}")) in kept}
    return Listing([make_release(tag, content=("commit", commit)) for tag, commit in commits.items()],
                   answer if head else None)

def savannah(project: ProjectRef) -> Exchange:
    """https://savannah.gnu.org/maintenance/UsingGit: its pages refuse programs, its repositories do not."""
    at = f"{project.site}/git/{project.name}.git"
    return (yield from git(dataclasses.replace(project, name=at)))

def _filled(template: str, name: str, safe: str = "/", **others: str) -> str:
    """An address of a template, with what a Dialect says that those contain."""
    group, _, artifact = name.partition(":")
    values = {"name": quote(name, safe=safe), "segment": quote(name, safe=""), **others,
              "parts": quote(name.replace(".", "/", 1)), "path": quote(name.replace(":", "/")),
              "folder": quote(f"{group.replace('.', '/')}/{artifact}")}
    return re.sub(r"\{(\w+)\}", lambda place: values.get(place[1], place[0]), template)

def _url_and_fragment(project: ProjectRef) -> tuple[str, str]:
    """``(address, fragment)`` of a provider's template, or of a name that is an address itself."""
    address, _, fragment = (project.site or project.name).partition("#")
    if project.site:
        address, fragment = _filled(address, project.name), fragment.replace("{name}", project.name)
    return address, fragment

def _items(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return [("", one) for one in value] if isinstance(value, list) else []

def _values_at(value: Any, path: str) -> list[tuple[str, Any]]:
    """``(key, value)`` of all that a path leads to in a JSON value: keys with dots between. ``*`` is every
    member of an object or a list, ``[path=text,path=text]`` every one with those texts there."""
    found = [("", value)]
    for step in re.findall(r"\[[^\[\]]*\]|[^.\[\]]+", path):
        if step == "*" or step[0] == "[":
            wanted = [part.partition("=")[::2] for part in step[1:-1].split(",") if part]
            found = [pair for _, one in found for pair in _items(one)
                     if all(_text_at(pair[1], within) == text for within, text in wanted)]
        else:
            found = [(step, one[step]) for _, one in found if isinstance(one, dict) and step in one]
    return found

def _text_at(value: Any, path: str | None) -> str:
    """The first text, number or boolean at a path, as text; "" without one."""
    found = _values_at(value, path) if path is not None else ()
    return next((one if isinstance(one, str) else json.dumps(one) for _, one in found
                 if isinstance(one, (str, int, float))), "")

_FIELDS = ("entries", "version", "date", "prerelease", "note", "url", "header")

def _fields_of(fragment: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in fragment.split("&"))

def json_(project: ProjectRef) -> Exchange:
    """One JSON document of any service. The fragment of the provider's address says what stands where:
    ``entries``, and in an entry ``version`` (else "version", its key or itself), ``date``, ``note``, ``url``
    and ``prerelease``, also as path=text. ``header`` is one that the service wants, as Name:value."""
    address, fragment = _url_and_fragment(project)
    paths = _fields_of(fragment)
    header, _, value = paths.get("header", "Accept:application/json").partition(":")
    answer = yield Request(address, {**project.auth, header: value})
    found = _values_at(answer.json(), paths.get("entries", ""))
    entries = [pair for key, one in found
               for pair in (_items(one) if isinstance(one, list) else [(key, one)])]
    if not entries and (found or not answer.json()):
        raise ProjectMissing(f"{project.provider} lists nothing of {project.name}")
    flag, _, flagged = paths.get("prerelease", "-").partition("=")
    releases = []
    for key, one in entries:
        version = (_text_at(one, paths.get("version", "version")) or key
                   or (one if isinstance(one, str) else ""))
        note, mark = _text_at(one, paths.get("note")), _text_at(one, flag)
        if re.search("[0-9]", version):         # not "trunk"
            releases.append(make_release(
                version, _any_date(_text_at(one, paths.get("date"))), url=_text_at(one, paths.get("url")),
                message=note if note.startswith("<") else preformatted(note),
                is_prerelease=mark == flagged if flagged else mark not in ("", "0", "false")))
    if not releases:
        raise ValueError(f"it has no version at {fragment[:100]}")
    return Listing(releases, answer)

def _versions_around(pattern: str, text: str) -> Iterator[str]:
    """What stands in a text in the place of ``{version}``: a digit, and what versions have after it, up to
    the last place of what follows there that still leaves a version. The rest of the pattern is literal, so
    that no pattern takes long."""
    before, _, after = pattern.partition("{version}")
    for match in re.finditer((re.escape(before) or r"(?<![\w.])v?") + "([0-9][0-9A-Za-z.+~_-]{0,99})", text):
        beside = match[1] + text[match.end():match.end() + len(after)]
        ends = [end for end in range(1, len(beside)) if beside.startswith(after, end)] if after else []
        found = [beside[:end].rstrip(".-_+~") for end in ends] or [_PACKED.sub("", match[1])] * (not after)
        if found:
            yield next(filter(_NUMBERED.fullmatch, found[::-1]), found[0]).rstrip(".-_+~")

def page_(project: ProjectRef) -> Exchange:
    """The versions on any page: the fragment of its address is the text around one, #Version {version}, or a
    header of the answer and the text there, #header:X-Version {version}; Location is where redirects end.
    Entities and percent-escapes are decoded, unless the text is there only as it is."""
    address, pattern = _url_and_fragment(project)
    answer = yield Request(address, project.auth, max_response_bytes=_DOCUMENT_LIMIT)
    text, header = answer.text(), re.match(r"header:([\w-]+) ?", pattern)
    if header:
        pattern = pattern[header.end():] or "{version}"
        end = answer.url if header[0] != header.string else urlsplit(answer.url).path.rstrip("/")
        end = _version_of_path(end, "") or end.rpartition("/")[2] if end != answer.url else end
        text = {**answer.headers, "location": end}.get(header[1].lower(), "").replace("UTF-8''", "")
    for shown in (unquote(html.unescape(text)).replace("\xa0", " "), text):
        if versions := dict.fromkeys(itertools.islice(_versions_around(pattern, shown), RELEASE_LIMIT)):
            break
    else:
        raise ValueError(f"it has nothing like {pattern[:100]}")
    return Listing([make_release(version) for version in versions], answer)

def feed_(project: ProjectRef) -> Exchange:
    """Any Atom (RFC 4287) or RSS feed; the version stands in an entry's title, in the place that the fragment
    of the address says, ``#Firefox {version}``, else the first with a dot."""
    address, pattern = _url_and_fragment(project)
    answer = yield Request(address, project.auth)
    entries, releases = _feed_entries(answer, is_loose=True), []
    for entry in entries:
        title = entry["title"][:NAME_LIMIT]
        found = _IN_TITLE.search(title)
        version = next(_versions_around(pattern, title), "") if pattern else found and (found[1] or found[2])
        if version:
            releases.append(make_release(version.rstrip(".-_+~"), entry["date"], title=title,
                                         message=entry["description"], url=entry["link"]))
    if entries and not releases:
        raise ValueError("no title of its entries has a version")
    return Listing(releases, answer, is_window=True)

def _chart_entries(index: bytes | bytearray, chart: str) -> list[dict[str, str]]:
    """The fields of a chart's versions in a repository's index, found by their indentation, for helm writes
    block YAML, others JSON. It may be cut, so what is behind its last line break does not count."""
    if index[:200].lstrip().startswith(b"{"):
        return [{name: str(one.get(name) or "") for name in ("version", "created")}
                for one in read_json(index)["entries"].get(chart) or ()]
    top = re.search(rb"^entries:[ \t]*\r?\n( {1,20})(?! )", index, re.MULTILINE)
    if not top:
        raise ValueError("it answered no index of charts")
    head = rb"^%b[\"']?%b[\"']?:[ \t]*\r?\n(?=( {0,20}- {1,20}))" % (bytes(top[1]), re.escape(chart.encode()))
    start = re.compile(head, re.MULTILINE).search(index, top.start(1))
    if not start:
        return []
    end = re.compile(rb"^ {0,%d}[^ \r\n-]" % len(top[1]), re.MULTILINE).search(index, start.end())
    block = index[start.end():end.start() if end else index.rfind(b"\n") + 1].decode("utf-8", "replace")
    dash = start[1].decode()
    field = re.compile(rf"^(?: {{{len(dash)}}})?(version|created):[ \t]*[\"']?([^\s\"']+)", re.MULTILINE)
    items = re.split(f"^{dash}", block, maxsplit=RELEASE_LIMIT, flags=re.MULTILINE)[:RELEASE_LIMIT]
    entries = ({match[1]: match[2] for match in field.finditer(item)} for item in items)
    return [entry for entry in entries if "version" in entry]

def helm(project: ProjectRef) -> Exchange:
    """https://helm.sh/docs/topics/chart_repository/#the-index-file; one may be larger than what is read."""
    address, chart = (project.site, project.name) if project.site else project.name.partition("#")[::2]
    answer = yield Request(f"{address.rstrip('/')}/index.yaml", project.auth, may_be_cut=True)
    entries = _chart_entries(answer.body, chart)
    if not entries:
        raise ProjectMissing(f"{project.provider} has no chart {chart} in the first 20 MiB of its index")
    return Listing([make_release(entry["version"], _any_date(entry.get("created", "")))
                    for entry in entries], answer)

def _coordinates(name: str) -> str:
    """``group:artifact`` of that, of ``group/artifact``, or of ``com/google/guava/guava``."""
    group, _, artifact = name.rpartition("/")
    return name if ":" in name or not group else f"{group.replace('/', '.')}:{artifact}"

def _without_git(name: str) -> str:
    return name.removesuffix(".git")

def _folded_address(name: str) -> str:
    """An address with the double slash that name_at() has folded, a lower-case host and no git+ before it."""
    match = re.fullmatch(r"(?:git\+)?(https?):/+([^/?#]+)(.*)", name, re.IGNORECASE)
    return f"{match[1].lower()}://{match[2].lower()}{match[3]}" if match else name

def _header(name: str, before: str = "") -> Callable[[str], dict[str, str]]:
    return lambda token: {name: f"{before}{token}"}

def _basic_auth(user: str) -> Callable[[str], dict[str, str]]:
    """The token as a password, or ``user:password`` as it is."""
    def auth(token: str) -> dict[str, str]:
        both = token if ":" in token else f"{user}:{token}"
        return {"Authorization": "Basic " + base64.b64encode(both.encode()).decode()}
    return auth

@dataclasses.dataclass(frozen=True)
class Dialect:
    """A protocol, and what holds for all providers that speak it.
    Addresses contain ``{site}``, ``{name}``, ``{version}``, ``{segment}`` (the name as one segment of a
    path), ``{path}`` (an artifact's name with slashes), ``{folder}`` (its folder), ``{parts}`` (the name's
    dot as a slash), ``{address}`` (what is asked) and, of one of its releases, ``{page}``."""
    read: Callable[[ProjectRef], Exchange]
    form: str                               # what a project is called, for people
    pattern: str                            # of a normalised name
    page: str                               # where people see a project's releases
    release_page: str = ""                  # and one of them; the same if empty
    normalise: Callable[[str], str] = str
    key: Callable[[str], str] = str      # of a normalised name: the same for all names of one project
    versions: VersionRules = GENERIC
    auth: Callable[[str], dict[str, str]] | None = None             # the headers that hold a token
    pasted: tuple[str, ...] = ()            # patterns of pasted addresses, below the site and without query
    has_images: bool = False                # whose tags are rebuilt, often many at once
    requests: int = 1                       # of a check that finds nothing new; the most of a usual project

_REPOSITORY = r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}"
_IMAGE = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_PACKAGE = r"(?:@[A-Za-z0-9._~-]+/)?[A-Za-z0-9._~-]+"
_NAME_OF_ROW = r"[\w.+~@:-]+(?:/[\w.+~@:-]+)*"     # nothing that means something in a template's fragment
_BEARER = _header("Authorization", "Bearer ")
_PART, _PARTS, _REST = "([^/]+)", "([^/]+/[^/]+)", "(?:/.*)?"         # segments of a pasted address
_SCOPED = r"(@[^/]+/[^/]+|(?:@|%40)[^/]+%2[Ff][^/]+|[^/@]+)(?:/.*)?"
_TAGGED = "([^:@]+)(?:[:@].*)?"                                     # an image's reference
_FORGE = rf"(?!explore/|orgs/|users/|user/|api/|v2/.*/tags/list){_PARTS}(?:/(?!pkgs/).*)?"

# By the names of their functions.
DIALECTS = {row.read.__name__.rstrip("_"): row for row in (
    Dialect(artifacthub, "kind/repository/package, or repository/package of a Helm chart",
            r"[a-z0-9-]+(?:/[A-Za-z0-9_.-]+){2}", "{site}/packages/{name}", "{page}/{version}",
            versions=SEMVER, normalise=lambda name: name if name.count("/") > 1 else f"helm/{name}",
            auth=lambda token: dict(zip(("X-API-KEY-ID", "X-API-KEY-SECRET"), token.split(":", 1))),
            pasted=(rf"packages/([^/]+/[^/]+/[^/]+){_REST}",)),
    Dialect(bitbucket, "workspace/repository", _REPOSITORY, "{site}/2.0/repositories/{name}/refs/tags",
            normalise=lambda name: _without_git(name.lower()), auth=_BEARER,
            pasted=(rf"2\.0/repositories/{_PARTS}{_REST}",)),
    Dialect(cargo, "crate", r"[A-Za-z][A-Za-z0-9_-]*", "{site}", versions=SEMVER,
            key=lambda name: name.lower().replace("-", "_"),
            pasted=(rf"(?:[123]|3/[^/]|[^/]{{2}}/[^/]{{2}})/{_PART}",)),
    Dialect(depsdev, "package", r"[^\s/]+(?:/[^\s/]+)*", "https://deps.dev/{provider}/{segment}",
            "https://deps.dev/{provider}/{segment}/{version}"),
    Dialect(dockerhub, "image, or owner/image", rf"{_IMAGE}/{_IMAGE}", "{site}/r/{name}/tags",
            normalise=lambda name: name.lower() if "/" in name else f"library/{name.lower()}", auth=_BEARER,
            versions=IMAGES, has_images=True,
            pasted=(rf"_/{_PART}{_REST}", rf"(?:r|repository/docker)/{_PARTS}{_REST}")),
    Dialect(forgejo, "owner/repository", _REPOSITORY, "{site}/{name}/releases",
            "{site}/{name}/releases/tag/{version}", normalise=_without_git, key=str.lower,
            auth=_header("Authorization", "token "), pasted=(_FORGE,), requests=2),
    Dialect(git, "the repository's address", r"https?://[^\s/?#@]+/[^\s?#]+", "{name}",
            normalise=_folded_address, requests=2,
            key=lambda name: name.removeprefix("https://").removesuffix(".git")),
    Dialect(github, "owner/repository", _REPOSITORY, "{site}/{name}/releases", "{page}/tag/{version}",
            normalise=_without_git, key=str.lower, auth=_BEARER, pasted=(_FORGE,), requests=2),
    Dialect(gitlab, "group/project", r"[\w.+-]+(?:/[\w.+-]+)+", "{site}/{name}/-/releases",
            "{page}/{version}", normalise=_without_git, key=str.lower, auth=_header("PRIVATE-TOKEN"),
            pasted=(rf"(?!explore/|users/|groups/|-/|api/)(.+?)(?:/-{_REST})?",), requests=2),
    Dialect(goproxy, "module", r"[A-Za-z0-9._~-]+(?:/[A-Za-z0-9._~-]+)*", "{site}/{name}/@v/list",
            versions=SEMVER, pasted=(r"([^@]+)/@.*",), requests=3),
    Dialect(hackage, "package", r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*", "{site}/package/{name}",
            "{site}/package/{name}-{version}", versions=EXACT._replace(is_prerelease=lambda version: False),
            pasted=(rf"package/([^/]+?)(?:-[0-9][0-9.]*)?{_REST}",)),
    Dialect(helm, "chart", r"[A-Za-z0-9_.-]+", "{address}", versions=SEMVER, auth=_basic_auth("token")),
    Dialect(hex_, "package, or organization/package", r"(?:[a-z0-9_]+/)?[a-z][a-z0-9_]*",
            "{site}/packages/{name}", "{site}/packages/{name}/{version}",
            normalise=lambda name: name.lower().removeprefix("hexpm/"), versions=SEMVER,
            auth=_header("Authorization"),
            pasted=(r"packages/([^/]+/(?!versions|audit-logs|dependents)[A-Za-z]\w*|[^/]+)" + _REST,)),
    *(Dialect(read, "name", _NAME_OF_ROW, "{address}", auth=_BEARER) for read in (feed_, json_, page_)),
    Dialect(maven, "group:artifact", r"[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+", "{site}/{folder}/",
            normalise=_coordinates, versions=MAVEN, auth=_basic_auth("token"),
            pasted=(r"(.+)/(?:maven-metadata\.xml)?", r"(.+)")),
    Dialect(metacpan, "distribution, or module", r"[A-Za-z0-9_.+-]+", "{site}/v1/release/versions/{name}",
            normalise=lambda name: name.replace("::", "-"), versions=PERL,
            pasted=(rf"v1/release/(?:versions/)?{_PART}",)),
    Dialect(npm, "package, or @scope/package", _PACKAGE, "{site}/{segment}", auth=_BEARER,
            versions=SEMVER, pasted=(_SCOPED,)),
    Dialect(nuget, "package", r"[A-Za-z0-9_.-]+", "{site}", key=str.lower, versions=NUGET, requests=2,
            pasted=(rf"packages/{_PART}{_REST}",)),
    Dialect(oci, "image, or owner/image", rf"{_IMAGE}(?:/{_IMAGE})*", "{site}/v2/{name}/tags/list",
            normalise=str.lower, versions=IMAGES, auth=_basic_auth("token"), has_images=True,
            requests=1 + _DETAILS_PER_CHECK, pasted=(r"v2/(.+?)/(?:tags/list|manifests/.*)", _TAGGED)),
    Dialect(packagist, "vendor/package", _REPOSITORY, "{site}/packages/{name}", normalise=str.lower,
            versions=EXACT, auth=_basic_auth("token"),
            pasted=(rf"packages/{_PARTS}{_REST}", rf"p2/{_PARTS}\.json")),
    Dialect(pub, "package", r"[a-z_][a-z0-9_]*", "{site}/packages/{name}/versions", "{page}/{version}",
            normalise=str.lower, versions=SEMVER, auth=_BEARER, pasted=(rf"packages/{_PART}{_REST}",)),
    Dialect(quay, "owner/image", rf"{_IMAGE}(?:/{_IMAGE})+", "{site}/repository/{name}?tab=tags",
            normalise=str.lower, versions=IMAGES, auth=_BEARER, has_images=True,
            pasted=(rf"repository/{_PARTS}(?:/(?:manifest|tag)/.*)?", _TAGGED)),
    Dialect(rubygems, "gem", r"[A-Za-z0-9_.-]+", "{site}/gems/{name}",
            "{site}/gems/{name}/versions/{version}", versions=GEM, pasted=(rf"gems/{_PART}{_REST}",)),
    Dialect(savannah, "repository", r"[A-Za-z0-9_.+-]+(?:/[A-Za-z0-9_.+-]+)*", "{site}/git/{name}.git",
            normalise=_without_git, pasted=(r"(?:git|cgit|r|gitweb)/(.+?)\.git" + _REST,), requests=2),
    Dialect(simple, "package", r"[a-z0-9]+(?:-[a-z0-9]+)*", "{site}/{name}/", normalise=pep503,
            versions=PEP440, auth=_basic_auth("__token__"), pasted=(rf"(?:simple/)?{_PART}/?",)),
    Dialect(sourceforge, "project", r"[a-z0-9_.-]+", "{site}/projects/{name}/files/", normalise=str.lower,
            pasted=(rf"(?:projects|p)/{_PART}{_REST}",)),
    Dialect(sourcehut, "~user/repository", rf"~{_REPOSITORY}", "{site}/{name}/refs",
            "{site}/{name}/refs/{version}", pasted=(rf"(~[^/]+/[^/]+){_REST}",)),
)}

@dataclasses.dataclass(frozen=True)
class Provider:
    id: str
    site: str                       # the address of its API
    dialect: Dialect
    example: str = ""               # what a project is called there, for people to see
    page: str = ""                  # instead of the dialect's
    release_page: str = ""          # and one of its releases
    token_from: str = ""            # the environment variable that may hold its token; "" for the id's own
    pasted: tuple[str, ...] = ()    # others that people paste, whole but for scheme, query and "www."
    name: str = ""                  # for people to see; "" for the id

    @property
    def title(self) -> str:
        return self.name or self.id

    @property
    def token_variable(self) -> str:
        return self.token_from or self.id.upper().replace("-", "_") + "_TOKEN"

    def auth(self, token: str | None) -> dict[str, str]:
        return self.dialect.auth(token) if token and self.dialect.auth else {}

def _row(id_: str, site: str, speaks: str | Dialect, example: str, name: str = "", **about: Any) -> Provider:
    dialect = DIALECTS[speaks] if isinstance(speaks, str) else speaks
    return Provider(id_, site, dialect, example, name=name, **about)

# deps.dev spells names as the registry behind it does.
_PYPI = dataclasses.replace(DIALECTS["depsdev"], pattern=DIALECTS["simple"].pattern, normalise=pep503,
                            versions=PEP440)
_NPM = dataclasses.replace(DIALECTS["depsdev"], form=DIALECTS["npm"].form, pattern=_PACKAGE, versions=SEMVER)
# Its projects are in the registries that their names begin with; no token of ours is for those.
_REGISTRY = r"(?:localhost(?=[:/])|[a-z0-9-]+(?=[.:])(?:\.[a-z0-9-]+)*)(?::[0-9]{1,5})?"
_ANY_IMAGE = dataclasses.replace(
    DIALECTS["oci"], form="registry/image", auth=None, pasted=(),
    pattern=rf"(?!(?:[a-z0-9-]+\.)?docker\.io/){_REGISTRY}/{_IMAGE}(?:/{_IMAGE})*")
_GITHUB_NPM = dataclasses.replace(DIALECTS["npm"], form="@owner/package",
                                  normalise=lambda name: name if "/" not in name else f"@{name.lstrip('@')}")

BY_ADDRESS = ("feed", "git", "helm", "page")        # providers whose projects are addresses

def _by_address(speaks: str, form: str, fragment: str, example: str) -> Provider:
    """A provider without a site of its own, whose projects are addresses with a fragment."""
    return Provider(speaks, "", dataclasses.replace(
        DIALECTS[speaks], form=form, pattern=rf"https?://[^\s/?#@]+(?:[/?][^\s#]*)?{fragment}", auth=None,
        normalise=_folded_address, key=lambda name: name.removeprefix("https://")), example)

def _service(id_: str, name: str, example: str, form: str, page: str, site: str, pattern: str = r"[\w.+:@-]+",
             pasted: tuple[str, ...] = (), speaks: str = "json", **rules: Any) -> Provider:
    """A provider whose site is a template, as ``json_`` reads it. Addresses of its pages may be pasted."""
    place = re.escape(page.partition("://")[2].rstrip("/")).replace(r"\{parts\}", _PARTS)
    dialect = dataclasses.replace(DIALECTS[speaks], form=form, pattern=pattern, auth=None, **rules)
    pasted = (*pasted, place.replace(r"\{name\}", f"({pattern})") + _REST)
    return Provider(id_, site, dialect, example, page, pasted=pasted, name=name)

_PAIR = r"[\w.-]+/[\w.+-]+"
_TWO: dict[str, Any] = {"pattern": r"[\w-]+\.[\w.-]+", "versions": SEMVER,
                        "normalise": lambda name: name.replace("/", ".", 1)}

# To add a provider, add a row. To speak a protocol that has no dialect yet, write the dialect above.
PROVIDERS = {row.id: row for row in (
    _by_address("feed", "a feed's address, maybe with # and the text around the {version} in a title",
                r"(?:#.*\{version\}.*)?", "https://blog.example.org/feed.xml"),
    _by_address("helm", "a chart repository's address, # and the chart", "#[A-Za-z0-9_.-]+",
                "https://charts.jetstack.io#cert-manager"),
    _by_address("page", "an address, # and the text around the {version} there, or header:NAME",
                r"#(?:header:[\w-]+|.*\{version\}.*)", "https://nginx.org/download/#nginx-{version}.tar"),
    _service("alpine", "Alpine Linux", "main/busybox", "repository/package",
             "https://gitlab.alpinelinux.org/alpine/aports/-/tree/master/{name}",
             "https://gitlab.alpinelinux.org/api/v4/projects/alpine%2Faports/repository/files/{segment}"
             "%2FAPKBUILD/raw?ref=master#\npkgver={version}", _PAIR,
             (r"pkgs\.alpinelinux\.org/package/[^/]+/([^/]+)/[^/]+/([^/]+)",), speaks="page"),
    _service("arch", "Arch Linux", "linux", "package", "https://archlinux.org/packages/?name={name}",
             "https://archlinux.org/packages/search/json/?repo=Core&repo=Extra&repo=Multilib&name={name}"
             "#entries=results&version=pkgver&date=last_update",
             pasted=(r"archlinux\.org/packages/[^/]+/[^/]+/([^/]+)",)),
    _service("aur", "AUR", "yay", "package", "https://aur.archlinux.org/packages/{name}",
             "https://aur.archlinux.org/rpc/v5/info/{name}#entries=results&version=Version"
             "&date=LastModified", versions=DEBIAN),
    _service("conda", "Conda", "conda-forge/numpy", "channel/package", "https://anaconda.org/{name}",
             "https://api.anaconda.org/package/{name}#entries=files&date=upload_time", _PAIR,
             (r"anaconda\.org/channels/([^/]+)/packages/([^/]+)" + _REST,)),
    _service("cran", "CRAN", "ggplot2", "package", "https://cran.r-project.org/web/packages/{name}/",
             "https://crandb.r-pkg.org/{name}/all#entries=timeline.*&date=.", versions=EXACT),
    _service("debian", "Debian", "curl", "source package", "https://tracker.debian.org/pkg/{name}",
             "https://sources.debian.org/api/src/{name}/#entries=versions", versions=DEBIAN),
    _service("endoflife", "endoflife.date", "postgresql", "product", "https://endoflife.date/{name}",
             "https://endoflife.date/api/v1/products/{name}/#entries=result.releases&version=latest.name"
             "&date=latest.date"),
    _service("fdroid", "F-Droid", "org.fdroid.fdroid", "app id", "https://f-droid.org/packages/{name}/",
             "https://f-droid.org/api/v1/packages/{name}#entries=packages&version=versionName",
             pasted=(r"f-droid\.org/[a-z]{2}(?:_[A-Za-z]+)?/packages/([^/]+)" + _REST,)),
    _service("flathub", "Flathub", "org.videolan.VLC", "app id", "https://flathub.org/apps/{name}",
             "https://flathub.org/api/v2/appstream/{name}#entries=releases&date=timestamp&note=description"
             "&url=url&prerelease=type=development"),
    _service("galaxy", "Ansible Galaxy", "community.general", "namespace.collection",
             "https://galaxy.ansible.com/ui/repo/published/{parts}/",
             "https://galaxy.ansible.com/api/v3/plugin/ansible/content/published/collections/index/{parts}"
             "/versions/?limit=100#entries=data&date=created_at", **_TWO),
    _service("openvsx", "Open VSX", "redhat.java", "publisher.extension",
             "https://open-vsx.org/extension/{parts}",
             "https://open-vsx.org/api/v2/-/query?extensionId={name}&includeAllVersions=true&size=100"
             "#entries=extensions&date=timestamp&prerelease=preRelease", **_TWO),
    _service("repology", "Repology", "firefox", "project", "https://repology.org/project/{name}/versions",
             "https://repology.org/api/v1/project/{name}#entries=[status=newest]"),
    _service("snap", "Snap Store", "firefox", "snap", "https://snapcraft.io/{name}",
             "https://api.snapcraft.io/v2/snaps/info/{name}#header=Snap-Device-Series:16"
             "&entries=channel-map.[channel.risk=stable,channel.track=latest]&date=channel.released-at"),
    _service("terraform", "Terraform", "hashicorp/aws", "namespace/provider",
             "https://registry.terraform.io/providers/{name}",
             "https://registry.terraform.io/v1/providers/{name}/versions#entries=versions", _PAIR,
             versions=SEMVER),
    _service("ubuntu", "Ubuntu", "curl", "source package", "https://launchpad.net/ubuntu/+source/{name}",
             "https://api.launchpad.net/1.0/ubuntu/+archive/primary?ws.op=getPublishedSources"
             "&exact_match=true&order_by_date=true&source_name={name}#entries=entries"
             "&version=source_package_version&date=date_published&prerelease=pocket=Proposed",
             versions=DEBIAN),
    _service("wordpress", "WordPress plugins", "akismet", "plugin", "https://wordpress.org/plugins/{name}/",
             "https://api.wordpress.org/plugins/info/1.2/?action=plugin_information"
             "&request%5Bslug%5D={name}#entries="),
    #    id, at, speaks, for example, for people to see
    _row("alpine-gitlab", "https://gitlab.alpinelinux.org", "gitlab", "alpine/aports", "Alpine GitLab"),
    _row("archlinux-gitlab", "https://gitlab.archlinux.org", "gitlab", "pacman/pacman", "Arch GitLab"),
    _row("artifacthub", "https://artifacthub.io", "artifacthub", "helm/cert-manager/cert-manager",
         "Artifact Hub"),
    _row("bitbucket", "https://api.bitbucket.org", "bitbucket", "snakeyaml/snakeyaml", "Bitbucket",
         page="https://bitbucket.org/{name}/downloads/?tab=tags",
         release_page="https://bitbucket.org/{name}/src/{version}",
         pasted=(rf"bitbucket\.org/{_PARTS}{_REST}",)),
    _row("cargo", "https://index.crates.io", "cargo", "serde", "crates.io",
         page="https://crates.io/crates/{name}/versions",
         release_page="https://crates.io/crates/{name}/{version}",
         pasted=(rf"(?:crates\.io|lib\.rs)/crates/{_PART}{_REST}", rf"docs\.rs/(?:crate/)?{_PART}{_REST}")),
    _row("codeberg", "https://codeberg.org", "forgejo", "forgejo/forgejo", "Codeberg"),
    _row("cpan", "https://fastapi.metacpan.org", "metacpan", "Mojolicious", "CPAN",
         page="https://metacpan.org/dist/{name}",
         pasted=(r"metacpan\.org/release/[A-Z0-9]+/([^/]+?)-v?[0-9][^/]*" + _REST,
                 rf"metacpan\.org/(?:dist|release|pod|module)/{_PART}{_REST}")),
    _row("debian-gitlab", "https://salsa.debian.org", "gitlab", "debian/devscripts", "Debian GitLab"),
    _row("dockerhub", "https://hub.docker.com", "dockerhub", "nginx", "Docker Hub",
         pasted=(rf"(?:index\.|registry-1\.)?docker\.io/{_TAGGED}",)),
    _row("ecr-public", "https://public.ecr.aws", "oci", "docker/library/redis", "Amazon ECR Public",
         page="https://gallery.ecr.aws/{name}", pasted=(rf"gallery\.ecr\.aws/{_TAGGED}",)),
    _row("exozyme", "https://git.exozy.me", "forgejo", "owner/repository"),
    _row("freedesktop-gitlab", "https://gitlab.freedesktop.org", "gitlab", "mesa/mesa", "freedesktop GitLab"),
    _row("gcr", "https://gcr.io", "oci", "distroless/static", "Google Container Registry",
         page="https://gcr.io/{name}"),
    _row("gems", "https://rubygems.org", "rubygems", "rails", "RubyGems"),
    _row("ghcr", "https://ghcr.io", "oci", "home-assistant/home-assistant", "GitHub Packages",
         page="https://ghcr.io/{name}", pasted=(
             rf"lscr\.io/{_TAGGED}",       # which leads there
             rf"github\.com/{_PART}/[^/]+/pkgs/container/{_PART}{_REST}",
             rf"github\.com/(?:orgs|users)/{_PART}/packages/container/(?:package/)?{_PART}{_REST}")),
    _row("git", "", "git", "https://git.kernel.org/pub/scm/git/git.git", "Git"),
    _row("gitea", "https://gitea.com", "forgejo", "gitea/tea", "Gitea.com"),
    _row("github", "https://github.com", "github", "bottlepy/bottle", "GitHub"),
    _row("github-npm", "https://npm.pkg.github.com", _GITHUB_NPM, "@owner/package", "GitHub npm",
         page="https://github.com/{name}", token_from="GITHUB_TOKEN",
         pasted=(rf"github\.com/{_PART}/[^/]+/pkgs/npm/{_PART}{_REST}",)),
    _row("gitlab", "https://gitlab.com", "gitlab", "gitlab-org/gitlab-runner", "GitLab"),
    _row("gnome-gitlab", "https://gitlab.gnome.org", "gitlab", "GNOME/gtk", "GNOME GitLab"),
    _row("gnu-savannah", "https://git.savannah.gnu.org", "savannah", "bash", "GNU Savannah", pasted=(
        r"(?:cgit\.)?(?:git\.)?(?:savannah|sv)\.(?:non)?gnu\.org/(?:git|cgit|r|gitweb)/(.+?)\.git" + _REST,
        rf"savannah\.(?:non)?gnu\.org/(?:projects|git)/{_PART}{_REST}",
        rf"(?:ftp\.)?gnu\.org/(?:gnu|software)/{_PART}{_REST}")),
    _row("go", "https://proxy.golang.org", "goproxy", "golang.org/x/text", "Go",
         page="https://pkg.go.dev/{name}?tab=versions", release_page="https://pkg.go.dev/{name}@{version}",
         pasted=(r"pkg\.go\.dev/([^@]+)(?:@.*)?",)),
    _row("hackage", "https://hackage.haskell.org", "hackage", "pandoc", "Hackage"),
    _row("haskell-gitlab", "https://gitlab.haskell.org", "gitlab", "ghc/ghc", "Haskell GitLab"),
    _row("hex", "https://hex.pm", "hex", "plug", "Hex", pasted=(rf"hexdocs\.pm/{_PART}{_REST}",)),
    _row("image", "", _ANY_IMAGE, "docker.n8n.io/n8nio/n8n", "Image registry"),
    _row("k8s", "https://registry.k8s.io", "oci", "kube-apiserver", "Kubernetes registry"),
    _row("kde-gitlab", "https://invent.kde.org", "gitlab", "graphics/krita", "KDE Invent"),
    _row("maven", "https://repo1.maven.org/maven2", "maven", "com.google.guava:guava", "Maven Central",
         page="https://central.sonatype.com/artifact/{path}/versions",
         release_page="https://central.sonatype.com/artifact/{path}/{version}", pasted=(
             rf"(?:central\.sonatype\.com|mvnrepository\.com|search\.maven\.org)/artifact/{_PARTS}{_REST}",)),
    _row("npm", "https://api.deps.dev", _NPM, "@angular/core",
         pasted=(rf"(?:[\w-]+\.)?npmjs\.\w+/package/{_SCOPED}",)),
    _row("nuget", "https://api.nuget.org", "nuget", "Newtonsoft.Json", "NuGet",
         page="https://www.nuget.org/packages/{name}", release_page="{page}/{version}",
         pasted=(rf"nuget\.org/packages/{_PART}{_REST}",)),
    _row("packagist", "https://repo.packagist.org", "packagist", "monolog/monolog", "Packagist",
         page="https://packagist.org/packages/{name}", release_page="{page}#{version}",
         pasted=(rf"packagist\.org/packages/{_PARTS}{_REST}",)),
    _row("pub", "https://pub.dev", "pub", "http", "pub.dev"),
    _row("pypi", "https://api.deps.dev", _PYPI, "bottle", "PyPI",
         pasted=(rf"(?:pypi\.\w+/(?:project|simple|p)|piwheels\.org/project)/{_PART}{_REST}",)),
    _row("quay", "https://quay.io", "quay", "prometheus/prometheus", "Quay"),
    _row("sourceforge", "https://sourceforge.net", "sourceforge", "sevenzip", "SourceForge", pasted=(
        rf"(?:pr)?downloads\.sourceforge\.net/(?:project/)?{_PART}{_REST}",
        rf"(?!(?:(?:pr)?downloads|lists)\.)([a-z0-9-]+)\.(?:sourceforge|sf)\.(?:net|io){_REST}")),
    _row("sourcehut", "https://git.sr.ht", "sourcehut", "~sircmpwn/scdoc"),
    _row("torproject-gitlab", "https://gitlab.torproject.org", "gitlab", "tpo/core/tor", "Tor GitLab"),
    _row("videolan-gitlab", "https://code.videolan.org", "gitlab", "videolan/vlc", "VideoLAN GitLab"),
    _row("xfce-gitlab", "https://gitlab.xfce.org", "gitlab", "xfce/xfce4-panel", "Xfce GitLab"),
    _row("yarn", "https://registry.yarnpkg.com", "npm", "react", "Yarn",
         page="https://yarnpkg.com/package?name={segment}",
         pasted=(rf"(?:classic\.)?yarnpkg\.com/(?:[a-z]{{2}}/)?package/{_SCOPED}",)),
)}

def _problem_of_row(id_: str, speaks: str, site: str) -> str:
    """What is wrong with an operator's provider, such as the fragment that says how to read its address."""
    fragment = site.partition("#")[2]
    if speaks not in DIALECTS:
        return f"there is no dialect {speaks!r}; expected one of: {', '.join(sorted(DIALECTS))}"
    if speaks == "depsdev" and id_ not in _DEPSDEV_SYSTEMS:
        return f"deps.dev has no registry {id_!r}; expected one of: {', '.join(sorted(_DEPSDEV_SYSTEMS))}"
    if speaks == "json":
        unknown = [name for name in _fields_of(fragment) if name not in ("", *_FIELDS)]
        return f"behind # stand {', '.join(_FIELDS)}, not {', '.join(unknown)}" if unknown else ""
    other = {"page": "header:NAME", "feed": "nothing"}.get(speaks)
    is_read = "{version}" in fragment or fragment.startswith("header:") or speaks == "feed" and not fragment
    return f"behind # stands the text around {{version}}, or {other}" if other and not is_read else ""

def providers_with(rows: Iterable[tuple[str, str, str]], own: Iterable[Provider] = ()) -> dict[str, Provider]:
    """The built-in providers with the operator's added or moved, sorted by id. Raises SettingError.
    A built-in one that is moved keeps its rules, unless it speaks another dialect now."""
    table = dict(PROVIDERS) | {provider.id: provider for provider in own}
    for id_, speaks, site in rows:
        if problem := _problem_of_row(id_, speaks, site):
            raise SettingError(f"--provider {id_}={speaks}:{site}: {problem}")
        dialect, old = DIALECTS[speaks], table.get(id_) or Provider(id_, site, DIALECTS[speaks])
        if old.dialect.read is not dialect.read:
            old = Provider(id_, site, dialect, token_from=old.token_from, pasted=old.pasted)
        table[id_] = dataclasses.replace(old, site=site, page="", release_page="")
    return dict(sorted(table.items()))

def provider_token(settings: Settings, provider: Provider) -> str | None:
    return os.environ.get(provider.token_variable) or dict(settings.token).get(provider.id)

# What OSV knows of, by provider: its ecosystem. https://ossf.github.io/osv-schema/#defined-ecosystems
_OSV_ECOSYSTEMS = {"pypi": "PyPI", "npm": "npm", "yarn": "npm", "github-npm": "npm", "cargo": "crates.io",
                   "gems": "RubyGems", "packagist": "Packagist", "maven": "Maven", "nuget": "NuGet",
                   "hex": "Hex", "pub": "Pub", "hackage": "Hackage", "go": "Go"}

def osv_package(provider: Provider, name: str) -> tuple[str, str] | None:
    """``(ecosystem, name)`` of a project there; of a forge's repository the ecosystem is "GIT", whose answers
    are not certain. None: OSV does not know such projects, whatever it would answer."""
    built_in = PROVIDERS.get(provider.id)
    if not built_in or built_in.site != provider.site:      # an operator's own server
        return None
    if provider.id in _OSV_ECOSYSTEMS:
        return _OSV_ECOSYSTEMS[provider.id], name
    return ("GIT", f"{provider.site.partition('://')[2]}/{name}") if provider.dialect.read in (
        github, gitlab, forgejo) else None

# Products of https://endoflife.date that its list of purls does not have.
_PRODUCTS = {"pkg:docker/library/nextcloud": "nextcloud", "pkg:github/nextcloud/server": "nextcloud"}

def product_of(provider: Provider, name: str, products: Mapping[str, str]) -> str:
    """The product of endoflife.date that a project is for sure, by ``products`` of purls; else ""."""
    if provider.id == "endoflife":
        return name
    types = [type_ for type_, id_ in PURL_TYPES.items() if id_ == provider.id]
    purls = [f"pkg:{type_}/{quote(name.replace(':', '/')).lower()}" for type_ in types]
    return next((found for purl in purls if (found := products.get(purl) or _PRODUCTS.get(purl))), "")

def unknown_provider(id_: str) -> str:
    """The error of a project whose provider this process does not know, though another may."""
    return (f"there is no provider {id_} here, so its projects are not checked; add it on the page Settings, "
            f"with 'config set provider {id_}=...' or with --provider {id_}=...")

def name_at(provider: Provider, text: str) -> tuple[str, str]:
    """``(name, key)``: the name as the provider spells it, and what identifies it there. Raises Invalid."""
    dialect = provider.dialect
    name = dialect.normalise(re.sub(r"/+", "/", text.strip()).strip("/"))
    is_odd = len(name) > NAME_LIMIT or re.search(r"(?:^|/)\.{1,2}(?:/|$)", name)
    if is_odd or not re.fullmatch(dialect.pattern, name):
        example = f", such as {provider.example}" if provider.example else ""
        raise Invalid(Problem("name", f"{text[:NAME_LIMIT]!r} must have the form {dialect.form} at "
                                      f"{provider.id}, in at most {NAME_LIMIT} characters{example}"))
    return name, dialect.key(name)

def project_named(providers: Mapping[str, Provider], id_: str, name: str) -> tuple[Provider, str] | None:
    """``(provider, name)`` of a project; None without that provider, or if it has no such names."""
    with contextlib.suppress(Invalid, KeyError):
        return providers[id_], name_at(providers[id_], name)[0]
    return None

def _pasted_at(provider: Provider, address: str) -> str | None:
    """The name of the project that a page's address, without scheme and query, is about: at its server, or
    at that of the built-in provider whose id it has, as of a mirror."""
    below = []
    for site in {provider.site, PROVIDERS.get(provider.id, provider).site}:
        host, slash, path = site.partition("://")[2].partition("/")
        place = re.escape(f"{host.lower().removeprefix('www.')}{slash}{path}")
        below += [f"{place}/{pattern}" for pattern in provider.dialect.pasted]
    system = _DEPSDEV_SYSTEMS.get(provider.id, "-").lower()
    for pattern in (*provider.pasted, *below, rf"deps\.dev/{system}/{_PART}{_REST}"):
        if match := re.fullmatch(pattern, address):
            with contextlib.suppress(Invalid):
                return name_at(provider, unquote("/".join(match.groups())))[0]
    return None

# https://github.com/package-url/purl-spec: the provider of each type; and a purl's type, namespace and name,
# version, qualifiers, subpath.
PURL_TYPES = {"apk": "alpine", "composer": "packagist", "deb": "debian", "docker": "dockerhub", "gem": "gems",
              "githubactions": "github", "golang": "go", "oci": "dockerhub", "swift": "git",
              **{id_: id_ for id_ in ("bitbucket", "cargo", "conda", "cpan", "github", "gitlab", "hackage",
                                      "hex", "maven", "npm", "nuget", "openvsx", "pub", "pypi")}}
PURL = re.compile(r"pkg:/*([\w.+-]+)/([^?#]*?)(?:@([^@/?#]*))?(?:\?([^#]*))?(?:#(.*))?", re.IGNORECASE)
# An image as "docker pull" takes it: https://pkg.go.dev/github.com/distribution/reference
_REFERENCE = re.compile(rf"(?:({_REGISTRY})/|(?![^/:@]*\.))((?:{_IMAGE}/)*{_IMAGE})"
                        r"(:\w[\w.-]{0,127})?(@sha256:[0-9a-f]{64})?", re.IGNORECASE)
_CALLED_REGISTRY = re.compile(r".*:[0-9]+|(?:.*[.-])?(?:docker|registry|[a-z]*cr|cgr)\..*", re.IGNORECASE)

def _project_of_purl(providers: Mapping[str, Provider], purl: str) -> tuple[Provider, str] | None:
    """The project of ``pkg:npm/%40scope/name@1.0``."""
    found = PURL.fullmatch(purl)
    type_, path, _, qualifiers, below = (one or "" for one in found.groups()) if found else [""] * 5
    type_, name = type_.lower(), unquote(path)
    asked = {key: value.partition("@")[0] for key, value in urllib.parse.parse_qsl(qualifiers[:2000])}
    place = asked.get("repository_url")
    if place:       # an image in another registry
        elsewhere = f"{place}/{name}" if type_ == "docker" else place
        return project_in(providers, elsewhere) if elsewhere[:4].lower() != "pkg:" else None
    if type_ == "swift" or type_ == "docker" and re.match(r"[^/]*[.:]", name):
        return project_in(providers, f"https://{name}" if type_ == "swift" else f"{name}:latest")
    if type_ == "golang":
        is_package = re.match(r"(?:cmd|internal|pkg)(?:/|$)", below)       # else the rest of a module's name
        name = "/".join(filter(None, (name, "" if is_package else unquote(below).strip("/"))))
        type_, name = ("github", "golang/go") if name == "stdlib" else (type_, name)
    owner, last = name.partition("/")[0], name.rpartition("/")[2]
    origin = asked.get("upstream") or last
    name = {"apk": f"main/{origin}", "conda": f"{asked.get('channel', '')}/{name}", "cpan": last,
            "deb": origin if owner in ("debian", "ubuntu") else "", "openvsx": name.replace("/", "."),
            "githubactions": "/".join(name.split("/")[:2])}.get(type_, name)
    id_ = "ubuntu" if (type_, owner) == ("deb", "ubuntu") else PURL_TYPES.get(type_, "")
    return project_named(providers, id_, name)

def _image_in(providers: Mapping[str, Provider], text: str) -> tuple[Provider, str] | None:
    """The project of an image's reference, at Docker Hub unless it names a registry, or of its list of tags.
    Without a tag it may be a repository or a module, unless its registry has a port or is called like one."""
    reference = _REFERENCE.fullmatch(text) if len(text) <= 2 * NAME_LIMIT else None
    if listed := re.fullmatch(r"https?://([^/]+)/v2/(.+)/tags/list", text):
        return project_named(providers, "image", "/".join(listed.groups()))
    if reference and (reference[3] or reference[4] or _CALLED_REGISTRY.fullmatch(reference[1] or "")):
        name = "/".join(filter(None, reference.group(1, 2)))
        return project_named(providers, "image" if reference[1] else "dockerhub", name)
    return None

def is_address(text: str) -> bool:
    return bool(re.match(r"(?:git\+)?(?:https?|ssh|git)://|git@|pkg:", text.strip(), re.IGNORECASE))

def project_in(providers: Mapping[str, Provider], text: str) -> tuple[Provider, str] | None:
    """``(provider, name)`` of the project of a page's, image's or repository's address, or of a purl."""
    text = re.sub("^(?:docker|oci)://", "", text.strip())
    text = re.sub(r"^registry\.hub\.docker\.com/", "docker.io/", text)
    if text[:4].lower() == "pkg:":
        return _project_of_purl(providers, text)
    text = re.sub(r"^(?:(?:git\+)?ssh://git@([^:/]+)(?::[0-9]+)?/|git@([^:/]+):)", r"https://\1\2/", text)
    address, _, query = re.sub(r"^(?:git\+)?\w+://", "", text).partition("#")[0].partition("?")
    host, _, path = address.partition("/")
    host = re.sub(r"^[\w.-]+@", "", host)       # Bitbucket shows addresses with the user
    asked, path = dict(urllib.parse.parse_qsl(query[:2000])), path.strip("/")
    named = asked.get("name") or asked.get("group")
    if path in ("package", "git") and named:        # of Yarn and Savannah
        path = f"{path}/{named}"
    if api := re.match(r"(?:api/v1/)?repos/([^/]+/[^/]+)", path):       # of a forge
        host, path = host.removeprefix("api."), f"{api[1].removesuffix('.git')}.git"
    address = f"{host.lower().removeprefix('www.')}/{path}"[:1000]
    for provider in providers.values():
        if name := _pasted_at(provider, address):
            return provider, name
    scheme = "http" if re.match(r"(?:git\+)?http://", text, re.IGNORECASE) else "https"
    repository = path.endswith(".git") and project_named(providers, "git", f"{scheme}://{host}/{path}")
    return repository or _image_in(providers, text)

def split_provider(providers: Collection[str], id_: str | None, text: str) -> tuple[str | None, str]:
    """The provider that a typed text begins with, as in "npm react" and "npm:react", else ``id_``; and the
    rest. What may be an image's tag, as in debian:12, is left alone."""
    first = re.match(r"\s*(?:[-*\u2022]\s+)?([\w.-]+)(?:\s+|:(?!/|v?[0-9.]+(?:-|$)))(?=\S)", text)
    is_named = first and first[1].lower() in providers
    return (first[1].lower(), text[first.end():]) if first and is_named else (id_, text)

_LIKELY = ("github", "gitlab", "codeberg", "dockerhub", "pypi", "npm", "cargo", "gems", "packagist", "nuget",
           "hex", "hackage", "pub", "go", "image", "artifacthub", "maven", "quay")

def likely_providers(providers: Mapping[str, Provider], name: str) -> list[Provider]:
    """Up to eight providers whose projects may have such a name, those that most people mean first."""
    found = (project_named(providers, id_, name) for id_ in dict.fromkeys((*_LIKELY, *providers)))
    return [one[0] for one in itertools.islice(filter(None, found), 8)]

def project_at(providers: Mapping[str, Provider], id_: str | None, text: str,
               is_typed: bool = False) -> tuple[Provider, str, str]:
    """``(provider, name, key)`` of a project by a provider's id and a name, or by an address. ``is_typed``:
    by a person, who may begin with the provider, and means GitHub by owner/repository. Raises Invalid."""
    if re.search(r"://[^/@:]*:[^/@]*@", text):
        raise Invalid(Problem("name", "must not contain user and password; a token comes from the "
                                      "environment"))
    if is_typed and id_ is None and text in providers:
        raise Invalid(f"{text} is a provider; expected the project's name after it")
    if is_typed:        # npm:react; owner/repository@v1.2.3
        id_, text = split_provider(providers, id_, text) if id_ is None else (id_, text)
        text = re.sub(r"^([\w.-]+/[\w.-]+)@v?[0-9][\w.+-]*$", r"\1", text.strip())
    if id_ is None:
        found = project_in(providers, text)
        if found is None and is_typed:
            found = project_named(providers, "github", text)
        if found is None:
            likely = ", ".join(provider.id for provider in likely_providers(providers, text))
            hint = f"may be a project of {likely}" if likely else "is not an address that is known here"
            raise Invalid(Problem(
                "provider", "is required, unless the project name is the address of a project's page, such "
                f"as https://github.com/bottlepy/bottle, or a purl; {text[:NAME_LIMIT]!r} {hint}"))
        return (*found, name_at(*found)[1])
    if id_ not in providers:
        all_there_are = f"there are {', '.join(providers)}" if is_typed else "GET /v1/providers lists all"
        raise Invalid(Problem("provider", f"{id_[:60]!r} is unknown" + (
            did_you_mean(id_, providers) or f"; {all_there_are}")))
    if own := project_in({id_: providers[id_]}, text):
        text = own[1]
    elif id_ not in BY_ADDRESS and is_address(text) and (other := project_in(providers, text)):
        raise Invalid(Problem("name", f"{text[:NAME_LIMIT]!r} is an address of the provider "
                                      f"{other[0].id}, not {id_}"))
    return (providers[id_], *name_at(providers[id_], text))

def _server_and_name(provider: Provider, name: str) -> tuple[str, str]:
    """``(address of its server, name there)`` of a project. A registry that an image names is spoken to as
    Docker does: without TLS only on this machine."""
    if provider.site or not provider.dialect.has_images:
        return provider.site, name
    registry, _, path = name.partition("/")
    is_here = re.fullmatch(r"(?:localhost|127\.[0-9.]+)(?::[0-9]+)?", registry)
    return f"{'http' if is_here else 'https'}://{registry}", path

def page_of(provider: Provider, name: str, version: str | None = None) -> str:
    """Where people see a project's releases, or one of them."""
    row = provider if provider.page else provider.dialect
    template = version is not None and row.release_page.replace("{page}", row.page) or row.page
    if provider.dialect.read is dockerhub and name.startswith("library/"):
        template, name = "{site}/_/{name}/tags", name.partition("/")[2]
    site, name = _server_and_name(provider, name)
    address = (_filled(provider.site, name) if provider.site else name).partition("#")[0]
    return _filled(template, name, "/@~:+", site=site, provider=provider.id,
                   address=quote(address, safe="/:?&=%@~+"), version=quote(version or "", safe=""))

def _raise_for_status(provider: Provider, name: str, asked: Request, answer: Answer,
                      token_headers: Mapping[str, str]) -> None:
    """Raises ProviderError for a status that is neither success nor accepted."""
    status = answer.status
    if 200 <= status < 300 or status in asked.accept_statuses:
        return
    if status in (404, 410, 451):
        raise ProjectMissing(f"{provider.title} has no project {name} (status {status})")
    if status == 401 and token_headers and token_headers.items() <= asked.headers.items():
        raise TokenRefused(f"{provider.title} refuses the token in {provider.token_variable}; it may have "
                           "expired or been revoked")
    if status in (401, 403):
        token = f" and needs a token in {provider.token_variable}" if provider.dialect.auth else ""
        if provider.auth("x").keys() & asked.headers.keys():
            token = f" and the token in {provider.token_variable} does not open it"
        raise ProviderError(f"{provider.title} does not show {name} (status {status}): it does not exist, "
                            f"is private{token}, or programs are kept out")
    raise ProviderError(f"{provider.title} answered status {status} for {name}")

def clean_note(provider: Provider, name: str, version: str, note: Note) -> Note:
    """The note as it can be stored and shown, with absolute links that are no scripts."""
    url = note.url[:2000] if isinstance(note.url, str) and re.fullmatch(
        r"https?://[^\0\s\"'<>\ud800-\udfff]+", note.url) else ""
    title, message = (UNSTORABLE.sub("\ufffd", text) for text in (note.title, note.message))
    message = absolute_links(message, url or page_of(provider, name, version))
    return Note(title, harmless_links(message)[:NOTE_LIMIT], url, note.original)

def clean_releases(provider: Provider, name: str, releases: Iterable[Release]) -> list[Release]:
    """The releases that can be stored, each version once, newest first, with the dialect's prereleases."""
    found, rules = dict[str, Release](), provider.dialect.versions
    for release in releases:
        version = release.version
        is_sane = 0 < len(version) <= NAME_LIMIT and version.isprintable() and version == version.strip()
        if is_sane and version not in found:
            found[version] = dataclasses.replace(
                release, is_prerelease=release.is_prerelease or rules.is_prerelease(version),
                note=release.note and clean_note(provider, name, version, release.note),
                content_id=release.content_id and UNSTORABLE.sub("\ufffd", release.content_id))
    return heapq.nlargest(RELEASE_LIMIT, found.values(), key=lambda release: (
        (release.date or "").rstrip("Z"), rules.order(release.version)))

def _next_request(provider: Provider, name: str, at: str, steps: Exchange,
                  answer: Answer | None) -> Request | Listing:
    """A dialect's next request, or its listing. ``at``: the project's site. Raises ProviderError."""
    try:
        request = steps.send(answer)        # type: ignore[arg-type]    # None starts it
        if not isinstance(request.url, str):        # taken from an answer
            raise TypeError(f"an address is {request.url!r:.40}, not text")
        site, asked = urlsplit(at), urlsplit(request.url)
        if answer and asked[:2] != site[:2]:
            if (site.scheme, asked.scheme) == ("https", "http"):
                raise ValueError("it names an address that is not https")
            request = dataclasses.replace(request, named_by=answer.address)
        return request
    except StopIteration as done:
        return done.value
    except _UNREADABLE as error:
        is_ours = type(error) is ValueError
        what = str(error) if is_ours else f"something is missing or of another type: {error!r:.100}"
        what = "".join(letter if letter.isprintable() else " " for letter in what[:200])
        raise ProviderError(f"{provider.title} answered no list of releases for {name}: {what}") from error

def releases_of(provider: Provider, name: str, ask: Callable[[Request], Answer], token: str | None = None,
                read_known: Callable[[], Mapping[str, Release]] = dict, etag_url: str | None = None,
                etag: str | None = None, kept: dict[str, str] | None = None,
                installed: Collection[str] = ()) -> Listing | None:
    """What a provider lists of a project, newest first; None if what is at ``etag_url`` still has ``etag``.
    ``kept``: what dialects keep between checks; changed. ``installed``: versions whose content counts. Raises
    ProviderError for everything that can go wrong there."""
    site, name_there = _server_and_name(provider, name)
    project = ProjectRef(provider.id, site, name_there, token, provider.auth(token), read_known,
                         {} if kept is None else kept, installed)
    steps, answer = provider.dialect.read(project), None
    for _ in range(_REQUEST_LIMIT):
        request = _next_request(provider, name, site, steps, answer)
        if isinstance(request, Listing):
            return dataclasses.replace(request, releases=clean_releases(provider, name, request.releases))
        is_conditional = bool(etag) and request.url == etag_url
        if etag and is_conditional:
            condition = "If-None-Match" if etag.startswith(('"', "W/")) else "If-Modified-Since"
            headers = {**request.headers, condition: etag}
            request, etag = dataclasses.replace(request, headers=headers), None     # once
        request = dataclasses.replace(request, is_user_supplied=not provider.site)
        try:
            answer = ask(request)
        except Unreachable as error:
            raise Unreachable(f"Can't reach {provider.title}: {error}") from error
        if is_conditional and answer.status == 304:
            return None
        _raise_for_status(provider, name, request, answer, project.auth)
    raise ProviderError(f"{provider.title} would need more than {_REQUEST_LIMIT} requests for {name}")

def labels_of(provider: Provider, name: str, reference: str, ask: Callable[[Request], Answer],
              token: str | None) -> Mapping[str, str]:
    """What an image says of its source, in one to three answers of its registry. Raises ProviderError."""
    found = dict[str, str]()

    def read(project: ProjectRef) -> Exchange:
        _, labels = yield from _oci_labels(project, reference, SOURCE_LABELS[:2])
        found.update((key, labels[key]) for key in SOURCE_LABELS if key in labels)
        return Listing(())
    site = provider.site.replace("//hub.docker.com", "//registry-1.docker.io")
    dialect = dataclasses.replace(provider.dialect, read=read)
    releases_of(dataclasses.replace(provider, site=site, dialect=dialect), name, ask,
                token if provider.dialect.read is oci else None)        # else it is for another API
    return found

# Whose notes an image gets: its names, the repositories that its label names and whose releases are not its
# own (".": docker-library's), the one that has them, and where the notes of a version are without releases.
_NOTES = """
caddy caddyserver/caddy-docker caddyserver/caddy; redis .,redis/docker-library-redis redis/redis
elasticsearch,kibana,logstash elastic/dockerfiles elastic/{image}; keycloak/keycloak - keycloak/keycloak
gitea/gitea - go-gitea/gitea
golang . golang/go https://go.dev/doc/devel/release#go{v}; ghost TryGhost/docker-library-ghost TryGhost/Ghost
haproxy . haproxy/haproxy https://www.haproxy.org/download/{line}/src/CHANGELOG; ollama/ollama - ollama/ollama
httpd,apache . apache/httpd https://archive.apache.org/dist/httpd/CHANGES_{v}; drone/drone - harness/harness
influxdb,telegraf influxdata/influxdata-docker influxdata/{image}; rabbitmq . rabbitmq/rabbitmq-server
jellyfin/jellyfin jellyfin/jellyfin-packaging jellyfin/jellyfin; portainer/portainer-ce - portainer/portainer
mariadb MariaDB/mariadb-docker MariaDB/server https://mariadb.com/kb/en/mariadb-{dashed}-release-notes/
memcached . memcached/memcached https://github.com/memcached/memcached/wiki/ReleaseNotes{joined}
mongo,mongodb . mongodb/mongo https://www.mongodb.com/docs/manual/release-notes/{line}/
mysql . mysql/mysql-server https://dev.mysql.com/doc/relnotes/mysql/{line}/en/news-{dashed}.html
nginx nginx/docker-nginx nginx/nginx https://nginx.org/en/CHANGES; fireflyiii/core - firefly-iii/firefly-iii
nodered/node-red node-red/node-red-docker node-red/node-red; gitlab/gitlab-ce - gitlab:gitlab-org/gitlab-foss
php . php/php-src https://www.php.net/ChangeLog-{major}.php#{v}; containrrr/watchtower - containrrr/watchtower
postgres,postgresql . postgres/postgres https://www.postgresql.org/docs/release/{v}/
python . python/cpython https://docs.python.org/release/{v}/whatsnew/changelog.html; minio/minio - minio/minio
registry distribution/distribution-library-image distribution/distribution; valkey/valkey - valkey-io/valkey
solidnerd/bookstack - BookStackApp/BookStack; node nodejs/docker-node nodejs/node
traefik traefik/traefik-library-image traefik/traefik; nextcloud nextcloud/docker nextcloud-releases/server
wordpress . WordPress/WordPress https://wordpress.org/documentation/wordpress-version/version-{dashed}/
"""
_NOTES_ROWS = {         # by the image's name, or by that of the packaging repository behind a colon
    key: found for row in _NOTES.strip().replace("; ", "\n").split("\n")
    for images, origins, *found in [row.split()] for key in (*images.split(","), *(
        f":{one.lower()}".replace(":.", f":docker-library/{images.partition(',')[0]}")
        for one in origins.split(",")))}

def _notes_row(image: str, packaging: str = "") -> list[str]:
    """The repository, and perhaps where notes are, of the row of an image or its packaging repository."""
    image = "/".join(image.split("/")[-2:]).removeprefix("library/").replace("docker.gitea.com", "gitea")
    last = image.rpartition("/")[2]
    names = [last, f"{last}/{last}"] if image.startswith("bitnami/") else [image]
    rows = filter(None, map(_NOTES_ROWS.get, (*names, f":{packaging.lower()}")))
    return [text.replace("{image}", last) for text in next(rows, [])]

def source_of_notes(providers: Mapping[str, Provider], image: Source,
                    ) -> tuple[Provider, str, Callable[[str], str], bool] | str:
    """``(provider, name, where the notes of a version are, whether that is sure)`` of the repository whose
    notes an image gets: as a person chose, as the table says, or as its labels do; or why there is none."""
    labels, chosen, name, link = json.loads(image.labels or "{}"), None, "", list[str]()

    def link_of(version: str) -> str:
        one = list(map(str, version_parts(version).numbers))
        return link[0].format(
            v=".".join(one), line=".".join(one[:2]), major="".join(one[:1]), dashed="-".join(one),
            joined="".join(one)) if link else page_of(chosen or providers["github"], name, version)
    if image.notes_from:
        id_, _, name = image.notes_from.partition(" ")
        chosen = providers.get(id_)
        return (chosen, name, link_of, True) if chosen else "no notes are wanted"
    for text in filter(None, map(labels.get, SOURCE_LABELS[:3])):
        address = re.sub("/(?:pkgs|packages)(?:/.*)?$", "", text.strip("\"' "))
        found = project_in(providers, address if is_address(address) else f"https://{address}")
        if found and found[0].site and not found[0].dialect.has_images and not chosen:
            chosen, name = found
    if row := _notes_row(image.name, name):
        (id_, _, name), link = row[0].rpartition(":"), row[1:]
        chosen = providers[id_ or "github"]
        return chosen, name, link_of, True
    base = re.sub("(?::[^/:]*)?(?:@.*)?$", "", labels.get(SOURCE_LABELS[3], ""))
    if not chosen or name in ("/".join(base.split("/")[-2:]), *_notes_row(base)):
        return "its label names what it is based on" if chosen else "this image has no source label"
    return chosen, name, link_of, False


# == readers ===================================================================
# Reads the files in which people pin versions: compose files, lock files, SBOMs, lists of other tools. Pure:
# a text comes in, entries go out; nothing is executed, no file is opened. What is read is a stranger's: no
# pattern is quadratic; time and memory are limited where a reader runs, in the helper process (security).

ENTRY_LIMIT = 50_000            # entries of one file
_CONTAINER_LIMIT = 1000         # of one engine
_WIDTH_LIMIT = 10_000           # characters of a line that are looked at, and of a value with its variables

# What stands where a version will be filled in, or for none: {{ tag }}, <%= @v %>, ${TAG}, $(TAG), @TAG@,
# %TAG%, __TAG__, IMAGE_TAG, --hash=..., null, ~, (devel).
_PLACEHOLDER = re.compile(
    r"[{}<>]|\$[\w(]|@\w+@|%\w+%|^(?:--|\(|~$|__\w+__$|[A-Z_]*(?:TAG|VERSION)$|"
    r"(?i:null|none|nil|undefined|unknown|noassertion|change_?me|x\.[xy](?:\.[xz])?)$)")
_NO_VERSION = "not a version; perhaps a placeholder"
_NO_TAG = "its tag is not named here"
Reader = Callable[[str, Mapping[str, str]], Iterable["Pin"]]

@dataclasses.dataclass(frozen=True)
class Pin:
    """A project that a file pins. ``reason``: why it has no provider, or no version, in plain words. Whatever
    a stranger wrote, its texts can be stored and shown, and a placeholder is no version."""
    name: str                   # as its provider spells it; an image without tag; an address; a purl
    version: str = ""           # the tag or version as written; "" where the file has none
    digest: str = ""
    is_direct: bool = True      # False: only others need it. True too where the file cannot tell
    service: str = ""           # where in the file: a compose service, build stage, folder or section
    provider: str = ""          # our id; "image" for one of any registry; "" where project_in can tell
    reason: str = ""
    label: str = ""             # the version that an image itself names
    source: str = ""            # and the address of its source
    alias: str = ""             # what a manifest beside the file calls it, which tells whether it is direct

    def __post_init__(self) -> None:
        texts = {key: re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", "\ufffd", value[:500])
                 for key, value in vars(self).items() if isinstance(value, str)}
        if _PLACEHOLDER.search(texts["version"]):
            texts |= {"version": "", "reason": self.reason or _NO_VERSION}
        self.__dict__.update(texts)     # as it is frozen

def project_of_pin(providers: Mapping[str, Provider], found: Pin) -> tuple[Provider, str] | None:
    """``(provider, name)`` of what a file pins; None if no provider has it, or its reader says so."""
    if found.reason and not found.provider and not found.name.startswith("pkg:"):
        return None
    if found.provider == "image":       # without a tag, owner/name could be a repository
        registries = {id_: one for id_, one in providers.items() if one.dialect.has_images}
        return project_in(registries, f"{found.name}:latest")
    if not found.provider:
        return project_in(providers, found.name)
    return project_named(providers, found.provider, found.name)

def _lines(text: str) -> Iterator[str]:
    """The lines that are neither blank nor comments, their indentation kept."""
    return (line[:_WIDTH_LIMIT].rstrip() for line in text.split("\n") if line.strip(" \t#")
            and line.lstrip(" \t")[0] != "#")

def _with_variables(text: str, env: Mapping[str, str]) -> tuple[str, str]:
    """The text with its variables, as compose fills them in, and the name of one that is not set, or "".
    https://docs.docker.com/reference/compose-file/interpolation/  Innermost first, 10 deep; what a variable
    holds is not filled in again. Raises ValueError for what grows too long."""
    def value(match: re.Match[str]) -> str:
        name, rule, other = match[1] or match[4], match[2] or "", match[3] or ""
        given = env.get(name) or (None if ":" in rule else env.get(name))
        if "+" in rule or "-" in rule and given is None:
            return "" if "+" in rule and given is None else other
        return f"\1{name}\2" if given is None else given.replace("$", "\0")
    text = text.replace("$$", "\0")
    for _ in range(10):
        text = re.sub(r"\$(?:\{(\w+)(?:(:?[-?+])([^${}]*))?\}|([A-Za-z_]\w*))", value, text)
        if len(text) > _WIDTH_LIMIT:
            raise ValueError(f"has variables that make a value longer than {_WIDTH_LIMIT:,} characters")
    unset = re.search("\1(\\w+)\2", text)
    return re.sub("\1\\w+\2", "", text).replace("\0", "$"), unset[1] if unset else ""

def read_env(text: str) -> dict[str, str]:
    """The variables of a ``.env`` file. Raises ValueError."""
    env: dict[str, str] = {}
    for name, raw in re.findall(r"^[ \t]*(?:export +)?(\w+) *=(.*)$", text.lstrip("\ufeff"), re.MULTILINE):
        env[name] = _scalar(raw.strip()) if "'" in raw[:2] else _with_variables(_scalar(raw.strip()), env)[0]
    return env

def _pin_of_version(version: str) -> dict[str, Any]:
    """The fields of Pin that say which version is pinned, or why none is."""
    if re.search(r"[\^~<>=*|, ]|\.x\b", version):
        return {"reason": "a range, not a version"}
    is_branch = version.startswith("dev-") or version.endswith("-dev")
    return {"reason": "a branch, not a version"} if is_branch else {"version": version}

# https://pkg.go.dev/github.com/distribution/reference  Forges without a registry are none.
_IMAGE_NAME = re.compile(r"(?!(?:github\.com|gitlab\.com|bitbucket\.org)/)(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?"
                         r"[a-z0-9][a-z0-9._-]*(?:/[a-z0-9][a-z0-9._-]*)*")
_IMAGE_REST = re.compile(r"(?:\w[\w.-]{0,127})?(?:@\w+:[0-9a-f]{32,})?", re.ASCII)
_BUILT_HERE = "built here"
# A version of a repository: a tag, or what a comment behind a commit calls it.
_RELEASE_TAG = re.compile(r"(?:[A-Za-z]+[._-])*+[A-Za-z]?[0-9][\w.+-]*")
_COMMENTED = re.compile(r"\b([0-9a-f]{40,64})[\"']?[ \t]+#[^\n]{0,60}?\b(v?[0-9][\w.+-]*)")
_A_COMMIT = "a branch or a commit, not a version"

def _image_pin(text: str, env: Mapping[str, str], service: str = "") -> Pin:
    """What an image's reference pins, with the variables in it."""
    filled, unset = _with_variables(text, env)
    reference, _, digest = filled.strip().partition("@")
    name, colon, tag = reference.rpartition(":")
    if not colon or "/" in tag:
        name, tag = reference, ""
    reason = f"the variable {unset} is not set, so the version is unknown" if unset else ""
    if not _IMAGE_NAME.fullmatch(name) or tag[:1] == " " or "/" in digest:
        return Pin(text, service=service, reason=reason or "not an image's name")
    is_unfit = _PLACEHOLDER.search(tag) or not _IMAGE_REST.fullmatch(tag + (digest and f"@{digest}"))
    if is_unfit and not unset:
        return Pin(name, service=service, reason=_NO_VERSION)
    if name.startswith("localhost/"):       # what Podman built
        return Pin(name.removeprefix("localhost/"), service=service, reason=_BUILT_HERE)
    return Pin(name, "" if unset else tag, digest, service=service, provider="image", reason=reason)

def _purl_pin(text: str, version: str = "", is_direct: bool | None = None, name: str = "") -> Pin:
    """What ``pkg:npm/%40scope/name@1.0`` pins: https://github.com/package-url/purl-spec  The packages of a
    distribution are what only others need."""
    found = PURL.fullmatch(text)
    if not found:       # an SBOM that has the name only
        return Pin(name, version, is_direct=is_direct is not False, reason="has no package URL (purl)")
    type_, path, pinned, query, below = (one or "" for one in found.groups())
    asked, digest, version = dict(urllib.parse.parse_qsl(query[:2000])), "", unquote(pinned) or version
    if version.startswith("sha256:"):       # of an image
        digest, version = version, asked.get("tag", "")
    kept = "&".join(f"{key}={quote(asked[key], safe='/:')}" for key in (
        "repository_url", "channel", "upstream") if key in asked)
    type_ = type_.lower()
    if type_ == "golang" and path == "stdlib":
        version = re.sub("^v", "go", version)
    is_direct = is_direct is None or is_direct and type_ not in ("apk", "deb", "rpm")
    about = {"digest": digest, "is_direct": is_direct, **_pin_of_version(version)}
    if type_ not in PURL_TYPES:
        about["reason"] = f"no provider for pkg:{type_}"
    return Pin(f"pkg:{type_}/{path}" + (kept and f"?{kept}") + (below and f"#{below}"), **about)

def _loaded(what: str, loads: Callable[[str], Any], text: str) -> Any:
    """Raises ValueError."""
    try:
        return loads(text)
    except RecursionError:
        raise ValueError("is nested too deep") from None
    except ValueError as error:
        raise ValueError(f"is not {what}: {error}") from None

# Numbers of JSON are texts here.
_json = functools.partial(_loaded, "JSON", functools.partial(
    json.loads, parse_int=str, parse_float=str, parse_constant=str))
_toml = functools.partial(_loaded, "TOML", tomllib.loads)
_Json = TypeVar("_Json", dict, list, str)

def _of(kind: type[_Json], value: Any, *keys: str) -> _Json:
    """What an object has at the keys, if it is of that kind; else an empty one."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, kind) else kind()

def _texts(value: Any, *keys: str) -> list[str]:
    return [_of(str, value, key) for key in keys]

_QUOTED = re.compile(r""""((?:[^"\\]|\\.)*+)"|'((?:[^']|'')*+)'""", re.DOTALL)
_YAML_PAIR = re.compile(r"""((?:"[^"]*"|'[^']*')\s*|[^\s"'{\[&*|>](?:[^\n#]|(?<=\S)#)*?):(?:\s+(.*))?$""")
# A value that goes on in deeper lines: a block, or one whose quotes are still open.
_OPEN = re.compile(r"""(?:[&!]\S*\s+)*+(?:[|>][-+0-9]*\s*(?:#.*)?|"(?:[^"\\]|\\.)*|'[^']*)$""")
_FLOW = re.compile(r"(?:[&!]\S*\s+)*+(?:\[|\{(?![{%]))")
_FLOW_TOKEN = re.compile(
    r"""\s*+(?:\#[^\n]*+|,\s*+(?=[}\]])|("(?:[^"\\]|\\.)*+"|'(?:[^']|'')*+')|((?!:)(?:\$\{[^{}\n]*+\}"""
    r"""|\{\{[^{}\n]*+\}\}|:(?![\s,{}\[\]])|[^\S\n](?!\#)|[^\s,{}\[\]:])++)|([{}\[\],:]))""", re.DOTALL)

def _scalar(text: str) -> str:
    """A plain or quoted scalar of YAML or .env, without the comment behind it; null is ""."""
    quoted = _QUOTED.match(text)
    if quoted and text[0] == '"':
        return re.sub(r"\\(.)", r"\1", quoted[1])
    plain = re.split(r"(?:^|\s)#", text, maxsplit=1)[0].strip()
    return quoted[2].replace("''", "'") if quoted else "" if plain in ("null", "Null", "NULL", "~") else plain

def _flow(text: str) -> Any:
    """The map or list in brackets that a text begins with, as in JSON. Raises ValueError where it cannot be
    read and may name something."""
    def as_json(token: re.Match[str]) -> str:
        return json.dumps(_scalar(token[1] or token[2])) if token[1] or token[2] else token[3] or ""
    try:
        return json.JSONDecoder().raw_decode(_FLOW_TOKEN.sub(as_json, text))[0]
    except (RecursionError, ValueError):
        if re.search("image|chart|uses", text):
            raise ValueError("has brackets that are not closed, or nested too deep") from None
        return ""

def _yaml_lines(text: str) -> Iterator[tuple[int, str | None, str]]:
    """``(depth, key, raw value)`` of block YAML, a value's lines in one. An item of a list has no key, and is
    deeper than a key that is as far left; a document is an item at -1."""
    def brackets(content: str) -> int:      # left open
        bare = re.sub(r"\s#.*", "", _QUOTED.sub("", content))
        return sum(map(bare.count, "{[")) - sum(map(bare.count, "]}"))
    found: list[tuple[int, str | None, str]] = [(-1, None, "")]     # of a line, the last one's value in parts
    at, parts, is_open, left_open = -1, [""], False, 0
    for line in itertools.chain(_lines(text), ["---"]):
        content, is_start = line.lstrip(" \t"), line[:4].rstrip() == "---"
        indent = len(line) - len(content)
        goes_on = not is_start and (left_open > 0 or indent > at and (is_open or not parts[0]))
        is_new = is_start or content[:2] in ("- ", "-") or _YAML_PAIR.match(content)
        if goes_on and (left_open > 0 or is_open) or not is_new:
            parts += [content] if goes_on else []
            left_open += brackets(content) if goes_on and (left_open > 0 or _FLOW.match(content)) else 0
            continue
        yield from (*found[:-1], (*found[-1][:2], "\n".join(parts).strip()))
        found, content = ([(-1, None, content[3:])], "") if is_start else ([], content)
        while content[:2] in ("- ", "-"):
            marks = re.findall(r"^-\s*((?:[&!]\S*\s+)*+)", content)[0]
            found.append((2 * (len(line) - len(content)) + 1, None, marks))
            content = content[1:].lstrip()[len(marks):]
        if pair := _YAML_PAIR.match(content):
            found.append((2 * (len(line) - len(content)), _scalar(pair[1]), pair[2] or ""))
        elif content:
            found[-1] = (*found[-1][:2], found[-1][2] + content)
        at, parts = found[-1][0] // 2, [found[-1][2]]
        is_open, left_open = bool(_OPEN.match(parts[0])), brackets(parts[0]) if _FLOW.match(parts[0]) else 0

def _documents(text: str) -> list[Any]:
    """The documents of a YAML text: maps, lists and texts; null is "". What an alias names is shared, not
    copied, so that a small text stays small. Raises ValueError."""
    if text.lstrip()[:1] in ("{", "["):     # JSON
        return [_flow(text)]
    documents, anchors = list[Any](), dict[str, tuple[Any, Any]]()
    levels: list[list[Any]] = [[-1, documents, 0]]      # depth, map or list, and the place of its last value

    def named(value: Any) -> Any:
        holder, place = anchors.get(value, (None, 0)) if isinstance(value, str) else (None, 0)
        return value if holder is None else holder[place]
    for depth, key, raw in _yaml_lines(text):
        while levels[-1][0] > depth:
            levels.pop()
        above, into, place = levels[-1]
        if above < depth:
            levels.append([depth, [] if key is None else {}, 0])
            into[place] = into[place] or levels[-1][1]      # else it is broken, and kept apart
            into = levels[-1][1]
        levels[-1][2] = place = len(into) if isinstance(into, list) else key
        if isinstance(into, list):
            into.append("")
        else:
            into[place] = ""
        while mark := re.match(r"([&!])(\S*)\s*", raw):
            anchors |= {f"*{mark[2]}": (into, place)} if mark[1] == "&" else {}
            raw = raw[mark.end():]
        value = _flow(raw) if _FLOW.match(raw) else named(_scalar(
            re.sub(r"^[|>][-+0-9]*\s*", "", raw[:_WIDTH_LIMIT].replace("\n", " "))))
        if isinstance(value, list):
            value = [named(one) for one in value]
        into[place] = {name: named(one) for name, one in value.items()} if isinstance(value, dict) else value
    return documents

def _maps(document: Any) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """``(the last keys that lead to it, "-" of a list, map)`` of each map; shared ones once."""
    waiting: list[tuple[tuple[str, ...], Any]] = [(("", ""), document)]
    seen = set[int]()
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, (dict, list)) and id(value) not in seen:
            seen.add(id(value))
            inner = value.items() if isinstance(value, dict) else (("-", one) for one in value)
            waiting += [((*path[-3:], key), one) for key, one in inner][::-1]
            if isinstance(value, dict):
                yield path, value

def _checkout(place: str, reference: str, names: Mapping[str, str] = {}, provider: str = "") -> Pin:
    """What a tag or a commit of a repository pins. ``names``: versions of commits."""
    version = names.get(reference, reference)
    is_tag = _RELEASE_TAG.fullmatch(version) and not re.fullmatch("[0-9a-f]{40,64}", version)
    return Pin(place, version if is_tag else "", provider=provider,
               reason="" if is_tag or not version else _A_COMMIT)

def _chart_pin(name: str, version: str, repository: str) -> Pin:
    """A Helm chart of a repository. A tag of a registry has _ for the + of a version."""
    if re.match(r"oci://|[\w-]+\.[\w.-]+(?::[0-9]+)?/", repository):        # Argo CD leaves oci:// out
        place = "/".join(filter(None, (repository.removeprefix("oci://").strip("/"), name)))
        return Pin(place, provider="image", **_pin_of_version(version.replace("+", "_")))
    if re.match(r"https?://", repository):
        return Pin(f"{repository.rstrip('/')}#{name}", provider="helm", **_pin_of_version(version))
    return Pin(name, **{**_pin_of_version(version), "reason": "the chart's repository is not named here"})

def _services(document: Any, env: Mapping[str, str]) -> Iterator[Pin]:
    """Images of a compose file: https://docs.docker.com/reference/compose-file/services/#image"""
    for name, service in document["services"].items():
        own, places = dict[str, Any](), [service]
        for place in itertools.islice(places, 10):      # what it merges
            own = _of(dict, place) | {key: value for key, value in own.items() if value != ""}
            merged = _of(dict, place).get("<<")
            places += merged if isinstance(merged, list) else [merged]
        if image := own.get("image"):
            found = _image_pin(_of(str, image) or f"{name} ?", env, name)
            is_built = "build" in own and "/" not in found.name
            yield dataclasses.replace(found, provider="", reason=_BUILT_HERE) if is_built else found

def _image_pins(path: tuple[str, ...], own: dict[str, Any], env: Mapping[str, str]) -> Iterator[Pin]:
    """Images that a map names: of Kubernetes, Kustomize, Helm's values (by their parts), and pipelines."""
    for one in _of(list, own, "images"):
        name, place, tag, digest = _texts(one, "name", "newName", "newTag", "digest")
        if name and (place or tag or digest):
            image = f"{place or name}{tag and ':'}{tag}{digest and '@'}{digest}"
            yield dataclasses.replace(_image_pin(image, env), alias=name)
    above, key = path[-2:]
    in_pipelines = {"script", "commands", "steps", "stages", "before_script", "runs-on"}
    is_sure = above.lower().endswith(("containers", "steps", "services", "pipeline")) or bool(
        in_pipelines & own.keys()) or not key and any("script" in _of(dict, one) for one in own.values())
    registry, repository, tag, digest = _texts(own, "registry", "repository", "tag", "digest")
    is_values = {"tag", "digest", "pullPolicy"} & own.keys() or key == "image" and "/" in repository
    values = repository and is_values and (
        f"{registry}{registry and '/'}{repository}{tag and ':'}{tag}{digest and '@'}{digest}")
    action = _of(str, own, "uses").partition("docker://")[2]
    listed = _of(list, own, "services") if is_sure or key == "default" else []
    for one in (values, own.get("image"), own.get("container"), action, *listed):
        image = _of(str, one) or not _of(str, one, "image") and _of(str, one, "name") or ""
        found = _image_pin(image.removeprefix("docker://"), env)
        if key != "machine" and (is_sure or values or ":" in image and key) and (
                found.provider or found.reason == _NO_VERSION):
            is_named = found.version or found.digest or found.reason or not values
            yield found if is_named else dataclasses.replace(found, reason=_NO_TAG)

def _source_pins(path: tuple[str, ...], own: dict[str, Any], names: Mapping[str, str]) -> Iterator[Pin]:
    """Charts and repositories from which Flux, Argo CD, Helm, pipelines and others take things. ``names``: of
    repositories of charts their addresses, of commits their versions."""
    chart, name, url, place, version, repository, uses, repo = _texts(
        own, "chart", "name", "url", "repoURL", "version", "repository", "uses", "repo")
    if chart and path == ("", "", "releases", "-") and chart[0] != ".":      # of Helmfile, and in no folder
        folder, _, chart = chart.rpartition("/")
        yield _chart_pin(chart, version, folder if "://" in folder else names.get(folder, ""))
    elif chart and (place or path[-2:] == ("chart", "spec")):
        yield _chart_pin(chart, version or _of(str, own, "targetRevision"),
                         place or names.get(_of(str, own, "sourceRef", "name"), ""))
    elif place and _RELEASE_TAG.fullmatch(_of(str, own, "targetRevision")):
        yield _checkout(place, own["targetRevision"])
    elif name and path[-2:] in (("helmCharts", "-"), ("dependencies", "-")) and (repository or repo):
        yield _chart_pin(name, version, repository or repo)
    elif "/" in repo and path[-2:] == ("repos", "-"):       # of pre-commit
        yield _checkout(repo, _of(str, own, "rev"), names)
    elif url and path[-1] == "latest_version":      # of Argus
        is_github = own.get("type") == "github" and "://" not in url
        yield Pin(url, service=path[-2], provider="github" if is_github else "")
    elif url and path[-1] == "spec" and (ref := _of(dict, own, "ref")):      # of Flux
        tag = next(filter(None, _texts(ref, "tag", "semver", "commit", "branch")), "")
        yield dataclasses.replace(_chart_pin("", tag, url), digest=_of(str, ref, "digest")) if (
            url.startswith("oci://")) else _checkout(url, tag)
    elif "@" in uses and "docker://" not in uses:
        action, _, reference = uses.partition("@")
        parts, provider = (5, "") if "://" in action else (2, "github")
        yield _checkout("/".join(action.split("/")[:parts]), reference, names, provider)

def _is_of_diun(items: Any) -> bool:
    """Whether a list is one of images: https://crazymax.dev/diun/providers/file/  Lists of other things with
    names have other keys, or no name with a tag, a digest or a registry."""
    keys = {"name", "regopt", "watch_repo", "notify_on", "sort_tags", "max_tags", "include_tags",
            "exclude_tags", "hub_link", "platform", "metadata"}
    has_version = re.compile(r":[^:]*(?:[0-9]|latest|stable|alpine)|@|^[^/.]*\.[^/]*/").search
    return isinstance(items, list) and all(
        isinstance(one, dict) and one.keys() <= keys and not _of(str, one, "platform")
        and not _of(str, one, "metadata") and _IMAGE_NAME.match(_of(str, one, "name"))
        for one in items) and any(one.keys() > {"name"} or has_version(one["name"]) for one in items)

def _yaml(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
    """Compose, Kubernetes, Helm, pipelines, and lists of other tools, recognized by their keys."""
    documents, names = _documents(text), dict(_COMMENTED.findall(text))
    for one in documents:
        if _of(str, one, "kind") == "HelmRepository":
            names[_of(str, one, "metadata", "name")] = _of(str, one, "spec", "url")
        for place in _of(list, one, "repositories"):        # of Helmfile
            is_oci = "oci://" if _of(str, place, "oci") == "true" else ""
            names[_of(str, place, "name")] = is_oci + _of(str, place, "url")
    for document in documents:
        if _is_of_diun(document):
            yield from (_image_pin(one["name"], env) for one in document)
        elif _of(dict, document, "services") and not {"steps", "pipeline"} & document.keys():
            yield from _services(document, env)
        else:
            for path, own in _maps(document):
                yield from (*_image_pins(path, own, env), *_source_pins(path, own, names))

def _compose(text: str, env: Mapping[str, str]) -> list[Pin]:
    """What a file called compose pins. Raises ValueError where it has no services that can be read."""
    found = list(_yaml(text, env))
    if not found and re.search(r"\bimage:|[{\[]\s*\Z", text) and not re.search(r"\b(?:build|extends):", text):
        raise ValueError("has no service with an image; is its YAML broken?")
    return found

def _galaxy(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
    """https://docs.ansible.com/ansible/latest/galaxy/user_guide.html  Also the charts of Helm 2."""
    for keys, document in itertools.product((("collections",), ("roles",), ()), _documents(text)):
        for one in _of(list, document, *keys):
            written = _of(str, one) or _of(str, one, "src") or _of(str, one, "name")
            is_git = re.search("://|^git@", written)
            name, _, version = written.partition("," if is_git else ":")
            version = _of(str, one, "version") or version
            if is_git:
                yield _checkout(name.removeprefix("git+").partition("#")[0], version)
            elif name:
                yield Pin(name, provider="galaxy", **_pin_of_version(version)) if keys[:1] == (
                    "collections",) else Pin(name, version, reason="no provider for roles of Ansible Galaxy")
    yield from _yaml(text, env) if re.search("^dependencies:", text, re.MULTILINE) else ()

def _pnpm(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
    """pnpm-lock.yaml of the versions 5 to 9; from pnpm 11 on a document before it has pnpm itself."""
    for document in text.split("\n---\n"):
        needed, _, packages = document.partition("\npackages:\n")
        packages, pattern = packages.partition("\nsnapshots:")[0], r"^  (?! )['\"]?/?([^\s'\"]+?)['\"]?:"
        direct = set(re.findall(
            r"(?m)^  +['\"]?([^\s'\":]+)['\"]?:(?:\n +specifier: [^\n]*\n +version:)? ([^\s_(]+)", needed))
        aliases = {version.lstrip("/") for _, version in direct}
        for key in re.findall(pattern, packages, re.MULTILINE):
            match = re.fullmatch(r"(@[^/]+/[^/@]+|[^/@]+)[@/]([^_()/:]+)(?:[_(].*)?", key)
            if match and match[2] not in ("file", "link"):
                yield Pin(match[1], match[2], provider="npm", is_direct=not direct or (
                    match[1], match[2]) in direct or f"{match[1]}@{match[2]}" in aliases)

_STAGE = re.compile(r"FROM\s+(?:--\S+\s+)*[\"']?([^\s\"']+)[\"']?(?:\s+AS\s+(\S+))?", re.IGNORECASE)
_COPIED = re.compile(r"(?:COPY|ADD)\s.*?--from=(\S+)|RUN(?:\s+--\S+)*?\s+--mount=(?:\S*?,)?from=([^\s,]+)",
                     re.IGNORECASE)

def _dockerfile(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
    """https://docs.docker.com/reference/dockerfile/"""
    arguments, stages, until = dict[str, str](), {"scratch"}, ""
    for line in _lines(re.sub(r"\\\n(?:[ \t]*#.*\n)*", " ", text)):
        line = line.strip()
        if until:       # a here-document may hold anything
            until = "" if line == until else until
        elif stage := _STAGE.match(line):
            if _with_variables(stage[1], arguments)[0].lower() not in stages:
                yield _image_pin(stage[1], arguments, stage[2] or "")
            stages.add((stage[2] or "").lower())
        elif copied := _COPIED.match(line):
            image = copied[1] or copied[2]
            if image.lower() not in stages and not image.isdigit():
                yield _image_pin(image, arguments)
        elif re.match(r"ARG\s", line, re.IGNORECASE) and len(stages) == 1:
            for name, value in re.findall(r"""\b([A-Za-z_]\w*)=("[^"]*"|'[^']*'|\S*)""", line):
                arguments[name] = _with_variables(value.strip("\"'"), arguments)[0]
        if not until and (here := re.match(r"(?:RUN|COPY|ADD)\s.*<<-?[\"']?(\w+)", line, re.IGNORECASE)):
            until = here[1]

_PIN = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\]\s*)?===?\s*([^\s;,*]+)\s*(?:[;#-].*)?")

def _requirements(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
    """https://pip.pypa.io/en/stable/reference/requirements-file-format/  Only == tells what is installed.
    Comments of pip-compile and uv, such as "# via flask", say what needs it: other packages, or a file."""
    entries = re.findall(r"^[^\s#][^\n]*(?:\n[ \t]+[^\n]*)*", text.replace("\\\n", " "), re.MULTILINE)
    pins = [(pin, entry) for entry in entries if (pin := _PIN.fullmatch(entry.partition("\n")[0]))]
    names = {pin[1].lower() for pin, _ in pins}
    for pin, entry in pins:
        _, _, comment = entry.partition("# via")
        needed_by = {part.split()[0].lower() for part in re.split(r"[#,]", comment) if part.strip()}
        yield Pin(pin[1], pin[2], is_direct=not needed_by or not names >= needed_by, provider="pypi")

def _origin(package: Mapping[str, Any], default: str) -> tuple[str, str]:
    """``(kind, address)`` of where a package of a lock file is from."""
    default = next((key for key in ("directory", "archive") if key in package), default)      # of pylock.toml
    source = package.get("source") or package.get("vcs") or default
    if not isinstance(source, dict):        # of Cargo
        return str(source).partition("+")[::2]
    kind = _of(str, source, "type") or next(iter(source), default)
    return kind, _of(str, source, "url") or _of(str, source, kind)

def _locked(provider: str, default: str = "registry") -> Reader:
    """A reader of ``[[package]]`` tables, of ``[[packages]]`` in PEP 751. What the packages of the folder
    itself need is direct; without such packages the file cannot tell."""
    def read(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
        lock = _toml(text)
        found = [(one, *_origin(one, default)) for key in ("package", "packages")
                 for one in _of(list, lock, key) if isinstance(one, dict)]
        own = [one for one, kind, _ in found if kind in ("virtual", "editable", "directory")]
        direct = {_of(str, needed, "name") for one in own for _, needed in _maps(one) if needed is not one}
        direct |= {_of(str, needed).split(" ")[0] for one in own for needed in _of(list, one, "dependencies")}
        direct -= {""}
        for one, kind, place in found:
            name, is_there = _of(str, one, "name"), kind in ("registry", "sparse", "legacy")
            if name and one not in own:
                place = re.split(r"[?#]", place)[0] if kind == "git" else ""
                yield Pin(place or name, _of(str, one, "version"), provider=provider if is_there else "",
                          is_direct=not direct or name in direct, alias="" if direct else name,
                          reason="" if is_there or place else "from no registry")
    return read

# Our providers of what nvchecker calls a source, if by another name.
_NVCHECKER = {"cratesio": "cargo", "git": "", "archpkg": "arch", "debianpkg": "debian", "snapcraft": "snap",
              "ubuntupkg": "ubuntu"}
# Where the tools of asdf and mise are released, at GitHub.
_TOOLS = dict(pair.split("=") for pair in """
    aws-cli=aws/aws-cli awscli=aws/aws-cli bun=oven-sh/bun deno=denoland/deno elixir=elixir-lang/elixir
    erlang=erlang/otp gh=cli/cli github-cli=cli/cli go=golang/go golang=golang/go helm=helm/helm
    hugo=gohugoio/hugo jq=jqlang/jq just=casey/just kubectl=kubernetes/kubernetes node=nodejs/node
    nodejs=nodejs/node opentofu=opentofu/opentofu php=php/php-src pnpm=pnpm/pnpm poetry=python-poetry/poetry
    python=python/cpython ruby=ruby/ruby rust=rust-lang/rust terraform=hashicorp/terraform uv=astral-sh/uv
    yq=mikefarah/yq""".split())
# Our provider for what stands before a tool's colon: https://mise.jdx.dev/dev-tools/backends/
_BACKENDS = dict(pair.split("=") for pair in """
    aqua=github cargo=cargo dotnet=nuget gem=gems github=github gitlab=gitlab go=go npm=npm pipx=pypi
    spm=github ubi=github""".split())

def _nvchecker(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
    """https://nvchecker.readthedocs.io/en/latest/usage.html  A table's name is not the project's."""
    for table, own in _toml(text).items():
        source = _of(str, own, "source").partition("_")[0]        # git_pygit2
        name, host = _of(str, own, source) or table, _of(str, own, "host") or _of(str, own, "registry")
        if source == "maven":
            yield Pin(f"{own.get('group')}:{own.get('artifact')}", service=table, provider="maven")
        elif source == "container":
            yield _image_pin(f"{host}/{name}" if host else name, env, table)
        elif (id_ := _NVCHECKER.get(source, source)) in ("", *PROVIDERS) and source:
            place = f"https://{host}/{name}" if host else name
            yield Pin(place, service=table, provider="" if host else id_)
        elif source:
            version = name if source == "manual" else ""
            yield Pin(table, version, service=table, reason=f"no provider for the source {source}")

def _tools(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
    """https://asdf-vm.com/manage/configuration.html and https://mise.jdx.dev/configuration.html  The first
    choice first; not what is the system's or in a folder."""
    tools: Iterable[tuple[str, Any]] = ((line.split()[0], line.partition("#")[0]) for line in _lines(text))
    if re.search(r"^\[", text, re.MULTILINE):
        tools = _of(dict, _toml(text), "tools").items()
    for tool, value in tools:
        backend, _, name = tool.partition(":")
        name = name.partition("[")[0] if backend in _BACKENDS else _TOOLS.get(tool.removeprefix("core:"), "")
        listed = value if isinstance(value, list) else [value]
        for word in " ".join(_of(str, one, "version") or _of(str, one) for one in listed).split():
            match = re.fullmatch(r"((?:[a-z]+-)*+)(v?[0-9][\w.+-]*)", word)         # temurin-21.0.5+11
            if match and name and not match[1]:
                yield Pin(name, word, provider=_BACKENDS.get(backend, "github"))
            elif match:
                yield Pin(tool, match[2], reason=f"no provider for the tool {match[1]}{tool}")

def _go_mod(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
    """https://go.dev/ref/mod#go-mod-file"""
    block, required, replaced = "", list[tuple[str, str, bool]](), dict[str, list[str]]()
    for line in _lines(text):
        code, _, comment = line.partition("//")
        words = ([block] if block else []) + code.replace('"', "").split()
        if words[-1:] in (["("], [")"]):
            block = words[0] if words[-1] == "(" else ""
        elif words[:1] == ["require"] and len(words) == 3:
            required.append((words[1], words[2], comment.strip() != "indirect"))
        elif words[:1] == ["replace"] and "=>" in words:
            replaced[" ".join(words[1:words.index("=>")])] = words[words.index("=>") + 1:]
    for module, version, is_direct in required:
        now = replaced.get(f"{module} {version}") or replaced.get(module) or [module, version]
        if len(now) == 2:       # else it is a folder
            yield Pin(now[0], now[1], is_direct=is_direct, provider="go")

def _gemfile(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
    """Gemfile.lock: four blanks before a gem, six before what that requires; platforms follow a hyphen."""
    blocks = [block.strip("\n") for block in text.split("\n\n")]
    direct = {name for block in blocks if block.startswith("DEPENDENCIES\n")
              for name in re.findall(r"^  ([^\s!]+)", block, re.MULTILINE)}
    for block in blocks:
        remote = re.match(r"GIT\n  remote: (\S+)", block)
        for name, version in re.findall(r"^ {4}(\S+) \(([^\s()-]+)(?:-[^\s()]*)?\)$", block, re.MULTILINE):
            if remote or block.startswith("GEM\n"):
                yield Pin(remote[1] if remote else name, version, is_direct=not direct or name in direct,
                          provider="" if remote else "gems")

def _yarn(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
    """yarn.lock of version 1 and of Berry, whose workspaces tell what is direct."""
    blocks = [block.strip("\n").partition("\n") for block in text.split("\n\n")]
    direct = {name for key, _, body in blocks if "@workspace:" in key
              for name in re.findall(r'^ {4}"?(@?[^@"\s:]+)"?:', body, re.MULTILINE)}
    for key, _, body in blocks:
        named = re.match(r'"?(@?[^@"\s]+)@(?:npm:(?:(@?[^@"\s]+)@)?)?[^:/@"\n]*(?:[",]|:$)', key)
        version = re.match(r' {2}version:? "?([^"\s]+)', body)
        if named and version:       # else from a folder, a patch or a repository
            yield Pin(named[2] or named[1], version[1], provider="npm", alias="" if direct else named[1],
                      is_direct=not direct or named[1] in direct)

def _opml(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
    """The feeds of releases among those of a feed reader: http://opml.org/spec2.opml"""
    folder = ""
    for tag in re.findall(r"<outline\b([^<>]*)>", text):
        about = {key: html.unescape(value) for key, value in re.findall(r'\b(\w+)="([^"]*)"', tag)}
        if re.match(r"(?>https?://[^?#]+?/(?:releases|tags|commits)(?=[/.?]))[^?#]*"
                    r"(?:\.(?:atom|rss)|\?format=atom)", about.get("xmlUrl", "")):
            yield Pin(about["xmlUrl"], service=folder)
        folder = folder if "xmlUrl" in about else about.get("text", "")

_NPM_KINDS = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")

def _npm_lock(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
    """package-lock.json: https://docs.npmjs.com/cli/configuring-npm/package-lock-json"""
    lock = _json(text)
    packages = _of(dict, lock, "packages")
    direct = {name for path, about in packages.items() if "node_modules/" not in path for kind in _NPM_KINDS
              for name in _of(dict, about, kind)}       # of the project itself, and of workspaces
    found = [(path.count("node_modules/") == 1, path.rpartition("node_modules/")[2], about)
             for path, about in packages.items() if "node_modules/" in path]
    found += [(path[:2] == ("", ""), path[-1], about) for path, about in _maps(lock)
              if path[-2] == "dependencies" and not packages]       # version 1 nests them
    for is_top, name, about in found:
        version, resolved = _of(str, about, "version"), _of(str, about, "resolved")
        alias = re.fullmatch(r"(?:npm:(@?[^@]+)@)?([^:]+)", version)
        is_direct, source = is_top and (not direct or name in direct), resolved if alias else version
        if source.startswith("git"):        # its version is of package.json, and may be none of a tag
            address = source.partition("#")[0].replace("github:", "https://github.com/", 1)
            yield Pin(address, alias[2] if alias else "", is_direct=is_direct)
        elif alias and not resolved.startswith("file:"):
            yield Pin(alias[1] or _of(str, about, "name") or name, alias[2], provider="npm",
                      is_direct=is_direct, alias="" if packages else name)

def _sections(provider: str, *sections: str, version: str = "version", kind: str = "",
              load: Callable[[str], Any] = _json) -> Reader:
    """A reader of sections (all, if none is named) of packages. ``kind``: what tells which are direct."""
    def read(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
        lock = load(text)
        for section in sections or _of(dict, lock):
            listed = [(_of(str, about, "name"), about) for about in _of(list, lock, section)]
            for name, about in (*listed, *_of(dict, lock, section).items()):
                pinned, source = _of(str, about, version).removeprefix("=="), _of(str, about, "source")
                place = _of(str, about, "git") or source == "git" and _of(str, about, "description", "url")
                is_direct = not kind or _of(str, about, kind).lower().startswith("direct")
                if place:
                    yield Pin(place, pinned, is_direct=is_direct, reason="" if pinned else _A_COMMIT)
                elif name and pinned and source not in ("sdk", "path"):
                    yield Pin(name, service=section, provider=provider, alias="" if kind else name,
                              is_direct=is_direct, **_pin_of_version(pinned))
    return read

def _bun(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
    """https://bun.sh/docs/pm/lockfile  JSON with commas at the ends; not what is in a folder."""
    lock = _of(dict, _documents(text)[0])
    direct = {name for about in _of(dict, lock, "workspaces").values() for kind in _NPM_KINDS
              for name in _of(dict, about, kind)}
    for key, entry in _of(dict, lock, "packages").items():
        named = _of(str, (_of(list, entry) or [""])[0])
        if found := re.match(r"(@?[^@]+)@(?:([^:@]+)$|(github:|git\+)([^#]+))", named):
            place = ("https://github.com/" if found[3] == "github:" else "") + (found[4] or found[1])
            yield Pin(place, found[2] or "", is_direct=not direct or key in direct,
                      provider="npm" if found[2] else "", reason="" if found[2] else _A_COMMIT)

def _rows(provider: str, pattern: str) -> tuple[Reader, str]:
    """A reader, and the mark, of rows with a name and a version, or a repository and its tag: the groups."""
    def read(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
        for name, version, *place in re.findall(pattern, text, re.MULTILINE):
            found = Pin(name, version, provider=provider) if name else _checkout(place[0], place[1] or "HEAD")
            yield _image_pin(name, env) if provider == "image" else dataclasses.replace(found, alias=name)
    return read, pattern

def _release_monitor(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
    """github-release-monitor: a list of ``{"id": "owner/repo" or "gitlab:host/owner/repo", "url"}``."""
    for about in _of(list, _json(text)):
        provider, _, name = _of(str, about, "id").rpartition(":")
        address = _of(str, about, "url") or "." in name.partition("/")[0] and f"https://{name}"
        if address or name:
            yield Pin(address) if address else Pin(name, provider=provider or "github")

def _sbom(text: str, env: Mapping[str, str]) -> Iterator[Pin]:
    """https://cyclonedx.org/docs/1.6/json/ or https://spdx.github.io/spdx-spec/v2.3/, also in an attestation.
    Direct is what the thing itself needs, or one without a purl."""
    bom = _json(text)
    for key in ("predicate", "sbom"):
        bom = _of(dict, bom, key) or bom
    if not {"bomFormat", "spdxVersion"} & _of(dict, bom).keys():
        raise ValueError("is neither CycloneDX nor SPDX 2 in JSON")
    root, listed = _of(dict, bom, "metadata", "component"), {"components": _of(list, bom, "components")}
    image = _image_pin(_of(str, root, "name"), {})
    if root.get("type") == "container" and image.provider:
        digest = re.search(r"sha256:[0-9a-f]{64}", unquote(" ".join(_texts(root, "purl", "version"))))
        yield dataclasses.replace(image, digest=image.digest or (digest[0] if digest else ""))
    things = [_texts(one, "bom-ref", "purl", "version", "name") for path, one in _maps(listed)
              if path[-2:] == ("components", "-") and one.get("type") != "file"]
    needs = [(_of(str, row, "ref"), needed) for row in _of(list, bom, "dependencies")
             for needed in filter(lambda one: isinstance(one, str), _of(list, row, "dependsOn"))]
    for about in _of(list, bom, "packages"):
        purls = [_of(str, one, "referenceLocator") for one in _of(list, about, "externalRefs")
                 if _of(str, one, "referenceType") == "purl"]       # its category is spelt in several ways
        id_, *version_and_name = _texts(about, "SPDXID", "versionInfo", "name")
        things.append([id_, (*purls, "")[0], *version_and_name])
    links = [_texts(one, "spdxElementId", "relationshipType", "relatedSpdxElement")
             for one in _of(list, bom, "relationships")]
    needs += [(one, to) for one, kind, to in links if kind == "DEPENDS_ON"]
    needs += [(to, one) for one, kind, to in links if kind.endswith(("DEPENDENCY_OF", "PREREQUISITE_FOR"))]
    roots = {to for _, kind, to in links if kind == "DESCRIBES"} | set(
        filter(lambda one: isinstance(one, str), _of(list, bom, "documentDescribes")))
    pinned = {id_ for id_, purl, *_ in things if purl}      # CycloneDX's root is none of the things
    direct = {to for one, to in needs if one in roots or not roots and one not in pinned and to in pinned}
    for id_, purl, version, name in things:
        if not direct or id_ not in roots:
            yield _purl_pin(purl, version, not direct or id_ in direct, name)

def _entry_pin(entry: str) -> Pin:
    """Returns the pin of a line: an address, a purl, an image with its tag, owner/repository@version."""
    owned = re.fullmatch(r"([\w-]+/[\w.-]+)(?:@(v?[0-9][\w.+-]*))?", entry)
    if entry[:4].lower() == "pkg:":
        return _purl_pin(entry)
    if owned:
        return Pin(owned[1], owned[2] or "", provider="github")
    if "://" not in entry and re.search(r"^\S+(?::[\w.-]+|@sha256:\w+)$", entry):
        return _image_pin(entry, {})
    if re.match(r"\w+://\S+$|git@\S+$|[\w-]+\.[\w.-]+/\S+$", entry):
        return Pin(entry if ":" in entry else f"https://{entry}")
    return Pin(entry, reason="not an address, a purl, or an image with a tag")

def _listed(text: str, env: Mapping[str, str]) -> Iterable[Pin]:
    """Reads a plain list, an entry a line. Raises ValueError."""
    entries = [re.sub(r"\s#.*", "", line.strip()).removeprefix("- ").strip() for line in _lines(text)]
    are_words = sum(" " in entry for entry in entries) * 2 >= len(entries)
    if re.match(r"\s*[{<\[]\s*[\"{}\]?]", text) or are_words:
        raise ValueError("is no file that is known here, and no list of addresses or images, one per line")
    return map(_entry_pin, entries)

def installed_in(provider: Provider, text: str, now: float) -> tuple[Installation, ...]:
    """What is installed as whoever adds a project says with it: an image's tag (but "latest") and digest, or
    a version, as in pkg:npm/react@18.2.0 and owner/repo@v1.2.3."""
    is_image = provider.dialect.has_images
    pin = _entry_pin(split_provider((provider.id,), "", text.strip()[:2000])[1])
    version, digest = pin.version, is_image and re.fullmatch("sha256:[0-9a-f]{64}", pin.digest)
    if not digest and (version in ("", "latest") if is_image else not re.match("v?[0-9]", version)):
        return ()
    return (Installation("", version, pin.digest if digest else "", seen_at=now),)

# To read another kind of file, write its reader above and add a row. The first row that fits a file's name
# reads it; else the first whose mark is in the text's beginning.
READERS: tuple[tuple[str, Reader, str], ...] = (
    # file's name, reader, mark
    (r".*(?:\.cdx|\.spdx|bom|cyclonedx)\.json", _sbom, r'"(?:bomFormat|spdxVersion)" *:'),
    (r"bun\.lock", _bun, r'^ *"workspaces": *\{\s*"": *\{'),
    (r"packages\.lock\.json", _sections("nuget", version="resolved", kind="type", load=lambda text: _of(
        dict, _json(text), "dependencies")), r'"contentHash" *:'),
    (r"package-lock\.json|npm-shrinkwrap\.json", _npm_lock, r'"lockfileVersion" *:'),
    (r"composer\.lock", _sections("packagist", "packages", "packages-dev"), r'"packages-dev" *:'),
    (r"Pipfile\.lock", _sections("pypi", "default", "develop"), r'"pipfile-spec" *:'),
    (r"repositories\.json", _release_monitor, r'\A\s*\[\s*\{\s*"'),       # of github-release-monitor
    (r".*\.opml(?:\.xml)?", _opml, r"<opml\b"),
    (r"yarn\.lock", _yarn, r"^__metadata:|^# yarn lockfile v1"),
    (r"Cargo\.lock", _locked("cargo", "directory"), r'^source = "(?:registry|sparse)\+'),
    (r"(?:uv|poetry)\.lock|pylock(?:\.[\w-]+)?\.toml", _locked("pypi"), r"^\[\[packages?\]\]"),
    (r"mix\.lock", *_rows("hex", r'^ *"[^"\n]+": *\{(?::hex, *:"?([\w.-]+)"?, *"([^"\n]+)"|:git, *"([^"\n]+)"'
                          r'(?:[^\n\[]*+\[[^\]\n]*?\btag: *"([^"\n]+)")?)')),
    (r"pubspec\.lock", _sections("pub", "packages", kind="dependency", load=lambda text: _documents(
        text)[-1]), r'^ +dependency: "?(?:transitive|direct)'),
    (r"gradle\.lockfile", *_rows("maven", r"^([\w.-]+:[\w.-]+):([^\s:=]+)=[\w,]+$")),
    (r"\.terraform\.lock\.hcl", *_rows(
        "terraform", r'^provider "(?:registry\.(?:terraform\.io|opentofu\.org)/)?([^"\n]+)" \{\n\s*+'
                     r'version *= *"([^"\n]+)"')),
    (r".+\.(?:container|image)", *_rows("image", r"^Image *= *((?!\S+\.(?:image|build)$)\S+)()")),
    (r"\.tool-versions|\.?mise(?:\.[\w.-]+)?\.toml", _tools, r"^\[tools|\A[\w-]+ +[0-9][\d.]*(?:\s|\Z)"),
    (r"(?>.*?nvchecker).*\.toml", _nvchecker, r"^source *= *[\"']"),
    (r"(?:.*\.)?(?:Dockerfile|Containerfile)(?:\..*)?", _dockerfile,
     r"^(?:FROM|from) +(?:--\S+ +)?[^\s,;]+ *(?:$| [Aa][Ss] )"),
    (r"Gemfile\.lock|gems\.locked", _gemfile, r"^GEM$"),
    (r"go\.mod", _go_mod, r"^require [^\n]*(?:\(| v[0-9])"),
    (r"pnpm-lock\.yaml", _pnpm, r"^lockfileVersion:"),
    (r"requirements\.ya?ml", _galaxy, r"^(?:collections|roles):"),
    (r"(?>(?:.*?[.-])?compose(?=[.-])).*\.ya?ml", _compose, r"$."),
    # Compose under another name, Kubernetes, Kustomize, Helm, Helmfile, Flux, pipelines, Diun, Argus
    (r"Chart\.lock|.*\.ya?ml", _yaml, r"^(?:services|kind|service|dependencies|repos|images|helmCharts|jobs"
     r"|releases|steps|pipeline|runs):|^- name:|^[ -]*(?:image|uses):"),
    (r"(?>.*?requirements).*\.txt", _requirements, r"^[\w.-]+ *(?:\[[\w, -]*\] *)?== *[0-9]"),
    (r"$.", _listed, r""),
)
# Files that do not say all, and those beside them that do: what is needed directly, a chart's appVersion.
MANIFESTS = {"poetry.lock": ("pyproject.toml",), "Pipfile.lock": ("Pipfile",), "mix.lock": ("mix.exs",),
             **dict.fromkeys(("yarn.lock", "package-lock.json", "npm-shrinkwrap.json"), ("package.json",)),
             "composer.lock": ("composer.json",), "values.yaml": ("Chart.yaml",),
             "gradle.lockfile": ("build.gradle", "build.gradle.kts", "gradle/libs.versions.toml")}

def with_directs(pins: list[Pin], manifest: str) -> list[Pin]:
    """The pins, direct only where the manifest names them; as they are where it names none. Images of a chart
    without a tag have its appVersion."""
    if app := re.search(r"^appVersion:(.*)$", manifest, re.MULTILINE):
        return [dataclasses.replace(pin, version=_scalar(app[1].strip()), reason="") if pin.reason == _NO_TAG
                else pin for pin in pins]
    spelt = pep503 if any(pin.provider == "pypi" for pin in pins) else str.lower
    names = set(map(spelt, re.findall(
        r"(?:^[ \t]*|[\"']|\{:)(@?[A-Za-z0-9][\w./-]*(?::[\w.-]+)?)", manifest, re.MULTILINE)))
    if names.isdisjoint(spelt(pin.alias) for pin in pins):
        return pins
    return [dataclasses.replace(pin, is_direct=pin.is_direct and (not pin.alias or spelt(pin.alias) in names))
            for pin in pins]

def reader_named(own: Mapping[str, Reader], path: str) -> Reader | None:
    """Which of an embedding program's own readers, by patterns of files' names, reads a file."""
    name = re.split(r"[/\\]", path)[-1]
    return next((read for pattern, read in own.items() if re.fullmatch(pattern, name, re.IGNORECASE)), None)

def pins_in(path_name: str, text: str, env: Mapping[str, str], own: Reader | None = None) -> list[Pin]:
    """What a file pins, each entry once, in the file's order. ``path_name``: "" for what was pasted. ``env``:
    the variables of the ``.env`` beside it. ``own``: its reader, if it is none of ours. Raises ValueError,
    with what to put behind the file's name."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        raise ValueError("is not text")
    name = re.split(r"[/\\]", path_name)[-1]
    named = [own] if own else [
        read for pattern, read, *_ in READERS if re.fullmatch(pattern, name, re.IGNORECASE)]
    likely = (read for _, read, mark in READERS if re.search(mark, text[:200_000], re.MULTILINE))
    found = list(itertools.islice((named or [next(likely)])[0](text, env), ENTRY_LIMIT + 1))
    if len(found) > ENTRY_LIMIT:
        raise ValueError(f"has more than {ENTRY_LIMIT:,} entries")
    return list(dict.fromkeys(found))

def pin_of_item(item: Mapping[str, Any]) -> Pin:
    """What an item of the API names: a ``purl``, an ``image``, or ``provider`` and ``name``."""
    purl, image, name, provider = _texts(item, "purl", "image", "name", "provider")
    reason = "" if name else "an item has a purl, an image, or a provider and a name"
    image = image[:_WIDTH_LIMIT].replace("$", "")       # which has no variables here
    pin = _purl_pin(purl) if purl else _image_pin(image, {}) if image else Pin(
        name, provider=provider, reason=reason)
    given = {key: _of(str, item, key) for key in ("version", "digest", "label", "service", "source")}
    digests = (given["digest"] or pin.digest).lower().split()       # several of one image
    digests = [f"sha256:{one[-64:]}" for one in digests if re.fullmatch("(?:sha256:)?[0-9a-f]{64}", one)]
    given |= {"version": given["version"] or pin.version, "digest": " ".join(digests)}
    return dataclasses.replace(pin, **given, is_direct=item.get("direct") is not False)

# Containers

def _labels_of(name: str, image: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, str]:
    """The version and the source that an image names: by its labels, or its container's where it is not
    known, unless those are its base's, by its manifest's, or by the variable that an official image sets.
    https://github.com/opencontainers/image-spec/blob/main/annotations.md"""
    labels = _of(dict, image, "Config", "Labels") if image else _of(dict, container, "Labels")
    last = name.rpartition("/")[2]
    base = _of(str, labels, "org.opencontainers.image.ref.name")
    is_inherited = re.fullmatch("[a-z]+", base) and base != last
    annotations = _of(dict, container, "ImageManifestDescriptor", "annotations")
    found = [_of(str, about, key) for about in ({} if is_inherited else labels, annotations) for key in (
        "org.opencontainers.image.version", "org.label-schema.version", "version")]
    variable = {"postgres": "PG"}.get(last, last.upper().replace("-", "_")) + "_VERSION="
    is_official = re.fullmatch(r"(?:docker\.io/)?(?:library/)?[\w-]+", name)
    found += [one[len(variable):].partition("-")[0] for one in _of(list, image, "Config", "Env")
              if is_official and isinstance(one, str) and one.startswith(variable)]
    of_image = {} if is_inherited or not image else labels          # a container's a user may have set
    sources = [_of(str, about, key) for key in SOURCE_LABELS[:3] for about in (annotations, of_image)]
    return {"label": next((one for one in found if re.match("[A-Za-z-]{0,20}[0-9]", one)), ""),
            "source": next(filter(None, sources), "")}

def _container_pin(container: Mapping[str, Any], image: Mapping[str, Any]) -> Pin | None:
    """What a container runs, by what the engine says of it and of its image; None of a pod's own."""
    labels, reference = _of(dict, container, "Labels"), _of(str, container, "Image")
    digests = [one.partition("@") for one in _of(list, image, "RepoDigests") if isinstance(one, str)]
    if re.fullmatch(r"(?:sha256:)?[0-9a-f]{12,64}", reference):        # its tag went to another image
        tags = [one for one in _of(list, image, "RepoTags") if isinstance(one, str)]
        reference = next(iter(tags), f"{digests[0][0]}@{digests[0][2]}" if digests else "")
    if not reference or _of(str, labels, "com.docker.compose.oneoff") == "True":
        return None
    names = [one for one in _of(list, container, "Names") if isinstance(one, str)]
    reference = reference[:NAME_LIMIT].replace("$", "")
    pin = _image_pin(reference, {}, _of(str, labels, "com.docker.compose.service")
                     or next(iter(names), "").lstrip("/"))

    def short(name: str) -> str:
        return re.sub(r"^(?:(?:index\.)?docker\.io/)?(?:library/)?", "", name)
    found = sorted({pin.digest, *(digest for name, _, digest in digests
                                  if short(name) == short(pin.name))} - {""})
    of_compose = _of(str, image, "Config", "Labels", "com.docker.compose.service") and "/" not in pin.name
    if pin.reason or image and not digests or of_compose:       # it was never pulled
        return dataclasses.replace(pin, provider="", reason=pin.reason or _BUILT_HERE)
    pin = dataclasses.replace(pin, **_labels_of(pin.name, image, container))    # type: ignore[arg-type]
    return dataclasses.replace(pin, version=pin.version or ("" if pin.digest else "latest"),
                               digest=" ".join(found[:5]))

def pins_of_containers(ask: Callable[[str], Answer]) -> Iterator[Pin | None]:
    """What each container of an engine runs, by GET requests alone, whose paths ``ask`` is given.
    https://docs.docker.com/reference/api/engine/  Raises ValueError, and what ``ask`` raises."""
    ping = ask("/_ping")
    match = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})", ping.headers.get("api-version", ""))
    if ping.status != 200 or not match:
        raise ValueError(f"it answered status {ping.status}, not as Docker or Podman do")
    shows_annotations = 1, 48       # the first that does; or an older engine's own
    api = "/v{}.{}".format(*min(shows_annotations, (int(match[1]), int(match[2]))))
    listed, images = ask(f"{api}/containers/json?all=1"), dict[str, dict[str, Any]]()
    if listed.status == 403:
        raise ValueError("it does not allow GET /containers; a socket proxy needs CONTAINERS=1 and IMAGES=1")
    containers = listed.json() if listed.status == 200 else None
    if not isinstance(containers, list):
        raise ValueError(f"it answered status {listed.status} and no list of containers; "
                         "is it Docker or Podman?")
    for container in containers[:_CONTAINER_LIMIT]:
        id_ = _of(str, container, "ImageID")
        if _of(str, container, "State") in ("created", "exited", "dead", "removing"):
            continue
        if id_ not in images:
            answer = ask(f"{api}/images/{quote(id_, safe='')}/json") if id_ else None
            images[id_] = _of(dict, answer.json()) if answer and answer.status == 200 else {}
        yield _container_pin(container, images[id_])


# == rules =====================================================================
# Every decision, as a pure function: what is new, what is excluded, who is notified and when, when
# a check or a delivery is repeated, and what an event says. No clock, no store, no network.

NEWS_LIMIT = 20                 # releases of one project that one check announces one by one
WEBHOOK_LIMIT = 1000            # and to webhooks; the newest
CHECK_MAX_WAIT = 6 * HOUR       # between the checks of a source that fails, if its interval is shorter
ABANDONED = "its last check did not end: the program was killed in its midst, or had no memory left"
INTERNAL_ERROR = "internal error, see the log"
_DIGEST_GRACE = 10.0            # seconds before a digest is due in which events go into the next one


# ---- what is new

_ABANDONED_AFTER = 730 * DAY    # a line of numbers without a release for so long before others is no update

def _main_family(newest: Sequence[str], rules: VersionRules) -> VersionParts | None:
    """The parts of the newest version of the main family of final versions, newest first: that of most of
    the first ten; of an image, of the first 50 a plain one."""
    found = [rules.parts(version) for version in newest[:50 if rules.is_image else 10]]
    count = Counter((one.family, one.is_padded) for one in found)
    return max(found, default=None, key=lambda one: (
        bool(one.numbers), rules.is_image and one.family == ("", one.scheme, (), "", ()),
        rules.is_image and one.style == (False, True), count[one.family, one.is_padded]))

def _abandoned(versions: Iterable[str], since: str, date: str, releases: Mapping[str, Release],
               rules: VersionRules) -> set[str]:
    """Those versions whose whole line of numbers, up to the first that differs from those of ``since``, had
    no release for two years before ``date``, as an odd old 4.02.3 above 0.14."""
    oldest = timestamp(instant_of(date) - _ABANDONED_AFTER) if date else ""
    if not any((releases[version].date or oldest) < oldest for version in versions):
        return set()
    own, lines = rules.parts(since).numbers, dict[tuple[int, ...], list[str]]()
    for version in versions:
        numbers = rules.parts(version).numbers
        differs = next((at for at, (one, mine) in enumerate(zip(numbers, own)) if one != mine), len(own))
        lines.setdefault(numbers[:differs + 1], []).append(version)
    return {version for line in lines.values() for version in line
            if max(releases[one].date or oldest for one in line) < oldest}

def ranked_places(releases: Mapping[str, Release], rules: VersionRules) -> dict[str, int]:
    """The place of each version: final ones of the main family last, and of those the highest."""
    orders = {version: rules.order(version) for version in releases}
    parts = {version: rules.parts(version) for version in releases}
    finals = sorted((one.date or "", orders[version], version) for version, one in releases.items()
                    if not one.is_prerelease and not one.gone_at)
    of_most = _main_family([version for *_, version in finals[:-51:-1]], rules)
    family = [version for *_, version in finals if of_most and parts[version].family == of_most.family
              and rules.follows(of_most, parts[version]) != "doubt"
              and not (rules.is_image and parts[version].style != of_most.style)]
    date = releases[family[-1]].date or "" if family else ""
    best = set(family) - _abandoned(family, family[-1] if family else "", date, releases, rules)

    def rank(version: str) -> tuple[Any, ...]:
        one = releases[version]
        return (not one.gone_at, not one.is_prerelease, version in best, orders[version],
                len(parts[version].numbers), one.date or "")
    return {version: place for place, version in enumerate(sorted(releases, key=rank))}

def compare(known: Mapping[str, Release], listing: Listing, now: float,
            rules: VersionRules = GENERIC) -> tuple[dict[str, Release], list[Release]]:
    """``(what is known after a check, the releases that are news)``; what is new comes last, oldest first.
    New: a version that was not known. Updated: a known one whose content id, of the same kind, is another, or
    that is no longer a prerelease. Where only the newest are listed or kept, what is older than everything
    known, by the version where there is no date, is no news; and nothing is gone that is older than all that
    is listed, or of another list. A release without a date, or whose date is to come, gets the present one;
    in a first check where the provider dates only the newest, that of the oldest of those."""
    order, listed = rules.order, {release.version for release in listing.releases}
    # Where newer ones are withdrawn, those come up that were too many to be kept; they are no news either.
    is_full, here = len(known) >= RELEASE_LIMIT, [version for version in known if version in listed]
    is_window = listing.is_window or is_full
    lowest = min(map(order, here)) if is_full and here else None
    tomorrow = timestamp(now + DAY)
    dates = [release.date for release in listing.releases if release.date and release.date <= tomorrow]
    default_date = min(dates) if dates and not known else timestamp(now)
    news_since = min((before.date or "" for before in known.values()), default="") if is_window else ""
    after, new, updated = dict(known), list[Release](), list[Release]()
    for release in reversed(listing.releases):
        before = known.get(release.version)
        if before is None:
            if release.date or lowest is None or order(release.version) >= lowest:
                is_dated = release.date and release.date <= tomorrow
                new.append(release if is_dated else dataclasses.replace(release, date=default_date))
            continue
        changes: dict[str, Any] = {} if before.gone_at is None else {"gone_at": None}
        if release.note and release.note.fingerprint != before.fingerprint:
            changes |= {"note": release.note, "cve": release.cve}
        is_promoted = before.is_prerelease and not release.is_prerelease
        kind = release.content_kind
        # A tag that was found before its release was out, whose note then names what it fixes, is news again.
        is_fix = before.content_kind == "commit" and kind == "published" and {*release.cve} - {*before.cve}
        is_of_other_list = kind and kind != before.content_kind and not is_fix
        if kind and release.content_id != before.content_id:
            changes["content_id"] = release.content_id
        if not is_of_other_list and (kind and release.content != before.content or is_promoted):
            changes |= {"is_prerelease": release.is_prerelease, "is_updated": True}
            updated.append(dataclasses.replace(release, date=before.date, step=before.step, is_updated=True))
        if changes:
            after[release.version] = dataclasses.replace(before, **changes)
    kinds = listing.kinds or {one.content_kind for one in (*known.values(), *listing.releases)}
    oldest = min((one.date or known[one.version].date or "" for one in listing.releases
                  if (one.date or one.version in known) and one.content_kind in kinds), default="")
    after |= {version: dataclasses.replace(before, gone_at=now) for version, before in known.items()
              if before.gone_at is None and version not in listed and version not in listing.tags
              and (before.date or "") > oldest and before.content_kind in kinds}
    surplus = max(len(known) + len(new) - RELEASE_LIMIT, 0)
    for version in [version for version in list(known)[::-1] if version not in listed][:surplus]:
        del after[version]
    steps = version_steps([one.version for one in new], [
        one.version for one in (*known.values(), *new) if not one.is_prerelease and not one.gone_at])
    after |= {one.version: one for one in new}
    if after != known or any(one.place is None for one in known.values()):
        for version, place in ranked_places(after, rules).items():
            step = steps.get(version, after[version].step)
            if (after[version].place, after[version].step) != (place, step):
                after[version] = dataclasses.replace(after[version], place=place, step=step)
    is_replaced = is_full and not here          # as a whole: what is listed now is history
    return after, [after[one.version] for one in new
                   if (one.date or "") >= news_since and not is_replaced] + updated


# ---- whose notes an image gets

class Noted(NamedTuple):
    """The releases that an image's tags are, by tag, with where their notes are; and who has them."""
    state: str                          # what is wrong with that
    is_sure: bool                       # a person or a table says so
    source: Source | None = None        # None: nobody
    title: str = ""                     # of the source, such as "GitHub o/r"
    releases: Mapping[str, Release] = {}

def noted_releases(image: Mapping[str, Release], releases: Mapping[str, Release], names: Iterable[str],
                   is_sure: bool, link_of: Callable[[str], str]) -> tuple[dict[str, Release], str]:
    """The ``releases`` and the ``state`` of a Noted. Unless it is sure, they are believed only if of the last
    20 versions two come in the same order there, newest first, and if there are notes. A tag that moves is
    what has its digest."""
    found = same_releases(image, releases, names)
    digests = {image[tag].content or tag: version for tag, version in found.items()}
    places, last = {version: at for at, version in enumerate(releases)}, dict[Any, int | None]()
    ranked = sorted(image, key=lambda tag: -(image[tag].place or 0))
    for tag in ranked:
        if (parts := version_parts(tag)).numbers and last.get(parts.release) is None:
            last[parts.release] = places.get(found.get(tag, ""))
    there = [at for at in itertools.islice(last.values(), 20) if at is not None]
    has_text = any(one.has_note for one in releases.values())
    if not (there if is_sure else any(one < another for one, another in itertools.pairwise(there))):
        return {}, "found, but its releases do not match"
    linked = {one: dataclasses.replace(releases[one], note=Note(one, "", link_of(one), mark=-1))
              for one in {*found.values()}}
    return {tag: linked[one] for tag in ranked if (has_text or is_sure) and (
        one := found.get(tag) or digests.get(image[tag].content, ""))}, "" if has_text else "no notes there"

def with_notes(image: Mapping[str, Release], noted: Noted, undated: Collection[str],
               read_notes: Callable[[Sequence[str]], dict[str, Note]]) -> dict[str, Release]:
    """An image's releases with the notes of those that they are, where they are new to them, and what these
    fix; of tags that are ``undated`` with the date, too. At most 100 notes at once."""
    new = {tag: there for tag, there in noted.releases.items() if (
        image[tag].fingerprint, image[tag].cve) != (there.fingerprint or -1, there.cve)}
    found, heading = {**image}, f"<p>Notes from {html.escape(noted.title)}</p>"
    notes = {version: dataclasses.replace(note, message=note.message and heading + note.message)
             for version, note in read_notes(
                 list({one.version: 0 for one in new.values() if one.has_note})[:100]).items()}
    for tag, there in new.items():
        own, link = notes.get(there.version), there.note
        if link and (own or not there.has_note):
            copy = link if own is None else dataclasses.replace(
                own, url=own.url or link.url, mark=there.fingerprint or 0)
            found[tag] = dataclasses.replace(image[tag], note=copy, cve=there.cve, date=(
                there.date if tag in undated else image[tag].date))
    return found


# ---- what is installed

def newer_versions(mine: str, releases: Mapping[str, Release], rules: VersionRules,
                   with_prereleases: bool = False) -> list[str]:
    """The versions that follow one for sure, lowest first, and of each release one: prereleases where it is
    one, or they are wanted; of an image the tag on its base, or on the highest."""
    own, order, before = rules.parts(mine), rules.order(mine), releases.get(mine)
    with_prereleases = with_prereleases or rules.is_prerelease(mine)
    # Final versions are placed in their order, so that of those below mine nothing is to be found out.
    is_placed = before is not None and not before.is_prerelease and not before.gone_at and not rules.answers
    place = before.place if before and is_placed else None
    is_moving = before is None and own.before == "v" and len(own.numbers) == 1      # an action's v4
    found, orders = dict[str, VersionParts](), dict[str, VersionOrder]()
    for version, release in releases.items():
        is_below = place is not None and not release.is_prerelease and (release.place or 0) <= place
        is_unwanted = release.is_prerelease and not with_prereleases
        if release.gone_at or is_unwanted or is_below and not rules.is_image:
            continue
        one = rules.parts(version)
        if is_below and one.style == own.style or is_moving and one.numbers[:1] == own.numbers or (
                rules.follows(own, one) != "yes"):
            continue
        orders[version] = rules.order(version)
        is_after = (orders[version] > order if one.scheme == own.scheme else
                    before is None or (release.date or "") > (before.date or ""))     # as a person answered
        is_build = one.release == own.release and not rules.is_one_family
        if is_after and (
                not is_build or one.counter > own.counter and bool(own.counter or not rules.is_image)):
            found[version] = one
    for version in (*_abandoned(found, mine, before.date or "" if before else "", releases, rules),
                    *(_floating(own, found, releases, rules) if rules.is_image else ())):
        found.pop(version, None)
    best = dict[Any, str]()

    def liking(version: str) -> tuple[Any, ...]:
        one = found[version]
        alike = sum(mine == other for mine, other in zip(own.base, one.base))
        return one.before == own.before, alike, one.base, orders[version]
    for version, one in _most_alike(own, found, rules).items():
        key = (one.release, *(() if rules.is_image else one.counter))
        best[key] = max(best[key], version, key=liking) if key in best else version
    return sorted(best.values(), key=lambda version: (found[version].scheme != own.scheme, orders[version]))

def _exactness(own: VersionParts, releases: Iterable[str],
               rules: VersionRules) -> tuple[set[tuple[int, ...]], set[tuple[int, ...]]]:
    """``(the numbers of an image's tags of a family, those with which others of them begin)``"""
    family = {one.numbers for one in map(rules.parts, releases) if one.family == own.family}
    return family, {numbers[:size] for numbers in family for size in range(1, len(numbers))}

def _floating(own: VersionParts, found: Mapping[str, VersionParts], releases: Collection[str],
              rules: VersionRules) -> set[str]:
    """Of those tags of an image the ones that move or whose number does not go with mine: 18.1 for who runs
    16, where there is 18; 18 for who runs 16.4, where there is 18.1; 2.536 for who runs 2.528.2 where both
    kinds went on side by side; and stamps, if mine has none."""
    size = len(own.numbers)
    family, begun = _exactness(own, releases, rules) if any(
        len(one.numbers) != size for one in found.values()) else (set(), set())
    is_beside = any(len(one) == size - 1 and one not in begun and one < own.numbers for one in family)

    def is_out(one: VersionParts) -> bool:
        if own.scheme == "date":
            return False
        if len(one.numbers) > size:
            return one.numbers[:size] in family or len(one.numbers) > size + 1
        return len(one.numbers) < size and (one.numbers in begun or is_beside or len(one.numbers) < size - 1)
    return {version for version, one in found.items() if not rules.answer(one) and (
        is_out(one) or max(one.counter, default=0) >= 10**9 and not own.counter)}

def _most_alike(own: VersionParts, found: dict[str, VersionParts],
                rules: VersionRules) -> dict[str, VersionParts]:
    """Of the versions that follow one those that are most like it: on its system or language and, of an
    image, with as many numbers, with a build as it has one or not, and of its channel."""
    is_kept = not rules.is_image or any(word in SYSTEM_WORDS for word, _ in own.bases)

    def likeness(one: VersionParts) -> tuple[bool, ...]:
        size = one.scheme == "date" or len(one.numbers) == len(own.numbers)
        channels = [part.stages if len(part.stages) == 1 else () for part in (one, own)]
        return one.base == own.base or not is_kept, *(rules.is_image and like for like in (
            size, bool(one.counter) == bool(own.counter), channels[0] == channels[1]))
    best = max(map(likeness, found.values()), default=())
    return {version: one for version, one in found.items() if likeness(one) == best or rules.answer(one)}

def doubtful_version(mine: str, newer: Sequence[str], releases: Mapping[str, Release],
                     rules: VersionRules) -> str:
    """The final version, most like mine, of which nobody knows whether it follows: it came after the newest
    of those that do, is not lower, but is called otherwise, counts otherwise, or has another variant or base;
    "" for none. What is called or counts otherwise and was there before is another product. A variant that
    always came with mine is doubtful when mine has missed two of its releases."""
    newest = newer[-1] if newer else mine
    own, top = rules.parts(mine), rules.parts(newest)
    date, order = releases[newest].date or "" if newest in releases else "", rules.order(newest)

    def is_doubtful(version: str, release: Release) -> bool:
        if (release.date or "") < date or release.is_prerelease or release.gone_at or version in newer:
            return False
        one = rules.parts(version)
        numbers = one.numbers[:len(top.numbers)] if rules.is_image or newest not in releases else one.numbers
        is_lower = one.scheme == top.scheme and _without_zeros(numbers) <= _without_zeros(top.numbers)
        return not is_lower and bool(rules.follows(own, one)) and ((release.date or "") > date or rules.order(
            version) > order) and not (rules.is_image and is_left_out(version, (mine,)))
    doubtful = {version: rules.parts(version) for version, release in releases.items()
                if is_doubtful(version, release)}
    if not doubtful:
        return ""
    rest = [one for version, one in zip(releases, map(rules.parts, releases)) if version not in doubtful
            and not releases[version].is_prerelease and not releases[version].gone_at]
    begun = _exactness(own, releases, rules)[1] if rules.is_image and own.scheme != "date" else ()
    products = {one.product for one in rest if one.numbers} - {own.product}
    of_mine = {one.release for one in rest if one.family == own.family}
    companions = {one.family for one in rest if one.release in of_mine} - {own.family}
    missed = Counter(family for family, _ in {(one.family, one.release) for one in doubtful.values()})
    is_dated = len({release.date for release in releases.values()}) > 1
    return max((version for version, one in doubtful.items() if one.product not in products
                and not (one.family == own.family and one.numbers in begun)
                and not (is_dated and one.family in companions and missed[one.family] < 2)),
               default="", key=lambda version: (len({*own.variant} & {*doubtful[version].variant}),
                                                releases[version].date or "", rules.order(version)))

def is_history_rewritten(known: Mapping[str, Release], updated: Sequence[Release]) -> bool:
    """Whether so many known versions changed at once that it is one event, not many updates."""
    return len(updated) > max(NEWS_LIMIT, len(known) / 2)

def _known_as(one: Installation, releases: Mapping[str, Release], rules: VersionRules) -> str:
    """The version of a tag without one: of "latest" the most exact one with its digest, else what its label
    says. "" where none is known."""
    if rules.parts(one.version).numbers:
        return ""
    same = [version for version, release in releases.items() if one.has_digest(_digest_of(release))
            and rules.parts(version).numbers]
    if one.label and not same and is_comparable(one.label, releases, rules):
        same = [one.label]
    return max(same, key=lambda version: (len(rules.parts(version).numbers), -len(version)), default="")

def is_comparable(mine: str, releases: Collection[str], rules: VersionRules) -> bool:
    own = rules.parts(mine)
    return mine in releases or bool(own.numbers or rules.is_one_family and mine) and any(
        rules.follows(own, rules.parts(version)) == "yes" for version in releases)

def _digest_of(release: Release | None) -> str:
    """The digest of an image's tag, and where those of its platforms begin; "" where none is known."""
    kind, _, digest = (release.content_id or "" if release else "").partition(":")
    return digest if kind == "digest" else ""

def compared(one: Installation, releases: Mapping[str, Release], rules: VersionRules) -> Installation:
    """An installation, and how it compares with the releases; final ones are preferred. A tag of an unknown
    build is taken for the build that it was at first. Of a tag that moves, but latest, the digest decides."""
    known = _digest_of(releases.get(one.version))
    digest = known.partition(" ")[0]
    blank = dataclasses.replace(
        one, known_as=_known_as(one, releases, rules), state="unknown", step="", line="", newest="", behind=0,
        since="", cve=(), is_other_base=False, is_rebuilt=False, may_follow="",
        first_digest="" if one.digest else one.first_digest or digest)
    is_rebuilt = bool(digest) and not one.has_digest(known) and digest != blank.first_digest
    mine = blank.compared_as
    own, newer, state = rules.parts(mine), list[str](), "unknown"
    is_moving = rules.is_moving(one.version) and (
        one.version != "latest" or one.has_digest(known) or not blank.known_as)
    if is_moving:
        state = "current" if one.digest and digest else "unknown"
    elif is_comparable(mine, releases, rules):
        newer, state = newer_versions(mine, releases, rules), "current"
    found = [version for version in newer if not releases[version].is_prerelease] or newer
    doubt = doubtful_version(mine, found, releases, rules) if own.numbers and not is_moving else ""
    blank = dataclasses.replace(blank, is_rebuilt=is_rebuilt, may_follow=doubt, state=(
        "new build" if is_rebuilt else "unsure" if doubt else state))
    if not found:
        return blank
    newest, passed = rules.parts(found[-1]), newer[:newer.index(found[-1]) + 1]
    line = [version for version in found if rules.parts(version).numbers[:1] == own.numbers[:1]]
    cves = dict.fromkeys(cve for version in passed for cve in releases[version].cve)
    return dataclasses.replace(
        blank, state="behind", step=version_steps([found[-1]], [mine])[found[-1]] or (
            "patch" if newest.product == own.product else "major"),
        line=line[-1] if line else "", newest=found[-1], behind=len(passed),
        since=min(releases[version].date or "" for version in passed), cve=tuple(cves)[:CVE_LIMIT],
        is_other_base=newest.base != own.base)

def after_update(one: Installation, version: str, releases: Mapping[str, Release],
                 now: float) -> Installation:
    """An installation after an update to a version; with "" to the newest build of its tag."""
    digest = _digest_of(releases.get(version or one.version)).partition(" ")[0]
    keeps_tag = not IMAGES.parts(one.version).numbers       # such as "latest"
    return Installation(one.place, one.version if keeps_tag else version or one.version,
                        digest, one.origin, now, version if keeps_tag else "",
                        previous=one.version, previous_digest=one.digest or one.first_digest,
                        previous_label=one.label)

def before_update(one: Installation, now: float) -> Installation:
    """An installation as it was before a person said that it was updated."""
    return Installation(one.place, one.previous, one.previous_digest, one.origin, now, one.previous_label)

def replace_at_places(installed: Iterable[Installation],
                      said: Sequence[Installation]) -> tuple[Installation, ...]:
    """What is installed, with what a person says of some places instead of what was known of those."""
    places = {one.place for one in said}
    return *(one for one in installed if one.place not in places), *said

@dataclasses.dataclass(frozen=True)
class ReleaseRange:
    """The releases of a project after a version, up to another, newest first."""
    since: str
    until: str
    releases: tuple[Release, ...]
    are_prereleases_folded: bool    # as there are final ones, too

    def unfolded(self, releases: Iterable[Release]) -> list[Release]:
        return [one for one in releases if not (self.are_prereleases_folded and one.is_prerelease)]

    @property
    def cve(self) -> list[str]:
        return list(dict.fromkeys(cve for one in self.releases for cve in one.cve))[:CVE_LIMIT]

    def as_json(self, noted: Iterable[Release]) -> dict[str, Any]:
        return {"since": self.since, "until": self.until, "cve": self.cve, "releases": [
            one.as_json() | ({"note": one.note.as_json()} if one.note else {}) for one in noted]}

    def pages(self, sizes: Mapping[str, int]) -> list[list[Release]]:
        """The newest ``CHANGES_LIMIT`` on pages: at most 100 whose notes fit, or one with a larger note."""
        pages, left = list[list[Release]]([[]]), CHANGES_NOTES
        for release in self.releases[:CHANGES_LIMIT]:
            size = max(sizes.get(release.version, 0), CHANGES_NOTES // 100)
            if size > left and pages[-1]:
                pages, left = [*pages, []], CHANGES_NOTES
            pages[-1].append(release)
            left -= size
        return pages

def changes_between(since: str, until: str, releases: Mapping[str, Release],
                    rules: VersionRules) -> ReleaseRange:
    """What follows ``since`` in its family, up to ``until``; "" for the newest. Raises Invalid."""
    if not is_comparable(since, releases, rules):
        raise Invalid(Problem("since", f"must be like the project's versions; {since[:NAME_LIMIT]!r} is not"))
    if until and until not in releases:
        raise Invalid(Problem("until", f"must be a version of it; there is no {until[:NAME_LIMIT]!r}"))
    newer = newer_versions(since, releases, rules, with_prereleases=True)
    finals = [version for version in newer if not releases[version].is_prerelease]
    until = until or (finals or newer or [since])[-1]
    return ReleaseRange(since, until, tuple(        # an update to a version is the same, rebuilt or not
        dataclasses.replace(releases[version], is_updated=False)
        for version in reversed(newer) if rules.order(version) <= rules.order(until)),
        bool(finals) and not rules.is_prerelease(until))

def apply_rules(project: Project, releases: Mapping[str, Release], rules: VersionRules,
                ruled_out: Collection[str]) -> RuleResult:
    """What a project's patterns, which rule out some of the releases, and its installations say: what is not
    newer than those that can be compared is no news, unless it is the latest and names a CVE, or the first of
    which nobody knows whether it follows. Where none can be compared, all is news."""
    rules, tags = rules.of(project.name, project.version_answers), [one.version for one in project.installed]
    if rules.is_image and (tags or project.exclude_version_regexp):
        ruled_out = {*ruled_out, *(tag for tag in releases if is_left_out(tag, tags))}
    known = {version: one for version, one in releases.items() if version not in ruled_out}
    pairs = [(one, compared(one, known, rules)) for one in project.installed]
    installed = tuple(now if now.newest == one.newest else dataclasses.replace(now, advisories=tuple(
        dataclasses.replace(flaw, is_ended=None) for flaw in now.advisories)) for one, now in pairs)
    after = dataclasses.replace(project, installed=installed)
    versions = {one.compared_as for one in installed if not rules.is_moving(one.compared_as)
                and is_comparable(one.compared_as, known, rules)}
    moving = {one.version for one in installed
              if rules.is_moving(one.version) and _digest_of(known.get(one.version))}
    if project.notify_level == "all" or not (versions or moving - {"latest"}):
        return RuleResult(after, ruled_out)
    asked = {rules.form(rules.parts(one.may_follow)) for one in project.installed if one.may_follow}
    latest = max(known, key=lambda version: known[version].place or 0)
    mine = [rules.parts(version) for version in versions]
    allowed = {one.may_follow for one in installed} | ({latest} if known[latest].cve else set())
    others = {version for version in releases if version not in versions | moving | allowed and not any(
        rules.follows(one, rules.parts(version)) == "yes" for one in mine)}
    newer = {version for one in versions for version in newer_versions(one, known, rules)}
    doubts = {version for version in allowed - {""}
              if known[version].cve or rules.form(rules.parts(version)) not in asked}
    return RuleResult(after, {*ruled_out, *others}, newer | doubts,
                      versions | moving if rules.is_image else versions | newer)

def with_exclusions(releases: Sequence[Release], verdicts: RuleResult) -> list[Release]:
    """The releases as the verdicts rule them out."""
    def is_out(release: Release) -> bool:
        news = verdicts.rebuilds if release.is_updated else verdicts.wanted
        return release.version in verdicts.ruled_out or (
            verdicts.wanted is not None and release.version not in (news or ()))
    return [dataclasses.replace(release, is_ruled_out=is_out(release)) for release in releases]

def is_excluded(project: Project, release: Release) -> bool:
    """Whether the project's options exclude a release that was read or judged for it. Its level excludes
    smaller steps, but none that names a CVE or that nothing is known of, such as the first version's."""
    is_small = (project.notify_level in ("minor", "major")
                and release.step not in ("", "major", project.notify_level))
    return (release.is_ruled_out or project.skips(release.version)
            or is_small and not release.cve
            or project.exclude_prereleases and release.is_prerelease
            or project.exclude_updated and release.is_updated)


# ---- what is vulnerable, and what ends

OsvQuery = tuple[str, str, str]         # ecosystem, name, version
_CVSS = {"AV": {"N": .85, "A": .62, "L": .55, "P": .2}, "AC": {"L": .77, "H": .44},
         "UI": {"N": .85, "R": .62}, "PR": {"N": .85, "L": .62, "H": .27}}

def cvss_severity(vector: str) -> str:
    """The word for the base score of a CVSS 3 vector; "" for what is none.
    https://www.first.org/cvss/v3-1/specification-document, sections 5 and 7"""
    found = dict(part.partition(":")[::2] for part in vector.split("/"))
    try:
        is_changed = found["S"] == "C"
        lost = 1 - math.prod(1 - {"H": .56, "L": .22, "N": 0.0}[found[name]] for name in "CIA")
        rights = {"L": .68, "H": .5} if is_changed else {}
        ease = 8.22 * math.prod((values | rights if name == "PR" else values)[found[name]]
                                for name, values in _CVSS.items())
    except KeyError:
        return ""
    impact = 7.52 * (lost - .029) - 3.25 * (lost - .02) ** 15 if is_changed else 6.42 * lost
    score = min(10.0, (impact + ease) * (1.08 if is_changed else 1)) if impact > 0 else 0.0
    return next((word for word, least in zip(SEVERITIES[:0:-1], (8.95, 6.95, 3.95, 0.05)) if (
        math.ceil(score * 10 - 1e-6) / 10 >= least)), "")

def read_osv_matches(found: dict[OsvQuery, dict[str, str]], url: str, queries: Iterable[OsvQuery],
                     ask: Callable[[Request], Answer]) -> None:
    """Put into ``found`` the ids of the records that match each query, and when they were modified; not of a
    query that cannot be answered, as one that is wrong, which fails its batch, or whose pages do not end.
    https://google.github.io/osv.dev/post-v1-querybatch/"""
    waiting = [(query, "") for query in dict.fromkeys(queries)]
    batches = deque(waiting[at:at + 1000] for at in range(0, len(waiting), 1000))
    partial, pages = dict[OsvQuery, dict[str, str]](), Counter[OsvQuery]()
    for _ in range(len(batches) + 200):         # as many further pages and wrong queries
        if not batches:
            break
        batch = batches.popleft()
        body = {"queries": [{"package": {"ecosystem": ecosystem, "name": name}, "version": version}
                            | ({"page_token": token} if token else {})
                            for (ecosystem, name, version), token in batch]}
        answer = ask(Request(f"{url}/v1/querybatch", {"Content-Type": "application/json"}, "POST",
                             compact_json(body).encode(), accept_statuses=(400,)))
        if answer.status == 400:
            named = re.search("query at index ([0-9]{1,4})", answer.text()[:4 * KIB])
            at = int(named[1]) if named else len(batch) // 2        # else in one of the halves
            batches += [part for part in (batch[:at], batch[at + bool(named):]) if part and len(batch) > 1]
            continue
        more = list[tuple[OsvQuery, str]]()
        for (query, _), result in zip(batch, answer.json()["results"], strict=True):
            ids = partial.setdefault(query, {})
            ids |= {one["id"]: str(one["modified"]) for one in result.get("vulns") or ()}
            pages[query] += 1
            if not (token := result.get("next_page_token")):
                found[query] = ids
            elif pages[query] < 20:
                more.append((query, token))
        batches += [more] if more else []

_NOT_FOR_PEOPLE = re.compile(f"{UNSTORABLE.pattern}|[\u202a-\u202e\u2066-\u2069]")      # marks of direction

def trimmed_record(record: Any) -> dict[str, Any]:
    """What is kept of a record: https://ossf.github.io/osv-schema/  Raises what an odd one makes raise."""
    def text(value: Any) -> str:
        return _NOT_FOR_PEOPLE.sub("\ufffd", value or "")[:NAME_LIMIT]
    affected = [one for one in record.get("affected") or () if one.get("package")][:200]
    scores = [one.get("score") or "" for each in (record, *affected) for one in each.get("severity") or ()]
    is_malware = text(record["id"]).startswith("MAL-")
    word = "critical" if is_malware else text((record.get("database_specific") or {}).get("severity")).lower()
    return {
        "id": text(record["id"]), "aliases": list(map(text, record.get("aliases") or ()))[:10],
        "withdrawn": bool(record.get("withdrawn")), "title": re.split(r"(?<=[.!?])\s|\n", text(
            record.get("summary") or record.get("details")).strip())[0],
        "severity": word if word in SEVERITIES[1:] else next(filter(None, map(cvss_severity, scores)), ""),
        "is_notice": any((one.get("database_specific") or {}).get("informational") for one in affected),
        "affected": [{"ecosystem": text(one["package"]["ecosystem"]), "name": text(one["package"]["name"]),
                      "events": [(kind, text(version)) for event in each["events"]
                                 for kind, version in event.items()]} for one in affected
                     for each in one.get("ranges") or () if each.get("type") in ("SEMVER", "ECOSYSTEM")]}

def _fixed_in(record: Mapping[str, Any], query: OsvQuery, order: Callable[[str], VersionOrder]) -> list[str]:
    """The first versions above a query's that are not affected, as the ranges of a record say."""
    found, mine = list[str](), order(query[2])
    for one in record["affected"]:
        names = [pep503(name) if query[0] == "PyPI" else name for name in (one["name"], query[1])]
        begin: VersionOrder | None = None
        is_mine = one["ecosystem"] == query[0] and names[0] == names[1]
        for at, kind, version in sorted((((), []) if version == "0" else order(version), kind, version)
                                        for kind, version in one["events"]) if is_mine else ():
            if kind == "introduced":
                begin = at
            elif kind in ("fixed", "last_affected") and begin is not None and begin <= mine and (
                    mine < at or kind == "last_affected" and mine == at):
                found.append(version if kind == "fixed" else f"above {version}")
                break
    return found

def advisories_of(query: OsvQuery, records: Sequence[Mapping[str, Any]], left: Collection[str] | None,
                  order: Callable[[str], VersionOrder]) -> tuple[Advisory, ...]:
    """What the records say of a version: those that name each other are one, and withdrawn ones none.
    ``left``: the ids of those that the newest version still has; None: not known."""
    groups = list[tuple[set[str], list[Mapping[str, Any]]]]()
    for record in records:
        if record["withdrawn"]:
            continue
        ids, those = {record["id"], *record["aliases"]}, [record]
        for group in [group for group in groups if group[0] & ids]:
            groups.remove(group)
            ids, those = ids | group[0], group[1] + those
        groups.append((ids, those))
    found = list[Advisory]()
    for ids, those in groups:
        names = sorted(ids, key=lambda id_: (not id_.startswith("CVE-"), not id_.startswith("GHSA-"), id_))
        fixed = [version for one in those for version in _fixed_in(one, query, order)]
        found.append(Advisory(
            names[0], tuple(names[1:]), next((one["title"] for one in those if one["title"]), ""),
            max((one["severity"] for one in those), key=SEVERITIES.index),
            max(fixed, key=lambda version: order(version.removeprefix("above ")), default=""),
            None if left is None else ids.isdisjoint(left),
            "possible" if query[0] == "GIT" else "notice" if all(one["is_notice"] for one in those) else ""))
    return tuple(sorted(found, key=lambda one: (-one.rank, one.id)))[:ADVISORY_LIMIT]

def end_of_life(numbers: Sequence[int], cycles: Iterable[Sequence[Any]],
                now: float) -> tuple[str, int | None]:
    """``(day, days until then)`` of the end of life of a version's cycle, the longest whose name its first
    numbers are: "ended" and 0 where only that is known, "" and None where no end is. ``cycles``: name, day,
    whether it has ended."""
    known = [(len(name.split(".")), day, has_ended) for name, day, has_ended in cycles
             if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})*", name)
             and tuple(map(int, name.split("."))) == tuple(numbers[:len(name.split("."))])]
    _, day, has_ended = max(known, default=(0, None, False), key=lambda one: one[0])
    with contextlib.suppress(ValueError):
        return str(day), math.ceil((instant_of(f"{day}T00:00:00") - now) / DAY)
    return ("ended", 0) if has_ended else ("", None)

def alerts_of(project: Project) -> tuple[list[tuple[Installation, list[Advisory], str]], tuple[str, ...]]:
    """``(each installation with the flaws and words on an end of life to notify of; what is alerted then)``:
    each once a place and when it is worse, an end 90 and 7 days before."""
    ranks = {what: int(rank) for rank, _, what in (one.partition(" ") for one in project.alerted)}
    found = list[tuple[Installation, list[Advisory], str]]()
    for one in project.installed:
        news, days, words = list[Advisory](), one.eol_days, ""
        for flaw in one.vulnerabilities:
            if flaw.rank > max(ranks.get(f"{id_} {one.place}", 0) for id_ in (flaw.id, *flaw.aliases)):
                news.append(flaw)
                ranks[f"{flaw.id} {one.place}"] = flaw.rank
        step = 2 if days is not None and 0 < days <= 7 else 1 if days is not None and 0 < days <= 90 else 0
        if step > ranks.get(f"{one.eol} {one.place}", 0):
            words = f"reaches its end of life on {one.eol}, in {pluralize(days or 0, 'day')}"
            ranks[f"{one.eol} {one.place}"] = step
        found += [(one, news, words)] if news or words else []
    return found, tuple(f"{rank} {what}" for what, rank in ranks.items())[-1000:]


# ---- who is notified, and when

def should_notify(destination: Destination, project: Project, release: Release | None) -> bool:
    """Whether a destination is notified of a project's release, or with None of the state of its source.
    Of a kind of which the project lists destinations, those are; else those that are for every project."""
    listed, tags = project.destinations.get(destination.kind), set(project.tags)
    if project.is_muted or destination.kind == "email" and project.email_notification == "none":
        return False
    return ((destination.id in listed if listed else destination.is_for_every_project)
            and (not destination.tags or not tags.isdisjoint(destination.tags))
            and tags.isdisjoint(destination.without_tags)
            and (release is None or bool(release.cve) or not destination.is_security_only))

def next_boundary(schedule: str, now: float, account: Account, settings: Settings) -> float:
    """When an event of ``now`` is sent: at once, at the next full hour, or at the account's next digest hour
    (weekly: on a Monday, monthly: on the first), in its time zone."""
    if schedule == "instant":
        return now
    local = datetime.datetime.fromtimestamp(now, account.zone)
    digest_hour = settings.digest_hour if account.digest_hour is None else account.digest_hour
    if schedule == "hourly":
        offset = (local.utcoffset() or datetime.timedelta()).total_seconds()
        return (now + offset) // HOUR * HOUR + HOUR - offset
    for days in range(33):
        day = local.date() + datetime.timedelta(days)
        at = datetime.datetime.combine(day, datetime.time(digest_hour), local.tzinfo)
        is_day = {"daily": True, "weekly": at.weekday() == 0, "monthly": at.day == 1}
        if at.timestamp() > now and is_day[schedule]:
            return at.timestamp()
    raise AssertionError("33 days hold a Monday and the first of a month")

def after_quiet_hours(at: float, account: Account) -> float:
    """The instant, or the end of the account's quiet hours that it falls into."""
    if not account.quiet_from or not account.quiet_until:
        return at
    begins, ends = map(datetime.time.fromisoformat, (account.quiet_from, account.quiet_until))
    zone, one_day = account.zone, datetime.timedelta(days=1)
    today = datetime.datetime.fromtimestamp(at, zone).date()
    for day in (today - one_day, today):
        last_day = day + one_day if ends <= begins else day
        until = datetime.datetime.combine(last_day, ends, zone).timestamp()
        if datetime.datetime.combine(day, begins, zone).timestamp() <= at < until:
            return until
    return at

def _hold_until(project: Project, release: Release | None, now: float) -> float:
    """When a project sends a release: some days after it was released, or after its content changed; at once
    where it does not hold them, and security fixes."""
    if not release or not project.hold_days or release.cve:
        return now
    released_at = instant_of(release.date) if release.date and not release.is_updated else now
    return max(now, min(now, released_at) + project.hold_days * DAY)

def _recipient(destination: Destination, account: Account, schedule: str, at: float, settings: Settings,
               is_held: bool = False, is_urgent: bool = False) -> Recipient:
    """A destination that is notified by a schedule of what happens at an instant. Quiet hours hold back
    everything but what is urgent, and webhooks, which are for machines."""
    is_digested = schedule != "instant"
    if is_urgent or destination.kind == "webhook":
        account = dataclasses.replace(account, quiet_from="")
    due_at = next_boundary(schedule, at + _DIGEST_GRACE * is_digested, account, settings)
    return Recipient(destination.id, after_quiet_hours(due_at, account), is_digested, is_held)

def recipients_of(subscriber: Subscriber, release: Release | None, now: float,
                  settings: Settings) -> tuple[Recipient, ...]:
    """Who is notified of a project's release, or with None of the state of its source, and when.
    Webhooks get releases only, and at once; the schedule of mail is the project's."""
    project, found = subscriber.project, dict[str, Recipient]()     # by mail address, else by destination
    sent_at = _hold_until(project, release, now)
    if release and subscriber.has_image:        # which is announced instead, if it comes
        sent_at = max(sent_at, now + (HOUR if release.cve else DAY))
    is_possible = {"email": bool(settings.smtp_url), "webhook": release is not None}
    schedules = {"email": project.email_notification, "webhook": "instant"}
    for destination in subscriber.destinations:
        if is_possible.get(destination.kind, True) and should_notify(destination, project, release):
            schedule = schedules.get(destination.kind, destination.schedule)
            at = destination.id
            if destination.kind == "email":     # of which an address gets one
                at = (destination.settings.get("to") or subscriber.account.email).lower()
            found.setdefault(at, _recipient(
                destination, subscriber.account, schedule, sent_at, settings, is_held=sent_at > now,
                is_urgent=bool(release and release.cve)))
    return tuple(found.values())


# ---- what an event says

def _account_body(account: Account) -> dict[str, Any]:
    return {"type": account.type, "id": account.id, "name": account.name}

def event_body(subscriber: Subscriber, release: Release) -> dict[str, Any]:
    """The contract's body of a notification; optional members only when they say something."""
    project, note = subscriber.project, release.note
    return drop_empty(       # is_major is for people; no webhook is sent it
        is_major=release.step == "major" and not release.is_updated,
        provider=project.provider, project=project.name, version=release.version, time=release.date,
        cve=list(release.cve), is_prerelease=release.is_prerelease, is_updated=release.is_updated,
        note=note and note.message and {"title": note.title, "message": note.message},
        installed=[drop_empty(place=one.place, version=one.shown, behind=one.behind or None, may_follow=(
            one.may_follow if one.may_follow == release.version else None)) for one in project.installed],
        account=_account_body(subscriber.account),
        tags=[tag.as_json() for tag in subscriber.tags], project_note=project.note)

def notice_body(subscriber: Subscriber, at: float, **details: Any) -> dict[str, Any]:
    """The body of an event that is about a project, not about one release."""
    project = subscriber.project
    return {"provider": project.provider, "project": project.name, "time": timestamp(at), **details,
            "account": _account_body(subscriber.account), "tags": [tag.as_json() for tag in subscriber.tags],
            "project_note": project.note}

def has_failed_for_days(destination: Destination, now: float) -> bool:
    """Whether all attempts have failed for three days. After the last one that a delivery has, no other may
    come; and one failure before the machine was switched off is not enough."""
    since, last = destination.failing_since, destination.failed_at
    return (since is not None and last is not None and now - since >= FAILURE_ALERT_AFTER[1]
            and last - since >= RETRY_WINDOW - 1.1 * RETRY_MAX_WAIT)

def destination_event(failing: Destination, account: Account, others: Sequence[Destination], now: float,
                      settings: Settings) -> Event:
    """A destination keeps failing: for the account's others that do not, and are no webhooks."""
    schedules = {"email": account.email_notification if settings.smtp_url else "none", "webhook": "none"}
    to = [(one, schedules.get(one.kind, one.schedule)) for one in others if one.failing_since is None]
    body = {"destination": failing.name, "kind": failing.kind, "error": failing.error or "",
            "since": timestamp(failing.failing_since or now), "time": timestamp(now),
            "account": _account_body(account)}
    url = f"{settings.base_url}/notifications/{failing.id}" if settings.base_url else ""
    return Event(None, body, url, tuple(
        _recipient(one, account, schedule, now, settings) for one, schedule in to if schedule != "none"),
        "failing")

def release_event(subscriber: Subscriber, release: Release, provider: Provider,
                  recipients: tuple[Recipient, ...]) -> Event:
    url = release.note.url if release.note and release.note.url else page_of(
        provider, subscriber.project.name, release.version)
    return Event(subscriber.project.id, event_body(subscriber, release), url, recipients)

def gap_of(listing: Listing, known: Mapping[str, Release], provider: Provider, token: str | None) -> str:
    """What to say where all that is listed of a project is new, so that others may be missing; else ""."""
    count, is_new = len(listing.releases), all(one.version not in known for one in listing.releases)
    if not known or not listing.is_window or count < 2 or not is_new:
        return ""
    helps = f" or a token in {provider.token_variable}" if provider.dialect.auth and not token else ""
    return (f"all {count} releases that {provider.title} lists are new, so some may be missing; "
            f"a shorter poll interval{helps} helps")

def release_events(subscriber: Subscriber, news: Sequence[Release], rewritten: Sequence[Release],
                   provider: Provider, now: float, settings: Settings, gap: str = "") -> list[Event]:
    """The events of one check for a project: the judged news that it does not exclude. The newest
    ``NEWS_LIMIT`` one by one, the others in a summary (``WEBHOOK_LIMIT`` for webhooks), as tags of an image
    that were rebuilt together. ``rewritten``: of a rewritten history, one notice, for no webhook. ``gap``: as
    ``gap_of`` words it."""
    project = subscriber.project
    wanted = [release for release in news if not is_excluded(project, release)
              and (release.cve or not project.is_snoozed(now))]
    changed = sum(not is_excluded(project, release) for release in rewritten)
    machines, people = (
        dataclasses.replace(subscriber, destinations=tuple(
            one for one in subscriber.destinations if (one.kind == "webhook") is is_machine))
        for is_machine in (True, False))

    def single(receiving: Subscriber, release: Release) -> Event:
        rules = provider.dialect.versions.of(project.name, project.version_answers)
        mine = tuple(one for one in project.installed if one.may_follow == release.version
                     or rules.follows(rules.parts(one.compared_as), rules.parts(release.version)) == "yes"
                     or one.state in ("unknown", "not compared") and rules.parts(one.version).numbers)
        about = dataclasses.replace(subscriber, project=dataclasses.replace(project, installed=mine))
        return release_event(about, release, provider, recipients_of(receiving, release, now, settings))

    def summary(text: str, about: Release) -> Event:
        details = drop_empty(text=text, cve=list(about.cve))
        return Event(project.id, notice_body(subscriber, now, **details), page_of(provider, project.name),
                     recipients_of(people, about, now, settings), "summary")
    events = [summary(gap, Release("", None))] if gap and wanted else []
    if changed:
        events.append(summary(f"its history was rewritten: {changed:,} versions changed",
                              Release("", None, is_updated=True)))
    rebuilt = [one for one in wanted if one.is_updated and provider.dialect.has_images]
    if len(rebuilt) > 1:
        wanted = [one for one in wanted if not one.is_updated]
        events += [single(machines, one) for one in rebuilt[-WEBHOOK_LIMIT:]]
        names = ", ".join(one.version for one in rebuilt[:-4:-1]) + (", ..." if len(rebuilt) > 3 else "")
        events.append(summary(f"{len(rebuilt):,} tags were rebuilt: {names}",
                              Release("", None, is_updated=True)))
    if len(wanted) > NEWS_LIMIT:
        by_date = sorted(wanted, key=lambda release: release.date or "")
        rest, wanted = by_date[:-NEWS_LIMIT], by_date[-NEWS_LIMIT:]
        cves = dict.fromkeys(cve for release in rest for cve in release.cve)
        events += [single(machines, release) for release in rest[NEWS_LIMIT - WEBHOOK_LIMIT:]]
        events.append(summary(f"{len(rest):,} more releases",
                              Release("", rest[-1].date, cve=tuple(cves)[:NEWS_LIMIT])))
    return events + [single(subscriber, release) for release in wanted]

def update_words(project: Project) -> str:
    """What a project's most urgent installation is behind, or may be, and where others are."""
    one, places = project.most_urgent, dict[str, dict[str, None]]()
    if one is None:
        return ""
    for each in project.installed:
        if each.place != one.place:
            places.setdefault(project.state_of(each), {})[each.place or "here"] = None
    at, state = f" on {one.place}" if one.place else "", project.state_of(one)
    cves = ", ".join(one.cve[:3]) + (" and more" if len(one.cve) > 3 else "")
    said = f"You run {one.shown}{at}"
    if state == "behind":
        said += f": {one.newest} is {pluralize(one.behind, 'release')} ahead ({one.step})"
        said += (f", fixing {cves}" if cves else "") + (
            f". Of {one.shown} there is a new build" if one.is_rebuilt else "")
    elif state == "new build":
        said += ", of which there is a new build"
    if one.may_follow and not project.skips(one.may_follow):
        said += ":" if state == "unsure" else "."
        said += f" {one.may_follow} may follow it; the tags may have changed"
    if flaws := project.vulnerabilities:
        ended = [one for one in flaws if one.is_ended]
        said += f". Known: {', '.join(map(str, flaws[:3]))}" + (" and more" if len(flaws) > 3 else "")
        said += f"; the update ends {len(ended)} of {len(flaws)}" if ended else ""
    for each in project.installed:
        if each.eol_days is not None and each.eol_days <= 90:
            said += f". The end of life of {each.shown} " + (
                "has come" if each.eol_days <= 0 else f"is on {each.eol}")
    behind, unsure = places.get("behind", {}) | places.get("new build", {}), places.get("unsure", {})
    return said + "." + "".join(f" {words}: {', '.join(those)}." for words, those in (
        ("Also behind", behind), ("Also unsure" if state == "unsure" else "Unsure", unsure)) if those)

def reminder(subscriber: Subscriber, now: float, settings: Settings) -> Event:
    """What a project's destinations are sent when its snooze ends; nobody, where nothing is open now."""
    project = subscriber.project
    is_due = project.is_open and not project.is_snoozed(now)
    recipients = recipients_of(subscriber, None, now, settings) if is_due else ()
    return Event(project.id, notice_body(subscriber, now, text=update_words(project)), "", recipients,
                 "summary")

def advice_event(subscriber: Subscriber, found: Iterable[tuple[Installation, Sequence[Advisory], str]],
                 now: float, settings: Settings) -> Event | None:
    """What is sent of what ``alerts_of`` found about a project's places; None for nothing."""
    project, lines, ids = subscriber.project, list[str](), dict[str, str]()
    for one, news, words in found:
        name = f"{one.shown} on {one.place}" if one.place else one.shown
        lines += [f"{name} {words}."] if words else []
        for advisory in news:
            ends = f". The update to {one.newest} ends it." if advisory.is_ended else ""
            lines.append(f"{name}: {advisory} {advisory.title}".rstrip(" .") + ends)
            ids[advisory.id] = one.shown
    if not lines:
        return None
    heading = f"{project.name} {', '.join(dict.fromkeys(ids.values()))}: " + (
        f"{len(ids)} known {'vulnerability' if len(ids) == 1 else 'vulnerabilities'}") if ids else (
        f"{project.name} is near its end of life")
    people = dataclasses.replace(subscriber, destinations=tuple(
        one for one in subscriber.destinations if one.kind != "webhook"))
    about = Release("", None, cve=tuple(ids)) if ids else None
    body = notice_body(subscriber, now, heading=heading, lines=lines, cve=list(ids)[:CVE_LIMIT])
    url = f"{settings.base_url}/projects/{project.id}" if settings.base_url else ""
    # Together with those of other projects, of which there are many after a first scan.
    return Event(project.id, body, url, tuple(
        dataclasses.replace(one, is_digested=True, due_at=max(one.due_at, now + MINUTE))
        for one in recipients_of(people, about, now, settings)), "summary")

def report_event(destination: Destination, account: Account, projects: Iterable[Project], now: float,
                 settings: Settings) -> Event | None:
    """What is behind or unsure of ``projects``, in order, as a destination chooses; None for nothing."""
    found = [project for project in projects if should_notify(destination, project, None)]
    if destination.is_security_only:
        found = [project for project in found if project.urgency >= ENDED
                 or project.most_urgent and project.most_urgent.cve]
    if not found:
        return None
    states = Counter(project.update_state for project in found)
    counts = {"behind": states["behind"] + states["new build"], "unsure": states["unsure"],
              "vulnerable": sum(project.urgency >= VULNERABLE for project in found),
              "at the end of life": sum(project.urgency % VULNERABLE >= ENDED for project in found)}
    body = {"heading": ", ".join(f"{pluralize(count, 'project')} {'is' if count == 1 else 'are'} {state}"
                                 for state, count in counts.items() if count),
            "lines": [f"{project.name}: {update_words(project)}" for project in found],
            "time": timestamp(now), "account": _account_body(account)}
    url = f"{settings.base_url}/updates" if settings.base_url else ""
    return Event(None, body, url, (_recipient(destination, account, "instant", now, settings),), "summary")


# ---- what is tried again

def check_failure(error: Exception, source: Source, now: float, interval: float,
                  jitter: float) -> CheckResult:
    """What a failed check records: the interval doubles with each failure, up to six hours, with jitter in
    [0, 1) by up to a tenth. A provider that asks to wait is waited for without it, and that is no failure."""
    if isinstance(error, Throttled):
        return CheckResult(now + error.seconds, error=str(error), counts=False, quota_left=error.quota_left)
    wait = min(interval * 2 ** min(source.failures + 1, 20), max(interval, CHECK_MAX_WAIT))
    message = str(error) if isinstance(error, ProviderError) else INTERNAL_ERROR
    return CheckResult(now + wait * (1 + jitter / 10), error=message,
                       is_not_found=isinstance(error, ProjectMissing))

def should_alert(source: Source, failure: CheckResult, now: float) -> bool:
    times, seconds = FAILURE_ALERT_AFTER
    return (failure.counts and not source.alert_sent and source.failures + 1 >= times
            and now - (source.failing_since or now) >= seconds)

def outcome(is_accepted: bool, retry_after: float | None, failures: int, first: float, age: float,
            jitter: float) -> tuple[str, float]:
    """What an attempt makes of its delivery: the new state, and in how many seconds to attempt again, if
    ever. ``failures``: with this one, of a delivery queued ``age`` seconds ago. Given up after three days
    and some attempts. ``retry_after`` (asked for) and ``jitter`` only lengthen the wait."""
    wait = min(first * 2 ** min(failures - 1, 40), RETRY_MAX_WAIT) * (1 + jitter / 10)
    if is_accepted:
        return "delivered", 0.0
    if age + wait > RETRY_WINDOW and failures >= RETRY_MIN_ATTEMPTS:
        return "failed", 0.0
    return "pending", max(wait, retry_after or 0.0)


# == tracker ===================================================================
# Finds out what is new. Claims sources that are due, accounts in turn, asks their providers, compares with
# what is known, and records releases together with their deliveries. One loop hands out work to one pool.
# A claimed source always ends with a recorded check, whatever raises in between.

HOST_LIMITS.update(dict.fromkeys(
    {host_of(provider.site) for provider in PROVIDERS.values()} - HOST_LIMITS.keys() - {""},
    HostLimit(10, 5.0)))

_FAULT_LIMIT = 10           # requests that fail, after which no further record or product is asked for
_JUDGING, _ADVISING = Job("judging", "", ""), Job("advising", "", "")        # one at a time

class Advisor:
    """Finds out which versions that run are known to be vulnerable, or near their end of life."""
    def __init__(self, store: Store, fetcher: Fetcher, clock: Callable[[], float]) -> None:
        self.store, self._fetcher, self._clock = store, fetcher, clock
        self._faults = Counter[str]()       # of this round

    def advise(self, settings: Settings, providers: Mapping[str, Provider]) -> None:
        """Ask about all that is installed and was not asked about for a day, and record what is known of it,
        with notifications. What could not be asked stays as it was, and is an outage of the fetcher."""
        projects = [(project, provider) for project in self.store.projects.installed()
                    if (provider := providers.get(project.provider))]
        matches, records, cycles = dict[OsvQuery, dict[str, str]](), dict[str, Any](), dict[str, Any]()
        queries = [query for project, provider in projects for one in project.installed
                   if self._is_due(one) for query in self._queries(provider, project, one)]
        self._fetcher.outages.clear()
        self._faults.clear()
        if settings.osv_url:
            with self._outage("vulnerabilities"):
                read_osv_matches(matches, settings.osv_url, queries, self._ask)
                if missing := len({*queries} - matches.keys()):
                    raise ProviderError(f"it did not answer for {pluralize(missing, 'version')}")
            self._read_records(settings.osv_url, records, matches)
            self._read_cycles(cycles, projects, providers)
        for project, provider in projects:
            with logged(f"project {project.id}: what is vulnerable"):
                self._record(project, provider, settings, matches, records, cycles.get(project.id))

    def _is_due(self, one: Installation) -> bool:
        return self._clock() - one.advised_at >= DAY or bool(one.newest) and any(
            flaw.is_ended is None for flaw in one.advisories)

    @contextlib.contextmanager
    def _outage(self, what: str) -> Iterator[None]:
        try:
            yield
        except (ProviderError, *_UNREADABLE) as error:
            is_odd = not isinstance(error, ProviderError)
            self._faults[what] += 1
            self._fetcher.outages[what] = words = f"{'an odd answer: ' * is_odd}{error}"[:200]
            log.warning("%s: %s", what, words)

    def _ask(self, request: Request) -> Answer:
        answer = self._fetcher.fetch(request)
        if answer.status != 200 and answer.status not in request.accept_statuses:
            raise ProviderError(f"{host_of(request.url)} answered status {answer.status}")
        return answer

    @staticmethod
    def _queries(provider: Provider, project: Project, one: Installation) -> list[OsvQuery]:
        """Of what is installed, if it is one of the versions there, then of its newest version."""
        package = osv_package(provider, project.name)
        if not package or one.state in ("unknown", "not compared"):
            return []
        return [(*package, version.removeprefix("v") if package[0] == "Go" else version)
                for version in (one.compared_as, one.newest) if version]

    def _kept(self, url: str, read: Callable[[Any], Any], version: str = "") -> Any:
        """What ``read`` makes of the JSON at an address, None for 404; it is asked for again where it has
        another version than what is kept, or is of yesterday."""
        known, body, read_at = self.store.documents.of([url]).get(url, ("", None, 0.0))
        if version != known if version else self._clock() - read_at >= DAY:
            answer = self._ask(Request(url, {"If-None-Match": known} if known and not version else {},
                                       accept_statuses=(304, 404)))
            if answer.status != 304:
                body, known = read(answer.json()) if answer.status == 200 else None, ""
            etag = known if body is None else answer.headers.get("etag", known)
            self.store.documents.put(url, version or etag, body)
        return body

    def _read_records(self, url: str, found: dict[str, Any],
                      matches: Mapping[OsvQuery, Mapping[str, str]]) -> None:
        """The records by id, those of repositories last; not those that cannot be had."""
        for query in sorted(matches, key=lambda query: query[0] == "GIT"):
            for id_, modified in matches[query].items():
                if id_ not in found and self._faults["advisories"] < _FAULT_LIMIT:
                    with self._outage("advisories"):
                        body = trimmed_record({"id": id_})
                        with contextlib.suppress(*_UNREADABLE):     # an odd one is a flaw, too
                            where = f"{url}/v1/vulns/{quote(id_, safe='')}"
                            body = self._kept(where, trimmed_record, modified) or body
                        found[id_] = body

    def _read_cycles(self, found: dict[str, Any], projects: Iterable[tuple[Project, Provider]],
                     providers: Mapping[str, Provider]) -> None:
        """The cycles of projects that are products of endoflife.date, by project id."""
        at, ids = providers["endoflife"].site.partition("products/")[0], {*PURL_TYPES.values(), "endoflife"}
        products = dict[str, str]()
        with self._outage("end of life"):
            if any(provider.id in ids for _, provider in projects):
                products = self._kept(f"{at}identifiers/purl", lambda listed: {
                    one["identifier"].lower(): one["product"]["name"] for one in listed["result"]}) or {}
        for project, provider in projects:
            with self._outage("end of life"):
                product = product_of(provider, project.name, products)
                if product and self._faults["end of life"] < _FAULT_LIMIT:
                    where = f"{at}products/{quote(product, safe='')}"
                    found[project.id] = self._kept(where, lambda about: [
                        (one["name"], one.get("eolFrom"), bool(one.get("isEol")))
                        for one in about["result"]["releases"]])

    def _record(self, project: Project, provider: Provider, settings: Settings,
                matches: Mapping[OsvQuery, Mapping[str, str]], records: Mapping[str, Any],
                cycles: Sequence[Any] | None) -> None:
        now, versions = self._clock(), provider.dialect.versions

        def advised(one: Installation) -> Installation:
            if not settings.osv_url:        # it is not known any more
                return dataclasses.replace(one, advisories=(), advised_at=0.0, eol="", eol_days=None)
            if cycles:
                eol, days = end_of_life(versions.parts(one.compared_as).numbers, cycles, now)
                one = dataclasses.replace(one, eol=eol, eol_days=days)
            mine, *newest = self._queries(provider, project, one) or [("", "", "")]
            ids = [id_ for query in (mine, *newest) for id_ in matches.get(query, ())]
            if mine not in matches or not {*ids} <= records.keys():
                return one      # as it was
            left = {name for query in newest for id_ in matches.get(query, ())
                    for name in (id_, *records[id_]["aliases"])}
            return dataclasses.replace(one, advised_at=now, advisories=advisories_of(
                mine, [records[id_] for id_ in matches[mine]],
                left if newest and newest[0] in matches else None, versions.order))

        def change(before: Project) -> tuple[Project, Event | None]:
            after = dataclasses.replace(before, installed=tuple(map(advised, before.installed)))
            found, alerted = alerts_of(after)
            event = next((advice_event(dataclasses.replace(one, project=after), found, now, settings)
                          for one in self.store.projects.subscribers(project.source_id)
                          if one.project.id == project.id), None) if found else None
            has_recipient = event is not None and bool(event.recipients)
            return dataclasses.replace(after, alerted=alerted if has_recipient else before.alerted), event
        after, event = change(project)
        if after != project or event and event.recipients:
            self.store.projects.record_advice(project, change)

class ImageNotes:
    """Finds the repositories whose releases the tags of images are."""
    def __init__(self, tracker: Tracker) -> None:
        self._tracker, self._pace = tracker, Pace(10, HOUR)     # of look-ups at Docker Hub, which counts them

    def _known(self, image: Source, tags: Mapping[str, Release]) -> Noted:
        """What the tags are, as far as it is known."""
        chosen, store = source_of_notes(self._tracker._providers, image), self._tracker.store
        if isinstance(chosen, str):
            return Noted(chosen, bool(image.notes_from))
        provider, name, link_of, is_sure = chosen
        source = store.sources.hold_notes(image, provider.id, *name_at(provider, name))
        found, state = noted_releases(
            tags, store.releases.known(source.id), (image.name, source.name), is_sure, link_of)
        return Noted(source.error or state, is_sure, source, f"{provider.title} {source.name}", found)

    def find(self, image: Source, provider: Provider, known: Collection[str], tags: Mapping[str, Release],
             undated: Collection[str],
             ask: Callable[[Request], Answer]) -> tuple[dict[str, Release], CheckResult]:
        """``(the tags with their notes, of a result what is about them)``. With the image the source of its
        notes is checked, where that is almost due or had none for a new tag."""
        noted, store, tracker = self._known(image, tags), self._tracker.store, self._tracker
        newest, now = max(tags.values(), key=lambda one: one.place or 0, default=None), tracker._clock()
        if newest and not noted.is_sure:
            image = dataclasses.replace(image, labels=self._labels(image, provider, newest, ask))
            noted = self._known(image, tags)
        numbered = provider.dialect.versions.parts
        new = {tag for tag in tags if known and tag not in known and numbered(tag).numbers}

        def missed_at() -> float:
            return store.sources.note_missed_at(image.id) if new <= noted.releases.keys() else now
        if (source := noted.source) and (missed_at() + DAY > now or (
                source.next_check_at <= now + tracker._interval_of(source) / 4)):
            with tracker._renewing(lambda: [source.id]):
                for claimed in store.sources.claim([source.id], tracker._claimant, now):
                    tracker.check(claimed)
            store.sources.await_check(source.id, now, FIRST_CHECK_WAIT)     # by another
            noted = self._known(image, tags)
        retries = [at for wait in NOTES_WAITS if noted.releases and (at := missed_at() + wait) > now]
        read_notes = functools.partial(store.releases.notes, source.id if source else 0)
        return with_notes(tags, noted, undated, read_notes), CheckResult(
            min(retries, default=math.inf), notes_source_id=source.id if source else None,
            notes_state=noted.state, labels=image.labels or "{}" * (noted.is_sure or not newest))

    def _labels(self, image: Source, provider: Provider, newest: Release,
                ask: Callable[[Request], Answer]) -> str:
        """What an image says of itself; as before where its newest tag is the same, or it cannot be asked."""
        found, of = json.loads(image.labels or "{}"), newest.version
        if found and found.get("of", of) == of:
            return compact_json({**found, "of": of})
        if provider.dialect.read is dockerhub and self._pace.take(self._tracker._clock()):
            return image.labels
        try:
            token = provider_token(self._tracker._settings, provider)
            found = labels_of(provider, image.name, newest.content.partition(":")[2] or of, ask, token)
        except ProviderError as error:
            log.info("source %s/%s: labels: %s", image.provider, image.name, error)
            if isinstance(error, (Throttled, Unreachable)):
                return image.labels
        return compact_json({**found, "of": of})

class Tracker(Worker):
    """Checks sources. ``clock``, ``jitter``: for tests; ``on_turn`` is called once a turn of the loop."""
    def __init__(self, store: Store, fetcher: Fetcher, providers: Mapping[str, Provider], settings: Settings,
                 helper: Helper, clock: Callable[[], float] = time.time,
                 jitter: Callable[[], float] = random.random,
                 on_turn: Callable[[], None] = lambda: None) -> None:
        # 16 checks at once, most of which wait for an answer
        super().__init__("tracker", 16, store, store.database.check_wakeup, LEASE / 3, self._turn, clock,
                         jitter)
        self.fetcher, self.helper, self.on_turn = fetcher, helper, on_turn
        self.listeners: list[Callable[[Mapping[str, Any]], None]] = []
        self._advisor, self._has_to_advise = Advisor(store, fetcher, clock), threading.Event()
        self._tended_at, self._advised_at = -math.inf, time.monotonic()     # on the monotonic clock
        self._notes = ImageNotes(self)
        self.configure(settings, providers)

    def configure(self, settings: Settings, providers: Mapping[str, Provider]) -> None:
        """Use these settings and providers from the next check on."""
        self._settings, self._providers = settings, providers
        self._hosts = {id_: host_of(provider.site) for id_, provider in providers.items()}
        self._kept = Recent[int, dict[str, str]](10_000)    # by source, what its dialect keeps between checks
        # By provider, where its host allows fewer checks.
        self._long_intervals = {
            id_: limit.every for id_, host in self._hosts.items()
            if (limit := HOST_LIMITS.get(host)) and limit.every > settings.poll_interval}

    def start(self) -> None:
        self.store.database.has_tracker = True
        super().start()
        self.store.database.has_to_compare.set()
        self._has_to_advise.set()

    def stop(self) -> None:
        self.store.database.has_tracker = False
        super().stop()

    def _turn(self) -> float:
        self.on_turn()
        now = time.monotonic()
        if now - self._tended_at >= LEASE / 3:
            self.record_abandoned()
            self.store.sources.bring_forward(
                self._clock(), self._settings.poll_interval, self._long_intervals)
            self._tended_at = now
        self._hand_out()
        if self.store.database.has_to_compare.is_set() and _JUDGING not in self._busy:
            self._submit(_JUDGING, lambda _: self._apply_pending_rules(), None)
        # At first ten minutes after the start, so that a person can see in Settings who will be asked.
        is_due = now - self._advised_at >= (10 * MINUTE if self._has_to_advise.is_set() else HOUR)
        if is_due and _ADVISING not in self._busy and _JUDGING not in self._busy:
            self._has_to_advise.clear()
            self._advised_at = now
            self._submit(_ADVISING, lambda _: self.advise(), None)
        return self._idle_seconds

    def advise(self) -> None:
        """Find out about what is installed, now."""
        with logged("what is vulnerable"):
            self._advisor.advise(self._settings, self._providers)

    def record_abandoned(self) -> None:
        """Record the checks that did not end, as their process did in their midst."""
        for source in self.store.sources.claim_abandoned(self._claimant, self._clock()):
            self._fail(source, ProviderError(ABANDONED))

    def _hand_out(self) -> None:
        """Claim what is due at hosts below their limit, accounts in turn, and have the pool check it."""
        if len(self._busy) >= self._size:
            return
        now, limit = self._clock(), self._settings.host_limit
        at_host = Counter(job.host for job in self._busy)
        # Several, for those of a provider without a site of its own may be at one host that is busy.
        waiting = [Job(id_, account_id, self._hosts[provider] or host_of(name))
                   for id_, account_id, provider, name in self.store.sources.due(
                       [id_ for id_, host in self._hosts.items() if at_host[host] < limit], now,
                       4 * self._size)]
        jobs = {job.id: job for job in schedule_jobs(waiting, self._busy, self._size, limit)}
        for source in self.store.sources.claim(list(jobs), self._claimant, now, now) if jobs else ():
            self._submit(jobs[source.id], self.check, source)

    def check_all(self, wanted: Iterable[Source],
                  report: Callable[[Source, list[Release] | None], None]) -> None:
        """Check sources now, as many at once as the pool and their hosts allow. Each is reported when its
        check has ended, with the news; None where none was recorded."""
        sources, at_host = self.store.sources, Counter[str]()

        def turn(source: Source) -> int:
            host = self._hosts.get(source.provider) or host_of(source.name)
            at_host[host] += 1
            return at_host[host]

        def check(source: Source) -> tuple[Source, list[Release] | None]:
            claimed = sources.claim([source.id], self._claimant, self._clock())
            news = self.check(claimed[0]) if claimed else None
            return sources.get(source.id) or source, news
        in_turn = sorted(wanted, key=turn)      # so that a slow host does not keep the whole pool waiting
        with ThreadPoolExecutor(self._size) as pool, self._renewing(lambda: [one.id for one in in_turn]):
            try:
                for ended in as_completed([pool.submit(check, source) for source in in_turn]):
                    report(*ended.result())
            except BaseException:       # interrupted: what is under way ends within a second
                self.fetcher.stopping.set()
                pool.shutdown(cancel_futures=True)
                raise
        self._apply_pending_rules()

    def check(self, source: Source) -> list[Release] | None:
        """Check a claimed source and record it: the releases that are news, or None. Never raises."""
        events, news = list[Event](), None
        with contextlib.ExitStack() as large:       # until an error is recorded: it holds the answer, too
            try:
                events, news = self._check(source, large)
            except StoreUnavailable as error:       # nothing can be recorded; the claim runs out
                log.warning("source %s/%s: %s", source.provider, source.name, error)
            except Exception as error:              # a bug costs this source a check, not the thread its life
                if not self.fetcher.stopping.is_set():      # else join() ends the claim, and it is due
                    news = self._fail(source, error)
        for event, listener in itertools.product(events, self.listeners):
            with logged(f"listener {listener!r}"):
                listener(json.loads(compact_json(event.body)))      # its own to change
        return news

    def _fail(self, source: Source, error: Exception) -> list[Release] | None:
        """Record a failed check, backed off: no news; None where that could not be recorded."""
        if isinstance(error, ProviderError):
            log.warning("source %s/%s: %s", source.provider, source.name, error)
        else:
            log.error("source %s/%s: check failed", source.provider, source.name, exc_info=error)
        now, interval = self._clock(), self._interval_of(source)
        failure = CheckResult(now + interval, error=INTERNAL_ERROR)
        with logged(f"source {source.provider}/{source.name}: failure"):
            failure = check_failure(error, source, now, interval, self._jitter())
            if should_alert(source, failure, now):
                failure = dataclasses.replace(failure, events=self._health_events(
                    "failing", source, failure.error or ""))
        with logged(f"source {source.provider}/{source.name}: failure"):
            self.store.sources.record_check(source.id, self._claimant, failure)
            return []
        return None

    def _interval_of(self, source: Source) -> float:
        return self._long_intervals.get(source.provider, self._settings.poll_interval)

    def _health_events(self, kind: str, source: Source, error: str) -> list[Event]:
        """``kind``: "failing", a source keeps failing with ``error``; or "recovered", after that error."""
        provider, now = self._providers.get(source.provider), self._clock()
        url = page_of(provider, source.name) if provider else ""
        return [Event(subscriber.project.id, notice_body(subscriber, now, error=error), url,
                      recipients_of(subscriber, None, now, self._settings), kind)
                for subscriber in self.store.projects.subscribers(source.id)]

    def _check(self, source: Source, large: contextlib.ExitStack) -> tuple[list[Event], list[Release]]:
        """Ask, compare, decide and record: ``(events for listeners, releases that are news)``.
        ``large``: held while a large answer is used."""
        quota_left = None
        provider = self._providers.get(source.provider)
        if provider is None:
            raise ProviderError(unknown_provider(source.provider))

        def ask(request: Request) -> Answer:
            nonlocal quota_left
            large.close()
            answer = self.fetcher.fetch(request, source.is_trusted, large)
            left = requests_left(answer.headers)
            quota_left = quota_left if left is None else left
            return answer
        # Read when it is needed: where nothing has changed that is rare, and a check takes half the CPU time.
        read_known = functools.cache(lambda: self.store.releases.known(source.id))
        token = provider_token(self._settings, provider)
        kept = self._kept.pop(source.id, {})
        installed = self.store.projects.versions_installed(source.id) if provider.dialect.has_images else ()
        # That of a forge's releases says nothing about its tags, so once a day it is ignored.
        is_old = (source.succeeded_at or 0.0) // DAY != self._clock() // DAY
        is_new = provider.dialect.has_images and not source.labels      # nobody has looked for its notes
        etag = None if is_new or is_old and "/releases?" in (source.etag_url or "") else source.etag
        listing = self._listed(provider, token, lambda token: releases_of(
            provider, source.name, ask, token, read_known, source.etag_url, etag, kept, installed))
        if kept:
            self._kept[source.id] = kept
        result = CheckResult(self._clock() + self._interval_of(source) * (1 + self._jitter() / 10),
                             source.etag_url, source.etag, quota_left)
        if listing is None and source.notes_source_id:      # all is as it was, but for the notes
            listing = Listing([one for one in read_known().values() if not one.gone_at], Answer(
                "", 304, {"etag": source.etag or ""}, asked=source.etag_url or ""))
        if listing is None:
            return self._record(source, dataclasses.replace(
                result, verdicts=self._judge(source, provider, read_known, True)), [])
        known = read_known()
        after, news = compare(known, listing, self._clock(), provider.dialect.versions.of(source.name))
        if is_new or source.notes_source_id or provider.dialect.has_images and after != known:
            large.close()
            undated = {one.version for one in listing.releases if not one.date and one.version not in known}
            after, about = self._notes.find(source, provider, known, after, undated, ask)
            news = [dataclasses.replace(one, note=copy.note, cve=copy.cve, date=copy.date)
                    for one in news for copy in (after[one.version],)]
            result = dataclasses.replace(about, next_check_at=min(
                result.next_check_at, about.next_check_at), quota_left=quota_left)
        verdicts = self._judge(source, provider, lambda: after, after == known)
        news, events = self._events(source, provider, known, news, verdicts, gap_of(
            listing, known, provider, token))
        answer = listing.cache_validator
        headers = answer.headers if answer else {}
        return self._record(source, dataclasses.replace(
            result, before=known, after=after, etag_url=answer.asked if answer else None,
            etag=headers.get("etag") or headers.get("last-modified"), verdicts=verdicts, events=events,
            renamed=self._renamed(provider, source, listing), news=[one.version for one in news]), news)

    def _events(self, source: Source, provider: Provider, known: Mapping[str, Release],
                news: list[Release], verdicts: Mapping[str, RuleResult],
                gap: str) -> tuple[list[Release], list[Event]]:
        """``(what of the news is none of a rewritten history, the events for the projects)``."""
        rewritten = [release for release in news if release.is_updated]
        if source.succeeded_at is None:         # what was released before the first check is history
            return [], []
        if is_history_rewritten(known, rewritten) and not provider.dialect.has_images:
            log.info("source %s/%s: history rewritten, %d versions changed", source.provider, source.name,
                     len(rewritten))
            news = [release for release in news if not release.is_updated]
        else:
            rewritten = []
        events = list[Event]()
        for subscriber in self.store.projects.subscribers(source.id) if news or rewritten else ():
            own = verdicts.get(subscriber.project.id, RuleResult(subscriber.project))
            subscriber = dataclasses.replace(subscriber, project=own.project)
            events += release_events(
                subscriber, with_exclusions(news, own), with_exclusions(rewritten, own), provider,
                self._clock(), self._settings, gap)
        return news, events

    def _listed(self, provider: Provider, token: str | None,
                read: Callable[[str | None], Listing | None]) -> Listing | None:
        """What is read with a token; without it for an hour after it was refused, which is logged once."""
        refused = self.fetcher.refused_tokens
        words, until = refused.get(provider.id, ("", 0.0))
        if not words or self._clock() >= until:
            try:
                listing = read(token)
                refused.pop(provider.id, None)
                return listing
            except TokenRefused as error:
                if not words:
                    log.warning("provider %s: %s", provider.id, error)
                words = str(error)
                refused[provider.id] = words, self._clock() + HOUR
        try:
            return read(None)
        except (Unreachable, Throttled):
            raise
        except ProviderError:
            raise TokenRefused(words) from None

    def _judge(self, source: Source, provider: Provider, read_releases: Callable[[], Mapping[str, Release]],
               is_unchanged: bool) -> dict[str, RuleResult]:
        """What projects' rules exclude, and how installations compare, by project. Raises ProviderError: what
        could not be judged is not news yet."""
        return {project.id: self._verdicts(project, provider, read_releases())
                for project in self.store.projects.with_rules(source.id, is_unjudged=is_unchanged)}

    def _verdicts(self, project: Project, provider: Provider, releases: Mapping[str, Release]) -> RuleResult:
        """What its rules say. Raises ProviderError where its patterns cannot be tried."""
        try:
            ruled_out, wrong = self.helper.match(project.exclude_version_regexp, releases)
        except (TooMany, HelperMissing) as error:
            raise ProviderError(f"the patterns of a project cannot be tried. {error}") from None
        for words in wrong.values():
            log.warning("project %s: a pattern excludes nothing: it %s", project.id, words)
        return apply_rules(project, releases, provider.dialect.versions, ruled_out)

    def _apply_pending_rules(self) -> None:
        """Judge what no check did, until more waits for it: a store that was upgraded, or what was installed
        beside a check. Accounts take turns."""
        self.store.database.has_to_compare.clear()
        with logged("comparing what is installed"):
            for project in filter(None, itertools.starmap(
                    self.store.projects.get, self.store.projects.with_pending_rules())):
                provider = self._providers.get(project.provider)
                with logged(f"project {project.id}: rules"):
                    known = self.store.releases.known(project.source_id)
                    if provider:
                        self.store.projects.record_verdicts(self._verdicts(project, provider, known))
                        self._has_to_advise.set()
                if self._stopping.is_set() or self.store.database.has_to_compare.is_set():
                    break

    def _record(self, source: Source, result: CheckResult,
                news: list[Release]) -> tuple[list[Event], list[Release]]:
        """The events for listeners and the news, once recorded; nothing if the claim was lost."""
        if source.alert_sent:
            recovered = self._health_events("recovered", source, source.error or "")
            result = dataclasses.replace(result, events=[*recovered, *result.events])
        recorded = self.store.sources.record_check(source.id, self._claimant, result)
        if recorded is None:
            return [], []
        if result.changed and result.verdicts:
            self._has_to_advise.set()
        with logged(f"source {source.id}: rules"):      # a fault here keeps nothing from listeners
            if (result.changed or result.verdicts) and self.store.projects.with_rules(source.id, True):
                self.store.database.has_to_compare.set()
        for release in news:
            log.info("release %s/%s %s: %s", source.provider, source.name, release.version,
                     "updated" if release.is_updated else "new")
        return [event for event in recorded.events if event.kind == "release"], news

    def _renamed(self, provider: Provider, source: Source, listing: Listing) -> tuple[str, str] | None:
        """``(name, key)`` of a project that has another name now."""
        with contextlib.suppress(Invalid):
            name, key = name_at(provider, listing.name or source.name)
            if key != source.key:
                log.info("source %s/%s: renamed to %s", source.provider, source.name, name)
                return name, key
        return None


# == notifications =============================================================
# What is sent: a row for each kind of destination, with its settings, its formatter and how its answer is
# read; templates, digests and redaction. Pure: no thread, no clock, no network. A webhook is signed as the
# contract says, and as https://github.com/standard-webhooks/standard-webhooks/blob/main/spec says.

@dataclasses.dataclass(frozen=True)
class Item:
    """What a message says about one event, as plain text; each kind escapes it by its own rules."""
    provider: str
    project: str
    heading: str                    # "o/p 1.0", or what has happened to the project
    short_marks: tuple[str, ...]    # "security fix", "pre-release"; for titles
    marks: Line                     # the same at length
    lines: Sequence[Line]           # the release's title and note, or what is wrong
    links: Mapping[str, str]        # addresses by their names: the release's, then the project's page
    time: str                       # RFC 3339
    is_security: bool
    is_report: bool = False         # its lines are a list, that is cut between two of them

    @property
    def title(self) -> str:
        return self.heading + (f" ({', '.join(self.short_marks)})" if self.short_marks else "")

    @property
    def url(self) -> str:
        return next(iter(self.links.values()), "")

_Block = TypeVar("_Block")      # what a service shows of an item
_CVES_SHOWN = _INSTALLED_SHOWN = 5
# What is said of an event that is no release, by its kind: in the heading, and before its error.
_NOTICES = {"failing": (" could not be checked for days", "The last error: "),
            "recovered": (" is checked again", "The error was: ")}

def without_controls(text: str) -> str:
    """A text without control characters but line ends, marks of direction and lone surrogates: they would
    rearrange a log or a terminal, and services refuse them."""
    return re.sub("[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", "",
                  text.replace("\t", " "))

def _web_address(text: str) -> str:
    """The address if it is one of the web, else "". Nothing in it ends it or mentions anybody in a markup."""
    url = quote(text, safe="/:?&=%#!$,;+~-._", errors="replace")
    return url if len(url) <= 1000 and re.match("https?://", url, re.IGNORECASE) else ""

def _release_marks(body: Mapping[str, Any], is_breaking: bool) -> tuple[tuple[str, ...], Line]:
    """What distinguishes a release, security fixes first: in short, and at length with links."""
    cves = [without_controls(cve) for cve in body.get("cve", ())]
    others = [words for words, is_so in (
        ("breaking changes", is_breaking), ("major version", body.get("is_major")),
        ("pre-release", body.get("is_prerelease")), ("updated", body.get("is_updated"))) if is_so]
    runs = list[Run]()
    for cve in cves[:_CVES_SHOWN]:
        page = f"https://www.cve.org/CVERecord?id={cve}" if cves_in(cve) == (cve,) else ""
        runs += [Run(", " if runs else "Fixes "), Run(cve, True, href=page)]
    if len(cves) > _CVES_SHOWN:
        runs.append(Run(f" (+{len(cves) - _CVES_SHOWN})"))
    if others:
        runs.append(Run((" · " if runs else "") + " · ".join(others).capitalize()))
    fixes = [f"{len(cves)} security fixes" if len(cves) > 1 else "security fix"] if cves else []
    return (*fixes, *others), Line("", runs)

_EMPTY_HEADING = re.compile("what.s changed|changes|changelog|release notes", re.IGNORECASE)

def _note_lines(note: Mapping[str, str], version: str, limit: int) -> list[Line]:
    """The first lines of a release's note, below its title where that says more than the version."""
    lines = list[Line]()
    for line in lines_of(note.get("message", "")[:limit]):
        runs = [run._replace(text=shown, href=_web_address(run.href))
                for run in line.runs if (shown := without_controls(run.text))]
        is_empty = not runs and (not lines or lines[-1].kind == "heading")
        if not is_empty and (lines or not _EMPTY_HEADING.fullmatch(line.text)):
            lines.append(Line(line.kind, runs))
    title = " ".join(without_controls(note.get("title", "")).split())
    if title and version not in title and not (lines and lines[0].text.startswith(title)):
        lines.insert(0, Line("heading", [Run(title)]))
    return lines

def installed_words(one: Mapping[str, Any]) -> str:
    """One of an event's ``installed``, as a sentence: "You run 16.4 on nas: 3 releases behind"."""
    at = f" on {one['place']}" if one.get("place") else ""
    if one.get("may_follow"):
        return without_controls(f"The tags may have changed: you run {one.get('version', '')}{at}, and "
                                "nobody knows whether this follows it.")
    behind = f": {pluralize(one['behind'], 'release')} behind" if one.get("behind") else ""
    return without_controls(f"You run {one.get('version', '')}{at}{behind}.")

_DROPPED_LINE = re.compile(r"\W*(?:full changelog|what.s changed|new contributors|changelog)\b.{0,300}",
                           re.IGNORECASE)
_BOT_LINE = re.compile(r"\b(?:dependabot|renovate)\b|^\W*(?:(?:chore|build|fix)\(deps[^)]*\):|bump \S+ from)",
                       re.IGNORECASE)

def changes_in_notes(messages: Iterable[str]) -> list[list[Line]]:
    """What several notes say, for one list: without links to changelogs, without what the notes before them
    say, and without headings above no text of their own; what bots did is counted."""
    found, seen = list[list[Line]](), set[str]()
    for message in messages:
        kept, bots, texts = list[Line](), 0, set[str]()
        for line in reversed(lines_of(message[:CHANGES_NOTE])):
            text, is_heading = without_controls(line.text).strip(), line.kind == "heading"
            if _BOT_LINE.search(text):
                bots += 1
            elif text and not _DROPPED_LINE.fullmatch(text):
                texts.update(() if is_heading else (text,))
                is_known = line.kind != "code" and len(text) > 30 and text in seen
                if not (is_known or is_heading and (not kept or kept[-1].kind == "heading")):
                    runs = [run._replace(text=without_controls(run.text), href=_web_address(run.href))
                            for run in line.runs]
                    kept.append(line._replace(runs=runs))
        lines = kept[::-1] if texts - seen else []
        found.append(lines + ([Line("item", [Run(pluralize(bots, "dependency update"))])] if bots else []))
        seen |= texts
    return found

def item_of(delivery: Delivery, base_url: str = "", is_alone: bool = True) -> Item:
    body: dict[str, Any] = {name: without_controls(value) if isinstance(value, str) else value
                            for name, value in delivery.body.items()}
    lines = _note_lines(body.get("note", {}), body.get("version", ""), (64 if is_alone else 16) * KIB)
    short_marks, marks = _release_marks(body, says_breaking(line.text for line in lines))
    if delivery.kind == "release":
        heading = f"{body['project']} {body['version']}"
        if is_alone and not lines:
            words = ("Published again; it was first released on {}." if body.get("is_updated") else
                     "Released on {}, without a note.")
            lines = [Line("", [Run(words.format(body["time"][:10]))])]
    elif "heading" in body:         # a report
        body, (short_marks, marks) = {"provider": "", "project": ""} | body, ((), Line("", ()))
        heading = body["heading"]
        lines = [Line("item", [Run(without_controls(line))]) for line in body["lines"]]
    elif "destination" in body:
        body |= {"provider": body["kind"], "project": body["destination"]}
        kind = KINDS[body["kind"]].title if body["kind"] in KINDS else body["kind"]
        heading = f"The destination {body['destination']} ({kind}) has failed since {body['since'][:10]}"
        lines = [Line("", [Run(f"The last error: {body['error']}")])]
    else:
        notice, words = _NOTICES.get(delivery.kind, (f": {body.get('text', '')}", ""))
        at = PROVIDERS[body["provider"]].title if body["provider"] in PROVIDERS else body["provider"]
        heading, error = f"{body['project']} ({at}){notice}", body.get("error", "")
        lines = [Line("", [Run(words + error if words and error else "See the project's page for more.")])]
    own = [Line("", [Run(installed_words(one))]) for one in body.get("installed", ())[:_INSTALLED_SHOWN]]
    if project_note := " ".join(body.get("project_note", "").split()):
        own.append(Line("", [Run("Your note: ", True), Run(shortened(project_note, 300))]))
    if own:
        place = bool(lines) and lines[0].kind == "heading"
        lines[place:place] = [*own, Line("", [])] if lines[place:] else own
    page = f"{base_url}/projects/{delivery.project_id}" if base_url and delivery.project_id else ""
    links = {"Open the release" if delivery.kind == "release" else "Open": _web_address(delivery.url),
             "See the project": _web_address(page)}
    return Item(body["provider"], body["project"], heading, short_marks, marks, lines,
                {name: url for name, url in links.items() if url}, body["time"], bool(body.get("cve")),
                is_report="heading" in body)

@dataclasses.dataclass(frozen=True)
class Message:
    """What is sent at once: a delivery, or a digest of several."""
    id: str
    batch: Sequence[Delivery]
    service: Settings
    sender: str                     # of mail
    now: float

    @functools.cached_property
    def items(self) -> list[Item]:
        """Newest first, those of a project together, projects with security fixes on top."""
        by_project: dict[tuple[str, str], list[Item]] = {}
        found = (item_of(delivery, self.service.base_url, not self.is_digest)
                 for delivery in reversed(self.batch))
        for item in sorted(found, key=lambda one: one.time, reverse=True):
            by_project.setdefault((item.provider, item.project), []).append(item)
        groups = sorted(by_project.values(), key=lambda group: not any(item.is_security for item in group))
        return [item for group in groups for item in group]

    @property
    def is_digest(self) -> bool:
        return len(self.batch) > 1

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.batch[0].destination.settings

    @property
    def is_security(self) -> bool:
        return any(item.is_security for item in self.items)

    @property
    def title(self) -> str:
        if not self.is_digest:
            return self.items[0].title
        releases = sum(delivery.kind == "release" for delivery in self.batch)
        counts = {"release": releases, "notice": len(self.batch) - releases}
        title = ", ".join(pluralize(count, what) for what, count in counts.items() if count)
        fixes = sum(item.is_security for item in self.items)
        return f"{title}, {fixes} with security fixes" if fixes else title

    @property
    def link(self) -> str:
        return self.service.base_url if self.is_digest else self.items[0].url

def utf16_units(text: str) -> int:
    return len(text) + sum(letter > "\uffff" for letter in text)

def json_bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))

def shortened(text: str, room: int, escape: Callable[[str], str] = str) -> str:
    """As much of the text, escaped, as there is room for, cut at a space if possible, with an ellipsis."""
    if len(text) <= room and len(escape(text)) <= room:
        return escape(text)
    lengths = range(1, min(len(text), max(room, 0)) + 1)
    fitting = bisect.bisect_right(lengths, room - 1, key=lambda length: len(escape(text[:length])))
    cut = text[:fitting]        # the longest beginning that fits
    last_blank = max(cut.rfind(" "), cut.rfind("\n"))
    if last_blank > fitting * 0.8:
        cut = cut[:last_blank]
    return escape(cut.rstrip()) + "…" if cut.strip() else ""

_PUSH_NOTE, _CHAT_NOTE, _MAIL_NOTE = 300, 700, 4000     # characters of a note that people see

@dataclasses.dataclass(frozen=True)
class Markup:
    """How a service writes text. ``escape`` and ``code`` make any text harmless; others get escaped text."""
    escape: Callable[[str], str] = str
    start: Callable[[str], str] = str                   # does so with what is markup where a line begins
    bold: Callable[[str], str] = str
    code: Callable[[str], str] | None = None            # None: as other text
    link: Callable[[str, str], str] | None = None       # None: only its text is shown
    size: Callable[[str], int] = utf16_units
    line_end: str = "\n"
    bullet: str = "- "
    has_links: bool = True      # an item's; else those are shown elsewhere

    def run(self, run: Run, is_bold: bool = False) -> str:
        core = run.text.strip()
        if not core:
            return " "
        text = self.code(core) if self.code and run.is_code else self.escape(core)
        if self.link and run.href:
            text = self.link(text, run.href)
        if run.is_bold or is_bold:
            text = self.bold(text)
        before, _, after = run.text.partition(core)
        return before + text + after

    def line(self, line: Line) -> str:
        runs = [self.run(run._replace(is_code=run.is_code or line.kind == "code"), line.kind == "heading")
                for run in line.runs]
        return (self.bullet if line.kind == "item" else "") + self.start("".join(runs))

def truncate_lines(item: Item, room: int) -> list[Line]:
    """The first lines, of so many characters, with an ellipsis where more follow; of a report, how many do.
    What is cut is text, before any markup is made of it."""
    kept = list[Line]()
    for line in item.lines if room > 0 else ():
        for at, run in enumerate(line.runs):
            if len(run.text) > room and item.is_report:
                return [*kept, Line("item", [Run(f"and {len(item.lines) - len(kept)} more")])]
            if len(run.text) > room:
                last = run._replace(text=shortened(run.text, room)) if room > 3 else Run("…")
                return [*kept, Line(line.kind, [*line.runs[:at], last])]
            room -= len(run.text)
        room -= 1
        kept.append(line)
    return kept

def _block(item: Item, markup: Markup, note: int, has_title: bool, is_digest: bool) -> str:
    """An item with so much of its note, under its heading where that is not shown elsewhere."""
    head = markup.escape(shortened(item.heading, 250))
    links = list(item.links.items()) if markup.link and markup.has_links else []
    if markup.link and item.url and not has_title:
        head = markup.link(head, item.url)
        links = links[1:]
    top = [] if has_title else [markup.bold(head)]
    if item.marks.runs and (item.is_security or not has_title):
        top.append(markup.line(item.marks))
    body = [markup.line(line) for line in truncate_lines(item, note)]
    ends = [" · ".join(itertools.starmap(markup.link, links))] if markup.link and not is_digest else []
    parts = [[*top, *body], ends]
    return (markup.line_end * 2).join(markup.line_end.join(part) for part in parts if any(part))

def _fitted(message: Message, make: Callable[[Item, int], _Block], size: Callable[[_Block], int], limit: int,
            note: int, most: int = sys.maxsize, each: int = sys.maxsize) -> tuple[list[_Block], str]:
    """What ``make`` makes of each item with ``note`` characters of its note, and words on items left out.
    ``limit`` (as the service counts) and ``most`` are of all, ``each`` is of one; notes are cut first."""
    rooms = [note // 4, note // 8, 0] if message.is_digest else [note, note // 2, note // 4, 0]
    if message.items[0].is_report and not message.is_digest:
        rooms = [part * min(limit, each) // 10 for part in range(9, -1, -1)]
    for room in rooms:
        blocks = [make(item, room) for item in message.items]
        sizes = [size(block) + 2 for block in blocks]
        if sum(sizes) <= limit and max(sizes) <= each and len(blocks) <= most:
            return blocks, ""
    kept = list[_Block]()
    fixes = 0
    for block, taken, item in zip(blocks, sizes, message.items):
        if taken <= min(limit, each) and len(kept) < most:
            limit -= taken
            kept.append(block)
        else:
            fixes += item.is_security
    return kept, f"… and {len(blocks) - len(kept)} more" + f", {fixes} with security fixes" * bool(fixes)

def blocks_of(message: Message, markup: Markup, limit: int, note: int = _CHAT_NOTE, most: int = sys.maxsize,
              each: int = sys.maxsize, has_title: bool = False) -> list[str]:
    """A block for each item, under a title in a digest. ``has_title``: the service shows that elsewhere."""
    blocks, rest = _fitted(message, lambda item, room: _block(
        item, markup, room, has_title and not message.is_digest, message.is_digest),
        markup.size, limit - 150 - len(message.link), note, most, each)
    title = markup.bold(markup.escape(message.title)) if message.is_digest and not has_title else ""
    ends = [markup.escape(rest)]
    if message.is_digest and message.link and markup.has_links:
        ends.append(markup.link("See all releases", message.link) if markup.link else "")
    return list(filter(None, [title, *blocks, *ends]))

def text_of(message: Message, markup: Markup, limit: int, note: int = _CHAT_NOTE,
            has_title: bool = False) -> str:
    return "\n\n".join(blocks_of(message, markup, limit, note, has_title=has_title))

def _escape_markdown(text: str) -> str:
    """Escapes only what could be markup, since some clients show backslashes; nothing in an address."""
    parts = re.split(r"(https?://[^\s<>\[\]()`\\]+)", text)
    parts[::2] = [re.sub(r"([\\`*_\[\]|~])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)

def _escape_start(text: str) -> str:
    """Escapes what would begin a heading, a list, a quote or a rule in Markdown."""
    text = re.sub(r"^(\s*[0-9]{1,9})([.)]\s)", r"\1\\\2", text)
    return re.sub(r"^(\s*)(#{1,6}\s|[-+=](?=[-=#\s]|$)|>)", r"\1\\\2", text)

def _markdown_code(escape: Callable[[str], str]) -> Callable[[str], str]:
    """Of a text in which something could end it, or be read in it, there is no code."""
    return lambda text: escape(text) if re.search(r"[`<>&@\]\\\n]", text) else f"`{text}`"

def _markdown_link(text: str, url: str) -> str:
    """Not of an address, which Discord shows as it stands then."""
    return text if re.match("https?:", text) else f"[{text}]({url})"

def _html_link(text: str, url: str) -> str:
    return f'<a href="{html.escape(url)}">{text}</a>'

def _markdown(escape: Callable[[str], str], start: Callable[[str], str] = _escape_start,
              bold: str = "**{}**") -> Markup:
    return Markup(escape, start, bold.format, _markdown_code(escape), _markdown_link)

_escape_entities = functools.partial(html.escape, quote=False)
# Nobody is mentioned by what a stranger wrote: an invisible space stands behind each @.
_NO_MENTION = {ord("@"): "@\u200b"}
_NO_HTML = {ord("&"): "&amp;", ord("<"): "&lt;"}
_SLACK = Markup(
    _escape_entities, str, lambda text: f"*{text.replace('*', '')}*" if text.strip("*") else text,
    _markdown_code(_escape_entities), lambda text, url: f"<{url}|{text}>", json_bytes, bullet="• ")
_TELEGRAM = Markup(
    lambda text: _escape_entities(text).translate(_NO_MENTION), str, "<b>{}</b>".format,
    lambda text: f"<code>{_escape_entities(text).translate(_NO_MENTION)}</code>", _html_link, bullet="• ")
_DISCORD = _markdown(lambda text: _escape_markdown(text).replace("<", "\\<"))
_MATTERMOST = _markdown(lambda text: _escape_markdown(text).translate(_NO_MENTION | _NO_HTML))
# Not every version has escapes, so what would make a link or a mention is broken up instead.
_ROCKETCHAT = _markdown(
    lambda text: text.replace("](", "]\u200b(").replace("<", "<\u200b").translate(_NO_MENTION), str, "*{}*")
# Two blanks end a line.
_GOTIFY = dataclasses.replace(_DISCORD, size=json_bytes, line_end="  \n")
_NTFY = dataclasses.replace(_GOTIFY, has_links=False)
_HTML = Markup(html.escape, str, "<b>{}</b>".format, lambda text: f"<code>{html.escape(text)}</code>",
               _html_link, json_bytes, bullet="• ")
_FEW_TAGS = dataclasses.replace(_HTML, code=None)
_PLAIN = Markup(
    link=lambda text, url: text if re.match("https?:", text) else f"{text} ({url})", size=json_bytes)

def template_values(body: Mapping[str, Any], url: str) -> dict[str, str]:
    """The variables of templates, from the standard body of an event."""
    note, account = body.get("note", {}), body.get("account", {})
    values = {name: body.get(name, "") for name in ("provider", "project", "version", "time", "project_note")}
    values |= {name: "true" if body.get(name) else "false" for name in ("is_prerelease", "is_updated")}
    values |= {f"account_{name}": account.get(name, "") for name in ("type", "id", "name")}
    return values | {
        "note_title": note.get("title", ""), "note_message": note.get("message", ""),
        "note_text": plain_text(note.get("message", "")[:64 * KIB]), "cve": ", ".join(body.get("cve", ())),
        "tags": ", ".join(tag["name"] for tag in body.get("tags", ())), "url": url}

TEMPLATE_NAMES = frozenset(template_values({}, ""))
FILLED_LIMIT = 64 * KIB     # characters of all custom fields
_TEMPLATE = re.compile(r"(\{\{|\}\}|\{(?:" + "|".join(TEMPLATE_NAMES) + r")\})")

def fill(template: str, values: Mapping[str, str], at_most: int) -> str:
    """At most ``at_most`` characters of the template with each ``{name}`` replaced, in one pass: what a value
    holds is not read again. Never ``str.format``: it walks attributes and pads to any width."""
    replaced = {"{{": "{", "}}": "}", **{f"{{{name}}}": value for name, value in values.items()}}
    parts, left = list[str](), at_most
    for part in _TEMPLATE.split(template):
        parts.append(replaced.get(part, part)[:left])
        left -= len(parts[-1])
    return "".join(parts)

def notification_body(settings: Mapping[str, Any], body: Mapping[str, Any], url: str) -> bytes:
    """What a webhook is sent: the standard body, or its custom fields. Compact JSON in UTF-8."""
    body = {name: value for name, value in body.items() if name != "is_major"}     # beyond the contract
    if settings["fields"]:
        values, filled = template_values(body, url), dict[str, str]()
        for name, template in settings["fields"].items():
            filled[name] = fill(template, values, FILLED_LIMIT - sum(map(len, filled.values())))
        body = filled
    return compact_json(body).encode("utf-8", "replace")

def _json_request(url: str, content: Mapping[str, Any], headers: Mapping[str, str] | None = None,
                  method: str = "POST") -> Request:
    all_headers = {"Content-Type": "application/json; charset=utf-8", "Accept": "application/json",
                   "User-Agent": USER_AGENT, **(headers or {})}
    body = compact_json(content).encode("utf-8", "replace")
    return Request(url, all_headers, method, body)

def _webhook(message: Message) -> Request:
    """The signed request of one attempt. After a reset the previous secret signs too, until it expires. Our
    own header has room for one signature, and a receiver may know either secret: a retry swaps the two."""
    delivery, brand, moment = message.batch[0], message.service.brand, int(message.now)
    destination = delivery.destination
    body = notification_body(destination.settings, delivery.body, delivery.url)
    keys = [destination.secret]
    if destination.previous_secret and message.now < (destination.previous_until or 0.0):
        keys.insert(1 - delivery.attempts % 2, destination.previous_secret)
    ours = {f"X-{brand}-Signature{end}": signature(key, moment, body) for key, end in zip(keys, ("", "-2"))}
    return Request(destination.settings["url"], {
        **destination.settings["headers"], "Content-Type": "application/json", "User-Agent": USER_AGENT,
        f"X-{brand}-Timestamp": str(moment), **ours,
        "webhook-id": message.id, "webhook-timestamp": str(moment),
        "webhook-signature": " ".join(standard_signature(key, message.id, moment, body) for key in keys),
    }, "POST", body)

def _slack(message: Message) -> Request:
    """https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks and
    https://docs.slack.dev/reference/methods/chat.postMessage; 3,000 characters a section, 12,000 in all."""
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": block, "verbatim": True}}
              for block in blocks_of(message, _SLACK, 10_000, most=45, each=2900)]
    content = {"text": shortened(message.title, 1000, _escape_entities), "unfurl_links": False,
               "unfurl_media": False, "blocks": blocks}
    settings = message.settings
    if settings["url"]:
        return _json_request(settings["url"], content)
    content["channel"] = settings["channel"]
    return _json_request("https://slack.com/api/chat.postMessage", content,
                         {"Authorization": f"Bearer {settings['token']}"})

def _telegram(message: Message) -> Request:
    """https://core.telegram.org/bots/api#sendmessage; 4,096 characters."""
    settings = message.settings
    content = drop_empty(
        chat_id=settings["chat"], message_thread_id=settings["thread"] and int(settings["thread"]),
        text=text_of(message, _TELEGRAM, 4000), parse_mode="HTML", link_preview_options={"is_disabled": True})
    return _json_request(f"{settings['server']}/bot{settings['token']}/sendMessage", content)

def _discord(message: Message) -> Request:
    """https://docs.discord.com/developers/resources/webhook; ``wait``: answer when the message is stored."""
    embed = drop_empty(
        title=shortened(message.title, 250, _DISCORD.escape), url=message.link,
        color=0xC0392B if message.is_security else 0x2E86C1,      # red, blue
        description=text_of(message, _DISCORD, 3900, has_title=True),
        timestamp="" if message.is_digest else message.items[0].time)
    address = message.settings["url"]
    address += "&wait=true" if "?" in address else "?wait=true"
    return _json_request(address, {"embeds": [embed], "allowed_mentions": {"parse": []}})

def _hangouts_chat(message: Message) -> Request:
    """https://developers.google.com/workspace/chat/api/reference/rest/v1/cards: 32,000 bytes; no mentions."""
    blocks = blocks_of(message, _FEW_TAGS, 15_000, most=90, has_title=True)
    sections = [{"widgets": [{"textParagraph": {"text": block.replace("\n", "<br>")}}]} for block in blocks]
    card = {"header": {"title": shortened(message.title, 200)}, "sections": sections}
    return _json_request(message.settings["url"], {"cardsV2": [{"cardId": message.id, "card": card}]})

def _card_line(line: Line) -> dict[str, Any]:
    """A line on an Adaptive Card: runs of text need no escapes, on which Teams' clients differ."""
    runs = [Run("• "), *line.runs] if line.kind == "item" else line.runs
    return {"type": "RichTextBlock", "spacing": "small", "inlines": [
        {"type": "TextRun", "text": run.text}
        | ({"weight": "bolder"} if run.is_bold or line.kind == "heading" else {})
        | ({"fontType": "monospace"} if run.is_code or line.kind == "code" else {})
        | ({"selectAction": {"type": "Action.OpenUrl", "url": run.href}} if run.href else {})
        for run in runs]}

def _card_elements(item: Item, note: int) -> list[dict[str, Any]]:
    links = [Run(f"{name}  ", href=url) for name, url in item.links.items()]
    elements = [_card_line(line) for line in (
        Line("heading", [Run(shortened(item.heading, 250))]), item.marks, *truncate_lines(item, note),
        Line("", links)) if line.runs]
    elements[0]["separator"] = True
    if item.is_security:
        elements[0]["inlines"][0]["color"] = "attention"
    return elements

def _microsoft_teams(message: Message) -> Request:
    """https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using: an
    Adaptive Card, 28 KB."""
    blocks, rest = _fitted(message, _card_elements, json_bytes, 18_000, _CHAT_NOTE)
    ends = [Run(f"{rest}  ")] if rest else []
    if message.is_digest:
        blocks.insert(0, [_card_line(Line("heading", [Run(message.title)]))])
        ends += [Run("See all releases", href=message.link)] if message.link else []
    elements = [*itertools.chain.from_iterable(blocks), *([_card_line(Line("", ends))] if ends else [])]
    card = {"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard",
            "version": "1.4", "fallbackText": shortened(message.title, 250), "msteams": {"width": "Full"},
            "body": elements}
    return _json_request(message.settings["url"], {"type": "message", "attachments": [
        {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}]})

def _plain_hook(markup: Markup, limit: int, **others: Any) -> Callable[[Message], Request]:
    """How a service is sent one text in its own Markdown."""
    return lambda message: _json_request(message.settings["url"],
                                         {"text": text_of(message, markup, limit), **others})

def _matrix(message: Message) -> Request:
    """https://spec.matrix.org/latest/client-server-api/#put_matrixclientv3roomsroomidsendeventtypetxnid:
    64 KiB. The transaction's id stays, so that the homeserver recognizes a duplicate."""
    settings = message.settings
    room = quote(settings["internal_room_id"], safe="")
    return _json_request(
        f"{settings['homeserver_url']}/_matrix/client/v3/rooms/{room}/send/m.room.message/{message.id}",
        {"msgtype": "m.text", "body": text_of(message, _PLAIN, 8000), "format": "org.matrix.custom.html",
         "formatted_body": text_of(message, _HTML, 14_000).replace("\n", "<br>"), "m.mentions": {}},
        {"Authorization": f"Bearer {settings['token']}"}, "PUT")

def _push(message: Message, markup: Markup, limit: int, urgent: int) -> dict[str, Any]:
    """What goes to a telephone. ``urgent``: the least priority of security fixes."""
    priority = int(message.settings["priority"])
    return {"title": shortened(message.title, 250),
            "message": text_of(message, markup, limit, _PUSH_NOTE, has_title=True),
            "priority": max(priority, urgent) if message.is_security else priority}

def _ntfy(message: Message) -> Request:
    """https://docs.ntfy.sh/publish/#publish-as-json: 4,096 bytes of text, 8,192 of all; links are buttons."""
    settings, token = message.settings, message.settings["token"]
    basic = base64.b64encode(token.encode()).decode()
    headers = {"Authorization": f"Basic {basic}" if ":" in token else f"Bearer {token}"} if token else {}
    content = {"topic": settings["topic"], **_push(message, _NTFY, 3800, urgent=4), "click": message.link,
               "markdown": True, "tags": ["rotating_light" if message.is_security else "package"]}
    if not message.is_digest:
        content["actions"] = [{"action": "view", "label": name, "url": url}
                              for name, url in message.items[0].links.items()]
    return _json_request(f"{settings['server']}/", content, headers)

def _gotify(message: Message) -> Request:
    """https://gotify.net/docs/pushmsg and https://gotify.net/docs/msgextras"""
    extras = drop_empty(**{"client::display": {"contentType": "text/markdown"},
                           "client::notification": message.link and {"click": {"url": message.link}}})
    content = _push(message, _GOTIFY, 8000, urgent=8) | {"extras": extras}
    return _json_request(f"{message.settings['url']}/message", content,
                         {"X-Gotify-Key": message.settings["token"]})

def _pushover(message: Message) -> Request:
    """https://pushover.net/api: 1,024 characters of text, 250 of title, 512 of address; plain line ends."""
    settings = message.settings         # there is no room for links in a digest
    markup = dataclasses.replace(_FEW_TAGS, link=None) if message.is_digest else _FEW_TAGS
    link = message.link if len(message.link) <= 512 else ""
    content = drop_empty(token=settings["token"], user=settings["user"], device=settings["device"], html=1,
                         url=link, url_title=link and "Read on", **_push(message, markup, 1000, urgent=1))
    return _json_request(f"{settings['server']}/1/messages.json", content)

def _apprise(message: Message) -> Request:
    """https://github.com/caronc/apprise-api: a key's configuration, or addresses that are sent along."""
    content = drop_empty(
        title=shortened(message.title, 250), type="warning" if message.is_security else "info",
        body=text_of(message, _GOTIFY, 8000, _PUSH_NOTE, has_title=True), format="markdown",
        urls=message.settings["urls"], tag=message.settings["tag"])
    return _json_request(message.settings["url"], content)

# Its colours are readable on a light and on a dark background.
_MAIL_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
</head>
<body style="max-width:600px;margin:0 auto;padding:16px 8px;%(font)s">
%(content)s
<p style="margin:16px 8px;font-size:13px;color:#808080">%(footer)s</p>
</body>
</html>
"""
_MAIL_FONT = "font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;overflow-wrap:anywhere"
_MAIL_CARD = ('<div style="margin:0 0 16px;padding:20px;border:1px solid #808080;border-radius:8px">\n'
              "{}\n</div>")
_MAIL_BUTTON = ('<a href="{}" style="display:inline-block;margin:4px 16px 4px 0;padding:8px 16px;'
                'border-radius:6px;background:#1d5fae;color:#fff;text-decoration:none">{}</a>')
_MAIL_BADGE = ('<span style="display:inline-block;margin:0 6px 4px 0;padding:1px 10px;border-radius:10px;'
               'background:{};color:#fff;font-size:13px">{}</span>')
_MAIL_LINES = {     # by their kind
    "heading": '<h3 style="margin:16px 0 4px;font-size:16px">{}</h3>',
    "item": '<div style="padding-left:20px;text-indent:-12px">• {}</div>',
    "code": '<pre style="margin:0 0 0 20px;font-size:14px;white-space:pre-wrap">{}</pre>',
    "": '<div style="min-height:12px">{}</div>'}

def _mail_item(item: Item, note: int) -> str:
    badges = (_MAIL_BADGE.format("#b3261e" if item.is_security and not at else "#525c66", text.capitalize())
              for at, text in enumerate(item.short_marks))
    parts = [f'<h2 style="margin:0 0 4px;font-size:20px">{html.escape(item.heading)}</h2>', "".join(badges)]
    if item.is_security and item.marks.runs:
        fixes = [run for run in item.marks.runs if not run.text.startswith(" · ")]
        parts.append(f'<p style="margin:4px 0 12px">{_HTML.line(Line("", fixes))}</p>')
    parts += [_MAIL_LINES[line.kind].format("".join(map(_HTML.run, line.runs)))
              for line in truncate_lines(item, note)]
    is_cut = sum(len(line.text) for line in item.lines) > note
    links = [_MAIL_BUTTON.format(html.escape(url), "Read all" if is_cut else name) if url == item.url
             else _html_link(name, url) for name, url in item.links.items()]
    return _MAIL_CARD.format("\n".join(filter(None, [*parts, "\n".join(links)])))

def _mail_parts(message: Message) -> tuple[str, str]:
    """The text and the HTML; a digest begins with a list of what it has."""
    texts, rest = _fitted(message, lambda item, note: _block(item, _PLAIN, note, False, False), json_bytes,
                          500_000, _MAIL_NOTE)
    cards, others = _fitted(message, _mail_item, json_bytes, 500_000, _MAIL_NOTE)
    if message.is_digest:
        titles = [item.title for item in message.items]
        items = "\n".join(f"<li>{html.escape(title)}</li>" for title in titles[:len(cards)])
        texts.insert(0, "\n".join([message.title, "", *(f"- {title}" for title in titles[:len(texts)])]))
        cards.insert(0, _MAIL_CARD.format(
            f'<h1 style="margin:0 0 8px;font-size:20px">{html.escape(message.title)}</h1>\n'
            f'<ul style="margin:0;padding-left:20px">\n{items}\n</ul>'))
    base, destination = message.service.base_url, message.batch[0].destination
    about, place = "Sent by releasetrack.", _web_address(f"{base}/notifications/{destination.id}")
    footer = f"{about} {_html_link('Change or stop these mails', place)}" if place else about
    ends = f"{about} Change or stop these mails: {place}" if place else about
    page = {"font": _MAIL_FONT, "content": "\n".join([*cards, others]), "footer": footer}
    return "\n\n\n".join(filter(None, [*texts, rest])) + f"\n\n-- \n{ends}\n", _MAIL_PAGE % page

def _email(message: Message) -> Mail:
    """Text and HTML: RFC 5322, 2369 (List-Unsubscribe), 2919 (List-Id), 3834 (Auto-Submitted). The Message-ID
    stays, so that mail programs recognize a duplicate."""
    mail = email.message.EmailMessage(email.policy.SMTP.clone(cte_type="7bit"))
    sender, base = message.sender, message.service.base_url
    domain = sender.partition("@")[2]
    recipient = message.settings["to"] or message.batch[0].account.email
    if not MAIL_ADDRESS.fullmatch(recipient):
        raise Invalid(f"mail cannot be sent to {recipient}; its destination can have another address")
    subject = message.title
    if message.is_digest:
        subject += ": " + ", ".join(dict.fromkeys(item.project for item in message.items))
    # Python would decode what stands after "=?", and its line ends: github.com/python/cpython/issues/121650
    subject = re.sub("[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]+", " ", subject).strip()
    mail["Subject"] = shortened(subject.replace("=?", "= ?"), 150)
    mail["From"] = email.headerregistry.Address("releasetrack", addr_spec=sender)
    mail["To"] = email.headerregistry.Address(addr_spec=recipient)
    mail["Date"] = email.utils.formatdate(message.now)
    mail["Message-ID"] = f"<{message.id}@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"
    text, page = _mail_parts(message)
    mail.set_content(text)
    mail.add_alternative(page, subtype="html")
    # Python would encode long words in these headers, and nobody decodes them there.
    place = f"<{ascii_url(base)}/>,\r\n " if 0 < len(base) < 900 else ""
    mailto = f"<mailto:{quote(sender, safe='@')}?subject=unsubscribe>"
    head = f"List-Id: releases <releases.{domain}>\r\nList-Unsubscribe: {place}{mailto}\r\n"
    return Mail(sender, recipient, head.encode("ascii") + mail.as_bytes())

def _members(answer: Answer, within: str = "") -> dict[str, Any]:
    """What an answer says, or an object in it."""
    with contextlib.suppress(ValueError, RecursionError, LookupError, TypeError):
        found = json.loads(answer.body)
        if isinstance(found := found[within] if within else found, dict):
            return found
    return {}

def _says(name: str) -> Callable[[Answer], bool]:
    """Whether a member of an answer, or its only word, confirms a delivery: a portal answers 200 to all."""
    return lambda answer: answer.body.strip() == name.encode() or bool(_members(answer).get(name))

def _is_no_web_page(answer: Answer) -> bool:
    return not answer.body[:200].lstrip().lower().startswith((b"<!doctype", b"<html"))

def _error_text(answer: Answer) -> str:
    """What a service says about a failure, wherever it says it."""
    found, words = _members(answer), answer.text()
    values = [found.get(name) for name in ("errors", "errorDescription", "description", "error", "message")]
    values = [value.get("message", value) if isinstance(value, dict) else value for value in values]
    if said := [value for value in values if value]:
        words = said[0] if isinstance(said[0], str) else json.dumps(said[0])
    elif words.lstrip().startswith(("<", "{")):
        words = ""
    return " ".join(without_controls(words).split())

def migrated_to(kind: str, answer: Answer) -> str:
    """The id of the supergroup that a chat of Telegram became; "" else."""
    is_refused = kind == "telegram" and answer.status == 400
    chat = str(_members(answer, "parameters").get("migrate_to_chat_id")) if is_refused else ""
    return chat if re.fullmatch(r"-[0-9]{1,19}", chat) else ""

def wait_requested(answer: Answer, now: float) -> float:
    """Seconds that a receiver asks to wait: by header, or as Telegram, Discord and Matrix do."""
    found = _members(answer) | _members(answer, "parameters")       # those are Telegram's
    waits = [retry_after_seconds(answer.headers.get("retry-after"), now) or 0.0]
    for value, unit in ((found.get("retry_after"), 1), (found.get("retry_after_ms"), 1000)):
        if isinstance(value, (int, float)) and 0 < value < 10**12:
            waits.append(min(value / unit, DAY))
    return max(waits)

@dataclasses.dataclass(frozen=True)
class SettingField:
    name: str
    about: str                                  # what it is, and where to find it
    read: Callable[[str], Any]                  # its value; raises ValueError, which says what it must be
    default: str | None = None                  # None: it is required
    is_secret: bool = False
    stored_as: str = ""                         # the setting that holds the values of a repeatable one

    @property
    def label(self) -> str:
        return "URL" if self.name == "url" else self.name.replace("_", " ").capitalize()

@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of destination: its settings, how a message is made for it, and which answers mean success."""
    title: str                                  # what people call it
    about: str
    make: Callable[[Message], Request | Mail]
    is_accepted: Callable[[Answer], bool]       # of an answer of 2xx
    fields: tuple[SettingField, ...]
    every: float = 0.0                          # least seconds between two messages
    shown: Callable[[Mapping[str, Any]], dict[str, str]] = lambda settings: {}          # in the API's list
    problem: Callable[[Mapping[str, Any]], Problem | None] = lambda settings: None      # of settings together

class Kinds(dict[str, Kind]):
    """By id. One that only another program on this store has can be neither sent to nor changed here."""
    def __missing__(self, id_: str) -> Kind:
        problem = Problem("kind", f"{id_} is not known here; the program that has it must be running")

        def reject(_: Message) -> Request | Mail:
            raise Invalid(problem)
        return Kind(id_, problem.message, reject, lambda answer: False, (), problem=lambda settings: problem)

def _matching(pattern: str, shape: str) -> Callable[[str], str]:
    return text_matching(pattern, f"must be {shape}")

def _post_address(text: str) -> str:
    """An address that can be posted to; whether that is allowed is judged where it is known whose it is."""
    with contextlib.suppress(ValueError):
        if len(text) <= 2000 and not re.search(r"[\s\x00-\x1f\x7f]", text) and urlsplit(text).port != 0:
            ascii_url(text)
            return text
    raise ValueError("must be an address such as https://example.org/hook, without user and password")

def _server_address(text: str) -> str:
    return _post_address(text).rstrip("/")

def _header_line(line: str) -> tuple[str, str]:
    match = re.fullmatch(r"([A-Za-z0-9-]{1,64}) *+: *+([\x20-\x7e\xa0-\xff]{0,4096})", line.strip(" "))
    if not match:
        raise ValueError(f"{line.partition(':')[0][:80]!r} must be 'Name: value', the name of letters, digits"
                         " and hyphens, the value of at most 4,096 printable characters of Latin-1")
    name, value = match.groups()
    if re.fullmatch("host|content-.*|transfer-encoding|connection|keep-alive|proxy-.*|user-agent|webhook-.*|"
                    "expect|te|trailer|upgrade", name, re.IGNORECASE):
        raise ValueError(f"{name} is set by the request itself")
    return name, value

def _field_line(line: str) -> tuple[str, str]:
    name, equals, template = line.partition("=")
    if not equals or not 0 < len(name) <= NAME_LIMIT:
        raise ValueError(f"{line[:80]!r} must be NAME=TEMPLATE")
    if lone := re.search(r"[{}][^{}]{0,40}\}?", _TEMPLATE.sub("", template)):
        raise ValueError(f"{name} has {lone[0]}, which is no variable; it can use "
                         f"{', '.join(sorted(TEMPLATE_NAMES))}, and {{{{ and }}}} for braces")
    return name, template

def _slack_problem(settings: Mapping[str, Any]) -> Problem | None:
    if bool(settings["url"]) == bool(settings["token"]):
        return Problem("url", "is required, or token and channel, but not both")
    if settings["token"] and not settings["channel"]:
        return Problem("channel", "is required with a token")
    return None

def _chat_labels(settings: Mapping[str, Any]) -> dict[str, str]:
    types = {"@": "channel", "-100": "supergroup", "-": "group", "": "private"}
    return {"type": next(types[prefix] for prefix in types if settings["chat"].startswith(prefix))}

_label_text = _matching(f"[^\0-\x1f\x7f-\x9f\ud800-\udfff]{{0,{NAME_LIMIT}}}",
                        f"at most {NAME_LIMIT} printable characters")
# The address of an incoming webhook is secret: whoever knows it can post there.
_secret_address = functools.partial(SettingField, "url", read=_post_address, is_secret=True)
_server = functools.partial(SettingField, "server", "the address, if not the public one", _server_address)
_THIRTY_LETTERS = _matching("[A-Za-z0-9]{30}", "30 letters and digits")
# To add a kind, add a row and a line to KIND_FIELDS.
KINDS = Kinds({
    "slack": Kind("Slack", "a channel of a Slack workspace", _slack, _says("ok"), (
        SettingField("url", "an app's webhook: api.slack.com/apps, Webhooks", _post_address, "", True),
        SettingField("token", "or a bot's token with the scope chat:write, xoxb-...", _matching(
            r"xox[a-z][.-][A-Za-z0-9.-]{8,300}", "a token such as xoxb-..."), "", True),
        SettingField("channel", "the channel's name; with a token its id, C...", _label_text, ""),
        SettingField("team_name", "the workspace's name", _label_text, "")),
        every=1.0, problem=_slack_problem,
        shown=lambda settings: {name: settings[name] for name in ("channel", "team_name")}),
    "telegram": Kind("Telegram", "a chat of a Telegram bot", _telegram, _says("ok"), (
        SettingField("token", "the bot's, from @BotFather", _matching(
            r"\d{5,20}:[A-Za-z0-9_-]{30,100}", "a token such as 123456789:AAF..."), is_secret=True),
        SettingField("chat", "the chat's number, from @userinfobot, or @name of a channel", _matching(
            r"-?\d{1,19}|@[A-Za-z][A-Za-z0-9_]{3,31}", "a number such as -1001234567890, or @name")),
        SettingField("thread", "the number of a topic, in a group that has them", _matching(
            r"\d{0,18}", "a number"), ""),
        _server("https://api.telegram.org")), every=3.0, shown=_chat_labels),
    "discord": Kind("Discord", "a channel of a Discord server", _discord, _says("id"), (
        _secret_address("the channel's settings, Integrations, Webhooks, Copy Webhook URL"),), every=2.0),
    "hangouts_chat": Kind("Google Chat", "a space of Google Chat", _hangouts_chat, _says("name"), (
        _secret_address("the space's menu, Apps & integrations, Webhooks"),), every=1.0),
    "microsoft_teams": Kind(
        "Microsoft Teams", "a channel or chat of Microsoft Teams", _microsoft_teams, _is_no_web_page, (
            _secret_address("the channel's menu, Workflows, Send webhook alerts to a channel"),), every=1.0),
    # https://developers.mattermost.com/integrate/webhooks/incoming/; 16,383 characters, then it splits.
    "mattermost": Kind(
        "Mattermost", "a channel of Mattermost", _plain_hook(_MATTERMOST, 12_000), _says("ok"), (
            _secret_address("Integrations, Incoming Webhooks: .../hooks/..."),), every=0.2),
    # https://docs.rocket.chat/docs/integrations; 5,000 characters.
    "rocketchat": Kind(
        "Rocket.Chat", "a channel of Rocket.Chat", _plain_hook(_ROCKETCHAT, 4500, parseUrls=False),
        _says("success"), (
            _secret_address("Administration, Workspace, Integrations, Incoming: Webhook URL"),), every=6.0),
    "matrix": Kind("Matrix", "a room of Matrix, not encrypted", _matrix, _says("event_id"), (
        SettingField("homeserver_url", "of the account that posts: https://matrix.org", _server_address),
        SettingField("internal_room_id", "the room's settings, Advanced: !...; the account must be in it",
                     _matching(r"![^\s\ud800-\udfff]{1,254}",
                               "an id such as !abcdef:example.org, not an address such as #room:example")),
        SettingField("token", "the account's access token: Element's settings, Help & About", _matching(
            "[!-~]{8,500}", "an access token, without spaces"), is_secret=True)),
        shown=lambda settings: {name: settings[name] for name in ("homeserver_url", "internal_room_id")}),
    "webhook": Kind("Webhook", "a URL of yours that receives signed JSON", _webhook, lambda answer: True, (
        SettingField("url", "where requests are sent", _post_address),
        SettingField("header", "a header of requests, 'Name: value' (repeatable; a change replaces all)",
                     _header_line, "", True, "headers"),
        SettingField("field", "a field of the body, NAME=TEMPLATE (repeatable; a change replaces all)",
                     _field_line, "", False, "fields"))),
    "ntfy": Kind("ntfy", "a topic of ntfy", _ntfy, _says("id"), (
        SettingField("topic", "the topic that you subscribed to", _matching(
            "[-_A-Za-z0-9]{1,64}", "at most 64 letters, digits, - and _")),
        SettingField("token", "an access token, tk_..., or user:password, if the server requires one",
                     _matching("[!-~]{1,500}", "a token, or user:password"), "", True),
        SettingField("priority", "1 to 5; security fixes have 4 or more", _matching(
            "[1-5]", "a whole number from 1 to 5"), "3"),
        _server("https://ntfy.sh"))),
    "gotify": Kind("Gotify", "an application of Gotify", _gotify, _says("id"), (
        SettingField("url", "the server's address", _server_address),
        SettingField("token", "the application's, from the page Apps", _matching(
            "[A-Za-z0-9._-]{5,500}", "a token of letters, digits, '.', '_' and '-'"), is_secret=True),
        SettingField("priority", "0 to 10; security fixes have 8 or more", _matching(
            "10|[0-9]", "a whole number from 0 to 10"), "5"))),
    "pushover": Kind("Pushover", "a user or group of Pushover", _pushover, _says("status"), (
        SettingField("token", "the application's, of pushover.net/apps", _THIRTY_LETTERS, is_secret=True),
        SettingField("user", "the key of a user or a group", _THIRTY_LETTERS, is_secret=True),
        SettingField("device", "the name of a single device", _matching(
            "[A-Za-z0-9_,-]{0,200}", "a device's name"), ""),
        SettingField("priority", "-2 to 1; security fixes have 1", _matching(
            "-[12]|[01]", "a whole number from -2 to 1"), "0"),
        _server("https://api.pushover.net"))),
    "apprise": Kind(        # which answers 204 if there was nobody to send to
        "Apprise", "an Apprise API server", _apprise,
        lambda answer: answer.status == 200 and _is_no_web_page(answer), (
            _secret_address("where it receives notifications: .../notify/KEY, or .../notify with urls"),
            SettingField("urls", "Apprise addresses, separated by spaces or commas, if there is no KEY",
                         _matching("[!-~ ]{0,4000}", "addresses such as tgram://token/chat"), "", True),
            SettingField("tag", "only what its configuration has tagged so", _label_text, ""))),
    "email": Kind("Email", "a mail address", _email, lambda answer: True, (
        SettingField("to", "the address, if it is not the account's own", _matching(
            f"(?:{MAIL_ADDRESS.pattern})?", "a mail address, or nothing for the account's own"), ""),)),
})

def notification(batch: Sequence[Delivery], service: Settings, sender: str, now: float,
                 kinds: Kinds = KINDS) -> Request | Mail:
    """What is sent of deliveries that go out together: one, or those of a digest."""
    message = Message(batch[0].digest_id or batch[0].id, batch, service, sender, now)
    return kinds[batch[0].destination.kind].make(message)

_ADDRESS = re.compile(r"(https?://)([^/?#]*@)?([^/?#]*)/?", re.IGNORECASE)

def host_only(address: str) -> str:
    """A web address with all but its host hidden. Any text has such a form."""
    match = _ADDRESS.match(address)
    return f"{match[1]}{match[3]}/***" if match else "***"

def redactor(destination: Destination, kinds: Kinds = KINDS) -> Callable[[str], str]:
    """A function that masks the destination's secrets in any text: whole, and each long word of them, for a
    receiver may repeat a part in another spelling."""
    hidden, given = list[str](), [destination.secret, destination.previous_secret or ""]
    for field in kinds[destination.kind].fields:
        if field.is_secret:
            value = destination.settings.get(field.stored_as or field.name, "")
            given += value.values() if isinstance(value, dict) else [value]
    for secret in given:
        least = 6
        if match := _ADDRESS.match(secret):     # its host may be shown, and short folders say nothing
            secret, least = (match[2] or "") + secret[match.end():], 10
        words = re.split(r"[\s,;:=/@?&]+", secret)
        hidden += [secret, words[-1], *(word for word in words if len(word) >= least)]
    return masking(*hidden)

def _format_exchange(redact: Callable[[str], str], first: str, headers: Iterable[tuple[str, str]],
                     body: str) -> str:
    head = "\n".join([first, *map(": ".join, headers)])
    return "\n\n".join(redact(part.replace("\r\n", "\n")) for part in (head, body)).rstrip()

def transcript(redact: Callable[[str], str], sent: Request | Mail, answer: Answer | None) -> tuple[str, str]:
    """The beginnings of what was sent and of what was answered, as people read them, without secrets."""
    if isinstance(sent, Request):
        body = (sent.body or b"")[:2 * SENT_LIMIT].decode("utf-8", "replace")
        text = _format_exchange(redact, f"{sent.method} {sent.url}", sent.headers.items(), body)
    else:
        mail = email.message_from_bytes(sent.content, policy=email.policy.default)
        plain = mail.get_body(("plain",))
        text = _format_exchange(redact, f"from {sent.sender} to {sent.recipient}\n", mail.items(),
                                plain.get_content() if plain else "")
    answered = answer and _format_exchange(redact, f"answered by {answer.address}: {answer.status}",
                                           answer.headers.items(), answer.text())
    return text[:SENT_LIMIT], (answered or "")[:2 * KIB]

def delivery_error(kind_id: str, answer: Answer, redact: Callable[[str], str],
                   kinds: Kinds = KINDS) -> str | None:
    """Why an answer does not mean that the message was delivered; None if it does. ``redact``: of secrets."""
    if 200 <= answer.status < 300 and kinds[kind_id].is_accepted(answer):
        return None
    words = "" if kind_id == "webhook" else shortened(redact(_error_text(answer)), 300)
    if not words and answer.status < 300:
        words = "it does not confirm that it accepted the message"
    return f"it answered {answer.status}: {words}".removesuffix(": ")


# == courier ===================================================================
# Sends what is due, until it is delivered. One loop hands out destinations, accounts in turn, to a pool of
# workers: one claims what is due at a destination, sends it in the order in which it came, and records how
# that went. Those whose last attempt failed hold at most half of the pool. A claimed destination always ends
# with recorded outcomes.

def sender_of(settings: Settings) -> str:
    """The sender of mail, as far as the settings say it; otherwise this machine's name stands in."""
    user = unquote(urlsplit(settings.smtp_url).username or "")
    host = urlsplit(settings.base_url).hostname or ""
    host = socket.gethostname() if not host or parse_address(host) else host
    host = host if MAIL_ADDRESS.fullmatch(f"releasetrack@{host}") else "localhost"
    return settings.mail_from or (user if MAIL_ADDRESS.fullmatch(user) else f"releasetrack@{host}")

class Courier(Worker):
    """Sends deliveries. ``post``, ``clock`` and ``jitter`` (in [0, 1)) are for tests to choose."""
    _WORKERS = 24
    _BATCH = 50             # deliveries of one destination that are claimed at once
    _TURN = 0.5             # seconds after which a worker makes room for the next destination

    def __init__(self, store: Store, post: Callable[[Request | Mail, bool], Answer], settings: Settings,
                 clock: Callable[[], float] = time.time,
                 jitter: Callable[[], float] = random.random, kinds: Kinds = KINDS) -> None:
        super().__init__("courier", self._WORKERS, store, store.database.send_wakeup, 2.0, self._turn, clock,
                         jitter)
        self.post, self._kinds = post, kinds
        self._maintained_at = -math.inf                 # on the monotonic clock
        # By destination, when the next message may be sent to it, and when it was served last.
        self._free_at, self._served_at = Recent[str, float](10_000), Recent[str, float](10_000)
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        self._settings, self._sender = settings, sender_of(settings)

    def send_due(self) -> list[tuple[Delivery, Outcome]]:
        """Send what is due, without threads, until nothing is due; what was attempted and how it went."""
        made: list[tuple[Delivery, Outcome]] = []
        self._report()
        while not self._stopping.is_set() and (
                due := self.store.outbox.due_destinations(self._clock(), self._kinds)):
            first = min((job.id for job in due), key=self._pause)
            if self._pause(first) > 10:         # longer than any kind's spacing: a receiver asks for patience
                break
            self._stopping.wait(self._pause(first))
            with self._renewing(lambda: [first]):
                made += self._serve(first)
        return made

    def try_out(self, destination: Destination, account: Account, body: Mapping[str, Any], url: str,
                settings: Settings | None = None) -> tuple[str, str, str | None]:
        """``transcript`` of a test message, and what is wrong if anything is. ``settings``: others than those
        in use, to try before they are saved. Raises Invalid."""
        if settings:
            other = Courier(self.store, Fetcher(settings).post, settings, kinds=self._kinds)
            return other.try_out(destination, account, body, url)
        now = self._clock()
        test = Delivery(make_id(), destination, account, body, url, "release", 0, now)
        sent, answer, error = self._post([test], now)
        return *transcript(redactor(destination, self._kinds), sent, answer), error

    def _turn(self) -> float:
        now = time.monotonic()
        if now - self._maintained_at >= MINUTE:
            self.store.maintain(self._clock())
            self._maintained_at = now
            self._report()
        return self._hand_out()

    def _report(self) -> None:
        """Notify accounts of their destinations that have failed for days, by their others. Send the reports
        that are due on what is behind, and the reminders of what was snoozed."""
        now, store = self._clock(), self.store
        for failing in self._beating(store.destinations.failing(with_alerted=False)):
            account = store.accounts.get(failing.account_id)
            if account and has_failed_for_days(failing, now):
                event = destination_event(
                    failing, account, store.destinations.of_account(account.id), now, self._settings)
                if event.recipients:
                    store.outbox.send(event, "alert", failing)
        for destination in self._beating(store.destinations.with_report()):
            account = store.accounts.get(destination.account_id)
            since = destination.reported_at or now
            if account and next_boundary(destination.report, since, account, self._settings) <= now:
                behind = store.projects.with_updates(account.id, with_all=False)
                report = report_event(destination, account, behind, now, self._settings)
                store.outbox.send(report, "report", destination)
        for project in self._beating(store.projects.snooze_ended(now)):
            for subscriber in store.projects.subscribers(project.source_id):
                if subscriber.project.id == project.id:
                    store.outbox.send(reminder(subscriber, now, self._settings), "reminder", project)

    def _pause(self, destination_id: str) -> float:
        """Seconds until a destination may be sent the next message: as its kind or its Retry-After asks."""
        wait = self._free_at.get(destination_id, 0.0) - self._clock()
        return wait if 0 < wait <= 1.1 * DAY else 0.0       # more was asked for before the clock was set back

    def _pause_for(self, destination_id: str, seconds: float) -> None:
        self._free_at[destination_id] = self._clock() + seconds

    def _hand_out(self) -> float:
        """Have workers serve the free destinations that have something due, accounts in turn, of each the
        longest waiting first; seconds until more may be due."""
        if len(self._busy) >= self._WORKERS:
            return self._idle_seconds
        wait = self.store.outbox.seconds_until_due(self._clock(), self._idle_seconds)
        due = self.store.outbox.due_destinations(self._clock(), self._kinds)
        pauses = {job.id: pause for job in due if (pause := self._pause(job.id))}
        waiting = sorted((job for job in due if job.id not in pauses),
                         key=lambda job: self._served_at.get(job.id, 0.0))
        failing = schedule_jobs([job for job in waiting if job.is_failing],
                                [job for job in self._busy if job.is_failing], self._WORKERS // 2, 1)
        waiting = [job for job in waiting if not job.is_failing or job in failing]
        for job in schedule_jobs(waiting, self._busy, self._WORKERS, 1):
            self._served_at[job.id] = time.monotonic()
            self._submit(job, self._serve_alone, job.id)
        return min([wait, *pauses.values()])

    def _serve_alone(self, destination_id: str) -> None:
        """Serve a destination. What raises here would raise again at once, so it is left alone for a time."""
        try:
            self._serve(destination_id)
        except StoreUnavailable as error:
            log.warning("courier: %s", error)
            self._pause_for(destination_id, 1)
        except Exception:       # ours: it delays this destination alone
            log.exception("destination %s: a turn failed", destination_id)
            self._pause_for(destination_id, MINUTE)

    def _serve(self, destination_id: str) -> list[tuple[Delivery, Outcome]]:
        """Claim what is due at a destination, and attempt it in its order until the turn is over; what was
        attempted and how it went, which is recorded."""
        batches: dict[str, list[Delivery]] = {}         # what goes out together
        made: list[tuple[Delivery, Outcome]] = []
        for delivery in self.store.outbox.claim(destination_id, self._BATCH, self._claimant, self._clock()):
            batches.setdefault(delivery.digest_id or delivery.id, []).append(delivery)
        ends_at = time.monotonic() + self._TURN
        try:
            for batch in batches.values():
                outcomes = self.attempt(batch)
                if self._stopping.is_set() and outcomes[0].error:
                    break                   # cut short, perhaps: these deliveries stay as they were
                made += zip(batch, outcomes)
                if self._stopping.is_set() or self._pause(destination_id) or time.monotonic() > ends_at:
                    break
        finally:
            self._record(destination_id, [result for _, result in made])
        return made

    def _record(self, destination_id: str, outcomes: Sequence[Outcome]) -> None:
        """Record outcomes and end the turn, as soon as the store can be written; a command gives up after a
        while. Where the store cannot hold what came back, an error of ours stands instead."""
        ends_at = math.inf if self._thread else time.monotonic() + 3 * LEASE
        plain = [dataclasses.replace(one, status=None, error=INTERNAL_ERROR, address=None, answer=None,
                                     sent="") for one in outcomes]
        while True:
            try:
                return self.store.outbox.record_attempts(destination_id, self._claimant, outcomes)
            except StoreUnavailable as error:
                log.warning("courier: %s", error)
                if self._stopping.wait(1) or time.monotonic() > ends_at:
                    raise
            except (sqlite3.Error, ValueError, OverflowError):
                if outcomes == plain:
                    raise
                log.exception("destination %s: the outcomes cannot be recorded", destination_id)
                outcomes = plain

    def attempt(self, batch: Sequence[Delivery]) -> list[Outcome]:
        """Send once what goes out together; how it went, for each delivery, to be recorded. A receiver's
        fault is an outcome, and so is ours."""
        first, now, began_at = batch[0], self._clock(), time.monotonic()
        # From the first attempt on: the service may have been off when it was due.
        age = now - first.queued_at if first.attempts else 0.0
        try:
            attempt, sent, retry_after = self._attempt(batch, now)
            state, wait = outcome(attempt.error is None, retry_after, first.attempts + 1,
                                  self._settings.retry_first, age, self._jitter())
            due_at = now + wait
            if state == "pending" and first.destination.kind != "webhook" and not any(
                    delivery.body.get("cve") for delivery in batch):
                due_at = after_quiet_hours(due_at, first.account)
        except Exception:   # ours: it costs this delivery an attempt, and is backed off like a receiver's
            log.exception("delivery %s: attempt failed", first.id)
            attempt, sent = Attempt(now, None, INTERNAL_ERROR, time.monotonic() - began_at, None, None), ""
            state, wait = outcome(False, None, first.attempts + 1, self._settings.retry_first, age, 0.0)
            due_at = now + wait
        if attempt.error:
            log.warning("delivery %s to %s: %s", first.id, first.destination.name, attempt.error)
        else:
            log.info("delivery %s to %s: delivered", first.id, first.destination.name)
        return [Outcome(**vars(attempt), delivery_id=delivery.id, state=state, next_attempt_at=due_at,
                        sent=sent if delivery is first else "") for delivery in batch]

    def _attempt(self, batch: Sequence[Delivery], now: float) -> tuple[Attempt, str, float]:
        """``(how it went, what was sent, seconds that the receiver asks to wait)``, secrets masked."""
        destination, began_at, sent, retry_after = batch[0].destination, time.monotonic(), "", 0.0
        redact = redactor(destination, self._kinds)
        try:
            request, answer, error = self._post(batch, now)
            sent, _ = transcript(redact, request, None)
        except Invalid as problem:      # such as an account's mail address
            answer, error = None, str(problem)
        error, duration = error and without_controls(error), time.monotonic() - began_at
        attempt = Attempt(now, None, error, duration, None, None)
        if answer:
            attempt = Attempt(now, answer.status, error, duration, answer.address,
                              redact(answer.text())[:KIB])
            retry_after = wait_requested(answer, now)
        # A webhook's Retry-After counts for its delivery alone.
        patience = retry_after if error and destination.kind != "webhook" else 0.0
        if wait := max(self._kinds[destination.kind].every, patience):
            self._pause_for(destination.id, wait)
        return attempt, sent, retry_after

    def _post(self, batch: Sequence[Delivery],
              now: float) -> tuple[Request | Mail, Answer | None, str | None]:
        """``(what was sent, the answer if one came, what is wrong if anything is, secrets masked)``."""
        destination = batch[0].destination
        redact = redactor(destination, self._kinds)
        request = notification(batch, self._settings, self._sender, now, self._kinds)
        try:
            answer = self.post(request, batch[0].account.is_admin)
            if chat := migrated_to(destination.kind, answer):
                settings = {**destination.settings, "chat": chat}
                if stored := self.store.destinations.get(destination.id):       # not one that is tried out
                    self.store.destinations.update(dataclasses.replace(stored, settings=settings))
                destination = dataclasses.replace(destination, settings=settings)
                request = notification([dataclasses.replace(one, destination=destination) for one in batch],
                                       self._settings, self._sender, now)
                answer = self.post(request, batch[0].account.is_admin)
        except Unreachable as error:
            return request, None, redact(str(error))
        return request, answer, delivery_error(destination.kind, answer, redact, self._kinds)


# == forms =====================================================================
# Reading and validating what the API, the pages and the command line are given. A problem is a field,
# by the API's name of it, and a message; each surface names the field in its own words.

_JOINERS = str.maketrans("", "", "\u200c\u200d")        # inside emoji and several scripts

def read_label(text: str, at_most: int = NAME_LIMIT, field: str = "name") -> str:
    """A name that a person chose, without blanks around it. Raises Invalid."""
    label = text.strip()
    if not label:
        raise Invalid(Problem(field, "is required"))
    if len(label) > at_most or not label.translate(_JOINERS).isprintable():
        raise Invalid(Problem(field, f"must be at most {at_most} printable characters"))
    return label

def read_place(text: str, field: str = "place") -> str:
    """What a person calls a machine or a folder; it may be "". Raises Invalid."""
    return read_label(text, TAG_LIMIT, field) if text.strip() else ""

def read_email(text: str) -> str:
    """An account's e-mail address. Raises Invalid."""
    if not re.fullmatch(r"[^@\s\x00-\x1f\ud800-\udfff]{1,64}@[^@\s\x00-\x1f\ud800-\udfff]{1,190}", text):
        raise Invalid(Problem("email", f"must be an address such as you@example.org; {text[:99]!r} is none"))
    return text

def read_password(text: str, field: str = "password") -> str:
    """A new password. Raises Invalid."""
    if len(text) < 8:
        raise Invalid(Problem(field, "must have at least 8 characters"))
    if len(text.encode("utf-8", "surrogatepass")) > PASSWORD_LIMIT:
        raise Invalid(Problem(field, f"must have at most {PASSWORD_LIMIT:,} bytes"))
    return text

def read_networks(texts: Sequence[str]) -> list[str]:
    """The networks that a key is accepted from; all, where none is named. Raises Invalid."""
    found = []
    for text in texts:
        try:
            found.append(read_network(text))
        except ValueError as error:
            raise Invalid(Problem("networks", f"must be {error}; {text[:60]!r} is not one")) from None
    return found or ["0.0.0.0/0", "::/0"]

def with_answers(answers: Iterable[tuple[str, bool]], rules: VersionRules) -> tuple[tuple[str, bool], ...]:
    """What a person says of versions, and of those like them: the last ones, and of the same the last."""
    by_form = {rules.form(rules.parts(one)): (one, does) for one, does in answers}
    return tuple(by_form.values())[-ANSWERS_LIMIT:]

# In the environ of a request that is none, but asks what a handler reads; or has its fields, as of JSON.
SCHEMAS, GIVEN = "releasetrack.schemas", "releasetrack.given"

class InputReader:
    """Collects every problem of what it reads; ``check`` raises them as one Invalid. With ``schemas`` nothing
    is given: what is read is described there as JSON Schema, and ``check`` always raises."""
    def __init__(self, given: Mapping[str, Any] | None = None, schemas: dict[str, Any] | None = None) -> None:
        self.problems: list[Problem] = []
        self._given, self._schemas = given or {}, schemas

    def _describe(self, name: str, **schema: Any) -> None:
        if self._schemas is not None:
            self._schemas[name] = {"type": "string", **schema}

    def has(self, name: str) -> bool:
        return self._given.get(name) is not None

    def add_problem(self, field: str, message: str) -> None:
        self.problems.append(Problem(field, message))

    def check(self) -> None:
        if self.problems or self._schemas is not None:
            raise Invalid(*self.problems)

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Collect the problems of an Invalid that is raised inside."""
        try:
            yield
        except Invalid as error:
            self.problems += error.problems

    def value(self, name: str, type: ValueType) -> Any:
        """What is given, as it is stored; None if it is absent or invalid."""
        self._describe(name, **type.schema)
        try:
            return None if (value := self._given.get(name)) is None else type.read(value)
        except ValueError as expected:
            self.add_problem(name, f"must be {expected}")
            return None

    def options(self, options: Iterable[Option]) -> dict[str, Any]:
        """What is given of these and valid, as it is stored."""
        found = {option.name: self.value(option.name, option.type) for option in options}
        wrong = {problem.field for problem in self.problems}
        return {name: value for name, value in found.items()
                if self.has(name) and name not in wrong}

def _read_pairs(sent: bytes, at_most: int) -> list[tuple[str, str]]:
    """Names and values, as a query or a form sends them. Raises Invalid."""
    try:
        return urllib.parse.parse_qsl(sent.decode("utf-8"), keep_blank_values=True, errors="strict",
                                      max_num_fields=at_most)
    except ValueError:
        raise Invalid(f"There must be at most {at_most:,} parameters, in UTF-8.") from None

class Query(InputReader):
    """The query of a request, read by name."""
    @classmethod
    def of(cls, environ: Mapping[str, Any]) -> Query:
        """The query of a request. Raises Invalid for one that cannot be read at all."""
        return cls(dict(_read_pairs(environ.get("QUERY_STRING", "").encode("latin-1"), at_most=100)),
                   environ.get(SCHEMAS))

    def flag(self, name: str) -> bool:
        self._describe(name, description="A flag: it counts by being there, whatever its value.")
        return name in self._given

    def text(self, name: str, required: str = "") -> str | None:
        """Its text; None if it is absent, blank or has a problem. ``required``: what it must be."""
        self._describe(name, pattern=NOT_BLANK if required else STORABLE)
        text = self._given.get(name, "")
        if UNSTORABLE.search(text):
            self.add_problem(name, "must be text without control characters")
            return None
        if required and not text.strip():
            self.add_problem(name, f"is required: {required}")
        return text.strip() or None

    def one_of(self, name: str, *choices: str) -> str:
        """One of the choices; the first when the parameter is absent."""
        kind = one_of(choices, type="string", enum=choices, default=choices[0])
        return self.value(name, kind) or choices[0]

    def page(self) -> int:
        return int(self.value("page", ValueType(
            only_if(re.compile(r"0{0,9}[1-9][0-9]{0,8}").fullmatch, "a whole number from 1 to 999999999"),
            {"type": "integer", "minimum": 1, "maximum": 999_999_999, "default": 1})) or 1)

def read_body(environ: Mapping[str, Any], content_type: str) -> bytes:
    """The body of a request, which must be of that type. Raises Invalid, TooLarge."""
    if environ.get("CONTENT_TYPE", "").split(";")[0].strip().lower() != content_type:
        raise Invalid(f"A POST must have the header Content-Type: {content_type}.")
    # One sent in chunks has no length; waitress has put its chunks together.
    size = environ.get("CONTENT_LENGTH") or (BODY_LIMIT + 1 if environ.get("wsgi.input_terminated") else 0)
    body = environ["wsgi.input"].read(min(int(size), BODY_LIMIT + 1))       # bottle may make a file of it
    if len(body) > BODY_LIMIT:
        raise TooLarge
    return body

class Fields(InputReader):
    """A JSON object, or what a form or a command made one of. A field is None if it is absent or invalid."""
    @classmethod
    def of(cls, environ: Mapping[str, Any]) -> Fields:
        """The fields of a request's JSON body. Raises Invalid, TooLarge."""
        if SCHEMAS in environ or GIVEN in environ:
            return cls(environ.get(GIVEN, {}), environ.get(SCHEMAS))
        body = read_body(environ, "application/json")
        try:
            given = json.loads(body.decode("utf-8"))
        except (ValueError, RecursionError):
            raise Invalid("The body could not be decoded as JSON.") from None
        if not isinstance(given, dict):
            raise Invalid("The body must be a JSON object.")
        return cls(given)

    def label(self, name: str, at_most: int = NAME_LIMIT) -> str:
        """A required name that a person chose; "" where it has a problem."""
        self._describe(name, minLength=1, maxLength=at_most)
        value = self._given.get(name)
        with self.collecting():
            if not isinstance(value, str | None):
                raise Invalid(Problem(name, "must be a string"))
            return read_label(value or "", at_most, name)
        return ""

    def installed(self, name: str, now: float) -> list[Installation] | None:
        """A list of ``{version, place}``: what a person says is installed, each place once."""
        entries = self._objects(name, 100, "version and place, two strings",
                                version={"type": "string"}, place={"type": ["string", "null"]})
        found = dict[str, Installation]()
        for field, version, place in entries or ():
            with self.collecting():
                place = read_place(place or "", field)
                found[place] = Installation(place, read_label(version, field=field), seen_at=now)
        return None if entries is None else list(found.values())

    def pins(self, name: str, read: Callable[[str, str], list[Pin]]) -> list[Pin]:
        """A list of what is installed, or all that a CycloneDX document names, as ``read`` reads a file."""
        text = {"type": "string"}
        self._describe(name, type=["array", "null"], maxItems=ENTRY_LIMIT, items={
            "type": "object", "properties": {one: text for one in (
                "purl", "image", "provider", "name", "version", "digest", "label", "service",
                "source")} | {
                    "direct": {"type": "boolean"}}})
        if "bomFormat" in self._given:
            listed = self._given.get("components")
            if isinstance(listed, list) and all(isinstance(one, dict) for one in listed):
                with contextlib.suppress(ValueError):
                    return read("bom.cdx.json", compact_json(self._given))
            self.add_problem("components", "must be a list of objects, as of a CycloneDX document")
            return []
        items = self._given.get(name)
        is_list = isinstance(items, list) and len(items) <= ENTRY_LIMIT
        if is_list and all(isinstance(one, dict) for one in items or ()):
            return [pin_of_item(one) for one in items or ()]
        self.add_problem(name, f"must be a list of at most {ENTRY_LIMIT:,} objects with a purl, an image, or "
                               "a provider and a name")
        return []

    def answers(self, name: str, rules: VersionRules) -> tuple[tuple[str, bool], ...] | None:
        """A list of ``{version, follows}``: whether versions like one follow what is installed."""
        entries = self._objects(
            name, ANSWERS_LIMIT, "version, a string, and follows, a boolean",
            version={"type": "string", "minLength": 1, "maxLength": NAME_LIMIT}, follows={"type": "boolean"})
        found = list[tuple[str, bool]]()
        for field, version, does in entries or ():
            with self.collecting():
                found.append((read_label(version, field=field), does))
                if not rules.parts(version).numbers:
                    raise Invalid(Problem(field, f"must name a version; {version[:60]!r} has no number"))
        return None if entries is None else with_answers(found, rules)

    def settings(self, name: str) -> list[tuple[str, str]]:
        """A list of ``{setting, value}``: texts for the settings of a destination."""
        entries = self._objects(name, 1000, "setting and value, two strings",
                                setting={"type": "string"}, value={"type": "string"})
        return [(setting, text) for _, setting, text in entries or ()]

    def ids(self, name: str, what: str, known: Collection[str]) -> list[str] | None:
        """A list of ids, each once and each of something that there is."""
        values = self._list(name, "ids", 1000, {"type": "string"})
        for value in values or ():
            if value not in known:
                self.add_problem(name, f"must be existing ids; there is no {what} {value!r:.60}")
        return None if values is None else [one for one in known if one in values]

    def rules(self, name: str) -> list[tuple[str, bool]] | None:
        """A list of ``{value, inverse}``: patterns, and whether each is inverse."""
        before = len(self.problems)
        entries = self._objects(
            name, 50, "value, a string, and inverse, true or false",
            value={"type": "string", "minLength": 1, "maxLength": 500}, inverse={"type": ["boolean", "null"]})
        for field, value, _ in entries or ():
            if not 0 < len(value) <= 500 or UNSTORABLE.search(value):
                self.add_problem(field, "must not be empty, and have at most 500 characters and no control "
                                        "characters")
            elif "[[:" in value:        # Python would silently read it as a set of letters
                self.add_problem(field, "must not have POSIX classes such as [[:alpha:]], but [a-z], \\w or "
                                        f"\\d: {value!r}")
        length = sum(len(value) for _, value, _ in entries or ())
        if length > PATTERNS_LIMIT:
            self.add_problem(name, f"must have at most {PATTERNS_LIMIT:,} characters in all its patterns; "
                                   f"these have {length:,}")
        if entries is None or len(self.problems) > before:
            return None
        return [(value, bool(inverse)) for _, value, inverse in entries]

    def _objects(self, name: str, at_most: int, shape: str, **members: Any) -> list[tuple[Any, ...]] | None:
        """Field and members of each object in a list. ``members`` are their schemas, ``shape`` says these in
        words. An object of another shape is a problem."""
        types = {str: "string", bool: "boolean", type(None): "null"}
        entries = self._list(name, f"objects with {' and '.join(members)}", at_most, {
            "type": "object", "properties": members,
            "required": [member for member, schema in members.items() if "null" not in schema["type"]]})
        found = []
        for at, entry in enumerate(entries or ()):
            values = [entry.get(member) for member in members] if isinstance(entry, dict) else [0]
            found_types = [types.get(type(value), "other") for value in values]
            if all(one in schema["type"] for one, schema in zip(found_types, members.values())):
                found.append((f"{name}[{at}]", *values))
            else:
                self.add_problem(f"{name}[{at}]", f"must be an object with {shape}")
        return None if entries is None else found

    def _list(self, name: str, what: str, at_most: int, items: Mapping[str, Any]) -> list[Any] | None:
        return self.value(name, ValueType(
            only_if(lambda value: isinstance(value, list) and len(value) <= at_most,
                    f"a list of at most {at_most} {what}"),
            {"type": ["array", "null"], "maxItems": at_most, "items": items}))

def _read_parts(body: bytes, content_type: str) -> list[tuple[str, str]]:
    """Names and values of a form with a file, whose name comes as "file.name". Browsers nest no parts."""
    boundary = email.message_from_string(f"Content-Type: {content_type}\n\n").get_boundary("")
    pairs = list[tuple[str, str]]()
    for part in body.split(b"--" + boundary.encode("latin-1", "replace"), 101)[1:101] if boundary else ():
        head, _, content = part.lstrip(b"\r\n").partition(b"\r\n\r\n")
        about = email.message_from_bytes(head[:2 * KIB] + b"\r\n\r\n")
        name = about.get_param("name", "", "content-disposition")
        if name and isinstance(name, str):
            pairs += [(name, content.removesuffix(b"\r\n").decode("utf-8", "replace")),
                      (f"{name}.name", about.get_filename() or "")]
    return pairs

class Form:
    """What a form sent, read by name; of a GET nothing. Raises TooLarge, Invalid for what cannot be read."""
    def __init__(self, environ: Mapping[str, Any]) -> None:
        is_sent, kind = environ["REQUEST_METHOD"] == "POST", environ.get("CONTENT_TYPE", "")
        if is_sent and kind.lower().startswith("multipart/form-data;"):
            pairs = _read_parts(read_body(environ, "multipart/form-data"), kind)
        else:
            body = read_body(environ, "application/x-www-form-urlencoded") if is_sent else b""
            pairs = _read_pairs(body, at_most=3000)
        self._given: dict[str, list[str]] = {}
        for name, value in pairs:
            self._given.setdefault(name, []).append(value.replace("\r\n", "\n"))

    def text(self, name: str, default: str = "") -> str:
        return self.typed(name).strip() if self.texts(name) else default

    def texts(self, name: str) -> list[str]:
        return self._given.get(name, [])

    def typed(self, name: str) -> str:
        """As it was typed: blanks may belong to a password."""
        return self.texts(name)[0] if self.texts(name) else ""

    def lines(self, name: str) -> list[str]:
        return [line.strip() for line in self.text(name).split("\n") if line.strip()]

    def options(self, options: Iterable[Option]) -> dict[str, Any]:
        """What was sent of these, as JSON. A box that is not ticked is not sent."""
        return {option.name: option.type.from_text(self.text(option.name, "no")) for option in options
                if option.type.widget == "switch" or self.texts(option.name)}

@dataclasses.dataclass(frozen=True)
class ScanRow:
    """One thing that was found to be installed, and what became of it."""
    pin: Pin
    file: str                   # where it was found; "" for no file
    provider: Provider | None   # None: no provider has it
    name: str                   # there
    key: str
    outcome: str                # "tracked", "recorded", "added" (and recorded), "not tracked" or "unknown"
    reason: str                 # why it is not recorded, or has no version

    def as_json(self) -> dict[str, Any]:
        return {"file": self.file or None, "provider": self.provider and self.provider.id, "name": self.name,
                "version": self.pin.version or None, "digest": self.pin.digest or None,
                "direct": self.pin.is_direct, "service": self.pin.service or None, "outcome": self.outcome,
                "reason": self.reason or None}

def scan_rows(providers: Mapping[str, Provider], tracked: Mapping[tuple[str, str], str],
              pins: Iterable[tuple[str, Pin]]) -> list[ScanRow]:
    """Rows of what stands in files; ``tracked``: as ``Projects.ids_by_key``."""
    rows = []
    for file, pin in pins:
        found = project_of_pin(providers, pin) if pin.name else None
        if found is None:
            rows.append(ScanRow(pin, file, None, pin.name, "", "unknown", pin.reason or "no provider has it"))
            continue
        provider, name = found
        if provider.dialect.has_images and not (pin.version or pin.digest or pin.reason):
            pin = dataclasses.replace(pin, version="latest")        # as Docker takes it
        key = name_at(provider, name)[1]
        rows.append(ScanRow(pin, file, provider, name, key, "tracked" if (provider.id, key) in tracked
                            else "not tracked", pin.reason))
    return rows

def _as_known(project: Project, installed: Iterable[Installation]) -> tuple[Installation, ...]:
    """What is installed, each once; what a project has already as it was compared and seen before."""
    before = {one.identity: one for one in project.installed}
    builds = {(one.place, one.version): one.first_digest for one in project.installed}
    after: dict[str, Installation] = {}
    for one in installed:
        same = before.get(one.identity)
        after.setdefault(one.id, dataclasses.replace(
            same, seen_at=one.seen_at, previous=one.previous) if same else dataclasses.replace(
            one, first_digest="" if one.digest else builds.get((one.place, one.version), "")))
    return tuple(after.values())

@dataclasses.dataclass(frozen=True)
class Inventory:
    """Judges projects by their rules, and records what is installed. ``waiting``: as Context's."""
    store: Store
    judge: Callable[..., tuple[set[str], dict[int, str]]]     # of an account, patterns, versions, as Context
    providers: Mapping[str, Provider]
    waiting: Callable[[str], contextlib.AbstractContextManager[bool]]
    refusal_of: Callable[[str, bool], str | None]       # as Fetcher's
    kinds: Kinds

    def add(self, account_id: str, provider: Provider, key: str, name: str,
            settings: Mapping[str, Any], labels: str = "") -> tuple[Project, Source]:
        """As ``Projects.add``. Raises Invalid also for what administrators alone track at a private address,
        whose releases are known already."""
        account, sources = self.store.accounts.get(account_id), self.store.sources
        source = sources.get(sources.id_of(provider.id, key)) if not provider.site else None
        if source and source.is_trusted and not (account and account.is_admin) and (
                reason := self.refusal_of(name if "://" in name else f"http://{name}", False)):
            raise Invalid(Problem("name", f"cannot be used: {reason}"))
        added = self.store.projects.add(account_id, provider.id, key, name, settings, labels)
        if settings.get("exclude_version_regexp"):
            self.compare(account_id, [added[0].id])
        return added

    def chosen_notes(self, project: Project, text: str) -> str:
        """The source whose notes a person wants for an image, as it is stored. Raises Invalid."""
        if text == project.notes_from or text == project.notes_source and not project.notes_state:
            return project.notes_from       # as it was shown
        account, others = self.store.accounts.get(project.account_id), [
            one for one in self.store.projects.subscribers(project.source_id) if one.project.id != project.id]
        found = project_at(self.providers, None, text, is_typed=True) if text not in ("", "none") else None
        if not self.rules_of(project).is_image:
            raise Invalid(Problem("notes_from", "is for images"))
        if found and (found[0].dialect.has_images or not found[0].site):
            raise Invalid(Problem("notes_from", "must be a repository, not an image or an address"))
        if others and not (account and account.is_admin):
            raise Invalid(Problem("notes_from", "is for administrators: others track the image, too"))
        return f"{found[0].id} {found[1]}" if found else text

    def rules_of(self, project: Project) -> VersionRules:
        provider = self.providers.get(project.provider)
        return (provider.dialect.versions if provider else GENERIC).of(project.name, project.version_answers)

    def verdicts_for(self, project: Project) -> tuple[RuleResult, dict[int, str]]:
        """``(what its rules say of its releases, what is wrong with its patterns by their place)``."""
        releases = self.store.releases.known(project.source_id)
        ruled_out, wrong = self.judge(project.account_id, project.exclude_version_regexp, releases)
        return apply_rules(project, releases, self.rules_of(project), ruled_out), wrong

    def changes(self, project: Project, since: str | None, until: str | None,
                number: int = 0) -> tuple[ReleaseRange, list[Release], int]:
        """``(the releases after a version, else after the one installed; those of a page, or of all, with
        their notes; how many pages)``. Raises Invalid."""
        start = since or (project.most_urgent.compared_as if project.most_urgent else "")
        if not start:
            raise Invalid(Problem("since", "is required: a version, as none is installed"))
        known, notes = self.store.releases.known(project.source_id), self.store.releases.notes
        ruled_out, _ = self.judge(project.account_id, project.exclude_version_regexp, known)
        for version in ruled_out - {start, until}:
            del known[version]
        span = changes_between(start[:NAME_LIMIT], until or "", known, self.rules_of(project))
        newest = [one.version for one in span.releases[:CHANGES_LIMIT]]
        pages = span.pages(self.store.releases.note_sizes(
            project.source_id, newest, CHANGES_NOTES // CHANGES_LINES))
        found = [one for page in (pages[number - 1:number] if number else pages) for one in page]
        noted = notes(project.source_id, [one.version for one in found])
        return span, [dataclasses.replace(one, note=noted.get(one.version)) for one in found], len(pages)

    def change(self, account_id: str, ids: Iterable[str],
               change: Callable[[Project], Iterable[Installation]]) -> None:
        """Replace what is installed of some projects by what ``change`` makes of them, as they are when it is
        written, and have it compared."""
        ids = list(dict.fromkeys(ids))
        self.store.projects.update(account_id, ids, {
            "installed": lambda project: _as_known(project, change(project))})
        self.compare(account_id, ids)

    def compare(self, account_id: str, ids: Sequence[str]) -> None:
        """Have projects judged by what was just saved of them: by the tracker, which is waited for a little;
        where none runs in this process, here. What changes meanwhile, is judged by whoever changes it."""
        projects = self.store.projects
        if self.store.database.has_tracker:
            with self.waiting(account_id) as may_wait:
                projects.await_verdicts(ids, FIRST_CHECK_WAIT if may_wait else 0.0)
            return
        with contextlib.suppress(TooMany):      # the next check compares it, too
            for project in projects.of_ids(account_id, [id_ for _, id_ in projects.with_pending_rules(ids)]):
                projects.record_verdicts(self.verdicts_for(project)[0])

    def record(self, project: Project, said: Installation) -> None:
        """Record what a person says of a place. Raises Invalid where there are too many."""
        if len(replace_at_places(project.installed, [said])) > INSTALLED_LIMIT:
            raise Invalid(Problem("place", f"must be one of the {INSTALLED_LIMIT} that there may be"))
        self.change(project.account_id, [project.id], lambda now: replace_at_places(now.installed, [said]))

    def doubt(self, project: Project, version: str) -> str:
        """What to say where a person names a version that is none of the project's releases."""
        known = self.store.releases.known(project.source_id)
        other = compared(Installation("", version), known, self.rules_of(project)).known_as
        return f" No release is called {version}." if known and not other and version not in known else ""

    def record_scan(self, account: Account, place: str, origin: str, pins: Iterable[tuple[str, Pin]], *,
                    is_tracking: bool = False, with_indirect: bool = False,
                    is_whole: bool = True) -> list[ScanRow]:
        """Record what was found at a place, instead of what the same place and origin, or a person, reported;
        ``is_whole``: also of projects not found. ``is_tracking``: adds projects, images first, then what is
        needed directly; those that do not fit say so."""
        tracked, now = self.store.projects.ids_by_key(account.id), self.store.database.clock()
        rows = scan_rows(self.providers, tracked, pins)
        found, numbers = dict[str, dict[tuple[str, str], Installation]](), dict[int, Installation]()
        left_out = dict[str, list[Installation]]()      # by project id, beyond INSTALLED_LIMIT
        full = ""       # the reason for which further projects are refused
        ranks = {number: 0 if row.provider and row.provider.dialect.has_images else 2 - row.pin.is_direct
                 for number, row in enumerate(rows)}
        for number in sorted(ranks, key=ranks.__getitem__):
            row = rows[number]
            id_ = tracked.get((row.provider.id, row.key)) if row.provider else None
            if row.provider and id_ is None and is_tracking and (ranks[number] < 2 or with_indirect):
                try:
                    if full:
                        raise Invalid(full)
                    project, _ = self.add(account.id, row.provider, row.key, row.name, {
                        "email_notification": account.email_notification}, row.pin.source and (
                            compact_json({SOURCE_LABELS[0]: row.pin.source})))
                    id_ = tracked[row.provider.id, row.key] = project.id
                    rows[number] = dataclasses.replace(row, outcome="added")
                except Invalid as error:
                    rows[number] = dataclasses.replace(row, reason=str(error))
                    full = "" if error.problems[0].field == "name" else str(error)
            if id_ and (row.pin.version or row.pin.digest):
                if rows[number].outcome != "added":
                    rows[number] = dataclasses.replace(row, outcome="recorded")
                numbers[number] = found.setdefault(id_, {})[row.pin.version, row.pin.digest] = Installation(
                    place, row.pin.version[:NAME_LIMIT], row.pin.digest, origin, now, row.pin.label)

        def after(project: Project) -> Iterable[Installation]:
            mine = found.get(project.id, {}).values()
            replaced = ORIGINS if origin == "manual" else (origin, "manual") if mine else (origin,)
            known = [*(one for one in project.installed
                       if one.place != place or one.origin not in replaced), *mine]
            # A container's version is known with its digest; the file that says the same adds nothing.
            running = {(one.place, one.version) for one in known if one.origin == "container"}
            kept = [one for one in known
                    if one.origin == "container" or (one.place, one.version) not in running]
            left_out[project.id] = kept[INSTALLED_LIMIT:]
            return kept[:INSTALLED_LIMIT]
        here = self.store.projects.with_updates(account.id, place=place) if is_whole else []
        gone = [project.id for project in here if any(one.origin == origin for one in project.installed)]
        self.change(account.id, [*found, *gone], after)
        lost = set(itertools.chain(*left_out.values()))
        return [row if numbers.get(number) not in lost else dataclasses.replace(
            row, outcome="tracked", reason=f"not recorded: at most {INSTALLED_LIMIT} fit one project")
                for number, row in enumerate(rows)]

def project_settings(fields: Fields, inventory: Inventory, project: Project) -> dict[str, Any]:
    """What ``fields`` set of a project, for the store; ``project``: as it is, or blank. Problems are left in
    ``fields``."""
    store, account_id = inventory.store, project.account_id
    now, tags = store.database.clock(), [tag.id for tag in store.tags.of_account(account_id)]
    found: dict[str, Any] = {
        "exclude_version_regexp": fields.rules("exclude_version_regexp"),
        "installed": fields.installed("installed", now), "tags": fields.ids("tags", "tag", tags),
        "version_answers": fields.answers("version_answers", inventory.rules_of(project))}
    settings = fields.options(PROJECT_OPTIONS)
    if "notes_from" in settings:
        with fields.collecting():
            settings["notes_from"] = inventory.chosen_notes(project, settings["notes_from"])
    there_are, destinations = store.destinations.of_account(account_id), {}
    for kind, name in ((kind, KIND_FIELDS[kind]) for kind in inventory.kinds):
        known = [one.id for one in there_are if one.kind == kind]
        if (ids := fields.ids(name, f"{kind} destination", known)) is not None:
            destinations[kind] = ids
    if settings.get("email_notification") == "default":
        account = store.accounts.get(account_id)
        settings["email_notification"] = account.email_notification if account else "daily"
    if (settings.get("snoozed_until") or math.inf) <= now:
        fields.add_problem("snoozed_until", "must be a time to come, such as 2030-01-31T08:00:00Z")
    if (said := found["installed"]) is not None:
        found["installed"] = lambda now: _as_known(now, replace_at_places(
            [one for one in now.installed if one.origin != "manual"], said))
        if len(found["installed"](project)) > INSTALLED_LIMIT:
            fields.add_problem("installed", f"must leave at most {INSTALLED_LIMIT} with what scans found")
    settings |= {name: value for name, value in found.items() if value is not None}
    if patterns := found["exclude_version_regexp"]:
        _, wrong = inventory.judge(account_id, patterns, store.releases.known(project.source_id))
        for at, words in wrong.items():
            fields.add_problem(f"exclude_version_regexp[{at}]", words)
    return settings | {"destinations": destinations}

# The options that a kind of destination does not have, and why.
FIXED_OPTIONS = {
    "webhook": {"schedule": "a webhook is notified at once",
                "report": "reports are for people; a program can use GET /v1/updates"},
    "email": {"schedule": "each project's email_notification says when mail is sent"}}

def scope_of(destination: Destination, tags: Mapping[str, str]) -> str:
    """The releases that are sent to a destination, in words; ``tags``: names by ids."""
    words = ["all projects" if destination.is_for_every_project else "picked projects"]
    words += [f"{word} {' or '.join(tags[id_] for id_ in ids)}" for word, ids in (
        ("tag", destination.tags), ("without tag", destination.without_tags)) if ids]
    return ", ".join([*words, "security fixes"] if destination.is_security_only else words)

def destination_as_json(destination: Destination, tags: Mapping[str, str]) -> dict[str, Any]:
    """A destination with its options, and its settings without secrets; ``tags``: names by ids."""
    settings: dict[str, Any] = {field.name: [] for field in KINDS[destination.kind].fields if field.stored_as}
    for name, text in settings_as_given(destination, is_shown=True):
        settings[name] = [*settings[name], text] if name in settings else text
    return {
        "kind": destination.kind, "name": destination.name, "id": destination.id, "error": destination.error,
        "failing_since": destination.failing_since and timestamp(destination.failing_since),
        **{option.name: getattr(destination, option.name) for option in DESTINATION_OPTIONS},
        "tags": [tags[id_] for id_ in destination.tags], "settings": drop_empty(**settings),
        "without_tags": [tags[id_] for id_ in destination.without_tags]}

def _add_setting(settings: dict[str, Any], field: SettingField, text: str, brand: str) -> None:
    """Raises ValueError, which says what is wrong with the text."""
    if field.is_secret and "***" in text:
        raise ValueError(f"must be typed again: {text[:80]!r} stands for a value that is not saved here")
    value = field.read(text)
    if not field.stored_as:
        settings[field.name] = value            # the last one counts
        return
    (name, content), stored = value, settings[field.stored_as]
    if field.name == "header" and re.match(f"x-{re.escape(brand)}-(signature|timestamp)", name, re.I):
        raise ValueError(f"{name} is set by the request itself")
    if name.lower() in map(str.lower, stored):
        raise ValueError(f"{name} is given twice")
    stored[name] = content

def read_settings(kind_id: str, given: Iterable[tuple[str, str]], brand: str = "Service",
                  kinds: Kinds = KINDS) -> dict[str, Any]:
    """The settings of a destination from names and texts; those without a text have their defaults. Raises
    Invalid with every problem, under the name of its setting."""
    kind, reader = kinds[kind_id], InputReader()
    fields = {field.name: field for field in kind.fields}
    settings: dict[str, Any] = {field.stored_as: {} for field in kind.fields if field.stored_as}
    for name, text in given:
        try:
            if name not in fields:
                raise ValueError(f"is not a setting of {kind_id}; it has {', '.join(fields)}")
            if text:
                _add_setting(settings, fields[name], text, brand)
        except ValueError as error:
            reader.add_problem(name[:60], str(error))
    wrong = {problem.field for problem in reader.problems}
    for field in kind.fields:
        if not field.stored_as and field.name not in settings:
            settings[field.name] = field.default or ""
            if field.default is None and field.name not in wrong:
                reader.add_problem(field.name, f"is required ({field.about})")
    reader.check()
    if conflict := kind.problem(settings):
        raise Invalid(conflict)
    return settings | {"shown": kind.shown(settings)}

def settings_as_given(destination: Destination, is_shown: bool = False,
                      kinds: Kinds = KINDS) -> list[tuple[str, str]]:
    """The names and texts from which ``read_settings`` makes the settings of a destination again. Where they
    are shown secrets are hidden: of an address its host is shown, of a header its name."""
    found = []
    for field in kinds[destination.kind].fields:
        is_hidden = is_shown and field.is_secret
        if field.stored_as:
            separator = ": " if field.name == "header" else "="
            found += [(field.name, name + separator + ("***" if is_hidden else text))
                      for name, text in destination.settings.get(field.stored_as, {}).items()]
        elif text := destination.settings.get(field.name, ""):
            found.append((field.name, host_only(text) if is_hidden else text))
    return found

def changed_settings(destination: Destination, given: Sequence[tuple[str, str]], brand: str,
                     kinds: Kinds = KINDS) -> dict[str, Any]:
    """The settings of a destination after ``given``; an empty text removes a setting. Raises Invalid."""
    kept = [pair for pair in settings_as_given(destination, kinds=kinds) if pair[0] not in dict(given)]
    return read_settings(destination.kind, [*kept, *given], brand, kinds)

def account_changes(account: Account, fields: Fields) -> dict[str, Any]:
    """What ``fields`` say of an account's name and its options. Raises Invalid with every problem."""
    changes = fields.options(ACCOUNT_OPTIONS)
    if fields.has("name"):
        changes["name"] = fields.label("name")
    after = dataclasses.replace(account, **changes)
    is_time = re.compile("(?:[01][0-9]|2[0-3]):[0-5][0-9]").fullmatch
    hours = after.quiet_from, after.quiet_until
    if any(hours) and (hours[0] == hours[1] or not all(map(is_time, hours))):
        fields.add_problem("quiet_from", "and the end of quiet hours must be two times such as 22:00")
    fields.check()
    return changes

def sample_values(account: Account) -> dict[str, str]:
    """A made-up release to test with, in the names of templates."""
    return {"provider": "github", "project": "octocat/hello-world", "version": "1.2.3",
            "time": "2026-01-31T08:00:00Z", "cve": "", "is_prerelease": "false", "is_updated": "false",
            "note_title": "Hello World 1.2.3",
            "note_message": "<p>This is a <b>test</b> of a notification.</p>", "account_type": account.type,
            "account_id": account.id, "account_name": account.name, "tags": "",
            "project_note": "", "url": "https://github.com/octocat/hello-world/releases/tag/1.2.3"}

def sample_event(account: Account, values: Mapping[str, str] | None = None) -> tuple[dict[str, Any], str]:
    """``(body, url)`` of an event to test with, from ``sample_values`` or a form of them. Raises Invalid."""
    values, reader, time_given = values or sample_values(account), InputReader(), None
    for name in ("provider", "project", "version"):
        if not values[name].strip():
            reader.add_problem(name, "is required")
    with contextlib.suppress(ValueError):
        time_given = utc(values["time"])
    if not time_given:
        reader.add_problem("time", "must be a time such as 2026-01-31T08:00:00Z")
    if values["account_type"] not in ACCOUNT_TYPES:
        reader.add_problem("account_type", f"must be {' or '.join(ACCOUNT_TYPES)}")
    reader.check()
    title, message, url = values["note_title"], values["note_message"], values["url"]
    release = Release(
        values["version"], time_given, values["is_prerelease"] == "true",
        tuple(cve for cve in re.split("[, ]+", values["cve"]) if cve),
        Note(title, message, url) if title or message else None, None, values["is_updated"] == "true")
    project = dataclasses.replace(Project.blank(account.id, values["provider"], values["project"]),
                                  note=values["project_note"])
    owner = dataclasses.replace(
        account, type=values["account_type"], id=values["account_id"], name=values["account_name"])
    tags = tuple(Tag(secret_hash(name).hex()[:26], name)
                 for name in map(str.strip, values["tags"].split(",")) if name)
    return event_body(Subscriber(project, owner, tags, ()), release), url

def sample_destination(kind: str, row: Kind) -> Destination:
    """A made-up one, as the API's lists show it."""
    shown = row.shown({field.name: "example" for field in row.fields})
    return Destination("mzxw6ytboi2dqnzxgezdgnbvgy", "", kind, "Releases", {"shown": shown}, "")

@dataclasses.dataclass(frozen=True)
class SettingState:
    """A setting that the store may keep, and where its value comes from."""
    row: Setting
    texts: tuple[str, ...]      # one for each value; secrets are masked
    source: str                 # "flag" (or variable, or embedding program), "serve", "operator", "default"
    is_set: bool                # whether the operator has set it, in use or not

class Configuration:
    """What the operator sets in the store, and resulting settings: ``own`` ones, completed from the store.
    ``is_command``: what the last ``serve`` was started with comes first. ``changed`` follows a change."""
    def __init__(self, store: Store, own: Settings, more_providers: Sequence[Provider] = (),
                 is_command: bool = False) -> None:
        self._store, self._own, self._more_providers = store, own, more_providers
        self._is_command = is_command
        self.changed: Callable[[], None] = lambda: None

    def settings(self) -> Settings:
        """The settings that result. Raises SettingError for those that cannot be used."""
        return self._own.merged_with(*self._sources())

    def providers(self, settings: Settings) -> dict[str, Provider]:
        """The providers under these settings. Raises SettingError."""
        return providers_with(settings.provider, self._more_providers)

    def rows(self) -> list[SettingState]:
        """Every setting that the store may keep. Raises SettingError."""
        settings, found, operator = self.settings(), list[SettingState](), self._store.config.all()
        recorded = operator.get("serve", {}) if self._is_command else {}
        for row in (row for row in SETTINGS.values() if row.is_stored):
            source = ("flag" if row.name in self._own.given else
                      "serve" if row.name in recorded else
                      "operator" if row.name in operator else "default")
            texts = row.texts(getattr(settings, row.name))
            if row.is_secret:       # of a token the provider is shown
                texts = [f"{text.partition('=')[0]}=***" if row.is_keyed else "***" for text in texts if text]
            found.append(SettingState(row, tuple(texts), source, row.name in operator))
        return found

    def set(self, name: str, texts: Sequence[str]) -> None:
        """Set a setting; of a keyed one the ids that the texts name. Raises Invalid."""
        row = self._row(name)
        if not row.is_repeatable and (len(texts) != 1 or not texts[0]):
            raise Invalid(Problem(name, "must be one value, and not empty; unset removes it"))
        try:
            values = [row.parse(text) for text in texts]
        except ValueError as error:
            raise Invalid(Problem(name, f"must be {error}")) from None

        def change(before: list[str]) -> list[str]:
            merged = row.first([(values, name), (before, name)]) if row.is_keyed else values
            after = row.texts(merged)
            known = self.providers(self._own.merged_with(*self._sources({name: after})))
            if name == "token" and (unknown := [id_ for id_, _ in values if id_ not in known]):
                raise Invalid(Problem(name, f"must name a provider; there is no provider {unknown[0]}"))
            return after
        try:
            self._store.config.change(name, change)
        except SettingError as error:
            raise Invalid(Problem(name, f"cannot be used: {error}")) from None
        self.changed()

    def unset(self, name: str, id_: str = "") -> None:
        """Remove a setting from the store, or that id of a keyed one. Where only the last ``serve`` has
        recorded it, that record is removed. Raises Invalid also where it is not there."""
        self._row(name)
        is_changed = self._store.config.change(name, lambda before: [
            text for text in before if id_ and not text.startswith(f"{id_}=")])
        if not is_changed and not id_:
            is_changed = self._store.config.change("serve", lambda before: {
                other: texts for other, texts in dict(before).items() if other != name})
        if not is_changed:
            raise Invalid(f"{name} {id_}".rstrip() + " is not set; see 'config list'.")
        with contextlib.suppress(SettingError):     # another one may still have to be repaired
            self.changed()

    def record_serve(self) -> None:
        """Record, for commands, what this process was given, without tokens, users and passwords."""
        self._store.config.change("serve", lambda _: {
            row.name: [re.sub("//[^/?#]*@", "//", text) for text in row.texts(getattr(self._own, row.name))]
            for row in SETTINGS.values() if row.is_stored and row.name in self._own.given - {"token"}})

    def _row(self, name: str) -> Setting:
        row = SETTINGS.get(name)
        if row is None:
            names = ", ".join(other.name for other in SETTINGS.values() if other.is_stored)
            raise Invalid(f"There is no setting {name!r}{did_you_mean(name, SETTINGS)}; there are {names}.")
        if not row.is_stored:
            raise Invalid(f"The setting {name} is not stored: use {row.flag} or {row.variable}.")
        return row

    def _sources(self, changed: Mapping[str, list[str]] | None = None) -> list[dict[str, Any]]:
        """What is stored, in the order of precedence, or will be after a change by the operator."""
        operator = self._store.config.all() | dict(changed or {})
        return [operator.get("serve", {}), operator] if self._is_command else [operator]


# == api =======================================================================
# The contract's JSON API under /v1: authentication, rate limits, routes and their handlers. All answers are
# JSON; an error is a Message. Paths are read as they were sent: a name or a version may contain a %2F.

class AnswerCache:
    """Answers to GETs of the API, and the account of each key, while nothing in the store has changed.
    Everything is dropped when the store's revision has moved. Networks and limits are judged for each
    request. A page of 20 projects is answered 7 times as fast with it, one of 20 releases 3.6 times, a
    project by its id 2.3 times."""
    _LIMIT = 16 * MIB       # of all names and values together; a full cache starts empty again

    def __init__(self, revision: Callable[[], int]) -> None:
        self._revision = revision
        self._lock = threading.Lock()
        self._kept: dict[Hashable, Any] = {}
        self._size = 0
        self._valid_at = -1

    def get(self, name: Hashable) -> tuple[Any, int]:
        """``(value or None, revision)``. Call it before reading from the store what ``put`` shall keep."""
        revision = self._revision()
        with self._lock:
            if revision > self._valid_at or self._size > self._LIMIT:
                self._kept.clear()
                self._size, self._valid_at = 0, revision
            return self._kept.get(name), revision

    def put(self, name: Hashable, value: bytes | tuple[Any, ...], revision: int) -> None:
        """Keep what was read at ``revision``, unless that is over."""
        with self._lock:
            if revision == self._valid_at:
                self._kept[name] = value
                self._size += len(value) + len(repr(name)) + 500

@dataclasses.dataclass
class Context:
    """What the API and the pages work with. ``Service.reload`` replaces what settings make."""
    store: Store
    settings: Settings
    providers: Mapping[str, Provider]
    helper: Helper
    rate_limits: RateLimiter
    throttle: LoginThrottle
    answers: AnswerCache
    waits: ConcurrencyLimit
    ask: Callable[[Request], Answer]                    # Fetcher's fetch, and the next
    refusal_of: Callable[[str, bool], str | None]
    refused_tokens: Mapping[str, tuple[str, float]]
    outages: Mapping[str, str]
    try_out: Callable[..., tuple[str, str, str | None]]        # as Courier's
    health: Callable[[], dict[str, str]]
    config: Configuration
    tests: RateLimiter              # of test notifications, per hour and account
    kinds: Kinds
    own_readers: Mapping[str, Reader]                   # an embedding program's, as of reader_named

    def waiting(self, account_id: str) -> contextlib.AbstractContextManager[bool]:
        """Whether a request of the account may wait for another server in the block."""
        return self.waits.slot(account_id, self.settings.quota_of("lookups"))

    @contextlib.contextmanager
    def turn(self, name: str, at_once: int = sys.maxsize) -> Iterator[None]:
        """Wait for another server, or work long, in the block. Raises TooMany, also if ``at_once`` do."""
        with self.waits.slot(name, min(at_once, self.settings.quota_of("lookups"))) as may_wait:
            if not may_wait:
                raise TooMany(1, "Other work of this account is under way. Try again when it is done.")
            yield

    @property
    def inventory(self) -> Inventory:
        return Inventory(self.store, self.judge, self.providers, self.waiting, self.refusal_of, self.kinds)

    def judge(self, account_id: str, rules: Sequence[tuple[str, bool]],
              versions: Collection[str]) -> tuple[set[str], dict[int, str]]:
        """What patterns of the account exclude, and what is wrong with them. Raises as Helper does."""
        with self.turn(account_id, at_once=1) if rules else contextlib.nullcontext():
            return self.helper.match(rules, versions, wait=Helper.SECONDS)

    def pins_in(self, account_id: str, name: str, text: str) -> list[Pin]:
        """As the readers, in the helper process, one text of the account at a time. Raises as Helper does."""
        own = reader_named(self.own_readers, name)
        with self.turn(account_id, at_once=1):
            return pins_in(name, text, {}, own) if own else [
                Pin(*pin) for pin in self.helper.run(pins_in, name, text, {}, wait=Helper.SECONDS)]

def or_404(value: V | None) -> V:
    """``value``. Raises NotFound for None."""
    if value is None:
        raise NotFound
    return value

@dataclasses.dataclass(frozen=True)
class Call:
    """What an account asks for: by HTTP, or in this process with what is GIVEN in the environ."""
    context: Context
    account_id: str
    segments: Sequence[str]                 # of the path below /v1, decoded
    environ: Mapping[str, Any]

    @property
    def store(self) -> Store:
        return self.context.store

    @property
    def account(self) -> Account:
        return or_404(self.store.accounts.get(self.account_id))

    @property
    def query(self) -> Query:
        return Query.of(self.environ)

    @property
    def fields(self) -> Fields:
        return Fields.of(self.environ)

    @property
    def tags(self) -> dict[str, str]:
        return {tag.id: tag.name for tag in self.store.tags.of_account(self.account_id)}

def read_project(call: Call, project: Project) -> dict[str, Any]:
    """The project."""
    provider = call.context.providers.get(project.provider)
    if provider is None:
        return project.as_json("") | {"source": project.health.as_json() | {
            "error": unknown_provider(project.provider)}}
    return project.as_json(page_of(provider, project.name))

def first_that_fit(items: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first of the items for which an answer has room."""
    found, left = list[Mapping[str, Any]](), ANSWER_LIMIT - KIB
    for item in items:
        left -= len(compact_json(item).encode("utf-8", "replace")) + 1
        if left < 0:
            break
        found.append(item)
    return found

def list_projects(call: Call, provider: str | None = None) -> dict[str, Any]:
    """A page of the account's projects, or of those at one provider; with ``q`` all that it finds, as many as
    1 MiB holds, whatever the other parameters are. 400: a parameter has an invalid value."""
    query = call.query
    if text := query.text("q"):
        found = call.store.projects.search(call.account_id, text, provider)
        return {"projects": first_that_fit(read_project(call, one) for one in found), "total_pages": 1}
    order = query.one_of("order", "updated", "added", "name")
    tag, page, is_reversed = query.text("tag"), query.page(), query.flag("reverse")
    if tag and not call.store.tags.get(call.account_id, tag):
        query.add_problem("tag", f"must be the id of a tag; there is no tag {tag[:60]!r}")
    query.check()
    found, count = call.store.projects.page(call.account_id, order, is_reversed, provider, tag, page)
    return {"projects": [read_project(call, project) for project in found],
            "total_pages": page_count(count, PAGE_SIZE)}

def search_projects(call: Call) -> dict[str, Any]:
    """The projects whose name contains ``q``, as many as 1 MiB holds. 400: no ``q``, unknown ``provider``."""
    query = call.query
    text, provider = query.text("q", required="the text to search for") or "", query.text("provider")
    if provider and provider not in call.context.providers:
        query.add_problem("provider", f"{provider[:60]!r} is unknown; GET /v1/providers lists all")
    query.check()
    found = call.store.projects.search(call.account_id, text, provider)
    return {"q": text, "projects": first_that_fit(read_project(call, project) for project in found)}

def await_first_check(store: Store, project: Project, source: Source, since: float,
                      seconds: float) -> Project:
    """A project that was added at ``since``, after its first check if that ends within ``seconds``. Raises
    Invalid, and it is removed, when its provider has no such project, or it is tracked by another name."""
    if source.succeeded_at is None:
        after = store.sources.await_check(source.id, since, seconds)
        if after and after.missing_since and after.succeeded_at is None:
            store.projects.remove(project.id)
            raise Invalid(Problem("name", f"{project.name!r} was not found: {after.error}"))
    project_now = store.projects.get(project.account_id, project.id)
    if project_now is None:
        raise AlreadyTracked(Problem("name", f"{project.name!r} is another name of a project that you track"))
    return project_now

def track(call: Call, is_typed: bool = False) -> tuple[Project, Source, float]:
    """A new project as the body says, its source, and when it was added; it is not checked yet. Raises
    Invalid. ``is_typed``: as of ``project_at``."""
    fields = call.fields
    id_ = fields.value("provider", any_text(100))
    text = fields.label("name", at_most=2000)
    found: tuple[Provider, str, str] | None = None
    if not fields.problems:
        with fields.collecting():
            found = project_at(call.context.providers, (id_ or "").strip() or None, text, is_typed=is_typed)
    source_id = call.store.sources.id_of(found[0].id, found[2]) if found else 0
    since = call.store.database.clock()
    settings = project_settings(fields, call.context.inventory, Project.blank(
        call.account_id, found[0].id if found else "", text, source_id))
    fields.check()
    assert found
    provider, name, key = found
    settings.setdefault("installed", installed_in(provider, text, since))
    return *call.context.inventory.add(call.account_id, provider, key, name, settings), since

def add_project(call: Call) -> dict[str, Any]:
    """The new project, by ``provider`` and ``name``, or by an address as the ``name``. 400: neither, one that
    is malformed, tracked already, or unknown to the provider."""
    project, source, since = track(call)
    with call.context.waiting(call.account_id) as may_wait:     # else it is checked all the same
        seconds = FIRST_CHECK_WAIT if may_wait else 0.0
        return read_project(call, await_first_check(call.store, project, source, since, seconds))

def update_project(call: Call, project: Project) -> dict[str, Any]:
    """The project after the update; what is absent or null stays as it is. ``installed`` replaces what was
    set by hand, and all that was known of its places. ``version_answers``: whether a version, and those
    called like it, follow what is installed. ``notes_from``: the repository whose notes an image gets, or
    "none"; "" for the one that is found. 400: an invalid field."""
    fields = call.fields
    settings = project_settings(fields, call.context.inventory, project)
    fields.check()
    projects, id_ = call.store.projects, project.id
    projects.update(call.account_id, [id_], settings)
    call.context.inventory.compare(call.account_id, [id_])
    return read_project(call, or_404(projects.get(call.account_id, id_)))     # it may have been removed

_OK = {"message": "OK", "code": 200}

def remove_project(call: Call, project: Project) -> dict[str, Any]:
    """OK; the project is gone."""
    call.store.projects.remove(project.id)
    return _OK

def _release_json(project: Project, release: Release) -> dict[str, Any]:
    return release.as_json() | drop_empty(is_excluded=is_excluded(project, release))

def list_releases(call: Call, project: Project) -> dict[str, Any]:
    """A page of the project's releases, newest first. 400: an invalid ``page``."""
    query = call.query
    page = query.page()
    query.check()
    releases, total = call.store.releases.page(project, page)
    return {"releases": [_release_json(project, release) for release in releases], "total_pages": total}

def read_latest_release(call: Call, project: Project) -> dict[str, Any]:
    """The newest release that the project does not exclude, a prerelease where nothing final is newer or
    higher. 404: there is none."""
    latest = or_404(call.store.releases.newest_wanted(project))
    order = call.context.inventory.rules_of(project).order
    prerelease = call.store.releases.newest_wanted(project, latest.date or "")
    is_newer = prerelease and order(prerelease.version) > order(latest.version)
    return (prerelease if prerelease and is_newer else latest).as_json()

def _tag_name(call: Call) -> str:
    fields = call.fields
    name = fields.label("name", TAG_LIMIT)
    fields.check()
    return name

def add_tag(call: Call) -> dict[str, Any]:
    """The new tag. 400: no name, or one that the account already has."""
    return call.store.tags.add(call.account_id, _tag_name(call)).as_json()

def remove_tag(call: Call, tag_id: str) -> dict[str, Any]:
    """OK; the tag is gone, and no project has it. 404: no such tag."""
    or_404(call.store.tags.remove(call.account_id, tag_id) or None)
    return _OK

def list_updates(call: Call) -> dict[str, Any]:
    """A page of the projects of which something is installed that is behind, the most urgent first, then of
    those that are unsure, of which a newer version may follow what is installed (``may_follow``); with
    ``all`` also those that are up to date, skipped or snoozed; with ``vulnerable`` only those of which a
    vulnerability is known. 400: an unknown ``tag``."""
    query, store = call.query, call.store
    place, tag, with_all, page = query.text("place"), query.text("tag"), query.flag("all"), query.page()
    if tag and not store.tags.get(call.account_id, tag):
        query.add_problem("tag", f"must be the id of a tag; there is no tag {tag[:60]!r}")
    query.check()
    least = VULNERABLE if query.flag("vulnerable") else 0
    now, groups = store.database.clock(), store.projects.updates(call.account_id, place, tag, least=least)
    ids = list(itertools.chain(*(groups.values() if with_all else [groups["behind"], groups["unsure"]])))
    found = store.projects.of_ids(call.account_id, ids[(page - 1) * PAGE_SIZE:page * PAGE_SIZE])
    return {"updates": [read_project(call, one) | {"state": (one.at(place) if place else one).state(now)}
                        for one in found], "total_pages": page_count(len(ids), PAGE_SIZE)}

def read_changes(call: Call, project: Project) -> dict[str, Any]:
    """A page of the releases after ``since`` (else the version installed) up to ``until`` (else the newest),
    newest first, with their notes: at most 100 releases and 256 KiB of notes, of the newest 1,000; and the
    first 100 CVEs of all. 400: nothing is installed and no ``since``, a ``since`` that is not like the
    project's versions, or an unknown ``until``. 429: another one is being made for the account."""
    query = call.query
    since, until, number = query.text("since"), query.text("until"), query.page()
    query.check()
    with call.context.turn(f"changes {call.account_id}", at_once=1):
        span, found, total = call.context.inventory.changes(project, since, until, number)
    return span.as_json(found) | {"total_pages": total}

def add_installations(call: Call) -> dict[str, Any]:
    """What became of each item, of as many as 1 MiB holds; the items replace what the same ``place`` and
    ``origin`` reported before. An item has a ``purl``, an ``image``, or ``provider`` and ``name``, and
    perhaps ``version``, ``digest`` and ``direct``. With ``track`` images and direct dependencies that are
    not tracked are added, with ``all`` the others too. A CycloneDX document may be sent as it is, with
    ``place``, ``track`` and ``all`` in the query. 400: an invalid field."""
    query, fields = call.query, call.fields
    place = query.text("place") or fields.value("place", any_text(TAG_LIMIT)) or ""
    origin = fields.value("origin", one_of(ORIGINS[1:])) or "api"
    is_tracking, with_indirect = (
        bool(fields.value(name, SWITCH)) or query.flag(name) for name in ("track", "all"))
    pins = fields.pins("items", functools.partial(call.context.pins_in, call.account_id))
    with fields.collecting():
        place = read_place(place)
    query.check()
    fields.check()
    account = call.account
    with call.context.turn(f"report of {account.id}", at_once=1):
        rows = call.context.inventory.record_scan(account, place, origin, [("", pin) for pin in pins],
                                                  is_tracking=is_tracking, with_indirect=with_indirect)
    items = [drop_empty(**row.as_json()) | {"direct": row.pin.is_direct} for row in rows]
    shown = first_that_fit(items)
    return {"place": place, "items": shown, "left_out": len(items) - len(shown)}

# Handlers to which no path leads: what the pages and the commands do besides.

def install(call: Call, project: Project) -> str:
    """Record that a ``version`` runs at a ``place``; returns what is doubtful, or "". Raises Invalid."""
    fields, place = call.fields, ""
    version = fields.label("version")
    with fields.collecting():
        place = read_place(fields.value("place", any_text(NAME_LIMIT)) or "")
    fields.check()
    inventory = call.context.inventory
    inventory.record(project, Installation(place, version, seen_at=call.store.database.clock()))
    return inventory.doubt(project, version)

def latest_releases(call: Call, limit: int, since: float = 0.0, **narrowed: Any) -> list[dict[str, Any]]:
    """The newest releases of all projects of the account that were found since then, at most so many;
    ``narrowed``: as of ``Releases.latest``."""
    rows = list[dict[str, Any]]()
    for page in itertools.count(1):
        items, has_more = call.store.releases.latest(call.account_id, page, size=500, **narrowed)
        rows += [{"date": item.release.date, "provider": item.project.provider, "project": item.project.name,
                  "version": item.release.version, "cve": item.release.cve,
                  "is_prerelease": item.release.is_prerelease, "is_unread": item.is_unread}
                 for item in items if (item.found_at or 0.0) >= since]
        if not has_more or len(rows) >= limit:
            break
    return rows[:limit]

def changed_destination(call: Call, before: Destination) -> Destination:
    """A destination after what the body says of its ``name``, its options, ``tags`` and ``without_tags``, and
    its ``settings``: a list of settings and values, of which empty ones are removed. What is absent stays.
    Raises Invalid with every problem."""
    fields, tags = call.fields, call.tags
    changes = fields.options(DESTINATION_OPTIONS)
    for option, reason in FIXED_OPTIONS.get(before.kind, {}).items():
        if changes.get(option, getattr(before, option)) != getattr(before, option):
            fields.add_problem(option, f"cannot be set: {reason}")
    if fields.has("name") or not before.name:
        changes["name"] = fields.label("name")
    ids = {name: fields.ids(name, "tag", tags) for name in ("tags", "without_tags")}
    changes |= {name: tuple(several) for name, several in ids.items() if several is not None}
    if fields.has("settings") or not before.settings:
        with fields.collecting():
            changes["settings"] = changed_settings(
                before, fields.settings("settings"), call.context.settings.brand, call.context.kinds)
    fields.check()
    after = dataclasses.replace(before, **changes)
    if both := [tags[id_] for id_ in after.tags if id_ in after.without_tags]:
        raise Invalid(f"The tag {both[0]} is chosen both ways.")
    with call.context.waiting(call.account_id) as may_wait:
        # Else its address is judged when it is used, as it always is.
        for name in ("url", "homeserver_url", "server") if may_wait else ():
            address = after.settings.get(name)
            if address and (refusal := call.context.refusal_of(address, call.account.is_admin)):
                raise Invalid(Problem(name, f"cannot be used: {refusal}"))
    return after

def new_destination(account_id: str, kind: str) -> Destination:
    """A destination that is not stored yet, and has neither a name nor settings."""
    secret = make_signing_secret() if kind == "webhook" else ""
    return Destination(make_id(), account_id, kind, "", {}, secret)

def add_destination(call: Call, kind: str) -> Destination:
    """The new destination, as of ``changed_destination``."""
    return call.store.destinations.add(changed_destination(call, new_destination(call.account_id, kind)))

def update_destination(call: Call, destination: Destination) -> Destination:
    """The destination, as of ``changed_destination``."""
    after = changed_destination(call, destination)
    call.store.destinations.update(after)
    return after

Handler = Callable[..., Any]        # of a Call and what the path names; its answer, as JSON

@dataclasses.dataclass(frozen=True)
class Route:
    """What one method of a path does."""
    handler: Handler
    answer: Any         # such as it answers; a text is the name of a sample
    about: str = ""     # of a handler without a docstring

_PROJECTS: Any = {"projects": ["Project"], "total_pages": 1}
# Path below /v1 -> method -> what it does.
ROUTES: dict[str, dict[str, Route]] = {
    "projects": {"GET": Route(list_projects, _PROJECTS), "POST": Route(add_project, "Project")},
    "projects/{provider}": {"GET": Route(list_projects, _PROJECTS)},
    "projects/search": {"GET": Route(search_projects, {"q": "bottle", "projects": ["Project"]})},
    "providers": {"GET": Route(
        lambda call: {"providers": call.store.projects.providers(call.account_id)
                      if call.query.flag("added") else list(call.context.providers)},
        {"providers": ["github"]},
        "The ids of all providers; with ``added`` of those that the account has projects at.")},
    "tags": {"GET": Route(
        lambda call: {"tags": [tag.as_json() for tag in call.store.tags.of_account(call.account_id)]},
        {"tags": ["Tag"]}, "The account's tags, sorted by name."), "POST": Route(add_tag, "Tag")},
    "tags/{id}": {
        "GET": Route(lambda call, tag_id: or_404(call.store.tags.get(call.account_id, tag_id)).as_json(),
                     "Tag", "The tag. 404: the account has no such tag."),
        "POST": Route(lambda call, tag_id: or_404(
            call.store.tags.rename(call.account_id, tag_id, _tag_name(call))).as_json(), "Tag",
            "The tag with its new name. 400: no name, or another tag's. 404: no such tag."),
        "DELETE": Route(remove_tag, "Message")},
    "summary": {"GET": Route(lambda call: call.store.releases.summary(call.account_id), "Summary",
                             "The account's numbers, for a dashboard.")},
    "updates": {"GET": Route(list_updates, {"updates": ["Project"], "total_pages": 1})},
    "installations": {"POST": Route(add_installations, {"place": "nas", "items": ["Item"], "left_out": 0})},
    "auth/keys": {"GET": Route(
        lambda call: {"keys": [key.as_json() for key in call.store.keys.of_account(call.account_id)]},
        {"keys": ["Key"]},
        "The account's keys with their secrets. 401: without the account's log-in; a key is not accepted.")},
}
# The same of what follows a project.
PROJECT_ROUTES: dict[str, dict[str, Route]] = {
    "": {"GET": Route(read_project, "Project"), "POST": Route(update_project, "Project"),
         "DELETE": Route(remove_project, "Message")},
    "releases": {"GET": Route(list_releases, {"releases": ["Release"], "total_pages": 1})},
    "releases/{version}": {"GET": Route(
        lambda call, project, version: _release_json(
            project, or_404(call.store.releases.get(project, [version]))),
        "Release", "One release. 404: the project has no such version.")},
    "releases/{version}/note": {"GET": Route(
        lambda call, project, version: or_404(
            call.store.releases.note(project.source_id, version)).as_json(),
        "Note", "The note of a release. 404: it has none.")},
    "latest-release": {"GET": Route(read_latest_release, "Release")},
    "changes": {"GET": Route(read_changes, {"since": "1.0", "until": "1.2", "cve": ["CVE-2026-12345"],
                                            "releases": ["Release"], "total_pages": 1})},
}

def kind_routes(kinds: Kinds) -> dict[str, dict[str, Route]]:
    """The lists of destinations. Telegram's and Matrix' stand twice: under the contract's key, and where its
    public client looks."""
    def route(kind: str) -> Route:
        keys = [*{"telegram": ["channels"], "matrix": ["webhooks"]}.get(kind, ()),
                KIND_FIELDS[kind].rpartition("_")[2]]
        return Route(lambda call: dict.fromkeys(keys, [
            one.as_json() for one in call.store.destinations.of_account(call.account_id, kind=kind)]),
            dict.fromkeys(keys, [sample_destination(kind, kinds[kind]).as_json()]),
            "The account's destinations of a kind, under each of the keys.")
    return {KIND_FIELDS[kind].replace("_", "-"): {"GET": route(kind)} for kind in kinds}

ROUTES |= kind_routes(KINDS)

# OpenAPI: https://spec.openapis.org/oas/v3.1.1.html

_ID = "mzxw6ytboi2dqnzxgezdgnbvgy"
_PROJECT = Project(
    _ID, "", 0, "github", "bottlepy/bottle", "daily", True, True, (("^1", True), ("-rc", False)),
    "For the shop", 3, (_ID,), dict.fromkeys(KIND_FIELDS, (_ID,)),
    Health(1.77e9, 1.77e9, 1.77e9, "no answer in time", 1.77e9, True, 42), "major", installed=(Installation(
        "nas", "latest", "sha256:1f3a", "container", 1.77e9, "0.13.3", "0.13.3", "behind", "minor", "0.13.4",
        "0.14.0", 2, "2026-01-31T08:00:00Z", ("CVE-2026-12345",), True, is_rebuilt=True,
        may_follow="v2-1.0", advised_at=1.77e9, eol="2026-11-12", advisories=(Advisory(
            "CVE-2026-12345", ("GHSA-fxg5-wq6x-vr4w",), "Request smuggling", "high", "0.13.4", True,
            "possible"),)),),
    skipped_version="0.14.0", snoozed_until=1.77e9, version_answers=(("v2-1.0", True),),
    notes_source="github bottlepy/bottle")
_BARE_PROJECT = dataclasses.replace(Project.blank("", "github", "bottlepy/bottle"), id=_ID)
_BARE_RELEASE = Release("0.13.4", "2026-01-31T08:00:00Z")
_RELEASE = dataclasses.replace(
    _BARE_RELEASE, is_prerelease=True, cve=("CVE-2026-12345",), is_updated=True, has_note=True)
_PAGE = "https://github.com/bottlepy/bottle/releases"
# What answers are made of, with all members that there may be.
_SAMPLES: dict[str, Mapping[str, Any]] = {
    "Project": _PROJECT.as_json(_PAGE) | {"state": "behind"} | {
        option.name: True for option in PROJECT_OPTIONS if option.type is SWITCH},
    "Release": _RELEASE.as_json() | {"is_excluded": True, "note": Note("", "", "").as_json()},
    "Note": Note("Bottle 0.13.4", "<p>Fixes.</p>", _PAGE).as_json(), "Tag": Tag(_ID, "shop").as_json(),
    "Key": Key(_ID, "", "laptop", ("10.0.0.0/8",), "rt_...", 0.0).as_json(),
    "Item": {"provider": "dockerhub", "name": "library/postgres", "version": "16.4", "digest": "sha256:1f3a",
             "direct": True, "service": "db", "file": "compose.yaml", "outcome": "recorded",
             "reason": "built here"},
    "Summary": {"projects": 60, "new_this_week": 7, "failing": 1, "unread": 5, "waiting_deliveries": 0,
                "behind": 4, "unsure": 1, "vulnerable": 2},
    "Message": _OK | {"errors": ["Project name is required."]},
}
# The members that are always there, of those that may lack some.
_ALWAYS: dict[str, Collection[str]] = {
    "Project": _BARE_PROJECT.as_json(_PAGE), "Release": _BARE_RELEASE.as_json(), "Message": _OK,
    "Item": ("name", "outcome")}
_SPELLED = "As the provider spells it; a slash is sent as it is, or as %2F."
_IN_PATHS = {"id": "The id of a project, or of a tag.", "name": _SPELLED, "version": _SPELLED,
             "provider": "A provider's id, as GET /v1/providers lists them."}
_ABOUT = (
    "Every request but the one for this document needs a key, in the header X-Key or as the user or the "
    "password of Basic authentication. A GET counts as 1 of the requests that X-Ratelimit-Limit allows in an "
    "hour, any other as 10. An error is a Message. A method that a path does not have is answered 405, with "
    "Allow. Paths of one project may also begin with /v1/project/. Trailing slashes, and unknown members of "
    "a body, are ignored.")

def _schema_of(sample: Any, always: Collection[str] | None = None) -> dict[str, Any]:
    """The JSON Schema that a sample of an answer fits; ``always``: the members that it requires, else all."""
    if isinstance(sample, str) and sample in _SAMPLES:
        return {"$ref": f"#/components/schemas/{sample}"}
    if isinstance(sample, Mapping):
        return {"type": "object", "required": list(sample if always is None else always),
                "properties": {name: _schema_of(value, always and ()) for name, value in sample.items()}}
    if isinstance(sample, (list, tuple)):
        return {"type": "array", "items": _schema_of(sample[0], always and ())}
    return {"type": {bool: "boolean", int: "integer", str: "string"}[type(sample)]}

def _reads(context: Context, handler: Handler) -> tuple[dict[str, Any], set[str]]:
    """``(schemas by name of what a handler reads, those that it needs)``: found by giving it nothing."""
    schemas: dict[str, Any] = {}
    values = {"project": _PROJECT, "version": "", "tag_id": ""}
    named = {name: values[name] for name in inspect.signature(handler).parameters if name in values}
    try:
        handler(Call(context, "", (), {SCHEMAS: schemas}), **named)
    except Invalid as error:
        return schemas, {problem.field for problem in error.problems}
    except NotFound:
        pass
    return schemas, set()

def _operation(context: Context, method: str, path: str, routes: list[Route]) -> dict[str, Any]:
    """What one method of a path does; of more than one route where that depends on what there is."""
    about = " Or: ".join(route.about or " ".join((route.handler.__doc__ or "").split()) for route in routes)
    answers, schemas, required = [_schema_of(route.answer) for route in routes], dict[str, Any](), set[str]()
    for route in routes if method != "DELETE" and path != "openapi.json" else ():
        more, needed = _reads(context, route.handler)
        schemas, required = schemas | more, required | needed
    if len(routes) > 1:     # of one of them only
        schemas = {name: {"type": "string", "description": "Of a list, as there."} for name in schemas}
    parameters = [{"name": name, "in": "path", "required": True, "description": _IN_PATHS[name],
                   "schema": {"type": "string", "minLength": 1}} for name in re.findall("{([^{}]*)}", path)]
    found: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{method} {path}").strip("_").lower(),
        "summary": re.split(r"[.:;]( |$)", about)[0], "description": about, "parameters": parameters}
    if method == "POST":
        body = {"type": "object", "properties": schemas, "required": sorted(required)}
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    else:
        parameters += [{"name": name, "in": "query", "required": name in required, "schema": schema}
                       for name, schema in schemas.items()]
    statuses = {400: method == "POST" or bool(parameters), 401: path != "openapi.json", 404: "{" in path,
                413: method == "POST", 429: path != "openapi.json", 500: True, 503: True}
    schema = answers[0] if len(answers) == 1 else {"anyOf": answers}
    found["responses"] = {
        "200": {"description": "OK", "content": {"application/json": {"schema": schema}}},
        **{str(status): {"$ref": f"#/components/responses/{status}"}
           for status, can_come in statuses.items() if can_come}}
    if path in ("auth/keys", "openapi.json"):
        found["security"] = [{"log-in": []}] if path == "auth/keys" else []
    return found

def read_openapi(call: Call) -> dict[str, Any]:
    """This document, which needs no key."""
    context = call.context      # made of routes, of what their handlers read, and of samples
    routes: dict[str, dict[str, list[Route]]] = {}
    project = {**_SAMPLES["Project"], **{KIND_FIELDS[kind]: (_ID,) for kind in context.kinds}}
    for path, methods in (*(ROUTES | kind_routes(context.kinds)).items(), *(
            (f"{one}/{what}".rstrip("/"), methods) for what, methods in PROJECT_ROUTES.items()
            for one in ("projects/{id}", "projects/{provider}/{name}"))):
        place = "projects/{id}" if path == "projects/{provider}" else path      # which OpenAPI takes for one
        for method, route in methods.items():
            routes.setdefault(place, {}).setdefault(method, []).append(route)
    message = {"application/json": {"schema": _schema_of("Message")}}
    wait = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "releasetrack", "version": __version__, "description": _ABOUT},
        "servers": [{"url": context.settings.base_url or root_of(call.environ) or "/"}],
        "security": [{"key": []}, {"key-by-basic": []}],
        "paths": {f"/v1/{path}": {method.lower(): _operation(context, method, path, those)
                                  for method, those in several.items()}
                  for path, several in routes.items()},
        "components": {
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
                "key-by-basic": {"type": "http", "scheme": "basic", "description": "The key, as either."},
                "log-in": {"type": "http", "scheme": "basic", "description": "Email address, password."}},
            "schemas": {name: _schema_of(sample, _ALWAYS.get(name)) | {"examples": [sample]}
                        for name, sample in (_SAMPLES | {"Project": project}).items()},
            "responses": {str(status): {"description": REASONS[status], "content": message,
                                        "headers": wait if status in (429, 503) else {}}
                          for status in (400, 401, 404, 413, 429, 500, 503)}}}

ROUTES |= {"openapi.json": {"GET": Route(read_openapi, {})}}

# Authentication and rate limits

def root_of(environ: Mapping[str, Any]) -> str:
    """The path that we are mounted at, as it stands in addresses; "" at the root."""
    return quote(environ.get("SCRIPT_NAME", "").rstrip("/").encode("latin-1"))

def client_address(environ: Mapping[str, Any], trusted: tuple[str, ...]) -> str:
    """The address that a request comes from; "" when a trusted proxy gives none that can be read. Of a
    trusted proxy's X-Forwarded-For it is the last address that is not a proxy's."""
    address = environ.get("REMOTE_ADDR", "")
    if in_networks(address, trusted):
        for forwarded in reversed(environ.get("HTTP_X_FORWARDED_FOR", address).split(",")):
            address = forwarded.strip()
            if not parse_address(address) or not in_networks(address, trusted):
                break
    return address if parse_address(address) else ""

def _basic(environ: Mapping[str, Any]) -> tuple[str, str]:
    """User and password of a Basic Authorization header; ("", "") without one that can be read."""
    scheme, _, coded = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() == "basic":
        with contextlib.suppress(ValueError):       # of base64, and of UTF-8
            user, _, password = base64.b64decode(coded.strip(), validate=True).decode("utf-8").partition(":")
            return user, password
    return "", ""

def take_cost(context: Context, name: str, method: str, account_id: str = "") -> None:
    """Count a request against the hourly limit, and set the headers that say what remains. ``account_id``: of
    a key; an account's keys together have twice the limit. Raises TooMany."""
    if not context.settings.rate_limit:
        return
    cost, now, limits = 1 if method == "GET" else 10, time.monotonic(), context.rate_limits
    window = shared = limits.take(name, cost, now)
    if account_id and window.is_open:
        shared = limits.take(f"keys of {account_id}", cost, now, 2 * limits.limit)
    bottle.response.headers.update({
        "X-Ratelimit-Limit": str(window.limit), "X-Ratelimit-Reset": str(int(window.reset)),
        "X-Ratelimit-Remaining": str(min(window.remaining, shared.remaining))})
    if not shared.is_open:
        if window.is_open:
            limits.give_back(name, cost)
        raise TooMany(shared.reset, "")        # its headers say everything

def key_account(context: Context, environ: Mapping[str, Any]) -> tuple[str, str]:
    """``(key id, account id)`` of a request's key. Raises Unauthorized; TooMany after many wrong keys."""
    address = client_address(environ, context.settings.trusted_proxy)
    header = environ.get("HTTP_X_KEY")
    secrets_given = [header] if header else list(filter(None, _basic(environ)))
    for secret in secrets_given:
        name = secret_hash(secret)
        found, revision = context.answers.get(name)
        if found is None and (found := context.store.keys.by_secret(secret)):
            context.answers.put(name, found, revision)
        if found and (in_networks(address, found[2]) or not address and {*read_networks([])} <= {*found[2]}):
            context.store.keys.record_use(found[0])
            return found[0], found[1]
        if found and not address:
            raise Unauthorized("The key is not for all networks; yours is not known: see --trusted-proxy.")
    if secrets_given:
        take_cost(context, f"address {address}", environ["REQUEST_METHOD"])
    raise Unauthorized

def log_in(context: Context, environ: Mapping[str, Any], address: str, password: str) -> Account:
    """The account of an address and its password, before its second factor. Raises Unauthorized, TooMany."""
    if not address or not password:
        raise Unauthorized
    account = context.store.accounts.by_email(address)
    client = client_address(environ, context.settings.trusted_proxy)
    hashed = account.password if account else None
    if not context.throttle.check(address, client, password, hashed, time.monotonic()):
        raise Unauthorized
    assert account
    return account

def check_code(context: Context, account: Account, text: str) -> None:
    """Use a code of the account's second factor, or a recovery code. Raises Unauthorized, TooMany."""
    step = step_of_code(account.totp_secret, text, context.store.database.clock())
    hashed = secret_hash(re.sub(r"[\s-]", "", text.lower())).hex()
    if not context.throttle.check_code(
            account.id, lambda: context.store.accounts.use_code(account.id, step, hashed), time.monotonic()):
        raise Unauthorized

def _log_in_by_basic(context: Context, environ: Mapping[str, Any]) -> Account:
    """As log_in; with a second factor, the password is followed by its six digits."""
    address, password = _basic(environ)
    account = context.store.accounts.by_email(address)
    code = password[-6:] if account and account.totp_secret else ""
    account = log_in(context, environ, address, password.removesuffix(code) or password)
    if account.totp_secret:
        check_code(context, account, code)
    return account

# Paths

def path_segments(environ: Mapping[str, Any]) -> list[str]:
    """The path's segments, split before they are decoded, so that %2F stays inside one. Raises Invalid for a
    path that is not UTF-8, NotFound for one with a NUL."""
    try:
        segments = [unquote(one, errors="strict") for one in environ["releasetrack.path"].split("/")[1:]]
    except UnicodeDecodeError:
        raise Invalid("The path must be UTF-8.") from None
    if any("\0" in segment for segment in segments):
        raise NotFound
    return segments

def _find_project(call: Call, segments: Sequence[str]) -> tuple[Project, list[str]]:
    """``(project, the segments behind it)``, by an id, or a provider and the longest name. NotFound: none."""
    provider, tail = call.context.providers.get(segments[0]), list(segments[1:])
    if provider is None:
        return or_404(call.store.projects.get(call.account_id, segments[0])), tail
    ends = {}
    for end in range(1, len(tail) + 1):
        with contextlib.suppress(Invalid):
            ends[name_at(provider, "/".join(tail[:end]))[1]] = end
    project, key = or_404(call.store.projects.by_names(call.account_id, provider.id, list(ends)))
    return project, tail[ends[key]:]

def _find_in_project(call: Call, segments: Sequence[str]) -> tuple[dict[str, Route], dict[str, Any]]:
    """``find_routes`` for what follows "projects". Names and versions may contain slashes: where they end
    depends on what the account has, and the longest that there is counts. Raises NotFound."""
    project, tail = _find_project(call, segments)
    if tail[:1] == ["releases"] and len(tail) > 1:
        versions = {"/".join(tail[1:]): "releases/{version}"}
        if tail[-1] == "note" and len(tail) > 2:
            versions["/".join(tail[1:-1])] = "releases/{version}/note"
        release = or_404(call.store.releases.get(project, list(versions)))
        return PROJECT_ROUTES[versions[release.version]], {"project": project, "version": release.version}
    what = "/".join(quote(segment, safe="") for segment in tail)
    return or_404(PROJECT_ROUTES.get(what)), {"project": project}

def find_routes(call: Call) -> tuple[dict[str, Route], dict[str, Any]]:
    """``(the routes of a path by method, what the path names)``. Raises NotFound."""
    path = "/".join(quote(segment, safe="") for segment in call.segments)     # so that no name is a route
    if path in ROUTES:
        return ROUTES[path], {}
    match call.segments:
        case ["tags", tag_id]:
            return ROUTES["tags/{id}"], {"tag_id": tag_id}
        case ["projects", provider] if provider in call.context.providers:
            return ROUTES["projects/{provider}"], {"provider": provider}
        case ["projects" | "project", *rest] if 1 <= len(rest) < 50:
            return _find_in_project(call, rest)
        case [_] if path in (own := kind_routes(call.context.kinds)):
            return own[path], {}
    raise NotFound

# What the API calls a field where that is not its JSON name, by the path's first segment.
FIELD_LABELS = {"projects": {"name": "Project name", "provider": "Provider"}, "tags": {"name": "Tag name"}}

def status_message(status: int, *errors: str) -> bytes:
    found = message_of(status) | ({"errors": errors} if errors else {})
    return compact_json(found).encode("utf-8", "replace")

def error_response(error: ReleasetrackError, subject: str = "") -> bytes:
    """The Message of an error; its status and headers are set on the current response."""
    response = bottle.response
    response.status = error.status
    if isinstance(error, Unauthorized):
        response.set_header("WWW-Authenticate", 'Basic realm="releasetrack", charset="UTF-8"')
    elif isinstance(error, NotAllowed):
        response.set_header("Allow", str(error))
    elif isinstance(error, TooMany):
        response.set_header("Retry-After", str(int(error.retry_after) + 1))
    elif isinstance(error, StoreUnavailable):
        log.warning("api: %s", error)
        response.set_header("Retry-After", "5")
    labels = FIELD_LABELS.get(subject, {})
    words = [str(error)] if isinstance(error, (TooMany, Unauthorized)) and str(error) else []
    if isinstance(error, Invalid):
        words = [problem.named(labels) for problem in error.problems]
    return status_message(error.status, *words)

def _handle(call: Call) -> bytes:
    """The body of the answer; to a GET from the cache where that has it. Raises ReleasetrackError."""
    answers = call.context.answers
    method = call.environ["REQUEST_METHOD"].replace("HEAD", "GET")
    name = call.account_id, tuple(call.segments), call.environ.get("QUERY_STRING", "")
    body, revision = answers.get(name)
    if body is None or method != "GET":
        routes, names = find_routes(call)
        if method not in routes:
            raise NotAllowed(", ".join(sorted({*routes, "HEAD"} if "GET" in routes else routes)))
        body = compact_json(routes[method].handler(call, **names)).encode("utf-8", "replace")
        if method == "GET":
            if len(body) > ANSWER_LIMIT:
                raise Invalid("The answer would be larger than 1 MiB; ask for each project by its id.")
            if call.segments[0] not in ("updates", "summary"):     # a snooze ends in time
                answers.put(name, body, revision)
    return body

def answer_api(context: Context) -> bytes:
    """The answer to the current request under /v1, as JSON. Only here does an error become a status."""
    environ, response = bottle.request.environ, bottle.response
    method = environ["REQUEST_METHOD"]
    response.content_type = "application/json"
    root = root_of(environ)
    response.set_header("Link", f'<{root}/v1/openapi.json>; rel="service-desc"')       # RFC 8631
    response.set_header("Cache-Control", "no-store")
    response.set_header("X-Content-Type-Options", "nosniff")
    segments = [""]
    try:
        segments = path_segments(environ)[1:] or [""]
        if segments == ["openapi.json"]:        # there is nothing secret in it
            return _handle(Call(context, "", segments, environ | {"QUERY_STRING": root}))   # made once for it
        if segments == ["auth", "keys"]:        # no key opens them
            account_id = _log_in_by_basic(context, environ).id
            take_cost(context, f"account {account_id}", method)
        else:
            key_id, account_id = key_account(context, environ)
            take_cost(context, f"key {key_id}", method, account_id)
        return _handle(Call(context, account_id, segments, environ))
    except ReleasetrackError as error:
        return error_response(error, segments[0])
    except Exception:
        log.exception("api: %s %s failed", method, "/".join(segments[:2]))
        response.status = 500
        return status_message(500)


# == pages =====================================================================
# What a person sees in a browser: plain HTML from the templates here, one style sheet, and a small script
# for what also works without. Nothing is loaded from elsewhere. A browser is known by a random token; each
# form carries another, derived from it. Notes are untrusted HTML in a sandboxed frame.

STYLE = """\
:root {
  color-scheme: light dark; accent-color: var(--accent);
  --page: light-dark(#f5f6f8, #0f1217); --card: light-dark(#fff, #171b22);
  --text: light-dark(#1a202b, #e4e7ec); --soft: light-dark(#5a6473, #9aa4b2);
  --line: light-dark(#e2e5ea, #282e39); --edge: light-dark(#828b99, #727c8b);
  --accent: light-dark(#1d5bd0, #8ab4f8); --on-accent: light-dark(#fff, #0c1a33);
  --tint: light-dark(#e8effc, #1c283c); --rule: 1px solid var(--line);
  --bad: light-dark(#b3261e, #ffb1aa); --bad-tint: light-dark(#fdeceb, #3d1d1c);
  --warn: light-dark(#7a4a00, #f3cf86); --warn-tint: light-dark(#fcf1da, #38290d);
  --good: light-dark(#17663a, #8fdcac); --good-tint: light-dark(#e3f4e9, #14321f);
}
@media (scripting: none) { .scripted { display: none !important; } }
@media (scripting: enabled) { .unscripted { display: none !important; } }
* { box-sizing: border-box; overflow-wrap: anywhere; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: .3rem; }
html { scrollbar-gutter: stable; scroll-padding-bottom: 5rem; }
body {
  margin: 0; color: var(--text); background: var(--page); font: .9375rem/1.5 system-ui, sans-serif;
  font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%;
}
h1 { font-size: 1.375rem; line-height: 1.3; margin: 0 auto 0 0; letter-spacing: -.01em; }
h2 { font-size: 1rem; margin: 1.75rem 0 .6rem; }
main h3 { font-size: .875rem; color: var(--soft); margin: 1rem 0 .5rem; }
p, ul, ol, pre, table, blockquote { margin: 0 0 .8rem; }
a { color: var(--accent); text-underline-offset: .15em; }
small, .hint, .crumbs, .end { font-size: .8125rem; }
small, .hint, .crumbs, .end, .soft, ::placeholder { color: var(--soft); }
pre {
  background: var(--page); border: var(--rule); border-radius: .4rem; padding: .7rem; white-space: pre-wrap;
}
table, td, th { border: var(--rule); border-collapse: collapse; padding: .2rem .5rem; text-align: left; }
header { background: var(--card); border-bottom: var(--rule); }
header > div, main { max-width: 64rem; margin: 0 auto; padding: 0 1rem; }
header nav, .row, .line, .bulk { display: flex; flex-wrap: wrap; align-items: center; gap: .4rem .6rem; }
header > div { display: flex; align-items: center; gap: 1rem; min-height: 3rem; }
header nav { flex: 1; gap: .15rem; }
header nav a, .menu > summary, nav small { padding: .3rem .65rem; border-radius: .4rem; color: var(--soft); }
header nav a, .brand { text-decoration: none; white-space: nowrap; }
header nav :is(a:hover, a[aria-current], summary:hover) { color: var(--text); background: var(--page); }
header nav a[aria-current], .menu:has([aria-current]) > summary { font-weight: 600; color: var(--text); }
.brand { display: flex; align-items: center; gap: .5rem; font-weight: 700; color: var(--text); }
.brand img { width: 1.5rem; height: 1.5rem; }
.menu, .list > li { position: relative; }
.menu, .line > .end { margin-left: auto; }
.menu > summary { display: flex; align-items: center; gap: .5rem; cursor: pointer; }
.menu > summary, .button { list-style: none; }
:is(.menu > summary, .button)::-webkit-details-marker { display: none; }
.card, .list, .grid > li { background: var(--card); border: var(--rule); border-radius: .6rem; }
.menu > div {
  position: absolute; right: 0; top: 100%; z-index: 3; min-width: 14rem; margin: .4rem 0 0; padding: .4rem;
}
.menu > div, .bulk { box-shadow: 0 6px 24px rgb(0 0 0 / 14%); }
.menu > div > *, .menu button { display: block; width: 100%; margin: 0; text-align: left; }
.skip { position: fixed; top: .4rem; left: -99rem; padding: .5rem 1rem; background: var(--card); z-index: 9; }
.skip:focus { left: 1rem; }
main { padding: 1.25rem 1rem 4rem; }
main > .line { margin: 0 0 1rem; }
.crumbs { margin: 0 0 .3rem; }
.crumbs a { color: inherit; }
.narrow { max-width: 26rem; padding-top: 9vh; }
.narrow > .brand { justify-content: center; margin: 0 0 1.5rem; font-size: 1.15rem; }
input, select, textarea, button, .button { font: inherit; color: inherit; background: var(--card); }
input, select, textarea { border: 1px solid var(--edge); border-radius: .4rem; padding: .4rem .6rem; }
input:not([type=checkbox]), select, textarea { width: 100%; max-width: 36rem; min-height: 2.25rem; }
input[type=checkbox] { width: 1rem; height: 1rem; margin: 0; flex: none; }
textarea, pre, code, [readonly] { font-family: ui-monospace, Consolas, monospace; font-size: .8125rem; }
[aria-invalid] { border-color: var(--bad); }
label, legend { font-weight: 600; }
button, .button {
  display: inline-flex; align-items: center; justify-content: center; gap: .4rem; cursor: pointer;
  border: 1px solid light-dark(#c9ced6, #3a4250); border-radius: .4rem; padding: .35rem .8rem;
  font-weight: 500; text-decoration: none; color: var(--text); min-height: 2.25rem;
}
button:hover, .button:hover { border-color: var(--edge); background: var(--page); }
.main, .main:hover { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
.main:hover { filter: brightness(1.08); }
.quiet { background: none; border-color: transparent; color: var(--soft); }
.danger { color: var(--bad); }
.small, .bar .row > button { padding: .1rem .5rem; min-height: 1.75rem; font-size: .8125rem; }
[role=alert], [role=status] { padding: .7rem 1rem; border-radius: .5rem; margin: 0 0 1rem; }
[role=alert], .mark.bad { background: var(--bad-tint); color: var(--bad); }
[role=status] { background: var(--good-tint); }
.flash { display: flex; align-items: center; justify-content: space-between; gap: .6rem; }
.flash > button::before { content: "\u00d7"; }
.icon, .glyph {
  fill: none; stroke: currentColor; stroke-width: 1.5; stroke-linecap: round; stroke-linejoin: round;
  width: 1.15rem; height: 1.15rem; flex: none;
}
.icon { width: 1.25rem; height: 1.25rem; padding: .18rem; border-radius: .35rem; background: currentColor; }
.icon > use { color: #fff; }
.card { padding: 1.25rem; margin: 0 0 1.25rem; }
.card > h2:first-child, .of-note > :first-child { margin-top: 0; }
.card > :last-child, .list > li > :last-child, .field:last-child { margin-bottom: 0; }
.changes h2 { margin: 0; }
.changes h3 { font-size: 1em; margin: .6rem 0 0; }
.changes ul { margin: 0; padding-left: 1.2rem; }
.empty { text-align: center; padding: 2.6rem 1.2rem; color: var(--soft); }
.empty > .glyph { width: 3rem; height: 3rem; stroke-width: 1; color: var(--accent); margin-bottom: .8rem; }
.fold, .fold[open] > summary { margin-bottom: 1rem; }
.fold > summary { cursor: pointer; font-weight: 600; }
.card.fold { padding: .7rem 1.25rem; }
.card > .card { padding: 0; border: 0; margin: 0 0 .8rem; }
.columns { display: grid; gap: 1.25rem; grid-template-columns: minmax(0, 1fr); align-items: start; }
.list + .card, :not(.columns) > form + .card { margin-top: 1.25rem; }
.bar ~ h2 { font-size: .875rem; color: var(--soft); margin: 1.1rem 0 .4rem; }
.bar + h2 { margin-top: .3rem; }
.bar { margin: 0 0 .6rem; }
.bar .soft { margin-right: auto; }
fieldset { border: 0; padding: 0; margin: 0 0 1.5rem; min-width: 0; }
fieldset + fieldset { border-top: var(--rule); padding-top: 1.5rem; }
legend { float: left; width: 100%; padding: 0; margin: 0 0 .8rem; font-size: 1rem; }
legend + * { clear: both; }
.field { margin: 0 0 1rem; min-width: 0; }
.field > label:not(.check), .field > b { display: block; margin-bottom: .375rem; font-weight: 600; }
.field > .hint { margin-top: .3rem; max-width: 36rem; }
.field > textarea { vertical-align: top; }
.field > button { margin-bottom: .4rem; }
.field > textarea + textarea { margin-top: .4rem; }
.field > [readonly] { max-width: min(36rem, 100% - 6rem); margin-right: .4rem; }
.check { font-weight: 400; display: inline-flex; gap: .5rem; align-items: center; margin: 0 1rem .2rem 0; }
.form > .row { margin: 1.25rem -1.25rem -1.25rem; padding: .8rem 1.25rem; border-top: var(--rule); }
.filters { margin: 0 0 1rem; gap: .5rem; }
.filters .field { margin: 0; flex: 0 1 10.5rem; }
.filters .field:has([type=search]) { flex: 1 1 16rem; }
.filters input, .filters select { max-width: none; }
.filters label:not(.check) { position: absolute; width: 1px; height: 1px; clip-path: inset(50%); }
.filters .check {
  border: var(--rule); border-radius: 2rem; background: var(--card); margin: 0;
  padding: .3rem .8rem; cursor: pointer; font-size: .875rem;
}
.filters .check:has(:checked) { background: var(--tint); color: var(--accent); border-color: var(--accent); }
.mark {
  background: var(--tint); color: var(--accent); font-size: .75rem; line-height: 1.35rem; font-weight: 500;
  padding: 0 .5rem; border-radius: 1rem; max-width: 100%; text-decoration: none; white-space: nowrap;
}
.mark, .rows :is(.name, b, a.hint, summary) { overflow: hidden; text-overflow: ellipsis; }
.mark.warn { background: var(--warn-tint); color: var(--warn); }
.mark.good { background: var(--good-tint); color: var(--good); }
.mark.plain { background: none; color: var(--soft); box-shadow: inset 0 0 0 1px var(--line); }
a.mark:hover, .name:hover { text-decoration: underline; }
.marks, .row details[open] { display: contents; }
.name { font-weight: 600; color: inherit; text-decoration: none; }
.list:not(.rows) .icon + :is(.name, b) { max-width: calc(100% - 1.85rem); }
.list { list-style: none; padding: 0; }
.list > li { display: grid; grid: auto / minmax(0, 1fr) auto; column-gap: .8rem; padding: .7rem 1rem; }
.list > li + li { border-top: var(--rule); }
.list > li > * { grid-column: 1 / -1; min-width: 0; }
.list > li > .end { grid-area: 1 / -2; align-self: center; text-align: right; justify-content: end; }
.list > li:not(:has(> .end, .field)) > form { grid-column: 2; grid-row: 1 / span 2; }
.list > li > .line, .list > li:not(:has(> .end, .field)) > .hint, .updates > li > .hint { grid-column: 1; }
.list .hint { margin: .2rem 0 0; }
.list .fold > summary { margin-top: .2rem; font-weight: 400; font-size: .8125rem; color: var(--soft); }
.list .fold[open] > summary { margin-bottom: .6rem; }
.updates > li > .end { align-self: start; padding-top: .15rem; }
.updates > li > .fold { grid-row: 1; grid-column: 2; align-self: end; text-align: right; margin: 0; }
.updates > li > .fold[open] { grid-row: auto; grid-column: 1 / -1; text-align: left; }
.updates .about { flex-basis: 100%; font-size: .8125rem; }
@media (min-width: 60rem) {
  .columns { grid-template-columns: minmax(0, 1.6fr) minmax(0, 1fr); }
  .columns > section { position: sticky; top: 1rem; }
  .updates > li { grid-template-columns: minmax(0, 1fr) 7.5rem; }
  .updates > li > .line {
    display: grid; grid-template-columns: 1.25rem 14rem 12rem 1fr; gap: .1rem .6rem; align-items: start;
  }
  .updates .line > .icon + .name { max-width: 100%; }
  .updates .marks { display: flex; flex-wrap: wrap; gap: .35rem; grid-column: 4; }
  .updates .about { grid-row: 2; grid-column: 2 / -1; }
}
.grid { display: grid; gap: .6rem; background: none; border: 0; }
.grid { grid-template-columns: repeat(auto-fill, minmax(min(11rem, 45%), 1fr)); }
.grid > li { align-content: start; }
.facts > li { padding: .45rem 1rem; }
.facts b { min-width: min(12rem, 50%); font-weight: 400; color: var(--soft); }
.facts .name { order: 1; font-weight: 400; text-decoration: underline; }
.rows > li { padding: .22rem 1rem; grid-template-columns: auto 1fr max-content; align-items: start; }
.rows > li:hover, .rows > li:focus-within { background: light-dark(#fafbfc, #1b2029); }
.rows > li > .line { min-height: 1.6rem; row-gap: 0; }      /* rtl: cuts an owner, not the name behind it */
.rows :is(.name, b, a.hint, summary) { white-space: nowrap; line-height: 1.6rem; }
.rows .name { font-weight: 500; flex: 1 1 8rem; max-width: max-content; direction: rtl; text-align: left; }
.rows :is(.line > b, .mark), .filters .field:has(.check) { flex: none; }
.rows .line > b { font: 400 .8125rem ui-monospace, monospace; max-width: 100%; }
.rows > .unseen .name { font-weight: 700; }
.dot {
  position: absolute; left: .3rem; top: .8rem; padding: .25rem; border-radius: 50%; background: var(--accent);
}
.rows > li > .note, .rows > li > a.hint { grid-column: 2; margin: 0; }
.rows > li > a.hint { min-width: 6rem; }
.rows > li > .end { display: flex; align-items: center; align-self: start; gap: .5rem; min-height: 1.6rem; }
.rows .end button { width: 1.6rem; height: 1.6rem; min-height: 0; padding: 0; }
@media (hover) { .rows > li:not(:hover, :focus-within) .end button { opacity: 0; } }
.bar ~ .rows time:last-child { margin-right: 2.1rem; }
.note > summary { color: var(--soft); font-size: .8125rem; cursor: pointer; }
.rows > li > .note[open] { grid-area: 2 / 1 / auto / -1; padding: .5rem 0; }
.note iframe { width: 100%; border: var(--rule); border-radius: .4rem; resize: vertical; display: block; }
.note > p { margin: .5rem 0 0; font-size: .8125rem; }
.of-note { padding: 1rem 1.2rem; background: var(--card); max-width: 46rem; }
.of-note h1, .of-note h2, .of-note h3 { font-size: 1.05rem; margin: 1.2rem 0 .4rem; }
.of-note ul, .of-note ol { padding-left: 1.4rem; }
.of-note blockquote { padding-left: .9rem; border-left: 3px solid var(--line); color: var(--soft); }
.keys { color: inherit; margin: auto; }
.check.hint { padding: 0 1rem .3rem; }
.projects > li { grid-template-columns: minmax(0, 1fr) 6.5rem; }
.projects .line { display: grid; grid-template-columns: 1rem 1.25rem minmax(0, 2fr) 1fr 1fr; }
.projects .name { justify-self: start; max-width: 100%; }
.projects .line > b { white-space: normal; }
.projects .marks { grid-column: 5; display: flex; gap: .35rem; min-width: 0; }
.projects .hint { padding-left: 4rem; }
.bulk { position: sticky; bottom: .8rem; z-index: 2; padding: .6rem 1rem; }
.bulk fieldset { margin: 0; }
.bulk .field { display: flex; align-items: center; gap: .6rem; }
.bulk .field > label { margin: 0; flex: none; }
.bulk select, .bulk input { max-width: 16rem; }
html:not(:has([name=project]:checked)) .bulk, header nav .glyph, .of-note img { display: none; }
@media (max-width: 44rem) {
  html { scroll-padding-bottom: 7rem; }
  html:has([name=project]:checked) { scroll-padding-bottom: 16rem; }
  header nav {
    position: fixed; inset: auto 0 0; z-index: 4; display: grid; grid-auto-flow: column;
    grid-auto-columns: minmax(0, 1fr); gap: 0; background: var(--card); border-top: var(--rule);
    padding-bottom: env(safe-area-inset-bottom);
  }
  header nav a, .menu > summary {
    font-size: .75rem; display: grid; justify-items: center; gap: .1rem; padding: .4rem 0;
  }
  header nav .glyph { display: block; }
  .menu { position: static; margin: 0; }
  .menu > div { position: fixed; inset: auto .6rem calc(3.7rem + env(safe-area-inset-bottom)) auto; }
  .menu a, .menu button { font-size: .9375rem; padding: .5rem .65rem; }
  main { padding: 1rem .75rem 6rem; }
  .bulk { bottom: calc(3.8rem + env(safe-area-inset-bottom)); }
  .note iframe.tall { height: 75vh; }
  .filters .field { flex: 1 1 7rem; }
  .filters:has(.field ~ .field ~ .field ~ .field ~ .field) .field:has(select) { flex-basis: 40%; }
  .list:not(.rows, .updates) > li > .end { grid-column: 1 / -1; grid-row: auto; text-align: left; }
  .updates .mark { white-space: normal; }
  .rows > li { grid-template-columns: minmax(0, 1fr) auto; padding: .22rem 1rem .22rem 1.2rem; }
  .rows > li > .line { flex-wrap: wrap; gap: 0 .5rem; }
  .rows > li > .note { grid-column: 1 / -1; }
  .rows > li > a.hint { grid-column: 1 / -1; text-align: right; }
  .rows:not(.projects) .name { flex: 0 0 calc(100% - 1.85rem); max-width: none; }
  .projects .line { grid-template-columns: 1rem 1.25rem minmax(0, 1fr); min-width: 0; }
  .projects .line > :is(b, .marks) { grid-column: 3; }
}
"""

SCRIPT = """\
"use strict";
// What improves the pages where scripts run. All of it can be done without.
const one = (where, within = document) => within.querySelector(where);
const read = async answer => new DOMParser().parseFromString(await (await answer).text(), "text/html");
let timer, requests = 0;
addEventListener("input", event => {        // data-live: the id of what is updated while a form is filled in,
  const form = event.target.form, id = form && form.dataset.live;       // and the button that shows it
  if (!id) return;
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const mine = ++requests, data = new URLSearchParams(new FormData(form)), isGet = form.method === "get";
    if (!isGet) data.set("do", id);
    const url = form.getAttribute("action");
    const page = await read(fetch(isGet ? url + "?" + data : url, isGet ? {} : {method: "POST", body: data}));
    const found = page.getElementById(id);
    if (mine !== requests || !found) return;
    document.getElementById(id).replaceChildren(...found.childNodes);
    if (isGet) history.replaceState(null, "", "?" + data);
  }, 250);
});
async function mark(button) {               // a release as read or unread, where it stands
  const row = button.closest("li"), data = new URLSearchParams(new FormData(button.form, button));
  const page = await read(fetch(button.form.action, {method: "POST", body: data}));
  const now = one(`button[value="${CSS.escape(button.value)}"]`, page)?.closest("li");
  const wasHere = row.contains(document.activeElement);
  row.className = now ? now.className : "";
  if (now) for (const part of [".line", ".end"]) one(part, row).replaceWith(one(part, now));
  else { one(".dot", row)?.remove(); button.remove(); }
  if (wasHere) row.focus();
  document.title = page.title;
  if (one(".bar") && one(".bar", page)) one(".bar").replaceWith(one(".bar", page));
}
addEventListener("click", async event => {
  const button = event.target.closest("[data-copy], [name=read], [name=unread]");
  event.target.closest(".flash > button")?.parentElement.remove();
  const menu = one(".menu[open]");
  if (menu && !menu.contains(event.target)) menu.open = false;
  if (!button || !button.form && !button.dataset.copy || button.localName !== "button") return;
  if (!button.dataset.copy) { event.preventDefault(); mark(button); return; }
  const field = document.getElementById(button.dataset.copy);       // data-copy: its text is copied
  field.select();
  try { await navigator.clipboard.writeText(field.value); } catch { document.execCommand("copy"); }
  button.textContent = "Copied";
});
addEventListener("toggle", event => {       // a note that is opened is read
  if (event.target.matches(".unseen > .note[open]")) one("[name=read]", event.target.parentElement)?.click();
}, true);
addEventListener("change", event => {       // data-all: ticks all boxes of that name
  const name = event.target.dataset.all;
  if (name) for (const box of document.getElementsByName(name)) box.checked = event.target.checked;
});
const row = () => document.activeElement.closest(".rows > li");
function move(step) {
  const rows = [...document.querySelectorAll(".rows > li")];
  const next = rows[rows.indexOf(row()) + step] || row() || rows[0];
  if (next) { next.tabIndex = -1; next.focus(); next.scrollIntoView({block: "nearest"}); }
}
function unfold() { const note = row() && one(".note", row()); if (note) note.open = !note.open; }
function help() {
  const dialog = one(".keys") || document.createElement("dialog");
  const words = Object.entries(KEYS).map(([key, [words]]) => key.padEnd(9) + words).join("\\n");
  dialog.className = "card keys";
  dialog.innerHTML = `<h2>Keys</h2><pre>${words}</pre><form method=dialog><button>Close</button></form>`;
  document.body.append(dialog);
  dialog.showModal();
}
const KEYS = {
  j: ["next row", () => move(1)], k: ["previous row", () => move(-1)],
  o: ["open or close its notes", unfold], Enter: ["the same", unfold],
  m: ["mark as read or unread", () => row() && one("[name=read], [name=unread]", row())?.click()],
  x: ["select a project", () => row() && one("[type=checkbox]", row())?.click()],
  "/": ["search", () => one("[type=search]")?.focus()], "?": ["these keys", help],
};
addEventListener("keydown", event => {
  const {target, key} = event;
  if (key === "Escape" && one(".menu[open]")) one(".menu").open = false;
  if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, key)) return;
  if (target.closest("select, textarea, dialog, input:not([type=checkbox])")) return;
  if (key === "Enter" && target.localName !== "li") return;
  event.preventDefault();
  KEYS[key][1]();
});
"""

# Drawn in a square of 16, without filling; by the names of glyphs.
_GLYPHS = {
    "releases": "M2.5 2.5h5.3l5.7 5.7-5.3 5.3-5.7-5.7zM5.5 5.5h.01",
    "projects": "M8 1.8 13.5 5v6L8 14.2 2.5 11V5zM2.5 5 8 8l5.5-3M8 8v6.2",
    "notifications": "M8 2a4 4 0 0 0-4 4v3l-1.3 2.3h10.6L12 9V6a4 4 0 0 0-4-4zM6.5 13.8h3",
    "updates": "M8 13.5v-9M4 8.2l4-4 4 4M3 2.2h10",
    "menu": "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
    "check": "M3 8.5 6.5 12 13 4.5",
    "undo": "M8 4.5a3.5 3.5 0 1 0 0 7a3.5 3.5 0 1 0 0-7",
    "fork": "M4 2a1.5 1.5 0 1 0 0 3a1.5 1.5 0 1 0 0-3M12 2a1.5 1.5 0 1 0 0 3a1.5 1.5 0 1 0 0-3"
            "M8 11a1.5 1.5 0 1 0 0 3a1.5 1.5 0 1 0 0-3M4 5v1a2 2 0 0 0 2 2h4a2 2 0 0 0 2-2V5M8 8v3",
    "container": "M1.8 4h12.4v8.5H1.8zM5 6.2v4M8 6.2v4M11 6.2v4",
    "chat": "M2.5 3h11v8H7l-3 2.5V11H2.5z",
    "plane": "M14 2.2 2 7.4l4.6 1.8L14 2.2 9.2 13.6 6.6 9.2",
    "envelope": "M2 3.5h12v9H2zM2.3 4.5 8 9l5.7-4.5",
    "phone": "M5 1.8h6v12.4H5zM7.3 12h1.4",
    "hook": "M9.5 5v6a2.9 2.9 0 0 1-5.8 0V9.2M9.5 5a1.5 1.5 0 1 0 0-3a1.5 1.5 0 1 0 0 3",
}
ICONS = '<svg xmlns="http://www.w3.org/2000/svg">' + "".join(
    f'<symbol id="{name}" viewBox="0 0 16 16"><path d="{path}"/></symbol>'
    for name, path in _GLYPHS.items()) + "</svg>"

_GLYPH_OF = {name: glyph for glyph, names in {          # of dialects, and of kinds of destinations
    "fork": "github gitlab forgejo bitbucket git sourcehut", "container": "dockerhub oci quay",
    "chat": "slack discord hangouts_chat mattermost rocketchat matrix microsoft_teams", "plane": "telegram",
    "releases": "page feed", "hook": "webhook", "notifications": "ntfy gotify apprise", "phone": "pushover",
    "envelope": "email"}.items() for name in names.split()}

def icon_of(id_: str, title: str = "", dialect: Dialect | None = None) -> tuple[str, str, str]:
    """Glyph, colour and title of the icon of a provider of a dialect, or of a kind of destinations."""
    glyph = _GLYPH_OF.get(getattr(dialect.read, "__name__", "").rstrip("_") if dialect else id_, "projects")
    return glyph, f"hsl({zlib.crc32(id_.encode()) % 360} 48% 45%)", title

LOGO = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">\
<rect width="32" height="32" rx="8" fill="#1d5bd0"/>\
<path d="M15 7.5 23 12v8.5L15 25l-8-4.5V12zM7 12l8 4.5L23 12M15 16.5V25" fill="none" stroke="#fff" \
stroke-width="2" stroke-linejoin="round"/><circle cx="23.5" cy="9" r="5" fill="#ffb02e" stroke="#1d5bd0" \
stroke-width="2"/></svg>
"""
MANIFEST = compact_json({
    "name": "releasetrack", "short_name": "releasetrack", "start_url": "./", "scope": "./",
    "display": "standalone", "background_color": "#f5f6f8", "theme_color": "#1d5bd0",
    "icons": [{"src": "icon.svg", "sizes": "any", "type": "image/svg+xml"}]})

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'")
# Of the frame of a note, wherever it is opened: no scripts, no forms, nothing loaded but our style.
NOTE_POLICY = (
    "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'")

TEMPLATES: dict[str, bottle.SimpleTemplate] = {}        # what a template may rebase on or include, by name

def template_of(source: str, name: str = "") -> bottle.SimpleTemplate:
    """A page's template, compiled when it is first shown. One with a ``name`` is for others to include;
    nothing is looked up on disk. Each form that posts gets the token that proves it to be ours."""
    token = '<input type="hidden" name="form_token" value="{{form_token}}">'
    template = bottle.SimpleTemplate(
        re.sub(r'(<form (?=[^<>]*method="post")[^<>]*>)', rf"\1\n{token}", source))
    template.cache = TEMPLATES
    if name:
        TEMPLATES[name] = template
    return template

template_of("""\
<svg class="glyph" aria-hidden="true"><use href="{{root}}/icons.svg#{{glyph}}"/></svg>
""", "glyph")
template_of("""\
<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover">
  <title>{{"(%d) " % unread if get("unread") else ""}}{{title}} \u00b7 releasetrack</title>
  <link rel="icon" href="{{root}}/icon.svg" type="image/svg+xml">
  <link rel="manifest" href="{{root}}/manifest.webmanifest">
  <link rel="stylesheet" href="{{root}}/style.css">
  % for name, secret in get("feeds", ()):
  <link rel="alternate" type="application/atom+xml" title="{{name}}" href="{{root}}/feeds/{{secret}}.atom">
  % end
  <script src="{{root}}/script.js" defer></script>
</head>
<body>
  <a class="skip" href="#main">Skip to the content</a>
  % if account:
  <header>
    <div>
      <a class="brand" href="{{root}}/"><img src="{{root}}/icon.svg" alt="">releasetrack</a>
      <nav aria-label="Pages">
        % for path, name in links[:4]:
        <a href="{{root}}{{path}}" {{"aria-current=page" if path == here else ""}}>
          % include("glyph", glyph=name.lower())
          {{name}}</a>
        % end
        <details class="menu">
          <summary>
            % include("glyph", glyph="menu")
            Menu</summary>
          <div class="card">
            <small>{{account.name}}</small>
            % for path, name in links[4:]:
            <a href="{{root}}{{path}}" {{"aria-current=page" if path == here else ""}}>{{name}}</a>
            % end
            <form method="post" action="{{root}}/logout">
              <button class="quiet">Sign out</button>
            </form>
          </div>
        </details>
      </nav>
    </div>
  </header>
  % end
  <main id="main" {{"class=narrow" if not account else ""}}>
    % if not account:
    <p class="brand"><img src="{{root}}/icon.svg" alt="">releasetrack</p>
    % end
    % if flash:
    <p role="status" class="flash">{{flash}}
      <button type="button" class="quiet small scripted" aria-label="Close this message"></button></p>
    % end
    % if get("crumbs"):
    <p class="crumbs">
      % for path, name in crumbs:
      <a href="{{root}}{{path}}">{{name}}</a> /
      % end
    </p>
    % end
    <div class="line">
      <h1>{{title}}</h1>
      % for path, name in get("actions", ()):
      <a class="button {{"main" if path.endswith("/add") else ""}}" href="{{root}}{{path}}">{{name}}</a>
      % end
    </div>
    % for fault in get("faults", ()):
    <p role="alert">{{fault}}</p>
    % end
    % if get("needs_destination"):
    <p class="card line">Nobody is notified yet.
      <a class="button main" href="{{root}}/notifications">Choose where to notify you</a></p>
    % end
    {{!base}}
  </main>
</body>
</html>
""", "layout")
template_of("""\
% for style, text, path, why in ((*mark, "", "")[:4] for mark in marks):
% if path or text.startswith("CVE-"):
% path = path or "https://www.cve.org/CVERecord?id=" + text
<a class="mark {{style}}" rel="noreferrer" title="{{why}}"
  href="{{path if path[0] != "/" else root + path}}">{{text}}</a>
% else:
<span class="mark {{style}}" title="{{why}}">{{text}}</span>
% end
% end
""", "marks")
template_of("""\
% if get("items"):
% if items[0].box:
<label class="check hint scripted"><input type="checkbox" data-all="project"> All on this page</label>
% end
<ul class="list {{get("looks", "")}}">
  % for item in items:
  <li {{"class=unseen" if item.is_new else ""}}>
    <div class="line">
      % if item.box:
      <input type="checkbox" form="bulk" name="project" value="{{item.box}}" aria-label="{{item.name}}"
        {{"checked" if item.is_chosen else ""}}>
      % end
      % if item.is_new:
      <span class="dot" role="img" aria-label="Unread"></span>
      % end
      % if item.icon:
      % glyph, colour, title = item.icon
      <svg class="icon" color="{{colour}}" role="img" aria-label="{{title}}"
        {{"" if title else "aria-hidden=true"}}><title>{{title}}</title>
        <use href="{{root}}/icons.svg#{{glyph}}"/></svg>
      % end
      % if item.path:
      <a class="name" href="{{root}}{{item.path}}"><bdi>{{item.name}}</bdi></a>
      % end
      % if item.title:
      <b>{{item.title}}</b>
      % end
      <span class="marks">
        % include("marks", marks=item.marks)
      </span>
      % if item.about:
      <span class="soft about">{{item.about}}</span>
      % end
    </div>
    % if item.end or item.when or item.read:
    <div class="end">
      {{item.end}}
      % if item.when:
      <time datetime="{{item.when[0]}}" title="{{item.when[1]}}">{{item.when[2]}}</time>
      % end
      % if item.read:
      % what = "Mark as read" if item.is_new else "Mark as unread"
      <button class="quiet" form="marks" name="{{"read" if item.is_new else "unread"}}" value="{{item.read}}"
        title="{{what}} (m)" aria-label="{{what}}: {{item.name}} {{item.title}}">
        % include("glyph", glyph="check" if item.is_new else "undo")
      </button>
      % end
    </div>
    % end
    % for hint in filter(None, item.hints):
    <p class="hint">{{hint}}</p>
    % end
    % if item.fields or item.buttons:
    % if item.fold:
    <details class="fold" {{"open" if item.is_open or any(field.is_wrong for field in item.fields) else ""}}>
      <summary>{{item.fold}}</summary>
    % end
    % include("form", groups={"": item.fields}, hidden=(), buttons=item.own_buttons, live="", is_main=False,
    %         form_class="")
    % if item.fold:
    </details>
    % end
    % end
    % if item.answer:
    <pre tabindex="0">{{item.answer}}</pre>
    % end
    % if item.note:
    <details class="note" {{"open" if item.is_open else ""}}>
      <summary>{{item.summary}}</summary>
      <iframe sandbox="allow-popups allow-popups-to-escape-sandbox" loading="lazy"
        src="{{root}}{{item.note}}" title="Notes of {{item.title}}" height="{{item.height}}"
        {{"class=tall" if item.is_tall else ""}}>
      </iframe>
      % if item.url:
      <p><a href="{{item.url}}" rel="noreferrer">View this release {{item.at}}</a></p>
      % end
    </details>
    % elif item.url:
    <a class="hint" href="{{item.url}}" rel="noreferrer">{{item.at}}</a>
    % end
  </li>
  % end
</ul>
% elif get("empty"):
<div class="card empty">
  % if get("drawing"):
  % include("glyph", glyph=drawing)
  % end
  <p>{{empty}}</p>
  % if get("next_step"):
  <a class="button main" href="{{root}}{{next_step[0]}}">{{next_step[1]}}</a>
  % end
</div>
% elif get("none"):
<p class="soft">{{none}}</p>
% end
""", "list")
# Items of lists, and fields of forms

@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a form: what the template "fields" shows of it."""
    name: str                       # under which the form sends it, and a Problem names it
    label: str                      # a problem's sentence begins with it, up to a comma or a bracket
    value: str = ""
    type: str = "text"              # of an input; or "select", "textarea", "checks" or "buttons"
    hint: str = ""
    choices: Sequence[tuple[str, str]] = ()         # value and name: of a select or of checks
    chosen: Collection[str] = ()    # of checks: the values that are ticked
    boxes: Sequence[str] = ()       # of a textarea that stands there several times: their texts
    is_required: bool = False
    more: Mapping[str, str] = dataclasses.field(default_factory=dict)       # attributes of the control
    id: str = ""                    # of the control, where the name stands on the page twice
    proposed: Sequence[str] = ()    # of an input: texts to pick from
    is_wrong: bool = False

    @property
    def key(self) -> str:
        return self.id or self.name

    @property
    def attributes(self) -> dict[str, str]:
        """Those of the control, of whichever element it is."""
        found = {"id": self.key, "name": self.name, **self.more}
        if self.proposed:
            found["list"] = f"{self.key}-list"
        if self.is_required:
            found["required"] = "required"
        if self.is_wrong:
            found["aria-invalid"] = "true"
        if self.hint:
            found["aria-describedby"] = f"{self.key}-about"
        return found

def check_field(name: str, label: str, is_ticked: bool = False, hint: str = "") -> Field:
    return Field(name, "", type="checks", hint=hint, choices=[("yes", label)],
                 chosen=["yes"] if is_ticked else ())

def option_fields(options: Iterable[Option], values: Any, group: str = "") -> list[Field]:
    """The fields of the options that stand below a legend; ``values``: what has them."""
    return [check_field(option.name, option.label, getattr(values, option.name), option.hint)
            if option.type.widget == "switch" else
            Field(option.name, option.label, option.type.shown(getattr(values, option.name)),
                  option.type.widget, option.hint, list(option.type.choices.items()), **option.more)
            for option in options if option.group == group]

def copied_field(name: str, label: str, value: str) -> Field:
    return Field(name, label, value, more={"readonly": "readonly"})

@dataclasses.dataclass(frozen=True)
class Button:
    """What a person can do on a page, said once: it can be pressed only where it is shown."""
    label: str                      # "": nothing is shown; a script, another button or no button presses it
    act: Callable[[], Any]          # raises Invalid; what it returns is Visit.result
    done: str = ""                  # the flash message of what follows; "": this page, which says more
    sure: str = ""                  # the words of a second button, which confirms
    then: str = ""                  # the path that follows; "" for that of the page

@dataclasses.dataclass(frozen=True)
class Entry:
    """An item of a list: its line from left to right, and what stands below."""
    title: str = ""                 # in bold
    path: str = ""                  # of the page that the name leads to
    name: str = ""
    box: str = ""                   # the project that is chosen by the box before the name
    is_chosen: bool = False
    marks: Sequence[tuple[str, ...]] = ()   # looks and text of each; the path where it is a link; its title
    about: str = ""
    end: str = ""                   # at the right
    url: str = ""                   # at the provider
    fields: Sequence[Field] = ()    # of its form
    key: str = ""                   # what the item is, where several have such buttons
    buttons: Mapping[str, Button] = dataclasses.field(default_factory=dict)
    fold: str = ""                  # the form is folded below these words
    hints: Sequence[str] = ()
    answer: str = ""
    icon: tuple[str, str, str] | None = None            # as icon_of
    when: Sequence[str] = ()        # at the right, an instant as Visit.when has it
    at: str = ""                    # where ``url`` leads, such as "at GitHub"
    read: str = ""                  # what its button that marks it as read, or unread, sends
    note: str = ""                  # the path of its document, which a frame shows below its first words
    summary: str = ""
    height: int = 0                 # pixels
    is_tall: bool = False           # on a telephone
    is_open: bool = False
    is_new: bool = False

    @property
    def own_buttons(self) -> dict[str, Button]:
        """Its buttons, by names that no other item's have."""
        return {f"{self.key} {name}".lstrip(): button for name, button in self.buttons.items()}

def _cve_marks(cves: Sequence[str]) -> list[tuple[str, str]]:
    marks = [("bad", cve) for cve in cves[:3]]
    return marks + [("bad", f"and {len(cves) - 3} more")] if len(cves) > 3 else marks

def _marks(release: Release, is_excluded: bool = False) -> list[tuple[str, str]]:
    marks = [("warn", "pre-release")] if release.is_prerelease else []
    if release.step == "major":
        marks.append(("warn", "major"))
    if release.is_updated:
        marks.append(("", "updated"))
    return marks + _cve_marks(release.cve) + ([("plain", "ignored")] if is_excluded else [])

template_of("""\
% for field in fields:
% is_group = field.type == "checks"
<div class="field" {{"role=group aria-labelledby=" + field.key if is_group and field.label else ""}}>
  % if field.type == "buttons":
  % for value, name in field.choices:
  <button name="{{field.name}}" value="{{value}}">{{name}}</button>
  % end
  % elif is_group:
  % if field.label:
  <b id="{{field.key}}">{{field.label}}</b>
  % end
  % for value, name in field.choices:
  <label class="check"><input type="checkbox" name="{{field.name}}" value="{{value}}"
    {{"checked" if value in field.chosen else ""}}> {{name}}</label>
  % end
  % else:
  <label for="{{field.key}}">{{field.label}}</label>
  % tag = field.type if field.type in ("select", "textarea") else "input"
  % for at, text in enumerate(field.boxes or [field.value]):
  % another = {"id": field.key + str(at), "aria-label": field.label} if at else {}
  <{{tag}} {{"type=%s" % field.type if tag == "input" else ""}}
    % for name, value in (field.attributes | another | ({"value": text} if tag == "input" else {})).items():
    {{name}}="{{value}}"
    % end
    >
  % if tag == "select":
  % for value, name in field.choices:
  <option value="{{value}}" {{"selected" if value == text else ""}}>{{name}}</option>
  % end
  </select>
  % elif tag == "textarea":
{{text}}</textarea>
  % end
  % end
  % if field.proposed:
  <datalist id="{{field.key}}-list">
    % for text in field.proposed:
    <option value="{{text}}">
    % end
  </datalist>
  % end
  % if "readonly" in field.more:
  <button type="button" class="scripted" data-copy="{{field.key}}">Copy</button>
  % end
  % end
  % if field.hint:
  <div class="hint" id="{{field.key}}-about">{{field.hint}}</div>
  % end
</div>
% end
""", "fields")
template_of("""\
<form method="post" action="{{page}}" class="{{get("form_class", "card form")}}"
  {{"id=" + form_id if get("form_id") else ""}}
  {{"data-live=" + live if get("live") else ""}} {{"enctype=multipart/form-data" if get("has_file") else ""}}>
  % for name, value in get("hidden", ()):
  <input type="hidden" name="{{name}}" value="{{value}}">
  % end
  % for legend, fields in (get("groups") or {"": get("fields", ())}).items():
  % if fields and legend and get("is_folded"):
  <details class="fold">
    <summary>{{legend}}</summary>
    % include("fields")
  </details>
  % elif fields:
  <fieldset>
    % if legend:
    <legend>{{legend}}</legend>
    % end
    % include("fields")
  </fieldset>
  % end
  % end
  <div class="row">
    % if get("note"):
    <span class="soft">{{note}}</span>
    % end
    % for at, (name, button) in enumerate(buttons.items()):
    % if button.sure:
    <details>
      <summary class="button">{{button.label}}</summary>
      <button name="do" value="{{name}}" class="danger">{{button.sure}}</button>
    </details>
    % elif button.label:
    <button name="do" value="{{name}}" {{"class=main" if at == 0 and get("is_main", True) else ""}}>
      {{button.label}}</button>
    % end
    % end
  </div>
</form>
""", "form")

# Who is there, and what they sent

class SeeOther(Exception):
    """Redirect to another page of ours, which begins with the ``flash`` message."""
    def __init__(self, path: str, flash: str = "") -> None:
        super().__init__(path)
        self.path, self.flash = path, flash

_SESSION, _FLASH = "releasetrack", "releasetrack-flash"         # cookies

@dataclasses.dataclass(frozen=True)
class Page:
    """What a handler shows: a template, the path that the navigation marks as the current one, and values. Of
    its "sections" each may have "items", and a form of "fields", or "groups" of them, with "buttons"."""
    template: bottle.SimpleTemplate
    here: str
    values: dict[str, Any]

    @property
    def sections(self) -> list[dict[str, Any]]:
        return [*self.values.get("above", ()), *self.values["sections"]]

    @property
    def buttons(self) -> dict[str, Button]:
        """All that can be pressed, by the value that the form sends."""
        forms = [section.get("buttons", {}) for section in self.sections]
        forms += [item.own_buttons for section in self.sections for item in section.get("items", ())]
        return {name: button for buttons in forms for name, button in buttons.items()}

class Visit:
    """One request of a browser: who is there, what was sent, and how it is answered."""
    def __init__(self, context: Context, environ: Mapping[str, Any]) -> None:
        self.context, self.environ, self.store = context, environ, context.store
        self.settings, self.providers, self.kinds = context.settings, context.providers, context.kinds
        self.root, self.path = root_of(environ), environ["releasetrack.path"]
        self._token = self._cookie(_SESSION)
        self.session = self.store.sessions.find(self._token) if self._token else None
        self.is_post, self.form = environ["REQUEST_METHOD"] == "POST", Form(environ)
        self.pressed = self.form.text("do")     # the button that was
        self.problems: list[Problem] = []       # of what the form asked for
        self.result: Any = None                 # what the button that was pressed has returned
        self._labels: dict[str, str] = {}       # of the page's fields, by what problems call them

    @functools.cached_property
    def _is_secure(self) -> bool:
        """Whether the browser uses TLS, as far as we can know."""
        if self.settings.base_url:
            return self.settings.base_url.startswith("https:")
        scheme = self.environ["wsgi.url_scheme"]
        if in_networks(self.environ.get("REMOTE_ADDR", ""), self.settings.trusted_proxy):
            scheme = self.environ.get("HTTP_X_FORWARDED_PROTO", scheme)
        return scheme == "https"

    @functools.cached_property
    def account(self) -> Account:
        """Who is signed in. Raises NotFound."""
        return or_404(self.store.accounts.get(self.session.account_id) if self.session else None)

    def _header(self, name: str) -> str:
        value = self.environ.get(f"HTTP_{name.upper().replace('-', '_')}", "")
        return value.encode("latin-1").decode("utf-8", "surrogateescape").strip()

    @functools.cached_property
    def proxy_account(self) -> Account | None:
        """Whom the trusted proxy signs in by --auth-header; it may be created. Raises Forbidden."""
        header, accounts = self.settings.auth_header, self.store.accounts
        user = self._header(header) if header else ""
        if not user or not in_networks(self.environ.get("REMOTE_ADDR", ""), self.settings.trusted_proxy):
            return None
        address = user if "@" in user else self._header("Remote-Email")
        if not MAIL_ADDRESS.fullmatch(address):
            raise Forbidden(f"The proxy signs you in as {user[:99]!r}, which is no e-mail address. It has to "
                            f"send one, once, in the header {header} or in Remote-Email.")
        if self.settings.auth_accounts == "create" and not accounts.by_email(address):
            name = self._header("Remote-Name")[:NAME_LIMIT]
            with contextlib.suppress(Invalid):      # another request has created it meanwhile
                made = accounts.add("user", address, name if name and name.isprintable() else address,
                                    hash_password(secrets.token_urlsafe(32)), False, machine_time_zone())
                log.info("account %s: created, as the proxy signs it in", made.id)
        account = accounts.by_email(address)
        if account is None:
            raise Forbidden(f"There is no account {address} here. An administrator can create it, also by "
                            f"'account add {address}' on the server, or set --auth-accounts create.")
        return account

    @functools.cached_property
    def tags(self) -> dict[str, str]:
        return {tag.id: tag.name for tag in self.store.tags.of_account(self.account.id)}

    @property
    def destinations(self) -> list[Destination]:
        return self.store.destinations.of_account(self.account.id)

    @property
    def has_destination(self) -> bool:
        """Whether the account has one to which something is sent."""
        return any(one.kind != "email" or self.settings.smtp_url for one in self.destinations)

    @functools.cached_property
    def query(self) -> Query:
        return Query.of(self.environ)

    @property
    def form_token(self) -> str:
        """What each form carries and no other site knows: derived from the browser's token."""
        return hmac.new(self._token.encode(), b"form", hashlib.sha256).hexdigest()

    @property
    def base(self) -> str:
        scheme = "https" if self._is_secure else "http"
        return self.settings.base_url or f"{scheme}://{self.environ.get('HTTP_HOST', '')}{self.root}"

    def _cookie_name(self, name: str) -> str:
        """With the port, as cookies are a host's, and a prefix that keeps others from setting it, if allowed:
        https://developer.mozilla.org/docs/Web/HTTP/Reference/Headers/Set-Cookie#cookie_prefixes"""
        port = re.match(r"https?://[^/]*:([0-9]{1,5})(?:/|$)", self.base)
        name += f"-{port[1]}" if port and port[1] not in ("80", "443") else ""
        return f"__Host-{name}" if self._is_secure and not self.root else name

    def _cookie(self, name: str) -> str:
        """The value of a cookie. Not by http.cookies, which a crafted header keeps busy for seconds."""
        match = re.search(rf"(?:^|;) *{self._cookie_name(name)}=([A-Za-z0-9_.%~-]{{1,4000}})(?:;|$)",
                          self.environ.get("HTTP_COOKIE", ""))
        return match[1] if match else ""

    def set_cookie(self, name: str, value: str, seconds: float | None = None) -> None:
        """Set a cookie that scripts do not see and other sites do not send."""
        lasting = "" if seconds is None else f"; Max-Age={seconds:.0f}"
        secure = "; Secure" if self._is_secure else ""
        bottle.response.add_header("Set-Cookie", f"{self._cookie_name(name)}={value}; Path={self.root}/;"
                                                 f" HttpOnly; SameSite=Lax{lasting}{secure}")

    def authorize(self, who: str) -> None:
        """Raise SeeOther or Forbidden unless the page is for who is there, and a form is one of ours."""
        proxied = self.proxy_account if who != "anyone" else None
        if proxied and (not self.session or self.session.account_id != proxied.id):
            self.sign_in(proxied)
        if who != "anyone" and not self.session:
            if self.is_post:
                raise SeeOther("/login", "Sign in first; nothing was changed.")
            raise SeeOther(f"/login?{urllib.parse.urlencode({'next': self.link()})}")
        if self.is_post:
            self._check_form()
        if who == "admin" and not self.account.is_admin:
            raise Forbidden("This page is for administrators.")

    def _check_form(self) -> None:
        hosts = {self.environ.get("HTTP_HOST", ""), urlsplit(self.settings.base_url).netloc} - {""}
        sent_from = self.environ.get("HTTP_SEC_FETCH_SITE", "same-origin")      # not sent over plain HTTP
        if self.environ.get("HTTP_ORIGIN", "").partition("://")[2] not in hosts or sent_from != "same-origin":
            raise Forbidden("The form did not come from a page of ours. If releasetrack is reached by "
                            "another address than it listens on, set --base-url to that.")
        given = self.form.text("form_token").encode()
        if not self._token or not hmac.compare_digest(given, self.form_token.encode()):
            raise Forbidden("The form is too old, or cookies are refused. Go back, refresh the page and try "
                            "again.")

    def sign_in(self, account: Account) -> None:
        """Make a session, under a token that nobody has seen before; this browser's last one ends."""
        if self.session:
            self.store.sessions.end(self.session.account_id, self.session.id)
        self._token = secrets.token_urlsafe(32)
        client = client_address(self.environ, self.settings.trusted_proxy)
        self.store.sessions.add(account.id, self._token, client, self.environ.get("HTTP_USER_AGENT", ""))
        self.session = self.store.sessions.find(self._token)
        self.set_cookie(_SESSION, self._token, SESSION_MAX_AGE)

    def require_password(self) -> None:
        """Raise SeeOther, to ask for the password, unless it was typed in ten minutes or a proxy signs in."""
        if not self.proxy_account and self.session and (
                self.store.database.clock() - self.session.confirmed_at > CONFIRMED):
            raise SeeOther(f"/confirm?{urllib.parse.urlencode({'next': self.path})}")

    def obey(self, page: Page) -> None:
        """Do what the button does that was pressed; what is wrong, or comes of it, is kept for the page."""
        try:
            button = page.buttons.get(self.pressed)
            if button is None:
                raise Invalid("This button is no longer there. Look again at what the page shows now.")
            self.result = button.act()
            if button.done:
                raise SeeOther(button.then or self.link(), button.done)
        except Invalid as error:
            bottle.response.status, self.problems = 400, error.problems

    def _filled(self, fields: Iterable[Field]) -> list[Field]:
        named = {field.name.rpartition(".")[2]: field for field in fields}
        self._labels |= {name: re.split(r", | \(", field.label)[0] for name, field in named.items()}
        wrong = {problem.field.partition("[")[0] for problem in self.problems}
        return [dataclasses.replace(
            field, value="" if field.type == "password" else self.form.text(field.name),
            chosen=self.form.texts(field.name), is_wrong=field.is_wrong or name in wrong)
            for name, field in named.items()]

    def _fill(self, page: Page) -> None:
        """Show the form that was sent with what was typed, and what is wrong with it."""
        for section in page.sections:
            if self.pressed in section.get("buttons", ()):
                section |= {"fields": self._filled(section.get("fields", ())), "groups": {
                    legend: self._filled(fields) for legend, fields in section.get("groups", {}).items()}}
            section["items"] = [
                dataclasses.replace(item, fields=self._filled(item.fields))
                if self.pressed in item.own_buttons else item for item in section.get("items", ())]

    def filter(self, name: str, label: str, choices: Mapping[str, str]) -> Field:
        value = self.query.text(name) or ""
        return Field(name, label, value, type="select", choices=[
            ("", f"All {label.lower()}s"), *choices.items()])

    def moment(self, at: float | datetime.datetime | None) -> str:
        if at is None:
            return "never"
        local = at if isinstance(at, datetime.datetime) else datetime.datetime.fromtimestamp(
            at, self.account.zone)
        return f"{local.day} {local:%b %Y, %H:%M}"

    def when(self, at: float | datetime.datetime | None) -> tuple[str, str, str]:
        """An instant for an Entry: for machines, by the account's clock, and how long ago."""
        if at is None:
            return "", "", "never"
        seconds = at.timestamp() if isinstance(at, datetime.datetime) else at
        return timestamp(seconds), self.moment(at), relative_time(seconds, self.store.database.clock())

    def icon_of(self, provider_id: str) -> tuple[str, str, str]:
        provider = self.providers.get(provider_id)
        return icon_of(provider_id, self.title_of(provider_id), provider.dialect if provider else None)

    def page_of(self, project: Project, version: str | None = None) -> str:
        """Where the provider shows a project's releases, or one of them; "" where the provider is gone."""
        provider = self.providers.get(project.provider)
        return page_of(provider, project.name, version) if provider else ""

    def title_of(self, provider_id: str) -> str:
        return self.providers[provider_id].title if provider_id in self.providers else provider_id

    def label_of(self, kind: str, name: str) -> str:
        """A destination in a list: "Slack team", or its name alone where that is the kind's."""
        title = self.kinds[kind].title
        return name if name == title else f"{title} {name}"

    def instant_of(self, release: Release) -> datetime.datetime:
        out_at = datetime.datetime.fromisoformat((release.date or "")[:19] + "+00:00")
        with contextlib.suppress(OverflowError):        # an end of the calendar, which stands for no date
            return out_at.astimezone(self.account.zone)
        return out_at

    def show(self, template: bottle.SimpleTemplate, here: str = "", **values: Any) -> Page:
        return Page(template, here, {"sections": [values], **values})

    def render(self, page: Page) -> str:
        bottle.response.headers.update(PAGE_HEADERS)
        if not self._token:
            self._token = secrets.token_urlsafe(32)
            self.set_cookie(_SESSION, self._token)
        flash = unquote(self._cookie(_FLASH))[:300]
        if flash:
            self.set_cookie(_FLASH, "", 0)
        if self.problems or self.result is not None:
            self._fill(page)
        account = self.account if self.session else None
        links = [*_LINKS, *(_ADMIN_LINKS if account and account.is_admin else ())]
        return page.template.render({
            "root": self.root, "account": account, "form_token": self.form_token, "flash": flash,
            "page": self.root + self.link(), "links": links, "here": page.here, "moment": self.moment,
            "faults": [problem.named(self._labels) for problem in self.problems], **page.values})

    def link(self, **changes: int | str) -> str:
        """The path of this page with its query, some of its parameters changed, or with "" left out."""
        given = dict(urllib.parse.parse_qsl(self.environ.get("QUERY_STRING", "")))
        query = urllib.parse.urlencode({
            name: value for name, value in (given | changes).items() if value != ""})
        return f"{self.path}?{query}" if query else self.path

    def feeds(self, tag_id: str | None) -> list[tuple[str, str]]:
        """``(title, secret)`` of the feeds that readers find on a page: of all projects, and of a tag."""
        tag = self.store.tags.get(self.account.id, tag_id) if tag_id else None
        return [("Releases", self.account.feed_secret),
                *([(f"Releases: {tag.name}", tag.feed_secret)] if tag else ())]

    def pager(self, has_more: bool, number: int, last: int = 0) -> list[tuple[str, str, str]]:
        """Links to the previous and next page; where ``last`` is known, also to the first and the last."""
        steps = [("first", "First page", 1, last and number > 2),
                 ("prev", "Previous page", number - 1, number > 1),
                 ("next", "Next page", number + 1, has_more),
                 ("last", f"Last page, {last}", last, last > number + 1)]
        return [(rel, name, self.link(page=at)) for rel, name, at, is_there in steps if is_there]

    def paged(self, items: Sequence[Entry]) -> dict[str, Any]:
        """The items of the page of a list that the query names, and the pager."""
        number = self.query.page()
        self.query.check()
        return {"items": items[(number - 1) * PAGE_SIZE:number * PAGE_SIZE],
                "pages": self.pager(number * PAGE_SIZE < len(items), number)}

_LINKS = (("/updates", "Updates"), ("/", "Releases"), ("/projects", "Projects"),
          ("/notifications", "Notifications"),
          ("/tags", "Tags"), ("/keys", "API keys"), ("/account", "Account"))
_ADMIN_LINKS = (("/accounts", "Accounts"), ("/settings", "Settings"), ("/status", "Status"))

PAGE_HEADERS = {"Content-Security-Policy": CONTENT_POLICY, "X-Content-Type-Options": "nosniff",
                "Referrer-Policy": "same-origin", "Cache-Control": "no-store", "X-Robots-Tag": "noindex"}

PageHandler = Callable[..., Any]        # of a Visit and what the path names; again when a button was obeyed
PAGES: dict[str, tuple[PageHandler, str, tuple[str, ...]]] = {}     # path -> handler, who may see it, methods

def page_at(path: str, who: str = "account",
            methods: str = "GET POST") -> Callable[[PageHandler], PageHandler]:
    """Enter a page. ``who``: "anyone", "account" (who is signed in) or "admin"."""
    def enter(handler: PageHandler) -> PageHandler:
        PAGES[path] = handler, who, tuple(methods.split())
        return handler
    return enter

_ERROR_TEXTS = {
    404: "This page does not exist, or what it showed was deleted.",
    500: "Something went wrong. The log of releasetrack has the details.",
    503: "The store cannot be read or written: another process holds it, or the disk is full. "
         "Try again soon.",
}

def error_page(context: Context, environ: dict[str, Any], status: int, text: str = "") -> str:
    """The page of an error, with the navigation of whoever is signed in."""
    bottle.response.status = status
    bottle.response.headers.update(PAGE_HEADERS)
    title = "Page not found" if status == 404 else REASONS.get(status, "Error")
    values: dict[str, Any] = {"title": title, "faults": (), "sections": [
        {"empty": _ERROR_TEXTS.get(status, text) or title, "next_step": ("/", "Go to Releases")}]}
    with contextlib.suppress(ReleasetrackError):        # the store itself may be what fails
        visit = Visit(context, environ | {"REQUEST_METHOD": "GET"})    # a form was read before
        if visit.session:
            return visit.render(visit.show(PAGE, **values))
    return PAGE.render(root=root_of(environ), account=None, flash="", **values)

def answer_page(context: Context, path: str, **names: str) -> Any:
    """The answer to the current request of a page. Only here does an error become a page."""
    handler, who, methods = PAGES[path]
    environ = bottle.request.environ
    try:
        visit = Visit(context, environ)
        visit.authorize(who)
        page = handler(visit, **names)
        if visit.is_post and "GET" in methods:
            visit.obey(page)
            page = handler(visit, **names)
        return visit.render(page) if isinstance(page, Page) else page
    except SeeOther as leaving:
        if leaving.flash:
            visit.set_cookie(_FLASH, quote(shortened(leaving.flash, 300), safe=""), 60)
        bottle.response.status = 303
        bottle.response.headers.update({"Location": visit.root + leaving.path, "Cache-Control": "no-store"})
        return ""
    except ReleasetrackError as error:
        error_response(error)
        return error_page(context, environ, error.status, str(error))

# First run, signing in

_NEW_PASSWORD = {"autocomplete": "new-password", "minlength": "8"}
_CURRENT_PASSWORD = {"autocomplete": "current-password"}
_COMMAND = "python releasetrack.py account"
_EMAIL_FIELD = Field("email", "Email address", type="email", is_required=True,
                     more={"autocomplete": "username", "autofocus": "autofocus"})
_PASSWORD_FIELD = Field("password", "Password", type="password", is_required=True, more=_CURRENT_PASSWORD)
_CODE_FIELD = Field("code", "Code of your authenticator app", is_required=True, hint="Or a recovery code.",
                    more={"autocomplete": "one-time-code", "autofocus": "autofocus"})

template_of("""\
% if get("fold"):
<details class="fold card" {{"open" if get("is_open") else ""}}>
  <summary>{{fold}}</summary>
% end
% if get("heading"):
% tag = get("tag", "h2")
<{{tag}} {{"id=" + anchor if get("anchor") else ""}}>{{heading}}</{{tag}}>
% end
% if get("intro"):
<p>{{intro}}</p>
% end
% include("list")
% if get("pages"):
<nav class="row" aria-label="More">
  % for rel, name, path in pages:
  <a class="button" rel="{{rel}}" href="{{root}}{{path}}">{{name}}</a>
  % end
</nav>
% end
% if get("buttons"):
% include("form")
% elif get("fields"):
% include("fields")
% end
% if get("hint"):
<p class="hint">{{hint}}</p>
% end
% if get("text"):
<pre tabindex="0">{{text}}</pre>
% end
% if get("fold"):
</details>
% end
""", "section")
# What a form makes of what is typed, also before it is sent: its attribute data-live names this.
template_of("""\
<section class="card" id="{{id}}" aria-live="polite">
  <h2>{{name}}</h2>
  % if is_live and faults:
  <p class="danger">{{" ".join(faults)}}</p>
  % end
  % for values in parts:
  % include("section", **values)
  % end
</section>
""", "live")
# Sections one below the other: those that it is given, else one of all that it is given; filters narrow them.
PAGE = template_of("""\
% rebase("layout")
<div id="above">
  % for values in get("above", ()):
  % include(values.get("template", "section"), **values)
  % end
</div>
% if get("filters"):
<form class="row filters" method="get" action="{{page.partition("?")[0]}}" data-live="found" role="search">
  % include("fields", fields=filters)
  <button class="unscripted">Search</button>
</form>
% end
<div id="found" {{"class=" + look if get("look") else ""}}>
  % for values in sections:
  % include(values.get("template", "section"), **values)
  % end
</div>
""")

@page_at("/setup", "anyone")
def setup_page(visit: Visit) -> Page:
    """The first account, for who has the link that was printed at the start."""
    if visit.store.accounts.count():
        raise SeeOther("/login")
    given = visit.form.text("token") if visit.is_post else visit.query.text("token") or ""
    is_open = hmac.compare_digest(given.encode(), visit.store.config.setup_token().encode())

    if visit.is_post and not is_open:
        raise Forbidden("This is not the setup link. Open the one in the server's terminal or log.")

    def make() -> None:
        address = read_email(visit.form.text("email"))
        account = visit.store.accounts.add(
            "user", address, address, _new_password(visit, "password"), is_admin=True,
            zone=machine_time_zone(), as_first=True)
        visit.sign_in(account)
        raise SeeOther("/projects/add", "You're in. Add your first project.")
    if not is_open:
        return visit.show(
            PAGE, title="Welcome", hint="Open the setup link from the server's terminal or log. Or create an "
            f"account on the server: {_COMMAND} add you@example.org",
            faults=["This link has expired. Use the newest one in the log."] if given else [])
    return visit.show(
        PAGE, title="Welcome", intro="Create your admin account.", hidden=[("token", given)],
        buttons={"make": Button("Create account", make)}, fields=[
            _EMAIL_FIELD, Field("password", "Password", type="password", is_required=True,
                                hint="At least 8 characters.", more=_NEW_PASSWORD)])

def _new_password(visit: Visit, name: str) -> str:
    """The hash of a password that the form sent. Raises Invalid."""
    return hash_password(read_password(visit.form.typed(name), name))

@page_at("/login", "anyone")
def login_page(visit: Visit) -> Page:
    """Make a session of an address and a password, then the second factor's code. 429: too many tries."""
    path, form = _next_path(visit), visit.form
    pending = visit.result or form.text("pending")

    def enter() -> str:
        try:
            account = log_in(visit.context, visit.environ, form.text("email"), form.typed("password"))
        except Unauthorized:
            raise Invalid("Wrong email address or password.") from None
        if account.totp_secret:
            return sign(f"{account.id}.{visit.store.database.clock() + CODE_WAIT:.0f}",
                        visit.context.throttle.secret + account.signing_key, "pending")
        visit.sign_in(account)
        raise SeeOther(path)

    def enter_code() -> None:
        id_, _, expires = pending.rpartition(".")[0].partition(".")
        account = visit.store.accounts.get(id_)
        if (not account or not signed(pending, visit.context.throttle.secret + account.signing_key, "pending")
                or not account.totp_secret or float(expires) < visit.store.database.clock()):
            raise SeeOther("/login", "That took too long. Sign in again.")
        try:
            check_code(visit.context, account, form.text("code"))
        except Unauthorized:
            raise Invalid(Problem("code", "is wrong, or was used before")) from None
        visit.sign_in(account)
        raise SeeOther(path)
    if not visit.is_post and not visit.store.accounts.count():
        raise SeeOther("/setup")
    if not visit.is_post and (visit.session or visit.proxy_account):
        raise SeeOther(path)
    if pending:
        return visit.show(
            PAGE, title="Sign in", hidden=[("pending", pending)], fields=[_CODE_FIELD],
            buttons={"verify": Button("Sign in", enter_code)},
            hint=f"No phone and no recovery code? On the server, run {_COMMAND} recover you@example.org")
    return visit.show(
        PAGE, title="Sign in", fields=[_EMAIL_FIELD, _PASSWORD_FIELD], buttons={
            "enter": Button("Sign in", enter), "": Button("", enter)},      # as some password managers do
        hint=f"Forgot your password? On the server, run {_COMMAND} passwd you@example.org")

def _next_path(visit: Visit) -> str:
    """The path of ours that the query names; the first page for all that could lead elsewhere."""
    text = visit.query.text("next") or ""
    return text if re.fullmatch(r"/(?![/\\\\])[!-~]{0,1500}", text) else "/"

@page_at("/logout", "anyone", "POST")
def logout_page(visit: Visit) -> Page:
    if visit.session:
        visit.store.sessions.end(visit.session.account_id, visit.session.id)
    visit.set_cookie(_SESSION, "", 0)
    if visit.proxy_account:
        visit.session = None
        return visit.show(PAGE, title="Signed out", empty="The proxy in front of releasetrack signs you in, "
                          "and does so again with the next page. Sign out there.")
    raise SeeOther("/login", "You are signed out.")

@page_at("/confirm")
def confirm_page(visit: Visit) -> Page:
    """Ask for the password again, before secrets are shown."""
    confirm = Button("Confirm", lambda: _confirm_password(visit, "password"),
                     "Password confirmed for ten minutes. Go on where you were.", then=_next_path(visit))
    return visit.show(
        PAGE, title="Confirm your password", buttons={"confirm": confirm},
        intro="Secrets are behind your password. Once typed, it counts for ten minutes.",
        fields=[dataclasses.replace(_PASSWORD_FIELD, more=_CURRENT_PASSWORD | {"autofocus": "autofocus"})])

# Releases

@page_at("/")
def releases_page(visit: Visit) -> Page:
    """The latest releases of all projects, newest first; and what of them is read."""
    query, store, account_id = visit.query, visit.store, visit.account.id
    text, tag, provider = query.text("q"), query.text("tag"), query.text("provider")
    is_security, is_unread, number = query.flag("security"), query.flag("unread"), query.page()
    query.check()

    is_narrowed = any((text, tag, provider, is_security, is_unread))
    found, has_more = store.releases.latest(
        account_id, number, provider, tag, text, is_security, is_unread=is_unread)
    listed = [(one.project.id, one.release.version) for one in found if one.is_unread]

    def mark() -> None:
        for name in ("read", "unread"):
            project_id, _, version = visit.form.text(name).partition(" ")
            store.releases.mark(account_id, [(project_id, version)], name == "read")
        raise SeeOther(visit.link())
    unread = store.releases.unread(account_id)
    count, mark_all = (f"{unread:,} unread", "Mark all as read") if unread else ("", "")
    if is_narrowed:
        count = f"{(number - 1) * PAGE_SIZE + len(found):,}{'+' if has_more else ''} found" if found else ""
        mark_all = f"Mark these {len(listed)} as read" if listed else ""
    buttons = {"": Button("", mark), "all": Button(
        mark_all, lambda: store.releases.mark(account_id, listed if is_narrowed else None),
        "Marked as read." if is_narrowed else "All releases are marked as read.")}
    return _show_lists(
        visit, "/", "Releases", [{"heading": day, "items": items, "looks": "rows"}
                                 for day, items in _release_items(visit, found).items()],
        pages=visit.pager(has_more, number), actions=_ADD_PROJECTS, drawing="releases",
        needs_destination=bool(found) and not visit.has_destination, feeds=visit.feeds(tag), unread=unread,
        bar={"note": count, "buttons": buttons, "form_class": "bar", "form_id": "marks", "is_main": False},
        **_filters(visit, "Search releases and notes", "No release found.",
                   check_field("unread", "Unread", is_unread),
                   check_field("security", "Security", is_security)))

_TO_PROJECTS = [("/projects", "Projects")]
_ADD_PROJECTS = [("/projects/add", "Add projects")]

def _show_lists(visit: Visit, here: str, title: str, lists: Sequence[dict[str, Any]], nothing: str,
                pages: Sequence[tuple[str, str, str]], bar: Mapping[str, Any] | None = None,
                below: Sequence[dict[str, Any]] = (), **values: Any) -> Page:
    """A page of lists that can be narrowed; ``nothing``: what it says where they are empty; ``bar``: what
    stands above them."""
    top = [bar] if bar else []
    end = {"pages": pages, "empty": "" if any(one["items"] for one in lists) else nothing}
    return visit.show(PAGE, here, title=title, sections=[*top, *lists, end, *below], **values)

def _filters(visit: Visit, label: str, nothing: str, *others: Field) -> dict[str, Any]:
    """What narrows a list of projects or releases, and what an empty list shows."""
    providers = {one: visit.title_of(one) for one in visit.store.projects.providers(visit.account.id)}
    return {**_search(visit, label, visit.filter("tag", "Tag", visit.tags),
                      visit.filter("provider", "Provider", providers), *others),
            "nothing": nothing if providers else
            "Nothing is tracked yet. Add projects, images and packages; their releases appear here.",
            "next_step": ("/projects/add", "Add your first project") if not providers else None}

def _search(visit: Visit, label: str, *others: Field) -> dict[str, Any]:
    """Fields that narrow a list, a box for words first."""
    return {"filters": [Field("q", label, visit.query.text("q") or "", type="search",
                              more={"placeholder": label}), *others]}

def _release_item(visit: Visit, project: Project, release: Release, note: Note | None, **more: Any) -> Entry:
    """A release, and its note by the first ``NOTE_PREVIEW_CHARS`` characters of its message."""
    link = note.url if note and project.notes_source and not note.message else ""
    if note and not link:
        lines = [line.lstrip("#*->=_` \t").rstrip() for line in plain_text(note.message).split("\n")]
        more |= {"note": f"/projects/{project.id}/note?version={quote(release.version, safe='')}",
                 "summary": shortened(" \u00b7 ".join(filter(None, lines)) or note.title or "Notes", 220),
                 "height": min(960, 56 + sum(28 + 28 * (len(line) // 75) if line else 12 for line in lines)),
                 "is_tall": sum(1 + len(line) // 35 for line in lines) > 8}
    return Entry(
        release.version, marks=_marks(release, is_excluded(project, release)),
        when=visit.when(visit.instant_of(release)), url=link or visit.page_of(project, release.version),
        at="release notes" if link else f"at {visit.title_of(project.provider)}", **more)

def _release_items(visit: Visit, found: Sequence[ReleaseListItem]) -> dict[str, list[Entry]]:
    today = datetime.datetime.fromtimestamp(visit.store.database.clock(), visit.account.zone).date()
    names = {today: "Today", today - datetime.timedelta(days=1): "Yesterday"}
    days: dict[str, list[Entry]] = {}
    for one in found:
        project, release, out_at = one.project, one.release, visit.instant_of(one.release)
        day = names.get(out_at.date(), f"{out_at:%A}, {out_at.day} {out_at:%B %Y}")
        days.setdefault(day, []).append(_release_item(
            visit, project, release, one.note, path=f"/projects/{project.id}", name=project.name,
            icon=visit.icon_of(project.provider), is_new=one.is_unread,
            read=f"{project.id} {release.version}" if one.is_recent else ""))
    return days

NOTE_PAGE = template_of("""\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>{{title}}</title>
<base target="_blank">
<link rel="stylesheet" href="{{root}}/style.css">
<body class="of-note">
""")
_ELEMENTS_THAT_REACH_OUT = re.compile(r"<(?=/?(?:link|meta|base|i?frame)\b)", re.IGNORECASE)

@page_at("/projects/<project_id>/note", methods="GET")
def note_page(visit: Visit, project_id: str) -> str:
    """The document of a note's frame. What could dial a host, which no policy prevents, is shown as text."""
    project, version = _project_at(visit, project_id), visit.query.text("version") or ""
    note = or_404(visit.store.releases.note(project.source_id, version))
    bottle.response.headers.update(PAGE_HEADERS | {
        "Content-Security-Policy": NOTE_POLICY, "X-DNS-Prefetch-Control": "off"})
    message = _ELEMENTS_THAT_REACH_OUT.sub("&lt;", note.message)
    return NOTE_PAGE.render(title=note.title, root=visit.root) + message

# Updates

_FROM_FILE = [("/projects/import", "Read from a file")]

@page_at("/updates")
def updates_page(visit: Visit) -> Page:
    """What is installed and vulnerable, ended or behind, the most urgent first, and what is unsure."""
    query, projects, account_id = visit.query, visit.store.projects, visit.account.id
    text, place, tag = (query.text(name) for name in ("q", "place", "tag"))
    number, is_vulnerable = query.page(), query.flag("vulnerable")
    query.check()
    ids = projects.updates(account_id, place, tag, text, VULNERABLE if is_vulnerable else 0)
    places = projects.places(account_id)
    groups = {name: [_update_item(visit, project) for project in projects.of_ids(
        account_id, those[(number - 1) * PAGE_SIZE:number * PAGE_SIZE], place) if project.installed]
              for name, those in ids.items()}
    is_narrowed = bool(text or place or tag or is_vulnerable)
    counts = projects.count_updates(account_id) if not is_narrowed else {
        "found": len(ids["behind"]) + len(ids["unsure"])}
    nothing = "Nothing that matches is behind." if is_narrowed else (
        "Nothing that is compared is behind." if ids["unknown"] else "Everything is up to date.")
    narrowing = _search(visit, "Search", visit.filter("place", "Place", {one: one for one in places if one}),
                        visit.filter("tag", "Tag", visit.tags),
                        check_field("vulnerable", "Vulnerable", is_vulnerable))
    if not places:
        narrowing["filters"] = ()
        nothing = "Which versions do you run? Say it on a project's page, or have releasetrack read your " \
                  "compose files, lock files or containers: see the command scan."
    folded = {"quiet": "Skipped or snoozed", "unknown": "Not compared", "current": "Up to date"}
    return _show_lists(
        visit, "/updates", "Updates", [
            {"items": groups["behind"], "looks": "updates"},
            {"heading": "Unsure" if groups["unsure"] else "", "items": groups["unsure"], "looks": "updates"}],
        below=[{"fold": f"{words}: {len(ids[name])}", "items": groups[name], "looks": "updates"}
               for name, words in folded.items() if groups[name]],
        pages=visit.pager(number * PAGE_SIZE < max(map(len, ids.values())), number),
        bar={"hint": ", ".join(f"{count} {state}" for state, count in counts.items()
                               if count or state in ("behind", "found")) if places else ""},
        nothing="" if ids["behind"] or ids["unsure"] else nothing, drawing="updates",
        actions=_FROM_FILE if places else [], next_step=None if places else _FROM_FILE[0], **narrowing)

def _doubt(one: Installation) -> list[str]:
    return [f"{one.may_follow} may follow what you run; the tags may have changed."] if one.may_follow else []

def _risk_marks(project: Project) -> list[tuple[str, ...]]:
    """What is vulnerable, and what is near its end of life, of what is installed."""
    flaws, marks = project.vulnerabilities, list[tuple[str, ...]]()
    if flaws:
        ended, words = sum(bool(one.is_ended) for one in flaws), flaws[0].severity or f"{len(flaws)} known"
        words += f", update ends {ended} of {len(flaws)}" if ended else ""
        marks.append(("bad" if flaws[0].rank > 3 else "warn", f"vulnerable: {words}", "",
                      f"By osv.dev: {', '.join(map(str, flaws))}"))
    ends = {one.eol: one.eol_days for one in project.installed if one.eol_days is not None}
    return marks + [("bad" if days <= 0 else "warn", f"end of life {day}".replace(" ended", ""), "",
                     "By endoflife.date") for day, days in ends.items() if days <= 90]

def _advice_hints(visit: Visit, project: Project, one: Installation) -> list[str]:
    """What is known of the flaws of a version; and where nothing is, why."""
    provider, outage = visit.providers.get(project.provider), visit.context.outages.get("vulnerabilities")
    package = osv_package(provider, project.name) if provider else None
    if not visit.settings.osv_url:
        return ["Vulnerabilities: nobody is asked, as the setting osv_url says."]
    if not package:
        return [f"Vulnerabilities: not covered. osv.dev knows nothing of {visit.title_of(project.provider)}."]
    if not one.advised_at:
        return [f"Vulnerabilities: could not be asked about: {outage}" if outage else
                "Vulnerabilities: not asked about yet, or the version is none of the releases."]
    ends = {True: ". The update ends it.", False: ". The update does not end it.", None: "."}
    asked, is_sure = visit.when(one.advised_at)[2], package[0] != "GIT"
    more = [f"The worst {ADVISORY_LIMIT} are listed."] if len(one.advisories) == ADVISORY_LIMIT else []
    return [f"{each} {each.title}".rstrip(" .") + ends[each.is_ended] for each in one.advisories] + more or [
        f"osv.dev, asked {asked}, knows of no vulnerability of {one.shown}" + (
            "." if is_sure else "; of repositories it knows little.")]

def _installation_item(visit: Visit, project: Project, one: Installation) -> Entry:
    marks, hints = list[tuple[str, ...]](), list[str]()
    if one.state == "behind":
        marks.append(("warn" if one.step == "major" else "", f"{one.step}, {one.behind} behind"))
        marks += [("plain", "another base")] if one.is_other_base else []
        marks += _cve_marks(one.cve)
    if one.is_rebuilt or one.state in ("new build", "unsure"):
        marks.append(("", "new build" if one.state != "unsure" else "unsure"))
    hints += _doubt(one)
    if one.state in ("unknown", "not compared") and not project.health.succeeded_at:
        hints.append(_error_of(visit, project) or "It is compared after the first check.")
    elif one.state == "unknown" and visit.context.inventory.rules_of(project).is_moving(one.version):
        hints.append("This tag names no version; its digest decides, and you are notified of new builds.")
    elif one.state == "not compared":
        hints.append("It is not compared yet.")
    elif one.state == "unknown":
        hints.append(f"No release is like {one.shown}, so it cannot be compared.")
    newer = f" \u2192 {one.newest}" if one.newest else ""
    newer += f" or {one.line}" if one.line not in ("", one.newest) else ""
    changes = f"/projects/{project.id}/changes?since={quote(one.compared_as, safe='')}"
    marks += [("", "What changed", changes)] if one.newest else []
    return Entry(
        one.shown + newer, marks=marks, hints=hints, key=project.id,
        end="since" if one.since else "", when=visit.when(instant_of(one.since)) if one.since else ())

def _update_buttons(visit: Visit, project: Project, one: Installation) -> dict[str, Button]:
    """What a person may say of an installation: which version or build it has now, or still, or nothing."""
    store, now = visit.store, visit.store.database.clock()
    name = f"{project.name} {one.shown}" + (f" on {one.place}" if one.place else "")
    who, verb = (one.place, "runs") if one.place else ("I", "run")

    def replace(after: Callable[[], list[Installation]]) -> None:
        visit.context.inventory.change(project.account_id, [project.id], lambda found: itertools.chain(*(
            after() if mine.identity == one.identity else [mine] for mine in found.installed)))

    def updated(version: str) -> list[Installation]:
        return [after_update(one, version, store.releases.known(project.source_id), now)]
    is_rebuilt, buttons = one.is_rebuilt or one.state == "new build", dict[str, Button]()
    for version in (*filter(None, (one.newest, one.line)), *([""] if is_rebuilt else [])):
        words = f"{who} {verb} {version or 'the new build'} now"
        after = functools.partial(updated, version)
        buttons[f"updated {one.id} {version}".rstrip()] = Button(
            words, functools.partial(replace, after), f"Updated {name}: {words}.")
    if one.previous:
        words = f"{who} still {verb} {one.previous if one.previous != one.version else 'the old build'}"
        buttons[f"undo {one.id}"] = Button(
            words, functools.partial(replace, lambda: [before_update(one, now)]), f"Updated {name}: {words}.")
    forget = Button("Forget", functools.partial(replace, list), f"Forgot {name}.")
    return buttons | {f"forget {one.id}": forget}

def _answer_buttons(visit: Visit, project: Project, version: str, *choices: bool | None) -> dict[str, Button]:
    def answer(does: bool | None) -> None:
        answers = [one for one in project.version_answers if one[0] != version]
        answers += [] if does is None else [(version, does)]
        visit.store.projects.update(project.account_id, [project.id], {
            "version_answers": with_answers(answers, visit.context.inventory.rules_of(project))})
        visit.context.inventory.compare(project.account_id, [project.id])
    saved = f"Saved: {version} {{}} what you run of {project.name}. Its page can undo this."
    return {f"{name} {version}": Button(label, functools.partial(answer, does), done)
            for does, name, label, done in (
                (True, "follows", "It does", saved.format("follows")),
                (False, "follows-not", "It does not", saved.format("does not follow")),
                (None, "follows-unknown", "Undo", f"Undone: {version}.")) if version and does in choices}

def _setting_button(visit: Visit, project: Project, label: str, done: str, **settings: Any) -> Button:
    update = functools.partial(visit.store.projects.update, project.account_id, [project.id], settings)
    return Button(label, update, done)

def _show_again(visit: Visit, project: Project, label: str) -> Button:
    done = f"Updates of {project.name} show again."
    return _setting_button(visit, project, label, done, skipped_version="", snoozed_until=None)

def _update_item(visit: Visit, project: Project) -> Entry:
    one, now = project.most_urgent, visit.store.database.clock()
    assert one
    state = project.state(now)
    urgent = sorted(project.installed, key=lambda each: -each.urgency)[:3]      # the rest on its page
    doubtful = next((each for each in (one, *urgent) if each.may_follow), one)      # the first of them
    buttons, hints = _answer_buttons(visit, project, doubtful.may_follow, True, False), list[str]()
    for each in urgent:
        buttons |= _update_buttons(visit, project, each)
        del buttons[f"forget {each.id}"]
    versions = [version for version in (one.newest, one.may_follow) if version]
    skipped = [version for version in versions if project.skips(version)]
    if project.is_open and state != "snoozed":
        setting = functools.partial(_setting_button, visit, project)
        buttons |= {f"skip {version}": setting(
            f"Skip {version}", f"Skipped {project.name} {version}.", skipped_version=version)
            for version in versions if version not in skipped}
        buttons |= {f"snooze {days}": setting(
            f"Snooze {words}", f"Snoozed {project.name} for {words}.", snoozed_until=now + days * DAY)
            for days, words in ((1, "a day"), (7, "a week"), (30, "a month"))}
    elif state == "snoozed":
        hints = [f"Snoozed until {visit.moment(project.snoozed_until)}."]
    hints += _doubt(doubtful) if doubtful is not one else []
    if skipped or state == "snoozed":
        hints += [f"{version} is skipped." for version in skipped]
        buttons |= {"undo": _show_again(visit, project, "Show again")}
    names = [f"{each.place or 'here'}: {each.shown}" for each in project.installed]
    about = one.place or "here" if len(names) == 1 else ", ".join(names[:4]) + (
        f" and {len(names) - 4} more" if len(names) > 4 else "")
    item = _installation_item(visit, project, one)
    return dataclasses.replace(
        item, path=f"/projects/{project.id}", name=project.name, icon=visit.icon_of(project.provider),
        marks=[*_risk_marks(project), *item.marks],
        about=about, hints=[*hints, *item.hints], buttons=buttons, fold="Actions" if len(buttons) > 1 else "",
        is_open=state == "unsure")

template_of("""\
<section class="card changes">
  <div class="line">
    <h2>{{release.version}}</h2>
    % include("marks", marks=marks)
    <a class="end" href="{{url}}" rel="noreferrer">{{release.date[:10]}}</a>
  </div>
  % for kind, lines in blocks:
  % if kind == "code":
<pre>{{"\\n".join(line.text for line in lines)}}</pre>
  % else:
  % outer, tag = {"heading": ("div", "h3"), "item": ("ul", "li")}.get(kind, ("div", "p"))
  <{{outer}}>
  % for line in lines:
<{{tag}}>\\\\
  % for run in line.runs:
  % look = "code" if run.is_code else "b" if run.is_bold else "span"
  % if run.href:
<a href="{{run.href}}" rel="noreferrer">{{run.text}}</a>\\\\
  % else:
<{{look}}>{{run.text}}</{{look}}>\\\\
  % end
  % end
</{{tag}}>
  % end
  </{{outer}}>
  % end
  % end
  % if hint:
  <p class="soft">{{hint}}</p>
  % end
</section>
""", "changes")

def _note_blocks(visit: Visit, releases: Sequence[Release],
                 ) -> Iterator[tuple[Release, list[tuple[str, list[Line]]], str]]:
    """Of each release its note, as blocks of lines of one kind, and a hint where it says nothing new or is
    cut; all together fit on a page. Raises Invalid."""
    said, lines_left, bytes_left = dict[str, str](), CHANGES_LINES, 640 * KIB
    messages = [release.note.message if release.note else "" for release in releases]
    try:
        read = visit.context.helper.run(changes_in_notes, messages, wait=Helper.SECONDS)
    except ValueError as error:
        raise Invalid(f"A page of these notes {error}.") from None
    for release, message, said_there in zip(releases, messages, read):
        found, lines, hint = [Line(kind, [Run(*run) for run in runs]) for kind, runs in said_there], [], ""
        for line in found[:lines_left]:
            bytes_left -= sum(len(html.escape(run.text + run.href).encode()) + 50 for run in line.runs) + 20
            if bytes_left < 0:
                break
            lines.append(line)
        lines_left -= len(lines)
        if len(lines) < len(found) or len(message) > CHANGES_NOTE:
            hint = "The rest of this note is at the release."
        elif message and not lines and said:
            hint = f"Same notes as {said[message]}." if message in said else "Nothing that is not said above."
        said |= {message: release.version} if message and message not in said else {}
        yield release, [(kind, list(group)) for kind, group in itertools.groupby(
            lines, key=lambda line: line.kind)], hint

@page_at("/projects/<project_id>/changes", methods="GET")
def changes_page(visit: Visit, project_id: str) -> Page:
    """The notes of all releases after the version that is installed, newest first."""
    project, query = _project_at(visit, project_id), visit.query
    since, until, number = query.text("since"), query.text("until"), query.page()
    query.check()
    if not since and not project.installed:
        raise SeeOther(f"/projects/{project.id}", "Say first which version you run.")
    sections, without = list[dict[str, Any]](), list[str]()
    with visit.context.turn(f"changes {visit.account.id}", at_once=1):
        span, found, total = visit.context.inventory.changes(project, since, until, number)
        listed = span.unfolded(found)
        for release, blocks, hint in _note_blocks(visit, listed):
            texts = (line.text for _, lines in blocks for line in lines)
            marks = [("warn", "breaking changes")] if says_breaking(texts) else []
            marks += [("warn", "major")] if release.step == "major" else []
            marks += _cve_marks(release.cve)
            if blocks or marks or hint:
                url = release.note.url if release.note else ""
                sections.append({
                    "template": "changes", "release": release, "blocks": blocks, "marks": marks, "hint": hint,
                    "url": url or visit.page_of(project, release.version)})
            else:
                without.append(release.version)
    count = len(span.unfolded(span.releases))
    words = f"{pluralize(count, 'release')} after {span.since}, up to {span.until}."
    words += f" The newest {CHANGES_LIMIT:,} are listed." if len(span.releases) > CHANGES_LIMIT else ""
    nothing = f"No release is newer than {span.since}" + (f", up to {until}." if until else ".")
    folded = [one.version for one in found if one not in listed]
    sections += [{"hint": f"{name}: {', '.join(versions)}"} for name, versions in (
        ("Without notes", without), ("Pre-releases", folded)) if versions]
    return visit.show(
        PAGE, "/updates", title=f"What changed in {project.name}",
        crumbs=[("/updates", "Updates"), (f"/projects/{project.id}", project.name)], sections=[
            {"intro": words if count else nothing, "items": [
                Entry("Fixes", marks=[("bad", cve) for cve in span.cve])] if span.cve else ()},
            *sections, {"pages": visit.pager(number < total, number, total)}])

# Projects

_SORTS = {"updated": "Newest release", "updated-reverse": "Oldest release", "added": "Last added",
          "added-reverse": "First added", "name": "Name", "name-reverse": "Name, Z to A"}
_BULK = {"looks": "rows projects", "form_class": "card bulk", "form_id": "bulk", "is_main": False}

@page_at("/projects")
def projects_page(visit: Visit) -> Page:
    store, account_id, query = visit.store, visit.account.id, visit.query
    text, tag, provider = query.text("q"), query.text("tag"), query.text("provider")
    number, is_failing = query.page(), query.flag("failing")
    sort = query.one_of("sort", *_SORTS)
    query.check()
    order, _, reverse = sort.partition("-")
    projects, count = store.projects.page(
        account_id, "latest" if order == "updated" else order, bool(reverse), provider, tag, number,
        text=text, is_failing=is_failing, size=PAGE_SIZE)
    if number > 1 and not projects:      # those of the last page were removed
        raise SeeOther(visit.link(page=""))
    failing = store.projects.page(account_id, "name", False, is_failing=True, size=0)[1]

    def button(label: str, act: Callable[[Project], None], done: str, sure: str = "") -> Button:
        return Button(label, functools.partial(_for_each_selected, visit, act, done), sure=sure)
    choices = [("", "No change"), *((one, one) for one in _possible_changes(visit))]
    items = {**_BULK, "items": _project_items(visit, projects), "fields": [
        Field("change", "With selected", type="select", choices=choices)], "buttons": {
        "change": button("Apply", functools.partial(_change_project, visit), "Changed"),
        "check": button("Check now", lambda one: store.projects.check_soon(account_id, [one.id]), "Checking"),
        "remove": button("Remove", lambda one: store.projects.remove(one.id), "Removed",
                         "Remove those selected")}}
    return _show_lists(
        visit, "/projects", "Projects", [items] if projects else [],
        actions=_ADD_PROJECTS,
        drawing="projects", feeds=visit.feeds(tag),
        needs_destination=bool(projects) and not visit.has_destination,
        bar={"hint": pluralize(count, "project") + (
            f", {failing} failing" if failing and not is_failing else "")},
        pages=visit.pager(number * PAGE_SIZE < count, number),
        **_filters(visit, "Search projects", "No matching projects.",
                   Field("sort", "Sort", sort, "select", choices=list(_SORTS.items())),
                   check_field("failing", "Failing", is_failing)))

def _project_items(visit: Visit, projects: Sequence[Project]) -> list[Entry]:
    newest = visit.store.releases.newest(visit.account.id, {project.source_id for project in projects})
    items, chosen = [], visit.form.texts("project")
    for project in projects:
        error, release = _error_of(visit, project), newest.get(project.source_id)
        marks = [("bad", "failing")] if error else []
        if not error and not project.health.succeeded_at:
            marks.append(("", "first check"))
        if project.is_muted:
            marks.append(("plain", "muted"))
        if release and is_excluded(project, release):
            marks.append(("plain", "ignored"))
        marks += sorted(("plain", name) for id_, name in visit.tags.items() if id_ in project.tags)
        items.append(Entry(
            release.version if release else "", path=f"/projects/{project.id}", name=project.name,
            icon=visit.icon_of(project.provider), box=project.id, is_chosen=project.id in chosen, marks=marks,
            hints=[shortened(error, 200)], end="" if release else "no release yet",
            when=visit.when(visit.instant_of(release)) if release else ()))
    return items

def _error_of(visit: Visit, project: Project) -> str:
    if project.provider not in visit.providers:
        return unknown_provider(project.provider)
    return project.health.error or ""

def _possible_changes(visit: Visit) -> Mapping[str, Callable[[Project], dict[str, Any]]]:
    """What can be changed of several projects at once, by its words: what returns a member of the project
    after the change, as JSON."""
    def listed(field: str, id_: str, is_added: bool, project: Project) -> dict[str, Any]:
        others = [one for one in project.as_json("").get(field, ()) if one != id_]
        return {field: [*others, id_] if is_added else others}
    tags = [(name, "tags", id_) for id_, name in visit.tags.items()]
    sent = [(visit.label_of(one.kind, one.name), KIND_FIELDS[one.kind], one.id) for one in visit.destinations]
    lists = {f"{words}: {name}": functools.partial(listed, field, id_, is_added)
             for words, those, is_added in (
                 ("Add a tag", tags, True), ("Remove a tag", tags, False),
                 ("Notify only this destination", sent, True),
                 ("No longer only this destination", sent, False)) for name, field, id_ in those}
    return lists | {f"{option.label}: {_sentence(words or text)}": functools.partial(
        lambda given, _: given, {option.name: option.type.from_text(text)})
        for option in PROJECT_OPTIONS for text, words in option.type.choices.items()}

def _change_project(visit: Visit, project: Project) -> None:
    change = _possible_changes(visit).get(visit.form.text("change"))
    if change is None:
        raise Invalid("Choose what to change.")
    visit.store.projects.update(project.account_id, [project.id], project_settings(
        Fields(change(project)), visit.context.inventory, project))

def _for_each_selected(visit: Visit, act: Callable[[Project], None], done: str) -> None:
    """Do something with each project that is selected. Raises Invalid, SeeOther."""
    chosen = [project for id_ in visit.form.texts("project")
              if (project := visit.store.projects.get(visit.account.id, id_))]
    if not chosen:
        raise Invalid("Select at least one project.")
    for project in chosen:
        act(project)
    visit.context.inventory.compare(visit.account.id, [project.id for project in chosen])
    count = chosen[0].name if len(chosen) == 1 else f"{len(chosen)} projects"
    raise SeeOther(visit.link(), f"{done}: {count}.")

@page_at("/projects/add")
def add_page(visit: Visit) -> Page:
    """Track projects, by addresses or names. Lines that cannot be added stay in the form, with the reason."""
    added, tracked, wrong = list[Project](), list[str](), dict[str, Invalid]()
    choices = dict[str, list[Provider]]()       # by line, the providers that it may be of
    do, lines = visit.pressed, visit.form.lines("name")
    if do == "add" and any(
            re.search(mark, visit.form.text("name"), re.MULTILINE) for *_, mark in READERS[:-1]):
        return import_page(visit)
    added, tracked, wrong, choices = visit.result = visit.result or (added, tracked, wrong, choices)
    picked = do.partition(":")[2]       # the line of which a provider was chosen: "npm:react"
    button = do if picked in lines else "add"

    def add() -> None:
        _add_lines(visit, [button if line == picked else line for line in lines], added, tracked, wrong)
        choices.update((line, likely) for line, fault in wrong.items()
                       if fault.problems[0].field == "provider"
                       and (likely := likely_providers(visit.providers, line)))
        if wrong:
            raise Invalid(*dict.fromkeys(_line_problem(line, problem, line in choices)
                                         for line, fault in wrong.items() for problem in fault.problems))
        next_ = "" if visit.has_destination else " Next: choose where to notify you."
        if len(added) == 1 and not tracked:
            raise SeeOther(f"/projects/{added[0].id}", f"Now tracking {added[0].name}.{next_}")
        said = _added_summary([one.name for one in added], tracked)
        raise SeeOther("/projects?sort=added", f"{said}.{next_}")
    fields = [
        Field("name", "Projects (one per line)", type="textarea", is_required=True, is_wrong=bool(wrong),
              boxes=["\n".join(wrong)] if wrong else (),
              hint="owner/repo of GitHub, the address of a project's page, an image, a purl, or a name. Or "
              "the text of a compose file, a lock file or an SBOM.",
              more={"rows": "5", "autofocus": "autofocus",
                    "placeholder": "bottlepy/bottle\nhttps://hub.docker.com/_/nginx"}),
        Field("provider", "Provider", type="select", choices=[
            ("", "Detect automatically"),
            *((id_, f"{one.title}: {one.example or one.dialect.form}")
              for id_, one in visit.providers.items())]),
        *_tag_fields(visit, "tag", "Tags")]
    groups = {"": fields, **{f"Where is {line}?": [Field("do", "", type="buttons", choices=[
        (f"{one.id}:{line}", one.title) for one in likely])] for line, likely in choices.items()}}
    form = {"groups": groups, "buttons": {
        "add": Button("Add", add), **({button: Button("", add)} if button != "add" else {})}}
    at_github = visit.providers.get("github")
    done = {"flash": f"{_added_summary([one.name for one in added], tracked)}."} if added or tracked else {}
    token: dict[str, Any] = {}
    if at_github and not provider_token(visit.settings, at_github):
        link, hint = "", "Ask an administrator to save it in Settings."
        if visit.account.is_admin:
            link, hint = "/settings#tokens", "Or set GITHUB_TOKEN for serve."
        token = {"intro": "Without a token GitHub is read from its feeds, which list the newest ten releases "
                 "and tags, and do not mark pre-releases.", "items": [Entry(
                     path=link, name="Save a token in Settings", hints=[hint],
                     url="https://github.com/settings/tokens/new", at="Create a token without any scope")]}
    return visit.show(PAGE, "/projects", title="Add projects", crumbs=_TO_PROJECTS, actions=_FROM_FILE,
                      sections=[form, token], **done)

_PREVIEW_LIMIT = 500            # rows

def _place_field(hint: str, proposed: Sequence[str] = ()) -> Field:
    return Field("place", "Place (optional)", hint=hint, proposed=proposed,
                 more={"placeholder": "nas", "maxlength": str(TAG_LIMIT)})

@page_at("/projects/import")
def import_page(visit: Visit) -> Page:
    """Track what a file pins, with the versions as installed, after a preview."""
    form, ticked = visit.form, visit.form.texts("project")
    file = next((name for name in ("file", "text", "name") if form.text(name)), "")

    def found_in(pins: Iterable[Pin]) -> list[ScanRow]:
        tracked = visit.store.projects.ids_by_key(visit.account.id)
        return scan_rows(visit.providers, tracked, [("", pin) for pin in pins])

    def pins_of(name: str) -> list[Pin]:
        try:
            return [pin_of_item(dict(json.loads(text))) for text in form.texts(name)]
        except (ValueError, TypeError, RecursionError):
            raise Invalid("Preview the file again.") from None
    rows: list[ScanRow] = visit.result or found_in(pins_of("row"))

    def preview() -> list[ScanRow]:
        if not file:
            raise Invalid("Choose a file, or paste its text.")
        name = form.text("file.name") if file == "file" else ""
        try:
            found = found_in(visit.context.pins_in(visit.account.id, name, form.text(file)))
        except ValueError as error:
            raise Invalid(f"{name or 'The text'} {error}.") from None
        if not any(row.provider for row in found):
            visit.result = found
            raise Invalid(f"{name or 'The text'} pins no version of a project that can be tracked.")
        return found

    items = {item.box: item for item in sorted(
        (_scan_item(visit, row, ticked if form.texts("row") else None) for row in rows if row.provider),
        key=lambda item: not item.is_chosen)}
    unknown = [Entry(row.name, about=row.reason) for row in rows if not row.provider][:_PREVIEW_LIMIT]
    sections: list[dict[str, Any]] = [{
        "page": f"{visit.root}/projects/import", "has_file": True, "fields": [
            Field("file", "File", type="file",
                  hint="compose.yaml, package-lock.json, Cargo.lock, an SBOM, OPML and others, up to 1 MiB."),
            Field("text", "Or its text", type="textarea",
                  more={"rows": "8", "placeholder": "services:\n  db:\n    image: postgres:16.4"})],
        "buttons": {"preview": Button("Preview", preview), "add": Button("", preview)}}]
    if items:
        count = f"{pluralize(len(items), 'version')} found" + (
            f"; the first {_PREVIEW_LIMIT} are shown, for more use the command scan"
            if len(items) > _PREVIEW_LIMIT else "")
        shown = list(items.values())[:_PREVIEW_LIMIT]
        sections = [{"intro": count}, {
            **_BULK, "items": shown, "hidden": [("row", item.box) for item in shown],
            "page": f"{visit.root}/projects/import", "is_main": True,
            "fields": [dataclasses.replace(_place_field(""), value=form.text("place"))],
            "buttons": {"record": Button(
                "Track those selected", lambda: _record_pins(visit, pins_of("project")))}}]
    if unknown:
        sections.append({"fold": f"Not recognized: {len(unknown)}", "items": unknown, "looks": "rows",
                         "is_open": not items})
    return visit.show(PAGE, "/projects", title="Read from a file", crumbs=_TO_PROJECTS, sections=sections,
                      actions=[("/projects/import", "Read another file")] if items else [])

def _record_pins(visit: Visit, pins: Sequence[Pin]) -> None:
    """Record what a person has selected of a file, and track its projects. Raises Invalid, SeeOther."""
    place = read_place(visit.form.text("place"))
    if not pins:
        raise Invalid("Select at least one.")
    with visit.context.turn(f"report of {visit.account.id}", at_once=1):
        done = visit.context.inventory.record_scan(
            visit.account, place, "manual", [("", pin) for pin in pins], is_tracking=True, is_whole=False)
    count = Counter(row.outcome for row in done)
    left_out = next((f" {row.name}: {row.reason}" for row in done
                     if row.outcome in ("tracked", "not tracked") and row.reason), "")
    raise SeeOther("/updates", f"Recorded {pluralize(count['recorded'] + count['added'], 'version')}, "
                               f"added {pluralize(count['added'], 'project')}.{left_out}")

def _scan_item(visit: Visit, row: ScanRow, ticked: Collection[str] | None) -> Entry:
    """A row of the preview: ticked where it was before, or at first where it is needed directly."""
    assert row.provider
    box = compact_json({"provider": row.provider.id, "name": row.name, "version": row.pin.version,
                        "digest": row.pin.digest, "direct": row.pin.is_direct})
    marks = [("plain", "tracked already")] if row.outcome == "tracked" else []
    marks += [("plain", "indirect")] if not row.pin.is_direct else []
    return Entry(row.pin.version or row.pin.digest[:19], name=row.name, path=f"/projects?q={quote(row.name)}",
                 box=box, is_chosen=row.pin.is_direct if ticked is None else box in ticked, marks=marks,
                 icon=visit.icon_of(row.provider.id), end=row.pin.service, hints=[row.reason])

def _added_summary(added: Sequence[str], tracked: Sequence[str]) -> str:
    """What became of the lines; the names of a few."""
    return ", ".join(f"{len(names)} {words}" + (f": {', '.join(names)}" if len(names) < 4 else "")
                     for words, names in (("added", added), ("already tracked", tracked)) if names)

def _line_problem(line: str, problem: Problem, has_choices: bool) -> Problem:
    """What prevents a line, as a sentence of its own; those of names quote the name, but no password."""
    if problem.field == "provider":
        return Problem("", f"Choose where {line[:NAME_LIMIT]} is." if has_choices else
                       f"No provider is known for {line[:NAME_LIMIT]}.")
    if not problem.field:
        return problem
    subject = "" if problem.message[:1] in ("'", '"') else "A line "
    return Problem("", f"{subject}{problem.message}.")

def _tag_fields(visit: Visit, name: str, label: str, chosen: Collection[str] = ()) -> list[Field]:
    found = Field(name, label, type="checks", choices=list(visit.tags.items()), chosen=chosen)
    return [found] if visit.tags else []

def _add_lines(visit: Visit, lines: Sequence[str], added: list[Project], tracked: list[str],
               wrong: dict[str, Invalid]) -> None:
    """Add the projects of the form's lines, after a first check. ``tracked``: names of those the account
    has; ``wrong``: by line, what prevents it."""
    form, store, account_id, begun = visit.form, visit.store, visit.account.id, []
    if not 0 < len(lines) <= 200:
        raise Invalid(Problem("name", "is required: one to 200 lines"))
    settings = {"tags": [id_ for id_ in visit.tags if id_ in form.texts("tag")],
                "email_notification": visit.account.email_notification}
    since, chosen = store.database.clock(), form.text("provider")
    for line in dict.fromkeys(lines):
        try:
            text = re.sub(r"^[-*\u2022]\s+", "", line)      # a list that was pasted
            id_ = chosen or None if chosen in BY_ADDRESS or not is_address(text) else None
            id_, text = split_provider(visit.providers, id_, text)
            provider, name, key = project_at(visit.providers, id_, text, is_typed=True)
            begun.append((line, *visit.context.inventory.add(account_id, provider, key, name, {
                **settings, "installed": installed_in(provider, line, since)})))
        except AlreadyTracked:
            tracked.append(name)
            if found := store.projects.by_names(account_id, provider.id, [key]):
                for mine in installed_in(provider, line, since):
                    visit.context.inventory.record(found[0], mine)
        except Invalid as fault:
            wrong[line] = fault
    with visit.context.waiting(account_id) as may_wait:     # else they are checked all the same
        end = time.monotonic() + (FIRST_CHECK_WAIT if may_wait else 0.0)
        for line, project, source in begun:
            try:
                left = max(0.0, end - time.monotonic())
                added.append(await_first_check(store, project, source, since, left))
            except AlreadyTracked:
                tracked.append(project.name)
            except Invalid as fault:
                wrong[line] = fault

# One project

def _health_item(visit: Visit, project: Project) -> Entry:
    """Where a project is, and when it is checked. While it is, the page comes again by itself."""
    health, projects, hint = project.health, visit.store.projects, "Checking..."
    checked, next_check = visit.when(health.checked_at)[2], visit.when(health.next_check_at)[2]
    if (health.next_check_at <= visit.store.database.clock() and project.provider in visit.providers
            and visit.store.database.has_tracker):
        bottle.response.set_header("Refresh", "2")
    else:
        hint = f"Last checked {checked}, next {next_check}."
    place = " ".join(map(visit.title_of, project.notes_source.split(" ", 1)))
    title = visit.title_of(project.provider)
    notes = _sentence(": ".join(filter(None, (place and f"Notes from {place}", project.notes_state))))
    return Entry(
        title, icon=visit.icon_of(project.provider), url=visit.page_of(project), at=f"View at {title}",
        marks=[("plain", name) for id_, name in visit.tags.items() if id_ in project.tags],
        about=f"formerly {project.former_name}" if project.former_name else "",
        hints=[hint, project.note, notes],
        buttons={"check": Button("Check now", lambda: projects.check_soon(visit.account.id, [project.id]),
                                 "Checking now.")})

def _failure_of(visit: Visit, project: Project) -> list[str]:
    """What the page of a project says where it cannot be checked."""
    error, health = _error_of(visit, project), project.health
    missing = f" Missing since {visit.moment(health.missing_since)}; next try " \
              f"{visit.when(health.next_check_at)[2]}." if health.missing_since else ""
    return [f"Check failed: {error.rstrip('.')}.{missing}"] if error else []

@page_at("/projects/<project_id>")
def project_page(visit: Visit, project_id: str) -> Page:
    project, store, query = _project_at(visit, project_id), visit.store, visit.query
    text, is_final, number = query.text("q") or "", query.flag("final"), query.page()
    query.check()
    releases, total = store.releases.page(project, number, text=text, is_final=is_final)
    notes = store.releases.notes(project.source_id, [one.version for one in releases], NOTE_PREVIEW_CHARS)

    def save() -> None:
        given = {name: visit.form.text(name) for name in ("version", "place")}
        doubt = install(Call(visit.context, visit.account.id, (), {GIVEN: given}), project)
        raise SeeOther(visit.path, f"Saved.{doubt}")
    installed = _installed_items(visit, project)
    answers = [Entry(version, buttons=_answer_buttons(visit, project, version, None),
                     about=f"and tags like it {'follow' if does else 'do not follow'} what you run")
               for version, does in project.version_answers]
    mine = [
        Field("version", "Version", is_required=True, more={"placeholder": "1.2.3"},
              proposed=[release.version for release in releases],
              hint="As the provider writes it. You are then notified only of what is newer."),
        _place_field("What you call the machine, if there are several. What was known of it is replaced.",
                     [one for one in store.projects.places(visit.account.id) if one])]
    badge = copied_field("badge", "Picture of the latest version, for a wiki or a dashboard",
                         f"{visit.base}/badge/{visit.account.badge_secret}/{project.id}.svg")
    return visit.show(
        PAGE, "/projects", title=project.name, crumbs=_TO_PROJECTS,
        needs_destination=not visit.has_destination,
        **{} if visit.problems else {"faults": _failure_of(visit, project)},
        actions=[(f"{visit.path}/options", "Options"),
                 (f"/deliveries?project={project.id}", "Delivery history")], above=[
            {"items": [_health_item(visit, project)]},
            {"heading": "Installed" if installed else "", "items": installed},
            {"heading": "Your answers" if answers else "", "items": answers},
            {"fold": "Another installed version" if installed else "Which version do you run?",
             "is_open": bool(visit.problems), "fields": mine, "form_class": "",
             "buttons": {"install": Button("Save", save)}}], sections=[
            {"looks": "rows", "items": [
                _release_item(visit, project, release, notes.get(release.version),
                              is_open=at == 0 and number == 1 and not text)
                for at, release in enumerate(releases)],
             "pages": visit.pager(number < total, number, total),
             "empty": "No matching release." if text or is_final else
             "The provider lists none." if project.health.succeeded_at else "No release is known yet."},
            {"fold": "Badge", "fields": [badge]}],
        **_search(visit, "Search releases", check_field("final", "Hide pre-releases", is_final)))

def _installed_items(visit: Visit, project: Project) -> list[Entry]:
    """The rows of what is installed of a project, the 40 most urgent."""
    is_quiet = project.skipped_version or project.is_snoozed(visit.store.database.clock())
    items, left_out = list[Entry](), len(project.installed) - 40
    for one in sorted(project.installed, key=lambda one: one.urgency, reverse=True)[:40]:
        buttons = {"undo": _show_again(visit, project, "Show its updates again")} if is_quiet else {}
        buttons |= _answer_buttons(visit, project, one.may_follow, True, False)
        buttons |= _update_buttons(visit, project, one)
        item = _installation_item(visit, project, one)
        flaws = [("plain", each.id, "" if each.id.startswith("CVE-") else
                  f"https://osv.dev/vulnerability/{each.id}") for each in one.advisories[:3]]
        items.append(dataclasses.replace(
            item, fold="Change", marks=[("plain", one.place or "here"), *_risk_marks(
                dataclasses.replace(project, installed=(one,))), *flaws, *item.marks],
            hints=[*item.hints, *_advice_hints(visit, project, one)],
            about="up to date" if one.state == "current" else "", buttons=buttons))
    return items + ([Entry(f"and {left_out} more; the API lists all")] if left_out > 0 else [])

def _project_at(visit: Visit, project_id: str) -> Project:
    return or_404(visit.store.projects.get(visit.account.id, project_id))

@page_at("/projects/<project_id>/options")
def options_page(visit: Visit, project_id: str) -> Page:
    """What of a project is ignored, and who is notified; with a preview before it is saved."""
    project = _project_at(visit, project_id)
    shown, verdicts = visit.result or (project, None)

    def preview() -> tuple[Project, RuleResult]:
        shown = dataclasses.replace(project, **_given_options(visit, project))
        return shown, visit.context.inventory.verdicts_for(shown)[0]

    def save() -> None:
        options = _given_options(visit, project)
        names = [read_label(name, TAG_LIMIT, "new_tags")
                 for name in visit.form.text("new_tags").split(",") if name.strip()]
        if len(names) > 20:
            raise Invalid(Problem("new_tags", "must be at most 20 names"))
        ids = {name.casefold(): id_ for id_, name in visit.tags.items()}
        options["tags"] += [ids.get(name.casefold()) or visit.store.tags.add(visit.account.id, name).id
                            for name in dict.fromkeys(names)]
        visit.store.projects.update(project.account_id, [project.id], options)
        visit.context.inventory.compare(project.account_id, [project.id])
    found = _preview(visit, shown, verdicts)
    sums = Counter(words.split()[0] for words, rows in found.items() for _ in rows)
    total = pluralize(sums.total(), "version")
    return visit.show(
        PAGE, "/projects", title="Options", look="columns",
        crumbs=[*_TO_PROJECTS, (f"/projects/{project.id}", project.name)], sections=[
            {"groups": _option_fields(visit, project), "live": "preview", "buttons": {
                "save": Button("Save", save, "Saved."), "preview": Button("Preview", preview)}},
            {"template": "live", "id": "preview", "name": "Preview", "is_live": True, "parts": [
                {"intro": f"{sums['Sent']} notified, {sums['Ignored']} ignored of the last {total}"},
                *({"fold": f"{words}: {len(items)}", "items": items, "looks": "rows",
                   "is_open": len(items) < 13} for words, items in found.items())]},
            {"form_class": "", "buttons": {"remove": Button(
                "Remove this project", lambda: visit.store.projects.remove(project.id),
                f"Removed {project.name}.", "Remove with its releases", "/projects")}}])

def _option_fields(visit: Visit, project: Project) -> dict[str, list[Field]]:
    """What a project's options are, by the legend that they stand below."""
    rules, of_kinds = project.exclude_version_regexp, dict[str, list[tuple[str, str]]]()
    for one in visit.destinations:
        of_kinds.setdefault(one.kind, []).append((one.id, one.name))
    fields_of = functools.partial(option_fields, PROJECT_OPTIONS, project)
    return {"Filters": [
        *fields_of("Filters"),
        Field("matching", "Ignore versions matching (one pattern per line)", type="textarea",
              value="\n".join(value for value, is_inverse in rules if not is_inverse),
              more={"rows": "2", "placeholder": "-alpine$"},
              hint="Python regex: -alpine$ matches versions ending in -alpine."),
        Field("others", "Only versions matching (one pattern per line)", type="textarea",
              value="\n".join(value for value, is_inverse in rules if is_inverse),
              more={"rows": "2", "placeholder": "^v3\\."}),
    ], "Notify": [
        *(dataclasses.replace(field, hint=_NO_MAIL_SERVER) if field.name == "email_notification"
          and not visit.settings.smtp_url else field for field in fields_of("Notify")),
        *(Field(KIND_FIELDS[kind], "Email addresses" if kind == "email" else visit.kinds[kind].title,
                type="checks", choices=choices, chosen=project.destinations.get(kind, ()),
                hint="Nothing selected: all of these are notified.")
          for kind, choices in of_kinds.items()),
    ], "Labels": [
        *_tag_fields(visit, "tags", "Tags", project.tags),
        Field("new_tags", "New tags (optional)", hint="With commas between."),
        *(field for field in fields_of("Labels") if field.name != "notes_from"
          or visit.context.inventory.rules_of(project).is_image),
    ]}

_NO_MAIL_SERVER = "There is no mail server yet; an administrator sets an SMTP server on Settings."

def _given_options(visit: Visit, project: Project) -> dict[str, Any]:
    form, matching = visit.form, visit.form.lines("matching")
    rules: list[dict[str, Any]] = [{"value": value} for value in matching]
    rules += [{"value": value, "inverse": True} for value in form.lines("others")]
    fields = Fields(form.options(option for option in PROJECT_OPTIONS if option.group) | {
        "exclude_version_regexp": rules,
        **{name: form.texts(name) for name in ("tags", *map(KIND_FIELDS.__getitem__, visit.kinds))}})
    settings = project_settings(fields, visit.context.inventory, project)
    for at, problem in enumerate(fields.problems):      # one with a pattern is shown at its box
        name, _, index = problem.field.rstrip("]").partition("[")
        if name == "exclude_version_regexp":
            box = "others" if int(index or 0) >= len(matching) else "matching"
            fields.problems[at] = Problem(box, problem.message)
    fields.check()
    return settings

def _preview(visit: Visit, project: Project, verdicts: RuleResult | None) -> dict[str, list[Entry]]:
    """The last known versions, by what is done with them, exceptions first. ``verdicts``: of new patterns."""
    now, destinations = visit.store.database.clock(), tuple(visit.destinations)
    names = {one.id: visit.label_of(one.kind, one.name) for one in destinations}
    subscriber, found = Subscriber(project, visit.account, (), destinations), dict[str, list[Entry]]()
    yours = ", ".join(dict.fromkeys(one.shown for one in project.installed))
    ruled_out = " or ".join(["pattern"] * bool(project.exclude_version_regexp)
                            + [f"not newer than {yours}"] * bool(yours))
    releases = visit.store.releases.page(project, 1, 50)[0]
    if verdicts is None:
        verdicts = apply_rules(project, visit.store.releases.known(project.source_id),
                               visit.context.inventory.rules_of(project),
                               {release.version for release in releases if release.is_ruled_out})
    for release in with_exclusions(releases, verdicts) if verdicts else releases:
        recipients = recipients_of(subscriber, release, now, visit.settings)
        words = ", ".join(names[one.destination_id] for one in recipients)
        words = f"Sent to {words}" if words else "Nobody is notified: " + (
            "the project is muted" if project.is_muted else "no destination is for it")
        if any(one.is_held for one in recipients):
            words += f", {project.hold_days} days after the release"
        if is_excluded(project, release):
            words = "Ignored (" + (
                "pre-release" if release.is_prerelease and project.exclude_prereleases else
                "re-published" if release.is_updated and project.exclude_updated else
                ruled_out if release.is_ruled_out else f"{release.step} release") + ")"
        found.setdefault(words, []).append(Entry(
            release.version, marks=_marks(release), when=visit.when(visit.instant_of(release))))
    return dict(sorted(found.items(), key=lambda group: len(group[1])))

# Notifications

_TO_NOTIFICATIONS = [("/notifications", "Notifications")]
_TO_HISTORY = [*_TO_NOTIFICATIONS, ("/deliveries", "Delivery history")]
_KIND_GROUPS = {
    "Push": ("ntfy", "gotify", "pushover", "apprise"),
    "Chat": ("slack", "discord", "telegram", "microsoft_teams", "matrix", "mattermost", "hangouts_chat",
             "rocketchat"),
    "Email and webhook": ("email", "webhook")}

@page_at("/notifications", methods="GET")
def notifications_page(visit: Visit) -> Page:
    """The account's destinations, those that fail longest first, and what could be added."""
    those, has_mail = visit.destinations, bool(visit.settings.smtp_url)
    items = [Entry(
        path=f"/notifications/{one.id}", name=one.name, icon=icon_of(one.kind),
        marks=[("plain", visit.kinds[one.kind].title), *(
            [("bad", f"failing since {visit.moment(one.failing_since)}")] if one.failing_since else []), *(
            [("warn", "no mail server")] if one.kind == "email" and not has_mail else [])],
        hints=(f"{_sentence(scope_of(one, visit.tags))}.", one.error or ""),
        end=SCHEDULE_NAMES[one.schedule] if one.kind != "email" else "set per project")
        for one in sorted(those, key=lambda one: one.failing_since or math.inf)]
    working, others = (items, []) if visit.has_destination else ([], items)
    groups = _KIND_GROUPS | {"More": tuple(visit.kinds)[len(KINDS):]}
    kinds = [{"heading": group, "tag": "h3", "looks": "grid", "items": [Entry(
        path=f"/notifications/add/{id_}", name=visit.kinds[id_].title, icon=icon_of(id_),
        hints=[_sentence(visit.kinds[id_].about), "" if id_ != "email" or has_mail else _NO_MAIL_SERVER])
        for id_ in ids]} for group, ids in groups.items() if ids]
    return visit.show(
        PAGE, "/notifications", title="Notifications", actions=[("/deliveries", "Delivery history")],
        sections=[{"items": working},
                  {"heading": "Add a destination" if working else "Where should we notify you?"}, *kinds,
                  {"heading": "Without a mail server yet" if others else "", "items": others}])

def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]

@page_at("/notifications/add/<kind_id>")
def add_destination_page(visit: Visit, kind_id: str) -> Page:
    """A new destination of a kind; it can be tried before it is saved."""
    or_404(visit.kinds.get(kind_id))
    empty = new_destination(visit.account.id, kind_id)

    def save() -> None:
        added = add_destination(_call_of(visit, empty), kind_id)
        has_projects = visit.store.projects.providers(visit.account.id)
        raise SeeOther(f"/notifications/{added.id}", "Saved. Send the latest release now to see it arrive."
                       if has_projects else "Saved.")
    return _show_destination(visit, empty, {"save": Button("Save", save)})

@page_at("/notifications/<destination_id>")
def destination_page(visit: Visit, destination_id: str) -> Page:
    """A destination: its settings, a test of what is typed, a webhook's secret."""
    before, those = _own_destination(visit, destination_id), visit.store.destinations
    save = Button("Save", lambda: update_destination(_call_of(visit, before), before), "Saved.")
    latest = Button("Send the latest release now", functools.partial(_send_latest, visit, before))
    remove = Button("Delete", lambda: those.remove(before.id), f"Deleted {shortened(before.name, 40)}.",
                    "Delete with its history", "/notifications")
    can_send = before.kind != "email" or visit.settings.smtp_url
    return _show_destination(visit, before, {
        "save": save, **({"latest": latest} if can_send else {}), "remove": remove})

def _own_destination(visit: Visit, destination_id: str) -> Destination:
    return or_404(next((one for one in visit.destinations if one.id == destination_id), None))

def _show_destination(visit: Visit, before: Destination, buttons: dict[str, Button]) -> Page:
    """The form of a destination, as typed or as it is. ``buttons``: what it can do besides a test."""
    name, live, rendering = visit.kinds[before.kind].title, "render" if before.kind == "webhook" else "", ""
    fields, more = _setting_fields(visit, before)
    tests = {"test": Button("Send a test", lambda: _tried(
        visit, changed_destination(_call_of(visit, before), before), *sample_event(visit.account)))}
    if live:
        tests[live] = Button("Update the example", lambda: _rendering(visit, visit.form.texts("set.field")))
        with contextlib.suppress(Invalid):
            rendering = _rendering(visit, more[-1].boxes)
    buttons = {"save": buttons["save"], **tests, **buttons}
    about = _sentence(visit.kinds[before.kind].about)
    if before.failing_since:
        about += f". Failing since {visit.moment(before.failing_since)}: {before.error}"
    groups = {"": fields, "Optional settings": more, "Schedule and filters": _selection_fields(visit, before)}
    sections: list[dict[str, Any]] = [
        {"intro": f"{about}."},
        {"groups": groups, "is_folded": not before.name and not visit.is_post, "live": live,
         "buttons": buttons}]
    if before.kind == "email" and not visit.settings.smtp_url:
        words, link = "There is no mail server yet, so nothing is sent.", Entry(
            path="/settings#smtp_url", name="Set an SMTP server and send a test")
        sections.insert(1, {"intro": words, "items": [link]} if visit.account.is_admin else {
            "intro": f"{words} Ask your administrator to set an SMTP server."})
    if live:
        variables = ", ".join(f"{{{one}}}" for one in sorted(TEMPLATE_NAMES))
        sections.append({
            "template": "live", "id": live, "name": "Example payload",
            "is_live": visit.pressed == live, "parts": [{
                "text": rendering, "hint": "Without fields of your own the standard body is "
                f"sent. A template may hold {variables}. For a brace, write two."}]})
    if before.secret and before.name:
        until = visit.moment(before.previous_until) if before.previous_until else ""
        is_shown = visit.pressed == "reveal" and not visit.problems
        sections.append({"heading": "Signing secret", "items": [Entry(
            fields=[copied_field("secret", "Secret", before.secret)] if is_shown else (),
            buttons={"reveal": Button("Show", visit.require_password), "renew": Button(
                "Reset", lambda: visit.store.destinations.reset_secret(before.id),
                "New secret. The old secret stays valid for 24 h.", "Reset the secret")},
            hints=[f"The old secret stays valid until {until}." if until else
                   "For 24 h after a reset, every other attempt is signed with the old secret."])]})
    return visit.show(
        PAGE, "/notifications", title=before.name or f"Add {name}", sections=sections,
        crumbs=_TO_NOTIFICATIONS, actions=before.name and [
            (f"/notifications/{before.id}/test", "Test messages"),
            (f"/deliveries?destination={before.id}", "Delivery history")],
        **visit.result if visit.pressed == "test" and visit.result else {})

def _setting_fields(visit: Visit, before: Destination) -> tuple[list[Field], list[Field]]:
    """What a kind asks for, with the name of the destination; and its optional settings."""
    is_typed = visit.problems or visit.result is not None
    kind, fields, shown = visit.kinds[before.kind], [], settings_as_given(before, True, visit.kinds)
    for setting in kind.fields:
        key, is_repeatable = f"set.{setting.name}", bool(setting.stored_as)
        texts = visit.form.texts(key) if is_typed else [text for name, text in shown if name == setting.name]
        texts = [text for text in texts if text.strip()]
        hint = _sentence(setting.about.partition(" (repeatable")[0])
        hint += "" if hint.endswith(".") else "."
        if is_repeatable:
            hint += " One per box; empty boxes are ignored."
        if "***" in "".join(texts):
            hint += " *** stands for the saved value; leave it to keep that."
        fields.append(Field(
            key, setting.label, "".join(texts[:1]), "textarea" if is_repeatable else "text", hint,
            id=f"set-{setting.name}", boxes=[*texts, "", ""] if is_repeatable else (),
            more={"rows": "1"} if is_repeatable else {
                "autocomplete": "off", "spellcheck": "false", "placeholder": setting.default or ""}))
    used = {one.name for one in visit.destinations if one.kind == before.kind}
    titles = itertools.chain([kind.title], (f"{kind.title} {number}" for number in itertools.count(2)))
    name = Field("name", "Name", before.name or next(one for one in titles if one not in used),
                 hint='Label, e.g. "My phone".', is_required=True)
    # Those of Slack and e-mail are all optional, and the first are what it takes.
    most = {"slack": 3, "email": 1}.get(before.kind) or sum(one.default is None for one in kind.fields)
    return [*fields[:most], name], fields[most:]

def _selection_fields(visit: Visit, before: Destination) -> list[Field]:
    fields, fixed = option_fields(DESTINATION_OPTIONS, before), FIXED_OPTIONS.get(before.kind, {})
    fields[2:2] = [field for name, label, chosen in (
        ("tags", "Only projects with one of these tags", before.tags),
        ("without_tags", "Not projects with one of these tags", before.without_tags))
        for field in _tag_fields(visit, name, label, chosen)]
    if "schedule" in fixed:
        fields[1] = dataclasses.replace(fields[1], hint=f"{fields[1].hint} {_sentence(fixed['schedule'])}.")
    return [field for field in fields if field.name not in fixed]

def _call_of(visit: Visit, before: Destination) -> Call:
    """What the form of a destination says, as ``changed_destination`` reads it."""
    form = visit.form
    names = [setting.name for setting in visit.kinds[before.kind].fields]
    given = [(name, text if name == "field" else text.strip())
             for name in names for text in form.texts(f"set.{name}") or [""]]
    # What is masked stays what it was.
    kept = dict(zip(*(settings_as_given(before, is_shown, visit.kinds) for is_shown in (True, False))))
    if any(pair not in given for pair in kept if pair[0] in ("url", "homeserver_url", "server")):
        kept = {}       # secrets are for the address that they were typed for
    pairs = [kept.get(pair, pair) if pair[1].strip() else (pair[0], "") for pair in given]
    return Call(visit.context, visit.account.id, (), {GIVEN: form.options(DESTINATION_OPTIONS) | {
        "name": form.text("name"), "tags": form.texts("tags"), "without_tags": form.texts("without_tags"),
        "settings": [{"setting": name, "value": text} for name, text in pairs]}})

def _tried(visit: Visit, destination: Destination, body: Mapping[str, Any], url: str,
           settings: Settings | None = None) -> dict[str, Any]:
    """What a page shows of a test; ``settings``: others than those in use. Raises Invalid, TooMany."""
    with visit.context.turn(visit.account.id):
        _count_test(visit)
        sent, reply, error = visit.context.try_out(destination, visit.account, body, url, settings)
    exchange = {"fold": "Request and answer", "text": f"{sent}\n\n{reply or 'No answer.'}"}
    said = {"faults": [f"Failed: {error}"]} if error else {"flash": "Test delivered."}
    return {"above": [exchange], **said}

def _count_test(visit: Visit) -> None:
    """Raises TooMany for one test too many; what is sent again counts, too."""
    limit = visit.settings.quota_of("tests")
    window = visit.context.tests.take(visit.account.id, 1, time.monotonic(), limit)
    if not window.is_open:
        raise TooMany(window.reset, f"An account may send at most {pluralize(limit, 'test')} an hour; "
                                    "--quota tests=N raises that.")

def _send_latest(visit: Visit, destination: Destination) -> None:
    """Send one of the last five releases, with a note if any has one. Raises SeeOther, Invalid, TooMany."""
    store, account = visit.store, visit.account
    found = [(one, release) for one in store.projects.page(account.id, "latest", False)[0]
             if one.provider in visit.providers and (release := store.releases.newest_wanted(one))]
    if not found:
        raise Invalid("There is no release to send yet. Add a project first.")
    found.sort(key=lambda pair: pair[1].date or "", reverse=True)
    project, release = max(found[:5], key=lambda pair: pair[1].has_note)
    with visit.context.turn(account.id):
        _count_test(visit)
        tags = tuple(tag for tag in store.tags.of_account(account.id) if tag.id in project.tags)
        note = store.releases.note(project.source_id, release.version)
        store.outbox.send(release_event(
            Subscriber(project, account, tags, ()), dataclasses.replace(release, note=note),
            visit.providers[project.provider], (Recipient(destination.id, store.database.clock()),)))
        delivery = store.outbox.history(account.id, destination_id=destination.id, limit=1)[0]
        store.database.await_others(lambda: store.outbox.attempts(delivery.id), 3.0)
        delivery = store.outbox.history(account.id, destination_id=destination.id, limit=1)[0]
    words = "was" if delivery.state == "delivered" else "is being"
    raise SeeOther(f"/deliveries/{delivery.id}",
                   f"{project.name} {release.version} {words} sent to {destination.name}.")

def _rendering(visit: Visit, lines: Sequence[str]) -> str:
    """The body that a webhook with these fields is sent of a made-up release. Raises Invalid."""
    settings = read_settings("webhook", [("url", "https://example.org"), *(
        ("field", line) for line in lines if line.strip())])
    body = json.loads(notification_body(settings, *sample_event(visit.account)))
    return json.dumps(body, ensure_ascii=False, indent=2)

@page_at("/notifications/<destination_id>/test")
def test_page(visit: Visit, destination_id: str) -> Page:
    """A test of a destination, with every member of the body as typed."""
    destination = _own_destination(visit, destination_id)
    values = {name: visit.form.text(name, value) for name, value in sample_values(visit.account).items()}
    test = Button("Send the test", lambda: _tried(visit, destination, *sample_event(visit.account, values)))
    fields = [Field(
        name, name.replace("_", " ").capitalize(), values[name], more={"placeholder": default},
        type="select" if name.startswith("is_") else "textarea" if name == "note_message" else "text",
        choices=[("false", "false"), ("true", "true")])
        for name, default in sample_values(visit.account).items()]
    return visit.show(
        PAGE, "/notifications", title="Test messages", **visit.result or {}, sections=[{
            "intro": f"Send a made-up release to {destination.name}:", "fields": fields,
            "buttons": {"test": test}}],
        crumbs=[*_TO_NOTIFICATIONS, (f"/notifications/{destination.id}", destination.name)])

# Delivery history

_EVENT_NAMES = {"release": "", "summary": "notice", "failing": "keeps failing",
                "recovered": "works again"}     # beside a name, where there is no version
_STATE_MARKS = dict(zip(DELIVERY_STATES, ("plain", "warn", "good", "bad", "plain")))

@page_at("/deliveries")
def history_page(visit: Visit) -> Page:
    """What was sent, waits to be sent, or could not be, by event; newest first."""
    query, store, account_id = visit.query, visit.store, visit.account.id
    destination, project_id = query.text("destination"), query.text("project")
    state, number = query.one_of("state", "", *DELIVERY_STATES) or None, query.page()
    query.check()
    size, items = 2 * PAGE_SIZE, []
    found = store.outbox.history(account_id, destination_id=destination, project_id=project_id, state=state,
                                 limit=size + 1, offset=(number - 1) * size)
    events = [list(those) for _, those in itertools.groupby(found[:size], lambda one: one.event_id)]
    for deliveries in events:
        one = deliveries[0]
        name = f"{one.project} {one.version or _EVENT_NAMES[one.event]}"
        items.append(Entry(
            "" if one.project_id else name, f"/projects/{one.project_id}" if one.project_id else "", name,
            icon=visit.icon_of(one.provider) if one.provider else icon_of(one.kind),
            when=visit.when(one.created_at),
            marks=[(_STATE_MARKS[each.state], f"{visit.label_of(each.kind, each.destination)}: {each.state}",
                    f"/deliveries/{each.id}") for each in reversed(deliveries)]))
    here = {those[0].project_id: those[0].project for those in events}
    project = store.projects.get(account_id, project_id) if project_id else None

    def resend() -> None:
        _count_test(visit)
        store.outbox.resend(account_id, destination_id=destination)
    can_resend = destination and any(one.state == "failed" for those in events for one in those)
    return _show_lists(
        visit, "/notifications", "Delivery history" + (f" of {project.name}" if project else ""),
        [{"items": items, "hint": "History is kept for 30 days."},
         {"items": (), "form_class": "", "buttons": {"resend": Button(
             "Send again all that failed there", resend, "All that failed there will be sent again.")}
          if can_resend else {}}],
        pages=visit.pager(len(found) > size, number), drawing="notifications",
        nothing="No matching deliveries." if destination or project_id or state else "Nothing was sent yet.",
        crumbs=_TO_HISTORY if project else _TO_NOTIFICATIONS,
        filters=[
            visit.filter("destination", "Destination", {
                one.id: visit.label_of(one.kind, one.name) for one in visit.destinations}),
            visit.filter("project", "Project", {id_: name for id_, name in (
                here | ({project.id: project.name} if project else {})).items() if id_}),
            visit.filter("state", "State", {one: one for one in DELIVERY_STATES})])

@page_at("/deliveries/<delivery_id>")
def delivery_page(visit: Visit, delivery_id: str) -> Page:
    """A delivery: its attempts, and what was sent with the last, of a digest the whole message."""
    store, account_id = visit.store, visit.account.id
    delivery = or_404(next(iter(store.outbox.history(account_id, delivery_id=delivery_id)), None))

    def resend() -> None:
        _count_test(visit)
        if not store.outbox.resend(account_id, delivery_id=delivery_id):
            raise Invalid("This delivery is not due yet, or is being sent just now.")
    about = {
        "Provider": visit.title_of(delivery.provider), "Queued": visit.moment(delivery.created_at),
        "Id": delivery.id, "Due": visit.moment(delivery.next_attempt_at) if delivery.is_waiting else "",
        "In the digest": delivery.digest_id}
    attempts = [Entry(
        visit.moment(one.attempted_at),
        marks=[("bad" if one.error else "good", str(one.status or "no answer"))],
        end=", ".join(filter(None, (f"{one.duration:.2f} s", one.address))), hints=[one.error or ""],
        answer=one.answer or "") for one in store.outbox.attempts(delivery_id)]
    facts = [Entry("State", marks=[(_STATE_MARKS[delivery.state], delivery.state)]),
             Entry("To", f"/notifications/{delivery.destination_id}",
                   visit.label_of(delivery.kind, delivery.destination)),
             *(Entry(title, about=text) for title, text in about.items() if text)]
    sent, is_over = store.outbox.last_sent(delivery_id), delivery.attempts or delivery.state == "failed"
    return visit.show(
        PAGE, "/notifications",
        title=f"{delivery.project} {delivery.version or _EVENT_NAMES[delivery.event]}",
        crumbs=_TO_HISTORY, sections=[
            {"items": facts, "looks": "facts", "form_class": "",
             "buttons": {"resend": Button("Send again", resend, "This will be sent in a moment. Refresh the "
                                          "page to see the result.")} if is_over else {}},
            {"heading": "Attempts", "items": attempts, "empty": delivery.error or "None yet."},
            {"heading": "Request" if sent else "", "text": sent}])

# Tags, keys, the account, and what is for administrators

@page_at("/tags")
def tags_page(visit: Visit) -> Page:
    store, account_id, typed = visit.store, visit.account.id, visit.form.text("name")
    label, counts = functools.partial(read_label, typed, TAG_LIMIT), store.tags.project_counts(account_id)
    add = Button("Create", lambda: store.tags.add(account_id, label()), f"Created the tag {typed}.")

    def remove(tag: Tag) -> None:
        lost = [one.name for one in visit.destinations if one.tags == (tag.id,)]
        store.tags.remove(account_id, tag.id)
        raise SeeOther("/tags", "Deleted the tag." + (
            f" {', '.join(lost)} was limited to projects with this tag, and is now notified only of projects "
            "that you pick." if lost else ""))

    def item(tag: Tag) -> Entry:
        return Entry(
            path=f"/projects?tag={tag.id}", name=tag.name, about=pluralize(counts.get(tag.id, 0), "project"),
            marks=[("", "Feed", f"/feeds/{tag.feed_secret}.atom")], key=tag.id, fold="Edit", fields=[
                Field("name", "Name", tag.name, id=f"name-{tag.id}"),
                copied_field(tag.id, "Feed URL", f"{visit.base}/feeds/{tag.feed_secret}.atom")],
            buttons={
                "rename": Button(
                    "Rename", lambda: store.tags.rename(account_id, tag.id, label()), "Renamed."),
                "renew": Button("Reset feed URL", lambda: store.tags.reset_feed(account_id, tag.id),
                                "The feed has a new URL.", "Reset: the old URL stops working"),
                "remove": Button("Delete", functools.partial(remove, tag), sure="Delete the tag")})
    return visit.show(
        PAGE, "/tags", title="Tags", **visit.paged(list(map(item, store.tags.of_account(account_id)))),
        groups={"Create a tag": [Field("name", "Name", is_required=True)]}, drawing="releases",
        buttons={"add": add},
        empty="No tags yet. Tags choose what lists show, and which destinations are notified.")

@page_at("/keys")
def keys_page(visit: Visit) -> Page:
    """The account's API keys. A new one is shown at once, others on request."""
    store, account_id, form = visit.store, visit.account.id, visit.form

    def add() -> None:
        visit.require_password()
        store.keys.add(account_id, read_label(form.text("name")), read_networks(form.lines("networks")))

    def item(key: Key) -> Entry:
        is_shown = not visit.problems and (visit.pressed == f"{key.id} reveal" or visit.pressed == "add"
                                           and form.text("name") == key.name)
        return Entry(
            title=key.name, key=key.id, about="from anywhere" if "0.0.0.0/0" in key.networks else
            f"from {', '.join(key.networks)}", hints=[f"Last used: {visit.moment(key.used_at)}"],
            fields=[copied_field(key.id, "Key", key.secret)] if is_shown else (), buttons={
                "reveal": Button("Show", visit.require_password), "revoke": Button(
                    "Revoke", lambda: store.keys.remove(account_id, key.name),
                    f"Revoked the key {key.name[:100]}.", "Revoke this key")})
    return visit.show(
        PAGE, "/keys", title="API keys", **visit.paged(list(map(item, store.keys.of_account(account_id)))),
        actions=[("/v1/openapi.json", "OpenAPI document")],
        buttons={"add": Button("Create", add)}, groups={"Create a key": [
            Field("name", "Name", is_required=True,
                  hint=f'Send the key as a header: curl -H "X-Key: $KEY" {visit.base}/v1/projects'),
            Field("networks", "Networks (one per line)", type="textarea",
                  hint="Where the key is accepted from. Empty: from anywhere.",
                  more={"rows": "2", "placeholder": "192.168.0.0/16"})]})

@functools.cache
def _time_zones() -> list[str]:
    """The time zones to choose from: those of places, without the names that they had before 1993."""
    return sorted(["UTC", *(one for one in zoneinfo.available_timezones() if re.match(
        "(Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific)/", one))])

@page_at("/account")
def account_page(visit: Visit) -> Page:
    store, account = visit.store, visit.account
    revokes_keys = bool(visit.form.texts("keys"))

    def password() -> None:
        _confirm_password(visit, "old")
        store.accounts.change(account.id, {"password": _new_password(visit, "new")})
        store.accounts.sign_out(account.id, revokes_keys)
        visit.sign_in(or_404(store.accounts.get(account.id)))

    def session_item(session: Session) -> Entry:
        return Entry(
            about=shortened(session.agent, 200), key=session.id,
            buttons={"end": Button("End", functools.partial(store.sessions.end, account.id, session.id),
                                   "Session ended.")},
            marks=[("good", "this one")] if visit.session and session.id == visit.session.id else (),
            hints=[f"From {session.address or 'somewhere'}, since {visit.moment(session.created_at)}, last "
                   f"seen {visit.when(session.seen_at)[2]}"])
    addresses = Entry(
        marks=[("", "Feeds of tags", "/tags")], hints=[
            "Whoever knows these URLs can read them. Tags have feeds of their own, on the page Tags. PROJECT "
            "is a project's id, as in the URL of its page."],
        fields=[
            copied_field("feed", "Feed of all releases", f"{visit.base}/feeds/{account.feed_secret}.atom"),
            copied_field("badge", "Badge with the latest version of a project",
                         f"{visit.base}/badge/{account.badge_secret}/PROJECT.svg")],
        buttons={
            "feed": Button("Reset feed URL", lambda: store.accounts.change(
                account.id, {"feed_secret": make_id()}),
                           "The feed has a new URL.", "Reset: the old URL stops working"),
            "badges": Button("Reset badge URLs", lambda: store.accounts.change(
                account.id, {"badge_secret": make_id()}),
                             "The badges have new URLs.", "Reset: the old URLs stop working")})
    turn, mark = ("Turn off", ("good", "on")) if account.totp_secret else ("Turn on", ("plain", "off"))
    parts = {"profile": "Profile", "security": "Security", "feeds": "Feeds and badges"}
    actions = [(f"/account#{anchor}", name) for anchor, name in parts.items()]
    return visit.show(PAGE, "/account", title="Account", actions=actions, sections=[
        {"heading": "Profile", "anchor": "profile", "groups": _profile_fields(account),
         "buttons": {"save": Button("Save", functools.partial(_save_profile, visit), "Saved.")}},
        {"heading": "Security", "anchor": "security"},
        {"heading": "Password", "tag": "h3", "buttons": {"password": Button(
            "Change password", password, "Password changed. All other sessions are signed out.")}, "fields": [
                dataclasses.replace(_PASSWORD_FIELD, name="old", label="Current password"),
                Field("new", "New password", type="password", is_required=True, more=_NEW_PASSWORD,
                      hint="At least 8 characters. Other sessions end. API keys stay valid, unless you "
                           "revoke them."),
                check_field("keys", "Revoke all API keys")]},
        {"heading": "Two-factor authentication", "tag": "h3", "items": [
            Entry(path="/account/second-factor", name=turn, marks=[mark])]},
        {"heading": "Sessions", "tag": "h3", "fields": [check_field("keys", "Revoke all API keys too")],
         "items": list(map(session_item, store.sessions.of_account(account.id)[:30])),
         "buttons": {"leave": Button(
             "Sign out everywhere", lambda: store.accounts.sign_out(account.id, revokes_keys),
             "You are signed out everywhere.", "Yes, sign out", "/login")}},
        {"heading": "Feeds and badges", "anchor": "feeds", "items": [addresses]}])

def _profile_fields(account: Account) -> dict[str, list[Field]]:
    zone, = option_fields(ACCOUNT_OPTIONS, account)
    return {"": [
        Field("name", "Name", account.name, is_required=True),
        Field("email", "Email", account.email, type="email", is_required=True,
              more={"autocomplete": "username"}),
        Field("present", "Current password", type="password", more=_CURRENT_PASSWORD,
              hint="Only needed to change the email address."),
        dataclasses.replace(zone, proposed=_time_zones(), hint=f"{zone.hint} Type a city to find it."),
    ], "Notifications": option_fields(ACCOUNT_OPTIONS, account, "Notifications")}

def _save_profile(visit: Visit) -> None:
    account, email = visit.account, visit.form.text("email")
    fields = Fields({"name": visit.form.text("name")} | visit.form.options(ACCOUNT_OPTIONS))
    with fields.collecting():
        read_email(email)
    changes = account_changes(account, fields) | {"email": email}
    if email != account.email:
        if visit.settings.auth_header:      # else somebody could take the address of who has not come yet
            raise Invalid(Problem("email", "cannot be changed while a proxy signs people in by it"))
        _confirm_password(visit, "present")
    visit.store.accounts.change(account.id, changes)

def _confirm_password(visit: Visit, field: str) -> None:
    """Raise Invalid unless the form sent the account's password. Tries count apart from those of log-ins."""
    who = f"session {visit.session.id}" if visit.session else ""
    password = visit.form.typed(field)
    if not visit.context.throttle.check(who, who, password, visit.account.password, time.monotonic()):
        raise Invalid(Problem(field, "is wrong"))
    if visit.session:
        visit.store.sessions.confirm(visit.session.id)

@page_at("/account/second-factor")
def second_factor_page(visit: Visit) -> Page:
    """Turn the codes of an authenticator app on or off.
    The link: https://github.com/google/google-authenticator/wiki/Key-Uri-Format"""
    visit.require_password()
    account, accounts, given = visit.account, visit.store.accounts, visit.form.text("secret")
    secret = given if re.fullmatch("[A-Z2-7]{32}", given) else make_base32(20)

    def turn_on() -> list[str]:
        step = step_of_code(secret, visit.form.text("code"), visit.store.database.clock())
        if not step:
            raise Invalid(Problem("code", "is wrong; see that the phone's clock is right"))
        made = [make_base32(10).lower() for _ in range(10)]
        accounts.turn_on_second_factor(account.id, secret, step, [secret_hash(one).hex() for one in made])
        log.info("account %s: second factor turned on", account.id)
        visit.sign_in(or_404(accounts.get(account.id)))     # browsers are known again by then
        return ["-".join(re.findall("....", one)) for one in made]

    def turn_off() -> None:
        accounts.turn_off_second_factor(account.id)
        log.info("account %s: second factor turned off", account.id)
    show = functools.partial(visit.show, PAGE, "/account", title="Two-factor authentication",
                             crumbs=[("/account", "Account")])
    if visit.result:
        return show(flash="Two-factor authentication is on.", text="\n".join(visit.result),
                    intro="Each of these recovery codes works once, in place of a code of your phone. Keep "
                    "them where you find them without it. They are not shown again.")
    if account.totp_secret:
        return show(intro="Two-factor authentication is on: signing in takes your password and a code. "
                    f"Recovery codes left: {len(account.recovery_codes)}.", form_class="",
                    buttons={"off": Button("Turn off", turn_off, "Two-factor authentication is off.",
                                           "Yes, turn off", "/account")})
    uri = f"otpauth://totp/releasetrack:{quote(account.email)}?secret={secret}&issuer=releasetrack"
    return show(
        intro="Signing in then takes your password and a code of an authenticator app. Open the app if it is "
        "on this device, or copy the secret into it; then type the code that it shows.",
        items=[Entry(url=uri, at="Open the app")], hidden=[("secret", secret)],
        buttons={"on": Button("Turn on", turn_on)},
        fields=[copied_field("shown", "Secret", " ".join(re.findall("....", secret))),
                dataclasses.replace(_CODE_FIELD, label="Code", hint="")])

@page_at("/accounts", "admin")
def accounts_page(visit: Visit) -> Page:
    visit.require_password()
    accounts, form = visit.store.accounts, visit.form
    address = form.text("email")

    def add() -> None:
        fields, hashed = Fields({"name": form.text("name") or address, "type": form.text("type")}), ""
        type_, name = fields.value("type", one_of(ACCOUNT_TYPES)), fields.label("name")
        with fields.collecting():
            read_email(address)
            hashed = _new_password(visit, "password")
        fields.check()
        accounts.add(type_ or "user", address, name, hashed, bool(form.text("admin")), machine_time_zone())

    def remove(account: Account) -> None:
        if len(accounts.all()) == 1:
            raise Invalid("This is the only account; on the command line it can be deleted.")
        accounts.remove(account.id)

    def item(account: Account) -> Entry:
        return Entry(
            account.name, about=account.email if account.email != account.name else "", end=account.type,
            key=account.id, fold="Edit", marks=[("", "administrator")] if account.is_admin else (), fields=[
                Field("password", "New password", type="password", more=_NEW_PASSWORD,
                      id=f"password-{account.id}")],
            buttons={
                "password": Button("Set password", lambda: accounts.change(
                    account.id, {"password": _new_password(visit, "password")}),
                    "Password set. The account is signed out everywhere."),
                "admin": Button(f"{'Remove' if account.is_admin else 'Grant'} admin rights",
                                lambda: accounts.change(account.id, {"is_admin": not account.is_admin}),
                                "Changed."),
                "remove": Button("Delete", functools.partial(remove, account),
                                 f"Deleted the account {account.email}.", "Delete with everything it owns")})
    return visit.show(
        PAGE, "/accounts", title="Accounts", **visit.paged(list(map(item, accounts.all()))),
        buttons={"add": Button("Create", add, f"Created the account {address}.")},
        groups={"Create an account": [
                Field("email", "Email", type="email", is_required=True, more={"autocomplete": "off"}),
                Field("name", "Name (optional)", hint="Without one, the address."),
                Field("password", "Password", type="password", is_required=True, more=_NEW_PASSWORD),
                Field("type", "Type", type="select", choices=[(name, name) for name in ACCOUNT_TYPES]),
                check_field("admin", "Administrator")]})

@page_at("/settings", "admin")
def settings_page(visit: Visit) -> Page:
    """What the operator sets, where it comes from, and changes, which the service uses at once."""
    visit.require_password()
    config, form = visit.context.config, visit.form
    try:
        states = config.rows()
    except SettingError as error:
        raise Invalid(f"{error}; remove it with the command config unset.") from None
    mail = [one for one in states if one.row.name in ("smtp_url", "mail_from")]
    general = [one for one in states if one not in mail and not one.row.is_keyed]

    def save() -> None:
        for name, texts in _changed_settings(visit, [*general, *mail]).items():
            if texts:
                config.set(name, texts)
            else:
                config.unset(name)
    own = {
        "intro": "Changes apply at once, to the running service and to all commands. Secrets are never shown "
                 "again.", "buttons": {"save": Button("Save", save, "Saved."), "test_mail": Button(
                     "Send a test mail", functools.partial(_try_mail, visit, mail))},
        "groups": {"General": list(map(_control_of, general)), "Mail server": list(map(_control_of, mail))}}
    tokens = {
        "heading": "Provider tokens", "anchor": "tokens", "buttons": {"save_token": Button(
            "Save the token", lambda: config.set(
                "token", [f"{form.text('token_provider')}={form.text('token')}"]), "Saved.")},
        "fields": [
            Field("token_provider", "Provider", "github", type="select", choices=[
                (one.id, one.title) for one in visit.providers.values() if one.dialect.auth]),
            Field("token", "Token", type="password", is_required=True, more={"autocomplete": "off"},
                  hint="An environment variable such as GITHUB_TOKEN takes precedence.")]}
    providers = {
        "heading": "Your own providers", "buttons": {
            "save_provider": Button("Add", lambda: config.set("provider", [form.text("provider")]), "Saved."),
            "try_provider": Button("Try", functools.partial(_try_provider, visit))},
        "fields": [
            Field("provider", "Provider", is_required=True, more={"placeholder": SETTINGS["provider"].shape},
                  hint="Such as home=forgejo:https://git.example.org or "
                       "mine=json:https://example.org/{name}.json#entries=releases&version=tag&date=a.b, "
                       "where * is every member and [id={name}] those with that text. "
                       f"Dialects: {', '.join(DIALECTS)}."),
            Field("name", "Project to try it with", hint="As the provider spells it.")]}
    changed = {"heading": "Changed settings", "items": _stored_settings(visit, states),
               "none": "None. The defaults are in use."}
    return visit.show(PAGE, "/settings", title="Settings", sections=[own, tokens, providers, changed],
                      **visit.result or {})

def _control_of(state: SettingState) -> Field:
    """The field of a setting. One that a flag sets is shown and cannot be changed; a secret is not shown."""
    row, more = state.row, {"autocomplete": "off"}
    label = re.sub("url|Smtp|Osv", lambda word: word[0].upper(), row.name.replace("_", " ").capitalize())
    hint = f"{_sentence(row.about)}." + (" One per line." if row.is_repeatable else "")
    if state.source == "flag":
        hint += f" Set by {row.flag} or {row.variable}; change it there."
        more["disabled"] = "disabled"
    elif row.is_secret:
        hint += " Set; leave this empty to keep it." if state.is_set else " Not set."
    elif "|" in row.shape:
        return Field(row.name, label, state.texts[0] if state.is_set else "", "select", hint, choices=[
            ("", f"Default ({row.default})"), *((one, one) for one in row.shape.split("|"))])
    elif default := ", ".join(row.texts(row.default)):
        more["placeholder"] = default
    value = "\n".join(state.texts) if state.source != "default" and not row.is_secret else ""
    return Field(row.name, label, value, hint=hint, more=more,
                 type="password" if row.is_secret else "textarea" if row.is_repeatable else "text")

def _stored_settings(visit: Visit, states: Iterable[SettingState]) -> list[Entry]:
    """Every setting that is not at its default; of a keyed one each key."""
    own = {(name, text.partition("=")[0]) for name, texts in visit.store.config.all().items()
           for text in texts}
    items = []
    for row, state in ((state.row, state) for state in states if state.source != "default"):
        for text in state.texts if row.is_keyed else [", ".join(state.texts)]:
            key = text.partition("=")[0] if row.is_keyed else ""
            remove = Button("Delete", functools.partial(visit.context.config.unset, row.name, key),
                            f"Deleted {row.name} {key}".rstrip() + ".")
            is_own = (row.name, key) in own if key else state.source != "flag"
            items.append(Entry(
                row.name, about=text, key=f"{row.name} {key}".rstrip(),
                end="set here" if is_own else f"set by {row.flag} or {row.variable}",
                buttons={"remove": remove} if is_own else {}))
    items += [Entry("token", about=words) for words, _ in visit.context.refused_tokens.values()]
    return items + [Entry("token", about=f"{one.id}=***", end=f"set by {one.token_variable}")
                    for one in visit.providers.values()
                    if one.dialect.auth and os.environ.get(one.token_variable)]

def _changed_settings(visit: Visit, states: Iterable[SettingState]) -> dict[str, list[str]]:
    """The texts of the settings that the form changes; of a default none. Raises Invalid."""
    fields, changes = InputReader(), {}
    for row, state in ((state.row, state) for state in states if state.source != "flag"):
        texts = visit.form.lines(row.name)
        if texts == (list(state.texts) if state.is_set else []) or row.is_secret and not texts:
            continue
        changes[row.name] = texts
        try:
            for text in texts:
                row.parse(text)
        except ValueError as error:
            fields.add_problem(row.name, f"must be {error}")
    fields.check()
    return changes

def _try_mail(visit: Visit, states: Iterable[SettingState]) -> dict[str, Any]:
    """What the page shows of a test mail by the server typed, or else saved. Raises Invalid, TooMany."""
    typed: dict[str, Any] = {name: "".join(texts) for name, texts in _changed_settings(visit, states).items()}
    settings = dataclasses.replace(visit.settings, **typed)
    if not settings.smtp_url:
        raise Invalid(Problem("smtp_url", "is required to send a mail"))
    about = read_settings("email", [("to", visit.account.email)])
    destination = Destination(make_id(), visit.account.id, "email", "test", about, "")
    return _tried(visit, destination, *sample_event(visit.account), settings)

def _try_provider(visit: Visit) -> dict[str, str]:
    """A flash message: what a typed provider has of a project. No token is sent there. Raises Invalid."""
    try:
        row = SETTINGS["provider"].read([visit.form.text("provider")], "provider")[0]
        provider, name, _ = project_at(providers_with([row]), row[0], visit.form.text("name"))
        with visit.context.turn(visit.account.id):
            listing = releases_of(provider, name, visit.context.ask)
    except SettingError as error:
        raise Invalid(Problem("provider", f"cannot be used: {error}")) from None
    except ProviderError as error:
        raise Invalid(f"{error}.") from None
    versions = [one.version for one in listing.releases] if listing else []
    return {"flash": f"Found {len(versions)} releases: {', '.join(versions[:10]) or 'none'}"}

_HEALTH_NAMES = {"store": "Store", "tracker": "Checks", "courier": "Deliveries"}

@page_at("/status", "admin")
def status_page(visit: Visit) -> Any:
    if visit.result:
        return visit.result
    store, sources = visit.store, visit.store.sources.all()
    facts = {name.replace("_", " "): str(count) for name, count in store.counts().items()}
    facts["messages waiting"] = facts.pop("pending deliveries")
    database = store.database
    facts |= {"size": f"{database.size() / MIB:,.1f} MiB", "file": os.path.basename(database.path),
              "version": __version__}
    tracked = store.projects.ids_by_key(visit.account.id)
    return visit.show(PAGE, "/status", title="Status", sections=[
        {"heading": "The last 24 hours", "looks": "facts", "items": [
            Entry(name.replace("_", " ").capitalize(), about=f"{count:,}")
            for name, count in store.activity(database.clock() - DAY).items()]},
        {"heading": "Failing sources", "none": "None.", "items": [Entry(
            "" if (one.provider, one.key) in tracked else one.name, name=one.name,
            path=f"/projects/{id_}" if (id_ := tracked.get((one.provider, one.key))) else "",
            icon=visit.icon_of(one.provider), hints=[one.error or ""],
            about=f"next check {visit.when(one.next_check_at)[2]}", end="since",
            when=visit.when(one.failing_since)) for one in sources if one.error][:50]},
        {"heading": "Failing destinations", "none": "None.", "items": [Entry(
            one.name, icon=icon_of(one.kind, visit.kinds[one.kind].title), hints=[one.error or ""],
            end="since", about=owner.email if (owner := store.accounts.get(one.account_id)) else "",
            when=visit.when(one.failing_since)) for one in store.destinations.failing()[:50]]},
        {"heading": "Service", "looks": "facts", "form_class": "", "is_main": False,
         "buttons": {"backup": Button("Download a backup", functools.partial(_backup, visit))}, "items": [
             *(Entry(_HEALTH_NAMES[name], marks=[("good" if state == "ok" else "bad", state)])
               for name, state in visit.context.health().items()),
             *(Entry(name.capitalize(), about=text) for name, text in facts.items()),
             *(Entry(what.capitalize(), marks=[("bad", "not asked")], hints=[words])
               for what, words in visit.context.outages.items())]},
        {"heading": "Provider quotas", "none": "No rate-limit data yet.", "items": [Entry(
            visit.title_of(one.provider), icon=visit.icon_of(one.provider),
            about=f"{pluralize(one.quota_left or 0, 'request')} left",
            when=visit.when(one.checked_at)) for one in {
                one.provider: one for one in sources if one.quota_left is not None}.values()]}])

def _backup(visit: Visit) -> Any:
    """A copy of the store, as an answer."""
    visit.require_password()
    path = f"{visit.store.database.path}.{make_id()}.download"
    try:
        visit.store.database.backup(path)
        copy = open(path, "rb")
        os.unlink(path)         # it is there as long as it is being read
    except (OSError, sqlite3.Error) as error:
        raise StoreUnavailable(f"the backup failed: {error}") from error
    day = datetime.datetime.fromtimestamp(visit.store.database.clock(), visit.account.zone)
    bottle.response.headers.update({
        "Content-Type": "application/vnd.sqlite3", "Cache-Control": "no-store",
        "Content-Length": str(os.fstat(copy.fileno()).st_size),
        "Content-Disposition": f'attachment; filename="releasetrack-{day:%Y-%m-%d}.db"'})
    return copy

# Feeds and badges: read by whoever knows the address

FEED = bottle.SimpleTemplate("""\
<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
  <id>{{urn(id)}}</id>
  <title>{{title}}</title>
  <updated>{{updated}}</updated>
  <link rel="self" type="application/atom+xml" href="{{address}}"/>
  <link rel="alternate" type="text/html" href="{{base}}/"/>
  <author><name>releasetrack</name></author>
  % for one in entries:
  <entry>
    <id>{{urn(one["id"])}}</id>
    <title>{{one["title"]}}</title>
    <updated>{{one["updated"]}}</updated>
    <published>{{one["published"]}}</published>
    % if one["url"]:
    <link rel="alternate" href="{{one["url"]}}"/>
    % end
    <category term="{{one["provider"]}}"/>
    <content type="html">{{one["content"]}}</content>
  </entry>
  % end
</feed>
""")

@page_at("/feeds/<secret>.atom", "anyone", "GET")
def feed_page(visit: Visit, secret: str) -> bytes:
    """Of the last 600 releases of an account, or of one of its tags, 30 that are not excluded, as Atom:
    https://www.rfc-editor.org/rfc/rfc4287. 304: nothing is new."""
    account_id, tag = or_404(visit.store.accounts.by_feed(secret))
    found, _ = visit.store.releases.latest(account_id, 1, tag=tag.id if tag else None, size=600)
    wanted = (one for one in found if not is_excluded(one.project, one.release))
    entries, left = [_feed_entry(visit, one) for one in itertools.islice(wanted, 30)], 768 * KIB
    for entry in entries:
        left -= len(html.escape(entry["content"]).encode())
        if left < 0:
            entry["content"] = "<p>The notes are too long for one feed; see the release.</p>"
    feed = FEED.render(
        id=f"feed of {tag.id if tag else account_id}", address=f"{visit.base}/feeds/{secret}.atom",
        base=visit.base, entries=entries, urn=lambda text: uuid.uuid5(uuid.NAMESPACE_OID, text).urn,
        title=f"Releases: {tag.name}" if tag else "Releases",
        updated=max((one["updated"] for one in entries), default="1970-01-01T00:00:00Z"))
    return conditional_response(feed, "application/atom+xml; charset=utf-8", 300)

def _feed_entry(visit: Visit, one: ReleaseListItem) -> dict[str, Any]:
    project, release = one.project, one.release
    note = visit.store.releases.note(project.source_id, release.version) if one.note else None
    marks, content = [text for _, text in _marks(release)], note.message if note else ""
    if len(content) > 64 * KIB:
        content = preformatted(plain_text(content[:16 * KIB]))      # all of 256 KiB takes most of a second
    return {
        "id": f"{project.id} {release.version} {one.found_at if release.is_updated else ''}",
        "title": f"{project.name} {release.version}" + (f" ({', '.join(marks)})" if marks else ""),
        "provider": project.provider, "published": release.date, "content": content,
        "updated": timestamp(one.found_at) if one.found_at and release.is_updated else release.date,
        "url": (note.url if note else "") or visit.page_of(project, release.version)}

def conditional_response(text: str, content_type: str, seconds: int) -> bytes:
    """The body of an answer without a session; empty, with 304, where the client has it already. What XML
    does not allow is replaced: https://www.w3.org/TR/xml/#charsets"""
    content = re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text).encode()
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    bottle.response.headers.update({
        "ETag": etag, "Content-Type": content_type, "Cache-Control": f"private, max-age={seconds}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"})
    if etag not in bottle.request.environ.get("HTTP_IF_NONE_MATCH", ""):
        return content
    bottle.response.status = 304
    del bottle.response.headers["Content-Type"]
    return b""

BADGE = bottle.SimpleTemplate("""\
<svg xmlns="http://www.w3.org/2000/svg" width="{{left + right}}" height="20" role="img"
  aria-label="{{name}}: {{version}}">
  <title>{{name}}: {{version}}</title>
  <rect width="{{left + right}}" height="20" rx="4" fill="#4a5261"/>
  <path d="M{{left}} 0h{{right - 4}}a4 4 0 0 1 4 4v12a4 4 0 0 1-4 4h-{{right - 4}}z" fill="#1756bd"/>
  <g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
    <text x="8" y="14">{{name}}</text>
    <text x="{{left + 8}}" y="14">{{version}}</text>
  </g>
</svg>
""")

@page_at("/badge/<secret>/<project_id>.svg", "anyone", "GET")
def badge_page(visit: Visit, secret: str, project_id: str) -> bytes:
    """A picture of a project's latest version that is not excluded. 304: it is the same."""
    account_id = or_404(visit.store.accounts.by_badge(secret))
    project = or_404(visit.store.projects.get(account_id, project_id))
    latest = visit.store.releases.newest_wanted(project)
    name = shortened("/".join(project.name.removeprefix("library/").split("/")[-2:]), 40)
    version = shortened(latest.version, 40) if latest else "none yet"
    badge = BADGE.render(name=name, version=version, left=16 + 7 * len(name), right=16 + 7 * len(version))
    return conditional_response(badge, "image/svg+xml; charset=utf-8", 300)

ASSETS = {          # files that pages load
    "/style.css": (STYLE, "text/css; charset=utf-8"),
    "/script.js": (SCRIPT, "text/javascript; charset=utf-8"),
    "/icon.svg": (LOGO, "image/svg+xml; charset=utf-8"),
    "/icons.svg": (ICONS, "image/svg+xml; charset=utf-8"),
    "/manifest.webmanifest": (MANIFEST, "application/manifest+json; charset=utf-8"),
}


# == service ===================================================================
# The library's front door: builds the store, the threads and the application, and ends them in the
# order in which nothing is lost. A process may have several services.

def _answer_health(health: dict[str, str]) -> dict[str, Any]:
    """A Message: 200, or 503 where the store or a thread does not work."""
    is_well = all(state in ("ok", "not started") for state in health.values())
    bottle.response.status = status = 200 if is_well else 503
    return message_of(status) | health

def _answer_metrics(context: Context) -> bytes:
    """Gauges for an administrator's key, as Prometheus reads them:
    https://prometheus.io/docs/instrumenting/exposition_formats/"""
    try:
        _, account_id = key_account(context, bottle.request.environ)
        account = context.store.accounts.get(account_id)
        if not account or not account.is_admin:
            raise Unauthorized
        gauges = context.store.counts() | {
            f"{name}_up": int(state == "ok") for name, state in context.health().items()}
    except ReleasetrackError as error:
        bottle.response.content_type = "application/json"
        return error_response(error)
    bottle.response.content_type = "text/plain; version=0.0.4; charset=utf-8"
    return "".join(f"# TYPE releasetrack_{name} gauge\nreleasetrack_{name} {value}\n"
                   for name, value in gauges.items()).encode()

def _set_path(environ: dict[str, Any], prefix: bytes) -> None:
    """Put our part of the path, as sent, into ``releasetrack.path``: %2F is no slash there. Cuts off
    ``prefix``, of the base URL, and trailing slashes. A path that is not UTF-8 stays percent-encoded for
    bottle, which would drop bytes, and so confuse two paths."""
    if "bottle.raw_path" in environ:    # mounted in a bottle application, which decodes paths in place
        for name in ("SCRIPT_NAME", "PATH_INFO"):
            environ[name] = environ.get(name, "").encode("utf-8", "replace").decode("latin-1")
    path = environ.get("PATH_INFO", "").encode("latin-1")
    if prefix and not environ.get("SCRIPT_NAME"):
        environ["SCRIPT_NAME"] = prefix.decode("latin-1")
        if (path + b"/").startswith(prefix + b"/"):
            path = path[len(prefix):]
    sent = re.sub(r"^https?://[^/?#]*|[?#].*", "", environ.get("REQUEST_URI", "")).split("/")
    raw = quote(path)
    for depth in (environ.get("SCRIPT_NAME", "").count("/"), 0):        # which a proxy may have cut off
        ours = "/" + "/".join(sent[depth + 1:])
        if urllib.parse.unquote_to_bytes(ours) == path:
            raw = ours
            break
    environ["releasetrack.path"] = raw = raw.rstrip("/") or "/"
    path = urllib.parse.unquote_to_bytes(raw)
    is_utf8 = "\ufffd" not in path.decode("utf-8", "replace")
    environ["PATH_INFO"] = path.decode("latin-1") if is_utf8 else raw

def make_app(context: Context) -> Callable[..., Any]:
    """The WSGI application: API, pages, health and metrics."""
    app = bottle.Bottle()

    def answer_error(error: bottle.HTTPError) -> bytes:
        """What bottle refuses by itself, as a page or a Message."""
        environ = bottle.request.environ
        if error.exception:         # which bottle has caught
            log.error("pages: %s %s failed", environ["REQUEST_METHOD"], environ["PATH_INFO"],
                      exc_info=error.exception)
        is_api = re.match(r"/(?:v1|healthz|metrics)(?:/|$)", environ["PATH_INFO"])
        if "text/html" in environ.get("HTTP_ACCEPT", "") and not is_api:
            return error_page(context, environ, error.status_code).encode()
        bottle.response.content_type = "application/json"
        return status_message(error.status_code)

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["wsgi.errors"] = io.StringIO()      # bottle prints there what answer_error logs
        _set_path(environ, unquote(urlsplit(context.settings.base_url).path).rstrip("/").encode())
        return app(environ, start_response)
    app.default_error_handler = answer_error
    for path in ("/v1", "/v1/<rest:path>"):
        app.route(path, method="ANY", callback=lambda rest="": answer_api(context))
    app.route("/healthz", callback=lambda: _answer_health(context.health()))
    app.route("/metrics", callback=lambda: _answer_metrics(context))
    for path, (_, _, methods) in PAGES.items():
        app.route(path, method=list(methods), callback=functools.partial(answer_page, context, path))
    for path, (text, content_type) in ASSETS.items():
        app.route(path, callback=functools.partial(conditional_response, text, content_type, 3600))
    return application

_SCAN_LIMIT = 20 * MIB              # bytes of a file
_FILES_LIMIT = 20_000               # of a folder
_FOLDERS_PASSED_OVER = frozenset(("node_modules", "vendor", "site-packages", "__pycache__"))
_HIDDEN_FOLDERS = frozenset((".github", ".gitlab", ".gitea", ".forgejo", ".woodpecker", ".circleci"))

def _read_text(path: str) -> str:
    """Raises OSError, ValueError."""
    if os.path.exists(path) and not os.path.isfile(path):       # a pipe or a device might never end
        raise ValueError("is not a file")
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > _SCAN_LIMIT:
            raise ValueError(f"is larger than {_SCAN_LIMIT // MIB} MiB")
        return file.read(_SCAN_LIMIT).decode("utf-8", "replace")

def _files_of(path: str, own: Mapping[str, Reader]) -> Iterator[str]:
    """The files in a folder that readers know by name; not links that lead out of it or hidden folders, but
    for those of pipelines."""
    root, count, known = os.path.realpath(path), 0, dict(own) | {row[0]: row[1] for row in READERS}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(one for one in folders if one in _HIDDEN_FOLDERS
                            or one[0] != "." and one not in _FOLDERS_PASSED_OVER)
        for name in sorted(names):
            count += 1
            if count > _FILES_LIMIT:
                raise ValueError(f"has more than {_FILES_LIMIT:,} files; name its folders one by one")
            file = os.path.join(folder, name)
            is_inside = os.path.commonpath((root, os.path.realpath(file))) == root
            if is_inside and reader_named(known, name):
                yield file

def _beside(file: str, name: str) -> str:
    """The text of a file in the same folder; "" where there is none to read, or it is a link."""
    path = os.path.join(os.path.dirname(file), name)
    with contextlib.suppress(OSError, ValueError):
        return "" if os.path.islink(path) or not os.path.isfile(path) else _read_text(path)
    return ""

def pins_of_file(file: str, own: Reader | None = None) -> list[Pin]:
    """What a file pins, by variables and the manifest beside it. ``own``: as pins_in. Raises ValueError."""
    env = dict[str, str]()
    with contextlib.suppress(ValueError):       # its variables are then not set
        env = read_env(_beside(file, ".env"))
    try:
        pins = pins_in(file, _read_text(file), env, own)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from None
    names = MANIFESTS.get(os.path.basename(file), ())
    return with_directs(pins, "\n".join(_beside(file, name) for name in names)) if names else pins

def scan_files(paths: Iterable[str], helper: Helper, complain: Callable[[str], None],
               own: Mapping[str, Reader]) -> list[tuple[str, Pin]]:
    """``(file, what it pins)`` of files and folders. What cannot be read is complained of, and that nothing
    pins a version. A service in an override of a compose file replaces that beside it, a Kustomization the
    images beside it, and those without a tag in all files. ``own``: as of ``Service``."""
    found, end = list[tuple[str, Pin]](), time.monotonic() + 10 * MINUTE
    for path in paths:
        try:
            files = list(_files_of(path, own)) if os.path.isdir(path) else [path]
        except (OSError, ValueError) as error:
            complain(f"{path} {error}")
            continue
        for file in files:
            if time.monotonic() > end:
                complain(f"{file} and what follows was not read: ten minutes are over")
                break
            try:
                at, read = os.path.abspath(file), reader_named(own, file)
                found += [(file, pin) for pin in pins_of_file(at, read)] if read else [
                    (file, Pin(*pin)) for pin in helper.run(pins_of_file, at)]
            except ValueError as error:
                complain(f"{file} {error}")
    if not found:
        complain("nothing pins a version there, so what was recorded stays")
    services = {(os.path.dirname(file), pin.service) for file, pin in found if ".override." in file}
    images = {(os.path.dirname(file), pin.alias) for file, pin in found
              if pin.alias and "kustomization." in file}
    names = {name for _, name in images}
    return [(file, pin) for file, pin in found if ".override." in file or pin.alias or not (
        pin.service and (os.path.dirname(file), pin.service) in services
        or (os.path.dirname(file), pin.name) in images or pin.name in names and not pin.version + pin.digest)]

def scan_docker(place: str, complain: Callable[[str], None]) -> list[tuple[str, Pin]]:
    """What running containers run. What a minute does not suffice for is complained of. Raises Invalid."""
    end = time.monotonic() + MINUTE
    try:
        found = list(itertools.takewhile(lambda _: time.monotonic() < end, pins_of_containers(
            functools.partial(ask_docker, place))))
        if time.monotonic() >= end:
            complain(f"{place} is slow: only {pluralize(len(found), 'container')} read within a minute")
        return [("", pin) for pin in dict.fromkeys(found) if pin]
    except (Unreachable, ValueError) as error:
        raise Invalid(f"{place}: {error}") from None

Listener = Callable[[Mapping[str, Any]], None]

def _refuse_taken(what: str, own: Sequence[str], known: Collection[str], pattern: str) -> None:
    """Raises SettingError for an id of an embedding program's that hides another, or is malformed."""
    for at, id_ in enumerate(own):
        if id_ in known or id_ in own[:at] or not re.fullmatch(pattern, id_):
            raise SettingError(f"{what} {id_!r}: expected one that is not there yet, and matches {pattern}")
        try:
            re.compile(id_)     # those of readers are patterns
        except re.error as error:
            raise SettingError(f"{what} {id_!r}: expected a regular expression: {error}") from None

class Service(contextlib.AbstractContextManager["Service"]):
    """A release tracker over one database file: ``on_release``, ``start``, mount ``app``, ``stop``; and
    ``track``, ``check_now``, ``releases``, ``updates``, ``install`` for a program that has no pages.
    This service alone has your ``providers``; your ``kinds`` of destinations by id, which people add on the
    pages; and your ``readers`` by patterns of files' names, which come before ours and are called in this
    process, without a limit of time. The setting ``provider`` moves one of ours. ``is_command``: also use
    what the last ``serve`` on this store was started with. Raises StoreError; SettingError, which is a
    ValueError, also for an id that is taken."""
    def __init__(self, settings: Settings | None = None, providers: Iterable[Provider] = (), *,
                 kinds: Mapping[str, Kind] | None = None, readers: Mapping[str, Reader] | None = None,
                 is_command: bool = False) -> None:
        own, more_providers = settings or Settings(), tuple(providers)
        _refuse_taken("provider", [one.id for one in more_providers], PROVIDERS, "[a-z0-9][a-z0-9-]{0,39}")
        _refuse_taken("kind", [*(kinds or ())], KINDS, "[a-z][a-z0-9_]{0,39}")
        _refuse_taken("reader", [*(readers or ())], [row[0] for row in READERS], "(?s).+")
        providers_with(own.provider, more_providers)        # raises, before a file is made
        every_kind = Kinds(KINDS | dict(kinds or {}))
        self.store = Store(own.db, quota_of=lambda name: self.settings.quota_of(name))
        self._reloading, self._stored = threading.Lock(), self.store.config.all()
        self.config = Configuration(self.store, own, more_providers, is_command)
        self.settings = self.config.settings()
        self.providers = self.config.providers(self.settings)
        self.fetcher = Fetcher(self.settings)
        # One for what is sent and one for checks and scans: whoever sends much does not hold up those.
        self.helper, self._own_helper = Helper(), Helper()
        self.tracker = Tracker(self.store, self.fetcher, self.providers, self.settings, self._own_helper,
                               on_turn=self._reload_if_changed)
        self.courier = Courier(self.store, self.fetcher.post, self.settings, kinds=every_kind)
        self._started_in = 0            # the process; -1 for another one, when that was logged
        self._scanner: threading.Thread | None = None
        self._context = Context(self.store, self.settings, self.providers, self.helper,
                                RateLimiter(self.settings.rate_limit), LoginThrottle(),
                                AnswerCache(self.store.database.revision),
                                ConcurrencyLimit(max(2, own.threads // 2)), self.fetcher.fetch,
                                self.fetcher.refusal_of, self.fetcher.refused_tokens, self.fetcher.outages,
                                self.courier.try_out, self.health, self.config, RateLimiter(0), every_kind,
                                dict(readers or {}))
        self.config.changed = self.reload
        self._app = make_app(self._context)

    @property
    def setup_path(self) -> str:
        """The path of the page that creates the first account; "" when there is an account."""
        return "" if self.store.accounts.count() else f"/setup?token={self.store.config.setup_token()}"

    def app(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The WSGI application; 503 in a process forked after ``start``, where locks may be held for ever."""
        if self._started_in in (0, os.getpid()):
            return self._app(environ, start_response)
        said = "start() was called before this process was forked; call it in each process that answers."
        if self._started_in > 0:
            log.error("service: %s", said)
            self._started_in = -1
        start_response("503 Service Unavailable", [("Content-Type", "application/json")])
        return [status_message(503, said)]

    @property
    def inventory(self) -> Inventory:
        return self._context.inventory

    def call(self, account_id: str, given: Mapping[str, Any], **query: Any) -> Call:
        """What an account asks for in this process, for a handler of the API; ``given``: as in a body."""
        return Call(self._context, account_id, (), {
            GIVEN: given, "QUERY_STRING": urllib.parse.urlencode(query)})

    def account_of(self, email: str = "") -> Account:
        """The account with an e-mail address; without one, the only account. Raises Invalid, SettingError."""
        accounts = {account.email: account for account in self.store.accounts.all()}
        if email:
            if account := self.store.accounts.by_email(email):
                return account
            raise Invalid(f"there is no account {email}{did_you_mean(email, accounts)}; "
                          f"'account add {email}' creates it")
        if not accounts:
            raise Invalid("there is no account yet; create one with 'account add EMAIL'")
        if len(accounts) > 1:
            raise SettingError(f"there are {len(accounts)} accounts; name one with --account: "
                               + ", ".join([*accounts][:10]))
        return next(iter(accounts.values()))

    def project_of(self, account: Account, name: str, provider: str | None = None) -> Project:
        """A project that an account tracks, by what ``track`` accepts. Raises Invalid."""
        key, named = name, self.store.projects.search(account.id, name) if provider is None else []
        if [project.name for project in named] == [name]:
            return named[0]
        if provider is None or provider in self.providers:      # else it is of one that is not known any more
            at, _, key = project_at(self.providers, provider, name, is_typed=True)
            provider = at.id
        found = self.store.projects.by_names(account.id, provider, [key])
        if found is None:
            raise Invalid(f"{account.email} does not track {name} of {provider}")
        return found[0]

    def track(self, name: str, provider: str | None = None, *, account: str = "",
              **options: Any) -> dict[str, Any]:
        """Track a project, or change the options of one that is tracked, and return it as ``/v1/projects``
        does. ``name``: of it at the provider, its address, a purl, or ``owner/repo`` of GitHub. ``options``:
        members of the project. ``account``: an e-mail address; "" is the only account. One that is missing
        is created without a password, which the setup link sets, or ``account passwd``. Raises Invalid."""
        accounts = self.store.accounts
        if not (accounts.by_email(account) if account else accounts.all()):
            email = read_email(account or "program@localhost")
            accounts.add("user", email, email, password="", is_admin=False, zone=machine_time_zone())
        owner = self.account_of(account)
        call = self.call(owner.id, options | {"name": name, "provider": provider})
        try:
            return read_project(call, track(call, is_typed=True)[0])
        except AlreadyTracked:
            return update_project(self.call(owner.id, options), self.project_of(owner, name, provider))

    def _listed(self, handler: Callable[..., dict[str, Any]], member: str, account: Account,
                *about: Project) -> list[dict[str, Any]]:
        """What a handler of the API lists on all its pages."""
        found, pages, page = list[dict[str, Any]](), 1, 0
        while page < pages:
            page += 1
            answer = handler(self.call(account.id, {}, page=page), *about)
            found, pages = found + answer[member], answer["total_pages"]
        return found

    def projects(self, account: str = "") -> list[dict[str, Any]]:
        """The projects of an account, as ``/v1/projects`` has them; ``source.error`` says what fails."""
        return self._listed(list_projects, "projects", self.account_of(account))

    def releases(self, name: str, provider: str | None = None, *, account: str = "") -> list[dict[str, Any]]:
        """The releases of a project, newest first, as ``/v1/projects/ID/releases`` has them."""
        owner = self.account_of(account)
        return self._listed(list_releases, "releases", owner, self.project_of(owner, name, provider))

    def updates(self, account: str = "") -> list[dict[str, Any]]:
        """What runs and is vulnerable, ended, behind or unsure, the worst first, as of ``/v1/updates``."""
        return self._listed(list_updates, "updates", self.account_of(account))

    def install(self, name: str, version: str, provider: str | None = None, *, place: str = "",
                account: str = "") -> str:
        """Record which version runs, at a place; returns what is doubtful about it, or "". Raises Invalid."""
        owner = self.account_of(account)
        return install(self.call(owner.id, {"version": version, "place": place}),
                       self.project_of(owner, name, provider))

    def check_now(self, account: str = "") -> list[dict[str, Any]]:
        """Check all projects of an account, also without ``start``; returns the new releases. Listeners are
        called; notifications are sent by ``start``."""
        found = list[dict[str, Any]]()

        def report(source: Source, news: list[Release] | None) -> None:
            found.extend({"provider": source.provider, "project": source.name} | release.as_json()
                         for release in news or ())
        self.tracker.check_all(self.store.sources.all(self.account_of(account).id), report)
        return found

    def on_release(self, listener: Listener) -> Listener:
        """Call ``listener`` with the standard body of each event, from a background thread, once the release
        is stored; be quick there, or use a queue. A call that a crash prevents is not repeated: only
        deliveries are durable. Returns the listener, so that this is a decorator."""
        if not callable(listener) or inspect.iscoroutinefunction(listener):
            raise TypeError(f"expected a function that is not async, not {listener!r}")
        self.tracker.listeners.append(listener)
        return listener

    def remove_listener(self, listener: Listener) -> None:
        """End what ``on_release`` began. Raises ValueError for one that was not added."""
        self.tracker.listeners.remove(listener)

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Start the tracker and the courier, where ``app`` answers. Once."""
        if self._started_in:
            raise RuntimeError("the service has been started already")
        self._started_in = os.getpid()
        with logged("settings: recording them for commands"):
            self.config.record_serve()
        self.tracker.start()
        self.courier.start()
        if self.settings.scan or self.settings.docker:
            self._scanner = threading.Thread(target=self._scan, name="releasetrack-scan", daemon=True)
            self._scanner.start()

    def _scan(self) -> None:
        """Every hour record what is installed here, as the settings scan and docker say, for the first
        administrator; what could not be read keeps what it had."""
        while not self.fetcher.stopping.is_set():
            account = None
            for origin, given in (("file", self.settings.scan), ("container", self.settings.docker)):
                with logged("scan"):        # a bug costs this scan, not those to come
                    account = next((one for one in self.store.accounts.all() if one.is_admin), None)
                    if account and given:
                        self._record_scan(account, origin)
            self.fetcher.stopping.wait(HOUR if account else MINUTE)

    def _record_scan(self, account: Account, origin: str) -> None:
        faults = list[str]()
        pins = scan_docker(self.settings.docker, faults.append) if origin == "container" else scan_files(
            self.settings.scan, self._own_helper, faults.append, self._context.own_readers)
        for fault in faults:
            log.warning("scan: %s", fault)
        rows = self.inventory.record_scan(account, self.settings.place, origin, pins, is_whole=not faults)
        log.info("scan: %d of %d are tracked (%s)", sum(row.outcome == "recorded" for row in rows),
                 len(rows), origin)

    def reload(self) -> None:
        """Use the settings that the store has now, at once. Raises SettingError."""
        with self._reloading:
            settings = self.config.settings()
            self.providers = self.config.providers(settings)
            self._context.rate_limits.limit = settings.rate_limit
            self.settings = self._context.settings = settings
            self._context.providers = self.providers
            # Some answers depend on providers.
            self._context.answers = AnswerCache(self.store.database.revision)
            self.fetcher.configure(settings)
            self.tracker.configure(settings, self.providers)
            self.courier.configure(settings)

    def _reload_if_changed(self) -> None:
        stored = self.store.config.all()
        if stored == self._stored:
            return
        try:
            self.reload()
        except SettingError as error:
            log.error("settings: %s; the previous ones stay in use", error)
        self._stored = stored       # not after StoreUnavailable: the next turn tries again

    def ask_to_stop(self) -> None:
        """Tell the threads to end, without waiting for them."""
        self.tracker.stop()
        self.courier.stop()
        self.fetcher.stopping.set()

    def stop(self) -> None:
        """End the threads and close the store. What is under way ends, or is done again at the next start."""
        if self._started_in not in (0, os.getpid()):
            return
        self.ask_to_stop()
        self.tracker.join()
        self.courier.join()
        if self._scanner:
            self._scanner.join(DOCKER_SECONDS)
        self.helper.close()
        self._own_helper.close()
        self.store.close()

    def health(self) -> dict[str, str]:
        """The state of the store and of the two threads: "ok", "not started" or what is wrong."""
        return {"store": self.store.database.problem() or "ok"} | {
            name: "not started" if not self._started_in else "ok" if worker.is_alive() else "does not run"
            for name, worker in (("tracker", self.tracker), ("courier", self.courier))}

def trim_memory() -> None:
    """Give memory that is free back to the system, such as what compiling this file took, 21 of 56 MiB."""
    with contextlib.suppress(ImportError, OSError, AttributeError):     # not every C library has it
        import ctypes
        ctypes.CDLL(None).malloc_trim(0)

def most_connections() -> int:
    """How many clients may be connected at once; 300 files are for the store, tracker and courier."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = min(hard, MOST_FILES) if hard >= 0 else MOST_FILES      # RLIM_INFINITY is -1
    if 0 <= soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    limit = max(40, min(CONNECTIONS, files - 300))
    if limit < CONNECTIONS:
        log.warning("at most %d connections at once, as ulimit -n is only %d", limit, files)
    return limit

_TOO_LARGE = (b"<!DOCTYPE html><title>Too large</title><p>At most 1 MiB can be sent here. The command "
              b"<code>scan</code> reads larger files. Go back to the page before.</p>")

def _request_classes() -> tuple[Any, Any]:
    """waitress' parser of requests, and its answer to those that it refuses, as we have them."""
    import waitress.parser      # only here: a program that embeds the file may have another server
    import waitress.task

    class ErrorResponse(waitress.task.ErrorTask):
        """A Message to what waitress refuses by itself."""
        def execute(self) -> None:
            error = self.request.error
            errors = [f"The request could not be understood: {error.body}."] if error.code == 400 else []
            is_head = getattr(self.request, "command", "") == "HEAD"    # it may have no readable first line
            kind, body = "application/json", status_message(error.code, *errors)
            accepted = self.request.headers.get("ACCEPT", "")
            if error.code == 413 and "text/html" in accepted and "/v1/" not in self.request.path:
                kind, body = "text/html", _TOO_LARGE
            answer = (f"{error.code} {REASONS.get(error.code, error.reason)}", [("Content-Type", kind)],
                      b"" if is_head else body)
            error.to_response = lambda *_: answer
            super().execute()

    class Parser(waitress.parser.HTTPRequestParser):
        """Refuses what a proxy in front may read in another way: RFC 9112, sections 3.2 and 6.3."""
        rest = b""      # what came with it and follows it

        def __init__(self, adj: Any) -> None:
            super().__init__(adj)
            self.begun_at = time.time()

        def received(self, data: bytes) -> int:
            used = int(super().received(data))
            if not self.completed or self.empty:
                return used
            # Where there is no body, waitress would say 100, wait for one, and never answer.
            self.expect_continue, self.rest = False, data[used:]
            return len(data)

        def parse_header(self, header_plus: bytes) -> None:
            super().parse_header(header_plus)
            has_two_lengths = self.chunked and "CONTENT_LENGTH" in self.headers
            # waitress removes Transfer-Encoding but from HTTP/1.0, where it does not know it.
            if has_two_lengths or "TRANSFER_ENCODING" in self.headers or "," in self.headers.get("HOST", ""):
                raise waitress.parser.ParsingError("Its length or its host is ambiguous")

    return Parser, ErrorResponse

def _channel_class(most: int, trusted_proxy: Callable[[], tuple[str, ...]]) -> Any:
    """waitress' connection, with deadlines; at most ``most`` from one network that is no trusted proxy."""
    import waitress.channel

    class Channel(waitress.channel.HTTPChannel):
        """One request at a time: the next is read, or taken from ``rest``, once the answer has been sent."""
        parser_class, error_task_class = _request_classes()
        rest = b""

        def __init__(self, server: Any, sock: socket.socket, addr: Any, adj: Any, map: Any = None) -> None:
            self.network = network_of(addr[0])
            super().__init__(server, sock, addr, adj, map)
            self.request = self.parser_class(adj)       # the first is due at once
            if not in_networks(addr[0], trusted_proxy()) and sum(
                    one.network == self.network for one in server.active_channels.values()) > most:
                self.handle_close()

        def is_late(self, now: float) -> bool:
            """Whether the client took too long to send a request, to ask for more, or to read an answer."""
            if request := self.request:
                return now > request.begun_at + (BODY_TIMEOUT if request.headers_finished else HEAD_TIMEOUT)
            is_working = self.requests and self.total_outbufs_len <= UNSENT_LIMIT
            return not is_working and now > self.last_activity + IDLE_TIMEOUT

        def readable(self) -> bool:
            return not self.rest and bool(super().readable())

        def writable(self) -> bool:
            return bool(super().writable() or self.rest and not self.requests)

        def handle_write(self) -> None:
            super().handle_write()
            if self.rest and not self.requests and not self.total_outbufs_len:
                data, self.rest = self.rest, b""
                self.received(data)

        def service(self) -> None:
            self.rest = self.requests[0].rest
            super().service()

    return Channel

def make_server(application: Callable[..., Any], settings: Settings,
                trusted_proxy: Callable[[], tuple[str, ...]] = tuple) -> tuple[Any, str]:
    """``(a waitress server that listens, its address)``. A ``trusted_proxy`` may have all connections, other
    networks a quarter of them. Raises ReleasetrackError."""
    limit = most_connections()
    try:
        import waitress.server
        channel_class = _channel_class(limit // 4, trusted_proxy)
    except ImportError:
        raise ReleasetrackError("it needs the package waitress: pip install waitress") from None
    try:
        family, *_, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM,
                                                 flags=socket.AI_PASSIVE)[0]
        listener = socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        raise ReleasetrackError(f"--host {settings.host} --port {settings.port}: cannot listen there: "
                                f"{error.strerror or error}") from None
    server = waitress.server.create_server(
        application, sockets=[listener], threads=settings.threads, connection_limit=limit,
        asyncore_use_poll=True, max_request_header_size=16 * KIB, max_request_body_size=BODY_LIMIT + 1,
        outbuf_high_watermark=UNSENT_LIMIT, outbuf_overflow=UNSENT_LIMIT,      # what is more is in a file
        cleanup_interval=1, ident="releasetrack", clear_untrusted_proxy_headers=False)

    def maintain(now: float) -> None:       # once a second or two, in the loop that serves the connections
        for channel in server.active_channels.values():
            if channel.is_late(now):
                channel.will_close = True       # by the loop, which does not see one that reads nothing
                with contextlib.suppress(OSError):
                    channel.socket.shutdown(socket.SHUT_RDWR)
        if now % MINUTE < 2:
            trim_memory()
    server.channel_class, server.maintenance = channel_class, maintain
    # What the kernel keeps for each; else megabytes.
    server.adj.socket_options = [*server.adj.socket_options,
                                 (socket.SOL_SOCKET, socket.SO_SNDBUF, UNSENT_LIMIT)]
    # At its default of 1 the threads that answer also send, and compete with the I/O thread for the lock of
    # the interpreter: half as many answers with 8 clients, a twentieth with 100.
    server.adj.send_bytes = 64 * KIB
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)     # a queue is not a fault
    host, port = listener.getsockname()[:2]
    return server, f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# == cli =======================================================================
# The commands. Results go to standard output, as tables on a terminal, with tabs into a pipe, or as JSON;
# diagnostics are one line each on standard error. Exit status: 0 done, 1 could not be done, 2 wrong usage,
# 3 (of check, scan and status) done, but something fails.

Argument = tuple[tuple[str, ...], dict[str, Any]]       # names and options of argparse's add_argument

def argument(name: str, about: str | None = None, shape: str | None = None, read: Callable[[str], Any] = str,
             choices: Collection[str] = (), **options: Any) -> Argument:
    """An argument of a command, and of what shape its value is; a positional one is shown in capitals.
    ``read``: its ValueError says what is expected."""
    def parse(text: str) -> Any:
        try:
            if choices and text not in choices:
                raise ValueError(f"one of {', '.join(choices)}" + did_you_mean(text, choices))
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"invalid value {text[:80]!r}; expected {error}") from None
    if options.get("action") != "store_const":
        options["type"] = parse
    if name[0] != "-":
        shape = name.upper()
    elif choices:
        shape = f"{{{','.join(choices)}}}"
    return (name,), {"help": about, "metavar": shape, **options}

def switch(name: str, about: str, field: str | None = None, value: bool = True) -> Argument:
    """A flag without a value; one that sets a ``field`` to ``value`` leaves None where it is not given."""
    return argument(name, about, action="store_const", const=value, dest=field,
                    default=None if field else False)

def given_often(name: str, about: str, shape: str, **options: Any) -> Argument:
    return argument(name, f"{about} (repeatable)", shape, action="append", **options)

def flags_of(options: Iterable[Option]) -> Iterator[Argument]:
    """The flags of options. Their values are JSON."""
    def read(kind: ValueType, text: str) -> Any:
        value = kind.from_text(text)
        kind.read(value)
        return value
    for option in options:
        flag, *opposite = option.all_flags
        if opposite:
            yield switch(flag, option.type.choices["yes"] or option.about, option.name)
            yield switch(opposite[0], option.type.choices["no"] or f"the opposite of {flag}", option.name,
                         False)
        else:
            yield argument(flag, option.about, option.shape or "TEXT", functools.partial(read, option.type),
                           () if option.shape else option.type.choices, dest=option.name)

_EMAIL = argument("account", "the account's e-mail address", metavar="EMAIL")
_ACCOUNT = argument("--account", "the account; needed only if there are several", "EMAIL")
_JSON = switch("--json", "print JSON")
_YES = switch("--yes", "do not ask for confirmation, as is done on a terminal")

@dataclasses.dataclass(frozen=True)
class Command:
    """A command. ``function``: of the attributes of an Invocation that its parameters name. What it returns
    is printed by ``_show``."""
    about: str
    function: Callable[..., Any]
    own: tuple[Argument, ...] = ()
    columns: str | None = None  # as of _show_rows, if it returns rows
    said: str = ""              # what is printed instead, of its Invocation and what it returned, as "answer"
    sure: str = ""              # what is asked before
    example: str = ""           # of its own flags, of which it needs one at least

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Its own, and those that all of its kind have."""
        names = {*inspect.signature(self.function).parameters}
        is_of_account = names & {"account", "call", "project", "destination"} and _EMAIL not in self.own
        more = [_ACCOUNT] if is_of_account else []
        return (*more, *self.own, *([] if self.columns is None else [_JSON]), *([_YES] if self.sure else []))

    @property
    def flags(self) -> dict[str, str]:
        """Its own flags by the names that its Invocation has what they give under."""
        return {options.get("dest") or name[2:].replace("-", "_"): name
                for (name,), options in reversed(self.own) if name.startswith("--")}

COMMANDS: dict[str, Command] = {}

def command(*arguments: Argument, **more: str) -> Callable[[Handler], Handler]:
    """Enter a command under the function's name, ``account_add`` as ``account add``."""
    def enter(function: Handler) -> Handler:
        COMMANDS[function.__name__.rstrip("_").replace("_", " ")] = Command(
            function.__doc__ or "", function, arguments, **more)
        return function
    return enter

def _one_of(what: str, name: str, known: Mapping[str, Any]) -> Any:
    """What is known under the name. Raises Invalid."""
    if name not in known:
        there_are = ", ".join(one or "''" for one in known) or "none yet"
        raise Invalid(f"there is no {what} {name or repr(name)}"
                      + (did_you_mean(name, known) or f"; there are {there_are}"))
    return known[name]

def _printable(text: str, kept: str = "") -> str:
    """The text with control characters and line ends escaped, except for those in ``kept``."""
    return "".join(one if one.isprintable() or one in kept else one.encode("unicode_escape").decode()
                   for one in text)

def _complain(error: Exception | str) -> None:
    _progress("")
    print(f"releasetrack: {_printable(str(error))}", file=sys.stderr)

def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="\r", file=sys.stderr, flush=True)

def _instant(text: str) -> float:
    """A time, the start of a day, or a time ago, as seconds since the epoch. Raises ValueError."""
    if match := re.fullmatch(r"([0-9]{1,4})([mhd])", text):
        return time.time() - int(match[1]) * {"m": MINUTE, "h": HOUR, "d": DAY}[match[2]]
    with contextlib.suppress(ValueError):
        at = datetime.datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
        return (at if at.tzinfo else at.replace(tzinfo=datetime.timezone.utc)).timestamp()
    raise ValueError("a time such as 2026-01-31T08:00:00Z, a day such as 2026-01-31, "
                     "or a time ago such as 30m, 24h or 7d")

def _title(name: str) -> str:
    return name.removesuffix("_at").removeprefix("is_").replace("_", " ")

def _text(value: Any, name: str = "") -> str:
    """A value as it is printed: "yes", "-" for no and for none, a list's with commas between; what has the
    ``name`` of a time, as how long ago that is."""
    if value and (name == "date" or name.endswith(("_at", "_since"))):
        with contextlib.suppress(ValueError):
            return relative_time(_instant(str(value)), time.time())
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "-"
    return "-" if value in (None, "") else _printable(str(value))

def _show_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows below their headings, without empty columns; the widest are cut to the width of the terminal."""
    names = [name for name in rows[0] if any(row[name] not in (None, "", (), []) for row in rows)]
    lines = [[_title(name).upper() for name in names],
             *([_text(row[name], name) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    others = [at for at, name in enumerate(names) if name != "id"] or [0]       # an id is of no use if cut
    room = shutil.get_terminal_size().columns - 2 * len(widths) + 2
    while sum(widths) > room and max(widths[at] for at in others) > 8:
        widths[max(others, key=widths.__getitem__)] -= 1
    for line in lines:
        print("  ".join((text if len(text) <= width else f"{text[:width - 1]}…").ljust(width)
                        for text, width in zip(line, widths)).rstrip())

def _show_rows(rows: Sequence[Any], as_json: bool, columns: str = "") -> None:
    """Rows as JSON; on a terminal as a table; else a line each, with tabs. ``columns``: their members, of
    which a terminal shows those with a "*", and JSON alone those with a "+"; "" for all."""
    names = columns.split() or [*(rows[0] if rows else ())]
    found = [{name: row.get(name) if isinstance(row, Mapping) else getattr(row, name)
              for name in (name.rstrip("*+") for name in names)} for row in rows]
    starred = [name[:-1] for name in names if name[-1:] == "*"]
    if as_json:
        print(json.dumps(found, ensure_ascii=False, indent=2))
    elif not rows and sys.stdout.isatty():
        print("none", file=sys.stderr)
    elif sys.stdout.isatty():
        _show_table([{name: row[name] for name in starred or row} for row in found])
    else:
        for row in found:
            print(*(_text(row[name.rstrip("*")]) for name in names if name[-1:] != "+"), sep="\t")

def _show(answer: Any, as_json: bool = False, columns: str = "") -> None:
    """Print what a command returned: a text; a mapping, as names and values; a list, as rows; or a tuple of
    such parts, of which the first is all of them as JSON."""
    if isinstance(answer, tuple) and as_json:
        print(json.dumps(answer[0], ensure_ascii=False, indent=2))
    elif isinstance(answer, tuple):
        for part in answer[1:]:
            _show(part)
    elif isinstance(answer, list):
        _show_rows(answer, as_json, columns)
    elif isinstance(answer, Mapping):
        facts, is_terminal, width = drop_empty(**answer), sys.stdout.isatty(), max(map(len, answer))
        for name, value in facts.items():
            words = (_title(name).ljust(width), _text(value, name)) if is_terminal else (name, _text(value))
            print(*words, sep="  " if is_terminal else "\t")
    elif isinstance(answer, str):
        print(answer)

class Invocation(contextlib.ExitStack):
    """A command as it runs, and what its parameters name: each is found or opened when it is asked for, and
    closed at the end of the context. Raises Invalid, SettingError for what cannot be found."""
    def __init__(self, settings: Settings, args: argparse.Namespace) -> None:
        super().__init__()
        self.run, self.settings, self.args, self.status = self, settings, args, 0

    store = property(lambda run: run.service.store)
    project = functools.cached_property(
        lambda run: run.service.project_of(run.account, run.args.name, run.args.provider))
    tag = functools.cached_property(lambda run: run.tag_at(run.args.name))
    tag_id = property(lambda run: run.tag.id)
    kind = property(lambda run: run.args.kind)
    destination = functools.cached_property(lambda run: run.destination_at(run.kind, run.args.destination))

    @functools.cached_property
    def service(self) -> Service:
        """A service for one command: its store and providers, without its threads."""
        if self.args.command != "account add":
            self.require_store()
        opened = Service(self.settings, is_command=True)
        self.callback(opened.stop)
        return opened

    def require_store(self) -> None:
        if not os.path.exists(self.settings.db):
            raise Invalid(f"there is no store {self.settings.db}; name another with --db, or run 'serve'")

    @functools.cached_property
    def configuration(self) -> Configuration:
        """The stored settings. No service is made of them, so that an unusable one can be repaired."""
        self.require_store()
        store = self.enter_context(contextlib.closing(Store(self.settings.db)))
        return Configuration(store, self.settings, is_command=True)

    @property
    def completed(self) -> Settings:
        """The settings of a command that needs no store, completed from the store's if there is one."""
        return self.configuration.settings() if os.path.exists(self.settings.db) else self.settings

    account = functools.cached_property(lambda run: run.service.account_of(run.args.account))

    def tag_at(self, name: str) -> Tag:
        tags = {tag.name.lower(): tag for tag in self.store.tags.of_account(self.account.id)}
        return _one_of("tag", name.lower(), tags)

    def destination_at(self, kind: str, name: str) -> Destination:
        _one_of("kind", kind, KINDS)
        those = self.store.destinations.of_account(self.account.id, kind=kind)
        return _one_of(kind, name, {one.name: one for one in those})

    def delivery_at(self, id_: str) -> DeliverySummary:
        found = self.store.outbox.history(self.account.id, delivery_id=id_) if id_ else []
        if not found:
            raise Invalid(f"{self.account.email} has no delivery {id_}; 'deliveries list' shows those of 30 "
                          "days")
        return found[0]

    @functools.cached_property
    def given(self) -> dict[str, Any]:
        """What was typed, as in a body of the API. Raises Invalid."""
        given = {name: value for name, value in vars(self.args).items() if value is not None}
        for name in {"tags", "without_tags"} & given.keys():        # "" names none
            given[name] = [self.tag_at(tag).id for tag in given[name] if tag]
        pairs = []
        for name, equals, text in (line.partition("=") for line in given.get("settings", ())):
            if not equals:
                raise Invalid(f"--set {name[:60]!r}: expected SETTING=VALUE")
            if text == "-" and not (text := sys.stdin.readline()):
                raise Invalid(f"{name}: there is no line left on standard input")
            pairs.append({"setting": name, "value": text.rstrip("\r\n")})
        if pairs:
            given["settings"] = pairs
        return given

    call = functools.cached_property(lambda run: run.service.call(run.account.id, run.given))

    @property
    def range(self) -> dict[str, Any]:
        """The deliveries that the arguments of ``_RANGE`` name."""
        id_ = self.destination_at(*self.args.destination).id if self.args.destination else None
        return {"destination_id": id_, "since": self.args.since, "until": self.args.until}

    def complain(self, fault: str) -> None:
        """Say what failed, unless it shall be quiet; the exit status is then 3."""
        self.status = 3
        if not getattr(self.args, "quiet", False):
            _complain(fault)

    def execute(self, row: Command) -> int:
        """Run a command; its exit status. Raises what that raises."""
        if row.example and all(getattr(self.args, name) in (None, []) for name in row.flags):
            raise SettingError(f"nothing to change; expected a flag such as {row.example}")
        values = {name: getattr(self, name) for name in inspect.signature(row.function).parameters}
        if row.sure and not self.args.yes and sys.stdin.isatty():       # else it goes on, for scripts
            print(_printable(row.sure.format(run=self)), "[y/N]", end=" ", file=sys.stderr, flush=True)
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                raise Invalid("nothing was changed")
        answer = row.function(**values)
        _show(row.said.format(run=self, answer=answer) if row.said else answer,
              getattr(self.args, "json", False), row.columns or "")
        return self.status

@command()
def serve(settings: Settings) -> None:
    """Run the web UI, the API and the background workers."""
    trim_memory()
    sys.setswitchinterval(0.001)    # /v1/updates while a tracker compares: p95 24 ms, 105 ms with the default
    signals = (signal.SIGTERM, signal.SIGINT)
    with contextlib.suppress(SystemExit), contextlib.ExitStack() as stack:
        service = Service(settings)
        stack.callback(service.stop)
        server, address = make_server(service.app, settings, lambda: service.settings.trusted_proxy)
        stack.callback(server.close)

        def end(*_: Any) -> None:
            for one in signals:     # a second one would only disturb the end
                signal.signal(one, signal.SIG_IGN)
            service.ask_to_stop()
            raise SystemExit(0)

        for one in signals:
            signal.signal(one, end)
        service.start()
        base_url = service.settings.base_url
        print(f"releasetrack {__version__} listens on {base_url or address}", flush=True)
        if service.setup_path:
            here = re.sub(r"//(?:0\.0\.0\.0|\[::\]):", "//127.0.0.1:", address)     # it listens on all
            print(f"There is no account yet. Create it at {base_url or here}{service.setup_path}", flush=True)
            if not base_url and here != address:
                print("If you reach this machine by another name or address, open that instead, and set "
                      "--base-url to it.", flush=True)
        server.run()
    print("stopped", flush=True)

def _read_password(args: argparse.Namespace) -> str:
    """A new password, from standard input or typed twice. Raises Invalid."""
    if args.password_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    elif not sys.stdin.isatty():
        raise Invalid("there is no terminal to ask for the password; use --password-stdin")
    else:
        password = getpass.getpass("Password: ")
        if getpass.getpass("Repeat the password: ") != password:
            raise Invalid("the two passwords differ")
    return read_password(password)

_PASSWORD_STDIN = switch("--password-stdin", "read the password from standard input")

@command(_EMAIL, argument("--name", "the account's name; without it the address"),
         *flags_of(option for option in ACCOUNT_OPTIONS if option.name == "time_zone"),
         argument("--type", "the type that webhooks send", choices=ACCOUNT_TYPES, default="user"),
         switch("--admin", "an administrator; the first account always is"), _PASSWORD_STDIN)
def account_add(run: Invocation, args: argparse.Namespace) -> str:
    """Create an account. The password is asked for. Its time zone is at first this machine's."""
    read_email(args.account)
    accounts = run.store.accounts
    if accounts.by_email(args.account):
        raise Invalid(f"there is an account {args.account} already")
    name, password = read_label(args.name or args.account), hash_password(_read_password(args))
    added = accounts.add(args.type, args.account, name, password, args.admin,
                         args.time_zone or machine_time_zone())
    return f"account {added.email} created" + (", an administrator" if added.is_admin else "")

@command(argument("--name", "the account's name"),
         *flags_of(option for option in ACCOUNT_OPTIONS if not option.name.startswith("quiet")),
         argument("--quiet", "hours in which only security fixes are sent: 22:00-07:00, or none",
                  "FROM-UNTIL"), example="--time-zone Europe/Berlin")
def account_change(store: Store, account: Account, given: dict[str, Any]) -> None:
    """Change an account. What you do not name stays."""
    if quiet := given.get("quiet"):
        given["quiet_from"], _, given["quiet_until"] = quiet.removesuffix("none").partition("-")
    store.accounts.change(account.id, account_changes(account, Fields(given)))

@command()
def account_recover(service: Service, account: Account) -> str:
    """Turn off an account's second factor.
    For somebody who has lost the phone and the recovery codes."""
    if not service.store.accounts.turn_off_second_factor(account.id):
        raise Invalid(f"{account.email} has no second factor")
    log.warning("account %s: second factor turned off by the operator", account.id)
    return f"second factor of {account.email} turned off"

_PROVIDER = argument("provider", "a provider's id; not needed for an address, or owner/repository of GitHub",
                     nargs="?")
_NAME = argument("name", "the name there, such as bottlepy/bottle; or the address of its page, a purl")

@command(_PROVIDER, _NAME)
def project_add(service: Service, account: Account, args: argparse.Namespace) -> str:
    """Track a project, check it, and print its id."""
    project, source, _ = track(service.call(account.id, {
        "provider": args.provider, "name": args.name, "email_notification": "default"}), is_typed=True)
    service.tracker.check_all([source], lambda *_: None)
    project = await_first_check(service.store, project, source, 0.0, 0.0)
    if project.health.error:
        _complain(f"added; the check will be retried later: {project.health.error}")
    return project.id

def _project_rows(call: Call, projects: Sequence[Project]) -> list[dict[str, Any]]:
    newest = call.store.releases.newest(call.account_id, [project.source_id for project in projects])
    return [shown | shown.get("source", {}) | {"latest": latest and latest.version,
                                               "date": latest and latest.date}
            for shown, latest in ((read_project(call, one), newest.get(one.source_id)) for one in projects)]

@command(_PROVIDER, _NAME, _JSON)
def project_show(call: Call, project: Project) -> tuple[Any, ...]:
    """Show a project with its options and latest releases."""
    facts = read_project(call, project) | {
        "tags": [name for id_, name in call.tags.items() if id_ in project.tags]}
    releases = [{"version": one.version, "date": one.date, "cve": one.cve, "is_prerelease": one.is_prerelease,
                 "is_ignored": is_excluded(project, one)}
                for one in call.store.releases.page(project, 1, 10)[0]]
    patterns = [f"only {value}" if inverse else value for value, inverse in project.exclude_version_regexp]
    answers = [f"{one} {'follows' if does else 'does not follow'}" for one, does in project.version_answers]
    return facts | {"releases": releases}, _project_rows(call, [project])[0] | facts | {
        "exclude_version_regexp": patterns, "version_answers": answers,
        "notes_from": project.notes_from or project.notes_source,
        **dict.fromkeys(("source", "is_missing", "date"))}, "", releases

@command(
    _PROVIDER, _NAME, *flags_of(PROJECT_OPTIONS),
    given_often("--follows", "this version, and those called like it, follow what is installed; '' removes "
                "all answers", "VERSION", dest="version_answers", read=lambda text: (text, True)),
    given_often("--follows-not", "they do not", "VERSION", dest="version_answers",
                read=lambda text: (text, False)),
    given_often("--pattern", "ignore versions in which it is found; '' removes all patterns", "REGEX",
                dest="exclude_version_regexp", read=lambda text: (text, False)),
    given_often("--only-pattern", "ignore versions in which it is not found", "REGEX",
                dest="exclude_version_regexp", read=lambda text: (text, True)),
    given_often("--tag", "add a tag", "TAG", dest="tags"),
    given_often("--untag", "take a tag away", "TAG"), example="--exclude-prereleases yes")
def project_set(run: Invocation, call: Call, given: dict[str, Any], project: Project) -> None:
    """Change a project's options. What you do not name stays; patterns replace all earlier ones."""
    if patterns := given.get("exclude_version_regexp"):
        given["exclude_version_regexp"] = [
            {"value": text, "inverse": is_inverse} for text, is_inverse in patterns if text]
    if answers := given.get("version_answers"):
        kept = () if ("", True) in answers else project.version_answers
        given["version_answers"] = [
            {"version": one, "follows": does} for one, does in (*kept, *answers) if one]
    taken = [run.tag_at(name).id for name in given.get("untag", ())]
    if taken or "tags" in given:
        given["tags"] = [id_ for id_ in (*project.tags, *given.get("tags", ())) if id_ not in taken]
    update_project(call, project)

_PLACE = argument("--place", "what you call the machine, such as nas", default="")

def _installed_rows(project: Project) -> list[dict[str, Any]]:
    return [{"provider": project.provider, "name": project.name, **vars(one), "urgency": one.urgency,
             "version": one.shown, "seen_at": one.as_json().get("seen_at"),
             "advisories": list(map(str, one.advisories))} for one in project.installed]

@command(_PROVIDER, _NAME, argument("version", "as the provider writes it"), _PLACE)
def installed_set(call: Call, project: Project) -> None:
    """Say which version of a project runs, at one place."""
    if doubt := install(call, project):
        _complain(f"recorded.{doubt}")

@command(_PROVIDER, _NAME, _PLACE)
def installed_remove(service: Service, account: Account, project: Project, args: argparse.Namespace) -> None:
    """Forget what is installed of a project at a place."""
    _one_of("installation at", args.place, {one.place: one for one in project.installed})
    service.inventory.change(account.id, [project.id], lambda now: [
        one for one in now.installed if one.place != args.place])

@command(switch("--all", "also what is up to date, skipped or snoozed"),
         argument("--place", "only what runs there"),
         argument("--tag", "only projects that have the tag"),
         switch("--vulnerable", "only those of which a vulnerability is known"),
         columns="provider name* place* version* state* step* line newest* behind cve may_follow* "
                 "is_rebuilt advisories* eol*")
def updates_(run: Invocation, account: Account, args: argparse.Namespace) -> list[dict[str, Any]]:
    """List what is installed and vulnerable, at its end of life or behind, then what is unsure."""
    now, rows = run.store.database.clock(), list[dict[str, Any]]()
    tag = run.tag_at(args.tag).id if args.tag else None
    for project in run.store.projects.with_updates(account.id, args.all, args.place, tag,
                                                   VULNERABLE if args.vulnerable else 0):
        shown = {"state": project.state(now)} if project.state(now) in ("skipped", "snoozed") else {}
        rows += [row | shown for row, one in zip(_installed_rows(project), project.installed)
                 if args.place in (None, one.place) and (
                     args.all or one.urgency >= ENDED or project.state_of(one) in OPEN_STATES)]
    if not args.all:
        rows.sort(key=lambda row: row["state"] == "unsure" and row["urgency"] < ENDED)
    return rows

@command(_PROVIDER, _NAME,
         argument("--since", "the version that you run, if none is recorded", "VERSION"),
         argument("--until", "up to this version; else the newest", "VERSION"), _JSON)
def changes_(service: Service, project: Project, args: argparse.Namespace) -> tuple[Any, ...]:
    """Print the notes of all releases since yours, newest first."""
    span, noted, _ = service.inventory.changes(project, args.since, args.until)
    shown = span.unfolded(noted)
    lines = [f"{project.name}: {pluralize(len(span.unfolded(span.releases)), 'release')} after {span.since}"]
    notes = changes_in_notes(one.note.message if one.note else "" for one in shown)
    for release, found in zip(shown, notes):
        lines.append(" ".join([f"\n{release.version}  {(release.date or '')[:10]}", *release.cve]))
        lines += ["  " + ("- " if line.kind == "item" else "") + _printable(line.text) for line in found]
    if len(span.releases) > CHANGES_LIMIT:
        lines.append(f"\nThe newest {CHANGES_LIMIT:,} are listed.")
    return span.as_json(noted), *lines

@command(_ACCOUNT,
         argument("path", "a file, or a folder in which to look for compose files, lock files, SBOMs and "
                  "the like", nargs="*"),
         argument("--docker", "read running containers from this socket (default /var/run/docker.sock), or "
                  "from tcp://HOST:PORT", "SOCKET", nargs="?", const="/var/run/docker.sock"),
         _PLACE, switch("--track", "add the images and direct dependencies that are not tracked"),
         switch("--all", "with --track, add what only others need, too"),
         switch("--dry-run", "only show what is found"),
         argument("--to", "record it at the releasetrack there, whose API key is in the variable "
                  "RELEASETRACK_KEY", "URL"), _JSON)
def scan_(run: Invocation, args: argparse.Namespace) -> None:
    """Find out which versions run here, and record them.
    Prints file, provider, name, version, digest, direct (whether it is needed so), service, outcome, reason.
    Exit status: 0 all was read, 1 it could not run, 3 something could not be read, or not added."""
    found, rows, place = dict[str, list[tuple[str, Pin]]](), list[ScanRow](), read_place(args.place)
    if not args.path and not args.docker:
        raise SettingError("nothing to scan; expected files, folders, or --docker")
    if args.path:
        with contextlib.closing(Helper()) as helper:
            found["file"] = scan_files(args.path, helper, run.complain, {})
    if args.docker:
        found["container"] = scan_docker(args.docker, run.complain)
    is_whole = not run.status
    if args.to and not is_whole and not args.dry_run:
        raise Invalid("nothing was sent, as something could not be read; see above")
    for origin, pins in found.items():
        if args.to or args.dry_run:
            is_here = not args.to and os.path.exists(run.settings.db)
            tracked = run.store.projects.ids_by_key(run.account.id) if is_here else {}
            made = scan_rows(providers_with(run.completed.provider), tracked, pins)
            rows += made if args.dry_run else _sent(run.settings, args, place, origin, made)
        else:
            rows += run.service.inventory.record_scan(
                run.account, place, origin, pins, is_tracking=args.track, with_indirect=args.all,
                is_whole=is_whole)
    _show_rows([row.as_json() for row in rows], args.json,
               "file provider* name* version* digest direct service outcome* reason*")
    left = [row for row in rows if args.track and not args.dry_run and row.outcome == "not tracked"
            and (row.pin.is_direct or args.all)]
    if left:
        run.complain(f"{pluralize(len(left), 'row')} not added: {left[0].reason}")

def _sent(settings: Settings, args: argparse.Namespace, place: str, origin: str,
          rows: Sequence[ScanRow]) -> list[ScanRow]:
    """What another server made of the rows that have a provider. Raises Invalid."""
    wanted = [row for row in rows if row.provider]
    items = [drop_empty(**row.as_json() | {"file": None, "label": row.pin.label, "source": row.pin.source})
             | {"direct": row.pin.is_direct} for row in wanted]
    body = {"place": place, "origin": origin, "track": args.track, "all": args.all, "items": items}
    headers = {"X-Key": os.environ.get("RELEASETRACK_KEY", ""), "Content-Type": "application/json"}
    try:
        if not re.match("https?://", args.to):
            raise ValueError("expected an address such as https://releases.example.org")
        address = f"{read_web_address(args.to)}/v1/installations"
        for wait in (1, 2, 4, 0):       # as another machine may scan at the same time
            answer = Fetcher(settings).fetch(Request(address, headers, "POST", compact_json(body).encode()))
            if answer.status != 429:
                break
            time.sleep(wait)
        said = answer.json() if answer.status in (200, 400, 401, 413, 429, 503) else {}
    except (ProviderError, ValueError) as error:
        raise Invalid(f"--to {args.to}: {error}") from None
    outcomes = [one for one in _of(list, said, "items") if isinstance(one, dict)]
    if answer.status != 200 or len(outcomes) != len(wanted):
        errors = _of(list, said, "errors") or [_of(str, said, "message") or "it is no releasetrack"]
        key = "; RELEASETRACK_KEY must hold a key of that server" if answer.status == 401 else ""
        raise Invalid(f"--to {args.to}: {' '.join(map(str, errors))} (status {answer.status}){key}")
    made = [dataclasses.replace(row, outcome=str(one.get("outcome")), reason=str(one.get("reason") or ""))
            for row, one in zip(wanted, outcomes)]
    return made + [row for row in rows if not row.provider]

_SINCE = argument("--since", "only those since a time in UTC, or since 24h or 7d ago", "TIME", _instant,
                  default=0.0)

@command(_JSON)
def status_(run: Invocation, settings: Settings) -> tuple[Any, ...]:
    """Show whether serve runs, what fails and what waits.
    Exit status: 0 serve runs, 1 it does not, 3 it runs, but something fails."""
    run.require_store()
    is_running = is_in_use(settings.db)     # by serve, or for a moment by another command
    counts, sources = run.store.counts(), run.store.sources.all()
    checked_at = max((source.checked_at or 0.0 for source in sources), default=0.0)
    facts: dict[str, Any] = {
        "serve": "running" if is_running else "not running", "store": settings.db,
        "size": run.store.database.size(), "last_check_at": timestamp(checked_at) if checked_at else None,
        **{name: counts[name] for name in ("accounts", "projects", "failing_sources", "due_sources",
                                           "pending_deliveries", "failed_deliveries")}}
    failing = [{"provider": source.provider, "name": source.name, "error": source.error}
               for source in sources if source.error]
    unsent = [{"destination": one.kind, "name": one.name, "error": one.error or ""}
              for one in run.store.destinations.failing()]
    run.status = 1 if not is_running else 3 if failing or unsent else 0
    return facts | {"failing": failing + unsent}, facts | {"size": f"{facts['size'] // KIB:,} KiB"}, *(
        [{"state": "failing", **one} for one in those] for those in (failing, unsent) if those)

_KIND = argument("kind", f"one of {', '.join(KINDS)}", choices=list(KINDS))
_DESTINATION = argument("destination", "the destination's name", metavar="NAME")
_SET = given_often(
    "--set", "a setting, see 'destination kinds'; SETTING=- reads the value from the next line of standard "
    "input, as is best for secrets", "SETTING=VALUE", dest="settings")
_SELECTION = (
    *flags_of(DESTINATION_OPTIONS),
    given_often("--tag", "notify only about projects that have one of these tags", "TAG", dest="tags"),
    given_often("--without-tag", "do not notify about projects with one of these tags", "TAG",
                dest="without_tags"))

@command(_KIND, argument("name", "the destination's name"), _SET, *_SELECTION)
def destination_add(service: Service, call: Call, kind: str) -> str:
    """Create a destination, and print its id. It is for every project unless you select some.
    Of a webhook the signing secret is printed. 'destination test' without a name tries settings before."""
    new = add_destination(call, kind)
    if kind == "email" and not service.settings.smtp_url:
        _complain("there is no mail server yet; name one with 'config set smtp_url -' or serve --smtp-url")
    return new.secret or new.id

@command(_JSON)
def destination_list(call: Call) -> tuple[Any, ...]:
    """List an account's destinations: kind, name, schedule, id, scope, settings without secrets."""
    listed, rows = [], []
    for one in call.store.destinations.of_account(call.account_id):
        schedule = "by project" if one.kind == "email" else one.schedule
        report = f", {one.report} report" if one.report != "none" else ""
        listed.append(destination_as_json(one, call.tags) | {"schedule": schedule})
        rows.append({"kind": one.kind, "name": one.name, "schedule": schedule + report, "id": one.id,
                     "scope": scope_of(one, call.tags),
                     "settings": " ".join(f"{name}={text}" for name, text in settings_as_given(one, True))})
    return listed, rows

@command(_KIND, _SET,
         argument("destination", "an existing one; without it --set describes one", nargs="?",
                  metavar="NAME"))
def destination_test(run: Invocation, service: Service, account: Account, args: argparse.Namespace) -> None:
    """Send a test message, and print the request and the answer. Secrets are masked; nothing is recorded."""
    before = run.destination if args.destination else dataclasses.replace(
        new_destination(account.id, args.kind), name="test")
    tried = changed_destination(run.call, before)
    request, reply, error = service.courier.try_out(tried, account, *sample_event(account))
    print(_printable(request + (f"\n\n-- {reply}" if reply else ""), "\n"))
    if error:
        raise Invalid(f"{args.kind} {tried.name}: {error}")

@command(argument("kind", "webhook; optional", nargs="?", choices=["webhook"], default="webhook"),
         _DESTINATION,
         switch("--reset", "create a new one; for 24 hours every other attempt has the old one's"))
def destination_secret(store: Store, destination: Destination, args: argparse.Namespace) -> str:
    """Print the signing secret of a webhook."""
    if args.reset and (destination.previous_until or 0.0) > time.time():
        _complain("the secret was reset less than 24 hours ago; the one before that is no longer valid")
    return store.destinations.reset_secret(destination.id) if args.reset else destination.secret

@command(argument("name", "the setting's name in 'config list'"),
         argument("value", "one, or several of a repeatable setting; - reads them from standard input, one "
                  "per line, as is best for secrets", nargs="+"))
def config_set(configuration: Configuration, args: argparse.Namespace) -> None:
    """Set a setting for serve and all commands. A running serve applies it at once.
    Of provider, token and quota each ID is set by itself."""
    texts = [line.rstrip("\r\n") for line in sys.stdin] if args.value == ["-"] else args.value
    configuration.set(args.name, texts)
    state, = (state for state in configuration.rows() if state.row.name == args.name)
    if state.source == "serve" and not state.row.is_keyed:
        _complain(f"serve was started with another {args.name}, which overrides this; restart it without")

_RANGE = (
    argument("--destination", "only those of this destination", nargs=2, metavar=("KIND", "NAME")), _SINCE,
    argument("--until", "only those created until then; of a day, until its end", "TIME",
             lambda text: _instant(text) + DAY * (len(text) == len("2026-01-31")), default=math.inf))

@command(*_RANGE,
         argument("--project", "about this project", nargs=2, metavar=("PROVIDER", "NAME")),
         argument("--state", choices=DELIVERY_STATES),
         argument("--limit", "at most so many (default 50)", "N", _whole(1, 999_999), default=50),
         columns="id* created_at* state* next_attempt_at attempts kind* destination* provider project* "
                 "version* error* event+ event_id+ destination_id+ project_id+ digest_id+ settled_at+")
def deliveries_list(run: Invocation, account: Account, args: argparse.Namespace) -> list[dict[str, Any]]:
    """List an account's deliveries of 30 days, newest first.
    Instead of a version an event may be summary, failing, or recovered."""
    project = run.service.project_of(account, args.project[1], args.project[0]) if args.project else None
    found = run.store.outbox.history(account.id, state=args.state, limit=args.limit,
                                     project_id=project and project.id, **run.range)
    return [entry.as_json() | {"version": entry.version or entry.event} for entry in found]

@command(_ACCOUNT, argument("id"), _JSON)
def deliveries_show(run: Invocation, args: argparse.Namespace) -> tuple[Any, ...]:
    """Show a delivery with its attempts and the last request."""
    entry, outbox = run.delivery_at(args.id).as_json(), run.store.outbox
    attempts, sent = [attempt.as_json() for attempt in outbox.attempts(args.id)], outbox.last_sent(args.id)
    return (entry | {"attempts": attempts, "sent": sent}, entry,
            [{"": "attempt"} | attempt for attempt in attempts], _printable(f"\n{sent}", "\n"))

@command(argument("id", "one, and what was sent together with it", nargs="?"),
         switch("--failed", "all of --destination whose last attempt failed"), *_RANGE)
def deliveries_resend(run: Invocation, account: Account, args: argparse.Namespace) -> str:
    """Send deliveries again, and print how many. Their ids and earlier attempts stay."""
    if bool(args.id) == args.failed or args.failed and not args.destination:
        raise SettingError("expected the ID of one, or --failed with --destination KIND NAME")
    entry = run.delivery_at(args.id) if args.id else None
    count = run.store.outbox.resend(account.id, delivery_id=args.id, **run.range)
    if entry and not count:
        raise Invalid(f"{entry.id} is not sent again: it is being sent, or due only at "
                      f"{timestamp(entry.next_attempt_at)}")
    return str(count)

@command(_PROVIDER, _NAME, _JSON, argument(
    "--installed", "print only the newest versions after this one: with the same first number (its line), "
    "of all, and what may follow it", "VERSION"))
def fetch(completed: Settings, args: argparse.Namespace) -> tuple[Any, ...] | None:
    """Print a provider's releases of a project, newest first. Nothing is stored."""
    provider, name, _ = project_at(
        providers_with(completed.provider), args.provider, args.name, is_typed=True)
    fetcher, token = Fetcher(completed), provider_token(completed, provider)
    installed = [args.installed] if args.installed else []
    try:
        listing = releases_of(provider, name, fetcher.fetch, token, installed=installed)
    except TokenRefused as refused:
        _complain(refused)
        listing = releases_of(provider, name, fetcher.fetch, installed=installed)
    assert listing      # the requests were not conditional
    if args.installed:
        releases = {one.version: dataclasses.replace(one, date=one.date or timestamp(time.time()),
                                                     content_id=None) for one in listing.releases}
        mine = compared(Installation("", args.installed), releases, provider.dialect.versions.of(name))
        _show_rows([mine], args.json, "version state step line newest behind may_follow")
        return None
    facts, rows = list[dict[str, Any]](), list[dict[str, Any]]()
    for one in listing.releases:
        note = one.note or Note("", "", page_of(provider, name, one.version))
        facts.append({"version": one.version, "date": one.date, "is_prerelease": one.is_prerelease,
                      "cve": one.cve, "note": note.as_json()})
        marks = ["pre-release"] * one.is_prerelease + list(one.cve)
        rows.append({"date": one.date, "version": one.version, "marks": " ".join(marks)})
    return facts, rows

def _cost_of(provider: Provider, settings: Settings) -> dict[str, Any]:
    """What a provider's public host is sent of 300 projects that have nothing new."""
    host = host_of(provider.site)
    # A token is for GitHub's API; its feeds, which are read without one, are on another host.
    limits = [HOST_LIMITS.get(name) for name in (host, f"api.{host}" if host == "github.com" else host)]
    every = max(settings.poll_interval, limits[0].every if limits[0] else 0.0)
    requests = 300 * provider.dialect.requests
    row = {"id": provider.id, "host": host, "requests": round(requests * HOUR / every)}
    for limit, token in zip(limits, ("", "_with_token")):
        most = (token and limit.with_token or limit.requests) * HOUR / limit.seconds if limit else math.inf
        is_told = not token or provider.dialect.auth
        row |= {f"limit{token}": round(most) if is_told and limit else None,
                f"hours{token}": round(max(every / HOUR, requests / most), 1) if is_told else None}
    return row

@command(switch("--cost", "print instead what 300 projects without news cost: requests an hour, how many the "
                "host is sent at most, and hours between two checks of a project; both with a token too"),
         columns="")
def providers_(completed: Settings, args: argparse.Namespace) -> list[dict[str, Any]]:
    """List the providers: id, form of a name, example, the token's environment variable, dialect, address."""
    dialects = {dialect.read: name for name, dialect in DIALECTS.items()}
    providers = providers_with(completed.provider).values()
    if args.cost:
        return [_cost_of(provider, completed) for provider in providers if provider.site]
    return [{"id": provider.id, "form": provider.dialect.form, "example": provider.example or None,
             "token_variable": provider.token_variable if provider.dialect.auth else None,
             "dialect": dialects.get(provider.dialect.read), "site": provider.site} for provider in providers]

@command(_ACCOUNT, argument("provider", "only this project, as in 'project add'", nargs="?"),
         argument("name", nargs="?"),
         switch("--send", "then send the notifications that are due"),
         switch("--quiet", "print what is new, but not what fails"), _JSON)
def check_(run: Invocation, service: Service, args: argparse.Namespace) -> None:
    """Check projects now, and print what is new: provider, name, version, new or updated.
    For cron, without serve. Exit status: 0 all is well, 1 it could not run, 2 wrong usage, 3 it ran, but
    projects, notifications, osv.dev or endoflife.date fail, which will be retried."""
    rows, wanted, ended = list[dict[str, Any]](), list[Source](), itertools.count(1)

    def report(source: Source, news: list[Release] | None) -> None:
        if news is None:
            run.complain(f"{source.provider} {source.name}: not checked, as another process is checking it, "
                         "or the store is busy")
        elif source.error:
            run.complain(f"{source.provider} {source.name}: {source.error}")
        rows.extend({"provider": source.provider, "name": source.name, "version": one.version,
                     "state": "updated" if one.is_updated else "new"} for one in news or ())
        left = len(wanted) - next(ended)
        _progress(f"{left} left to check" if left else "")
    if args.provider in service.providers and not args.name:
        raise SettingError("PROVIDER: expected a NAME after it")
    service.tracker.record_abandoned()
    sources = run.store.sources.all(run.account.id if args.account or args.provider else None)
    if args.provider:
        name, provider = (args.name, args.provider) if args.name else (args.provider, None)
        id_ = service.project_of(run.account, name, provider).source_id
        sources = [source for source in sources if source.id == id_]
    for source in sources:
        # Of a host that asked to wait, or whose last check did not end.
        is_put_off = source.error and (not source.failures or source.error == ABANDONED)
        if source.provider not in service.providers:
            run.complain(f"{source.provider} {source.name}: {unknown_provider(source.provider)}")
        elif is_put_off and source.next_check_at > time.time() and not args.provider:
            run.complain(f"{source.provider} {source.name}: {source.error}")
        else:
            wanted.append(source)
    service.tracker.check_all(wanted, report)
    if not args.provider:
        service.tracker.advise()
    for words in (*(one for one, _ in service.fetcher.refused_tokens.values()),
                  *(f"{what}: not asked: {words}" for what, words in service.fetcher.outages.items())):
        run.complain(words)
    _show_rows(sorted(rows, key=lambda row: (row["provider"], row["name"])), args.json)
    for one, attempt in service.courier.send_due() if args.send else ():
        if attempt.error:
            later = "; it will be retried later" if attempt.state == "pending" else ""
            run.complain(f"{one.destination.kind} {one.destination.name}: {one.body['project']} "
                         f"{one.body.get('version', one.kind)}: {attempt.error}{later}")
    service.store.maintain(time.time())     # no serve may run that would

@command(argument("file", "where the copy goes; an older one there is replaced"))
def backup(settings: Settings, service: Service, args: argparse.Namespace) -> str:
    """Make a consistent copy of the store, while it is in use."""
    if os.path.exists(args.file) and os.path.samefile(args.file, settings.db):
        raise Invalid(f"{args.file} is the store itself; name another file")
    try:
        service.store.database.backup(args.file)
        size = os.path.getsize(args.file)
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise Invalid(f"{args.file}: the copy could not be written: {reason}") from None
    return f"{settings.db} copied to {args.file}, {size:,} bytes"

@command(argument("file", "a copy that 'backup' wrote"),
         sure="Put {run.args.file} in the place of {run.settings.db}?")
def restore_(settings: Settings, args: argparse.Namespace) -> str:
    """Replace the store by a backup. Refused while the store is in use."""
    restore(args.file, settings.db)
    return f"{settings.db} restored from {args.file}, {os.path.getsize(settings.db):,} bytes"

COMMANDS |= {
    "account list": Command(
        "List the accounts.", lambda store: store.accounts.all(),
        columns="email name type is_admin time_zone email_notification"),
    "account passwd": Command(
        "Set an account's password, and end its sessions.",
        lambda store, account, args: store.accounts.change(
            account.id, {"password": hash_password(_read_password(args))}), (_PASSWORD_STDIN,)),
    "account remove": Command(
        "Delete an account with everything that it owns.",
        lambda store, account: store.accounts.remove(account.id), (_EMAIL,),
        said="account {run.account.email} removed",
        sure="Delete the account {run.account.email} with its projects, destinations and keys?"),
    "key add": Command(
        "Create an API key, and print it.",
        lambda store, account, args: store.keys.add(
            account.id, read_label(args.name), read_networks(args.networks)).secret,
        (argument("name", "a label for the key"), given_often(
            "--network", "a network that the key is accepted from", "CIDR", default=[], dest="networks"))),
    "key list": Command(
        "List an account's keys. Secrets are not shown.", lambda store, account: [
            {"name": key.name, "networks": " ".join(key.networks),
             "used_at": key.used_at and timestamp(key.used_at)}
            for key in store.keys.of_account(account.id)], columns="name networks used_at"),
    "key remove": Command(
        "Delete an API key. Requests with it are refused from then on.",
        lambda store, account, args: store.keys.remove(account.id, _one_of("key", args.name, {
            key.name: key for key in store.keys.of_account(account.id)}).name),
        (argument("name"),), said="key {run.args.name} removed",
        sure="Delete the key {run.args.name} of {run.account.email}?"),
    "tag add": Command(
        "Create a tag, and print its id.", add_tag, (argument("name", "what you call it"),),
        said="{answer[id]}"),
    "tag list": Command(
        "List an account's tags.", lambda store, account: store.tags.of_account(account.id),
        columns="name id"),
    "tag remove": Command(
        "Delete a tag; projects and destinations lose it.", remove_tag, (argument("name"),),
        said="tag {run.tag.name} removed", sure="Delete the tag {run.tag.name}?"),
    "project list": Command(
        "List projects, their latest versions, and what fails.", lambda call:
        _project_rows(call, call.store.projects.search(call.account_id, "")),
        columns="provider* name* id checked_at* succeeded_at next_check_at quota_left missing_since error* "
                "latest* date*"),
    "project remove": Command(
        "Stop tracking a project. Its options and its history are deleted.", remove_project,
        (_PROVIDER, _NAME), said="project {run.project.provider} {run.project.name} removed",
        sure="Stop tracking {run.project.provider} {run.project.name} for {run.account.email}?"),
    "installed list": Command(
        "List what is installed.", lambda store, account: [
            row for project in store.projects.with_updates(account.id) for row in _installed_rows(project)],
        columns="provider name* place* version* state* step* line* newest* behind* cve origin seen_at "
                "may_follow* is_rebuilt*"),
    "releases": Command(
        "List the newest releases of all your projects.",
        lambda call, args: latest_releases(call, args.limit, args.since, text=args.search,
                                           is_security=args.security, is_unread=args.unread),
        (_SINCE, switch("--unread", "only unread ones"), switch("--security", "only those that name a CVE"),
         argument("--search", "only with these words in name, version or note", "TEXT"),
         argument("--limit", "at most so many (default 20)", "N", _whole(1, 999_999), default=20)),
        columns="date provider project version cve is_prerelease is_unread"),
    "webhook add": Command(
        "Create a webhook, and print its signing secret. 'destination add' has more options.",
        lambda call: add_destination(call, "webhook").secret, (
            argument("name", "a label for the webhook"),
            argument("settings", "where requests are sent", read="url={}".format, action="append",
                     metavar="URL"),
            given_often("--header", "a header; - reads it from standard input", "'K: V'",
                        read="header={}".format, dest="settings"),
            given_often("--field", "a field of a custom body", "'K=TEMPLATE'", read="field={}".format,
                        dest="settings"))),
    "destination kinds": Command(
        "List the kinds of destination, and their settings, of which some are required.",
        lambda: [{"kind": id_, "setting": field.name,
                  "default": "required" if field.default is None else field.default, "about": field.about}
                 for id_, kind in KINDS.items() for field in kind.fields],
        columns="kind setting default about"),
    "destination change": Command(
        "Change a destination. What you do not name stays; --set NAME= removes a setting, --tag '' the tags.",
        update_destination, (_KIND, _DESTINATION, _SET, *_SELECTION, argument(
            "--rename", "the destination's new name", "NAME", dest="name")), example="--schedule daily"),
    "destination remove": Command(
        "Delete a destination with its deliveries.",
        lambda store, destination: store.destinations.remove(destination.id), (_KIND, _DESTINATION),
        said="destination {run.kind} {run.destination.name} removed",
        sure="Delete the destination {run.kind} {run.destination.name} with its deliveries?"),
    "config list": Command(
        """List the stored settings, with the source of each value.
        Sources: flag (or variable), serve (the last), operator (config set), default. Secrets are masked.""",
        lambda configuration, args: [
            {"name": state.row.name, "source": state.source,
             "value": list(state.texts) if args.json else " ".join(state.texts) or None}
            for state in configuration.rows()], columns="name source value"),
    "config unset": Command(
        "Remove a setting from the store.",
        lambda configuration, args: configuration.unset(args.name, args.id),
        (argument("name"), argument("id", "of provider, token, quota: only it", nargs="?", default=""))),
}

class _Parser(argparse.ArgumentParser):
    """The parser of a group of commands, or of one: its arguments are made when it is used, as those of all
    would take long."""
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words, name = list(args), self.get_default("command")
        if name:
            _add_arguments(self, name)
        elif not words:
            self.exit(2, self.format_help())
        elif words[0].startswith("-") and words[0] not in self._option_string_actions:
            self.error(f"flags stand behind the command, as in {self.prog} COMMAND {words[0]}")
        found, rest = super().parse_known_args(words, namespace)
        if rest:
            alike = did_you_mean(rest[0], self._option_string_actions) if rest[0].startswith("-") else ""
            self.error(f"unknown argument: {_printable(' '.join(rest))[:200]}{alike}")
        return found, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if value not in (known := action.choices or [value]):       # of commands: argument() has the others
            self.error(f"there is no command {value}{did_you_mean(value, known)}")

    def error(self, message: str) -> Any:
        self.exit(2, f"releasetrack: {_printable(message)}; see {self.prog} --help\n")

def _add_arguments(parser: _Parser, name: str) -> None:
    """Add those of a command. Only ``serve`` lists all settings."""
    is_serve = name == "serve"
    for names, options in COMMANDS[name].arguments:
        parser.add_argument(*names, **options)
    flags = parser.add_argument_group(
        "settings", f"Each is also an environment variable, such as {SETTINGS['db'].variable}. "
        "All commands accept most of those of serve: see releasetrack.py serve --help.")
    for row in (row for row in SETTINGS.values() if is_serve or not row.is_serve_only):
        default = "".join(row.texts(row.default))
        text = row.about + (f" (default {default})" if default else "")
        flags.add_argument(row.flag, metavar=row.shape, dest=f"setting {row.name}",
                           help=text if is_serve or row.name == "db" else argparse.SUPPRESS,
                           action="append" if row.is_repeatable else "store")

def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands: ``command`` is the name of the one that is typed."""
    parser = _Parser(prog="releasetrack.py", description="Know when the software you depend on is released.",
                     epilog="COMMAND --help shows a command's arguments, and serve --help all settings.")
    parser.add_argument("--version", action="version", version=f"releasetrack {__version__}")
    groups = {"": parser.add_subparsers(title="commands", metavar="COMMAND")}
    for name in sorted(COMMANDS, key=lambda name: (" " in name, name)):
        row = COMMANDS[name]
        printed = ", ".join(one.rstrip("*") for one in (row.columns or "").split() if one[-1] != "+")
        about = " ".join(f"{row.about} {f'Prints {printed}.' if printed else ''}".split())
        brief, (group, _, word) = re.split("[.:] |[.]$", about)[0], name.rpartition(" ")
        if group:
            groups[""].add_parser(name, help=brief)     # so that the list of all has it
        if group not in groups:
            groups[group] = groups[""].add_parser(group).add_subparsers(title="commands", metavar="COMMAND")
        command_ = groups[group].add_parser(word, help=brief, description=about, allow_abbrev=False)
        command_.set_defaults(command=name)
    return parser

def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    args = make_parser().parse_args(sys.argv[1:] if argv is None else argv)
    try:
        if any("\udc80" <= letter <= "\udcff" for word in argv or sys.argv[1:] for letter in word):
            raise SettingError("an argument is not UTF-8")
        flags = {name: getattr(args, f"setting {name}", None) for name in SETTINGS}
        settings = Settings.from_outside(flags, os.environ)
        logging.basicConfig(level=settings.log_level.upper(), stream=sys.stderr,
                            format="%(asctime)s %(levelname)s %(message)s")
        if args.command != "serve":      # commands print what they have to say
            log.setLevel(settings.log_level.upper() if "log_level" in settings.given else logging.ERROR)
        with Invocation(settings, args) as run:
            return run.execute(COMMANDS[args.command])
    except (ReleasetrackError, SettingError) as error:
        said = str(error)
        if isinstance(error, Invalid):
            kind = KINDS.get(getattr(args, "kind", ""))
            labels = {"header": "--header", "field": "--field", "url": "URL", **COMMANDS[args.command].flags,
                      **{field.name: f"--set {field.name}" for field in (kind.fields if kind else ())}}
            said = "; ".join(problem.named(labels).rstrip(".") for problem in error.problems)
        _complain(said)
        return 2 if isinstance(error, SettingError) else 1
    except KeyboardInterrupt:
        _complain("stopped")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1

if __name__ == "__main__":
    sys.exit(main())
