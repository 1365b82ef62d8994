"""Every kernel the engine uses, with inputs to try it on."""
