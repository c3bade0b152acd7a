"""An inventory's names, looked up in the catalog: the model, and the replicas' shape."""

from __future__ import annotations

from b200kit.catalog import load
from b200kit.catalog.types import Catalogue, Model
from b200kit.engines.contract import Scalar
from b200kit.inventory import defaults, engine_flags
from b200kit.inventory.spec import NodeSpec
from b200kit.node.placement.layout import Shape


def catalogue_for(spec: NodeSpec) -> Catalogue:
    """The catalogue with the site's own model, if the spec has one."""
    return load.with_site_model(load.load(), spec.model, spec.model_config_file)


def model_of(spec: NodeSpec) -> Model:
    """The model that a node serves: the catalogue's, or the site's own by its config.json."""
    return catalogue_for(spec).models[spec.model]


def flags_of(spec: NodeSpec) -> dict[str, Scalar]:
    """The flags of a node's engine: the catalogue's by goal and model, the inventory's on top."""
    catalogue = catalogue_for(spec)
    return engine_flags.flags(spec, catalogue.models[spec.model], catalogue)


def shape_of(spec: NodeSpec) -> Shape:
    """What each replica of a node is like, KV tokens included where they can be computed."""
    return defaults.shape(spec, catalogue_for(spec))
