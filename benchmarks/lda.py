"""Compares hemiola with tomotopy; see lda.sh. benchmarks/results/*/topic-models.md describes the method."""
import argparse, json, os, pathlib, resource, sys, tempfile, time
import numpy, tomotopy, zstandard
import results
from mf_run import HEMIOLA, run

# Iterations after which tomotopy's likelihood is what is to be reached.
ITERATIONS = 100
# Passes after which that is given up.
MOST = 400
SETS = ("synthetic", "NIPS", "NYT", "20 Newsgroups")


def text(path):
    return zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read().decode("latin1")


def synthetic(documents=20_000, words=20_000, topics=100, length=200, seed=1):
    """Generates documents from known topics, as lists of words."""
    random = numpy.random.default_rng(seed)
    sums = numpy.cumsum(random.dirichlet(numpy.full(words, 0.05), size=topics), 1)
    shares = random.dirichlet(numpy.full(topics, 0.1), size=documents)
    for share in shares:
        drawn = numpy.repeat(numpy.arange(topics), random.multinomial(length, share))
        points = random.random(length)
        found = numpy.empty(length, numpy.int64)
        for topic in numpy.unique(drawn):
            own = drawn == topic
            found[own] = numpy.minimum(numpy.searchsorted(sums[topic], points[own] * sums[topic, -1]), words - 1)
        yield found


def ldac(path):
    for line in text(path).splitlines():
        pairs = numpy.array([pair.split(":") for pair in line.split()[1:]], dtype=numpy.int64).reshape(-1, 2)
        yield numpy.repeat(pairs[:, 0], pairs[:, 1])


def docword(path):
    entries = numpy.array(text(path).split("\n", 3)[3].split(), dtype=numpy.int64).reshape(-1, 3)
    entries = entries[numpy.argsort(entries[:, 0], kind="stable")]
    for document in numpy.split(entries, numpy.flatnonzero(numpy.diff(entries[:, 0])) + 1):
        yield numpy.repeat(document[:, 1] - 1, document[:, 2])


def trimmed(documents, most_frequent, least):
    """Removes the most frequent words, and words that occur less than `least` times."""
    documents = list(documents)
    counts = numpy.bincount(numpy.concatenate(documents))
    kept = counts >= least
    kept[numpy.argsort(-counts)[:most_frequent]] = False
    return [document[kept[document]] for document in documents]


def load(name, data):
    documents = {
        "synthetic": lambda: synthetic(),
        "NIPS": lambda: docword(data / "uci-nips/docword.nips.txt.zst"),
        "NYT": lambda: ldac(data / "nyt-small/nyt.ldac.zst"),
        "20 Newsgroups": lambda: trimmed(ldac(data / "20newsgroups/train.ldac.zst"), 200, 3),
    }[name]()
    documents = [document for document in documents if len(document)]
    # Words that never occur would count for one of both.
    _, numbers = numpy.unique(numpy.concatenate(documents), return_inverse=True)
    return numpy.split(numbers, numpy.cumsum([len(document) for document in documents])[:-1])


def write(documents, path):
    with path.open("w") as out:
        for document in documents:
            words, counts = numpy.unique(document, return_counts=True)
            out.write(f"{len(words)} " + " ".join(f"{word}:{count}" for word, count in zip(words, counts)) + "\n")


def theirs(documents, topics, workers, seed):
    """Trains with tomotopy. Returns seconds, CPU seconds and log-likelihood."""
    model = tomotopy.LDAModel(k=topics, seed=seed)
    for document in documents:
        model.add_doc(list(map(str, document)))
    model.train(0, workers=workers)
    start, processor = time.perf_counter(), time.process_time()
    model.train(ITERATIONS, workers=workers)
    return time.perf_counter() - start, time.process_time() - processor, model.ll_per_word


def ours(path, topics, workers, target, seed, folder):
    """Trains with hemiola. Returns training seconds, CPU seconds of the process, epochs and log-likelihood."""
    report = folder / "report.json"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run([HEMIOLA, "train", "lda", "--data", path, "--topics", str(topics), "--workers", str(workers), f"--target={target}",
         "--epochs", str(MOST), "--seed", str(seed), "--report", report, "--quiet"])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    progress = json.loads(report.read_text())["progress"]
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return progress[-1]["seconds"], processor, len(progress), progress[-1]["train"]["likelihood"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--topics", default="100,1000")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/results")
    arguments = parser.parse_args()
    data = pathlib.Path(os.environ.get("HEMIOLA_DATA") or sys.exit("set HEMIOLA_DATA to the folder with uci-nips, nyt-small and 20newsgroups"))
    load_before = os.getloadavg()[0]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in arguments.sets.split(","):
            documents = load(name, data)
            tokens = sum(map(len, documents))
            path = folder / "documents.ldac"
            write(documents, path)
            for topics in map(int, arguments.topics.split(",")):
                for workers in map(int, arguments.workers.split(",")):
                    found = []
                    for seed in range(1, arguments.rounds + 1):
                        seconds, processor, likelihood = theirs(documents, topics, workers, seed)
                        found.append((seconds, processor, likelihood, *ours(path, topics, workers, likelihood, seed, folder)))
                    seconds, processor, likelihood, our_seconds, our_processor, epochs, reached = zip(*found)
                    all_reached = all(mine >= target for mine, target in zip(reached, likelihood))
                    ratio = f"{min(our_seconds) / min(seconds):.2f}" if all_reached else "not reached"
                    rows.append(f"| {name} | {tokens / 1e6:.1f} M | {topics} | {workers} | {numpy.mean(likelihood):.3f} | {max(epochs)} | {min(our_seconds):.2f} | "
                                f"{min(seconds):.2f} | {ratio} | {min(our_processor) / min(processor):.2f} |")
                    print(rows[-1], flush=True)
    lines = ["| documents | tokens | topics | workers | tomotopy's likelihood | our epochs | hemiola, s | tomotopy, s | ratio of seconds | of CPU time |",
             "|---|---|---|---|---|---|---|---|---|---|", *rows]
    rounds = "one round" if arguments.rounds == 1 else f"best of {arguments.rounds} rounds"
    table = "\n".join(lines) + f"\n\ntomotopy {tomotopy.__version__}; {rounds}; load average before: {load_before:.1f}."
    if arguments.write:
        results.put("topic-models", "benchmarks/lda.sh", "end of lda", table)


main()
