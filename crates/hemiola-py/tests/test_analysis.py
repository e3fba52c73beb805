"""Dependence analysis of Python loops: verdicts, reasons, and a comparison with execution."""

import itertools
import linecache
import math
import random

import hemiola
import numpy as np
import pytest

RATE = 0.1


def factorize(ratings, w, h):
    for (u, i), rating in ratings.items():
        user, item = w[u], h[i]
        error = rating - np.dot(user, item)
        w[u] += RATE * error * item
        h[i] += RATE * error * user


def rows(a, b, n):
    for i in range(n):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j] * math.sqrt(j)
        b[i] = total


def stencil(a, steps, n):
    for t in range(steps):
        for x in range(1, n - 1):
            a[x] = (a[x - 1] + a[x + 1]) / 2


def recurrence(a, n):
    for i in range(1, n):
        a[i] += a[i - 1]


def histogram(keys, counts):
    for key in keys:
        counts[key] += 1


def mean(values):
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


def test_a_factorization_runs_in_two_dimensions():
    found = hemiola.analyze(factorize)
    assert found.kind == "2D" and found.is_parallel and found.indices == ("u", "i")
    assert found.legal[0].space == "u" and found.legal[0].time == "i"
    assert "rotation" in found.legal[0].text
    reason = next(item for item in found.rejected if item.candidate.startswith("1D: parts along `u`"))
    line = factorize.__code__.co_firstlineno
    assert reason.lines[0] in range(line + 2, line + 6) and "is not 0 along `u`" in reason.reason
    assert "h[i]" in str(found) and f"line {line + 5}: " in str(found)
    assert found._repr_html_().startswith("<table>") and "2D" in found._repr_html_()


def test_independent_rows_run_in_one_dimension():
    found = hemiola.analyze(rows)
    assert found.kind == "1D" and found.legal[0].space == "i" and found.dependences == ()
    assert not found.obstacles and not found.notes


def test_a_stencil_needs_a_transformation_if_ordered():
    assert hemiola.analyze(stencil, ordered=True).kind == "transformed"


def test_a_recurrence_is_serial_and_the_lines_are_named():
    found = hemiola.analyze(recurrence)
    line = recurrence.__code__.co_firstlineno + 2
    assert found.kind == "serial" and not found.is_parallel
    assert found.rejected[0].lines == (line, line) or line in found.rejected[0].lines
    assert f"(line {line}" in str(found) and "a[i] += a[i - 1]" in str(found)


def test_data_dependent_updates_are_partitioned_by_key_or_buffered():
    # Entries with the same key run in one part.
    assert hemiola.analyze(histogram).kind == "1D"

    def by_bucket(values, bucket, counts, n):
        for i in range(n):
            counts[bucket[i]] += values[i]

    assert hemiola.analyze(by_bucket).kind == "serial"
    assert hemiola.analyze(by_bucket, buffered=["counts"]).kind == "1D"


def test_a_sum_is_an_accumulator_and_a_carried_value_is_serial():
    found = hemiola.analyze(mean)
    assert found.kind == "1D" and "`total` is an accumulator" in found.notes[0]

    def smoothed(values, out, n):
        level = 0.0
        for i in range(n):
            level = 0.9 * level + 0.1 * values[i]
            out[i] = level

    assert hemiola.analyze(smoothed).kind == "serial"

    def last(values, n):
        for i in range(n):
            found = values[i]
        return found

    found = hemiola.analyze(last)
    assert found.kind == "serial" and "used after the loop" in found.notes[0]

    def maybe(values, out, n):
        for i in range(n):
            if values[i] > 0:
                sign = 1
            out[i] = sign

    assert hemiola.analyze(maybe).kind == "serial"


def test_appending_to_a_list_depends_on_the_order():
    def appended(values, n):
        found = []
        for i in range(n):
            found += [values[i]]
        return found

    def joined(values, n, text):
        for i in range(n):
            text += str(values[i])
        return text

    for function in (appended, joined):
        assert hemiola.analyze(function).kind == "serial"


def test_indices_of_entries_are_taken_as_single_ones():
    def encoded(slices, views, code):
        for part, view in zip(slices, views):
            code[part] = view

    found = hemiola.analyze(encoded)
    assert found.kind == "1D" and "`part`: taken as single indices, not as slices" in found.notes[0]


def test_views_are_followed():
    def scaled(a, n):
        for i in range(n):
            row = a[i]
            row *= 2
            row[3] = 0

    assert hemiola.analyze(scaled).kind == "1D"

    def first_row(a, n):
        for i in range(n):
            row = a[0]
            row += i

    assert hemiola.analyze(first_row).kind == "serial"

    def transposed(a, n):
        for i in range(n):
            columns = a.T
            columns[i] = 0

    assert hemiola.analyze(transposed).kind == "serial"

    def elements(matrix):
        for row in matrix:
            row += 1

    assert hemiola.analyze(elements).kind == "1D"

    def enumerated(matrix, sums):
        for i, row in enumerate(matrix):
            sums[i] = row.sum()
            row -= sums[i]

    assert hemiola.analyze(enumerated).kind == "1D"


