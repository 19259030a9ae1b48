"""The limits and the tuning of translators."""

from __future__ import annotations

# Texts.
HELD_OUT_PAIRS = 1000  # number of held-out pairs; a twentieth of all pairs if that is fewer
PAIRS_AT_ONCE = 1 << 14  # number of pairs that are encoded at once
SHORT_LENGTH = 10  # number of subword tokens up to which any ratio of lengths is accepted
MOST_RATIO = 3.0  # ratio of the lengths of a pair above which it is left out
MANY_TOO_LONG = 0.05  # share of pairs that are too long above which the counts of a text warn

# Vocabularies and shortlists.
MOST_CODES = 2**31 - 1  # number of codes that the library of vocabularies can count
LONGEST_SENTENCE = 1 << 20  # bytes of a training sentence; the library leaves longer ones out
MOST_SHORTLIST_BYTES = 1 << 26  # bytes of a shortlist in a bundle
ALIGNMENT_ROUNDS = 5  # rounds of expectation maximisation that learn a shortlist
# Number of pairs of tokens within pairs of sentences that a shortlist is learnt from. Later
# sentences are left out.
MOST_ALIGNED = 1 << 23
FREQUENT_TOKENS = 256  # number of frequent tokens that every shortlist has
LIKELY_TOKENS = 20  # number of likely tokens that a shortlist has for a source token

# Training.
# Largest norm of a gradient, and peak of the learning rate, both for Adam.
CLIP, ADAM_PEAK = 1.0, 0.001
LEAST_TAKEN = 0.01  # smallest share of the weights that a start must provide
TRIAL_BATCHES = 60  # number of batches of a trial, which chooses how a text is split into batches
TRIAL_PEAK = 1e-5  # learning rate of a trial, whose weights are not used
CURVE_POINTS = 200  # number of points of a loss curve

# Distillation.
CHUNK_LINES = 512  # number of lines that are translated and stored together
# A translation loops if a sequence of at most LONGEST_LOOP words occurs LOOP_REPEATS times in
# succession.
LOOP_REPEATS, LONGEST_LOOP = 3, 4
MANY_UNUSABLE = 0.01  # share of unusable translations above which the teacher is at fault
TIMED_LINES, SCORED_LINES = 128, 500  # numbers of lines on which a sampler is timed and scored

# Translation.
# Number of lines that are decoded together, so that memory does not grow with the text.
LINES_AT_ONCE = 256

# Scores.
RESAMPLES = 1000  # number of resamples of the sentences for intervals
TOP_LENGTHS = (1, 3, 5)  # numbers of most probable lengths that may include the true one
ATTENTION_ROWS = 32  # number of rows whose attention is held in memory at once

# Latency.
MEASURED_SENTENCES = 500  # minimum number of sentences
LEAST_RUNS = 20  # number of runs from which on a 99th percentile is given
# Number of timed lines from which on at least LEAST_RUNS runs are made for each batch size.
MANY_LINES = 100
MOST_WARM_RUNS = 6  # number of runs of one batch until nothing is compiled
# Upper limits on the subword tokens of a source, by which runs are grouped, like the buckets of
# training.
SOURCE_WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128)

# Claims of the report.
CLAIMED_PASSES = 4  # number of passes that the claims refer to
LEAST_LEARNT = 10.0  # BLEU below which a network has learnt too little for conclusions on quality
# BLEU from which on a reader gets the gist, and from which on the text is understandable.
GIST, UNDERSTANDABLE = 20.0, 30.0
# Printed ratios of times, at the median and at the 99th percentile.
FASTER, FASTER_AT_END = 2.0, 5.0
LONGEST_DRAWN = 24  # number of subword tokens of the sentence whose attention is drawn
SHOWN_TRANSLATIONS = 5  # number of translations that the report shows
