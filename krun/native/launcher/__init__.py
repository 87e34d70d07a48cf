"""The fast launcher: krun.c, and start.py, its first code. Not to be imported; see krun/native/build_launcher.py."""
