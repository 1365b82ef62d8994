"""The local server: the HTTP interfaces of OpenAI, Anthropic and llama.cpp, on one engine."""
