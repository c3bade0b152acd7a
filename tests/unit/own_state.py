"""Node commands that write files; what a node keeps of them stays out of this machine's state."""

from __future__ import annotations

PROGRAM = """
import importlib, pathlib, sys
sys.path.insert(0, sys.argv[1])
from b200kit.node.lib import installed
installed.LIST = pathlib.Path(sys.argv[2], "installed.json")
installed.ORIGINALS = pathlib.Path(sys.argv[2], "originals")
raise SystemExit(importlib.import_module("b200kit.node.lib." + sys.argv[3]).main([]))
"""
"""For `python -c`: the node program, a directory for its state, and put_files."""
