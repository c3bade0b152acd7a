"""The certificates that an inventory names, on the controller: whether they hold, and how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from b200kit.inventory.keys import fleet, reprovision
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.secrets import Secret
from b200kit.inventory.spec import NodeSpec
from b200kit.node.lib.certificates import CertificateValidity, validity

_GATEWAY = "gateway.certificate"


def authorities(spec: NodeSpec) -> Iterator[tuple[str, str]]:
    """Each file of authorities by its key in the inventory."""
    yield from fleet.files(spec.fleet)
    yield from reprovision.files(spec)


def problems(spec: NodeSpec, secrets: Mapping[str, Secret]) -> Iterator[Problem]:
    """Certificates that don't hold now, and files that have none."""
    for key, place, found in _named(spec, secrets):
        if isinstance(found, str):
            yield Problem(key, f"{place} {found}")
        elif fault := found.fault(datetime.now(UTC)):
            yield Problem(key, f"{place} {fault}: renew it")


def warnings(spec: NodeSpec, secrets: Mapping[str, Secret]) -> list[str]:
    """Those that end soon, a line each."""
    return [
        f"{key}: {place} {soon}: renew it"
        for key, place, found in _named(spec, secrets)
        if isinstance(found, CertificateValidity) and (soon := found.warning(datetime.now(UTC)))
    ]


def _named(
    spec: NodeSpec, secrets: Mapping[str, Secret]
) -> Iterator[tuple[str, str, CertificateValidity | str]]:
    """Key, place, and when the certificates there hold or why they cannot be read."""
    texts = [(key, path, Path(path).read_bytes()) for key, path in authorities(spec)]
    if (ref := spec.gateway.certificate) and _GATEWAY in secrets:
        place = ref.file or (f"environment variable {ref.env}" if ref.env else ref.command[0])
        texts.insert(0, (_GATEWAY, place, secrets[_GATEWAY].reveal()))
    for key, place, pem in texts:
        try:
            yield key, place, validity(pem, "chain" if key == _GATEWAY else "authorities")
        except ValueError as error:
            yield key, place, str(error)
