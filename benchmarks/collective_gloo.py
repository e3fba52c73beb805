"""One process of an all-reduce with Gloo through PyTorch: RANK PEERS FILE and triples BYTES ROUNDS CALLS; rank 0 prints "bytes seconds"."""
import sys, time
import torch
import torch.distributed as dist

torch.set_num_threads(1)
rank, peers, meet = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=peers)
numbers = list(map(int, sys.argv[4:]))
for size, rounds, calls in zip(numbers[::3], numbers[1::3], numbers[2::3]):
    vector = torch.zeros(size // 4)
    dist.all_reduce(vector)
    best = float("inf")
    for _ in range(rounds):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(vector)
        best = min(best, (time.perf_counter() - start) / calls)
    if rank == 0:
        print(size, best, flush=True)
dist.destroy_process_group()
