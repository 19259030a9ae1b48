"""The texts of the programs of `cases.py`: every kind of domain, factor, mask and sampler, small enough to enumerate."""

WEATHER = """
domain sky = labels("sun", "rain", "snow", "fog")
index day = range(2)
model weather {
  var s[t in day] : spin
  var b           : bit
  var k           : range(3)
  var w           : sky
  param h[a in sky] ~ normal(0, 2)
  param c ~ laplace(0.5, 1)
  param scale : positive ~ gamma(2, 1)
  factor h[w] * s[0]
  factor c * s[t] * (k - 1) * (w != "sun") for t in day
  factor scale * b * (k == 2) - 0.3 * k * k
  factor if w == "snow" and k > 0 then c else -0.5 * scale
  require not (w == "fog" and s[1] == 1)
  require b == 1 or k < 2
}
mask one   = subsets(size = 1)
mask some  = bernoulli(s, w, rate = 0.3)
mask any   = bernoulli(s, b, k, rate = uniform(0.1, 0.7))
mask parts = blocks({s[0], w}, {b, k, s[1]}, {w})
mask all   = everything()
sampler gibbs { update K where K ~ one }
sampler cells { update s[t] for t in day  update b  update k  update w }
sampler drawn { update K where K ~ some  repeat 2 { update K where K ~ any } }
sampler mixed { mixture { 2 : update K where K ~ parts  1 : cycle { update s  update w } } }
"""

LOG_ZERO = """
input T[2, 3, 2] : real
input M[3, 3] : real
model zeros {
  var a : bit
  var b : range(3)
  var c : bit
  var d : range(3)
  param u[i in range(3)]
  factor log(T[a, b, c])
  factor log(M[b, d])
  factor u[d] * (1 + a)
}
mask two  = subsets(size = 2)
mask look given a, d { choose {b} weight M[d, (a + d) % 3]  choose {a, d} weight abs(a - 0.25)  choose {c, b} weight d }
mask none given b    { choose {c} weight b == 1  choose {a, c} weight 2 * (b == 2) }
mask rate given d    { each a rate d / 2  each c rate 1 - d / 2  each b rate 0.5 }
mask both = mixture { 1 : two  2 : mixture { 1 : look  1 : rate } }
sampler pairs { update K where K ~ two }
sampler looks { update K where K ~ look }
sampler nones { update K where K ~ none }
sampler rates { update K where K ~ rate }
sampler mixes { update K where K ~ both }
sampler sweep { update {a, b}  update {c, d} }
"""

COMPUTED = """
input U[4] : real
input V[2, 3] : real
index site = range(3)
model computed {
  var x[i in site] : spin
  var k : range(3)
  var y : bit
  param g[i in site, c in range(2)] ~ student_t(4, 0, 1)
  param r ~ normal(0, 1)
  let twice[i in site] = 2 * x[i] + y
  let next[i in site] = if i < 2 then twice[i + 1] * U[i] else r * twice[0]
  let chosen = next[k]
  factor U[k + bit(x[0])]
  factor V[y, (k + 1) % 3]
  factor r * x[k]
  factor chosen * 0.2
  factor if k < 2 then x[k + 1] * 0.4 else -0.1
  factor g[k, bit(x[2])]
  factor g[i, y] * x[i] for i in site if i != 1
}
mask single = subsets(x, size = 1)
mask three  = subsets(size = 3)
mask near given k { choose {x[i]} for i in site weight if k == i then 2 else 0.1  choose {x[0], y} weight 0.3 }
sampler sweep  { update x[i] for i in site  update k  update y }
sampler triple { update K where K ~ three }
sampler nearby { update K where K ~ near  update {k, y} }
"""

SUMS = """
graph G = chain(4)
input A[4, 2] : real
model sums {
  var x[i in G.nodes] : range(3)
  var b[j in range(2)] : bit
  param J[(i, j) in G.edges]
  param m[j in range(2)] ~ normal(0, 3)
  let total = sum(x[i] for i in G.nodes)
  let weighted[j in range(2)] = sum(A[i, j] * (x[i] == 1) for i in G.nodes if i != 2)
  factor 0.1 * total * b[0]
  factor m[j] * weighted[j] * (1 - b[j]) for j in range(2)
  factor sum(J[i, j] * x[i] * x[j] for (i, j) in G.edges)
  factor sum(0.2 * (x[i] == j + 1) for i in G.nodes for j in range(2) if i > j)
  require sum(b[j] for j in range(2)) < 2
}
mask single = subsets(x, size = 1)
mask edges  = blocks({x[i], x[j]} for (i, j) in G.edges)
mask busy given b, x { choose {x[i], b[0]} for i in G.nodes if i > 1 weight exp(0.3 * x[i]) + b[0]  choose {b[0], b[1]} weight sum(x[i] for i in G.nodes) }
sampler sweep  { update x[i] for i in G.nodes  update b[j] for j in range(2) }
sampler busily { update K where K ~ busy }
sampler pairs  { update x[K] where K ~ edges }
"""

