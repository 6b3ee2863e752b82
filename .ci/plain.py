"""Checks rooms of releasetrack.py by ruff's rules for plain code: usage: plain.py RUFF MODULE TESTS

The rules are those of .ci/plain.toml. What stands in a room that the tests name in NOT_PLAIN_YET is left out.
"""

import ast
import json
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent


def rooms_of(source: str) -> list[tuple[int, str]]:
    """``(first line, name)`` of each room, the last one first."""
    lines = enumerate(source.splitlines(), 1)
    doors = [(number, line.split()[2]) for number, line in lines if line.startswith("# == ")]
    return doors[::-1]


def unfinished_in(tests: str) -> set[str]:
    """The rooms that NOT_PLAIN_YET names."""
    for node in ast.parse(tests).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "NOT_PLAIN_YET":
            return set(ast.literal_eval(node.value))
    raise SystemExit("plain.py: the tests have no NOT_PLAIN_YET")


def main() -> int:
    ruff, module, tests = sys.argv[1:]
    source = pathlib.Path(module).read_text("utf-8")
    rooms = rooms_of(source)
    unfinished = unfinished_in(pathlib.Path(tests).read_text("utf-8"))
    command = [
        ruff,
        "check",
        "--config",
        str(FOLDER / "plain.toml"),
        "--output-format",
        "json",
        module,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    breaches = 0
    for finding in json.loads(done.stdout):
        line = finding["location"]["row"]
        room = next((name for first, name in rooms if first <= line), "settings")
        if room not in unfinished:
            breaches += 1
            print(f"{module}:{line}: {finding['code']} {finding['message']} (room {room})")
    print(f"plain code: {len(rooms) - len(unfinished)} of {len(rooms)} rooms, {breaches} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
