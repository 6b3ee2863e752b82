#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["bottle>=0.12.25,<0.14", "waitress>=2.1.2"]
# ///
"""releasetrack: know when the software you depend on is released.

    python releasetrack.py serve                            pages and API on http://127.0.0.1:8080
    python releasetrack.py fetch github bottlepy/bottle     what a provider has, without a store
    python releasetrack.py --help                           all commands, all settings

One file, one SQLite database. A project is tracked at a provider; the tracker finds its releases;
a new release is an event; an event is delivered to every destination until it is accepted.

To embed it in a program of yours:

    import releasetrack
    service = releasetrack.Service(releasetrack.Settings(db="releases.db"))
    service.on_release(lambda event: print(event["project"], event["version"]))
    service.start()                                 # the tracker and the courier, in threads
    parent_app.mount("/releases/", service.app)     # a WSGI callable, for any server
    service.stop()                                  # ends the threads; nothing is lost

Rooms, each using only what stands above it:
    settings  values  limits  store  fetching  providers  tracker  notifications  courier
    api  pages  service  cli
"""
from __future__ import annotations

import os
import sys

if (__name__ == "__main__" and sys.argv[1:2] == ["serve"]
        and sys.argv[0].endswith(".py") and os.path.basename(sys.argv[0])[:-3].isidentifier()
        and sys.orig_argv[-len(sys.argv):] == sys.argv      # no debugger or other program runs this one
        and all(word.startswith("-") for word in sys.orig_argv[1:-len(sys.argv)])):
    # Of a script Python keeps all that it parsed, 25 MiB of this one, until the script ends; of a module nothing, and
    # it has it compiled at the next start. So the service, which runs for years, begins again as one.
    try:
        os.execv(sys.executable, [*sys.orig_argv[:-len(sys.argv)], "-c", (
            "import sys; sys.path[:sys.path[0] == ''] = [sys.argv[1]]; module = __import__(sys.argv[2]); "
            "del sys.argv[:3]; sys.exit(module.main())"), os.path.dirname(os.path.abspath(sys.argv[0])),
            os.path.basename(sys.argv[0])[:-3], *sys.argv])
    except OSError:         # it is forbidden here; then it takes more memory
        pass

import argparse
import base64
import binascii
import contextlib
import dataclasses
import datetime
import email.headerregistry
import email.message
import email.policy
import email.utils
import errno
import functools
import getpass
import glob
import hashlib
import hmac
import html
import http.client
import io
import ipaddress
import itertools
import json
import logging
import math
import queue
import random
import re
import secrets
import select
import shutil
import signal
import smtplib
import socket
import sqlite3
import ssl
import subprocess
import threading
import time
import urllib.parse
import uuid
import weakref
import xml.etree.ElementTree
import zlib
import zoneinfo
from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

try:
    import bottle
except ImportError:
    if __name__ != "__main__":
        raise
    sys.exit("releasetrack: it needs the packages bottle and waitress: pip install bottle waitress")

__version__ = "1.0.0"

log = logging.getLogger("releasetrack")


# == settings ==================================================================
#
# What an operator may choose, and the bounds that nobody may. One row a setting: its default,
# its parser and its help make the flag, the environment variable and the README's line.

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
KIB, MIB = 1024, 1024 * 1024

PAGE_SIZE = 20                  # projects or releases on a page of the API
BODY_LIMIT = 1 * MIB            # of a request to us
NAME_LIMIT = 200                # characters of a project's name, a version, a label
TAG_LIMIT = 100                 # and of a tag's name
NOTE_LIMIT = 256 * KIB          # characters of a release note that are kept
NOTE_START = 2000               # of one that lists show
ADD_WAIT = 3.0                  # seconds that adding a project waits for the provider's word
LEASE = 3.0                     # seconds that a claim in the store lasts unless it is renewed
RETRY_LONGEST, RETRY_FOR = 6 * HOUR, 3 * DAY
RETRY_LEAST = 10                # failures before a delivery is given up, however much time has gone
KEPT_FOR = 30 * DAY             # deliveries and attempts
TOLD_AFTER = 10, 3 * DAY        # failed checks of a source, and how long it fails, before its accounts are told
RENEWAL = 1 * DAY               # for which a webhook's former secret signs beside the new one
RESENT_EVERY = 0.1              # seconds between deliveries of one destination that are sent again together
TAKEN_BACK = 1 * MINUTE         # for which a project that was removed on a page can be taken back
SESSION_IDLE, SESSION_LONGEST = 14 * DAY, 90 * DAY      # after which a browser has to sign in again
VISIT = 30 * MINUTE             # without a look at the releases, after which the next one is another visit
LOGIN_TRIES = 30                # an hour, for an account and for an address
TESTS = 120                     # of notifications from the pages, an hour and account
USER_AGENT = f"releasetrack/{__version__}"
# What goes into an envelope and a header as it is: https://www.rfc-editor.org/rfc/rfc5321#section-4.1.2, quoted forms
# aside; "=?" would be read as the beginning of an encoded word.
MAIL_ADDRESS = re.compile(
    r"(?=[^@]{1,64}@.{1,190}\Z)(?!.*=\?)[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*")


class SettingError(ValueError):
    """A setting that cannot be used: which one, its value, what would be right."""


def _text(value: str) -> str:
    return value


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", value) or not least <= int(value) <= most:
            raise ValueError(f"takes a whole number from {least} to {most}")
        return int(value)
    return read


def _seconds(least: float, most: float) -> Callable[[str], float]:
    def read(value: str) -> float:
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", value) or not least <= float(value) <= most:
            raise ValueError(f"takes seconds, from {least:g} to {most:.0f}")
        return float(value)
    return read


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value.lower() not in choices:
            raise ValueError(f"takes one of: {', '.join(choices)}")
        return value.lower()
    return read


def _web_address(value: str) -> str:
    """``value`` without a trailing slash. Raises ValueError unless it is an http or https URL and no more."""
    try:
        url = urlsplit(value)
        plain = url.scheme in ("http", "https") and url.hostname and not (url.query or url.fragment)
        _ = url.port        # raises for a port beyond 65535
    except ValueError:
        plain = False
    if not plain or re.search(r"[\s\x00-\x1f]", value):
        raise ValueError("takes an address such as https://releases.example.org/path")
    return value.rstrip("/")


def _own_address(value: str) -> str:
    return _web_address(value) if value else ""


def _proxy(value: str) -> str:
    if value and (not value.startswith("http://") or not _web_address(value)):
        raise ValueError("takes the address of an HTTP proxy, such as http://127.0.0.1:3128")
    return value


def _mail_server(value: str) -> str:
    if not value:
        return value
    try:
        url = urlsplit(value)
        is_whole = url.scheme in ("smtp", "smtp+starttls", "smtps") and url.hostname and url.port != 0
        is_whole = is_whole and url.path in ("", "/") and not (url.query or url.fragment)
        is_whole = is_whole and (url.username is None) is (url.password is None)
    except ValueError:
        is_whole = False
    if not is_whole or re.search(r"[^!-~]", value):
        raise ValueError("takes a mail server such as smtp+starttls://user:password@mail.example.org:587, what is "
                         "special in user and password written as %40 and so on")
    return value


def _mail_address(value: str) -> str:
    if value and not MAIL_ADDRESS.fullmatch(value):
        raise ValueError("takes a mail address, such as releases@example.org")
    return value


def read_network(value: str) -> str:
    """The network in CIDR notation: ``10.0.0.0/8``, or one address."""
    try:
        network = ipaddress.ip_network(value.strip(), strict=False)
        if network.version == 6 and network.network_address.ipv4_mapped and network.prefixlen >= 96:
            network = ipaddress.ip_network(f"{network.network_address.ipv4_mapped}/{network.prefixlen - 96}")
        return str(network)
    except ValueError:
        raise ValueError("takes a network such as 192.168.0.0/16, 10.1.2.3 or fd00::/8") from None


def _proxy_network(value: str) -> str:
    network = read_network(value)
    if network.endswith("/0"):
        raise ValueError("takes the proxy's own address or network; trusting every address would let "
                         "any client choose its own")
    return network


def _contact(value: str) -> str:
    """What stands in the User-Agent: an address that a person can use."""
    if value and not re.fullmatch(r"(?:mailto:)?[\w.+-]{1,64}@[\w.-]{1,190}|https?://[!-'*-~]{1,200}", value, re.ASCII):
        raise ValueError("takes a mail or web address, such as me@example.org")
    return f"mailto:{value}" if re.match("[^:]+@", value) else value


def _brand(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", value) or len(value) > 40:
        raise ValueError("takes a word of letters and digits, as in the header X-WORD-Signature")
    return value


def _provider_row(value: str) -> tuple[str, str, str]:
    """``(id, dialect, address)`` of ``ID=DIALECT:URL``. Whether the dialect exists is for providers to say."""
    match = re.fullmatch(r"([a-z0-9][a-z0-9-]{0,39})=([a-z]+):(https?://.+)", value)
    if not match:
        raise ValueError("takes ID=DIALECT:URL, such as home=forgejo:https://git.example.org")
    return match[1], match[2], _web_address(match[3])


def _setting(default: Any, read: Callable[[str], Any], shape: str, about: str, *, repeatable: bool = False,
             serving: bool = False, is_secret: bool = False, variable: str = "") -> Any:
    """A row: default, parser of one value, its placeholder, its help. ``serving``: only ``serve`` takes it."""
    return dataclasses.field(default=default, repr=not is_secret, metadata={
        "read": read, "shape": shape, "about": about, "repeatable": repeatable, "serving": serving,
        "variable": variable, "is_secret": is_secret})


def flag_of(row: dataclasses.Field[Any]) -> str:
    return "--" + row.name.replace("_", "-")


def variable_of(row: dataclasses.Field[Any]) -> str:
    return row.metadata["variable"] or "RELEASETRACK_" + row.name.upper()


def _read_one(row: dataclasses.Field[Any], given: Any, called: str) -> Any:
    if isinstance(given, tuple):        # a provider that is parsed already
        given = "{}={}:{}".format(*given)
    text = f"{given:f}".rstrip("0").rstrip(".") if isinstance(given, float) else str(given)
    try:
        return row.metadata["read"](text)
    except ValueError as error:
        shown = "what it says" if row.metadata["is_secret"] else repr(text)     # a password may be anywhere in it
        raise SettingError(f"{called}: {shown} will not do; it {error}") from None


def read_setting(row: dataclasses.Field[Any], given: Any, called: str) -> Any:
    """The value of one setting; texts are parsed, other values are checked by their text. Raises SettingError."""
    if row.metadata["repeatable"]:
        given = (given,) if isinstance(given, str) else tuple(given)
        return tuple(_read_one(row, one, called) for one in given)
    return _read_one(row, given, called)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the operator chose. Each field takes its value, or the text that the flag would take.

    Raises SettingError for a value that cannot be used.
    """

    # name                 default            parser, placeholder and help
    db: str = _setting("releasetrack.db", _text, "FILE", "the SQLite file that holds everything")
    host: str = _setting("127.0.0.1", _text, "ADDRESS", "the address to listen on", serving=True)
    port: int = _setting(8080, _whole(0, 65535), "N", "the port to listen on; 0 takes a free one", serving=True)
    base_url: str = _setting("", _own_address, "URL",
                             "where people reach the service, if not at the address that it listens on")
    trusted_proxy: tuple[str, ...] = _setting(
        (), _proxy_network, "CIDR", "a reverse proxy whose X-Forwarded-For is believed", repeatable=True)
    rate_limit: int = _setting(1000, _whole(0, 10**9), "N", "units an hour and key; 0 for no limit")
    poll_interval: float = _setting(HOUR, _seconds(1, 30 * DAY), "SECONDS", "seconds between the checks of a project")
    host_limit: int = _setting(2, _whole(1, 256), "N", "requests under way at once to one provider's host")
    contact: str = _setting("", _contact, "ADDRESS", "a mail or web address at which providers may reach you; each "
                            "request names it")
    retry_first: float = _setting(30.0, _seconds(0.01, RETRY_LONGEST), "SECONDS",
                                  "seconds to wait after a delivery's first failure; the wait doubles from there")
    brand: str = _setting("Service", _brand, "WORD", "the word in the headers X-WORD-Signature and X-WORD-Timestamp")
    provider: tuple[tuple[str, str, str], ...] = _setting(
        (), _provider_row, "ID=DIALECT:URL", "add a provider, or move a built-in one",
        repeatable=True, variable="RELEASETRACK_PROVIDERS")
    smtp_url: str = _setting("", _mail_server, "URL", "the mail server: smtp://, smtp+starttls:// or smtps://, with "
                             "user:password@ where it wants a log-in; no mail without it", is_secret=True)
    mail_from: str = _setting("", _mail_address, "ADDRESS", "the sender of mail, if not the user of --smtp-url")
    allow_network: tuple[str, ...] = _setting(
        (), read_network, "CIDR", "a private network that destinations and git repositories of every account may be "
        "in, not only administrators'", repeatable=True)
    outgoing_proxy: str = _setting("", _proxy, "URL", "an HTTP proxy for everything that is fetched and sent but mail",
                                   is_secret=True)
    threads: int = _setting(8, _whole(1, 64), "N", "requests under way at once; those that compute take turns",
                            serving=True)
    log_level: str = _setting("info", _one_of("debug", "info", "warning", "error"), "LEVEL", "what is logged")

    def __post_init__(self) -> None:
        for row in dataclasses.fields(self):
            given = getattr(self, row.name)
            object.__setattr__(self, row.name, read_setting(row, given, row.name))

    @classmethod
    def from_outside(cls, flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
        """Settings of the command line: a flag, else the environment variable, else the default."""
        chosen = {}
        for row in dataclasses.fields(cls):
            given = flags.get(row.name)
            if given is not None and given != []:
                chosen[row.name] = read_setting(row, given, flag_of(row))
            elif environ.get(variable_of(row)):
                text = environ[variable_of(row)]
                given = text.split() if row.metadata["repeatable"] else text
                chosen[row.name] = read_setting(row, given, variable_of(row))
        return cls(**chosen)


SETTINGS = {row.name: row for row in dataclasses.fields(Settings)}


# == values ====================================================================
#
# What the rooms hand to each other: frozen records, errors, and rules about them that need no
# outside: ids, times, versions, templates, passwords. Instants of ours are seconds since the epoch;
# a release's date is RFC 3339 text in UTC.


# The texts of Messages, the same under every Python: 3.13 has another for 413.
REASONS = {**http.client.responses, 413: "Request Entity Too Large", 422: "Unprocessable Entity"}


class ReleasetrackError(Exception):
    """Whatever a user, a client or a provider can cause. ``status`` is what the API answers."""

    status = 500

    def as_message(self) -> dict[str, Any]:
        return {"message": REASONS[self.status], "code": self.status}


class Invalid(ReleasetrackError):
    """What was sent cannot be used; ``errors`` holds every problem, a sentence each."""

    status = 400

    def __init__(self, *errors: str) -> None:
        super().__init__(" ".join(errors))
        self.errors = list(errors)

    def as_message(self) -> dict[str, Any]:
        return {**super().as_message(), "errors": self.errors}


class Unauthorized(ReleasetrackError):
    status = 401


class Forbidden(ReleasetrackError):
    status = 403


class NotFound(ReleasetrackError):
    status = 404


class NotAllowed(ReleasetrackError):
    """The path exists, the method does not; ``allow`` is the header that says which do."""

    status = 405

    def __init__(self, allow: str) -> None:
        super().__init__(f"takes {allow}")
        self.allow = allow


class TooLarge(ReleasetrackError):
    status = 413


class TooMany(ReleasetrackError):
    status = 429

    def __init__(self, retry_after: float) -> None:
        super().__init__("too many requests")
        self.retry_after = retry_after


class StoreUnavailable(ReleasetrackError):
    """The store cannot be written or read for now: locked by another process, or the disk is full."""

    status = 503


class ProviderError(ReleasetrackError):
    """A provider did not answer with releases; the text is for people."""

    status = 502


class ProjectMissing(ProviderError):
    """The provider says that it has no such project."""


class Unreachable(ProviderError):
    """No usable answer came: no address, refused, too slow, too large, a bad certificate."""


class Stopped(Unreachable):
    """The program is being ended: nothing is known of the other side."""


class Throttled(ProviderError):
    """The provider asks to wait ``seconds``."""

    def __init__(self, message: str, seconds: float, quota_left: int | None = None) -> None:
        super().__init__(message)
        self.seconds = seconds
        self.quota_left = quota_left


# A value as JSON without spaces, in UTF-8 once encoded. One for all: json.dumps would make an encoder for each value.
compact_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def make_id() -> str:
    """26 characters of lower-case base 32 over 128 random bits."""
    return base64.b32encode(secrets.token_bytes(16)).decode().rstrip("=").lower()


@functools.lru_cache(maxsize=8192)      # a page of projects has sixty, and they stay the same for an hour
def _second(at: int) -> str:
    # Not fromtimestamp(), which raises OSError for some of what is beyond the calendar.
    return (datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=at)).isoformat() + "Z"


def timestamp(at: float) -> str:
    """An instant of ours as RFC 3339 text, to the second."""
    return _second(int(at))


_PLAIN_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?Z", re.ASCII)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?\s*([Zz]|UTC|[+-]\d\d:?\d\d)?", re.ASCII)


def utc(text: str | None) -> str | None:
    """A provider's ISO 8601 time as RFC 3339 in UTC, to the microsecond where it has one; a zone that is
    not given is UTC.

    None for None, and for years that providers write when they do not know: before 1980, or 9999. Raises
    ValueError for what is no time.
    """
    if text is None:
        return None
    if plain := _PLAIN_TIME.fullmatch(text):        # as most providers write it; the rest takes five times as long
        second, fraction = plain.groups("")
        is_known = 1980 <= datetime.datetime.fromisoformat(second).year < 9999
        return f"{second}{fraction.strip('0') and f'.{fraction:0<6}'}Z" if is_known else None
    match = _TIME.fullmatch(text)
    if not match:
        raise ValueError(f"{text[:40]!r} is no time")
    day, clock, fraction, zone = match.groups()
    if not zone or zone in "ZzUTC":
        zone = "+00:00"
    elif ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    when = datetime.datetime.fromisoformat(f"{day}T{clock}.{(fraction or '0')[:6]:0<6}{zone}")
    if not 1980 <= when.year < 9999:
        return None
    return when.astimezone(datetime.timezone.utc).replace(tzinfo=None).isoformat() + "Z"


def retry_after_seconds(header: str | None, now: float) -> float | None:
    """Seconds that a Retry-After header asks for, at most a day; None for none or one that makes no sense.

    https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3: seconds, or an HTTP date.
    """
    text = (header or "").strip()
    if re.fullmatch(r"[0-9]{1,20}", text):
        return min(float(text), DAY)
    try:
        asked = email.utils.parsedate_to_datetime(text).replace(tzinfo=datetime.timezone.utc).timestamp() - now
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(asked, DAY) if asked > 0 else None


PRERELEASE_WORDS = frozenset(
    "alpha beta rc cr pre preview dev snapshot nightly canary next milestone ea eap unstable experimental "
    "insiders edge trial test".split())
_PRERELEASE_LETTERS = frozenset("abcm")     # only with a number behind: 1.0b2, not openssl's 1.0.2b


# A commit's, as in 1.40.2.8395-c67dce28e; not a date behind a letter, as in 1.0-b20260601.
_HASH = re.compile(r"(?<![0-9a-z.])g?(?![a-f]?[0-9]+(?![0-9a-z]))[0-9a-f]{7,40}(?![0-9a-z])")


_PLAIN_VERSION = re.compile(r"v?[0-9]+(?:\.[0-9]+)*", re.ASCII)
_TOKEN = re.compile(r"[a-z]+|[0-9]+")


def _tokens(version: str) -> list[str]:
    return _TOKEN.findall(version.lower().split("+")[0])


def prerelease_by_words(version: str) -> bool:
    """Whether a label of no particular ecosystem says that it is not final: ``1.0-rc1``, not ``1.0-alpine``."""
    if _PLAIN_VERSION.fullmatch(version):       # as most are
        return False
    label = re.split(r"[@/](?=v?[0-9])", version)[-1]       # not by a package's name before it
    tokens = _tokens(_HASH.sub("", label.lower()))              # nor by a commit's hash behind it
    return any(
        token in PRERELEASE_WORDS
        or token in _PRERELEASE_LETTERS and at and tokens[at - 1].isdigit() and at + 1 < len(tokens)
        and tokens[at + 1].isdigit()
        for at, token in enumerate(tokens))


_PEP440 = re.compile(
    r"v?(?:[0-9]+!)?[0-9]+(?:\.[0-9]+)*"
    r"(?P<pre>[-_.]?(?:alpha|beta|preview|pre|rc|a|b|c)[-_.]?[0-9]*)?"
    r"(?:-[0-9]+|[-_.]?(?:post|rev|r)[-_.]?[0-9]*)?"
    r"(?P<dev>[-_.]?dev[-_.]?[0-9]*)?(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?", re.IGNORECASE)


def prerelease_by_pep440(version: str) -> bool:
    """https://packaging.python.org/en/latest/specifications/version-specifiers/: a, b, rc and dev segments."""
    match = _PEP440.fullmatch(version.strip())
    return bool(match["pre"] or match["dev"]) if match else prerelease_by_words(version)


def prerelease_by_semver(version: str) -> bool:
    """https://semver.org/#spec-item-9: whatever follows a hyphen, build metadata aside."""
    match = re.match(r"v?[0-9]+(?:\.[0-9]+)*(-)?", version.split("+")[0])
    return bool(match[1]) if match else prerelease_by_words(version)


def version_order(version: str) -> list[tuple[int, str, int]]:
    """A key that sorts labels as people read them: numbers by value, and ``1.0-rc1`` before ``1.0``."""
    key = [(3, "", int(token)) if token.isdigit() else (0 if token in PRERELEASE_WORDS else 2, token, 0)
           for token in _tokens(version.lstrip("vV"))]
    return [*key, (1, "", 0)]


_CVE = re.compile("CVE[-\u2010\u2011\u2013](?:\u00ad)?([0-9]{4})[-\u2010\u2011\u2013](?:\u00ad)?([0-9]{4,10})(?![0-9])",
                  re.IGNORECASE)


def cves_in(*texts: str) -> tuple[str, ...]:
    """The CVE ids that the texts name, in their order, each once."""
    return tuple(dict.fromkeys(f"CVE-{year}-{number}" for year, number in _CVE.findall("\0".join(texts))))


@dataclasses.dataclass(frozen=True)
class Request:
    """What a dialect or a notification wants sent. ``passes``: statuses beyond 2xx that the asker reads itself."""

    url: str
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    method: str = "GET"
    body: bytes | None = None
    passes: Collection[int] = ()
    is_guarded: bool = False        # its address is a user's: judged as a webhook's is
    is_repeatable: bool = False     # it may come twice, and so go by a kept connection, which may end meanwhile
    is_followed: bool = False       # by others to its host, soon: the connection is to be kept
    reads: int = 8 * KIB            # bytes of the answer to a notification


@dataclasses.dataclass(frozen=True)
class Mail:
    """What the mail server is given: the addresses of the envelope, and the message in 7 bits with CR LF."""

    sender: str
    recipient: str
    content: bytes


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came back; of a mail server the code and words of its last reply. Readers raise ValueError for a body that
    is not what it should be."""

    url: str                        # after redirects
    status: int
    headers: Mapping[str, str]      # names in lower case; repeated ones joined by ", "
    body: bytes = b""
    asked: str = ""                 # the URL before redirects
    address: str | None = None      # dialled

    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        start = self.body[:200].lstrip().lower()
        if start.startswith((b"<!doctype", b"<html")):
            raise ValueError("it answered a web page, not JSON")
        try:
            return json.loads(self.body.decode("utf-8"))
        except RecursionError:
            raise ValueError("its JSON is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"its answer is no JSON ({error})") from None

    def xml(self) -> xml.etree.ElementTree.Element:
        if b"<!ENTITY" in self.body:
            raise ValueError("its XML declares entities")
        try:
            return xml.etree.ElementTree.fromstring(self.body)
        except (xml.etree.ElementTree.ParseError, LookupError) as error:
            raise ValueError(f"its answer is no XML ({error})") from None


@dataclasses.dataclass(frozen=True)
class Note:
    title: str
    message: str                # HTML, as the provider gave it: not to be trusted
    url: str
    original: str = ""          # what the message was rendered from, where that is told apart

    def as_json(self) -> dict[str, Any]:
        """The contract's Release Note."""
        return {"title": self.title, "message": self.message, "url": self.url}

    @property
    def fingerprint(self) -> int:
        """Tells one note from another, however it is rendered."""
        text = f"{self.title}\0{self.original or self.message}"
        return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=7).digest(), "big")


@dataclasses.dataclass(frozen=True)
class Release:
    version: str
    date: str | None            # None: the provider gives none, and nobody has seen it yet
    is_prerelease: bool = False
    cve: tuple[str, ...] = ()
    note: Note | None = None
    evidence: str | None = None     # "kind:value" of the content: a digest, a commit, a publication date
    is_updated: bool = False
    has_note: bool = False      # of a release that was read without its note

    def as_json(self) -> dict[str, Any]:
        """The contract's Release; what is false or empty is left out."""
        about = {"version": self.version, "date": self.date}
        optional = {"has_note": self.has_note or self.note is not None, "cve": list(self.cve),
                    "is_prerelease": self.is_prerelease, "is_updated": self.is_updated}
        return about | {name: value for name, value in optional.items() if value}


@dataclasses.dataclass(frozen=True)
class Account:
    id: str
    type: str                   # one of ACCOUNT_TYPES
    email: str
    name: str
    is_admin: bool
    email_notification: str     # of new projects that leave it to the account
    time_zone: str              # as in the IANA's database, such as Europe/Berlin: of digests
    password: str = dataclasses.field(repr=False)       # the hash
    feed_secret: str = dataclasses.field(default="", repr=False)        # of the address of its feed
    badge_secret: str = dataclasses.field(default="", repr=False)       # and of its badges


@dataclasses.dataclass(frozen=True)
class Session:
    """A browser that is signed in."""

    id: str                     # the hash of its token, in hexadecimal
    account_id: str
    address: str                # that it signed in from
    agent: str                  # what the browser calls itself
    created_at: float
    seen_at: float


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
    feed_secret: str = dataclasses.field(default="", repr=False)        # of the address of its feed

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name}


# Each kind of destination: the field of a project that lists it, and with hyphens the path of the API's own list.
KIND_FIELDS = {
    "slack": "slack_channels", "telegram": "telegram_chats", "discord": "discord_channels",
    "hangouts_chat": "hangouts_chat_webhooks", "microsoft_teams": "microsoft_teams_webhooks",
    "mattermost": "mattermost_webhooks", "rocketchat": "rocketchat_webhooks", "matrix": "matrix_rooms",
    "webhook": "webhooks", "ntfy": "ntfy_topics", "gotify": "gotify_applications",
    "pushover": "pushover_users", "apprise": "apprise_urls", "email": "emails",
}
ACCOUNT_TYPES = ("user", "organization")
SCHEDULES = ("instant", "hourly", "daily", "weekly")
EMAIL_NOTIFICATIONS = ("none", *SCHEDULES, "default")
HOLD_LIMIT = 365                # days


def own_zone() -> str:
    """The time zone that this machine keeps, if it says so; else UTC."""
    named = os.environ.get("TZ", "").lstrip(":") or os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    with contextlib.suppress(ValueError):
        zone_of(named)
        return named
    return "UTC"


def zone_of(name: str) -> datetime.tzinfo:
    """The zone of a name of the IANA's database. Raises ValueError, which says what it takes."""
    try:
        return datetime.timezone.utc if name == "UTC" else zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):     # also of a folder, or of no good file
        raise ValueError(f"there is no time zone {name[:60]!r} on this machine; it takes a name such as "
                         "Europe/Berlin or UTC") from None


def next_boundary(schedule: str, now: float, zone: str) -> float:
    """When what comes at ``now`` is told by a schedule: at once, with the next full hour, at the next 08:00, on the
    next Monday at 08:00, by the clocks of the zone."""
    if schedule == "instant":
        return now
    there: datetime.tzinfo = datetime.timezone.utc
    with contextlib.suppress(ValueError):       # the machine that the store came from knew it
        there = zone_of(zone)
    local = datetime.datetime.fromtimestamp(now, there)
    if schedule == "hourly":
        offset = (local.utcoffset() or datetime.timedelta()).total_seconds()
        return (now + offset) // HOUR * HOUR + HOUR - offset
    days = (datetime.datetime.combine(local.date() + datetime.timedelta(days=day), datetime.time(8), local.tzinfo)
            for day in range(9))
    return next(day.timestamp() for day in days
                if day.timestamp() > now and (schedule == "daily" or day.weekday() == 0))


@dataclasses.dataclass(frozen=True)
class Health:
    """How the checks of a source go. Instants are seconds since the epoch."""

    checked_at: float | None        # last answer of any kind
    succeeded_at: float | None      # last answer that held releases; None: never seen
    next_check_at: float
    error: str | None               # of the last check, in words
    missing_since: float | None     # when the provider first said that there is no such project, unless it is back
    is_missing: bool                # it has said so three times, over a day
    quota_left: int | None          # requests that the provider said are left to us

    def as_json(self) -> dict[str, Any]:
        """For people and programs: instants as RFC 3339, and what is nothing or false left out."""
        about: dict[str, Any] = {"next_check_at": timestamp(self.next_check_at)}
        if self.checked_at:
            about["checked_at"] = timestamp(self.checked_at)
        if self.succeeded_at:
            about["succeeded_at"] = timestamp(self.succeeded_at)
        if self.missing_since:
            about["missing_since"] = timestamp(self.missing_since)
        if self.is_missing:
            about["is_missing"] = True
        if self.error is not None:
            about["error"] = self.error
        if self.quota_left is not None:
            about["quota_left"] = self.quota_left
        return about


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
    hold_days: int                                          # that a release must have been out before it is told
    tags: tuple[str, ...]                                   # ids
    destinations: Mapping[str, tuple[str, ...]]             # kind -> ids; a kind with none is absent

    health: Health                                          # of its source

    def as_json(self, url: str) -> dict[str, Any]:
        """The contract's Project and, beyond it, ``source``; what is false or empty is left out."""
        about: dict[str, Any] = {"id": self.id, "name": self.name, "provider": self.provider, "url": url,
                                 "email_notification": self.email_notification, "source": self.health.as_json()}
        for kind, ids in self.destinations.items():
            about[KIND_FIELDS[kind]] = ids
        if self.exclude_version_regexp:
            about["exclude_version_regexp"] = [
                {"value": value, "inverse": True} if inverse else {"value": value}
                for value, inverse in self.exclude_version_regexp]
        for name in ("exclude_prereleases", "exclude_updated", "note", "hold_days", "tags"):
            if value := getattr(self, name):
                about[name] = value
        return about


@dataclasses.dataclass(frozen=True)
class Sighting:
    """A release of one of an account's projects, as lists over all of them show it."""

    project: Project
    release: Release
    found_at: float | None          # None: it was there when the project was first looked at
    note: Note | None               # with the beginning of its message


@dataclasses.dataclass(frozen=True)
class Source(Health):
    """A project at its provider, shared by all accounts that track it."""

    id: int
    provider: str
    key: str                        # tells it from others there, however the name is spelled
    name: str
    failures: int                   # since the last success
    failing_since: float | None
    is_told: bool                   # its accounts were told that it keeps failing
    etag_url: str | None            # the request that ``etag`` and ``last_modified`` belong to
    etag: str | None
    last_modified: str | None
    is_trusted: bool                # an administrator tracks it


@dataclasses.dataclass(frozen=True)
class Destination:
    id: str
    account_id: str
    kind: str
    name: str
    settings: Mapping[str, Any] = dataclasses.field(repr=False)     # what its kind asks for; "shown": in the API's list
    secret: str = dataclasses.field(repr=False)                     # of a webhook's signatures
    schedule: str = "instant"           # one of SCHEDULES; of an e-mail destination each project has its own
    is_for_every_project: bool = True   # else only for those that list it
    tags: tuple[str, ...] = ()          # ids; it is for projects that have one of them
    without_tags: tuple[str, ...] = ()  # ids; and for none that has one of these
    is_security_only: bool = False      # only for releases that name a CVE
    previous_secret: str | None = dataclasses.field(default=None, repr=False)
    previous_until: float | None = None     # until then the previous secret signs too

    def as_json(self) -> dict[str, Any]:
        """What a list of the API shows: id, name, and what the kind's settings add to it."""
        return {"id": self.id, "name": self.name} | dict(self.settings.get("shown", {}))


@dataclasses.dataclass(frozen=True)
class Subscriber:
    """A project that tracks a source, with all that an event of it needs."""

    project: Project
    account: Account
    tags: tuple[Tag, ...]
    destinations: tuple[Destination, ...]


@dataclasses.dataclass(frozen=True)
class Recipient:
    """A destination that is told of an event, and when."""

    destination_id: str
    due_at: float
    is_digested: bool = False       # together with what else is due there
    is_held: bool = False           # only if the release is still there then


@dataclasses.dataclass(frozen=True)
class Event:
    """What a project is told of. ``body``: of a release the contract's JSON object; of a source's
    health its members ``provider``, ``project``, ``time``, ``account`` and so on, and ``error``."""

    project_id: str
    body: Mapping[str, Any]
    url: str
    recipients: tuple[Recipient, ...]
    kind: str = "release"           # or "failing", "recovered"


@dataclasses.dataclass(frozen=True)
class Delivery:
    """An event on its way to a destination, claimed by who reads it."""

    id: str
    destination: Destination
    account_email: str
    account_is_admin: bool
    body: Mapping[str, Any]         # of the event
    url: str
    kind: str                       # of the event
    attempts: int                   # since it was queued
    queued_at: float                # when it was first tried, or is to be if it was not; anew if sent again by hand
    digest_id: str | None = None    # what it is sent together with


@dataclasses.dataclass(frozen=True)
class Attempt:
    """How one attempt went."""

    attempted_at: float
    status: int | None              # None: no answer
    error: str | None
    duration: float                 # seconds
    address: str | None             # dialled
    answer: str | None              # its first KiB, secrets masked

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "attempted_at": timestamp(self.attempted_at), "duration": round(self.duration, 3)}


@dataclasses.dataclass(frozen=True)
class Outcome(Attempt):
    """An attempt, and what it makes of its delivery."""

    delivery_id: str
    state: str                      # "delivered", "pending" or "failed"
    next_attempt_at: float


@dataclasses.dataclass(frozen=True)
class Entry:
    """A delivery as the journal shows it."""

    id: str
    kind: str                       # of its destination
    destination: str                # the name
    destination_id: str
    event: str                      # "release", "failing" or "recovered"
    provider: str
    project: str
    version: str
    state: str                      # "pending", "delivered", "failed" or "skipped"
    attempts: int
    created_at: float
    next_attempt_at: float
    settled_at: float | None
    digest_id: str | None
    error: str | None               # of the last attempt; or why it was skipped

    def as_json(self) -> dict[str, Any]:
        about = dict(vars(self))
        for name in ("created_at", "next_attempt_at", "settled_at"):
            about[name] = about[name] and timestamp(about[name])
        if self.state != "pending":
            about["next_attempt_at"] = None
        return about


def health_body(subscriber: Subscriber, error: str, now: float) -> dict[str, Any]:
    """What is told of a source that keeps failing, or has recovered; then ``error`` is what was wrong at last."""
    project, account = subscriber.project, subscriber.account
    return {"provider": project.provider, "project": project.name, "time": timestamp(now), "error": error,
            "account": {"type": account.type, "id": account.id, "name": account.name},
            "tags": [tag.as_json() for tag in subscriber.tags], "project_note": project.note}


def event_body(subscriber: Subscriber, release: Release) -> dict[str, Any]:
    """The standard body of a notification; optional members only when they say something."""
    project, account = subscriber.project, subscriber.account
    body: dict[str, Any] = {
        "provider": project.provider, "project": project.name, "version": release.version, "time": release.date}
    if release.cve:
        body["cve"] = list(release.cve)
    if release.is_prerelease:
        body["is_prerelease"] = True
    if release.is_updated:
        body["is_updated"] = True
    if release.note:
        body["note"] = {"title": release.note.title, "message": release.note.message}
    body["account"] = {"type": account.type, "id": account.id, "name": account.name}
    if subscriber.tags:
        body["tags"] = [tag.as_json() for tag in subscriber.tags]
    if project.note:
        body["project_note"] = project.note
    return body


# A tag ends at its ">" or where the next "<" begins, so that each character is looked at once: a note is a
# stranger's, and html.parser takes half a minute for 64 KiB of "<a ", and raises for others.
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<(?P<end>/?)(?P<tag>[A-Za-z][A-Za-z0-9]*)[^<>]*>?|<[!?][^<>]*>?", re.DOTALL)
_UNSEEN = frozenset(("script", "style", "head", "title", "template", "noscript"))
_BLOCKS = frozenset("p div br li ul ol h1 h2 h3 h4 h5 h6 pre tr table blockquote section hr dd dt".split())


def plain_text(markup: str) -> str:
    """What a person would read of HTML: no markup, blocks as lines, blank runs folded."""
    markup = re.sub(r"&#[0-9]{8,};?", "\ufffd", markup)     # int() refuses 5,000 digits
    parts, unseen, at = [], 0, 0
    for match in _MARKUP.finditer(markup):
        if not unseen:
            parts.append(html.unescape(markup[at:match.start()]))
        at, tag, ends = match.end(), (match["tag"] or "").lower(), bool(match["end"])
        if tag in _UNSEEN:
            unseen = max(0, unseen - 1) if ends else unseen + 1
        elif tag in _BLOCKS and not unseen:
            parts.append("\n" if tag != "li" else "" if ends else "\n- ")
    if not unseen:
        parts.append(html.unescape(markup[at:]))
    lines = (re.sub(r"[ \t\r\f\v]+", " ", line).strip() for line in "".join(parts).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def preformatted(text: str) -> str:
    """Text or Markdown as HTML that shows it as it is."""
    return f"<pre>{html.escape(text, quote=False)}</pre>" if text.strip() else ""


_LINK = re.compile(r"""(\s(?:href|src)\s*=\s*)("[^"]*"|'[^']*'|[^\s"'>]+)""", re.IGNORECASE)
# Wherever it stands: what is inside a tag and what is not, browsers see otherwise than any pattern.
_HREF = re.compile(r"""((?<![\w-])(?:href|action|formaction)\s*=\s*)("[^"]*"|'[^']*'|[^\s>]+)""", re.IGNORECASE)


def harmless_links(markup: str) -> str:
    """The HTML with "#" in place of links that are script, or anything but web and mail addresses."""
    def one(match: re.Match[str]) -> str:
        link = re.sub(r"[\x00-\x20]", "", html.unescape(match[2].strip("\"'"))).lower()
        scheme = re.match(r"([a-z][a-z0-9+.-]*):", link)
        return f'{match[1]}"#"' if scheme and scheme[1] not in ("http", "https", "mailto") else match[0]
    return _HREF.sub(one, markup)


def absolute_links(markup: str, base: str) -> str:
    """The HTML with its links and pictures as they are seen from the page ``base``."""
    def one(match: re.Match[str]) -> str:
        is_quoted = match[2][0] in "\"'"
        mark, link = (match[2][0], match[2][1:-1]) if is_quoted else ('"', match[2])
        with contextlib.suppress(ValueError):       # a broken address stays as it is
            link = urljoin(base, link.strip())
        return f"{match[1]}{mark}{link}{mark}"
    return re.sub(r"<[A-Za-z][^<>]*>", lambda tag: _LINK.sub(one, tag[0]), markup)


TEMPLATE_NAMES = frozenset(
    "provider project version time cve is_prerelease is_updated note_title note_message note_text "
    "account_type account_id account_name tags project_note url".split())
_TEMPLATE = re.compile(r"\{\{|\}\}|\{([a-z_]{1,40})\}")


def unknown_names(template: str) -> list[str]:
    """The variables of a template that no event has."""
    return [match[1] for match in _TEMPLATE.finditer(template) if match[1] and match[1] not in TEMPLATE_NAMES]


def fill(template: str, values: Mapping[str, str], at_most: int = sys.maxsize) -> str:
    """The template with its ``{name}`` replaced, in one pass: what a value holds is never read again. No more than
    ``at_most`` characters are made.

    Never ``str.format``: it walks attributes and pads to any width.
    """
    parts, at, left = list[str](), 0, at_most
    for match in _TEMPLATE.finditer(template):
        value = values.get(match[1], match[0]) if match[1] else match[0][0]
        for part in (template[at:match.start()], value):
            parts.append(part[:left])
            left -= len(parts[-1])
        if left <= 0:
            break
        at = match.end()
    return "".join([*parts, template[at:at + left] if left > 0 else ""])


def read_label(text: str, at_most: int = NAME_LIMIT) -> str:
    """A name that a person gave. Raises Invalid."""
    if not 0 < len(text.strip()) <= at_most or not text.isprintable():
        raise Invalid(f"the name {text[:40]!r} takes 1 to {at_most} printable characters")
    return text.strip()


def read_email(text: str) -> str:
    """An account's e-mail address. Raises Invalid."""
    if not re.fullmatch(r"[^@\s\x00-\x1f\ud800-\udfff]{1,64}@[^@\s\x00-\x1f\ud800-\udfff]{1,190}", text):
        raise Invalid(f"{text[:260]!r} is no e-mail address, such as you@example.org")
    return text


# OWASP's password storage cheat sheet: of the choices of equal strength the one with the least memory.
_SCRYPT = {"n": 2**14, "r": 8, "p": 5}


def hash_password(password: str, salt: bytes | None = None) -> str:
    """``scrypt$salt$hash``, both in hexadecimal. Takes about 0.2 s and 16 MiB."""
    salt = salt or secrets.token_bytes(16)
    digest = hashlib.scrypt(password.encode("utf-8", "surrogatepass"), salt=salt, **_SCRYPT, dklen=32)
    return f"scrypt${salt.hex()}${digest.hex()}"


# Compared against when there is no such account, so that the time of an answer does not tell.
NO_PASSWORD = "scrypt$" + "00" * 16 + "$" + "00" * 32


def is_password(password: str, hashed: str) -> bool:
    """Whether the password is the one that was hashed. Costs as much as hashing."""
    salt = bytes.fromhex(hashed.split("$")[1])
    return hmac.compare_digest(hash_password(password, salt).encode(), hashed.encode())


def password_problem(password: str) -> str | None:
    """What is wrong with a new password, if anything."""
    size = len(password.encode("utf-8", "surrogatepass"))
    return None if 8 <= size <= 1024 else f"The password has {size} bytes; it takes 8 to 1,024."


def make_key_secret() -> str:
    """A new API key: 256 random bits behind a prefix that secret scanners can look for."""
    return "rt_" + secrets.token_hex(32)


def make_session_token() -> str:
    """What a browser is known by: 256 random bits."""
    return secrets.token_urlsafe(32)


def make_signing_secret() -> str:
    """``whsec_`` and 32 random bytes in base 64, as https://www.standardwebhooks.com has it."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def secret_hash(secret: str) -> bytes:
    """What a key or session is looked up by, so that no comparison's time says anything of the secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


@functools.lru_cache(maxsize=256)
def ascii_url(url: str) -> str:
    """The URL as it goes over the wire. Raises ValueError for user:password, which would be taken for a host."""
    parts = urlsplit(url)
    if parts.username is not None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it is not a web address without user and password")
    _ = parts.port      # raises beyond 65535
    host = parts.hostname.encode("idna").decode() if not parts.hostname.isascii() else parts.netloc
    if not parts.hostname.isascii() and parts.port:
        host = f"{host}:{parts.port}"
    return parts._replace(netloc=host, path=quote(parts.path, safe="/%:@!$&'()*+,;=~-._"),
                          query=quote(parts.query, safe="/%:@!$&'()*+,;=~-._?"), fragment="").geturl()


def checked_url(url: str) -> str:
    """A URL that may be posted to. Raises ValueError, which says what is wrong."""
    if len(url) > 2000 or re.search(r"[\s\x00-\x1f\x7f]", url) or not re.match(r"https?://[^/]", url, re.IGNORECASE):
        raise ValueError("it takes an address such as https://example.org/hook")
    if urlsplit(url).username is not None:
        raise ValueError("it must not hold user and password; an Authorization header can")
    if urlsplit(url).port == 0:
        raise ValueError("0 is no port")
    return url


Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@functools.lru_cache(maxsize=4096)
def parse_address(text: str) -> Address | None:
    """The address that ``text`` spells, IPv4 out of its IPv6 wrapper; None for what is none."""
    try:
        address = ipaddress.ip_address(text.strip().partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


@functools.lru_cache(maxsize=4096)
def parse_networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


@functools.lru_cache(maxsize=4096)
def in_networks(address: str, networks: tuple[str, ...]) -> bool:
    """Whether the address is in one of the networks. False for what is no address."""
    parsed = parse_address(address)
    return parsed is not None and any(parsed in network for network in parse_networks(networks))


# == limits ====================================================================
#
# What bounds the use of the service: the hourly windows of keys and addresses, the gate before
# log-ins, and the time that a user's pattern may take. Windows are arithmetic on a time that they
# are given, in seconds of a clock that never goes back.


@dataclasses.dataclass(frozen=True)
class Window:
    """Where a key stands after asking; ``is_open`` says whether the request may go on."""

    limit: int
    remaining: int
    reset: float                # seconds until all is given back
    is_open: bool


class Windows:
    """Hourly budgets, one for each name. A window starts with the name's first request."""

    def __init__(self, limit: int, most_names: int = 50_000) -> None:
        self.limit = limit
        self._most_names = most_names
        self._lock = threading.Lock()
        self._state: dict[str, tuple[float, int]] = {}      # name -> (start, used)

    def take(self, name: str, cost: int, now: float) -> Window:
        """The window after ``cost``; one that costs more than remains is refused and costs nothing."""
        with self._lock:
            start, used = self._state.get(name, (now, 0))
            if now - start >= HOUR:
                start, used = now, 0
            is_open = used + cost <= self.limit
            if is_open:
                used += cost
                if name not in self._state and len(self._state) >= self._most_names:
                    self._forget(now)
                self._state[name] = start, used
            return Window(self.limit, self.limit - used, start + HOUR - now, is_open)

    def give_back(self, name: str, cost: int) -> None:
        with self._lock:
            if name in self._state:
                start, used = self._state[name]
                self._state[name] = start, max(0, used - cost)
                if used <= cost:
                    del self._state[name]

    def _forget(self, now: float) -> None:
        """Drop what has run out, and the oldest tenth if that was not enough."""
        self._state = {name: state for name, state in self._state.items() if now - state[0] < HOUR}
        if len(self._state) >= self._most_names:
            for name in list(self._state)[:self._most_names // 10]:
                del self._state[name]


class Pace:
    """At most so many in any so many seconds."""

    def __init__(self, requests: int, seconds: float) -> None:
        self._seconds = seconds
        self._taken: deque[float] = deque(maxlen=requests)
        self._lock = threading.Lock()

    def take(self, now: float) -> float:
        """Seconds to wait until there is room; 0 when there was, and it was taken."""
        with self._lock:
            if len(self._taken) == self._taken.maxlen and (wait := self._taken[0] + self._seconds - now) > 0:
                return wait
            self._taken.append(now)
            return 0.0

    def __str__(self) -> str:
        return f"at most {self._taken.maxlen} times in {self._seconds:g} s"


class LoginGate:
    """Lets few passwords be tried: an hourly number for an account and for an address, two at a time, by two threads:
    each thread that hashes keeps 16 MiB. Few may wait for their turn, since each holds one that answers requests."""

    def __init__(self) -> None:
        self._windows = Windows(LOGIN_TRIES)
        self._room = threading.BoundedSemaphore(4)
        self._pool: ThreadPoolExecutor | None = None        # made when it is first needed: its process may yet fork
        self._lock = threading.Lock()

    def check(self, email: str, address: str, password: str, hashed: str | None, now: float) -> bool:
        """Whether the password is right; ``hashed`` is None where there is no such account, and takes as long.

        Raises TooMany. A right password costs nothing, so that a program which logs in often is not locked out.
        """
        names = [f"address {address}", f"account {secret_hash(email.lower()).hex()}"]
        taken: list[str] = []
        for name in names:
            window = self._windows.take(name, 1, now)
            if not window.is_open:
                for other in taken:
                    self._windows.give_back(other, 1)
                raise TooMany(window.reset)
            taken.append(name)
        is_tried = right = False
        try:
            right = self._hash(password[:1024], hashed or NO_PASSWORD) and hashed is not None
            is_tried = True
        finally:
            if right or not is_tried:
                for name in names:
                    self._windows.give_back(name, 1)
        return right

    def _hash(self, password: str, hashed: str) -> bool:
        if not self._room.acquire(blocking=False):
            raise TooMany(1)
        try:
            with self._lock:
                self._pool = self._pool or ThreadPoolExecutor(2, thread_name_prefix="releasetrack-log-in")
            return self._pool.submit(is_password, password, hashed).result()
        finally:
            self._room.release()

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown()


class Patterns:
    """Matches users' regular expressions in a process of their own, which is ended when it takes too long.

    A pattern that backtracks without end would hold the interpreter, and with it every thread.
    """

    _ONE, _ALL = 0.25, 0.5      # seconds for a pattern over a list of versions, and for all patterns of a project
    _PROGRAM = ("import json, re, sys\n"
                "print(flush=True)\n"      # it is up; its time begins now
                "for line in sys.stdin:\n"
                "    pattern, texts = json.loads(line)\n"
                "    print(json.dumps([bool(re.search(pattern, text)) for text in texts]), flush=True)\n")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._helper: subprocess.Popen[bytes] | None = None
        self._too_slow: dict[str, int] = {}

    def excluded(self, rules: Sequence[tuple[str, bool]], versions: Sequence[str]) -> list[bool]:
        """For each version whether a plain pattern finds something in it, or an inverse one does not.

        A pattern that is too slow excludes nothing: rather a release too many than one hidden. After
        the third time it is not tried again.
        """
        found = [False] * len(versions)
        left = self._ALL
        for pattern, inverse in rules if versions else ():
            matches, spent = self._search(pattern, versions, left)
            left -= spent
            found = [before or match is not inverse for before, match in zip(found, matches)] if matches else found
        return found

    def too_slow(self, pattern: str) -> bool:
        return self._too_slow.get(pattern, 0) >= 3

    def close(self) -> None:
        with self._lock:
            self._end_helper()

    def _search(self, pattern: str, versions: Sequence[str], left: float) -> tuple[list[bool] | None, float]:
        """What was found, and the seconds that it took; waiting for others' patterns does not count."""
        with self._lock:
            if self.too_slow(pattern) or left <= 0:
                return None, 0.0
            began_at = time.monotonic()
            answer = self._ask(json.dumps([pattern, list(versions)]).encode() + b"\n", min(self._ONE, left))
            if answer is None:
                self._end_helper()
                if left >= self._ONE:       # not held against one that had what others left of the time
                    self._too_slow[pattern] = self._too_slow.get(pattern, 0) + 1
                log.warning("pattern %r: takes too long, excludes nothing", pattern)
            return answer, time.monotonic() - began_at

    def _ask(self, line: bytes, seconds: float) -> list[bool] | None:
        try:
            if self._helper is None or self._helper.poll() is not None:
                self._helper = subprocess.Popen([sys.executable, "-I", "-S", "-c", self._PROGRAM],
                                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                self._read_line(self._helper, 2)
            assert self._helper.stdin
            self._helper.stdin.write(line)
            self._helper.stdin.flush()
            answer = self._read_line(self._helper, seconds)
            return json.loads(answer) if answer else None
        except OSError as error:    # it could not be started, or ended meanwhile
            log.warning("patterns: the process that matches them: %s", error)
            return None

    @staticmethod
    def _read_line(helper: subprocess.Popen[bytes], seconds: float) -> bytes:
        """A line of its answer, empty when none comes in time. Not by select(), which knows few descriptors."""
        assert helper.stdout
        waiting = select.poll()
        waiting.register(helper.stdout, select.POLLIN)
        return helper.stdout.readline() if waiting.poll(1000 * seconds) else b""

    def _end_helper(self) -> None:
        if self._helper is not None:
            self._helper.kill()
            self._helper.communicate()
            self._helper = None


# == store =====================================================================
#
# Everything that is remembered, and all SQL. Threads and processes meet here: each thread has a
# connection of its own, writers of a process queue at one lock, work is claimed with a lease. What
# is written is on the disk when the method returns, but for claims and checks that found nothing.
# SQLite in WAL: https://www.sqlite.org/wal.html

MIGRATIONS = ("""
CREATE TABLE account (
    id                 TEXT PRIMARY KEY,
    type               TEXT NOT NULL CHECK (type IN ('user', 'organization')),
    email              TEXT NOT NULL COLLATE NOCASE UNIQUE,
    name               TEXT NOT NULL,
    password           TEXT NOT NULL,
    is_admin           INTEGER NOT NULL CHECK (is_admin IN (0, 1)),
    email_notification TEXT NOT NULL DEFAULT 'daily',
    time_zone          TEXT NOT NULL DEFAULT 'UTC',
    created_at         REAL NOT NULL
) STRICT;

-- The contract shows an account its keys, so they are kept; they are looked up by their hash.
CREATE TABLE api_key (
    id          TEXT PRIMARY KEY,
    account_id  TEXT NOT NULL REFERENCES account ON DELETE CASCADE,
    name        TEXT NOT NULL,
    secret      TEXT NOT NULL,
    secret_hash BLOB NOT NULL UNIQUE,
    networks    TEXT NOT NULL,
    created_at  REAL NOT NULL,
    used_at     REAL,
    UNIQUE (account_id, name)
) STRICT;

CREATE TABLE session (
    token_hash BLOB PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES account ON DELETE CASCADE,
    address    TEXT NOT NULL,
    agent      TEXT NOT NULL,
    created_at REAL NOT NULL,
    seen_at    REAL NOT NULL
) STRICT;
CREATE INDEX session_of_account ON session (account_id);

-- An id is never given again: a check under way would record its findings under another source.
CREATE TABLE source (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    provider      TEXT NOT NULL,
    key           TEXT NOT NULL,
    name          TEXT NOT NULL,
    next_check_at REAL NOT NULL,
    claimed_by    TEXT,
    claimed_until REAL,
    checked_at    REAL,
    succeeded_at  REAL,
    failures      INTEGER NOT NULL DEFAULT 0,
    error         TEXT,
    is_missing    INTEGER NOT NULL DEFAULT 0 CHECK (is_missing IN (0, 1)),
    etag_url      TEXT,
    etag          TEXT,
    last_modified TEXT,
    UNIQUE (provider, key)
) STRICT;
CREATE INDEX source_due ON source (provider, next_check_at);
CREATE INDEX source_claimed ON source (claimed_by) WHERE claimed_by IS NOT NULL;

CREATE TABLE release (
    id            INTEGER PRIMARY KEY,
    source_id     INTEGER NOT NULL REFERENCES source ON DELETE CASCADE,
    version       TEXT NOT NULL,
    date          TEXT NOT NULL,    -- without its Z, so that 10:00:00 sorts before 10:00:00.5
    is_prerelease INTEGER NOT NULL CHECK (is_prerelease IN (0, 1)),
    is_updated    INTEGER NOT NULL DEFAULT 0 CHECK (is_updated IN (0, 1)),
    cve           TEXT,
    evidence      TEXT,
    UNIQUE (source_id, version)
) STRICT;
CREATE INDEX release_newest_of_source ON release (source_id, date);
CREATE INDEX release_newest_of_all ON release (date);

CREATE TABLE note (
    release_id  INTEGER PRIMARY KEY REFERENCES release ON DELETE CASCADE,
    fingerprint INTEGER NOT NULL,
    title       TEXT NOT NULL,
    message     TEXT NOT NULL,
    url         TEXT NOT NULL
) STRICT;

-- provider and name stand here again, and newest_date too, for the indexes that list pages go by.
CREATE TABLE project (
    id                     TEXT PRIMARY KEY,
    account_id             TEXT NOT NULL REFERENCES account ON DELETE CASCADE,
    source_id              INTEGER NOT NULL REFERENCES source,
    provider               TEXT NOT NULL,
    name                   TEXT NOT NULL,
    email_notification     TEXT NOT NULL,
    exclude_prereleases    INTEGER NOT NULL DEFAULT 0 CHECK (exclude_prereleases IN (0, 1)),
    exclude_updated        INTEGER NOT NULL DEFAULT 0 CHECK (exclude_updated IN (0, 1)),
    exclude_version_regexp TEXT NOT NULL DEFAULT '[]',
    note                   TEXT NOT NULL DEFAULT '',
    newest_date            TEXT NOT NULL DEFAULT '',
    added_at               REAL NOT NULL,
    UNIQUE (account_id, source_id)
) STRICT;
CREATE INDEX project_by_newest ON project (account_id, newest_date);
CREATE INDEX project_by_added ON project (account_id, added_at);
CREATE INDEX project_by_name ON project (account_id, name COLLATE NOCASE, provider);
CREATE INDEX project_of_source ON project (source_id);

-- How many projects an account has at a provider, so that a page need not count them.
CREATE TABLE project_count (
    account_id TEXT NOT NULL REFERENCES account ON DELETE CASCADE,
    provider   TEXT NOT NULL,
    projects   INTEGER NOT NULL,
    PRIMARY KEY (account_id, provider)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER project_added AFTER INSERT ON project BEGIN
    INSERT INTO project_count (account_id, provider, projects) VALUES (NEW.account_id, NEW.provider, 1)
        ON CONFLICT DO UPDATE SET projects = projects + 1;
END;
CREATE TRIGGER project_removed AFTER DELETE ON project BEGIN
    UPDATE project_count SET projects = projects - 1
     WHERE account_id = OLD.account_id AND provider = OLD.provider;
    DELETE FROM project_count
     WHERE account_id = OLD.account_id AND provider = OLD.provider AND projects = 0;
    DELETE FROM source
     WHERE id = OLD.source_id AND NOT EXISTS (SELECT 1 FROM project WHERE source_id = OLD.source_id);
END;

CREATE TABLE tag (
    id         TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES account ON DELETE CASCADE,
    name       TEXT NOT NULL COLLATE NOCASE,
    UNIQUE (account_id, name)
) STRICT;
CREATE TABLE project_tag (
    project_id TEXT NOT NULL REFERENCES project ON DELETE CASCADE,
    tag_id     TEXT NOT NULL REFERENCES tag ON DELETE CASCADE,
    PRIMARY KEY (project_id, tag_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX project_tag_of_tag ON project_tag (tag_id);

CREATE TABLE destination (
    id                   TEXT PRIMARY KEY,
    account_id           TEXT NOT NULL REFERENCES account ON DELETE CASCADE,
    kind                 TEXT NOT NULL CHECK (kind IN (
        'slack', 'telegram', 'discord', 'hangouts_chat', 'microsoft_teams', 'mattermost', 'rocketchat',
        'matrix', 'webhook', 'ntfy', 'gotify', 'pushover', 'apprise', 'email')),
    name                 TEXT NOT NULL,
    settings             TEXT NOT NULL,
    secret               TEXT NOT NULL,
    schedule             TEXT NOT NULL DEFAULT 'instant'
                         CHECK (schedule IN ('instant', 'hourly', 'daily', 'weekly')),
    is_for_every_project INTEGER NOT NULL DEFAULT 1 CHECK (is_for_every_project IN (0, 1)),
    created_at           REAL NOT NULL,
    UNIQUE (account_id, kind, name)
) STRICT;
CREATE TABLE project_destination (
    project_id     TEXT NOT NULL REFERENCES project ON DELETE CASCADE,
    destination_id TEXT NOT NULL REFERENCES destination ON DELETE CASCADE,
    PRIMARY KEY (project_id, destination_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX project_destination_of_destination ON project_destination (destination_id);

CREATE TABLE event (
    id         INTEGER PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES account ON DELETE CASCADE,
    project_id TEXT REFERENCES project ON DELETE SET NULL,
    body       TEXT NOT NULL,
    url        TEXT NOT NULL,
    created_at REAL NOT NULL
) STRICT;
CREATE INDEX event_of_account ON event (account_id);
CREATE INDEX event_of_project ON event (project_id);
CREATE INDEX event_by_time ON event (created_at);

CREATE TABLE delivery (
    id              TEXT PRIMARY KEY,
    event_id        INTEGER NOT NULL REFERENCES event ON DELETE CASCADE,
    destination_id  TEXT NOT NULL REFERENCES destination ON DELETE CASCADE,
    state           TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed', 'skipped')),
    next_attempt_at REAL NOT NULL,
    attempts        INTEGER NOT NULL DEFAULT 0,
    claimed_by      TEXT,
    claimed_until   REAL,
    created_at      REAL NOT NULL,
    settled_at      REAL
) STRICT;
CREATE INDEX delivery_of_event ON delivery (event_id);
CREATE INDEX delivery_of_destination ON delivery (destination_id);
CREATE INDEX delivery_due ON delivery (next_attempt_at) WHERE state = 'pending';
CREATE INDEX delivery_due_at_destination ON delivery (destination_id, next_attempt_at) WHERE state = 'pending';
CREATE INDEX delivery_claimed ON delivery (destination_id, claimed_until) WHERE claimed_until IS NOT NULL;
CREATE INDEX delivery_settled ON delivery (settled_at) WHERE settled_at IS NOT NULL;

CREATE TABLE attempt (
    id           INTEGER PRIMARY KEY,
    delivery_id  TEXT NOT NULL REFERENCES delivery ON DELETE CASCADE,
    attempted_at REAL NOT NULL,
    status       INTEGER,
    error        TEXT,
    duration     REAL NOT NULL,
    address      TEXT
) STRICT;
CREATE INDEX attempt_of_delivery ON attempt (delivery_id);
CREATE INDEX attempt_by_time ON attempt (attempted_at);

PRAGMA application_id = 1920234091;
PRAGMA user_version = 1;
""", """
ALTER TABLE source ADD COLUMN missing_since REAL;
ALTER TABLE source ADD COLUMN missing_times INTEGER NOT NULL DEFAULT 0;
ALTER TABLE source ADD COLUMN quota_left INTEGER;
UPDATE source SET missing_since = checked_at, missing_times = 1, is_missing = 0 WHERE is_missing;

-- Nobody asks for it, and writing it took two pages of three of what a first check writes.
DROP INDEX release_newest_of_all;

-- A project that was renamed may be at its new name already; then its projects move to that source, and the one that
-- they leave goes.
CREATE TRIGGER project_moved AFTER UPDATE OF source_id ON project BEGIN
    DELETE FROM source
     WHERE id = OLD.source_id AND NOT EXISTS (SELECT 1 FROM project WHERE source_id = OLD.source_id);
END;
PRAGMA user_version = 2;
""", """
ALTER TABLE project ADD COLUMN hold_days INTEGER NOT NULL DEFAULT 0;
ALTER TABLE release ADD COLUMN gone_at REAL;
ALTER TABLE source ADD COLUMN failing_since REAL;
ALTER TABLE source ADD COLUMN is_told INTEGER NOT NULL DEFAULT 0 CHECK (is_told IN (0, 1));
UPDATE source SET failing_since = coalesce(succeeded_at, checked_at) WHERE failures > 0;

ALTER TABLE destination ADD COLUMN is_security_only INTEGER NOT NULL DEFAULT 0 CHECK (is_security_only IN (0, 1));
ALTER TABLE destination ADD COLUMN previous_secret TEXT;
ALTER TABLE destination ADD COLUMN previous_until REAL;
CREATE TABLE destination_tag (
    destination_id TEXT NOT NULL REFERENCES destination ON DELETE CASCADE,
    tag_id         TEXT NOT NULL REFERENCES tag ON DELETE CASCADE,
    is_without     INTEGER NOT NULL CHECK (is_without IN (0, 1)),
    PRIMARY KEY (destination_id, tag_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX destination_tag_of_tag ON destination_tag (tag_id);

ALTER TABLE event ADD COLUMN kind TEXT NOT NULL DEFAULT 'release' CHECK (kind IN ('release', 'failing', 'recovered'));
ALTER TABLE event ADD COLUMN release_id INTEGER REFERENCES release ON DELETE SET NULL;
CREATE INDEX event_of_release ON event (release_id) WHERE release_id IS NOT NULL;

-- queued_at: of the first attempt, anew if it was sent again by hand; the schedule of attempts counts from it.
ALTER TABLE delivery ADD COLUMN queued_at REAL NOT NULL DEFAULT 0;
ALTER TABLE delivery ADD COLUMN is_digested INTEGER NOT NULL DEFAULT 0 CHECK (is_digested IN (0, 1));
ALTER TABLE delivery ADD COLUMN is_held INTEGER NOT NULL DEFAULT 0 CHECK (is_held IN (0, 1));
ALTER TABLE delivery ADD COLUMN digest_id TEXT;
UPDATE delivery SET queued_at = created_at;
CREATE INDEX delivery_undigested ON delivery (next_attempt_at)
 WHERE state = 'pending' AND is_digested AND digest_id IS NULL;
CREATE INDEX delivery_held ON delivery (next_attempt_at) WHERE state = 'pending' AND is_held;
CREATE INDEX delivery_of_digest ON delivery (digest_id) WHERE digest_id IS NOT NULL;
ALTER TABLE attempt ADD COLUMN answer TEXT;

-- Each account has its own address among its destinations; mail goes there once there is a mail server.
INSERT INTO destination (id, account_id, kind, name, settings, secret, created_at)
SELECT make_id(), id, 'email', 'account', '{"to":""}', '', created_at FROM account;
PRAGMA user_version = 3;
""", """
-- What is read by whoever knows its address: an account's feed and badges, a tag's feed.
ALTER TABLE account ADD COLUMN feed_secret TEXT NOT NULL DEFAULT '';
ALTER TABLE account ADD COLUMN badge_secret TEXT NOT NULL DEFAULT '';
ALTER TABLE tag ADD COLUMN feed_secret TEXT NOT NULL DEFAULT '';
UPDATE account SET feed_secret = make_id(), badge_secret = make_id();
UPDATE tag SET feed_secret = make_id();
CREATE UNIQUE INDEX account_of_feed ON account (feed_secret);
CREATE UNIQUE INDEX account_of_badge ON account (badge_secret);
CREATE UNIQUE INDEX tag_of_feed ON tag (feed_secret);
CREATE INDEX account_administrators ON account (id) WHERE is_admin;
CREATE INDEX session_by_time ON session (created_at);

-- visited_before: when the visit before the present one ended; what was found since is new to the account.
ALTER TABLE account ADD COLUMN visited_at REAL;
ALTER TABLE account ADD COLUMN visited_before REAL;
ALTER TABLE release ADD COLUMN found_at REAL;     -- of news; a project's history has none
CREATE INDEX release_with_cve ON release (source_id, date) WHERE cve IS NOT NULL;

-- removed_at: put away by its account, which may take it back for a minute. Until it goes it is in no list.
ALTER TABLE project ADD COLUMN removed_at REAL;
CREATE INDEX project_put_away ON project (removed_at) WHERE removed_at IS NOT NULL;
CREATE TRIGGER project_hidden AFTER UPDATE OF removed_at ON project
 WHEN (OLD.removed_at IS NULL) != (NEW.removed_at IS NULL) BEGIN
    INSERT INTO project_count (account_id, provider, projects)
    VALUES (NEW.account_id, NEW.provider, iif(NEW.removed_at IS NULL, 1, -1))
        ON CONFLICT DO UPDATE SET projects = projects + excluded.projects;
    DELETE FROM project_count
     WHERE account_id = NEW.account_id AND provider = NEW.provider AND projects = 0;
END;
DROP TRIGGER project_removed;
CREATE TRIGGER project_removed AFTER DELETE ON project BEGIN
    UPDATE project_count SET projects = projects - 1
     WHERE account_id = OLD.account_id AND provider = OLD.provider AND OLD.removed_at IS NULL;
    DELETE FROM project_count
     WHERE account_id = OLD.account_id AND provider = OLD.provider AND projects = 0;
    DELETE FROM source
     WHERE id = OLD.source_id AND NOT EXISTS (SELECT 1 FROM project WHERE source_id = OLD.source_id);
END;
PRAGMA user_version = 4;
""")

_WANTED = """
           account_id = :account AND removed_at IS NULL AND (:provider IS NULL OR project.provider = :provider)
       AND (:tag IS NULL OR EXISTS (SELECT 1 FROM project_tag WHERE project_id = project.id AND tag_id = :tag))
       AND (:text IS NULL OR project.name LIKE :text ESCAPE '\\')
       AND (NOT :is_failing OR EXISTS (SELECT 1 FROM source WHERE id = project.source_id AND error IS NOT NULL))"""

# Projects in the order of their places, which a query behind this gives.
_PROJECTS = """
    SELECT json_group_array(json_array(
           project.id, account_id, source_id, project.provider, project.name, email_notification,
           exclude_prereleases, exclude_updated, json(exclude_version_regexp), note, hold_days,
           (SELECT json_group_array(tag_id) FROM project_tag WHERE project_id = project.id),
           (SELECT json_group_array(json_array(kind, destination_id))
              FROM project_destination JOIN destination ON destination.id = destination_id
             WHERE project_id = project.id),
           source.key, checked_at, succeeded_at, next_check_at, error, missing_since, is_missing, quota_left))
      FROM (%s) CROSS JOIN project ON project.rowid = place JOIN source ON source.id = source_id"""

# A page of an account's projects by order, whether it is reversed and whether they are narrowed down, with how many
# there are: which is known of all, and else counted.
PROJECT_PAGES = {(*key, is_narrowed): "SELECT json_array((" + _PROJECTS % ("""
           SELECT project.rowid AS place FROM project
            WHERE """ + _WANTED + """
            ORDER BY """ + columns + " LIMIT :limit OFFSET :offset") + "), (" + count + "))"
                 for is_narrowed, count in {
                     False: """
           SELECT coalesce(sum(projects), 0) FROM project_count
            WHERE account_id = :account AND (:provider IS NULL OR provider = :provider)""",
                     True: """
           SELECT count(*) FROM project
            WHERE """ + _WANTED}.items()
                 for key, columns in {
                     ("updated", False): "newest_date DESC, project.rowid DESC",
                     ("updated", True): "newest_date, project.rowid",
                     ("added", False): "added_at DESC, project.rowid DESC",
                     ("added", True): "added_at, project.rowid",
                     ("name", False): "project.name COLLATE NOCASE, project.provider",
                     ("name", True): "project.name COLLATE NOCASE DESC, project.provider DESC",
                 }.items()}
# Those of some ids, and the one with the longest of some names; they are not looked for by their
# account, whose index leads to all that it has.
PROJECTS_OF = {"ids": _PROJECTS % """
           SELECT project.rowid AS place FROM json_each(:ids) CROSS JOIN project ON project.id = value
            WHERE +account_id = :account AND (removed_at IS NULL OR :with_put_away AND removed_at >= :since)""",
               "names": _PROJECTS % """
           SELECT project.rowid AS place FROM source JOIN project ON source_id = source.id
            WHERE source.provider = :provider AND source.key IN (SELECT value FROM json_each(:keys))
              AND +account_id = :account AND removed_at IS NULL
            ORDER BY length(source.key) DESC LIMIT 1"""}

# The newest releases of an account's projects from a date on: all, or those that name a CVE. "reach" is a date from
# which on there are enough for a page: as many projects as the page reaches down to have a release that is newer.
NEWEST_RELEASES = {name: """
    SELECT json_group_array(json_array(release_id, project_id)) FROM (
    SELECT release.id AS release_id, project.id AS project_id
      FROM project JOIN release ON release.source_id = project.source_id AND date >= :least
     WHERE """ + _WANTED + " AND newest_date >= :least" + condition + """
     ORDER BY date DESC, release.id DESC
     LIMIT :limit OFFSET :offset)""" for name, condition in (
         ("all", ""), ("security", " AND cve IS NOT NULL"))} | {"reach": """
    SELECT newest_date FROM project
     WHERE """ + _WANTED + """
     ORDER BY newest_date DESC
     LIMIT 1 OFFSET :offset + :limit - 1"""}


APPLICATION = 1920234091        # "rtrk": marks a database as ours


class StoreError(ReleasetrackError):
    """The store cannot be opened at all: not a store, of a newer version, or no right to it."""


@dataclasses.dataclass(frozen=True)
class Known:
    """What the store has of a release, as far as a poll compares it."""

    date: str
    evidence: str | None
    fingerprint: int | None     # of the note
    is_prerelease: int = 0
    gone_at: float | None = None


@dataclasses.dataclass(frozen=True)
class Findings:
    """What a successful check of a source makes of it, to be recorded at once or not at all."""

    next_check_at: float
    etag_url: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    quota_left: int | None = None
    renamed: tuple[str, str] | None = None      # the name that the project has now, and its key
    new: Sequence[Release] = ()         # oldest first, with dates
    updated: Sequence[Release] = ()
    evidenced: Sequence[Release] = ()   # known ones, unchanged, whose evidence is new or of another kind
    noted: Sequence[Release] = ()       # known ones whose note is new or has changed
    gone: Sequence[str] = ()            # versions of known ones that are listed no more
    back: Sequence[str] = ()            # and of those that were gone and are listed again
    news: Sequence[str] = ()            # versions, new or updated, that are no history
    events: Sequence[Event] = ()


def _account(row: Sequence[Any]) -> Account:
    id_, type_, address, name, is_admin, *about = row
    return Account(id_, type_, address, name, bool(is_admin), *about)


def _holding(text: str | None) -> str | None:
    """The LIKE pattern of what holds a text."""
    return text and "%" + re.sub(r"([%_\\])", r"\\\1", text) + "%"


def _health(row: Sequence[Any]) -> list[Any]:
    return [*row[:5], bool(row[5]), *row[6:]]


def _project(row: Sequence[Any]) -> Project:
    (id_, account_id, source_id, provider, name, email_notification, excludes_prereleases, excludes_updated, rules,
     memo, hold_days, tags, listed, _, *health) = row
    destinations: dict[str, tuple[str, ...]] = {}
    for kind, one in listed:
        destinations[kind] = (*destinations.get(kind, ()), one)
    return Project(id_, account_id, source_id, provider, name, email_notification, bool(excludes_prereleases),
                   bool(excludes_updated), tuple((value, bool(inverse)) for value, inverse in rules), memo, hold_days,
                   tuple(tags), destinations, Health(*_health(health)))


def _source(row: Sequence[Any]) -> Source:
    about = _health(row)
    about[13], about[17] = bool(about[13]), bool(about[17])     # is_told, is_trusted
    return Source(*about)


def _release(row: Sequence[Any]) -> Release:
    version, date, is_prerelease, is_updated, cve, note_id = row
    return Release(version, f"{date}Z", bool(is_prerelease), tuple(cve.split()) if cve else (), None, None,
                   bool(is_updated), note_id is not None)


def _destination(row: Sequence[Any]) -> Destination:
    id_, account_id, kind, name, settings, secret, schedule, is_for_all, tags, is_security_only, *previous = row
    wanted: tuple[list[str], list[str]] = [], []
    for tag, is_without in json.loads(tags) if tags != "[]" else ():
        wanted[is_without].append(tag)
    return Destination(id_, account_id, kind, name, json.loads(settings), secret, schedule, bool(is_for_all),
                       tuple(wanted[0]), tuple(wanted[1]), bool(is_security_only), *previous)


@functools.lru_cache(maxsize=4096)
def _networks(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


_MOVED = "its file was moved, removed or replaced while it was in use; put it back, or start the service again"
_DAMAGED = "the file is damaged: end what uses it, and restore a backup"


def _file_id(path: str) -> tuple[int, int] | None:
    """What tells a file from another that has come to its place; None where there is none."""
    with contextlib.suppress(OSError):
        about = os.stat(path)
        return about.st_dev, about.st_ino
    return None


def _is_damage(error: BaseException) -> bool:
    """Whether SQLite finds the file malformed, or no database: that has no class of its own."""
    return type(error) is sqlite3.DatabaseError


_PASSING = re.compile("locked|full|moved")      # faults that are found anew by who looks


def _unavailable(done: str, error: sqlite3.DatabaseError) -> StoreUnavailable | None:
    """What is told of a fault of the file or its disk; None for one of a statement, which is ours."""
    if isinstance(error, sqlite3.OperationalError):     # locked, a full disk
        return StoreUnavailable(f"the store cannot be {done}: {error}")
    return StoreUnavailable(f"the store cannot be {done}: {error}; {_DAMAGED}") if _is_damage(error) else None


class _StoreConnection(sqlite3.Connection):
    """Closes itself with the thread that it belongs to."""

    def __del__(self) -> None:
        with contextlib.suppress(sqlite3.Error):    # it was never opened
            self.close()


def _begin(db: sqlite3.Connection, began_at: float, waits: bool) -> None:
    """Begin to write. Who has waited since ``began_at`` does not wait again for what another process holds."""
    is_late = time.monotonic() - began_at > 0.5
    if not waits:
        db.execute("PRAGMA busy_timeout = 20")
    elif is_late:
        db.execute("PRAGMA busy_timeout = 500")
    try:
        db.execute("BEGIN IMMEDIATE")
    finally:
        if is_late or not waits:
            db.execute("PRAGMA busy_timeout = 5000")


def _drop_strays(path: str) -> None:
    """Remove what killed copies to a path have left: it holds all secrets. A copy under way was written to within the
    hour."""
    for stray in glob.glob(f"{glob.escape(path)}.*.part*"):
        with contextlib.suppress(OSError):
            is_old = os.path.getmtime(stray) < time.time() - HOUR
            if is_old and re.search(r"\.[a-z2-7]{26}\.part(-journal|-wal|-shm)?$", stray):
                os.unlink(stray)


class _Database:
    """The file: how it is opened, read and written."""

    def __init__(self, path: str, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.clock = clock
        self.poll_bell = threading.Event()      # a source has become due
        self.send_bell = threading.Event()      # a delivery has become due
        self.asked_at = 0.0                     # when a request was last served, on the monotonic clock
        self.is_tracked = False                 # whether a tracker lives in this process
        self._checked = threading.Condition()   # a check has been recorded
        self._writing = threading.Lock()
        self._local = threading.local()
        self._connections: weakref.WeakSet[_StoreConnection] = weakref.WeakSet()
        self._process = os.getpid()
        self._fault, self._fault_at = "", 0.0   # a write that failed or damage that was read; on the monotonic clock
        self._inherited: Any = None             # of the process that this one was forked from: not ours to close
        self._used_keys: dict[str, float] = {}
        self._open()

    def _open(self) -> None:
        if sqlite3.sqlite_version_info < (3, 37):
            raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old; it takes 3.37 or newer")
        if self.path.startswith(":memory:") or not self.path:
            raise StoreError("a store takes a file, which threads and processes share; name one with --db")
        try:
            if not os.path.exists(self.path):   # made here, so that it and its companions are for the owner alone
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            if not os.access(self.path, os.W_OK):   # SQLite would open it all the same, to be read only
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            self._file = _file_id(self.path)
            db = self._db
            (version, owner, tables), = db.execute("""
                SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
                  FROM pragma_user_version, pragma_application_id""").fetchall()
            if tables and owner != APPLICATION:
                raise StoreError(f"{self.path} is a database of another program; name another file with --db")
            if version > len(MIGRATIONS):
                raise StoreError(f"{self.path} was made by a newer releasetrack (its schema is {version}, this "
                                 f"program knows {len(MIGRATIONS)}); run that one, or restore a backup")
            _drop_strays(self.path)
            self._enter_wal(db)
            if 0 < version < len(MIGRATIONS):
                self.backup(f"{self.path}.schema-{version}")
            if version < len(MIGRATIONS):
                self._migrate(db)
        except (OSError, sqlite3.Error) as error:
            self.close()
            reason = getattr(error, "strerror", None) or str(error)
            advice = ("the file is damaged, or no database at all: restore a backup, or name another file with --db"
                      if _is_damage(error) else
                      "the file and its folder must be writable; --db names another")
            raise StoreError(f"{self.path} cannot be opened as a store: {reason}; {advice}") from error
        except StoreError:
            self.close()
            raise

    @property
    def _db(self) -> sqlite3.Connection:
        """This thread's connection."""
        if self._process != os.getpid():
            self._inherited = self._local, list(self._connections)
            self._process, self._local, self._connections = os.getpid(), threading.local(), weakref.WeakSet()
        db = getattr(self._local, "db", None)
        if db is None:
            if _file_id(self.path) != self._file:       # SQLite would make a new one, and half of us work with that
                raise sqlite3.OperationalError(_MOVED)
            db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, cached_statements=256,
                                 factory=_StoreConnection)
            db.execute("PRAGMA busy_timeout = 5000")
            db.execute("PRAGMA foreign_keys = ON")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA secure_delete = ON")
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("PRAGMA cache_size = -1000")
            self._local.db = db
            self._connections.add(db)
        return db

    def _enter_wal(self, db: sqlite3.Connection) -> None:
        """SQLite does not wait for its lock here, so this does: another process may be doing the same."""
        end = time.monotonic() + 5
        while db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            if time.monotonic() > end:
                raise StoreError(f"{self.path} cannot be kept with a write-ahead log; it takes a file on a local disk "
                                 "that no other program holds")
            with contextlib.suppress(sqlite3.OperationalError):
                db.execute("PRAGMA journal_mode = WAL").fetchall()
            time.sleep(0.02)

    def _migrate(self, db: sqlite3.Connection) -> None:
        """Bring the schema up to date, all of it or nothing."""
        db.execute("BEGIN EXCLUSIVE")
        try:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            db.create_function("make_id", 0, make_id)
            for script in MIGRATIONS[version:]:
                statement = ""
                for line in script.splitlines(keepends=True):
                    statement += line
                    if sqlite3.complete_statement(statement):
                        db.execute(statement)
                        statement = ""
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the connections of all threads."""
        for db in list(self._connections):
            with contextlib.suppress(sqlite3.Error):
                db.close()
        self._local = threading.local()

    def backup(self, path: str, progress: Callable[[int, int, int], None] | None = None) -> None:
        """A consistent copy at ``path``, while others write; an older one there is replaced when it is whole.

        ``progress`` is told (status, pages left, pages in all). Raises OSError, sqlite3.Error.
        """
        _drop_strays(path)
        part = f"{path}.{make_id()}.part"
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        try:
            with contextlib.closing(sqlite3.connect(part)) as copy:
                db = self._db
                db.execute("BEGIN")     # one view of the store for all steps: else a write makes the copy begin again
                try:
                    db.execute("SELECT 1 FROM sqlite_schema").fetchall()
                    db.backup(copy, pages=1000, progress=progress, sleep=0.01)
                finally:
                    db.execute("ROLLBACK")
                copy.execute("PRAGMA journal_mode = DELETE")
            with open(part, "rb") as whole:
                os.fsync(whole.fileno())
            os.replace(part, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)

    @property
    def is_asked(self) -> bool:
        """Whether a request was served a moment ago, so that work in the background shall go at a walk."""
        return time.monotonic() - self.asked_at < 0.1

    def _rows(self, sql: str, values: Mapping[str, Any] | Sequence[Any] = ()) -> list[Any]:
        """All rows: an unfinished cursor would keep the write-ahead log from shrinking."""
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:
            if not (fault := _unavailable("read", error)):
                raise
            if _is_damage(error):
                self._fault, self._fault_at = str(fault), time.monotonic()
            raise fault from error

    def _value(self, sql: str, values: Mapping[str, Any] | Sequence[Any] = ()) -> Any:
        """What a statement gives as one text of JSON. SQLite's every row has the interpreter's lock change hands,
        which costs a server more than all else of a page of them."""
        (text,), = self._rows(sql, values)
        return json.loads(text)

    @contextlib.contextmanager
    def _transaction(self, is_durable: bool = True, waits: bool = True) -> Iterator[sqlite3.Connection]:
        """A write, whole or not at all. One at a time in a process: SQLite's own waiting is unfair.

        One that is not durable survives the process, but not a power failure that follows at once. One that does not
        wait is for what may as well be written later.
        """
        began_at = time.monotonic()
        if not self._writing.acquire(timeout=5 if waits else 0.02):
            raise StoreUnavailable("the store cannot be written: other writers take too long")
        try:
            db = self._db
            if not is_durable:
                db.execute("PRAGMA synchronous = NORMAL")
            try:
                _begin(db, began_at, waits)
                changes = db.total_changes
                yield db
                db.execute("COMMIT")
                has_written = db.total_changes > changes or _PASSING.search(self._fault)
                if has_written and _DAMAGED not in self._fault:     # which may be in other pages
                    self._fault = ""
            except BaseException:
                if db.in_transaction:   # a full disk has rolled back already
                    db.execute("ROLLBACK")
                raise
            finally:                    # also where the lock was not to be had: the connection is the thread's next one
                if not is_durable:
                    db.execute("PRAGMA synchronous = FULL")
        except sqlite3.DatabaseError as error:
            if not (fault := _unavailable("written", error)):
                raise
            if waits:
                self._fault, self._fault_at = str(fault), time.monotonic()
            raise fault from error
        finally:
            self._writing.release()

    def try_to_write(self) -> None:
        """Find out whether the lock is to be had; a refusing disk is met by true writes. Raises StoreUnavailable."""
        with self._transaction(is_durable=False):
            pass

    def problem(self) -> str:
        """What is wrong with the file or its disk, or was found wrong a moment ago; "" if nothing is."""
        try:
            self._rows("SELECT 1 FROM sqlite_schema LIMIT 1")
            if _file_id(self.path) != self._file:
                return f"the store cannot be relied on: {_MOVED}"
            if shutil.disk_usage(os.path.dirname(os.path.abspath(self.path))).free < MIB:
                return "the disk is full"
        except (StoreUnavailable, OSError) as error:
            return str(error)
        return self._fault if time.monotonic() - self._fault_at < 10 else ""


class _Members(_Database):
    """Accounts, and what is theirs alone: keys and tags."""

    def add_account(self, type: str, email: str, name: str, password: str, is_admin: bool,
                    zone: str = "UTC", as_first: bool = False) -> Account:
        """The new account, with its own address among its destinations; the first of all is an administrator.
        ``password`` is its hash, ``zone`` its time zone. Raises Invalid when the address has one already, or when it
        is to be the first and is not."""
        account_id = make_id()
        with self._transaction() as db:
            is_first = not db.execute("SELECT 1 FROM account LIMIT 1").fetchall()
            if as_first and not is_first:
                raise Invalid("The first account has been made already.")
            try:
                db.execute("""
                    INSERT INTO account (id, type, email, name, password, is_admin, time_zone, feed_secret,
                                         badge_secret, created_at)
                    VALUES (:id, :type, :email, :name, :password, :is_admin, :zone, :feed, :badge, :now)
                    """, {"id": account_id, "type": type, "email": email, "name": name, "password": password,
                          "is_admin": int(is_admin or is_first), "zone": zone, "feed": make_id(),
                          "badge": make_id(), "now": self.clock()})
                db.execute("""
                    INSERT INTO destination (id, account_id, kind, name, settings, secret, created_at)
                    VALUES (?, ?, 'email', 'account', '{"to":""}', '', ?)""", (make_id(), account_id, self.clock()))
            except sqlite3.IntegrityError:
                raise Invalid(f"There is an account {email} already.") from None
        account = self.account(email)
        assert account
        return account

    def accounts(self) -> list[Account]:
        """All accounts, in the order in which they came."""
        ids = self._rows("SELECT id FROM account ORDER BY rowid")
        return [account for id_, in ids if (account := self.account_of(id_))]

    def has_accounts(self) -> bool:
        return self._rows("SELECT max(rowid) FROM account") != [(None,)]

    def account(self, email: str) -> Account | None:
        """The account of an e-mail address, whatever the case of its letters."""
        rows = self._rows("SELECT id FROM account WHERE email = ?", (email,))
        return self.account_of(rows[0][0]) if rows else None

    def account_of(self, account_id: str) -> Account | None:
        rows = self._rows("""
            SELECT id, type, email, name, is_admin, email_notification, time_zone, password, feed_secret, badge_secret
              FROM account WHERE id = ?""", (account_id,))
        return _account(rows[0]) if rows else None

    def update_account(self, account: Account) -> None:
        """Write what an account may change of itself. Raises Invalid when another has the e-mail address."""
        with self._transaction() as db:
            try:
                db.execute("""
                    UPDATE account
                       SET email = :email, name = :name, time_zone = :time_zone,
                           email_notification = :email_notification
                     WHERE id = :id""", vars(account))
            except sqlite3.IntegrityError:
                raise Invalid(f"There is an account {account.email} already.") from None

    def set_admin(self, account: Account, is_admin: bool) -> None:
        """Make an account an administrator's, or no more. Raises Invalid when none would be left."""
        with self._transaction() as db:
            db.execute("UPDATE account SET is_admin = ? WHERE id = ?", (int(is_admin), account.id))
            self._keep_an_administrator(db, account)

    @staticmethod
    def _keep_an_administrator(db: sqlite3.Connection, account: Account) -> None:
        if not db.execute("SELECT 1 FROM account WHERE is_admin LIMIT 1").fetchall() and db.execute(
                "SELECT max(rowid) FROM account").fetchone()[0] is not None:
            raise Invalid(f"{account.email} is the only administrator; make another first")

    def renew_feed(self, account_id: str, tag_id: str | None = None) -> None:
        """Have the account's feed, or that of one of its tags, at another address; the old one is no more."""
        with self._transaction() as db:
            if tag_id is None:
                db.execute("UPDATE account SET feed_secret = ? WHERE id = ?", (make_id(), account_id))
            else:
                db.execute("UPDATE tag SET feed_secret = ? WHERE id = ? AND account_id = ?",
                           (make_id(), tag_id, account_id))

    def renew_badges(self, account_id: str) -> None:
        """Have the account's badges at other addresses; the old ones are no more."""
        with self._transaction() as db:
            db.execute("UPDATE account SET badge_secret = ? WHERE id = ?", (make_id(), account_id))

    def feed_of(self, secret: str) -> tuple[str, Tag | None] | None:
        """``(account id, the tag if the feed is a tag's)`` of a feed's secret."""
        rows = self._rows("""
            SELECT id, NULL, NULL FROM account WHERE feed_secret = :secret
             UNION ALL SELECT account_id, id, name FROM tag WHERE feed_secret = :secret""", {"secret": secret})
        return (rows[0][0], Tag(*rows[0][1:]) if rows[0][1] else None) if rows else None

    def account_of_badge(self, secret: str) -> str | None:
        """The id of the account whose badges have this secret."""
        rows = self._rows("SELECT id FROM account WHERE badge_secret = ?", (secret,))
        return rows[0][0] if rows else None

    def add_session(self, account_id: str, token: str, address: str, agent: str) -> None:
        with self._transaction() as db:
            db.execute("""
                INSERT INTO session (token_hash, account_id, address, agent, created_at, seen_at)
                VALUES (:hash, :account, :address, :agent, :now, :now)
                """, {"hash": secret_hash(token), "account": account_id, "address": address, "agent": agent[:300],
                      "now": self.clock()})

    def session(self, token: str) -> Session | None:
        """The session of a token, unless it has run out."""
        now = self.clock()
        rows = self._rows("""
            SELECT lower(hex(token_hash)), account_id, address, agent, created_at, seen_at FROM session
             WHERE token_hash = ?""", (secret_hash(token),))
        if not rows:
            return None
        found = Session(*rows[0])
        if now - found.created_at > SESSION_LONGEST or now - found.seen_at > SESSION_IDLE:
            return None
        if now - found.seen_at > HOUR:      # no oftener, so that reading costs hardly a write
            with contextlib.suppress(StoreUnavailable), self._transaction(is_durable=False, waits=False) as db:
                db.execute("UPDATE session SET seen_at = ? WHERE token_hash = ?", (now, secret_hash(token)))
        return found

    def sessions(self, account_id: str) -> list[Session]:
        """An account's sessions that have not run out, those last that were seen longest ago."""
        return [Session(*row) for row in self._rows("""
            SELECT lower(hex(token_hash)), account_id, address, agent, created_at, seen_at FROM session
             WHERE account_id = ? AND seen_at >= ? AND created_at >= ? ORDER BY seen_at DESC
            """, (account_id, self.clock() - SESSION_IDLE, self.clock() - SESSION_LONGEST))]

    def end_session(self, account_id: str, session_id: str) -> None:
        with self._transaction() as db:
            db.execute("DELETE FROM session WHERE account_id = ? AND lower(hex(token_hash)) = ?",
                       (account_id, session_id))

    def note_visit(self, account_id: str) -> float:
        """The instant since which what was found is new to the account: its visit before this one ended then."""
        now = self.clock()
        ((at, before),) = self._rows("SELECT visited_at, coalesce(visited_before, ?) FROM account WHERE id = ?",
                                     (now, account_id))
        if at is not None and at > now + VISIT:     # the clock was ahead: nobody knows when that visit was
            at, before = None, now - 7 * DAY
        elif at is not None and now - at > VISIT:
            before = at
        if at is None or now - at > VISIT / 6:      # no oftener, so that reading costs hardly a write
            with contextlib.suppress(StoreUnavailable), self._transaction(is_durable=False, waits=False) as db:
                db.execute("UPDATE account SET visited_at = ?, visited_before = ? WHERE id = ?",
                           (now, before, account_id))
        return before

    def set_password(self, account_id: str, password: str) -> None:
        """Set the hash of the password, and end the account's sessions."""
        with self._transaction() as db:
            db.execute("UPDATE account SET password = ? WHERE id = ?", (password, account_id))
            db.execute("DELETE FROM session WHERE account_id = ?", (account_id,))

    def remove_account(self, account_id: str) -> None:
        """Remove an account and all that it owns. Raises Invalid when it is the only administrator of several."""
        account = self.account_of(account_id)
        with self._transaction() as db:
            db.execute("DELETE FROM account WHERE id = ?", (account_id,))
            if account:
                self._keep_an_administrator(db, account)
        self._empty_log()

    def add_key(self, account_id: str, name: str, networks: Sequence[str]) -> Key:
        """A new key. Raises Invalid when the account has one of that name."""
        key = Key(make_id(), account_id, name, tuple(networks), make_key_secret(), self.clock())
        with self._transaction() as db:
            try:
                db.execute("""
                    INSERT INTO api_key (id, account_id, name, secret, secret_hash, networks, created_at)
                    VALUES (?, ?, ?, ?, ?, ?, ?)
                    """, (key.id, account_id, name, key.secret, secret_hash(key.secret), compact_json(networks),
                          key.created_at))
            except sqlite3.IntegrityError:
                raise Invalid(f"There is a key {name} already.") from None
        return key

    def keys(self, account_id: str) -> list[Key]:
        """An account's keys, in the order in which they came."""
        return [Key(id_, account_id, name, tuple(json.loads(networks)), secret, created_at, used_at)
                for id_, name, networks, secret, created_at, used_at in self._rows("""
                    SELECT id, name, networks, secret, created_at, used_at
                      FROM api_key WHERE account_id = ? ORDER BY rowid""", (account_id,))]

    def key_by_secret(self, secret: str) -> tuple[str, str, tuple[str, ...]] | None:
        """``(key id, account id, networks)`` of a key, for each request of the API."""
        rows = self._rows("SELECT id, account_id, networks FROM api_key WHERE secret_hash = ?",
                          (secret_hash(secret),))
        return (rows[0][0], rows[0][1], _networks(rows[0][2])) if rows else None

    def note_use(self, key_id: str) -> None:
        """Remember that a key was used; written with the next ``sweep``, so that reading costs no write."""
        self._used_keys[key_id] = self.clock()

    def remove_key(self, account_id: str, name: str) -> bool:
        """Whether there was such a key. Nothing of it stays in the file."""
        with self._transaction() as db:
            removed = db.execute("DELETE FROM api_key WHERE account_id = ? AND name = ?",
                                 (account_id, name)).rowcount
        self._empty_log()
        return removed > 0

    def _empty_log(self) -> None:
        """Move the write-ahead log into the file, where ``secure_delete`` has overwritten what is gone.

        A reader may hold it up for a moment; what it holds up for longer is moved by a later checkpoint.
        """
        with contextlib.suppress(StoreUnavailable):
            for _ in range(20):
                (is_busy, *_), = self._rows("PRAGMA wal_checkpoint(TRUNCATE)")
                if not is_busy:
                    break
                time.sleep(0.02)

    def tags(self, account_id: str) -> list[Tag]:
        """An account's tags, sorted by name."""
        return [Tag(*row) for row in self._rows(
            "SELECT id, name, feed_secret FROM tag WHERE account_id = ? ORDER BY name", (account_id,))]

    def tag(self, account_id: str, tag_id: str) -> Tag | None:
        rows = self._rows("SELECT id, name, feed_secret FROM tag WHERE id = ? AND account_id = ?",
                          (tag_id, account_id))
        return Tag(*rows[0]) if rows else None

    def add_tag(self, account_id: str, name: str) -> Tag:
        """The new tag. Raises Invalid when the account has one of that name."""
        tag = Tag(make_id(), name, make_id())
        with self._transaction() as db:
            try:
                db.execute("INSERT INTO tag (id, account_id, name, feed_secret) VALUES (?, ?, ?, ?)",
                           (tag.id, account_id, name, tag.feed_secret))
            except sqlite3.IntegrityError:
                raise Invalid(f"There is a tag {name} already.") from None
        return tag

    def rename_tag(self, account_id: str, tag_id: str, name: str) -> Tag | None:
        """The tag with its new name; None when the account has no such tag. Raises Invalid as ``add_tag``."""
        with self._transaction() as db:
            try:
                changed = db.execute("UPDATE tag SET name = ? WHERE id = ? AND account_id = ?",
                                     (name, tag_id, account_id)).rowcount
            except sqlite3.IntegrityError:
                raise Invalid(f"There is a tag {name} already.") from None
        return Tag(tag_id, name) if changed else None

    def remove_tag(self, account_id: str, tag_id: str) -> bool:
        """Whether there was such a tag; projects lose it."""
        with self._transaction() as db:
            # Who heard of projects with this tag alone does not hear of every one from now on.
            db.execute("""
                UPDATE destination SET is_for_every_project = 0
                 WHERE account_id = :account
                   AND id IN (SELECT destination_id FROM destination_tag WHERE NOT is_without
                               GROUP BY destination_id HAVING min(tag_id) = :tag AND max(tag_id) = :tag)
                """, {"tag": tag_id, "account": account_id})
            return db.execute("DELETE FROM tag WHERE id = ? AND account_id = ?", (tag_id, account_id)).rowcount > 0


class _Outbox(_Members):
    """Destinations, and the events on their way to them."""

    def add_destination(self, account_id: str, kind: str, name: str, settings: Mapping[str, Any], secret: str = "",
                        **about: Any) -> Destination:
        """The new destination, for every project unless ``about``, fields of a Destination, says otherwise. Raises
        Invalid when there is one of that kind and name."""
        destination = Destination(make_id(), account_id, kind, name, settings, secret, **about)
        with self._transaction() as db:
            db.execute("""
                INSERT INTO destination (id, account_id, kind, name, settings, secret, created_at)
                VALUES (?, ?, ?, ?, '', ?, ?)
                """, (destination.id, account_id, kind, destination.id, secret, self.clock()))
            self._write_destination(db, destination)
        return destination

    def update_destination(self, destination: Destination) -> None:
        """Write all of a destination but its secrets. Raises Invalid as ``add_destination``."""
        with self._transaction() as db:
            self._write_destination(db, destination)

    def _write_destination(self, db: sqlite3.Connection, destination: Destination) -> None:
        try:
            db.execute("""
                UPDATE destination
                   SET name = :name, settings = :settings, schedule = :schedule,
                       is_for_every_project = :is_for_every_project, is_security_only = :is_security_only
                 WHERE id = :id
                """, {**vars(destination), "settings": compact_json(destination.settings)})
        except sqlite3.IntegrityError:
            raise Invalid(f"There is a destination {destination.kind} {destination.name} already.") from None
        db.execute("DELETE FROM destination_tag WHERE destination_id = ?", (destination.id,))
        db.executemany("""
            INSERT INTO destination_tag (destination_id, tag_id, is_without)
            SELECT destination.id, tag.id, :is_without
              FROM destination JOIN tag ON tag.account_id = destination.account_id
             WHERE destination.id = :destination AND tag.id = :tag
            """, [{"destination": destination.id, "tag": tag, "is_without": is_without}
                  for is_without, tags in enumerate((destination.tags, destination.without_tags)) for tag in tags])

    def renew_secret(self, destination_id: str) -> str:
        """A webhook's new secret; the one that it had signs too for ``RENEWAL`` seconds."""
        secret = make_signing_secret()
        with self._transaction() as db:
            db.execute("""
                UPDATE destination SET previous_secret = secret, previous_until = ?, secret = ? WHERE id = ?
                """, (self.clock() + RENEWAL, secret, destination_id))
        return secret

    def destinations(self, account_id: str, kind: str | None = None, name: str | None = None) -> list[Destination]:
        """An account's destinations, or those of a kind, or the one of a kind and name; in the order in which they
        came."""
        ids = self._rows("""
            SELECT id FROM destination
             WHERE account_id = :account AND (:kind IS NULL OR kind = :kind) AND (:name IS NULL OR name = :name)
             ORDER BY rowid""", {"account": account_id, "kind": kind, "name": name})
        return [destination for id_, in ids if (destination := self.destination(id_))]

    def destination(self, destination_id: str) -> Destination | None:
        rows = self._rows("""
            SELECT id, account_id, kind, name, settings, secret, schedule, is_for_every_project,
                   (SELECT json_group_array(json_array(tag_id, is_without))
                      FROM destination_tag WHERE destination_id = destination.id),
                   is_security_only, previous_secret, previous_until
              FROM destination WHERE id = ?""", (destination_id,))
        return _destination(rows[0]) if rows else None

    def remove_destination(self, destination_id: str) -> list[str]:
        """Remove a destination; the names of the projects that listed no other of its kind, and so tell all that are
        for every project from now on. Its deliveries go with it, and nothing of its secrets stays."""
        with self._transaction() as db:
            widened = db.execute("""
                SELECT project.name
                  FROM destination AS gone
                  JOIN project_destination AS listing ON listing.destination_id = gone.id
                  JOIN project ON project.id = listing.project_id
                 WHERE gone.id = :gone
                   AND NOT EXISTS (SELECT 1 FROM project_destination AS other
                                     JOIN destination ON destination.id = other.destination_id
                                    WHERE other.project_id = project.id AND kind = gone.kind
                                      AND destination.id != :gone)
                   AND EXISTS (SELECT 1 FROM destination
                                WHERE account_id = gone.account_id AND kind = gone.kind AND id != :gone
                                  AND is_for_every_project)
                """, {"gone": destination_id}).fetchall()
            db.execute("DELETE FROM destination WHERE id = ?", (destination_id,))
        self._empty_log()
        return sorted(name for name, in widened)

    def prepare_due(self, now: float) -> None:
        """Skip what was held and is there no more, unless it comes back; and bind what is due at one destination into
        a digest.

        A digest stays as it was bound, so that each of its attempts sends the same under the same id.
        """
        if not self._rows("""
                SELECT 1 WHERE EXISTS (SELECT 1 FROM delivery
                                        WHERE state = 'pending' AND is_held AND next_attempt_at <= :now)
                            OR EXISTS (SELECT 1 FROM delivery
                                        WHERE state = 'pending' AND is_digested AND digest_id IS NULL
                                          AND next_attempt_at <= :now)""", {"now": now}):
            return
        with self._transaction() as db:
            db.execute("""
                UPDATE delivery SET state = 'skipped', settled_at = :now
                 WHERE state = 'pending' AND is_held AND next_attempt_at <= :now
                   AND EXISTS (SELECT 1 FROM event
                                 JOIN release ON release.id = release_id
                                 JOIN source  ON source.id = source_id
                                WHERE event.id = event_id AND (gone_at IS NOT NULL OR missing_since IS NOT NULL))
                """, {"now": now})
            db.execute("UPDATE delivery SET is_held = 0 WHERE state = 'pending' AND is_held AND next_attempt_at <= ?",
                       (now,))
            for destination_id, in db.execute("""
                    SELECT DISTINCT destination_id FROM delivery INDEXED BY delivery_undigested
                     WHERE state = 'pending' AND is_digested AND digest_id IS NULL AND next_attempt_at <= ?
                    """, (now,)).fetchall():
                db.execute("""
                    UPDATE delivery SET digest_id = :digest
                     WHERE destination_id = :destination AND state = 'pending' AND is_digested
                       AND digest_id IS NULL AND next_attempt_at <= :now
                    """, {"digest": make_id(), "destination": destination_id, "now": now})

    def due_destinations(self, now: float) -> dict[str, str]:
        """The destinations with a delivery due at ``now`` of which nobody has one claimed, and their kinds."""
        return dict(self._rows("""
            SELECT id, kind FROM destination
             WHERE EXISTS (SELECT 1 FROM delivery
                            WHERE destination_id = destination.id AND state = 'pending' AND next_attempt_at <= :now)
               AND NOT EXISTS (SELECT 1 FROM delivery
                                WHERE destination_id = destination.id
                                  AND claimed_until BETWEEN :now AND :now + 4 * :lease)
            """, {"now": now, "lease": LEASE}))

    def claim_deliveries(self, wanted: Mapping[str, int], claimant: str, now: float) -> dict[str, list[Delivery]]:
        """Up to so many due deliveries of each destination, in the order in which they came, claimed.

        A destination of which another has a delivery claimed by now is left out.
        """
        found: dict[str, list[Delivery]] = {}
        with self._transaction(is_durable=False) as db:
            for destination_id, limit in wanted.items():
                values = {"claimant": claimant, "now": now, "lease": LEASE, "destination": destination_id,
                          "limit": limit}
                claimed = db.execute("""
                    UPDATE delivery SET claimed_by = :claimant, claimed_until = :now + :lease
                     WHERE id IN (SELECT id FROM delivery
                                   WHERE destination_id = :destination AND state = 'pending'
                                     AND next_attempt_at <= :now
                                     AND NOT is_held AND (NOT is_digested OR digest_id IS NOT NULL)
                                   ORDER BY next_attempt_at, rowid LIMIT :limit)
                       AND NOT EXISTS (SELECT 1 FROM delivery
                                        WHERE destination_id = :destination
                                          AND claimed_until BETWEEN :now AND :now + 4 * :lease)
                    RETURNING digest_id
                    """, values).fetchall()
                if any(digest_id for digest_id, in claimed):        # whole ones only
                    db.execute("""
                        UPDATE delivery SET claimed_by = :claimant, claimed_until = :now + :lease
                         WHERE state = 'pending'
                           AND digest_id IN (SELECT digest_id FROM delivery
                                              WHERE destination_id = :destination AND claimed_by = :claimant
                                                AND claimed_until = :now + :lease AND digest_id IS NOT NULL)
                        """, values)
                if claimed:
                    found[destination_id] = self._claimed(db, values)
        return found

    def _claimed(self, db: sqlite3.Connection, values: Mapping[str, Any]) -> list[Delivery]:
        """What was just claimed of a destination. A digest has the beginning of long notes alone."""
        destination = self.destination(values["destination"])
        account = self.account_of(destination.account_id) if destination else None
        if not destination or not account:      # removed since
            return []
        return [
            Delivery(id_, destination, account.email, account.is_admin, json.loads(body), url, kind, attempts,
                     queued_at, digest_id)
            for id_, body, url, kind, attempts, queued_at, digest_id in db.execute("""
                SELECT delivery.id,
                       CASE WHEN digest_id IS NULL OR json_extract(body, '$.note.message') IS NULL THEN body
                            ELSE json_set(body, '$.note.message',
                                          substr(json_extract(body, '$.note.message'), 1, 16000)) END,
                       url, kind, attempts, queued_at, digest_id
                  FROM delivery JOIN event ON event.id = event_id
                 WHERE destination_id = :destination AND claimed_until = :now + :lease AND claimed_by = :claimant
                 ORDER BY min(next_attempt_at) OVER (PARTITION BY coalesce(digest_id, delivery.id)), delivery.rowid
                """, values).fetchall()]

    def renew_deliveries(self, claimant: str, now: float) -> None:
        with self._transaction(is_durable=False) as db:
            db.execute("""
                UPDATE delivery SET claimed_until = ? WHERE claimed_until IS NOT NULL AND claimed_by = ?
                """, (now + LEASE, claimant))

    def record_attempts(self, claimant: str, attempts: Sequence[Outcome], unclaimed: Sequence[str] = ()) -> None:
        """What came of attempts; and the deliveries of which none was made after all, for others to claim.

        A claim that has passed to another meanwhile stays with it.
        """
        values = [{**vars(attempt), "claimant": claimant} for attempt in attempts]
        with self._transaction() as db:
            db.executemany("""
                INSERT INTO attempt (delivery_id, attempted_at, status, error, duration, address, answer)
                SELECT id, :attempted_at, :status, :error, :duration, :address, :answer
                  FROM delivery WHERE id = :delivery_id
                """, values)
            db.executemany("""
                UPDATE delivery
                   SET state = :state, next_attempt_at = :next_attempt_at, attempts = attempts + 1,
                       queued_at = CASE WHEN attempts = 0 THEN :attempted_at ELSE queued_at END,
                       settled_at = CASE WHEN :state != 'pending' THEN :attempted_at END
                 WHERE id = :delivery_id AND state = 'pending'
                """, values)
            db.executemany("""
                UPDATE delivery SET claimed_by = NULL, claimed_until = NULL WHERE id = ? AND claimed_by = ?
                """, [(id_, claimant) for id_ in (*unclaimed, *(attempt.delivery_id for attempt in attempts))])

    def seconds_until_due(self, now: float, at_most: float) -> float:
        """Until the next delivery becomes due that is not due yet."""
        (first,), = self._rows("""
            SELECT min(next_attempt_at) FROM delivery WHERE state = 'pending' AND next_attempt_at > ?
            """, (now,))
        return at_most if first is None else min(first - now, at_most)

    def event_of(self, delivery_id: str) -> tuple[dict[str, Any], str] | None:
        """``(body, url)`` of what a delivery tells."""
        rows = self._rows("SELECT body, url FROM event WHERE id = (SELECT event_id FROM delivery WHERE id = ?)",
                          (delivery_id,))
        return (json.loads(rows[0][0]), rows[0][1]) if rows else None

    def attempts(self, delivery_id: str) -> list[Attempt]:
        """A delivery's attempts, oldest first."""
        return [Attempt(*row) for row in self._rows("""
            SELECT attempted_at, status, error, duration, address, answer FROM attempt
             WHERE delivery_id = ? ORDER BY id""", (delivery_id,))]

    def resend(self, account_id: str, *, delivery_id: str | None = None, destination_id: str | None = None,
               since: float = 0.0, until: float = math.inf) -> int:
        """Queue again, under the ids that they have, a delivery or all that have failed of a destination, for good or
        at their last attempt, and what was sent together with them; how many.

        Those of one destination are due a little apart. What was never due, or is being sent just now, is left to that.
        """
        now = self.clock()
        with self._transaction() as db:
            count = len(db.execute("""
                WITH wanted AS (
                    SELECT delivery.id, digest_id
                      FROM delivery JOIN destination ON destination.id = destination_id
                     WHERE account_id = :account AND (:id IS NULL OR delivery.id = :id)
                       AND (:destination IS NULL OR destination_id = :destination)
                       AND (:id IS NOT NULL OR state = 'failed' OR state = 'pending' AND attempts > 0)
                       AND NOT (state = 'pending' AND attempts = 0) AND delivery.created_at BETWEEN :since AND :until)
                UPDATE delivery
                   SET state = 'pending', attempts = 0, settled_at = NULL, is_held = 0,
                       next_attempt_at = :now + place * :every, queued_at = :now + place * :every
                  FROM (SELECT id AS placed,
                               row_number() OVER (PARTITION BY destination_id ORDER BY delivery.rowid) - 1 AS place
                          FROM delivery
                         WHERE id IN (SELECT id FROM wanted)
                            OR digest_id IN (SELECT digest_id FROM wanted WHERE digest_id IS NOT NULL))
                 WHERE id = placed AND (claimed_until IS NULL OR claimed_until NOT BETWEEN :now AND :now + 4 * :lease)
                RETURNING id
                """, {"account": account_id, "id": delivery_id, "destination": destination_id, "since": since,
                      "until": until, "now": now, "every": RESENT_EVERY, "lease": LEASE}).fetchall())
        self.send_bell.set()
        return count

    def _put_off(self, db: sqlite3.Connection, ids: Sequence[str], at: float) -> None:
        """Have deliveries sent at an instant or, what goes into a digest, with the next one from then on."""
        for id_, schedule, zone in db.execute("""
                SELECT delivery.id,
                       CASE WHEN NOT is_digested THEN 'instant' WHEN destination.kind = 'email' THEN
                            coalesce(project.email_notification, 'daily') ELSE schedule END, time_zone
                  FROM delivery
                  JOIN destination  ON destination.id = destination_id
                  JOIN account      ON account.id = destination.account_id
                  JOIN event        ON event.id = event_id
                  LEFT JOIN project ON project.id = project_id
                 WHERE delivery.id IN (SELECT value FROM json_each(?))""", (compact_json(list(ids)),)).fetchall():
            due_at = next_boundary(schedule if schedule in SCHEDULES else "instant", at, zone)
            db.execute("UPDATE delivery SET next_attempt_at = ?, queued_at = ? WHERE id = ?", (due_at, due_at, id_))
        self.send_bell.set()

    def _insert_event(self, db: sqlite3.Connection, event: Event, now: float) -> None:
        """Insert an event with its deliveries."""
        recipients = self._told_before(db, event, now) if event.kind == "recovered" else event.recipients
        if not recipients:
            return
        inserted = db.execute("""
            INSERT INTO event (account_id, project_id, release_id, kind, body, url, created_at)
            SELECT account_id, project.id, release.id, :kind, :body, :url, :now
              FROM project LEFT JOIN release ON release.source_id = project.source_id AND version = :version
             WHERE project.id = :project
            """, {"kind": event.kind, "body": compact_json(event.body), "url": event.url, "now": now,
                  "version": event.body.get("version"), "project": event.project_id})
        if inserted.rowcount:       # the project may have been removed since
            db.executemany("""
                INSERT INTO delivery (id, event_id, destination_id, next_attempt_at, queued_at, created_at, is_digested,
                                      is_held)
                SELECT :id, :event, id, :due_at, :due_at, :now, :is_digested, :is_held
                  FROM destination WHERE id = :destination_id
                """, [{**vars(recipient), "id": make_id(), "event": inserted.lastrowid, "now": now}
                      for recipient in recipients])

    def _told_before(self, db: sqlite3.Connection, event: Event, now: float) -> list[Recipient]:
        """Those of the recipients who were told that the source fails. Who was not yet need not be told any more."""
        values = {"project": event.project_id, "now": now}
        db.execute("""
            UPDATE delivery SET state = 'skipped', settled_at = :now
             WHERE state = 'pending' AND claimed_until IS NULL AND digest_id IS NULL
               AND event_id IN (SELECT id FROM event WHERE project_id = :project AND kind = 'failing')
            """, values)
        told = {id_ for id_, in db.execute("""
            SELECT destination_id FROM delivery
             WHERE state != 'skipped'
               AND event_id = (SELECT max(id) FROM event WHERE project_id = :project AND kind = 'failing')
            """, values)}
        return [recipient for recipient in event.recipients if recipient.destination_id in told]


class _Projects(_Outbox):
    """What accounts track, and how."""

    def add_project(self, account_id: str, provider: str, key: str, name: str,
                    settings: Mapping[str, Any]) -> tuple[Project, Source]:
        """The new project and its source, which is due at once. Raises Invalid when the account has it."""
        project_id, now = make_id(), self.clock()
        with self._transaction() as db:
            for away, in db.execute("""
                    SELECT project.id FROM project JOIN source ON source.id = source_id
                     WHERE account_id = ? AND source.provider = ? AND key = ? AND removed_at IS NOT NULL
                    """, (account_id, provider, key)).fetchall():
                self._remove_project(db, away)
            db.execute("""
                INSERT INTO source (provider, key, name, next_check_at) VALUES (?, ?, ?, ?)
                    ON CONFLICT DO UPDATE SET next_check_at = excluded.next_check_at
                """, (provider, key, name, now))
            (source_id, spelled), = db.execute(
                "SELECT id, name FROM source WHERE provider = ? AND key = ?", (provider, key)).fetchall()
            try:
                db.execute("""
                    INSERT INTO project (id, account_id, source_id, provider, name, email_notification, added_at,
                                         newest_date)
                    VALUES (:id, :account, :source, :provider, :name, 'daily', :now,
                            coalesce((SELECT max(date) FROM release WHERE source_id = :source), ''))
                    """, {"id": project_id, "account": account_id, "source": source_id, "provider": provider,
                          "name": spelled, "now": now})
            except sqlite3.IntegrityError:
                raise Invalid(f"The project {spelled} of {provider} is tracked already.") from None
            self._write_settings(db, project_id, settings)
        self.poll_bell.set()
        project, source = self.project(account_id, project_id), self.source(source_id)
        assert project and source
        return project, source

    def update_project(self, account_id: str, project_id: str, settings: Mapping[str, Any]) -> Project | None:
        """The project after what ``settings`` holds was set; what it does not hold stays."""
        with self._transaction() as db:
            self._write_settings(db, project_id, settings)
        return self.project(account_id, project_id)

    def _write_settings(self, db: sqlite3.Connection, project_id: str, settings: Mapping[str, Any]) -> None:
        """``settings``: columns of a project by name; ``tags``: ids; ``destinations``: kind -> ids."""
        columns = dict.fromkeys(("email_notification", "exclude_prereleases", "exclude_updated", "note", "hold_days"))
        columns |= {name: settings[name] for name in columns if name in settings}
        rules = settings.get("exclude_version_regexp")
        db.execute("""
            UPDATE project
               SET email_notification     = coalesce(:email_notification, email_notification),
                   exclude_prereleases    = coalesce(:exclude_prereleases, exclude_prereleases),
                   exclude_updated        = coalesce(:exclude_updated, exclude_updated),
                   exclude_version_regexp = coalesce(:rules, exclude_version_regexp),
                   note                   = coalesce(:note, note),
                   hold_days              = coalesce(:hold_days, hold_days)
             WHERE id = :project
            """, {**columns, "rules": None if rules is None else compact_json(rules), "project": project_id})
        if "hold_days" in settings:
            self._hold_anew(db, project_id, settings["hold_days"])
        if "tags" in settings:
            db.execute("DELETE FROM project_tag WHERE project_id = ?", (project_id,))
            db.executemany("""
                INSERT INTO project_tag (project_id, tag_id)
                SELECT project.id, tag.id FROM project JOIN tag ON tag.account_id = project.account_id
                 WHERE project.id = ? AND tag.id = ?
                """, [(project_id, tag) for tag in settings["tags"]])
        for kind, ids in settings.get("destinations", {}).items():
            db.execute("""
                DELETE FROM project_destination
                 WHERE project_id = ? AND destination_id IN (SELECT id FROM destination WHERE kind = ?)
                """, (project_id, kind))
            db.executemany("""
                INSERT INTO project_destination (project_id, destination_id)
                SELECT project.id, destination.id
                  FROM project JOIN destination ON destination.account_id = project.account_id
                 WHERE project.id = ? AND destination.kind = ? AND destination.id = ?
                """, [(project_id, kind, one) for one in ids])

    def _hold_anew(self, db: sqlite3.Connection, project_id: str, days: int) -> None:
        """Have what is held of a project told so many days after it came out."""
        for id_, out_since in db.execute("""
                SELECT delivery.id, iif(json_extract(body, '$.is_updated'), delivery.created_at,
                                        min(delivery.created_at,
                                            CAST(strftime('%s', json_extract(body, '$.time')) AS REAL)))
                  FROM delivery JOIN event ON event.id = event_id
                 WHERE project_id = ? AND delivery.state = 'pending' AND is_held""", (project_id,)).fetchall():
            self._put_off(db, [id_], max(self.clock(), out_since + days * DAY))

    def remove_project(self, project_id: str) -> None:
        """Remove a project, and its source if nobody else tracks it. What was to be told of it later is not."""
        with self._transaction() as db:
            self._remove_project(db, project_id)

    def _remove_project(self, db: sqlite3.Connection, project_id: str) -> None:
        db.execute("""
            UPDATE delivery SET state = 'skipped', settled_at = :now
             WHERE state = 'pending' AND next_attempt_at > :now AND attempts = 0
               AND event_id IN (SELECT id FROM event WHERE project_id = :project)
            """, {"now": self.clock(), "project": project_id})
        db.execute("DELETE FROM project WHERE id = ?", (project_id,))

    def put_away(self, account_id: str, ids: Sequence[str]) -> None:
        """Hide projects of the account, which go for good after ``TAKEN_BACK`` seconds. Until then they are checked
        and told as before, so that nothing is missed if they are taken back."""
        with self._transaction() as db:
            db.execute("""
                UPDATE project SET removed_at = ?
                 WHERE account_id = ? AND removed_at IS NULL AND id IN (SELECT value FROM json_each(?))
                """, (self.clock(), account_id, compact_json(list(ids))))

    def projects_put_away(self, account_id: str) -> list[str]:
        """The names of the projects that the account can take back."""
        return [name for name, in self._rows("""
            SELECT name FROM project
             WHERE +account_id = ? AND removed_at >= ?      -- not by the account's index, which leads to all it has
             ORDER BY name""", (account_id, self.clock() - TAKEN_BACK))]

    def take_back(self, account_id: str) -> None:
        """Show again what the account has put away and what has not gone yet."""
        with self._transaction() as db:
            db.execute("UPDATE project SET removed_at = NULL WHERE account_id = ? AND removed_at >= ?",
                       (account_id, self.clock() - TAKEN_BACK))

    def check_soon(self, account_id: str, ids: Sequence[str]) -> None:
        """Have projects of the account checked as soon as the tracker can. If that fails once more, the next check is
        no further off than it was."""
        with self._transaction() as db:
            db.execute("""
                UPDATE source SET next_check_at = ?, failures = max(failures - 1, 0)
                 WHERE id IN (SELECT source_id FROM project
                               WHERE account_id = ? AND id IN (SELECT value FROM json_each(?)))
                """, (self.clock(), account_id, compact_json(list(ids))))
        self.poll_bell.set()

    def project(self, account_id: str, project_id: str) -> Project | None:
        return next(iter(self._projects(account_id, [project_id])), None)

    def project_by_names(self, account_id: str, provider: str, keys: Sequence[str]) -> tuple[Project, str] | None:
        """``(project, key)`` of the longest of the names that the account tracks there."""
        for row in self._value(PROJECTS_OF["names"], {
                "account": account_id, "provider": provider, "keys": compact_json(keys)}):
            return _project(row), row[13]
        return None

    def projects(self, account_id: str, order: str, is_reversed: bool, provider: str | None = None,
                 tag: str | None = None, page: int = 1, *, text: str | None = None, is_failing: bool = False,
                 size: int = PAGE_SIZE) -> tuple[list[Project], int]:
        """A page of an account's projects, and how many pages there are (at least 1): of a provider, with a tag, with
        a text in the name, with a source that could not be checked."""
        values = {"account": account_id, "provider": provider, "tag": tag, "text": _holding(text),
                  "is_failing": is_failing, "limit": size, "offset": (page - 1) * size}
        found, count = self._value(PROJECT_PAGES[order, is_reversed, bool(tag or text or is_failing)], values)
        return [_project(row) for row in found], max(1, -(-count // size))

    def search_projects(self, account_id: str, text: str, provider: str | None = None) -> list[Project]:
        """The projects whose name holds the text, whatever the case of letters, sorted by name."""
        return self._projects(account_id, [id_ for id_, in self._rows("""
            SELECT id FROM project
             WHERE account_id = :account AND removed_at IS NULL AND name LIKE :pattern ESCAPE '\\'
               AND (:provider IS NULL OR provider = :provider)
             ORDER BY name COLLATE NOCASE, provider
            """, {"account": account_id, "pattern": _holding(text), "provider": provider})])

    def providers_of(self, account_id: str) -> list[str]:
        """The ids of the providers that the account has projects at, sorted."""
        return [id_ for id_, in self._rows(
            "SELECT provider FROM project_count WHERE account_id = ? ORDER BY provider", (account_id,))]

    def _projects(self, account_id: str, ids: Sequence[str], with_put_away: bool = False) -> list[Project]:
        """The account's projects of these ids, in their order."""
        found = {row[0]: _project(row) for row in self._value(PROJECTS_OF["ids"], {
            "ids": compact_json(ids), "account": account_id, "with_put_away": with_put_away,
            "since": self.clock() - TAKEN_BACK})}
        return [found[id_] for id_ in ids if id_ in found]      # SQLite ends a text of JSON at a NUL

    def source(self, source_id: int) -> Source | None:
        return next(iter(self._sources([source_id])), None)

    def sources(self, account_id: str | None = None) -> list[Source]:
        """All sources, or those that an account tracks, by provider and name."""
        return self._sources([id_ for id_, in self._rows("""
            SELECT id FROM source
             WHERE :account IS NULL OR id IN (SELECT source_id FROM project WHERE account_id = :account)
             ORDER BY provider, key""", {"account": account_id})])

    def _sources(self, ids: Sequence[int]) -> list[Source]:
        """Those of these sources that there are, in the order of the ids."""
        found = {row[7]: _source(row) for row in self._rows("""
            SELECT checked_at, succeeded_at, next_check_at, error, missing_since, is_missing, quota_left,
                   id, provider, key, name, failures, failing_since, is_told, etag_url, etag, last_modified,
                   EXISTS (SELECT 1 FROM project JOIN account ON account.id = account_id
                            WHERE source_id = source.id AND is_admin)
              FROM source WHERE id IN (SELECT value FROM json_each(?))""", (compact_json(ids),))}
        return [found[id_] for id_ in ids if id_ in found]

    def await_check(self, source_id: int, since: float, seconds: float) -> Source | None:
        """The source once a check of it that began after ``since`` was recorded, or as it is when time is up.

        Waits only where a tracker lives in this process.
        """
        end = time.monotonic() + seconds
        with self._checked:
            while True:
                source = self.source(source_id)
                left = end - time.monotonic()
                if source is None or (source.checked_at or 0) >= since or left <= 0 or not self.is_tracked:
                    return source
                self._checked.wait(min(left, 0.25))


class _Lists(_Projects):
    """What is shown of many projects or deliveries, or of the whole store, at once."""

    def latest_releases(self, account_id: str, page: int = 1, provider: str | None = None, tag: str | None = None,
                        text: str | None = None, is_security: bool = False,
                        size: int = PAGE_SIZE) -> tuple[list[Sighting], bool]:
        """A page of the releases of all of an account's projects, newest first, and whether there are more: of a
        provider, with a tag, with a text in the project's name, that name a CVE. The cost follows the page's number,
        not how many releases there are."""
        values = {"account": account_id, "provider": provider, "tag": tag, "text": _holding(text),
                  "is_failing": False, "limit": size + 1, "offset": (page - 1) * size}
        reach = [] if is_security else self._rows(NEWEST_RELEASES["reach"], values)
        found = self._value(NEWEST_RELEASES["security" if is_security else "all"],
                            values | {"least": reach[0][0] if reach else ""})
        projects = {project.id: project for project in self._projects(
            account_id, list(dict.fromkeys(one for _, one in found)))}
        releases = {id_: about for id_, *about in self._rows("""
            SELECT release.id, version, date, is_prerelease, is_updated, cve, release_id, found_at, title,
                   substr(message, 1, :start), url
              FROM release LEFT JOIN note ON release_id = release.id
             WHERE release.id IN (SELECT value FROM json_each(:ids))
            """, {"start": NOTE_START, "ids": compact_json([id_ for id_, _ in found])})}
        return [Sighting(projects[project_id], _release(about[:6]), about[6],
                         Note(*about[7:]) if about[5] is not None else None)
                for id_, project_id in found[:size] if project_id in projects
                and (about := releases.get(id_))], len(found) > size

    def note_starts(self, source_id: int, versions: Sequence[str]) -> dict[str, Note]:
        """The notes of these of a source's versions, by version, with the beginning of their messages."""
        return {version: Note(*about) for version, *about in self._rows("""
            SELECT version, title, substr(message, 1, :start), url FROM note JOIN release ON release.id = release_id
             WHERE source_id = :source AND version IN (SELECT value FROM json_each(:versions))
            """, {"start": NOTE_START, "source": source_id, "versions": compact_json(list(versions))})}

    def newest_of(self, source_ids: Collection[int]) -> dict[int, Release]:
        """The newest release of each of these sources that has any."""
        return {source_id: _release(about) for source_id, *about in self._rows("""
            SELECT source_id, version, date, is_prerelease, is_updated, cve, release_id
              FROM release LEFT JOIN note ON release_id = release.id
             WHERE release.id IN (
                   SELECT (SELECT id FROM release WHERE source_id = value ORDER BY date DESC, id DESC LIMIT 1)
                     FROM json_each(?))""", (compact_json(list(source_ids)),))}

    def journal(self, account_id: str, *, delivery_id: str | None = None, destination_id: str | None = None,
                project_id: str | None = None, state: str | None = None, since: float = 0.0,
                until: float = math.inf, limit: int = 100, offset: int = 0) -> list[Entry]:
        """An account's deliveries that came between two instants, newest first: of a destination, of a project, in a
        state."""
        return [Entry(*row) for row in self._rows("""
            WITH chosen AS MATERIALIZED (
                SELECT delivery.rowid AS place
                  FROM delivery
                  JOIN destination ON destination.id = destination_id
                  JOIN event       ON event.id = event_id
                 WHERE destination.account_id = :account AND (:id IS NULL OR delivery.id = :id)
                   AND (:destination IS NULL OR destination_id = :destination)
                   AND (:project IS NULL OR project_id = :project) AND (:state IS NULL OR state = :state)
                   AND delivery.created_at BETWEEN :since AND :until
                 ORDER BY delivery.rowid DESC
                 LIMIT :limit OFFSET :offset)
            SELECT delivery.id, destination.kind, destination.name, destination_id, event.kind,
                   json_extract(body, '$.provider'), json_extract(body, '$.project'),
                   coalesce(json_extract(body, '$.version'), ''),
                   state, (SELECT count(*) FROM attempt WHERE delivery_id = delivery.id),
                   delivery.created_at, next_attempt_at, settled_at, digest_id,
                   iif(state = 'skipped', 'it was taken back, or its project is tracked no more',
                       (SELECT error FROM attempt WHERE delivery_id = delivery.id ORDER BY attempt.id DESC LIMIT 1))
              FROM chosen
              JOIN delivery    ON delivery.rowid = place
              JOIN destination ON destination.id = destination_id
              JOIN event       ON event.id = event_id
             ORDER BY place DESC
            """, {"account": account_id, "id": delivery_id, "destination": destination_id, "project": project_id,
                  "state": state, "since": since, "until": until, "limit": limit, "offset": offset})]

    def last_errors(self, account_id: str) -> dict[str, str]:
        """What was wrong with the last attempt at each of an account's destinations at which anything was."""
        return dict(self._rows("""
            SELECT id, fault
              FROM (SELECT destination.id, (SELECT error FROM attempt WHERE delivery_id = delivery.id
                                             ORDER BY attempt.id DESC LIMIT 1) AS fault
                      FROM destination
                      JOIN delivery ON delivery.rowid = (
                           SELECT rowid FROM delivery
                            WHERE destination_id = destination.id
                              AND (state IN ('delivered', 'failed') OR state = 'pending' AND attempts > 0)
                            ORDER BY rowid DESC LIMIT 1)
                     WHERE account_id = ?)
             WHERE fault IS NOT NULL""", (account_id,)))

    def failing_sources(self, at_most: int = 50) -> list[Source]:
        """Sources whose last check failed, those first that have failed longest."""
        ids = self._rows("SELECT id FROM source WHERE error IS NOT NULL ORDER BY failing_since LIMIT ?", (at_most,))
        return self._sources([id_ for id_, in ids])

    def quotas(self) -> list[tuple[str, int, float]]:
        """``(provider, requests left to us, when it said so)`` of the providers that tell."""
        return self._rows("""
            SELECT provider, quota_left, max(checked_at) FROM source
             WHERE quota_left IS NOT NULL GROUP BY provider ORDER BY provider""")

    def backlog(self) -> dict[str, tuple[int, float | None]]:
        """How many sources and deliveries are due, and how many have failed, each with the instant of the first."""
        (row,) = self._rows("""
            SELECT (SELECT count(*) FROM source WHERE next_check_at <= :now),
                   (SELECT min(next_check_at) FROM source WHERE next_check_at <= :now),
                   (SELECT count(*) FROM delivery WHERE state = 'pending' AND next_attempt_at <= :now),
                   (SELECT min(next_attempt_at) FROM delivery WHERE state = 'pending' AND next_attempt_at <= :now),
                   (SELECT count(*) FROM delivery WHERE state = 'failed'),
                   (SELECT min(settled_at) FROM delivery WHERE state = 'failed')""", {"now": self.clock()})
        return dict(zip(("sources", "deliveries", "failed"), zip(row[::2], row[1::2])))

    def size(self) -> int:
        """Bytes of the file and its write-ahead log."""
        return sum(os.path.getsize(path) for path in (self.path, f"{self.path}-wal") if os.path.exists(path))


class Store(_Lists):
    """The database. Methods return values, never rows; each is one statement or one transaction."""

    def releases(self, source_id: int, page: int, size: int = PAGE_SIZE) -> tuple[list[Release], int]:
        """A page of a source's releases, newest first, without their notes; and how many pages there are."""
        found, count = self._value("""
            SELECT json_array(
                   (SELECT json_group_array(json_array(version, date, is_prerelease, is_updated, cve, release_id))
                      FROM (SELECT version, date, is_prerelease, is_updated, cve, release_id
                              FROM release LEFT JOIN note ON release_id = release.id
                             WHERE source_id = :source
                             ORDER BY date DESC, release.id DESC
                             LIMIT :limit OFFSET :offset)),
                   (SELECT count(*) FROM release WHERE source_id = :source))
            """, {"source": source_id, "limit": size, "offset": (page - 1) * size})
        return [_release(row) for row in found], max(1, -(-count // size))

    def release_of(self, source_id: int, versions: Sequence[str]) -> Release | None:
        """The release of the longest of these versions that the source has, without its note."""
        rows = self._rows("""
            SELECT version, date, is_prerelease, is_updated, cve, release_id
              FROM release LEFT JOIN note ON release_id = release.id
             WHERE source_id = ? AND version IN (SELECT value FROM json_each(?))
             ORDER BY length(version) DESC
             LIMIT 1
            """, (source_id, compact_json(versions)))
        return _release(rows[0]) if rows else None

    def note(self, source_id: int, version: str) -> Note | None:
        rows = self._rows("""
            SELECT title, message, url FROM note JOIN release ON release.id = release_id
             WHERE source_id = ? AND version = ?
            """, (source_id, version))
        return Note(*rows[0]) if rows else None

    def known_releases(self, source_id: int) -> dict[str, Known]:
        """What the store has of a source's releases, newest first."""
        return {version: Known(*about) for version, *about in self._value("""
            SELECT json_group_array(json_array(version, date || 'Z', evidence, fingerprint, is_prerelease, gone_at))
              FROM (SELECT version, date, evidence, fingerprint, is_prerelease, gone_at
                      FROM release LEFT JOIN note ON release_id = release.id
                     WHERE source_id = ?
                     ORDER BY date DESC, release.id DESC)""", (source_id,))}

    def providers_tracked(self) -> list[str]:
        """The ids of the providers at which anybody tracks anything."""
        return [id_ for id_, in self._rows("SELECT DISTINCT provider FROM project_count ORDER BY provider")]

    def due_providers(self, providers: Collection[str], now: float) -> list[str]:
        """Those of the providers at which a source is due that nobody has claimed."""
        return [id_ for id_, in self._rows("""
            SELECT value FROM json_each(:providers)
             WHERE EXISTS (SELECT 1 FROM source
                            WHERE provider = value AND next_check_at <= :now
                              AND (claimed_until IS NULL OR claimed_until NOT BETWEEN :now AND :now + 4 * :lease))
            """, {"providers": compact_json(list(providers)), "now": now, "lease": LEASE})]

    def claim_sources(self, wanted: Mapping[str, int], claimant: str, now: float,
                      due_by: Mapping[str, float] | None = None) -> list[Source]:
        """Up to so many sources of each provider that are due, now or by the provider's time in ``due_by``; longest
        due first, claimed for ``LEASE`` seconds.

        A claim that ends further off than a lease was made before the clock was set back; it counts for nothing.
        """
        ids: list[int] = []
        with self._transaction(is_durable=False) as db:
            for provider, limit in wanted.items():
                ids += [id_ for id_, in db.execute("""
                    UPDATE source SET claimed_by = :claimant, claimed_until = :now + :lease
                     WHERE id IN (SELECT id FROM source
                                   WHERE provider = :provider AND next_check_at <= :due_by
                                     AND (claimed_until IS NULL
                                          OR claimed_until NOT BETWEEN :now AND :now + 4 * :lease)
                                   ORDER BY next_check_at LIMIT :limit)
                    RETURNING id
                    """, {"claimant": claimant, "now": now, "lease": LEASE, "provider": provider,
                          "limit": limit, "due_by": (due_by or {}).get(provider, now)}).fetchall()]
        return self._sources(ids)

    def claim_source(self, source_id: int, claimant: str, now: float) -> Source | None:
        """One source, due or not; None when another holds it, or it is gone."""
        with self._transaction(is_durable=False) as db:
            is_claimed = db.execute("""
                UPDATE source SET claimed_by = :claimant, claimed_until = :now + :lease
                 WHERE id = :id AND (claimed_until IS NULL OR claimed_until NOT BETWEEN :now AND :now + 4 * :lease)
                """, {"claimant": claimant, "now": now, "lease": LEASE, "id": source_id}).rowcount
        return self.source(source_id) if is_claimed else None

    def renew_sources(self, claimant: str, now: float, ids: Iterable[int]) -> None:
        """Hold on to the claims of these sources; others of the claimant run out."""
        with self._transaction(is_durable=False) as db:
            db.execute("""
                UPDATE source SET claimed_until = ?
                 WHERE claimed_by = ? AND id IN (SELECT value FROM json_each(?))
                """, (now + LEASE, claimant, compact_json(list(ids))))

    def bring_forward(self, now: float, interval: float, intervals: Mapping[str, float] | None = None) -> None:
        """Have no source wait longer than the interval, or its provider's own among ``intervals``, asks for; nor a
        failing one for more than a day and a bit: the operator may have shortened the interval, or a clock that was
        ahead have been set right."""
        with self._transaction() as db:
            db.execute("""
                UPDATE source SET next_check_at = :now + wanted * (id % 100) / 100.0
                  FROM (SELECT id AS wanted_by,
                               coalesce((SELECT value FROM json_each(:intervals) WHERE json_each.key = provider),
                                        :interval) AS wanted
                          FROM source WHERE next_check_at > :now + 1.11 * :interval)
                 WHERE id = wanted_by
                   AND next_check_at > :now + 1.11 * CASE WHEN error IS NULL THEN wanted ELSE max(wanted, 86400) END
                """, {"now": now, "interval": interval, "intervals": compact_json(intervals or {})})

    def subscribers(self, source_id: int) -> list[Subscriber]:
        """The projects that track a source, with their accounts, tags, and the accounts' destinations."""
        found = []
        for project_id, account_id in self._rows(
                "SELECT id, account_id FROM project WHERE source_id = ?", (source_id,)):
            project = next(iter(self._projects(account_id, [project_id], with_put_away=True)), None)
            account = self.account_of(account_id)
            if project is None or account is None:      # removed since
                continue
            tags = [Tag(id_, name) for id_, name in self._rows("""
                SELECT tag.id, name FROM tag JOIN project_tag ON tag_id = tag.id
                 WHERE project_id = ? ORDER BY name""", (project_id,))]
            found.append(Subscriber(project, account, tuple(tags), tuple(self.destinations(account_id))))
        return found

    def record_found(self, source_id: int, claimant: str, found: Findings, waits: bool = True) -> Findings | None:
        """What was recorded of a check: releases, notes and deliveries in one transaction. Raises StoreUnavailable;
        at once where others write and it is not to wait for them.

        None, and nothing written, when the claim has passed to another or the source is gone.
        """
        now = self.clock()
        has_changed = any((found.new, found.updated, found.noted, found.evidenced, found.renamed, found.gone,
                           found.back, found.events))
        with self._transaction(is_durable=has_changed, waits=waits) as db:  # else what is lost costs one more check
            was_missing = db.execute("SELECT 1 FROM source WHERE id = ? AND missing_since IS NOT NULL",
                                     (source_id,)).fetchall()
            kept = db.execute("""
                UPDATE source
                   SET checked_at = :now, succeeded_at = :now, failures = 0, failing_since = NULL, is_told = 0,
                       error = NULL, is_missing = 0, missing_since = NULL, missing_times = 0,
                       quota_left = coalesce(:quota_left, quota_left),
                       next_check_at = :next, claimed_by = NULL, claimed_until = NULL,
                       etag_url = :etag_url, etag = :etag, last_modified = :last_modified
                 WHERE id = :id AND claimed_by = :claimant
                """, {"now": now, "next": found.next_check_at, "id": source_id, "claimant": claimant,
                      "etag_url": found.etag_url, "etag": found.etag, "last_modified": found.last_modified,
                      "quota_left": found.quota_left}).rowcount
            if kept and found.renamed:
                found = self._rename_source(db, source_id, found, *found.renamed)
            if kept and has_changed:
                self._write_releases(db, source_id, found, now)
            if kept and (found.back or was_missing):
                self._bring_back(db, source_id, now)
            for event in found.events if kept else ():
                self._insert_event(db, event, now)
        self._tell_checked(rings=bool(found.events))
        return found if kept else None

    def _write_releases(self, db: sqlite3.Connection, source_id: int, found: Findings, now: float) -> None:
        """Write the releases of a check; what waits of the projects is due at once, before what is told now. All of
        them by one statement, for the sake of others who wait for the interpreter's lock."""
        db.execute("""
            INSERT INTO release (source_id, version, date, is_prerelease, cve, evidence)
            SELECT ?, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
                   json_extract(value, '$[3]'), json_extract(value, '$[4]')
              FROM json_each(?) WHERE true ON CONFLICT DO NOTHING
            """, (source_id, compact_json([
                (release.version, (release.date or "").rstrip("Z"), int(release.is_prerelease),
                 " ".join(release.cve) or None, release.evidence) for release in found.new])))
        for release in found.updated:
            db.execute("""
                UPDATE release SET is_updated = 1, is_prerelease = ?, evidence = ?
                 WHERE source_id = ? AND version = ?
                """, (int(release.is_prerelease), release.evidence, source_id, release.version))
        db.executemany("UPDATE release SET found_at = ? WHERE source_id = ? AND version = ?",
                       [(now, source_id, version) for version in found.news])
        db.executemany("UPDATE release SET evidence = ? WHERE source_id = ? AND version = ?",
                       [(release.evidence, source_id, release.version) for release in found.evidenced])
        db.execute("""
            INSERT INTO note (release_id, fingerprint, title, message, url)
            SELECT release.id, json_extract(value, '$[1]'), json_extract(value, '$[2]'),
                   json_extract(value, '$[3]'), json_extract(value, '$[4]')
              FROM json_each(?) CROSS JOIN release ON source_id = ? AND version = json_extract(value, '$[0]')
             WHERE true
                ON CONFLICT DO UPDATE SET fingerprint = excluded.fingerprint, title = excluded.title,
                                          message = excluded.message, url = excluded.url
            """, (compact_json([(release.version, note.fingerprint, note.title, note.message, note.url)
                                for release in (*found.new, *found.noted) if (note := release.note)]), source_id))
        db.executemany("UPDATE release SET cve = ? WHERE source_id = ? AND version = ?",
                       [(" ".join(release.cve) or None, source_id, release.version) for release in found.noted])
        db.executemany("UPDATE release SET gone_at = ? WHERE source_id = ? AND version = ?",
                       [(gone_at, source_id, version) for gone_at, versions in ((now, found.gone),
                        (None, found.back)) for version in versions])
        if found.new:
            db.execute("""
                UPDATE project SET newest_date = (SELECT max(date) FROM release WHERE source_id = :id)
                 WHERE source_id = :id""", {"id": source_id})
        if found.new or found.updated:
            db.execute("""
                UPDATE delivery SET next_attempt_at = min(next_attempt_at, created_at)
                 WHERE state = 'pending' AND attempts > 0 AND claimed_until IS NULL
                   AND event_id IN (SELECT event.id FROM event JOIN project ON project.id = project_id
                                     WHERE source_id = ?)""", (source_id,))
        for release in found.noted:
            if release.cve:
                self._free_security_fix(db, source_id, release, now)

    def _bring_back(self, db: sqlite3.Connection, source_id: int, now: float) -> None:
        """Have told what was held and then skipped, since its release was not there, but is there now."""
        ids = db.execute("""
            SELECT delivery.id FROM release
              JOIN event    ON release_id = release.id AND project_id IS NOT NULL
              JOIN delivery ON event_id = event.id AND delivery.state = 'skipped' AND is_held
             WHERE source_id = ? AND gone_at IS NULL""", (source_id,)).fetchall()
        db.executemany("UPDATE delivery SET state = 'pending', settled_at = NULL WHERE id = ?", ids)
        self._put_off(db, [id_ for id_, in ids], now)

    def _free_security_fix(self, db: sqlite3.Connection, source_id: int, release: Release, now: float) -> None:
        """Have a release that is held told now: a CVE that it fixes has become known."""
        ids = [id_ for id_, in db.execute("""
            SELECT delivery.id FROM release
              JOIN event    ON release_id = release.id
              JOIN delivery ON event_id = event.id AND delivery.state = 'pending' AND is_held
             WHERE source_id = ? AND version = ?""", (source_id, release.version)).fetchall()]
        db.execute("""
            UPDATE event SET body = json_set(body, '$.cve', json(?))
             WHERE id IN (SELECT event_id FROM delivery WHERE id IN (SELECT value FROM json_each(?)))
            """, (compact_json(release.cve), compact_json(ids)))
        self._put_off(db, ids, now)

    def record_failure(self, source_id: int, claimant: str, error: str, next_check_at: float, *,
                       counts: bool = True, is_not_found: bool = False, quota_left: int | None = None,
                       events: Sequence[Event] = ()) -> None:
        """A check that brought no releases; ``counts`` is False where it was only put off.

        A project that was not found is missing when that is the third time, and over a day since the first.
        ``events`` tell the accounts of it.
        """
        now = self.clock()
        with self._transaction() as db:
            kept = db.execute("""
                UPDATE source
                   SET checked_at = :now, failures = failures + :counts, error = :error,
                       failing_since = coalesce(failing_since, iif(:counts, :now, NULL)), is_told = is_told OR :tells,
                       missing_times = missing_times + :not_found,
                       missing_since = coalesce(missing_since, iif(:not_found, :now, NULL)),
                       is_missing = is_missing
                                    OR :not_found AND missing_times >= 2 AND :now - missing_since >= 86400,
                       quota_left = coalesce(:quota_left, quota_left),
                       next_check_at = :next, claimed_by = NULL, claimed_until = NULL
                 WHERE id = :id AND claimed_by = :claimant
                """, {"now": now, "quota_left": quota_left, "counts": int(counts), "error": error[:1000],
                      "not_found": int(is_not_found), "tells": int(bool(events)), "next": next_check_at,
                      "id": source_id, "claimant": claimant}).rowcount
            for event in events if kept else ():
                self._insert_event(db, event, now)
        self._tell_checked(rings=bool(events))

    def _rename_source(self, db: sqlite3.Connection, source_id: int, found: Findings, name: str,
                       key: str) -> Findings:
        """Call a source by its new name; what is left to be recorded of it.

        Where there is one of that name, projects and history go there, and it is checked soon: what it does not
        have yet it will tell all of them.
        """
        for away, in db.execute("""
                SELECT project.id FROM project JOIN source ON source.id = source_id
                 WHERE removed_at IS NOT NULL AND key = :key AND source.id != :old
                   AND source.provider = (SELECT provider FROM source WHERE id = :old)
                   AND account_id IN (SELECT account_id FROM project WHERE source_id = :old AND removed_at IS NULL)
                """, {"old": source_id, "key": key}).fetchall():
            self._remove_project(db, away)
        others = db.execute("""
            SELECT other.id FROM source JOIN source AS other ON other.provider = source.provider AND other.key = ?
             WHERE source.id = ?""", (key, source_id)).fetchall()
        if not others or others[0][0] == source_id:
            db.execute("UPDATE source SET name = ?, key = ? WHERE id = ?", (name, key, source_id))
            db.execute("UPDATE project SET name = ? WHERE source_id = ?", (name, source_id))
            return found
        values = {"old": source_id, "new": others[0][0], "name": name, "now": self.clock()}
        has = {version for version, in db.execute("SELECT version FROM release WHERE source_id = :new", values)}
        db.execute("UPDATE OR IGNORE release SET source_id = :new WHERE source_id = :old", values)
        db.execute("UPDATE source SET next_check_at = :now WHERE id = :new", values)
        db.execute("""
            DELETE FROM project
             WHERE source_id = :old AND account_id IN (SELECT account_id FROM project WHERE source_id = :new)
            """, values)
        db.execute("UPDATE project SET source_id = :new, name = :name WHERE source_id = :old", values)
        db.execute("""
            UPDATE project SET newest_date = coalesce((SELECT max(date) FROM release WHERE source_id = :new), '')
             WHERE source_id = :new""", values)
        return Findings(found.next_check_at, events=[
            event for event in found.events if event.kind != "release" or event.body["version"] in has])

    def _tell_checked(self, rings: bool) -> None:
        with self._checked:
            self._checked.notify_all()
        if rings:
            self.send_bell.set()

    def sweep(self, now: float, at_most: int = 500) -> None:
        """Write down which keys were used, drop a little of what is past keeping, and bring back what a clock
        that was wrong has put too far off."""
        used, self._used_keys = self._used_keys, {}
        with self._transaction() as db:
            db.executemany("UPDATE api_key SET used_at = ? WHERE id = ?", [(at, id_) for id_, at in used.items()])
            db.execute("DELETE FROM session WHERE created_at < ?", (now - SESSION_LONGEST,))
            db.execute("""
                UPDATE session SET created_at = min(created_at, :now), seen_at = min(seen_at, :now)
                 WHERE created_at >= :now - :longest AND max(created_at, seen_at) > :now
                """, {"now": now, "longest": SESSION_LONGEST})
            for project_id, in db.execute("""
                    SELECT id FROM project WHERE removed_at IS NOT NULL AND removed_at NOT BETWEEN ? AND ?
                    """, (now - TAKEN_BACK, now + TAKEN_BACK)).fetchall():
                self._remove_project(db, project_id)
            db.execute("""
                DELETE FROM attempt WHERE id IN (
                    SELECT id FROM attempt WHERE attempted_at < ? ORDER BY attempted_at LIMIT ?)
                """, (now - KEPT_FOR, at_most))
            db.execute("""
                DELETE FROM event WHERE id IN (
                    SELECT id FROM event
                     WHERE created_at < ?
                       AND NOT EXISTS (SELECT 1 FROM delivery
                                        WHERE event_id = event.id AND (state = 'pending' OR settled_at >= ?))
                     ORDER BY created_at LIMIT ?)
                """, (now - KEPT_FOR, now - KEPT_FOR, at_most))
            db.execute("""
                UPDATE delivery SET next_attempt_at = :now, queued_at = min(queued_at, :now)
                 WHERE state = 'pending' AND next_attempt_at > :now + 90000
                   AND (attempts > 0 OR digest_id IS NOT NULL OR created_at > :now + 90000
                        OR NOT (is_held OR is_digested))
                """, {"now": now})
            db.execute("UPDATE destination SET previous_secret = NULL, previous_until = NULL WHERE previous_until < ?",
                       (now,))

    def counts(self) -> dict[str, int]:
        """How much there is, for the metrics."""
        (row,) = self._rows("""
            SELECT (SELECT count(*) FROM account), (SELECT coalesce(sum(projects), 0) FROM project_count),
                   (SELECT count(*) FROM source), (SELECT count(*) FROM source WHERE error IS NOT NULL),
                   (SELECT count(*) FROM delivery WHERE state = 'pending')
            """)
        return dict(zip(("accounts", "projects", "sources", "failing_sources", "pending_deliveries"), row))


@contextlib.contextmanager
def renewing(renew: Callable[[], None]) -> Iterator[None]:
    """While it lasts, a claim is renewed in good time; for work outside the loops, which renew by themselves."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(LEASE / 3):
            with contextlib.suppress(StoreUnavailable):
                renew()

    thread = threading.Thread(target=run, name="releasetrack-renewal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


# == fetching ==================================================================
#
# All traffic out. One exchange has a total deadline and a budget of bytes, headers and interim
# answers included; it dials only addresses that were judged, and TLS is verified against the name.
# Redirects of notifications are never followed. A host is asked by few at once, and not before the
# time that it asked to wait for. Connections serve one exchange after the other, where more are
# expected soon: http.client keeps them alive, as urllib.request on top of it would not.


@dataclasses.dataclass(frozen=True)
class Terms:
    """What one exchange may take."""

    seconds: float
    most_bytes: int
    redirects: int


PROVIDER_TERMS = Terms(seconds=30, most_bytes=20 * MIB, redirects=5)
NOTIFICATION_TERMS = Terms(seconds=15, most_bytes=64 * KIB, redirects=0)
MAIL_TERMS = Terms(seconds=30, most_bytes=64 * KIB, redirects=0)
_CONNECT, _LOOKUP = 5.0, 3.0        # seconds for a TCP or TLS handshake, and for a name's addresses
_SLICE = 1.0                        # seconds after which a waiting exchange looks whether it shall stop
_HEADERS = 64 * KIB                 # on top of a body's bound
_PATIENCE = 5.0                     # seconds that a request waits for its turn at a host, before it is put off
_IDLE, _AGE, _MOST_IDLE = 2.0, 30.0, 64     # seconds that a connection may wait or serve, and how many may wait


@dataclasses.dataclass(frozen=True)
class HostLimit:
    """What a public host is asked at most: so many requests in so many seconds, and a project every so often."""

    requests: int
    seconds: float
    with_token: int = 0             # requests where ours carry a token; 0: no more
    every: float = 0.0              # least seconds between two checks of one project


# Well below what their documentation, or what was seen of them, allows. A host that is not here is the operator's
# own: it is asked by few at once, and its answers say when that is too much.
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
} | dict.fromkeys((
    "api.nuget.org", "fastapi.metacpan.org", "gcr.io", "ghcr.io", "git.exozy.me", "git.savannah.gnu.org", "git.sr.ht",
    "gitea.com", "github.com", "gitlab.freedesktop.org", "gitlab.gnome.org", "gitlab.xfce.org",
    "hackage.haskell.org", "index.crates.io", "invent.kde.org", "npm.pkg.github.com", "proxy.golang.org", "pub.dev",
    "public.ecr.aws", "quay.io", "registry.k8s.io", "repo.packagist.org", "repo1.maven.org", "salsa.debian.org",
), HostLimit(10, 5.0))

# Where home users' receivers live: for administrators, and for others where the operator allows it.
_PRIVATE = ("127.0.0.0/8", "::1", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
# Never: https://www.iana.org/assignments/iana-ipv4-special-registry and -ipv6-, what wraps an IPv4 address,
# and the metadata services of clouds. A list of our own, since ``is_global`` differs between Pythons.
_NEVER = (
    "0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
    "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "100.100.100.200", "168.63.129.16",
    "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16",
    "3fff::/20", "5f00::/16", "fe80::/10", "fec0::/10", "ff00::/8", "fd00:ec2::254")


def refusal(address: str, allowed: tuple[str, ...], is_trusted: bool) -> str | None:
    """Why nothing may be sent to an address, if so: names the rule, and the flag that would allow it.

    ``is_trusted``: private addresses are allowed, as they are to providers and to administrators' webhooks.
    """
    is_loopback6 = address == "::1"
    if parse_address(address) is None or in_networks(address, _NEVER) and not is_loopback6:
        return f"{address} is a link-local, metadata, reserved or wrapped address, which is never sent to"
    if in_networks(address, _PRIVATE) and not is_trusted and not in_networks(address, allowed):
        return (f"{address} is a private address, which is asked or sent to for administrators alone; "
                f"--allow-network {address} would allow it to every account")
    return None


_LOOKUPS = threading.BoundedSemaphore(64)


def _look_up(host: str, port: int) -> list[str]:
    """The addresses of a host, each once. Raises Unreachable, after ``_LOOKUP`` seconds at the latest.

    getaddrinfo knows no timeout, so a thread waits for it and is left behind; there are never many.
    """
    with contextlib.suppress(OSError, UnicodeError):    # every spelling of a number, without a name server
        return list(dict.fromkeys(str(entry[4][0]) for entry in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)))
    if not _LOOKUPS.acquire(timeout=_LOOKUP):
        raise Unreachable(f"the address of {host} could not be looked up: the name servers do not answer")
    answers: queue.SimpleQueue[list[str] | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put(list(dict.fromkeys(str(entry[4][0]) for entry in entries)))
        except (OSError, UnicodeError) as error:
            answers.put(error)
        finally:
            _LOOKUPS.release()

    threading.Thread(target=ask, name="releasetrack-lookup", daemon=True).start()
    try:
        found = answers.get(timeout=_LOOKUP)
    except queue.Empty:
        raise Unreachable(f"the address of {host} could not be looked up within {_LOOKUP:g} s") from None
    if isinstance(found, Exception):
        raise Unreachable(f"the name {host} has no address ({getattr(found, 'strerror', None) or found})")
    return found


class _Exchange:
    """One request's remaining time and bytes, and who may be dialled. Raises Unreachable when either is spent."""

    def __init__(self, terms: Terms, judge: Callable[[str], str | None], stopping: threading.Event) -> None:
        self.terms = terms
        self.judge = judge
        self.address: str | None = None
        self.received = 0               # bytes
        self._most = terms.most_bytes + _HEADERS * (terms.redirects > 0)
        self._stopping = stopping
        self._end = time.monotonic() + terms.seconds

    def left(self, at_most: float = _SLICE) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise Unreachable(f"it took longer than {self.terms.seconds:g} s")
        if self._stopping.is_set():
            raise Stopped("the program is being stopped")
        return min(left, at_most)

    def spend(self, count: int) -> None:
        self.received += count
        if self.received > self._most:
            raise Unreachable(f"its answer is larger than {self.terms.most_bytes // KIB} KiB")

    def dial(self, host: str, port: int) -> socket.socket:
        """A connection to one of the host's addresses; none is dialled if any of them may not be."""
        if not 0 < port < 65536:
            raise Unreachable(f"{port} is no port")
        self.left()
        addresses = _look_up(host, port)
        for address in addresses:
            if reason := self.judge(address):
                raise Unreachable(reason)
        failure: OSError | None = None
        for address in addresses:
            try:
                connection = socket.create_connection((address, port), timeout=self.left(_CONNECT))
            except OSError as error:
                failure = error
            else:
                self.address = address
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connection
        raise failure or Unreachable(f"the name {host} has no address")


class _Wire(io.RawIOBase):
    """A socket, used within the time and bytes of the exchange that it serves; it serves one after the other, or
    none meanwhile. What is written goes out, as one, when an answer to it is awaited."""

    def __init__(self, raw: socket.socket, exchange: _Exchange) -> None:
        self.raw = raw
        self.exchange: _Exchange | None = exchange
        self.is_ended = False           # by who is at the other end
        self._unsent = b""
        self._timeout = -1.0            # that the raw one was told last, and need not be told again

    def _set_timeout(self) -> None:
        timeout = self.exchange.left() if self.exchange else 0.0
        if timeout != self._timeout:
            self.raw.settimeout(timeout)
            self._timeout = timeout

    def readable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._unsent += data
        return len(data)

    def readinto(self, buffer: Any) -> int | None:
        rest, self._unsent = memoryview(self._unsent), b""
        while rest:
            self._set_timeout()
            with contextlib.suppress(TimeoutError):
                rest = rest[self.raw.send(rest):]
        while True:
            self._set_timeout()
            try:
                count = self.raw.recv_into(buffer)
            except TimeoutError:
                continue
            except (BlockingIOError, ssl.SSLWantReadError):     # while it serves none
                return None
            if self.exchange:
                self.exchange.spend(count)
            self.is_ended = not count
            return count


class _Stream(io.BufferedReader):
    """What one answer after the other is read from, though http.client closes it after each."""

    def close(self) -> None:
        pass


class _Socket:
    """What http.client and smtplib need of a socket."""

    def __init__(self, raw: socket.socket, exchange: _Exchange) -> None:
        self.wire = _Wire(raw, exchange)
        self._stream = _Stream(self.wire)

    def makefile(self, mode: str) -> io.BufferedReader:
        return self._stream

    def sendall(self, data: bytes) -> None:
        self.wire.write(data)

    def is_silent(self) -> bool:
        """Whether, while it serves no exchange, nothing came unasked, its end included."""
        try:
            return not self._stream.peek(1) and not self.wire.is_ended
        except OSError:
            return False

    def close(self) -> None:
        self.wire.raw.close()


class _Connection(http.client.HTTPConnection):
    """A connection to a host, or to a proxy for it; with ``tls``, verified against the name that was asked for.

    ``place`` is whose requests it can serve. ``end`` closes it.
    """

    def __init__(self, place: tuple[Any, ...], dialled: str, tls: ssl.SSLContext | None) -> None:
        self.default_port = 443 if tls else 80      # type: ignore[misc]
        super().__init__(dialled)
        self.place = place
        self.began_at = self.idle_since = time.monotonic()
        self._tls, self._address = tls, ""
        self._exchange: _Exchange | None = None
        self._opened: _Socket | None = None

    def serve(self, exchange: _Exchange | None) -> None:
        """Keep to this exchange from now on; serve none, and let go of the last."""
        self._exchange = exchange
        if self._opened:
            self._opened.wire.exchange = exchange
        if self._opened and exchange:
            exchange.address = self._address

    def connect(self) -> None:
        exchange = self._exchange
        assert exchange
        raw = exchange.dial(self.host, self.port)
        try:
            if self._tunnel_host:       # type: ignore[attr-defined]
                self.sock = _Socket(raw, exchange)
                self._tunnel()          # type: ignore[attr-defined]
            if self._tls:
                raw.settimeout(exchange.left(_CONNECT))
                name = self._tunnel_host or self.host       # type: ignore[attr-defined]
                raw = self._tls.wrap_socket(raw, server_hostname=name)
        except BaseException:
            raw.close()
            raise
        self.sock = self._opened = _Socket(raw, exchange)
        self._address = exchange.address or ""

    def close(self) -> None:
        """As http.client calls it once an answer's head says that it is the last: its body is still to be read."""
        self.sock = None
        super().close()

    def end(self) -> None:
        self.close()
        if self._opened:
            self._opened.close()

    def is_fit(self, judge: Callable[[str], str | None]) -> bool:
        """Whether, after it was idle, it may serve an exchange that may dial what ``judge`` allows."""
        now = time.monotonic()
        return (now - self.idle_since < _IDLE and now - self.began_at < _AGE and not judge(self._address)
                and self._opened is not None and self._opened.is_silent())


class _Idle:
    """Connections that wait for another request; they end with it. A process that was forked leaves them to the one
    that opened them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: list[_Connection] = []       # those that came last are last

    def take(self, place: tuple[Any, ...], judge: Callable[[str], str | None]) -> _Connection | None:
        """One that serves the place, if any waits."""
        while True:
            with self._lock:
                at = next((at for at in reversed(range(len(self._connections)))
                           if self._connections[at].place == place), None)
                found = None if at is None else self._connections.pop(at)
            if not found or found.is_fit(judge):
                return found
            found.end()

    def give(self, connection: _Connection) -> None:
        connection.serve(None)
        connection.idle_since = time.monotonic()
        with self._lock:
            self._connections.append(connection)
            surplus = self._connections.pop(0) if len(self._connections) > _MOST_IDLE else None
        if surplus:
            surplus.end()

    def close(self, older_than: float = 0.0) -> None:
        """Close those that have waited for so many seconds."""
        now = time.monotonic()
        with self._lock:
            waiting = self._connections
            self._connections = [one for one in waiting if now - one.idle_since < older_than]
            ended = [one for one in waiting if now - one.idle_since >= older_than]
        for one in ended:
            one.end()

    def __del__(self) -> None:
        self.close()


class _MailConnection(smtplib.SMTP):
    """A conversation with a mail server that keeps to its exchange."""

    def __init__(self, exchange: _Exchange, tls: ssl.SSLContext, is_wrapped: bool) -> None:
        # The name that it greets with is not looked up: that may take half a minute.
        name = socket.gethostname()
        super().__init__(local_hostname=name if "." in name else "[127.0.0.1]")
        self._exchange, self._tls, self._is_wrapped = exchange, tls, is_wrapped

    def _get_socket(self, host: str, port: int, timeout: Any) -> Any:
        """As smtplib calls it to connect."""
        self._name = host
        raw = self._exchange.dial(host, port)
        return self.wrap_socket(_Socket(raw, self._exchange)) if self._is_wrapped else _Socket(raw, self._exchange)

    def log_in(self, user: str, password: str) -> None:
        """As smtplib does it, but UTF-8 where it knows ASCII alone: https://www.rfc-editor.org/rfc/rfc4616#section-2"""
        if f"{user}{password}".isascii():
            self.login(user, password)
            return
        self.ehlo_or_helo_if_needed()
        code, words = self.docmd("AUTH", "PLAIN " + base64.b64encode(f"\0{user}\0{password}".encode()).decode())
        if code != 235:
            raise smtplib.SMTPAuthenticationError(code, words)

    def give(self, mail: Mail, with_starttls: bool, login: tuple[str, str] | None) -> tuple[int, bytes]:
        """The server's last word on a message. Raises SMTPResponseException for any other than a step should get."""
        self.ehlo_or_helo_if_needed()
        if with_starttls:
            self.starttls(context=self)         # type: ignore[call-overload]
            self.ehlo_or_helo_if_needed()       # it has forgotten who we are: RFC 3207, part 4.2
        if login:
            self.log_in(*login)
        for say, address, codes in ((self.mail, mail.sender, (250,)), (self.rcpt, mail.recipient, (250, 251))):
            code, words = say(address)
            if code not in codes:
                raise smtplib.SMTPResponseException(code, words)
        return self.data(mail.content)

    def wrap_socket(self, plain: _Socket, server_hostname: str = "") -> _Socket:
        """As ``starttls`` calls it of its context, which would not know our socket."""
        try:
            plain.wire.raw.settimeout(self._exchange.left(_CONNECT))
            return _Socket(self._tls.wrap_socket(plain.wire.raw, server_hostname=self._name), self._exchange)
        except BaseException:
            plain.close()
            raise


# What a token stands in, and so goes to no other host.
SECRET_HEADERS = frozenset(("authorization", "private-token", "x-api-key-id", "x-api-key-secret"))


def host_of(url: str) -> str:
    return urlsplit(url).netloc.lower()


def _fault(error: Exception) -> str:
    """A failed exchange in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, ConnectionRefusedError):
        return "it refused the connection"
    if isinstance(error, TimeoutError):
        return "it did not take the connection in time"
    if isinstance(error, http.client.RemoteDisconnected):
        return "it closed the connection without an answer"
    if isinstance(error, http.client.IncompleteRead):
        return "its answer ended early"
    if isinstance(error, http.client.HTTPException):
        return f"its answer is no HTTP ({type(error).__name__})"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def requests_left(headers: Mapping[str, str]) -> int | None:
    """The requests that an answer says are left to us; None where it does not say."""
    left = headers.get("x-ratelimit-remaining") or headers.get("ratelimit-remaining") or ""
    return int(left) if re.fullmatch(r"[0-9]{1,12}", left) else None


def asked_wait(headers: Mapping[str, str]) -> float:
    """Seconds that an answer asks to wait, 0 when it does not say.

    A reset is given as seconds since the epoch (GitHub, GitLab) or from now; the Date header says when now is.
    """
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
    """How a host is treated: how many ask it at once, how often, and when it may be asked again."""

    def __init__(self, name: str, at_once: int) -> None:
        limit = HOST_LIMITS.get(name)
        self.slots = threading.BoundedSemaphore(at_once)
        self.free_at = 0.0
        self.paces = (Pace(limit.requests, limit.seconds),
                      Pace(limit.with_token or limit.requests, limit.seconds)) if limit else None


def _check_url(url: str) -> None:
    """Raise Unreachable for what is no web address."""
    try:
        ascii_url(url)
    except ValueError as error:
        raise Unreachable(f"{error}") from None


def _headers(response: http.client.HTTPResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        name = name.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _read_body(response: http.client.HTTPResponse, exchange: _Exchange, request: Request) -> bytes:
    """The whole body, gzip undone within the same bound. Raises ValueError when it is cut short."""
    limit = exchange.terms.most_bytes
    body = bytearray()
    while chunk := response.read(64 * KIB):
        body += chunk
    if response.length and request.method != "HEAD":    # http.client says nothing when a bounded read ends early
        raise ValueError("its answer ended early")
    if response.headers.get("Content-Encoding", "").lower() not in ("gzip", "x-gzip"):
        return bytes(body)
    try:
        unpacker = zlib.decompressobj(31)
        plain = unpacker.decompress(bytes(body), limit + 1)
        # Members may follow each other: https://www.rfc-editor.org/rfc/rfc1952#page-5
        while unpacker.eof and unpacker.unused_data and len(plain) <= limit:
            rest, unpacker = unpacker.unused_data, zlib.decompressobj(31)
            plain += unpacker.decompress(rest, limit + 1 - len(plain))
    except zlib.error as error:
        raise ValueError(f"its answer is no gzip ({error})") from None
    if len(plain) > limit:
        raise ValueError(f"its answer is larger than {limit // KIB} KiB")
    if body and not unpacker.eof:
        raise ValueError("its answer ended early")
    return plain


def _login_of(url: str) -> tuple[str, str] | None:
    """User and password of an address that has any."""
    parts = urlsplit(url)
    return None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))


def _without(words: str, login: tuple[str, str] | None) -> str:
    """The words without the password of the mail server or the proxy, which it may have echoed. A very short one
    stands in words that have nothing to do with it."""
    if not login or not login[1]:
        return words
    pairs = (f"\0{login[0]}\0{login[1]}", f"{login[0]}:{login[1]}")
    for text in (*pairs, login[1]) if len(login[1]) > 5 else pairs:
        for form in (base64.b64encode(text.encode("utf-8", "replace")).decode(), quote(text, safe=""), text):
            words = words.replace(form, "***")
    return words


class Fetcher:
    """Sends requests of providers and of notifications. Shared by all threads."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self.stopping = threading.Event()
        self._clock = clock
        self._allowed = settings.allow_network
        self._host_limit = settings.host_limit
        contact = f"; {settings.contact}" if settings.contact else ""
        self._agent = f"{USER_AGENT} (self-hosted release tracker{contact})"
        self._hosts: dict[str, _Host] = {}
        self._skews: deque[tuple[str, float]] = deque(maxlen=100)       # host, seconds that its clock is ahead of ours
        self._lock = threading.Lock()
        self._mail_server = settings.smtp_url
        self._idle = _Idle()
        # For all hosts: those that no_proxy in the environment leaves out nobody has judged.
        proxy = urlsplit(settings.outgoing_proxy)
        self._proxy = proxy.netloc.rpartition("@")[2].rstrip(":") + ("" if proxy.port or not proxy.netloc else ":80")
        self._proxy_login = _login_of(settings.outgoing_proxy)
        self._proxy_headers = {"Proxy-Authorization": "Basic " + base64.b64encode(
            ":".join(self._proxy_login).encode()).decode()} if self._proxy_login else {}

    @functools.cached_property
    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if not context.cert_store_stats()["x509_ca"] and not context.get_ca_certs():
            log.warning("certificates: this machine has none to trust, so no https address can be reached")
        return context

    def _tls(self) -> ssl.SSLContext:
        with self._lock:        # made once: reading the certificates takes 20 ms
            return self._context

    def check_certificates(self) -> None:
        """Warn at start, not at the first delivery, when there is no certificate to trust."""
        try:
            self._tls()
        except OSError as error:
            log.warning("certificates: they cannot be read, so no https address can be reached: %s", error)

    def fetch(self, request: Request, is_trusted: bool = True) -> Answer:
        """What a provider answers, redirects followed and gzip undone. Raises Unreachable, Throttled.

        ``is_trusted``: who wants it may also reach private addresses that a user chose.
        """
        _check_url(request.url)
        host = self._host(host_of(request.url))
        wait = host.free_at - self._clock()
        if 0 < wait <= DAY:         # a longer one was asked for before the clock was set back
            raise Throttled(f"{host_of(request.url)} asked to wait until {timestamp(host.free_at)}", wait)
        if not host.slots.acquire(timeout=PROVIDER_TERMS.seconds):
            raise Unreachable(f"{host_of(request.url)} is busy with earlier requests of ours")
        try:
            self._await_turn(host, request)
            exchange = self._exchange(PROVIDER_TERMS, is_trusted=is_trusted or not request.is_guarded)
            headers = {"User-Agent": self._agent, "Accept-Encoding": "gzip"}
            request = dataclasses.replace(request, headers=headers | dict(request.headers), is_repeatable=True,
                                          is_followed=True)
            answer = self._follow(request, exchange, is_trusted)
        finally:
            host.slots.release()
        with contextlib.suppress(ValueError, OverflowError):        # it gives no date, or none that can be read
            told_at = email.utils.parsedate_to_datetime(answer.headers.get("date", "")).timestamp()
            self._skews.append((host_of(answer.url), told_at - self._clock()))
        return self._heed(request, answer)

    def clock_skew(self) -> float | None:
        """Seconds that the clocks of the hosts asked last are ahead of ours: the middle one, since one may be wrong.
        None before any has told."""
        skews = sorted(dict(list(self._skews)).values())
        return skews[len(skews) // 2] if skews else None

    def _await_turn(self, host: _Host, request: Request) -> None:
        """Wait until the host's limit lets another request go; raise Throttled where that is far off."""
        if not host.paces:
            return
        pace = host.paces[any(name.lower() in SECRET_HEADERS for name in request.headers)]
        end = time.monotonic() + _PATIENCE
        while wait := pace.take(time.monotonic()):
            if time.monotonic() + wait > end:
                until = timestamp(self._clock() + wait)
                raise Throttled(f"{host_of(request.url)} is asked {pace}; there is room again at {until}", wait)
            if self.stopping.wait(wait):
                raise Stopped("the program is being stopped")

    def post(self, request: Request | Mail, is_trusted: bool) -> Answer:
        """What a receiver answers to a notification, with the beginning of its body. Raises Unreachable."""
        if isinstance(request, Mail):
            return self._mail(request)
        exchange = self._exchange(NOTIFICATION_TERMS, is_trusted)
        _check_url(request.url)
        self._judge_behind_proxy(request.url, is_trusted)
        with self._open(request, exchange) as response:
            body = b""
            try:
                said = response.read(request.reads).decode("utf-8", "surrogateescape")
                body = _without(said, self._proxy_login).encode("utf-8", "surrogateescape")
            except (Unreachable, OSError, http.client.HTTPException, ValueError):
                response.will_close = True      # who knows what is still to come
            return Answer(request.url, response.status, _headers(response), body, request.url, exchange.address)

    def _mail(self, mail: Mail) -> Answer:
        """The mail server's last word on a message. Raises Unreachable.

        The server is the operator's choice, so it may be anywhere; TLS is never left out where it was asked for.
        """
        if not self._mail_server:
            raise Unreachable("there is no mail server; --smtp-url names one")
        url = urlsplit(self._mail_server)
        login = _login_of(self._mail_server)
        exchange, is_taken = self._exchange(MAIL_TERMS, is_trusted=True), False
        try:
            server = _MailConnection(exchange, self._tls(), is_wrapped=url.scheme == "smtps")
            with contextlib.closing(server):
                try:
                    code, words = server.connect(
                        url.hostname or "", url.port or {"smtp": 25, "smtps": 465}.get(url.scheme, 587))
                    if code == 220:
                        code, words = server.give(mail, url.scheme == "smtp+starttls", login)
                        is_taken = code == 250
                except smtplib.SMTPResponseException as error:
                    code, words = error.smtp_code, error.smtp_error if isinstance(error.smtp_error, bytes) else b""
                with contextlib.suppress(OSError, Unreachable):
                    server.quit()
        except (OSError, ValueError) as error:
            raise Unreachable(_without(_fault(error), login)) from error
        said = _without(words.decode("utf-8", "replace"), login)
        if not 200 <= code < 600:
            raise Unreachable(f"what answers there does not speak SMTP: {said[:100]!r}")
        if not is_taken and code < 400:
            raise Unreachable(f"it answered {code} out of turn: {said[:100]!r}")
        return Answer("", code, {}, said.encode(), address=exchange.address)

    def refusal_of(self, url: str, is_trusted: bool) -> str | None:
        """Why a notification may not go to a URL, as far as its name resolves now."""
        try:
            addresses = _look_up(urlsplit(url).hostname or "", urlsplit(url).port or 80)
        except Unreachable:
            return None     # it may resolve when it is needed; judged again then
        reasons = [refusal(address, self._allowed, is_trusted) for address in addresses]
        return next(filter(None, reasons), None)

    def _heed(self, request: Request, answer: Answer) -> Answer:
        """The answer, unless the host asks for patience; then, and when its quota is spent, nobody asks it."""
        is_spent = "0" in (answer.headers.get("x-ratelimit-remaining"), answer.headers.get("ratelimit-remaining"))
        is_refused = answer.status == 429 or answer.status in (403, 503) and "retry-after" in answer.headers or (
            answer.status == 403 and is_spent)
        if is_refused or is_spent and asked_wait(answer.headers):
            wait = min(max(asked_wait(answer.headers), MINUTE), DAY)
            host = self._host(host_of(request.url))
            now = self._clock()
            host.free_at = max(now + wait, host.free_at if host.free_at <= now + DAY else 0.0)
            if is_refused:
                raise Throttled(f"{host_of(request.url)} is busy or its quota is spent (status {answer.status}); "
                                f"it is asked again at {timestamp(host.free_at)}", wait,
                                requests_left(answer.headers))
        return answer

    def _judge_behind_proxy(self, url: str, is_trusted: bool) -> None:
        """A proxy resolves names by itself, but an address that is spelled out can be judged here."""
        host = urlsplit(ascii_url(url)).hostname or ""
        if self._proxy and (parse_address(host) or re.fullmatch(r"[0-9a-fx.]+", host)):
            if reason := self.refusal_of(url, is_trusted):
                raise Unreachable(reason)

    def _exchange(self, terms: Terms, is_trusted: bool) -> _Exchange:
        # With a proxy it is the proxy that is dialled, and the operator chose it.
        def judge(address: str) -> str | None:
            return refusal(address, self._allowed, is_trusted or bool(self._proxy))
        return _Exchange(terms, judge, self.stopping)

    def _host(self, name: str) -> _Host:
        with self._lock:
            if name not in self._hosts:
                self._hosts[name] = _Host(name, self._host_limit)
            return self._hosts[name]

    def _follow(self, request: Request, exchange: _Exchange, is_trusted: bool) -> Answer:
        asked = request.url
        for _ in range(exchange.terms.redirects + 1):
            if request.is_guarded:
                self._judge_behind_proxy(request.url, is_trusted)
            with self._open(request, exchange) as response:
                target = response.headers.get("Location")
                if response.status not in (301, 302, 303, 307, 308) or not target or request.method == "POST":
                    return Answer(request.url, response.status, _headers(response),
                                  _read_body(response, exchange, request), asked, exchange.address)
            try:
                url = urljoin(request.url, target)
                _ = urlsplit(url).port
            except ValueError:
                raise Unreachable("it redirected to what is no web address") from None
            if urlsplit(url).scheme not in ("http", "https") or urlsplit(url).username is not None:
                raise Unreachable("it redirected to what is no web address")
            headers = dict(request.headers)
            if urlsplit(url)[:2] != urlsplit(request.url)[:2]:
                headers = {name: value for name, value in headers.items()
                           if name.lower() not in SECRET_HEADERS}
            request = dataclasses.replace(request, url=url, headers=headers)
        raise Unreachable(f"it redirected more than {exchange.terms.redirects} times")

    @contextlib.contextmanager
    def _open(self, request: Request, exchange: _Exchange) -> Iterator[http.client.HTTPResponse]:
        """The answer's head. Raises Unreachable for every way in which none comes, there or in the body."""
        # Where notifications are posted to, the path may be the secret.
        log.debug("request %s %s", request.method,
                  request.url.partition("?")[0] if request.method in ("GET", "HEAD") else host_of(request.url))
        connection: _Connection | None = None
        try:
            connection, response = self._ask(request, exchange)
            with contextlib.closing(response):
                yield response
                is_read = response.isclosed() and response.status >= 200    # behind an interim answer comes another
            if request.is_followed and is_read and not response.will_close:
                self._idle.give(connection)
                connection = None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unreachable(_fault(error)) from error
        finally:
            if connection:
                connection.end()

    def _ask(self, request: Request, exchange: _Exchange) -> tuple[_Connection, http.client.HTTPResponse]:
        """A request's answer, and the connection that it is to be read from."""
        url = ascii_url(request.url)
        scheme, netloc, path, query, _ = urlsplit(url)
        place = (scheme, netloc, os.getpid())
        target = f"{path or '/'}{query and '?'}{query}"
        headers = {name: value for name, value in request.headers.items() if not name.lower().startswith("proxy-")}
        if self._proxy and scheme == "http":
            target = url
            headers |= self._proxy_headers
        if not request.is_followed:
            headers["Connection"] = "close"
        while True:
            kept = self._idle.take(place, exchange.judge) if request.is_repeatable else None
            connection = kept or self._connection(place)
            connection.serve(exchange)
            received = exchange.received
            try:
                connection.request(request.method, target, request.body, headers)
                response = connection.getresponse()
            except BaseException as error:
                connection.end()
                # A server may end what is idle at any time, without having read what came meanwhile.
                if not (kept and exchange.received == received
                        and isinstance(error, (ConnectionError, ssl.SSLEOFError))):
                    raise
                continue
            if kept and response.status in (400, 408, 501):     # of one that has waited for too long, or has not read
                response.close()                                # the last body, which it takes for this request now
                connection.end()
                continue
            if response.status in (204, 304) and response.chunked:      # http.client would wait for a chunk
                response.chunked, response.will_close = False, True     # type: ignore[assignment]
            return connection, response

    def _connection(self, place: tuple[Any, ...]) -> _Connection:
        """A new one to a place."""
        scheme, netloc, _ = place
        connection = _Connection(place, self._proxy or netloc, self._tls() if scheme == "https" else None)
        if self._proxy and scheme == "https":
            connection.set_tunnel(netloc, headers=self._proxy_headers)
        return connection

    def close_idle(self, older_than: float = 0.0) -> None:
        """Close the connections that have waited for another request for so many seconds."""
        self._idle.close(older_than)


# == providers =================================================================
#
# Where projects are released. A provider is a row; the protocol that it speaks is a dialect: a
# generator that yields requests, is sent the answers and returns what it found. Nothing here opens
# a socket or looks at a clock, so recorded answers test it whole.


@dataclasses.dataclass(frozen=True)
class Subject:
    """What a dialect is asked about."""

    provider: str                   # id
    site: str                       # the provider's address, without a slash at its end
    name: str
    token: str | None
    known: Mapping[str, Any]        # version -> what is known of it (evidence, fingerprint), newest first
    auth: Mapping[str, str] = dataclasses.field(default_factory=dict)       # the headers that hold the token


@dataclasses.dataclass(frozen=True)
class Listing:
    """What a provider has of a project."""

    releases: Sequence[Release]
    vouched: Answer | None = None   # the answer whose 304 next time will mean that nothing is new
    is_window: bool = False         # only the newest: what is older than all that is known is no news
    name: str | None = None         # what the project is called there now, where that is another name


Steps = Generator[Request, Answer, Any]
_UNAVAILABLE = (403, 404)           # of one list of a project that may have another


def _storable(text: str) -> str:
    """The text without halves of surrogates, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()


def released(version: Any, date: str | None = None, *, title: str | None = None, message: str | None = None,
             url: str = "", is_prerelease: bool = False, evidence: str | None = None, original: str = "") -> Release:
    """A release as a dialect read it. Raises TypeError, ValueError for what is none."""
    if not isinstance(version, str):
        raise TypeError(f"a version is {version!r:.40}, not text")
    message = _storable(message or "")[:NOTE_LIMIT]
    title = _storable(title or "").strip()[:NAME_LIMIT] or version
    note = Note(title, message, url, original) if message.strip() else None
    return Release(version, utc(date), bool(is_prerelease), cves_in(title, message), note, evidence)


def _mark(kind: str, value: Any) -> str | None:
    """Evidence of a release's content, if there is any."""
    return _storable(f"{kind}:{value}"[:100]) if value else None


def _next_page(answer: Answer) -> str | None:
    """The address of the next page by the Link header (RFC 8288), always at the place that was asked, for a token
    goes there alone: where a host thinks that it is elsewhere, its query is put to the address that was asked."""
    asked = urlsplit(answer.asked or answer.url)
    for link in re.finditer(r"<([^<>]*)>([^<]*)", answer.headers.get("link", "")):
        if re.search(r";\s*rel=\"?next\b", link[2], re.IGNORECASE):
            url = urlsplit(urljoin(answer.url, link[1]))
            if url[:2] == asked[:2] == urlsplit(answer.url)[:2]:
                return url.geturl()
            if url.path.rpartition("/")[2] == asked.path.rpartition("/")[2]:
                return asked._replace(query=url.query).geturl()
    return None


def _pages(request: Request, entries_of: Callable[[Answer], list[Any]], is_old: Callable[[Any], bool],
           most_pages: int = 10, next_of: Callable[[Answer], str | None] = _next_page) -> Steps:
    """``(first answer, entries)`` of page after page, newest first, up to the first page of which all is old."""
    first = answer = yield request
    entries = page = list(entries_of(answer))
    for _ in range(most_pages - 1):
        url = next_of(answer)
        if answer.status != 200 or not url or page and all(map(is_old, page)):
            break
        answer = yield dataclasses.replace(request, url=url)
        page = entries_of(answer)
        entries = [*entries, *page]
    return first, entries


def _name_now(answer: Answer, tail: str, field: str, headers: Mapping[str, str]) -> Steps:
    """What a project is called that its host redirects to another address of its own; None for one that it does
    not. ``tail``: what follows the project in the address of ``answer``."""
    if answer.url == answer.asked or urlsplit(answer.url)[:2] != urlsplit(answer.asked)[:2]:
        return None
    about = yield Request(answer.url.partition(tail)[0], headers, passes=_UNAVAILABLE)
    name = about.json().get(field) if about.status == 200 else None
    return name if isinstance(name, str) else None


def _passes_after(releases: Answer) -> Collection[int]:
    """What may be answered to a question for tags: where there is a list of releases, though empty, anything."""
    return _UNAVAILABLE if releases.status == 200 else ()


def _has_published(subject: Subject) -> bool:
    """Whether the project is known to have releases, so that what keeps us from their list does not make plain
    tags news."""
    return any((getattr(about, "evidence", None) or "").startswith("published:") for about in subject.known.values())


def _list(value: Any) -> list[Any]:
    """The value, which must be a list: a dictionary could be walked as well, and an empty one would be no error."""
    if not isinstance(value, list):
        raise ValueError(f"it answered no list but {type(value).__name__}")
    return value


def _json_list(answer: Answer) -> list[Any]:
    """The entries of an answer that is one JSON array; none of one that is not there."""
    return [] if answer.status in _UNAVAILABLE else _list(answer.json())


def _github_feed(subject: Subject) -> Steps:
    """The ten newest of releases.atom, in which tags without a release stand too; tags.atom if it is empty."""
    namespace = {"a": "http://www.w3.org/2005/Atom"}
    for feed in ("releases", "tags"):
        answer = yield Request(f"{subject.site}/{subject.name}/{feed}.atom", {"Accept": "application/atom+xml"})
        if answer.xml().tag != "{http://www.w3.org/2005/Atom}feed":
            raise ValueError("it answered no Atom feed")
        entries = []
        for entry in answer.xml().findall("a:entry", namespace):
            link = entry.find("a:link", namespace)
            url = link.get("href", "") if link is not None else ""
            tag = re.search(r"/(?:releases/tag|tree)/(.+)", urlsplit(url).path)
            version = unquote(tag[1]) if tag else entry.findtext("a:id", "", namespace).split("/", 2)[-1]
            entries.append(released(version, entry.findtext("a:updated", None, namespace), url=url,
                                    title=entry.findtext("a:title", "", namespace),
                                    message=entry.findtext("a:content", "", namespace)))
        if entries:
            break
    moved = answer.url.removeprefix(f"{subject.site}/").removesuffix(f"/{feed}.atom")
    return Listing(entries, answer, is_window=True, name=moved if answer.url.startswith(subject.site) else None)


def _github_api(site: str) -> tuple[str, str]:
    """Where GitHub, or an enterprise server, takes REST and GraphQL."""
    if site == "https://github.com":
        return "https://api.github.com", "https://api.github.com/graphql"
    return f"{site}/api/v3", f"{site}/api/graphql"


def _github_query(site: str, auth: Mapping[str, str], names: Sequence[str], wanted: str) -> Request:
    """https://docs.github.com/en/graphql/reference/repos#repository: the repositories as ``r0``, ``r1``, ..."""
    parts = []
    for at, (owner, _, name) in enumerate(name.partition("/") for name in names):
        parts.append(f"r{at}: repository(owner: {json.dumps(owner)}, name: {json.dumps(name)}) {{ ...wanted }}")
    query = f"query {{ {' '.join(parts)} }} fragment wanted on Repository {{ {wanted} }}"
    headers = {**auth, "Content-Type": "application/json"}
    return Request(_github_api(site)[1], headers, "POST", json.dumps({"query": query}).encode(),
                   passes=range(400, 600))


def _github_found(answer: Answer) -> dict[str, Any]:
    """What a query found; nothing where GraphQL is not to be had."""
    with contextlib.suppress(ValueError):
        whole = answer.json()
        if isinstance(whole, dict) and isinstance(whole.get("data"), dict):
            return whole["data"]
    return {}


def github_marks(site: str, auth: Mapping[str, str], names: Sequence[str]) -> Steps:
    """For each repository a mark that is another one once anything was released there; in one query.

    In REST's place: that counts downloads into its ETag, so that popular projects always seem changed.
    """
    answer = yield _github_query(site, auth, names, """
        nameWithOwner
        releases(first: 30, orderBy: {field: CREATED_AT, direction: DESC}) {
          totalCount nodes { tagName name publishedAt updatedAt isDraft isPrerelease } }
        refs(refPrefix: "refs/tags/", first: 30, orderBy: {field: TAG_COMMIT_DATE, direction: DESC}) {
          totalCount nodes { name target { oid } } }""")
    found = _github_found(answer)
    return {name: hashlib.sha256(json.dumps(found[f"r{at}"], sort_keys=True).encode()).hexdigest()
            for at, name in enumerate(names) if found.get(f"r{at}")}


def _github_tag_dates(subject: Subject) -> Steps:
    """The dates of the 100 youngest tags, which REST does not tell; none where GraphQL is not to be had."""
    answer = yield _github_query(subject.site, subject.auth, [subject.name], """
        refs(refPrefix: "refs/tags/", first: 100, orderBy: {field: TAG_COMMIT_DATE, direction: DESC}) {
          nodes { name target { ... on Commit { committedDate }
                                ... on Tag { tagger { date } target { ... on Commit { committedDate } } } } } }""")
    found = _github_found(answer).get("r0")
    return {node["name"]: (target.get("tagger") or {}).get("date") or target.get("committedDate")
            or (target.get("target") or {}).get("committedDate")
            for node in (found["refs"]["nodes"] if found else ()) if (target := node["target"])}


def github(subject: Subject) -> Steps:
    """https://docs.github.com/en/rest/releases/releases; without a token the feeds, which have no quota."""
    if not subject.token:
        return (yield from _github_feed(subject))
    at = _github_api(subject.site)[0]
    headers = {**subject.auth, "Accept": "application/vnd.github.html+json", "X-GitHub-Api-Version": "2022-11-28"}
    size = 30 if subject.known else 100
    request = Request(f"{at}/repos/{subject.name}/releases?per_page={size}", headers, passes=(404,))
    first, entries = yield from _pages(request, _json_list, lambda entry: entry["tag_name"] in subject.known)
    moved = yield from _name_now(first, "/releases?", "full_name", headers)
    if entries:
        return Listing([
            released(entry["tag_name"], entry["published_at"], title=entry["name"],
                     message=entry.get("body_html") or preformatted(entry.get("body") or ""),
                     url=entry["html_url"], is_prerelease=entry["prerelease"],
                     evidence=_mark("published", entry["published_at"]))
            for entry in entries if not entry["draft"]], first, is_window=True, name=moved)
    # In no order that is documented, so that every page is read, and the first alone vouches for nothing.
    request = Request(f"{at}/repos/{subject.name}/tags?per_page=100", headers, passes=_passes_after(first))
    first, entries = yield from _pages(request, _json_list, lambda entry: False)
    is_new = any(entry["name"] not in subject.known for entry in entries)
    dates = (yield from _github_tag_dates(subject)) if is_new else {}
    return Listing([
        released(entry["name"], dates.get(entry["name"]), evidence=_mark("commit", entry["commit"]["sha"]))
        for entry in entries], first if len(entries) < 100 else None, name=moved)


def gitlab(subject: Subject) -> Steps:
    """https://docs.gitlab.com/api/releases/; the path of a project is one encoded segment. Tags where there are
    no releases: https://docs.gitlab.com/api/tags/"""
    at = f"{subject.site}/api/v4/projects/{quote(subject.name, safe='')}"
    request = Request(f"{at}/releases?per_page=100&order_by=released_at&sort=desc&include_html_description=true",
                      subject.auth, passes=_UNAVAILABLE)
    first, entries = yield from _pages(request, _json_list, lambda entry: entry["tag_name"] in subject.known)
    if first.status == 403 and _has_published(subject):     # its tags would all be news
        raise ProviderError(f"{subject.provider} does not show the releases of {subject.name} any more (status 403)")
    moved = yield from _name_now(first, "/releases?", "path_with_namespace", subject.auth)
    if subject.name.isdigit():      # one project has one name
        about = yield Request(at, subject.auth, passes=_UNAVAILABLE)
        moved = about.json()["path_with_namespace"] if about.status == 200 else None
    if entries:
        return Listing([
            released(entry["tag_name"], entry["released_at"], title=entry["name"],
                     message=entry.get("description_html") or preformatted(entry.get("description") or ""),
                     url=f"{subject.site}/{subject.name}/-/releases/{quote(entry['tag_name'], safe='')}",
                     evidence=_mark("published", entry["released_at"]))
            for entry in entries if not entry.get("upcoming_release")], first, is_window=True, name=moved)
    request = Request(f"{at}/repository/tags?per_page=100&order_by=updated&sort=desc", subject.auth,
                      passes=_passes_after(first))
    first, entries = yield from _pages(request, _json_list, lambda entry: entry["name"] in subject.known)
    return Listing([
        released(entry["name"], entry.get("created_at") or entry["commit"]["created_at"],
                 message=preformatted(entry.get("message") or ""),
                 url=f"{subject.site}/{subject.name}/-/tags/{quote(entry['name'], safe='')}",
                 evidence=_mark("commit", entry["commit"].get("id")))
        for entry in entries], first, name=moved)


def _forgejo_notes(subject: Subject) -> Steps:
    """The notes that the host has rendered, by tag; empty where it has no feed."""
    answer = yield Request(f"{subject.site}/{subject.name}/releases.rss", subject.auth, passes=(401, *_UNAVAILABLE))
    if answer.status != 200:
        return {}
    encoded = "{http://purl.org/rss/1.0/modules/content/}encoded"
    return {unquote((item.findtext("link") or "").rpartition("/releases/tag/")[2]):
            _storable(item.findtext(encoded) or "")[:NOTE_LIMIT]
            for item in answer.xml().iter("item")}


def forgejo(subject: Subject) -> Steps:
    """https://codeberg.org/api/swagger, of Forgejo and Gitea alike; notes as HTML come from the feed beside it,
    which is asked for when a note is new or was edited."""
    at = f"{subject.site}/api/v1/repos/{subject.name}"
    request = Request(f"{at}/releases?draft=false&page=1&limit=50", subject.auth, passes=(404,))
    first, entries = yield from _pages(request, _json_list, lambda entry: entry["tag_name"] in subject.known)
    moved = yield from _name_now(first, "/releases?", "full_name", subject.auth)
    if entries:
        releases = [
            released(entry["tag_name"], entry["published_at"], title=entry["name"], url=entry["html_url"],
                     message=preformatted(entry["body"] or ""), original=entry["body"] or "",
                     is_prerelease=entry["prerelease"], evidence=_mark("published", entry["published_at"]))
            for entry in entries if not entry["draft"]]
        if any(one.note and one.note.fingerprint != getattr(subject.known.get(one.version), "fingerprint", None)
               for one in releases):
            notes = yield from _forgejo_notes(subject)
            releases = [dataclasses.replace(one, note=dataclasses.replace(one.note, message=notes[one.version]))
                        if one.note and notes.get(one.version) else one for one in releases]
        return Listing(releases, first, is_window=True, name=moved)
    request = Request(f"{at}/tags?page=1&limit=50", subject.auth, passes=_passes_after(first))
    first, entries = yield from _pages(request, _json_list, lambda entry: entry["name"] in subject.known)
    return Listing([
        released(entry["name"], entry["commit"]["created"], message=preformatted(entry.get("message") or ""),
                 url=f"{subject.site}/{subject.name}/src/tag/{quote(entry['name'])}",
                 evidence=_mark("commit", entry["commit"]["sha"]))
        for entry in entries], first, name=moved)


# Signatures and attestations, bare hashes, build caches, and the halves of a multi-platform tag.
_NO_RELEASE = re.compile(
    r"sha256-[0-9a-f]{64}.*|(?:sha-)?(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}"
    r"|(?:.*[-_.])?buildcache(?:[-_.].*)?"
    r"|.*[-_.](?:amd64|x86_64|386|i386|arm|arm64|arm64v8|aarch64|arm32v[567]|arm(?:v[567]|hf|el)|ppc64le|s390x"
    r"|riscv64)")


def _image_tags(tags: Iterable[Any]) -> list[str]:
    """The tags of an image that people mean by a release."""
    return [tag for tag in tags if not _NO_RELEASE.fullmatch(tag)]


_MANIFESTS = ", ".join(("application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json",
                        "application/vnd.docker.distribution.manifest.list.v2+json",
                        "application/vnd.docker.distribution.manifest.v2+json"))
_LOOKED_AT = 5      # tags whose manifest one check asks for; the protocol tells neither dates nor changes in a list


def _oci_ask(subject: Subject, request: Request, access: dict[str, str]) -> Steps:
    """The answer to a request, with a token asked for where the registry wants one; ``access`` keeps it.

    https://distribution.github.io/distribution/spec/auth/token/
    """
    passes = (*request.passes, 401)
    answer = yield dataclasses.replace(request, headers={**request.headers, **access}, passes=passes)
    if answer.status != 401:
        return answer
    challenge = answer.headers.get("www-authenticate", "")
    is_redirected = urlsplit(answer.url)[:2] != urlsplit(subject.site)[:2]
    basic = {} if is_redirected else subject.auth       # who asks then is not whom the token is for
    if bearer := re.search(r'bearer\s+((?:\w{1,40}="[^"]{0,2000}"[\s,]{0,9}){1,9})', challenge, re.IGNORECASE):
        asked = dict(re.findall(r'\b(\w+)="([^"]*)"', bearer[1]))
        realm = urljoin(answer.url, asked["realm"])
        if urlsplit(subject.site).scheme == "https" != urlsplit(realm).scheme:
            raise ValueError("its realm for tokens is not https")
        query = {"service": asked["service"]} if "service" in asked else {}
        query["scope"] = f"repository:{subject.name}:pull"
        token = (yield Request(f"{realm}{'&' if '?' in realm else '?'}{urllib.parse.urlencode(query)}", basic)).json()
        access["Authorization"] = f"Bearer {token.get('token') or token['access_token']}"
    else:
        access.update(basic)
    return (yield dataclasses.replace(request, headers={**request.headers, **access}))


def _oci_created(subject: Subject, at: str, tag: str, access: dict[str, str]) -> Steps:
    """``(date, digest)`` of a tag: when its image was built, "" if it does not say, and its manifest's digest."""
    request = Request(f"{at}/manifests/{tag}", {"Accept": _MANIFESTS}, passes=_UNAVAILABLE)
    answer = yield from _oci_ask(subject, request, access)
    if answer.status != 200:
        return "", ""
    digest, manifest = answer.headers.get("docker-content-digest", ""), answer.json()
    platforms = [one for one in manifest.get("manifests") or () if one.get("platform", {}).get("os") != "unknown"]
    if platforms:
        request = dataclasses.replace(request, url=f"{at}/manifests/{platforms[0]['digest']}")
        manifest = (yield from _oci_ask(subject, request, access)).json()
    created = (manifest.get("annotations") or {}).get("org.opencontainers.image.created")
    if not created and "config" in manifest:
        request = Request(f"{at}/blobs/{manifest['config']['digest']}", passes=_UNAVAILABLE)
        answer = yield from _oci_ask(subject, request, access)
        created = answer.json().get("created") if answer.status == 200 else None
    with contextlib.suppress(ValueError, TypeError):    # the text of whoever made the image
        return utc(created) or "", digest
    return "", digest


def oci(subject: Subject) -> Steps:
    """https://github.com/opencontainers/distribution-spec/blob/main/spec.md#listing-tags; order says nothing."""
    at, access = f"{subject.site}/v2/{subject.name}", dict[str, str]()
    answer = yield from _oci_ask(subject, Request(f"{at}/tags/list?n=1000"), access)
    pages = [answer.json()]
    while (url := _next_page(answer)) and len(pages) < 100:
        answer = yield from _oci_ask(subject, Request(url), access)
        pages.append(answer.json())
    tags = dict.fromkeys(_image_tags(tag for page in pages for tag in page["tags"] or ()))
    dates, digests = dict[str, str](), dict[str, str]()
    for digest, manifest in itertools.chain.from_iterable(      # as Google's registries tell
            (page.get("manifest") or {}).items() for page in pages):
        for tag in manifest["tag"]:
            digests[tag] = digest
            dates[tag] = timestamp(int(manifest.get("timeUploadedMs") or 0) / 1000)
    if not digests:
        numbered = sorted((tag for tag in tags if re.search("[0-9]", tag)), key=version_order, reverse=True)
        for tag in [tag for tag in numbered if tag not in subject.known][:_LOOKED_AT]:
            dates[tag], digests[tag] = yield from _oci_created(subject, at, tag, access)
        watched = [tag for tag in ("latest", *numbered) if tag in subject.known or tag == "latest" and tag in tags]
        for tag in watched[:_LOOKED_AT]:
            request = Request(f"{at}/manifests/{tag}", {"Accept": _MANIFESTS}, "HEAD", passes=_UNAVAILABLE)
            answer = yield from _oci_ask(subject, request, access)
            digests[tag] = answer.headers.get("docker-content-digest", "")
    return Listing([released(tag, dates.get(tag) or None, evidence=_mark("digest", digests.get(tag)))
                    for tag in tags])


def _next_in_body(answer: Answer) -> str | None:
    """The address of the next page as the answer's ``next`` has it, if it is at the same place as this one."""
    said = answer.json().get("next")
    url = urljoin(answer.url, said or "")
    return url if said and urlsplit(url)[:2] == urlsplit(answer.url)[:2] else None


def _pushed_images(subject: Subject, request: Request, member: str, about: Callable[[Any], tuple[Any, Any]],
                   next_of: Callable[[Answer], str | None]) -> Steps:
    """The tags of an image, pushed last first. ``about``: date and digest of an entry in ``member``.

    A rebuilt tag comes to the front again, with another digest, and keeps its date.
    """
    def is_old(entry: Any) -> bool:
        before = subject.known.get(entry["name"])
        return before is not None and before.evidence in (None, _mark("digest", about(entry)[1]))

    def entries_of(answer: Answer) -> list[Any]:
        return [entry for entry in _list(answer.json()[member]) if _image_tags([entry["name"]])]

    first, entries = yield from _pages(request, entries_of, is_old, next_of=next_of)
    return Listing([released(entry["name"], about(entry)[0], evidence=_mark("digest", about(entry)[1]))
                    for entry in entries], first)


def dockerhub(subject: Subject) -> Steps:
    """https://docs.docker.com/reference/api/hub/latest/"""
    url = f"{subject.site}/v2/repositories/{subject.name}/tags?page_size=100&ordering=last_updated"
    return (yield from _pushed_images(
        subject, Request(url, subject.auth), "results",
        lambda entry: (entry.get("tag_last_pushed") or entry["last_updated"], entry.get("digest")), _next_in_body))


def quay(subject: Subject) -> Steps:
    """https://docs.quay.io/api/swagger/: of the tags those that live."""
    at = f"{subject.site}/api/v1/repository/{subject.name}/tag/?limit=100&onlyActiveTags=true"

    def next_of(answer: Answer) -> str | None:
        page = answer.json()
        return f"{at}&page={int(page['page']) + 1}" if page.get("has_additional") else None

    return (yield from _pushed_images(
        subject, Request(f"{at}&page=1", subject.auth), "tags",
        lambda entry: (timestamp(entry["start_ts"]), entry["manifest_digest"]), next_of))


# Those of https://docs.deps.dev/api/v3/ that are asked here, by the provider's id.
_DEPSDEV_SYSTEMS = {"pypi": "PYPI", "npm": "NPM", "go": "GO", "maven": "MAVEN", "cargo": "CARGO", "nuget": "NUGET",
                    "gems": "RUBYGEMS"}


def _depsdev_package(site: str, system: str, name: str) -> str:
    """https://docs.deps.dev/api/v3/#getpackage: all versions in one document, in no promised order."""
    return f"{site}/v3/systems/{system}/packages/{quote(name, safe='')}"


def _depsdev_dates(answer: Answer) -> dict[str, str | None]:
    return {entry["versionKey"]["version"]: entry.get("publishedAt") for entry in _list(answer.json()["versions"])}


def depsdev(subject: Subject) -> Steps:
    """https://docs.deps.dev/api/v3/, which knows what several registries have."""
    answer = yield Request(_depsdev_package(subject.site, _DEPSDEV_SYSTEMS[subject.provider], subject.name))
    return Listing([released(version, date) for version, date in _depsdev_dates(answer).items()], answer)


def npm(subject: Subject) -> Steps:
    """https://github.com/npm/registry/blob/main/docs/responses/package-metadata.md

    The short form, to see whether there is anything new; the long one, which has the dates, only then.
    """
    url = f"{subject.site}/{quote(subject.name, safe='@')}"
    accept = "application/vnd.npm.install-v1+json, application/json;q=0.5"
    short = yield Request(url, {**subject.auth, "Accept": accept})
    package = short.json()
    times = package.get("time")
    versions = {} if times and "unpublished" in times else package["versions"]
    if not isinstance(versions, dict):
        raise ValueError("it answered no versions")
    if times is None and any(version not in subject.known for version in versions):
        answer = yield Request(url, {**subject.auth, "Accept": "application/json"})
        times = answer.json()["time"]
    return Listing([released(version, (times or {}).get(version)) for version in versions], short)


_ARCHIVE = re.compile(r"\.(?:tar\.(?:gz|bz2|xz|Z)|tgz|zip|whl|egg)$")


_ATTRIBUTE = re.compile(r"""([\w-]+)(?:\s*=\s*("[^"<>]*"|'[^'<>]*'))?""")


def _simple_files(page: str) -> list[dict[str, Any]]:
    """The files of an index's HTML page, in the shape of the JSON form. Raises ValueError for another page."""
    links = [{name.lower(): value for name, value in _ATTRIBUTE.findall(link)}
             for link in re.findall(r"<a\s([^<>]*)>", page, re.IGNORECASE)]
    files: list[dict[str, Any]] = [
        {"filename": unquote(urlsplit(html.unescape(link["href"][1:-1])).path.rpartition("/")[2]),
         "yanked": "data-yanked" in link} for link in links if link.get("href")]
    if page.strip() and not any(_ARCHIVE.search(file["filename"]) for file in files):
        raise ValueError("it answered a web page that lists no files")
    return files


def pep503(name: str) -> str:
    """https://packaging.python.org/en/latest/specifications/name-normalization/"""
    return re.sub(r"[-_.]+", "-", name).lower()


def _version_of_file(filename: str, name: str) -> str | None:
    """The version in the name of a package's file; None for one that is no archive of it."""
    stem = _ARCHIVE.sub("", filename)
    spelled = "[-_.]+".join(map(re.escape, name.split("-")))
    match = re.match(f"{spelled}-", stem, re.IGNORECASE) if stem != filename else None
    if not match:
        return None
    version = stem[match.end():]
    return version.split("-")[0] if filename.endswith((".whl", ".egg")) else version


def simple(subject: Subject) -> Steps:
    """https://packaging.python.org/en/latest/specifications/simple-repository-api/, JSON or HTML.

    A version's date is that of its earliest file; one whose files are all yanked is left out.
    """
    headers = {**subject.auth, "Accept": "application/vnd.pypi.simple.v1+json, "
                                         "application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"}
    answer = yield Request(f"{subject.site}/{subject.name}/", headers, passes=(404,))
    if answer.status == 404:        # an index is often named without the folder that its protocol is at
        answer = yield Request(f"{subject.site}/simple/{subject.name}/", headers)
    versions: Iterable[str] = ()
    if "json" in answer.headers.get("content-type", ""):
        index = answer.json()
        files, versions = _list(index["files"]), index.get("versions") or ()
    else:
        files = _simple_files(answer.text())
    dates, yanked = dict[str, list[str]](), dict[str, bool]()
    for file in files:
        if version := _version_of_file(file["filename"], subject.name):
            dates.setdefault(version, []).append(utc(file.get("upload-time")) or "")
            yanked[version] = yanked.get(version, True) and file.get("yanked", False) is not False
    dates |= {version: [""] for version in versions if version not in dates}
    return Listing([released(version, min(filter(None, found), default=None))
                    for version, found in dates.items() if not yanked.get(version)], answer)


def bitbucket(subject: Subject) -> Steps:
    """https://developer.atlassian.com/cloud/bitbucket/rest/api-group-refs/: tags, for there are no releases."""
    request = Request(f"{subject.site}/2.0/repositories/{subject.name}/refs/tags?sort=-target.date&pagelen=100",
                      subject.auth)
    first, entries = yield from _pages(request, lambda answer: _list(answer.json()["values"]),
                                       lambda entry: entry["name"] in subject.known, next_of=_next_in_body)
    return Listing([
        released(entry["name"], entry.get("date") or entry["target"]["date"],
                 message=preformatted(entry.get("message") or ""),
                 url=f"https://bitbucket.org/{subject.name}/src/{quote(entry['name'])}",
                 evidence=_mark("commit", entry["target"].get("hash")))
        for entry in entries], first)


def _rss_items(answer: Answer) -> list[dict[str, str]]:
    """The items of an RSS feed: title, link, date (ISO 8601) and description. Raises ValueError for no feed."""
    root = answer.xml()
    if root.tag != "rss" or root.find("channel") is None:
        raise ValueError("it answered no RSS feed")
    return [{"title": item.findtext("title", "").strip(), "link": item.findtext("link", "").strip(),
             "date": email.utils.parsedate_to_datetime(item.findtext("pubDate", "")).isoformat(),
             "description": item.findtext("description", "")}
            for item in root.iter("item") if item.findtext("pubDate")]


def sourcehut(subject: Subject) -> Steps:
    """https://man.sr.ht/git.sr.ht/: the feed of a repository's refs, in which an item is a tag with its text."""
    answer = yield Request(f"{subject.site}/{subject.name}/refs/rss.xml")
    return Listing([released(item["title"], item["date"], message=item["description"], url=item["link"])
                    for item in _rss_items(answer)], answer, is_window=True)


_MARKED = r"(?:[-_. ]?(?:alpha|beta|rc|pre|dev|a|b|p|patch)[-_.]?[0-9]*)?"
_DOTTED = rf"[0-9]+(?:\.[0-9]+[a-z]?)+{_MARKED}"
_IN_FILE = [re.compile(rf"[-_ ]v?({number})(?![0-9a-z])", re.ASCII | re.IGNORECASE)
            for number in (_DOTTED, "[0-9]+" + _MARKED)]
_MACHINE = re.compile(r"(?i)x86[-_]64|amd64|arm64|(?:win|linux|mac|utf)[-_]?(?:8|16|32|64)(?![0-9])")
_BESIDES = re.compile(r"(?i)readme.*|.*\.(?:asc|sig|sha[0-9]+|sha[0-9]+sums?|md5|txt)")


def _version_of_path(path: str, project: str) -> str | None:
    """The version of ``/stable/1.2/foo-1.2.tar.gz``: its deepest folder that is called by one, else its file."""
    *folders, file = path.strip("/").split("/")
    if _BESIDES.fullmatch(file):
        return None
    file = _MACHINE.sub("", file)
    in_folder = re.compile(rf"(?:{re.escape(project)}[-_ ]?)?v?({_DOTTED})", re.ASCII | re.IGNORECASE)
    found = next(filter(None, map(in_folder.fullmatch, reversed(folders))), None) or next(
        filter(None, (pattern.search(file) for pattern in _IN_FILE)), None)
    return found[1] if found else None


def sourceforge(subject: Subject) -> Steps:
    """https://sourceforge.net/p/forge/documentation/RSS/: the newest files; those of one version make a release."""
    answer = yield Request(f"{subject.site}/projects/{subject.name}/rss?path=/")
    dates, links = dict[str, str](), dict[str, str]()
    for item in _rss_items(answer):
        if version := _version_of_path(item["title"], subject.name):
            dates[version] = min(item["date"], dates.get(version, item["date"]))
            links[version] = item["link"]
    return Listing([released(version, date, url=links[version]) for version, date in dates.items()], answer,
                   is_window=True)


def rubygems(subject: Subject) -> Steps:
    """https://guides.rubygems.org/rubygems-org-api/#gem-version-methods: a number stands once for each platform."""
    answer = yield Request(f"{subject.site}/api/v1/versions/{subject.name}.json")
    first: dict[str, Any] = {}
    for entry in sorted(_json_list(answer), key=lambda entry: entry["created_at"]):
        first.setdefault(entry["number"], entry)
    return Listing([released(number, entry["created_at"], is_prerelease=entry["prerelease"])
                    for number, entry in first.items()], answer)


def packagist(subject: Subject) -> Steps:
    """https://packagist.org/apidoc#get-package-data: each entry holds what has changed from the one before."""
    answer = yield Request(f"{subject.site}/p2/{subject.name}.json", subject.auth)
    entries, last = [], dict[str, Any]()
    for entry in _list(answer.json()["packages"][subject.name]):
        last = {name: value for name, value in {**last, **entry}.items() if value != "__unset"}
        entries.append(last)
    return Listing([released(entry["version"], entry.get("time"),
                             evidence=_mark("commit", (entry.get("source") or {}).get("reference")))
                    for entry in entries if not re.match(r"dev-|.*-dev$", entry["version"])], answer)


def nuget(subject: Subject) -> Steps:
    """https://learn.microsoft.com/en-us/nuget/api/registration-base-url-resource: pages, the newest last."""
    index = subject.site if subject.site.endswith(".json") else f"{subject.site}/v3/index.json"
    resources = {one["@type"]: one["@id"] for one in (yield Request(index)).json()["resources"]}
    base = resources.get("RegistrationsBaseUrl/3.6.0") or resources["RegistrationsBaseUrl"]
    first = yield Request(f"{base.rstrip('/')}/{subject.name.lower()}/index.json")
    releases: list[Release] = []
    for page in _list(first.json()["items"])[:-21:-1]:
        if "items" not in page:
            page = (yield Request(page["@id"])).json()
        entries = [(entry["version"].partition("+")[0], entry)
                   for entry in (leaf["catalogEntry"] for leaf in page["items"])]
        releases += [released(version, entry.get("published")) for version, entry in entries
                     if entry.get("listed", True)]
        if subject.known and all(
                version in subject.known or not entry.get("listed", True) for version, entry in entries):
            break
    return Listing(releases, first)


def cargo(subject: Subject) -> Steps:
    """https://doc.rust-lang.org/cargo/reference/registry-index.html#index-protocols: a line of JSON a version.

    Old lines of the public index have no time; at the first sight its API is asked for theirs.
    """
    name = subject.name.lower()
    folder = {1: "1", 2: "2", 3: f"3/{name[:1]}"}.get(len(name), f"{name[:2]}/{name[2:4]}")
    answer = yield Request(f"{subject.site}/{folder}/{name}")
    entries = [json.loads(line) for line in answer.text().splitlines() if line.strip()]
    if not entries:
        raise ValueError("it answered no versions")
    dates = {entry["vers"]: entry.get("pubtime") for entry in entries}
    if not subject.known and subject.site == "https://index.crates.io" and None in dates.values():
        api = yield Request(f"https://crates.io/api/v1/crates/{name}/versions?per_page=100&sort=date",
                            passes=range(400, 600))
        dates |= {entry["num"]: entry["created_at"] for entry in api.json()["versions"]} if api.status == 200 else {}
    return Listing([released(entry["vers"], dates[entry["vers"]]) for entry in entries if not entry["yanked"]], answer)


def hex_pm(subject: Subject) -> Steps:
    """https://github.com/hexpm/specifications/blob/main/apiary.apib; retired versions are left out."""
    headers = {**subject.auth, "Accept": "application/json"}
    answer = yield Request(f"{subject.site}/api/packages/{subject.name}", headers)
    package = answer.json()
    return Listing([released(entry["version"], entry.get("inserted_at")) for entry in _list(package["releases"])
                    if entry["version"] not in (package.get("retirements") or {})], answer)


def pub(subject: Subject) -> Steps:
    """https://github.com/dart-lang/pub/blob/master/doc/repository-spec-v2.md#list-all-versions-of-a-package"""
    headers = {**subject.auth, "Accept": "application/vnd.pub.v2+json"}
    answer = yield Request(f"{subject.site}/api/packages/{subject.name}", headers)
    return Listing([released(entry["version"], entry.get("published"))
                    for entry in _list(answer.json()["versions"]) if not entry.get("retracted")], answer)


def _section(changes: str, version: str) -> str:
    """What a file of all changes says of one version: from the line that begins with it to the next such line."""
    begins = re.compile(r"[=#*\s]*(?:version |release )?[v\[]*([0-9]+\.[0-9][\w.-]*)", re.ASCII | re.IGNORECASE)
    found: list[str] = []
    for line in changes[:4 * NOTE_LIMIT].splitlines():
        match = None if line[:1] in " \t" else begins.match(line[:200])
        if match and found:
            break
        if found or match and match[1].rstrip(".:-") == version.removeprefix("v"):
            found.append(line)
    return "\n".join(found).strip()


def metacpan(subject: Subject) -> Steps:
    """https://github.com/metacpan/metacpan-api/blob/master/docs/API-docs.md; times without a zone are UTC.

    A distribution that is not there has an empty list; the name may be a module's then.
    """
    at, name = f"{subject.site}/v1", subject.name
    answer = yield Request(f"{at}/release/versions/{name}")
    if not _list(answer.json()["releases"]):
        module = yield Request(f"{at}/module/{name.replace('-', '::')}", passes=(404,))
        if module.status != 200 or module.json()["distribution"] == name:
            raise ProjectMissing(f"{subject.provider} has no distribution {name}")
        name = module.json()["distribution"]
        answer = yield Request(f"{at}/release/versions/{quote(name)}")
    releases = []
    entries = [entry for entry in answer.json()["releases"] if entry.get("authorized", True)]
    unknown = [entry["version"] for entry in entries if entry["version"] not in subject.known]
    for entry in entries:
        path, notes = f"{quote(entry['author'])}/{quote(entry['name'])}", ""
        if entry["version"] in unknown[:_LOOKED_AT]:
            changes = yield Request(f"{at}/changes/{path}", passes=_UNAVAILABLE)
            notes = _section(changes.json()["content"], entry["version"]) if changes.status == 200 else ""
        releases.append(released(entry["version"], entry["date"], message=preformatted(notes),
                                 url=f"https://metacpan.org/release/{path}/changes",
                                 is_prerelease=entry["maturity"] == "developer"))
    return Listing(releases, answer, name=name)


_HEADING = re.compile(r"<h[1-6][^<>]*>((?:[^<]|<(?!/?h[1-6]))*)</h", re.IGNORECASE)


def _html_section(markup: str, version: str) -> str:
    """What a rendered change log says of one version: from its heading to the next that names a version."""
    begins: int | None = None
    for heading in _HEADING.finditer(markup[:4 * NOTE_LIMIT]):
        named = re.search(r"(?<![\w.])v?([0-9]+(?:\.[0-9]+)+)", heading[1], re.ASCII)
        if named and begins is not None:
            return markup[begins:heading.start()]
        if named and named[1] == version:
            begins = heading.start()
    return markup[begins:] if begins is not None else ""


def hackage(subject: Subject) -> Steps:
    """https://hackage.haskell.org/api: the feed of a package, each item with the whole rendered change log."""
    answer = yield Request(f"{subject.site}/package/{subject.name}.rss")
    releases = []
    for item in _rss_items(answer):
        version = item["link"].rstrip("/").rpartition("-")[2]
        releases.append(released(version, item["date"], url=item["link"],
                                 message=_html_section(item["description"], version)))
    return Listing(releases, answer, is_window=True)


_GO_VERSION = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")
_GO_HEADERS = {"Disable-Module-Fetch": "true"}      # asked for what it has, the proxy fetches nothing by itself


def _go_majors(subject: Subject) -> Steps:
    """``(address, versions)`` of the module and of its next major versions, which are modules of their own."""
    base, _, major = subject.name.rpartition("/v")
    base, named = (base, int(major)) if re.fullmatch("[1-9][0-9]{0,5}", major) else (subject.name, 1)
    numbered = re.compile(r"v([0-9]{1,6})\.[0-9.]+[^+]*")
    known = [int(match[1]) for match in map(numbered.fullmatch, subject.known) if match]
    highest = max([named, *known])
    lists: list[tuple[str, list[str]]] = []
    for number in (named, *sorted(set(number for number in known if number > named)),
                   *range(highest + 1, highest + 20)):
        module = base if number == 1 else f"{base}/v{number}"
        at = f"{subject.site}/{re.sub('[A-Z]', lambda letter: '!' + letter[0].lower(), module)}/@"
        answer = yield Request(f"{at}v/list", _GO_HEADERS, passes=(404, 410) if lists else ())
        if answer.status != 200 and number > highest:
            break
        versions = answer.text().split() if answer.status == 200 else []
        if not all(_GO_VERSION.fullmatch(version) for version in versions):
            raise ValueError("it answered no list of versions")
        if versions and not answer.text().endswith("\n"):      # some leave it out; or the last line was cut short
            info = yield Request(f"{at}v/{quote(versions[-1], safe='+')}.info", _GO_HEADERS, passes=(403, 404, 410))
            if info.status != 200:
                raise ValueError("its answer ended early")
        lists.append((at, versions))
    return lists


def _go_retracted(mod: str) -> Callable[[str], bool]:
    """Whether a module's go.mod takes a version back: https://go.dev/ref/mod#go-mod-file-retract"""
    said = " ".join(re.findall(r"^[ \t]*retract[ \t]*(\([^()]*\)|[^\n()]*)", re.sub(r"//[^\n]*", "", mod),
                               re.MULTILINE))
    pairs = [inner.split(",") for inner in re.findall(r"\[([^\[\]]*)\]", said)]
    ranges = [(version_order(pair[0].strip()), version_order(pair[1].strip())) for pair in pairs if len(pair) == 2]
    singles = [version_order(one) for one in re.sub(r"\[[^\[\]]*\]", " ", said).split() if one[0] == "v"]
    ranges += zip(singles, singles)
    return lambda version: any(least <= version_order(version) <= most for least, most in ranges)


def goproxy(subject: Subject) -> Steps:
    """https://go.dev/ref/mod#goproxy-protocol; a capital is written as ! and its small letter.

    At the first sight deps.dev tells the dates of public modules in one answer.
    """
    lists = yield from _go_majors(subject)
    places = {version: at for at, versions in lists for version in versions}
    if not places:      # nobody has tagged anything: what the last commit is called
        latest = (yield Request(f"{lists[0][0]}latest", _GO_HEADERS)).json()
        return Listing([released(latest["Version"], latest.get("Time"))])
    for at, its in lists:       # each module's newest says what it takes back
        if any(version not in subject.known for version in its):
            newest = quote(max(its, key=version_order), safe="+")
            mod = yield Request(f"{at}v/{newest}.mod", _GO_HEADERS, passes=(403, 404, 410))
            if mod.status == 200 and not re.search(r"^[ \t]*module\b", mod.text(), re.MULTILINE):
                raise ValueError("it answered no go.mod")
            is_retracted = _go_retracted(mod.text() if mod.status == 200 else "")
            places = {version: place for version, place in places.items() if place != at or not is_retracted(version)}
    dates: dict[str, str | None] = {}
    if not subject.known and subject.site == "https://proxy.golang.org":
        found = yield Request(_depsdev_package("https://api.deps.dev", "GO", subject.name), passes=range(400, 600))
        dates = _depsdev_dates(found) if found.status == 200 else {}
    versions = sorted(places, key=version_order, reverse=True)
    for version in [one for one in versions if one not in subject.known and not dates.get(one)][:20]:
        info = yield Request(f"{places[version]}v/{quote(version, safe='+')}.info", _GO_HEADERS, passes=(403, 404, 410))
        dates[version] = info.json().get("Time") if info.status == 200 else None
    return Listing([released(version, dates.get(version)) for version in versions])


def maven(subject: Subject) -> Steps:
    """https://maven.apache.org/repositories/metadata.html; dates stand in the listing of the folder alone."""
    group, _, artifact = subject.name.partition(":")
    at = f"{subject.site}/{group.replace('.', '/')}/{artifact}"
    answer = yield Request(f"{at}/maven-metadata.xml", subject.auth)
    versioning = answer.xml().find("versioning")
    if versioning is None:
        raise ValueError("it answered no metadata of an artifact")
    named = [node.text or "" for node in versioning.iterfind("versions/version")]
    versions = [version for version in named if not version.endswith("-SNAPSHOT")]
    dates: dict[str, str] = {}
    if any(version not in subject.known for version in versions):
        listing = yield Request(f"{at}/", subject.auth, passes=range(400, 600))
        dates = {unquote(version): f"{date}:00Z" for version, date in re.findall(
            r'<a href="([^"/<>]+)/"[^<>]*>[^<>]*</a>\s{1,200}([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2})',
            listing.text() if listing.status == 200 else "")}
    return Listing([released(version, dates.get(version)) for version in versions], answer)


def artifacthub(subject: Subject) -> Steps:
    """https://artifacthub.io/docs/api/: versions in the package, notes as lists of changes beside it."""
    at, notes = f"{subject.site}/api/v1/packages", dict[str, str]()
    answer = yield Request(f"{at}/{subject.name}", subject.auth)
    package = answer.json()
    entries = package.get("available_versions") or [package]
    if any(entry["version"] not in subject.known for entry in entries):
        changes = yield Request(f"{at}/{quote(package['package_id'], safe='')}/changelog", subject.auth,
                                passes=_UNAVAILABLE)
        for entry in changes.json() if changes.status == 200 else ():
            items = [f"<li>{html.escape(one.get('kind') or '')} {html.escape(one['description'])}</li>"
                     for one in entry.get("changes") or ()]
            notes[entry["version"]] = f"<ul>{''.join(items)}</ul>" if items else ""
    return Listing([
        released(entry["version"], timestamp(entry["ts"]), is_prerelease=entry.get("prerelease", False),
                 message=notes.get(entry["version"]),
                 url=f"{subject.site}/packages/{subject.name}/{quote(entry['version'])}")
        for entry in entries], answer)


def _pkt_lines(body: bytes) -> Iterator[bytes]:
    """The lines of https://git-scm.com/docs/protocol-common#_pkt_line_format, an empty one for a flush.

    Raises ValueError unless they end with the second flush: one ends the announcement, one the list.
    """
    at = flushes = 0
    while flushes < 2:
        if not re.fullmatch(rb"[0-9a-f]{4}", body[at:at + 4]):
            raise ValueError("its answer is no list of refs, or ended early")
        size = max(int(body[at:at + 4], 16), 4)
        if at + size > len(body):
            raise ValueError("its answer ended early")
        flushes += body[at:at + 4] == b"0000"
        yield body[at + 4:at + size]
        at += size


def _git_tags(repository: str, is_guarded: bool = False) -> Steps:
    """The tags of a repository over smart HTTP: https://git-scm.com/docs/http-protocol#_smart_clients; no dates."""
    answer = yield Request(f"{repository}/info/refs?service=git-upload-pack", is_guarded=is_guarded)
    if not answer.body.startswith(b"001e# service=git-upload-pack"):
        raise ValueError("it is no git repository over smart HTTP")
    refs = (re.match(rb"([0-9a-f]{40,64}) refs/tags/([^\n\0]+)", line) for line in _pkt_lines(answer.body))
    # A tag with a text of its own comes twice, the second time as v1^{} with its commit.
    commits = {ref[2].decode("utf-8", "replace").removesuffix("^{}"): ref[1].decode() for ref in refs if ref}
    return Listing([released(tag, evidence=_mark("commit", commit)) for tag, commit in commits.items()], answer)


def savannah(subject: Subject) -> Steps:
    """https://savannah.gnu.org/maintenance/UsingGit: its pages keep programs out, its repositories do not."""
    return (yield from _git_tags(f"{subject.site}/git/{subject.name}.git"))


def git(subject: Subject) -> Steps:
    """Any repository by its address, which is a user's choice, not the operator's."""
    return (yield from _git_tags(subject.name, is_guarded=True))


def _as_it_is(name: str) -> str:
    return name


def _official(name: str) -> str:
    return name.lower() if "/" in name else f"library/{name.lower()}"


def _coordinates(name: str) -> str:
    """``group:artifact`` of that, of ``group/artifact``, or of a folder such as ``com/google/guava/guava``."""
    group, _, artifact = name.rpartition("/")
    return name if ":" in name or not group else f"{group.replace('/', '.')}:{artifact}"


def _without_git(name: str) -> str:
    return name.removesuffix(".git")


def _scoped(name: str) -> str:
    return name if name.startswith("@") or "/" not in name else f"@{name}"


def _helm_unless(name: str) -> str:
    return name if name.count("/") > 1 else f"helm/{name}"


def _repository_address(name: str) -> str:
    """A repository's address with both its slashes, which names have folded, and its host in small letters."""
    match = re.fullmatch(r"(?:git\+)?(https?):/+([^/?#]+)(/[^?#]*)", name, re.IGNORECASE)
    return f"{match[1].lower()}://{match[2].lower()}{match[3].rstrip('/')}" if match else name


def _same_repository(name: str) -> str:
    return name.partition("://")[2].removesuffix(".git")


def _no_auth(token: str) -> dict[str, str]:
    """Of dialects that take no token."""
    return {}


def _header(name: str, before: str = "") -> Callable[[str], dict[str, str]]:
    """The token in a header, behind a word."""
    return lambda token: {name: f"{before}{token}"}


def _basic_auth(user: str) -> Callable[[str], dict[str, str]]:
    """The token as a password, or ``user:password`` as it is."""
    def auth(token: str) -> dict[str, str]:
        both = token if ":" in token else f"{user}:{token}"
        return {"Authorization": "Basic " + base64.b64encode(both.encode()).decode()}
    return auth


def _key_pair(token: str) -> dict[str, str]:
    return dict(zip(("X-API-KEY-ID", "X-API-KEY-SECRET"), token.split(":", 1)))


@dataclasses.dataclass(frozen=True)
class Dialect:
    """A protocol, and what is true of whatever speaks it. ``{site}``, ``{name}`` and ``{version}`` in addresses;
    ``{segment}`` is the name as one segment of a path, ``{path}`` an artifact's with slashes, ``{folder}`` its
    folder."""

    read: Callable[[Subject], Steps]
    form: str                               # what a project is called, for people
    pattern: str                            # of a normalised name
    page: str                               # where people see a project's releases
    release_page: str = ""                  # and one of them; the same if empty
    normalise: Callable[[str], str] = _as_it_is
    key: Callable[[str], str] = _as_it_is   # of a normalised name: the same for all that are one project
    is_prerelease: Callable[[str], bool] = prerelease_by_words
    auth: Callable[[str], dict[str, str]] = _no_auth                # the headers that hold a token
    pasted: tuple[str, ...] = ()            # addresses that people paste: patterns without scheme, query and "www."
    marks: Callable[[str, Mapping[str, str], Sequence[str]], Steps] | None = None   # asks for many projects at once


_REPOSITORY = r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}"
_IMAGE = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_PACKAGE = r"(?:@[A-Za-z0-9._~-]+/)?[A-Za-z0-9._~-]+"
_BEARER = _header("Authorization", "Bearer ")
_PART, _PARTS, _MORE = "([^/]+)", "([^/]+/[^/]+)", "(?:/.*)?"         # segments of a pasted address
_SCOPED = r"(@[^/]+/[^/]+|(?:@|%40)[^/]+%2[Ff][^/]+|[^/@]+)(?:/.*)?"
_TAGGED = "([^:@]+)(?:[:@].*)?"                                     # an image's reference
_FORGE = rf"{{site}}/(?!explore/|orgs/|users/|user/|api/){_PARTS}(?:/(?!pkgs/).*)?"

DIALECTS = {
    "artifacthub": Dialect(
        artifacthub, "kind/repository/package, or repository/package of a Helm chart",
        r"[a-z0-9-]+(?:/[A-Za-z0-9_.-]+){2}", "{site}/packages/{name}", "{site}/packages/{name}/{version}",
        normalise=_helm_unless, is_prerelease=prerelease_by_semver, auth=_key_pair,
        pasted=(rf"{{site}}/packages/([^/]+/[^/]+/[^/]+){_MORE}",)),
    "bitbucket": Dialect(
        bitbucket, "workspace/repository", _REPOSITORY, "{site}/2.0/repositories/{name}/refs/tags",
        normalise=lambda name: _without_git(name.lower()), auth=_BEARER,
        pasted=(rf"{{site}}/2\.0/repositories/{_PARTS}{_MORE}",)),
    "cargo": Dialect(
        cargo, "crate", r"[A-Za-z][A-Za-z0-9_-]*", "{site}", key=lambda name: name.lower().replace("-", "_"),
        is_prerelease=prerelease_by_semver, pasted=(rf"{{site}}/(?:[123]|3/[^/]|[^/]{{2}}/[^/]{{2}})/{_PART}",)),
    "depsdev": Dialect(
        depsdev, "package", r"[^\s/]+(?:/[^\s/]+)*", "https://deps.dev/{provider}/{segment}",
        "https://deps.dev/{provider}/{segment}/{version}"),
    "dockerhub": Dialect(
        dockerhub, "image, or owner/image", rf"{_IMAGE}/{_IMAGE}", "{site}/r/{name}/tags",
        normalise=_official, auth=_BEARER,
        pasted=(rf"{{site}}/_/{_PART}{_MORE}", rf"{{site}}/(?:r|repository/docker)/{_PARTS}{_MORE}")),
    "forgejo": Dialect(
        forgejo, "owner/repository", _REPOSITORY, "{site}/{name}/releases", "{site}/{name}/releases/tag/{version}",
        normalise=_without_git, key=str.lower, auth=_header("Authorization", "token "), pasted=(_FORGE,)),
    "git": Dialect(
        git, "the repository's address", r"https?://[^\s/?#@]+/[^\s?#]+", "{name}", normalise=_repository_address,
        key=_same_repository),
    "github": Dialect(
        github, "owner/repository", _REPOSITORY, "{site}/{name}/releases", "{site}/{name}/releases/tag/{version}",
        normalise=_without_git, key=str.lower, auth=_BEARER, pasted=(_FORGE,), marks=github_marks),
    "gitlab": Dialect(
        gitlab, "group/project", r"[0-9]+|[\w.+-]+(?:/[\w.+-]+)+", "{site}/{name}/-/releases",
        "{site}/{name}/-/releases/{version}", normalise=_without_git, key=str.lower, auth=_header("PRIVATE-TOKEN"),
        pasted=(rf"{{site}}/(?!explore/|users/|groups/|-/|api/)(.+?)(?:/-{_MORE})?",)),
    "goproxy": Dialect(
        goproxy, "module", r"[A-Za-z0-9._~-]+(?:/[A-Za-z0-9._~-]+)*", "{site}/{name}/@v/list",
        is_prerelease=prerelease_by_semver, pasted=(r"{site}/([^@]+)/@.*",)),
    "hackage": Dialect(
        hackage, "package", r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*", "{site}/package/{name}",
        "{site}/package/{name}-{version}", is_prerelease=lambda version: False,
        pasted=(rf"{{site}}/package/([^/]+?)(?:-[0-9][0-9.]*)?{_MORE}",)),
    "hex": Dialect(
        hex_pm, "package", r"[a-z][a-z0-9_]*", "{site}/packages/{name}", "{site}/packages/{name}/{version}",
        normalise=str.lower, is_prerelease=prerelease_by_semver, auth=_header("Authorization"),
        pasted=(rf"{{site}}/packages/{_PART}{_MORE}",)),
    "maven": Dialect(
        maven, "group:artifact", r"[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+", "{site}/{folder}/",
        normalise=_coordinates, auth=_basic_auth("token"),
        pasted=(r"{site}/(.+)/(?:maven-metadata\.xml)?", r"{site}/(.+)")),
    "metacpan": Dialect(
        metacpan, "distribution, or module", r"[A-Za-z0-9_.+-]+", "{site}/v1/release/versions/{name}",
        normalise=lambda name: name.replace("::", "-"), pasted=(rf"{{site}}/v1/release/(?:versions/)?{_PART}",)),
    "npm": Dialect(
        npm, "package, or @scope/package", _PACKAGE, "{site}/{segment}",
        is_prerelease=prerelease_by_semver, auth=_BEARER, pasted=(rf"{{site}}/{_SCOPED}",)),
    "nuget": Dialect(
        nuget, "package", r"[A-Za-z0-9_.-]+", "{site}", key=str.lower, is_prerelease=prerelease_by_semver,
        pasted=(rf"{{site}}/packages/{_PART}{_MORE}",)),
    "oci": Dialect(
        oci, "image, or owner/image", rf"{_IMAGE}(?:/{_IMAGE})*", "{site}/v2/{name}/tags/list", normalise=str.lower,
        auth=_basic_auth("token"), pasted=(r"{site}/v2/(.+?)/(?:tags/list|manifests/.*)", rf"{{site}}/{_TAGGED}")),
    "packagist": Dialect(
        packagist, "vendor/package", _REPOSITORY, "{site}/packages/{name}", normalise=str.lower,
        auth=_basic_auth("token"),
        pasted=(rf"{{site}}/packages/{_PARTS}{_MORE}", rf"{{site}}/p2/{_PARTS}\.json")),
    "pub": Dialect(
        pub, "package", r"[a-z_][a-z0-9_]*", "{site}/packages/{name}/versions",
        "{site}/packages/{name}/versions/{version}", normalise=str.lower, is_prerelease=prerelease_by_semver,
        auth=_BEARER, pasted=(rf"{{site}}/packages/{_PART}{_MORE}",)),
    "quay": Dialect(
        quay, "owner/image", rf"{_IMAGE}(?:/{_IMAGE})+", "{site}/repository/{name}?tab=tags", normalise=str.lower,
        auth=_BEARER, pasted=(rf"{{site}}/repository/{_PARTS}(?:/(?:manifest|tag)/.*)?", rf"{{site}}/{_TAGGED}")),
    "rubygems": Dialect(
        rubygems, "gem", r"[A-Za-z0-9_.-]+", "{site}/gems/{name}", "{site}/gems/{name}/versions/{version}",
        pasted=(rf"{{site}}/gems/{_PART}{_MORE}",)),
    "savannah": Dialect(
        savannah, "repository", r"[A-Za-z0-9_.+-]+(?:/[A-Za-z0-9_.+-]+)*", "{site}/git/{name}.git",
        normalise=_without_git,
        pasted=(r"{site}/(?:git|cgit|r|gitweb)/(.+?)\.git" + _MORE,)),
    "simple": Dialect(
        simple, "package", r"[a-z0-9]+(?:-[a-z0-9]+)*", "{site}/{name}/", normalise=pep503,
        is_prerelease=prerelease_by_pep440, auth=_basic_auth("__token__"),
        pasted=(rf"{{site}}/(?:simple/)?{_PART}/?",)),
    "sourceforge": Dialect(
        sourceforge, "project", r"[a-z0-9_.-]+", "{site}/projects/{name}/files/", normalise=str.lower,
        pasted=(rf"{{site}}/(?:projects|p)/{_PART}{_MORE}",)),
    "sourcehut": Dialect(
        sourcehut, "~user/repository", rf"~{_REPOSITORY}", "{site}/{name}/refs", "{site}/{name}/refs/{version}",
        pasted=(rf"{{site}}/(~[^/]+/[^/]+){_MORE}",)),
}


@dataclasses.dataclass(frozen=True)
class Provider:
    id: str
    site: str                       # where its dialect is spoken
    dialect: Dialect
    example: str = ""               # what a project is called there, for people to see
    page: str = ""                  # instead of the dialect's, where its people look elsewhere
    release_page: str = ""          # and one of its releases
    token_from: str = ""            # the environment variable that may hold its token; "" for the id's own
    pasted: tuple[str, ...] = ()    # addresses that people paste, beyond the dialect's
    purl: tuple[str, ...] = ()      # types of https://github.com/package-url/purl-spec

    @property
    def token_variable(self) -> str:
        return self.token_from or self.id.upper().replace("-", "_") + "_TOKEN"

    @property
    def takes_token(self) -> bool:
        return self.dialect.auth is not _no_auth

    def auth(self, token: str | None) -> dict[str, str]:
        """The headers that hold the token, if there is one."""
        return self.dialect.auth(token) if token else {}


def _table(*rows: Provider) -> dict[str, Provider]:
    return {row.id: row for row in rows}


def _row(id_: str, site: str, speaks: str | Dialect, example: str, **about: Any) -> Provider:
    return Provider(id_, site, DIALECTS[speaks] if isinstance(speaks, str) else speaks, example, **about)


# deps.dev spells names as the registry behind it does.
_PYPI = dataclasses.replace(DIALECTS["depsdev"], pattern=DIALECTS["simple"].pattern, normalise=pep503,
                            is_prerelease=prerelease_by_pep440)
_NPM = dataclasses.replace(DIALECTS["depsdev"], form=DIALECTS["npm"].form, pattern=_PACKAGE,
                           is_prerelease=prerelease_by_semver)
_GITHUB_NPM = dataclasses.replace(DIALECTS["npm"], form="@owner/package", normalise=_scoped)

#   To add a provider, add a row. To speak to a kind of server that has no dialect yet, write the dialect above.
PROVIDERS = _table(
    #    id                         at                                 speaks         for example
    _row("artifacthub",         "https://artifacthub.io",          "artifacthub", "helm/cert-manager/cert-manager"),
    _row("bitbucket",           "https://api.bitbucket.org",       "bitbucket",   "snakeyaml/snakeyaml",
         purl=("bitbucket",),
         page="https://bitbucket.org/{name}/downloads/?tab=tags",
         release_page="https://bitbucket.org/{name}/src/{version}",
         pasted=(rf"bitbucket\.org/{_PARTS}{_MORE}",)),
    _row("cargo",               "https://index.crates.io",         "cargo",       "serde", purl=("cargo",),
         page="https://crates.io/crates/{name}/versions",
         release_page="https://crates.io/crates/{name}/{version}",
         pasted=(rf"(?:crates\.io|lib\.rs)/crates/{_PART}{_MORE}", rf"docs\.rs/(?:crate/)?{_PART}{_MORE}")),
    _row("codeberg",            "https://codeberg.org",            "forgejo",     "forgejo/forgejo"),
    _row("cpan",                "https://fastapi.metacpan.org",    "metacpan",    "Mojolicious", purl=("cpan",),
         page="https://metacpan.org/dist/{name}",
         pasted=(r"metacpan\.org/release/[A-Z0-9]+/([^/]+?)-v?[0-9][^/]*" + _MORE,
                 rf"metacpan\.org/(?:dist|release|pod|module)/{_PART}{_MORE}")),
    _row("debian-gitlab",       "https://salsa.debian.org",        "gitlab",      "debian/devscripts"),
    _row("dockerhub",           "https://hub.docker.com",          "dockerhub",   "nginx",
         purl=("docker", "oci"),
         pasted=(rf"(?:index\.|registry-1\.)?docker\.io/{_TAGGED}",)),
    _row("ecr-public",          "https://public.ecr.aws",          "oci",         "docker/library/redis",
         page="https://gallery.ecr.aws/{name}", pasted=(rf"gallery\.ecr\.aws/{_TAGGED}",)),
    _row("exozyme",             "https://git.exozy.me",            "forgejo",     "owner/repository"),
    _row("freedesktop-gitlab",  "https://gitlab.freedesktop.org",  "gitlab",      "mesa/mesa"),
    _row("gcr",                 "https://gcr.io",                  "oci",         "distroless/static",
         page="https://gcr.io/{name}"),
    _row("gems",                "https://rubygems.org",            "rubygems",    "rails", purl=("gem",)),
    _row("ghcr",                "https://ghcr.io",                 "oci",         "home-assistant/home-assistant",
         page="https://ghcr.io/{name}",
         pasted=(rf"github\.com/{_PART}/[^/]+/pkgs/container/{_PART}{_MORE}",
                 rf"github\.com/(?:orgs|users)/{_PART}/packages/container/(?:package/)?{_PART}{_MORE}")),
    _row("git",                 "",                                "git",
         "https://git.kernel.org/pub/scm/git/git.git"),
    _row("gitea",               "https://gitea.com",               "forgejo",     "gitea/tea"),
    _row("github",              "https://github.com",              "github",      "bottlepy/bottle",
         purl=("github",)),
    _row("github-npm",          "https://npm.pkg.github.com",      _GITHUB_NPM,   "@owner/package",
         page="https://github.com/{name}", token_from="GITHUB_TOKEN",
         pasted=(rf"github\.com/{_PART}/[^/]+/pkgs/npm/{_PART}{_MORE}",)),
    _row("gitlab",              "https://gitlab.com",              "gitlab",      "gitlab-org/gitlab-runner",
         purl=("gitlab",)),
    _row("gnome-gitlab",        "https://gitlab.gnome.org",        "gitlab",      "GNOME/gtk"),
    _row("gnu-savannah",        "https://git.savannah.gnu.org",    "savannah",    "bash",
         pasted=(r"(?:cgit\.)?(?:git\.)?(?:savannah|sv)\.(?:non)?gnu\.org/(?:git|cgit|r|gitweb)/(.+?)\.git" + _MORE,
                 rf"savannah\.(?:non)?gnu\.org/(?:projects|git)/{_PART}{_MORE}",
                 rf"(?:ftp\.)?gnu\.org/(?:gnu|software)/{_PART}{_MORE}")),
    _row("go",                  "https://proxy.golang.org",        "goproxy",     "golang.org/x/text",
         purl=("golang",),
         page="https://pkg.go.dev/{name}?tab=versions",
         release_page="https://pkg.go.dev/{name}@{version}",
         pasted=(r"pkg\.go\.dev/([^@]+)(?:@.*)?",)),
    _row("hackage",             "https://hackage.haskell.org",     "hackage",     "pandoc", purl=("hackage",)),
    _row("hex",                 "https://hex.pm",                  "hex",         "plug", purl=("hex",),
         pasted=(rf"hexdocs\.pm/{_PART}{_MORE}",)),
    _row("k8s",                 "https://registry.k8s.io",         "oci",         "kube-apiserver"),
    _row("kde-gitlab",          "https://invent.kde.org",          "gitlab",      "graphics/krita"),
    _row("maven",               "https://repo1.maven.org/maven2",  "maven",       "com.google.guava:guava",
         purl=("maven",),
         page="https://central.sonatype.com/artifact/{path}/versions",
         release_page="https://central.sonatype.com/artifact/{path}/{version}",
         pasted=(rf"(?:central\.sonatype\.com|mvnrepository\.com|search\.maven\.org)/artifact/{_PARTS}{_MORE}",)),
    _row("npm",                 "https://api.deps.dev",            _NPM,          "@angular/core", purl=("npm",),
         pasted=(rf"(?:[\w-]+\.)?npmjs\.\w+/package/{_SCOPED}",)),
    _row("nuget",               "https://api.nuget.org",           "nuget",       "Newtonsoft.Json",
         purl=("nuget",),
         page="https://www.nuget.org/packages/{name}",
         release_page="https://www.nuget.org/packages/{name}/{version}",
         pasted=(rf"nuget\.org/packages/{_PART}{_MORE}",)),
    _row("packagist",           "https://repo.packagist.org",      "packagist",   "monolog/monolog",
         purl=("composer",),
         page="https://packagist.org/packages/{name}",
         release_page="https://packagist.org/packages/{name}#{version}",
         pasted=(rf"packagist\.org/packages/{_PARTS}{_MORE}",)),
    _row("pub",                 "https://pub.dev",                 "pub",         "http", purl=("pub",)),
    _row("pypi",                "https://api.deps.dev",            _PYPI,         "bottle", purl=("pypi",),
         pasted=(rf"pypi\.\w+/(?:project|simple|p)/{_PART}{_MORE}", rf"piwheels\.org/project/{_PART}{_MORE}")),
    _row("quay",                "https://quay.io",                 "quay",        "prometheus/prometheus"),
    _row("sourceforge",         "https://sourceforge.net",         "sourceforge", "sevenzip",
         pasted=(rf"(?:pr)?downloads\.sourceforge\.net/(?:project/)?{_PART}{_MORE}",
                 rf"(?!(?:(?:pr)?downloads|lists)\.)([a-z0-9-]+)\.(?:sourceforge|sf)\.(?:net|io){_MORE}")),
    _row("sourcehut",           "https://git.sr.ht",               "sourcehut",   "~sircmpwn/scdoc"),
    _row("xfce-gitlab",         "https://gitlab.xfce.org",         "gitlab",      "xfce/xfce4-panel"),
    _row("yarn",                "https://registry.yarnpkg.com",    "npm",         "react",
         page="https://yarnpkg.com/package?name={segment}",
         pasted=(rf"(?:classic\.)?yarnpkg\.com/(?:[a-z]{{2}}/)?package/{_SCOPED}", rf"{{site}}/{_SCOPED}")),
)


def providers_with(rows: Iterable[tuple[str, str, str]], own: Iterable[Provider] = ()) -> dict[str, Provider]:
    """The built-in providers with the operator's added or moved, sorted by id. Raises SettingError.

    A built-in one that is moved and speaks as before keeps its rules; one that speaks another dialect has that one's.
    """
    table = dict(PROVIDERS) | {provider.id: provider for provider in own}
    for id_, speaks, site in rows:
        dialect, old = DIALECTS.get(speaks), table.get(id_)
        if dialect is None:
            raise SettingError(f"--provider {id_}={speaks}:{site}: there is no dialect {speaks!r}; "
                               f"it takes one of: {', '.join(sorted(DIALECTS))}")
        if dialect.read is depsdev and id_ not in _DEPSDEV_SYSTEMS:
            raise SettingError(f"--provider {id_}={speaks}:{site}: deps.dev has no registry {id_!r}; "
                               f"it takes one of: {', '.join(sorted(_DEPSDEV_SYSTEMS))}")
        if old and old.dialect.read is dialect.read:
            table[id_] = dataclasses.replace(old, site=site, page="", release_page="")
        else:
            table[id_] = Provider(id_, site, dialect, token_from=old.token_from if old else "",
                                  pasted=old.pasted if old else (), purl=old.purl if old else ())
    return dict(sorted(table.items()))


def unknown_provider(id_: str) -> str:
    """What is wrong with a project of a provider that this process does not know, though another may."""
    return (f"there is no provider {id_} here, so it is not asked; each command takes the same --provider {id_}=... as "
            "serve, or RELEASETRACK_PROVIDERS")


def name_at(provider: Provider, text: str) -> tuple[str, str]:
    """``(name, key)``: the name as the provider writes it, and what identifies it there. Raises Invalid."""
    dialect = provider.dialect
    name = dialect.normalise(re.sub(r"/+", "/", text.strip()).strip("/"))
    is_odd = len(name) > NAME_LIMIT or re.search(r"(?:^|/)\.{1,2}(?:/|$)", name)
    if is_odd or not re.fullmatch(dialect.pattern, name):
        example = f", such as {provider.example}" if provider.example else ""
        raise Invalid(f"Project name {text[:NAME_LIMIT]!r} has not the form that {provider.id} takes, in at most "
                      f"{NAME_LIMIT} characters: {dialect.form}{example}.")
    return name, dialect.key(name)


def _pasted_at(provider: Provider, address: str) -> str | None:
    """The name of a project in the address of a page about it, which has neither scheme nor query."""
    host, slash, path = provider.site.partition("://")[2].partition("/")
    place = re.escape(f"{host.lower().removeprefix('www.')}{slash}{path}")
    system = _DEPSDEV_SYSTEMS.get(provider.id, "-").lower()
    for pattern in (*provider.pasted, *provider.dialect.pasted, rf"deps\.dev/{system}/{_PART}{_MORE}"):
        if match := re.fullmatch(pattern.replace("{site}", place), address):
            with contextlib.suppress(Invalid):
                return name_at(provider, unquote("/".join(match.groups())))[0]
    return None


def _of_purl(providers: Mapping[str, Provider], purl: str) -> tuple[Provider, str] | None:
    """The project that ``pkg:npm/%40scope/name@1.0`` names: https://github.com/package-url/purl-spec"""
    rest, _, qualifiers = purl.partition("#")[0].partition("?")
    type_, _, path = rest[len("pkg:"):].strip("/").partition("/")
    type_, (folders, slash, last) = type_.lower(), path.rpartition("/")
    name = unquote(f"{folders}{slash}{last.partition('@')[0]}")
    if place := dict(urllib.parse.parse_qsl(qualifiers[:2000])).get("repository_url"):  # an image that is elsewhere
        elsewhere = f"{place}/{name}" if type_ == "docker" else place
        return project_in(providers, elsewhere) if elsewhere[:4].lower() != "pkg:" else None
    for provider in providers.values():
        if type_ in provider.purl:
            with contextlib.suppress(Invalid):
                return provider, name_at(provider, name.rpartition("/")[2] if type_ == "cpan" else name)[0]
    return None


def is_address(text: str) -> bool:
    """Whether a text is meant as an address, not as a name."""
    return bool(re.match(r"(?:git\+)?(?:https?|ssh|git)://|git@|pkg:", text.strip(), re.IGNORECASE))


def project_in(providers: Mapping[str, Provider], text: str) -> tuple[Provider, str] | None:
    """``(provider, name)`` of the project whose page, image, repository or purl an address is; None for others."""
    text = text.strip()
    if text[:4].lower() == "pkg:":
        return _of_purl(providers, text)
    ssh = re.match(r"(?:(?:git\+)?ssh://git@([^:/]+)(?::[0-9]+)?/|git@([^:/]+):)", text)       # as git clone takes it
    if ssh:
        text = f"https://{ssh[1] or ssh[2]}/{text[ssh.end():]}"
    address, _, query = re.sub(r"^(?:git\+)?\w+://", "", text).partition("#")[0].partition("?")
    host, _, path = address.partition("/")
    if re.fullmatch(r"[\w.-]+@[^@]+", host):     # a user without a password, as Bitbucket shows it
        host = host.partition("@")[2]
    asked, path = dict(urllib.parse.parse_qsl(query[:2000])), path.strip("/")
    if path in ("package", "git") and (named := asked.get("name") or asked.get("group")):     # Yarn's, and Savannah's
        path = f"{path}/{named}"
    address = f"{host.lower().removeprefix('www.')}/{path}"[:1000]
    for provider in providers.values():
        if name := _pasted_at(provider, address):
            return provider, name
    if "git" in providers and path.endswith(".git"):
        scheme = "http" if re.match(r"(?:git\+)?http://", text, re.IGNORECASE) else "https"
        with contextlib.suppress(Invalid):
            return providers["git"], name_at(providers["git"], f"{scheme}://{host}/{path}")[0]
    return None


def project_at(providers: Mapping[str, Provider], id_: str | None, text: str) -> tuple[Provider, str, str]:
    """``(provider, name, key)`` of a project by a provider's id and a name there, or by an address without an id.

    The name may be an address even so; it must be of that provider then. Raises Invalid.
    """
    if re.search(r"://[^/@]*:[^/]*@", text):
        raise Invalid("Project name must not hold user and password; a token comes from the environment.")
    if id_ is None:
        found = project_in(providers, text)
        if found is None:
            raise Invalid("Provider is required, unless the project name is the address of a project's page, such as "
                          f"https://github.com/bottlepy/bottle, or a purl; {text[:NAME_LIMIT]!r} is none that is "
                          "known.")
        return (*found, name_at(*found)[1])
    if id_ not in providers:
        raise Invalid(f"Provider {id_[:60]!r} is not known; GET /v1/providers lists those that are.")
    if own := project_in({id_: providers[id_]}, text):
        text = own[1]
    elif id_ != "git" and is_address(text):     # whose names are addresses
        if other := project_in(providers, text):
            raise Invalid(f"Project name {text[:NAME_LIMIT]!r} is an address of the provider {other[0].id}, not {id_}.")
    return (providers[id_], *name_at(providers[id_], text))


def page_of(provider: Provider, name: str, version: str | None = None) -> str:
    """Where people see a project's releases, or one of them."""
    row = provider if provider.page else provider.dialect
    template = version is not None and row.release_page or row.page
    if provider.dialect.read is dockerhub and name.startswith("library/"):
        template, name = "{site}/_/{name}/tags", name.partition("/")[2]
    return _address(template, provider.site, provider.id, name, version or "")


@functools.lru_cache(maxsize=4096)      # a page of projects takes twenty, the same each time
def _address(template: str, site: str, id_: str, name: str, version: str) -> str:
    group, _, artifact = name.partition(":")
    return template.format_map({        # a template of ours; what it is filled with is never read again
        "site": site, "provider": id_, "name": quote(name, safe="/@~:+"), "segment": quote(name, safe=""),
        "path": quote(name.replace(":", "/"), safe="/"), "folder": quote(f"{group.replace('.', '/')}/{artifact}"),
        "version": quote(version, safe="")})


@dataclasses.dataclass(frozen=True)
class Validators:
    """What makes a request conditional, and which."""

    url: str | None = None
    etag: str | None = None
    last_modified: str | None = None

    def applied(self, request: Request) -> Request:
        found = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified if not self.etag else None}
        return dataclasses.replace(request, headers={
            **request.headers, **{name: value for name, value in found.items() if value}})


def _classify(provider: Provider, name: str, asked: Request, answer: Answer) -> None:
    """Raise what an answer's status means, unless it is one to go on with."""
    status = answer.status
    if 200 <= status < 300 or status in asked.passes:
        return
    if status in (404, 410, 451):
        raise ProjectMissing(f"{provider.id} has no project {name} (status {status})")
    if status in (401, 403):
        token = f" and needs a token in {provider.token_variable}" if provider.takes_token else ""
        if provider.auth("x").keys() & asked.headers.keys():
            token = f" and the token in {provider.token_variable} does not open it"
        raise ProviderError(f"{provider.id} does not show {name} (status {status}): it does not exist, is private"
                            f"{token}, or programs are kept out")
    raise ProviderError(f"{provider.id} answered status {status} for {name}")


_WEB_LINK = re.compile(r"https?://[^\0\s\"'<>\ud800-\udfff]+")


def _web_link(url: Any) -> str:
    """A note's link, or nothing: what a page would follow must not be script."""
    return url[:2000] if isinstance(url, str) and _WEB_LINK.fullmatch(url) else ""


def _without_nul(text: str) -> str:
    """The text with another sign for each NUL, at which SQLite ends a text of JSON."""
    return text.replace("\0", "\ufffd")


def _sound_note(provider: Provider, name: str, version: str, note: Note) -> Note:
    """The note with links that lead somewhere, no script in its own, and no NUL."""
    url, title = _web_link(note.url), _without_nul(note.title)
    message = _without_nul(note.message)
    if "=" in message and "<" in message:
        message = harmless_links(absolute_links(message, url or page_of(provider, name, version)))[:NOTE_LIMIT]
    if (url, title, message) == (note.url, note.title, note.message):
        return note
    return dataclasses.replace(note, url=url, title=title, message=message)


def _date_of(release: Release) -> str:
    return (release.date or "").rstrip("Z")


def _by_version(releases: list[Release]) -> list[Release]:
    """Those of one date, as people order versions. Mostly there is one, and a version costs much to be ordered."""
    if len(releases) > 1:
        releases.sort(key=lambda release: version_order(release.version), reverse=True)
    return releases


def _sound(provider: Provider, name: str, releases: Iterable[Release]) -> list[Release]:
    """The releases that can be kept, each version once, marked by the ecosystem's rule, newest first."""
    found: dict[str, Release] = {}
    for release in releases:
        version = release.version
        if not 0 < len(version) <= NAME_LIMIT or not version.isprintable() or version != version.strip():
            continue
        if version in found:
            continue
        is_prerelease = release.is_prerelease or provider.dialect.is_prerelease(version)
        note = release.note and _sound_note(provider, name, version, release.note)
        evidence = release.evidence and _without_nul(release.evidence)
        if note is not release.note or (is_prerelease, evidence) != (release.is_prerelease, release.evidence):
            release = dataclasses.replace(release, is_prerelease=is_prerelease, note=note, evidence=evidence)
        found[version] = release
    by_date = sorted(found.values(), key=_date_of, reverse=True)
    return [release for _, those in itertools.groupby(by_date, _date_of) for release in _by_version(list(those))]


class _Unchanged(Exception):
    """The provider says that nothing has changed."""


def _drive(provider: Provider, name: str, steps: Steps, ask: Callable[[Request], Answer]) -> Any:
    """What the steps return, each of their requests asked. Raises ProviderError for all that can go wrong there."""
    try:
        request = next(steps)
        while True:
            answer = ask(request)
            _classify(provider, name, request, answer)
            request = steps.send(answer)
    except (Stopped, Throttled):
        raise
    except Unreachable as error:
        raise Unreachable(f"{provider.id} could not be asked for {name}: {error}") from error
    except StopIteration as done:
        return done.value
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        what = str(error) if type(error) is ValueError else f"something is missing or of another type: {error!r:.100}"
        what = "".join(letter if letter.isprintable() else " " for letter in what[:200])    # the provider's words
        raise ProviderError(f"{provider.id} answered no list of releases for {name}: {what}") from error
    finally:
        steps.close()


def releases_of(provider: Provider, name: str, ask: Callable[[Request], Answer], token: str | None = None,
                known: Mapping[str, Any] | None = None, validators: Validators = Validators()) -> Listing | None:
    """What a provider has of a project, newest first; None when it says that nothing has changed.

    Raises ProviderError for all that can go wrong there.
    """
    def ask_conditionally(request: Request) -> Answer:
        nonlocal validators
        is_conditional = request.url == validators.url
        answer = ask(validators.applied(request) if is_conditional else request)
        if is_conditional and answer.status == 304:
            raise _Unchanged
        if is_conditional:          # once: the same address may be asked again for something else
            validators = Validators()
        return answer

    subject = Subject(provider.id, provider.site, name, token, {} if known is None else known, provider.auth(token))
    try:
        found: Listing = _drive(provider, name, provider.dialect.read(subject), ask_conditionally)
    except _Unchanged:
        return None
    return dataclasses.replace(found, releases=_sound(provider, name, found.releases))


def marks_of(provider: Provider, names: Sequence[str], ask: Callable[[Request], Answer],
             token: str | None) -> dict[str, str]:
    """A mark for each project, another one once anything was released there; fewer, or none, where its provider
    does not tell. Raises ProviderError."""
    assert provider.dialect.marks
    steps = provider.dialect.marks(provider.site, provider.auth(token), names)
    return _drive(provider, f"{len(names)} projects", steps, ask)


# == tracker ===================================================================
#
# Finds out what is new. Claims sources that are due, asks their providers, compares with what is
# known, and records releases together with their deliveries. A loop that hands out work, and a pool
# that does it; a provider's host is never asked by more than the limit at once.


def _gone_and_back(known: Mapping[str, Known], listing: Listing) -> tuple[list[str], list[str]]:
    """The known versions that are listed no more, and those that were gone and are listed again. A listing may end
    with what is known, so of what is older than all of it nothing can be said."""
    there_are = {release.version for release in listing.releases}
    oldest = min((release.date or known[release.version].date for release in listing.releases
                  if release.date or release.version in known), default="")
    return ([version for version, about in known.items()
             if about.gone_at is None and version not in there_are and about.date > oldest],
            [version for version, about in known.items() if about.gone_at is not None and version in there_are])


def compare(known: Mapping[str, Known], listing: Listing, now: float,
            found: Findings = Findings(0.0)) -> tuple[Findings, list[Release]]:
    """``(what to record, which of it is news)``; lists oldest first. ``found``: what is to be recorded besides.

    New: a version that was not known. Updated: a known one with other evidence of the same kind, or one that is
    no pre-release any more. Where a listing shows the newest only, what is older than all that is known is
    recorded and no news. A release without a date is dated now; at the first sight of a project, where its
    provider dates the newest alone, as the oldest of those.
    """
    dated = [release.date for release in listing.releases if release.date]
    seen_at = min(dated) if dated and not known else timestamp(now)
    new: list[Release] = []
    updated: list[Release] = []
    evidenced: list[Release] = []
    noted: list[Release] = []
    oldest = min((about.date for about in known.values()), default="") if listing.is_window else ""
    for release in reversed(listing.releases):
        before = known.get(release.version)
        if before is None:
            new.append(release if release.date else dataclasses.replace(release, date=seen_at))
            continue
        if release.note and release.note.fingerprint != before.fingerprint:
            noted.append(release)
        kind = (release.evidence or "").partition(":")[0]
        is_same_kind = bool(kind) and (before.evidence or "").startswith(f"{kind}:")
        is_promoted = is_same_kind and bool(before.is_prerelease) and not release.is_prerelease
        if release.evidence and release.evidence != before.evidence or is_promoted:
            (updated if is_same_kind else evidenced).append(
                dataclasses.replace(release, date=before.date, is_updated=is_same_kind))
    gone, back = _gone_and_back(known, listing)
    findings = dataclasses.replace(found, new=new, updated=updated, evidenced=evidenced, noted=noted, gone=gone,
                                   back=back)
    return findings, [release for release in new if (release.date or "") >= oldest] + updated


def excluded(project: Project, releases: Sequence[Release], patterns: Patterns) -> list[bool]:
    """For each release whether the project's settings exclude it."""
    by_pattern = patterns.excluded(project.exclude_version_regexp, [release.version for release in releases])
    return [is_matched or project.exclude_prereleases and release.is_prerelease
            or project.exclude_updated and release.is_updated
            for release, is_matched in zip(releases, by_pattern)]


_AT_ONCE = 50           # projects that one query asks for
_GATHER = 0.01          # seconds in which checks may end that are then followed by others at once
_LAST_CALL = 10.0       # seconds before a digest's time from which on all goes into the next: recording takes a moment
_MARK = "mark"          # stands for an address where a source's ``etag`` is its mark


def _tells_marks(provider: Provider) -> bool:
    """Whether a provider can be asked for many projects at once: it knows how, and there is a token."""
    return provider.dialect.marks is not None and bool(os.environ.get(provider.token_variable))


def is_meant(destination: Destination, project: Project, release: Release | None) -> bool:
    """Whether a destination hears of a project's release, or where there is none of how its source is.

    Of a kind of which the project lists destinations those do; else the account's that are for every project.
    """
    listed, tags = project.destinations.get(destination.kind), set(project.tags)
    if destination.kind == "email" and project.email_notification == "none":
        return False
    return ((destination.id in listed if listed else destination.is_for_every_project)
            and (not destination.tags or not tags.isdisjoint(destination.tags))
            and tags.isdisjoint(destination.without_tags)
            and (release is None or bool(release.cve) or not destination.is_security_only))


def recipients_of(subscriber: Subscriber, release: Release | None, now: float, has_mail: bool) -> tuple[Recipient, ...]:
    """Who is told of a project's release, or where there is none of how its source is, and when.

    Webhooks hear of releases alone. A project may have its releases held for some days, but not security fixes.
    """
    project, held_until = subscriber.project, now
    if release and project.hold_days and not release.cve:
        out_since = datetime.datetime.fromisoformat((release.date or "").rstrip("Z") + "+00:00").timestamp()
        out_since = now if release.is_updated else min(out_since, now)
        held_until = max(now, out_since + project.hold_days * DAY)
    found = []
    for destination in subscriber.destinations:
        if not is_meant(destination, project, release) or not has_mail and destination.kind == "email" or (
                release is None and destination.kind == "webhook"):
            continue
        schedule = {"email": project.email_notification, "webhook": "instant"}.get(
            destination.kind, destination.schedule)
        is_digested = schedule != "instant"
        due_at = next_boundary(schedule, held_until + is_digested * _LAST_CALL, subscriber.account.time_zone)
        found.append(Recipient(destination.id, due_at, is_digested, held_until > now))
    return tuple(found)


class _KnownLater(Mapping[str, Known]):
    """What the store has of a source, read when a dialect first asks: after a 304 nobody does."""

    def __init__(self, read: Callable[[], dict[str, Known]]) -> None:
        self._read = read

    @functools.cached_property
    def _found(self) -> dict[str, Known]:
        return self._read()

    def __getitem__(self, version: str) -> Known:
        return self._found[version]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class Tracker:
    """Checks sources. ``clock`` and ``spread`` (in [0, 1)) are for tests to choose."""

    def __init__(self, store: Store, fetcher: Fetcher, providers: Mapping[str, Provider], settings: Settings,
                 patterns: Patterns, clock: Callable[[], float] = time.time,
                 spread: Callable[[], float] = random.random) -> None:
        self.store, self.fetcher, self.providers, self.patterns = store, fetcher, providers, patterns
        self.listeners: list[Callable[[Mapping[str, Any]], None]] = []
        self.beat_at = 0.0              # of the loop, on the monotonic clock
        self._interval, self._host_limit = settings.poll_interval, settings.host_limit
        self._has_mail = bool(settings.smtp_url)
        self._intervals = {
            id_: limit.every for id_, provider in providers.items()
            if (limit := HOST_LIMITS.get(host_of(provider.site))) and limit.every > self._interval}
        self._clock, self._spread = clock, spread
        self._me = make_id()
        self._stopping = threading.Event()
        self._under_way: set[int] = set()           # sources whose claims are held
        self._jobs: Counter[str] = Counter()        # host -> how many ask it now
        # One check computes while others wait for answers: threads that fight for the interpreter's lock are slower
        # together, starve those who answer requests, and each hold what they have read.
        self._computing = threading.Lock()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None

    def start(self) -> None:
        for id_ in self.store.providers_tracked():
            if id_ not in self.providers:
                log.warning("provider %s: %s", id_, unknown_provider(id_))
        self._me = make_id()            # anew: this may be a process forked from the one that made us
        self._pool = ThreadPoolExecutor(max(16, self._host_limit), thread_name_prefix="releasetrack-check")
        self._thread = threading.Thread(target=self._run, name="releasetrack-tracker", daemon=True)
        self.store.is_tracked = True
        self.beat_at = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Take no more work; ``join`` waits for what is under way."""
        self._stopping.set()
        self.store.is_tracked = False
        self.store.poll_bell.set()

    def join(self) -> None:
        if self._thread and self._pool:
            self._thread.join()
            self._pool.shutdown(wait=True, cancel_futures=True)

    def is_alive(self) -> bool:
        has_beaten = bool(self.beat_at) and time.monotonic() - self.beat_at < 3 * LEASE
        return self._thread is not None and self._thread.is_alive() and has_beaten

    def _run(self) -> None:
        renewed_at = righted_at = tried_at = 0.0
        self.fetcher.check_certificates()       # here, since it takes a moment
        while not self._stopping.is_set():
            self.beat_at = time.monotonic()
            self.store.poll_bell.clear()
            try:
                self.fetcher.close_idle(_IDLE)
                if self.beat_at - tried_at >= LEASE:
                    self.store.try_to_write()       # for whoever asks how the store is, also where nothing is due
                    tried_at = self.beat_at
                if not righted_at or self.beat_at - righted_at >= MINUTE:
                    self.store.bring_forward(self._clock(), self._interval, self._intervals)
                    righted_at = self.beat_at
                if self._under_way and self.beat_at - renewed_at >= LEASE / 3:
                    self.store.renew_sources(self._me, self._clock(), list(self._under_way))
                    renewed_at = self.beat_at
                self._hand_out()
            except StoreUnavailable as error:
                log.warning("tracker: %s", error)
                self._stopping.wait(1)
            except Exception:   # a fault of ours costs some turns, not the loop its life; health says so meanwhile
                log.exception("tracker: a turn failed")
                self.beat_at = 0.0
                self._stopping.wait(10)
            if self.store.poll_bell.wait(LEASE / 3):
                time.sleep(_GATHER)

    def _hand_out(self) -> None:
        """Claim what is due at hosts that are asked by few enough, and have it checked. Where many projects can be
        asked for at once, those that are due soon go with the ones that are due."""
        now = self._clock()
        wanted, due_by, room = dict[str, int](), dict[str, float](), Counter[str]()
        for id_ in self.store.due_providers(self.providers, now):
            provider = self.providers[id_]
            host = host_of(provider.site)
            with self._lock:
                left = self._host_limit - self._jobs[host] - room[host]
            if left > 0 and _tells_marks(provider):
                wanted[id_], due_by[id_] = _AT_ONCE, now + self._interval / 10
                room[host] += 1
            elif left > 0:
                wanted[id_] = left
                room[host] += left
        claimed = self.store.claim_sources(wanted, self._me, now, due_by) if wanted else []
        for id_, sources in itertools.groupby(claimed, key=lambda source: source.provider):
            if _tells_marks(self.providers[id_]):
                self._submit(list(sources))
            else:
                for source in sources:
                    self._submit([source])

    def _submit(self, sources: Sequence[Source]) -> None:
        """Have the pool check these sources of one provider, one after the other."""
        host = host_of(self.providers[sources[0].provider].site)
        with self._lock:
            self._under_way |= {source.id for source in sources}
            self._jobs[host] += 1
        assert self._pool
        self._pool.submit(self._check_claimed, host, sources)

    def _check_claimed(self, host: str, sources: Sequence[Source]) -> None:
        try:
            marks = self._marks(sources) if len(sources) > 1 else {}
            for source in sources:
                if self._stopping.is_set():
                    break
                self.check(source, marks.get(source.name))
                with self._lock:
                    self._under_way.discard(source.id)
        finally:
            with self._lock:
                self._under_way -= {source.id for source in sources}
                self._jobs[host] -= 1
            self.store.poll_bell.set()

    def _marks(self, sources: Sequence[Source]) -> dict[str, str]:
        """What tells whether anything was released, by name; what is not told is found out one by one."""
        provider = self.providers[sources[0].provider]
        names = [source.name for source in sources if source.succeeded_at is not None]
        try:
            token = os.environ.get(provider.token_variable)
            return marks_of(provider, names, self.fetcher.fetch, token) if names else {}
        except ProviderError as error:
            log.debug("provider %s: %s", provider.id, error)
            return {}

    def check_now(self, source_id: int) -> tuple[Source, list[Release]] | None:
        """Check one source, due or not: ``(the source after it, what is news)``. None if another checks it."""
        source, news = self.store.claim_source(source_id, self._me, self._clock()), None
        if source:
            with renewing(lambda: self.store.renew_sources(self._me, self._clock(), [source_id])):
                news = self.check(source)
        after = self.store.source(source_id) or source      # which has joined another, if it is gone
        return (after, news) if after and news is not None else None

    def check(self, source: Source, mark: str | None = None) -> list[Release]:
        """Check a claimed source and record what came of it: the releases that are news. Never raises.

        ``mark``: what its provider told of it beforehand; the same as last time means that nothing is new.
        """
        now = self._clock()
        interval = self._intervals.get(source.provider, self._interval)
        next_check_at = now + interval * (1 + self._spread() / 10)
        try:
            with self._computing:
                if self.store.is_asked:     # those who wait for an answer go first
                    time.sleep(0.006)
                events, news = self._check(source, next_check_at, mark)
            self._tell_listeners(events)
            return news
        except Stopped:     # the claim runs out, and the source is checked again by the next process
            pass
        except Throttled as error:
            # Without jitter, so that who was put off goes before who was served meanwhile.
            self._fail(source, str(error), now + error.seconds, counts=False, quota_left=error.quota_left)
        except ProviderError as error:
            backed_off = min(interval * 2 ** min(source.failures + 1, 20), max(interval, 6 * HOUR))
            self._fail(source, str(error), now + backed_off * (1 + self._spread() / 10),
                       is_not_found=isinstance(error, ProjectMissing))
        except StoreUnavailable as error:   # the claim runs out, and the source is checked again
            log.warning("source %s/%s: %s", source.provider, source.name, error)
        except Exception:   # a fault of ours costs this source a check, not the thread its life
            log.exception("source %s/%s: check failed", source.provider, source.name)
            self._fail(source, "internal error, see the log", next_check_at)
        return []

    @contextlib.contextmanager
    def _let_go(self) -> Iterator[None]:
        """Others may compute while a check waits."""
        self._computing.release()
        try:
            yield
        finally:
            self._computing.acquire()

    def _fail(self, source: Source, error: str, next_check_at: float, counts: bool = True, **about: Any) -> None:
        """Record a check that failed; where that has gone on for long, its accounts are told, once."""
        log.warning("source %s/%s: %s", source.provider, source.name, error)
        now, (times, seconds) = self._clock(), TOLD_AFTER
        is_news = counts and not source.is_told and source.failures + 1 >= times and (
            now - (source.failing_since or now) >= seconds)
        with contextlib.suppress(StoreUnavailable):
            events = self._health_events("failing", source, error) if is_news else []
            self.store.record_failure(source.id, self._me, error, next_check_at, counts=counts, events=events, **about)

    def _health_events(self, kind: str, source: Source, error: str) -> list[Event]:
        now, provider = self._clock(), self.providers.get(source.provider)
        return [Event(subscriber.project.id, health_body(subscriber, error, now),
                      page_of(provider, source.name) if provider else "",
                      recipients_of(subscriber, None, now, self._has_mail), kind)
                for subscriber in self.store.subscribers(source.id)]

    def _check(self, source: Source, next_check_at: float,
               mark: str | None) -> tuple[Sequence[Event], list[Release]]:
        provider = self.providers.get(source.provider)
        if provider is None:
            raise ProviderError(unknown_provider(source.provider))
        if mark and (source.etag_url, source.etag) == (_MARK, mark):
            return self._record(source, Findings(next_check_at, _MARK, mark), [])
        known = _KnownLater(functools.partial(self.store.known_releases, source.id))
        quota: int | None = None

        def ask(request: Request) -> Answer:
            nonlocal quota
            with self._let_go():
                answer = self.fetcher.fetch(request, source.is_trusted)
            left = requests_left(answer.headers)
            quota = quota if left is None else left
            return answer

        listing = releases_of(provider, source.name, ask, os.environ.get(provider.token_variable), known,
                              Validators(source.etag_url, source.etag, source.last_modified))
        findings = Findings(next_check_at, source.etag_url, source.etag, source.last_modified, quota)
        if listing:
            vouched = listing.vouched.headers if listing.vouched else {}
            findings = Findings(next_check_at, listing.vouched.asked if listing.vouched else None, vouched.get("etag"),
                                vouched.get("last-modified"), quota)
        if mark:
            findings = dataclasses.replace(findings, etag_url=_MARK, etag=mark, last_modified=None)
        if listing is None:
            return self._record(source, findings, [])
        findings, news = compare(known, listing, self._clock(), findings)
        if source.succeeded_at is None:     # the first sight of a project is its history
            news = []
        with self._let_go():        # a user's pattern may take its time, in a process of its own
            events = [event for subscriber in (self.store.subscribers(source.id) if news else ())
                      for event in self._events(provider, subscriber, news)]
        return self._record(source, dataclasses.replace(
            findings, events=events, renamed=self._renamed(provider, source, listing),
            news=[release.version for release in news]), news)

    def _record(self, source: Source, found: Findings, news: list[Release]) -> tuple[Sequence[Event], list[Release]]:
        """What is told and what is news, once it is recorded; nothing if the claim was lost."""
        if source.is_told:
            found = dataclasses.replace(found, events=[
                *self._health_events("recovered", source, source.error or ""), *found.events])
        try:
            recorded = self.store.record_found(source.id, self._me, found, waits=False)
        except StoreUnavailable:
            with self._let_go():        # other checks may go on while it waits for its turn
                recorded = self.store.record_found(source.id, self._me, found)
        if recorded is None:
            return [], []
        for release in news:
            log.info("release %s/%s %s: %s", source.provider, source.name, release.version,
                     "updated" if release.is_updated else "new")
        return [event for event in recorded.events if event.kind == "release"], news

    def _tell_listeners(self, events: Sequence[Event]) -> None:
        for event, listener in itertools.product(events, self.listeners):
            try:
                listener(event.body)
            except Exception:       # of the embedding program; what is stored is stored, and others are told
                log.exception("listener %r: failed", listener)

    def _renamed(self, provider: Provider, source: Source, listing: Listing) -> tuple[str, str] | None:
        """``(name, key)`` that a project has now, if it is another than it had."""
        with contextlib.suppress(Invalid):
            name, key = name_at(provider, listing.name or source.name)
            if key != source.key:
                log.info("source %s/%s: it is called %s now", source.provider, source.name, name)
                return name, key
        return None

    def _events(self, provider: Provider, subscriber: Subscriber, news: Sequence[Release]) -> Iterator[Event]:
        """What a project is told of: the news that it does not exclude."""
        project = subscriber.project
        for release, is_excluded in zip(news, excluded(project, news, self.patterns)):
            if not is_excluded:
                url = release.note.url if release.note and release.note.url else page_of(
                    provider, project.name, release.version)
                yield Event(project.id, event_body(subscriber, release), url,
                            recipients_of(subscriber, release, self._clock(), self._has_mail))


# == notifications =============================================================
#
# What is sent, and when again: a row for each kind of destination, what it asks for and how it is
# spoken to; signatures, digests and the retry schedule. Pure: no thread, no clock, no network. The
# signature is the contract's; beside it that of Standard Webhooks 1.0.0
# (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).

_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\xa0-\xff]{0,4096}")
_OWN_HEADERS = re.compile(
    r"host|content-.*|transfer-encoding|connection|keep-alive|proxy-.*|user-agent|webhook-.*|expect|te|trailer|upgrade")
FILLED_LIMIT = 64 * KIB     # characters of all custom fields


def retry_delay(failures: int, first: float, age: float, spread: float) -> float | None:
    """Seconds to wait after the ``failures``-th failed attempt (1, 2, ...) of a delivery that was queued ``age``
    seconds ago; None: give up: three days have gone, and not because somebody set the clock.

    ``spread`` in [0, 1) lengthens the wait by up to a tenth, so that deliveries which failed together do not
    all come back together.
    """
    wait = min(first * 2 ** min(failures - 1, 40), RETRY_LONGEST) * (1 + spread / 10)
    return None if age + wait > RETRY_FOR and failures >= RETRY_LEAST else wait


def outcome(is_accepted: bool, retry_after: float | None, failures: int, first: float, age: float,
            spread: float) -> tuple[str, float]:
    """What an attempt makes of its delivery: the new state, and in how many seconds to attempt again if ever.
    ``retry_after``, what the receiver asked for, only lengthens."""
    if is_accepted:
        return "delivered", 0.0
    wait = retry_delay(failures, first, age, spread)
    return ("failed", 0.0) if wait is None else ("pending", max(wait, retry_after or 0.0))


@dataclasses.dataclass(frozen=True)
class Sender:
    """Who we are to receivers."""

    brand: str                      # of the headers X-BRAND-Signature and X-BRAND-Timestamp
    address: str                    # of mail
    domain: str                     # of message ids
    base_url: str                   # where people reach the service, if that is known


@dataclasses.dataclass(frozen=True)
class Item:
    """What is told of one event, as plain text; each kind escapes it by its own rules."""

    provider: str
    project: str
    heading: str                    # the project and the version, or what has happened to the project
    marks: tuple[str, ...]          # "pre-release", "updated", "fixes CVE-2026-0001"
    url: str
    time: str                       # RFC 3339
    memo: str                       # the project's own note
    text: str                       # the release's note, or what is wrong
    is_security: bool

    @property
    def line(self) -> str:
        return f"{self.heading} ({', '.join(self.marks)})" if self.marks else self.heading


_NOTICES = {"failing": "its releases could not be read for days", "recovered": "its releases are read again"}


def _plain(text: str) -> str:
    """A text without control characters, line ends aside, and halves of surrogates: they take six bytes each in JSON,
    and services refuse them."""
    return re.sub("[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]", "", text.replace("\t", " "))


def item_of(delivery: Delivery) -> Item:
    body: dict[str, Any] = {
        name: _plain(value) if isinstance(value, str) else value for name, value in delivery.body.items()}
    url = delivery.url if re.match("https?://", delivery.url, re.IGNORECASE) else ""
    if delivery.kind != "release":
        said = "what is wrong: " if delivery.kind == "failing" else "what was wrong: "
        heading = f"{body['project']} ({body['provider']}): {_NOTICES[delivery.kind]}"
        return Item(body["provider"], body["project"], heading, (), url, body["time"], body.get("project_note", ""),
                    said + body["error"], False)
    note, cves = body.get("note", {}), [_plain(one) for one in body.get("cve", ())]
    marks = [f"fixes {', '.join(cves)}"] if cves else []
    marks += ["pre-release"] if body.get("is_prerelease") else []
    marks += ["updated"] if body.get("is_updated") else []
    title, text = _plain(note.get("title", "")).strip(), _plain(plain_text(note.get("message", "")))
    if title and body["version"] not in title and not text.startswith(title):
        text = f"{title}\n{text}"
    return Item(body["provider"], body["project"], f"{body['project']} {body['version']}", tuple(marks), url,
                body["time"], body.get("project_note", ""), text.strip(), bool(cves))


def items_in_order(items: Sequence[Item]) -> list[Item]:
    """Newest first, those of a project together, projects with security fixes on top."""
    by_project: dict[tuple[str, str], list[Item]] = {}
    for item in sorted(reversed(items), key=lambda item: item.time, reverse=True):
        by_project.setdefault((item.provider, item.project), []).append(item)
    groups = sorted(by_project.values(), key=lambda group: not any(item.is_security for item in group))
    return [item for group in groups for item in group]


@dataclasses.dataclass(frozen=True)
class Message:
    """What is sent at once: a delivery, or a digest of several."""

    id: str
    parcel: Sequence[Delivery]
    sender: Sender
    now: float

    @functools.cached_property
    def items(self) -> list[Item]:
        """What it tells, in the order in which it is shown."""
        return items_in_order([item_of(delivery) for delivery in self.parcel])

    @property
    def destination(self) -> Destination:
        return self.parcel[0].destination

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.destination.settings

    @property
    def is_security(self) -> bool:
        return any(item.is_security for item in self.items)

    @property
    def title(self) -> str:
        """One line that says all."""
        if len(self.items) == 1:
            return self.items[0].line
        releases = sum(delivery.kind == "release" for delivery in self.parcel)
        fixes = sum(item.is_security for item in self.items)
        parts = [f"{releases} release{'s' * (releases != 1)}"] if releases else []
        parts += [f"{fixes} with security fixes"] if fixes else []
        if others := len(self.items) - releases:
            parts.append(f"{others} notice{'s' * (others != 1)} about projects")
        return ", ".join(parts)

    @property
    def link(self) -> str:
        """Where to read on."""
        return self.items[0].url if len(self.items) == 1 else self.sender.base_url or self.items[0].url


def utf16_units(text: str) -> int:
    """The length of a text as most of these services count it."""
    return len(text) + sum(letter > "\uffff" for letter in text)


def utf8_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def json_bytes(text: str) -> int:
    """What a text takes of a request in JSON, its line ends as HTML's."""
    return len(json.dumps(text.replace("\n", "<br>"), ensure_ascii=False).encode("utf-8", "replace"))


def shortened(text: str, room: int, escape: Callable[[str], str] = str, size: Callable[[str], int] = len) -> str:
    """As much of the text, escaped, as there is room for; an ellipsis where it was cut, if possible at a space."""
    whole = escape(text) if len(text) <= room else None
    if whole is not None and size(whole) <= room:
        return whole
    low, high = 0, min(len(text), max(room, 0))
    while low < high:       # the longest beginning that fits
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(escape(text[:middle])) + size("…") <= room else (low, middle - 1)
    cut = text[:low]
    cut = cut[:max(cut.rfind(" "), cut.rfind("\n"))] if max(cut.rfind(" "), cut.rfind("\n")) > low * 0.8 else cut
    return escape(cut.rstrip()) + "…" if cut.strip() else ""


@dataclasses.dataclass(frozen=True)
class Markup:
    """How a service writes text: ``escape`` makes anybody's text harmless; the others take escaped text."""

    escape: Callable[[str], str] = str
    bold: Callable[[str], str] = str
    link: Callable[[str, str], str] | None = None       # None: addresses stand in lines of their own
    size: Callable[[str], int] = utf16_units


_LONGEST_LINK = 1000        # characters of an address in a message; one that is longer is left out


def _linkable(url: str) -> str:
    """An address as it may stand in any markup: no bracket, quote, pipe or space would end it early."""
    safe = quote(url, safe="/:?&=%#@!$,;+~-._")
    return safe if len(safe) <= _LONGEST_LINK else ""


def _block(item: Item, markup: Markup, room: int, each: int) -> str:
    """An item in at most ``each`` of what the service counts, with ``room`` for its note."""
    heading, url = shortened(item.heading, 250, markup.escape, markup.size), _linkable(item.url)
    head = markup.bold(markup.link(heading, url) if url and markup.link else heading)
    if item.marks:
        head += shortened(f" ({', '.join(item.marks)})", 300, markup.escape, markup.size)
    if url and not markup.link:
        head += f"\n{url}"
    if item.memo and room:
        head += "\n" + shortened(item.memo, min(500, room), markup.escape, markup.size)
    text = shortened(item.text, min(room, each - markup.size(head) - 1), markup.escape, markup.size)
    return f"{head}\n{text}" if text else head


def blocks_of(message: Message, markup: Markup, limit: int, each: int = 10**9, most: int = 10**9) -> list[str]:
    """A block for each item, under a title where there are several: ``limit`` for all, ``each`` for one, in what the
    service counts, ``most`` in number. Notes are cut first; what has no room at all is counted at the end."""
    if len(message.items) == 1:
        item = message.items[0]
        bare = _block(dataclasses.replace(item, text=""), markup, limit, each)
        return [_block(item, markup, max(0, limit - markup.size(bare) - 1), each)]
    title = markup.bold(markup.escape(message.title))
    for room in (1000, 400, 160, 0):
        blocks = [_block(item, markup, room, each) for item in message.items]
        if sum(markup.size(one) + 2 for one in (title, *blocks)) <= limit and len(blocks) < most:
            return [title, *blocks]
    left = limit - markup.size(title) - 60
    kept: list[str] = []
    for one in blocks:
        if markup.size(one) + 2 <= left and len(kept) < most - 2:
            left -= markup.size(one) + 2
            kept.append(one)
    return [title, *kept, markup.escape(f"… and {len(blocks) - len(kept)} more")]


def text_of(message: Message, markup: Markup, limit: int) -> str:
    return "\n\n".join(blocks_of(message, markup, limit))


def text_below_title(message: Message, markup: Markup, limit: int) -> str:
    """The text without its first line, for a service that shows the title itself; all of it if there is no more."""
    text = text_of(message, markup, limit)
    return text.partition("\n")[2].strip() or text


def _entities(text: str) -> str:
    return html.escape(text, quote=False)


def _unmentioned(text: str) -> str:
    """Nobody is called by what a stranger wrote: an invisible space stands behind each @."""
    return text.replace("@", "@\u200b")


def _markdown(text: str) -> str:
    """With all escaped that could be markup; but not within an address, which clients take as it stands."""
    parts = re.split(r"(https?://[^\s<>\[\]()`\\]+)", text)
    return "".join(part if at % 2 else re.sub(r"([\\`*_{}\[\]()#+\-.!|~>])", r"\\\1", part)
                   for at, part in enumerate(parts))


def _markdown_link(text: str, url: str) -> str:
    return f"[{text}]({url})"


def _html_link(text: str, url: str) -> str:
    return f'<a href="{html.escape(url)}">{text}</a>'


_MRKDWN = Markup(_entities, "*{}*".format, "<{1}|{0}>".format, utf8_bytes)
_TELEGRAM = Markup(lambda text: _unmentioned(_entities(text)), "<b>{}</b>".format, _html_link)
_DISCORD = Markup(lambda text: _markdown(text).replace("<", "\\<"), "**{}**".format, _markdown_link)
_MATTERMOST = Markup(lambda text: _unmentioned(_markdown(text).replace("&", "&amp;").replace("<", "&lt;")),
                     "**{}**".format, _markdown_link)
# It has no escapes that every version knows; what would make a link, or call somebody, is broken instead.
_ROCKETCHAT = Markup(lambda text: _unmentioned(text).replace("](", "]\u200b(").replace("<", "<\u200b"),
                     "*{}*".format, _markdown_link)
_HTML = Markup(html.escape, "<b>{}</b>".format, _html_link, json_bytes)
_PLAIN = Markup(size=json_bytes)
_UNLINKED = Markup(link=lambda text, url: text, size=json_bytes)       # the address stands elsewhere


def _json_request(url: str, content: Mapping[str, Any], method: str = "POST", **headers: str) -> Request:
    body = compact_json(content).encode("utf-8", "replace")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(url, {"Content-Type": "application/json; charset=utf-8", "Accept": "application/json",
                         "User-Agent": USER_AGENT, **named}, method, body, reads=64 * KIB)


def template_values(body: Mapping[str, Any], url: str) -> dict[str, str]:
    """The variables of templates, from the standard body of an event."""
    note, account = body.get("note", {}), body["account"]
    message = note.get("message", "")
    values = {
        "provider": body["provider"], "project": body["project"], "version": body["version"], "time": body["time"],
        "cve": ", ".join(body.get("cve", ())), "is_prerelease": "true" if body.get("is_prerelease") else "false",
        "is_updated": "true" if body.get("is_updated") else "false", "note_title": note.get("title", ""),
        "note_message": message, "note_text": plain_text(message), "account_type": account["type"],
        "account_id": account["id"], "account_name": account["name"],
        "tags": ", ".join(tag["name"] for tag in body.get("tags", ())), "project_note": body.get("project_note", ""),
        "url": url}
    assert values.keys() == TEMPLATE_NAMES
    return values


def sample_values(account: Account) -> dict[str, str]:
    """A made-up release to test with, in the names of templates."""
    return {"provider": "github", "project": "octocat/hello-world", "version": "1.2.3",
            "time": "2026-01-31T08:00:00Z", "cve": "", "is_prerelease": "false", "is_updated": "false",
            "note_title": "Hello World 1.2.3", "note_message": "<p>This is a <b>test</b> of a notification.</p>",
            "account_type": account.type, "account_id": account.id, "account_name": account.name, "tags": "",
            "project_note": "", "url": "https://github.com/octocat/hello-world/releases/tag/1.2.3"}


def sample(given: Sequence[str], account: Account) -> tuple[dict[str, Any], str]:
    """``(body, url)`` of an event to test with: what ``given`` says as NAME=VALUE, in the names of templates, and for
    the rest a made-up release. Raises Invalid."""
    values = sample_values(account)
    if any(line.startswith(("provider=", "project=", "version=")) for line in given):
        values |= {"url": "", "note_title": ""}     # those of the made-up one would mislead
    faults = []
    for line in given:
        name, equals, value = line.partition("=")
        if name not in values or not equals:
            faults.append(f"Data {line[:60]!r}: it takes NAME=VALUE, NAME one of {', '.join(sorted(values))}.")
        else:
            values[name] = value
    for name in ("is_prerelease", "is_updated"):
        if values[name] not in ("true", "false"):
            faults.append(f"Data {name}: it takes true or false.")
    try:
        values["time"] = utc(values["time"]) or ""
    except ValueError:
        values["time"] = ""
    if not values["time"]:
        faults.append("Data time: it takes a time such as 2026-01-31T08:00:00Z.")
    if values["account_type"] not in ACCOUNT_TYPES:
        faults.append("Data account_type: it takes user or organization.")
    faults += [f"Data {name}: it takes a text." for name in ("provider", "project", "version")
               if not values[name].strip()]
    if faults:
        raise Invalid(*faults)
    body: dict[str, Any] = {name: values[name] for name in ("provider", "project", "version", "time")}
    body |= {"cve": cve} if (cve := [one for one in re.split("[, ]+", values["cve"]) if one]) else {}
    body |= {name: True for name in ("is_prerelease", "is_updated") if values[name] == "true"}
    if values["note_title"] or values["note_message"]:
        body["note"] = {"title": values["note_title"], "message": values["note_message"]}
    body["account"] = {name: values[f"account_{name}"] for name in ("type", "id", "name")}
    names = [name.strip() for name in values["tags"].split(",") if name.strip()]
    body |= {"tags": [{"id": secret_hash(name).hex()[:26], "name": name} for name in names]} if names else {}
    body |= {"project_note": values["project_note"]} if values["project_note"] else {}
    return body, values["url"]


def notification_body(settings: Mapping[str, Any], body: Mapping[str, Any], url: str) -> bytes:
    """What a webhook is sent: the standard body, or its custom fields. Compact JSON in UTF-8."""
    if settings["fields"]:
        values, left, filled = template_values(body, url), FILLED_LIMIT, dict[str, str]()
        for name, template in settings["fields"].items():
            filled[name] = fill(template, values, left)
            left -= len(filled[name])
        body = filled
    return compact_json(body).encode("utf-8", "replace")


def signature(secret: str, moment: int, body: bytes) -> str:
    """The contract's signature: HMAC-SHA256, keyed with the whole secret, in hexadecimal."""
    return hmac.new(secret.encode(), b"%d." % moment + body, hashlib.sha256).hexdigest()


def standard_signature(secret: str, id_: str, moment: int, body: bytes) -> str:
    """The signature of Standard Webhooks: keyed with the bytes behind ``whsec_``."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{id_}.{moment}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def _webhook(message: Message) -> Request:
    """The signed request of one attempt. Its body is the same at every attempt; its time is the attempt's. For a day
    after its secret was renewed the former one signs too, as Standard Webhooks has it."""
    delivery, destination, moment = message.parcel[0], message.destination, int(message.now)
    brand = message.sender.brand
    body = notification_body(destination.settings, delivery.body, delivery.url)
    keys = [destination.secret]
    if destination.previous_secret and message.now < (destination.previous_until or 0.0):
        keys.append(destination.previous_secret)
    return Request(destination.settings["url"], {
        **destination.settings["headers"],
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        f"X-{brand}-Timestamp": str(moment),
        f"X-{brand}-Signature": signature(destination.secret, moment, body),
        "webhook-id": message.id,
        "webhook-timestamp": str(moment),
        "webhook-signature": " ".join(standard_signature(key, message.id, moment, body) for key in keys),
    }, "POST", body, is_repeatable=True)    # receivers know it again by its id


def _slack(message: Message) -> Request:
    """https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks and
    https://docs.slack.dev/reference/methods/chat.postMessage; 3,000 characters to a section, some 12,000 in all."""
    sections = blocks_of(message, _MRKDWN, 10_000, each=2900, most=48)
    content = {
        "text": shortened(message.title, 1000, _entities), "unfurl_links": False, "unfurl_media": False,
        "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": one, "verbatim": True}} for one in sections]}
    about = message.settings
    if about["url"]:
        return _json_request(about["url"], content)
    return _json_request(f"{about['server'] or 'https://slack.com'}/api/chat.postMessage",
                         {"channel": about["channel"], **content}, Authorization=f"Bearer {about['token']}")


def _telegram(message: Message) -> Request:
    """https://core.telegram.org/bots/api#sendmessage; 4,096 characters."""
    about = message.settings
    thread = {"message_thread_id": int(about["thread"])} if about["thread"] else {}
    return _json_request(f"{about['server']}/bot{about['token']}/sendMessage", {
        "chat_id": about["chat"], **thread, "text": text_of(message, _TELEGRAM, 4000), "parse_mode": "HTML",
        "link_preview_options": {"is_disabled": True}})


_COLOURS = {True: 0xC0392B, False: 0x2E86C1}


def _discord(message: Message) -> Request:
    """https://docs.discord.com/developers/resources/webhook; with ``wait`` it answers once the message is stored."""
    url, item = message.settings["url"], message.items[0]
    embed = {"title": shortened(message.title, 250, _DISCORD.escape), "color": _COLOURS[message.is_security],
             "description": text_below_title(message, _DISCORD, 3900)}
    if len(message.items) == 1:
        embed |= {"timestamp": item.time} | ({"url": _linkable(item.url)} if _linkable(item.url) else {})
    return _json_request(url + ("&" if "?" in url else "?") + "wait=true", {
        "embeds": [embed], "allowed_mentions": {"parse": []}})


def _hangouts_chat(message: Message) -> Request:
    """https://developers.google.com/workspace/chat/api/reference/rest/v1/cards: 32,000 bytes; in a card no text of a
    stranger can mention anybody."""
    first, *rest = blocks_of(message, _HTML, 20_000, most=90)
    return _json_request(message.settings["url"], {"cardsV2": [{"cardId": message.id, "card": {
        "header": {"title": shortened(message.title, 200)},
        "sections": [{"widgets": [{"textParagraph": {"text": one.replace("\n", "<br>")}}]}
                     for one in rest or [first]]}}]})


def _microsoft_teams(message: Message) -> Request:
    """https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using: an Adaptive
    Card, 28 KB; a TextRun knows no markup. An answer of success says that the card was queued, no more."""
    def rich(*runs: dict[str, Any]) -> dict[str, Any]:
        return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", **run} for run in runs]}

    def elements_of(item: Item, room: int) -> list[dict[str, Any]]:
        runs = [{"text": shortened(item.heading, 250), "weight": "bolder"}]
        if item.marks:
            runs.append({"text": shortened(f"  {', '.join(item.marks)}", 300),
                         "color": "attention" if item.is_security else "accent"})
        found = [rich(*runs) | {"separator": is_digest}]
        found += [rich({"text": text}) for text in (shortened(item.memo, 300 * bool(room)),
                                                    shortened(item.text, room, size=json_bytes)) if text]
        if url := _linkable(item.url):
            found.append({"type": "TextBlock", "text": _markdown_link("Read on", url)})
        return found

    is_digest, left = len(message.items) > 1, 17_000
    elements = [rich({"text": message.title, "weight": "bolder", "size": "large"})] * is_digest
    room, kept = min(8000, max(0, 9000 // len(message.items) - 300)), 0
    for item in message.items:
        found = elements_of(item, room)
        if (cost := utf8_bytes(json.dumps(found, ensure_ascii=False))) <= left:
            left, kept, elements = left - cost, kept + 1, elements + found
    if kept < len(message.items):
        elements.append(rich({"text": f"… and {len(message.items) - kept} more"}))
    card = {"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
            "fallbackText": shortened(message.title, 250), "msteams": {"width": "Full"}, "body": elements}
    return _json_request(message.settings["url"], {"type": "message", "attachments": [
        {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}]})


def _mattermost(message: Message) -> Request:
    """https://developers.mattermost.com/integrate/webhooks/incoming/; 16,383 characters, then it splits."""
    return _json_request(message.settings["url"], {"text": text_of(message, _MATTERMOST, 12_000)})


def _rocketchat(message: Message) -> Request:
    """https://docs.rocket.chat/docs/integrations; 5,000 characters."""
    return _json_request(message.settings["url"], {"text": text_of(message, _ROCKETCHAT, 4500), "parseUrls": False})


def _matrix(message: Message) -> Request:
    """https://spec.matrix.org/latest/client-server-api/#put_matrixclientv3roomsroomidsendeventtypetxnid: 64 KiB. The
    transaction's id stays, so that the homeserver knows a repeat."""
    about = message.settings
    return _json_request(
        f"{about['homeserver_url']}/_matrix/client/v3/rooms/{quote(about['internal_room_id'], safe='')}"
        f"/send/m.room.message/{message.id}",
        {"msgtype": "m.text", "body": text_of(message, _PLAIN, 8000), "format": "org.matrix.custom.html",
         "formatted_body": text_of(message, _HTML, 12_000).replace("\n", "<br>"), "m.mentions": {}},
        "PUT", Authorization=f"Bearer {about['token']}")


def _ntfy(message: Message) -> Request:
    """https://docs.ntfy.sh/publish/#publish-as-json: 4,096 bytes of text, 8,192 of all."""
    about, headers = message.settings, {}
    if about["token"]:
        basic = base64.b64encode(about["token"].encode()).decode()
        headers["Authorization"] = f"Basic {basic}" if ":" in about["token"] else f"Bearer {about['token']}"
    priority = max(int(about["priority"]), 4 if message.is_security else 1)
    link = _linkable(message.link)
    return _json_request(f"{about['server']}/", {
        "topic": about["topic"], "title": shortened(message.title, 250),
        "message": text_below_title(message, _PLAIN if len(message.items) > 1 else _UNLINKED, 3800),
        "tags": ["rotating_light" if message.is_security else "package"], "priority": priority,
        **({"click": link} if link else {})}, **headers)


def _gotify(message: Message) -> Request:
    """https://gotify.net/docs/pushmsg and https://gotify.net/docs/msgextras"""
    about = message.settings
    extras: dict[str, Any] = {"client::display": {"contentType": "text/plain"}}
    extras |= {"client::notification": {"click": {"url": message.link}}} if message.link else {}
    return _json_request(f"{about['url']}/message", {
        "title": shortened(message.title, 250),
        "message": text_below_title(message, _PLAIN if len(message.items) > 1 else _UNLINKED, 8000),
        "priority": max(int(about["priority"]), 8 if message.is_security else 0), "extras": extras},
        X_Gotify_Key=about["token"])


def _pushover(message: Message) -> Request:
    """https://pushover.net/api: 1,024 characters of text, 250 of title, 512 of address."""
    about = message.settings
    return _json_request(f"{about['server']}/1/messages.json", {
        "token": about["token"], "user": about["user"], "title": shortened(message.title, 250),
        "message": text_below_title(message, dataclasses.replace(_UNLINKED, size=len), 1000),
        "priority": max(int(about["priority"]), 1 if message.is_security else -2),
        **({"device": about["device"]} if about["device"] else {}),
        **({"url": message.link, "url_title": "Read on"} if 0 < len(message.link) <= 512 else {})})


def _apprise(message: Message) -> Request:
    """https://github.com/caronc/apprise-api: a key's configuration, or addresses that are sent along."""
    about = message.settings
    return _json_request(about["url"], {
        "title": shortened(message.title, 250), "body": text_below_title(message, _PLAIN, 8000),
        "format": "text", "type": "warning" if message.is_security else "info",
        **{name: about[name] for name in ("urls", "tag") if about[name]}})


MAIL_PAGE = bottle.SimpleTemplate("""\
<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width">
  <meta name="color-scheme" content="light dark">
  <title>{{title}}</title>
</head>
<body style="margin:0;padding:16px;font:16px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif">
  <div style="max-width:640px;margin:0 auto">
    % if len(items) > 1:
    <h1 style="font-size:20px;margin:0 0 16px">{{title}}</h1>
    % end
    % for item, text in items:
    <div style="margin:0 0 20px;padding:0 0 16px;border-bottom:1px solid #8886">
      <h2 style="font-size:17px;margin:0">
        % if item.url:
        <a href="{{item.url}}" style="color:#2471a3;text-decoration:none">{{item.heading}}</a>
        % else:
        {{item.heading}}
        % end
      </h2>
      % if item.marks:
      % colour = "#c0392b" if item.is_security else "#b9770e"
      <p style="margin:4px 0 0;font-weight:600;color:{{colour}}">{{", ".join(item.marks)}}</p>
      % end
      <p style="margin:4px 0 0;font-size:13px;opacity:.75">{{item.time[:10]}}</p>
      % if item.memo:
      <p style="margin:8px 0 0;font-style:italic;white-space:pre-wrap">{{item.memo}}</p>
      % end
      % if text:
      <p style="margin:8px 0 0;white-space:pre-wrap;overflow-wrap:anywhere">{{text}}</p>
      % end
    </div>
    % end
    % for line in more:
    <p>{{line}}</p>
    % end
    <p style="font-size:13px;opacity:.75">Sent by releasetrack, which tracks these projects for you.</p>
  </div>
</body>
</html>
""")


def _one_line(text: str, at_most: int) -> str:
    """A text that may stand in a header of a mail: no line ends, no halves of surrogates, and nothing that Python's
    e-mail package would decode into some (https://github.com/python/cpython/issues/121650)."""
    plain = re.sub("[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]+", " ", text).strip()
    return shortened(plain.replace("=?", "= ?"), at_most)


def _email(message: Message) -> Mail:
    """Text and HTML: RFC 5322, 2369 (List-Unsubscribe), 2919 (List-Id), 3834 (Auto-Submitted). The Message-ID stays,
    so that mail programs know a repeat."""
    sender, mail = message.sender, email.message.EmailMessage(email.policy.SMTP.clone(cte_type="7bit"))
    recipient = message.settings["to"] or message.parcel[0].account_email
    if not MAIL_ADDRESS.fullmatch(recipient):
        raise Invalid(f"no mail can go to {recipient}; the setting to of the destination takes another address")
    shown = message.items[:1000]
    more = [f"… and {len(message.items) - len(shown)} more"] * (len(message.items) > len(shown))
    room = 20_000 if len(shown) == 1 else min(1500, 500_000 // len(shown))
    texts = [shortened(item.text, room) for item in shown]
    names = list(dict.fromkeys(item.project for item in message.items))
    mail["Subject"] = _one_line(message.title + (f": {', '.join(names)}" if len(message.items) > 1 else ""), 150)
    mail["From"] = email.headerregistry.Address("releasetrack", addr_spec=sender.address)
    mail["To"] = email.headerregistry.Address(addr_spec=recipient)
    mail["Date"] = email.utils.formatdate(message.now)
    mail["Message-ID"] = f"<{message.id}@{sender.domain}>"
    mail["Auto-Submitted"] = "auto-generated"
    ways = [f"<{ascii_url(sender.base_url)}/>,\r\n "] if 0 < len(sender.base_url) < 900 else []
    # As they are: Python would encode their long words, which nobody decodes there.
    ready = (f"List-Id: releases <releases.{sender.domain}>\r\n"
             f"List-Unsubscribe: {''.join(ways)}<mailto:{quote(sender.address, safe='@')}?subject=unsubscribe>\r\n")
    parts = ["\n".join([item.line, "=" * min(len(item.line), 70), *filter(None, (
        item.url, item.memo and f"\nYour note: {item.memo}", text and f"\n{text}"))])
        for item, text in zip(shown, texts)]
    mail.set_content("\n\n\n".join([*parts, *more]) + "\n\n-- \nSent by releasetrack\n")
    page = MAIL_PAGE.render(title=message.title, items=list(zip(shown, texts)), more=more)
    mail.add_alternative(page, subtype="html")
    return Mail(sender.address, recipient, ready.encode("ascii") + mail.as_bytes())


def _members(answer: Answer) -> dict[str, Any]:
    """The JSON object that an answer is, if it is one."""
    with contextlib.suppress(ValueError, RecursionError):
        if answer.body and isinstance(found := json.loads(answer.body), dict):
            return found
    return {}


def _any(answer: Answer) -> bool:
    return True


def _has(name: str) -> Callable[[Answer], bool]:
    """Whether a member of the answer says that all is well: some of these services answer 200 to everything, and so
    does a portal that wants a log-in first."""
    return lambda answer: bool(_members(answer).get(name))


def _says_ok(answer: Answer) -> bool:
    return answer.body.strip() == b"ok"


def _is_web_page(answer: Answer) -> bool:
    return answer.body[:200].lstrip().lower().startswith((b"<!doctype", b"<html"))


def _is_queued(answer: Answer) -> bool:
    """Teams' flows answer what their owner chose, or nothing; its old connectors a number, or words where they have
    failed."""
    is_refused = _is_web_page(answer) or answer.body.startswith(b"Webhook message delivery failed")
    is_connector = "/webhook" in urlsplit(answer.url).path
    return not is_refused and (not is_connector or answer.body.strip().isdigit())


def _was_sent(answer: Answer) -> bool:
    """Apprise says 204 when there was nobody to send to."""
    return answer.status == 200 and not _is_web_page(answer)


def _words_of(answer: Answer) -> str:
    """What a service says of a failure, wherever it says it."""
    found = _members(answer)
    for name in ("errors", "errorDescription", "description", "error", "message"):
        value = found.get(name)
        value = value.get("message") if isinstance(value, dict) and "message" in value else value
        if value and value is not True:
            words = value if isinstance(value, str) else json.dumps(value)
            break
    else:
        words = "" if answer.text().lstrip().startswith(("<", "{")) else answer.text()
    parameters = found.get("parameters")
    for name, value in (("needed", found.get("needed")), ("the chat's number is now", parameters.get(
            "migrate_to_chat_id") if isinstance(parameters, dict) else None)):      # of Slack, of Telegram
        words += f" ({name}: {value})" if value else ""
    # Right-to-left marks and controls would rearrange a log or a terminal.
    return " ".join(re.sub("[\u202a-\u202e\u2066-\u2069]", "", _plain(words)).split())


def wait_asked(answer: Answer, now: float) -> float | None:
    """Seconds that a receiver asks to wait: by its header, or as Telegram, Discord, Matrix and Rocket.Chat do."""
    found, waits = _members(answer), [retry_after_seconds(answer.headers.get("retry-after"), now)]
    parameters = found.get("parameters")
    for value, unit in ((found.get("retry_after"), 1), (found.get("retry_after_ms"), 1000),
                        (parameters.get("retry_after") if isinstance(parameters, dict) else None, 1)):
        if isinstance(value, (int, float)) and 0 < value < 10**12:
            waits.append(min(value / unit, DAY))
    reset = answer.headers.get("x-ratelimit-reset", "")
    if answer.status == 429 and re.fullmatch("[0-9]{13}", reset):       # milliseconds since the epoch
        waits.append(min(int(reset) / 1000 - now, DAY))
    return max((wait for wait in waits if wait is not None), default=None)


@dataclasses.dataclass(frozen=True)
class Ask:
    """A setting that a kind of destination asks for."""

    name: str
    about: str                                  # what it is, and where to find it
    read: Callable[[str], Any]                  # its value; raises ValueError, which says what it takes
    default: str | None = None                  # None: it must be given
    is_secret: bool = False
    kept_as: str = ""                           # of one that may be given several times: where its values are kept


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of destination: what it asks for, how it is spoken to, and what it answers when all is well."""

    about: str
    make: Callable[[Message], Request | Mail]
    is_taken: Callable[[Answer], bool]          # of an answer of 2xx
    asks: tuple[Ask, ...]
    address: str = ""                           # the pattern of an address at the service's own hosts
    example: str = ""                           # of one
    every: float = 0.0                          # least seconds between two messages
    shown: Callable[[Mapping[str, Any]], dict[str, str]] = lambda settings: {}     # in the API's list, beside the name
    fault: Callable[[Mapping[str, Any]], str | None] = lambda settings: None       # of settings that exclude each other


def _matching(pattern: str, shape: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise ValueError(f"it takes {shape}")
        return text
    return read


def _post_address(text: str) -> str:
    ascii_url(checked_url(text))
    return text


def _server_address(text: str) -> str:
    with contextlib.suppress(ValueError):
        return _post_address(_web_address(text))
    raise ValueError("it takes an address such as https://chat.example.org")


def _chosen(least: int, most: int) -> Callable[[str], str]:
    numbers = "|".join(str(number) for number in range(least, most + 1))
    return _matching(numbers, f"a whole number from {least} to {most}")


def _label_text(text: str) -> str:
    if len(text) > NAME_LIMIT or not text.isprintable():
        raise ValueError(f"it takes up to {NAME_LIMIT} printable characters")
    return text


def _mail_recipient(text: str) -> str:
    if text and not MAIL_ADDRESS.fullmatch(text):
        raise ValueError("it takes a mail address, or nothing for the account's own")
    return text


def _header_line(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    name, value = name.strip(), value.strip(" ")
    if not colon or not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"{line[:80]!r} takes 'Name: value', the name of letters, digits and hyphens")
    if not _HEADER_VALUE.fullmatch(value):
        raise ValueError(f"{name} takes a value of up to 4,096 printable characters of Latin-1")
    if _OWN_HEADERS.fullmatch(name.lower()):
        raise ValueError(f"{name} is set by the request itself")
    return name, value


def _field_line(line: str) -> tuple[str, str]:
    name, equals, template = line.partition("=")
    if not equals or not 0 < len(name) <= NAME_LIMIT:
        raise ValueError(f"{line[:80]!r} takes NAME=TEMPLATE")
    if len(template) > FILLED_LIMIT:
        raise ValueError(f"{name} takes a template of up to {FILLED_LIMIT} characters")
    if unknown := unknown_names(template):
        raise ValueError(f"{name}: there is no variable {{{unknown[0]}}}; there are "
                         + ", ".join(sorted(TEMPLATE_NAMES)))
    return name, template


def _slack_fault(about: Mapping[str, Any]) -> str | None:
    if bool(about["url"]) is bool(about["token"]) or about["token"] and not about["channel"]:
        return "Settings of slack: it takes url, or token and channel."
    return None


def _webhook_fault(about: Mapping[str, Any]) -> str | None:
    if len(about["headers"]) > 20 or len(about["fields"]) > 50:
        return "A webhook takes at most 20 headers and 50 fields."
    return None


def _chat_type(about: Mapping[str, Any]) -> dict[str, str]:
    chat = about["chat"]
    return {"type": "channel" if chat.startswith("@") else "supergroup" if chat.startswith("-100") else
            "group" if chat.startswith("-") else "private"}


_HOOK = r"https?://[^\s/?#]+(?:/[^\s/?#]+)*"
_SERVER = Ask("server", "where the service is reached, if not at its public hosts", _server_address, "")


def _hook(about: str, **more: Any) -> Ask:
    """The address of an incoming webhook, which whoever knows it can post to."""
    return Ask("url", about, _post_address, is_secret=True, **more)


# To add a kind, add a row, a line to KIND_FIELDS, and a migration of the table's CHECK.
KINDS = {
    "slack": Kind(
        "a channel of a Slack workspace", _slack, lambda answer: _says_ok(answer) or _has("ok")(answer), (
            Ask("url", "an app's incoming webhook: api.slack.com/apps, Incoming Webhooks", _post_address, "", True),
            Ask("token", "or a bot's token with the scope chat:write, xoxb-...", _matching(
                r"xox[a-z][.-][A-Za-z0-9.-]{8,300}", "a token such as xoxb-..."), "", True),
            Ask("channel", "what the channel is called; with a token its id, C...", _label_text, ""),
            Ask("team_name", "what the workspace is called", _label_text, ""), _SERVER),
        r"https://hooks\.slack(?:-gov)?\.com/services/[A-Za-z0-9]+/[A-Za-z0-9]+/[A-Za-z0-9]+/?",
        "https://hooks.slack.com/services/T024BE7LD/B024BE7LH/secret", every=1.0, fault=_slack_fault,
        shown=lambda about: {"channel": about["channel"], "team_name": about["team_name"]}),
    "telegram": Kind(
        "a chat of a Telegram bot", _telegram, _has("ok"), (
            Ask("token", "the bot's, as @BotFather gave it", _matching(
                r"\d{5,20}:[A-Za-z0-9_-]{30,100}", "a token such as 123456789:AAF..."), is_secret=True),
            Ask("chat", "the chat's number, as @userinfobot says it (groups begin with -), or @name of a channel",
                _matching(r"-?\d{1,19}|@[A-Za-z][A-Za-z0-9_]{3,31}", "a number such as -1001234567890, or @name")),
            Ask("thread", "the number of a topic, in a group that has them", _matching(r"\d{0,18}", "a number"), ""),
            dataclasses.replace(_SERVER, default="https://api.telegram.org")), every=3.0, shown=_chat_type),
    "discord": Kind(
        "a channel of a Discord server", _discord, _has("id"), (
            _hook("the channel's settings, Integrations, Webhooks, Copy Webhook URL"), _SERVER),
        r"https://(?:(?:www|ptb|canary)\.)?discord(?:app)?\.com/api(?:/v\d{1,2})?/webhooks/\d{15,21}/[A-Za-z0-9_-]{20,}"
        r"/?(?:\?[!-~]*)?", "https://discord.com/api/webhooks/123456789012345678/a-token-of-68-letters", every=2.0),
    "hangouts_chat": Kind(
        "a space of Google Chat", _hangouts_chat, _has("name"), (
            _hook("the space's menu, Apps & integrations, Webhooks"), _SERVER),
        r"https://chat\.googleapis\.com/v1/spaces/[A-Za-z0-9_-]+/messages\?(?=[!-~]*\bkey=)(?=[!-~]*\btoken=)[!-~]+",
        "https://chat.googleapis.com/v1/spaces/AAAA/messages?key=key&token=secret", every=1.0),
    "microsoft_teams": Kind(
        "a channel or chat of Microsoft Teams", _microsoft_teams, _is_queued, (
            _hook("the channel's menu, Workflows, Send webhook alerts to a channel"), _SERVER),
        r"(?i:https://(?:(?:[a-z0-9-]+\.)+(?:logic\.azure\.(?:com|us|cn)|api\.(?:[a-z]+\.)?powerplatform\.(?:com|us|"
        r"microsoft\.us|partner\.microsoftonline\.cn)|api\.appsplatform\.us|azure-api\.net)(?::443)?/(?:[^\s?#]+/)?"
        r"workflows/[^\s?#]+/invoke/?\?[!-~]+|(?:[a-z0-9-]+\.webhook\.office\.com|outlook\.office(?:365)?\.com)"
        r"/webhook[^\s]*))",
        "https://xxxx.environment.api.powerplatform.com/powerautomate/automations/direct/workflows/xxxx/triggers/"
        "manual/paths/invoke?api-version=1&sig=xxxx", every=1.0),
    "mattermost": Kind(
        "a channel of Mattermost", _mattermost, _says_ok, (_hook("Integrations, Incoming Webhooks: .../hooks/..."),),
        _HOOK + r"/hooks/[A-Za-z0-9]+/?", "https://chat.example.org/hooks/xxxx", every=0.2),
    "rocketchat": Kind(
        "a channel of Rocket.Chat", _rocketchat, _has("success"), (
            _hook("Administration, Workspace, Integrations, Incoming: its Webhook URL"),),
        _HOOK + r"/hooks/[A-Za-z0-9]+/(?:[A-Za-z0-9]+/)?[^\s/?#]+", "https://chat.example.org/hooks/xxxx/yyyy",
        every=6.0),
    "matrix": Kind(
        "a room of Matrix, not encrypted", _matrix, _has("event_id"), (
            Ask("homeserver_url", "of the account that posts, such as https://matrix.org", _server_address),
            Ask("internal_room_id", "the room's settings, Advanced: !...; the account must have joined it", _matching(
                r"![^\x00-\x20:\ud800-\udfff]{1,250}(?::[^\x00-\x20]{1,250})?",
                "the internal id, such as !abcdef:example.org, not an address such as #room:example.org")),
            Ask("token", "the account's access token: Element's settings, Help & About", _matching(
                "[!-~]{8,500}", "an access token, without spaces"), is_secret=True)),
        shown=lambda about: {"homeserver_url": about["homeserver_url"], "internal_room_id": about["internal_room_id"]}),
    "webhook": Kind(
        "an address of yours that takes signed JSON", _webhook, _any, (
            Ask("url", "where it is sent", _post_address),
            Ask("header", "a header of every request, 'Name: value' (repeatable; a change names all)", _header_line,
                "", True, "headers"),
            Ask("field", "a field of a body of your own, NAME=TEMPLATE (repeatable; a change names all)", _field_line,
                "", False, "fields")),
        fault=_webhook_fault),
    "ntfy": Kind(
        "a topic of ntfy", _ntfy, _has("id"), (
            Ask("topic", "as you have subscribed to it", _matching("[-_A-Za-z0-9]{1,64}", "up to 64 letters, digits, - "
                                                                   "and _")),
            Ask("token", "an access token, tk_..., or user:password, where the server wants one",
                _matching("[!-~]{1,500}", "a token, or user:password"), "", True),
            Ask("priority", "from 1 to 5; security fixes have at least 4", _chosen(1, 5), "3"),
            dataclasses.replace(_SERVER, default="https://ntfy.sh"))),
    "gotify": Kind(
        "an application of Gotify", _gotify, _has("id"), (
            Ask("url", "the server's address", _server_address),
            Ask("token", "the application's, from the page Apps", _matching(
                r"[A-Za-z0-9._-]{5,500}", "a token of letters, digits, '.', '_' and '-'"),
                is_secret=True),
            Ask("priority", "from 0 to 10; security fixes have at least 8", _chosen(0, 10), "5"))),
    "pushover": Kind(
        "a user or group of Pushover", _pushover, _has("status"), (
            Ask("token", "an application's API token: pushover.net/apps/build", _matching(
                "[A-Za-z0-9]{30}", "30 letters and digits"), is_secret=True),
            Ask("user", "the user or group key, as the dashboard shows it", _matching(
                "[A-Za-z0-9]{30}", "30 letters and digits"), is_secret=True),
            Ask("device", "one device alone, by its name", _matching("[A-Za-z0-9_,-]{0,200}", "a device's name"), ""),
            Ask("priority", "from -2 to 1; security fixes have 1", _chosen(-2, 1), "0"),
            dataclasses.replace(_SERVER, default="https://api.pushover.net"))),
    "apprise": Kind(
        "an Apprise API server", _apprise, _was_sent, (
            _hook("where it takes notifications: .../notify/KEY, or .../notify with urls"),
            Ask("urls", "Apprise addresses, with spaces or commas between, if it keeps none under a key", _matching(
                "[!-~ ]{0,4000}", "addresses such as tgram://token/chat"), "", True),
            Ask("tag", "only what its configuration has tagged so", _label_text, "")),
        _HOOK + "/notify(?:/[A-Za-z0-9_-]{1,128})?/?", "http://apprise.example.org:8000/notify/home"),
    "email": Kind(
        "a mail address", _email, _any, (
            Ask("to", "the address; the account's own without it", _mail_recipient, ""),)),
}


def read_settings(kind_id: str, given: Iterable[tuple[str, str]], brand: str = "Service") -> dict[str, Any]:
    """The settings of a destination from names and texts; what is not given has its default.

    Raises Invalid with every fault there is.
    """
    kind, faults, unsound = KINDS[kind_id], list[str](), set[str]()
    asks = {ask.name: ask for ask in kind.asks}
    about: dict[str, Any] = {ask.kept_as: {} for ask in kind.asks if ask.kept_as}
    for name, text in given:
        if name not in asks:
            faults.append(f"There is no setting {name!r:.60} of {kind_id}; there are {', '.join(asks)}.")
        elif text or asks[name].kept_as:        # an empty one is as if it were not given
            try:
                value = asks[name].read(text)
                if asks[name].kept_as:
                    there = about[asks[name].kept_as]
                    if value[0] in there or name == "header" and value[0].lower() in map(str.lower, there):
                        raise ValueError(f"{value[0]} is there twice")
                    there.update([value])
                else:
                    about[name] = value
            except ValueError as error:
                shown = "" if asks[name].is_secret or asks[name].kept_as else f" {text[:200]!r}"
                faults.append(f"Setting {name}{shown}: {error}.")
                unsound.add(name)
    for ask in kind.asks:
        if not ask.kept_as and ask.name not in about:
            about[ask.name] = ask.default or ""
            if ask.default is None and ask.name not in unsound:
                faults.append(f"Setting {ask.name} is required ({ask.about}).")
                unsound.add(ask.name)
    taken = {f"x-{brand.lower()}-signature", f"x-{brand.lower()}-timestamp"}
    faults += [f"Setting header: {name} is set by the request itself." for name in about.get("headers", {})
               if name.lower() in taken]
    faults += filter(None, [None if unsound & {"url", "server"} else _address_fault(kind, about),
                            None if unsound else kind.fault(about)])
    if faults:
        raise Invalid(*faults)
    return about | {"shown": kind.shown(about)}


def _address_fault(kind: Kind, about: Mapping[str, Any]) -> str | None:
    """What is wrong with an address of the right form: it is at no host of that service."""
    url, server = about.get("url"), about.get("server")
    if not kind.address or not url:
        return None
    if server and urlsplit(url)[:2] != urlsplit(server)[:2]:
        return f"Setting url: it is not at the server {server}."
    if not server and not re.fullmatch(kind.address, url):
        way_out = "; where the service is elsewhere, server says where" if "server" in about else ""
        return f"Setting url: it takes an address such as {kind.example}{way_out}."
    return None


def settings_as_given(destination: Destination) -> list[tuple[str, str]]:
    """The names and texts that would make the settings of a destination anew."""
    found = []
    for ask in KINDS[destination.kind].asks:
        if ask.kept_as:
            joint = ": " if ask.name == "header" else "="
            found += [(ask.name, joint.join(pair)) for pair in destination.settings.get(ask.kept_as, {}).items()]
        else:
            found.append((ask.name, destination.settings.get(ask.name, "")))
    return [(name, text) for name, text in found if text]


def changed_settings(destination: Destination, given: Sequence[tuple[str, str]], brand: str) -> dict[str, Any]:
    """The settings of a destination after ``given``; one that is given empty is taken away. Raises Invalid."""
    named = {name for name, _ in given}
    kept = [pair for pair in settings_as_given(destination) if pair[0] not in named]
    asks = {ask.name: ask for ask in KINDS[destination.kind].asks}
    return read_settings(destination.kind, [*kept, *(
        (name, text) for name, text in given if text or name not in asks or not asks[name].kept_as)], brand)


def address_of(destination: Destination) -> tuple[str, str] | None:
    """``(setting, the address there)`` that its messages go to, for it to be judged; None of mail, which goes to the
    operator's server."""
    about = destination.settings
    if destination.kind == "slack" and not about["url"]:
        return "server", about["server"] or "https://slack.com"
    return next(((name, about[name]) for name in ("url", "homeserver_url", "server") if about.get(name)), None)


_COMMON_PARTS = frozenset("messages invoke notify webhook IncomingWebhook Bearer Basic Token bearer basic".split())


def _pieces(secret: str) -> set[str]:
    """What a receiver may repeat of a secret: all of it, or a part that tells much."""
    if re.match("https?://", secret):
        url = urlsplit(secret)
        last = [part for part in url.path.split("/") if part][-1:]
        pieces = {*last, *(part for part in re.split("[/&=]", f"{url.path}/{url.query}") if len(part) >= 12)}
    else:
        pieces = {part for part in re.split(r"[\s,;:=/@?&]+", secret) if len(part) >= 6}
        pieces.add(base64.b64encode(secret.encode("utf-8", "replace")).decode())
    pieces = {secret, *pieces} - _COMMON_PARTS
    return pieces | {form for piece in pieces for form in (
        unquote(piece), quote(piece, safe=""), quote(unquote(piece), safe=""), json.dumps(piece)[1:-1],
        json.dumps(piece, ensure_ascii=False)[1:-1])}


def secrets_of(destination: Destination) -> dict[str, str]:
    """What must not be shown of a destination, longest first, and what is shown in its place."""
    found = dict.fromkeys((destination.secret, destination.previous_secret or ""), "***")
    for ask in KINDS[destination.kind].asks:
        value = destination.settings.get(ask.kept_as or ask.name, "") if ask.is_secret else ""
        for text in value.values() if isinstance(value, dict) else (value,):
            found |= dict.fromkeys(_pieces(text), "***")
            if re.match("https?://", text):
                found[text] = f"{urlsplit(text).scheme}://{urlsplit(text).netloc.rpartition('@')[2]}/***"
    if destination.kind == "webhook":       # its address is shown to its owner, but a long part of it may be a key
        url = urlsplit(destination.settings["url"])
        found |= {part: "***" for part in re.split("[/&=]", f"{url.path}/{url.query}") if len(part) >= 20}
    return {text: found[text] for text in sorted(found, key=len, reverse=True) if len(text) >= 4}


def shown_settings(destination: Destination) -> list[tuple[str, str]]:
    """``settings_as_given`` with secrets masked: of an address its host is shown, of a header its name."""
    asks, hidden = {ask.name: ask for ask in KINDS[destination.kind].asks}, secrets_of(destination)
    return [(name, text if not asks[name].is_secret else f"{text.partition(':')[0]}: ***" if asks[name].kept_as else
             hidden[text] if text.startswith("http") else "***") for name, text in settings_as_given(destination)]


def masked(text: str, destination: Destination) -> str:
    """The text without the destination's secrets."""
    hidden = secrets_of(destination) if text else {}
    if not hidden:
        return text
    return re.sub("|".join(map(re.escape, hidden)), lambda match: hidden[match[0]], text)


def shown_exchange(destination: Destination, sent: Request | Mail, answer: Answer | None) -> tuple[str, str]:
    """What was sent and what was answered, as people read it, without secrets."""
    if isinstance(sent, Mail):
        plain = email.message_from_bytes(sent.content, policy=email.policy.default).get_body(("plain",))
        lines = [f"from {sent.sender} to {sent.recipient}", "", sent.content.decode("ascii", "replace"),
                 "-- which reads as text:", "", plain.get_content() if plain else ""]
    else:
        hidden = destination.settings.get("headers", {})
        lines = [f"{sent.method} {sent.url}",
                 *(f"{name}: {'***' if name in hidden else value}" for name, value in sent.headers.items()), "",
                 (sent.body or b"").decode("utf-8", "replace")]
    answered = [f"answered by {answer.address}: {answer.status}", *(
        f"{name}: {value}" for name, value in answer.headers.items()), "", answer.text()] if answer else []
    return (masked("\n".join(lines).replace("\r\n", "\n"), destination).rstrip(),
            masked("\n".join(answered).replace("\r\n", "\n"), destination)[:2 * KIB].rstrip())


def verdict(destination: Destination, answer: Answer) -> str | None:
    """What is wrong, if an answer does not say that the message was taken."""
    if 200 <= answer.status < 300 and KINDS[destination.kind].is_taken(answer):
        return None
    words = "" if destination.kind == "webhook" else shortened(masked(_words_of(answer), destination), 300)
    if 200 <= answer.status < 300 and not words:
        return f"it answered {answer.status}, but does not say that it took the message"
    return f"it answered {answer.status}" + (f": {words}" if words else "")


def message_of(parcel: Sequence[Delivery], sender: Sender, now: float) -> Message:
    """What is sent of deliveries that go out together: one, or those of a digest."""
    return Message(parcel[0].digest_id or parcel[0].id, parcel, sender, now)


def notification(message: Message) -> Request | Mail:
    return KINDS[message.destination.kind].make(message)


# == courier ===================================================================
#
# Sends what is due, until it is accepted. One loop claims and records, a pool sends: at most one
# request at a time to a destination, in the order in which its deliveries came and no oftener than its
# kind wishes, and different destinations side by side. One that failed or was slow may hold half of
# the pool at most. What goes out together - a digest - is attempted and recorded together.


def sender_of(settings: Settings) -> Sender:
    """Who we are to receivers, as far as the settings say it; else this machine's name stands in."""
    user = unquote(urlsplit(settings.smtp_url).username or "")
    host = urlsplit(settings.base_url).hostname or ""
    host = socket.gethostname() if not host or parse_address(host) else host
    host = host if MAIL_ADDRESS.fullmatch(f"releasetrack@{host}") else "localhost"
    address = settings.mail_from or (user if MAIL_ADDRESS.fullmatch(user) else f"releasetrack@{host}")
    return Sender(settings.brand, address, address.partition("@")[2], settings.base_url)


class Courier:
    """Sends deliveries. ``post``, ``clock`` and ``spread`` (in [0, 1)) are for tests to choose."""

    _BATCH = 128            # deliveries that one destination is handed at once, as long as it takes them
    _TURN = 0.5             # seconds after which it makes room for the next
    _SLOW = 1.0             # seconds of an attempt after which a destination counts as slow
    _LIVELY = 3             # destinations served at once as long as they answer: more threads only fight for the
    _STUCK = 0.03           # interpreter's lock; one that has not answered for so many seconds is not counted

    def __init__(self, store: Store, post: Callable[[Request | Mail, bool], Answer], settings: Settings,
                 clock: Callable[[], float] = time.time, spread: Callable[[], float] = random.random,
                 workers: int = 24) -> None:
        self.store, self.post = store, post
        self.beat_at = 0.0              # of the loop, on the monotonic clock
        self._sender, self._first, self._workers = sender_of(settings), settings.retry_first, workers
        self._clock, self._spread = clock, spread
        self._me = make_id()
        self._stopping = threading.Event()
        self._busy: dict[str, float] = {}               # destination -> when it last got on
        self._suspect: set[str] = set()                 # destinations that failed or were slow at last
        self._served_at: dict[str, float] = {}          # destination -> when it was last handed something
        self._rests_until: dict[str, float] = {}        # destination -> when its kind lets it have another message
        self._asked_until: dict[str, float] = {}        # destination -> until when it has asked to be left alone
        self._walking = threading.Lock()
        self._done: deque[Outcome | str] = deque()      # to be recorded: attempts, and ids that were not attempted
        self._finished: deque[str] = deque()            # destinations whose batch is at its end
        self._thread: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None

    def start(self) -> None:
        self._me = make_id()            # anew: this may be a process forked from the one that made us
        self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="releasetrack-send")
        self._thread = threading.Thread(target=self._run, name="releasetrack-courier", daemon=True)
        self.beat_at = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Take no more work; ``join`` waits for what is under way and records it."""
        self._stopping.set()
        self.store.send_bell.set()

    def join(self) -> None:
        if self._thread and self._pool:
            self._thread.join()
            self._pool.shutdown(wait=True, cancel_futures=True)
            with contextlib.suppress(StoreUnavailable):
                self._settle()

    def is_alive(self) -> bool:
        has_beaten = bool(self.beat_at) and time.monotonic() - self.beat_at < 3 * LEASE
        return self._thread is not None and self._thread.is_alive() and has_beaten

    def send_due(self) -> list[tuple[Delivery, Outcome]]:
        """Send what is due now, without threads, until nothing is due any more; what was attempted."""
        made: list[tuple[Delivery, Outcome]] = []
        with renewing(lambda: self.store.renew_deliveries(self._me, self._clock())):
            while due := self._due(self._clock()):
                first = min(due, key=lambda one: self._rests_until.get(one, 0.0))
                self._stopping.wait(max(0.0, self._rests_until.get(first, 0.0) - time.monotonic()))
                for batch in self.store.claim_deliveries({first: 1}, self._me, self._clock()).values():
                    outcomes = self.attempt(batch) or []
                    self.store.record_attempts(self._me, outcomes)
                    made += zip(batch, outcomes)
        return made

    def try_out(self, destination: Destination, account: Account, body: Mapping[str, Any],
                url: str) -> tuple[Request | Mail, Answer | None, str | None]:
        """``(what was sent, what was answered if anything was, what is wrong if anything is)`` of a message that is
        no release: no delivery comes of it."""
        now = self._clock()
        message = message_of([Delivery(make_id(), destination, account.email, account.is_admin, body, url, "release",
                                       0, now)], self._sender, now)
        request = notification(message)
        try:
            answer = self.post(request, account.is_admin)
        except Unreachable as error:
            return request, None, str(error)
        return request, answer, verdict(destination, answer)

    def _due(self, now: float) -> dict[str, str]:
        """The destinations that have something to be sent at ``now``, and their kinds; but for those that have asked
        to be left alone. A wait of more than a day was asked for before the clock was set back."""
        self.store.prepare_due(now)
        return {one: kind for one, kind in self.store.due_destinations(now).items()
                if not now < self._asked_until.get(one, 0.0) <= now + 1.1 * DAY}

    def _run(self) -> None:
        renewed_at = swept_at = 0.0
        while not self._stopping.is_set():
            self.beat_at = time.monotonic()
            self.store.send_bell.clear()
            wait = 2.0
            try:
                self._settle()
                if self._busy and self.beat_at - renewed_at >= LEASE / 3:
                    self.store.renew_deliveries(self._me, self._clock())
                    renewed_at = self.beat_at
                if self.beat_at - swept_at >= MINUTE:
                    self.store.sweep(self._clock())
                    swept_at = self.beat_at
                are_waiting = self._hand_out()
                wait = self.store.seconds_until_due(
                    self._clock(), self._STUCK / 3 if are_waiting else LEASE / 3 if self._busy else 2.0)
                wait = min([wait, *(max(0.01, until - time.monotonic())
                                    for until in list(self._rests_until.values()))])
            except StoreUnavailable as error:
                log.warning("courier: %s", error)
                self._stopping.wait(1)
            except Exception:   # a fault of ours costs some turns, not the loop its life; health says so meanwhile
                log.exception("courier: a turn failed")
                self.beat_at = 0.0
                self._stopping.wait(10)
            self.store.send_bell.wait(wait)

    def _settle(self) -> None:
        """Record what came back, then let its destinations be served again."""
        finished = [self._finished.popleft() for _ in range(len(self._finished))]
        done = [self._done.popleft() for _ in range(len(self._done))]
        is_recorded = False
        try:
            if done:
                self.store.record_attempts(self._me, [one for one in done if isinstance(one, Outcome)],
                                           [one for one in done if isinstance(one, str)])
            is_recorded = True
        finally:
            if not is_recorded:     # whatever prevented it, what was sent is not forgotten
                self._done.extendleft(reversed(done))
                self._finished.extendleft(reversed(finished))
        for one in finished:
            self._busy.pop(one, None)

    def _hand_out(self) -> bool:
        """Claim what is due at destinations that are free, those first that have waited longest for a turn;
        whether any has to wait for room."""
        now, at = self._clock(), time.monotonic()
        for one in [one for one, until in list(self._rests_until.items()) if until <= at]:
            del self._rests_until[one]
        due = self._due(now)
        free = [one for one in due if one not in self._busy and one not in self._rests_until]
        lively = sum(at - got_on_at < self._STUCK for got_on_at in self._busy.values())
        room = min(self._workers - len(self._busy), self._LIVELY - lively)
        room_for_suspects = self._workers // 2 - len(self._busy.keys() & self._suspect)
        wanted: dict[str, int] = {}
        for one in sorted(free, key=lambda one: self._served_at.get(one, 0.0)):
            if room <= len(wanted):
                break
            if one in self._suspect:
                if room_for_suspects <= 0:
                    continue
                room_for_suspects -= 1
            wanted[one] = 1 if one in self._suspect or KINDS[due[one]].every else self._BATCH
        for one, batch in (self.store.claim_deliveries(wanted, self._me, now) if wanted else {}).items():
            self._busy[one] = self._served_at[one] = at
            assert self._pool
            self._pool.submit(self._send, one, batch)
        return len(free) > len(wanted)

    def _send(self, destination_id: str, batch: Sequence[Delivery]) -> None:
        """Attempt a batch in its order, as long as it is taken and its turn lasts."""
        told_at = began_at = time.monotonic()
        lasted = 0.0
        parcels: dict[str, list[Delivery]] = {}
        for delivery in batch:
            parcels.setdefault(delivery.digest_id or delivery.id, []).append(delivery)
        rest = deque(parcels.values())
        try:
            while rest and not self._stopping.is_set():
                self._give_way()
                # The last of a turn says that it is, since a small receiver may serve one connection at a time.
                is_last = len(rest) == 1 or time.monotonic() - began_at + 2 * lasted > self._TURN
                outcomes = self.attempt(rest[0], is_followed=not is_last)
                if outcomes is None:
                    break
                rest.popleft()
                self._done.extend(outcomes)
                self._busy[destination_id] = now = time.monotonic()
                lasted = outcomes[0].duration
                is_willing = outcomes[0].state == "delivered" and lasted < self._SLOW
                (self._suspect.discard if is_willing else self._suspect.add)(destination_id)
                if not is_willing or destination_id in self._rests_until or is_last:
                    break
                if now - told_at > 0.05:        # recorded several at a time, and not long after
                    told_at = now
                    self.store.send_bell.set()
        finally:
            self._done.extend(delivery.id for parcel in rest for delivery in parcel)
            self._finished.append(destination_id)
            self.store.send_bell.set()

    def _give_way(self) -> None:
        """While requests are served, send at a walk: threads that send without pause starve those that answer
        of the interpreter's lock."""
        if self.store.is_asked:
            with self._walking:
                time.sleep(0.002)

    def attempt(self, parcel: Sequence[Delivery], is_followed: bool = False) -> list[Outcome] | None:
        """Send once what goes out together; how it went, for each of it, to be recorded. A receiver's fault is an
        outcome, never an exception. ``is_followed``: by another to the same destination, at once.

        None when the program's end cut it short: the deliveries stay as they were.
        """
        now, began_at, first = self._clock(), time.monotonic(), parcel[0]
        destination, answer, error, retry_after = first.destination, None, None, None
        try:
            request = notification(message_of(parcel, self._sender, now))
            if isinstance(request, Request) and request.is_repeatable:
                request = dataclasses.replace(request, is_followed=is_followed)
            answer = self.post(request, first.account_is_admin)
            error, retry_after = verdict(destination, answer), wait_asked(answer, now)
        except Stopped:
            return None
        except (Unreachable, Invalid) as failure:
            error = str(failure)
        except Exception:   # a fault of ours costs this delivery an attempt, not the thread its life
            log.exception("delivery %s: attempt failed", first.id)
            error = "internal error, see the log"
        duration = time.monotonic() - began_at
        if KINDS[destination.kind].every:
            self._rests_until[destination.id] = time.monotonic() + KINDS[destination.kind].every
        age = now - first.queued_at if first.attempts else 0.0      # the service may have been off when it was due
        if retry_after and error and destination.kind != "webhook":     # whose headers count for the delivery alone
            self._asked_until[destination.id] = now + retry_after
        state, wait = outcome(error is None, retry_after, first.attempts + 1, self._first, age, self._spread())
        error = _plain(masked(error, destination)) if error else None
        if error:
            log.warning("delivery %s to %s: %s", first.id, destination.name, error)
        else:
            log.info("delivery %s to %s: accepted", first.id, destination.name)
        said = masked(answer.text(), destination)[:KIB] if answer else None
        return [Outcome(now, answer.status if answer else None, error, duration, answer.address if answer else None,
                        said, delivery.id, state, now + wait) for delivery in parcel]


# == api =======================================================================
#
# The contract's JSON API under /v1: who asks, what they may take, what they sent, what they get.
# All answers are JSON; an error is a Message. Paths are read raw, since a name or a version may
# hold a slash that was sent as %2F.


@dataclasses.dataclass(frozen=True)
class Parts:
    """What the API and the pages work with."""

    store: Store
    settings: Settings
    providers: Mapping[str, Provider]
    patterns: Patterns
    windows: Windows
    gate: LoginGate
    waiting: threading.BoundedSemaphore     # requests that may wait for a provider or a receiver at once


@dataclasses.dataclass(frozen=True)
class Call:
    """One request by a known account."""

    parts: Parts
    account_id: str
    segments: Sequence[str]                 # of the path below /v1, decoded
    environ: Mapping[str, Any]

    @property
    def store(self) -> Store:
        return self.parts.store


Handler = Callable[[Any], dict[str, Any]]        # of a Call; below a project of a ProjectCall
ROUTES: dict[str, dict[str, Handler]] = {}              # path below /v1 -> method -> handler
PROJECT_ROUTES: dict[str, dict[str, Handler]] = {}      # what follows a project -> method -> handler


def route(method: str, path: str) -> Callable[[Handler], Handler]:
    """Enter a handler for a path below /v1; ``{id}`` stands for one segment."""
    def enter(handler: Handler) -> Handler:
        ROUTES.setdefault(path, {})[method] = handler
        return handler
    return enter


class Query:
    """The query of a request, read by name. Raises Invalid for what a parameter does not take."""

    def __init__(self, environ: Mapping[str, Any]) -> None:
        try:
            self._given = dict(urllib.parse.parse_qsl(
                environ.get("QUERY_STRING", ""), keep_blank_values=True, errors="strict", max_num_fields=100))
        except ValueError:
            raise Invalid("The query takes at most 100 parameters in UTF-8.") from None
        self.faults: list[str] = []

    def flag(self, name: str) -> bool:
        return name in self._given

    def text(self, name: str) -> str | None:
        """The text of a parameter that was given; one that says nothing is a fault."""
        value = self._given.get(name)
        if value is not None and (not value.strip() or not value.isprintable()):
            self.faults.append(f"Parameter {name} takes a text.")
        return value

    def one_of(self, name: str, *choices: str) -> str:
        value = self._given.get(name, choices[0])
        if value not in choices:
            self.faults.append(f"Parameter {name} takes one of: {', '.join(choices)}.")
        return value

    def filter(self, name: str) -> str | None:
        """The text of a field that may be left empty."""
        return (self.text(name) or "").strip() or None if self._given.get(name, "").strip() else None

    def page(self) -> int:
        value = self._given.get("page", "1")
        if not re.fullmatch(r"0{0,9}[1-9][0-9]{0,8}", value):
            self.faults.append("Parameter page takes a whole number from 1 to 999999999.")
            return 1
        return int(value)

    def check(self) -> None:
        if self.faults:
            raise Invalid(*self.faults)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def is_storable(text: str) -> bool:
    """Whether a text has neither control characters, line breaks aside, nor halves of surrogate pairs."""
    return not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]", text)


def pattern_fault(pattern: str) -> str | None:
    """What is wrong with a regular expression, if anything."""
    if len(pattern) > 500 or not is_storable(pattern):
        return "a pattern takes at most 500 characters."
    if "[[:" in pattern:        # Python would read it as a set of letters, without a word
        return f"{pattern!r} has a POSIX class such as [[:alpha:]]; write [a-z], \\w or \\d."
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"{pattern!r} is no regular expression of Python's: {error}."
    return None


def read_body(environ: Mapping[str, Any], content_type: str) -> bytes:
    """The body of a request, which has to be of that type. Raises Invalid, TooLarge."""
    if environ.get("CONTENT_TYPE", "").split(";")[0].strip().lower() != content_type:
        raise Invalid(f"A POST takes the header Content-Type: {content_type}.")
    size = environ.get("CONTENT_LENGTH", "")
    if not (size.isascii() and size.isdigit()):     # sent in chunks, or nothing sent
        size = str(BODY_LIMIT + 1) if environ.get("wsgi.input_terminated") else "0"
    elif int(size) > BODY_LIMIT:
        raise TooLarge
    body = environ["wsgi.input"].read(int(size))    # bottle would put a larger one into a file
    if len(body) > BODY_LIMIT:
        raise TooLarge
    return body


class Fields:
    """A JSON object that is read by name. Collects every fault, which ``check`` raises as one Invalid."""

    def __init__(self, given: Any) -> None:
        if not isinstance(given, dict):
            raise Invalid("The body takes a JSON object.")
        self._given = given
        self.faults: list[str] = []

    @classmethod
    def of(cls, environ: Mapping[str, Any]) -> Fields:
        """Those that a request sent. Raises Invalid, TooLarge."""
        body = read_body(environ, "application/json")
        try:
            return cls(json.loads(body.decode("utf-8"), parse_constant=_refuse_constant))
        except (ValueError, RecursionError):
            raise Invalid("The body could not be decoded as JSON.") from None

    def check(self) -> None:
        if self.faults:
            raise Invalid(*self.faults)

    def text(self, name: str, *, at_most: int, required: str = "") -> str | None:
        """A text; None when it is absent or null. ``required``: what it is called when it must be there."""
        value = self._given.get(name)
        if required and (value is None or isinstance(value, str) and not value.strip()):
            self.faults.append(f"{required} is required.")
        elif value is not None and not isinstance(value, str):
            self.faults.append(f"Field {name} takes a text.")
        elif value is not None and (len(value) > at_most or not is_storable(value)):
            self.faults.append(f"Field {name} takes a text of at most {at_most} characters without control characters.")
        else:
            return value
        return None

    def flag(self, name: str) -> bool | None:
        value = self._given.get(name)
        if value is not None and not isinstance(value, bool):
            self.faults.append(f"Field {name} takes true or false.")
            return None
        return value

    def whole(self, name: str, at_most: int) -> int | None:
        value = self._given.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= at_most):
            self.faults.append(f"Field {name} takes a whole number from 0 to {at_most}.")
            return None
        return value

    def one_of(self, name: str, choices: Sequence[str]) -> str | None:
        value = self._given.get(name)
        if value is not None and value not in choices:
            self.faults.append(f"Field {name} takes one of: {', '.join(choices)}.")
            return None
        return value

    def ids(self, name: str, what: str, there_are: Callable[[], Collection[str]]) -> list[str] | None:
        """A list of ids, each of something that there is, each once."""
        values = self._list(name, "ids")
        known = there_are() if values else ()
        for value in values or ():
            if not isinstance(value, str) or value not in known:
                self.faults.append(f"Field {name}: there is no {what} {value!r:.60}.")
        return None if values is None else list(dict.fromkeys(value for value in values if isinstance(value, str)))

    def rules(self, name: str) -> list[tuple[str, bool]] | None:
        """A list of ``{value, inverse}``: patterns, and whether each is inverse."""
        rules = []
        entries = self._list(name, "objects with value and inverse", at_most=50)
        for at, entry in enumerate(entries or ()):
            value = entry.get("value") if isinstance(entry, dict) else None
            inverse = entry.get("inverse") if isinstance(entry, dict) else None
            if not isinstance(value, str) or not value or inverse is not None and not isinstance(inverse, bool):
                self.faults.append(
                    f"Field {name}[{at}] takes an object with value, a text, and inverse, true or false.")
            elif fault := pattern_fault(value):
                self.faults.append(f"Field {name}[{at}]: {fault}")
            else:
                rules.append((value, bool(inverse)))
        return None if entries is None else rules

    def _list(self, name: str, what: str, at_most: int = 1000) -> list[Any] | None:
        value = self._given.get(name)
        if value is not None and (not isinstance(value, list) or len(value) > at_most):
            self.faults.append(f"Field {name} takes a list of at most {at_most} {what}.")
            return None
        return value


def _destination_ids(call: Call, kind: str) -> set[str]:
    return {one.id for one in call.store.destinations(call.account_id, kind)}


def project_settings(fields: Fields, call: Call) -> dict[str, Any]:
    """What a body sets of a project, for the store. Faults are left in ``fields``."""
    found: dict[str, Any] = {
        "email_notification": fields.one_of("email_notification", EMAIL_NOTIFICATIONS),
        "exclude_prereleases": fields.flag("exclude_prereleases"),
        "exclude_updated": fields.flag("exclude_updated"),
        "exclude_version_regexp": fields.rules("exclude_version_regexp"),
        "note": fields.text("note", at_most=10_000),
        "hold_days": fields.whole("hold_days", HOLD_LIMIT),
        "tags": fields.ids("tags", "tag", lambda: {tag.id for tag in call.store.tags(call.account_id)}),
    }
    destinations = {}
    for kind, name in KIND_FIELDS.items():
        there_are = functools.partial(_destination_ids, call, kind)
        if (ids := fields.ids(name, f"{kind} destination", there_are)) is not None:
            destinations[kind] = ids
    if found["email_notification"] == "default":
        account = call.store.account_of(call.account_id)
        found["email_notification"] = account.email_notification if account else "daily"
    return {name: value for name, value in found.items() if value is not None} | {"destinations": destinations}


def _shown(call: Call, project: Project) -> dict[str, Any]:
    provider = call.parts.providers.get(project.provider)
    if provider is None:
        project = dataclasses.replace(project, health=dataclasses.replace(
            project.health, error=unknown_provider(project.provider)))
    return project.as_json(page_of(provider, project.name) if provider else "")


def _listed(call: Call, provider: str | None) -> dict[str, Any]:
    """A page of projects, or those that ``q`` finds, which leaves all other parameters aside."""
    query = Query(call.environ)
    text = query.text("q")
    if text is not None:
        query.check()
        found, total = call.store.search_projects(call.account_id, text, provider), 1
    else:
        order = query.one_of("order", "updated", "added", "name")
        tag, page, is_reversed = query.text("tag"), query.page(), query.flag("reverse")
        if tag is not None and not query.faults and not call.store.tag(call.account_id, tag):
            query.faults.append(f"Parameter tag: there is no tag {tag[:60]!r}.")
        query.check()
        found, total = call.store.projects(call.account_id, order, is_reversed, provider, tag, page)
    return {"projects": [_shown(call, project) for project in found], "total_pages": total}


@route("GET", "projects")
def list_projects(call: Call) -> dict[str, Any]:
    """A page of the account's projects. 400: a parameter takes something else."""
    return _listed(call, None)


@route("GET", "projects/{provider}")
def list_projects_of_provider(call: Call) -> dict[str, Any]:
    """The same, of one provider."""
    return _listed(call, call.segments[1])


@route("GET", "projects/search")
def search_projects(call: Call) -> dict[str, Any]:
    """The projects whose name holds ``q``. 400: without ``q``, or an unknown ``provider``."""
    query = Query(call.environ)
    text, provider = query.text("q"), query.text("provider")
    if text is None:
        query.faults.append("Parameter q is required: the text to search for.")
    if provider is not None and provider not in call.parts.providers:
        query.faults.append(f"Parameter provider: there is no provider {provider[:60]!r}.")
    query.check()
    found = call.store.search_projects(call.account_id, text or "", provider)
    return {"q": text, "projects": [_shown(call, project) for project in found]}


@contextlib.contextmanager
def room_to_wait(parts: Parts) -> Iterator[bool]:
    """Whether a request may wait for somebody else: few may at once, since each holds a thread that answers."""
    may_wait = parts.waiting.acquire(blocking=False)
    try:
        yield may_wait
    finally:
        if may_wait:
            parts.waiting.release()


def await_first_check(call: Call, project: Project, source: Source, asked_at: float, seconds: float) -> Project:
    """A project that was added at ``asked_at``, after its first check if that ends in time. Raises Invalid, and the
    project is gone, when its provider has no such project, or it is one that the account has."""
    if source.succeeded_at is None:
        with room_to_wait(call.parts) as may_wait:
            after = call.store.await_check(source.id, asked_at, seconds) if may_wait else None
        if after and after.missing_since and after.succeeded_at is None:
            call.store.remove_project(project.id)
            raise Invalid(f"Project name {project.name!r} was not found: {after.error}.")
    project_now = call.store.project(call.account_id, project.id)
    if project_now is None:
        raise Invalid(f"Project name {project.name!r} is another name of a project that is tracked already.")
    return project_now


@route("POST", "projects")
def add_project(call: Call) -> dict[str, Any]:
    """The new project, by ``provider`` and ``name``, or by an address as the ``name``. 400: neither, one that is
    malformed, tracked already, or not at the provider."""
    fields = Fields.of(call.environ)
    id_ = fields.text("provider", at_most=100)
    names_none = not fields.faults and not (id_ or "").strip()
    text = fields.text("name", at_most=2000, required="Project name")
    found: tuple[Provider, str, str] | None = None
    if text is None and names_none:
        fields.faults.insert(0, "Provider is required.")
    elif text is not None:
        try:
            found = project_at(call.parts.providers, (id_ or "").strip() or None, text)
        except Invalid as error:
            fields.faults += error.errors
    settings = project_settings(fields, call)
    fields.check()
    assert found
    provider, name, key = found
    asked_at = call.store.clock()
    project, source = call.store.add_project(call.account_id, provider.id, key, name, settings)
    return _shown(call, await_first_check(call, project, source, asked_at, ADD_WAIT))


def _on_project(method: str, what: str) -> Callable[[Handler], Handler]:
    """Enter a handler of what follows a project in a path: nothing, or one of its parts."""
    def enter(handler: Handler) -> Handler:
        PROJECT_ROUTES.setdefault(what, {})[method] = handler
        return handler
    return enter


@dataclasses.dataclass(frozen=True)
class ProjectCall(Call):
    """One request about a project that the account has."""

    project: Project
    version: str = ""           # of the release that the path names


@_on_project("GET", "")
def read_project(call: ProjectCall) -> dict[str, Any]:
    """The project."""
    return _shown(call, call.project)


@_on_project("POST", "")
def update_project(call: ProjectCall) -> dict[str, Any]:
    """The project as it is after the update; what is absent or null stays. 400: a field takes something else."""
    fields = Fields.of(call.environ)
    settings = project_settings(fields, call)
    fields.check()
    project = call.store.update_project(call.account_id, call.project.id, settings)
    if project is None:         # removed meanwhile
        raise NotFound
    return _shown(call, project)


_OK = {"message": "OK", "code": 200}


@_on_project("DELETE", "")
def remove_project(call: ProjectCall) -> dict[str, Any]:
    """OK; the project is gone."""
    call.store.remove_project(call.project.id)
    return _OK


def _shown_releases(call: ProjectCall, releases: Sequence[Release]) -> list[dict[str, Any]]:
    marks = excluded(call.project, releases, call.parts.patterns)
    return [release.as_json() | ({"is_excluded": True} if is_excluded else {})
            for release, is_excluded in zip(releases, marks)]


@_on_project("GET", "releases")
def list_releases(call: ProjectCall) -> dict[str, Any]:
    """A page of the project's releases, newest first. 400: ``page`` is no page."""
    query = Query(call.environ)
    page = query.page()
    query.check()
    releases, total = call.store.releases(call.project.source_id, page)
    return {"releases": _shown_releases(call, releases), "total_pages": total}


def newest_wanted(parts: Parts, project: Project, pages: int = sys.maxsize) -> Release | None:
    """The newest release that the project does not exclude, among those of so many pages."""
    for page in range(1, pages + 1):
        releases, total = parts.store.releases(project.source_id, page)
        for release, is_excluded in zip(releases, excluded(project, releases, parts.patterns)):
            if not is_excluded:
                return release
        if page >= total:
            break
    return None


@_on_project("GET", "latest-release")
def read_latest_release(call: ProjectCall) -> dict[str, Any]:
    """The newest release that the project does not exclude. 404: there is none."""
    return _or_missing(newest_wanted(call.parts, call.project)).as_json()


@_on_project("GET", "releases/{version}")
def read_release(call: ProjectCall) -> dict[str, Any]:
    """One release. 404: the project has no such version."""
    release = call.store.release_of(call.project.source_id, [call.version])
    if release is None:
        raise NotFound
    return _shown_releases(call, [release])[0]


@_on_project("GET", "releases/{version}/note")
def read_note(call: ProjectCall) -> dict[str, Any]:
    """The note of a release. 404: it has none."""
    note = call.store.note(call.project.source_id, call.version)
    if note is None:
        raise NotFound
    return note.as_json()


@route("GET", "providers")
def list_providers(call: Call) -> dict[str, Any]:
    """The ids of all providers; with ``added`` of those that the account has projects at."""
    return {"providers": call.store.providers_of(call.account_id) if Query(call.environ).flag("added")
            else list(call.parts.providers)}


def _destination_list(kind: str, *keys: str) -> Handler:
    def handler(call: Call) -> dict[str, Any]:
        found = [one.as_json() for one in call.store.destinations(call.account_id, kind)]
        return dict.fromkeys(keys, found)
    return handler


# Telegram's and Matrix' lists stand twice: under the contract's key, and where its public client looks.
for _kind, _field in KIND_FIELDS.items():
    _more = {"telegram": ("channels",), "matrix": ("webhooks",)}.get(_kind, ())
    ROUTES[_field.replace("_", "-")] = {"GET": _destination_list(_kind, *_more, _field.rpartition("_")[2])}


@route("GET", "tags")
def list_tags(call: Call) -> dict[str, Any]:
    """The account's tags, sorted by name."""
    return {"tags": [tag.as_json() for tag in call.store.tags(call.account_id)]}


def _tag_name(call: Call) -> str:
    fields = Fields.of(call.environ)
    name = fields.text("name", at_most=TAG_LIMIT, required="Tag name")
    fields.check()
    return (name or "").strip()


@route("POST", "tags")
def add_tag(call: Call) -> dict[str, Any]:
    """The new tag. 400: no name, or one that the account already has."""
    return call.store.add_tag(call.account_id, _tag_name(call)).as_json()


def _or_missing(value: Any) -> Any:
    if value is None:
        raise NotFound
    return value


@route("GET", "tags/{id}")
def read_tag(call: Call) -> dict[str, Any]:
    """The tag. 404: the account has no such tag."""
    return _or_missing(call.store.tag(call.account_id, call.segments[1])).as_json()


@route("POST", "tags/{id}")
def rename_tag(call: Call) -> dict[str, Any]:
    """The tag with its new name. 400: no name, or another tag's. 404: no such tag."""
    _or_missing(call.store.tag(call.account_id, call.segments[1]))
    return _or_missing(call.store.rename_tag(call.account_id, call.segments[1], _tag_name(call))).as_json()


@route("DELETE", "tags/{id}")
def remove_tag(call: Call) -> dict[str, Any]:
    """OK; the tag is gone, and no project has it. 404: no such tag."""
    _or_missing(call.store.remove_tag(call.account_id, call.segments[1]) or None)
    return _OK


@route("GET", "auth/keys")
def list_keys(call: Call) -> dict[str, Any]:
    """The account's keys with their secrets. Takes the account's log-in, never a key."""
    return {"keys": [key.as_json() for key in call.store.keys(call.account_id)]}


# Who asks


def client_address(environ: Mapping[str, Any], trusted: tuple[str, ...]) -> str:
    """The address that a request comes from; "" when a trusted proxy names none that can be read.

    The forwarded address counts only when the connection is a trusted proxy's: the last that is not itself one.
    """
    address = environ.get("REMOTE_ADDR", "")
    if trusted and in_networks(address, trusted):
        for forwarded in reversed(environ.get("HTTP_X_FORWARDED_FOR", address).split(",")):
            address = forwarded.strip()
            if not in_networks(address, trusted):
                break
    return address if parse_address(address) else ""


def _basic(environ: Mapping[str, Any]) -> tuple[str, str]:
    """User and password of a Basic Authorization header, ("", "") without one that can be read."""
    scheme, _, coded = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        user, _, password = base64.b64decode(coded.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return user, password


def take_cost(parts: Parts, name: str, method: str) -> None:
    """Take what a request costs, and say so in its answer's headers. Raises TooMany."""
    if not parts.settings.rate_limit:
        return
    window = parts.windows.take(name, 1 if method == "GET" else 10, time.monotonic())
    headers = bottle.response.headers
    headers["X-Ratelimit-Limit"] = str(window.limit)
    headers["X-Ratelimit-Remaining"] = str(window.remaining)
    headers["X-Ratelimit-Reset"] = str(int(window.reset))
    if not window.is_open:
        raise TooMany(window.reset)


def key_account(parts: Parts, environ: Mapping[str, Any]) -> tuple[str, str]:
    """``(key id, account id)`` of the key that a request carries. Raises Unauthorized, and TooMany for the
    address that has sent too many wrong ones."""
    address = client_address(environ, parts.settings.trusted_proxy)
    secrets_given = [environ["HTTP_X_KEY"]] if environ.get("HTTP_X_KEY") else list(filter(None, _basic(environ)))
    for secret in secrets_given:
        found = parts.store.key_by_secret(secret)
        if found and in_networks(address, found[2]):
            parts.store.note_use(found[0])
            return found[0], found[1]
    if secrets_given and parts.settings.rate_limit:
        take_cost(parts, f"address {address}", environ["REQUEST_METHOD"])
    raise Unauthorized


def log_in(parts: Parts, environ: Mapping[str, Any], address: str, password: str) -> Account:
    """The account of an e-mail address and its password. Raises Unauthorized, TooMany."""
    if not address or not password or not is_storable(address):
        raise Unauthorized
    account = parts.store.account(address)
    client = client_address(environ, parts.settings.trusted_proxy)
    if not parts.gate.check(address, client, password, account.password if account else None, time.monotonic()):
        raise Unauthorized
    assert account
    return account


# What they ask for


def raw_segments(environ: Mapping[str, Any]) -> list[str]:
    """The path's segments, split before they are decoded, so that %2F stays inside one.

    From REQUEST_URI where the server gives it and it agrees with the decoded path. Raises Invalid for a path
    that is not UTF-8.
    """
    path = environ.get("bottle.raw_path", environ.get("PATH_INFO", "")).encode("latin-1")   # bottle decodes in place
    mounted = environ.get("SCRIPT_NAME", "").encode("latin-1").rstrip(b"/")
    raw = re.sub(r"^https?://[^/?#]*", "", environ.get("REQUEST_URI", "")).partition("?")[0].partition("#")[0]
    asked = urllib.parse.unquote_to_bytes(raw)
    if asked not in (path, mounted + path):     # a proxy may have cut off where we are mounted
        raw, asked = quote(path, safe="/"), path
    try:
        segments = [unquote(segment, errors="strict") for segment in raw.split("/")[1:]]
    except UnicodeDecodeError:
        raise Invalid("The path takes UTF-8.") from None
    return segments[mounted.count(b"/") if asked != path else 0:]


def find_in_project(call: Call, segments: Sequence[str]) -> tuple[dict[str, Handler], Call]:
    """The same below a project. Where a name ends and what a version is, is settled by what the account has:
    the longest name that it tracks, then the longest version that there is. Raises NotFound."""
    tail = list(segments[1:])
    provider = call.parts.providers.get(segments[0])
    if provider is None:
        project = call.store.project(call.account_id, segments[0])
    else:
        ends = {}
        for end in range(1, len(tail) + 1):
            with contextlib.suppress(Invalid):
                ends[name_at(provider, "/".join(tail[:end]))[1]] = end
        project, key = call.store.project_by_names(call.account_id, provider.id, list(ends)) or (None, "")
        tail = tail[ends.get(key, 0):]
    if project is None:
        raise NotFound
    version, what = "", "/".join(tail)
    if tail[:1] == ["releases"] and len(tail) > 1:
        named = {"/".join(tail[1:]): "releases/{version}"}
        if tail[-1] == "note" and len(tail) > 2:
            named["/".join(tail[1:-1])] = "releases/{version}/note"
        release = call.store.release_of(project.source_id, list(named))
        if release is None or release.version not in named:     # SQLite ends a text of JSON at a NUL
            raise NotFound
        version, what = release.version, named[release.version]
    if what not in PROJECT_ROUTES or "{" in what and not version:
        raise NotFound
    return PROJECT_ROUTES[what], ProjectCall(**vars(call), project=project, version=version)


def find_handler(call: Call) -> tuple[dict[str, Handler], Call]:
    """What there is at a path, by method, and the call with what its path names. Raises NotFound."""
    segments = call.segments
    first, path = segments[0], "/".join(segments)
    if path in ROUTES and "{" not in path and len(segments) == path.count("/") + 1:     # no slash was sent as %2F
        return ROUTES[path], call
    if first == "tags" and len(segments) == 2:
        return ROUTES["tags/{id}"], call
    if first == "projects" and len(segments) == 2 and segments[1] in call.parts.providers:
        return ROUTES["projects/{provider}"], call
    if first in ("projects", "project") and 2 <= len(segments) <= 50:
        return find_in_project(call, segments[1:])
    raise NotFound


def refuse(error: ReleasetrackError) -> dict[str, Any]:
    """The Message of an error; its status and headers are set on the current response."""
    response = bottle.response
    response.status = error.status
    if isinstance(error, Unauthorized):
        response.set_header("WWW-Authenticate", 'Basic realm="releasetrack", charset="UTF-8"')
    elif isinstance(error, NotAllowed):
        response.set_header("Allow", error.allow)
    elif isinstance(error, TooMany):
        response.set_header("Retry-After", str(max(1, int(error.retry_after) + 1)))
    elif isinstance(error, StoreUnavailable):
        log.warning("api: %s", error)
        response.set_header("Retry-After", "5")
    return error.as_message()


def answer_api(parts: Parts, rest: str = "") -> bytes:
    """The answer to the current request under /v1, as JSON. Only here does an error become a status. ``rest`` of the
    path is what bottle makes of it; it is read raw instead."""
    environ, response = bottle.request.environ, bottle.response
    response.content_type = "application/json"
    try:
        method = environ["REQUEST_METHOD"]
        segments = raw_segments(environ)[1:]
        if segments == ["auth", "keys"]:
            account_id = log_in(parts, environ, *_basic(environ)).id
            take_cost(parts, f"account {account_id}", method)
        else:
            key_id, account_id = key_account(parts, environ)
            take_cost(parts, f"key {key_id}", method)
        if not segments:
            raise NotFound
        handlers, call = find_handler(Call(parts, account_id, segments, environ))
        handler = handlers.get("GET" if method == "HEAD" else method)
        if handler is None:
            raise NotAllowed(", ".join(sorted({*handlers, "HEAD"} if "GET" in handlers else handlers)))
        value = handler(call)
    except ReleasetrackError as error:
        value = refuse(error)
    return compact_json(value).encode("utf-8", "replace")


def status_message(status: int, text: str = "") -> bytes:
    """A Message for a status that bottle or the server answers by itself."""
    value = {"message": REASONS.get(status, "Error"), "code": status}
    if status == 400:
        value["errors"] = [text or "The request could not be understood."]
    return json.dumps(value, separators=(",", ":")).encode()


# == pages =====================================================================
#
# What a person sees in a browser: plain HTML from the templates here, one style sheet, and a little script for
# what also works without. Nothing is loaded from elsewhere. A browser is known by a random token; each form carries
# another that is made of it, and must come from us. Notes are strangers' HTML, in a frame that may do nothing.


STYLE = """\
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --text: #1b2230; --soft: #586273; --line: #d8dde5; }
:root { --accent: #1756bd; --on-accent: #fff; --tint: #e9f0fc; --bad: #a3201b; --bad-tint: #fdeceb; --edge: #7b8596; }
:root { --warn: #7a4a00; --warn-tint: #fcf1da; --good: #17663a; --good-tint: #e3f4e9; }
@media (prefers-color-scheme: dark) { :root { --page: #11151b; --card: #191e26; --text: #e6e9ee; --soft: #a3adbb; } }
@media (prefers-color-scheme: dark) { :root { --line: #303846; --accent: #8db8fa; --on-accent: #0d1a30; } }
@media (prefers-color-scheme: dark) { :root { --tint: #1f2c42; --bad: #ffb1aa; --bad-tint: #3d1d1c; --edge: #76808f; } }
@media (prefers-color-scheme: dark) { :root { --warn: #f3cf86; --warn-tint: #38290d; --good: #8fdcac; } }
@media (prefers-color-scheme: dark) { :root { --good-tint: #14321f; } }
* { box-sizing: border-box; } [hidden] { display: none !important; } .skip:focus { left: 1rem; }
body { margin: 0; color: var(--text); background: var(--page); font: 1rem/1.55 system-ui; overflow-wrap: anywhere; }
th, .mark { overflow-wrap: break-word; }
a, .danger { color: var(--accent); text-underline-offset: .15em; } .danger { color: var(--bad); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; border-radius: .3rem; }
.skip { position: absolute; top: .4rem; left: -99rem; padding: .5rem 1rem; background: var(--card); }
body > header { background: var(--card); border-bottom: 1px solid var(--line); }
body > header > div, main { max-width: 66rem; margin: 0 auto; padding: .4rem 1rem; }
body > header > div { display: flex; flex-wrap: wrap; align-items: center; gap: 0 1.2rem; }
.brand { font-weight: 700; color: inherit; text-decoration: none; padding: .4rem 0; }
.brand::before { content: "\\25cf"; color: var(--accent); margin-right: .35em; }
nav { display: flex; flex-wrap: wrap; flex: 1; gap: .1rem .2rem; }
nav a { color: var(--soft); text-decoration: none; padding: .35rem .6rem; border-radius: .4rem; white-space: nowrap; }
nav a:hover, nav a[aria-current] { color: var(--text); background: var(--tint); }
main { padding: 1.4rem 1rem 4rem; }
.narrow { max-width: 27rem; padding-top: 9vh; } p, ul, ol, dl, pre { margin: 0 0 .8rem; }
h1 { font-size: 1.55rem; line-height: 1.25; margin: 0 0 1rem; } h2 { font-size: 1.05rem; margin: 1.9rem 0 .6rem; }
.soft, .hint, small { color: var(--soft); } .hint, small { font-size: .875rem; }
.card, .list > li, fieldset { background: var(--card); border: 1px solid var(--line); border-radius: .65rem; }
.card, fieldset { padding: 1rem 1.1rem; margin: 0 0 1.1rem; }
.card > :last-child, fieldset > :last-child { margin-bottom: 0; } table + .card, button + .hint { margin-top: .8rem; }
.card > :first-child { margin-top: 0; } .card.line { margin-bottom: 1.1rem; } [role=group] { margin-bottom: .8rem; }
.empty { text-align: center; padding: 2.6rem 1.2rem; } .empty h2 { margin-top: 0; }
.list { list-style: none; padding: 0; display: grid; gap: .5rem; grid-template-columns: minmax(0, 1fr); }
.list > li { padding: .7rem 1rem; } .list > li > :last-child { margin-bottom: 0; }
.grid { grid-template-columns: repeat(auto-fill, minmax(min(18rem, 100%), 1fr)); } .note iframe { width: 100%; }
.line { display: flex; flex-wrap: wrap; align-items: baseline; gap: .15rem .6rem; margin: 0; }
.line > .end { margin-left: auto; } .list > .unseen { border-left: .25rem solid var(--accent); }
.name { font-weight: 600; text-decoration: none; color: inherit; } .name:hover { text-decoration: underline; }
.mark { font: 600 .78rem/1.5 system-ui; padding: .05rem .5rem; border-radius: 1rem; display: inline-block; }
.mark { background: var(--tint); color: var(--accent); max-width: 100%; }
.mark.bad { background: var(--bad-tint); color: var(--bad); }
.mark.warn { background: var(--warn-tint); color: var(--warn); }
.mark.good { background: var(--good-tint); color: var(--good); }
.mark.plain { background: none; color: var(--soft); border: 1px solid var(--line); }
.note > summary { color: var(--soft); font-size: .92rem; cursor: pointer; margin-top: .25rem; }
.note:not([open]) > summary { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.note iframe { border: 1px solid var(--line); border-radius: .4rem; resize: vertical; margin-top: .5rem; }
table { width: 100%; border-collapse: collapse; background: var(--card); border: 1px solid var(--line); }
th, td { padding: .5rem .7rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { font-size: .85rem; color: var(--soft); } td:first-child:has(input) { width: 1%; }
label, legend { font-weight: 600; }
.check { font-weight: 400; display: inline-flex; gap: .45rem; align-items: baseline; margin: .1rem .9rem .1rem 0; }
form p > label:not(.check), .filters label:not(.check) { display: block; }
input, select, textarea, button { font: 400 1rem/1.4 system-ui; color: inherit; }
input:not([type=checkbox]):not([type=radio]), select, textarea { width: 100%; max-width: 36rem; min-height: 2.5rem; }
input:not([type=checkbox]):not([type=radio]), select, textarea { padding: .45rem .6rem; }
form p > .hint { display: block; }
input, select, textarea { background: var(--card); border: 1px solid var(--edge); border-radius: .4rem; }
input[type=checkbox], input[type=radio] { accent-color: var(--accent); }
textarea, pre, code, .mono { font-family: ui-monospace, monospace; font-size: .9rem; }
button, .button { padding: .45rem .95rem; border: 1px solid var(--edge); border-radius: .4rem; cursor: pointer; }
.button { font: 400 1rem/1.4 system-ui; } ::placeholder { color: var(--soft); }
button, .button { background: var(--card); color: var(--text); text-decoration: none; display: inline-block; }
button:hover, .button:hover { border-color: var(--accent); } .sure > button { margin: .4rem 0; }
.main { background: var(--accent); border-color: var(--accent); color: var(--on-accent); font-weight: 600; }
.quiet { background: none; border-color: transparent; color: var(--soft); padding: .3rem .5rem; }
.row, .filters { display: flex; flex-wrap: wrap; gap: .6rem; align-items: end; margin: 0 0 1rem; }
.row form, .line form { display: contents; }
.filters > label { flex: 1 1 9rem; } .filters > .check { flex: none; padding: .45rem 0; }
.row label:has(.mono) { flex: 0 1 36rem; } .row select { display: block; width: auto; max-width: 18rem; }
[role=alert], [role=status] { padding: .7rem 1rem; border-radius: .5rem; margin: 0 0 1.1rem; }
[role=alert] { background: var(--bad-tint); color: var(--bad); } [role=status] { background: var(--good-tint); }
[role=alert] ul { margin: 0; padding-left: 1.1rem; } [aria-invalid] { border-color: var(--bad); }
pre { background: var(--tint); border-radius: .4rem; padding: .7rem; overflow: auto; white-space: pre-wrap; }
dl { display: grid; grid-template-columns: minmax(7rem, auto) 1fr; gap: .25rem 1rem; } dd { margin: 0; }
@media (max-width: 44rem) {
nav { order: 1; flex: 0 0 100%; } header form { margin-left: auto; } .mark { overflow-wrap: anywhere; }
table, tbody, tr, td { display: block; } thead { display: none; } td { border: 0; padding: .1rem .8rem; }
tr { border-bottom: 1px solid var(--line); padding: .5rem 0 .5rem 1.6rem; position: relative; } td input { margin: 0; }
td:first-child:has(input) { position: absolute; left: 0; width: auto; } td:nth-child(n+4) { display: inline; }
}
"""

SCRIPT = """\
"use strict";
// What improves the pages where scripts run. All of it can be done without.
let timer, asked = 0;
addEventListener("input", event => {        // data-live: what a form finds or previews is shown while it is typed
  const form = event.target.form, id = form && form.dataset.live;
  if (!id) return;
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const mine = ++asked, data = new URLSearchParams(new FormData(form)), isGet = form.method === "get";
    if (!isGet) data.set("do", form.dataset.do);
    const url = form.getAttribute("action");
    const answer = await fetch(isGet ? url + "?" + data : url, isGet ? {} : {method: "POST", body: data});
    const text = await answer.text(), found = new DOMParser().parseFromString(text, "text/html").getElementById(id);
    if (mine !== asked || !found) return;
    const place = document.getElementById(id);
    place.replaceChildren(...found.childNodes);
    reveal(place);
    if (isGet) history.replaceState(null, "", "?" + data);
  }, 250);
});
addEventListener("click", async event => {  // data-copy: the field whose text is copied
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const field = document.getElementById(button.dataset.copy);
  field.select();
  try { await navigator.clipboard.writeText(field.value); } catch { document.execCommand("copy"); }
  button.textContent = "Copied";
});
addEventListener("change", event => {       // data-all: ticks all boxes of that name
  const name = event.target.dataset.all;
  if (name) for (const box of document.getElementsByName(name)) box.checked = event.target.checked;
});
function reveal(root) {                     // what would do nothing without scripts is hidden until here
  for (const part of root.querySelectorAll("[data-copy], [data-all]"))
    part.closest("[hidden]")?.removeAttribute("hidden");
}
reveal(document);
"""

ICON = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="15" fill="#e9f0fc"/>\
<circle cx="16" cy="16" r="9" fill="#1756bd"/></svg>
"""

CONTENT_POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
                  "frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
# Of the frame of a note, wherever it is opened: neither scripts nor forms, nothing loaded but our style.
NOTE_POLICY = ("sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'self'; "
               "base-uri 'none'; form-action 'none'; frame-ancestors 'self'")
NOTE_STYLE = """\
:root { color-scheme: light dark; }
body { margin: .8rem 1rem; font: .95rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; } img { display: none; } table { border-collapse: collapse; }
h1, h2, h3 { font-size: 1.1rem; }
td, th { border: 1px solid #8888; padding: .2rem .5rem; }
"""

TEMPLATES: dict[str, bottle.SimpleTemplate] = {}        # what a template may rebase on or include, by name


def template_of(source: str, name: str = "") -> bottle.SimpleTemplate:
    """A page's template, which is compiled once, when it is first shown: most processes show none. One with a name is
    for others to use; nothing is looked up on disk."""
    template = bottle.SimpleTemplate(source)
    template.cache = TEMPLATES
    if name:
        TEMPLATES[name] = template
    return template


template_of("""\
<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>{{title}} - releasetrack</title>
  <link rel="icon" href="{{root}}/icon.svg" type="image/svg+xml">
  <link rel="stylesheet" href="{{root}}/style.css">
  <script src="{{root}}/script.js" defer></script>
</head>
<body>
  <a class="skip" href="#main">Skip to the content</a>
  % if account:
  <header>
    <div>
      <a class="brand" href="{{root}}/">releasetrack</a>
      <nav aria-label="Pages">
        % for path, name in links:
        <a href="{{root}}{{path}}" {{"aria-current=page" if path == here else ""}}>{{name}}</a>
        % end
      </nav>
      <form method="post" action="{{root}}/logout">
        % include("token")
        <button class="quiet">Sign out</button>
      </form>
    </div>
  </header>
  % end
  <main id="main" {{"class=narrow" if not account else ""}}>
    % if said:
    <p role="status">{{said}}</p>
    % end
    {{!base}}
  </main>
</body>
</html>
""", "layout")
template_of("""\
<input type="hidden" name="form_token" value="{{form_token}}">
""", "token")
template_of("""\
% if faults:
<div role="alert">
  <ul>
    % for fault in faults:
    <li>{{fault}}</li>
    % end
  </ul>
</div>
% end
""", "faults")
template_of("""\
% if previous or following:
<nav class="row" aria-label="More">
  % if previous:
  <a class="button" rel="prev" href="{{root}}{{previous}}">Previous page</a>
  % end
  % if following:
  <a class="button" rel="next" href="{{root}}{{following}}">Next page</a>
  % end
</nav>
% end
""", "pager")
template_of("""\
% if release.is_prerelease:
<span class="mark warn">pre-release</span>
% end
% if release.is_updated:
<span class="mark">updated</span>
% end
% for cve in release.cve[:3]:
<span class="mark bad">{{cve}}</span>
% end
% if len(release.cve) > 3:
<span class="mark bad">and {{len(release.cve) - 3}} more</span>
% end
% if is_excluded:
<span class="mark plain">excluded</span>
% end
""", "marks")
template_of("""\
<details class="note" {{"open" if is_open else ""}}>
  <summary>{{start.summary}}</summary>
  <iframe sandbox="allow-popups allow-popups-to-escape-sandbox" loading="lazy" title="Notes of {{version}}"
    height="{{start.height}}" src="{{root}}/projects/{{project_id}}/note?version={{quote(version, safe="")}}"></iframe>
</details>
""", "note")
template_of("""\
<div class="row">
  <label>{{name}}
    <input id="{{id}}" class="mono" value="{{value}}" readonly>
  </label>
  <span hidden><button type="button" data-copy="{{id}}">Copy</button></span>
</div>
""", "copied")
template_of("""\
<details class="sure">
  <summary class="button">{{label}}</summary>
  <button name="do" value="{{do}}" class="danger">{{sure}}</button>
</details>
""", "sure")
template_of("""\
% if error is None and sent:
<p role="status">The test was sent, and taken.</p>
% elif error is not None:
<p role="alert">{{error}}</p>
% end
% if sent:
<h2>{{"What was sent" if reply else "What was tried"}}</h2>
<pre tabindex="0">{{sent}}</pre>
<h2>What was answered</h2>
<pre tabindex="0">{{reply or "Nothing."}}</pre>
% end
""", "exchange")
template_of("""\
% for value, name in choices:
<option value="{{value}}" {{"selected" if value == chosen else ""}}>{{name}}</option>
% end
""", "options")
template_of("""\
<label>{{label}} <input type="search" name="q" value="{{text}}"></label>
<label>Tag
  <select name="tag">
    % include("options", choices=[("", "All"), *((one.id, one.name) for one in tags)], chosen=tag)
  </select>
</label>
<label>Provider
  <select name="provider">
    % include("options", choices=[("", "All"), *((one, one) for one in providers)], chosen=provider)
  </select>
</label>
""", "filters")
template_of("""\
<div class="card empty">
  <h2>Nothing is tracked yet</h2>
  <p class="soft">Add what you depend on, at GitHub, Docker Hub, PyPI and others: its releases are listed here.</p>
  <p><a class="button main" href="{{root}}/projects/add">Add your first project</a></p>
</div>
""", "nothing_tracked")
template_of("""\
% for tag in tags:
<label class="check"><input type="checkbox" name="{{field}}" value="{{tag.id}}"
  {{"checked" if tag.id in chosen else ""}}> {{tag.name}}</label>
% end
% if not tags:
<p class="hint">There are no tags yet; <a href="{{root}}/tags">make one</a>.</p>
% end
""", "tag_boxes")

ERROR_PAGE = template_of("""\
% rebase("layout", title=heading)
<h1>{{heading}}</h1>
<p>{{text}}</p>
<p><a class="button" href="{{root}}/">To the releases</a></p>
""")


# Who is there, and what they sent


@dataclasses.dataclass(frozen=True)
class Site:
    """What the pages work with."""

    parts: Parts
    fetcher: Fetcher
    try_out: Callable[[Destination, Account, Mapping[str, Any], str], tuple[Request | Mail, Answer | None, str | None]]
    health: Callable[[], dict[str, str]]
    setup_token: str                # of the link that makes the first account
    tests: Windows                  # of notifications, an hour and account: a test says what its sender likes


class Form:
    """What a form sent, read by name. Raises Invalid for what no form of ours sends, TooLarge."""

    def __init__(self, environ: Mapping[str, Any]) -> None:
        body = read_body(environ, "application/x-www-form-urlencoded")
        self._given: dict[str, list[str]] = {}
        try:
            for name, value in urllib.parse.parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict",
                                                      max_num_fields=3000):
                self._given.setdefault(name, []).append(value.replace("\r\n", "\n"))
        except ValueError:
            raise Invalid("A form takes at most 3,000 fields in UTF-8.") from None

    def text(self, name: str) -> str:
        return self.texts(name)[0].strip() if self.texts(name) else ""

    def texts(self, name: str) -> list[str]:
        return self._given.get(name, [])

    def password(self, name: str) -> str:
        """As it was typed: blanks may belong to it."""
        return self.texts(name)[0] if self.texts(name) else ""

    def lines(self, name: str) -> list[str]:
        """The lines of a field that say something."""
        return [line.strip() for line in self.text(name).split("\n") if line.strip()]


class SeeOther(Exception):
    """Leave for another page of ours, which begins with what was ``said``."""

    def __init__(self, path: str, said: str = "") -> None:
        super().__init__(path)
        self.path, self.said = path, said


def _path_of(environ: Mapping[str, Any]) -> str:
    """The path below that which we are mounted at, as it stands in addresses."""
    return quote(environ.get("bottle.raw_path", environ.get("PATH_INFO", "")).encode("latin-1"))


def _root_of(environ: Mapping[str, Any]) -> str:
    """The path that we are mounted at, as it stands in addresses; "" at the root."""
    return quote(environ.get("SCRIPT_NAME", "").rstrip("/").encode("latin-1"))


def _is_secure(environ: Mapping[str, Any], settings: Settings) -> bool:
    """Whether the browser speaks TLS, as far as we are told."""
    if settings.base_url:
        return settings.base_url.startswith("https:")
    is_told = bool(settings.trusted_proxy) and in_networks(environ.get("REMOTE_ADDR", ""), settings.trusted_proxy)
    return (environ.get("HTTP_X_FORWARDED_PROTO") if is_told else environ.get("wsgi.url_scheme")) == "https"


def _set_cookie(environ: Mapping[str, Any], settings: Settings, name: str, value: str, seconds: float | None) -> None:
    """Set a cookie that scripts do not see and other sites do not send; ``seconds`` None: until the browser ends."""
    lasting = "" if seconds is None else f"; Max-Age={seconds:.0f}"
    secure = "; Secure" if _is_secure(environ, settings) else ""
    bottle.response.add_header(
        "Set-Cookie", f"{name}={value}; Path={_root_of(environ)}/; HttpOnly; SameSite=Lax{lasting}{secure}")


def _cookie(environ: Mapping[str, Any], name: str) -> str:
    """The value of a cookie. Not by http.cookies, which takes seconds for what is made to be slow."""
    match = re.search(rf"(?:^|;) *{name}=([A-Za-z0-9_.%~-]{{1,4000}})(?:;|$)", environ.get("HTTP_COOKIE", ""))
    return match[1] if match else ""


def _cookie_name(environ: Mapping[str, Any], settings: Settings, name: str) -> str:
    """The name with the prefix that keeps other hosts, or plain HTTP, from setting it:
    https://www.rfc-editor.org/rfc/rfc6265#section-5 and the prefixes of its successor."""
    prefix = ("__Secure-" if _root_of(environ) else "__Host-") if _is_secure(environ, settings) else ""
    return f"{prefix}releasetrack{name}"


class Visit:
    """One request of a browser: who is there, what was sent, and how they are answered."""

    def __init__(self, site: Site, environ: Mapping[str, Any]) -> None:
        self.site, self.environ = site, environ
        self.parts, self.store = site.parts, site.parts.store
        self.settings, self.providers = site.parts.settings, site.parts.providers
        self.root = _root_of(environ)
        self._name = _cookie_name(environ, self.settings, "")
        self._token = _cookie(environ, self._name)
        self.session = self.store.session(self._token) if self._token else None
        self._account = self.store.account_of(self.session.account_id) if self.session else None
        self.form = Form(environ) if environ["REQUEST_METHOD"] == "POST" else None
        self._said = urllib.parse.unquote(_cookie(environ, _cookie_name(environ, self.settings, "-said")))[:300]

    @property
    def is_known(self) -> bool:
        return self._account is not None

    @property
    def account(self) -> Account:
        assert self._account        # of pages that ask for one
        return self._account

    @property
    def sent(self) -> Form:
        assert self.form            # where a form was sent
        return self.form

    @functools.cached_property
    def query(self) -> Query:
        return Query(self.environ)

    @functools.cached_property
    def zone(self) -> datetime.tzinfo:
        with contextlib.suppress(ValueError):       # the machine that the store came from knew it
            return zone_of(self.account.time_zone)
        return datetime.timezone.utc

    @property
    def form_token(self) -> str:
        """What each form carries, and no other site knows: made of the browser's token."""
        return hmac.new(self._token.encode(), b"form", hashlib.sha256).hexdigest()

    @property
    def base(self) -> str:
        """The address that people reach us at."""
        scheme = "https" if _is_secure(self.environ, self.settings) else self.environ["wsgi.url_scheme"]
        return self.settings.base_url or f"{scheme}://{self.environ.get('HTTP_HOST', '')[:300]}{self.root}"

    def check_form(self) -> None:
        """Raise Forbidden for a form that is not one of ours, or was not sent from one of our pages."""
        base = urlsplit(self.settings.base_url)     # browsers leave a scheme's own port out
        named = base.netloc.lower().removesuffix(":443" if base.scheme == "https" else ":80")
        hosts = {self.environ.get("HTTP_HOST", "").lower(), named} - {""}
        schemes = ("https",) if _is_secure(self.environ, self.settings) else ("http", "https")
        ours = {f"{scheme}://{host}" for scheme in schemes for host in hosts}
        sent_from = self.environ.get("HTTP_SEC_FETCH_SITE", "same-origin")      # which old browsers do not say
        if self.environ.get("HTTP_ORIGIN", "").lower() not in ours or sent_from != "same-origin":
            raise Forbidden("The form did not come from a page of ours. If releasetrack is reached by another address "
                            "than it listens on, --base-url has to name that.")
        given = self.form.text("form_token") if self.form else ""
        if not self._token or not hmac.compare_digest(given.encode(), self.form_token.encode()):
            raise Forbidden("The form is too old, or cookies are refused. Go back, load the page anew and try again.")

    def sign_in(self, account: Account) -> None:
        """Make a session, under a token that nobody has seen before."""
        if self.session:        # of which this browser will not know any more
            self.store.end_session(self.session.account_id, self.session.id)
        self._token = make_session_token()
        client = client_address(self.environ, self.settings.trusted_proxy)
        agent = "".join(letter for letter in self.environ.get("HTTP_USER_AGENT", "") if letter.isprintable())
        self.store.add_session(account.id, self._token, client, agent)
        _set_cookie(self.environ, self.settings, self._name, self._token, SESSION_LONGEST)

    def sign_out(self) -> None:
        if self.session:
            self.store.end_session(self.session.account_id, self.session.id)
        _set_cookie(self.environ, self.settings, self._name, "", 0)

    def attempt(self, **acts: Callable[[], Any]) -> list[str]:
        """What is wrong with what a form asks for by its button ``do``; nothing where none was sent. What is done
        leaves for another page when all is well."""
        if self.form is None:
            return []
        try:
            act = acts.get(self.form.text("do"))
            if act is None:
                raise Invalid(f"The form takes one of its buttons: {', '.join(acts)}.")
            act()
        except Invalid as error:
            bottle.response.status = 400
            return [fault[:1].upper() + fault[1:] for fault in error.errors]
        return []

    @contextlib.contextmanager
    def in_turn(self) -> Iterator[None]:
        """For what waits for others, or may take its time. Raises Invalid when too much of that is under way."""
        with room_to_wait(self.parts) as may_wait:
            if not may_wait:
                raise Invalid("The service is busy with such requests; try again in a moment.")
            yield

    def typed(self, name: str, otherwise: str = "") -> str:
        """What stands in a field: what was typed there, if anything was."""
        return self.form.text(name) if self.form and self.form.texts(name) else otherwise

    def moment(self, at: float | None) -> str:
        """An instant by the account's clock, for people."""
        if at is None:
            return "never"
        local = datetime.datetime.fromtimestamp(at, self.zone)
        return f"{local.day} {local:%b %Y, %H:%M}"

    def instant_of(self, release: Release) -> datetime.datetime:
        """When a release came out, by the account's clock."""
        out_at = datetime.datetime.fromisoformat((release.date or "")[:19] + "+00:00")
        with contextlib.suppress(OverflowError):        # at an end of the calendar, by which some providers mean none
            return out_at.astimezone(self.zone)
        return out_at

    def show(self, template: bottle.SimpleTemplate, here: str = "", **values: Any) -> str:
        """A page; ``here``: the path that the navigation shows as the present one."""
        _set_page_headers()
        if not self._token:
            self._token = make_session_token()
            _set_cookie(self.environ, self.settings, self._name, self._token, None)
        if self._said:
            _set_cookie(self.environ, self.settings, _cookie_name(self.environ, self.settings, "-said"), "", 0)
        links = [*_LINKS, *(_ADMIN_LINKS if self._account and self._account.is_admin else ())]
        return template.render({
            "root": self.root, "account": self._account, "form_token": self.form_token, "said": self._said,
            "links": links, "here": here, "typed": self.typed, "moment": self.moment, "quote": quote,
            "faults": [], "following": "", "previous": ""} | values)

    def pager(self, has_more: bool, number: int) -> dict[str, str]:
        """The paths of the pages before and behind this one, for the template ``pager``."""
        given = [(name, value) for name, value in urllib.parse.parse_qsl(self.environ.get("QUERY_STRING", ""))
                 if name != "page"]
        path = _path_of(self.environ)

        def at(page_number: int) -> str:
            return f"{path}?{urllib.parse.urlencode([*given, ('page', str(page_number))])}"
        return {"previous": at(number - 1) if number > 1 else "", "following": at(number + 1) if has_more else ""}


_LINKS = (("/", "Releases"), ("/projects", "Projects"), ("/notifications", "Notifications"), ("/tags", "Tags"),
          ("/keys", "API keys"), ("/account", "Account"))
_ADMIN_LINKS = (("/accounts", "Accounts"), ("/status", "Status"))


PAGE_HEADERS = {"Content-Security-Policy": CONTENT_POLICY, "X-Content-Type-Options": "nosniff",
                "Referrer-Policy": "same-origin", "Cache-Control": "no-store", "X-Robots-Tag": "noindex"}


def _set_page_headers() -> None:
    for name, value in PAGE_HEADERS.items():
        bottle.response.set_header(name, value)


PageHandler = Callable[..., Any]        # of a Visit and what the path names
PAGES: dict[str, tuple[PageHandler, str, tuple[str, ...]]] = {}       # path -> handler, who may see it, methods


def page_at(path: str, who: str = "account", takes: str = "GET POST") -> Callable[[PageHandler], PageHandler]:
    """Enter a page. ``who``: "anyone", "account" (who is signed in) or "admin"; ``takes``: its methods."""
    def enter(handler: PageHandler) -> PageHandler:
        PAGES[path] = handler, who, tuple(takes.split())
        return handler
    return enter


_ERROR_TEXTS = {
    404: "There is no such page. What it showed may have been removed.",
    405: "This page does not take that.",
    413: "That is more than a form may send.",
    431: "The browser sends too many or too long headers.",
    500: "Something went wrong here. The log of releasetrack says what.",
    503: "The store cannot be read or written for now: another process holds it, or the disk is full. Try again soon.",
}


def _bare_error_page(root: str, status: int, text: str = "") -> str:
    """The page of an error, for whoever it is."""
    return ERROR_PAGE.render(root=root, account=None, said="", heading=REASONS.get(status, "Error"),
                             text=text or _ERROR_TEXTS.get(status, ""))


def error_page(site: Site, environ: Mapping[str, Any], status: int, text: str = "") -> str:
    """The page of an error, with its status on the current response, and the navigation if we can tell who asks."""
    bottle.response.status = status
    with contextlib.suppress(ReleasetrackError):
        if status < 500:
            return Visit(site, dict(environ, REQUEST_METHOD="GET")).show(
                ERROR_PAGE, heading=REASONS.get(status, "Error"), text=text or _ERROR_TEXTS.get(status, ""))
    _set_page_headers()
    return _bare_error_page(_root_of(environ), status, text)


def wants_page(path: str, accept: str) -> bool:
    """Whether who asks for a path that has no answer is a browser, which names HTML, and not a client of the API."""
    return "text/html" in accept and not re.match(r"/(?:v1|healthz|metrics)(?:/|$)", path)


def refusal_of_server(status: int, text: str, path: str, accept: str) -> tuple[list[tuple[str, str]], bytes]:
    """``(headers, body)`` of what is refused before it is known what it is for."""
    if wants_page(path, accept):
        headers = {"Content-Type": "text/html; charset=utf-8", **PAGE_HEADERS}
        return list(headers.items()), _bare_error_page("", status, text if status == 400 else "").encode()
    return [("Content-Type", "application/json")], status_message(status, text)


def _in_words(error: ReleasetrackError) -> str:
    """What its page says of an error, where its status does not say it all."""
    if isinstance(error, TooMany):
        wait = f"{error.retry_after / MINUTE:.0f} minutes" if error.retry_after > MINUTE else "a moment"
        return f"Too many tries. Try again in {wait}."
    return str(error) if isinstance(error, (Invalid, Forbidden)) else ""


def answer_page(site: Site, path: str, **names: str) -> Any:
    """The answer to the current request of a page. Only here does an error become a page."""
    handler, who, _ = PAGES[path]
    environ = bottle.request.environ
    try:
        visit = Visit(site, environ)
        if who != "anyone" and not visit.is_known:
            if not site.parts.store.has_accounts():
                raise SeeOther("/setup")
            wanted = f"{_path_of(environ)}?{environ.get('QUERY_STRING', '')}"
            raise SeeOther("/login" if visit.form else f"/login?{urllib.parse.urlencode({'next': wanted.rstrip('?')})}",
                           "Sign in first; nothing was changed." if visit.form else "")
        if visit.form:
            visit.check_form()
        if who == "admin" and not visit.account.is_admin:
            raise Forbidden("This page is for administrators.")
        return handler(visit, **names)
    except SeeOther as leaving:
        if leaving.said:
            _set_cookie(environ, site.parts.settings, _cookie_name(environ, site.parts.settings, "-said"),
                        quote(shortened(leaving.said, 300), safe=""), 60)
        bottle.response.status = 303
        bottle.response.set_header("Location", _root_of(environ) + leaving.path)
        bottle.response.set_header("Cache-Control", "no-store")
        return ""
    except ReleasetrackError as error:
        refuse(error)
        return error_page(site, environ, error.status, _in_words(error))


# First run, signing in


template_of("""\
<p>
  <label for="email">E-mail address</label>
  <input id="email" name="email" type="email" value="{{typed("email")}}" autocomplete="username" required autofocus>
</p>
""", "who")
SETUP_PAGE = template_of("""\
% rebase("layout", title="Welcome")
<h1>Welcome to releasetrack</h1>
% if is_open:
<p>Make the first account. It is an administrator's.</p>
% include("faults")
<form method="post" action="{{root}}/setup">
  % include("token")
  <input type="hidden" name="token" value="{{token}}">
  % include("who")
  <p>
    <label for="password">Password</label>
    <input id="password" name="password" type="password" autocomplete="new-password" minlength="8" required
      aria-describedby="password-hint">
    <span class="hint" id="password-hint">At least 8 characters.</span>
  </p>
  <button class="main" name="do" value="make">Make the account</button>
</form>
% else:
% include("faults")
<p>It is running, and has no account yet. The first one is made with the link that <code>serve</code> printed when it
started, which ends in <code>/setup?token=...</code>; started again, it prints another.</p>
<p>Or on the command line:</p>
<pre>python releasetrack.py account add you@example.org</pre>
<p class="hint">The API answers at <code>{{base}}/v1</code>.</p>
% end
""")


def _new_password(visit: Visit, name: str) -> str:
    """The hash of a password that the form sent. Raises Invalid."""
    if problem := password_problem(visit.sent.password(name)):
        raise Invalid(problem)
    return hash_password(visit.sent.password(name))


@page_at("/setup", "anyone")
def setup_page(visit: Visit) -> str:
    """The first account, for who has the link that was printed at the start."""
    if visit.store.has_accounts():
        raise SeeOther("/login")
    given = visit.form.text("token") if visit.form else visit.query.filter("token") or ""
    is_open = hmac.compare_digest(given.encode(), visit.site.setup_token.encode())

    def make() -> None:
        if not is_open:
            raise Forbidden("The first account is made with the link that serve printed; this is not it.")
        address = read_email(visit.typed("email"))
        account = visit.store.add_account("user", address, address, _new_password(visit, "password"), is_admin=True,
                                          zone=own_zone(), as_first=True)
        visit.sign_in(account)
        raise SeeOther("/projects/add", "The account is made, and you are signed in. Now add your first project.")

    faults = visit.attempt(make=make)
    if given and not is_open:
        faults = ["This link is not valid any more; take the one that serve printed last."]
    return visit.show(SETUP_PAGE, is_open=is_open, token=given, base=visit.base, faults=faults)


LOGIN_PAGE = template_of("""\
% rebase("layout", title="Sign in")
<h1>Sign in to releasetrack</h1>
% include("faults")
<form method="post" action="{{root}}/login">
  % include("token")
  <input type="hidden" name="next" value="{{next}}">
  % include("who")
  <p>
    <label for="password">Password</label>
    <input id="password" name="password" type="password" autocomplete="current-password" required>
  </p>
  <button class="main" name="do" value="enter">Sign in</button>
</form>
<p class="hint">Forgotten? On the server, <code>python releasetrack.py account passwd you@example.org</code> sets
  another password.</p>
""")


def _own_path(text: str) -> str:
    """A path of ours that a link names; the first page for all that could lead elsewhere."""
    return text if re.fullmatch(r"/(?![/\\\\])[!-~]{0,1500}", text) else "/"


@page_at("/login", "anyone")
def login_page(visit: Visit) -> str:
    """Make a session of an e-mail address and a password. 429: too many tries."""
    path = _own_path(visit.form.text("next") if visit.form else visit.query.filter("next") or "")

    def enter() -> None:
        try:
            account = log_in(visit.parts, visit.environ, visit.typed("email"), visit.sent.password("password"))
        except Unauthorized:
            raise Invalid("The e-mail address or the password is wrong.") from None
        visit.sign_in(account)
        raise SeeOther(path)

    if not visit.form and not visit.store.has_accounts():
        raise SeeOther("/setup")
    if not visit.form and visit.is_known:
        raise SeeOther(path)
    return visit.show(LOGIN_PAGE, next=path, faults=visit.attempt(enter=enter))


@page_at("/logout", "anyone", "POST")
def logout_page(visit: Visit) -> str:
    """End the session."""
    visit.sign_out()
    raise SeeOther("/login", "You are signed out.")


# Releases


RELEASES_PAGE = template_of("""\
% rebase("layout", title="Releases")
<h1>Releases</h1>
% if has_projects:
<form class="filters" method="get" action="{{root}}/" data-live="found" role="search">
  % include("filters", label="Project")
  <label class="check"><input type="checkbox" name="security" value="yes" {{"checked" if is_security else ""}}>
    Security only</label>
  <button>Show</button>
</form>
% end
<div id="found">
  % if not has_projects:
  % include("nothing_tracked")
  % elif not days:
  <p class="card empty soft">{{nothing}}</p>
  % end
  % for day, shown in days:
  <h2>{{day}}</h2>
  <ul class="list">
    % for one in shown:
    <li {{"class=unseen" if one["is_new"] else ""}}>
      <p class="line">
        <a class="name" href="{{root}}/projects/{{one["project"].id}}">{{one["project"].name}}</a>
        <b>{{one["release"].version}}</b>
        % include("marks", release=one["release"], is_excluded=one["is_excluded"])
        % if one["is_new"]:
        <span class="mark good">new</span>
        % end
        <small class="end">{{one["project"].provider}}, {{one["time"]}}</small>
      </p>
      % if one["start"]:
      % include("note", project_id=one["project"].id, version=one["release"].version, start=one["start"], is_open=False)
      % end
    </li>
    % end
  </ul>
  % end
  % include("pager")
</div>
""")


@dataclasses.dataclass(frozen=True)
class NoteStart:
    """How a note is shown while it is folded, and how high its frame is."""

    summary: str                # of one line
    height: int                 # pixels

    @classmethod
    def of(cls, note: Note) -> NoteStart:
        """Of a note with the beginning of its message: ``NOTE_START`` characters."""
        lines = [line for line in plain_text(note.message).split("\n") if line]
        rows = 99 if len(note.message) >= NOTE_START else sum(1.3 + len(line) // 90 for line in lines)
        text = " \u00b7 ".join(words for line in lines if (words := line.lstrip("#*->=_` \t").rstrip()))
        return cls(shortened(text or note.title or "Notes", 220), int(min(480, 50 + 24 * rows)))


def _day_name(day: datetime.date, today: datetime.date) -> str:
    if day == today:
        return "Today"
    if day == today - datetime.timedelta(days=1):
        return "Yesterday"
    return f"{day:%A}, {day.day} {day:%B %Y}"


def _day_of(visit: Visit, release: Release) -> str:
    day = visit.instant_of(release)
    return f"{day.day} {day:%b %Y}"


def _sightings(visit: Visit, found: Sequence[Sighting]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The releases by day, each with what the page says of it."""
    since, patterns = visit.store.note_visit(visit.account.id), visit.parts.patterns
    today = datetime.datetime.fromtimestamp(visit.store.clock(), visit.zone).date()
    days: list[tuple[str, list[dict[str, Any]]]] = []
    for one in found:
        out_at = visit.instant_of(one.release)
        name = _day_name(out_at.date(), today)
        if not days or days[-1][0] != name:
            days.append((name, []))
        days[-1][1].append({
            "project": one.project, "release": one.release, "time": f"{out_at:%H:%M}",
            "is_excluded": excluded(one.project, [one.release], patterns)[0],
            "is_new": one.found_at is not None and one.found_at > since,
            "start": NoteStart.of(one.note) if one.note else None})
    return days


@page_at("/", takes="GET")
def releases_page(visit: Visit) -> str:
    """The latest releases of all projects, newest first."""
    query, store, account_id = visit.query, visit.store, visit.account.id
    text, tag, provider = query.filter("q"), query.filter("tag"), query.filter("provider")
    is_security, number = query.flag("security"), query.page()
    query.check()
    found, has_more = store.latest_releases(account_id, number, provider, tag, text, is_security)
    providers = store.providers_of(account_id)
    return visit.show(RELEASES_PAGE, "/", text=text or "", tag=tag, provider=provider, is_security=is_security,
                      tags=store.tags(account_id), providers=providers, has_projects=bool(providers),
                      nothing="There are no more." if number > 1 else "No release fits." if
                      text or tag or provider or is_security else "No release is known yet.",
                      days=_sightings(visit, found), **visit.pager(has_more, number))


NOTE_PAGE = template_of("""\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>{{title}}</title>
<base target="_blank">
<link rel="stylesheet" href="{{root}}/note.css">
""")
_ELEMENTS_THAT_REACH_OUT = re.compile(r"<(?=/?(?:link|meta|base|i?frame)\b)", re.IGNORECASE)


@page_at("/projects/<project_id>/note", takes="GET")
def note_page(visit: Visit, project_id: str) -> str:
    """The document of a note's frame. What could look up or dial a host, which no policy governs, is shown as text."""
    project = visit.store.project(visit.account.id, project_id)
    note = visit.store.note(project.source_id, visit.query.filter("version") or "") if project else None
    if note is None:
        raise NotFound
    _set_page_headers()
    bottle.response.set_header("Content-Security-Policy", NOTE_POLICY)
    bottle.response.set_header("X-DNS-Prefetch-Control", "off")
    return NOTE_PAGE.render(title=note.title, root=visit.root) + _ELEMENTS_THAT_REACH_OUT.sub("&lt;", note.message)


# Projects


_KIND_NAMES = {id_: id_.capitalize() for id_ in KINDS} | {
    "hangouts_chat": "Google Chat", "microsoft_teams": "Microsoft Teams", "rocketchat": "Rocket.Chat", "ntfy": "ntfy",
    "email": "E-mail"}
_SCHEDULE_NAMES = {"none": "never", "instant": "at once", "hourly": "hourly digest", "daily": "daily digest",
                   "weekly": "weekly digest"}
_ROWS = 25          # projects on a page
_SORTS = {"updated": "Newest release", "updated-reverse": "Oldest release", "added": "Last added",
          "added-reverse": "First added", "name": "Name", "name-reverse": "Name, from Z"}

PROJECTS_PAGE = template_of("""\
% rebase("layout", title="Projects")
<div class="line">
  <h1>Projects</h1>
  <a class="button main end" href="{{root}}/projects/add">Add projects</a>
</div>
% if put_away:
<form class="card line" method="post" action="{{root}}/projects">
  % include("token")
  <span>Removed: {{", ".join(put_away[:5])}}{{" and others" if len(put_away) > 5 else ""}}.
    For a minute that can be taken back.</span>
  <button class="end" name="do" value="take_back">Take back</button>
</form>
% end
% include("faults")
% if has_projects:
<form class="filters" method="get" action="{{root}}/projects" data-live="found" role="search">
  % include("filters", label="Name")
  <label>Sorted by
    <select name="sort">
      % include("options", choices=sorts, chosen=sort)
    </select>
  </label>
  <label class="check"><input type="checkbox" name="failing" value="yes" {{"checked" if is_failing else ""}}>
    Failing only</label>
  <button>Show</button>
</form>
% end
<div id="found">
  % if not has_projects and not put_away:
  % include("nothing_tracked")
  % elif not rows:
  <p class="card empty soft">{{"No project fits." if has_projects else "None is left."}}</p>
  % else:
  <form method="post" action="{{root}}/projects{{"?" + back if back else ""}}">
    % include("token")
    <input type="hidden" name="back" value="{{back}}">
    <table>
      <thead>
        <tr><th aria-label="Choose"></th><th>Project</th><th>Latest</th><th>Tags</th><th>Source</th></tr>
      </thead>
      <tbody>
        % for one in rows:
        <tr>
          <td><input type="checkbox" name="project" value="{{one["project"].id}}"
            aria-label="{{one["project"].name}}"></td>
          <td><a class="name" href="{{root}}/projects/{{one["project"].id}}">{{one["project"].name}}</a>
            <small>{{one["project"].provider}}</small></td>
          % if one["release"]:
          <td><b>{{one["release"].version}}</b> <small>{{one["date"]}}{{one["excluded"]}}</small></td>
          % else:
          <td class="soft">{{one["state"]}}</td>
          % end
          <td>
            % for name in one["tags"]:
            <span class="mark plain">{{name}}</span>
            % end
          </td>
          % if one["error"]:
          <td><span class="mark bad" title="{{one["error"]}}">failing</span></td>
          % elif one["project"].health.succeeded_at:
          <td><span class="mark good">ok</span></td>
          % else:
          <td><span class="mark">first check</span></td>
          % end
        </tr>
        % end
      </tbody>
    </table>
    <div class="row card">
      <label class="check" hidden><input type="checkbox" data-all="project"> All on this page</label>
      <label>With those ticked
        <select name="change">
          <option value="">Choose...</option>
          % for heading, choices in changes:
          <optgroup label="{{heading}}">
            % include("options", choices=choices, chosen="")
          </optgroup>
          % end
        </select>
      </label>
      <button name="do" value="change">Apply</button>
      <button name="do" value="check">Check now</button>
      <button name="do" value="remove" class="danger">Remove</button>
    </div>
  </form>
  % end
  % include("pager")
</div>
""")


def _error_of(visit: Visit, project: Project) -> str:
    """Why a project could not be checked last; "" if it could."""
    known = project.provider in visit.providers
    return (project.health.error or "") if known else unknown_provider(project.provider)


def _possible_changes(visit: Visit) -> list[tuple[str, list[tuple[str, str]]]]:
    """What can be changed of several projects at once, by headings: values and names."""
    tags, destinations = visit.store.tags(visit.account.id), visit.store.destinations(visit.account.id)
    return [(heading, choices) for heading, choices in (
        ("Add a tag", [(f"tag:{one.id}", f"Tag: {one.name}") for one in tags]),
        ("Take a tag away", [(f"untag:{one.id}", f"Take away: {one.name}") for one in tags]),
        ("E-mail", [(f"email:{name}", f"Mail: {about}") for name, about in _SCHEDULE_NAMES.items()]),
        ("Pre-releases", [("prereleases:yes", "Tell pre-releases"), ("prereleases:no", "Do not tell pre-releases")]),
        ("List, so that of its kind only listed ones are told",
         [(f"list:{one.id}", f"List {_KIND_NAMES[one.kind]}: {one.name}") for one in destinations]),
        ("List no longer", [(f"unlist:{one.id}", f"No longer list {_KIND_NAMES[one.kind]}: {one.name}")
                            for one in destinations]),
    ) if choices]


def _changed(project: Project, what: str, value: str, kinds: Mapping[str, str],
             tags: Collection[str]) -> dict[str, Any]:
    """The settings of a project after a change to several; ``kinds``: of the account's destinations, by id."""
    if what == "tag" and value in tags:
        return {"tags": [*(one for one in project.tags if one != value), value]}
    if what == "untag" and value in tags:
        return {"tags": [one for one in project.tags if one != value]}
    if what == "email" and value in _SCHEDULE_NAMES:
        return {"email_notification": value}
    if what == "prereleases":
        return {"exclude_prereleases": value == "no"}
    if what in ("list", "unlist") and value in kinds:
        listed = [one for one in project.destinations.get(kinds[value], ()) if one != value]
        return {"destinations": {kinds[value]: [*listed, value] if what == "list" else listed}}
    raise Invalid("Choose what to change.")


def _change_projects(visit: Visit) -> None:
    """Do what the form below the list asks for."""
    form, store, account_id = visit.sent, visit.store, visit.account.id
    chosen = [project for id_ in form.texts("project") if (project := store.project(account_id, id_))]
    count = "1 project" if len(chosen) == 1 else f"{len(chosen)} projects"
    back = "/projects?" + urllib.parse.urlencode(urllib.parse.parse_qsl(form.text("back")))
    if not chosen:
        raise Invalid("Choose projects first, by the boxes before their names.")
    if form.text("do") == "check":
        store.check_soon(account_id, [project.id for project in chosen])
        raise SeeOther(back, f"{count} will be checked now.")
    if form.text("do") == "remove":
        store.put_away(account_id, [project.id for project in chosen])
        raise SeeOther(back)
    kinds = {one.id: one.kind for one in store.destinations(account_id)}
    tags = {tag.id for tag in store.tags(account_id)}
    what, _, value = form.text("change").partition(":")
    for project in chosen:
        store.update_project(account_id, project.id, _changed(project, what, value, kinds, tags))
    raise SeeOther(back, f"{count} changed.")


@page_at("/projects")
def projects_page(visit: Visit) -> str:
    """What the account tracks, and changes to several at once."""
    store, account_id, query = visit.store, visit.account.id, visit.query

    def take_back() -> None:
        store.take_back(account_id)
        raise SeeOther("/projects", "Taken back.")

    act = functools.partial(_change_projects, visit)
    faults = visit.attempt(change=act, check=act, remove=act, take_back=take_back)
    text, tag, provider = query.filter("q"), query.filter("tag"), query.filter("provider")
    sort, number, is_failing = query.one_of("sort", *_SORTS), query.page(), query.flag("failing")
    query.check()
    order, _, reverse = sort.partition("-")
    projects, total = store.projects(account_id, order, bool(reverse), provider, tag, number, text=text,
                                     is_failing=is_failing, size=_ROWS)
    if number > total:      # those of the last page were removed
        raise SeeOther("/projects")
    newest = store.newest_of({project.source_id for project in projects})
    tags = store.tags(account_id)
    names = {one.id: one.name for one in tags}
    rows = [{"project": project, "release": (release := newest.get(project.source_id)),
             "date": _day_of(visit, release) if release else "",
             "excluded": ", excluded" if release and excluded(project, [release], visit.parts.patterns)[0] else "",
             "error": shortened(_error_of(visit, project), 200),
             "tags": sorted(names[id_] for id_ in project.tags if id_ in names),
             "state": "no release yet" if project.health.succeeded_at else
                      "could not be checked" if project.health.error else "is being checked"}
            for project in projects]
    providers = store.providers_of(account_id)
    return visit.show(PROJECTS_PAGE, "/projects", rows=rows, text=text or "", tag=tag, provider=provider, sort=sort,
                      sorts=list(_SORTS.items()), is_failing=is_failing, tags=tags, providers=providers,
                      has_projects=bool(providers), put_away=store.projects_put_away(account_id), faults=faults,
                      back=visit.environ.get("QUERY_STRING", "")[:1000], changes=_possible_changes(visit),
                      **visit.pager(number < total, number))


ADD_PAGE = template_of("""\
% rebase("layout", title="Add projects")
<h1>Add projects</h1>
% if added:
<h2>Added</h2>
<ul class="list">
  % for project in added:
  <li><a class="name" href="{{root}}/projects/{{project.id}}">{{project.name}}</a>
    <small>{{project.provider}}{{", not checked yet; that is tried again" if project.health.error else ""}}</small>
  </li>
  % end
</ul>
% end
<form method="post" action="{{root}}/projects/add">
  % include("token")
  <div class="card">
    <p>
      <label for="projects">Projects, one a line</label>
      <textarea id="projects" name="projects" rows="5" required autofocus spellcheck="false"
        aria-describedby="how faults" placeholder="https://github.com/bottlepy/bottle"
        {{"aria-invalid=true" if faults else ""}}>{{lines}}</textarea>
    </p>
    <div id="faults">
      % include("faults")
    </div>
    <p class="hint" id="how">Paste the address of a project's page, of an image, a repository or a purl; or choose a
      provider and type names.</p>
    <p>
      <label for="provider">Provider</label>
      <select id="provider" name="provider">
        % include("options", choices=providers, chosen=typed("provider"))
      </select>
    </p>
    <fieldset>
      <legend>Tags</legend>
      % include("tag_boxes", field="tag", chosen=chosen)
    </fieldset>
    <button class="main" name="do" value="add">Add</button>
  </div>
</form>
""")


def _read_line(visit: Visit, chosen: str, line: str) -> tuple[Provider, str, str]:
    """``(provider, name, key)`` of a line of the form: an address, "provider name", or a name at the one chosen."""
    line = re.sub(r"^[-*\u2022]\s+", "", line)      # a list that was pasted
    first, *rest = re.sub(r"^([\w.-]+):(?!/)", r"\1 ", line).split(None, 1)
    if rest and first.lower() in visit.providers:
        return project_at(visit.providers, first.lower(), rest[0])
    is_none = (is_address(line) or not chosen) and project_in(visit.providers, line) is None
    if is_none and chosen != "git" and "@" not in line:     # nor may a password be repeated
        raise Invalid(f"{line[:NAME_LIMIT]!r} is no address that is known here; choose a provider below, or write its "
                      "id before the name, such as: github bottlepy/bottle.")
    return project_at(visit.providers, None if is_address(line) and chosen != "git" else chosen or None, line)


def _add_lines(visit: Visit, settings: Mapping[str, Any]) -> tuple[list[Project], dict[str, list[str]]]:
    """The projects that were added, and by line what is wrong with the others. Waits a little for first checks."""
    form, store, account_id = visit.sent, visit.store, visit.account.id
    lines, begun, faults = form.lines("projects"), [], dict[str, list[str]]()
    if not 0 < len(lines) <= 200:
        raise Invalid("Project names are required: one to 200 lines.")
    asked_at, end = store.clock(), time.monotonic() + ADD_WAIT
    for line in dict.fromkeys(lines):
        try:
            provider, name, key = _read_line(visit, form.text("provider"), line)
            begun.append((line, *store.add_project(account_id, provider.id, key, name, settings)))
        except Invalid as error:
            faults[line] = error.errors
    added, call = [], Call(visit.parts, account_id, (), visit.environ)
    for line, project, source in begun:
        try:
            added.append(await_first_check(call, project, source, asked_at, max(0.0, end - time.monotonic())))
        except Invalid as error:
            faults[line] = error.errors
    return added, faults


@page_at("/projects/add")
def add_page(visit: Visit) -> str:
    """Track projects, by addresses or names. What cannot be is told, and stays in the form."""
    added: list[Project] = []
    wrong: dict[str, list[str]] = {}
    tags = visit.store.tags(visit.account.id)
    chosen = [tag.id for tag in tags if visit.form and tag.id in visit.form.texts("tag")]

    def add() -> None:
        found, faulty = _add_lines(visit, {"tags": chosen})
        added.extend(found)
        wrong.update(faulty)
        if faulty:
            raise Invalid(*(fault for each in faulty.values() for fault in each))
        if len(found) == 1:
            raise SeeOther(f"/projects/{found[0].id}", f"{found[0].name} is tracked now.")
        raise SeeOther("/projects?sort=added", f"{len(found)} projects are tracked now.")

    faults = visit.attempt(add=add)
    lines = "\n".join(wrong) if wrong else visit.typed("projects")
    providers = [("", "As the address says"), *((one.id, f"{one.id}: {one.example or one.dialect.form}")
                                                for one in visit.providers.values())]
    return visit.show(ADD_PAGE, "/projects", providers=providers, lines=lines, faults=faults,
                      added=added, tags=tags, chosen=chosen)


# One project


PROJECT_PAGE = template_of("""\
% rebase("layout", title=project.name)
<p class="soft"><a href="{{root}}/projects">Projects</a> / {{project.provider}}</p>
<div class="line">
  <h1>{{project.name}}</h1>
  % if url:
  <a href="{{url}}" rel="noreferrer">At {{project.provider}}</a>
  % end
</div>
% if project.note:
<p>{{project.note}}</p>
% end
<div class="row">
  <form method="post" action="{{root}}/projects/{{project.id}}">
    % include("token")
    <button name="do" value="check">Check now</button>
    <a class="button" href="{{root}}/projects/{{project.id}}/options">Options</a>
    <a class="button" href="{{root}}/journal?project={{project.id}}">Journal</a>
    <button name="do" value="remove" class="danger">Remove</button>
  </form>
</div>
% health = project.health
% if error:
<div role="alert">
  <p><b>It could not be checked.</b> {{error}}</p>
  <p>{{"It has been missing since " + moment(health.missing_since) + ". " if health.missing_since else ""}}It is tried
    again at {{moment(health.next_check_at)}}.</p>
</div>
% elif not health.succeeded_at:
<p role="status">The first check is under way. This page shows what it finds.</p>
% end
<p class="hint">Last checked: {{moment(health.checked_at)}}. Next: {{moment(health.next_check_at)}}.
  {{"Requests left at the provider: %d." % health.quota_left if health.quota_left is not None else ""}}
  {{"Tags: " + ", ".join(tags) + "." if tags else ""}}</p>
% include("faults")
<h2>Releases</h2>
% if not rows:
<p class="card empty soft">{{"The provider lists none." if health.succeeded_at else "No release is known yet."}}</p>
% end
<ul class="list">
  % for one in rows:
  <li>
    <p class="line">
      <b>{{one["release"].version}}</b>
      % include("marks", release=one["release"], is_excluded=one["is_excluded"])
      <small class="end">{{one["date"]}}</small>
      % if one["url"]:
      <a class="hint" href="{{one["url"]}}" rel="noreferrer">at {{project.provider}}</a>
      % end
    </p>
    % if one["start"]:
    % include("note", project_id=project.id, version=one["release"].version, start=one["start"], is_open=one["is_open"])
    % end
  </li>
  % end
</ul>
% include("pager")
""")


def _project_at(visit: Visit, project_id: str) -> Project:
    project = visit.store.project(visit.account.id, project_id)
    if project is None:
        raise NotFound
    return project


@page_at("/projects/<project_id>")
def project_page(visit: Visit, project_id: str) -> str:
    """A project, how its source is, and its releases."""
    project, store = _project_at(visit, project_id), visit.store

    def check_now() -> None:
        asked_at = store.clock()
        store.check_soon(visit.account.id, [project.id])
        with room_to_wait(visit.parts) as may_wait:
            after = store.await_check(project.source_id, asked_at, ADD_WAIT / 3) if may_wait else None
        is_done = after is not None and (after.checked_at or 0.0) >= asked_at
        said = "It is being checked." if not is_done else "" if after and after.error else "It was checked."
        raise SeeOther(f"/projects/{project.id}", said)

    def remove() -> None:
        store.put_away(visit.account.id, [project.id])
        raise SeeOther("/projects")

    faults, number = visit.attempt(check=check_now, remove=remove), visit.query.page()
    visit.query.check()
    releases, total = store.releases(project.source_id, number)
    marks = excluded(project, releases, visit.parts.patterns)
    provider = visit.providers.get(project.provider)
    notes = store.note_starts(project.source_id, [release.version for release in releases])
    rows = [{"release": release, "is_excluded": is_excluded, "is_open": number == 1 and at == 0,
             "start": NoteStart.of(notes[release.version]) if release.version in notes else None,
             "date": f"{_day_of(visit, release)}, {visit.instant_of(release):%H:%M}",
             "url": page_of(provider, project.name, release.version) if provider else ""}
            for at, (release, is_excluded) in enumerate(zip(releases, marks))]
    if not project.health.checked_at and provider and store.is_tracked:
        bottle.response.set_header("Refresh", "2")
    return visit.show(
        PROJECT_PAGE, "/projects", project=project, rows=rows, faults=faults, **visit.pager(number < total, number),
        error=_error_of(visit, project),
        url=page_of(provider, project.name) if provider else "",
        tags=[tag.name for tag in store.tags(visit.account.id) if tag.id in project.tags])


OPTIONS_PAGE = template_of("""\
% rebase("layout", title="Options of " + project.name)
<p class="soft"><a href="{{root}}/projects">Projects</a> /
  <a href="{{root}}/projects/{{project.id}}">{{project.name}}</a></p>
<h1>Options</h1>
% include("faults")
<form method="post" action="{{root}}/projects/{{project.id}}/options" data-live="preview" data-do="preview">
  % include("token")
  <fieldset>
    <legend>What is not told</legend>
    <p>
      <label class="check"><input type="checkbox" name="exclude_prereleases" value="yes"
        {{"checked" if given.exclude_prereleases else ""}}> Pre-releases</label>
      <label class="check"><input type="checkbox" name="exclude_updated" value="yes"
        {{"checked" if given.exclude_updated else ""}}> Versions that were published again</label>
    </p>
    <p>
      <label for="matching">Versions in which one of these patterns is found, one a line</label>
      <textarea id="matching" name="matching" rows="3" spellcheck="false" placeholder="-alpine$">{{matching}}</textarea>
    </p>
    <p>
      <label for="others">Versions in which one of these is not found, one a line</label>
      <textarea id="others" name="others" rows="2" spellcheck="false" placeholder="^v3\\.">{{others}}</textarea>
      <span class="hint">Regular expressions of Python's: -alpine$ is what ends so, ^v3\\. what begins so.</span>
    </p>
    <p>
      <label for="hold_days">Days that a release must have been out before it is told</label>
      <input id="hold_days" name="hold_days" inputmode="numeric" value="{{hold_days}}">
      <span class="hint">Those that name a CVE are told at once.</span>
    </p>
  </fieldset>
  <fieldset>
    <legend>Who is told</legend>
    <p>
      <label for="email_notification">E-mail</label>
      <select id="email_notification" name="email_notification">
        % include("options", choices=schedules, chosen=given.email_notification)
        <option value="default">as the account has it</option>
      </select>
      % if not has_mail:
      <span class="hint">There is no mail server yet; <code>--smtp-url</code> names one.</span>
      % end
    </p>
    % for kind, name, those in destinations:
    <div role="group" aria-labelledby="kind-{{kind}}">
      <input type="hidden" name="kind" value="{{kind}}">
      <b id="kind-{{kind}}">{{name}}</b><br>
      % for one in those:
      <label class="check"><input type="checkbox" name="{{field_of[kind]}}" value="{{one.id}}"
        {{"checked" if one.id in given.destinations.get(kind, ()) else ""}}> {{one.name}}</label>
      % end
    </div>
    % end
    <p class="hint">Tick none of a kind: all of it are told that are for every project. Tick some: only those.</p>
  </fieldset>
  <fieldset>
    <legend>Tags</legend>
    % include("tag_boxes", field="tags", chosen=given.tags)
  </fieldset>
  <p>
    <label for="note">A note of your own, which goes into each notification</label>
    <textarea id="note" name="note" rows="2">{{given.note}}</textarea>
  </p>
  <div class="row">
    <button class="main" name="do" value="save">Save</button>
    <button name="do" value="preview">Preview</button>
  </div>
  <section id="preview" aria-live="polite">
    <h2>With these options, of the last {{len(rows)}} versions</h2>
    % if faults:
    <p class="danger">{{" ".join(faults)}}</p>
    % end
    <table>
      <thead><tr><th>Version</th><th>Out</th><th>Told</th></tr></thead>
      <tbody>
        % for one in rows:
        <tr>
          <td><b>{{one["release"].version}}</b>
            % include("marks", release=one["release"], is_excluded=False)
          </td>
          <td>{{one["date"]}}</td>
          <td class="{{"" if one["is_told"] else "soft"}}">{{one["outcome"]}}</td>
        </tr>
        % end
      </tbody>
    </table>
  </section>
</form>
<h2>Badge</h2>
% include("copied", id="badge", name="A picture of the latest version, for a wiki or a dashboard", value=badge)
""")


def _given_project(visit: Visit, project: Project) -> tuple[dict[str, Any], Project]:
    """``(what the form sets, the project with it)``. Raises Invalid."""
    form = visit.sent
    hold = form.text("hold_days") or "0"
    rules: list[dict[str, Any]] = [{"value": value} for value in form.lines("matching")]
    rules += [{"value": value, "inverse": True} for value in form.lines("others")]
    about: dict[str, Any] = {
        "email_notification": form.text("email_notification"), "exclude_version_regexp": rules,
        "exclude_prereleases": bool(form.texts("exclude_prereleases")),
        "exclude_updated": bool(form.texts("exclude_updated")), "note": form.text("note"),
        "hold_days": int(hold) if re.fullmatch("[0-9]{1,9}", hold) else hold, "tags": form.texts("tags"),
        **{name: form.texts(name) for kind, name in KIND_FIELDS.items() if kind in form.texts("kind")}}
    fields = Fields(about)
    settings = project_settings(fields, Call(visit.parts, visit.account.id, (), visit.environ))
    if fields.faults:
        raise Invalid(*(re.sub(r"^Field (\w+)(?:\[(\d+)\])?", lambda match: _OPTION_NAMES.get(match[1], match[1]) + (
            f" {int(match[2]) + 1}" if match[2] else ""), fault) for fault in fields.faults))
    return settings, dataclasses.replace(project, **settings | {
        "exclude_version_regexp": tuple(settings["exclude_version_regexp"]), "tags": tuple(settings["tags"]),
        "destinations": {**project.destinations, **settings["destinations"]}})


_OPTION_NAMES = {"exclude_version_regexp": "Pattern", "hold_days": "Days", "email_notification": "E-mail",
                 "note": "Note", "tags": "Tags"}


def _typed_project(visit: Visit, project: Project) -> Project:
    """The project with what the form ticks and types, as far as that can stand; the rest is shown as it was typed."""
    form = visit.sent
    schedule = form.text("email_notification")
    return dataclasses.replace(
        project, exclude_prereleases=bool(form.texts("exclude_prereleases")), note=form.text("note"),
        exclude_updated=bool(form.texts("exclude_updated")), tags=tuple(form.texts("tags")),
        destinations={kind: tuple(form.texts(name)) for kind, name in KIND_FIELDS.items()
                      if kind in form.texts("kind")},
        email_notification=schedule if schedule in SCHEDULES or schedule == "none" else project.email_notification)


def _preview(visit: Visit, project: Project) -> list[dict[str, Any]]:
    """Of the last known versions, which would be told, and to whom."""
    releases, _ = visit.store.releases(project.source_id, 1, 50)
    account, destinations = visit.account, visit.store.destinations(visit.account.id)
    names = {one.id: f"{one.kind} {one.name}" for one in destinations}
    subscriber = Subscriber(project, account, (), tuple(destinations))
    has_mail = bool(visit.settings.smtp_url)
    nobody = "no, nobody hears of it" + ("" if has_mail or {one.kind for one in destinations} != {"email"} else
                                         "; there is no mail server")
    rows = []
    for release, is_excluded in zip(releases, excluded(project, releases, visit.parts.patterns)):
        told = recipients_of(subscriber, release, visit.store.clock(), has_mail)
        reason = ("a pre-release" if release.is_prerelease and project.exclude_prereleases else
                  "published again" if release.is_updated and project.exclude_updated else "by a pattern")
        more = f" and {len(told) - 8} more" if told[8:] else ""
        said = f"no, it is excluded: {reason}" if is_excluded else ", ".join(
            names[one.destination_id] for one in told[:8]) + more or nobody
        if not is_excluded and any(one.is_held for one in told):
            said += f"; once it has been out for {project.hold_days} days"
        rows.append({"release": release, "date": _day_of(visit, release), "outcome": said,
                     "is_told": bool(told) and not is_excluded})
    return rows


@page_at("/projects/<project_id>/options")
def options_page(visit: Visit, project_id: str) -> str:
    """What of a project is told, and to whom; with a preview of what is typed, before it is saved."""
    project = given = _project_at(visit, project_id)
    rows: list[dict[str, Any]] = []

    def preview() -> None:
        nonlocal given, rows
        _, given = _given_project(visit, project)
        with visit.in_turn():
            rows = _preview(visit, given)

    def save() -> None:
        settings, _ = _given_project(visit, project)
        visit.store.update_project(visit.account.id, project.id, settings)
        raise SeeOther(f"/projects/{project.id}/options", "Saved.")

    faults = visit.attempt(save=save, preview=preview)
    if faults:
        given = _typed_project(visit, project)
    rules = given.exclude_version_regexp
    by_kind = [(kind, name, those) for kind, name in _KIND_NAMES.items()
               if (those := visit.store.destinations(visit.account.id, kind))]
    return visit.show(
        OPTIONS_PAGE, "/projects", project=project, given=given, faults=faults,
        rows=rows or _preview(visit, dataclasses.replace(
            given, exclude_version_regexp=project.exclude_version_regexp)),
        matching=visit.typed("matching", "\n".join(value for value, inverse in rules if not inverse)),
        others=visit.typed("others", "\n".join(value for value, inverse in rules if inverse)),
        hold_days=visit.typed("hold_days", str(given.hold_days)), schedules=list(_SCHEDULE_NAMES.items()),
        badge=f"{visit.base}/badge/{visit.account.badge_secret}/{project.id}.svg",
        destinations=by_kind, field_of=KIND_FIELDS, has_mail=bool(visit.settings.smtp_url),
        tags=visit.store.tags(visit.account.id))


# Notifications


NOTIFICATIONS_PAGE = template_of("""\
% rebase("layout", title="Notifications")
<div class="line">
  <h1>Notifications</h1>
  <a class="button end" href="{{root}}/journal">Journal</a>
</div>
% if not any(one["is_told"] for one in rows):
<div class="card empty">
  <h2>Nobody is told yet</h2>
  <p class="soft">Choose below where new releases are told: a chat, a telephone, a mail address, a webhook.</p>
</div>
% end
<ul class="list">
  % for one in rows:
  <li>
    <p class="line">
      <a class="name" href="{{root}}/notifications/{{one["destination"].id}}">{{one["destination"].name}}</a>
      <span class="mark plain">{{name_of[one["destination"].kind]}}</span>
      % if not one["is_told"]:
      <span class="mark warn">no mail server</span>
      % elif one["failed"]:
      <span class="mark bad">last failed</span>
      % end
      <small class="end">{{one["when"]}}</small>
    </p>
    <p class="hint">{{one["scope"]}}</p>
    % if one["failed"]:
    <p class="hint danger">{{one["failed"]}}</p>
    % end
  </li>
  % end
</ul>
% if not has_mail:
<p class="hint">Mail is not sent yet: start <code>serve</code> with <code>--smtp-url</code>, as the README says.</p>
% end
<h2>Add one</h2>
<ul class="list grid">
  % for id, kind in kinds:
  <li><a class="name" href="{{root}}/notifications/add/{{id}}">{{name_of[id]}}</a><br>
    <span class="hint">{{kind.about[0].upper() + kind.about[1:]}}</span></li>
  % end
</ul>
""")


def scope_of(destination: Destination, tags: Mapping[str, str]) -> str:
    """Of what a destination hears, in words; ``tags``: names by ids."""
    said = ["every project" if destination.is_for_every_project else "listed projects"]
    for word, ids in (("tag", destination.tags), ("without tag", destination.without_tags)):
        said += [f"{word} {' or '.join(tags[id_] for id_ in ids)}"] if ids else []
    return ", ".join([*said, *["security fixes"] * destination.is_security_only])


@page_at("/notifications", takes="GET")
def notifications_page(visit: Visit) -> str:
    """Where the account is told, and what could be added."""
    store, account_id = visit.store, visit.account.id
    tags = {tag.id: tag.name for tag in store.tags(account_id)}
    rows, errors = [], store.last_errors(account_id)
    for one in store.destinations(account_id):
        rows.append({"destination": one, "scope": f"Hears of {scope_of(one, tags)}.",
                     "is_told": one.kind != "email" or bool(visit.settings.smtp_url),
                     "when": "as each project says" if one.kind == "email" else _SCHEDULE_NAMES[one.schedule],
                     "failed": errors.get(one.id, "")})
    return visit.show(NOTIFICATIONS_PAGE, "/notifications", rows=rows, kinds=list(KINDS.items()), name_of=_KIND_NAMES,
                      has_mail=bool(visit.settings.smtp_url))


DESTINATION_PAGE = template_of("""\
% rebase("layout", title=heading)
<p class="soft"><a href="{{root}}/notifications">Notifications</a> / {{kind_name}}</p>
<h1>{{heading}}</h1>
<p class="soft">{{kind.about[0].upper() + kind.about[1:]}}.</p>
% include("faults")
<form method="post" action="{{root}}{{path}}" {{"data-live=rendering data-do=render" if kind_id == "webhook" else ""}}>
  % include("token")
  <div class="card">
    <p>
      <label for="name">Name</label>
      <input id="name" name="name" value="{{shown.name}}" required maxlength="200" aria-describedby="about-name">
      <span class="hint" id="about-name">What you call it.</span>
    </p>
    % for ask, texts in asks:
    <p>
      <label for="set-{{ask.name}}">{{"URL" if ask.name == "url" else ask.name.replace("_", " ").capitalize()}}
        % if ask.default is not None or ask.kept_as:
        <span class="hint">(may be left out)</span>
        % end
      </label>
      % for at, text in enumerate(texts):
      % if ask.kept_as:
      <textarea id="set-{{ask.name}}{{at or ""}}" name="set.{{ask.name}}" rows="{{min(8, text.count(chr(10)) + 1)}}"
        spellcheck="false" aria-label="{{ask.name.capitalize()}} {{at + 1}}" aria-describedby="about-{{ask.name}}"
        {{"aria-invalid=true" if ask.name in wrong else ""}}>{{text}}</textarea>
      % else:
      <input id="set-{{ask.name}}" name="set.{{ask.name}}" value="{{text}}" autocomplete="off" spellcheck="false"
        placeholder="{{ask.default or ""}}" aria-describedby="about-{{ask.name}}"
        {{"aria-invalid=true" if ask.name in wrong else ""}}>
      % end
      % end
      <span class="hint" id="about-{{ask.name}}">{{about_of(ask)}}
        {{"*** stands for what is saved; leave it to keep that." if "***" in "".join(texts) else ""}}</span>
    </p>
    % end
    % if kind_id == "email" and not has_mail:
    <p class="hint">There is no mail server yet; <code>--smtp-url</code> names one. Until then nothing is sent.</p>
    % end
  </div>
  <fieldset>
    <legend>When, and of what</legend>
    % if fixed:
    <p class="hint">{{fixed[0].upper() + fixed[1:]}}.</p>
    % else:
    <p>
      <label for="schedule">When</label>
      <select id="schedule" name="schedule">
        % include("options", choices=schedules, chosen=shown.schedule)
      </select>
    </p>
    % end
    <p>
      <label class="check"><input type="radio" name="scope" value="all"
        {{"checked" if shown.is_for_every_project else ""}}>
        Every project</label>
      <label class="check"><input type="radio" name="scope" value="listed"
        {{"" if shown.is_for_every_project else "checked"}}>
        Only projects in whose options it is ticked</label>
    </p>
    <div role="group" aria-labelledby="with">
      <b id="with">Only projects with one of these tags</b><br>
      % include("tag_boxes", field="tag", chosen=shown.tags)
    </div>
    % if tags:
    <div role="group" aria-labelledby="without">
      <b id="without">No project with one of these tags</b><br>
      % include("tag_boxes", field="without", chosen=shown.without_tags)
    </div>
    % end
    <p><label class="check"><input type="checkbox" name="security" value="yes"
      {{"checked" if shown.is_security_only else ""}}>
      Only releases that name a CVE</label></p>
  </fieldset>
  <div class="row">
    <button class="main" name="do" value="save">Save</button>
    <button name="do" value="test">Send a test</button>
    % if kind_id == "webhook":
    <button name="do" value="render">Show what is sent</button>
    % end
  </div>
  % include("exchange")
  % if kind_id == "webhook":
  <section id="rendering" aria-live="polite">
    <h2>The body, of a made-up release</h2>
    <pre tabindex="0">{{rendering}}</pre>
    <p class="hint">Without fields of your own the standard body is sent. A field is NAME=TEMPLATE; a template may hold
      {{", ".join("{%s}" % one for one in variables)}}. For a brace, write two.</p>
  </section>
  % end
</form>
% if destination:
% if kind_id == "webhook":
<h2>Signing secret</h2>
<form method="post" action="{{root}}{{path}}">
  % include("token")
  % if secret:
  % include("copied", id="secret", name="Secret", value=secret)
  % else:
  <button name="do" value="reveal">Reveal</button>
  % end
  % include("sure", do="renew", label="Renew", sure="Yes, renew the secret")
  % if destination.previous_until:
  <p class="hint">The former one signs too until {{moment(destination.previous_until)}}.</p>
  % else:
  <p class="hint">Once renewed, the former one signs beside it for a day.</p>
  % end
</form>
% end
<div class="row">
  <a class="button" href="{{root}}{{path}}/test">Test with data of your own</a>
  <a class="button" href="{{root}}/journal?destination={{destination.id}}">Journal</a>
</div>
<form method="post" action="{{root}}{{path}}">
  % include("token")
  % include("sure", do="remove", label="Remove", sure="Yes, remove it with its journal")
</form>
% end
""")


def address_fault(fetcher: Fetcher, account: Account, destination: Destination) -> str | None:
    """Why a destination's address may not be sent to, if so."""
    name, address = address_of(destination) or ("", "")
    reason = fetcher.refusal_of(address, account.is_admin) if address else None
    return reason and f"Setting {name}: {reason}."


_FIXED_SCHEDULES = {"webhook": "a webhook is told at once",
                    "email": "each project says in its options when mail is sent"}


def _given_settings_of(visit: Visit, kind_id: str, before: Destination | None) -> list[tuple[str, str]]:
    """The settings that the form sent, as names and texts; what is masked stays what it was."""
    kept = dict(zip(shown_settings(before), settings_as_given(before))) if before else {}
    given = [(ask.name, text if ask.name == "field" else text.strip()) for ask in KINDS[kind_id].asks
             for text in (visit.form.texts(f"set.{ask.name}") if visit.form else ())]
    secret = {ask.name for ask in KINDS[kind_id].asks if ask.is_secret}
    if moved := [text for name, text in given if name in secret and "***" in text and (name, text) not in kept]:
        raise Invalid(*(f"Setting {name}: {text[:80]!r} stands for what is not known here; type it anew."
                        for name, text in given if text in moved))
    return [kept.get(pair, pair) for pair in given if pair[1].strip()]


def _as_typed(visit: Visit, kind_id: str, before: Destination | None) -> Destination:
    """A destination as its form describes it, its settings aside, or as it is, or a new one."""
    secret = make_signing_secret() if kind_id == "webhook" else ""
    known = before or Destination(make_id(), visit.account.id, kind_id, "", {}, secret)
    form = visit.form
    if not form or not form.texts("name"):      # none was sent, or another one of the page
        return known
    return dataclasses.replace(
        known, name=form.text("name"), schedule=form.text("schedule") or "instant",
        is_for_every_project=form.text("scope") != "listed", is_security_only=bool(form.texts("security")),
        tags=tuple(dict.fromkeys(form.texts("tag"))), without_tags=tuple(dict.fromkeys(form.texts("without"))))


def _given_destination(visit: Visit, kind_id: str, before: Destination | None) -> Destination:
    """What the form describes, settings and all. Raises Invalid with every fault."""
    made, account, faults = _as_typed(visit, kind_id, before), visit.account, list[str]()
    try:
        read_label(made.name)
    except Invalid as error:
        faults.append(f"Name: {error}.")
    try:
        settings = read_settings(kind_id, _given_settings_of(visit, kind_id, before), visit.settings.brand)
        made = dataclasses.replace(made, settings=settings)
    except Invalid as error:
        faults += error.errors
    if made.schedule not in SCHEDULES:
        faults.append(f"When takes one of: {', '.join(SCHEDULES)}.")
    elif made.schedule != "instant" and kind_id in _FIXED_SCHEDULES:
        faults.append(f"When: {_FIXED_SCHEDULES[kind_id]}.")
    tags = {tag.id: tag.name for tag in visit.store.tags(account.id)}
    made = dataclasses.replace(made, tags=tuple(one for one in made.tags if one in tags),
                               without_tags=tuple(one for one in made.without_tags if one in tags))
    if both := [tags[one] for one in made.tags if one in made.without_tags]:
        faults.append(f"The tag {both[0]} is ticked both ways.")
    if not faults:
        with visit.in_turn():
            faults += filter(None, [address_fault(visit.site.fetcher, account, made)])
    if faults:
        raise Invalid(*faults)
    return made


def _tried(visit: Visit, destination: Destination, body: Mapping[str, Any], url: str) -> dict[str, Any]:
    """What the template ``exchange`` shows of a test. Raises Invalid, TooMany."""
    window = visit.site.tests.take(visit.account.id, 1, time.monotonic())
    if not window.is_open:
        raise TooMany(window.reset)
    with visit.in_turn():
        request, reply, error = visit.site.try_out(destination, visit.account, body, url)
    sent, said = shown_exchange(destination, request, reply)
    return {"sent": sent, "reply": said, "error": error and masked(error, destination)}


_NOTHING_TRIED = {"sent": "", "reply": "", "error": None}


def _with_fields(lines: Iterable[str]) -> dict[str, Any]:
    """The settings of a webhook with these fields, wherever it is. Raises Invalid."""
    return read_settings("webhook", [("url", "https://example.org"), *(("field", line) for line in lines
                                                                       if line.strip())])


def _rendering(visit: Visit, lines: Sequence[str]) -> str:
    """The body that a webhook with these fields would be sent of a made-up release, or what is wrong with them."""
    try:
        body = json.loads(notification_body(_with_fields(lines), *sample([], visit.account)))
    except Invalid as error:
        return " ".join(error.errors)
    return json.dumps(body, ensure_ascii=False, indent=2)


def _about_of(ask: Ask) -> str:
    """What a form says of a setting; how commands take several of them does not matter there."""
    about = ask.about.partition(" (repeatable")[0]
    return f"{about[0].upper()}{about[1:]}." + (" One a box; those left empty do not count." if ask.kept_as else "")


def _show_destination(visit: Visit, kind_id: str, before: Destination | None,
                      **acts: Callable[[], Any]) -> str:
    """The form of a destination: as it was typed, or as it is, or empty. ``acts``: what it can do besides a test."""
    about: dict[str, Any] = {}

    def test() -> None:
        about.update(_tried(visit, _given_destination(visit, kind_id, before), *sample([], visit.account)))

    def reveal() -> None:
        if not before or not before.secret:
            raise Invalid("Only a webhook has a secret.")
        about["secret"] = before.secret

    given = visit.form.texts("set.field") if visit.form else []
    faults = visit.attempt(test=test, render=functools.partial(_with_fields, given), reveal=reveal, **acts)
    kind, shown = KINDS[kind_id], _as_typed(visit, kind_id, before)
    texts: dict[str, list[str]] = {ask.name: [] for ask in kind.asks}
    is_typed = visit.form is not None and bool(visit.form.texts("name"))
    pairs = [(ask.name, text) for ask in kind.asks for text in visit.sent.texts(f"set.{ask.name}") if text.strip()] if (
        is_typed) else shown_settings(before) if before else []
    for name, text in pairs:
        texts[name].append(text)
    asks = [(ask, [*texts[ask.name], "", ""] if ask.kept_as else texts[ask.name] or [""]) for ask in kind.asks]
    return visit.show(DESTINATION_PAGE, "/notifications", **{
        "kind_id": kind_id, "kind": kind, "kind_name": _KIND_NAMES[kind_id], "destination": before, "shown": shown,
        "heading": before.name if before else f"Add {_KIND_NAMES[kind_id]}", "faults": faults, "asks": asks,
        "wrong": {match[1] for fault in faults if (match := re.match(r"Setting (\w+)", fault))},
        "path": f"/notifications/{before.id}" if before else f"/notifications/add/{kind_id}",
        "schedules": [(id_, _SCHEDULE_NAMES[id_]) for id_ in SCHEDULES], "fixed": _FIXED_SCHEDULES.get(kind_id),
        "has_mail": bool(visit.settings.smtp_url), "tags": visit.store.tags(visit.account.id), "secret": "",
        "rendering": _rendering(visit, texts["field"]) if kind_id == "webhook" else "",
        "variables": sorted(TEMPLATE_NAMES), "about_of": _about_of, **_NOTHING_TRIED, **about})


@page_at("/notifications/add/<kind_id>")
def add_destination_page(visit: Visit, kind_id: str) -> str:
    """A new destination of a kind; it can be tried before it is saved."""
    if kind_id not in KINDS:
        raise NotFound

    def save() -> None:
        made = vars(_given_destination(visit, kind_id, None))
        fields = ("schedule", "is_for_every_project", "tags", "without_tags", "is_security_only")
        added = visit.store.add_destination(visit.account.id, kind_id, made["name"], made["settings"], made["secret"],
                                            **{name: made[name] for name in fields})
        raise SeeOther(f"/notifications/{added.id}", "It is saved. " + (
            "It hears of what is released from now on." if kind_id != "email" or visit.settings.smtp_url else
            "Mail is sent once serve is started with --smtp-url."))

    return _show_destination(visit, kind_id, None, save=save)


def _own_destination(visit: Visit, destination_id: str) -> Destination:
    found = visit.store.destination(destination_id)
    if found is None or found.account_id != visit.account.id:
        raise NotFound
    return found


@page_at("/notifications/<destination_id>")
def destination_page(visit: Visit, destination_id: str) -> str:
    """A destination: its settings, a test of what is typed, a webhook's secret."""
    before, store = _own_destination(visit, destination_id), visit.store

    def save() -> None:
        store.update_destination(_given_destination(visit, before.kind, before))
        raise SeeOther(f"/notifications/{before.id}", "Saved.")

    def renew() -> None:
        if not before.secret:
            raise Invalid("Only a webhook has a secret.")
        store.renew_secret(before.id)
        raise SeeOther(f"/notifications/{before.id}", "The secret is renewed; the former one signs too for a day.")

    def remove() -> None:
        widened = store.remove_destination(before.id)
        names = ", ".join(shortened(name, 40) for name in widened[:4]) + f" and {len(widened) - 4} more" * (
            len(widened) > 4)
        raise SeeOther("/notifications", f"{shortened(before.name, 40)} is removed." + (
            f" These projects listed it alone, and tell every {before.kind} now: {names}." if widened else ""))

    return _show_destination(visit, before.kind, before, save=save, renew=renew, remove=remove)


TEST_PAGE = template_of("""\
% rebase("layout", title="Test " + destination.name)
<p class="soft"><a href="{{root}}/notifications">Notifications</a> /
  <a href="{{root}}/notifications/{{destination.id}}">{{destination.name}}</a></p>
<h1>Test with data of your own</h1>
% include("faults")
<form method="post" action="{{root}}/notifications/{{destination.id}}/test">
  % include("token")
  <div class="card">
    % for name, value in values.items():
    <p>
      <label for="{{name}}">{{name}}</label>
      % if name in ("is_prerelease", "is_updated"):
      <select id="{{name}}" name="{{name}}">
        <option>false</option>
        <option {{"selected" if value == "true" else ""}}>true</option>
      </select>
      % elif name == "note_message":
      <textarea id="{{name}}" name="{{name}}" rows="4">{{value}}</textarea>
      % else:
      <input id="{{name}}" name="{{name}}" value="{{value}}">
      % end
      % if name in hints:
      <span class="hint">{{hints[name]}}</span>
      % end
    </p>
    % end
    <button class="main" name="do" value="test">Send the test</button>
  </div>
  % include("exchange")
</form>
""")
_TEST_HINTS = {"cve": "With commas between.", "tags": "Names, with commas between.", "note_message": "HTML.",
               "time": "Such as 2026-01-31T08:00:00Z."}


@page_at("/notifications/<destination_id>/test")
def test_page(visit: Visit, destination_id: str) -> str:
    """A test of a destination with every member of the body as it is typed."""
    destination, about = _own_destination(visit, destination_id), dict[str, Any](_NOTHING_TRIED)
    values = {name: visit.typed(name, value) for name, value in sample_values(visit.account).items()}

    def test() -> None:
        with visit.in_turn():
            fault = address_fault(visit.site.fetcher, visit.account, destination)
        if fault:
            raise Invalid(fault)
        about.update(_tried(visit, destination, *sample(
            [f"{name}={value}" for name, value in values.items()], visit.account)))

    faults = visit.attempt(test=test)
    return visit.show(TEST_PAGE, "/notifications", destination=destination, values=values, hints=_TEST_HINTS,
                      faults=faults, **about)


# The journal


JOURNAL_PAGE = template_of("""\
% rebase("layout", title="Journal")
<p class="soft"><a href="{{root}}/notifications">Notifications</a></p>
<h1>Journal</h1>
% include("faults")
<form class="filters" method="get" action="{{root}}/journal">
  % if project:
  <input type="hidden" name="project" value="{{project.id}}">
  % end
  <label>Destination
    <select name="destination">
      % include("options", choices=destinations, chosen=destination_id)
    </select>
  </label>
  <label>State
    <select name="state">
      % include("options", choices=[("", "All"), *((one, one) for one in marks)], chosen=state)
    </select>
  </label>
  <button>Show</button>
</form>
% if project:
<p class="soft">Of {{project.name}}. <a href="{{root}}/journal">Of all projects</a></p>
% end
% if not entries:
<p class="card empty soft">{{nothing}} What is told stands here for 30 days.</p>
% end
<ul class="list">
  % for one in entries:
  <li>
    <p class="line">
      <a class="name" href="{{root}}/journal/{{one.id}}">{{one.project}} {{one.version or one.event}}</a>
      <span class="mark {{marks[one.state]}}">
        {{"retrying" if one.error and one.state == "pending" else one.state}}</span>
      <span class="soft">to {{one.kind}} {{one.destination}}</span>
      <small class="end">{{moment(one.created_at)}}</small>
    </p>
    % if one.state == "pending":
    <p class="hint">Due {{moment(one.next_attempt_at)}}</p>
    % end
    % if one.error:
    <p class="hint">{{one.error}}</p>
    % end
  </li>
  % end
</ul>
% if destination_id and any(one.state == "failed" for one in entries):
<form class="row" method="post" action="{{root}}/journal">
  % include("token")
  <input type="hidden" name="destination" value="{{destination_id}}">
  <button name="do" value="resend">Send again all that failed there</button>
</form>
% end
% include("pager")
""")
_STATE_MARKS = {"pending": "warn", "delivered": "good", "failed": "bad", "skipped": "plain"}


@page_at("/journal")
def journal_page(visit: Visit) -> str:
    """What was told, is to be told, or could not be; newest first."""
    query, store, account_id = visit.query, visit.store, visit.account.id

    def resend() -> None:
        count = store.resend(account_id, destination_id=visit.typed("destination"))
        raise SeeOther(f"/journal?destination={quote(visit.typed('destination'), safe='')}",
                       f"{count} will be sent again.")

    faults = visit.attempt(resend=resend)
    destination_id, project_id, number = query.filter("destination"), query.filter("project"), query.page()
    state = query.filter("state")
    if state and state not in _STATE_MARKS:
        query.faults.append(f"Parameter state takes one of: {', '.join(_STATE_MARKS)}.")
    query.check()
    entries = store.journal(account_id, destination_id=destination_id, project_id=project_id, state=state,
                            limit=PAGE_SIZE + 1, offset=(number - 1) * PAGE_SIZE)
    return visit.show(JOURNAL_PAGE, "/notifications", entries=entries[:PAGE_SIZE], faults=faults, state=state,
                      nothing="No notification fits." if state or destination_id or project_id else
                      "Nothing was told yet.", marks=_STATE_MARKS, destination_id=destination_id,
                      destinations=[("", "All"), *(
                          (one.id, f"{one.kind} {one.name}") for one in store.destinations(account_id))],
                      project=store.project(account_id, project_id) if project_id else None,
                      **visit.pager(len(entries) > PAGE_SIZE, number))


ENTRY_PAGE = template_of("""\
% rebase("layout", title=entry.project + " " + entry.version)
<p class="soft"><a href="{{root}}/notifications">Notifications</a> / <a href="{{root}}/journal">Journal</a></p>
<h1>{{entry.project}} {{entry.version or entry.event}}</h1>
% include("faults")
<dl class="card">
  <dt>State</dt><dd><span class="mark {{marks[entry.state]}}">{{entry.state}}</span></dd>
  <dt>To</dt><dd><a href="{{root}}/notifications/{{entry.destination_id}}">{{entry.kind}} {{entry.destination}}</a></dd>
  <dt>Provider</dt><dd>{{entry.provider}}</dd>
  <dt>Queued</dt><dd>{{moment(entry.created_at)}}</dd>
  % if entry.state == "pending":
  <dt>Due</dt><dd>{{moment(entry.next_attempt_at)}}</dd>
  % end
  <dt>Id</dt><dd class="mono">{{entry.id}}</dd>
  % if entry.digest_id:
  <dt>In the digest</dt><dd class="mono">{{entry.digest_id}}</dd>
  % end
</dl>
<form class="row" method="post" action="{{root}}/journal/{{entry.id}}">
  % include("token")
  <button class="main" name="do" value="resend">Send again</button>
</form>
<h2>Attempts</h2>
% if not attempts:
<p class="soft">{{entry.error or "None yet."}}</p>
% end
<ul class="list">
  % for one in attempts:
  <li>
    <p class="line">
      <b>{{moment(one.attempted_at)}}</b>
      <span class="mark {{"bad" if one.error else "good"}}">{{one.status or "no answer"}}</span>
      <small class="end">{{"%.2f s" % one.duration}}{{", " + one.address if one.address else ""}}</small>
    </p>
    % if one.error:
    <p class="hint">{{one.error}}</p>
    % end
    % if one.answer:
    <pre tabindex="0">{{one.answer}}</pre>
    % end
  </li>
  % end
</ul>
<h2>What it tells</h2>
<pre tabindex="0">{{body}}</pre>
""")


@page_at("/journal/<delivery_id>")
def entry_page(visit: Visit, delivery_id: str) -> str:
    """A delivery with its attempts."""
    store, account_id = visit.store, visit.account.id
    entry = next(iter(store.journal(account_id, delivery_id=delivery_id)), None)
    event = store.event_of(delivery_id)
    if entry is None or event is None:
        raise NotFound

    def resend() -> None:
        if not store.resend(account_id, delivery_id=delivery_id):
            raise Invalid("It is not due yet, or being sent just now.")
        raise SeeOther(f"/journal/{delivery_id}", "It will be sent in a moment; load the page anew to see how it went.")

    faults = visit.attempt(resend=resend)
    body = shortened(json.dumps(event[0], ensure_ascii=False, indent=2), 20_000)
    return visit.show(ENTRY_PAGE, "/notifications", entry=entry, marks=_STATE_MARKS, faults=faults, body=body,
                      attempts=store.attempts(delivery_id)[-50:])


# Tags, keys, the account


TAGS_PAGE = template_of("""\
% rebase("layout", title="Tags")
<h1>Tags</h1>
% include("faults")
<form class="row" method="post" action="{{root}}/tags">
  % include("token")
  <label>Name <input name="name" value="{{typed("name")}}" maxlength="100" required></label>
  <button class="main" name="do" value="add">Add</button>
</form>
% if not tags:
<p class="card empty soft">There are no tags yet. With tags you choose what is shown, and where it is told.</p>
% end
% for tag in tags:
<div class="card">
  <h2><a class="name" href="{{root}}/projects?tag={{tag.id}}">{{tag.name}}</a></h2>
  <form class="row" method="post" action="{{root}}/tags">
    % include("token")
    <input type="hidden" name="tag" value="{{tag.id}}">
    <label>Name <input name="name" value="{{tag.name}}" maxlength="100"></label>
    <button name="do" value="rename">Rename</button>
    % include("sure", do="renew", label="Renew the feed's address", sure="Yes, end the old one")
    % include("sure", do="remove", label="Remove", sure="Yes, remove the tag")
  </form>
  % include("copied", id=tag.id, name="Feed of " + tag.name, value=base + "/feeds/" + tag.feed_secret + ".atom")
</div>
% end
""")


@page_at("/tags")
def tags_page(visit: Visit) -> str:
    """The account's tags, with their feeds."""
    store, account_id = visit.store, visit.account.id
    id_ = visit.form.text("tag") if visit.form else ""

    def add() -> None:
        made = store.add_tag(account_id, read_label(visit.typed("name"), TAG_LIMIT))
        raise SeeOther("/tags", f"The tag {made.name} is made.")

    def rename() -> None:
        if not store.rename_tag(account_id, id_, read_label(visit.typed("name"), TAG_LIMIT)):
            raise Invalid("There is no such tag any more.")
        raise SeeOther("/tags", "Renamed.")

    def renew() -> None:
        store.renew_feed(account_id, id_)
        raise SeeOther("/tags", "The feed is at another address now.")

    def remove() -> None:
        lost = [one.name for one in store.destinations(account_id) if one.tags == (id_,)]
        store.remove_tag(account_id, id_)
        raise SeeOther("/tags", "The tag is removed." + (
            f" {', '.join(lost)} was told of projects with this tag alone, and hears now only of projects that list it."
            if lost else ""))

    faults = visit.attempt(add=add, rename=rename, renew=renew, remove=remove)
    return visit.show(TAGS_PAGE, "/tags", tags=store.tags(account_id), base=visit.base, faults=faults)


KEYS_PAGE = template_of("""\
% rebase("layout", title="API keys")
<h1>API keys</h1>
% include("faults")
% if made:
<p role="status">The key {{made}} is made.</p>
% end
% for key in keys:
<div class="card">
  <p class="line">
    <b>{{key.name}}</b>
    <span class="soft">from {{"anywhere" if "0.0.0.0/0" in key.networks else ", ".join(key.networks)}}</span>
    <small class="end">{{"last used " + moment(key.used_at) if key.used_at else "never used"}}</small>
  </p>
  % if key.name == revealed:
  % include("copied", id=key.id, name="Key", value=key.secret)
  % end
  <form class="row" method="post" action="{{root}}/keys">
    % include("token")
    <input type="hidden" name="key" value="{{key.name}}">
    % if key.name != revealed:
    <button name="do" value="reveal">Show</button>
    % end
    % include("sure", do="revoke", label="Revoke", sure="Yes, revoke it")
  </form>
</div>
% end
<h2>Make a key</h2>
<form class="card" method="post" action="{{root}}/keys">
  % include("token")
  <p>
    <label for="name">Name</label>
    <input id="name" name="name" value="{{typed("name") if faults else ""}}" maxlength="200" required>
  </p>
  <p>
    <label for="networks">Networks that it is accepted from, one a line</label>
    <textarea id="networks" name="networks" rows="2"
      placeholder="192.168.0.0/16">{{typed("networks") if faults else ""}}</textarea>
    <span class="hint">Without one it is accepted from anywhere.</span>
  </p>
  <button class="main" name="do" value="add">Make the key</button>
</form>
<h2>The API</h2>
<pre tabindex="0">curl -H "X-Key: $KEY" {{base}}/v1/projects</pre>
""")


def read_networks(texts: Sequence[str], called: str = "Networks") -> list[str]:
    """The networks that a key is accepted from; all, where none is named. Raises Invalid."""
    found, faults = [], []
    for text in texts:
        try:
            found.append(read_network(text))
        except ValueError as error:
            faults.append(f"{called} {text[:60]!r}: it {error}.")
    if faults:
        raise Invalid(*faults)
    return found or ["0.0.0.0/0", "::/0"]


@page_at("/keys")
def keys_page(visit: Visit) -> str:
    """The account's API keys. A new one is shown at once, others when asked for."""
    store, account_id, revealed, made = visit.store, visit.account.id, "", ""

    def add() -> None:
        nonlocal revealed, made
        networks = read_networks(visit.sent.lines("networks"))
        revealed = made = store.add_key(account_id, read_label(visit.typed("name")), networks).name

    def reveal() -> None:
        nonlocal revealed
        revealed = visit.typed("key")

    def revoke() -> None:
        store.remove_key(account_id, visit.typed("key"))
        raise SeeOther("/keys", f"The key {visit.typed('key')[:100]} is revoked.")

    faults = visit.attempt(add=add, reveal=reveal, revoke=revoke)
    return visit.show(KEYS_PAGE, "/keys", keys=store.keys(account_id), revealed=revealed, made=made,
                      base=visit.base, faults=faults)


ACCOUNT_PAGE = template_of("""\
% rebase("layout", title="Account")
<h1>Account</h1>
% include("faults")
<form class="card" method="post" action="{{root}}/account">
  % include("token")
  <p><label for="name">Name</label> <input id="name" name="name" value="{{typed("name", account.name)}}" required></p>
  <p>
    <label for="email">E-mail address</label>
    <input id="email" name="email" type="email" value="{{typed("email", account.email)}}" autocomplete="username"
      required>
  </p>
  <p>
    <label for="present">Present password</label>
    <input id="present" name="present" type="password" autocomplete="current-password" aria-describedby="present-hint">
    <span class="hint" id="present-hint">Only to change the e-mail address.</span>
  </p>
  <p>
    <label for="zone">Time zone</label>
    <input id="zone" name="zone" value="{{typed("zone", account.time_zone)}}" required aria-describedby="zone-hint">
    <span class="hint" id="zone-hint">Such as Europe/Berlin; of digests, and of times on these pages.</span>
  </p>
  <p>
    <label for="mail">Mail of projects that are set to "as the account has it"</label>
    <select id="mail" name="mail">
      % include("options", choices=schedules, chosen=account.email_notification)
    </select>
  </p>
  <button class="main" name="do" value="save">Save</button>
</form>
<h2>Password</h2>
<form class="card" method="post" action="{{root}}/account">
  % include("token")
  <p><label for="old">Present password</label>
    <input id="old" name="old" type="password" autocomplete="current-password" required></p>
  <p><label for="new">New password</label>
    <input id="new" name="new" type="password" autocomplete="new-password" minlength="8" required></p>
  <button name="do" value="password">Change it</button>
  <p class="hint">All other sessions end.</p>
</form>
<h2>Feed and badges</h2>
<div class="card">
  % include("copied", id="feed", name="Feed of all releases", value=base + "/feeds/" + account.feed_secret + ".atom")
  % include("copied", id="badge", name="Badge with the latest version of a project", value=badge)
  <p class="hint">Whoever knows these addresses can read them. Tags have feeds of their own, on the
    <a href="{{root}}/tags">tags' page</a>. PROJECT is a project's id, as the address of its page has it.</p>
  <form class="row" method="post" action="{{root}}/account">
    % include("token")
    % include("sure", do="feed", label="Renew the feed's address", sure="Yes, end the old one")
    % include("sure", do="badges", label="Renew the badges' addresses", sure="Yes, end the old ones")
  </form>
</div>
<h2>Sessions</h2>
<ul class="list">
  % for one in sessions:
  <li>
    <form class="line" method="post" action="{{root}}/account">
      % include("token")
      <input type="hidden" name="session" value="{{one.id}}">
      <span title="{{one.agent}}">{{browser(one.agent)}}</span>
      % if one.id == session.id:
      <span class="mark good">this one</span>
      % end
      <small>from {{one.address or "somewhere"}}, since {{moment(one.created_at)}},
        last seen {{moment(one.seen_at)}}</small>
      <button class="end" name="do" value="end">End</button>
    </form>
  </li>
  % end
</ul>
""")


# Most browsers claim to be those that stand behind them here, too.
_BROWSERS = {"Edg": "Edge", "OPR": "Opera", "Firefox": "Firefox", "Chrome": "Chrome", "Safari": "Safari"}
_SYSTEMS = ("Android", "iPhone", "iPad", "Windows", "Mac OS", "CrOS", "Linux")


def _browser_name(agent: str) -> str:
    """What people call a browser that calls itself so."""
    name = next((name for word, name in _BROWSERS.items() if word in agent), agent[:60] or "A browser")
    system = next((word for word in _SYSTEMS if word in agent), "")
    return f"{name} on {system}" if system else name


@page_at("/account")
def account_page(visit: Visit) -> str:
    """What the account may change of itself."""
    store, account = visit.store, visit.account

    def confirm(password: str) -> None:
        # With tries of its own: somebody else may be guessing at the door.
        who = f"session {visit.session.id}" if visit.session else ""
        if not visit.parts.gate.check(who, who, password, account.password, time.monotonic()):
            raise Invalid("The present password is wrong.")

    def save() -> None:
        try:
            zone_of(visit.typed("zone"))
        except ValueError as error:
            raise Invalid(f"Time zone: {error}.") from None
        if visit.typed("mail") not in _SCHEDULE_NAMES:
            raise Invalid(f"E-mail takes one of: {', '.join(_SCHEDULE_NAMES)}.")
        if visit.typed("email") != account.email:
            if not visit.sent.password("present"):
                raise Invalid("To change the e-mail address, type the present password too.")
            confirm(visit.sent.password("present"))
        store.update_account(dataclasses.replace(
            account, name=read_label(visit.typed("name")), email=read_email(visit.typed("email")),
            time_zone=visit.typed("zone"), email_notification=visit.typed("mail")))
        raise SeeOther("/account", "Saved.")

    def password() -> None:
        confirm(visit.sent.password("old"))
        store.set_password(account.id, _new_password(visit, "new"))
        visit.sign_in(account)
        raise SeeOther("/account", "The password is changed, and all other sessions are ended.")

    def end() -> None:
        store.end_session(account.id, visit.typed("session"))
        raise SeeOther("/account", "The session is ended.")

    def renew_feed() -> None:
        store.renew_feed(account.id)
        raise SeeOther("/account", "The feed is at another address now.")

    def renew_badges() -> None:
        store.renew_badges(account.id)
        raise SeeOther("/account", "The badges are at other addresses now.")

    faults = visit.attempt(save=save, password=password, end=end, feed=renew_feed, badges=renew_badges)
    return visit.show(ACCOUNT_PAGE, "/account", faults=faults, sessions=store.sessions(account.id), base=visit.base,
                      session=visit.session, browser=_browser_name, schedules=list(_SCHEDULE_NAMES.items()),
                      badge=f"{visit.base}/badge/{account.badge_secret}/PROJECT.svg")


# For administrators


ACCOUNTS_PAGE = template_of("""\
% rebase("layout", title="Accounts")
<h1>Accounts</h1>
% include("faults")
<ul class="list">
  % for one in accounts:
  <li>
    <p class="line">
      <b>{{one.name}}</b> <span class="soft">{{one.email if one.email != one.name else ""}}</span>
      % if one.is_admin:
      <span class="mark">administrator</span>
      % end
      <small class="end">{{one.type}}</small>
    </p>
    <details class="note">
      <summary>Change</summary>
      <form class="row" method="post" action="{{root}}/accounts">
        % include("token")
        <input type="hidden" name="account" value="{{one.id}}">
        <label>New password <input name="password" type="password" autocomplete="new-password"></label>
        <button name="do" value="password">Set it</button>
        <button name="do" value="admin">{{"Administrator no more" if one.is_admin else "Make administrator"}}</button>
        % include("sure", do="remove", label="Remove", sure="Yes, remove it with all that it has")
      </form>
    </details>
  </li>
  % end
</ul>
<h2>Make an account</h2>
<form class="card" method="post" action="{{root}}/accounts">
  % include("token")
  <p><label for="email">E-mail address</label>
    <input id="email" name="email" type="email" value="{{typed("email")}}" autocomplete="off" required></p>
  <p><label for="name">Name</label> <input id="name" name="name" value="{{typed("name")}}">
    <span class="hint">If left empty, the address.</span></p>
  <p><label for="password">Password</label>
    <input id="password" name="password" type="password" autocomplete="new-password" minlength="8" required></p>
  <p>
    <label for="type">Type</label>
    <select id="type" name="type"><option>user</option><option>organization</option></select>
  </p>
  <p><label class="check"><input type="checkbox" name="admin" value="yes"> An administrator</label></p>
  <button class="main" name="do" value="add">Make the account</button>
</form>
""")


@page_at("/accounts", "admin")
def accounts_page(visit: Visit) -> str:
    """All accounts, for administrators."""
    store = visit.store

    def chosen() -> Account:
        account = store.account_of(visit.typed("account"))
        if account is None:
            raise Invalid("There is no such account any more.")
        return account

    def add() -> None:
        address, type_ = read_email(visit.typed("email")), visit.typed("type")
        if type_ not in ACCOUNT_TYPES:
            raise Invalid(f"Type takes one of: {', '.join(ACCOUNT_TYPES)}.")
        store.add_account(type_, address, read_label(visit.typed("name") or address), _new_password(visit, "password"),
                          bool(visit.typed("admin")), own_zone())
        raise SeeOther("/accounts", f"The account {address} is made.")

    def set_password() -> None:
        store.set_password(chosen().id, _new_password(visit, "password"))
        raise SeeOther("/accounts", "The password is set, and the account's sessions are ended.")

    def change_admin() -> None:
        account = chosen()
        store.set_admin(account, not account.is_admin)
        raise SeeOther("/accounts", "Changed.")

    def remove() -> None:
        account = chosen()
        if len(store.accounts()) == 1:
            raise Invalid("It is the only account; on the command line it can be removed.")
        store.remove_account(account.id)
        raise SeeOther("/accounts", f"The account {account.email} is removed.")

    faults = visit.attempt(add=add, password=set_password, admin=change_admin, remove=remove)
    return visit.show(ACCOUNTS_PAGE, "/accounts", accounts=store.accounts(), faults=faults)


STATUS_PAGE = template_of("""\
% rebase("layout", title="Status")
<h1>Status</h1>
<dl class="card">
  % for name, state in health.items():
  <dt>{{name.capitalize()}}</dt><dd><span class="mark {{"good" if state == "ok" else "bad"}}">{{state}}</span></dd>
  % end
  <dt>Sources</dt><dd>{{counts["sources"]}}; {{late["sources"]}} due, {{counts["failing_sources"]}} failing</dd>
  <dt>Deliveries</dt>
  <dd>{{counts["pending_deliveries"]}} wait; {{late["deliveries"]}} due, {{late["failed"]}} failed</dd>
  <dt>Accounts</dt><dd>{{counts["accounts"]}}</dd>
  <dt>Projects</dt><dd>{{counts["projects"]}}</dd>
  <dt>Clock</dt><dd><span class="mark {{"bad" if is_skewed else "plain"}}">{{clock}}</span></dd>
  <dt>Size</dt><dd>{{size}}, {{path}}</dd>
  <dt>Version</dt><dd>{{version}}</dd>
</dl>
<form class="row" method="post" action="{{root}}/status/backup">
  % include("token")
  <button>Download a backup</button>
</form>
<h2>Sources that fail</h2>
% if not failing:
<p class="soft">None.</p>
% end
<ul class="list">
  % for one in failing:
  <li>
    <p class="line"><b>{{one.name}}</b> <span class="soft">{{one.provider}}</span>
      <small class="end">since {{moment(one.failing_since)}}, again at {{moment(one.next_check_at)}}</small></p>
    <p class="hint">{{one.error}}</p>
  </li>
  % end
</ul>
<h2>Quotas</h2>
% if not quotas:
<p class="soft">No provider has told how many requests are left.</p>
% else:
<table>
  <thead><tr><th>Provider</th><th>Requests left</th><th>It said so</th></tr></thead>
  <tbody>
    % for provider, left, at in quotas:
    <tr><td>{{provider}}</td><td>{{left}}</td><td>{{moment(at)}}</td></tr>
    % end
  </tbody>
</table>
% end
""")


def _skew_in_words(skew: float | None) -> str:
    if skew is None:
        return "not compared with another yet"
    if abs(skew) <= MINUTE:
        return "agrees with those of the providers"
    return f"{abs(skew):,.0f} s {'behind' if skew > 0 else 'ahead of'} those of the providers; set it right"


@page_at("/status", "admin", "GET")
def status_page(visit: Visit) -> str:
    """How the service is, for administrators."""
    store, skew, backlog = visit.store, visit.site.fetcher.clock_skew(), visit.store.backlog()
    late = {name: f"{count}{f' (since {visit.moment(since)})' if since else ''}" for name, (count, since)
            in backlog.items()}
    return visit.show(
        STATUS_PAGE, "/status", health=visit.site.health(), counts=store.counts(), late=late,
        is_skewed=skew is not None and abs(skew) > MINUTE, clock=_skew_in_words(skew),
        size=f"{store.size() / MIB:,.1f} MiB",
        path=os.path.basename(store.path), version=__version__, failing=store.failing_sources(), quotas=store.quotas())


@page_at("/status/backup", "admin", "POST")
def backup_page(visit: Visit) -> Any:
    """A consistent copy of the store, to be kept."""
    path = f"{visit.store.path}.{make_id()}.download"
    try:
        for stray in glob.glob(f"{glob.escape(visit.store.path)}.*.download"):      # of a process that was killed
            if os.path.getmtime(stray) < time.time() - HOUR:
                os.unlink(stray)
        visit.store.backup(path)
        copy = open(path, "rb")
        os.unlink(path)         # it is there as long as it is being read
    except (OSError, sqlite3.Error) as error:
        raise StoreUnavailable(f"no backup could be made: {error}") from error
    day = datetime.datetime.fromtimestamp(visit.store.clock(), visit.zone)
    for name, value in (("Content-Type", "application/vnd.sqlite3"), ("Cache-Control", "no-store"),
                        ("Content-Length", str(os.fstat(copy.fileno()).st_size)),
                        ("Content-Disposition", f'attachment; filename="releasetrack-{day:%Y-%m-%d}.db"')):
        bottle.response.set_header(name, value)
    return copy


# What is read by whoever knows its address


FEED = bottle.SimpleTemplate("""\
<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
  <id>{{urn(id)}}</id>
  <title>{{clean(title)}}</title>
  <updated>{{updated}}</updated>
  <link rel="self" type="application/atom+xml" href="{{address}}"/>
  <link rel="alternate" type="text/html" href="{{base}}/"/>
  <generator>releasetrack</generator>
  <author><name>releasetrack</name></author>
  % for one in entries:
  <entry>
    <id>{{urn(one["id"])}}</id>
    <title>{{clean(one["title"])}}</title>
    <updated>{{one["updated"]}}</updated>
    <published>{{one["published"]}}</published>
    % if one["url"]:
    <link rel="alternate" href="{{one["url"]}}"/>
    % end
    <category term="{{clean(one["provider"])}}"/>
    <content type="html">{{clean(one["content"])}}</content>
  </entry>
  % end
</feed>
""")
_FEED_ENTRIES, _FEED_NOTE = 30, 64 * KIB
_FEED_PAGES = 20        # of so many releases that are looked through for those that are not excluded


def _urn(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    return uuid.UUID(bytes=digest[:16], version=4).urn


def _xml_text(text: str) -> str:
    """The text without what XML has no place for: https://www.w3.org/TR/xml/#charsets"""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


def _unless_known(content: bytes, content_type: str, seconds: int) -> bytes:
    """What is at an address that asks for no session; nothing, with 304, where the asker has it."""
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    for name, value in (("ETag", etag), ("Content-Type", content_type),
                        ("Cache-Control", f"private, max-age={seconds}"), ("X-Content-Type-Options", "nosniff"),
                        ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")):
        bottle.response.set_header(name, value)
    known = {one.strip().removeprefix("W/") for one in bottle.request.environ.get("HTTP_IF_NONE_MATCH", "").split(",")}
    if etag in known or "*" in known:
        bottle.response.status = 304
        del bottle.response.headers["Content-Type"]
        return b""
    return content


def _feed_entry(visit: Visit, one: Sighting) -> dict[str, Any]:
    project, release, provider = one.project, one.release, visit.providers.get(one.project.provider)
    note = visit.store.note(project.source_id, release.version) if one.note else None
    marks = [*(["pre-release"] if release.is_prerelease else []), *(["updated"] if release.is_updated else []),
             *release.cve]
    message = note.message if note else ""
    return {
        "id": f"{project.id} {release.version} {one.found_at if release.is_updated else ''}",
        "title": f"{project.name} {release.version}" + (f" ({', '.join(marks)})" if marks else ""),
        "provider": project.provider, "published": release.date,
        "updated": timestamp(one.found_at) if one.found_at and release.is_updated else release.date,
        "url": _xml_text(note.url if note and note.url else
                         page_of(provider, project.name, release.version) if provider else ""),
        "content": message if len(message) <= _FEED_NOTE else preformatted(plain_text(message)[:_FEED_NOTE])}


@page_at("/feeds/<secret>.atom", "anyone", "GET")
def feed_page(visit: Visit, secret: str) -> bytes:
    """The newest releases of an account or of one of its tags, but for those that are excluded, as Atom:
    https://www.rfc-editor.org/rfc/rfc4287. 304: nothing is new."""
    found = visit.store.feed_of(secret)
    if found is None:
        raise NotFound
    account_id, tag = found
    wanted: list[Sighting] = []
    for number in range(1, _FEED_PAGES + 1):
        sightings, has_more = visit.store.latest_releases(account_id, number, tag=tag.id if tag else None,
                                                          size=_FEED_ENTRIES)
        wanted += [one for one in sightings if not excluded(one.project, [one.release], visit.parts.patterns)[0]]
        if len(wanted) >= _FEED_ENTRIES or not has_more:
            break
    entries = [_feed_entry(visit, one) for one in wanted[:_FEED_ENTRIES]]
    feed = FEED.render(
        id=f"feed of {tag.id if tag else account_id}", address=f"{visit.base}/feeds/{secret}.atom", base=visit.base,
        entries=entries, urn=_urn, clean=_xml_text,
        title=f"Releases: {tag.name}" if tag else "Releases",
        updated=max((one["updated"] for one in entries), default="1970-01-01T00:00:00Z"))
    return _unless_known(feed.encode("utf-8", "replace"), "application/atom+xml; charset=utf-8", 300)


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
    account_id = visit.store.account_of_badge(secret)
    project = visit.store.project(account_id, project_id) if account_id else None
    if project is None:
        raise NotFound
    latest = newest_wanted(visit.parts, project, pages=10)
    name = shortened(_xml_text(project.name.rpartition("/")[2]), 40)
    version = shortened(_xml_text(latest.version), 40) if latest else "none yet"
    badge = BADGE.render(name=name, version=version, left=16 + 7 * len(name), right=16 + 7 * len(version))
    return _unless_known(badge.encode("utf-8", "replace"), "image/svg+xml; charset=utf-8", 300)


ASSETS = {
    "/style.css": (STYLE, "text/css; charset=utf-8"), "/note.css": (NOTE_STYLE, "text/css; charset=utf-8"),
    "/script.js": (SCRIPT, "text/javascript; charset=utf-8"), "/icon.svg": (ICON, "image/svg+xml; charset=utf-8"),
}


def answer_asset(path: str) -> bytes:
    """A file that pages load."""
    text, content_type = ASSETS[path]
    return _unless_known(text.encode(), content_type, 3600)


# == service ===================================================================
#
# The library's front door: builds the store, the threads and the application, and ends them in the
# order in which nothing is lost. Two services in one process do not meet.


def _answer_health(health: dict[str, str]) -> dict[str, Any]:
    """Whether all lives, as a Message with 200 or 503."""
    is_well = all(state in ("ok", "not started") for state in health.values())
    bottle.response.status = 200 if is_well else 503
    return {"message": "OK" if is_well else "Service Unavailable", "code": bottle.response.status_code, **health}


def _answer_metrics(parts: Parts, health: dict[str, str]) -> bytes:
    """Gauges in Prometheus' text form, for an administrator's key:
    https://prometheus.io/docs/instrumenting/exposition_formats/"""
    try:
        _, account_id = key_account(parts, bottle.request.environ)
        account = parts.store.account_of(account_id)
        if not account or not account.is_admin:
            raise Unauthorized
        gauges = parts.store.counts() | {f"{name}_up": int(state == "ok") for name, state in health.items()}
    except ReleasetrackError as error:
        bottle.response.content_type = "application/json"
        return json.dumps(refuse(error)).encode()
    bottle.response.content_type = "text/plain; version=0.0.4; charset=utf-8"
    return "".join(f"# TYPE releasetrack_{name} gauge\nreleasetrack_{name} {value}\n"
                   for name, value in gauges.items()).encode()


def _answer_ahead(parts: Parts, respond: Callable[..., Any], **names: str) -> Any:
    """An answer of the API, or a page; work in the background goes at a walk meanwhile."""
    parts.store.asked_at = time.monotonic()
    return respond(**names)


def _at_its_paths(app: Callable[..., Any], base_url: str) -> Callable[..., Any]:
    """The application with its paths set right: UTF-8 alone, and below the base URL's path, whether a proxy in front
    keeps that or cuts it off."""
    prefix = unquote(urlsplit(base_url).path).rstrip("/").encode().decode("latin-1")

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if "bottle.raw_path" in environ:    # mounted in a bottle application, which decodes paths in place
            for name in ("SCRIPT_NAME", "PATH_INFO"):
                environ[name] = environ.get(name, "").encode("utf-8", "replace").decode("latin-1")
        path = environ.get("PATH_INFO", "")
        try:        # bottle would drop what is not UTF-8, and so take one path for another
            path.encode("latin-1").decode("utf-8")
        except UnicodeError:
            headers, body = refusal_of_server(400, "The path takes UTF-8.", path, environ.get("HTTP_ACCEPT", ""))
            start_response("400 Bad Request", [*headers, ("Content-Length", str(len(body)))])
            return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]
        if prefix and not environ.get("SCRIPT_NAME"):
            is_kept = path == prefix or path.startswith(prefix + "/")
            environ["SCRIPT_NAME"], environ["PATH_INFO"] = prefix, (path[len(prefix):] or "/") if is_kept else path
        return app(environ, start_response)

    return application


def make_app(site: Site) -> Callable[..., Any]:
    """The WSGI application: API, pages, health and metrics."""
    app, parts = bottle.Bottle(), site.parts

    def in_words(error: bottle.HTTPError) -> bytes:
        environ = bottle.request.environ
        if wants_page(environ.get("PATH_INFO", ""), environ.get("HTTP_ACCEPT", "")):
            return error_page(site, environ, error.status_code).encode()
        bottle.response.content_type = "application/json"
        return status_message(error.status_code)

    app.default_error_handler = in_words
    for path in ("/v1", "/v1/<rest:path>"):
        app.route(path, method="ANY", callback=functools.partial(
            _answer_ahead, parts, functools.partial(answer_api, parts)))
    app.route("/healthz", callback=lambda: _answer_health(site.health()))
    app.route("/metrics", callback=lambda: _answer_metrics(parts, site.health()))
    for path, (_, _, methods) in PAGES.items():
        callback = functools.partial(_answer_ahead, parts, functools.partial(answer_page, site, path))
        app.route(path, method=list(methods), callback=callback)
    for path in ASSETS:
        app.route(path, callback=functools.partial(answer_asset, path))
    return _at_its_paths(app, parts.settings.base_url)


class Service:
    """A release tracker over one database file.

    ``app`` is a WSGI callable. ``providers``: more of them than the built-in ones, or others under their ids.
    Raises SettingError, StoreError.
    """

    def __init__(self, settings: Settings | None = None, providers: Iterable[Provider] = ()) -> None:
        self.settings = settings or Settings()
        self.providers = providers_with(self.settings.provider, providers)
        self.store = Store(self.settings.db)
        self.fetcher = Fetcher(self.settings)
        # Of their own: what people try out on pages must not keep the tracker from excluding anything.
        self.patterns, self._shown_patterns = Patterns(), Patterns()
        self.tracker = Tracker(self.store, self.fetcher, self.providers, self.settings, self.patterns)
        self.courier = Courier(self.store, self.fetcher.post, self.settings)
        self._is_started = False
        self._gate = LoginGate()
        parts = Parts(self.store, self.settings, self.providers, self._shown_patterns,
                      Windows(self.settings.rate_limit), self._gate,
                      threading.BoundedSemaphore(max(1, self.settings.threads // 2)))
        self._setup_token = make_session_token()
        self.app = make_app(Site(parts, self.fetcher, self.courier.try_out, self.health, self._setup_token,
                                 Windows(TESTS)))

    @property
    def setup_path(self) -> str:
        """The path of the page that makes the first account, once, for whoever has this link; "" when there is one."""
        return "" if self.store.has_accounts() else f"/setup?token={self._setup_token}"

    def on_release(self, listener: Callable[[Mapping[str, Any]], None]) -> None:
        """Have ``listener`` called with the standard body of each event, from a background
        thread, once the release is stored. Not called again after a crash: deliveries are what is durable."""
        self.tracker.listeners.append(listener)

    def start(self) -> None:
        """Start the tracker and the courier. Once."""
        if self._is_started:
            raise RuntimeError("the service has been started already")
        self._is_started = True
        self.tracker.start()
        self.courier.start()

    def ask_to_stop(self) -> None:
        """Have everything come to its end, without waiting for it."""
        self.tracker.stop()
        self.courier.stop()
        self.fetcher.stopping.set()

    def stop(self) -> None:
        """End the threads and close the store. What is under way ends or is left to be done again."""
        self.ask_to_stop()
        self.tracker.join()
        self.courier.join()
        self.fetcher.close_idle()
        self.patterns.close()
        self._shown_patterns.close()
        self._gate.close()
        self.store.close()

    def health(self) -> dict[str, str]:
        """What lives: the store and the two threads, each "ok", "not started" or what is wrong."""
        found = {"store": self.store.problem() or "ok"}
        for name, worker in (("tracker", self.tracker), ("courier", self.courier)):
            found[name] = "not started" if not self._is_started else "ok" if worker.is_alive() else "does not run"
        return found


class Workers:
    """The threads that answer requests, in the place of waitress' own: one takes them all, since SQLite lets go of the
    interpreter's lock at each row, and several that fight for it answer half as many. Where it has been at one for
    10 ms, that is taken to wait for something, and another thread goes on. They are started as they are needed."""

    _PATIENCE = 0.01

    def __init__(self, most: int) -> None:
        self._most = most
        self._tasks: deque[Any] = deque()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._working: threading.Thread | None = None       # the one whose turn it is
        self._has_understudy = False                        # whether one waits for the end of that one's patience
        self._taken = 0
        self._is_over = False

    def add_task(self, task: Any) -> None:
        """Have a request answered; what waitress calls for each."""
        with self._changed:
            self._tasks.append(task)
            if self._working is None or not self._has_understudy:
                self._call()

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> None:
        """End the threads once they have answered what they are at; what waitress calls at its end."""
        end = time.monotonic() + timeout
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        while cancel_pending and self._tasks:
            self._tasks.popleft().cancel()

    def _call(self) -> None:
        """Have one more thread see what there is to do."""
        if self._idle:
            self._changed.notify()
        elif len(self._threads) < self._most and not self._is_over:
            thread = threading.Thread(
                target=self._run, name=f"releasetrack-answers-{len(self._threads)}", daemon=True)
            try:
                thread.start()
            except RuntimeError:        # the machine gives no more; those that there are will do
                log.warning("answers: no thread more than %d can be started", len(self._threads))
            else:
                self._threads.append(thread)

    def _run(self) -> None:
        while task := self._next():
            try:
                task.service()
            except BaseException:       # whatever it is, the thread answers others yet
                log.exception("answers: a request failed")

    def _next(self) -> Any:
        """The next task, when it is this thread's turn; None when it is over."""
        me, is_stuck = threading.current_thread(), False
        with self._changed:
            if self._working is me:
                self._working = None
            while not (self._is_over or self._tasks and (self._working is None or is_stuck)):
                is_understudy = bool(self._tasks) and not self._has_understudy
                self._has_understudy |= is_understudy
                self._idle += 1
                taken = self._taken
                is_stuck = not self._changed.wait(self._PATIENCE if is_understudy else None) and taken == self._taken
                self._idle -= 1
                self._has_understudy &= not is_understudy
            if self._is_over:
                return None
            self._working = me
            self._taken += 1
            task = self._tasks.popleft()
            if self._tasks and not self._has_understudy:
                self._call()
            return task


class CannotServe(ReleasetrackError):
    """The address cannot be listened on, or there is no waitress."""


def keep_one_heap() -> None:
    """Have the C library keep one heap for all threads, which would each keep one with all that they ever freed, and
    give back what compiling this file took, if it was compiled just now:
    https://man7.org/linux/man-pages/man3/mallopt.3.html. Of a process as a whole, so for programs that are nothing but
    a server; where the library is another, nothing happens."""
    with contextlib.suppress(ImportError, OSError, AttributeError, MemoryError):
        import ctypes       # some Pythons are built without it, and it may be forbidden to a process
        libc = ctypes.CDLL(None)
        libc.mallopt(-8, 1)         # M_ARENA_MAX
        libc.malloc_trim(0)


class Refusal:
    """What waitress refuses by itself, in our words."""

    def __init__(self, asked: Any) -> None:
        self._error = asked.error
        words = getattr(asked, "first_line", b"").decode("latin-1").split()     # more may not have been read
        self._path = getattr(asked, "path", "") or "".join(words[1:2]).partition("?")[0]
        self._accept = getattr(asked, "headers", {}).get("ACCEPT", "")

    def to_response(self, _ident: str | None = None) -> tuple[str, list[tuple[str, str]], bytes]:
        code = self._error.code
        return f"{code} {REASONS.get(code, self._error.reason)}", *refusal_of_server(
            code, f"The request could not be understood: {self._error.body}.", self._path, self._accept)


_START_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Z-]+ [^ ]+(?: HTTP/[0-9]\.[0-9])?")


def _channel_class() -> Any:
    """waitress' connection, which refuses in our words, and more. Raises CannotServe."""
    try:        # here, so that the file can be embedded under another server without it
        import waitress.channel
        import waitress.parser
        import waitress.task
    except ImportError:
        raise CannotServe("it needs the package waitress: pip install waitress") from None

    class OwnErrorTask(waitress.task.ErrorTask):
        def execute(self) -> None:
            self.request.error = Refusal(self.request)
            super().execute()

    class Parser(waitress.parser.HTTPRequestParser):
        """Refuses what whoever stands before us may read in another way: RFC 9112, parts 3.2 and 6.3."""

        def parse_header(self, header_plus: bytes) -> None:
            super().parse_header(header_plus)
            if not _START_LINE.fullmatch(self.first_line):      # which waitress 2 lets through
                raise waitress.parser.ParsingError("The first line is no request")
            if self.chunked and "CONTENT_LENGTH" in self.headers:
                raise waitress.parser.ParsingError("Content-Length and Transfer-Encoding exclude each other")
            if "TRANSFER_ENCODING" in self.headers:     # of HTTP/1.0, where waitress leaves it unread
                raise waitress.parser.ParsingError("HTTP/1.0 has no Transfer-Encoding")
            if "," in self.headers.get("HOST", ""):
                raise waitress.parser.ParsingError("There is more than one Host")

    class Channel(waitress.channel.HTTPChannel):
        parser_class, error_task_class = Parser, OwnErrorTask

        def send_continue(self) -> None:
            if self.request.completed:      # there is no body; waitress would wait for one, and never answer
                self.request.expect_continue = False
            else:
                super().send_continue()

    return Channel


def make_server(application: Callable[..., Any], settings: Settings) -> tuple[Any, str]:
    """``(a waitress server that listens, its address)``. Raises CannotServe."""
    channel_class = _channel_class()
    import waitress.server
    try:
        family, *_, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM,
                                                 flags=socket.AI_PASSIVE)[0]
        listener = socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        raise CannotServe(f"--host {settings.host} --port {settings.port}: cannot listen there: "
                          f"{error.strerror or error}") from None
    server = waitress.server.create_server(
        application, sockets=[listener], _dispatcher=Workers(settings.threads), connection_limit=1000,
        asyncore_use_poll=True, max_request_header_size=16 * KIB, max_request_body_size=BODY_LIMIT + 1,
        channel_timeout=30, ident="releasetrack", clear_untrusted_proxy_headers=False)
    server.channel_class = channel_class
    # At its default of 1 the workers send, and fight the I/O thread for the interpreter: half the speed, or less.
    server.adj.send_bytes = 64 * KIB
    host, port = listener.getsockname()[:2]
    return server, f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# == cli =======================================================================
#
# The commands. What they say goes to standard output, plain or as JSON; what is wrong is one line
# on standard error, with status 1, or 2 for what was not understood.


class CommandError(ReleasetrackError):
    """A command that could not be done; the text is what the user is told."""


Command = Callable[[Settings, argparse.Namespace], int]
COMMANDS: dict[str, tuple[Command, tuple[tuple[Any, ...], ...]]] = {}


def argument(*names: str, **about: Any) -> tuple[Any, ...]:
    return names, about


def command(*arguments: tuple[Any, ...]) -> Callable[[Command], Command]:
    """Enter a command under the function's name, ``account_add`` as ``account add``."""
    def enter(function: Command) -> Command:
        COMMANDS[function.__name__.rstrip("_").replace("_", " ")] = function, arguments
        return function
    return enter


_EMAIL = argument("email", metavar="EMAIL", help="the account's e-mail address")
_JSON = argument("--json", action="store_true", help="print JSON")


@contextlib.contextmanager
def opened(settings: Settings, makes: bool = False) -> Iterator[Service]:
    """A service for one command: its store and providers, without its threads. ``makes``: the store, if need be."""
    if not makes and not os.path.exists(settings.db):
        raise CommandError(f"there is no store {settings.db}; --db names it, and 'account add' or 'serve' makes one")
    service = Service(settings)
    try:
        yield service
    finally:
        service.stop()


def _account_at(service: Service, address: str) -> Account:
    account = service.store.account(address)
    if account is None:
        raise CommandError(f"there is no account {address}; 'account add {address}' makes one")
    return account


def _printable(text: str, kept: str = "") -> str:
    """The text with what a terminal would obey, or what would end a line, spelled out; but for what is ``kept``."""
    return "".join(letter if letter.isprintable() or letter in kept else letter.encode("unicode_escape").decode()
                   for letter in text)


def _complain(error: Exception | str) -> None:
    print(f"releasetrack: {_printable(str(error))}", file=sys.stderr)


def _print_rows(rows: Sequence[Mapping[str, Any]], as_json: bool) -> int:
    """Rows as JSON, or a line each with tabs between."""
    if as_json:
        print(json.dumps(rows, ensure_ascii=False, indent=2))
    for row in () if as_json else rows:
        print(*("-" if value is None else _printable(str(value)) for value in row.values()), sep="\t")
    return 0


def _me() -> str:
    return f"python {os.path.basename(__file__)}"


def _from_here(address: str) -> str:
    """The address that a browser on this machine reaches the service at, which may listen on all there are."""
    return address.replace("://0.0.0.0:", "://127.0.0.1:").replace("://[::]:", "://[::1]:")


@command()
def serve(settings: Settings, args: argparse.Namespace) -> int:
    """Run the service: pages, API, tracker and courier."""
    keep_one_heap()
    service = Service(settings)
    try:
        server, address = make_server(service.app, settings)
    except CannotServe:
        service.stop()
        raise

    def end(*_: Any) -> None:
        for one in (signal.SIGTERM, signal.SIGINT):     # a second one would only disturb the end
            signal.signal(one, signal.SIG_IGN)
        service.ask_to_stop()
        raise SystemExit(0)

    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, end)
    try:
        service.start()
        print(f"releasetrack {__version__} listens on {settings.base_url or address}", flush=True)
        if service.setup_path:
            print("There is no account yet; this link makes the first: "
                  f"{settings.base_url or _from_here(address)}{service.setup_path}", flush=True)
        server.run()
    except SystemExit:
        pass
    finally:
        server.close()
        service.stop()
    return 0


def _read_password(args: argparse.Namespace) -> str:
    """A new password, from standard input or typed twice. Raises CommandError."""
    if args.password_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    elif not sys.stdin.isatty():
        raise CommandError("there is no terminal to ask for the password; --password-stdin reads it from standard "
                           "input")
    else:
        password = getpass.getpass("Password: ")
        if getpass.getpass("The same again: ") != password:
            raise CommandError("the two passwords differ")
    if problem := password_problem(password):
        raise CommandError(problem)
    return password


_PASSWORD_STDIN = argument("--password-stdin", action="store_true", help="read the password from standard input")


def _zone(name: str) -> str:
    try:
        zone_of(name)
    except ValueError as error:
        raise CommandError(f"--time-zone: {error}") from None
    return name


_TIME_ZONE = argument("--time-zone", metavar="ZONE", help="of its digests, such as Europe/Berlin; at first this "
                                                          "machine's")


@command(_EMAIL, argument("--name", help="what the account is called; the address without it"), _TIME_ZONE,
         argument("--type", choices=ACCOUNT_TYPES, default="user", help="what webhooks say of it"),
         argument("--admin", action="store_true", help="an administrator; the first account always is"),
         _PASSWORD_STDIN)
def account_add(settings: Settings, args: argparse.Namespace) -> int:
    """Make an account. The password is asked for."""
    read_email(args.email)
    with opened(settings, makes=True) as service:
        if service.store.account(args.email):
            raise CommandError(f"there is an account {args.email} already")
        account = service.store.add_account(args.type, args.email, read_label(args.name or args.email),
                                            hash_password(_read_password(args)), args.admin,
                                            own_zone() if args.time_zone is None else _zone(args.time_zone))
        print(f"account {account.email} made" + (", an administrator" if account.is_admin else ""))
    return 0


@command(_JSON)
def account_list(settings: Settings, args: argparse.Namespace) -> int:
    """List the accounts: e-mail address, name, type, whether an administrator, time zone, default setting of mail."""
    with opened(settings) as service:
        return _print_rows([{"email": account.email, "name": account.name, "type": account.type,
                             "is_admin": account.is_admin, "time_zone": account.time_zone,
                             "email_notification": account.email_notification}
                            for account in service.store.accounts()], args.json)


@command(_EMAIL, argument("--name", help="what the account is called"), _TIME_ZONE,
         argument("--email-notification", choices=EMAIL_NOTIFICATIONS[:-1],
                  help="what a project has whose email_notification is set to default"))
def account_change(settings: Settings, args: argparse.Namespace) -> int:
    """Change an account's name, time zone or default setting of mail."""
    if args.name is args.time_zone is args.email_notification is None:
        raise SettingError("account change takes what is to change, such as --time-zone Europe/Berlin")
    with opened(settings) as service:
        account = _account_at(service, args.email)
        service.store.update_account(dataclasses.replace(
            account, name=account.name if args.name is None else read_label(args.name),
            time_zone=account.time_zone if args.time_zone is None else _zone(args.time_zone),
            email_notification=args.email_notification or account.email_notification))
    return 0


@command(_EMAIL, _PASSWORD_STDIN)
def account_passwd(settings: Settings, args: argparse.Namespace) -> int:
    """Set an account's password, and end its sessions."""
    with opened(settings) as service:
        account = _account_at(service, args.email)
        service.store.set_password(account.id, hash_password(_read_password(args)))
    return 0


@command(_EMAIL)
def account_remove(settings: Settings, args: argparse.Namespace) -> int:
    """Remove an account with all that it owns."""
    with opened(settings) as service:
        service.store.remove_account(_account_at(service, args.email).id)
    return 0


@command(_EMAIL, argument("name", metavar="NAME", help="a label for the key"),
         argument("--network", action="append", default=[], metavar="CIDR",
                  help="a network that the key is accepted from (repeatable); anywhere without it"))
def key_add(settings: Settings, args: argparse.Namespace) -> int:
    """Make an API key, and print it."""
    networks = read_networks(args.network, "--network")
    with opened(settings) as service:
        print(service.store.add_key(_account_at(service, args.email).id, read_label(args.name), networks).secret)
    return 0


@command(_EMAIL, _JSON)
def key_list(settings: Settings, args: argparse.Namespace) -> int:
    """List an account's keys: name, networks, last use. Not their secrets."""
    with opened(settings) as service:
        return _print_rows([{"name": key.name, "networks": " ".join(key.networks),
                             "used_at": key.used_at and timestamp(key.used_at)}
                            for key in service.store.keys(_account_at(service, args.email).id)], args.json)


@command(_EMAIL, argument("name", metavar="NAME"))
def key_remove(settings: Settings, args: argparse.Namespace) -> int:
    """Remove an API key, which is refused from then on."""
    with opened(settings) as service:
        if not service.store.remove_key(_account_at(service, args.email).id, args.name):
            raise CommandError(f"{args.email} has no key {args.name}")
    return 0


def _project_in(providers: Mapping[str, Provider], args: argparse.Namespace) -> tuple[Provider, str, str]:
    """``(provider, name, key)`` of the project that the arguments name. Raises CommandError, Invalid."""
    if args.provider and args.provider not in providers:
        raise CommandError(f"there is no provider {args.provider}; there are {', '.join(providers)}; --provider adds "
                           "one")
    if args.provider is None and args.name in providers:
        raise CommandError(f"{args.name} is a provider; the name of a project is missing behind it, such as "
                           f"{providers[args.name].example or providers[args.name].dialect.form}")
    return project_at(providers, args.provider, args.name)


_PROVIDER = argument("provider", metavar="PROVIDER", nargs="?",
                     help="a provider's id, such as github; not needed where NAME is an address")
_NAME = argument("name", metavar="NAME", help="as the provider spells it, such as bottlepy/bottle; or the address of "
                                              "the project's page, or a purl")


@command(_EMAIL, _PROVIDER, _NAME)
def project_add(settings: Settings, args: argparse.Namespace) -> int:
    """Track a project for an account, check it, and print its id."""
    with opened(settings) as service:
        account = _account_at(service, args.email)
        provider, name, key = _project_in(service.providers, args)
        project, source = service.store.add_project(account.id, provider.id, key, name, {})
        service.tracker.check_now(source.id)
        after = service.store.source(source.id)
        if after and after.missing_since and after.succeeded_at is None:
            service.store.remove_project(project.id)
            raise CommandError(after.error or "there is no such project")
        if not service.store.project(account.id, project.id):
            raise CommandError(f"{name} is another name of a project that {account.email} tracks already")
        if after and after.error:
            _complain(f"added, and tried again later: {after.error}")
        print(project.id)
    return 0


@command(_EMAIL, _JSON)
def project_list(settings: Settings, args: argparse.Namespace) -> int:
    """List an account's projects, and how the checks of each go.

    Provider, name, id, last check, last success, next check, quota left, since when it is missing, what is wrong.
    """
    with opened(settings) as service:
        account = _account_at(service, args.email)
        rows = []
        for page in itertools.count(1):
            projects, total = service.store.projects(account.id, "name", False, page=page)
            for project in projects:
                health = project.health.as_json()
                if project.provider not in service.providers:
                    health["error"] = unknown_provider(project.provider)
                rows.append({"provider": project.provider, "name": project.name, "id": project.id} | {
                    name: health.get(name) for name in ("checked_at", "succeeded_at", "next_check_at", "quota_left")
                } | {"missing_since": health.get("missing_since") if project.health.is_missing else None,
                     "error": health.get("error")})
            if page >= total:
                return _print_rows(rows, args.json)
    return 0


@command(_EMAIL, _PROVIDER, _NAME)
def project_remove(settings: Settings, args: argparse.Namespace) -> int:
    """Track a project no more."""
    with opened(settings) as service:
        account, id_, key = _account_at(service, args.email), args.provider, args.name
        if id_ is None or id_ in service.providers:     # else one that is not known any more
            provider, _, key = _project_in(service.providers, args)
            id_ = provider.id
        found = service.store.project_by_names(account.id, id_, [key])
        if found is None:
            raise CommandError(f"{args.email} does not track {args.name} of {id_}")
        service.store.remove_project(found[0].id)
    return 0


_KIND = argument("kind", metavar="KIND", choices=list(KINDS), help=f"one of {', '.join(KINDS)}")
_DESTINATION_NAME = argument("name", metavar="NAME", help="what it is called")
_SET = argument("--set", action="append", default=[], metavar="SETTING=VALUE", dest="given",
                help="a setting of its kind (repeatable); 'destination kinds' lists them")
_SELECTION = (
    argument("--schedule", choices=SCHEDULES, help="when it is told: at once, or by an hourly, daily or weekly digest"),
    argument("--only-listed", action="store_const", const=False, dest="is_for_every_project",
             help="only of projects that list it"),
    argument("--tag", action="append", metavar="TAG", help="only of projects that have one of these tags (repeatable)"),
    argument("--without-tag", action="append", metavar="TAG", help="not of those that have one of these (repeatable)"),
    argument("--security-only", action="store_const", const=True, dest="is_security_only",
             help="only of releases that name a CVE"))


def _given_settings(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What --set says, as names and texts. Raises CommandError."""
    pairs = [line.partition("=") for line in args.given]
    for name, equals, _ in pairs:
        if not equals:
            raise CommandError(f"--set {name[:60]!r}: it takes SETTING=VALUE")
    return [(name, text) for name, _, text in pairs]


def _selection(service: Service, account: Account, args: argparse.Namespace) -> dict[str, Any]:
    """The fields of a destination that the arguments of ``_SELECTION`` set. Raises CommandError."""
    found = {name: getattr(args, name) for name in ("schedule", "is_for_every_project", "is_security_only")
             if getattr(args, name, None) is not None}
    if args.schedule not in (None, "instant") and args.kind in ("webhook", "email"):
        raise CommandError("--schedule: a webhook is told at once" if args.kind == "webhook" else
                           "--schedule: mail goes by each project's email_notification")
    tags = {tag.name.lower(): tag.id for tag in service.store.tags(account.id)}
    for field, names in (("tags", args.tag), ("without_tags", args.without_tag)):
        for name in names or ():
            if name and name.lower() not in tags:
                raise CommandError(f"there is no tag {name}; there are {', '.join(sorted(tags)) or 'none yet'}; POST "
                                   "/v1/tags makes one")
        if names is not None:
            found[field] = tuple(tags[name.lower()] for name in names if name)
    return found


def _judged(service: Service, account: Account, destination: Destination) -> Destination:
    """The destination, if its address may be sent to. Raises CommandError."""
    if reason := address_fault(service.fetcher, account, destination):
        raise CommandError(f"{destination.kind} {destination.name}: {reason}")
    return destination


def _destination_at(service: Service, account: Account, kind: str, name: str) -> Destination:
    found = service.store.destinations(account.id, kind, name)
    if not found:
        names = ", ".join(one.name for one in service.store.destinations(account.id, kind)) or "none yet"
        raise CommandError(f"{account.email} has no {kind} {name}; there are {names}")
    return found[0]


def _add_destination(service: Service, account: Account, kind: str, name: str, given: Sequence[tuple[str, str]],
                     **about: Any) -> Destination:
    secret = make_signing_secret() if kind == "webhook" else ""
    destination = Destination("", account.id, kind, read_label(name),
                              read_settings(kind, given, service.settings.brand), secret, **about)
    _judged(service, account, destination)
    if kind == "email" and not service.settings.smtp_url:
        _complain("there is no mail server yet; --smtp-url names one")
    return service.store.add_destination(account.id, kind, destination.name, destination.settings, secret, **about)


@command(_EMAIL, _KIND, _DESTINATION_NAME, _SET, *_SELECTION)
def destination_add(settings: Settings, args: argparse.Namespace) -> int:
    """Make a destination that hears of every project unless told otherwise, and print its id.

    Of a webhook the signing secret is printed. 'destination test' without a name tries settings before.
    """
    with opened(settings) as service:
        account = _account_at(service, args.email)
        made = _add_destination(service, account, args.kind, args.name, _given_settings(args),
                                **_selection(service, account, args))
        print(made.secret or made.id)
    return 0


@command(_EMAIL, _KIND, _DESTINATION_NAME, _SET, *_SELECTION,
         argument("--rename", metavar="NAME", help="what it is called from now on"),
         argument("--every-project", action="store_const", const=True, dest="is_for_every_project",
                  help="of every project again"),
         argument("--all-releases", action="store_const", const=False, dest="is_security_only",
                  help="of all releases again"))
def destination_change(settings: Settings, args: argparse.Namespace) -> int:
    """Change a destination; what is not named stays. --set SETTING= and --tag '' take a setting or the tags away."""
    with opened(settings) as service:
        account = _account_at(service, args.email)
        before = _destination_at(service, account, args.kind, args.name)
        given, about = _given_settings(args), _selection(service, account, args)
        if not given and not about and args.rename is None:
            raise SettingError("destination change takes what is to change, such as --schedule daily")
        service.store.update_destination(_judged(service, account, dataclasses.replace(
            before, name=before.name if args.rename is None else read_label(args.rename),
            settings=changed_settings(before, given, settings.brand), **about)))
    return 0


def _destination_row(service: Service, destination: Destination, as_json: bool) -> dict[str, Any]:
    tags = {tag.id: tag.name for tag in service.store.tags(destination.account_id)}
    asks, about = {ask.name: ask for ask in KINDS[destination.kind].asks}, shown_settings(destination)
    row: dict[str, Any] = {
           "kind": destination.kind, "name": destination.name, "id": destination.id,
           "schedule": "by project" if destination.kind == "email" else destination.schedule,
           "is_for_every_project": destination.is_for_every_project,
           "tags": [tags[id_] for id_ in destination.tags],
           "without_tags": [tags[id_] for id_ in destination.without_tags],
           "is_security_only": destination.is_security_only}
    if as_json:
        return row | {"settings": {
            name: [text for other, text in about if other == name] if asks[name].kept_as else value
            for name, value in about}}
    return {name: row[name] for name in ("kind", "name", "schedule", "id")} | {
        "scope": scope_of(destination, tags), "settings": " ".join(f"{name}={text}" for name, text in about)}


@command(_EMAIL, _JSON)
def destination_list(settings: Settings, args: argparse.Namespace) -> int:
    """List an account's destinations: kind, name, schedule, id, of what it hears, settings without secrets."""
    with opened(settings) as service:
        account = _account_at(service, args.email)
        return _print_rows([_destination_row(service, one, args.json)
                            for one in service.store.destinations(account.id)], args.json)


@command(_JSON)
def destination_kinds(settings: Settings, args: argparse.Namespace) -> int:
    """List the kinds of destination and what each asks for: kind, setting, default or 'required', what it is."""
    return _print_rows([{"kind": id_, "setting": ask.name,
                         "default": "required" if ask.default is None and not ask.kept_as else ask.default,
                         "about": ask.about} for id_, kind in KINDS.items() for ask in kind.asks], args.json)


@command(_EMAIL, _KIND, argument("name", metavar="NAME", nargs="?", help="of one that there is; --set tries other "
                                                                         "settings, also without it"), _SET,
         argument("--data", action="append", default=[], metavar="NAME=VALUE",
                  help="what the message says (repeatable), in the names of a webhook's variables: project, version, "
                       "cve, note_message and so on"))
def destination_test(settings: Settings, args: argparse.Namespace) -> int:
    """Send a test message, and print what was sent and what was answered; secrets are masked. It enters no journal."""
    with opened(settings) as service:
        account = _account_at(service, args.email)
        if args.name:
            destination = _destination_at(service, account, args.kind, args.name)
            destination = dataclasses.replace(destination, settings=changed_settings(
                destination, _given_settings(args), settings.brand))
        else:
            secret = make_signing_secret() if args.kind == "webhook" else ""
            destination = Destination(make_id(), account.id, args.kind, "test", read_settings(
                args.kind, _given_settings(args), settings.brand), secret)
        body, url = sample(args.data, account)
        sent, answer, error = service.courier.try_out(_judged(service, account, destination), account, body, url)
        request, reply = shown_exchange(destination, sent, answer)
        print(_printable(request + (f"\n\n-- {reply}" if reply else ""), "\n"))
        if error:
            raise CommandError(f"{args.kind} {destination.name}: {masked(error, destination)}")
    return 0


@command(_EMAIL, _KIND, _DESTINATION_NAME)
def destination_remove(settings: Settings, args: argparse.Namespace) -> int:
    """Remove a destination, with its deliveries."""
    with opened(settings) as service:
        destination = _destination_at(service, _account_at(service, args.email), args.kind, args.name)
        if widened := service.store.remove_destination(destination.id):
            _complain(f"these projects listed it alone, and tell every {args.kind} destination now that is for every "
                      f"project: {', '.join(widened)}")
    return 0


@command(_EMAIL, argument("name", metavar="NAME", help="a label for the webhook"),
         argument("url", metavar="URL", help="where it is sent"),
         argument("--header", action="append", default=[], metavar="'K: V'",
                  help="a header of every request (repeatable)"),
         argument("--field", action="append", default=[], metavar="'K=TEMPLATE'",
                  help="a field of a custom body (repeatable); the standard body without it"))
def webhook_add(settings: Settings, args: argparse.Namespace) -> int:
    """Make a webhook that hears of every project, and print its signing secret."""
    with opened(settings) as service:
        account = _account_at(service, args.email)
        given = [("url", args.url), *(("header", line) for line in args.header),
                 *(("field", line) for line in args.field)]
        print(_add_destination(service, account, "webhook", args.name, given).secret)
    return 0


@command(_EMAIL, _JSON)
def webhook_list(settings: Settings, args: argparse.Namespace) -> int:
    """List an account's webhooks: name, URL, id. Not their secrets."""
    with opened(settings) as service:
        return _print_rows([{"name": one.name, "url": one.settings["url"], "id": one.id} for one in
                            service.store.destinations(_account_at(service, args.email).id, "webhook")], args.json)


@command(_EMAIL, argument("name", metavar="NAME"),
         argument("--renew", action="store_true", help="make a new one; the old one signs too for 24 hours"))
def webhook_secret(settings: Settings, args: argparse.Namespace) -> int:
    """Print the secret that a webhook's requests are signed with."""
    with opened(settings) as service:
        destination = _destination_at(service, _account_at(service, args.email), "webhook", args.name)
        if args.renew and (destination.previous_until or 0.0) > time.time():
            _complain("it was renewed within 24 hours already; the secret before that one signs no more")
        print(service.store.renew_secret(destination.id) if args.renew else destination.secret)
    return 0


@command(_EMAIL, argument("name", metavar="NAME"))
def webhook_remove(settings: Settings, args: argparse.Namespace) -> int:
    """Remove a webhook, with its deliveries."""
    args.kind = "webhook"
    return destination_remove(settings, args)


def _count(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r} will not do; it takes a whole number from 1 to 999999")
    return int(text)


def _instant(text: str) -> float:
    """Of an argument: a time, a day, or so many hours or days ago."""
    if match := re.fullmatch(r"([0-9]{1,4})([mhd])", text):
        return time.time() - int(match[1]) * {"m": MINUTE, "h": HOUR, "d": DAY}[match[2]]
    with contextlib.suppress(ValueError):
        at = datetime.datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
        return (at if at.tzinfo else at.replace(tzinfo=datetime.timezone.utc)).timestamp()
    raise argparse.ArgumentTypeError(f"{text!r} will not do; it takes a time such as 2026-01-31T08:00:00Z, a day such "
                                     "as 2026-01-31, or 30m, 24h or 7d for so long ago")


def _end(text: str) -> float:
    """Of an argument: as ``_instant``, but a day ends at its end."""
    return _instant(text) + DAY * bool(re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII))


_RANGE = (
    argument("--destination", nargs=2, metavar=("KIND", "NAME"), help="of this destination"),
    argument("--since", type=_instant, default=0.0, metavar="TIME", help="made since: a time in UTC, or 24h or 7d ago"),
    argument("--until", type=_end, default=math.inf, metavar="TIME", help="and until, a day being included"))


def _range(service: Service, account: Account, args: argparse.Namespace) -> dict[str, Any]:
    """What the arguments of ``_RANGE`` say to the journal."""
    found: dict[str, Any] = {"since": args.since, "until": args.until}
    if args.destination:
        kind, name = args.destination
        if kind not in KINDS:
            raise CommandError(f"--destination: there is no kind {kind}; there are {', '.join(KINDS)}")
        found["destination_id"] = _destination_at(service, account, kind, name).id
    return found


@command(_EMAIL, *_RANGE,
         argument("--project", nargs=2, metavar=("PROVIDER", "NAME"), help="of this project"),
         argument("--state", choices=("pending", "delivered", "failed", "skipped"), help="in this state"),
         argument("--limit", type=_count, default=50, metavar="N", help="so many at most (default 50)"), _JSON)
def deliveries_list(settings: Settings, args: argparse.Namespace) -> int:
    """List an account's deliveries of 30 days, newest first.

    Id, when it was made, state, when it is tried next, attempts, kind and name of the destination, provider, project,
    version - or failing or recovered, of a project whose checks fail -, last error.
    """
    with opened(settings) as service:
        account = _account_at(service, args.email)
        about = _range(service, account, args)
        if args.project:
            args.provider, args.name = args.project
            provider, name, key = _project_in(service.providers, args)
            found = service.store.project_by_names(account.id, provider.id, [key])
            if found is None:
                raise CommandError(f"{args.email} does not track {name} of {provider.id}")
            about["project_id"] = found[0].id
        entries = service.store.journal(account.id, state=args.state, limit=args.limit, **about)
        names = list(Entry.__dataclass_fields__) if args.json else [
            "id", "created_at", "state", "next_attempt_at", "attempts", "kind", "destination", "provider", "project",
            "version", "error"]
        return _print_rows([{name: row["event"] if name == "version" and not row[name] else row[name] for name in names}
                            for row in (entry.as_json() for entry in entries)], args.json)


def _entry_at(service: Service, account: Account, id_: str) -> Entry:
    found = service.store.journal(account.id, delivery_id=id_)
    if not found:
        raise CommandError(f"{account.email} has no delivery {id_}; 'deliveries list' shows those of 30 days")
    return found[0]


@command(_EMAIL, argument("id", metavar="ID"), _JSON)
def deliveries_show(settings: Settings, args: argparse.Namespace) -> int:
    """Show a delivery: what it tells, and each attempt with what was answered."""
    with opened(settings) as service:
        entry = _entry_at(service, _account_at(service, args.email), args.id).as_json()
        body, url = service.store.event_of(args.id) or ({}, "")
        attempts = [attempt.as_json() for attempt in service.store.attempts(args.id)]
        if args.json:
            print(json.dumps(entry | {"body": body, "url": url, "attempts": attempts}, ensure_ascii=False, indent=2))
            return 0
        for name, value in (entry | {"body": json.dumps(body, ensure_ascii=False), "url": url}).items():
            if value not in (None, ""):
                print(name, _printable(str(value)), sep="\t")
        return _print_rows([{"": "attempt"} | attempt for attempt in attempts], False)


@command(_EMAIL, argument("id", metavar="ID", nargs="?", help="of one delivery, with what was sent together with it"),
         argument("--failed", action="store_true", help="all of --destination that have failed, for good or so far"),
         *_RANGE)
def deliveries_resend(settings: Settings, args: argparse.Namespace) -> int:
    """Send deliveries again, under the ids that they had, and print how many; their attempts stay in the journal."""
    with opened(settings) as service:
        account = _account_at(service, args.email)
        is_ranged = bool(args.destination) or (args.since, args.until) != (0.0, math.inf)
        if bool(args.id) is args.failed or args.failed and not args.destination or args.id and is_ranged:
            raise SettingError("deliveries resend takes the ID of one, or --failed with --destination KIND NAME")
        if args.id:
            entry = _entry_at(service, account, args.id)
            count = service.store.resend(account.id, delivery_id=entry.id)
            if not count:
                raise CommandError(f"{entry.id} is not sent again: it is being sent, or due only at "
                                   f"{timestamp(entry.next_attempt_at)}")
        else:
            count = service.store.resend(account.id, **_range(service, account, args))
        print(count)
    return 0


@command(_PROVIDER, _NAME, _JSON)
def fetch(settings: Settings, args: argparse.Namespace) -> int:
    """Print what a provider has of a project, newest first. Touches no store."""
    provider, name, _ = _project_in(providers_with(settings.provider), args)
    listing = releases_of(provider, name, Fetcher(settings).fetch, os.environ.get(provider.token_variable))
    assert listing      # nothing was asked conditionally
    rows: list[dict[str, Any]] = [
            {"version": release.version, "date": release.date, "is_prerelease": release.is_prerelease,
             "cve": list(release.cve),
             "note": (release.note or Note("", "", page_of(provider, name, release.version))).as_json()}
            for release in listing.releases]
    if not args.json:
        rows = [{"date": row["date"], "version": row["version"],
                 "marks": " ".join(["pre-release"] * row["is_prerelease"] + row["cve"])} for row in rows]
    return _print_rows(rows, args.json)


@command(_JSON)
def providers_(settings: Settings, args: argparse.Namespace) -> int:
    """List the providers, what a project is called there, and where a token is taken from.

    Id, form of a name, an example, the token's environment variable, dialect, address.
    """
    dialects = {dialect.read: name for name, dialect in DIALECTS.items()}
    return _print_rows([
        {"id": provider.id, "form": provider.dialect.form, "example": provider.example or None,
         "token_variable": provider.token_variable if provider.takes_token else None,
         "dialect": dialects.get(provider.dialect.read), "site": provider.site}
        for provider in providers_with(settings.provider).values()], args.json)


def _not_now(service: Service, source: Source, is_named: bool) -> str | None:
    """Why a source is not to be checked: it is not known here, or its host asked to wait and nobody insists."""
    if source.provider not in service.providers:
        return unknown_provider(source.provider)
    was_put_off = bool(source.error) and not source.failures and source.next_check_at > time.time()
    return source.error if was_put_off and not is_named else None


def _sent(service: Service) -> Iterator[tuple[Delivery, Outcome]]:
    """What is sent of what is due, and of what is sent again a little apart."""
    while True:
        yield from service.courier.send_due()
        if service.store.seconds_until_due(time.time(), DAY) > 2 * RESENT_EVERY:
            break
        time.sleep(RESENT_EVERY)


@command(argument("email", metavar="EMAIL", nargs="?", help="this account's projects; all without it"),
         argument("provider", metavar="PROVIDER", nargs="?"), argument("name", metavar="NAME", nargs="?"),
         argument("--send", action="store_true", help="and send the notifications that are due"))
def check(settings: Settings, args: argparse.Namespace) -> int:
    """Check projects now and say what is new; for cron, where no serve runs."""
    with opened(settings) as service:
        account = _account_at(service, args.email) if args.email else None
        sources = service.store.sources(account.id if account else None)
        if args.provider in service.providers and not args.name:
            raise SettingError("PROVIDER takes a NAME behind it")
        if args.provider and not args.name:     # then it is an address
            args.provider, args.name = None, args.provider
        if args.name:
            provider, name, key = _project_in(service.providers, args)
            sources = [source for source in sources if (source.provider, source.key) == (provider.id, key)]
            if not sources:
                raise CommandError(f"{args.email} does not track {name} of {provider.id}")
        status = 0
        for at, source in enumerate(sources, 1):
            if sys.stderr.isatty():
                print(f"\r\x1b[K{at}/{len(sources)} {source.provider} {source.name}", end="", file=sys.stderr)
            if reason := _not_now(service, source, bool(args.name)):
                status = 1
                _complain(f"{source.provider} {source.name}: {reason}")
                continue
            found = service.tracker.check_now(source.id)
            if sys.stderr.isatty():
                print("\r\x1b[K", end="", file=sys.stderr)
            if found is None:
                _complain(f"{source.provider} {source.name}: is being checked by another process")
                continue
            after, news = found
            if after.error:
                status = 1
                _complain(f"{source.provider} {source.name}: {after.error}")
            for release in news:
                print(source.provider, source.name, release.version,
                      "updated" if release.is_updated else "new", sep="\t")
        for delivery, attempt in _sent(service) if args.send else ():
            if attempt.error:
                status = 1
                what = " ".join((delivery.body["project"], delivery.body.get("version", delivery.kind)))
                _complain(f"{delivery.destination.kind} {delivery.destination.name}: {what}: {attempt.error}"
                          + "; it is tried again later" * (attempt.state == "pending"))
        return status


def _check_copy(db: str, path: str) -> None:
    """Raise CommandError for a place that a copy must not take: the store's own, or what is no copy."""
    if any(os.path.exists(path) and os.path.exists(own) and os.path.samefile(path, own)
           for own in (db, f"{db}-wal", f"{db}-shm")):
        raise CommandError(f"{path} is the store itself; name another file")
    if os.path.isfile(path) and os.path.getsize(path):
        with open(path, "rb") as old:
            if not old.read(16).startswith(b"SQLite format 3"):
                raise CommandError(f"{path} is no older copy of a store, so it is not replaced; name another file")


@command(argument("file", metavar="FILE", help="where the copy goes; an older one there is replaced"))
def backup(settings: Settings, args: argparse.Namespace) -> int:
    """Make a consistent copy of the store, while it is in use."""
    def progress(_status: int, left: int, total: int) -> None:
        print(f"\r{100 * (total - left) // max(total, 1)} %", end="" if left else "\n", file=sys.stderr)

    with opened(settings) as service:
        try:
            _check_copy(settings.db, args.file)
            service.store.backup(args.file, progress if sys.stderr.isatty() else None)
        except (OSError, sqlite3.Error) as error:
            raise CommandError(f"{args.file}: the copy could not be written: "
                               f"{getattr(error, 'strerror', None) or error}") from None
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        self.exit(2, f"releasetrack: {message}; {self.prog} --help says what it takes\n")


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line: COMMANDS and SETTINGS as subcommands and flags."""
    parser = _Parser(prog="releasetrack.py", description="Know when the software you depend on is released.")
    parser.add_argument("--version", action="version", version=f"releasetrack {__version__}")
    groups: dict[str, Any] = {"": parser.add_subparsers(metavar="COMMAND", required=True)}
    for words, (function, arguments) in COMMANDS.items():
        group, _, name = words.rpartition(" ")
        if group not in groups:
            members = [other.partition(" ")[2] for other in COMMANDS if other.startswith(f"{group} ")]
            plural = group if group.endswith("s") else f"{group}s"
            member = groups[""].add_parser(group, help=f"{plural}: {', '.join(members)}")
            groups[group] = member.add_subparsers(metavar="COMMAND", required=True)
        about = (function.__doc__ or "").strip()
        sub = groups[group].add_parser(name, help=about.split("\n")[0], description=about)
        sub.set_defaults(function=function)
        for names, options in arguments:
            sub.add_argument(*names, **options)
        settings = sub.add_argument_group("settings", "each also an environment variable: "
                                          + variable_of(SETTINGS["db"]) + " and so on")
        for row in SETTINGS.values():
            if function is serve or not row.metadata["serving"]:
                default = "" if row.default in ((), "") else f" (default {row.default:g})" if isinstance(
                    row.default, float) else f" (default {row.default})"
                settings.add_argument(flag_of(row), metavar=row.metadata["shape"], dest=f"setting {row.name}",
                                      action="append" if row.metadata["repeatable"] else "store",
                                      help=(row.metadata["about"] + default).replace("%", "%%"))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    args = make_parser().parse_args(argv)
    try:
        if any("\udc80" <= letter <= "\udcff" for word in argv or sys.argv[1:] for letter in word):
            raise SettingError("an argument is not UTF-8")
        flags = {name: getattr(args, f"setting {name}", None) for name in SETTINGS}
        settings = Settings.from_outside(flags, os.environ)
        logging.basicConfig(level=settings.log_level.upper(), stream=sys.stderr,
                            format="%(asctime)s %(levelname)s %(message)s")
        if args.function is not serve and settings.log_level == "info":
            log.setLevel(logging.ERROR)     # what a command has to say, it prints
        return args.function(settings, args)
    except SettingError as error:
        _complain(error)
        return 2
    except ReleasetrackError as error:
        _complain(error)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
