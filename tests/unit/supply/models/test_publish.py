"""`b200 model publish` and `pin`: from the Hub or a directory into a store, checked and pinned."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants

from b200kit.cli import main
from b200kit.node.weights.fetch import only
from b200kit.node.weights.manifest import parse
from b200kit.supply.models.hub import is_gated
from b200kit.supply.models.manifest import Origin, origin_of, revision
from tests.lab.supply.internet.hub import Hub
from tests.messages import assert_message
from tests.unit.supply.models.conftest import INDEX, REPOSITORY, SHARDS, TOKEN

COMMIT = "c" * 40
WHAT = f"{REPOSITORY}@{COMMIT}"
Console = pytest.CaptureFixture[str]


def publish(what: object, store: Path, *more: str) -> int:
    """Run the command."""
    return main(["model", "publish", str(what), "--to", str(store), *more])


def published(store: Path, name: str = "tiny-llama") -> Path:
    """The one revision of a store; what it holds is what its manifest says."""
    [folder] = (store / name).iterdir()
    raw = (folder / "manifest.json").read_bytes()
    assert revision(raw) == folder.name
    for entry in parse(raw, folder.name):
        assert (folder / entry.path).stat().st_size == entry.size
    return folder


def test_hub_is_one_that_the_real_client_takes_a_snapshot_from(
    hub: Hub, made: dict[str, bytes], tmp_path: Path
) -> None:
    hub.repositories[REPOSITORY].token = TOKEN
    huggingface_hub.snapshot_download(
        REPOSITORY, revision=COMMIT, local_dir=tmp_path, token=TOKEN, endpoint=hub.url
    )
    assert {name: (tmp_path / name).read_bytes() for name in made} == made
    assert hub.leaked == []


def test_model_of_the_hub_is_published_with_its_origin(
    hub: Hub, made: dict[str, bytes], tmp_path: Path, capsys: Console
) -> None:
    assert publish(WHAT, tmp_path) == 0
    folder = published(tmp_path)
    out = capsys.readouterr().out
    assert out.splitlines() == ['model = "tiny-llama"', f'model_revision = "{folder.name}"']
    raw = (folder / "manifest.json").read_bytes()
    assert origin_of(raw) == Origin(REPOSITORY, COMMIT)
    names = {path.name for path in folder.iterdir()} - {"manifest.json"}
    assert names == {*made} - {"README.md", ".gitattributes"}
    assert all((folder / name).read_bytes() == made[name] for name in names)


def test_second_run_fetches_nothing(hub: Hub, tmp_path: Path) -> None:
    assert publish(WHAT, tmp_path) == 0
    folder, sent = published(tmp_path), len(hub.sent)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert publish(WHAT, tmp_path) == 0
    # The headers are looked at, and no file is fetched.
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert len(hub.sent) - sent == 2 * len(SHARDS)


def test_connection_that_is_cut_is_gone_on_with(
    hub: Hub, made: dict[str, bytes], tmp_path: Path
) -> None:
    # Twice each for the headers of the two shards, which ends at its own wish.
    hub.cut_at, hub.cuts = 200_000, 2 * len(SHARDS) + 2
    assert publish(WHAT, tmp_path) == 0
    assert (published(tmp_path) / SHARDS[0]).read_bytes() == made[SHARDS[0]]
    assert {first for _, first in hub.sent} > {0}


def test_killed_run_is_finished_by_the_next(
    hub: Hub, made: dict[str, bytes], tmp_path: Path
) -> None:
    hub.hold_at = 300_000
    words = ["model", "publish", WHAT, "--to", str(tmp_path)]
    run = [sys.executable, "-c", f"from b200kit.cli import main; main({words!r})"]
    with subprocess.Popen(run, env={**os.environ, "HF_ENDPOINT": hub.url}) as process:
        while sum(p.stat().st_size for p in tmp_path.rglob("*.partial")) < 2 * hub.hold_at:
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    assert not list(tmp_path.rglob("manifest.json"))
    hub.hold_at = None
    hub.go_on.set()
    del hub.sent[:]
    assert publish(WHAT, tmp_path) == 0
    assert {(name, 300_000) for name in SHARDS} <= {*hub.sent}
    assert all((published(tmp_path) / name).read_bytes() == made[name] for name in SHARDS)


def test_damaged_revision_in_a_store_is_replaced(checkpoint: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert publish(checkpoint, store, "--name", "tiny-llama") == 0
    damaged = published(store) / SHARDS[0]
    damaged.unlink()
    assert publish(checkpoint, store, "--name", "tiny-llama") == 0
    assert published(store) == damaged.parent


def test_same_files_have_the_same_revision_wherever_they_lie(
    checkpoint: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    for store in (first, second):
        assert publish(checkpoint, store, "--name", "tiny") == 0
    assert published(first, "tiny").name == published(second, "tiny").name


def test_pin_writes_the_manifest_alone_and_publish_has_the_same(
    hub: Hub, tmp_path: Path, capsys: Console
) -> None:
    assert main(["model", "pin", WHAT, "--to", str(tmp_path / "models")]) == 0
    said = capsys.readouterr().out
    [path] = (tmp_path / "models").iterdir()
    assert path.name == f"tiny-llama-{revision(path.read_bytes())[:12]}.json"
    # Its commit is the one at which the repository stands.
    assert main(["model", "pin", WHAT.partition("@")[0], "--to", str(tmp_path / "now")]) == 0
    assert capsys.readouterr().out == said
    # Of large files a few bytes each.
    assert {first for _, first in hub.sent} == {0}
    assert publish(WHAT, tmp_path / "store") == 0
    assert capsys.readouterr().out == said


# Tampering: each with a file or directory of the checkpoint, as it lies on a disk.


def one_bit(folder: Path) -> None:
    """In the header of a shard."""
    raw = bytearray((folder / SHARDS[0]).read_bytes())
    raw[raw.index(b'"BF16"') + 1] ^= 1
    (folder / SHARDS[0]).write_bytes(raw)


def cut_short(folder: Path) -> None:
    """A shard without its last byte."""
    (folder / SHARDS[1]).write_bytes((folder / SHARDS[1]).read_bytes()[:-1])


def wrong_shape(folder: Path) -> None:
    """A tensor of twice the rows in the same bytes."""
    raw = (folder / SHARDS[0]).read_bytes()
    count = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + count])
    header["lm_head.weight"]["shape"][0] *= 2
    text = json.dumps(header).encode()
    (folder / SHARDS[0]).write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + count :])


def index_without_a_tensor(folder: Path) -> None:
    """The index does not name a tensor that is there."""
    index = json.loads((folder / INDEX).read_text())
    del index["weight_map"]["model.norm.weight"]
    (folder / INDEX).write_text(json.dumps(index))


def index_with_another_tensor(folder: Path) -> None:
    """The index names a tensor that is not there."""
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"]["model.layers.7.mlp.up_proj.weight"] = SHARDS[0]
    (folder / INDEX).write_text(json.dumps(index))


def other_index(folder: Path) -> None:
    """The index names none of the tensors, but the files."""
    names = {f"blocks.{number}": SHARDS[number % 2] for number in range(40)}
    (folder / INDEX).write_text(json.dumps({"weight_map": names}))


def config(**changes: Any) -> Callable[[Path], None]:
    """config.json says something else."""

    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def link_out(folder: Path) -> None:
    """A file that is a link to another directory."""
    outside = folder.parent / "outside.json"
    outside.write_text("{}")
    (folder / "generation_config.json").symlink_to(outside)


def folder_link_out(folder: Path) -> None:
    """A folder that is a link to another directory."""
    (folder.parent / "elsewhere").mkdir()
    (folder / "assets").symlink_to(folder.parent / "elsewhere")


TAMPERED: dict[str, Callable[[Path], object]] = {
    "one bit in a header": one_bit,
    "a shard cut short": cut_short,
    "a shape of other bytes": wrong_shape,
    "a shard missing": lambda folder: (folder / SHARDS[1]).unlink(),
    "a shard too many": lambda folder: (folder / "extra.safetensors").write_bytes(
        (folder / SHARDS[1]).read_bytes()
    ),
    "a tensor the index does not name": index_without_a_tensor,
    "a tensor of the index missing": index_with_another_tensor,
    "an index of another model": other_index,
    "no index": lambda folder: (folder / INDEX).unlink(),
    "an index that is none": lambda folder: (folder / INDEX).write_text("[]"),
    "a pickle": lambda folder: (folder / "optimizer.pt").touch(),
    "a pickle of another name": lambda folder: (folder / "tokenizer.model").write_bytes(
        b"\x80\x04\x95"
    ),
    "a pickle of protocol 0": lambda folder: (folder / "vocab.txt").write_bytes(
        pickle.dumps(os.system, 0)
    ),
    "a pickle that joblib packed": lambda folder: (folder / "data").write_bytes(
        gzip.compress(pickle.dumps({}))
    ),
    "a pickle without an ending": lambda folder: (folder / "data").write_bytes(b"\x80\x02}q"),
    "an archive of torch": lambda folder: (folder / "weights.txt").write_bytes(b"PK\3\4rest"),
    "a stray file": lambda folder: (folder / "notes.docx").touch(),
    "a file of the toolkit's": lambda folder: (folder / "manifest.json").write_text("{}"),
    "no config": lambda folder: (folder / "config.json").unlink(),
    "more layers": config(num_hidden_layers=4),
    "another width": config(hidden_size=256),
    "a larger vocabulary": config(vocab_size=4096),
    "half the bytes": config(intermediate_size=4096),
    "no architecture": config(architectures=[]),
    "a link out": link_out,
    "a folder that is a link out": folder_link_out,
}


@pytest.mark.parametrize("case", TAMPERED)
def test_model_that_is_not_what_it_says_is_refused_by_name(
    case: str, checkpoint: Path, tmp_path: Path, capsys: Console
) -> None:
    TAMPERED[case](checkpoint)
    store = tmp_path / "store"
    assert publish(checkpoint, store, "--name", "tiny") == 1
    assert_message(capsys.readouterr().err.replace(str(tmp_path), "SITE"))
    assert not store.exists()


def test_architecture_of_unknown_sizes_is_published_and_said(
    checkpoint: Path, tmp_path: Path, capsys: Console
) -> None:
    config(num_attention_heads=None)(checkpoint)
    assert publish(checkpoint, tmp_path / "store", "--name", "tiny") == 0
    assert "note: sizes were not compared" in capsys.readouterr().err


def test_code_that_comes_with_a_model_is_named(
    checkpoint: Path, tmp_path: Path, capsys: Console
) -> None:
    (checkpoint / "modeling_tiny.py").write_text("import os\n")
    config(auto_map={"AutoModel": "modeling_tiny.Tiny"})(checkpoint)
    assert publish(checkpoint, tmp_path / "store", "--name", "tiny") == 0
    assert "note: code comes with it: modeling_tiny.py, auto_map of" in capsys.readouterr().err


def test_quantisation_is_read_beside_the_config_where_it_has_none(
    checkpoint: Path, tmp_path: Path, capsys: Console
) -> None:
    quantised = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": []}}
    (checkpoint / "hf_quant_config.json").write_text(json.dumps(quantised))
    # Four bits a weight by what it says, and sixteen in the files.
    assert publish(checkpoint, tmp_path / "store", "--name", "tiny") == 1
    assert_message(capsys.readouterr().err)


def test_second_file_of_modelopt_is_carried_into_the_store(
    checkpoint: Path, tmp_path: Path
) -> None:
    quantised = {"quantization": {"quant_algo": "FP8", "exclude_modules": ["*mlp*"]}}
    (checkpoint / "hf_quant_config.json").write_text(json.dumps(quantised))
    assert publish(checkpoint, tmp_path / "store", "--name", "tiny") == 0
    stored = published(tmp_path / "store", "tiny") / "hf_quant_config.json"
    assert json.loads(stored.read_text()) == quantised


def test_two_runs_at_once_do_not_write_one_file(
    checkpoint: Path, tmp_path: Path, capsys: Console
) -> None:
    assert publish(checkpoint, tmp_path / "one", "--name", "tiny") == 0
    revised = published(tmp_path / "one", "tiny").name
    building = tmp_path / "two" / "tiny" / f"{revised}.building"
    building.mkdir(parents=True)
    held = only(building)
    try:
        assert publish(checkpoint, tmp_path / "two", "--name", "tiny") == 1
    finally:
        os.close(held)
    assert "another fetch is at work" in capsys.readouterr().err
    assert publish(checkpoint, tmp_path / "two", "--name", "tiny") == 0


def test_pickle_is_allowed_or_left_out_by_name(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "scales.pt").write_bytes(b"pickle")
    with_it, without = tmp_path / "with", tmp_path / "without"
    assert publish(checkpoint, with_it, "--name", "tiny", "--allow-pickle", "scales.pt") == 0
    assert (published(with_it, "tiny") / "scales.pt").is_file()
    assert publish(checkpoint, without, "--name", "tiny", "--without", "*.pt") == 0
    assert not (published(without, "tiny") / "scales.pt").exists()


def test_link_inside_the_model_becomes_a_file(checkpoint: Path, tmp_path: Path) -> None:
    os.symlink("config.json", checkpoint / "params.json")
    assert publish(checkpoint, tmp_path / "store", "--name", "tiny") == 0
    copied = published(tmp_path / "store", "tiny") / "params.json"
    assert copied.is_file()
    assert not copied.is_symlink()


# What the Hub may be, or serve.


@pytest.mark.parametrize(
    "path", ["../config.json", "a/../../x.json", "/etc/x.json", "a//x.json", "manifest.json"]
)
def test_path_that_climbs_out_is_refused_before_a_file_is_fetched(
    path: str, hub: Hub, tmp_path: Path, capsys: Console
) -> None:
    hub.repositories[REPOSITORY].files[path] = b"{}"
    assert publish(WHAT, tmp_path / "store") == 1
    assert_message(capsys.readouterr().err)
    assert not (tmp_path / "store").exists()
    assert hub.sent == []


def test_bit_that_differs_from_what_the_hub_names_is_refused(
    hub: Hub, made: dict[str, bytes], tmp_path: Path, capsys: Console
) -> None:
    repository = hub.repositories[REPOSITORY]
    repository.listed = dict(made)
    repository.files[SHARDS[1]] = made[SHARDS[1]][:-1] + bytes([made[SHARDS[1]][-1] ^ 1])
    assert publish(WHAT, tmp_path) == 1
    assert_message(capsys.readouterr().err.replace(hub.url, "HUB").splitlines()[-1])
    assert not list(tmp_path.glob("*/*/manifest.json"))


def test_small_file_that_is_not_of_the_commit_is_refused(
    hub: Hub, made: dict[str, bytes], tmp_path: Path, capsys: Console
) -> None:
    repository = hub.repositories[REPOSITORY]
    repository.listed = dict(made)
    repository.files["config.json"] += b" "
    assert publish(WHAT, tmp_path) == 1
    assert_message(capsys.readouterr().err)


@pytest.mark.parametrize("token", [None, "hf_canary_other", TOKEN])
def test_gated_model_wants_a_token_that_never_shows_or_leaves_the_hub(
    token: str | None, hub: Hub, tmp_path: Path, capsys: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repositories[REPOSITORY].token = TOKEN
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    assert publish(WHAT, tmp_path) == (0 if token == TOKEN else 1)
    said = capsys.readouterr()
    assert "canary" not in said.out + said.err
    assert hub.leaked == []
    if token != TOKEN:
        assert_message(said.err.replace(hub.url, "HUB"))


@pytest.mark.parametrize("token", [None, TOKEN])
def test_hub_says_without_a_token_whether_a_model_is_gated(token: str | None, hub: Hub) -> None:
    hub.repositories[REPOSITORY].token = token
    assert is_gated(WHAT) is bool(token)
    assert not is_gated(f"org/none@{COMMIT}")


@pytest.mark.parametrize(
    "what",
    [
        f"{REPOSITORY}@main",
        "org@" + COMMIT,
        f"{REPOSITORY}@{'d' * 40}",
        "a/b@" + COMMIT,
    ],
)
def test_what_names_no_commit_of_the_hub_is_refused(
    what: str, hub: Hub, tmp_path: Path, capsys: Console
) -> None:
    assert publish(what, tmp_path) == 1
    assert_message(capsys.readouterr().err)


def test_token_is_not_sent_in_plain_text(
    hub: Hub, tmp_path: Path, capsys: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(constants, "ENDPOINT", "http://hub.example")
    assert publish(WHAT, tmp_path) == 1
    assert_message(capsys.readouterr().err)
