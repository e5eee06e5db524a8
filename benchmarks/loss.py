"""How close the fused loss is to the speed of memory: forward + backward, ours against the alternatives, in one run.

``python benchmarks/loss.py`` prints for each shape the time on the GPU, how often the memory floor that is (read the
logits and one-byte candidates once, write the gradient once, at the copy bandwidth measured in this run), the time that
passes when nothing else keeps the GPU busy (host work included: it rules small batches), and how much memory came on
top of the inputs. Without a GPU it prints ratios on the CPU, on smaller batches. ``--floor`` prints ours alone, for
all types, kinds of candidates and factors, as multiples of what a copy of the same bytes takes: under a minute.
``--tune`` times kernels with several tiles each, for the tables in ``propml/losses/kernels/triton_rows.py``;
``--quick`` leaves out most types and most of torch.compile; ``--warm`` runs all once without timing, so that the caches
hold what is compiled.
"""

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from propml.losses import ASLLoss, CandidateBCELoss, CandidateBits, ProPMLLoss, propml, propml_loss
from propml.losses.kernels.rows import rows_of
from propml.losses.problem import PROPML, Problem

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
GPU_SHAPES = [(1024, 80), (65536, 1000), (16384, 10_000), (1024, 100_000)]
CPU_SHAPES = [(16, 80), (256, 80), (1024, 80), (4096, 80), (1024, 1000), (8192, 1000), (512, 10_000), (64, 100_000)]
LAM = 0.3
QUEUED = 10
SLEEP_CYCLES = 60_000_000  # some 30 ms
WARM = "--warm" in sys.argv  # run everything once, untimed: what has to be compiled is then in the caches


# --- what is compared: each takes logits and one-byte candidates, and returns one number -------------------------


def log_space(logits: Tensor, candidates: Tensor) -> Tensor:
    """The plain formula of this package: logsumexp over logsigmoid."""
    return propml._formula(logits, problem_with(candidates)).mean()


def problem_with(candidates: Tensor | CandidateBits) -> Problem:
    return Problem(PROPML, propml._formula, candidates, LAM, -1, None, None, None)


def two_branches(logits: Tensor, candidates: Tensor) -> Tensor:
    """As the authors compute it: a plain logarithm where the best candidate lies above -10, else a stable one."""
    inside = candidates > 0
    best = torch.where(inside, logits, -torch.inf).amax(dim=1, keepdim=True)
    near = torch.where(inside, torch.sigmoid(logits), 0.0).sum(dim=1).log()
    pair = torch.stack([best.expand_as(logits), best - logits])
    far = best.squeeze(1) + torch.where(inside, torch.exp(-torch.logsumexp(pair, dim=0)), 0.0).sum(dim=1).log()
    found = torch.where(best.squeeze(1) > -10, near, far)
    return (LAM * torch.where(inside, 0.0, softplus(logits)).sum(dim=1) - found).mean()


def alternatives(logits: Tensor, candidates: Tensor, compiled: bool) -> dict[str, Callable[[], Tensor]]:
    """Name → one forward pass to a scalar."""
    targets, bits = candidates.to(logits.dtype), CandidateBits.from_matrix(candidates)
    ours, bce, asl = ProPMLLoss(LAM), CandidateBCELoss(), ASLLoss()
    passes: dict[str, Callable[[], Tensor]] = {
        "propml": lambda: ours(logits, candidates),
        "propml, packed bits": lambda: ours(logits, bits),
        "propml, values then mean": lambda: propml_loss(logits, candidates, lam=LAM).mean(),
        "propml, loss times 3": lambda: 3 * ours(logits, candidates),
        "our BCE": lambda: bce(logits, candidates),
        "our ASL": lambda: asl(logits, candidates),
        "PyTorch's BCE": lambda: binary_cross_entropy_with_logits(logits, targets),
        "log space, eager": lambda: log_space(logits, candidates),
        "two branches (official)": lambda: two_branches(logits, candidates),
    }
    try:
        from timm.loss import AsymmetricLossMultiLabel

        theirs = AsymmetricLossMultiLabel()
        passes["timm's ASL"] = lambda: theirs(logits, targets)
    except (ImportError, RuntimeError):  # not there, or a torchvision of another build
        print("  (timm cannot be imported here)")
    if compiled:
        torch._dynamo.reset()
        fused = torch.compile(log_space, dynamic=False)
        passes["log space, torch.compile"] = lambda: fused(logits, candidates)
    return passes


