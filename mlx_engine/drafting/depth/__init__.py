"""How deep to draft: what has been accepted, what rounds cost here, and the choice."""
