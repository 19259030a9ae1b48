"""Standard measures of translation quality, each with the signature that makes it comparable.

BLEU (Papineni et al. 2002), chrF++ (Popović 2017) and TER (Snover et al. 2006) are computed by
SacreBLEU (Post 2018), and reported with its signature. Numbers with different signatures are not
comparable. Stutter (Li et al. 2024, Section 3.3) is the frequency of words that repeat the previous
word although the reference does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import counted, fail, known
from .._optional import need
from .._types import JsonObject
from ..decode import stutter_counts
from .limits import RESAMPLES

if TYPE_CHECKING:
    from types import ModuleType

SEED = 12345  # The seed that SacreBLEU uses.
# The tokenisers of languages without spaces between words.
WITHOUT_SPACES = {"zh": "zh", "ja": "char", "th": "char", "lo": "char", "km": "char", "my": "char"}


@dataclass(frozen=True)
class Score:
    """One measure, computed over all sentences.

    Attributes:
        name: the name of the measure.
        value: the value; nan if it is undefined.
        signature: how the value was computed: SacreBLEU's signature, or the definition in words.
        interval: the interval that contains 95 % of the resampled values; None without resamples.
    """

    name: str
    value: float
    signature: str
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Scores:
    """The measures of a set of translations.

    Attributes:
        sentences: the number of translations.
        words: the number of words of the translations, split at white space.
        scores: BLEU by tokeniser, chrF++, TER, stutter, length ratio and BLEU's brevity penalty,
            and the learnt measure if there is one.
    """

    sentences: int
    words: int
    scores: tuple[Score, ...]

    def __getitem__(self, name: str) -> float:
        """Return the value of a measure by its name, for example `BLEU 13a`."""
        return next(s.value for s in self.scores if s.name == known(name, self.names, "measure of the scores"))

    @property
    def names(self) -> list[str]:
        """The names of the measures."""
        return [s.name for s in self.scores]

    @property
    def bleu(self) -> Score:
        """BLEU under the first tokeniser: 13a, or that of a language without spaces."""
        return self.scores[0]

    def as_dict(self) -> JsonObject:
        """Return plain data for JSON, with None for undefined values."""
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
    """Return BLEU, its brevity penalty, chrF++, TER and stutter of translations.

    Translations and references are cased, untokenised text.

    Args:
        outputs: the translations.
        references: the correct translation for each of them.
        target_language: `de`, `zh`, ..; None stands for a language with spaces. Chinese has a
            tokeniser of its own. Other languages without spaces are split into letters. Stutter
            counts words between spaces, and is undefined for languages without spaces.
        sources: the source sentences; the learnt measure needs them.
        learnt: the path of a COMET checkpoint on this machine. PyTorch opens the checkpoint and may
            run code in it, so use only checkpoints from a trusted source.
        resamples: the number of resampled sets of sentences for the intervals; 0 for no intervals.

    Raises:
        GmlmError: E574 unless there is a reference for each output; E505 without outputs; E561 if a
            library is not installed; E576 for a learnt measure that is not available.
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
    """Return the tokenisers of BLEU for a language.

    The first one is used to compare translations.
    """
    language = (target_language or "").replace("_", "-").split("-")[0].lower()
    return (WITHOUT_SPACES[language],) if language in WITHOUT_SPACES else ("13a", "intl")


def has_spaces(tokeniser: str) -> bool:
    """Return whether a tokeniser is for languages with spaces between words."""
    return tokeniser not in WITHOUT_SPACES.values()


def stutter(outputs: Sequence[str], references: Sequence[str], resamples: int = RESAMPLES, spaces: bool = True) -> list[Score]:
    """Return the stutters per 1,000 words, and the percentage of sentences with a stutter.

    See `gm.stutter_rate`.

    Args:
        outputs: the texts.
        references: one reference for each text.
        resamples: the number of resampled sets of sentences for the intervals; 0 for no intervals.
        spaces: whether the language has spaces between words; if not, the values are nan.
    """
    words = np.array([len(o.split()) for o in outputs])
    counts = stutter_counts(outputs, references)
    rate = _ratio(1000 * counts.sum(), words.sum()) if spaces else math.nan
    share = 100 * float((counts > 0).mean()) if spaces else math.nan
    rates = shares = None
    if resamples and spaces:
        rng, n = np.random.default_rng(SEED), len(words)
        # The resamples are drawn one at a time; all at once would take 24 bytes per sentence and
        # resample.
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
    """Raise an error unless two lists correspond line by line.

    Raises:
        GmlmError: E574 for lists of different lengths, E505 for empty lists.
    """
    if isinstance(outputs, str) or isinstance(references, str):
        raise fail("E574", "a text is not a list of sentences", help="give a list of texts, one for each sentence")
    if len(outputs) != len(references):
        message = f"{counted(len(outputs), 'sentence')} and {len(references)} {what}: which belong together is not known"
        raise fail("E574", message, help="give one for each sentence, in the same order")
    if not len(outputs):
        raise fail("E505", "there is no translation to score")


def _sacrebleu() -> ModuleType:
    return need("sacrebleu", "scores need SacreBLEU", '"gmlmdsl[train]"').metrics


def corpus_bleu(outputs: Sequence[str], references: Sequence[str], tokeniser: str) -> float:
    """Return BLEU without an interval."""
    return _bleu(_sacrebleu(), outputs, references, tokeniser, 0).value


def _bleu(metrics: ModuleType, outputs: Sequence[str], references: Sequence[str], tokeniser: str, resamples: int) -> Score:
    # `force` suppresses warnings on the standard error about text that looks tokenised.
    metric = metrics.BLEU(tokenize=tokeniser, force=True, references=[list(references)])
    if resamples < 2:
        return _of(f"BLEU {tokeniser}", metric, metric.corpus_score(list(outputs), None))
    found = metric.corpus_score(list(outputs), None, n_bootstrap=resamples)
    plain = metrics.BLEU(tokenize=tokeniser, force=True)
    # SacreBLEU makes a signature only after a score. A signature after a score with resamples would
    # differ.
    plain.corpus_score([""], [[""]])
    middle, half = float(found._mean), float(found._ci)
    return Score(f"BLEU {tokeniser}", float(found.score), str(plain.get_signature()), (middle - half, middle + half))


def _brevity(metrics: ModuleType, outputs: Sequence[str], references: Sequence[str], tokeniser: str) -> list[Score]:
    """Return the length ratio and BLEU's brevity penalty.

    The length ratio r is the number of words of the outputs divided by that of the references. The
    penalty is exp(1 - 1 / r) if r < 1, otherwise 1.
    """
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
    """Return a learnt measure, computed by a checkpoint on this machine; nothing is downloaded.

    Raises:
        GmlmError: E576 without the file or the sources, E561 without the library.
    """
    if sources is None:
        raise fail("E576", "a learnt measure looks at what was translated too: give `sources`")
    verify_parallel(outputs, sources, "sources")
    comet = verify_learnt(path)
    return Score("COMET", _predicted(comet.load_from_checkpoint, path, sources, outputs, references), f"COMET|{path.name}")


def verify_learnt(path: Path) -> Any:
    """Return the library that opens the checkpoint of a learnt measure.

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
    except Exception as error:  # PyTorch may raise any exception for an invalid file.
        raise fail("E576", f"the learnt measure at {path} cannot be used: {type(error).__name__}: {error}") from None
