"""The panel of one chat: its model, system prompt, drafting, sampling and presets."""
