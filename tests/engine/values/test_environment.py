import os
import sys
import tempfile
from pathlib import Path
from shutil import which

import mlx.core as mx
import pytest

import mlx_engine
from mlx_engine.values.environment import use_private_temporary_folder

if sys.platform != "linux":
    pytest.skip("only Linux shares a temporary folder", allow_module_level=True)


def _writable_by_others(place):
    place.mkdir()
    place.chmod(0o777)


PLANTED = {
    "nothing": lambda place: None,
    "a folder others may write to": _writable_by_others,
    "a link": lambda place: place.symlink_to(place.parent),
    "a file": lambda place: place.write_text("x"),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_mlx_compiles_lies_where_no_other_user_can_write(
    tmp_path, monkeypatch, planted, compiling
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    place = tmp_path / f"headstart-{os.getuid()}"
    PLANTED[planted](place)
    use_private_temporary_folder.cache_clear()
    with pytest.raises(mlx_engine.ModelNotFound):
        mlx_engine.load(tmp_path / "nowhere")
    folder = Path(os.environ["TMPDIR"])
    assert folder.parent == tmp_path
    assert not folder.is_symlink()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder == place) == (planted == "nothing")
    if planted == "nothing" and mx.default_device() == mx.Device(mx.cpu):
        mx.eval(mx.compile(lambda x: mx.sin(x) * 0.123 + x)(mx.ones(2)))
        # MLX compiles nothing where the machine has no C++ compiler
        assert list(folder.rglob("*.so")) or which("g++") is None
    use_private_temporary_folder.cache_clear()
