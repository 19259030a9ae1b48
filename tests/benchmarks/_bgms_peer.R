# Couplings and inclusion probabilities by bgms: `Rscript _bgms_peer.R ROWS.csv OUT.csv ITERATIONS`; prints the processor seconds of the call.
words <- commandArgs(trailingOnly = TRUE)
suppressPackageStartupMessages(library(bgms))
x <- as.matrix(read.csv(words[1], header = FALSE))
set.seed(1)
took <- system.time(
  fit <- bgm(x, iter = as.integer(words[3]), burnin = 1000, interaction_scale = 2.5, edge_prior = "Bernoulli",
             inclusion_probability = 0.5, save = TRUE, display_progress = FALSE)
)
write.table(fit$interactions, words[2], sep = ",", row.names = FALSE, col.names = FALSE)
cat(took[["user.self"]] + took[["sys.self"]], "\n")
