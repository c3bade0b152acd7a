"""Why apt or dpkg stopped, out of what they print (Debian 12's apt 2.6, dpkg 1.21, dkms 3.0)."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.node.lib import apt_output
from b200kit.node.lib.apt import UPDATE, Apt, AptFailed, of_list
from b200kit.node.lib.error_line import cause
from tests.messages import assert_message

DKMS = """\
Setting up nvidia-kernel-open-dkms (580.126.20-1) ...
Loading new nvidia-580.126.20 DKMS files...
Building for 6.1.0-30-amd64
Building initial module for 6.1.0-30-amd64
Error! Bad return status for module build on kernel: 6.1.0-30-amd64 (x86_64)
Consult /var/lib/dkms/nvidia/580.126.20/build/make.log for more information.
dpkg: error processing package nvidia-kernel-open-dkms (--configure):
 installed nvidia-kernel-open-dkms package post-installation script subprocess returned error exit\
 status 10
dpkg: dependency problems prevent configuration of nvidia-open:
 nvidia-open depends on nvidia-kernel-open-dkms (= 580.126.20-1); however:
  Package nvidia-kernel-open-dkms is not configured yet.
Errors were encountered while processing:
 nvidia-kernel-open-dkms
 nvidia-open
E: Sub-process /usr/bin/dpkg returned an error code (1)
""".splitlines()
MAKE = """\
DKMS make.log for nvidia-580.126.20 for kernel 6.1.0-30-amd64 (x86_64)
make[1]: Entering directory '/usr/src/linux-headers-6.1.0-30-amd64'
  CC [M]  /var/lib/dkms/nvidia/580.126.20/build/nvidia/nv-mmap.o
/var/lib/dkms/nvidia/580.126.20/build/nvidia/nv-mmap.c:371:13: error: implicit declaration of f
make[2]: *** [Makefile:243: nv-mmap.o] Error 1
""".splitlines()


def test_failed_build_names_module_kernel_error_and_log() -> None:
    failure = apt_output.dkms_failure(DKMS)
    assert failure is not None
    text = failure.describe(MAKE)
    assert "nvidia 580.126.20 for kernel 6.1.0-30-amd64" in text
    assert "nv-mmap.c:371:13: error: implicit declaration" in text
    assert "/var/lib/dkms/nvidia/580.126.20/build/make.log" in text


def test_command_line_with_an_option_named_error_is_no_error() -> None:
    """As the log of Debian's nvidia-open-kernel-dkms 550.163.01 for kernel 6.12.117 has it."""
    at = "/var/lib/dkms/nvidia-current-open/550.163.01/build/nvidia/nv-pci.c:237:9"
    seen = f"{at}: error: too few arguments to function 'pci_resize_resource'"
    log = [
        "NV_CONFTEST_CFLAGS=-std=gnu11 -Wno-error -fsanitize=undefined -Werror=undef",
        "   x86_64-linux-gnu-gcc-14 -Wall -Wno-error -c -o nv-pci.o nv-pci.c",
        seen,
        "make[4]: *** [scripts/Makefile.build:234: nv-pci.o] Error 1",
    ]
    assert apt_output.build_error(log) == seen
    modpost = 'ERROR: modpost: "__vma_start_write" [nvidia-uvm.ko] undefined!'
    assert apt_output.build_error([log[0], modpost]) == modpost


def test_failed_build_without_its_log_is_still_reported() -> None:
    failure = apt_output.dkms_failure([line for line in DKMS if "Consult" not in line])
    assert failure is not None
    assert_message(failure.describe([]))


def test_build_log_without_an_error_gives_its_last_line() -> None:
    assert apt_output.build_error(["a", "cc: killed by signal", ""]) == "cc: killed by signal"


def test_installation_that_worked_has_no_failed_build() -> None:
    assert apt_output.dkms_failure(["Building initial module for 6.1.0-30-amd64", "Done."]) is None


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (
            " cannot copy extracted data for './usr/lib/firmware/nvidia/580/gsp_ga10x.bin' to "
            "'/usr/lib/firmware/nvidia/580/gsp_ga10x.bin.dpkg-new': failed to write "
            "(No space left on device)",
            "/usr/lib/firmware/nvidia/580/gsp_ga10x.bin.dpkg-new",
        ),
        (
            "dd: error writing '/boot/initrd.img-6.1.0.new': No space left on device",
            "/boot/initrd.img-6.1.0.new",
        ),
        ("gzip: stdout: No space left on device", None),
        (
            "E: You don't have enough free space in /var/cache/apt/archives/.",
            "/var/cache/apt/archives",
        ),
    ],
)
def test_full_disk_is_found_with_a_path_on_it(line: str, path: str | None) -> None:
    found = apt_output.no_room(["Setting up x ...", line, *DKMS])
    assert found is not None
    assert found[1] == path


