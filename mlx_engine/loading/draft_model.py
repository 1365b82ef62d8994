"""A model to draft with, checked when its target is loaded and read when first used."""

from pathlib import Path
from typing import Protocol

from mlx_engine.loading.drafter_files import DrafterFiles, bring_in, build_drafter, read_drafter
from mlx_engine.loading.load_model import LoadedModel, load_model
from mlx_engine.loading.locate_model import locate_model
from mlx_engine.loading.model_folder import ModelFiles
from mlx_engine.loading.model_headers import read_headers
from mlx_engine.loading.text_parts import read_text_parts
from mlx_engine.models.contract import Adapter
from mlx_engine.models.drafters import Drafter
from mlx_engine.text.tokenizer import first_difference
from mlx_engine.values.errors import BadOption, EngineError
from mlx_engine.values.options import LoadOptions
from mlx_engine.values.reason import Reason


class DraftModel(Protocol):
    """The draft model of one target; not in memory before `open`.

    share: its bytes over those of the target. why_not: why it cannot draft.
    """

    @property
    def share(self) -> float:
        """At least 0."""

    @property
    def why_not(self) -> Reason | None:
        """None when it can."""

    def open(self) -> Adapter | Drafter:
        """Read it, once."""


class _WholeModel:
    """A model that could chat by itself, with the target's tokens."""

    why_not = None

    def __init__(self, files: ModelFiles, share: float) -> None:
        self._files = files
        self._adapter: Adapter | None = None
        self.share = share

    def open(self) -> Adapter:
        """Read it, once."""
        if self._adapter is None:
            options = LoadOptions(numerics="fast")
            self._adapter = load_model(self._files, options, self._files.root).adapter
        return self._adapter


class _Drafter:
    """A model that reads what its target computes."""

    why_not = None

    def __init__(self, files: DrafterFiles, target: LoadedModel) -> None:
        self._origin = files.origin
        self._drafter = build_drafter(files, target.adapter)
        self._is_read = False
        self.share = files.nbytes / max(1, target.description.nbytes)

    def open(self) -> Drafter:
        """Read it, once."""
        if not self._is_read:
            bring_in(self._drafter, self._origin)
            self._is_read = True
        return self._drafter


class _Misfit:
    """One that was passed over."""

    share = 0.0

    def __init__(self, why_not: Reason) -> None:
        self.why_not = why_not

    def open(self) -> Adapter:
        """Never called: there is a reason not to."""
        raise AssertionError(self.why_not.words)


def open_draft_model(options: LoadOptions, target: LoadedModel) -> DraftModel | None:
    """The draft model the options name; None when they name none.

    One that cannot be read, or does not fit the target, raises EngineError, or is passed over with
    a reason when `draft_misfit` is "plain".
    """
    if options.draft_model is None:
        return None
    try:
        return _checked(options.draft_model, target)
    except EngineError as error:
        if options.draft_misfit == "refuse":
            raise
        return _Misfit(Reason("draft-model-misfit", str(error)))


def _checked(place: str | Path, target: LoadedModel) -> DraftModel:
    files = locate_model(place, Path())
    drafter = read_drafter(files)
    return _whole_model(files, place, target) if drafter is None else _Drafter(drafter, target)


def _whole_model(files: ModelFiles, place: str | Path, target: LoadedModel) -> DraftModel:
    headers = read_headers(files, None)
    tokenizer, _ = read_text_parts(headers)
    difference = first_difference(target.tokenizer, tokenizer)
    if difference is not None:
        raise BadOption(
            f"draft_model={str(place)!r} cannot draft for this model, because its tokens are "
            f"others: {difference}. Use a small model of the same family."
        )
    small = sum(info.nbytes for info in headers.parts.trunk.values())
    return _WholeModel(files, small / max(1, target.description.nbytes))
