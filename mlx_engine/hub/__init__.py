"""Models of the Hugging Face hub: links to models, download plans, and resumable downloads."""
