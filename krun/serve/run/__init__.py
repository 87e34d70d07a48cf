"""Instances of revisions: images, bundles, the worker process, probes."""
