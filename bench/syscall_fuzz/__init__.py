"""A fuzzer of system calls inside of cages, with checks from outside."""
