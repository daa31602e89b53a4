"""The reader: the process that reads what cages say at their doors. START HERE is `__main__`.

    __main__   it confines itself, then serves
    kinds      the records that it and the host program exchange
    host_end   its end of the channel: what it says, what it asks and waits for
    session    one cage as it knows it: what the code of the doors needs of one
    serving    the records of the host program: cages, doors, ends
    dialling   who dials for it
    repeats    what was said at a door before, and is not read again

It decides nothing: each name, address and connection is the host program's to give (`gate.reader`), which holds it
against the policy of the cage.
"""
