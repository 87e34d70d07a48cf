"""The OCI side: configuration, plan, launch, and one file per verb."""
