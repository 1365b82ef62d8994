"""A small model to draft with, checked when its target is loaded and read when first used."""

from pathlib import Path

from mlx_engine.loading.load_model import LoadedModel, load_model
from mlx_engine.loading.locate_model import locate_model
from mlx_engine.loading.model_folder import ModelFiles
from mlx_engine.loading.model_headers import read_headers
from mlx_engine.loading.text_parts import read_text_parts
from mlx_engine.models.contract import Adapter
from mlx_engine.text.same_tokens import first_difference
from mlx_engine.values.errors import BadOption, EngineError
from mlx_engine.values.options import LoadOptions
from mlx_engine.values.reason import Reason


class DraftModel:
    """The small model of one target; not in memory before `open`."""

    def __init__(self, files: ModelFiles | None, share: float, why_not: Reason | None) -> None:
        self._files = files
        self._adapter: Adapter | None = None
        self.share = share
        self.why_not = why_not

    def open(self) -> Adapter:
        """Read it, once."""
        if self._adapter is None:
            assert self._files is not None
            options = LoadOptions(numerics="fast")
            self._adapter = load_model(self._files, options, self._files.root).adapter
        return self._adapter


def open_draft_model(options: LoadOptions, target: LoadedModel) -> DraftModel | None:
    """The draft model the options name; None when they name none.

    One that cannot be read, or has other tokens than the target, raises EngineError, or is passed
    over with a reason when `draft_misfit` is "plain".
    """
    if options.draft_model is None:
        return None
    try:
        return _checked(options.draft_model, target)
    except EngineError as error:
        if options.draft_misfit == "refuse":
            raise
        return DraftModel(None, 0.0, Reason("draft-model-misfit", str(error)))


def _checked(place: str | Path, target: LoadedModel) -> DraftModel:
    files = locate_model(place, Path())
    headers = read_headers(files, None)
    tokenizer, _ = read_text_parts(headers)
    difference = first_difference(target.tokenizer, tokenizer)
    if difference is not None:
        raise BadOption(
            f"draft_model={str(place)!r} cannot draft for this model, because its tokens are "
            f"others: {difference}. Use a small model of the same family."
        )
    small = sum(info.nbytes for info in headers.parts.trunk.values())
    return DraftModel(files, small / max(1, target.description.nbytes), None)
