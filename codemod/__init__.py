"""fsdp-migrate: move ``use_megatron_fsdp`` from ``cfg.dist`` to ``cfg.ddp`` in Megatron-Bridge recipes."""

__version__ = "0.1.0"
