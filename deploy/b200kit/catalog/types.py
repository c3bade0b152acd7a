"""Hardware, models, settings and engines by name, as the rules need them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from b200kit.node.lib.documents import NEEDED

if TYPE_CHECKING:
    from b200kit.catalog.hardware.facts import Hardware
    from b200kit.engines.flags import EngineKnowledge
    from b200kit.node.host.settings_table import Setting
    from b200kit.sizing.dimensions import Dimensions


@dataclass(frozen=True)
class Model:
    """A model of the catalogue (b200kit/catalog/models/MAKER/NAME.yaml), or one of a site's own.

    *dimensions* are None where nothing is known of its size; *weights_bytes* are its safetensors'
    when stated; *family* names the model that several checkpoints are of; *original* is what the
    maker published first, in however few bits. The Hub gives a *gated* one only to accounts that
    accepted its terms.
    """

    name: str
    source: str
    flags: tuple[tuple[str, str | int | float | bool], ...] = ()
    family: str = ""
    revision: str | None = None
    dimensions: Dimensions | None = None
    weights_bytes: int | None = None
    original: bool = False
    gated: bool = False


@dataclass(frozen=True)
class Preset:
    """A vendor's repository for one operating system, and where what is said of it is from."""

    name: str
    url: str
    key_url: str
    fingerprint: str
    source: str = field(default="", metadata=NEEDED)
    date: str = field(default="", metadata=NEEDED)
    kind: Literal["measured", "quoted", "inferred"] = field(default="quoted", metadata=NEEDED)
    suites: str = "./"
    components: str = ""


@dataclass(frozen=True)
class Versions:
    """What a system has of what we depend on, as `VERSION --version` says, and who says so."""

    systemd: str
    python: str
    apt: str
    haproxy: str
    source: str


@dataclass(frozen=True)
class Kernels:
    """A system's kernels: the version it was released with, and the flavour that most nodes run.

    Later kernels of the flavours *hwe* have metapackages of their own. *extra_modules*: whether
    each kernel keeps modules in a package linux-modules-extra-RELEASE; images of the flavours
    *extra_apart* do not bring it.
    """

    first: str
    usual: str
    hwe: tuple[str, ...] = ()
    extra_modules: bool = False
    extra_apart: tuple[str, ...] = ()


@dataclass(frozen=True)
class Archive:
    """The system's own archive: its Origin, and components that the driver's packages need."""

    origin: str
    components: tuple[str, ...] = ()


@dataclass(frozen=True)
class SystemDriver:
    """The driver on a system: what `b200 init` writes and why, and what the packages are like.

    *signed_by* is the certificate of the key that dkms signs with.
    """

    value: str
    why: str
    persistenced: Literal["own package", "from 580"]
    signed_by: str


@dataclass(frozen=True)
class System:
    """One operating system (b200kit/catalog/systems/KEY.yaml), by the ID and VERSION_ID of its
    os-release. *refused* says why nodes may not have it; empty where they may.
    """

    schema: ClassVar[str] = "b200kit/system/1"
    id: str
    version: str
    name: str
    versions: Versions
    kernels: Kernels
    archive: Archive
    driver: SystemDriver
    repositories: tuple[Preset, ...]
    refused: str = ""

    @property
    def key(self) -> str:
        """As an inventory names it: "ubuntu2204"."""
        return f"{self.id}{self.version.replace('.', '')}"


@dataclass(frozen=True)
class Catalogue:
    """The hardware, models, settings, engines and systems this checkout knows, by name.

    *contexts* are tokens of prompt and answer by family, where an inventory names none.
    *site* is the inventory's folder: in `keys/` are the repositories' keys, which each site reviews
    and keeps itself, in `models/` the manifests of models that come from the Hub.
    """

    hardware: Mapping[str, Hardware]
    models: Mapping[str, Model]
    settings: Mapping[str, Setting] = field(default_factory=dict)
    engines: Mapping[str, EngineKnowledge] = field(default_factory=dict)
    systems: Mapping[str, System] = field(default_factory=dict)
    contexts: Mapping[str, int] = field(default_factory=dict)
    site: str = "inventories"
