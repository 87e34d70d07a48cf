"""Images: from a reference to layers that an overlay can use. store.py is the way in."""