# --- measuring ---------------------------------------------------------------------------------------------------


def synchronize() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def milliseconds(call: Callable[[], object], budget: float = 0.04, rounds: int = 5) -> float:
    """The median over rounds of many calls in a row, host work included; on a CPU, others may work too: the least."""
    if WARM:
        call()
        return 1.0
    for _ in range(3):
        call()
    synchronize()
    start = time.perf_counter()
    call()
    synchronize()
    repeats = max(1, min(300, int(budget / (time.perf_counter() - start))))
    if DEVICE.type == "cpu":
        rounds, repeats = rounds * repeats, 1
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        synchronize()
        times.append((time.perf_counter() - start) / repeats)
    return 1e3 * (statistics.median(times) if DEVICE.type == "cuda" else min(times))


def gpu_milliseconds(call: Callable[[], object], rounds: int = 5) -> float:
    """What a call costs the GPU in a full queue, as in training: the host prepares all while the GPU sleeps."""
    if WARM:
        return 1.0
    times: list[float] = []
    cycles = SLEEP_CYCLES
    while len(times) < rounds:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(cycles)
        start.record()
        for _ in range(QUEUED):
            call()
        end.record()
        woke_too_early = start.query()
        torch.cuda.synchronize()
        if woke_too_early:  # the host is busy: part of what was measured is its work
            cycles *= 2
            continue
        times.append(start.elapsed_time(end) / QUEUED)
    return statistics.median(times)


def step(forward: Callable[[], Tensor], logits: Tensor) -> None:
    logits.grad = None
    forward().backward()


def extra_memory(forward: Callable[[], Tensor], logits: Tensor) -> float:
    """MiB at the peak of one step, beside what was there before."""
    logits.grad = None
    synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step(forward, logits)
    synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def copy_bandwidth() -> float:
    """Bytes per second, read and written, of one large copy."""
    source = torch.empty(2**30, dtype=torch.uint8, device=DEVICE).random_()
    target = torch.empty_like(source)
    return 2 * 2**30 / (milliseconds(lambda: target.copy_(source)) / 1e3)