TWO_MODELS = """
graph G = chain(3, wrap = true)
model first {
  var x[i in G.nodes] : spin
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
model second {
  var x[i in G.nodes] : range(4)
  param h[i in G.nodes, a in range(4)]
  param t
  factor h[i, x[i]] for i in G.nodes
  factor t * abs(x[i] - x[j]) for (i, j) in G.edges
}
mask single for first  = subsets(x, size = 1)
mask pairs  for second = subsets(x, size = 2)
mask ends   for second = blocks(G.edges)
mask up     for first given x { each x[i] for i in G.nodes rate sigmoid(x[i] - 0.5) }
sampler sweep for second { update x[i] for i in G.nodes }
sampler gibbs for second { update x[K] where K ~ pairs }
sampler rise  for first  { update x[K] where K ~ up }
sampler naive for first  { update x[K] independently where K ~ single }
sampler whole for first  { update x independently }
"""

ARCS = """
input pairs[e, 2] : int
index site = range(4)
graph G = edges(pairs, nodes = site)
domain base = letters("ACG")
model arcs {
  var x[i in site] : base
  param J[(i, j) in G.edges, a in base, b in base] ~ normal(0, 1)
  param R[(i, j) in G.arcs] ~ normal(0, 1)
  param q[a in base]
  gauge zero_sum(J)
  factor J[j, i, x[j], x[i]] for (i, j) in G.edges
  factor R[i, j] * (x[i] == "A") * (x[j] != "C") for (i, j) in G.arcs
  factor 0.5 * R[j, i] * (x[i] == x[j]) for (i, j) in G.arcs if i < j
  factor q[x[i]] for i in site if i % 2 == 0
}
mask one   = subsets(x, size = 1)
mask ends  = blocks(G.edges)
mask whole = everything(x)
mask biased given x { choose {x[i], x[j]} for (i, j) in G.edges weight 1 + 3 * (x[i] == x[j])  choose {x[3]} weight 0.5 }
sampler sweep  { update x[i] for i in site }
sampler blocky { update x[K] where K ~ ends }
sampler seeing { update x[K] where K ~ biased }
"""

BIPARTITE = """
index left  = range(2)
index right = range(3)
graph B = bipartite(left, right)
model two_sided {
  var v[i in left]  : range(3)
  var h[j in right] : bit
  param W[(i, j) in B.edges] ~ normal(0, 0.5)
  param a[i in left]
  factor W[i, j] * v[i] * h[j] for (i, j) in B.edges
  factor a[i] * (v[i] - 1) ^ 2 for i in left
}
mask half  = bernoulli(v, h, rate = 0.5)
mask right_side = everything(h)
mask tie   = blocks({v[i], h[j]} for (i, j) in B.edges)
sampler alternate { update v  update h }
sampler halves    { update K where K ~ half }
sampler ties      { update K where K ~ tie  update h[j] for j in right }
sampler apart     { update h independently  update v independently }
sampler biased    { update K independently where K ~ tie }
"""

DIRECTED = """
domain mood = labels("calm", "angry", "sad")
index time = range(3)
input P0[2] : simplex
model directed {
  var c : bit
  var z[t in time] : mood
  var y : spin
  param move[k in range(2), a in mood, b in mood] : simplex ~ dirichlet(1.5)
  param first[a in mood] : simplex ~ dirichlet(1)
  param emit[a in mood, b in range(2)] : simplex
  c ~ categorical(P0)
  z[0] ~ categorical(first)
  z[t] ~ categorical(move[c, z[t - 1]]) for t in time if t > 0
  y ~ categorical(emit[z[2]])
}
mask single = subsets(size = 1)
mask span   = blocks({z[t], z[t + 1]} for t in time if t < 2)
mask all    = everything()
sampler sweep { update z[t] for t in time  update c  update y }
sampler spans { update K where K ~ span  update {c, y} }
"""

HALF_DIRECTED = """
input P[3, 3] : simplex
model half_directed {
  var a : range(3)
  var b : range(3)
  var x : spin
  param J
  b ~ categorical(P[a])
  factor J * x * (a == b)
  factor 0.2 * a
}
mask pairs = subsets(size = 2)
sampler gibbs { update K where K ~ pairs }
"""

