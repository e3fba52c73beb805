"""How the comparisons of matrix factorization run a program and read hemiola's report."""
import json, pathlib, subprocess, sys

HEMIOLA = "target/release/hemiola"
HERE = pathlib.Path(__file__).parent


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def hemiola(files, rank, *options, valid="test"):
    """Trains on a folder's train.csv."""
    report = files / "report.json"
    run([HEMIOLA, "train", "mf", "--data", files / "train.csv", "--valid", files / f"{valid}.csv", "--rank", str(rank),
         "--report", report, "--quiet", *options])
    return json.loads(report.read_text())


def pass_seconds(report):
    """Of the passes after the first, which also plans and moves rows where they are used."""
    seconds = [progress["seconds"] for progress in report["progress"]]
    return (seconds[-1] - seconds[0]) / (len(seconds) - 1)
