"""Skipped tests are never silent: they follow the rules of the Rust tests.

A skip is appended to the file that ``HEMIOLA_SKIPS`` names. Where ``CI`` is set, it fails the run unless
``HEMIOLA_ALLOW_SKIPS`` lists ``python-package``.
"""

import os

import pytest

# Without it, a check of scikit-learn skips itself. SciPy reads it when it is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

NAME = "python-package"
skipped: list[str] = []


def pytest_runtest_logreport(report):
    """Records a skipped test with its reason. A check that is declared to fail has run, and is none."""
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = " ".join(reason.removeprefix("Skipped: ").split())
        skipped.append(f"skipped {report.nodeid}: {reason} ({NAME})")


def pytest_sessionfinish(session):
    """Writes the skips, and fails the run if they are not allowed."""
    if not skipped:
        return
    if file := os.environ.get("HEMIOLA_SKIPS"):
        with open(file, "a") as lines:
            lines.writelines(f"{line}\n" for line in skipped)
    if os.environ.get("CI") and NAME not in os.environ.get("HEMIOLA_ALLOW_SKIPS", "").split(","):
        print("\n" + "\n".join(skipped) + f"\nHEMIOLA_ALLOW_SKIPS={NAME} would allow them")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
