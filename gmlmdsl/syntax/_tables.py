"""Load the tables of the parser.

They are made once from the grammar, stored as JSON, and used if their hash is that of the grammar.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GRAMMAR = "gmlm.lark"
TABLES = "gmlm.tables.json"
START = "program"
END = "$END"
ABSENT = -1  # in `Rule.take`: an optional part that is absent


@dataclass(frozen=True, slots=True)
class Rule:
    """One form of a rule.

    Attributes:
        origin: the name of the rule.
        name: the name of the form if it has one, else that of the rule.
        size: the number of parts.
        take: the parts from which the node is built. An entry is the number of a part, `ABSENT`, or
            `-2 - k` for a part k that is replaced by its own parts.
        single: whether a single part takes the place of the node.
        inline: whether the parts are inserted into the parent instead of a node.
        passes: whether the form is one part and nothing else, as a `product` is a `sum`. No node is
            built.
        plain: whether each entry of `take` is the number of a part.
    """

    origin: str
    name: str
    size: int
    take: tuple[int, ...]
    single: bool
    inline: bool
    passes: bool
    plain: bool


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """The data of the parser and the lexer.

    Attributes:
        rules: the forms of the rules.
        actions: `actions[state]` maps a terminal to the next state (0 and up) or to a rule r to
            reduce by (~r).
        gotos: `gotos[state]` maps the name of a rule to a state.
        final: the state after the whole text.
        literals: maps the text of a word or an operator to its terminal.
        patterns: maps the other terminals to their regular expressions.
        passed: the last state of each chain of forms that pass, as far as `run` has met them.
    """

    rules: tuple[Rule, ...]
    actions: tuple[dict[str, int], ...]
    gotos: tuple[dict[str, int], ...]
    final: int
    literals: dict[str, str]
    patterns: dict[str, str]
    passed: dict[tuple[int, str, tuple[str, ...]], int] = field(default_factory=dict, repr=False)


@functools.cache
def load_tables() -> Tables:
    """Return the tables of the grammar.

    The stored tables are used if they match the grammar. Otherwise they are made, which takes a
    tenth of a second.
    """
    folder = _grammar_folder()
    text = (folder / GRAMMAR).read_text(encoding="utf-8")
    try:
        data = json.loads((folder / TABLES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        data = {}
    if data.get("grammar") != _hash(text):
        data = build_tables(text)
    return _unpack(data)


def _grammar_folder() -> Path:
    package = Path(__file__).resolve().parent.parent
    # A wheel contains the grammar inside the package. A checkout has it beside the package.
    installed = package / "grammar"
    return installed if (installed / GRAMMAR).is_file() else package.parent / "grammar"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def build_tables(text: str) -> dict[str, Any]:
    """Return the LALR tables of a grammar as plain data.

    The result is equal for equal text: states are numbered by their distance from the start.

    Args:
        text: the grammar, in Lark's notation.

    Returns:
        The content of `gmlm.tables.json`. It contains no code and no pickled objects.
    """
    from lark import Lark

    parser = Lark(text, parser="lalr", lexer="contextual", start=START)
    table = parser.parser.parser._parse_table  # This is the only place that uses Lark's internals.
    number = _numbering(table.states, table.start_states[START])
    rules = sorted(parser.rules, key=lambda r: (r.origin.name, r.order, [s.name for s in r.expansion]))
    rule_number = {rule: k for k, rule in enumerate(rules)}
    lookaheads: dict[tuple[str, ...], int] = {}
    states = []
    for state in sorted(number, key=number.__getitem__):
        shifts = {symbol: number[target] for symbol, (action, target) in sorted(table.states[state].items()) if action.name == "Shift"}
        reduces: dict[int, list[str]] = {}
        for symbol, (action, target) in sorted(table.states[state].items()):
            if action.name != "Shift":
                reduces.setdefault(rule_number[target], []).append(symbol)
        packed = [[k, lookaheads.setdefault(tuple(v), len(lookaheads))] for k, v in sorted(reduces.items())]
        states.append([shifts, packed])
    return {
        "grammar": _hash(text),
        "final": number[table.end_states[START]],
        "literals": {t.pattern.value: t.name for t in parser.terminals if t.pattern.type == "str"},
        "patterns": {t.name: t.pattern.to_regexp() for t in parser.terminals if t.pattern.type == "re"},
        "rules": [_pack_rule(rule) for rule in rules],
        "lookaheads": [list(v) for v in lookaheads],
        "states": states,
    }


def _numbering(states: dict[Any, dict[str, Any]], start: Any) -> dict[Any, int]:
    number = {start: 0}
    queue = [start]
    for state in queue:
        for _, (action, target) in sorted(states[state].items(), key=lambda item: item[0]):
            if action.name == "Shift" and target not in number:
                number[target] = len(number)
                queue.append(target)
    return number


def _pack_rule(rule: Any) -> list[Any]:
    """Return the origin, name, size, `take` and `single` of a rule.

    They describe the operations of Lark's tree builder.
    """
    options = rule.options
    take: list[int] = []
    absent = "".join(str(int(b)) for b in options.empty_indices).split("0") if options.empty_indices else [""] * (len(rule.expansion) + 1)
    for k, symbol in enumerate(rule.expansion):
        take += [ABSENT] * len(absent[k])
        if not symbol.is_term:
            take.append(-2 - k if symbol.name.startswith("_") else k)
        elif options.keep_all_tokens or not symbol.filter_out:
            take.append(k)
    take += [ABSENT] * len(absent[-1])
    name = rule.alias or str(rule.origin.name)
    return [str(rule.origin.name), name, len(rule.expansion), take, bool(options.expand1 and not rule.alias)]


def _unpack(data: dict[str, Any]) -> Tables:
    rules = tuple(_unpack_rule(*packed) for packed in data["rules"])
    lookaheads = data["lookaheads"]
    actions, gotos = [], []
    for shifts, reduces in data["states"]:
        action: dict[str, int] = {}
        for rule, which in reduces:
            action |= dict.fromkeys(lookaheads[which], ~rule)
        action |= {symbol: target for symbol, target in shifts.items() if _is_terminal(symbol)}
        actions.append(action)
        gotos.append({symbol: target for symbol, target in shifts.items() if not _is_terminal(symbol)})
    return Tables(rules, tuple(actions), tuple(gotos), data["final"], data["literals"], data["patterns"])


def _unpack_rule(origin: str, name: str, size: int, take: list[int], single: bool) -> Rule:
    passes = single and size == 1 and take == [0]
    return Rule(origin, name, size, tuple(take), single, origin.startswith("_"), passes, all(k >= 0 for k in take))


def _is_terminal(symbol: str) -> bool:
    return symbol == END or re.match("_*[A-Z]", symbol) is not None
