"""In: derived functions, data, keys. Out: `Fit`, draws. Never: mathematics of its own, text of programs."""
