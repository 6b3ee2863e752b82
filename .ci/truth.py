#!/usr/bin/env python3
"""Whether what releasetrack.py says of foreign data is true: ``python .ci/truth.py [-v] DIR...``.

A DIR holds cases with right answers, each kind in a file of its own (KINDS); a kind that no DIR holds is left
out. The cases go through the functions that a check uses, without a network.

One line a kind: how many cases have which outcome. The exit status is 1 if a kind has fewer right answers, or
more of an outcome that is a lie, than its row in KINDS says. ``-v`` names the cases that are not right.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import json
import pathlib
import re
import sys
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import releasetrack as rt  # noqa: E402

# The rules, and a provider, by the scheme that a case names.
RULES = {
    "alpine": rt.GENERIC,
    "composer": rt.EXACT,
    "conda": rt.CONDA,
    "cran": rt.EXACT,
    "debian": rt.DEBIAN,
    "docker": rt.IMAGES,
    "forge": rt.GENERIC,
    "gem": rt.GEM,
    "generic": rt.GENERIC,
    "github": rt.GENERIC,
    "hackage": rt.EXACT,
    "image": rt.IMAGES,
    "maven": rt.MAVEN,
    "nuget": rt.NUGET,
    "oci registry": rt.IMAGES,
    "package": rt.GENERIC,
    "pep440": rt.PEP440,
    "perl": rt.PERL,
    "portage": rt.GENERIC,
    "pub": rt.SEMVER,
    "rpm": rt.GENERIC,
    "semver": rt.SEMVER,
}
PROVIDERS = {
    "composer": "packagist",
    "conda": "conda",
    "cran": "cran",
    "debian": "debian",
    "docker": "dockerhub",
    "gem": "gems",
    "hackage": "hackage",
    "image": "dockerhub",
    "maven": "maven",
    "nuget": "nuget",
    "oci registry": "dockerhub",
    "pep440": "pypi",
    "perl": "cpan",
    "pub": "pub",
    "semver": "npm",
}
OSV_RULES = {"PyPI": rt.PEP440, "crates.io": rt.SEMVER, "Go": rt.SEMVER}
SAME_DAY = "2026-01-01T10:00:00Z"  # of tags without dates
NOW = rt.instant_of("2026-11-28T00:00:00Z")

# What comes of a case, and what the case is called.
Outcome = tuple[str, str]


class Tag(NamedTuple):
    name: str
    date: str | None = None
    digest: str | None = None


class Case(NamedTuple):
    folder: pathlib.Path
    document: Any  # the file that the kind names
    expected: Any


def installation_of(
    scheme: str, tags: Iterable[Tag], installed: str, *, name: str = "a/x", digest: str = ""
) -> rt.Installation:
    """What the program says of an installed version, once a check has listed those tags."""
    rules = RULES[scheme]
    provider = rt.PROVIDERS[PROVIDERS.get(scheme, "github")]
    provider = dataclasses.replace(
        provider, dialect=dataclasses.replace(provider.dialect, versions=rules)
    )
    listed = [
        rt.make_release(tag.name, tag.date or SAME_DAY, content=("digest", tag.digest))
        for tag in tags
        if not (rules.is_image and rt.is_left_out(tag.name, [installed]))
    ]
    cleaned = rt.clean_releases(provider, name, listed)
    listing = rt.Listing(sorted(cleaned, key=lambda release: release.date or "", reverse=True))
    known, _ = rt.compare({}, listing, NOW, rules.of(name))
    project = dataclasses.replace(
        rt.Project.blank("a", provider.id, name),
        installed=(rt.Installation("", installed, digest),),
    )
    return rt.apply_rules(project, known, rules, ()).project.installed[0]


def pick_outcome(
    said: rt.Installation, newest: str | None, accepted: Collection[str | None]
) -> str:
    """How an answer compares with what is right; "silent" is the worst: an update of which nobody hears."""
    if newest is None:
        if said.state == "behind":
            return "right" if said.newest in accepted else "wrong"
        return "false doubt" if said.state == "unsure" and None not in accepted else "right"
    if said.state == "behind":
        if said.newest == newest or said.newest in accepted:
            return "right"
        # An older one is offered, and the right one is asked about.
        return "half" if said.may_follow in {newest, *accepted} else "wrong"
    if None in accepted and said.state in ("current", "unknown"):
        return "right"
    return "silent" if said.state == "current" else "unsure"


# ---- one function for each kind of cases
def picks(data: Any, has_dates: bool) -> Iterator[Outcome]:
    for case in data["cases"]:
        if "doubt" in case:
            continue
        dates = data["lists"][case["list"]]
        tags = [Tag(name, date if has_dates else None) for name, date in dates.items()]
        said = installation_of(case["scheme"], tags, case["installed"], name=case["list"])
        outcome = pick_outcome(said, case["newest"], case["accept"])
        yield (
            outcome,
            f"{case['list']} {case['installed']}: {said.state} {said.newest or said.may_follow}, "
            f"not {case['newest']}",
        )


def picks_with_dates(data: Any) -> Iterator[Outcome]:
    return picks(data, True)


def picks_without_dates(data: Any) -> Iterator[Outcome]:
    return picks(data, False)


def prereleases_as_of(data: Any) -> Iterator[Outcome]:
    for case in data:
        for situation in case["situations"]:
            day, installed = situation["day"], situation["installed"]
            tags = [Tag(name, date) for name, date in case["first_seen"].items() if date <= day]
            said = installation_of("docker", tags, installed, name=case["list"])
            yield (
                "wrong" if said.newest in situation["must_not"] else "right",
                f"{case['list']} on {day}: {installed} is offered {said.newest}",
            )


def orders(data: Any) -> Iterator[Outcome]:
    for case in data:
        lower, higher = map(RULES[case["scheme"]].order, case["ascending"])
        yield "right" if lower < higher else "wrong", f"{case['scheme']} {case['ascending']}"


def marks(data: Any) -> Iterator[Outcome]:
    for case in data:
        mark = RULES[case["scheme"]].is_prerelease(case["version"])
        yield (
            "right" if mark == case["is_prerelease"] else "wrong",
            f"{case['scheme']} {case['version']}: {mark}",
        )


def image_pairs(data: Any) -> Iterator[Outcome]:
    cases = [case for case in data if "doubt" not in case]
    tags = collections.defaultdict[str, list[str]](list)
    for case in cases:
        tags[case["image"]].append(case["tag"])
    for case in cases:
        image, release = case["image"], case["release"]
        releases = sorted({*case["among"], release}, key=rt.version_order, reverse=True)
        names = (image.split("/", 1)[1], case["name"])
        same = rt.same_releases(tags[image], releases, names).get(case["tag"], "")
        outcome = "right" if same == release else "wrong" if same else "none"
        yield outcome, f"{image}:{case['tag']} is {same}, not {release}"


def with_latest(cycles: list[list[Any]], cases: list[Any]) -> list[list[Any]]:
    """The cycles with the newest version of each, which endoflife.date answers, too.

    A case is the newest version of a cycle, in the order of the cycles; a cycle may have no case.
    """
    known, position = [], 0
    for name, day, has_ended in cycles:
        latest = ""
        ends = day or ("ended" if has_ended else "")
        if position < len(cases) and cases[position]["eol"] == ends:
            latest = cases[position]["version"]
            position += 1
        known.append([name, day, has_ended, latest])
    return known


def end_of_life(data: Any) -> Iterator[Outcome]:
    now = rt.instant_of(data["now"] + "T12:00:00")
    cases = collections.defaultdict[str, list[Any]](list)
    for case in data["cases"]:
        cases[case["product"]].append(case)
    for product, of_product in cases.items():
        cycles = with_latest(data["products"][product]["cycles"], of_product)
        rules = rt.IMAGES.of(product)
        for case in of_product:
            day, _ = rt.end_of_life(case["version"], rules, cycles, now)
            outcome = "right" if day == case["eol"] else "wrong" if day else "none"
            yield outcome, f"{product} {case['version']}: {day!r}, not {case['eol']!r}"


def osv_fixed_in(data: Any) -> Iterator[Outcome]:
    for case in data:
        ecosystem = case["ecosystem"]
        record = rt.trimmed_record({"id": case["record"], "affected": case["affected"]})
        query = (ecosystem, case["name"], case["version"])
        fixed = sorted({*rt._fixed_in(record, query, OSV_RULES[ecosystem].order)})
        yield (
            "right" if fixed == case["fixed_in"] else "wrong",
            f"{case['record']} {query}: {fixed}, not {case['fixed_in']}",
        )


def osv_go_majors(data: Any) -> Iterator[Outcome]:
    go = rt.PROVIDERS["go"]
    for case in data:
        asked = rt.osv_queries(go, case["project"], case["version"])
        yield (
            "right" if asked and asked[0][1] == case["module"] else "wrong",
            f"{case['project']} {case['version']} is asked for as {asked}",
        )


def name_after_a_check(provider: rt.Provider, case: Any) -> str:
    """How a project is called after a check, if its provider spells it as OSV does: that is given here, not seen."""
    name, _ = rt.name_at(provider, case["typed"])
    where = rt.ProjectRef(provider.id, provider.site, name, None, {}, dict, {})
    spelled = case["osv_name"].removeprefix(f"{provider.site.partition('://')[2]}/")
    if provider.dialect.read in (rt.nuget, rt.cargo):
        return rt._as_answered(where, [spelled]) or name
    return rt._spelled(where, [f"{provider.site}/{spelled}/releases/tag/v1"]) or name


def osv_names(data: Any) -> Iterator[Outcome]:
    for case in data:
        provider = rt.PROVIDERS[case["provider"]]
        name = name_after_a_check(provider, case)
        asked = rt.osv_queries(provider, name, case.get("version", "v1.0"))
        yield (
            "right" if case["osv_name"] in [query[1] for query in asked] else "wrong",
            f"{case['provider']} {case['typed']} is asked for as {asked}",
        )


def small_lists(data: Any) -> Iterator[Outcome]:
    """Small lists of tags without dates; a case may say that none of a major version but one is right."""
    for case in data:
        tags = [Tag(name) for name in case["tags"]]
        said = installation_of(case["scheme"], tags, case["installed"])
        outcome = pick_outcome(said, case["newest"], case.get("accept", ()))
        if said.newest in case["must_not"]:
            outcome = "wrong"
        if outcome == "right" and said.state == "behind" and case.get("line"):
            outcome = "right" if said.line == case["line"] else "wrong line"
        yield outcome, f"{case['id']} {case['installed']}: {said.state} {said.newest}"


def whole_lists(data: Any) -> Iterator[Outcome]:
    for image in data:
        tags = [Tag(name) for name in image["tags"]]
        for case in image["cases"]:
            said = installation_of("docker", tags, case["installed"], name=image["image"])
            yield (
                pick_outcome(said, case["newest"], case.get("accept", ())),
                f"{image['image']} {case['installed']}: {said.state} "
                f"{said.newest or said.may_follow}, not {case['newest']}",
            )


def dated_lists(data: Any) -> Iterator[Outcome]:
    """Lists with dates, some with digests. What must be said is a state, or "anything but" one."""
    for folder, case, expected in data:
        tags = [Tag(*tag) for tag in case["tags"]]
        said = installation_of(case["kind"], tags, case["installed"], digest=case.get("digest", ""))
        is_right = said.state not in expected["must_not"]
        if expected["newest"]:
            is_right = is_right and said.newest == expected["newest"]
        yield (
            "right" if is_right else "silent" if said.state == "current" else "wrong",
            f"{folder.name}: {said.state} {said.newest or said.may_follow}",
        )


# Files of a case that is about something else than what stands in a folder.
NO_SCAN = ("answer.json", "case.json", "challenge.txt", "product.json", "user.txt")


def container_pins(folder: pathlib.Path) -> list[rt.Pin]:
    """What an engine's recorded answers say."""
    images = json.loads((folder / "images.json").read_text("utf-8"))
    containers = json.loads((folder / "containers.json").read_text("utf-8"))

    def ask(path: str) -> rt.Answer:
        last = urllib.parse.unquote(path.rpartition("/images/")[2]).removesuffix("/json")
        body = containers if "/containers/" in path else images.get(last, {})
        return rt.Answer(path, 200, {"api-version": "1.48"}, json.dumps(body).encode())

    return [pin for pin in rt.pins_of_containers(ask) if pin]


