"""The language server: the engine's findings and fixes, as an editor asks for them. It executes and writes nothing."""
