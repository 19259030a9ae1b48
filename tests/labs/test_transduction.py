"""The transduction task: its law against brute force and an independent transducer; its vocabularies and scores."""

import importlib
import itertools
import sys

import numpy as np
import pytest
from markdown_blocks import ROOT

import gmlmdsl as gm
from gmlmdsl.program import check_file

FOLDER = ROOT / "examples" / "labs" / "transduction"
NAMES = ("task", "exact", "pieces", "scores", "ablate", "table")


@pytest.fixture(scope="module")
def parts():
    """The scripts, as modules."""
    sys.path.insert(0, str(FOLDER))
    yield {name: importlib.import_module(name) for name in NAMES}
    sys.path.remove(str(FOLDER))
    for name in NAMES:
        del sys.modules[name]


@pytest.fixture(scope="module")
def grammar(parts):
    return parts["task"].Grammar(0)


def source_of(grammar, text):
    """A source sentence from names such as `verb1`."""
    codes = {f"{role}{k}": code for code, (role, k) in enumerate(grammar.source_roles)}
    return tuple(codes[word] for word in text.split())


def names_of(grammar, target):
    return tuple("{}{}.{}".format(*grammar.target_roles[word]) for word in target)


# A second transducer, on texts, which shares nothing with the first but the words' names.
SHARED_FORM, WEIGHTS = {0: 0, 1: 1, 2: 1}, ((0.4, 0.3, 0.3), (0.55, 0.45), (0.6, 0.4), (0.6, 0.4))


def noun_phrase(words, dialect, register, article):
    if words[0].startswith("pronoun"):
        return [f"{words[0]}.{register}"]
    noun = words[-1]
    kind, k = noun.rstrip("0123456789"), noun[-1]
    out = [f"{words[0]}.0"] if article == 0 else []
    out += {
        "shared": [f"{noun}.{SHARED_FORM[dialect]}"],
        "distinct": [f"{noun}.{dialect}"],
        "compound": [f"head{k}.0", f"distinct{k}.{dialect}"],
    }[kind]
    adjectives = [w for w in words if w.startswith("adjective")]
    return out + [f"{a}.0" for a in adjectives for _ in range(2 if "very0" in words else 1)]


def clause(words, dialect, register, order, article):
    at = next(k for k, w in enumerate(words) if w.startswith(("verb", "split")))
    verb = [f"{words[at]}.{register}"]
    tail = [f"particle{words[at][-1]}.0"] if words[at].startswith("split") else []
    first = noun_phrase([w for w in words[:at] if w != "do0"], dialect, register, article)
    second = noun_phrase(words[at + 1 :], dialect, register, article) if words[at + 1 :] else []
    return first + verb + second + tail if order == 0 else first + second + tail + verb


def law_by_hand(text):
    words = text.split()
    cuts = [k for k, w in enumerate(words) if w.startswith("and")]
    law = {}
    for choice in itertools.product(range(3), range(2), range(2), range(2)):
        dialect, register, order, article = choice
        out, begin = [], 0
        for cut in [*cuts, len(words)]:
            out += clause(words[begin:cut], dialect, register, order, article)
            out += [f"{words[cut]}.0"] if cut < len(words) else []
            begin = cut + 1
        p = np.prod([w[z] for w, z in zip(WEIGHTS, choice, strict=True)])
        law[tuple(out)] = law.get(tuple(out), 0.0) + p
    return law


def test_the_law_is_that_of_an_independent_transducer(grammar):
    rng = np.random.default_rng(3)
    for _ in range(200):
        source = grammar.sample_source(rng)
        text = " ".join(f"{role}{k}" for role, k in (grammar.source_roles[w] for w in source))
        law = grammar.law(source)
        found = {names_of(grammar, t): p for t, p in zip(law.targets, law.probabilities, strict=True)}
        assert found == pytest.approx(law_by_hand(text), abs=1e-14)


