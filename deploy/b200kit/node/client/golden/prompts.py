"""The golden prompts, and how far healthy servers' answers to them may lie apart. Data.

Prose, code, numbers, names, another language and a list, so that different parts of a vocabulary
are used. Their words are our own and never change: a kept reference holds for these very texts.
"""

from __future__ import annotations

SET = "golden/1"
"""Name of this set; another one means another reference."""

PROMPTS = (
    "A ferry leaves the harbour at seven and the fog lifts at nine. Tell what the pilot sees.",
    "Write a Python function that returns the second largest number of a list.",
    "17 + 25 = 42. 42 * 3 = 126. 126 - 58 = 68. 68 / 4 =",
    "Name five rivers, each with one city that lies on it, in alphabetical order.",
    "Der alte Leuchtturm steht seit hundert Jahren auf der Insel. Was hat er gesehen?",
    "List the parts of a bicycle from the front wheel to the back, one on a line.",
)
TOP = 5
"""Likeliest tokens asked for beside each token."""

TOLERANCE = 0.5
"""Distance of two log-probabilities (natural logarithm, "nats") that rounding explains.

Logits are bfloat16 numbers; those of large models lie between 16 and 32, where a step is 0.125 (8
bits of significand). A log-probability is the difference of two; of two servers that chose other
kernels when they started each may be off by a step in both: four steps. Inferred; not measured on a
B200. Launches were seen to differ by more (vllm#54506), so what only drifted from a kept reference
is reported and does not fail.
"""
