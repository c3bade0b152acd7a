"""Entry of the node program in a source tree: ``python3 -m b200kit.node COMMAND``."""

from __future__ import annotations

import sys

from b200kit.node.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
