"""The network between nodes: its facts, its traffic, and who is to blame for what is slow."""

CHECKS = {
    "network.port": "The port of each declared rail is there.",
    "network.link": "It is up.",
    "network.rate": "It has the declared rate.",
    "network.mtu": "It has the declared MTU.",
    "network.neighbour": "LLDP hears the declared switch and port there.",
    "network.trust": "The DSCP of packets is trusted, where the rail is lossless.",
    "network.pfc": "Flow control pauses the declared priority alone, where the rail is lossless.",
    "network.pcie": "The adapter has the PCIe speed and width that it is made for.",
    "network.gid": "It has an address of type RoCE v2.",
    "network.ber": "The module corrects all errors.",
    "network.guid": "No two adapters have one GUID.",
    "network.errors": "Its error counters did not grow while the network was measured.",
    "network.traffic": "Transfers between nodes are as fast as declared, and as their peers.",
    "network.marking": "Transfers arrive on the declared priority.",
    "network.blame": "What is slow is found: node, port, cable, leaf, boundary or pair.",
    "network.transport": "NCCL sent between nodes by GPUDirect RDMA over every rail.",
}
"""What the network between nodes is judged for."""
