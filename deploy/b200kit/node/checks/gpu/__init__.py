"""Checks of each GPU: memory, power, thermal, Xid, modes, identity."""
