#!/usr/bin/env python3
"""What releasetrack.py reads in recorded answers of real services: ``python .ci/recordings.py DIR``.

DIR holds <provider>/<case>/{request.json,response.json,body,expect.json} and replay.py, which answers
them on loopback. Each case is asked for as a poll asks, and what comes out is compared with its
expect.json. Images are read twice, the second time from a registry that wants a token fetched first.

One line a case: "ok", "not asked for" and why, or what differs. The exit status is 1 if anything
differs; so does a case that no dialect asks for, unless it stands in NOT_ASKED_FOR.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import html
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import releasetrack  # noqa: E402

# The dialect that reads a folder's cases, where it is called otherwise.
DIALECTS = {
    "cpan": "metacpan",
    "crates": "cargo",
    "gitea": "forgejo",
    "go": "goproxy",
    "pypi": "simple",
}
# What may have a date where expect.json knows none: of these the list is not all that is asked for, and the lines of
# a crates index have got a "pubtime", in the recorded one too.
DATED_ELSEWHERE = ("cargo", "goproxy", "maven", "oci")

_API = "the public index's API is asked only for the dates of what the index lists, and that was not recorded"
_PAGE = "a page for people; the dialect reads the feed, which was not recorded"
_LEGACY = "the form before the one that the dialect reads"
NOT_ASKED_FOR = {
    "cpan/plack-file-search": "a search over files; the dialect asks for a distribution's versions",
    "cpan/dpkg-release-search": "a search over releases; the dialect asks for a distribution's versions",
    "crates/itoa-versions": _API,
    "crates/parameters-lib": _API,
    "crates/xdg": _API,
    "github/moved-permanently": "it leads to where nothing was recorded",
    "hackage/biobase-html": _PAGE,
    "hackage/blockfrost-client-html": _PAGE,
    "hackage/settei-preferred": "which versions are preferred; the dialect reads the feed",
    "maven/plexus-dir-listing-html": "read beside the artifact's metadata, which was not recorded",
    "nuget/service-index": "names no project; the other cases are found through it",
    "packagist/php-code-coverage-old": _LEGACY,
    "packagist/php-timer-old": _LEGACY,
    "packagist/psr-log-old": _LEGACY,
    "pypi/chai-legacy-json": _LEGACY,
    "pypi/nltk-legacy-json-yanked": _LEGACY,
}
# One release alone where the dialect asks for all: what its path ends in instead, and what goes around the answer.
ALONE = {
    "artifacthub/kube-prometheus-stack-74.0.0": ("/kube-prometheus-stack", b"%s"),
    "cpan/dpkg-release": ("/release/versions/Dpkg", b'{"releases": [%s]}'),
    "github/github3py-release-by-tag-body-html": ("/releases", b"[%s]"),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A recorded answer."""

    id: str  # provider/case, as DIR has it
    url_path: str  # with the query
    paths: frozenset[str]  # below its site, without queries and percent-encoding
    expect: Mapping[str, Any]

    @property
    def folder(self) -> str:
        return self.id.partition("/")[0]

    @property
    def dialect(self) -> str:
        return DIALECTS.get(self.folder, self.folder)

    @property
    def refusal(self) -> type[releasetrack.ProviderError] | None:
        """What reading it raises, if it holds no list: an error, or a step that leads to none."""
        if self.expect["count"] is not None or self.expect["contains"]:
            return None
        is_throttling = self.expect.get("error") == "rate_limit"
        other = releasetrack.Throttled if is_throttling else releasetrack.ProviderError
        return releasetrack.ProjectMissing if self.expect["not_found"] else other

    @property
    def token(self) -> str | None:
        """GitHub's REST is asked with a token alone; without one its feeds are."""
        return "any" if self.folder == "github" and not self.url_path.endswith(".atom") else None


