"""Older migrations that wait in the same files: names that Bridge and Megatron-Core gave up before the flag moved."""
