"""The compiled parts: `_krun` (cffi module, host calls) and `krun-monitor` (the freestanding VM monitor)."""
