"""Names with characters that end a line for Python, and for no file of /proc."""


def test_names_that_end_a_line_for_python(runtime, bundle, tmp_path):
    """Of a mount point's name the kernel escapes the line feed only."""
    bundle.mount("/a\u2028b\vc", "tmpfs", type="tmpfs")
    done = runtime.run(bundle.args("sh", "-c", "grep -c '^[0-9].* /a.*b.*c .*tmpfs' /proc/self/mountinfo"))
    assert done.ok().out == "1\n"
    # A mount of the host that somebody else has made; in a mount namespace of the test.
    point = tmp_path / "d\ve"
    point.mkdir()
    wrapper = runtime.work / "krun-beside-the-mount"
    wrapper.write_text(
        '#!/bin/sh\nexec unshare -m --propagation private sh -c \'mount -t tmpfs none "$1" && shift && exec "$@"\' - '
        f"'{point}' {runtime.path} \"$@\"\n"
    )
    wrapper.chmod(0o755)
    runtime.path, before = wrapper, runtime.path
    runtime.run(bundle.args("true")).ok()
    runtime.path = before
