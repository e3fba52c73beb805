"""All-reduce with MPI, under mpirun: triples BYTES ROUNDS CALLS; rank 0 prints "bytes seconds"."""
import sys, time
import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
numbers = list(map(int, sys.argv[1:]))
for size, rounds, calls in zip(numbers[::3], numbers[1::3], numbers[2::3]):
    vector = numpy.zeros(size // 4, dtype=numpy.float32)
    world.Allreduce(MPI.IN_PLACE, vector)
    best = float("inf")
    for _ in range(rounds):
        world.Barrier()
        start = time.perf_counter()
        for _ in range(calls):
            world.Allreduce(MPI.IN_PLACE, vector)
        best = min(best, (time.perf_counter() - start) / calls)
    if world.rank == 0:
        print(size, best, flush=True)
