"""What a review of networks found wrong: weights that did nothing, cells that were never predicted, runs that went on as another."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from networks_cases import draws, made, pairs, program, stats
from thinned import thinned

import gmlmdsl as gm

SGD = 0.1
MASKS = """
mask one = subsets(x, size = 1)
mask whole = everything(x)
mask half = everything(x, noise = {keep: 0.5, hide: 0.5})
mask first = blocks({x[0]} for t in range(1))
mask adaptive given x { choose {x[t]} for t in range(4) weight exp(0.5 * x[t]) }
sampler uniform_first = refinement(steps = 2, start = uniform, schedule = first)
sampler from_draft    = refinement(steps = 2, schedule = first)
sampler plain         = refinement(steps = 2)
sampler stutter       = refinement(steps = 2, remask = stutter)
sampler sites         { update x[K] where K ~ one }
"""
MLP = "mlp(layers = 1, width = 4)"
pytestmark = pytest.mark.usefixtures("standard_promotion")


@cache
def model() -> Any:
    """One model for all tests: what is compiled for one serves the next."""
    return made(MLP, 4, 3, MASKS)


def leaves(fit: Any) -> np.ndarray:
    return np.concatenate([np.asarray(a).ravel() for a in jax.tree.leaves(fit.params["net"])])


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 3, (count, 4))


@pytest.mark.slow  # test_training.py has rows that fill a batch up, and one batch of two is below
@pytest.mark.parametrize("size", thinned([1, 4], 2, 1))
def test_an_epoch_of_small_batches_has_the_gradient_of_all_rows(size: int) -> None:
    """Weights, short rows, buckets and a batch that is not full: to first order in the rate, one epoch moves as far as so many steps."""
    x, weights = rows(7), np.array([5.0, 1, 2, 1, 0, 3, 1])
    x[3:5, 2:] = -1
    m, rate = model(), 1e-4

    def moved(batch: int, buckets: Any) -> tuple[np.ndarray, int]:
        options = {"missing": -1, "weights": weights, "optimizer": optax.sgd(rate)}
        steps = 1 if batch == len(x) else len(range(0, 5, batch)) + len(range(0, 2, batch))
        fit = m.fit(x, "whole", method=gm.Training(steps=steps, batch_size=batch, buckets=buckets), **options)
        return leaves(fit) - start, steps

    start = np.concatenate([np.asarray(a).ravel() for a in jax.tree.leaves(m.init_params(0)["net"])])
    full, _ = moved(len(x), (4,))
    parts, steps = moved(size, (2, 4))
    np.testing.assert_allclose(parts / steps, full, atol=0.02 * np.abs(full).max())


def test_accumulated_batches_are_one_batch() -> None:
    x = rows(8)
    fits = [
        model().fit(x, "whole", optimizer=optax.sgd(SGD), method=gm.Training(steps=6 * a, batch_size=8 // b, ema=0.8, accumulate=a))
        for a, b in ((1, 1), (4, 1))
    ]
    np.testing.assert_allclose(leaves(fits[0]), leaves(fits[1]), atol=1e-6)


@pytest.mark.slow
def test_the_rate_falls_to_its_end_when_batches_are_accumulated() -> None:
    from gmlmdsl.fit._training_options import default_optimizer

    grown = []
    for accumulate in (1, 4):
        optimizer = default_optimizer(gm.Training(steps=40 * accumulate, accumulate=accumulate, warmup=4 * accumulate))
        w = jnp.ones(3)
        state, sizes = optimizer.init(w), []
        for _ in range(40):
            change: Any
            change, state = optimizer.update(jnp.ones(3), state, w)
            sizes.append(float(jnp.abs(change).max()))
        grown.append(sizes)
    np.testing.assert_allclose(grown[0], grown[1])


@pytest.mark.slow  # a check of planted bugs averages too
def test_an_average_has_no_part_of_the_first_weights() -> None:
    """With a decay near 1 it is the mean over all steps."""
    m, x = model(), rows(8)
    after = [leaves(m.fit(x, "whole", optimizer=optax.sgd(SGD), method=gm.Training(steps=k, batch_size=8))) for k in (1, 2, 3)]
    found = leaves(m.fit(x, "whole", optimizer=optax.sgd(SGD), method=gm.Training(steps=3, batch_size=8, ema=0.9999)))
    np.testing.assert_allclose(found, np.mean(after, axis=0), atol=1e-4)


@pytest.mark.slow  # `test_checkpoints.py` changes each option
@pytest.mark.produces("E752")
@pytest.mark.parametrize("changed", ["validation", "init"])
def test_a_run_with_other_rows_or_weights_is_another_run(changed: str, tmp_path: Path) -> None:
    pytest.importorskip("orbax.checkpoint")
    m, x = model(), rows(8)
    first: dict[str, Any] = {"validation": {"x": x[:4]}, "init": m.init_params(1)}
    other: dict[str, Any] = {"validation": {"x": x[4:]}, "init": m.init_params(2)}

    def fit(options: dict[str, Any]) -> Any:
        t = gm.Training(steps=2, batch_size=4, validation=options["validation"], checkpoint=tmp_path)
        return m.fit(x, "whole", init=options["init"], method=t)

    fit(first)
    fit(first)
    with pytest.raises(gm.GmlmError, match="E752"):
        fit(first | {changed: other[changed]})


def test_cells_that_no_block_of_a_schedule_holds_are_settled_by_the_last_pass() -> None:
    """And not left at the uniform values that they began with."""
    m = made('python("networks_cases:Pairs", scale = 0.0)', 4, 3, MASKS)
    own = pairs(4, 3, scale=0.0)([0, 0, 0, 0])
    found = m.sample(m.init_params(0), "uniform_first", draws=20)
    assert (draws(found).reshape(-1, 4) == own.argmax(axis=1)).all()
    mean = (own.max(axis=1) - np.log(np.exp(own).sum(axis=1))).mean()
    np.testing.assert_allclose(stats(found, "score").ravel(), mean, rtol=1e-5)


def test_the_score_is_over_what_was_predicted() -> None:
    """A mask leaves the other cells of a draft as they are: they have no log p that could count as 0."""
    m, draft = model(), np.array([0, 1, 2, 1])
    params = m.init_params(0)
    found = m.sample(params, "from_draft", init=draft)
    best = float(np.asarray(m.log_conditional(params, draft, 0)).max())
    assert stats(found, "score").ravel()[0] == pytest.approx(best, rel=1e-5)


def test_a_cell_behind_a_held_one_stutters_too() -> None:
    from gmlmdsl.derive._refinement import stuttering

    tokens, present = jnp.array([[1], [1], [0], [0]]), jnp.array([[True], [True], [True], [False]])
    assert stuttering(tokens, present)[:, 0].tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("code", "ask"),
    [
        ("E507", lambda m, p: m.sample(p, "plain", lengths=2, clamp={"x": {3: 1}})),
        ("E505", lambda m, p: m.sample(p, "plain", init=rows(0))),
        ("E507", lambda m, p: m.sample(p, "sites", init=rows(2), draws=2, chains=1, observe={"s": lambda x: x.sum()})),
        ("E507", lambda m, p: m.loss(p, rows(2), "one", key=jax.random.key(0), n_masks=-1)),
        ("E507", lambda m, p: m.loss(p, rows(2), "one", n_masks=3)),
        ("E601", lambda m, p: m.loss(p, rows(2), "one", key=jax.random.key(0), n_masks=10**15)),
        ("E505", lambda m, p: m.loss(p, rows(0), "one")),
        ("E511", lambda m, p: m.loss(p, np.array([[0, 1, -1, -1]]), "adaptive", missing=-1, key=jax.random.key(0))),
        ("E511", lambda m, p: m.fit(np.array([[0, 1, -1, -1]]), "adaptive", missing=-1, method=gm.Training(steps=1))),
        ("E507", lambda m, p: m.fit(rows(3), "one", method=gm.Training(steps=1, buckets=()))),
        ("E507", lambda m, p: m.fit(rows(3), "one", method=gm.Training(steps=1, buckets=4))),  # pyright: ignore[reportArgumentType]
        ("E507", lambda m, p: m.fit(rows(3), "one", seed=-1, method=gm.Training(steps=1))),
        ("E507", lambda m, p: m.fit(rows(3), "one", n_masks=1.5, method=gm.Training(steps=1))),
        ("E704", lambda m, p: m.fit(rows(3), "one", method=gm.Training(steps=3, accumulate=4))),
        ("E507", lambda m, p: m.fit(rows(3), "one", optimizer=3, method=gm.Training(steps=1))),
        ("E507", lambda m, p: m.fit(rows(3), "one", optimizer=optax.lbfgs(), method=gm.Training(steps=1))),
        ("E601", lambda m, p: m.sample(p, "plain", chains=1 << 25)),
        ("E505", lambda m, p: m.fit(rows(3), "one", method=gm.Training(steps=1, validation={"x": rows(0)}))),
        ("E410", lambda m, p: m.fit(rows(3), "one", missing=-1, method=gm.Training(steps=1, validation={"x": np.full((2, 4), -1)}))),
    ],
)
def test_what_cannot_be_meant_is_refused(code: str, ask: Any) -> None:
    m = model()
    with pytest.raises(gm.GmlmError, match=code):
        ask(m, m.init_params(0))


@pytest.mark.slow
def test_many_masks_per_row_are_one_loop() -> None:
    """As many as there are, their mean is that of the list."""
    m, x = model(), rows(3)
    params = m.init_params(0)
    drawn = float(m.loss(params, x, "one", key=jax.random.key(0), n_masks=4000))
    assert drawn == pytest.approx(float(m.loss(params, x, "one")), rel=0.03)


GIVEN = """
mask weighted given b { choose {x[t]} for t in range(4) weight b[t] }
sampler s { update x[K] independently where K ~ weighted }
sampler r = refinement(schedule = weighted)
"""


@pytest.mark.produces("E741")
@pytest.mark.slow
def test_masks_with_given_weights_train_and_do_not_sample() -> None:
    """They were drawn without their data: from weights that were all 0."""
    text = program(MLP, 4, 3, GIVEN, "a[t in range(4)] : range(2)\nb[t in range(4)] : positive")
    m: Any = gm.parse(text.replace("net(a, b)", "net(a)")).model()
    given = {"a": np.zeros((2, 4), int), "b": np.eye(4)[:2] + 1e-6}
    fit = m.fit(rows(2), "weighted", given=given, method=gm.Training(steps=1, batch_size=2))
    assert np.isfinite(fit.loss_trace).all()
    for sampler in ("s", "r"):
        with pytest.raises(gm.GmlmError, match="E741"):
            m.sample(fit.params, sampler, given=given, draws=2)


def test_a_decoder_without_positional_attention_may_be_long() -> None:
    """Its hidden cells enter as rows of the table of positions: the option has a meaning."""
    text = program(
        "encoder_decoder(layers = 1, heads = 1, width = 4, positional_attention = false, positions = 300)",
        300,
        2,
        "",
        "a[t in range(3)] : range(2)",
    )
    long: Any = gm.parse(text).model()
    assert long.init_params(0)["net"].positions.shape == (300, 4)
    with pytest.raises(gm.GmlmError, match="positions = 300"):
        gm.parse(text.replace(", positions = 300", ""))


class WithFunctions(eqx.Module):
    """A class that holds what is no array: a function, a number."""

    mlp: eqx.nn.MLP
    shape: tuple[int, int] = eqx.field(static=True)
    scale: float = 2.0

    def __init__(self, *, key, n_cells, n_values, given):
        self.mlp = eqx.nn.MLP(n_cells * (n_values + 2), n_cells * n_values, 4, 1, key=key)
        self.shape = n_cells, n_values

    def __call__(self, seen, *given):
        return self.scale * self.mlp(jax.nn.one_hot(seen, self.shape[1] + 2).reshape(-1)).reshape(self.shape)


class Fails(WithFunctions):
    """Fails in a way that nobody thought of."""

    def __call__(self, seen, *given):
        raise RuntimeError("no key")


@pytest.mark.slow
def test_a_class_with_functions_is_saved_and_loaded(tmp_path: Path) -> None:
    m = made('python("test_network_review:WithFunctions")', 4, 3, MASKS)
    fit = m.fit(rows(4), "one", method=gm.Training(steps=1, batch_size=4))
    fit.save(tmp_path / "a.fit")
    again: Any = gm.load_fit(tmp_path / "a.fit", allow_python=True)
    assert float(again.loss(rows(4))) == float(fit.loss(rows(4)))


@pytest.mark.produces("E736")
def test_a_class_may_fail_in_any_way() -> None:
    with pytest.raises(gm.GmlmError, match=r"E736[\s\S]*RuntimeError: no key"):
        made('python("test_network_review:Fails")', 4, 3, MASKS).init_params(0)


@pytest.mark.slow
def test_padding_of_spins_is_no_spin() -> None:
    text = program(MLP, 4, 2, "sampler r = refinement(steps = 1)\nsampler u { update x[t] for t in range(4) }").replace("range(2)", "spin")
    m: Any = gm.parse(text).model()
    start = np.array([[1, -1, 1, 1], [1, -1, 0, 0]])
    for sampler in ("r", "u"):
        found = draws(m.sample(m.init_params(0), sampler, init=start, missing=0, draws=2, chains=1)).reshape(2, 2, 4)
        assert (found[:, 1, 2:] == 0).all()
        assert (np.abs(found[:, 1, :2]) == 1).all()
        assert (np.abs(found[:, 0]) == 1).all()


@pytest.mark.parametrize("key", thinned([None, 0], 2))
def test_rows_in_pieces_have_the_loss_of_all(key: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    from gmlmdsl.evaluate import _network_queries

    m, x = model(), rows(7)
    params = m.init_params(0)

    def found() -> tuple[float, np.ndarray]:
        drawn = {} if key is None else {"key": jax.random.key(key), "n_masks": 2}
        return float(m.loss(params, x, "one", **drawn)), np.asarray(m.log_conditional(params, x, (0, 2)))

    whole = found()
    monkeypatch.setattr(_network_queries, "_pieces", lambda lowered, n, params: [np.arange(k, min(k + 3, n)) for k in range(0, n, 3)])
    pieces = found()
    assert pieces[0] == pytest.approx(whole[0], rel=1e-6)
    np.testing.assert_allclose(pieces[1], whole[1], rtol=1e-5)


def test_weights_steps_and_measurements_have_keys_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fold_in(key, k)` is the k-th key of `split`, with which a network is built."""
    from gmlmdsl.train import _training

    seen: dict[str, list[tuple[int, ...]]] = {"_update": [], "_sums": []}

    def noted(name: str, place: int) -> Any:
        plain = getattr(_training, name)

        def call(*a: Any) -> Any:
            seen[name].append(tuple(np.asarray(jax.random.key_data(a[place])).tolist()))
            return plain(*a)

        return call

    monkeypatch.setattr(_training, "_update", noted("_update", 5))
    monkeypatch.setattr(_training, "_sums", noted("_sums", 3))
    model().fit(rows(4), "half", method=gm.Training(steps=2, batch_size=2, validation={"x": rows(4)}, evaluate_every=2))
    built = [tuple(k) for k in np.asarray(jax.random.key_data(jax.random.split(jax.random.key(0), 4))).tolist()]
    every = [*seen["_update"], *seen["_sums"], *built]
    assert len(seen["_update"]) == 2
    assert len(seen["_sums"]) == 2
    assert len(set(every)) == len(every)


@pytest.mark.slow
def test_options_are_those_of_the_program_not_of_the_weights_that_it_starts_from() -> None:
    def of(rate: float) -> Any:
        network = f"encoder_decoder(layers = 1, heads = 1, width = 4, dropout = {rate}, length_weight = {rate})"
        return gm.parse(program(network, 4, 3, MASKS, "a[t in range(4)] : range(3)")).model()

    start = of(0.5).init_params(0)
    fit = of(0.0).fit(rows(4), "whole", given={"a": rows(4)}, init=start, method=gm.Training(steps=1, batch_size=4))
    assert (fit.params["net"].decoder.dropout, fit.params["net"].length_weight) == (0.0, 0.0)
