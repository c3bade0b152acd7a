"""b200kit: from a bare OS to a proven, warm, measured vLLM server on 8x NVIDIA B200."""

from __future__ import annotations

__version__ = "0.3.0"
