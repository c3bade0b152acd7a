"""For which kernels the nvidia module is built, read from a node's disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from b200kit.node.facts import driver_module
from tests.lab.supply import kernels
from tests.subtests import in_subtests

OLD, NEW = "6.1.0-28-amd64", "6.1.0-30-amd64"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node's disk with two kernels, where modinfo prints the file's text."""
    scenario = tmp_path / "etc/b200-lab/scenario.json"
    scenario.parent.mkdir(parents=True)
    scenario.write_text(json.dumps({"kernel_cmdline": "BOOT_IMAGE=/boot/vmlinuz ro"}))
    for release in (OLD, NEW):
        kernels.install_kernel(tmp_path, release)
    monkeypatch.setattr(driver_module, "ROOT", tmp_path)
    monkeypatch.setattr(driver_module, "command", lambda argv: Path(argv[-1]).read_text())
    return tmp_path


def put(root: Path, kernel: str, place: str, content: str = "580.126.20\n") -> None:
    """A module's file."""
    path = root / "lib/modules" / kernel / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.mark.parametrize(
    "place",
    [
        "updates/dkms/nvidia.ko",
        "updates/dkms/nvidia.ko.xz",
        "updates/dkms/nvidia.ko.zst",
        "updates/dkms/nvidia-current.ko",
        "extra/nvidia.ko",
        "kernel/nvidia-580-open/nvidia.ko.zst",
        "kernel/drivers/video/nvidia.ko",
    ],
)
def test_module_is_found_where_the_systems_put_it(root: Path, place: str) -> None:
    put(root, NEW, place)
    assert driver_module.built_for() == {OLD: None, NEW: "580.126.20"}


def test_what_dkms_built_hides_what_came_with_the_kernel(root: Path) -> None:
    put(root, NEW, "kernel/nvidia-580-open/nvidia.ko", "570.158.01\n")
    put(root, NEW, "updates/dkms/nvidia.ko")
    assert driver_module.built_for()[NEW] == "580.126.20"


def test_module_that_tells_no_version_is_unmeasured(root: Path) -> None:
    put(root, NEW, "updates/dkms/nvidia.ko", "\n")
    assert "has no version" in driver_module.built_for()[NEW]["unmeasured"]


def test_other_modules_of_the_driver_do_not_count(root: Path) -> None:
    put(root, NEW, "updates/dkms/nvidia-uvm.ko")
    assert driver_module.built_for()[NEW] is None


def test_default_kernel_is_the_menus(root: Path) -> None:
    assert driver_module.default_kernel() == NEW
    (root / "boot/grub/grubenv").write_text("next_entry=gnulinux-advanced>2\n")
    assert driver_module.default_kernel() == OLD


def test_node_without_grub_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "ROOT", tmp_path)
    assert driver_module.driver_module()["default_kernel"] == {"unmeasured": "there is no grub.cfg"}
    assert driver_module.built_for() == {}


def test_largest_initramfs_is_told_in_bytes(root: Path) -> None:
    (root / f"boot/initrd.img-{OLD}").write_bytes(bytes(5000))
    assert driver_module.boot() == {"own_file_system": False, "largest_initramfs_bytes": 5000}


def test_node_without_boot_has_no_initramfs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_module, "ROOT", tmp_path)
    assert driver_module.boot() == {"own_file_system": False, "largest_initramfs_bytes": None}


UUID = "5c0c8a3e-1f0a-4a6e-9c55-0a4f2a1d3b77"
# The head of the file and its entries as GRUB 2.06 of Debian 12 writes them, cut.
HEAD = """\
### BEGIN /etc/grub.d/00_header ###
if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="0"
fi
if [ "${prev_saved_entry}" ]; then
  set saved_entry="${prev_saved_entry}"
fi
function savedefault {
  if [ -z "${boot_once}" ]; then
    saved_entry="${chosen}"
  fi
}
"""


def entry(title: str, name: str, kernel: str) -> str:
    """One menu entry."""
    return (
        f"menuentry '{title}' --class debian --class gnu-linux --class os "
        f"$menuentry_id_option '{name}-{UUID}' {{\n"
        "\tload_video\n\tif [ x$grub_platform = xxen ]; then insmod xzio; fi\n"
        f"\techo\t'Loading Linux {kernel} ...'\n"
        f"\tlinux\t/boot/vmlinuz-{kernel} root=UUID={UUID} ro quiet\n"
        f"\tinitrd\t/boot/initrd.img-{kernel}\n}}\n"
    )


def menu(*kernels: str) -> str:
    """A whole file for some kernels, the newest first."""
    below = "".join(
        entry(f"Debian GNU/Linux, with Linux {kernel}", f"gnulinux-{kernel}-advanced", kernel)
        for kernel in kernels
    )
    advanced = "submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option"
    first = entry("Debian GNU/Linux", "gnulinux-simple", kernels[0])
    return f"{HEAD}{first}{advanced} 'gnulinux-advanced-{UUID}' {{\n{below}}}\n"


MENU = menu(NEW, OLD)
SAVED = MENU.replace('set default="0"', 'set default="${saved_entry}"')
ADVANCED = f"gnulinux-advanced-{UUID}>gnulinux-{OLD}-advanced-{UUID}"


@in_subtests(
    ("config", "environment", "kernel"),
    [
        (MENU, "", NEW),
        (MENU, "saved_entry=1>1\n", NEW),  # nobody asks what was saved
        (MENU.replace('default="0"', 'default="1>1"'), "", OLD),
        (MENU.replace('default="0"', 'default="1"'), "", NEW),  # a submenu boots its first
        (MENU.replace('default="0"', f'default="{ADVANCED}"'), "", OLD),
        (
            MENU.replace(
                'default="0"',
                'default="Advanced options for Debian GNU/Linux>'
                f'Debian GNU/Linux, with Linux {OLD}"',
            ),
            "",
            OLD,
        ),
        (SAVED, f"# GRUB Environment Block\nsaved_entry={ADVANCED}\n####", OLD),
        (SAVED, "", NEW),
        (SAVED, f"saved_entry=0\nnext_entry={ADVANCED}\n", OLD),
        (MENU, f"next_entry={ADVANCED}\n", OLD),
    ],
)
def test_default_entry_tells_the_kernel(config: str, environment: str, kernel: str) -> None:
    assert driver_module.booted_next(config, environment) == kernel


def test_braces_of_functions_and_unknown_lines_do_not_confuse() -> None:
    function = 'function gfxmode {\n\tset gfxpayload="${1}"\n}\nexport linux_gfx_mode\n'
    assert driver_module.booted_next(function + MENU) == NEW


@pytest.mark.parametrize(
    "config",
    [
        "",
        MENU.replace('default="0"', 'default="7"'),
        MENU.replace('default="0"', 'default="no such entry"'),
        "menuentry 'UEFI Firmware Settings' --id 'uefi-firmware' {\n\tfwsetup\n}\n",
    ],
)
def test_menu_that_does_not_say_is_an_error_and_no_guess(config: str) -> None:
    with pytest.raises(ValueError, match="entry"):
        driver_module.booted_next(config)
