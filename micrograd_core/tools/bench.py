def add_bench(c): pass
