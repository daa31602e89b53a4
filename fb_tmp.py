import sys, cProfile, pstats, time
from bench import forks
mods=sys.argv[1].split(",")
n=int(sys.argv[2])
c,b=forks.on_demand(mods, 40); print(f"on demand {c*1e3:.2f} bare {b*1e3:.2f}: {c/b:.2f}",flush=True)
l,a,f=forks.many(mods,n); print(f"{n}: lost {l} {a:.0f}/s bare {f:.0f}/s: {a/f:.2f}",flush=True)
for p in (4,16):
    s,o=forks.parked_memory(mods,p); print(f"parked {p}: PSS {s/1024:.2f} own {o/1024:.2f}",flush=True)
