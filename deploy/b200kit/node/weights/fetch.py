"""`fetch`: bring a model from peers or the site's store and prove every byte against its manifest.

The revision is the manifest's SHA-256, and the manifest names the SHA-256 of each
file, so a source that serves anything else is refused by name and the next one is asked. Files
that were proven are not read again, and partial ones go on where they were, which makes an
interrupted fetch resume. The stamp `.complete` is written last.
"""

from __future__ import annotations

import argparse
import fcntl
import http.client
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from b200kit.node.lib import lock
from b200kit.node.weights import download, model_files
from b200kit.node.weights.download import FetchError, Job, Manners
from b200kit.node.weights.manifest import (
    NAME,
    PARTIAL,
    STAMP,
    ManifestError,
    ManifestFile,
    parse,
    size_text,
    wrong,
)
from b200kit.node.weights.progress import Progress
from b200kit.node.weights.source import FileSource, SourceError, insist, sources

FAILED, REFUSED = 1, 3
"""Exit status: another try may help; no other try can. (2 is a wrong command line.)"""
_MOST_MANIFEST = 64 << 20


def main(args: list[str]) -> int:
    """Fetch or verify one model; 0 complete and proven, 1 or 3 with one line otherwise."""
    options = _parser().parse_args(args)
    if options.verify:
        return verify(options)
    progress = Progress(options.revision, options.status)
    progress.write("checking")
    try:
        count = fetch(options, progress)
    except FetchError as error:
        return _failed(progress, str(error), error.final)
    except ManifestError as error:
        return _failed(progress, str(error), final=True)
    except (OSError, http.client.HTTPException) as error:
        return _failed(progress, str(error), final=False)
    progress.end("complete")
    print(f"{count} files")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fetch")
    parser.add_argument("--url", help="URL of the store that holds manifest.json")
    parser.add_argument("--peer", action="append", default=[], help="URL asked before the store")
    parser.add_argument("--manifest", type=Path, help="the manifest, where the store has none")
    parser.add_argument("--dest", required=True, type=Path)
    parser.add_argument("--revision", required=True)
    parser.add_argument("--token-file", type=Path, help="bearer token, for the store alone")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds without a byte")
    parser.add_argument("--tries", type=int, default=4, help="tries of a source without a byte")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds before another try")
    parser.add_argument("--parallel", type=int, default=4, help="files at a time")
    parser.add_argument("--status", type=Path, help="file that says how far it is")
    parser.add_argument("--verify", action="store_true", help="hash what is there; fetch nothing")
    return parser


def _failed(progress: Progress, error: str, final: bool) -> int:
    progress.end("refused" if final else "failed", error)
    print(f"model not fetched: {error}", file=sys.stderr)
    return REFUSED if final else FAILED


def verify(options: argparse.Namespace) -> int:
    """Hash every file that is there against the manifest that is there; changes nothing."""
    try:
        entries = model_files.manifest(options.dest, options.revision)
        bad = model_files.rehash(options.dest, entries, options.parallel)
        bad |= model_files.unnamed(options.dest, entries)
    except (ManifestError, OSError) as error:
        print(f"model not proven: {error}", file=sys.stderr)
        return FAILED
    for path, why in bad.items():
        print(f"model not proven: {path}: {why}", file=sys.stderr)
    if not bad:
        print(f"{len(entries)} files, {size_text(sum(e.size for e in entries))}, proven")
    return FAILED if bad else 0


def fetch(options: argparse.Namespace, progress: Progress) -> int:
    """Bring every file of the manifest to *options.dest*; returns how many there are."""
    found = sources(options.url, options.peer, options.token_file, options.timeout)
    manners = Manners(tries=options.tries, pause_s=options.pause, window_s=options.timeout)
    raw, entries = _manifest(options, found, manners)
    if _is_whole(options.dest, entries, options.revision):
        return len(entries)
    lock = only(options.dest)
    try:
        model_files.open_up(options.dest)
        proven = _proven(options.dest, entries, options.parallel)
        left = [entry for entry in entries if entry.path not in proven]
        download.require_space(options.dest, left)
        _expect(progress, options.dest, entries, left)
        jobs = [Job(e, options.dest / e.path, found, manners, progress.arrived) for e in left]
        _bring_all(options, jobs, proven, progress)
        for name in model_files.seal(options.dest, raw, entries, options.revision):
            print(f"removed {name}: the manifest does not name it")
    finally:
        os.close(lock)
    return len(entries)


