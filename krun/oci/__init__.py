"""The OCI side: configuration, plan, container, control groups, and one file for each verb."""
