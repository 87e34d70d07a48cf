"""The autoscaler (KPA) and the gradual rollout as pure functions of what was measured and of the time."""
