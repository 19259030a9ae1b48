"""How good translations are, in the field's measures, each with what makes it comparable.

BLEU (Papineni et al. 2002), chrF++ (Popović 2017) and TER (Snover et al. 2006) are SacreBLEU's
(Post 2018), and come with its signature: figures under other signatures are other measures. Stutter
(Li et al. 2024, Section 3.3) is how often a word repeats the one before where the reference does
not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._diagnostics import counted, fail, known
from .._optional import need
from ..decode import stutter_counts

RESAMPLES = 1000  # of the sentences, for intervals
SEED = 12345  # SacreBLEU's
# language -> tokeniser
WITHOUT_SPACES = {"zh": "zh", "ja": "char", "th": "char", "lo": "char", "km": "char", "my": "char"}


@dataclass(frozen=True)
class Score:
    """One measure of all sentences.

    Attributes:
        name: of the measure.
        value: the measure; nan where it has no meaning.
        signature: how it was computed: SacreBLEU's signature, or the definition in words.
        interval: 95 % of resampled sets of sentences lie between; None where it is not resampled.
    """

    name: str
    value: float
    signature: str
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Scores:
    """The measures of a set of translations.

    Attributes:
        sentences: how many translations.
        words: of the translations, split at white space.
        scores: BLEU by tokeniser, chrF++, TER, stutter, length ratio and BLEU's brevity penalty,
            and the learnt measure if there is one.
    """

    sentences: int
    words: int
    scores: tuple[Score, ...]

    def __getitem__(self, name: str) -> float:
        """The value of a measure by its name, `BLEU 13a`, say."""
        return next(s.value for s in self.scores if s.name == known(name, self.names, "measure of the scores"))

    @property
    def names(self) -> list[str]:
        """The measures that there are."""
        return [s.name for s in self.scores]

    @property
    def bleu(self) -> Score:
        """BLEU under the first tokeniser: 13a, or the one of a language without spaces."""
        return self.scores[0]

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; None for what has no meaning."""
        plain = [asdict(s) | {"value": None if math.isnan(s.value) else s.value} for s in self.scores]
        return {"sentences": self.sentences, "words": self.words, "scores": plain}

    def __str__(self) -> str:
        width = max(len(s.name) for s in self.scores)
        lines = [f"{counted(self.sentences, 'sentence')}, {counted(self.words, 'word')}"]
        for s in self.scores:
            between = "" if s.interval is None else f"[{s.interval[0]:.2f}, {s.interval[1]:.2f}]"
            lines.append(f"{s.name:<{width}} {s.value:>8.2f} {between:<16} {s.signature}")
        return "\n".join(lines)


def score(
    outputs: Sequence[str],
    references: Sequence[str],
    target_language: str | None = None,
    *,
    sources: Sequence[str] | None = None,
    learnt: str | Path | None = None,
    resamples: int = RESAMPLES,
) -> Scores:
    """BLEU with its brevity penalty, chrF++, TER and stutter of translations as text, cased and not tokenised.

    Args:
        outputs: translations.
        references: the right one for each.
        target_language: `de`, `zh`, ..: Chinese has a tokeniser of its own, other languages without
            spaces are split into letters, and stutter, a matter of words between spaces, has no
            meaning for them. None: a language with spaces.
        sources: what was translated; the learnt measure needs it.
        learnt: a checkpoint of COMET on this machine. PyTorch opens it, which may run what it
            holds: take it only from who made it.
        resamples: sets of sentences behind the intervals; 0 for none.

    Raises:
        GmlmError: E574 unless there is a reference for each output; E505 where there is none; E561
            where a library is not installed; E576 for a learnt measure that cannot be had.
    """
    verify_parallel(outputs, references, "references")
    metrics = _sacrebleu()
    tokenisers = tokenisers_of(target_language)
    spaces = has_spaces(tokenisers[0])
    found = [_bleu(metrics, outputs, references, t, resamples) for t in tokenisers]
    found.append(_measured("chrF++", metrics.CHRF(word_order=2), outputs, references))
    asian = {} if spaces else {"normalized": True, "asian_support": True}
    found.append(_measured("TER", metrics.TER(**asian), outputs, references))
    found += stutter(outputs, references, resamples, spaces)
    found += _brevity(metrics, outputs, references, tokenisers[0])
    if learnt is not None:
        found.append(_learnt(Path(learnt), sources, outputs, references))
    return Scores(len(outputs), sum(len(o.split()) for o in outputs), tuple(found))


def tokenisers_of(target_language: str | None) -> tuple[str, ...]:
    """Of BLEU in a language; the first is the one that translations are compared by."""
    language = (target_language or "").replace("_", "-").split("-")[0].lower()
    return (WITHOUT_SPACES[language],) if language in WITHOUT_SPACES else ("13a", "intl")


def has_spaces(tokeniser: str) -> bool:
    """Whether it is for languages with words between spaces."""
    return tokeniser not in WITHOUT_SPACES.values()


