"""Leak detection: credentials in what is sent, found in plain and through encodings, and told without their value.

START HERE: `engine` scans bytes, and `registry` has the rows that it looks for.

    detector.py    what a row of `detectors/` says: literals, expression, homes
    detectors/     the rows, by kind of service
    registry.py    all rows
    nominate.py    where a text has one of their literals
    engine.py      one scan: a queue of texts, each looked at and decoded further
    decode.py      from a text to the bytes that are encoded in it
    libraries.py   what undoes brotli and zstd, where it is installed
    begun.py       what may still become a find, from the expression of a detector
    ending.py      whether a text may be cut where it ends
    text.py        from bytes to the texts in them
    passes.py      the passes of both that are made in C (csrc/host/scan)
    work.py        the budget that every scan has
    opaque.py      stretches that are data and not language, whatever is in them
    spending.py    how many bytes of such one destination was sent
    chance.py      what only looks like a credential, in the middle of such a stretch
    redact.py      what may be told of a credential
    scope.py       where a credential may go
    wanted.py      what one policy has looked for
    canary.py      false credentials: their values, and the rows that find them
    lines.py       in which line of a file a find stands

Pure. Whoever reads files or speaks to the network is elsewhere (`cli.dlp`).
"""