def _manifest(
    options: argparse.Namespace, found: Sequence[FileSource], manners: Manners
) -> tuple[bytes, tuple[ManifestFile, ...]]:
    """The manifest asked for: the one kept here or given, else of the first source that has it."""
    revision = options.revision
    try:
        raw = (options.dest / NAME).read_bytes()
        return raw, parse(raw, revision)
    except (OSError, ManifestError):
        pass
    if options.manifest:
        raw = options.manifest.read_bytes()
        return raw, parse(raw, revision)
    errors: list[SourceError] = []
    for source in found:
        try:
            raw = insist(partial(_whole, source), manners.tries, manners.pause_s)
            return raw, parse(raw, revision)
        except ManifestError as error:
            errors.append(SourceError(f"{source.url}/{NAME}: {error}"))
        except SourceError as error:
            errors.append(error)
        # Who does not have the manifest does not have the model.
        source.gone = str(errors[-1])
    raise download.refusal(errors)


def _whole(source: FileSource) -> bytes:
    answer = source.open(NAME)
    end = time.monotonic() + source.timeout
    try:
        raw = b""
        while chunk := answer.read(_MOST_MANIFEST - len(raw) + 1):
            raw += chunk
            if time.monotonic() > end:
                slow = f"too slow, {len(raw)} bytes in {source.timeout:g} s"
                raise SourceError(f"{answer.url}: {slow}", again=True)
            if len(raw) > _MOST_MANIFEST:
                raise SourceError(f"{answer.url}: it is larger than any manifest")
    finally:
        answer.close()
    if answer.size is not None and len(raw) < answer.size:
        shortage = f"cut short at {len(raw)} of {answer.size} bytes"
        raise SourceError(f"{answer.url}: {shortage}", again=True)
    return raw


def _is_whole(dest: Path, entries: Sequence[ManifestFile], revision: str) -> bool:
    """Whether all was proven and nothing changed since: then nothing is touched, or read again."""
    try:
        stamped = (dest / STAMP).read_text(encoding="utf-8").strip() == revision
    except OSError:
        return False
    return stamped and not wrong(entries, model_files.record(dest), model_files.observed(dest))


def only(dest: Path) -> int:
    """Its lock, which goes when the model is sealed; FetchError when another fetch has it."""
    descriptor = lock.opened(dest / f".lock{PARTIAL}")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise FetchError(f"another fetch is at work in {dest}") from None
    return descriptor


def _proven(dest: Path, entries: Sequence[ManifestFile], parallel: int) -> dict[str, list[int]]:
    """Files that are right: those of the record that did not change, and those that hash right."""
    here, record = model_files.observed(dest), model_files.record(dest)
    there = [e for e in entries if here.get(e.path, (-1,))[0] == e.size]
    known = [e for e in there if record.get(e.path) == [*here[e.path]]]
    unknown = [e for e in there if e not in known]
    spoilt = model_files.rehash(dest, unknown, parallel) if unknown else {}
    proven = {e.path: [*here[e.path]] for e in there if e.path not in spoilt}
    model_files.keep_record(dest, proven)
    return proven


def _expect(
    progress: Progress, dest: Path, entries: Sequence[ManifestFile], left: Sequence[ManifestFile]
) -> None:
    total = sum(entry.size for entry in entries)
    missing = sum(entry.size - download.begun(dest, entry) for entry in left)
    progress.expect(total, total - missing, len(entries), len(entries) - len(left))


def _bring_all(
    options: argparse.Namespace,
    jobs: Sequence[Job],
    proven: dict[str, list[int]],
    progress: Progress,
) -> None:
    """Bring several files at a time; each is in the record as soon as it is in place."""
    errors: list[FetchError | OSError] = []
    with ThreadPoolExecutor(max(options.parallel, 1)) as pool:
        waiting = {pool.submit(download.bring, job): job for job in jobs}
        for future in as_completed(waiting):
            job = waiting[future]
            try:
                source = future.result()
            except (FetchError, OSError) as error:
                # The others go on: what is right need not be fetched again.
                errors.append(error)
                continue
            status = job.target.stat()
            proven[job.entry.path] = [status.st_size, status.st_mtime_ns]
            model_files.keep_record(options.dest, proven)
            progress.finished()
            print(f"{job.entry.path} from {source.url if source else 'what was there'}", flush=True)
    if errors:
        final = [e for e in errors if isinstance(e, FetchError) and e.final]
        more = f" (and {len(errors) - 1} more files)" if len(errors) > 1 else ""
        raise FetchError(f"{[*final, *errors][0]}{more}", final=bool(final))
