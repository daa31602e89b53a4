"""Descriptors of the host program itself, whatever the program has done to them. Cheap to import.

polling.py             poll(2) of one descriptor         sockets.py           sockets that another process has too
standard_streams.py    0, 1 and 2, where one is shut     kept_descriptor.py   one that stays open, known again
"""