TIED = """
graph G = grid(2, 2)
input s : positive = 0.7
model tied {
  var x[i in G.nodes] : spin
  var f : range(3)
  param J ~ normal(0, s)
  param w : positive ~ gamma(2, 2)
  param p : real(lower = 0, upper = 1) ~ beta(2, 3)
  param low : real(lower = -1)
  param h[i in G.nodes] ~ normal(i / 4, 1 + i)
  factor J * x[i] * x[j] for (i, j) in G.edges
  factor w * h[i] * x[i] for i in G.nodes
  factor log(p) * (f == 1) + log(1 - p) * (f == 0)
  factor low ^ 2 * tanh(low) * x[0] * (f - 1)
}
mask single = subsets(x, size = 1)
mask lines  = mixture { 1 : blocks(G.rows)  3 : blocks(G.columns)  0.5 : everything(f) }
sampler sweep { update x[i] for i in G.nodes  update f }
sampler rows  { update x[r] for r in G.rows  update {f, x[0]} }
sampler lined { update K where K ~ lines }
"""

BRANCHES = """
input deep : int = 0
input table[3] : real
index site = range(4)
model branches {
  var x[i in site] : bit
  var k : range(4)
  param h[i in site]
  factor if i < 3 then table[i] * x[i] * x[i + 1] else h[i] * x[i] for i in site
  factor if deep == 1 then table[7] else h[0] * (1 - x[0])
  factor if k < 3 then table[k] * x[1] else 0.1
  factor if k > 0 then (if k < 3 then x[k] else -x[k]) * h[k - 1] else 0.5
  factor if x[0] == 1 and k == 2 then log(k - 1) else sqrt(abs(k - 2)) * 0.2
  factor 3 // 2 * x[i] - (i % 2) * 0.5 for i in site if i > 0 and i != 2
  require not (x[0] == 1 and x[1] == 1) or k == 3
}
mask two = subsets(x, size = 2)
mask mix given x { choose {x[i], k} for i in site weight if x[i] == 1 then i else 0 }
sampler gibbs { update x[K] where K ~ two  update k }
sampler mixed { update K where K ~ mix }
"""

GRID = """
graph G = grid(2, 3, wrap = true)
model lattice {
  var x[i in G.nodes] : spin
  param h[i in G.nodes] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i] for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
mask pairs  = subsets(x, size = 2)
mask three  = subsets(x, size = 3)
mask rows   = blocks(G.rows)
mask whole  = everything(x)
mask weighed { choose {x[i], x[j]} for (i, j) in G.edges weight 1 + i  choose {x[0]} weight 0.5  choose {x[1], x[0]} weight 2 }
mask hot given x { each x[i] for i in G.nodes if i < 4 rate sigmoid(0.3 * x[i]) }
mask agreeing given x {
  choose {x[i], x[j]} for (i, j) in G.edges weight exp(0.5 * x[i] * x[j])
  choose {x[i]}       for i in G.nodes      weight 0.1
}
sampler one    { update x[K] where K ~ single }
sampler two    { update x[K] where K ~ pairs }
sampler sweep  { update x[i] for i in G.nodes }
sampler strips { update x[r] for r in G.rows }
sampler columns { update x[c] for c in G.columns }
sampler weigh  { update x[K] where K ~ weighed }
sampler warm   { update x[K] where K ~ hot }
sampler agree  { update x[K] where K ~ agreeing }
sampler naive  { update x[K] independently where K ~ whole }
sampler halves { update x[r] independently for r in G.rows }
sampler hybrid {
  mixture {
    0.9 : update x[i] for i in G.nodes
    0.1 : update x[K] where K ~ rows
  }
}
"""

LEMMA3 = """
input T[2, 2] : real
input A[2, 2] : real
model two { var a : bit  var b : bit  factor log(T[a, b]) }
mask looking given a, b {
  choose {a} weight A[a, b]
  choose {b} weight 1 - A[a, b]
}
mask single = subsets(size = 1)
sampler moves { update K where K ~ looking }
sampler plain { update K where K ~ single }
"""

TRIPLES = """
domain quad = letters("wxyz")
input theta[3, 2, quad] : real
index n = range(2)
model triples {
  var a[i in n] : range(3)
  var b         : spin
  var c         : quad
  param u[p in range(3), q in range(3), r in range(2)] ~ normal(0, 1)
  factor theta[a[0], bit(b), c]
  factor u[a[0], a[1], bit(b)]
  factor u[a[i], 2 - a[i], 1] * 0.5 for i in n
  require c != "z" or a[0] + a[1] > 1
}
mask any2 = subsets(size = 2)
mask bern = bernoulli(rate = 0.4)
mask see given c { choose {a[0], b} weight if c == "w" then 2 else 0.5  choose {c, a[1]} weight if c == "x" then 1 else 0.25  choose {a[0]} weight c == "z" }
sampler k2    { update K where K ~ any2 }
sampler coin  { update K where K ~ bern }
sampler sight { update K where K ~ see }
sampler block { update {a[0], a[1]}  update {b, c} }
"""
