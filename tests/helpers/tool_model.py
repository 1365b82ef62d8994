"""The built-in model, told of tools by its template, with a token that spells a whole call."""

import json
import shutil
from pathlib import Path

from chat_templates import TOOLS

from mlx_engine.built_in_model import built_in_model

CALL_TOKEN = 3070
CALL = (
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Bonn", "days": 3}}\n</tool_call>'
)
CALLS = {CALL_TOKEN: 1000.0}
"""A logit bias after which the model's every token is the call."""


def tool_folder(folder: Path) -> Path:
    """Writes it."""
    shutil.copytree(built_in_model(), folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    (token,) = (t for t in tokenizer["added_tokens"] if t["id"] == CALL_TOKEN)
    token["content"] = CALL
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": TOOLS}))
    return folder
