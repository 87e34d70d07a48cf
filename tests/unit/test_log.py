"""The parts of the log that engines read (krun/log.py says which)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from krun.errors import ConfigError, KrunError, SysError
from krun.log import Log, rfc3339

ROOT = Path(__file__).parents[2]
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


def logged(tmp_path, setup, calls="log.error('bad\\nthing'); log.warning('careful'); log.debug('detail')"):
    """Run calls in a process of its own; returns (content of the log file, standard error)."""
    code = f"from krun.log import Log; log = Log(); log.setup({setup}); {calls}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    file = tmp_path / "log"
    return (file.read_text() if file.exists() else ""), done.stderr


def test_text_goes_to_standard_error(tmp_path):
    _, err = logged(tmp_path, "None, None, False")
    lines = err.splitlines()
    assert re.fullmatch(rf'time="{STAMP}" level=error msg="bad thing"', lines[0])
    assert re.fullmatch(rf'time="{STAMP}" level=warning msg="careful"', lines[1])
    assert len(lines) == 2


def test_a_json_file_holds_one_object_and_standard_error_the_bare_message(tmp_path):
    text, err = logged(tmp_path, f"{str(tmp_path / 'log')!r}, 'json', False")
    entry = json.loads(text)  # podman unmarshals the whole file
    assert list(entry) == ["level", "msg", "time"]
    assert (entry["level"], entry["msg"]) == ("error", "bad thing")
    assert re.fullmatch(STAMP, entry["time"])
    assert err == "bad thing\n"


def test_debug_writes_everything(tmp_path):
    text, _ = logged(tmp_path, f"'file:{tmp_path / 'log'}', 'json', True")
    assert [json.loads(line)["level"] for line in text.splitlines()] == ["error", "warning", "debug"]


def test_log_level_of_crun(tmp_path):
    _, err = logged(tmp_path, "None, None, False, 'error'")
    assert "careful" not in err
    _, err = logged(tmp_path, "None, None, False, 'debug'")
    assert "detail" in err


def test_text_is_quoted(tmp_path):
    _, err = logged(tmp_path, "None, 'text', False", """log.error('a "b" \\\\ c')""")
    assert err.endswith('msg="a \\"b\\" \\\\ c"\n')


def test_a_log_that_cannot_be_opened_is_an_error():
    with pytest.raises(SysError, match="open log file /nope/log: no such file or directory"):
        Log().setup("/nope/log", None, False)
    with pytest.raises(KrunError, match="invalid log format"):
        Log().setup(None, "xml", False)


def test_times():
    assert rfc3339(0) == "1970-01-01T00:00:00Z"
    assert rfc3339(1_700_000_000_123_456_789, True) == "2023-11-14T22:13:20.123456789Z"
    assert rfc3339(1_700_000_000_500_000_000, True) == "2023-11-14T22:13:20.5Z"


def test_errors_are_one_line_in_the_words_that_callers_match():
    assert str(SysError("open", "/x", 2)) == "open /x: no such file or directory"
    assert str(SysError("mount", "/x", 1, "need CAP_SYS_ADMIN")) == (
        "mount /x: operation not permitted: need CAP_SYS_ADMIN"
    )
    assert str(SysError.of("stat", OSError(13, "Permission denied", "/y"))) == "stat /y: permission denied"
    assert str(ConfigError("/process/cwd", "must be\nabsolute")) == "/process/cwd: must be absolute"
    assert KrunError("x", 255).exit_code == 255
    assert KrunError("x").exit_code == 1
    assert os.strerror(2) != SysError("a", "b", 2).message


def test_a_message_sends_a_terminal_nothing_but_text():
    """An image chooses the name of its script's interpreter, and where symbolic links lead."""
    error = KrunError("interpreter /\x1b]0;title\x07\x9b31m\x7f\udcff é: no such file")
    assert error.message == "interpreter /\\x1b]0;title\\x07\\x9b31m\\x7f\udcff é: no such file"