def rows_of(folder: pathlib.Path, helper: rt.Helper) -> list[rt.ScanRow]:
    """What the program finds in a folder of a case; of what is typed there, the project."""
    if (folder / "typed.txt").exists():
        typed = (folder / "typed.txt").read_text("utf-8").strip()
        provider, name, key = rt.project_at(rt.PROVIDERS, None, typed, is_typed=True)
        return [rt.ScanRow(rt.Pin(name), "", provider, name, key, "", "")]
    if (folder / "containers.json").exists():
        found = [("", pin) for pin in container_pins(folder)]
    else:
        found = rt.scan_files([str(folder)], helper, lambda _: None, {})
    return rt.scan_rows(rt.PROVIDERS, {}, found)


def is_expected(row: rt.ScanRow, expected: Mapping[str, Any]) -> bool:
    """Whether a row is what a case expects: a project, as a rule with its version."""
    project = expected["project"]
    if project and " " in project:  # in words: "a Forgejo at HOST: OWNER/NAME"
        is_project = row.provider is not None and project.rpartition(" ")[2] in row.name
    elif project:
        is_project = project in (f"{row.provider and row.provider.id}/{row.name}", row.pin.name)
    else:
        is_project = row.provider is None and row.name == expected["name"]
    facts = {
        "version": "" if row.pin.version == "latest" else row.pin.version,
        "digest": row.pin.digest,
        "service": row.pin.service,
        "label": row.pin.label,
        "direct": row.pin.is_direct,
        "tags": row.pin.options.get("tags"),
    }
    wanted = {name: expected[name] for name in facts.keys() & expected.keys()}
    for name, value in wanted.items():
        if value in (None, "latest"):  # as Docker takes an image without a tag
            wanted[name] = ""
    if "options" in expected and not row.pin.options:
        return False
    return is_project and all(facts[name] == value for name, value in wanted.items())


