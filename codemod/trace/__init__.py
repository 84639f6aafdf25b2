"""Effective configs: what a recipe really ends up with."""
