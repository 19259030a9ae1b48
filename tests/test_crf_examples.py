"""The programs of the tagger and of the picture cleaner: likelihood, gradient and mode beside recursions written by hand."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from markdown_blocks import ROOT
from test_examples import load_script

import gmlmdsl as gm

Array = np.ndarray
LENGTH, WORDS, ROWS = 9, 4, 40  # 5^9 rows of tags: not enumerated


def local(params: dict[str, Array], given: dict[str, Array]) -> Array:
    """The score of each tag by itself, shape (rows, length, tags)."""
    return params["means"].T[given["word"]] + params["leans"] * given["capital"][..., None]


def log_likelihood(params: dict[str, Array], tags: Array, given: dict[str, Array]) -> float:
    """The sum over rows of log p(tags | words): the score of the path less the forward recursion's sum over all."""
    score, moves, rows = local(params, given), params["moves"], np.arange(len(tags))
    ahead = score[:, 0]
    path = score[rows, 0, tags[:, 0]]
    for t in range(1, tags.shape[1]):
        ahead = np.logaddexp.reduce(ahead[:, :, None] + moves, axis=1) + score[:, t]
        path = path + moves[tags[:, t - 1], tags[:, t]] + score[rows, t, tags[:, t]]
    return float((path - np.logaddexp.reduce(ahead, axis=1)).sum())


def posterior(params: dict[str, Array], given: dict[str, Array]) -> tuple[Array, Array]:
    """p(tag_t | words), (rows, length, tags), and p(tag_t, tag_t+1 | words), (rows, length - 1, tags, tags)."""
    score, moves = local(params, given), params["moves"]
    ahead, behind = np.zeros_like(score), np.zeros_like(score)
    for t in range(1, score.shape[1]):
        ahead[:, t] = np.logaddexp.reduce((ahead + score)[:, t - 1, :, None] + moves, axis=1)
    for t in reversed(range(score.shape[1] - 1)):
        behind[:, t] = np.logaddexp.reduce((behind + score)[:, t + 1, None, :] + moves, axis=2)
    single = np.exp(ahead + score + behind - (ahead + score + behind).max(axis=2, keepdims=True))
    pairs = (ahead + score)[:, :-1, :, None] + moves + (behind + score)[:, 1:, None, :]
    pairs = np.exp(pairs - pairs.max(axis=(2, 3), keepdims=True))
    return single / single.sum(axis=2, keepdims=True), pairs / pairs.sum(axis=(2, 3), keepdims=True)


def gradient(params: dict[str, Array], tags: Array, given: dict[str, Array]) -> dict[str, Array]:
    """Of the log-likelihood: what is seen less what is expected."""
    single, pairs = posterior(params, given)
    n_tags = single.shape[2]
    less = np.eye(n_tags)[tags] - single
    moved = np.eye(n_tags)[tags[:, :-1], :, None] * np.eye(n_tags)[tags[:, 1:], None, :] - pairs
    words = np.eye(WORDS)[given["word"]]
    return {
        "means": np.einsum("rta,rtw->aw", less, words),
        "leans": np.einsum("rta,rt->a", less, given["capital"]),
        "moves": moved.sum(axis=(0, 1)),
    }


def viterbi(params: dict[str, Array], given: dict[str, Array]) -> Array:
    """The most probable row of tags of each row."""
    score, moves = local(params, given), params["moves"]
    best, came = score[:, 0], []
    for t in range(1, score.shape[1]):
        through = best[:, :, None] + moves
        came.append(through.argmax(axis=1))
        best = through.max(axis=1) + score[:, t]
    path = [best.argmax(axis=1)]
    for back in reversed(came):
        path.append(back[np.arange(len(back)), path[-1]])
    return np.stack(path[::-1], axis=1)


