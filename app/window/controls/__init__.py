"""Small controls shared by the rooms of the window: values in, signals out."""
