"""krun serve: Knative Serving on one machine.  It drives the OCI side as an engine does; the hot verbs never import it."""
