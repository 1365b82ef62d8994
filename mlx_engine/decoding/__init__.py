"""The loop: propose, verify, accept, keep, report."""
