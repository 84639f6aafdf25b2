"""``python -m fsdp_migrate.traincheck``, the same as ``fsdp-migrate train-check``."""

from fsdp_migrate.traincheck.command import train_check

if __name__ == "__main__":
    train_check()
