"""Which formats of the KV cache each attention backend of vLLM can keep. Data, and one rule.

Source: `supported_kv_cache_dtypes` of vllm/v1/attention/backends in the published wheel of vLLM
0.33.0, read 2026-11-21 (quoted). A backend that is not here is not judged: vLLM does it at start.
"""

from __future__ import annotations

from collections.abc import Mapping

from b200kit.node.lib.documents import Malformed, parse

_WIDE = frozenset({"auto", "float16", "bfloat16"})
_FP8 = frozenset({"fp8", "fp8_e4m3"})
_E5M2 = frozenset({"fp8_e5m2"})

KV_FORMATS: Mapping[str, frozenset[str]] = {
    "FLASHINFER": _WIDE | _FP8 | _E5M2 | {"nvfp4", "nvfp4_4over6"},
    "FLASH_ATTN": _WIDE | _FP8,
    "TRITON_ATTN": _WIDE
    | _FP8
    | _E5M2
    | {"int4_per_token_head", "int8_per_token_head", "fp8_per_token_head"},
    "FLEX_ATTENTION": _WIDE,
    "FLASHINFER_MLA": _WIDE | _FP8,
    "TOKENSPEED_MLA": _FP8,
    "CUTLASS_MLA": _WIDE | _FP8,
    "FLASH_ATTN_MLA": _WIDE,
    "FLASHMLA": _WIDE | _FP8,
    "TRITON_MLA": _WIDE | _FP8,
    "FLASHINFER_MLA_SPARSE": _WIDE | _FP8,
    "FLASH_ATTN_MLA_SPARSE": _WIDE,
    "FLASHMLA_SPARSE": frozenset({"auto", "bfloat16", "fp8", "fp8_ds_mla", "nvfp4_ds_mla"}),
}


def backend(flags: Mapping[str, object]) -> str | None:
    """The backend that flags select, by --attention-backend or inside --attention-config."""
    named = flags.get("attention-backend")
    config = flags.get("attention-config")
    if named is None and isinstance(config, str):
        try:
            parsed = parse(config)
        except Malformed:
            return None
        named = parsed.get("backend") if isinstance(parsed, dict) else None
    return str(named).upper() if named is not None else None


def refusal(flags: Mapping[str, object], dtype: str) -> str | None:
    """Why the requested backend cannot store the cache in *dtype*; None without a reason."""
    name = backend(flags)
    formats = KV_FORMATS.get(name or "")
    if formats is None or dtype in formats:
        return None
    able = sorted(other for other, known in KV_FORMATS.items() if dtype in known)
    instead = f"; {', '.join(able)} can" if able else ""
    return f"attention-backend {name} cannot keep the KV cache as {dtype}{instead}"
