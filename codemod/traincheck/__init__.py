"""The training check: does a rewritten recipe still train?"""
