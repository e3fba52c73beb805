"""One run of implicit: train.npy test.npy threads rank iterations alpha regularization -> JSON on standard output.

Arrays are pairs of a user and an item, numbered from 0; those of the test are known from training. Seconds are those of `fit`; the
caller subtracts those of a run with one iteration, so that only epochs remain. Metrics are defined as in docs/guides/recommend.md.
"""
import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as implicit itself advises: its threads are its own
import json, sys, time
import numpy, scipy.sparse
from implicit.cpu.als import AlternatingLeastSquares

PLACES = 20


def figures(model, train, test):
    """NDCG@10 and recall@20."""
    users = numpy.unique(test[:, 0])
    place_of = {user: place for place, user in enumerate(users)}
    scores = numpy.asarray(model.user_factors)[users] @ numpy.asarray(model.item_factors).T
    wanted = numpy.zeros(scores.shape, dtype=bool)
    wanted[[place_of[user] for user in test[:, 0]], test[:, 1]] = True
    known = train[users].nonzero()
    scores[known] = -numpy.inf
    first = numpy.argsort(-scores, axis=1, kind="stable")[:, :PLACES]
    hits = numpy.take_along_axis(wanted, first, axis=1)
    counts = wanted.sum(axis=1)
    gains = 1 / numpy.log2(numpy.arange(PLACES) + 2)
    ideal = numpy.concatenate([[0], numpy.cumsum(gains)])
    ndcg = (hits[:, :10] @ gains[:10]) / ideal[numpy.minimum(counts, 10)]
    return {"ndcg@10": ndcg.mean(), "recall@20": (hits.sum(axis=1) / numpy.minimum(counts, PLACES)).mean()}


train, test = numpy.load(sys.argv[1]), numpy.load(sys.argv[2])
threads, rank, iterations = map(int, sys.argv[3:6])
alpha, regularization = map(float, sys.argv[6:8])
shape = tuple(numpy.concatenate([train, test]).max(axis=0) + 1)
events = scipy.sparse.csr_matrix((numpy.ones(len(train), numpy.float32), (train[:, 0], train[:, 1])), shape=shape)
model = AlternatingLeastSquares(factors=rank, iterations=iterations, alpha=alpha, regularization=regularization,
                                num_threads=threads, random_state=1)
start = time.perf_counter()
model.fit(events, show_progress=False)
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, **figures(model, events, test)}))
