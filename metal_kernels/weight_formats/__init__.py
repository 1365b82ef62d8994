"""Weight formats that kernels read directly: MSL that unpacks eight values, plain operations."""
