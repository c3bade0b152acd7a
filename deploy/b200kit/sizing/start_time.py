"""How long a replica may take from its start until it is warm, by what it reads. Pure.

No start on a B200 was measured. Figures by others: a cold start of 264 s, most of it compilation
(30B in FP8 on an H100, vllm-project/vllm#47456, quoted); 155 GiB read in 26 to 74 s (#54898,
quoted); 3600 s allowed for DeepSeek-V4-Pro, about 960 GB on eight ranks (SemiAnalysisAI/InferenceX,
quoted). The limit is for the slowest start that is still one, so it lies far above them.
"""

from __future__ import annotations

import math

# Compiling, capturing graphs and warming, from empty caches. Inferred.
_FIXED_S = 1200
# The slowest storage that a model is served from, and memory that each further rank reads the same
# bytes from, in bytes a second. Inferred.
_STORAGE, _MEMORY = 0.5e9, 10e9
LEAST_S = 1800
UNKNOWN_S = 3600
"""For a model of unknown size: what public scripts allow the largest."""


def limit_s(checkpoint: float | None, ranks: int) -> int:
    """Seconds that a replica may take; *checkpoint* are its bytes, None where nobody knows them.

    Every rank reads the whole checkpoint: one from storage, the others from the page cache.
    """
    if checkpoint is None:
        return UNKNOWN_S
    reading = checkpoint / _STORAGE + checkpoint * (ranks - 1) / _MEMORY
    return max(LEAST_S, math.ceil((_FIXED_S + reading) / 60) * 60)
