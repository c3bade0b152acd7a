"""nvbandwidth and all_reduce_perf: run, and read."""
