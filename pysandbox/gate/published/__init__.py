"""Ports of a cage that the host may reach (`ports`), and sockets that the host makes in the network namespace of a cage
(`inside`)."""
