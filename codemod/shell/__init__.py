"""Override words on command lines and in the lists that scripts put together."""
