"""The VM side seen from Python: the boot block, the probe of payload and KVM. Imports nothing of krun.oci."""
