"""What the cages of one host process share: compiled plans, the warm pool, one worker thread, records.

START HERE: `runtime.Runtime`; `prepared.Prepared` is a policy compiled for this host.
"""
