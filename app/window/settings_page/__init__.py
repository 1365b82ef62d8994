"""The page of settings that belong to no single chat."""
