"""How deploy/reprovision.py mends a node: machine, steps, ledger, and the fleet's safety."""
