def add_draw(c): pass