def test_a_translation_by_hand(grammar):
    source = source_of(grammar, "determiner0 very0 adjective1 shared2 do0 split0 pronoun1")
    second = grammar.translate(source, (2, 1, 0, 0))
    last = grammar.translate(source, (2, 1, 1, 1))
    assert " ".join(names_of(grammar, second)) == "determiner0.0 shared2.1 adjective1.0 adjective1.0 split0.1 pronoun1.1 particle0.0"
    assert " ".join(names_of(grammar, last)) == "shared2.1 adjective1.0 adjective1.0 pronoun1.1 particle0.0 split0.1"


SHORT = (
    "pronoun0 verb1 pronoun1",
    "determiner0 shared0 verb2",
    "determiner0 distinct1 verb0",
    "pronoun1 split0",
    "determiner0 compound0 verb0",
)


@pytest.mark.parametrize("text", SHORT)
def test_all_strings_have_probabilities_that_sum_to_one(grammar, text):
    source = source_of(grammar, text)
    words, total, listed = range(len(grammar.target_words)), 0.0, set()
    law = grammar.law(source)
    longest = max(map(len, law.targets))
    small = sorted({w for t in law.targets for w in t} | {0, 1, 2})  # of four words: those that occur and three others
    for length in range(longest + 1):
        for target in itertools.product(words if length < 4 else small, repeat=length):
            p = grammar.log_prob(source, target)
            if p > -np.inf:
                total, listed = total + np.exp(p), listed | {target}
    assert total == pytest.approx(1, abs=1e-12)
    assert listed == set(law.targets)
    assert grammar.log_prob(source, grammar.best(source)) == max(grammar.log_prob(source, t) for t in listed)
    assert law.entropy == pytest.approx(-sum(np.exp(p) * p for p in (grammar.log_prob(source, t) for t in listed)))


def test_draws_have_the_law(grammar):
    source = source_of(grammar, "determiner0 shared0 verb2 determiner0 distinct1")
    rng, n = np.random.default_rng(0), 4000
    law = grammar.law(source)
    counts = dict.fromkeys(law.targets, 0)
    for _ in range(n):
        counts[grammar.sample(source, rng)] += 1
    expected = n * law.probabilities
    chi_square = (((np.array(list(counts.values())) - expected) ** 2) / expected).sum()
    assert chi_square < 60  # 23 degrees of freedom: exceeded once in 30,000


@pytest.mark.slow
def test_sentences_are_as_long_as_promised_and_speak_of_everything(parts, grammar):
    task = parts["task"]
    pairs = grammar.pairs(2000, seed=5)
    assert {w for s, _ in pairs for w in s} == set(range(len(grammar.source_words)))
    assert {w for _, t in pairs for w in t} == set(range(len(grammar.target_words)))
    assert all(len(s) <= task.LONGEST and task.SHORTEST <= len(t) <= task.LONGEST for s, t in pairs)
    assert grammar.pairs(5, seed=5) == pairs[:5]
    assert max(len(grammar.law(s).lengths) for s, _ in pairs) > 1
    assert len(grammar.source_words) + len(grammar.target_words) == 50


def test_what_is_no_sentence_is_refused(grammar):
    for text in (
        "verb0",
        "pronoun0",
        "determiner0 verb0",
        "determiner0 very0 shared0 verb0",
        "pronoun0 verb0 pronoun0 verb0",
        "pronoun0 verb0 and0",
    ):
        with pytest.raises(ValueError, match="expected at word|no verb at word"):
            grammar.law(source_of(grammar, text))


def by_strings(grammar, source, length, weigh):
    """Marginals of p(y | source) weigh(y) over all strings y of a length."""
    n = len(grammar.target_words)
    table, total = np.zeros((length, n)), 0.0
    for y in itertools.product(range(n), repeat=length):
        p = np.exp(grammar.log_prob(source, y)) * weigh(y)
        if p > 0:
            total += p
            table[np.arange(length), y] += p
    return table / total