def is_forbidden(row: rt.ScanRow, text: str) -> bool:
    """Whether a row has a project, a name or a version that must not be read."""
    project = f"{row.provider and row.provider.id}/{row.name}"
    texts = (project, f"{project} {row.pin.version}", row.name, row.pin.version)
    return text in texts or (not re.search(r"\w", text) and text in row.pin.version)


def scanned_folders(data: Any) -> Iterator[Outcome]:
    """Folders with files of all kinds, and what a scan must read in them."""
    with contextlib.closing(rt.Helper()) as helper:
        for case in data:
            expected = [
                entry
                for entry in case.expected.get("contains", [])
                if isinstance(entry, dict) and "project" in entry
            ]
            forbidden = case.expected.get("must_not_be_read", [])
            is_scan = not any((case.folder / name).exists() for name in NO_SCAN)
            if not is_scan or not (expected or forbidden):
                continue
            rows = rows_of(case.folder, helper)
            missing = [
                entry
                for entry in expected
                if not entry.get("optional") and not any(is_expected(row, entry) for row in rows)
            ]
            wrong = [text for text in forbidden if any(is_forbidden(row, text) for row in rows)]
            outcome = "wrong" if wrong else "missing" if missing else "right"
            yield outcome, f"{case.folder.name}: {wrong or missing}"


