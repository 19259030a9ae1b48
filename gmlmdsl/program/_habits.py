"""Names of other languages and papers, and their equivalents in this language.

The help of a message about an unknown name uses them.
"""

from __future__ import annotations

IMPOSSIBLE = "what is impossible is written `require`: `require x == 0`; a bound that is infinite is left out"
# names of types of parameters in other languages
PROBABILITIES = ("unit", "unit_interval", "probability", "prob", "proportion")
REAL_ELSEWHERE = ("float", "double", *PROBABILITIES)
# group -> name -> (help, the equivalent name here or "")
FOREIGN: dict[str, dict[str, tuple[str, str]]] = {
    "name": {
        "True": ("write `true`", "true"),
        "TRUE": ("write `true`", "true"),
        "False": ("write `false`", "false"),
        "FALSE": ("write `false`", "false"),
        **dict.fromkeys(
            ("None", "null", "NULL", "NA", "nan", "NaN"), ("nothing is missing in a program: leave the term out, or write 0", "")
        ),
        **dict.fromkeys(("inf", "Inf", "infinity", "INFINITY", "oo"), (IMPOSSIBLE, "")),
        "forever": ("`repeat 10 { .. }` is the same again within one draw; how many draws there are is told in Python", ""),
        "pi": ("write the number, 3.141592653589793", "3.141592653589793"),
    },
    "type": {
        "bool": ("a cell that is 0 or 1 is a `bit`", "bit"),
        "boolean": ("a cell that is 0 or 1 is a `bit`", "bit"),
        "binary": ("a cell that is 0 or 1 is a `bit`", "bit"),
        "integer": ("whole numbers are `range(q)`, 0 to q - 1, in a cell and `int` in an input", ""),
        "float": ("real numbers are `real`, in inputs and parameters", ""),
        "double": ("real numbers are `real`, in inputs and parameters", ""),
        "string": ('strings are `labels("sun", "rain")`', ""),
        "str": ('strings are `labels("sun", "rain")`', ""),
        "categorical": ('values without order are `labels("sun", "rain")` or `letters("ACGT")`', ""),
        "int": ("whole numbers are `range(q)`, 0 to q - 1, in a cell and `int` in an input", ""),
        "ising": ("a cell that is -1 or +1 is a `spin`", "spin"),
        **dict.fromkeys(
            PROBABILITIES,
            ("a probability is `real(lower = 0, upper = 1)`; those of all values of a cell are a `simplex`", "real(lower = 0, upper = 1)"),
        ),
    },
    "function": {
        "ln": ("write `log`", "log"),
        "pow": ("a power is written `a ^ b`", ""),
        "power": ("a power is written `a ^ b`", ""),
        "logistic": ("write `sigmoid`", "sigmoid"),
        "expit": ("write `sigmoid`", "sigmoid"),
        "inv_logit": ("write `sigmoid`", "sigmoid"),
        "fabs": ("write `abs`", "abs"),
        "mod": ("a remainder is written `a % b`", ""),
        "floor": ("whole division is written `a // b`", ""),
        "equal": ("a comparison is written `a == b` and counts as 1 or 0", ""),
        "equals": ("a comparison is written `a == b` and counts as 1 or 0", ""),
        "indicator": ("a condition counts as 1 or 0: write `(a == b)`", ""),
        "I": ("a condition counts as 1 or 0: write `(a == b)`", ""),
        "indicator_function": ("a condition counts as 1 or 0: write `(a == b)`", ""),
        "kronecker": ("a condition counts as 1 or 0: write `(a == b)`", ""),
        "heaviside": ("a condition counts as 1 or 0: write `(a > b)`", ""),
        "step": ("a condition counts as 1 or 0: write `(a > b)`", ""),
        "delta": ("a condition counts as 1 or 0: write `(a == b)`", ""),
        **dict.fromkeys(
            ("kronecker_delta", "dirac", "dirac_delta", "delta_function", "one_hot", "ind", "boole"),
            ("a condition counts as 1 or 0: write `(a == b)`", ""),
        ),
        **dict.fromkeys(
            ("log_sum_exp", "log_mix"), ("write `logsumexp(a[i] for i in site)`; a variable that is summed out is a `latent`", "")
        ),
        **dict.fromkeys(
            ("softmax", "log_softmax"), ("logits belong to a distribution: `y ~ categorical(logits = h[a] for a in domain)`", "")
        ),
        **dict.fromkeys(("square", "sq"), ("write `a ^ 2`", "")),
        **dict.fromkeys(("log1p_exp", "log1pexp"), ("write `softplus`", "softplus")),
        **dict.fromkeys(("log_sigmoid", "log_inv_logit", "logsigmoid"), ("write `log(sigmoid(a))`", "")),
        **dict.fromkeys(("c", "list", "tuple", "vec", "collect"), ("a list stands in square brackets: `[0.2, 0.8]`", "")),
        **dict.fromkeys(
            ("matrix", "array", "zeros", "ones", "rep", "tensor"),
            ("a table is a list of lists, `[[0, 1], [1, 0]]`; one number fills it", ""),
        ),
        **dict.fromkeys(("count_nonzero", "nnz"), ("write `count(x[i] == 1 for i in site)`", "")),
        **dict.fromkeys(
            ("factorial", "lgamma", "erf", "sin", "cos", "phi", "round", "ceil", "sign"),
            ("values of a function of a cell are an input: `input f[4] : real = [0, 0, 0.7, 1.8]`, and `f[k]`", ""),
        ),
        "ifelse": ("write `if c then a else b`", ""),
        "where": ("write `if c then a else b`", ""),
        "dot": ("write `sum(a[i] * b[i] for i in site)`", ""),
        "mean": ("write `sum(a[i] for i in site) / n`", ""),
        "exactly": ("write `count(x[i] == 1 for i in site) == 2`", ""),
        **dict.fromkeys(
            ("distinct", "alldifferent", "unique"),
            ("write `require all_different(x[i] for i in site)`", ""),
        ),
        "product": ("write `prod(a[i] for i in site)`; log p is a sum of terms, a `factor` for each", ""),
        **dict.fromkeys(("exists", "some", "or_", "either"), ("write `any(x[i] == 1 for i in site)`", "")),
        **dict.fromkeys(("forall", "every", "and_"), ("write `all(x[i] == 1 for i in site)`, or a `require` with its `for`", "")),
        "uniform": ("`uniform(a, b)` stands only as the `rate` of `bernoulli`, drawn once per mask", ""),
        "len": ("a size is the number that the index set was made with: `range(n)`", ""),
        "length": ("a size is the number that the index set was made with: `range(n)`", ""),
    },
    "set": {
        **dict.fromkeys(
            ("combinations", "pairs", "product", "permutations", "itertools"),
            ("pairs are two loops: `for i in site for j in site if i < j`", ""),
        ),
        **dict.fromkeys(
            ("shuffle", "shuffled", "permutation", "random_permutation", "random", "sample", "choice"),
            ("a sweep goes in the order of its set; cells at random are `update x by subsets(x, size = 1)`", ""),
        ),
        **dict.fromkeys(("seq", "seq_len", "arange", "linspace"), ("write `range(n)`: 0 to n - 1", "")),
        "enumerate": ("an index is what a loop names: `for i in site`", ""),
        "len": ("write `range(n)`: 0 to n - 1", ""),
        **dict.fromkeys(
            ("neighbors", "neighbours", "adjacent", "nbrs"), ("the neighbours of a node are a set: `for j in G.neighbours(i)`", "")
        ),
    },
    "variable": {
        "bernoulli_logit": ("write `bernoulli(logit = h)`", ""),
        **dict.fromkeys(("categorical_logit", "categorical_logits"), ("write `categorical(logits = h[a] for a in domain)`", "")),
        "discrete": ("write `categorical`", "categorical"),
        **dict.fromkeys(("softmax", "logits"), ("write `categorical(logits = h[a] for a in domain)`", "")),
        "multinomial": ("declare one variable per trial: `var x[i in trial] : range(q)`", ""),
        "binomial_logit": ("write `binomial(n, logit = h)`", ""),
        **dict.fromkeys(
            ("mixture", "mixture_same_family", "categorical_mixture"),
            ("a mixture has a variable of its own: `latent k : bit ~ bernoulli(0.3)`, and `y ~ bernoulli([0.2, 0.8][k])`", ""),
        ),
        "uniform": ("a variable without a factor or `~` is uniform: remove this", ""),
        "ising": ("an Ising model is `factor J[i, j] * x[i] * x[j] for (i, j) in G.edges`", ""),
        **dict.fromkeys(("dbern", "flip"), ("write `bernoulli`", "bernoulli")),
        "dcat": ("write `categorical`", "categorical"),
        "dbin": ("write `binomial(n, p)`; `dbin` has p first", ""),
        **dict.fromkeys(
            ("normal", "gaussian", "dnorm", "student_t", "laplace", "gamma", "beta"),
            ("cells have few values; a real number of the data is `given y : real`, a parameter `param h ~ normal(0, 1)`", ""),
        ),
        **dict.fromkeys(
            ("poisson", "dpois", "negative_binomial", "neg_binomial", "geometric"),
            ("a count has a largest value here: write `binomial(n, p)`, or `categorical(logits = f[k] for k in range(q))` of any f", ""),
        ),
    },
    "prior": {
        "uniform": ("bounds without a prior are uniform: `param h : real(lower = 0, upper = 1)`", ""),
        "flat": ("without a prior a parameter is free: remove this", ""),
        "halfnormal": ("write `half_normal`", "half_normal"),
        "halfcauchy": ("write `half_cauchy`", "half_cauchy"),
        "cauchy": ("write `student_t(1, mean, scale)`", ""),
        "double_exponential": ("write `laplace`", "laplace"),
        "gaussian": ("write `normal`", "normal"),
        "norm": ("write `normal`", "normal"),
        "spike_and_slab": ("write `spike_slab`", "spike_slab"),
        "horseshoe": ("write `spike_slab(sd, probability)`, whose entries are 0 exactly or normal", ""),
        "l1": ("write `laplace(0, scale)`", ""),
        "l2": ("write `normal(0, sd)`", ""),
        "dnorm": ("write `normal(mean, sd)`; the second number of `dnorm` is a precision, 1 / sd ^ 2", ""),
        "dbeta": ("write `beta`", "beta"),
        "dgamma": ("write `gamma`", "gamma"),
        "dexp": ("write `exponential`", "exponential"),
        "ddexp": ("write `laplace(mean, scale)`; the second number of `ddexp` is a rate, 1 / scale", ""),
        "dunif": ("bounds without a prior are uniform: `param h : real(lower = 0, upper = 1)`", ""),
        "dt": ("write `student_t(df, mean, scale)`; the second number of `dt` is the mean, the third comes first", ""),
        "ddirch": ("write `dirichlet`", "dirichlet"),
        "lognormal": ("declare `param u ~ normal(0, 1)` and write `exp(u)` where it is used", ""),
        **dict.fromkeys(("inv_gamma", "inverse_gamma"), ("write `gamma(shape, rate)` of its inverse, a `positive` parameter", "")),
        **dict.fromkeys(("multi_normal", "multivariate_normal", "mvn", "lkj"), ("each entry has its own prior: `normal(0, 1)`", "")),
        **dict.fromkeys(
            ("categorical", "bernoulli", "poisson", "binomial"), ("an unknown of few values is not a parameter: `latent z : range(3)`", "")
        ),
    },
    "graph": {
        "torus": ("write `grid(n, m, wrap = true)`", ""),
        "lattice": ("write `grid`", "grid"),
        "square": ("write `grid`", "grid"),
        "hexagonal": ("write `triangular`: each node has six neighbours", ""),
        "ring": ("write `chain(n, wrap = true)`", ""),
        "cycle": ("write `chain(n, wrap = true)`", ""),
        "path": ("write `chain`", "chain"),
        "line": ("write `chain`", "chain"),
        "clique": ("write `complete`", "complete"),
        "full": ("write `complete`", "complete"),
        **dict.fromkeys(
            (
                "adjacency",
                "adjacency_matrix",
                "matrix",
                "graph",
                "from_edges",
                "from_edgelist",
                "edge_list",
                "networkx",
                "factorgraph",
            ),
            ("bind its edges: `input pairs[e, 2] : int`, then `edges(pairs, nodes = n)`", ""),
        ),
        "tree": ("bind its edges: `input pairs[e, 2] : int`, then `edges(pairs, nodes = n)`", ""),
        "random": ("bind its edges: `input pairs[e, 2] : int`, then `edges(pairs, nodes = n)`", ""),
    },
    "mask": {
        "mixture": ("write `mixture { 0.5 : first  0.5 : second }`", ""),
        "choose": ("blocks with weights stand between braces: `mask name { choose 1 : {x[0], x[1]} }`", ""),
        "each": ("cells with rates stand between braces: `mask name { each 0.5 : x[i] for i in site }`", ""),
        "random": ("write `bernoulli(x, rate = 0.15)` or `subsets(x, size = 2)`", ""),
        **dict.fromkeys(("mlm", "independent", "iid", "dropout"), ("write `bernoulli(x, rate = 0.15)`", "")),
        **dict.fromkeys(("kempe", "wolff", "swendsen_wang", "clusters"), ("write `percolation(G.edges)`", "")),
        **dict.fromkeys(
            ("checkerboard", "even_odd", "red_black"),
            ("cells of one colour are a block: `blocks({x[i] for i in site if i % 2 == c} for c in range(2))`", ""),
        ),
        "union": ("several masks are a mixture: `mixture { 1 : first  1 : second }` draws one of them", ""),
        **dict.fromkeys(("single", "single_site", "site", "sites", "pseudolikelihood"), ("write `subsets(x, size = 1)`", "")),
        "all": ("write `everything(x)`", "everything"),
        "full": ("write `everything(x)`", "everything"),
        "pairs": ("write `subsets(x, size = 2)`", ""),
        "edges": ("write `blocks(G.edges)`", ""),
        "rows": ("write `blocks(G.rows)`", ""),
        **dict.fromkeys(
            ("span", "spans", "window", "windows", "ngram", "contiguous"),
            ("write `blocks({x[t], x[t + 1], x[t + 2]} for t in time if t < n - 2)`", ""),
        ),
    },
    "option": {
        **dict.fromkeys(("p", "prob", "probability", "fraction"), ("write `rate`", "rate")),
        **dict.fromkeys(("k", "n", "cells"), ("write `size`", "size")),
        **dict.fromkeys(("length", "span", "run"), ("write `width`", "width")),
        **dict.fromkeys(("mask", "masked", "mask_token"), ("write `hide`", "hide")),
        **dict.fromkeys(("random", "replace", "random_token"), ("write `uniform`", "uniform")),
        **dict.fromkeys(("unchanged", "original", "same"), ("write `keep`", "keep")),
        **dict.fromkeys(("stop", "eos", "eos_token", "stop_token", "end_token"), ("write `end`", "end")),
        **dict.fromkeys(("periodic", "pbc", "cyclic", "torus"), ("write `wrap`", "wrap")),
        **dict.fromkeys(("dim", "hidden", "hidden_size", "d_model", "embed_dim"), ("write `width`", "width")),
        **dict.fromkeys(("depth", "n_layers", "num_layers"), ("write `layers`", "layers")),
        **dict.fromkeys(("n_steps", "num_steps", "iterations", "passes", "timesteps"), ("write `steps`", "steps")),
        **dict.fromkeys(("temp", "tau"), ("write `temperature`", "temperature")),
        **dict.fromkeys(("n_heads", "num_heads", "nhead"), ("write `heads`", "heads")),
    },
    "network": {
        "bert": ("write `transformer`", "transformer"),
        "encoder": ("write `transformer`", "transformer"),
        "attention": ("write `transformer`", "transformer"),
        "t5": ("write `encoder_decoder`", "encoder_decoder"),
        "seq2seq": ("write `encoder_decoder`", "encoder_decoder"),
        "perceptron": ("write `mlp`", "mlp"),
        "dense": ("write `mlp`", "mlp"),
        "module": ('a class of your own is `python("package.module:Class")`', ""),
        "equinox": ('a class of your own is `python("package.module:Class")`', ""),
        "lstm": ('a class of your own is `python("package.module:Class")`', ""),
        "cnn": ('a class of your own is `python("package.module:Class")`', ""),
    },
    "sampler": {
        "cmlm": ("write `mask_predict`", "mask_predict"),
        "maskgit": ("write `easy_first(schedule = cosine)`", ""),
        "llada": ("write `easy_first`", "easy_first"),
        "diffusion": ("write `random_order(steps = 4)`, or `refinement(..)`", ""),
        "greedy": ("write `autoregressive`, for a network with `causal = true`", "autoregressive"),
        "beam_search": ("write `autoregressive(beam = 5)`, for a network with `causal = true`", ""),
        "gibbs": ("write `sampler name { update x[i] for i in site }`, or `{ update x[K] where K ~ mask }`", ""),
        "metropolis": ("updates draw from their conditionals exactly: `sampler name { update x[i] for i in site }`", ""),
        "exact": ('independent draws need no sampler here: `sampler="exact"` in Python', ""),
        **dict.fromkeys(("viterbi", "map", "argmax"), ("a most probable configuration is asked for in Python: `model.map(params)`", "")),
        **dict.fromkeys(("nuts", "hmc", "langevin"), ("cells are discrete: write `sampler name { update x[i] for i in site }`", "")),
        "next_symbol": ("what comes next is asked for in Python: `model.next_symbol(..)`", ""),
        **dict.fromkeys(
            ("temper", "tempering", "parallel_tempering", "replica_exchange", "annealing"),
            ("replicas stand in braces: `sampler name { temper(betas = [0.5, 1]) { update x[i] for i in site } }`", ""),
        ),
        "block_gibbs": ("write `sampler name { update x[K] where K ~ mask }`", ""),
    },
}

# The equivalents of these names have exactly the same meaning. Those of the other names have a
# similar meaning, or one that differs among languages.
SAME = frozenset(
    "True TRUE False FALSE pi bool boolean ln logistic expit inv_logit fabs double_exponential dbeta dcat path clique".split()  # noqa: SIM905
)


def foreign(room: str, name: str) -> tuple[str, str]:
    """Return a help for a name that other languages have, and the equivalent name here.

    Both are empty if the name is not in the table.
    """
    names = FOREIGN[room]
    return names.get(name) or names.get(name.lower(), ("", ""))