def test_views_made_before_the_loop_are_an_obstacle():
    def shifted(a, n):
        b = a[1:]
        for i in range(n):
            a[i] = b[i]

    found = hemiola.analyze(shifted)
    assert found.kind == "unknown" and "share its memory" in found.obstacles[0].reason


def test_negative_indices_wrap_around():
    def wraps(a, b, n):
        for i in range(n):
            b[i] = a[i - 1]
            a[i] = 0

    found = hemiola.analyze(wraps)
    assert any("start the range of `i` at 1" in note for note in found.notes)
    assert found.kind == "serial"

    def last(a, n):
        for i in range(n):
            a[i] = a[-1]

    assert hemiola.analyze(last).kind == "serial"


def unsupported():
    def breaks(a, n):
        for i in range(n):
            if a[i]:
                break

    def returns(a, n):
        for i in range(n):
            return a[i]

    def raises(a, n):
        for i in range(n):
            raise ValueError(a[i])

    def prints(a, n):
        for i in range(n):
            print(a[i])

    def appends(a, out):
        for x in a:
            out.append(x)

    def calls(a, n):
        for i in range(n):
            factorize(a, a, i)

    def draws(a, n):
        for i in range(n):
            a[i] = np.random.random()

    def adds_at(a, keys, n):
        for i in range(n):
            np.add.at(a, keys[i], 1)

    def output(a, n):
        for i in range(n):
            np.exp(a[i], out=a[0])

    def tries(a, n):
        for i in range(n):
            try:
                a[i] = 1 / a[i]
            except ZeroDivisionError:
                pass

    def context(a, n, lock):
        for i in range(n):
            with lock:
                a[i] = 0

    def deletes(a, n):
        for i in range(n):
            del a[i]

    def backward(a, n):
        for i in range(n, 0, -1):
            a[i] = 0

    def walrus(a, n):
        for i in range(n):
            a[i] = (k := i)

    def generator(a, n):
        for i in range(n):
            yield a[i]

    def globally(a, n):
        for i in range(n):
            global COUNT
            COUNT = i

    def assigned(a, n):
        for i in range(n):
            i += 1
            a[i] = 0

    return [function for function in locals().values() if callable(function)]


@pytest.mark.parametrize("function", unsupported(), ids=lambda function: function.__name__)
def test_what_is_not_understood_is_named_and_never_guessed(function):
    found = hemiola.analyze(function)
    assert found.kind == "unknown" and found.legal == () and not found.is_parallel
    first = function.__code__.co_firstlineno
    assert found.obstacles and all(first < item.line <= first + 5 for item in found.obstacles)
    assert all(item.reason for item in found.obstacles) and f"line {found.obstacles[0].line}" in str(found)


def helper(x):
    return x + 1


def test_functions_may_be_declared_pure():
    def calls(a, n):
        for i in range(n):
            a[i] = helper(a[i])

    assert "pure=['helper']" in hemiola.analyze(calls).obstacles[0].reason
    assert hemiola.analyze(calls, pure=["helper"]).kind == "1D"


def test_wrong_arguments_are_errors():
    with pytest.raises(ValueError, match="no `for` loop"):
        hemiola.analyze(helper)
    with pytest.raises(TypeError, match="Python function"):
        hemiola.analyze(len)
    with pytest.raises(ValueError, match="source"):
        exec("def f(a):\n    for i in range(3): a[i] = 0", namespace := {})
        hemiola.analyze(namespace["f"])

    def two(a, n):
        for i in range(n):
            a[i] = 0
        for i in range(1, n):
            a[i] += a[i - 1]

    with pytest.raises(ValueError, match="2 loops"):
        hemiola.analyze(two)
    assert hemiola.analyze(two, loop=0).kind == "1D" and hemiola.analyze(two, loop=1).kind == "serial"


def test_entries_cannot_be_kept_in_order():
    assert "order of the entries" in hemiola.analyze(factorize, ordered=True).obstacles[0].reason


# Comparison with execution: arrays that record which iteration touches which element.

SIZE = 6


class Recorder:
    """Iterations of a nest of ``prange`` loops, and the elements that each touches."""

    def __init__(self):
        self.iteration = {}
        self.touched = {}

    def prange(self, dimension):
        def loop(start, end):
            for index in range(start, end):
                self.iteration[dimension] = index
                yield index

        return loop

    def touch(self, array, elements, writes):
        now = tuple(self.iteration[dimension] for dimension in sorted(self.iteration))
        for element in elements:
            self.touched.setdefault((array, element), set()).add((now, writes))


