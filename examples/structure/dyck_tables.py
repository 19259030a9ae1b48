def tables(r, s): return {}
def draw(r,s): return {}
