"""Small model files of other tools, written by hand, and what NumPy finds by enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

# The network of Lauritzen and Spiegelhalter (1988), as the bnlearn repository publishes it.
ASIA = """\
network unknown {
}
variable asia {
  type discrete [ 2 ] { yes, no };
}
variable tub {
  type discrete [ 2 ] { yes, no };
}
variable smoke {
  type discrete [ 2 ] { yes, no };
}
variable lung {
  type discrete [ 2 ] { yes, no };
}
variable bronc {
  type discrete [ 2 ] { yes, no };
}
variable either {
  type discrete [ 2 ] { yes, no };
}
variable xray {
  type discrete [ 2 ] { yes, no };
}
variable dysp {
  type discrete [ 2 ] { yes, no };
}
probability ( asia ) {
  table 0.01, 0.99;
}
probability ( tub | asia ) {
  (yes) 0.05, 0.95;
  (no) 0.01, 0.99;
}
probability ( smoke ) {
  table 0.5, 0.5;
}
probability ( lung | smoke ) {
  (yes) 0.1, 0.9;
  (no) 0.01, 0.99;
}
probability ( bronc | smoke ) {
  (yes) 0.6, 0.4;
  (no) 0.3, 0.7;
}
probability ( either | lung, tub ) {
  (yes, yes) 1.0, 0.0;
  (no, yes) 1.0, 0.0;
  (yes, no) 1.0, 0.0;
  (no, no) 0.0, 1.0;
}
probability ( xray | either ) {
  (yes) 0.98, 0.02;
  (no) 0.05, 0.95;
}
probability ( dysp | bronc, either ) {
  (yes, yes) 0.9, 0.1;
  (no, yes) 0.7, 0.3;
  (yes, no) 0.8, 0.2;
  (no, no) 0.1, 0.9;
}
"""
# Each variable with its parents and a table whose last axis is the variable's.
ASIA_TABLES = {
    ("asia",): [0.01, 0.99],
    ("asia", "tub"): [[0.05, 0.95], [0.01, 0.99]],
    ("smoke",): [0.5, 0.5],
    ("smoke", "lung"): [[0.1, 0.9], [0.01, 0.99]],
    ("smoke", "bronc"): [[0.6, 0.4], [0.3, 0.7]],
    ("lung", "tub", "either"): [[[1, 0], [1, 0]], [[1, 0], [0, 1]]],
    ("either", "xray"): [[0.98, 0.02], [0.05, 0.95]],
    ("bronc", "either", "dysp"): [[[0.9, 0.1], [0.8, 0.2]], [[0.7, 0.3], [0.1, 0.9]]],
}
# Names that are none of the language, comments, properties, a default, and a table of all entries.
ODD = """\
// the weather, and what grows
network "two days" { property author "somebody; property of none" ;
}
variable "day 1" { type discrete[3] { dry, "a bit wet", <5mm }; property position = (1, 2) ; }
variable 2nd { /* the second */ type discrete [ 3 ] { dry "a bit wet" <5mm } ; }
variable for { type discrete [ 2 ] { "yes ""no" } }
probability ( "day 1" ) { table 0.5 0.25 0.25 ; }
probability ( 2nd | "day 1" ) { default 0.2, 0.3, 0.5; (dry) : 0.7, 0.2, 0.1; }
probability ( for | "day 1", 2nd ) {
  table 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9  0.9 0.8 0.7 0.6 0.5 0.4 0.3 0.2 0.1;
}
"""


def joint(sizes: Sequence[int], tables: Mapping[tuple[int, ...], object]) -> np.ndarray:
    """The product of tables over all joint values, by enumeration; one axis for each variable."""
    out = np.empty(tuple(sizes))
    arrays = [(scope, np.asarray(table, float)) for scope, table in tables.items()]
    for x in itertools.product(*map(range, sizes)):
        out[x] = np.prod([table[tuple(x[k] for k in scope)] for scope, table in arrays])
    return out


def asia_joint() -> np.ndarray:
    """p of every joint value of the network of `ASIA`; state 0 is yes."""
    names = [scope[-1] for scope in ASIA_TABLES]
    return joint([2] * 8, {tuple(names.index(n) for n in scope): t for scope, t in ASIA_TABLES.items()})
