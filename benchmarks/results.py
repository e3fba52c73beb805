"""Puts a table into today's folder of benchmarks/results, with the commit that was measured.

A folder holds one page per topic. A page of today starts as a copy of the newest earlier one; only the table between
its two markers is replaced, so the text has to be read again.
"""
import datetime, pathlib, shutil, subprocess

RESULTS = pathlib.Path("benchmarks/results")


def page(topic):
    """Path of today's page of a topic."""
    goal = RESULTS / datetime.date.today().isoformat() / f"{topic}.md"
    if not goal.exists():
        goal.parent.mkdir(exist_ok=True)
        shutil.copy(max(RESULTS.glob(f"*/{topic}.md")), goal)
    return goal


def put(topic, begin, end, table):
    """Replaces the lines between the comments `begin` and `end` of today's page by the table."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True).stdout.strip()
    begin, end = f"<!-- {begin} -->\n", f"<!-- {end} -->\n"
    document = page(topic)
    head, rest = document.read_text().split(begin, 1)
    document.write_text(f"{head}{begin}\n{table}\n\nCommit `{commit}`.\n\n{end}{rest.split(end, 1)[1]}")
    print(f"written to {document}")