@pytest.fixture(scope="module")
def tagging() -> tuple[Any, Any, dict[str, Array], Array, dict[str, Array]]:
    script = load_script("tagger")
    model = gm.load(ROOT / "examples" / "tagger.gmlm", length=LENGTH, n_words=WORDS).model("tagger")
    params, rng = script.truth(model), np.random.default_rng(3)
    given = script.draw_given(model, ROWS, rng)
    return script, model, params, script.draw_tags(params, given, rng), given


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion", "float64")
def test_the_likelihood_of_a_chain_is_the_forward_recursions(tagging: Any) -> None:
    _, model, params, tags, given = tagging
    expected = log_likelihood(params, tags, given)
    np.testing.assert_allclose(np.asarray(model.log_prob(params, tags, given=given)).sum(), expected, rtol=1e-10)
    np.testing.assert_allclose(ROWS * float(model.loss(params, tags, mask="whole", given=given)), -expected, rtol=1e-10)
    found = jax.grad(lambda at: -ROWS * model.loss(at, tags, mask="whole", given=given))(model._params(params, model.lowered))
    for name, value in gradient(params, tags, given).items():
        np.testing.assert_allclose(np.asarray(found[name]), value, atol=1e-8, err_msg=name)


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion", "float64")
def test_a_fit_ends_where_the_gradient_of_the_likelihood_and_prior_is_0(tagging: Any) -> None:
    _, model, _, tags, given = tagging
    fit = model.fit(tags, mask="whole", given=given, progress=False)
    assert fit.status.converged
    deviations = {"means": 1, "leans": 1, "moves": 2}
    prior = 0.0
    for name, value in gradient(fit.params, tags, given).items():
        np.testing.assert_allclose(value - fit.params[name] / deviations[name] ** 2, 0, atol=1e-5, err_msg=name)
        spread = deviations[name]
        prior += (-(fit.params[name] ** 2) / (2 * spread**2) - np.log(spread * np.sqrt(2 * np.pi))).sum()
    np.testing.assert_allclose(fit.objective, -log_likelihood(fit.params, tags, given) - prior, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
def test_the_most_probable_tags_are_viterbis(tagging: Any) -> None:
    _, model, params, _, given = tagging
    best, log_p = model.map(params, given=given)
    expected = viterbi(params, given)
    np.testing.assert_array_equal(best, expected)
    np.testing.assert_allclose(np.asarray(log_p).sum(), log_likelihood(params, expected, given), rtol=1e-10)
    found = model.marginals(params, given=given)["tag"]  # of more rows than a tag has values
    np.testing.assert_allclose(found, posterior(params, given)[0], atol=1e-10)


def test_the_scripts_draws_are_the_models(tagging: Any) -> None:
    script, _, params, _, _ = tagging
    rng, rows = np.random.default_rng(4), 20_000
    given = {"word": np.tile([0, 1, 2], (rows, 1)), "capital": np.tile([0.5, 0.0, -1.0], (rows, 1))}
    drawn = script.draw_tags(params, given, rng)
    single, pairs = posterior(params, {k: v[:1] for k, v in given.items()})
    for share, exact in (
        (np.eye(5)[drawn].mean(axis=0), single[0]),
        (np.einsum("rta,rtb->tab", np.eye(5)[drawn[:, :-1]], np.eye(5)[drawn[:, 1:]]) / rows, pairs[0]),
    ):
        assert (np.abs(share - exact) < 5 * np.sqrt(exact * (1 - exact) / rows) + 1e-9).all()  # 65 shares


@pytest.mark.slow  # long
@pytest.mark.usefixtures("standard_promotion")
def test_the_tagger_tags_better_with_its_chain(capsys: pytest.CaptureFixture[str]) -> None:
    found = load_script("tagger").main(rows=100, held_out=4000, length=LENGTH, n_words=WORDS)
    assert "place by place" in capsys.readouterr().out
    # Rows are independent, places of a row are not: a row's share of right tags has a standard deviation below 1/2.
    error = 0.5 / np.sqrt(4000)
    assert found["true parameters"][1] - found["without the chain"][1] > 4 * error
    assert found["likelihood"][1] - found["without the chain"][1] > 4 * error
    assert found["true parameters"][1] >= found["true parameters"][0] - 4 * error  # place by place is best by place


@pytest.mark.slow  # long; the gate runs the script, and looks at no result
@pytest.mark.usefixtures("standard_promotion")
def test_a_cleaned_picture_is_nearer_the_truth(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "pictures.png"
    found = load_script("denoise").main(side=12, fitted=6, held_out=6, draws=100, out=str(out))
    assert "means of x drawn and exact differ by" in capsys.readouterr().out
    error = 0.5 / np.sqrt(6 * 12 * 12)  # of a share of so many pixels; of the difference of two shares of the same pixels less
    assert found["mask one"] - found["the sign of y"] > 2 * error
    assert abs(found["mask one"] - found["true parameters"]) < 4 * error
    assert abs(found["exact"] - found["strips"]) < 4 * 0.5 / np.sqrt(6 * 6 * 6)  # narrow pictures have 6 x 6 pixels
    assert out.read_bytes()[:4] == b"\x89PNG"
