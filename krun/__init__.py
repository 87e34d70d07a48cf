"""krun: an OCI runtime whose payload runs in a KVM virtual machine. This file imports nothing."""

__version__ = "0.1.0"
SPEC_VERSION = "1.3.0"
SPEC_VERSION_MIN = "1.0.0"
