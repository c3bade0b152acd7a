"""`python -m b200kit.cli`: the same as `b200`."""

from __future__ import annotations

import sys

from b200kit.cli import main

if __name__ == "__main__":
    sys.exit(main())
