"""What the model in use can be asked for, with the reason for everything it cannot."""

from app.window.session_panel.panel_values import ModelAbilities, SourceAbility
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import MAX_DEPTH, LoadOptions

NO_HEADS = "This model has no MTP heads."
NO_DRAFT_MODEL = "Choose a small one of the same family below."


def abilities(model: ModelDescription, options: LoadOptions | None = None) -> ModelAbilities:
    """options: how the model was loaded, None where that is not known.

    Prompt lookup needs nothing but a model that can take tokens back.
    """
    plain_only = next((r.words for r in model.declined if r.code == "plain-only"), "")
    heads = plain_only or _why_no_heads(model)
    has_small = options is not None and options.draft_model is not None
    small = plain_only or ("" if has_small else NO_DRAFT_MODEL)
    sources = (
        SourceAbility("mtp", _deepest(heads), heads),
        SourceAbility("prompt-lookup", _deepest(plain_only), plain_only),
        SourceAbility("model", _deepest(small), small),
        SourceAbility("prompt-lookup+mtp", _deepest(heads), heads),
        SourceAbility("prompt-lookup+model", _deepest(small), small),
        SourceAbility("none", 0),
    )
    numerics = next((r.words for r in model.declined if r.code == "rows-differ"), "")
    return ModelAbilities(
        sources, model.numerics, numerics, model.sampling, model.can_switch_thinking
    )


def _why_no_heads(model: ModelDescription) -> str:
    if model.mtp is not None:
        return model.mtp.words
    return "" if model.mtp_heads else NO_HEADS


def _deepest(why_not: str) -> int:
    return 0 if why_not else MAX_DEPTH
