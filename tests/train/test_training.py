"""Training of networks: against laws and rules that are known, and step by step against NumPy."""

from __future__ import annotations

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from networks_cases import exact, law, made
from oracle import _tabular as oracle
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.data._network_rows import NetworkRows
from gmlmdsl.train import _training
from gmlmdsl.train._batches import Batches

pytestmark = pytest.mark.usefixtures("standard_promotion")

N, Q = 4, 3
MORE = """
mask whole = everything(x)
mask one = subsets(x, size = 1)
mask any_rate = bernoulli(x, rate = uniform(0, 1))
mask noisy = everything(x, noise = {keep: 0.2, uniform: 0.8}, stages = 2)
sampler s { update x[i] for i in range(4) }
"""


@pytest.fixture(scope="module")
def model():
    return made("mlp(layers = 1, width = 12)", N, Q, MORE)


SGD = optax.sgd(0.1)  # one object for all: what is compiled for one fit serves the next
NETWORK = "encoder_decoder(layers = 1, heads = 2, width = 16, ffn = 16, positional_attention = true, positions = 12, {})"


@pytest.fixture(scope="module")
def dry():
    """Without dropout."""
    return made(NETWORK.format("length_weight = 0.25"), 12, Q, "mask whole = everything(x)\n", "s[j in range(12)] : range(5)")


@pytest.fixture(scope="module")
def translator():
    return made(NETWORK.format("dropout = 0.2"), 12, Q, "mask whole = everything(x)\n", "s[j in range(12)] : range(5)")


def rows(count: int = 24, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, Q, (count, N))


def short_rows(count: int = 24, n: int = 12, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).integers(0, Q, (count, n))
    for r, row in enumerate(x):
        row[1 + (5 * r) % n :] = -1
    return x