class Traced:
    """Array of zeros that records reads and writes of its elements, views of it included."""

    def __init__(self, recorder, name, numbers=None):
        self.recorder, self.name = recorder, name
        self.numbers = np.arange(SIZE * SIZE).reshape(SIZE, SIZE) if numbers is None else numbers

    def __getitem__(self, key):
        part = self.numbers[key]
        if isinstance(part, np.ndarray):
            return Traced(self.recorder, self.name, part)
        self.recorder.touch(self.name, [int(part)], False)
        return 1.0

    def __setitem__(self, key, value):
        if isinstance(value, Traced):
            value.recorder.touch(value.name, value.numbers.ravel().tolist(), False)
            if value.name == self.name and np.array_equal(value.numbers, self.numbers[key]):
                return  # the second half of an update in place, which has been recorded
        self.recorder.touch(self.name, np.ravel(self.numbers[key]).tolist(), True)

    def __iadd__(self, other):
        self.recorder.touch(self.name, self.numbers.ravel().tolist(), True)
        return self

    def __add__(self, other):
        self.recorder.touch(self.name, self.numbers.ravel().tolist(), False)
        return 1.0

    __radd__ = __add__


def random_program(generator):
    """Returns the source of a random loop nest, and the number of its dimensions."""
    dimensions = generator.choice([1, 2, 2])
    names = ["i", "j"][:dimensions]

    def subscript(inner=()):
        kind = generator.random()
        if kind < 0.65:
            return generator.choice(names) + generator.choice(["", "", "", " + 1", " - 1"])
        if kind < 0.75:
            return str(generator.choice([0, 2, -1]))
        if kind < 0.82:
            return "n"
        if kind < 0.9:
            return "data[%s]" % generator.choice(names)
        if inner:
            return generator.choice(inner)
        return generator.choice([":", "1:3", ":2"])

    def element(inner=()):
        return f"{generator.choice('ab')}[{subscript(inner)}, {subscript(inner)}]"

    indent = "    " * (dimensions + 1)
    # An inner loop alone would be a dimension of the nest.
    body = ["first = 0"]
    for number in range(generator.randint(1, 3)):
        kind = generator.randint(0, 5)
        if kind == 0:
            body.append(f"{element()} = {element()} + {element()}")
        elif kind == 1:
            body.append(f"{element()} += 1")
        elif kind == 2:
            body += [f"t{number} = {element()}", f"{element()} = t{number} + 1"]
        elif kind == 3:
            body += [f"row{number} = {generator.choice('ab')}[{subscript()}]", f"row{number}[{subscript()}] = 1"]
        elif kind == 4:
            body += [f"for k{number} in range(2):", f"    {element((f'k{number}',))} = {element((f'k{number}',))} + 1"]
        else:
            body += [f"p{number} = {generator.choice(names)} + 1", f"{generator.choice('ab')}[p{number}, {subscript()}] = 1"]
    source = "def program(a, b, data, n):\n"
    for depth, name in enumerate(names):
        start = generator.choice([0, 1])
        source += "    " * (depth + 1) + f"for {name} in prange({start}, 4):\n"
    return source + "".join(f"{indent}{line}\n" for line in body), dimensions


def covers(vector, distance):
    def contains(element, number):
        return {"+": number > 0, "-": number < 0, "*": True}.get(element, element == str(number))

    return all(contains(element, number) for element, number in zip(vector.removeprefix("(").removesuffix(")").split(", "), distance, strict=True))


def test_every_conflict_of_an_execution_is_in_a_dependence_vector():
    generator = random.Random(7)
    judged, conflicting, parallel = 0, 0, 0
    for number in range(600):
        source, dimensions = random_program(generator)
        file = f"<random program {number}>"
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
        recorder = Recorder()
        loops = iter(range(dimensions))
        # Each header calls `prange` of its own depth: the inner one is entered again and again.
        text = source
        for depth, name in zip(loops, "ij", strict=False):
            text = text.replace(f"for {name} in prange(", f"for {name} in prange_{depth}(")
        space = {f"prange_{depth}": recorder.prange(depth) for depth in range(dimensions)}
        exec(compile(text, file, "exec"), space)
        data = [3, 0, 5, 2, 2, 1]
        try:
            space["program"](Traced(recorder, "a"), Traced(recorder, "b"), data, 2)
        except IndexError:
            continue  # A view of some rows has fewer than the array.
        found = hemiola.analyze(space["program"])
        if found.kind == "unknown":
            continue
        judged += 1
        parallel += found.is_parallel
        for touches in recorder.touched.values():
            for (first, writes), (second, also_writes) in itertools.permutations(touches, 2):
                if first < second and (writes or also_writes):
                    conflicting += 1
                    distance = [after - before for before, after in zip(first, second, strict=True)]
                    assert any(covers(vector, distance) for vector in found.dependences), f"{source}\n{distance}\n{found}"
    assert judged > 500 and conflicting > 1000 and parallel > 30, (judged, conflicting, parallel)
