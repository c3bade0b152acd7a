"""A site's state, in one SQLite file: what happened, in its order, and never rewritten.

Each log has lines about subjects, such as the transactions of nodes or the measured runs of each.
"""
