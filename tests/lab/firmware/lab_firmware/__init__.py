"""The simulated hardware of a lab node, as its kernel would show it; runs in the guest.

One module a subsystem; each has a pure function from the scenario to a tree of files (tree.py), and
boot.py puts the trees in place. /etc/b200-lab/scenario.json says what the node is (written by
tests/lab/hardware/scenario.py).
"""
