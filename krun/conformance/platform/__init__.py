"""The rows of Knative's runtime contract that bind a platform, checked over its API and its ingress."""
