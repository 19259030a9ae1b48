"""Programs of sentences of a probabilistic context-free grammar in Greibach normal form.

Reference: Greibach 1965; Li and Risteski 2021, whom Li 2025 cites in Chapter 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .._diagnostics import fail, whole_number
from ._dyck import MOST_STACKS, SUM_TOLERANCE

Rule = tuple[float, str, Sequence[str]]
Stack = tuple[str, ...]
Flat = list[tuple[str, float, str, Stack]]


def pcfg(
    rules: Mapping[str, Sequence[Rule]],
    length: int,
    depth: int | None = None,
    *,
    model: str = "sentences",
) -> str:
    """Return the text of a program whose model draws sentences of a grammar.

    A rule A -> a B_1 .. B_m writes the word a, and the nonterminals B_1 .. B_m replace A. The
    leftmost nonterminal is always replaced first, so that the pending ones are a stack, and each
    word takes one rule. The model has a latent rule for each word and a latent stack before it. The
    weight of a sentence is the sum of the products of the probabilities of its derivations:

        p(x) = inside(x) / Z, with Z = the sum of inside(y) over sentences y of the same length.

    It is the distribution of the grammar given the length. Its `log_partition` is log Z, `log_prob`
    adds up all derivations, and the marginals of `r` are the expected uses of each rule.

    Args:
        rules: by nonterminal, the start first, its rules: (probability, word, nonterminals). The
            probabilities of a nonterminal sum to 1. Every context-free grammar without the empty
            sentence has such rules.
        length: the number of words of a sentence.
        depth: the maximum number of pending nonterminals. None takes `length`, which excludes no
            sentence. A smaller one excludes derivations that need more.
        model: the name of the model.

    Raises:
        GmlmError: E507 for rules that are no such grammar, E601 if derivations have more
            than 8192 stacks.
    """
    length = whole_number("length", length, 1)
    depth = length if depth is None else min(whole_number("depth", depth, 1), length)
    if not model.isidentifier():
        raise fail("E507", f"model must be a name, got {model!r}")
    flat, start = _verified(rules), next(iter(rules))
    number = _stacks(flat, start, length, depth)
    after = [[_after(number, stack, a, to) for a, _, _, to in flat] for stack in number]
    title = f"# Sentences of {length} words, at most {depth} nonterminals pending."
    return "\n".join([title, *_lines(flat, start, length, after, model)]) + "\n"


def _lines(flat: Flat, start: str, length: int, after: list[list[int]], model: str) -> list[str]:
    """Return the lines of the program; `after` has the number of the stack after each rule."""
    n, words = len(after), list(dict.fromkeys(word for _, _, word, _ in flat))
    says = [[int(w == word) for w in words] for _, _, word, _ in flat]
    return [
        "# Written by gm.examples.pcfg. Its rules by number:",
        *[f"#   {k}: {a} -> {' '.join([word, *to])}" for k, (a, _, word, to) in enumerate(flat)],
        f"domain word = labels({', '.join(map(_quoted, words))})",
        f"input n : int = {length}",
        f"input chance[{len(flat)}] : real = {[p for _, p, _, _ in flat]}",
        f"input says[{len(flat)}, word] : int = {says}",
        f"# The stack after each rule, by the stack before it; {n} is none.",
        f"input after[{n}, {len(flat)}] : int = {after}",
        "index t = range(n)",
        "",
        f"model {model} {{",
        "  var x[i in t] : word",
        f"  latent r[i in t] : range({len(flat)})",
        f"  # The pending nonterminals before word i: none is 0, {start} is 1.",
        f"  latent s[i in range(n + 1)] : range({n})",
        "  require s[0] == 1",
        "  require s[n] == 0",
        "  require says[r[i], x[i]] == 1 for i in t",
        "  require s[i + 1] == after[s[i], r[i]] for i in t",
        "  factor log(chance[r[i]]) for i in t",
        "}",
    ]


def _after(number: Mapping[Stack, int], stack: Stack, name: str, to: Stack) -> int:
    """Return the number of the stack after a rule, the number of stacks if there is none."""
    if stack[:1] != (name,):
        return len(number)
    return number.get((*to, *stack[1:]), len(number))


def _stacks(flat: Flat, start: str, length: int, depth: int) -> dict[Stack, int]:
    """Return the numbers of the stacks that a derivation may have, leftmost nonterminal first.

    Each pending nonterminal writes a word at least, so that stacks are no deeper than the words
    that are left.

    Raises:
        GmlmError: E601 for too many stacks.
    """
    number: dict[Stack, int] = {(): 0, (start,): 1}
    newest: list[Stack] = [(start,)]
    for left in reversed(range(length)):
        rules = ((s, a, to) for s in newest for a, _, _, to in flat if s[:1] == (a,))
        reached = {(*to, *s[1:]) for s, _, to in rules}
        newest = sorted(s for s in reached if len(s) <= min(depth, left))
        for stack in newest:
            number.setdefault(stack, len(number))
        if len(number) > MOST_STACKS:
            what = f"derivations of {length} words, at most {depth} nonterminals deep,"
            message = f"{what} have more than {MOST_STACKS:,} stacks"
            raise fail("E601", message, help="a smaller `depth`, or fewer words")
    return number


def _verified(rules: Mapping[str, Sequence[Rule]]) -> Flat:
    """Return all rules as (nonterminal, probability, word, nonterminals)."""
    if not rules:
        raise fail("E507", "a grammar has at least one nonterminal, the start")
    for name, own in rules.items():
        _verify_chances(name, [p for p, _, _ in own])
    flat = [(name, p, word, tuple(to)) for name, own in rules.items() for p, word, to in own]
    for name, _, _, to in flat:
        unknown = sorted({*to} - {*rules})
        if unknown:
            message = f"`{name}` has a rule with the nonterminal `{unknown[0]}`, which has no rules"
            raise fail("E507", message, help="a key of `rules` for each nonterminal")
    return flat


def _verify_chances(name: str, chances: list[float]) -> None:
    if not all(0 < p <= 1 for p in chances) or abs(math.fsum(chances) - 1) > SUM_TOLERANCE:
        wanted = "must be above 0 and sum to 1"
        raise fail("E507", f"the probabilities of `{name}` {wanted}, got {chances}")


def _quoted(word: str) -> str:
    if not word or '"' in word or "\\" in word or "\n" in word:
        raise fail("E507", f"a word has no quotes, backslashes or ends of lines, got {word!r}")
    return f'"{word}"'
