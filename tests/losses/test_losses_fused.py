"""Facts about the fused path: the checks of ``fused_checks.py`` on every engine at hand, and when it is not taken."""

import ctypes
import importlib.util
import math
import os
import platform
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
import torch
from fused_checks import KINDS_OF_CANDIDATES, assert_close, checks_on, judge, random_problem

from propml.losses import CandidateBCELoss, CandidateBits, CandidateLoss, ProPMLLoss, bce_loss, power_loss, propml_loss
from propml.losses.kernels import c_library, c_rows, fused
from propml.losses.kernels.rows import flat_rows, rows_of
from propml.losses.problem import ASL, PROPML, Problem

has_compiler = pytest.mark.skipif(c_library.library() is None, reason="there is no C compiler on this machine")
has_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU on this machine")

GPU_ONLY = ("graph capture", "memory", "compiled with arguments of all kinds")


@has_compiler
@pytest.mark.parametrize("check", [name for name in checks_on("cpu") if name not in GPU_ONLY])
def test_on_the_cpu(check):
    checks_on("cpu")[check]("cpu")


@has_compiler
@pytest.mark.parametrize("check", ["numbers per example, propml", "layouts", "second derivative"])
def test_the_gradient_may_also_be_computed_later(check, monkeypatch):
    monkeypatch.setattr(c_rows, "gradient_at_once", lambda *_: False)  # as on a GPU without a reduction
    checks_on("cpu")[check]("cpu")


@has_gpu
@pytest.mark.parametrize("check", checks_on("cuda"))
def test_on_the_gpu(check):
    checks_on("cuda")[check]("cuda")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_kernels_in_tritons_interpreter():
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    script = Path(__file__).with_name("fused_checks.py")
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True)
    if "only 0-dimensional arrays can be converted to Python scalars" in done.stdout + done.stderr:
        pytest.skip("this version of Triton's interpreter does not run with this version of NumPy")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


# --- values worked out by hand -----------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler", [pytest.param(True, marks=has_compiler), False])
def test_values_and_gradients_by_hand(compiler, monkeypatch):
    if not compiler:
        monkeypatch.setattr(c_library, "library", lambda: None)
    # p = 1/2 everywhere: -log(1/2 + 1/2) - 0.1 * 2 log(1/2); the slopes are -p(1 - p)/Σp = -1/4 and λp = 1/20
    logits = torch.zeros(1, 4, requires_grad=True)
    candidates = torch.tensor([[1, 0, 1, 0]])
    value = propml_loss(logits, candidates, lam=0.1)
    value.backward()
    assert value.item() == pytest.approx(0.2 * math.log(2), rel=1e-6)
    assert logits.grad.tolist() == [pytest.approx([-0.25, 0.05, -0.25, 0.05], rel=1e-6)]
    logits.grad = None
    value = bce_loss(logits, candidates)
    value.backward()
    assert value.item() == pytest.approx(4 * math.log(2), rel=1e-6)
    assert logits.grad.tolist() == [pytest.approx([-0.5, 0.5, -0.5, 0.5], rel=1e-6)]


def test_nan_logits_are_not_hidden():
    logits = torch.zeros(3, 40)
    logits[1, 7] = torch.nan
    values = propml_loss(logits, (torch.arange(40) < 3).expand(3, 40))
    assert values.isnan().tolist() == [False, True, False]


@has_compiler
@pytest.mark.parametrize("n_rows", [4096, 5001])
def test_a_long_batch_is_added_up_to_its_last_row(n_rows):
    logits, candidates = torch.zeros(n_rows, 2), torch.tensor([[1, 0]]).expand(n_rows, 2)
    logits[-1] = 50.0
    value = bce_loss(logits.requires_grad_(), candidates, reduction="sum")  # log 2 of each label, 50 of the last one
    assert is_fused(value)
    assert value.item() == pytest.approx(2 * (n_rows - 1) * math.log(2) + 50, rel=1e-6)


@has_compiler
def test_several_threads_give_the_same_as_one(monkeypatch):
    logits, candidates, _ = random_problem((37, 50), "cpu", torch.bfloat16)
    z = logits.requires_grad_()
    value = propml_loss(z, candidates, lam=0.2, reduction="sum")
    (gradient,) = torch.autograd.grad(value, z)
    monkeypatch.setattr(c_rows, "THREADED_ENTRIES", 100)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    again = propml_loss(z, candidates, lam=0.2, reduction="sum")
    (same,) = torch.autograd.grad(again, z)
    torch.testing.assert_close(again, value, rtol=1e-6, atol=0)
    torch.testing.assert_close(same, gradient, rtol=2**-8, atol=0)


