"""How fast the package is, beside other packages in the same run, each speed with a check of the numbers it produced."""
