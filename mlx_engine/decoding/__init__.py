"""The decoding loop: draft, verify, commit, report."""
