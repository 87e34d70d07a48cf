"""krun conformance: the rows of Knative's runtime contract that bind an OCI runtime, checked on any runtime."""
