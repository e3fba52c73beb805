"""Skipped tests are never silent: they follow the rules of the Rust tests.

A skip is appended to the file that ``HEMIOLA_SKIPS`` names. Where ``CI`` is set, it fails the run unless
``HEMIOLA_ALLOW_SKIPS`` lists its requirement: the name in brackets at the end of the reason, as in
``there is no Java [spark]``, or else ``python-package``.
"""

import os
import re

import pytest

# Without it, a check of scikit-learn skips itself. SciPy reads it when it is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

NAME = "python-package"
#: Skipped tests: requirement, and line of the report.
skipped: list[tuple[str, str]] = []


def pytest_runtest_logreport(report):
    """Records a skipped test with its reason. A check that is declared to fail has run, and is none."""
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = " ".join(reason.removeprefix("Skipped: ").split())
        found = re.fullmatch(r"(.*) \[([a-z-]+)\]", reason)
        reason, name = found.groups() if found else (reason, NAME)
        skipped.append((name, f"skipped {report.nodeid}: {reason} ({name})"))


def pytest_sessionfinish(session):
    """Writes the skips, and fails the run if they are not allowed."""
    if not skipped:
        return
    if file := os.environ.get("HEMIOLA_SKIPS"):
        with open(file, "a") as lines:
            lines.writelines(f"{line}\n" for _, line in skipped)
    allowed = os.environ.get("HEMIOLA_ALLOW_SKIPS", "").split(",")
    if os.environ.get("CI") and (refused := [(name, line) for name, line in skipped if name not in allowed]):
        names = ",".join(sorted({name for name, _ in refused}))
        print("\n" + "\n".join(line for _, line in refused) + f"\nHEMIOLA_ALLOW_SKIPS={names} would allow them")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
