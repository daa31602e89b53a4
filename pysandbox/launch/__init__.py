"""Carries out a Plan: the extension, cage-init's messages, the warm pool. Nothing here decides what a cage may do."""
