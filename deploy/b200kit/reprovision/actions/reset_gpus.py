"""Reset the GPUs, all of them at once: the recipe of b200kit/node/maintenance/reset_gpus.py.

NVSwitch connects all eight: one GPU cannot be reset alone without configuring the fabric again.
Nothing serves any more.
"""

from __future__ import annotations

from b200kit.reprovision.actions.daemons import DaemonsAction

ACTION = DaemonsAction("reset", lambda deadlines: deadlines.reset_gpus)