def problem_of(shape: tuple[int, int], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator(DEVICE).manual_seed(0)
    logits = 2 * torch.randn(shape, generator=generator, device=DEVICE) - 2
    candidates = (torch.rand(shape, generator=generator, device=DEVICE) < 0.05).to(torch.uint8)
    candidates[:, 0] = 1
    return logits.to(dtype).requires_grad_(), candidates


def compare(shape: tuple[int, int], dtype: torch.dtype, bandwidth: float | None, compiled: bool) -> None:
    """One table: all alternatives on one shape."""
    logits, candidates = problem_of(shape, dtype)
    floor = None if bandwidth is None else 1e3 * logits.numel() * (2 * logits.element_size() + 1) / bandwidth
    told = "" if floor is None else f", memory floor {1e3 * floor:.1f} µs"
    print(f"\n{shape[0]} × {shape[1]}, {str(dtype).removeprefix('torch.')}{told}")
    passes = alternatives(logits, candidates, compiled)
    times: dict[str, float] = {}
    for name, forward in passes.items():
        try:
            passed = milliseconds(lambda run=forward: step(run, logits))
            times[name] = passed
            more = ""
            if floor is not None:
                times[name] = gpu_milliseconds(lambda run=forward: step(run, logits))
                more = f"{times[name] / floor:8.2f} × floor {1e3 * passed:9.1f} µs passed"
                more += f" {extra_memory(forward, logits):6.0f} MiB"
        except torch.OutOfMemoryError:
            print(f"  {name:26} out of memory")
            continue
        ratio = times[name] / times["propml"]
        print(f"  {name:26} {1e3 * times[name]:9.1f} µs {more} {ratio:8.2f} × ours", flush=True)


# --- the floor ---------------------------------------------------------------------------------------------------

FLOAT32, BFLOAT16, FLOAT16 = torch.float32, torch.bfloat16, torch.float16
ALL_TYPES, TWO_TYPES = (FLOAT32, BFLOAT16, FLOAT16), (FLOAT32, BFLOAT16)
# shape, what is measured, types of logits, the multiple of the floor that it may take
FLOOR_CASES = [
    ((65536, 1000), "bytes", ALL_TYPES, 1.35),
    ((65536, 1000), "bytes, loss times 3", ALL_TYPES, 1.35),
    ((65536, 1000), "bytes, another factor each step", TWO_TYPES, None),
    ((65536, 1000), "bits", ALL_TYPES, 1.35),
    ((65536, 1000), "bits, loss times 3", ALL_TYPES, 1.35),
    ((65536, 1000), "asl", TWO_TYPES, 1.6),
    ((16384, 10_000), "bytes", ALL_TYPES, 1.35),
    ((16384, 10_000), "bits", TWO_TYPES, 1.35),
    ((8192, 16_384), "bytes", TWO_TYPES, 1.35),
    ((1024, 100_000), "bytes", ALL_TYPES, 1.5),
    ((1024, 100_000), "bits", TWO_TYPES, 1.5),
]


def floors() -> None:
    """Forward + backward, in a full queue, over the time of a copy that moves as many bytes.

    The bytes are those of one pass: logits and candidates as they are given read once, the gradient written once. They
    are the same for a multiplied loss.
    """
    print(f"{'shape':>16} {'logits':9} {'candidates':32} {'µs':>8} {'floor':>8} {'multiple':>8}  at most")
    bytes_took: dict[tuple, float] = {}
    for shape, what, dtypes, most in FLOOR_CASES:
        for dtype in dtypes:
            logits, candidates = problem_of(shape, dtype)
            marks: Tensor | CandidateBits = candidates
            n_bytes = 2 * logits.numel() * logits.element_size() + candidates.numel()
            if what.startswith("bits"):
                marks = CandidateBits.from_matrix(candidates)
                n_bytes += marks.bits.numel() - candidates.numel()
            loss = ASLLoss() if what == "asl" else ProPMLLoss(LAM)
            factors = {"bytes, another factor each step": (3.0, 5.0)}.get(what, (3.0,) if "times" in what else (1.0,))
            count = itertools.count()

            def forward(run=loss, z=logits, s=marks, by=factors, i=count) -> Tensor:
                value = run(z, s)
                return value if by == (1.0,) else by[next(i) % len(by)] * value

            for _ in range(3):
                step(forward, logits)
            took = gpu_milliseconds(lambda run=forward, z=logits: step(run, z))
            source = torch.empty(n_bytes // 2, dtype=torch.uint8, device=DEVICE)
            target = torch.empty_like(source)
            floor = gpu_milliseconds(lambda to=target, of=source: to.copy_(of))
            verdict = "" if most is None else f"{most:.2f}{'' if took <= most * floor else '  missed'}"
            if what == "bytes":
                bytes_took[shape, dtype] = took
            if what == "bits" and took > bytes_took[shape, dtype]:
                verdict += "  slower than bytes"
            print(
                f"{shape[0]:>8} × {shape[1]:<6}{str(dtype).removeprefix('torch.'):9} {what:32} {1e3 * took:8.1f} "
                f"{1e3 * floor:8.1f} {took / floor:8.2f}  {verdict}",
                flush=True,
            )


# --- tiles -------------------------------------------------------------------------------------------------------

# shape → tiles (rows, labels at a time, warps) to try; a tile of fewer labels than the row walks along it
FORWARD_TILES = {
    (1024, 80): [(4, 128, 4), (8, 128, 4), (16, 128, 4), (2, 128, 1)],
    (65536, 1000): [(1, 1024, 1), (1, 1024, 2), (1, 1024, 4), (2, 1024, 2), (2, 1024, 4)],
    (16384, 10_000): [(1, 1024, 4), (1, 2048, 4), (1, 2048, 8), (1, 2048, 16), (1, 4096, 8), (1, 4096, 16)],
    (1024, 100_000): [(1, 2048, 4), (1, 2048, 8), (1, 4096, 8), (1, 4096, 16), (1, 8192, 16)],
}
BACKWARD_TILES = {
    (65536, 1000): [(1, 1024, 2), (1, 1024, 4), (2, 1024, 4), (4, 1024, 8)],
    (16384, 10_000): [(1, 1024, 4), (1, 2048, 4), (1, 2048, 8)],
}


def tune(bandwidth: float) -> None:
    """Kernels alone, with several tiles each."""
    from propml.losses.kernels import triton_rows
    from propml.losses.kernels.triton_rows import Tile

    for (shape, tiles), dtype in itertools.product(FORWARD_TILES.items(), TWO_TYPES):
        logits, candidates = problem_of(shape, dtype)
        still = logits.detach()
        rows, bits = (rows_of(problem_with(s), still) for s in (candidates, CandidateBits.from_matrix(candidates)))
        floor = 1e3 * logits.numel() * (2 * logits.element_size() + 1) / bandwidth
        for tile in (Tile(*numbers) for numbers in tiles):
            taken = milliseconds(lambda r=rows, t=tile: triton_rows.losses_and_gradient(r, tile=t))
            packed = milliseconds(lambda r=bits, t=tile: triton_rows.losses_and_gradient(r, tile=t))
            mark = " (in use)" if tile == triton_rows.tile_of(rows) else ""
            print(
                f"forward {shape} {dtype} {tuple(tile)!s:16} {1e3 * taken:9.1f} µs {taken / floor:6.2f} × floor, "
                f"bits {1e3 * packed:9.1f} µs{mark}",
                flush=True,
            )
    for shape, tiles in BACKWARD_TILES.items():
        logits, candidates = problem_of(shape, torch.float32)
        rows = rows_of(problem_with(candidates), logits.detach())
        stats = triton_rows.losses(rows)[1]
        incoming = torch.full((1,), 0.5, device=DEVICE).expand(shape[0])
        for tile in (Tile(*numbers) for numbers in tiles):
            taken = milliseconds(
                lambda r=rows, t=tile, s=stats, i=incoming: triton_rows.gradient(r, s, i, tile=t), 0.05
            )
            print(f"backward {shape} {tuple(tile)!s:16} {1e3 * taken:9.1f} µs", flush=True)


def host_costs() -> None:
    """Where the time of a small batch goes: it is all on the host."""
    from propml.losses.kernels import triton_rows

    logits, candidates = problem_of((1024, 80), torch.float32)
    module, still = ProPMLLoss(LAM), logits.detach()
    problem = problem_with(candidates)
    rows = rows_of(problem, still)
    target, values = candidates.float(), torch.rand(1024, device=DEVICE)
    parts = {
        "PyTorch's BCE, forward": lambda: binary_cross_entropy_with_logits(logits, target),
        "ours, forward": lambda: module(logits, candidates),
        "ours, forward without gradient": lambda: module(still, candidates),
        "problem to rows": lambda: rows_of(problem, still),
        "two allocations and the launch": lambda: triton_rows.losses_and_gradient(rows),
        "two allocations": lambda: (torch.empty(1024, device=DEVICE), torch.empty((1024, 80), device=DEVICE)),
        "sum of the values": lambda: values.sum(),
    }
    for name, call in parts.items():
        print(f"host: {name:32} {1e3 * milliseconds(call):7.1f} µs")
    triton_rows._compiled.clear()
    triton_rows._plans.clear()
    triton_rows.LAUNCHES_COMPILED = False
    slow = milliseconds(lambda: triton_rows.losses_and_gradient(rows))
    print(f"host: {'the same through the JIT lookup':32} {1e3 * slow:7.1f} µs")
    triton_rows.LAUNCHES_COMPILED = True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--floor", action="store_true", help="ours alone as multiples of a copy of the same bytes")
    parser.add_argument("--tune", action="store_true", help="time kernels with several tiles instead")
    parser.add_argument("--quick", action="store_true", help="all types and torch.compile for one shape only")
    parser.add_argument("--warm", action="store_true", help="run all once without timing, to fill the caches")
    arguments = parser.parse_args()
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name() if DEVICE.type == 'cuda' else 'the CPU'}")
    if DEVICE.type == "cpu":
        print(f"{torch.get_num_threads()} threads")
        for shape in CPU_SHAPES:
            compare(shape, torch.float32, None, compiled=False)
        return
    if arguments.floor:
        floors()
        return
    bandwidth = copy_bandwidth()
    print(f"a copy moves {bandwidth / 1e12:.2f} TB/s, read and written")
    if arguments.tune:
        host_costs()
        tune(bandwidth)
        return
    for shape in GPU_SHAPES:
        brief = arguments.quick and shape != (65536, 1000)
        for dtype in (torch.float32,) if brief else (torch.float32, torch.bfloat16, torch.float16):
            compare(shape, dtype, bandwidth, compiled=dtype == torch.float32 and not brief)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
