"""How deploy/reprovision.py treats a node: machine, steps, ledger, and the fleet's limits."""
