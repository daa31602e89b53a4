"""An internet of the test's own: user, network and mount namespaces in which names, servers and a resolver live.

places.py     what there is: names, addresses, ports, as tables
space.py      the namespaces; starting a program in them
served.py     the files that the web server has: pages, a git repository, a pip, an npm and a cargo index, certificates
servers.py    dnsmasq, nginx, redis, and what follows from the tables: their configuration
listeners.py  a program: echo servers, and a tap that writes down whatever is sent in this internet
host.py       a pysandbox host in there, unprivileged, asked for one run at a time
program.py    what that host runs

Nothing outside is touched, no privilege is needed, and nothing gets out: its only interface is its own loopback. The
addresses are in ranges that are really routed elsewhere, since a gatekeeper may rightly refuse those that are not.
"""

from _support.internet.host import Answer, Host
from _support.internet.servers import Internet, internet

__all__ = ["Answer", "Host", "Internet", "internet"]
