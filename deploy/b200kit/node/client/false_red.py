"""How often a run of which nothing changed may be red, spent over the verdicts that chance decides.

Data. Together at most RUN, which tests/unit/records/test_false_red.py holds by simulation. A
verdict may cost more than what stands here, as outliers and what neighbours share are not normal;
so a quarter is left. Least is spent where another verdict finds the same. What a fixed
limit decides (a stall, the gateway's part, an answer) has no share.
"""

from __future__ import annotations

RUN = 0.01
REPLICAS = 0.002
"""A replica is slower than its sisters: over all replicas and both metrics."""
MEDIANS = 0.0025
"""A median is slower than the baseline: over all four."""
REPLICA_MEDIANS = 0.0005
"""A replica is, than it was beside its sisters: over all replicas and both metrics."""
OBJECTIVE = 0.0005
"""Too few requests met the objective: at each of four looks, of a server that just meets it."""
