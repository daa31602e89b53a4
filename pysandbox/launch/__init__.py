"""Carries out a Plan: the extension, cage-init's messages, standard streams, saved plans. Nothing here decides what a
cage may do.

START HERE: `native`, which opens a cage, and `orders`, which speaks with its cage-init.
"""