@has_compiler
def test_a_weight_cut_out_of_a_table_counts_as_its_copy_does():
    # p = 1/2 everywhere, λ = 1: -w log(1/2) of the one candidate and of each excluded label, 6 log 2 in all
    table = torch.full((3, 7), 1e30)
    table[:, 0] = torch.tensor([1.0, 2.0, 3.0])
    value = propml_loss(torch.zeros(1, 3), torch.tensor([[True, False, False]]), label_weight=table[:, 0])
    assert value.item() == pytest.approx(6 * math.log(2), rel=1e-6)


@pytest.fixture
def compiled_as_on_a_gpu(monkeypatch):
    """torch.compile takes the operator, as it does on a GPU, which then computes on the CPU."""
    monkeypatch.setattr(fused, "HAS_TRITON", True)
    monkeypatch.setattr(fused, "INTERPRETED", True)
    torch._dynamo.reset()


@pytest.mark.usefixtures("compiled_as_on_a_gpu")
def test_traced_code_leaves_the_layout_to_the_operator():
    steps = []  # of the graph, where Inductor of PyTorch 2.11 cannot view bool as bytes

    def record(graph, inputs):
        steps.extend((str(node.target), node.args) for node in graph.graph.nodes if node.op.startswith("call"))
        return graph

    logits, candidates, marks = random_problem((6, 5), "cpu", candidates="bool")
    mask, weight = torch.rand(5, 6).t() < 0.7, torch.rand(5, 2)[:, 1]
    options = {"mask": mask, "label_weight": weight, "lam": 0.3}
    value = torch.compile(propml_loss, fullgraph=True, backend=record)(logits, candidates, **options)
    assert_close(value, judge("propml", logits, marks, **options)[0], torch.float32, "compiled")
    assert any("row_losses" in name for name, _ in steps)
    assert not [name for name, given in steps if name == "contiguous" or torch.uint8 in given]


def compare_compiled(compiled, logits, candidates, marks, **options):
    z = logits.detach().requires_grad_()
    value = compiled(z, candidates, **options)
    value.sum().backward()
    expected, slopes = judge("propml", logits, marks, **options)
    assert_close(value, expected, torch.float32, "compiled")
    assert_close(z.grad, slopes, logits.dtype, "compiled gradient")


def arguments(n, n_labels):
    """Options whose memory lies otherwise than the kernel reads it."""
    mask, weight = torch.rand(n_labels, n).t() < 0.7, torch.rand(n_labels, 2)[:, 1]
    return {
        "mask": mask,
        "label_weight": weight,
        "lam": torch.rand(n, 3)[:, 0],
        "example_weight": torch.rand(n, 2)[:, 0],
    }


@has_compiler
@pytest.mark.usefixtures("compiled_as_on_a_gpu")
def test_the_operator_in_machine_code_takes_arguments_as_they_come():
    logits, candidates, marks = random_problem((12, 9), "cpu", candidates="bool")
    compare_compiled(torch.compile(propml_loss, fullgraph=True), logits, candidates, marks, **arguments(12, 9))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["operator", "formula"])
@pytest.mark.parametrize("kind", [*KINDS_OF_CANDIDATES, "int64"])
def test_machine_code_takes_candidates_of_all_kinds(way, kind, request):
    torch._dynamo.reset()
    if way == "operator":
        request.getfixturevalue("compiled_as_on_a_gpu")
    logits, candidates, marks = random_problem((12, 9), "cpu", candidates="unknown" if kind == "int64" else kind)
    candidates = candidates.long() if kind == "int64" else candidates
    compiled = torch.compile(propml_loss, fullgraph=True)
    for options in ({}, arguments(12, 9)):
        compare_compiled(compiled, logits, candidates, marks, **options)


# --- when it is not taken ----------------------------------------------------------------------------------------


def is_fused(loss):
    return "GradientAtOnce" in type(loss.grad_fn).__name__


def problem(dtype=torch.float32):
    logits, candidates, _ = random_problem((6, 5), "cpu", dtype)
    return logits.requires_grad_(), candidates


@has_compiler
def test_what_falls_back_to_the_plain_formula():
    logits, candidates = problem()
    assert is_fused(propml_loss(logits, candidates))
    assert is_fused(bce_loss(logits, candidates, lam=torch.rand(6)))
    lam, weight = torch.rand(6, requires_grad=True), torch.rand(6, requires_grad=True)
    assert not is_fused(propml_loss(logits, candidates, lam=lam))  # λ itself is to be learned
    assert not is_fused(propml_loss(logits, candidates, example_weight=weight))
    assert not is_fused(propml_loss(logits, candidates, label_weight=torch.rand(5, requires_grad=True)))
    assert propml_loss(logits, candidates, lam=torch.rand(6).double()).dtype == torch.float64
    assert propml_loss(logits, candidates, lam=torch.rand(3, 1)).shape == (3, 6)  # more values than examples
    for dtype in (torch.float64, torch.float16):
        z, s = problem(dtype)
        assert not is_fused(propml_loss(z, s))
    assert propml_loss(torch.zeros(0, 5, requires_grad=True), torch.zeros(0, 5)).shape == (0,)