@pytest.mark.parametrize(
    "line",
    [
        "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (apt-get)",
        "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another",
        "dpkg: error: dpkg frontend lock was locked by another process with pid 812",
    ],
)
def test_held_lock_is_recognised(line: str) -> None:
    assert apt_output.is_locked([line])
    assert not apt_output.is_locked(DKMS)


def test_package_whose_script_failed_is_told_with_what_it_said() -> None:
    said = [
        "Setting up foo (1-1) ...",
        "foo: cannot create user",
        "dpkg: error processing package foo (--configure):",
        " installed foo package post-installation script subprocess returned error exit status 1",
    ]
    assert apt_output.unconfigured(said) == ("foo", "foo: cannot create user")


def test_package_that_lacks_another_is_told_with_it() -> None:
    said = [
        "dpkg: dependency problems prevent configuration of foo:",
        " foo depends on libbar; however:",
    ]
    assert apt_output.unconfigured(said) == ("foo", "foo depends on libbar; however:")


def test_sizes_are_bytes() -> None:
    said = [
        "Need to get 12.3 kB/401 MB of archives.",
        "After this operation, 1,234 MB of additional disk space will be used.",
    ]
    assert apt_output.sizes(said) == (12_300, 1_234_000_000)
    newer = ["  Download size: 401 MB", "  Space needed: 1,234 MB / 100 GB available"]
    assert apt_output.sizes(newer) == (401_000_000, 1_234_000_000)
    assert apt_output.sizes(["After this operation, 12 MB disk space will be freed."]) == (0, 0)


def test_simulation_tells_what_would_be_done() -> None:
    said = ["Remv libfoo:amd64 [1-1]", "Inst bar (2 lab [amd64])", "Conf bar (2 lab [amd64])", "x"]
    found = {"Inst": ["bar"], "Conf": ["bar"], "Remv": ["libfoo"], "Purg": []}
    assert apt_output.steps(said) == found


def test_line_of_our_own_goes_before_all_that_apt_says() -> None:
    assert cause([*DKMS, "b200kit: process 812 holds it"]) == "process 812 holds it"


def test_repository_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    """By apt itself, whose own habit is a warning, exit status 0 and the lists it had."""
    lists = tmp_path / "lists"
    (lists / "partial").mkdir(parents=True)
    # Nothing listens on the discard port, and no retry makes it.
    (tmp_path / "one.list").write_text("deb [trusted=yes] http://127.0.0.1:9/ ./\n")
    (tmp_path / "apt.conf").write_text(
        f'Dir::State::lists "{lists}";\nDir::Cache "{tmp_path}";\n'
        'Acquire::Retries::Delay "false";\n'
    )
    one = of_list(str(tmp_path / "one.list"))
    apt = Apt(one.settings, {"APT_CONFIG": str(tmp_path / "apt.conf")}, 300)
    with pytest.raises(AptFailed, match=r"127\.0\.0\.1:9"):
        apt.said("apt-get", *UPDATE)


def test_every_program_has_the_same_options_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("apt-get", "apt-mark", "dpkg"):
        (tmp_path / name).write_text('#!/bin/sh\necho "$DEBIAN_FRONTEND $NEEDRESTART_SUSPEND $*"\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    apt = of_list("/etc/apt/one.sources")
    for name in ("apt-get", "apt-mark"):
        [line] = apt.said(name, "act")
        assert line.startswith("noninteractive 1 -o DPkg::Lock::Timeout=300 ")
        assert "-o Dir::Etc::sourcelist=/etc/apt/one.sources" in line
        assert line.endswith(" act")
    assert apt.said("dpkg", "-C") == ["noninteractive 1 --force-confold -C"]
    assert "Dir::Etc" not in Apt().said("apt-get", "act")[0]
