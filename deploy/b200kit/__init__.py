"""b200kit: from a bare OS to a proven, warm, measured vLLM server on 8x NVIDIA B200.

The map, in the direction imports run::

    b200.py check.py smoke.py      entry files pyinfra executes; they read like the README
      stages/                      one module a subsystem: what is wanted, and in which order
        remote.py operations.py    one node as the stages see it; the operations pyinfra runs
          core/                    pure decisions: spec, drift, layout, judge; no I/O
    node/                          runs on the node as one zipapp; imports core only
    report/                        writes every outcome; imports core only
"""

from __future__ import annotations

__version__ = "0.1.0"
