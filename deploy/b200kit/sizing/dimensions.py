"""What decides a model's bytes: weights by part, and what its layers keep of a sequence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

# Tensor parallelism is a power of two: all-reduce kernels and head counts are.
WIDTHS = (1, 2, 4, 8, 16)


class ModelError(ValueError):
    """A config.json that sizes cannot be computed from; the text says why, in one line."""


@dataclass(frozen=True)
class Cache:
    """What layers keep of each token.

    *heads* are split over the ranks of TP; 0 means that each rank keeps the whole. *numbers* are
    those of one head and token, keys and values together, in the cache's format; *fixed* are bytes
    that no format changes. Of a *window* no more tokens are kept; 0 keeps all. *ratio* tokens
    share an entry. *packed* are the bytes of an entry in `fp8_ds_mla`, 0 where there is none, and
    *narrow* whether the engine packs it by default.
    """

    layers: int = 1
    heads: int = 0
    numbers: int = 0
    fixed: int = 0
    window: int = 0
    ratio: float = 1
    packed: int = 0
    narrow: bool = False


@dataclass(frozen=True)
class LayerState:
    """What recurrent layers keep of a sequence, whatever its length; split over the ranks of TP.

    *channels* of the convolution are kept for *kernel* - 1 tokens and each drafted one, in BF16;
    *ssm* numbers of *ssm_bytes* each.
    """

    layers: int = 1
    channels: int = 0
    kernel: int = 1
    ssm: int = 0
    ssm_bytes: int = 4


@dataclass(frozen=True)
class Layer:
    """Weights of one layer by part, and what it keeps; layers are added part by part.

    *cuts* are the widths that tensor parallelism cuts, each with its part: the inputs of down and
    output projections.
    """

    attention: int = 0
    dense: int = 0
    shared: int = 0
    routed: int = 0
    router: int = 0
    keeps: tuple[Cache | LayerState, ...] = ()
    cuts: tuple[tuple[str, int], ...] = ()

    def __add__(self, other: Layer) -> Layer:
        """A layer of both."""
        return Layer(
            self.attention + other.attention,
            self.dense + other.dense,
            self.shared + other.shared,
            self.routed + other.routed,
            self.router + other.router,
            self.keeps + other.keeps,
            self.cuts + other.cuts,
        )

    @property
    def weights(self) -> int:
        """All of them."""
        return self.attention + self.dense + self.shared + self.routed + self.router


@dataclass(frozen=True)
class Experts:
    """Mixture of experts: how many a layer has, how many a token uses, and how wide each is."""

    count: int
    active: int
    width: int


@dataclass(frozen=True)
class Stack:
    """The layers of a model, and those that draft further tokens, as its family counts them."""

    layers: tuple[Layer, ...]
    heads: int
    kv_heads: int
    experts: Experts | None = None
    latent: bool = False
    drafts: tuple[Layer, ...] = ()
    tied: bool = False


@dataclass(frozen=True)
class Parameters:
    """Number of weights by part; what a quantised checkpoint treats differently is apart.

    *attention* is all that mixes tokens, recurrent layers included; *shared* what each token uses
    in a layer with experts.
    """

    embedding: int
    head: int
    attention: int
    dense: int
    shared: int
    routed: int
    router: int
    draft: int

    @property
    def total(self) -> int:
        """All of the model itself, as its name counts them; the draft layers are extra."""
        ends = self.embedding + self.head + self.router
        return ends + self.attention + self.dense + self.shared + self.routed


# Shares of a part's weights by number format: {"bf16": 0.25, "nvfp4": 0.75}.
Formats = Mapping[str, float]


@dataclass(frozen=True)
class Dimensions:
    """A model as sizing sees it. *latent*: one compressed vector a token, the same on each rank.

    *weights* is the number format of most weights, and *parts* what single parts are in instead;
    *blocks* how many weights share a scale where the checkpoint says so, by format.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    vocabulary: int
    max_length: int
    parameters: Parameters
    keeps: tuple[Cache | LayerState, ...]
    draft_keeps: tuple[Cache | LayerState, ...] = ()
    draft_layers: int = 0
    latent: bool = False
    experts: Experts | None = None
    weights: str = "bf16"
    parts: Mapping[str, Formats] = field(default_factory=dict)
    kv_dtype: str = "auto"
    cuts: tuple[tuple[str, int], ...] = ()
    blocks: Mapping[str, int] = field(default_factory=dict)

    @property
    def moe(self) -> bool:
        """Whether it is a mixture of experts."""
        return self.experts is not None

    @property
    def formats(self) -> frozenset[str]:
        """Number formats of all its weights."""
        return frozenset({self.weights, *(name for part in self.parts.values() for name in part)})

    @property
    def active(self) -> float:
        """Number of weights that a token uses, as makers count them."""
        have, experts = self.parameters, self.experts
        used = experts.active / experts.count if experts else 1.0
        return have.total - have.routed * (1 - used)


def grouped(layers: tuple[Layer, ...]) -> tuple[Cache | LayerState, ...]:
    """What layers keep, like ones together."""
    counts: dict[Cache | LayerState, int] = {}
    for one in (each for layer in layers for each in layer.keeps):
        counts[one] = counts.get(one, 0) + 1
    return tuple(replace(one, layers=count) for one, count in counts.items())


def parameters(stack: Stack, vocabulary: int, hidden: int) -> Parameters:
    """The sum over all layers; norms and biases, far below a thousandth, are left out."""
    ends = vocabulary * hidden
    return Parameters(
        embedding=ends,
        head=0 if stack.tied else ends,
        attention=sum(layer.attention for layer in stack.layers),
        dense=sum(layer.dense for layer in stack.layers),
        shared=sum(layer.shared for layer in stack.layers),
        routed=sum(layer.routed for layer in stack.layers),
        router=sum(layer.router for layer in stack.layers),
        # A draft layer has a projection of two inputs besides.
        draft=sum(layer.weights + 2 * hidden * hidden for layer in stack.drafts),
    )
