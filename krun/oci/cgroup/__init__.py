"""Control groups. `group` is the face; `controllers` the table of controllers; `v1`, `v2` and `systemd` the ways to make a
group; `files` and `tree` what they stand on."""
