"""The virtual machine: a lab node with a kernel, NUMA nodes and a boot loader of its own."""