def read_cases(folder: pathlib.Path) -> Iterator[Case]:
    """Every case under a folder, sorted by id."""
    for about in sorted(folder.glob("*/*/request.json")):
        request = json.loads(about.read_text("utf-8"))
        urls = (request["url_path"], *request.get("aliases", ()))
        yield Case(
            f"{about.parent.parent.name}/{about.parent.name}",
            request["url_path"],
            frozenset(unquote(urlsplit(url).path) for url in urls),
            json.loads((about.parent / "expect.json").read_text("utf-8")),
        )


@contextlib.contextmanager
def replaying(folder: pathlib.Path, *flags: str) -> Iterator[str]:
    """The address at which the folder's replay.py answers."""
    command = (
        sys.executable,
        str(folder / "replay.py"),
        str(folder),
        "--port",
        "0",
        "--quiet",
        "--loose",
        "--rewrite-bodies",
        *flags,
    )
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout
        try:
            yield json.loads(process.stdout.readline() or "{}").get("listening") or sys.exit(
                "replay.py does not run"
            )
        finally:
            process.terminate()


class Asker:
    """Asks a replay for one case: what a dialect asks is taken to where the case's answer stands."""

    def __init__(self, case: Case, base: str, recorded: frozenset[str]) -> None:
        self.is_answered = False  # with the case's own answer
        self._case, self._base, self._recorded = case, base, recorded
        self._fetch = releasetrack.Fetcher(
            releasetrack.Settings()
        ).fetch  # which remembers throttled hosts

    def ask(self, request: releasetrack.Request) -> releasetrack.Answer:
        if not request.url.startswith(f"{self._base}/"):
            raise RuntimeError(f"it asks elsewhere: {request.url}")
        url = (
            request.url
            if "/api/v3/" in self._case.url_path
            else request.url.replace("/api/v3/", "/", 1)
        )
        path = unquote(urlsplit(url.removeprefix(self._base)).path)
        tail, frame = ALONE.get(self._case.id, ("", b"%s"))
        # An answer that refuses may meet any request but one that has an answer of its own.
        if path.endswith(tail) if tail else bool(self._case.refusal) and path not in self._recorded:
            self.is_answered = True
            answer = self._fetch(
                dataclasses.replace(request, url=f"{self._base}{self._case.url_path}")
            )
            return dataclasses.replace(answer, body=frame.replace(b"%s", answer.body))
        self.is_answered |= path in self._case.paths
        return self._fetch(dataclasses.replace(request, url=url))


def plain(markup: str) -> str:
    """A text without markup and white space."""
    return "".join(html.unescape(re.sub(r"<[^<>]*>", "", markup)).split())


def wrong_with(
    release: releasetrack.Release, fact: Mapping[str, Any], is_dated_elsewhere: bool
) -> Iterator[str]:
    """What a release has otherwise than the case says."""
    date = re.sub(r"\.[0-9]+", "", release.date or "") or None
    dates = [one for one in (fact["date"], *fact.get("date_also", ())) if one]
    if date not in (dates or [None]) and (dates or not is_dated_elsewhere):
        yield f"its date is {date}, not {' or '.join(dates) or 'unknown'}"
    if fact["prerelease"] not in (None, release.is_prerelease):
        yield (
            "it is a pre-release here alone"
            if release.is_prerelease
            else "it is no pre-release here"
        )
    note = release.note or releasetrack.Note("", "", "")
    if "".join((fact["note_has"] or "").split()) not in plain(note.message):
        yield f"its note does not say {fact['note_has']!r} but {note.message[:100]!r}"
    if fact["note_title"] not in (None, note.title):
        yield f"its title is {note.title!r}, not {fact['note_title']!r}"


