"""Functions that are called in a cage.

`calls` has the records between the host and a worker in a cage, and what a source of workers promises.

`sandboxed` is a function whose every call has a cage of its own; `executor` is that for any function, as the executors
of the standard library have it. `shipping` is what is sent of a function to where its module is not seen, `packing`
what is sent of a call, and `gathering` its sources, which `placing` puts into an interpreter there; what modules do
that belongs to it is told by `effects` and `acting`, of objects that `standing` tells apart. `interpreters` are those
that wait, `booted` and `inside` what they run. `exchange` is a call on one of them, `dispatch` has many at a time;
`memory` is what is handed over. Of the values that come out `codec` is the cage's end and `decoder` the host's,
`tables` is both ends of a table of Arrow; `answers` says what they mean.

`template` has an interpreter loaded in a cage, from which workers are forked by its `zygote`; `worker` is what runs
there, between `walls` of its own, `idle` the host's side of one. `mapping` is one function over many items, `driven`
has its calls side by side in one thread; `forked` is what an executor takes its workers from.
"""
