"""Runs programs and reads the report of hemiola, for the comparisons of matrix factorization."""
import json, pathlib, subprocess, sys

HEMIOLA = "target/release/hemiola"
HERE = pathlib.Path(__file__).parent


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nexited with {done.returncode}:\n{done.stderr}")
    return done.stdout


def hemiola(files, rank, *options, valid="test"):
    """Trains hemiola on train.csv of a folder, and returns the report."""
    report = files / "report.json"
    run([HEMIOLA, "train", "mf", "--data", files / "train.csv", "--validation", files / f"{valid}.csv", "--rank", str(rank),
         "--report", report, "--quiet", *options])
    return json.loads(report.read_text())


def epoch_seconds(report):
    """Mean seconds of the epochs after the first, which also plans and moves rows."""
    seconds = [progress["seconds"] for progress in report["progress"]]
    return (seconds[-1] - seconds[0]) / (len(seconds) - 1)