class Kind(NamedTuple):
    file: str
    outcomes: Callable[[Any], Iterator[Outcome]]
    least_right: int
    most: Mapping[str, int]  # of another outcome; of what is not named any number


KINDS = (
    Kind("picks.json", picks_with_dates, 1202, {"silent": 0, "wrong": 0}),
    Kind("picks.json", picks_without_dates, 1171, {"silent": 0, "wrong": 20, "false doubt": 2}),
    Kind("prereleases-as-of.json", prereleases_as_of, 14, {"wrong": 1}),
    Kind("orders.json", orders, 173, {}),
    Kind("marks.json", marks, 137, {}),
    Kind("image-pairs.json", image_pairs, 606, {"wrong": 0}),
    Kind("endoflife.json", end_of_life, 1545, {"wrong": 1}),
    Kind("osv-fixed-in.json", osv_fixed_in, 316, {}),
    Kind("osv-go-majors.json", osv_go_majors, 91, {}),
    Kind("osv-names.json", osv_names, 7, {}),
    Kind("tags.json", small_lists, 26, {}),
    Kind("images.json", whole_lists, 190, {"silent": 0}),
    Kind("files/*/expect.json", scanned_folders, 22, {"wrong": 0}),
    Kind("*/expect.json", scanned_folders, 13, {"wrong": 0}),
    Kind("tag-*/case.json", dated_lists, 11, {}),
)


def read_cases(folders: Iterable[pathlib.Path], pattern: str) -> Any:
    """What a kind's function takes; None where no folder holds such a file."""
    paths = [path for folder in folders for path in sorted(folder.glob(pattern))]
    if not paths:
        return None
    if "*" not in pattern:
        return json.loads(paths[0].read_text("utf-8"))
    cases = []
    for path in paths:
        expected = json.loads((path.parent / "expect.json").read_text("utf-8"))
        cases.append(Case(path.parent, json.loads(path.read_text("utf-8")), expected))
    return cases


def faults(kind: Kind, counts: Mapping[str, int]) -> Iterator[str]:
    """How a kind's figures are worse than they were."""
    if counts["right"] < kind.least_right:
        yield f"at least {kind.least_right} have to be right"
    for outcome, most in kind.most.items():
        if counts[outcome] > most:
            yield f"at most {most} may be {outcome}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", metavar="DIR", type=pathlib.Path, nargs="+")
    parser.add_argument("-v", "--verbose", action="store_true", help="name what is not right")
    arguments = parser.parse_args()
    status, has_cases = 0, False
    for kind in KINDS:
        data = read_cases(arguments.folders, kind.file)
        if data is None:
            continue
        has_cases = True
        outcomes = list(kind.outcomes(data))
        counts = collections.Counter(outcome for outcome, _ in outcomes)
        wrong = list(faults(kind, counts))
        status |= bool(wrong)
        others = "".join(
            f", {count} {outcome}" for outcome, count in counts.most_common() if outcome != "right"
        )
        title = kind.outcomes.__name__.replace("_", " ")
        verdict = f"  FAILS: {'; '.join(wrong)}" if wrong else ""
        print(f"{title}: {counts['right']} of {len(outcomes)} right{others}{verdict}", flush=True)
        if arguments.verbose:
            for outcome, what in outcomes:
                if outcome != "right":
                    print(f"    {outcome}: {what}")
    if not has_cases:
        parser.error("there are no cases in these folders")
    return status


if __name__ == "__main__":
    sys.exit(main())
