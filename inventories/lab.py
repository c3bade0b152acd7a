"""Whatever simulated nodes are up (`b200 lab up`). All about them is read from the lab itself."""

from deploy import preflight
from tests.lab import inventory

preflight.attach()

nodes = inventory.nodes()