@pytest.mark.slow
@pytest.mark.parametrize("text", SHORT[:3])
def test_conditionals_given_what_is_seen_are_bayes_rule(parts, grammar, text):
    exact, source = parts["exact"], source_of(grammar, text)
    n, law = len(grammar.target_words), grammar.law(source)
    rng = np.random.default_rng(1)
    for noise in (exact.Noise(0.2, 0.8), exact.Noise(0.3, 0.0), exact.Noise(0.2, 0.5)):
        seen = noise.corrupt(np.array(law.targets[1]), n, rng)

        def weigh(y, noise=noise, seen=seen):
            return np.prod(
                [
                    (noise.hide if s == exact.HIDDEN else noise.uniform / n + noise.keep * (s == word))
                    for s, word in zip(seen, y, strict=True)
                ]
            )

        found = exact.conditionals(law, seen, noise, n)
        np.testing.assert_allclose(found, by_strings(grammar, source, len(seen), weigh), atol=1e-12)


def test_the_best_product_by_brute_force(parts, grammar):
    source = source_of(grammar, "determiner0 shared0 verb2")
    n, law, found = len(grammar.target_words), grammar.law(source), np.zeros(2)
    for length, p in law.lengths.items():
        table = by_strings(grammar, source, length, lambda y: 1.0)
        targets, weights = law.of_length(length)
        for target, w in zip(targets, weights, strict=True):
            q = table[np.arange(length), target].prod()
            found += p * np.array([q, w * np.log(w / q)])
    product = parts["exact"].product(law, n)
    np.testing.assert_allclose([product.draw_valid, product.correlation], found, atol=1e-12)


def test_marginals_contradict_each_other_where_dialects_share_a_word(parts, grammar):
    """Of three dialects the second and third share a word of one noun: its mode is theirs, that of the other noun is the first's."""
    source = source_of(grammar, "determiner0 shared0 verb2 determiner0 distinct1")
    n, law = len(grammar.target_words), grammar.law(source)
    assert parts["exact"].product(law, n).argmax_valid == 0
    targets, weights = law.of_length(5)
    mode = parts["exact"].one_by_one(targets, weights, n).argmax(axis=1)
    assert "dialect" in grammar.disagreements(mode)


def test_least_losses(parts, grammar):
    exact, pairs = parts["exact"], grammar.pairs(60, seed=2)
    n = len(grammar.target_words)
    assert exact.token_loss(grammar, pairs, exact.Noise(1.0, 0.0)) == pytest.approx(0)
    source = pairs[0][0]
    law = grammar.law(source)
    for noise in (exact.Noise(0.0, 1.0), exact.Noise()):  # nothing is shown: the sum of the entropies of the marginals
        mean = sum(p * exact.token_loss(grammar, [(source, t)], noise) for t, p in zip(law.targets, law.probabilities, strict=True))
        tables = [(p, exact.one_by_one(*law.of_length(length), n)) for length, p in law.lengths.items()]
        assert mean == pytest.approx(sum(-p * (t[t > 0] * np.log(t[t > 0])).sum() for p, t in tables))
    losses = [exact.token_loss(grammar, pairs, exact.Noise(k, 1 - k), draws=5) for k in (0.0, 0.15, 0.5)]
    assert losses == sorted(losses, reverse=True)


def test_exact_conditionals_one_token_at_a_time_make_translations_and_one_step_does_not(parts, grammar):
    exact, pairs, n = parts["exact"], grammar.pairs(100, seed=4), len(grammar.target_words)
    rng = np.random.default_rng(0)
    hide, random = exact.Noise(0.15, 0.0), exact.Noise(0.15, 0.85)
    one_at_a_time = exact.valid_share(grammar, pairs, lambda law, k: exact.refine(law, k, hide, n, k, "linear", rng)[0])
    assert one_at_a_time == 1
    shares = [exact.valid_share(grammar, pairs, lambda law, k, t=t: exact.refine(law, k, random, n, t, "all", rng)[0]) for t in (1, 4)]
    assert shares[0] < 0.5 < shares[1]
    assert [len(exact.refine(grammar.law(s), len(t), random, n, 3, "all", rng)[1]) for s, t in pairs[:2]] == [3, 3]


