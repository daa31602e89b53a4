from pysandbox import Template, Policy
from bench.forks import nothing, spins
with Template(Policy(), init="json", parked=2) as t:
    r=t.map(spins,[3]*40,workers=6)
    print([x.reason if not x.ok else x.value for x in r])
