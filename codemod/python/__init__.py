"""Everything that knows Python syntax: decoding, scopes and events from ``ast``, edits through libcst."""
