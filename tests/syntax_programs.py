"""Programs that the tests of the syntax room share."""

# The nine programs of the language's page.
PROGRAMS = {
    "ising": """# ising.gmlm
input L : int = 16
graph G = grid(L, L, wrap = true)

model ising {
  var   x[i in G.nodes]      : spin
  param h[i in G.nodes]      ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i]           for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}

mask single = subsets(x, size = 1)
mask pairs  = subsets(x, size = 2)
mask rows   = blocks(G.rows)
mask whole  = everything(x)

sampler gibbs  { update x[K] where K ~ pairs }
sampler sweep  { update x[i] for i in G.nodes }
sampler strips { update x[r] for r in G.rows }
sampler naive  { update x[K] independently where K ~ whole }
sampler hybrid {
  mixture {
    0.9 : update x[i] for i in G.nodes
    0.1 : update x[K] where K ~ rows
  }
}
""",
    "potts": """# potts.gmlm: a protein family; sites and contacts are sized by the data bound from Python
domain aa = letters("-ACDEFGHIKLMNPQRSTVWY")
input n_sites : int
input pairs[e, 2] : int
input s_h : positive = 1.0
input s_J : positive = 0.1
index site = range(n_sites)
graph G    = edges(pairs, nodes = site)

model potts {
  var   x[i in site] : aa
  param h[i in site, a in aa]                  ~ normal(0, s_h)
  param J[(i, j) in G.edges, a in aa, b in aa] ~ normal(0, s_J)
  gauge zero_sum(J)
  factor h[i, x[i]]          for i in site
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
""",
    "rbm": """# rbm.gmlm
input n_visible : int = 64
input n_hidden  : int = 32
index pixel = range(n_visible)
index unit  = range(n_hidden)

model rbm {
  var    v[i in pixel] : bit
  latent h[j in unit]  : bit
  param a[i in pixel]            ~ normal(0, 1)
  param b[j in unit]             ~ normal(0, 1)
  param W[i in pixel, j in unit] ~ normal(0, 0.1)
  factor a[i] * v[i]           for i in pixel
  factor b[j] * h[j]           for j in unit
  factor W[i, j] * v[i] * h[j] for i in pixel for j in unit
}
mask some = bernoulli(v, rate = 0.5)
sampler alternate { update h  update v }
""",
    "adaptive": """# adaptive.gmlm
import "ising.gmlm"
mask agreeing for ising given x {
  choose {x[i], x[j]} for (i, j) in G.edges weight exp(0.5 * x[i] * x[j])
  choose {x[i]}       for i in G.nodes      weight 0.1
}
mask hot for ising given x { each x[i] for i in G.nodes rate sigmoid(0.3 * x[i]) }
sampler adaptive for ising { update x[K] where K ~ agreeing }
""",
    "mixed": """# mixed.gmlm: any arity, any mix of domains, hard constraints, tied parameters
index day = range(6)
model mixed {
  var s[t in day] : spin
  var w[t in day] : labels("sun", "rain", "snow")
  var k           : range(4)
  param u[a in range(4)]
  param beta : positive ~ gamma(2, 2)
  let  cold[t in day] = w[t] == "snow"
  factor u[k]
  factor -beta * (s[t] - 1) * cold[t]                 for t in day
  factor if s[t] == s[t + 1] and k > 1 then 0.7 else 0 for t in day if t < 5
  require not (w[t] == "snow" and w[t + 1] == "sun")   for t in day if t < 5
}
mask window = mixture { 0.5 : subsets(s, size = 2)  0.5 : blocks({w[t], w[t + 1]} for t in day if t < 5) }
""",
    "tables": """# tables.gmlm: numbers bound from Python; indices computed from variables
input U[3] : real
input T[2, 3, 4] : real
input P[2, 2] : positive
model tables {
  var a : bit
  var b : range(3)
  var c : range(4)
  var y[i in range(2)] : spin
  factor U[b]
  factor T[a, b, c]
  factor 0.3 * y[0] * y[1] * spin(a)
  factor U[a + bit(y[1])]
  require not (a == 1 and b == 2)
}
mask pieces { choose {a, b} weight 0.4  choose {c} weight 0.4  choose {y[0], y[1]} weight 0.2 }
mask hint given a { choose {b} weight P[a, 0]  choose {b, c, y[0]} weight P[a, 1] }
mask two = subsets(size = 2)
sampler moves { update K where K ~ pieces }
""",
    "hmm": """# hmm.gmlm: `~` on a variable is a normalised conditional; chains are found and solved exactly
domain char = letters("abcdefghijklmnopqrstuvwxyz .,")
input n_tags : int = 8
input width  : int = 64
index tag  = range(n_tags)
index time = range(width)
model hmm {
  latent z[t in time] : tag
  var    x[t in time] : char
  param first[a in tag]           : simplex ~ dirichlet(1)
  param move[a in tag, b in tag]  : simplex ~ dirichlet(1)
  param emit[a in tag, c in char] : simplex ~ dirichlet(1.1)
  z[0] ~ categorical(first)
  z[t] ~ categorical(move[z[t - 1]]) for t in time if t > 0
  x[t] ~ categorical(emit[z[t]])     for t in time
}
mask spans = blocks({x[t], x[t + 1], x[t + 2]} for t in time if t < width - 2)
""",
    "text": """# text.gmlm: a masked language model: conditionals only, no joint is promised
input vocab : int = 256
input n     : int = 64
index pos   = range(n)
network net = transformer(layers = 4, heads = 8, width = 256)
model mlm {
  var x[t in pos] : range(vocab)
  conditional x ~ net()
}
mask any_rate = bernoulli(x, rate = uniform(0, 1))
mask bert     = bernoulli(x, rate = 0.15, noise = {hide: 0.8, uniform: 0.1, keep: 0.1})
sampler one_by_one { update x[K] where K ~ subsets(x, size = 1) }
sampler doubtful   { repeat 10 { update x[K] independently where K ~ least_confident(x, count = 8) } }
""",
    "translate": """# translate.gmlm: parallel decoding by iterative refinement
input source_vocab : int = 32000
input target_vocab : int = 32000
index s = range(128)
index t = range(128)
network net = encoder_decoder(layers = 6, heads = 8, width = 512, ffn = 2048,
                              dropout = 0.1, positional_attention = true)
model translate {
  given src[i in s] : range(source_vocab)
  var   tgt[j in t] : range(target_vocab)
  conditional tgt ~ net(src)
}
mask corrupt = everything(tgt, noise = {keep: 0.15, uniform: 0.85})
sampler refine       = refinement(steps = 4, lengths = 5, start = uniform, remask = stutter)
sampler mask_predict = refinement(steps = 10, lengths = 5, start = hide, remask = least_confident)
""",
}

EVERY_NAME = """
index K = range(4)
domain K = letters("ab")
input K[K, 2] : K = K
graph K = K(K, K = K)
network K = K()
model K {
  var K[K in K] : K
  latent K : K
  given K : K
  param K[(K, K) in K.K, K in K(K)] : K(K = K) ~ K(K)
  param K
  let K = K
  gauge K(K)
  factor K * K[K] + K(K) for K in K if K
  require K
  K ~ K(K)
  K[0] ~ K(K) for K in K
  conditional K ~ K()
}
mask K for K given K, K = K
mask K = mixture { K : K  0.5 : K(K)  K : mixture { K : K } }
mask K { choose {K, K[K]} for K in K weight K  choose K weight K }
mask K given K { each K[K] for K in K rate K }
sampler K for K {
  update K
  update K[K] for K in K
  update K independently where K ~ K
  repeat K { update K }
  cycle { update {K} }
  temper(K = [K]) { update K }
  mixture { K : update K  K : update K where K ~ K  K : cycle { update K }  K # why
    : update K }
}
sampler K = K(K = {K: K}, K = {K})
"""
