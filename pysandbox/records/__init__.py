"""Which cages there are: what one process of the user writes down, and the others of the user read.

`registry` holds a record for each cage, `recorder` writes them in the background, `orphans` finds what a killed host
left.
"""
