# Ablations on the transduction task: `python examples/labs/transduction/ablate.py [--quick] [--seeds 3] [--out DIR]`.
#
# Every row is a setting of transduction.gmlm; those that differ only in how they decode share one training. A finished row is a line of
# DIR/results.jsonl and a finished training a file of DIR/fits; both are skipped when the script runs again. Times are of the processor.
import argparse
import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import exact
import numpy as np
import optax
from pieces import Pieces, vocabulary
from scores import score
from task import Grammar, Words

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
OUT = HERE / "kept"
Pairs = list[tuple[Words, Words]]


@dataclass(frozen=True)
class Setting:
    """What one row of the table changes.

    The defaults are the paper's recommendations (Li et al. 2024, Section 3 and Appendix L), but for one: a single length is tried. Scores
    of different lengths are not comparable here, and what that does would hide what the other rows show.

    Attributes:
        kept, start, stages: of the mask's noise: a cell shows the true token, or what decoding starts from (uniform, hide).
        positional: whether the decoder has positional attention.
        embedded: whether positions are added to the embeddings.
        vocabulary: of `pieces.KINDS`.
        sampler: its name in transduction.gmlm.
        passes, lengths: of the sampler; no lengths: the true one is told.
    """

    kept: float = 0.15
    start: str = "uniform"
    stages: int = 2
    positional: bool = True
    vocabulary: str = "own"
    sampler: str = "stutter"
    passes: int = 4
    lengths: int | None = 1
    embedded: bool = False

    @property
    def noise(self) -> exact.Noise:
        """What training shows."""
        return exact.Noise(self.kept, 1 - self.kept if self.start == "uniform" else 0.0)

    @property
    def trained(self) -> dict[str, object]:
        """What its weights depend on."""
        return {k: v for k, v in asdict(self).items() if k not in ("sampler", "passes", "lengths") and (k != "embedded" or v)}


@dataclass(frozen=True)
class Size:
    """How much is trained and tested, with which optimiser: a result is of one size."""

    rows: int = 60000
    steps: int = 3000
    batch: int = 64
    width: int = 64
    layers: int = 2
    peak: float = 0.003
    tested: int = 500
    bayes_draws: int = 4


QUICK = Size(rows=400, steps=8, batch=16, width=16, layers=1, tested=20, bayes_draws=1)
BASE = Setting()
# Of each part of the table: what is varied, and the settings.
GROUPS: dict[str, dict[str, Setting]] = {
    "true tokens kept": {f"{round(100 * k)} %": replace(BASE, kept=k) for k in (0.0, 0.15, 0.3, 0.5, 0.7)},
    "stages": {str(n): replace(BASE, stages=n) for n in (1, 2, 3)},
    "start, with noise to match": {"uniform": BASE, "hide": replace(BASE, start="hide", sampler="from_hidden")},
    "positional attention": {"on": BASE, "off": replace(BASE, positional=False)},
    "position embeddings": {"off": BASE, "on": replace(BASE, embedded=True)},
    "vocabulary": {kind: replace(BASE, vocabulary=kind) for kind in ("own", "foreign", "characters")},
    "remask": {name: replace(BASE, sampler=name) for name in ("stutter", "none", "least_confident")},
    "passes": {str(n): replace(BASE, passes=n) for n in (1, 2, 4, 10)},
    "lengths tried": {**{str(n): replace(BASE, lengths=n) for n in (1, 3, 5)}, "the true one": replace(BASE, lengths=None)},
    "hidden start, other decoders": {
        "`mask_predict`, 4 passes": replace(BASE, start="hide", sampler="mask_predict"),
        "`mask_predict`, 10 passes": replace(BASE, start="hide", sampler="mask_predict", passes=10),
        "`mask_predict`, 10 passes, nothing kept in training": replace(BASE, kept=0.0, start="hide", sampler="mask_predict", passes=10),
    },
}


def settings() -> list[Setting]:
    """Every setting of the table once; those that share their weights follow one another."""
    found = dict.fromkeys(setting for rows in GROUPS.values() for setting in rows.values())
    return sorted(found, key=lambda s: list(dict.fromkeys(name_of(f.trained) for f in found)).index(name_of(s.trained)))


def name_of(what: dict) -> str:
    """A short name that says what it is of."""
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


