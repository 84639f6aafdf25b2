"""Configuration files: YAML, JSON and TOML, edited in place by what their parsers say about positions."""
