"""The window's palette: a theme as Qt's own colour roles."""

from PySide6.QtGui import QColor, QPalette

from app.window.theme import Theme


def palette_of(theme: Theme) -> QPalette:
    """Every role the widgets here use; a disabled one has muted text."""
    palette = QPalette(QColor(theme.side))
    role = QPalette.ColorRole
    colours = {
        role.Window: theme.page,
        role.WindowText: theme.text,
        role.Base: theme.page,
        role.AlternateBase: theme.side,
        role.Text: theme.text,
        role.Button: theme.side,
        role.ButtonText: theme.text,
        role.BrightText: theme.on_accent,
        role.PlaceholderText: theme.muted,
        role.ToolTipBase: theme.bubble,
        role.ToolTipText: theme.text,
        role.Highlight: theme.accent,
        role.HighlightedText: theme.on_accent,
        role.Accent: theme.accent,
        role.Link: theme.accent,
        role.LinkVisited: theme.accent,
        role.Light: theme.page,
        role.Midlight: theme.hover,
        role.Mid: theme.line,
        role.Dark: theme.muted,
    }
    for name, colour in colours.items():
        palette.setColor(name, QColor(colour))
    for name in (role.WindowText, role.Text, role.ButtonText, role.ToolTipText):
        palette.setColor(QPalette.ColorGroup.Disabled, name, QColor(theme.muted))
    return palette
