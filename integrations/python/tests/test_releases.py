"""What earlier releases wrote and said is read by today's code: tests/releases, recorded by record.py there."""
import fcntl
import hashlib
import json
import os
import shutil
import socket
import sys
import threading

import pytest

from conftest import ROOT

RECORDS = ROOT / "tests" / "releases"
sys.path.insert(0, str(RECORDS))
import record  # noqa: E402

RELEASES = sorted(p.name for p in RECORDS.iterdir() if (p / "SHA256SUMS").exists())
DATASETS = [(r, d) for r in RELEASES for d in ("plain", "typed")]
FULL = [r for r in RELEASES if (RECORDS / r / "feed.json").exists()]


def golden(release):
    return json.loads((RECORDS / release / "golden.json").read_text())


def changed(folder):
    """The files of a record that are not as they were recorded, missing and added ones included."""
    want = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    have = {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in folder.rglob("*") if p.is_file() and p.name != "SHA256SUMS"}
    return sorted(k for k in want.keys() | have.keys() if want.get(k) != have.get(k))


@pytest.mark.parametrize("release", RELEASES)
def test_records_are_as_they_were_recorded(release):
    assert changed(RECORDS / release) == []


def test_a_changed_byte_of_a_record_is_seen(program, tmp_path):
    shutil.copytree(RECORDS / RELEASES[0], tmp_path / "r")
    for file in sorted(p for p in (tmp_path / "r").rglob("*") if p.is_file() and p.name != "SHA256SUMS"):
        content = file.read_bytes()
        file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        assert changed(tmp_path / "r") == [str(file.relative_to(tmp_path / "r"))]
        file.write_bytes(content)


@pytest.mark.parametrize("release, name", DATASETS)
def test_datasets_open_and_give_the_same_batches(program, release, name):
    folder = RECORDS / release
    assert record.run(program, ["check", name], folder) is not None, "khop check refuses it"
    for options, want in golden(release)["digests"][name].items():
        if want is not None:
            assert record.digests(program, folder, name, options) == want, options


def missing(old, new, at=""):
    """What a program could rely on and cannot any more: names that are gone, values of another type."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [m for k, v in old.items() for m in ([f"{at}.{k}"] if k not in new else missing(v, new[k], f"{at}.{k}"))]
    if isinstance(old, list) and isinstance(new, list):
        return [m for a, b in zip(old, new) for m in missing(a, b, at + "[]")]
    return [] if old == new or "null" in (old, new) else [f"{at}: {old}, now {new}"]


@pytest.mark.parametrize("release", FULL)
def test_json_has_the_same_names(program, release):
    for name, old in golden(release)["json"].items():
        assert missing(old, record.output(program, RECORDS / release, name)) == [], name


def wanted(old, new, at=""):
    """Parameters that a call must give now and need not then."""
    if not isinstance(new, dict) or not isinstance(old, dict):
        return [at] if (old, new) == ("may", "must") else []
    return [w for k, v in new.items() for w in (wanted(old[k], v, f"{at}.{k}") if k in old else
                                                 [f"{at}.{k}"] * (v == "must"))]


@pytest.mark.parametrize("release", FULL)
def test_python_has_the_same_names_and_takes_the_same_calls(release):
    old = json.loads((RECORDS / release / "python.json").read_text())
    new = record.python_names()
    assert [m for m in missing(old, new) if "may" not in m.split(": ")[-1]] == []
    assert [w for name in old for w in wanted(old[name], new[name], name)] == []


def test_a_name_that_is_gone_is_seen():
    assert missing({"a": "text", "b": {"c": "number"}}, {"a": "text", "b": {}, "d": "text"}) == [".b.c"]
    assert missing({"a": ["text"]}, {"a": ["number"]}) == [".a[]: text, now number"]
    assert wanted({"f": {"a": "must", "b": "may"}}, {"f": {"a": "may", "b": "must", "c": "must"}}) == [".f.b", ".f.c"]


@pytest.mark.parametrize("release", FULL)
def test_a_consumer_of_then_gets_the_same_arrays_of_a_server_of_today(program, release):
    feed = json.loads((RECORDS / release / "feed.json").read_text())
    assert [record.decode(m) for m in feed["consumer"]] == record.consumer()
    assert record.epoch(program, RECORDS / release)[2] == feed["batches"]


@pytest.mark.parametrize("release", FULL)
def test_a_consumer_of_today_reads_a_server_of_then(release):
    from khop._feed.feed import Feed
    from khop._loader.loader import Connection

    feed = json.loads((RECORDS / release / "feed.json").read_text())
    client, server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    heard = threading.Event()

    def speak():
        memory = os.memfd_create("ring", os.MFD_ALLOW_SEALING)
        os.write(memory, record.decode(feed["memory"]["0"]))
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        for message in map(record.decode, feed["server"]):
            kind = int.from_bytes(message[:2], "little")
            while kind in (2, 5) and server.recv(record.SIZE)[0] not in (1, 4):  # WELCOME answers HELLO, BEGUN BEGIN
                pass
            socket.send_fds(server, [message], [memory] if kind == record.SEGMENT else [])
        heard.wait(60)

    thread = threading.Thread(target=speak, daemon=True)
    thread.start()
    loader = Connection(Feed(client, timeout=60), framework="numpy")
    got = [{n: hashlib.sha256(b._arrays().numpy(n)[0].tobytes()).hexdigest() for n in b._arrays().names()}
           for b in loader]
    heard.set()
    loader.close()
    thread.join()
    server.close()
    assert got == [{name: digest for name, (_, _, digest) in b.items()} for b in feed["batches"]]
