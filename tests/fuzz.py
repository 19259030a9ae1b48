"""Coverage-guided fuzzing of everything that is read: programs, data, models of other tools, saved fits, bundles, checkpoints.

    pip install atheris
    PYTHONPATH=. python tests/fuzz.py [TARGET ..] [--minutes 60] [--corpus .fuzz]

Each target runs in a process of its own, with the inputs that earlier runs kept. An input fails if it ends in another error than the
language's own, takes more than SECONDS, or more than MEBIBYTES: libFuzzer then writes it into the folder of the target, beside the corpus,
and the status is 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS, MEBIBYTES, LONGEST = 20, 6000, 1000  # LONGEST: characters of the programs to begin with
Run = Callable[[bytes], None]
Target = Callable[[Path], tuple[Run, dict[str, bytes]]]  # from a folder: one input's run, and the inputs to begin with


def quietly(read: Callable[[Path], Any], path: Path) -> Run:
    """Write the input to a file and read it; the language's errors are an answer."""
    import gmlmdsl as gm

    def run(data: bytes) -> None:
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                read(path)
            except gm.GmlmError as error:
                str(error)

    return run


def programs(folder: Path) -> tuple[Run, dict[str, bytes]]:
    """Check, load, mend, format and explain a text."""
    from damaged_programs import passed
    from mutants import programs, wrong_programs

    def run(data: bytes) -> None:
        found = passed("fuzz", data.decode("utf-8", "replace"))
        assert not found.failed, found.failed

    texts = {**programs(), **wrong_programs()}
    return run, {name: text.encode() for name, text in texts.items() if len(text) < LONGEST}


def data(folder: Path, endings: tuple[str, ...]) -> tuple[Run, dict[str, bytes]]:
    """Read files of some kinds: the first byte says which."""
    from sound_files import models_of_files, readers, sound_files

    models = models_of_files()
    files = {k: v for k, v in sound_files(models, folder).items() if k.endswith(endings)}
    names = sorted(files)
    doors = [[quietly(read, folder / f"in-{name}") for read in readers(models, name)] for name in names]

    def run(data: bytes) -> None:
        for door in doors[data[0] % len(doors)] if data else ():
            door(data[1:])

    return run, {name: bytes([k]) + files[name] for k, name in enumerate(names)}


def models(folder: Path) -> tuple[Run, dict[str, bytes]]:
    """Read models of other tools; what is read must be a program without errors."""
    from exchange_cases import ASIA, ODD

    import gmlmdsl as gm
    from gmlmdsl._diagnostics import Source
    from gmlmdsl.program import check_source

    sys.path.insert(0, str(Path(__file__).parent / "exchange"))
    from test_bqm import BQM, COO
    from test_potts import GOOD, LINES
    from test_uai import BAYES, RING
    from test_xmlbif import DTD, SPRINKLER

    texts = {"asia": ASIA, "odd": ODD, "xml": DTD + SPRINKLER, "markov": RING, "bayes": BAYES, "coo": COO, "json": json.dumps(BQM)}
    texts["potts"] = "\n".join(LINES)
    seeds = {name: text.encode() for name, text in texts.items()} | {"plmc": GOOD}
    return quietly(lambda path: check_source(Source("a", gm.read_model(path).text)), folder / "in.txt"), seeds


def bundles(folder: Path) -> tuple[Run, dict[str, bytes]]:
    """Read a translator's file."""
    from bundle_cases import bytes_of, fit_of, toy_vocabulary

    from gmlmdsl.translation import Bundle, read_bundle

    bundle = Bundle.of(fit_of(), toy_vocabulary())
    return quietly(read_bundle, folder / "in.bundle"), {"bundle": bytes_of(bundle, folder)}


TARGETS: dict[str, Target] = {
    "programs": programs,
    "tables": lambda folder: data(folder, (".csv", ".tsv", ".txt", ".gz")),
    "alignments": lambda folder: data(folder, (".a2m", ".a3m", ".fasta", ".sto")),
    "arrays": lambda folder: data(folder, (".npy", ".npz")),
    "fits": lambda folder: data(folder, (".fit",)),
    "models": models,
    "bundles": bundles,
}


def fuzz(name: str, corpus: Path, seconds: int) -> None:
    """Run one target until its time is over, in this process."""
    import atheris

    with tempfile.TemporaryDirectory() as folder:
        corpus.mkdir(parents=True, exist_ok=True)
        with atheris.instrument_imports(include=["gmlmdsl"]):
            run, seeds = TARGETS[name](Path(folder))
            for k, seed in enumerate(seeds.values()):
                (corpus / f"seed-{k}").write_bytes(seed)
                run(seed)  # modules that are imported late are instrumented too
        longest = 2 * max(map(len, seeds.values()))
        options = [f"-max_total_time={seconds}", f"-timeout={SECONDS}", f"-rss_limit_mb={MEBIBYTES}", f"-max_len={longest}"]
        atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={corpus.parent}/{name}-", "-print_final_stats=1", str(corpus)], run)
        atheris.Fuzz()


def main() -> int:
    """Run the targets one after another; 1 if an input failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--corpus", type=Path, default=Path(".fuzz"))
    parser.add_argument("--alone", action="store_true", help="run the one target in this process")
    options = parser.parse_args()
    names, seconds = options.targets or list(TARGETS), round(60 * options.minutes)
    if unknown := set(names) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    if options.alone:
        fuzz(names[0], (options.corpus / names[0]).resolve(), seconds)
        return 0
    words = ["--alone", "--minutes", str(options.minutes), "--corpus", str(options.corpus)]
    ended = {name: subprocess.run([sys.executable, __file__, name, *words], check=False).returncode for name in names}
    print({name: "passed" if code == 0 else f"status {code}" for name, code in ended.items()})
    return int(any(ended.values()))


if __name__ == "__main__":
    sys.exit(main())