class Bench:
    """The task with its data, and where results lie."""

    def __init__(self, out: Path, size: Size):
        self.size, self.out = size, out
        self.grammar = Grammar(0)
        self.test: Pairs = self.grammar.pairs(size.tested, seed=10_000)
        (out / "fits").mkdir(parents=True, exist_ok=True)
        self.path = out / "results.jsonl"
        self._vocabularies: dict[str, tuple[Pieces, Pieces]] = {}
        self._models: dict[Setting, gm.Model] = {}
        self._pairs: dict[int, Pairs] = {}

    def finished(self) -> list[dict]:
        """The results so far, of any size; a line that a killed run left unfinished is cut off."""
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            self.path.write_text(whole, encoding="utf-8")
        return [json.loads(line) for line in whole.splitlines()]

    def run(self, wanted: list[Setting], seeds: int) -> None:
        """The rows that are not finished yet, one seed after another."""
        done = {_key(row["setting"], row["seed"], row["size"]) for row in self.finished()}
        for seed in range(seeds):
            for setting in wanted:
                if _key(asdict(setting), seed, asdict(self.size)) in done:
                    continue
                row = self.row(setting, seed)
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"seed {seed} valid {row['scores']['valid']:.3f} {_short(setting)}", flush=True)

    def row(self, setting: Setting, seed: int) -> dict:
        """Train, unless that is done, and decode."""
        fit, train_seconds = self.fitted(setting, seed)
        self.decoded(setting, fit, seed)  # compiles
        started = time.process_time()
        outputs = self.decoded(setting, fit, seed)
        seconds = time.process_time() - started
        return {
            "setting": asdict(setting),
            "seed": seed,
            "size": asdict(self.size),
            "scores": score(self.grammar, [source for source, _ in self.test], outputs),
            "loss": self.loss(setting, fit, seed),
            "least_loss": self.least_loss(setting),
            "train_seconds": train_seconds,
            "decode_seconds": seconds,
        }

    # Parts of a row

    def model(self, setting: Setting) -> gm.Model:
        """The program as the setting has it; one model serves all seeds, so that nothing is compiled twice."""
        if setting not in self._models:
            self._models[setting] = self._loaded(setting)
        return self._models[setting]

    def _loaded(self, setting: Setting) -> gm.Model:
        source, target = self.vocabularies(setting.vocabulary)
        noise = setting.noise
        program = gm.load(
            HERE / "transduction.gmlm",
            source_vocab=source.size,
            target_vocab=target.size,
            source_cells=source.longest,
            target_cells=target.longest,
            width=self.size.width,
            layers=self.size.layers,
            kept=setting.kept,
            random=noise.uniform,
            hidden=noise.hide,
            stages=setting.stages,
            passes=setting.passes,
            tried=setting.lengths or 1,
        )
        return program.model(_suffix(setting).removeprefix("_") or "placed")

    def fitted(self, setting: Setting, seed: int):
        """The fit of a training and the seconds that it took, from files where it has them."""
        path = self.out / "fits" / f"{name_of(setting.trained | asdict(self.size) | {'seed': seed})}.fit"
        note = path.with_suffix(".json")
        if note.exists():
            return gm.load_fit(path), json.loads(note.read_text(encoding="utf-8"))["seconds"]
        sources, targets = self.encoded(self.pairs(seed), setting)
        started = time.process_time()
        warm = max(1, self.size.steps // 20)
        schedule = optax.warmup_cosine_decay_schedule(0.0, self.size.peak, warm, max(self.size.steps, warm + 1), 1e-5)
        fit = self.model(setting).fit(
            targets,
            mask="corrupt" + _suffix(setting),
            seed=seed,
            given={"src": sources},
            missing=-1,
            optimizer=optax.adam(schedule),
            method=gm.Training(steps=self.size.steps, batch_size=self.size.batch, buckets=_buckets(setting)),
            progress=False,
        )
        fit.save(path)
        seconds = time.process_time() - started
        note.write_text(json.dumps({"seconds": seconds, "setting": setting.trained, "seed": seed}), encoding="utf-8")
        return fit, seconds

    def decoded(self, setting: Setting, fit, seed: int) -> list[Words]:
        """Translations of the test sentences."""
        sources, targets = self.encoded(self.test, setting)
        known = (targets >= 0).sum(axis=1) if setting.lengths is None else None
        found = self.model(setting).sample(
            fit.params, setting.sampler + _suffix(setting), given={"src": sources}, missing=-1, lengths=known, seed=seed, progress=False
        )
        _, target = self.vocabularies(setting.vocabulary)
        return target.decode(np.asarray(found["posterior"]["tgt"].values)[0, 0])

    def loss(self, setting: Setting, fit, seed: int) -> float:
        """-log p(y_i | what one stage of the training's noise shows), summed over a sentence, the mean over test sentences."""
        import jax

        sources, targets = self.encoded(self.test, setting)
        model, mask = self.model(setting), "once" + _suffix(setting)
        return float(model.loss(fit.params, targets, mask, given={"src": sources}, missing=-1, key=jax.random.key(seed), n_masks=2))

    def least_loss(self, setting: Setting) -> float | None:
        """The least that `loss` can be; None where tokens are no words."""
        if setting.vocabulary != "own":
            return None
        return exact.token_loss(self.grammar, self.test, setting.noise, self.size.bayes_draws)

    def pairs(self, seed: int) -> Pairs:
        """The sentences of a seed, for training; those of the last seed are kept."""
        if seed not in self._pairs:
            self._pairs = {seed: self.grammar.pairs(self.size.rows, seed=seed)}
        return self._pairs[seed]

    def vocabularies(self, kind: str) -> tuple[Pieces, Pieces]:
        if kind not in self._vocabularies:
            self._vocabularies[kind] = (vocabulary(self.grammar, kind, "source"), vocabulary(self.grammar, kind, "target"))
        return self._vocabularies[kind]

    def encoded(self, pairs: Pairs, setting: Setting) -> tuple[np.ndarray, np.ndarray]:
        source, target = self.vocabularies(setting.vocabulary)
        return source.encode(s for s, _ in pairs), target.encode(t for _, t in pairs)


def possible(size: Size) -> Iterator[tuple[str, dict[str, float]]]:
    """What no network can exceed, or what one without error would do, on the test sentences: shares of valid outputs, lengths known."""
    grammar = Grammar(0)
    test = grammar.pairs(size.tested, seed=10_000)
    n = len(grammar.target_words)
    products = [exact.product(grammar.law(source), n) for source, _ in test]
    yield "entropy of p(target given source), nats", {"": float(np.mean([grammar.law(source).entropy for source, _ in test]))}
    yield "least KL of one product step, nats", {"": float(np.mean([p.correlation for p in products]))}
    yield "one product step, argmax", {"1": float(np.mean([p.argmax_valid for p in products]))}
    yield "one product step, drawn", {"1": float(np.mean([p.draw_valid for p in products]))}
    for title, schedule, noise in (
        ("every token again, 15 % kept", "all", exact.Noise(0.15, 0.85)),
        ("mask-predict", "linear", exact.Noise(0.15, 0.0)),
    ):
        found = {}
        for passes in (1, 2, 4, 10):
            rng = np.random.default_rng(passes)

            def decode(law, length, passes=passes, rng=rng, noise=noise, schedule=schedule):
                return exact.refine(law, length, noise, n, passes, schedule, rng)[0]

            found[str(passes)] = exact.valid_share(grammar, test, decode)
        yield title, found


def _suffix(setting: Setting) -> str:
    if setting.embedded and not setting.positional:
        raise ValueError("transduction.gmlm has no model with position embeddings and without positional attention")
    return "_embedded" if setting.embedded else "" if setting.positional else "_unplaced"


def _buckets(setting: Setting) -> tuple[int, ...]:
    return (10, 14) if setting.vocabulary == "own" else (18, 26, 38)


def _key(setting: dict, seed: int, size: dict) -> str:
    return json.dumps([asdict(Setting(**setting)), seed, size], sort_keys=True)  # rows may be older than a field


def _short(setting: Setting) -> str:
    changed = {k: v for k, v in asdict(setting).items() if v != getattr(BASE, k)}
    return ", ".join(f"{k} {v}" for k, v in changed.items()) or "base"


def main(out: Path = OUT, seeds: int = 3, quick: bool = False, wanted: list[Setting] | None = None) -> Path:
    """Run what is not finished; returns the file of results."""
    bench = Bench(out, QUICK if quick else Size())
    (out / "possible.json").write_text(json.dumps(dict(possible(bench.size))) + "\n", encoding="utf-8")
    bench.run(settings() if wanted is None else wanted, seeds)
    return bench.path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train and decode every row of the table of ablations.")
    parser.add_argument("--quick", action="store_true", help="tiny networks, a few steps: a check, in a folder of its own")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=OUT, help="where results.jsonl and fits/ are written")
    options = parser.parse_args()
    if options.quick and options.out == OUT:
        parser.error("--quick needs --out: its numbers are not for the page")
    main(options.out, options.seeds, options.quick)
