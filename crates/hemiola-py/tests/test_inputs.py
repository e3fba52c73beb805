"""Data from elsewhere: Arrow tables, files, URLs; reports and pictures of what was fitted."""

import http.server
import threading

import hemiola
import numpy as np
import pytest
from hemiola import _hemiola
from hemiola._data import columns_of, rows_of
from hemiola._inputs import matrix_of
from scipy import sparse

pyarrow = pytest.importorskip("pyarrow")

ROWS = 50


@pytest.fixture(name="numbers")
def make_numbers():
    generator = np.random.default_rng(1)
    return {"a": generator.normal(size=ROWS), "b": generator.integers(0, 9, ROWS), "c": generator.random(ROWS) < 0.5}


def as_array(numbers):
    return np.column_stack([numbers[name].astype(np.float64) for name in "abc"])


class Foreign:
    """Table of a package that nobody knows: it offers a stream of batches, and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_stream_of_batches_becomes_a_matrix(numbers, order):
    batches = pyarrow.table(numbers).to_batches(max_chunksize=7)
    matrix, names = matrix_of(Foreign(pyarrow.Table.from_batches(batches)), order)
    assert names == ["a", "b", "c"] and matrix.dtype == np.float64
    assert matrix.flags["F_CONTIGUOUS" if order == "F" else "C_CONTIGUOUS"]
    assert np.array_equal(matrix, as_array(numbers))


def test_single_precision_stays_and_missing_values_are_nan():
    table = pyarrow.table({"x": pyarrow.array([1.5, None], pyarrow.float32()), "y": pyarrow.array([0.0, 2.0], pyarrow.float32())})
    matrix, _ = matrix_of(table)
    assert matrix.dtype == np.float32 and np.isnan(matrix[1, 0]) and matrix[1, 1] == 2.0
    assert matrix_of(pyarrow.table({"x": pyarrow.array([], pyarrow.float64())}))[0].shape == (0, 1)
    with pytest.raises(ValueError, match="NaN"):
        hemiola.Ridge().fit(table, [0.0, 1.0])


def test_a_column_of_words_is_named():
    table = pyarrow.table({"x": [1.0, 2.0], "city": ["Bonn", "Ulm"]})
    with pytest.raises(TypeError, match="column `city` has the type Utf8"):
        hemiola.Ridge().fit(table, [0.0, 1.0])


def test_a_capsule_is_used_once():
    capsule = pyarrow.table({"x": [1.0]}).__arrow_c_stream__()
    _hemiola.arrow_matrix(capsule, True)
    with pytest.raises(ValueError):
        _hemiola.arrow_matrix(capsule, True)
    with pytest.raises((ValueError, TypeError)):
        _hemiola.arrow_matrix(object(), True)


@pytest.mark.parametrize("estimator", [hemiola.Lasso(alpha=0.01), hemiola.Ridge(), hemiola.LinearSVC(random_state=1)])
def test_estimators_take_arrow_tables_and_keep_their_names(numbers, estimator):
    table, array = pyarrow.table(numbers), as_array(numbers)
    y = (array[:, 0] > 0).astype(int) if isinstance(estimator, hemiola.LinearSVC) else array[:, 0] + array[:, 1]
    expected = estimator.fit(array, y).predict(array)
    fitted = estimator.fit(Foreign(table), pyarrow.array(y))
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(fitted.predict(Foreign(table)), expected)
    with pytest.raises(ValueError, match="same order"):
        fitted.predict(Foreign(table.select(["b", "a", "c"])))
    with pytest.raises(ValueError, match="unseen at fit time: d"):
        fitted.predict(Foreign(table.rename_columns(["a", "b", "d"])))


def test_sparse_matrices_are_not_copied():
    matrix = sparse.random_array((200, 80), density=0.1, rng=np.random.default_rng(1), format="csr")
    for parts, original in ((rows_of(matrix), matrix), (columns_of(matrix.tocsc()), None)):
        if original is not None:
            assert parts.values is original.data and parts.positions is original.indices and parts.starts is original.indptr
    columns = matrix.tocsc()
    assert columns_of(columns).values is columns.data


@pytest.fixture(name="csv")
def make_csv(tmp_path, numbers):
    path = tmp_path / "table.csv"
    lines = [f"{label},{a:.6f},{b}" for label, a, b in zip(numbers["c"], numbers["a"], numbers["b"], strict=True)]
    path.write_text("\n".join(["label,a,b", *lines]) + "\n")
    return path


def test_examples_are_read_from_files(csv, numbers):
    found = hemiola.read_examples(csv, label="label", workers=2)
    assert found.X.shape == (ROWS, 2) and found.feature_names == ["a", "b"] and found.class_names == ["False", "True"]
    assert np.allclose(found.X.toarray()[:, 0], numbers["a"], atol=1e-5) and np.array_equal(found.y, numbers["c"])
    assert hemiola.LogisticRegression().fit(found.X, found.y).score(found.X, found.y) > 0.4
    with pytest.raises(ValueError, match="colour"):
        hemiola.read_examples(csv, label="colour")
    with pytest.raises((ValueError, RuntimeError), match="missing.csv"):
        hemiola.read_examples(csv.parent / "missing.csv")


def test_libsvm_text_is_read(tmp_path):
    path = tmp_path / "examples.svm"
    path.write_text("1 1:0.5 3:2\n-1 2:1\n")
    found = hemiola.read_examples(path)
    assert found.y.tolist() == [1, -1] and found.X.toarray().tolist() == [[0.5, 0, 2], [0, 1, 0]]


class RangeHandler(http.server.BaseHTTPRequestHandler):
    """Serves one file, in parts as object stores do."""

    data = b""

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.data)))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()

    def do_GET(self):
        asked = self.headers.get("Range", "")
        if not asked.startswith("bytes="):
            self.do_HEAD()
            self.wfile.write(self.data)
            return
        first, last = asked.removeprefix("bytes=").split("-")
        first, last = int(first), min(int(last or len(self.data)), len(self.data) - 1)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(self.data)}")
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        self.wfile.write(self.data[first : last + 1])

    def log_message(self, *_):
        pass


def test_examples_are_read_from_urls(csv):
    RangeHandler.data = csv.read_bytes()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), RangeHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            found = hemiola.read_examples(f"http://127.0.0.1:{server.server_port}/table.csv", label="label")
        finally:
            server.shutdown()
            thread.join()
    assert found.X.shape == (ROWS, 2)


def test_ratings_are_read_with_names(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("ann,tea,4\nbob,tea,2\nann,rice,5\n")
    found = hemiola.read_ratings(path)
    users, items = found.users, found.items
    assert found.X[users.index("ann"), items.index("rice")] == 5.0 and found.X.nnz == 3
    events = tmp_path / "events.csv"
    events.write_text("ann,tea\nann,tea\nbob,rice\n")
    found = hemiola.read_ratings(events, events=True)
    assert found.X[found.users.index("ann"), found.items.index("tea")] == 2.0


def test_reports_draw_their_learning_curve(tmp_path):
    X = np.random.default_rng(1).normal(size=(200, 3))
    report = hemiola.KMeans(5, random_state=1).fit(X).report_
    picture = report.plot()
    assert picture._repr_svg_().startswith("<svg") and "objective" in picture.svg and "epoch" in str(picture)
    picture.save(tmp_path / "curve.png")
    picture.save(tmp_path / "curve.svg")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG") and (tmp_path / "curve.svg").read_text() == picture.svg
    with pytest.raises(ValueError, match="no metric 'beauty'; it has .*objective"):
        report.plot("beauty")
