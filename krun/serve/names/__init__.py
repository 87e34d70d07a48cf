"""Names of services for the instances: a small DNS server. Whoever asks is hostile."""
