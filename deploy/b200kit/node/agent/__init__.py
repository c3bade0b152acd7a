"""The agent of a node that serves: two processes of root, and one file that others read.

`agent` (loop.py; root, loopback) judges what health checks and probes say, takes replicas out of
the gateway and back, restarts them, keeps evidence, issues and signs the proof. `_health-check`
(look.py), its child, reads the node and judges it; it may hang, is ended at its deadline and
replaced. `status` (node/status; no rights) answers for metrics and the node's share, `hook` (no
capability) tells one command of the site's of each event.

/var/lib/b200kit/agent/agent.json (state/agent.py) is written by `agent` alone and read by all
others, agent.json.sig is under it. Whatever is read there has its own time, by the boot's clock: of
an agent that is dead or stopped the file grows old, the last health check with it, and then the
proof.

Nothing is started for a health check: the child stays (facts/resident.py says what it reads anew),
NVML is opened and closed in it, and what takes a program to read is kept for five minutes while
nothing is found. SIGUSR1 asks for a health check at once in which everything is read anew.
"""
