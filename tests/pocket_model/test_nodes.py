"""How many nodes the graph of a pass has where MLX computes on a CPU, a few microseconds each."""

from pathlib import Path

import mlx.core as mx
from lazy_graph import nothing_begun, primitives

from mlx_engine.loading.load import load_model
from mlx_engine.values.options import LoadOptions

FOLDER = Path(__file__).parents[2] / "assets" / "pocket_model"


def test_a_pass_has_few_nodes_and_a_row_adds_only_its_recurrent_steps() -> None:
    model = load_model(FOLDER, LoadOptions(), FOLDER).model
    counts = []
    for rows in (1, 2, 3, 4):
        caches = model.make_caches()
        for block in (20, 4):
            hidden = model.forward(mx.array([[7] * block]), caches)
            caches.commit(block)
            mx.eval(hidden, caches.arrays())
        with nothing_begun():
            logits = model.logits(model.forward(mx.array([[7] * rows]), caches))
        counts.append(primitives(mx.argmax(logits, axis=-1), *caches.arrays()).total())
    if mx.default_device() == mx.cpu:
        # of 8 layers; MLX's own operations make 1,196
        assert counts[0] <= 700
        assert counts[3] - counts[2] == counts[2] - counts[1] == 6 * 5  # layers that recur
