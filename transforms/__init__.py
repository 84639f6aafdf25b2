"""One module per rule, and `plan`, which decides what a rewrite may do."""
