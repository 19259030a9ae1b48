"""Independent references for exact inference: textbook algorithms in plain NumPy, float64, that never import the package."""
