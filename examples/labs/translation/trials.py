# Short trainings that differ in one choice, scored on the validation text: students, and teachers.
#
#   gmlm pipeline examples/translator/tiny.gmlm TEXT.. --out RUN     makes the teacher and its translations, once
#   python examples/labs/translation/trials.py students RUN TRIALS         trains and scores every student, those that are done are kept
#   python examples/labs/translation/trials.py teachers RUN TRIALS
#   python examples/labs/translation/trials.py students RUN TRIALS --list  prints the commands, and runs none
#   python examples/labs/translation/trials.py students RUN TRIALS --only student --only student-keeps-half --seed 0 --lines 500
#   python examples/labs/translation/page.py students TRIALS               keeps the logs and the scores, and writes their table
#
# Nothing here looks at the test text. A trial that was killed goes on: `gmlm train` does so by itself.
import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "translator" / "choices.gmlm"
STUDENTS = {  # what each trains on, and its options beside the common ones
    "student-random-start": ("distilled", "--mask corrupt"),
    "student": ("distilled", "--mask corrupt --from {run}/teacher.bundle"),
    "student-keeps-half": ("distilled", "--mask half --from {run}/teacher.bundle"),
    "student-two-stages": ("distilled", "--mask two_stages --from {run}/teacher.bundle"),
    "student-any-rate": ("distilled", "--mask any_rate --from {run}/teacher.bundle"),
    "student-raw-text": ("clean", "--mask corrupt --from {run}/teacher.bundle"),
    "student-adam": ("distilled", "--mask corrupt --from {run}/teacher.bundle --optimizer adam --learning-rate 0.002"),
    "student-smoothing": ("distilled", "--mask corrupt --from {run}/teacher.bundle --label-smoothing 0.1"),
    "student-ema": ("distilled", "--mask corrupt --from {run}/teacher.bundle --ema 0.99"),
}
TEACHERS = {
    "teacher": ("clean", ""),
    "teacher-adam": ("clean", "--optimizer adam --learning-rate 0.002"),
    "teacher-smoothing": ("clean", "--label-smoothing 0.1"),
    "teacher-dropout": ("clean", "--input dropout=0.3"),
    "teacher-2000-pieces": ("clean", "--input source_vocab=2000 --input target_vocab=2000"),
    "teacher-ema": ("clean", "--ema 0.99"),
    "teacher-peak-0.003": ("clean", "--learning-rate 0.003"),
    "teacher-peak-0.01": ("clean", "--learning-rate 0.01"),
}
COMMON = "--batch-size 64 --bucket 24 --bucket 64 --save-every 50 --evaluate-every 100"


def commands(
    what: str, run: Path, out: Path, steps: int, seed: int, only: list[str] | None = None, lines: int | None = None
) -> Iterator[tuple[Path, list[str], list[str]]]:
    """For each trial the file of its scores, the training, and the scoring, of the first lines of the validation text."""
    model, trials = ("translate", STUDENTS) if what == "students" else ("teacher", TEACHERS)
    if unknown := sorted(set(only or ()) - set(trials)):
        sys.exit(f"no trial of {what} is called {', '.join(unknown)}; there are {', '.join(trials)}")
    validation = [str(run / f"text/validation.{side}") for side in ("source", "target")]
    for name, (text, options) in trials.items():
        if only and name not in only:
            continue
        label = f"{name}-seed{seed}"
        train = ["gmlm", "train", str(PROGRAM), *(str(run / f"{text}/train.{side}") for side in ("source", "target"))]
        train += ["--model", model, "--out", str(out / label), *COMMON.split(), "--steps", str(steps), "--seed", str(seed)]
        for path in validation:
            train += ["--validation", path]
        own = [word.format(run=run) for word in options.split()]
        if "--from" not in own and not any(word.startswith("source_vocab") for word in own):
            own += ["--vocabulary", str(run / "vocabulary.model")]
        score = [
            "gmlm",
            "evaluate",
            str(out / label / f"{model}.bundle"),
            *validation,
            "--json",
            *([] if lines is None else ["--limit", str(lines)]),
        ]
        yield out / f"{label}.json", [*train, *own], score


def main(
    what: str, run: Path, out: Path, steps: int, seeds: list[int], listed: bool, only: list[str] | None = None, lines: int | None = None
) -> None:
    """Train and score what is not scored yet.

    The folder keeps what its trials have in common: scores of other steps or lines would stand beside these without a word.
    """
    common = {"what": what, "steps": steps, "lines": lines}
    kept = out / "trials.common"
    if not listed:
        out.mkdir(parents=True, exist_ok=True)
        if kept.exists() and (found := json.loads(kept.read_text(encoding="utf-8"))) != common:
            sys.exit(f"{out} holds trials of {found}, and these are of {common}: give another folder")
        kept.write_text(json.dumps(common), encoding="utf-8")
    for seed in seeds:
        for scores, train, score in commands(what, run, out, steps, seed, only, lines):
            if listed:
                print(f"{shlex.join(train)}\n{shlex.join(score)} > {shlex.quote(str(scores))}")
            elif not scores.exists():
                print(f"{scores.stem} ..", flush=True)
                for command in (train, score):
                    done = subprocess.run([sys.executable, "-m", "gmlmdsl", *command[1:]], stdout=subprocess.PIPE, text=True, check=False)
                    if done.returncode:
                        sys.exit(done.returncode)
                part = scores.with_suffix(".part")  # whole, or not there
                part.write_text(done.stdout, encoding="utf-8")
                part.replace(scores)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Trials of students or teachers, each scored on the validation text.")
    parser.add_argument("what", choices=("students", "teachers"))
    parser.add_argument("run", type=Path, help="the folder of `gmlm pipeline`")
    parser.add_argument("out", type=Path, help="the folder of the trials")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, action="append", help="may be repeated; 0, 1 and 2 by default")
    parser.add_argument("--only", action="append", metavar="TRIAL", help="may be repeated; all by default")
    parser.add_argument("--lines", type=int, metavar="N", help="score the first N lines of the validation text; all by default")
    parser.add_argument("--list", action="store_true", dest="listed", help="print the commands, and run none")
    o = parser.parse_args()
    try:
        main(o.what, o.run, o.out, o.steps, o.seed or [0, 1, 2], o.listed, o.only, o.lines)
    except BrokenPipeError:  # who reads the list, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
