"""record_conformance.py NAME PATH | NAME URL: run the cases of krun conformance on a runtime or a platform and keep the facts.

They go to tests/unit/data/conformance/NAME.json, those of a platform to tests/unit/data/conformance/platform/NAME.json.
docs/knative.md (tools/gen_docs.py) and the tests of tests/unit judge these facts. A runtime as root; a platform must have the
probe's image (krun conformance --write-image). Addresses of the machine's name servers, the data directory of krun serve, and
names of this run are replaced.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from krun.conformance import drive  # noqa: E402
from krun.conformance.cli import IMAGE  # noqa: E402
from krun.conformance.platform import access, client  # noqa: E402
from krun.conformance.platform import drive as platform  # noqa: E402

name, place = sys.argv[1:]
folder = ROOT / "tests" / "unit" / "data" / "conformance"
facts: dict[str, Any]
if "://" in place:
    folder /= "platform"
    facts = platform.run(client.Client(access.of(place, "")), IMAGE)
else:
    facts = drive.run(str(Path(place).absolute()))
text = json.dumps(facts, indent=1, ensure_ascii=True)
text = re.sub(r"nameserver [0-9A-Fa-f.:]+", "nameserver 192.0.2.53", text)
text = re.sub(r"krun-conformance-[a-z0-9_]{8}/", "krun-conformance-directory/", text)
text = re.sub(r"krun-conformance-[0-9]+-[0-9a-f]{4}\b", "krun-conformance-0-0000", text)
text = re.sub(r"krun-conformance-[0-9]+-", "krun-conformance-0-", text)
text = re.sub(r"/[\w./-]+/data/(instances|images)", r"/data/\1", text)
(folder / f"{name}.json").write_text(text + "\n")
