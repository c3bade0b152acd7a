"""Restart the services: what serves was stopped, the driver's daemons start again in order.

The level of least cost. Where a fabric manager is among them the GPUs are reset in between, as in
the next level: it is never restarted beside what computes. The replicas are started by the stages
that follow, as on any run: warm before the gateway opens.
"""

from __future__ import annotations

from b200kit.reprovision.actions.daemons import DaemonsAction

ACTION = DaemonsAction("restart", lambda deadlines: deadlines.restart_services)