def judged(case: Case, listing: releasetrack.Listing) -> Iterator[str]:
    """Where a listing is not what another project's own test asserts of the same answer."""
    judge = case.expect.get("judge") or {}
    found = {  # as the store would have them
        release.version: releasetrack.Release(**vars(release)) for release in listing.releases
    }
    rules = releasetrack.DIALECTS[case.dialect].versions
    if "versions" in judge and set(found) != set(judge["versions"]):
        yield f"it lists {', '.join(found)}, not {', '.join(judge['versions'])}"
    yield from (
        f"{version} is missing" for version in judge.get("subset", ()) if version not in found
    )
    yield from (f"{version} is listed" for version in judge.get("absent", ()) if version in found)
    yield from (
        f"{one} is not below {other}"
        for one, other in judge.get("next", ())
        if rules.order(one) >= rules.order(other)
    )
    if "latest_stable" in judge:
        places = releasetrack.ranked_places(found, rules)
        if (latest := max(places, key=places.__getitem__)) != judge["latest_stable"]:
            yield f"the latest is {latest}, not {judge['latest_stable']}"


def differences(case: Case, listing: releasetrack.Listing) -> Iterator[str]:
    """Where a listing is not what the case says."""
    found = {release.version: release for release in listing.releases}
    if case.expect["count"] == 0 and found:
        yield f"it lists {', '.join(found)}, and there is nothing"
    yield from judged(case, listing)
    for fact in case.expect["contains"]:
        version = fact["version"].partition("+")[0] if case.folder == "nuget" else fact["version"]
        is_withdrawn = (
            any(map(fact.get, ("yanked", "retired", "retracted"))) or fact.get("listed") is False
        )
        if is_withdrawn == (version in found):
            yield f"{version} is withdrawn, but listed" if is_withdrawn else f"{version} is missing"
        elif not is_withdrawn:
            wrong = wrong_with(found[version], fact, case.dialect in DATED_ELSEWHERE)
            yield from (f"{version}: {what}" for what in wrong)


def outcome(case: Case, base: str, recorded: frozenset[str]) -> str:
    """How reading one case went, in words that begin with "ok" if it went well. ``recorded``: its folder's paths."""
    asker, site = Asker(case, base, recorded), base + "/maven2" * (case.dialect == "maven")
    id_ = (
        "pypi" if case.dialect == "depsdev" else case.dialect
    )  # by which deps.dev knows the registry
    project = "any/any" if case.expect["project"] == "any" else case.expect["project"]
    found: list[str] = []
    try:
        row = releasetrack.providers_with([(id_, case.dialect, site)])[id_]
        listing = releasetrack.releases_of(
            row, releasetrack.name_at(row, project)[0], asker.ask, case.token
        )
        assert listing  # nothing was known before, so something is new
        said = f"{len(listing.releases)} listed"
        found = (
            ["it is read as a list, and is none"]
            if case.refusal
            else list(differences(case, listing))
        )
    except releasetrack.ProviderError as error:
        said = f"{type(error).__name__}: {error}"
        found = [said] * (type(error) is not case.refusal)
    except Exception as error:  # a fault of the program's, and this is where such are looked for
        found, said = [f"no ProviderError but {error!r}"], ""
    return "; ".join(found + ["nothing asks for it"] * (not asker.is_answered)) or f"ok, {said}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="DIR", type=pathlib.Path)
    folder = parser.parse_args().folder
    cases = list(read_cases(folder))
    if not cases:
        parser.error(f"there are no recorded answers in {folder}")
    images = [case for case in cases if case.folder == "oci" and case.url_path.startswith("/v2/")]
    counts = collections.Counter[str]()
    for flags, wanted in (((), cases), (("--token-dance",), images)):
        with replaying(folder, *flags) as here:
            for case in wanted:
                # What one case tells the address of, and the replay's own token, stand at plain paths.
                base = here if flags or case.folder == "nuget" else f"{here}/{case.id}"
                recorded = frozenset().union(
                    *(one.paths for one in cases if one.folder == case.folder)
                )
                why = NOT_ASKED_FOR.get(case.id)
                said = f"not asked for: {why}" if why else outcome(case, base, recorded)
                counts[
                    "not asked for" if why else "ok" if re.match(r"ok\b", said) else "differ"
                ] += 1
                print(f"{' '.join((case.id, *flags))}: {said}", flush=True)
    print(", ".join(f"{counts[word]} {word}" for word in ("ok", "not asked for", "differ")))
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
