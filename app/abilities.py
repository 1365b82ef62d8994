"""What the model in use can be asked for, with the reason for everything it cannot."""

from app.window.session_panel.panel_values import ModelAbilities, SourceAbility
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import MAX_DEPTH, LoadOptions

NO_HEADS = "This model has no MTP heads."
NO_DRAFT_MODEL = "Name a small model of the same family below."


def abilities(model: ModelDescription, options: LoadOptions | None = None) -> ModelAbilities:
    """options: how the model was loaded, None where that is not known.

    Prompt lookup needs nothing; beside a model that cannot draft it still does.
    """
    heads = "" if model.mtp_heads and model.mtp is None else NO_HEADS
    if model.mtp is not None:
        heads = model.mtp.words
    small = "" if options is not None and options.draft_model is not None else NO_DRAFT_MODEL
    sources = (
        SourceAbility("mtp", _deepest(heads), heads),
        SourceAbility("prompt-lookup", MAX_DEPTH),
        SourceAbility("model", _deepest(small), small),
        SourceAbility("prompt-lookup+mtp", _deepest(heads), heads),
        SourceAbility("prompt-lookup+model", _deepest(small), small),
        SourceAbility("none", 0),
    )
    numerics = next((r.words for r in model.declined if r.code == "rows-differ"), "")
    return ModelAbilities(
        sources, model.numerics, numerics, model.sampling, model.can_switch_thinking
    )


def _deepest(why_not: str) -> int:
    return 0 if why_not else MAX_DEPTH
