"""Small controls the rooms of the window share: values in, signals out."""
