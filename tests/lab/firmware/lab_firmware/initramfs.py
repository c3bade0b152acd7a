"""`update-initramfs -u` of a simulated node: an image with the lines of modprobe.d, if it fits."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from . import modules

#: As large as a small real image, so that a full /boot is one here, too.
SIZE = 4 << 20


def image(root: Path = modules.ROOT) -> bytes:
    """The image: the lines of modprobe.d, padded."""
    text = "\n".join(modules.probe_lines(root)).encode()
    return text + b"\n" + bytes(max(0, SIZE - len(text)))


def main() -> int:
    """Write the running kernel's image; 1 where there is no room."""
    target = Path(f"/boot/initrd.img-{platform.release()}")
    fresh = target.with_name(f"{target.name}.new")
    print(f"update-initramfs: Generating {target}")
    try:
        fresh.write_bytes(image())
        os.replace(fresh, target)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        print(f"update-initramfs: failed for {target}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
