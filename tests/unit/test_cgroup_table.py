"""The table of cgroup controllers against what follows from it: checked fields, flags of update, writers, readers."""

from __future__ import annotations

import pytest

from krun.cli import table
from krun.log import Log
from krun.oci import fields, update
from krun.oci.cgroup import controllers, stats, v1, v2
from krun.oci.cgroup.controllers import CONTROLLERS

SETTINGS = [(row, setting) for row in CONTROLLERS for setting in row.settings]


def pointer(row: controllers.Controller, setting: controllers.Setting) -> str:
    return "/".join(("/linux/resources", row.member, *([setting.key] if setting.key else [])))


def test_every_field_has_a_row_and_every_row_a_field():
    """oci/fields.py says which values config.json may hold, this table what becomes of them: same names."""
    rows = {pointer(row, setting) for row, setting in SETTINGS if setting.key is not None}
    listed = {
        name
        for name, row in fields.FIELDS.items()
        if name.startswith("/linux/resources/")
        and name.split("/")[3] != "devices"
        # Members of an object that has rows of its own: the members count; of a list or map: the whole.
        and "*" not in name
        and not (row.type == "object" and any(other.startswith(name + "/") for other in rows))
    }
    assert {name for name in rows if name != "/linux/resources/network"} == listed


def test_ignored_fields_are_those_that_no_file_takes():
    for row, setting in SETTINGS:
        if setting.key and not (setting.v1 or setting.v2):
            level = fields.FIELDS[pointer(row, setting)].level
            warned = setting.ignore[0] == 1
            assert (level == fields.IGNORED) == warned, pointer(row, setting)


def test_flags_are_those_of_update():
    flags = {name.replace("-", "_") for row in verb_flags("update") for name in row.names[:1]}
    asked = [setting.flag for _, setting in SETTINGS if setting.flag]
    assert len(asked) == len(set(asked))
    assert set(asked) <= flags
    # The rest of update's flags are no cgroup's.
    rest = flags - set(asked)
    assert rest == {"resources", "kernel_memory", "kernel_memory_tcp", "l3_cache_schema", "mem_bw_schema"}


def verb_flags(name):
    return next(row.flags for row in table.RUNTIME if row.name == name)


@pytest.mark.parametrize(("version", "module"), [(1, v1), (2, v2)])
def test_writers_are_all_there_and_all_used(version, module):
    def name(setting):
        return setting.v1 if version == 1 else setting.v2

    assert {s.writer for _, s in SETTINGS if s.writer and name(s)} == set(module.WRITERS)


def test_what_counts_has_a_reader_or_counters():
    words = {row.events for row in CONTROLLERS if row.events}
    assert set(stats.READERS) == {row.events for row in CONTROLLERS if row.events and not row.counters}
    assert words == {"cpu", "cpuset", "memory", "pids", "blkio", "hugetlb"}  # types/events.go of runc


def test_a_new_controller_is_one_row(tmp_path, monkeypatch):
    """misc: no field of config.json yet; with one row it is limited, updated, counted and told to systemd."""
    from krun.oci.cgroup import limits, systemd
    from krun.oci.cgroup.convert import infinity, max_below_zero

    row = controllers.Controller(
        "misc",
        "misc",
        "misc limit",
        (
            controllers.Setting(
                "limit",
                "misc.max",
                "misc.max",
                to_v2=max_below_zero,
                flag="misc_limit",
                unit_v2=("MiscMax", infinity),
            ),
        ),
        "misc",
        (("current", "misc.current"),),
    )
    for module in (controllers, stats, systemd, update):
        monkeypatch.setattr(module, "CONTROLLERS", (*CONTROLLERS, row))
    (tmp_path / "misc.max").write_text("")
    (tmp_path / "misc.current").write_text("3\n")
    v2.limit({"": str(tmp_path)}, {"misc": {"limit": -1}}, Log())
    assert (tmp_path / "misc.max").read_text() == "max"
    v1.limit({"misc": str(tmp_path)}, {"misc": {"limit": 12}}, Log())
    assert (tmp_path / "misc.max").read_text().startswith("12")
    assert stats.collect({"": str(tmp_path)})["misc"] == {"current": 3}
    assert systemd.limits({"misc": {"limit": 5}}, True) == [("MiscMax", ("t", 5))]

    class Flags:
        misc_limit = 9
        kernel_memory = kernel_memory_tcp = None

        def __getattr__(self, name):
            return None

    assert update.from_flags(Flags()) == {"misc": {"limit": 9}}
    assert limits.given({"misc": {"limit": 9}})


def test_refusals_come_before_any_write(tmp_path):
    (tmp_path / "cpu.weight").write_text("kept")
    with pytest.raises(Exception, match="realtime"):
        v2.limit({"": str(tmp_path)}, {"cpu": {"shares": 1024, "realtimePeriod": 1000}}, Log())
    assert (tmp_path / "cpu.weight").read_text() == "kept"
