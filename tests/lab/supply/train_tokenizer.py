"""Train a byte-level BPE tokenizer on the standard library's sources and write ``tokenizer.json``.

Run as a program by a Python that has ``tokenizers``: FILE VOCABULARY-SIZE SPECIAL-TOKEN...
"""

from __future__ import annotations

import importlib
import sys
import sysconfig
from pathlib import Path


def main(target: str, vocabulary: str, *special: str) -> int:
    """Train and save; special tokens get the ids 0, 1, 2, ..."""
    # Imported by name: only the lab's tools have these packages.
    tokenizers = importlib.import_module("tokenizers")
    trainers = importlib.import_module("tokenizers.trainers")
    byte_level = importlib.import_module("tokenizers.pre_tokenizers").ByteLevel
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=int(vocabulary),
        special_tokens=list(special),
        initial_alphabet=byte_level.alphabet(),
        show_progress=False,
    )
    sources = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:60]
    tokenizer.train([str(path) for path in sources], trainer)
    if tokenizer.get_vocab_size() != int(vocabulary):
        sys.stderr.write(f"{tokenizer.get_vocab_size()} tokens instead of {vocabulary}\n")
        return 1
    tokenizer.save(target)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
