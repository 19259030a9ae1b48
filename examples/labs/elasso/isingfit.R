# Slopes by IsingFit: `Rscript isingfit.R THRESHOLD ROWS.csv ..`; row i of ROWS.csv.slopes is the regression of node i that EBIC chooses.
# THRESHOLD is that of glmnet's iterations, 1e-7 if nothing else is said. Prints the processor seconds of each call.
words <- commandArgs(trailingOnly = TRUE)
suppressPackageStartupMessages(library(IsingFit))
if (words[1] != "1e-7") {
  imports <- parent.env(asNamespace("IsingFit"))
  unlockBinding("glmnet", imports)
  assign("glmnet", function(...) glmnet::glmnet(..., thresh = as.numeric(words[1]), maxit = 1e7), imports)
}
for (rows in words[-1]) {
  x <- as.matrix(read.csv(rows, header = FALSE))
  took <- system.time(fit <- IsingFit(x, gamma = 0.25, AND = TRUE, plot = FALSE, progressbar = FALSE))
  write.table(fit$asymm.weights, paste0(rows, ".slopes"), sep = ",", row.names = FALSE, col.names = FALSE)
  cat(took[["user.self"]] + took[["sys.self"]], "\n")
}
