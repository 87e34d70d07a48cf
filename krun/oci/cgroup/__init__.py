"""Control groups. `group` is the package's interface; `controllers` has the table of controllers; `v1`, `v2` and `systemd`
make groups; `files` and `tree` are the functions below them."""
