"""Whatever simulated nodes are up (`b200 lab up`). All about them is read from the lab itself."""

from b200kit.operations import preflight
from tests.lab import inventory

preflight.attach()

nodes = inventory.nodes()
