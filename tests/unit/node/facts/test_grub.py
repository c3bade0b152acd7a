"""Which kernel GRUB would boot, out of menus as grub-mkconfig writes them."""

from __future__ import annotations

import pytest

from b200kit.node.facts import grub
from tests.subtests import in_subtests

OLD, NEW = "6.1.0-28-amd64", "6.1.0-30-amd64"
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
    assert grub.default_kernel(config, environment) == kernel


def test_braces_of_functions_and_unknown_lines_do_not_confuse() -> None:
    function = 'function gfxmode {\n\tset gfxpayload="${1}"\n}\nexport linux_gfx_mode\n'
    assert grub.default_kernel(function + MENU) == NEW


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
        grub.default_kernel(config)
