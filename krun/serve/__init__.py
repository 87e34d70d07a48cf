"""krun serve: Knative Serving on one machine.  It drives the OCI side as an engine does; the hot verbs never import it."""

"""krun serve: a Knative Serving for one machine. No module below krun/oci or krun/cli imports it, except the verbs that start it."""