@has_compiler
def test_a_subclass_of_tensor_is_left_to_itself():
    class Named(torch.Tensor):
        pass

    logits, candidates = problem()
    loss = propml_loss(logits.as_subclass(Named), candidates)
    assert isinstance(loss, Named)


def test_errors_are_those_of_the_plain_formula():
    logits, candidates = problem()
    with pytest.raises(ValueError, match=r"candidates have shape \(6, 4\), logits \(6, 5\)"):
        propml_loss(logits, candidates[:, :4])
    with pytest.raises(ValueError, match=r"mask is torch\.float32"):
        propml_loss(logits, candidates, mask=torch.ones(6, 5))
    with pytest.raises(IndexError):
        propml_loss(logits, candidates, label_dim=2)


@has_compiler
def test_modules_reduce_in_the_kernel():
    logits, candidates = problem()
    for module in (ProPMLLoss(0.3), CandidateBCELoss(), CandidateLoss(power_loss, order=0.3)):
        assert is_fused(module(logits, candidates))
    assert repr(ProPMLLoss(0.3)) == "ProPMLLoss(lam=0.3)"


# --- the compiled library ----------------------------------------------------------------------------------------


@pytest.fixture
def fresh_library(monkeypatch, tmp_path):
    """The library is looked for anew, in an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    c_library.library.cache_clear()
    yield tmp_path
    c_library.library.cache_clear()


@has_compiler
def test_the_library_is_compiled_once_which_one_line_tells(fresh_library, monkeypatch, caplog):
    assert isinstance(c_library.library(), ctypes.CDLL)
    folder = fresh_library / "propml" / "compiled"
    (made,) = folder.iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, made)] == [0o700, 0o700]
    (told,) = caplog.messages
    assert re.fullmatch(
        rf"propml compiles its losses with .*cc, once, and keeps them in {folder} \(PROPML_COMPILER=none: .*\)", told
    )
    c_library.library.cache_clear()
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("compiled again"))
    assert c_library.library() is not None
    assert len(caplog.messages) == 1


@has_compiler
def test_who_waits_for_the_first_loss_reads_one_line_on_stderr(tmp_path):
    program = "import torch, propml; print(propml.propml_loss(torch.zeros(1, 2), torch.tensor([[1, 1]])).item())"
    for compiler, lines in (("none", 0), ("cc", 1), ("cc", 0)):
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PROPML_COMPILER": compiler}
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert float(done.stdout) == pytest.approx(0, abs=1e-6)  # -log(1/2 + 1/2)
        assert len(done.stderr.splitlines()) == lines, done.stderr
        assert list(tmp_path.rglob("*.so")) if compiler == "cc" else not list(tmp_path.iterdir())


@has_compiler
@pytest.mark.skipif(os.name != "posix", reason="this system has no owners and modes")
@pytest.mark.parametrize("what", ["the file", "the folder", "a folder above", "a link", "the owner", "the owner above"])
def test_a_library_that_others_may_have_written_is_not_loaded(fresh_library, monkeypatch, what):
    cache = fresh_library / "propml"
    planted = plant(cache / "compiled")
    before = planted.stat().st_ino
    if what == "the file":
        planted.chmod(0o722)
    elif what == "the folder":
        planted.parent.chmod(0o720)
    elif what == "a folder above":
        cache.chmod(0o702)
    elif what == "a link":
        cache.rename(fresh_library / "elsewhere")
        cache.symlink_to(fresh_library / "elsewhere")
        (cache / "compiled").chmod(0o777)
    else:
        theirs = {"the owner": planted, "the owner above": cache}[what]
        mine = os.getuid()
        others = {theirs.stat().st_ino}
        for name in ("stat", "lstat"):
            look = getattr(Path, name)
            monkeypatch.setattr(Path, name, lambda path, look=look, **k: owned(look(path, **k), others, mine))
    loaded = []
    monkeypatch.setattr(
        ctypes, "CDLL", lambda path, load=ctypes.CDLL: loaded.append(os.stat(path).st_ino) or load(path)
    )
    assert c_library.library() is not None
    assert before not in loaded


def plant(folder):
    """A file in the place of the library, as private as it should be."""
    folder.mkdir(mode=0o700, parents=True)
    planted = folder / c_library._name(shutil.which("cc"))
    planted.write_bytes(b"no library")
    planted.chmod(0o700)
    return planted


def owned(found, others, mine):
    """What a look at a path tells where some belong to somebody else."""
    return types.SimpleNamespace(
        st_mode=found.st_mode, st_ino=found.st_ino, st_uid=mine + 1 if found.st_ino in others else found.st_uid
    )


@has_compiler
def test_a_damaged_library_is_made_anew(fresh_library):
    planted = plant(fresh_library / "propml" / "compiled")
    assert c_library.library() is not None
    assert planted.stat().st_size > 1000


@has_compiler
def test_where_nothing_can_be_kept_the_library_is_this_process_s_alone(fresh_library, caplog):
    (fresh_library / "propml").write_text("a file where the folder should be")
    assert c_library.library() is not None
    assert "for this process alone: " in caplog.messages[0]


@has_compiler
@pytest.mark.parametrize("build", range(len(c_library.BUILDS)))
def test_every_build_gives_the_same_on_any_number_of_threads(fresh_library, monkeypatch, build):
    logits, candidates = torch.randn(100, 37), torch.rand(100, 37) < 0.2
    candidates[:, 0] = True
    expected = propml_loss(logits.double(), candidates, lam=0.3)
    monkeypatch.setattr(c_library, "BUILDS", c_library.BUILDS[build:])
    for threads in (1, 2, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        for name in ("THREADED_ENTRIES", "POOL_ENTRIES"):
            monkeypatch.setattr(c_rows, name, 100)
        torch.testing.assert_close(propml_loss(logits, candidates, lam=0.3), expected.float(), rtol=1e-6, atol=1e-6)
    assert c_library.library() is not None


@has_compiler
def test_pytorchs_own_threads_are_used_where_it_has_them():
    if "USE_OPENMP=ON" not in torch.__config__.show() or platform.system() != "Linux":
        pytest.skip("this PyTorch has no OpenMP that a library finds")
    # In a process of its own: other packages bring OpenMP too.
    program = """
