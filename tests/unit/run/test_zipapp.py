"""The node program is the same file wherever and whenever it is built."""

from __future__ import annotations

import hashlib
import io
import zipfile

from b200kit.run import zipapp


def test_its_bytes_follow_from_its_sources_alone() -> None:
    data, digest = zipapp.build()
    assert hashlib.sha256(data).hexdigest() == digest
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
    assert {entry.date_time for entry in entries} == {zipapp.EPOCH}
    assert {entry.external_attr for entry in entries} == {0o644 << 16}
    assert [entry.filename for entry in entries] == sorted(zipapp.contents())
