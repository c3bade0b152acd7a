"""The pipeline's stages, one module a subsystem. A stage is data (`desired`) and an order (`plan`).

`desired(node, layout)` says which files, packages and units the stage is about; `plan(node)`
compares them with the node's observation and returns the changes still to make, so a stage with
nothing to do runs no command. Stages reach the node only through `node.connected()`.
"""

from __future__ import annotations
