"""One run of LIBMF: train.npy test.npy threads rank iterations l2 learning_rate -> JSON on standard output.

Seconds are those of `fit` with its iterations; the caller subtracts those of a run with one iteration, so that
only epochs remain. Memory is the peak of the process minus that before the ratings were loaded.
"""
import contextlib, json, os, sys, time
import numpy

with contextlib.redirect_stdout(open(os.devnull, "w")):
    from libmf import mf


def memory(field):
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines[field].split()[0]) * 1024


train_file, test_file = sys.argv[1:3]
threads, rank, iterations = map(int, sys.argv[3:6])
l2, step = map(float, sys.argv[6:8])
before = memory("VmRSS")
train = numpy.load(train_file)
model = mf.MF(k=rank, nr_threads=threads, nr_iters=iterations, lambda_p1=0.0, lambda_q1=0.0, lambda_p2=l2, lambda_q2=l2,
              eta=step, quiet=True)
start = time.perf_counter()
model.fit(train)
seconds = time.perf_counter() - start
peak = memory("VmHWM") - before
test = numpy.load(test_file)
# The package's own `predict` reads pairs as triples, so its errors are far off; the factors are right. Rows that were never
# trained on are not numbers: the mean is the best there is.
user_factors, item_factors = model.p_factors(), model.q_factors()
users, items = test[:, 0].astype(int), test[:, 1].astype(int)
known = (users < len(user_factors)) & (items < len(item_factors))
predicted = numpy.full(len(test), numpy.nan, dtype=numpy.float32)
predicted[known] = numpy.einsum("ij,ij->i", user_factors[users[known]], item_factors[items[known]])
predicted = numpy.where(numpy.isfinite(predicted), predicted, train[:, 2].mean())
error = predicted - test[:, 2]
print(json.dumps({"seconds": seconds, "rmse": float(numpy.sqrt(numpy.mean(error**2))), "peak_bytes": peak}))
