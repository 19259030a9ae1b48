"""The page on translation says what the kept reports hold."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("translation_page", ROOT / "examples" / "labs" / "translation" / "page.py")
assert spec is not None
assert spec.loader is not None
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)

NAMES = sorted(p.name for p in script.KEPT.iterdir()) if script.KEPT.exists() else []


def test_every_table_is_that_of_its_report() -> None:
    text = script.PAGE.read_text(encoding="utf-8")
    assert NAMES
    assert script.page(text) == text
    assert all(f"<!-- run: {name} " in text for name in NAMES)


@pytest.mark.parametrize("path", [p for n in NAMES if n in script.COMPARED for p in sorted((script.KEPT / n).glob("*.json"))])
def test_evaluations_are_numbers_without_text(path: Path) -> None:
    for scores in json.loads(path.read_text(encoding="utf-8")).values():
        assert not {"outputs", "examples"} & set(scores)


def test_only_one_log_of_a_training_is_kept(tmp_path: Path) -> None:
    for name in ("teacher", "translate"):
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "a" / f"{name}.jsonl").write_text('{"step": 1, "validation_loss": 1}\n')
    with pytest.raises(SystemExit, match="2 logs"):
        script.keep_compared("rates", tmp_path)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in script.COMPARED])
def test_no_translated_text_is_kept(name: str) -> None:
    report = json.loads((script.KEPT / name / "report.json").read_text(encoding="utf-8"))
    assert not set(script.LEFT_OUT) & set(report)
    assert "evaluation" not in {p.name for p in (script.KEPT / name).iterdir()}


def test_trials_are_compared_at_the_same_seed(tmp_path: Path) -> None:
    """Seeds 0 to 2 have plain scores 10, 20, 30, and another trial that is 1, 2, 3 better: 2 on average, with t of two degrees at 97.5 %."""
    for name, more in (("student", 0), ("student-keeps-half", 1)):
        for seed in range(3):
            scores = {"refine": {"scores": [{"name": "BLEU 13a", "value": 10 * (seed + 1) + more * (seed + 1)}]}}
            (tmp_path / f"{name}-seed{seed}.json").write_text(json.dumps(scores))
    plain, other = script.over_seeds(tmp_path, "student").splitlines()[2:]
    assert plain == "| student | 3 | 20.00 |"
    assert other == f"| student-keeps-half | 3 | 22.00 (+2.00 ± {4.302653 / 3**0.5:.2f}) |"


def test_passes_of_another_candidate_are_left_out() -> None:
    """Of a score of 2 those that end with 2 are its own."""
    own = {"scores": [{"value": 2.0}], "passes": {"2": 3}, "sentences": 4}
    ends = {"student.refine": 2.0, "student.refine-reranked": 1.5}
    scored = {
        k: own | {"by_pass": [{"number": n, "bleu": b, "stutter": 0.0} for n, b in ((1, 1.0), (2, last))]} for k, last in ends.items()
    }
    rows = script.passes({"scores": scored}).splitlines()[2:]
    assert rows == ["| student, `refine` | 1 | 1.00 | 0.00 | 0 % |", "| student, `refine` | 2 | 2.00 | 0.00 | 75 % |"]


@pytest.mark.parametrize(
    ("quantity", "heads", "low", "high", "verdict"),
    [
        ("self-attention to next", "min", -0.2, -0.1, "agree"),
        ("self-attention to previous", "max", 0.1, 0.2, "disagree"),
        ("previous in top 2", "share", -0.1, 0.1, "not testable here"),
        ("cross-attention total variation", "mean", -0.2, -0.1, "agree"),
        ("cross-attention cosine distance", "min", 0.1, 0.2, "disagree"),
        ("cross-attention top 1 overlap", "share", 0.1, 0.2, "agree"),
        ("cross-attention top 2 overlap", "share", -0.2, -0.1, "disagree"),
        ("cross-attention top 2 overlap", "share", -0.1, 0.1, "not testable here"),
    ],
)
def test_a_verdict_on_a_hypothesis_is_that_of_its_interval(quantity: str, heads: str, low: float, high: float, verdict: str) -> None:
    """Hypothesis 1 is found not to hold, Hypothesis 2 to hold: a verdict is of what the paper finds."""
    kinds = [
        {"quantity": quantity, "heads": heads, "pairs": p, "mean": 0.5, "low": low, "high": high}
        for p in ("stutter", "other", "difference")
    ]
    (row,) = script.hypotheses({"attention": {"student.a": {"adjacent": kinds}, "teacher.b": {"adjacent": kinds}}}).splitlines()[2:]
    assert row.startswith(f"| {2 if quantity.startswith('cross') else 1} | {quantity}")
    assert row.endswith(f" | {verdict} |")
