# Runs a laboratory: python examples/labs NAME [--quick | --larger] [--out FOLDER] [--page]; without a name, says which there are.
import sys
from collections.abc import Sequence
from importlib import import_module

import laboratory

# The folder of each script that has a `lab()`; the other laboratories' pages say what runs them.
FOLDERS = {
    "brackets": "brackets",
    "bracket_walks": "brackets",
    "testcases": "testcases",
    "testcase_steps": "testcases",
    "testcase_walks": "testcases",
    "topics": "topics",
    "dyck": "dyck",
    "dyck_weight": "dyck",
    "heads": "dyck",
    "decoders": "decoding",
    "sudokus": "decoding",
    "nine": "decoding",
    "characters": "decoding",
    "statements": "statements",
    "reactions": "reactions",
}


def usage() -> str:
    """What may be run, with the first line of each script."""
    lines = ["usage: python examples/labs NAME [OPTIONS]"]
    for name, folder in FOLDERS.items():
        with (laboratory.LABS / folder / f"{name}.py").open(encoding="utf-8") as script:
            lines.append(f"  {name:16}{script.readline().removeprefix('# ').strip()}")
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    name, *options = words or ["--help"]
    if name in ("-h", "--help"):
        print(usage())
        return 0
    if name not in FOLDERS:
        print(f"there is no laboratory {name!r}\n{usage()}", file=sys.stderr)
        return 2
    sys.path.insert(0, str(laboratory.LABS / FOLDERS[name]))  # programs name classes and verifiers beside them
    return laboratory.main(import_module(name).lab(), options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
