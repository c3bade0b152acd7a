"""NUMA placement: GPUs to NUMA nodes to CPUs to replicas."""
