"""From logits to a token: filters, penalties and position-keyed noise."""