def same(a, b) -> bool:
    """Bit for bit."""
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def close(a, b, tolerance: float = 1e-5) -> bool:
    return all(np.allclose(x, y, rtol=tolerance, atol=tolerance) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def training(**options) -> gm.Training:
    return gm.Training(**{"steps": 1, "batch_size": 24} | options)


@pytest.mark.slow
def test_a_rule_is_learnt(model):
    """x_(i+1) = x_i + 1: with one cell hidden the others say what it is."""
    x = (np.arange(3)[:, None] + np.arange(N)) % Q
    fit = model.fit(np.repeat(x, 20, axis=0), mask="one", method=training(steps=400, batch_size=30, learning_rate=0.02))
    assert fit.loss_trace.shape == (400,)
    assert np.mean(fit.loss_trace[:10]) > 0.9
    assert np.mean(fit.loss_trace[-50:]) < 0.05
    assert float(fit.loss(x)) < 0.05
    assert fit.reason == "steps"


@pytest.mark.slow
@pytest.mark.parametrize(("mask", "network"), [("one", "mlp(layers = 1, width = 24)"), ("any_rate", "mlp(layers = 1, width = 48)")])
def test_what_is_learnt_from_draws_of_a_law_are_its_conditionals(mask: str, network: str):
    """The mean over x of KL(p(x_i | x_rest, K), the network's) for the blocks that the mask draws."""
    n, q = 4, 2
    p, predict = law(n, q, 3), exact(n, q, 3)
    states = np.array(oracle.states(n, q))
    x = states[np.random.default_rng(1).choice(len(states), 6000, p=p.ravel())]
    model = made(network, n, q, MORE)
    fit = model.fit(x, mask=mask, method=training(steps=1500, batch_size=200, learning_rate=0.05), seed=2)
    blocks = [(0,), (1,), (2,), (3,)] if mask == "one" else [(0,), (3,), (0, 2), (1, 2), (0, 1, 3)]
    worst, spread = 0.0, 0.0
    for k in blocks:
        table = np.asarray(model.log_conditional(fit.params, states, K=k)).reshape(len(states), *(q,) * len(k))
        for m, cell in enumerate(k):
            own = np.exp(table).sum(axis=tuple(a + 1 for a in range(len(k)) if a != m))
            wanted = np.stack([predict(oracle.hide(s, k, q))[cell] for s in states])
            worst = max(worst, float((p.ravel() * (wanted * np.log(wanted / own)).sum(axis=1)).sum()))
            spread = max(spread, float((p.ravel() * (wanted * np.log(wanted * q)).sum(axis=1)).sum()))
    assert worst < 0.01 < 0.1 < spread  # the uniform law is ten times as far


@pytest.mark.slow  # the bar, below, says how many widths are compiled
def test_a_width_is_compiled_once(monkeypatch: pytest.MonkeyPatch):
    traced, plain = [], _training._rows

    def counted(loss, network, batch, key, precision, dropout, *rows):
        traced.append((loss.width, batch[0].shape, batch[1][0].shape, dropout))
        return plain(loss, network, batch, key, precision, dropout, *rows)

    monkeypatch.setattr(_training, "_rows", counted)
    model = made("mlp(layers = 1, width = 9)", 12, Q, "mask whole = everything(x)\n", "s[j in range(12)] : range(5)")
    x = short_rows()
    source = np.where(x < 0, -1, x)
    check = {"x": x[:6], "given": {"s": source[:6]}}
    options = {"steps": 30, "batch_size": 5, "buckets": (4, 8, 12), "validation": check, "evaluate_every": 10}
    fit = model.fit(x, given={"s": source}, missing=-1, method=gm.Training(**options))
    assert sorted(t for t in traced if t[3]) == [(w, (w, 5), (5, w), True) for w in (4, 8, 12)]
    assert len({t for t in traced if not t[3]}) == len([t for t in traced if not t[3]]) <= 3
    assert fit.meta["widths"] == [4, 8, 12]
    batches = Batches.of(NetworkRows(x.T, (source,), (24,)), np.ones(24), 5, (4, 8, 12), 12, False)
    steps = [chosen for epoch in range(9) for _, chosen in batches.plan(0, epoch)][:30]
    assert fit.meta["cells"] == sum((x[chosen] >= 0).sum() for chosen in steps)


def test_an_epoch_has_every_row_once_in_batches_of_like_length():
    x = short_rows(50)
    batches = Batches.of(NetworkRows(x.T, (), (50,)), np.ones(50), 8, (3, 7, 12), 12, False)
    lengths = (x >= 0).sum(axis=1)
    orders = []
    for epoch in (0, 1):
        plan = batches.plan(4, epoch)
        assert len(plan) == batches.per_epoch
        assert sorted(r for _, chosen in plan for r in chosen) == list(range(50))
        for b, chosen in plan:
            batch = batches.batch(b, chosen)
            assert batch.codes.shape == ((3, 7, 12)[b], 8)
            assert (lengths[chosen] <= (3, 7, 12)[b]).all()
            assert b == 0 or (lengths[chosen] > (3, 7, 12)[b - 1]).all()
            assert batch.weights.tolist() == [1.0] * len(chosen) + [0.0] * (8 - len(chosen))
        orders.append([chosen.tolist() for _, chosen in plan])
    assert orders[0] != orders[1]
    assert orders[0] == [chosen.tolist() for _, chosen in batches.plan(4, 0)]
    assert orders[0] != [chosen.tolist() for _, chosen in batches.plan(5, 0)]


def test_a_step_is_the_gradient_of_the_weighted_loss_per_hidden_cell(model):
    """Another route: `loss` lists the one block of the mask."""
    x, w = rows(), np.random.default_rng(1).uniform(0, 2, 24)
    before = model.init_params(seed=3)
    fit = model.fit(x, mask="whole", weights=w, init=before, optimizer=optax.sgd(0.5), method=training())
    value, gradient = eqx.filter_jit(eqx.filter_value_and_grad(lambda p: model.loss(p, x, "whole", weights=w) / N))(before)
    assert fit.loss_trace[0] == pytest.approx(float(value), rel=1e-5)
    wanted = jax.tree.map(lambda a, g: a - 0.5 * g, before["net"], gradient["net"])
    assert close(fit.params["net"], wanted)
    assert not close(fit.params["net"], before["net"], 1e-4)
    even = model.fit(x, mask="whole", init=before, optimizer=optax.sgd(0.5), method=training())
    assert not close(even.params["net"], wanted, 1e-4)


@pytest.mark.slow
def test_rows_of_weight_0_and_rows_that_fill_a_batch_up_teach_nothing(model):
    x, before = rows(10), model.init_params(seed=3)
    options = {"mask": "whole", "init": before, "optimizer": optax.sgd(0.5), "method": training(batch_size=10)}
    some = model.fit(x, weights=[1.0] * 6 + [0.0] * 4, **options)
    few = model.fit(x[:6], **options)
    assert close(some.params, few.params)
    uneven = model.fit(x[:6], **options | {"method": training(batch_size=4, steps=2)})  # 4 rows, then 2 and two that fill up
    plan = Batches.of(NetworkRows(x[:6].T, (), (6,)), np.ones(6), 4, None, N, False).plan(0, 0)
    at = before
    for _, chosen in plan:
        share = len(chosen) / 3  # of a row in a mean batch: every row of an epoch weighs the same
        gradient = eqx.filter_jit(eqx.filter_grad(lambda p, c=chosen, s=share: model.loss(p, x[:6][c], "whole") * s / N))(at)
        at = jax.tree.map(lambda a, g: a - 0.5 * g, at, gradient)
    assert close(uneven.params, at)


def averaged(weights: list) -> object:
    """From zero, 0.7 of what is there and 0.3 of the next; then what zero has left of it is divided out (Kingma and Ba 2015)."""
    total = jax.tree.map(lambda a: 0.0 * np.asarray(a), weights[0])
    for w in weights:
        total = jax.tree.map(lambda a, b: 0.7 * a + 0.3 * np.asarray(b), total, w)
    return jax.tree.map(lambda a: a / (1 - 0.7 ** len(weights)), total)


@pytest.mark.slow
def test_an_average_follows_its_recursion(model):
    x, before = rows(), model.init_params(seed=3)
    options = {"mask": "noisy", "init": before, "optimizer": optax.sgd(0.3)}
    weights = [before["net"], *(model.fit(x, **options, method=training(steps=k, batch_size=8)).params["net"] for k in (1, 2, 3, 4))]
    assert close(model.fit(x, **options, method=training(steps=4, batch_size=8, ema=0.7)).params["net"], averaged(weights[1:]))
    twice = [before["net"], *(model.fit(x, **options, method=training(steps=k, batch_size=8, accumulate=2)).params["net"] for k in (2, 4))]
    found = model.fit(x, **options, method=training(steps=4, batch_size=8, accumulate=2, ema=0.7)).params["net"]
    assert close(found, averaged(twice[1:]))  # one average for each update, not for each batch


@pytest.mark.slow
def test_two_batches_that_accumulate_are_one_of_twice_the_size(model):
    x, before = rows(16), model.init_params(seed=3)
    options = {"mask": "whole", "init": before, "optimizer": optax.adam(0.05)}
    two = model.fit(x, **options, method=training(steps=6, batch_size=8, accumulate=2))
    one = model.fit(x, **options, method=training(steps=3, batch_size=16))
    assert close(two.params, one.params, 1e-4)
    assert len(two.loss_trace) == 6


@pytest.mark.slow
def test_the_schedule_counts_updates():
    """Warm-up to the peak, then a cosine to the end, whether batches accumulate or not."""
    found = []
    for t in (gm.Training(steps=100), gm.Training(steps=400, accumulate=4)):
        optimizer, weight = _training.default_optimizer(t), jnp.ones(())
        state, path = optimizer.init(weight), []
        for _ in range(100):
            step, state = optimizer.update(jnp.ones(()), state, weight)
            path.append(float(step))
        found.append(path)
    assert np.allclose(*found)
    sizes = np.abs(found[0])
    assert sizes.argmax() == 2
    assert sizes[0] == 0
    assert sizes[-1] < 0.01 * sizes.max()


@pytest.mark.parametrize(("steps", "peak"), [(1, 0.03), (5000, 0.03), (20_000, 0.015), (500_000, 0.003), (2_000_000, 0.0015)])
def test_the_peak_falls_with_the_length_of_a_run(steps: int, peak: float):
    """AdaFactor's first update of a weight of 1 is as large as its learning rate; warm-up ends with the first of so few updates as one."""
    optimizer, weight = _training.default_optimizer(gm.Training(steps=2 * steps, accumulate=2, warmup=2)), jnp.ones(())
    state, sizes = optimizer.init(weight), []
    for _ in range(2):
        change, state = optimizer.update(jnp.ones(()), state, weight)
        sizes.append(abs(float(change)))
    assert sizes == pytest.approx([0, peak], rel=1e-6)


@pytest.mark.parametrize("smoothing", thinned([0.0, 0.1, 0.6], 3, 1))
def test_label_smoothing(model, smoothing: float):
    x, before = rows(), model.init_params(seed=3)
    fit = model.fit(x, mask="whole", init=before, method=training(label_smoothing=smoothing))
    table = np.stack([np.asarray(model.log_conditional(before, x[0], K=i, mask="whole")) for i in range(N)])
    hidden = np.asarray(model.log_conditional(before, x[0], K=range(N))).reshape((Q,) * N)
    logs = np.stack([np.log(np.exp(hidden).sum(axis=tuple(a for a in range(N) if a != i))) for i in range(N)])
    assert table.shape == logs.shape
    own = np.mean([logs[i, v] for row in x for i, v in enumerate(row)])
    assert fit.loss_trace[0] == pytest.approx(-(1 - smoothing) * own - smoothing * logs.mean(), rel=1e-5)


@pytest.mark.slow
def test_half_precision_computes_passes_and_keeps_weights_in_32_bits(dry):
    x = short_rows()
    source = np.where(x < 0, -1, x)
    before = dry.init_params(seed=1)
    options = {"given": {"s": source}, "missing": -1, "init": before, "optimizer": SGD}
    plain, half = (dry.fit(x, **options, method=training(steps=3, precision=p, buckets=(12,))) for p in ("float32", "bfloat16"))
    assert all(a.dtype == jnp.float32 for a in jax.tree.leaves(half.params) if eqx.is_array(a))
    assert np.isfinite(half.loss_trace).all()
    assert half.loss_trace[0] == pytest.approx(plain.loss_trace[0], rel=0.05)
    assert half.loss_trace[0] != plain.loss_trace[0]
    narrow = jax.tree.map(lambda a: a.astype(jnp.bfloat16), before["net"])
    source_codes, n = jnp.asarray(np.maximum(source[3], 0), jnp.int32), jnp.asarray(4, jnp.int32)

    def logits():
        encoded = narrow.encode((source_codes,), (n,))
        return narrow.logits(encoded, narrow.prepare(encoded, n, 12), source_codes, n)

    assert jax.eval_shape(logits).dtype == jnp.float32


@pytest.mark.slow
def test_lengths_are_learnt_beside_cells_with_their_weight(dry):
    """One step of gradient descent moves the table of lengths by `length_weight` times the gradient of the mean over rows."""
    x, before = short_rows(6), dry.init_params(seed=1)
    source, lengths = np.where(x < 0, 0, x), (x >= 0).sum(axis=1)
    net = before["net"]
    table = net.length_head.table

    def mean_loss(table):
        head = eqx.tree_at(lambda h: h.table, net.length_head, table)

        def one(row, n):
            return -jax.nn.log_softmax(head.scores(net.encode((row,), (jnp.asarray(12, jnp.int32),))))[n - 1]

        return jax.vmap(one)(jnp.asarray(source, jnp.int32), jnp.asarray(lengths)).mean()

    value, gradient = jax.jit(jax.value_and_grad(mean_loss))(table)
    options = training(batch_size=6, buckets=(12,))
    fit = dry.fit(x, given={"s": source}, missing=-1, init=before, optimizer=optax.sgd(2.0), method=options)
    assert fit.length_trace[0] == pytest.approx(float(value), rel=1e-4)
    wanted = table - 2.0 * 0.25 * gradient
    assert np.allclose(fit.params["net"].length_head.table, wanted, atol=1e-5)


@pytest.mark.slow
def test_dropout_works_in_training_only_and_by_step(translator):
    x = short_rows()
    given = {"s": np.where(x < 0, -1, x)}
    options = {"given": given, "missing": -1, "optimizer": SGD, "method": training(steps=4, buckets=(12,))}
    first, second = (translator.fit(x, **options) for _ in range(2))
    assert same(first.params, second.params)
    assert first.loss_trace.tolist() == second.loss_trace.tolist()
    params = translator.init_params()
    plain = [float(translator.loss(params, x, given=given, missing=-1)) for _ in range(2)]
    assert plain[0] == plain[1]
    lengths = (x >= 0).sum()
    assert first.loss_trace[0] != pytest.approx(plain[0] * 24 / lengths, rel=1e-3)
    assert not same(first.params, translator.fit(x, seed=1, **options).params)


@pytest.mark.slow
@pytest.mark.parametrize("ema", thinned([None, 0.5], 2, 1))
def test_early_stopping_returns_the_best_weights(model, ema):
    """Trained on a few rows, the loss of others falls and rises again."""
    x, other = rows(4, 1), rows(40, 2)
    options = training(steps=400, batch_size=4, learning_rate=0.05, validation={"x": other}, evaluate_every=5, patience=3, ema=ema)
    fit = model.fit(x, mask="whole", method=options)
    steps, losses = fit.validation_trace[:, 0], fit.validation_trace[:, 1]
    assert fit.reason == "patience"
    assert len(fit.loss_trace) == steps[-1] < 400
    assert losses.argmin() == len(losses) - 4
    assert float(model.loss(fit.params, other, "whole")) / N == pytest.approx(losses.min(), rel=1e-5)
    assert losses[-1] > losses.min()
    assert "at its lowest" in repr(fit)


@pytest.mark.slow
def test_validation_is_measured_when_it_is_said_and_changes_nothing(model):
    x, other = rows(), rows(7, 2)
    fit = model.fit(x, mask="whole", method=training(steps=10, batch_size=8, validation={"x": other}, evaluate_every=4))
    assert fit.validation_trace[:, 0].tolist() == [4, 8, 10]
    assert float(model.loss(fit.params, other, "whole")) / N == pytest.approx(fit.validation_trace[-1, 1], rel=1e-5)
    assert same(fit.params, model.fit(x, mask="whole", method=training(steps=10, batch_size=8)).params)


def test_a_run_that_diverges_says_so(model):
    fit = model.fit(rows(), mask="whole", optimizer=optax.sgd(float("inf")), method=training(steps=60))
    assert fit.reason == "diverged"
    assert len(fit.loss_trace) < 60
    assert "lower learning rate" in repr(fit)


def test_a_log_has_a_line_for_every_look(model, tmp_path):
    path = tmp_path / "log.jsonl"
    fit = model.fit(rows(), mask="whole", method=training(steps=45, log=path, validation={"x": rows(5)}, evaluate_every=20))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == [20, 40, 45]
    assert [line["step"] for line in lines if "validation_loss" in line] == [20, 40, 45]
    assert lines[0]["loss"] == pytest.approx(fit.loss_trace[19])


def test_a_short_way_to_say_rows_and_steps(model):
    short = model.fit(rows(), mask="whole", batch_size=8, max_steps=3)
    assert same(short.params, model.fit(rows(), mask="whole", method=gm.Training(steps=3, batch_size=8)).params)
    assert "rows under mask whole" in repr(short)
    assert short.summary()["total"] == sum(a.size for a in jax.tree.leaves(short.params))


@pytest.mark.slow
def test_a_bar_says_what_is_compiled_and_how_far_the_run_is(model, monkeypatch: pytest.MonkeyPatch):
    found: list[str] = []
    shown = lambda self, task, **what: found.append(f"{what.get('completed', '')} {what['note']}".strip())  # noqa: E731
    monkeypatch.setattr("rich.progress.Progress.update", shown)
    x = np.array([[0, 1, 2, -1], [1, -1, -1, -1], [0, 1, -1, -1], [2, 2, 1, 0]] * 4)
    options = {"steps": 40, "batch_size": 4, "buckets": (2, 4), "validation": {"x": x[:2]}, "evaluate_every": 40}
    model.fit(x, "whole", missing=-1, method=gm.Training(**options), progress=True)
    compiling = [line for line in found if line.startswith("compiling")]
    assert sorted(line.split(" cells, ")[0] for line in compiling) == [f"compiling for rows of {n}" for n in (2, 4)]
    assert [line.split(" cells, ")[1] for line in compiling] == ["1 of 2 widths", "2 of 2 widths"]
    moved = [line for line in found if line.startswith(("20 loss", "40 loss"))]
    assert len(moved) == 2 and all(line.endswith("cells/s") for line in moved)
    assert (
        found[-1] == "measuring the loss of validation" and "" in found[: found.index(moved[0])]
    )  # compiled: nothing is said until a loss is known


def test_weights_that_no_file_holds_are_said_before_they_are_trained(model, monkeypatch: pytest.MonkeyPatch):
    """The warning comes before the first step, which here is never taken."""
    size = sum(a.nbytes for a in jax.tree.leaves(eqx.filter(model.init_params(0), eqx.is_array)))
    monkeypatch.setattr("gmlmdsl.fit._saved_fits.MOST", size - 1)
    monkeypatch.setattr("gmlmdsl.train._network_fit.train", lambda *args: 1 / 0)
    with (
        pytest.warns(gm.GmlmWarning, match=f"the parameters take {size:,} bytes, more than the {size - 1:,} of a file"),
        pytest.raises(ZeroDivisionError),
    ):
        model.fit(rows(), mask="one", method=gm.Training(steps=1, batch_size=4))
