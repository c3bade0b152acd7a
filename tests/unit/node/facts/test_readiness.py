"""What is read before the first change: firmware variables, headers, whose a driver is."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from b200kit.node.facts import driver_module, readiness
from tests.subtests import in_subtests

SECURE_BOOT = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
VALIDATION_OFF = "MokSBStateRT-605dab50-e046-4300-abb6-3dd810dd8b23"
# As efivarfs shows them: attributes (boot service and runtime access), then the value.
ON, OFF = b"\x06\x00\x00\x00\x01", b"\x06\x00\x00\x00\x00"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node's root in place of this machine's."""
    monkeypatch.setattr(readiness, "ROOT", tmp_path)
    monkeypatch.setattr(driver_module, "ROOT", tmp_path)
    return tmp_path


@contextmanager
def _folder() -> Iterator[Path]:
    """An empty root for one case of several."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@in_subtests(
    ("variables", "expected"),
    [
        ({SECURE_BOOT: ON}, True),
        ({SECURE_BOOT: OFF}, False),
        ({SECURE_BOOT: ON, VALIDATION_OFF: ON}, False),
        ({SECURE_BOOT: ON, VALIDATION_OFF: OFF}, True),
        ({"Boot0000-8be4df61-93ca-11d2-aa0d-00e098032b8c": ON}, False),
        (None, None),
    ],
)
def test_secure_boot_is_read_from_the_firmwares_variables(
    variables: dict[str, bytes] | None, expected: bool | None
) -> None:
    with pytest.MonkeyPatch.context() as patch, _folder() as folder:
        patch.setattr(readiness, "ROOT", folder)
        if variables is not None:
            place = folder / "sys/firmware/efi/efivars"
            place.mkdir(parents=True)
            for name, value in variables.items():
                (place / name).write_bytes(value)
        assert readiness.secure_boot() is expected


def test_efi_machine_without_its_variables_is_not_measured(root: Path) -> None:
    (root / "sys/firmware/efi/efivars").mkdir(parents=True)
    with pytest.raises(ValueError, match="efivarfs is not mounted"):
        readiness.secure_boot()


@in_subtests(
    ("said", "enrolled"),
    [
        ("/var/lib/dkms/mok.pub is not enrolled\n", False),
        ("/var/lib/dkms/mok.pub is already enrolled\n", True),
        ("/var/lib/dkms/mok.pub is already in the built-in trusted keyring\n", True),
        # It takes a reboot and a person at the console.
        ("/var/lib/dkms/mok.pub is already in the enrollment request\n", False),
        ("EFI variables are not supported on this system\n", False),
    ],
)
def test_key_of_dkms_is_asked_of_mokutil(said: str, enrolled: bool) -> None:
    """The words are those in Debian 12's mokutil 0.6.0."""
    with pytest.MonkeyPatch.context() as patch, _folder() as folder:
        patch.setattr(readiness, "ROOT", folder)
        patch.setattr(readiness, "command", lambda argv, accept: said)
        for path in ("usr/bin/mokutil", "var/lib/dkms/mok.pub"):
            (folder / path).parent.mkdir(parents=True)
            (folder / path).touch()
        assert readiness.signing_key_enrolled() is enrolled


def test_kernel_that_boots_next_needs_headers_too(root: Path) -> None:
    newer = "6.1.0-49-amd64"
    (root / "boot/grub").mkdir(parents=True)
    entry = f"menuentry 'Debian' {{\n\tlinux /boot/vmlinuz-{newer} root=/dev/sda1\n}}\n"
    (root / "boot/grub/grub.cfg").write_text(f'set default="0"\n{entry}')
    (root / f"lib/modules/{newer}/build").mkdir(parents=True)
    (root / f"lib/modules/{newer}/build/Makefile").touch()
    found = readiness.headers()
    assert found.pop(newer) is True
    assert list(found.values()) == [False]


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="no dpkg on this machine")
def test_owner_of_a_file_is_found_by_either_of_its_names(tmp_path: Path) -> None:
    nobodys = str(tmp_path / "libnvidia-ml.so.1")
    found = readiness.owners(["/usr/bin/bash", "/bin/bash", nobodys])
    assert found == {"/usr/bin/bash": "bash", "/bin/bash": "bash", nobodys: None}


def test_drivers_files_and_the_runfiles_uninstaller_are_found(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.86.15"
    for path in (library, root / "usr/bin/nvidia-uninstall"):
        path.parent.mkdir(parents=True)
        path.touch()
    # As ldconfig and Debian's alternatives make them.
    library.with_name("libnvidia-ml.so.1").symlink_to(library)
    library.with_name("libnvidia-ml.so.535").symlink_to("/nonexistent")
    monkeypatch.setattr(readiness, "owners", dict.fromkeys)
    assert readiness.driver() == {"files": {str(library): None}, "runfile": True}
