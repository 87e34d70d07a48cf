"""The fast launcher: krun.c, and start.py, its first Python code. Never imported; krun/native/build_launcher.py uses the files."""
