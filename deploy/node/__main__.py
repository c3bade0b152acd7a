"""Entry of the node program in a source tree: ``python3 -m deploy.node COMMAND``."""

from __future__ import annotations

import sys

from deploy.node.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
