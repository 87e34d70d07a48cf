"""The data path: from the ingress's listener by host, traffic share, queue and slot to an instance and back."""
