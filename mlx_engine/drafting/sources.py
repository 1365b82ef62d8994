"""From draft options to a source, or to the reason there is none."""

from mlx_engine.drafting.contract import DraftSource
from mlx_engine.drafting.mtp_draft import MtpDraft
from mlx_engine.drafting.no_draft import NoDraft
from mlx_engine.models.contract import Adapter
from mlx_engine.values.options import DraftOptions
from mlx_engine.values.reason import Reason

OFF = Reason("off", "Drafting is switched off for this chat.")
NO_HEADS = Reason("no-heads", "This model has no MTP heads; it runs without drafting.")
UNREAD = Reason(
    "head-unread",
    "Drafting starts with the next message: the head has not read this conversation yet.",
)


def why_not(options: DraftOptions, adapter: Adapter, heads: Reason | None) -> Reason | None:
    """Why nothing can be drafted with these options; None when it can.

    heads: what loading found wrong with the MTP heads.
    """
    if options.source == "none":
        return OFF
    if options.source != "mtp":
        return Reason(
            "source-unknown", f"This version cannot draft from {options.source!r}: use mtp or none."
        )
    if adapter.mtp_depth == 0:
        return heads or NO_HEADS
    return None


def make_source(options: DraftOptions, adapter: Adapter, can_draft: bool) -> DraftSource:
    """The source for a new conversation."""
    if can_draft:
        return MtpDraft(adapter, options.rule, options.min_probability)
    return NoDraft()
