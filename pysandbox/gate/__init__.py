"""The network gatekeeper: it serves the doors of cages from the host's side, and decides by name who is let through.

START HERE: `gatekeeper.Gatekeeper` is the thread, `cage_session.CageSession` what it knows of one cage, `rules` what
decides, `connections` what is cut when the rules change; `dns`, `tcp`, `http`, `udp` and `published` are the doors.

    reader.py, requests.py   the host's side of the process that reads at the doors (reading/); doors.py, askers.py
    quiet.py                 doors at which nobody has been yet
    judging.py, judged.py    what the relay's thread may dial by itself
    inspector.py, inspectors.py, held.py, known_plans.py   the host's side of the processes that look at requests
                             (inspection/)
    contract.py, secrets.py, placeholders.py, trusted.py, refusal.py   what requests are held to, and answered
    sent.py, hidden.py       the callback for what is sent; refusals that name no credential
    confined.py, own_limits.py, outbox.py, pulse.py, last_words.py   how such a process begins, is told things, ends
    ledger.py, monitors.py   what was let through, refused, and lost
    shares.py, turns.py, hush.py, tasks.py, threads.py   cages side by side in one loop, and other threads
    routed.py, transaction.py   an interface, and the rules of nf_tables around it
    direct.py, handed.py     sockets of the host; doors without a network namespace
"""