def stutter(outputs: Sequence[str], references: Sequence[str], resamples: int = RESAMPLES, spaces: bool = True) -> list[Score]:
    """Stutters for each 1,000 words of the outputs, and the share of sentences that have one; see `gm.stutter_rate`.

    Args:
        outputs: texts.
        references: one for each.
        resamples: sets of sentences behind the intervals; 0 for none.
        spaces: whether the language has words between spaces; if not, the values are nan.
    """
    words = np.array([len(o.split()) for o in outputs])
    counts = stutter_counts(outputs, references)
    rate = _ratio(1000 * counts.sum(), words.sum()) if spaces else math.nan
    share = 100 * float((counts > 0).mean()) if spaces else math.nan
    rates = shares = None
    if resamples and spaces:
        rng, n = np.random.default_rng(SEED), len(words)
        # one at a time: all at once take 24 bytes a sentence and set
        sets = (rng.integers(n, size=n) for _ in range(resamples))
        found = np.array([(counts[some].sum(), words[some].sum(), (counts[some] > 0).mean()) for some in sets])
        rates, shares = _interval(1000 * found[:, 0] / np.maximum(found[:, 1], 1)), _interval(100 * found[:, 2])
    what = "words that repeat the word before, unless the reference doubles them"
    return [
        Score("stutter", rate, f"per 1,000 words: {what}", rates),
        Score("stuttering", share, f"% of sentences with {what}", shares),
    ]


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else math.nan


def _interval(values: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def verify_parallel(outputs: Sequence[str], references: Sequence[str], what: str) -> None:
    """Refuse lists that do not belong line to line.

    Raises:
        GmlmError: E574 for other lengths, E505 for none.
    """
    if isinstance(outputs, str) or isinstance(references, str):
        raise fail("E574", "a text is not a list of sentences", help="give a list of texts, one for each sentence")
    if len(outputs) != len(references):
        message = f"{counted(len(outputs), 'sentence')} and {len(references)} {what}: which belong together is not known"
        raise fail("E574", message, help="give one for each sentence, in the same order")
    if not len(outputs):
        raise fail("E505", "there is no translation to score")


def _sacrebleu() -> Any:
    return need("sacrebleu", "scores need SacreBLEU", '"gmlmdsl[train]"').metrics


def corpus_bleu(outputs: Sequence[str], references: Sequence[str], tokeniser: str) -> float:
    """BLEU alone."""
    return _bleu(_sacrebleu(), outputs, references, tokeniser, 0).value


def _bleu(metrics: Any, outputs: Sequence[str], references: Sequence[str], tokeniser: str, resamples: int) -> Score:
    # `force`: no advice on standard error about text that looks tokenised.
    metric = metrics.BLEU(tokenize=tokeniser, force=True, references=[list(references)])
    if resamples < 2:
        return _of(f"BLEU {tokeniser}", metric, metric.corpus_score(list(outputs), None))
    found = metric.corpus_score(list(outputs), None, n_bootstrap=resamples)
    plain = metrics.BLEU(tokenize=tokeniser, force=True)
    # a signature stands only after a score, and the one with resamples is another
    plain.corpus_score([""], [[""]])
    middle, half = float(found._mean), float(found._ci)
    return Score(f"BLEU {tokeniser}", float(found.score), str(plain.get_signature()), (middle - half, middle + half))


def _brevity(metrics: Any, outputs: Sequence[str], references: Sequence[str], tokeniser: str) -> list[Score]:
    """How long the outputs are: r = their words for each of the references, and BLEU's penalty, exp(1 - 1 / r) where r < 1, else 1."""
    found = metrics.BLEU(tokenize=tokeniser, force=True).corpus_score(list(outputs), [list(references)])
    ratio = _ratio(found.sys_len, found.ref_len)
    return [
        Score("length ratio", ratio, f"words of the outputs for each word of the references, tok:{tokeniser}"),
        Score("brevity", float(found.bp), f"the penalty in BLEU {tokeniser}: exp(1 - 1 / length ratio) for a ratio below 1, else 1"),
    ]


def _measured(name: str, metric: Any, outputs: Sequence[str], references: Sequence[str]) -> Score:
    return _of(name, metric, metric.corpus_score(list(outputs), [list(references)]))


def _of(name: str, metric: Any, found: Any) -> Score:
    return Score(name, float(found.score), str(metric.get_signature()))


def _learnt(path: Path, sources: Sequence[str] | None, outputs: Sequence[str], references: Sequence[str]) -> Score:
    """A measure that was learnt, from a file on this machine: nothing is fetched.

    Raises:
        GmlmError: E576 without the file or the sources, E561 without the library.
    """
    if sources is None:
        raise fail("E576", "a learnt measure looks at what was translated too: give `sources`")
    verify_parallel(outputs, sources, "sources")
    comet = verify_learnt(path)
    return Score("COMET", _predicted(comet.load_from_checkpoint, path, sources, outputs, references), f"COMET|{path.name}")


def verify_learnt(path: Path) -> Any:
    """The library that opens the checkpoint of a learnt measure.

    Raises:
        GmlmError: E576 without the file, E561 without the library.
    """
    if not path.is_file():
        lacking = "it is a folder" if path.is_dir() else "there is no such file"
        raise fail("E576", f"{path} is not a checkpoint: {lacking}", help="it is read from this machine only, never fetched")
    return need("comet", "the learnt measure needs COMET", "unbabel-comet")


def _predicted(load: Callable[[str], Any], path: Path, sources: Any, outputs: Any, references: Any) -> float:
    rows = [{"src": s, "mt": o, "ref": r} for s, o, r in zip(sources, outputs, references, strict=True)]
    try:
        return float(load(str(path)).predict(rows, gpus=0, progress_bar=False).system_score)
    except Exception as error:  # whatever PyTorch says of a file that is none
        raise fail("E576", f"the learnt measure at {path} cannot be used: {type(error).__name__}: {error}") from None