from pathlib import Path
from propml.losses.kernels import c_library
assert c_library.library().has_threads
print(len({line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libgomp" in line}))
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "1\n"


@has_compiler
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_does_not_wait_for_threads_that_are_gone(monkeypatch):
    logits, candidates = torch.randn(300, 200), torch.rand(300, 200) < 0.2
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    before = propml_loss(logits, candidates)  # starts the threads
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.equal(propml_loss(logits, candidates), before) else 1)
    for _ in range(200):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.05)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child never came back")
    assert status == 0


@pytest.mark.parametrize("compiler", ["none", "false"])
def test_without_a_working_compiler_there_is_no_library(fresh_library, monkeypatch, compiler, caplog):
    monkeypatch.setenv("PROPML_COMPILER", compiler)  # the second is a program, one that always fails
    assert c_library.library() is None
    assert ["cannot be compiled" in told for told in caplog.messages[1:]] == ([True] if compiler == "false" else [])
    logits, candidates = problem()
    for loss in (propml_loss, bce_loss, power_loss):
        assert not is_fused(loss(logits, candidates))


def test_none_is_no_compiler_even_where_a_program_has_that_name(fresh_library, monkeypatch):
    program = fresh_library / "none"
    program.symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(fresh_library), prepend=os.pathsep)
    monkeypatch.setenv("PROPML_COMPILER", "none")
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("a compiler was run"))
    assert c_library.library() is None


def test_the_kind_of_processor_is_told_without_proc(monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda *a, **k: (_ for _ in ()).throw(OSError()))
    assert c_library._processor()


@pytest.mark.parametrize(("kernel", "dtype"), [(PROPML, torch.float16), (ASL, torch.float32)])
def test_the_operator_tells_what_it_has_no_kernel_for(kernel, dtype):
    logits, candidates, _ = random_problem((6, 5), "cpu", dtype)
    rows = flat_rows(Problem(kernel, None, candidates, 1.0, -1, None, None, None), logits)
    with pytest.raises(NotImplementedError, match=r"no kernel on the CPU for loss \d of torch.float\d\d logits"):
        torch.ops.propml.row_losses(*rows)


# --- rows --------------------------------------------------------------------------------------------------------


def test_rows_are_views_where_they_can_be():
    logits, candidates = problem()
    rows = rows_of(Problem(PROPML, None, candidates, torch.tensor(0.5), -1, None, None, None), logits.detach())
    assert rows.logits.data_ptr() == logits.data_ptr()
    assert rows.marks.data_ptr() == candidates.data_ptr()
    assert rows.lam_rows.stride() == (0,)
    maps = torch.randn(2, 5, 3, 3)
    bits = CandidateBits.from_matrix(torch.randint(0, 2, (2, 3, 3, 5)))
    rows = rows_of(Problem(PROPML, None, bits, 1.0, 1, None, None, None), maps)
    assert rows.logits.shape == (18, 5)
    assert rows.marks.data_ptr() == bits.bits.data_ptr()
