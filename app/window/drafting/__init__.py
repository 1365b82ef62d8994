"""What drafting does, in figures and charts."""
