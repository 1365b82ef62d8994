"""What others wrote is read within limits, or refused in words; nothing is waited for."""

import json
import os
import socket

import pytest

from mlx_engine.values.errors import BadModelFile, BadTokenizer
from mlx_engine.values.untrusted import (
    JSON_DEPTH,
    JSON_VALUES,
    BadJsonError,
    parse_json,
    read_bytes,
    read_json,
    read_text,
)


def pipe(path):
    os.mkfifo(path)


def listening(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def loop(path):
    path.symlink_to(path.name)


def to_zeros(path):
    path.symlink_to("/dev/zero")


def too_large(path):
    path.touch()
    os.truncate(path, 2**40)


@pytest.mark.parametrize(
    "make",
    [pipe, listening, loop, to_zeros, too_large, os.mkdir, lambda path: path.symlink_to("gone")],
)
def test_what_is_no_small_file_is_refused_at_once(monkeypatch, tmp_path, make):
    monkeypatch.chdir(tmp_path)  # the address of a socket is short
    path = tmp_path / "config.json"
    make(path.relative_to(tmp_path) if make is listening else path)
    for read in (read_bytes, read_text, read_json):
        with pytest.raises(BadTokenizer, match=r"config\.json: "):
            read(path, 1000, BadTokenizer)


@pytest.mark.parametrize("name", ["a\0", "\ud800", "x" * 300, "y/" * 3000])
def test_a_name_that_no_file_can_have(tmp_path, name):
    with pytest.raises(BadModelFile):
        read_bytes(tmp_path / name, 1000)


def test_a_file_of_the_limit_is_read(tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"a": 1}')
    (tmp_path / "link").symlink_to(path)
    assert read_json(tmp_path / "link", 11) == {"a": 1}
    with pytest.raises(BadModelFile, match="11 bytes"):
        read_json(path, 10)


@pytest.mark.parametrize("data", [b"\xff\xfe{", b"{", b"", b"null", b"[]", b"[" * 10**6])
def test_no_object_of_json(tmp_path, data):
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(BadModelFile, match=r"a\.json"):
        read_json(tmp_path / "a.json", 10**7)


def nested(depth):
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    "text",
    [
        nested(JSON_DEPTH + 1),
        '{"a":' * 101 + "1" + "}" * 101,
        nested(5000),
        "[" + "1," * JSON_VALUES + "1]",
        "[" + "[[]]," * (JSON_VALUES // 3) + "1]",
        r'"\ud800"',
        r'{"\uDfff": 1}',
        r'"\udc00\ud83d"',
        b"\xff",
    ],
)
def test_json_beyond_the_limits(text):
    with pytest.raises(BadJsonError):
        parse_json(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (nested(JSON_DEPTH), json.loads(nested(JSON_DEPTH))),
        (r'["\ud83d\ude00", "\\ud800"]', ["😀", r"\ud800"]),
        ("18446744073709551615", 2**64 - 1),
        ("1000000000000000019884624838656", 1e30),
        ("-" + "9" * 5000, -float("inf")),
    ],
)
def test_json_within_them(text, value):
    found = parse_json(text)
    assert (found, type(found)) == (value, type(value))
