# Algorithm 2 of Li 2025 with a learnt value beside Algorithm 1 and the exact restricted distribution: what both laboratories of verifiers
# share, `bracket_walks` and `testcase_walks`. What follows a prompt is listed, so that the distribution of each sampler's strings is exact.
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

import gmlmdsl as gm

Strings = list[list[int]]
Values = dict[str, Any]
Samplers = Mapping[str, tuple[str, dict[str, Any]]]  # by name of a row: a sampler of the program, and its inputs
FEW = ("plain", "Algorithm 1", "symbols by value", "first leaf")  # that end by few calls: of unseen prompts, and with worse verifiers


class Walked(Protocol):
    """The network of one seed with verifiers of its prefixes.

    Attributes:
        samplers: the rows of tables.
        top_p: of all samplers; the target is the network's own distribution, so narrowed, restricted to right strings.
        params: the weights with the learnt verifier, as verifier and as value.
        learnt: from how many mistakes the verifiers of the map learn.
    """

    samplers: Samplers
    top_p: float

    @property
    def params(self) -> Any: ...

    @property
    def learnt(self) -> Sequence[int]: ...

    def model(self, **inputs: Any) -> gm.ConditionalModel:
        """The network and its samplers."""
        ...

    def cut(self, left: int) -> Strings:
        """Right prefixes behind which so many symbols are left."""
        ...

    def learnt_from(self, count: int) -> Any:
        """The weights with a probe that has learnt from so many mistakes and as many right prefixes, as verifier and as value."""
        ...

    def held(self) -> tuple[Strings, np.ndarray]:
        """Prefixes that no verifier of the map learns from, and which are right."""
        ...


def law(m: Walked, name: str, prompt: Sequence[int], params: Any) -> gm.theory.OutputLaw:
    """The distribution of a sampler's strings behind a prompt."""
    sampler, inputs = m.samplers[name]
    found = gm.theory.output_law(m.model(top_p=m.top_p, **inputs), params, sampler, prompt=list(prompt))
    assert isinstance(found, gm.theory.OutputLaw)
    return found


def laws(m: Walked, left: int, names: Sequence[str], params: Any) -> dict[str, list[gm.theory.OutputLaw]]:
    """By sampler, the distribution of its strings behind each prompt."""
    return {name: [law(m, name, prompt, params) for prompt in m.cut(left)] for name in names}


def distances(law: gm.theory.OutputLaw, target: gm.theory.OutputLaw) -> Values:
    """How far the strings of a sampler are from the restricted distribution, where it gives one.

    Returns:
        "tv", the total variation; "words", the share of strings that are right; "tv of words", the total variation of those alone; "calls"
        of the network and "checks" of the verifier or value for one string.
    """
    place = {tuple(s): p for s, p in zip(target.strings.tolist(), target.probabilities, strict=True)}
    wanted = np.array([place.get(tuple(s), 0.0) for s in law.strings.tolist()])
    given = 1 - law.fail
    p = law.probabilities / given
    words = float(p[wanted > 0].sum())
    lost = 1 - wanted.sum()  # right strings that the sampler never gives
    return {
        "tv": 0.5 * float(np.abs(p - wanted).sum() + lost),
        "words": words,
        "tv of words": 0.5 * float(np.abs(p[wanted > 0] / words - wanted[wanted > 0]).sum() + lost) if words else 1.0,
        "calls": law.expected_calls / given,
        "checks": law.expected_verifications / given,
    }


def compared(found: Mapping[str, Sequence[gm.theory.OutputLaw]], targets: Sequence[gm.theory.OutputLaw]) -> dict[str, Values]:
    """By sampler, the means over prompts of `distances`; None for calls of a walk that are too costly to sum."""
    rows = {name: [distances(law, target) for law, target in zip(some, targets, strict=True)] for name, some in found.items()}
    return {name: {key: mean([r[key] for r in some]) for key in some[0]} for name, some in rows.items()}


def mean(values: Sequence[float]) -> float | None:
    """To six digits and twelve places, as JSON holds it."""
    return float(f"{round(np.mean(values), 12):.6g}") if np.isfinite(values).all() else None


def exact_part(m: Walked, left: int) -> dict[str, Values]:
    """By sampler, how far it is from the restricted distribution, and what a string takes."""
    found = laws(m, left, list(m.samplers), m.params)
    return compared(found, found["exact"])


def map_part(m: Walked, left: int) -> dict[str, Values]:
    """By the number of mistakes that a verifier has learnt from: how it judges others, and the distances of samplers with it."""
    strings, labels = m.held()
    targets, found = laws(m, left, ["exact"], m.params)["exact"], {}
    for count in m.learnt:
        params = m.learnt_from(count)
        verdicts = gm.prefix_values(m.model(), params, "seen", strings) > 0
        found[str(count)] = {"judged right": float((verdicts == labels).mean())} | compared(laws(m, left, FEW, params), targets)
    return found
