"""How deploy/tune.py measures layouts: the plan, the run, its cells on the disk, what is chosen."""
