"""What the ways out of a cage cost: python -m bench.network

__main__.py   the command: makes an internet, runs `inside` in it, as an ordinary user
inside.py     the rows, each measured in turns with no cage at all; the table that is printed
busy.py      what it costs that the host program's own Python is busy
programs.py   what is run in and outside of cages: programs that measure themselves
redis.py      redis-benchmark against a server in a cage
spawns.py     what a way out adds to a spawn
"""
