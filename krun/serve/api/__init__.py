"""The Kubernetes-shaped API: discovery, objects, patches, watches, tables, logs. It knows requests, no sockets."""
