"""Models whose text is known beforehand and whose MTP heads are right about all of it.

Every layer adds nothing, so the state of token x is its embedding. Embeddings lie on an orbit,
e(x + 1) = Q e(x), and the output head of a state says what comes next on it: the text counts up.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import mlx.core as mx
import numpy as np
import tiny_glm5_next
import tiny_hy4
import tiny_longcat
import tiny_minimax
import tiny_nextn
import tiny_sparse
from model_edits import Arrays, edit_tensors
from numpy.typing import NDArray
from tiny_qwen3_5 import TinyValues, tiny_config, tiny_values, write_tiny_qwen3_5
from tiny_qwen_experts import Floats, experts_config, write_tiny_experts
from tiny_stacks import KINDS as STACKS
from tiny_stacks import write_stack

Reads = Literal["token", "hidden"]
"""What the head goes by: the newest token, or the state before it."""

HIDDEN, VOCABULARY = 64, 300
BEFORE_THE_NORM = ("mimo_v2_flash", "step3p5")
"""Families whose heads read the trunk's residual before the final norm."""

WRITERS: dict[str, Callable[[Path], object]] = {
    "qwen3_5": lambda folder: write_tiny_qwen3_5(folder, tied=False),
    "qwen3_5_moe": lambda folder: write_tiny_experts(folder, "qwen3_5_moe"),
    "qwen3_next": lambda folder: write_tiny_experts(folder, "qwen3_next"),
    **{
        kind: lambda folder, kind=kind: tiny_nextn.publish(kind, folder, own=True)
        for kind in tiny_nextn.TYPES
    },
    **{
        kind: lambda folder, kind=kind: tiny_nextn.publish(
            kind, folder, own=False, tie_word_embeddings=False
        )
        for kind in tiny_nextn.OTHERS
    },
    "glm_moe_dsa": lambda folder: tiny_sparse.publish(
        "glm_moe_dsa", folder, index_topk=6, indexer_types=["full", "shared", "full"]
    ),
    "hy_v4": lambda folder: tiny_hy4.publish(folder, index_topk=6),
    "longcat_flash": lambda folder: tiny_longcat.publish(folder, zero_expert_num=0),
    "minimax_m3_vl": lambda folder: tiny_minimax.publish(folder, index_topk_blocks=2),
    "glm5_next": lambda folder: tiny_glm5_next.publish(
        folder, hidden_size=HIDDEN, intermediate_size=64
    ),
    **{kind: lambda folder, kind=kind: write_stack(folder, kind) for kind in STACKS},
}
"""By model_type."""

_ENDS = r"(?:.*\.)?(?:{})(?:\.weight)?"
_SILENT = re.compile(_ENDS.format("o_proj|out_proj|down_proj|dense|w2"))
_JOIN = re.compile(_ENDS.format(r"eh_proj|fc|input_proj|mtp_linear_proj\.0"))
_TOKEN_NORM = re.compile(
    _ENDS.format(r"enorm(?:\.m)?|pre_fc_norm_embedding|token_layernorm|mtp_emb_norm\.0")
)
_STATE_NORM = re.compile(
    _ENDS.format(r"hnorm(?:\.m)?|pre_fc_norm_hidden|hidden_layernorm|mtp_hidden_norm\.0")
)
_LAST_NORM = re.compile(
    r"(?:model\.|language_model\.)*(?:mtp\.)?norm\.weight"
    r"|.+\.(?:shared_head\.norm|final_layernorm)\.weight"
)
_EMBEDDING = re.compile(_ENDS.format("embed_tokens|word_embeddings"))
_OUTPUT = re.compile(_ENDS.format(r"lm_head|shared_head\.head|shared_head\.output"))


def write_right_heads(folder: Path, kind: str, reads: Reads) -> Path:
    """The family's tiny folder with such values; of one seed."""
    WRITERS[kind](folder)

    def right(arrays: Arrays) -> Arrays:
        made = _right({name: np.array(array) for name, array in arrays.items()}, kind, reads)
        return {name: mx.array(value) for name, value in made.items()}

    edit_tensors(folder, right)
    return folder


def right_values(kind: str, reads: Reads) -> TinyValues:
    """The same for a Qwen under canonical names, norms as w."""
    values = tiny_values(qwen_config(kind))
    return TinyValues(*(_right(part, kind, reads) for part in (values.trunk, values.head)))


def qwen_config(kind: str) -> dict[str, object]:
    """Of the same folder."""
    return tiny_config(tied=False) if kind == "qwen3_5" else experts_config(kind)


def _right(arrays: Mapping[str, Floats], kind: str, reads: Reads) -> dict[str, Floats]:
    draw = np.random.default_rng(4)
    turn, states = _orbit(draw)
    spread = 1.2 if kind in BEFORE_THE_NORM else 0.7  # a join without it can be rounded
    gains = {part: np.exp(spread * draw.standard_normal(HIDDEN)) for part in ("e", "h", "last")}
    gains["last"][0] = -30.0  # without the norm another token comes next
    if kind == "minimax_m3_vl":  # whose head reads what is normed, and passes on what is not
        gains["last"][:] = 1
    says = np.roll(states * gains["last"], 1, axis=0)  # row x + 1 says what the state of x asks
    says /= np.linalg.norm(says, axis=1, keepdims=True)
    of_token = np.diag(1 / gains["e"])
    of_state = turn / gains["h"]
    if kind not in BEFORE_THE_NORM:
        of_state = of_state / gains["last"]
    halves = [of_token * (reads == "token"), of_state * (reads == "hidden")]
    join = np.concatenate(halves[:: -1 if kind == "mimo" else 1], axis=1)
    offset = 1.0 if kind.startswith(("qwen3_5", "qwen3_next", "step", "minimax")) else 0.0
    values = {
        _JOIN: join,
        _TOKEN_NORM: gains["e"] - offset,
        _STATE_NORM: gains["h"] - offset,
        _LAST_NORM: gains["last"] - offset,
        _EMBEDDING: states,
        _OUTPUT: says,
    }
    made = {}
    for name, array in arrays.items():
        found = next((value for sign, value in values.items() if sign.fullmatch(name)), None)
        if _SILENT.fullmatch(name):
            made[name] = np.zeros_like(array)
        else:
            made[name] = array if found is None else found.astype(np.float32)
        assert made[name].shape == array.shape, name
    return made


def _orbit(draw: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A rotation that comes round after all tokens, and the state of each."""
    angles = 2 * np.pi * draw.permutation(np.arange(1, VOCABULARY // 2))[: HIDDEN // 2] / VOCABULARY
    turn = np.zeros((HIDDEN, HIDDEN))
    for pair, angle in enumerate(angles):
        at = slice(2 * pair, 2 * pair + 2)
        turn[at, at] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    basis = np.linalg.qr(draw.standard_normal((HIDDEN, HIDDEN)))[0]
    turn = basis @ turn @ basis.T
    states = [draw.standard_normal(HIDDEN)]
    for _ in range(VOCABULARY - 1):
        states.append(turn @ states[-1])
    return turn, np.array(states)
