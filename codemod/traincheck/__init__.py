"""``train-check``: does a rewritten recipe still train?

The way of the data: settings of a recipe → `acceptance` (would the releases take this config) and `plan` (a scaled-down
`Job`) → `launch` (one process per GPU) → `worker` with a backend (`mcore`, `bridge`, and the `rehearsal` of CUDA calls
for a machine without GPUs) → `judge` (numbers to verdicts, with `advice`) → `report`.

Only the worker's side (`worker`, `loop`, `mcore`, `bridge`, `rehearsal`, `drift`) imports torch, in processes of its
own.
"""