def test_scores_of_hand_made_outputs(parts, grammar):
    scores = parts["scores"]
    source = source_of(grammar, "determiner0 very0 adjective1 shared2 verb0 pronoun1")
    good = grammar.best(source)
    verb, pronoun = (grammar._target[role, k, 0] for role, k in (("verb", 0), ("pronoun", 1)))
    other = tuple(grammar._target["pronoun", 1, 1] if w == pronoun else w for w in good)
    single = tuple(w for k, w in enumerate(good) if k == 0 or good[k - 1] != w)
    stutter = tuple(w for word in good for w in ([word] * 3 if word == verb else [word]))
    assert pronoun in good and len(single) == len(good) - 1 and len(stutter) == len(good) + 2

    def of(*outputs):
        return scores.score(grammar, [source] * len(outputs), outputs)

    perfect = {"valid": 1.0, "disagreement": 0.0, "stutter": 0.0, "lost_doubles": 0.0, "length": 1.0, "unknown": 0.0}
    assert of(good) == perfect
    assert of(*grammar.law(source).targets) == perfect
    assert of(other) == perfect | {"valid": 0.0, "disagreement": 1.0}
    assert grammar.disagreements(other) == ["register"]
    assert of(single) == perfect | {"valid": 0.0, "lost_doubles": 1.0}
    assert of(stutter) == perfect | {"valid": 0.0, "stutter": 1000 * 2 / len(stutter), "length": 0.0}
    assert of((*good[:-1], -1))["unknown"] == 1
    assert of(good, single)["valid"] == 0.5


def test_vocabularies_spell_and_read_back(parts, grammar):
    pieces, pairs = parts["pieces"], grammar.pairs(50, seed=1)
    for k, side in enumerate(("source", "target")):
        sentences = [pair[k] for pair in pairs]
        own, foreign, characters = (pieces.vocabulary(grammar, kind, side) for kind in pieces.KINDS)
        codes = [v.encode(sentences) for v in (own, foreign, characters)]
        for v, rows in zip((own, foreign, characters), codes, strict=True):
            assert v.decode(rows) == sentences
            assert rows.shape[1] == v.longest and rows.max() < v.size
        sizes = [(rows >= 0).sum() for rows in codes]
        assert sizes[0] == sum(map(len, sentences)) + 2 * len(sentences) * (side == "source") < sizes[1] < sizes[2]


def test_what_is_no_word_is_read_as_unknown(parts, grammar):
    v = parts["pieces"].vocabulary(grammar, "characters", "target")
    spelt = [v.pieces.index(piece) for piece in ("_z", "z", "_b", "b", "b")]
    assert v.decode(np.array([[*spelt, -1], [*v.spellings[3], *[-1] * (6 - len(v.spellings[3]))]])) == [(-1, -1), (3,)]
    assert v.decode(np.full((1, 4), -1)) == [()]
    with pytest.raises(ValueError, match="no piece begins"):
        _ = parts["pieces"].Pieces(("ab",), ("_a",)).spellings


def test_pieces_are_the_most_frequent_joins(parts):
    learn, letters = parts["pieces"].learn, parts["pieces"].LETTERS
    text = ["bad"] * 3 + ["ban"] * 2 + ["gad"]
    assert learn(text, len(letters) + 2)[len(letters) :] == ("_ba", "_bad")  # `_ba` 5 times, then `_bad` 3 times


@pytest.mark.slow
def test_the_two_models_differ_in_positional_attention():
    program = gm.load(FOLDER / "transduction.gmlm")
    layers = {name: next(iter(program.model(name).init_params(0).values())).decoder.layers for name in ("placed", "unplaced")}
    assert all(layer.positional is not None for layer in layers["placed"])
    assert all(layer.positional is None for layer in layers["unplaced"])


def test_the_program_checks_without_a_warning():
    assert check_file(FOLDER / "transduction.gmlm").warnings == ()
