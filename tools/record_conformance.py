"""record_conformance.py NAME PATH: run the containers of krun conformance on a runtime and keep the facts.

They go to tests/unit/data/conformance/NAME.json.
docs/knative.md (tools/gen_docs.py) and tests/unit/test_conformance.py judge these facts. As root. Addresses of the machine's name
servers and the name of the temporary directory are replaced.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from krun.conformance import drive  # noqa: E402

name, path = sys.argv[1:]
text = json.dumps(drive.run(path), indent=1, ensure_ascii=True)
text = re.sub(r"nameserver [0-9A-Fa-f.:]+", "nameserver 192.0.2.53", text)
text = re.sub(r"krun-conformance-[a-z0-9_]{8}/", "krun-conformance-directory/", text)
text = re.sub(r"krun-conformance-[0-9]+-", "krun-conformance-0-", text)
(ROOT / "tests" / "unit" / "data" / "conformance" / f"{name}.json").write_text(text + "\n")
