"""Kernels of other programs, compiled as they are, on streams with events as a port would have them.

FOREBAY_PORTED names a folder with clones of ggml, rocHPL, Cholla and HOOMD-blue, as git names them. docs/porting.md is
their page.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from examples.ported import check, download, event, kernels, launch, upload
from forebay import hip
from tests.helpers.processes import python

CLONES = Path(os.environ.get("FOREBAY_PORTED", "/nowhere"))

pytestmark = [
    pytest.mark.long,
    pytest.mark.executes,
    pytest.mark.needs("the default device", "a compiler of HIP C++"),
]


def clone_of(name):
    if not (CLONES / name).exists():
        pytest.skip(f"FOREBAY_PORTED is not a folder with a clone of {name}")
    return CLONES / name


@pytest.mark.parametrize(("name", "clone", "options"), [
    ("shock_tube", "cholla", ()), ("shock_tube", "cholla", ("--cells", 20)),
    ("linpack", "rocHPL", ()), ("linpack", "rocHPL", ("--size", 70, "--width", 32)),
    ("linpack", "rocHPL", ("--size", 3, "--width", 8)),
])  # fmt: skip
def test_an_example_is_right_has_no_race_and_draws(tmp_path, name, clone, options):
    words = ("-m", f"examples.{name}", clone_of(clone), *options, "--output", tmp_path / "picture.png")
    done = python(*words, FOREBAY_STATS=1, FOREBAY_CHECK="races,error", timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nOK: " in done.stdout
    assert "inefficiencies" not in done.stderr, done.stderr
    assert (tmp_path / "picture.png").stat().st_size > 10_000


# ggml: one token through an attention layer, as a decoder has it. Each kernel is compared with NumPy by itself: it gets
# what the kernels before it have made.

WIDTH, HEADS, HEAD, TOKENS, WORDS = 256, 4, 64, 64, 200
KERNELS = {
    "norm": ["rms_norm_f32<256, false>"],
    "quantize": ["quantize_q8_1"],
    "mmvq": ["mul_mat_vec_q<GGML_TYPE_Q4_0, 1, false>"],
    "rope": ["rope_norm<true, false, float, float>", "rope_norm<true, false, float, half>"],
    "template-instances/fattn-tile-instance-dkq64-dv64": ["flash_attn_tile<64, 64, 2, 1, false>"],
    "softmax": ["soft_max_f32<true, 0, 0, float>"],
    "argsort": ["k_argsort_f32_i32<GGML_SORT_ORDER_DESC>"],
}
ONE = np.array((1, 0, 1), "u4,u4,u4")[()]  # the divisor 1, as `init_fastdiv_values` packs it
NO_MASK = (0,) * 6
NONE = np.zeros((), "u4,u4,u4")[()]
Q4 = np.dtype([("d", "f2"), ("q", "u1", 16)])
Q8 = np.dtype([("d", "f2"), ("s", "f2"), ("q", "i1", 32)])


@pytest.fixture(scope="module")
def ggml():
    root = clone_of("ggml")
    options = ["-std=c++17", f"-I{root / 'include'}", f"-I{root / 'src'}", f"-I{root / 'src/ggml-cuda'}"]
    found = {}
    for file, names in KERNELS.items():
        found |= kernels(root / "src/ggml-cuda" / f"{file}.cu", names, options)
    return {name.split("<")[0] + ("_half" if "half>" in name else ""): each for name, each in found.items()}


def weights(rng, rows):
    """A matrix of 4-bit numbers, and its values."""
    blocks = np.zeros((rows, WIDTH // 32), Q4)
    blocks["d"], blocks["q"] = rng.normal(0, 0.02, blocks.shape), rng.integers(0, 256, (*blocks.shape, 16))
    return blocks, np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], 2).astype("f8") - 8


class Decoder:
    """ggml's launches for one token, each as the host code of its file has it."""

    def __init__(self, functions):
        self.run, rng = functions, np.random.default_rng(62)
        self.x = rng.normal(0, 1, WIDTH).astype("f4")
        self.cache = rng.normal(0, 1, (2, TOKENS, HEADS, HEAD)).astype("f2")
        self.weights = [weights(rng, rows) for rows in (WIDTH, WIDTH, WORDS)]
        self.main, self.left, self.right = self.streams = [check(hip.hipStreamCreate()) for _ in range(3)]
        self.normed, *self.turned = (event() for _ in range(3))
        self.matrices = [upload(blocks) for blocks, _ in self.weights]
        self.keys, self.values = map(upload, self.cache)
        self.position = upload(np.array([TOKENS - 1], "i4"))
        self.input = upload(self.x)
        self.memory = {}

    def room(self, name, shape, dtype="f4"):
        """Memory for an output."""
        host = np.zeros(shape, dtype)
        self.memory[name] = upload(host), host
        return self.memory[name][0]

    def get(self, name):
        memory, host = self.memory[name]
        download(memory, host)
        return host

    def rms_norm(self, x, out, stream):
        rest = (None, 0, 0, 0, *[NONE] * 4) * 2
        sizes = (WIDTH, WIDTH, WIDTH, WIDTH, np.float32(1e-5))
        launch(self.run["rms_norm_f32"], 1, 256, stream, x, out, *sizes, *rest, shared=128)

    def quantize(self, x, out, stream):
        sizes = (WIDTH, WIDTH, WIDTH, WIDTH, 2 * WIDTH, 1, ONE)  # padded to 512 columns
        launch(self.run["quantize_q8_1"], 2, 256, stream, x, out, *sizes)

    def product(self, matrix, y, rows, out, stream):
        fusion = np.zeros((), "u8,u8,u8,u8,u8,u8")[()]
        sizes = (WIDTH, ONE, WIDTH // 32, WIDTH // 16, rows, ONE, 0, 0, 0, ONE, 0, 0, 0, 0)
        launch(self.run["mul_mat_vec_q"], rows, (32, 4), stream, matrix, y, None, fusion, out, *sizes)

    def rope(self, kind, x, out, stream):
        strides = (HEAD, WIDTH, WIDTH) * 2
        limits = np.zeros((), "f4,f4")[()]
        turn = (1.0, 0.0, 1.0, limits, 10000 ** (-2 / HEAD), None, None, 0, False)
        sizes = (HEAD, HEADS, 1, *strides, HEAD, 0)
        launch(self.run[kind], (HEADS, 1), (1, 256), stream, x, out, *sizes, self.position, *turn)

    def attention(self, q, out, stream):
        scale, row = HEAD**-0.5, 4 * HEAD
        numbers = (scale, 0.0, 1.0, 1.0, HEADS, 0.0)
        queries = (HEAD, ONE, HEADS, 1, 4 * WIDTH, row, 4 * WIDTH)
        cache = (HEAD, TOKENS, HEADS, 1, *(2 * WIDTH, 2 * HEAD, 2 * WIDTH * TOKENS) * 2)
        pointers = (q, self.keys, self.values, None, None, None, out, None)
        arguments = (*pointers, *numbers, *queries, *cache, *NO_MASK)
        launch(self.run["flash_attn_tile"], (1, 1, HEADS), (32, 4), stream, *arguments)

    def soft_max(self, x, out, stream):
        kind = "i8,u4,u4,i8,i8,i8,i8,i8,i8,i8,i8,i8,i8,i8,i8,f4,f4,f4,f4"
        sizes = np.array((1, 1, 0, WORDS, 1, 1, WORDS, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 1, 1), kind)[()]
        launch(self.run["soft_max_f32"], 1, 256, stream, x, None, None, out, sizes, shared=4 * (WORDS + 24 + 32))

    def decode(self):
        main, room = self.main, self.room
        self.rms_norm(self.input, room("normed", WIDTH), main)
        self.quantize(self.memory["normed"][0], room("small", 2 * WIDTH // 32, Q8), main)
        check(hip.hipEventRecord(self.normed, main))
        cached = int(self.keys) + 2 * WIDTH * (TOKENS - 1)
        kinds = (("q", "rope_norm", room("turned", WIDTH)), ("k", "rope_norm_half", cached))
        for side, (name, kind, to) in enumerate(kinds):
            stream = self.streams[1 + side]
            check(hip.hipStreamWaitEvent(stream, self.normed, 0))
            out = room(name, WIDTH)
            self.product(self.matrices[side], self.memory["small"][0], WIDTH, out, stream)
            self.rope(kind, out, to, stream)
            check(hip.hipEventRecord(self.turned[side], stream))
            check(hip.hipStreamWaitEvent(main, self.turned[side], 0))
        self.attention(self.memory["turned"][0], room("attended", WIDTH), main)
        self.quantize(self.memory["attended"][0], room("again", 2 * WIDTH // 32, Q8), main)
        self.product(self.matrices[2], self.memory["again"][0], WORDS, room("logits", WORDS), main)
        self.soft_max(self.memory["logits"][0], room("chances", WORDS), main)
        order = (self.memory["chances"][0], room("order", WORDS, "i4"), WORDS, 256)
        launch(self.run["k_argsort_f32_i32"], 1, 256, main, *order, shared=1024)


def test_a_token_goes_through_a_layer_of_ggml(ggml):
    decoder = Decoder(ggml)
    decoder.decode()
    check(hip.hipDeviceSynchronize())
    got = {name: decoder.get(name).copy() for name in decoder.memory}
    x, off = decoder.x.astype("f8"), {}

    def compare(name, found, expected, most):
        off[name] = float(np.abs(found - expected).max() / np.abs(expected).max())
        assert off[name] <= most, (name, found, expected)

    compare("rms_norm_f32", got["normed"], x / np.sqrt((x**2).mean() + 1e-5), 1e-6)
    for name, of in (("small", got["normed"]), ("again", got["attended"])):
        scale = np.abs(of.reshape(-1, 32)).max(1) / np.float32(127)
        found = got[name][: WIDTH // 32]
        compare("quantize_q8_1", found["d"].astype("f8"), scale, 1e-3)
        assert np.abs(found["q"] - of.reshape(-1, 32) / scale[:, None]).max() < 0.51
        assert not got[name][WIDTH // 32 :]["q"].any()
    products = ("q", "small"), ("k", "small"), ("logits", "again")
    for (name, of), (blocks, numbers) in zip(products, decoder.weights, strict=True):
        y = got[of][: WIDTH // 32]
        sums = ((numbers + 8) * y["q"].astype("f8")).sum(2) * y["d"] - 8 * y["s"].astype("f8")
        compare("mul_mat_vec_q", got[name], (sums * blocks["d"]).sum(1), 1e-5)
    angle = (TOKENS - 1) * 10000.0 ** (-np.arange(0, HEAD, 2) / HEAD)
    turned = {}
    for name in "qk":
        pairs = got[name].astype("f8").reshape(HEADS, -1, 2) @ np.array([1, 1j])
        turned[name] = (pairs * np.exp(1j * angle)).view("f8").reshape(HEADS, HEAD)
    compare("rope_norm", got["turned"].reshape(HEADS, HEAD), turned["q"], 1e-5)
    keys, values = decoder.cache.astype("f8")
    row = np.zeros(WIDTH, "f2")
    download(int(decoder.keys) + 2 * WIDTH * (TOKENS - 1), row)
    compare("rope_norm to half", row.reshape(HEADS, HEAD), turned["k"], 1e-3)
    keys[-1] = row.reshape(HEADS, HEAD)
    scores = np.exp(np.einsum("hd,thd->ht", got["turned"].reshape(HEADS, HEAD), keys) / np.sqrt(HEAD))
    attended = np.einsum("ht,thd->hd", scores / scores.sum(1, keepdims=True), values)
    compare("flash_attn_tile", got["attended"].reshape(HEADS, HEAD), attended, 5e-3)
    chances = np.exp(got["logits"].astype("f8"))
    compare("soft_max_f32", got["chances"], chances / chances.sum(), 1e-5)
    assert np.array_equal(got["chances"][got["order"]], np.sort(got["chances"])[::-1])
    assert sorted(got["order"]) == list(range(WORDS))


# HOOMD-blue: the particles of a Lennard-Jones fluid in cells, and the forces between them, each on a stream of its own.

PAIR = "hoomd::md::kernel::gpu_compute_pair_forces_shared_kernel<hoomd::md::EvaluatorPairLJ, 1u, 1u, 4, true>"
CELLS = "hoomd::gpu_compute_cell_list_kernel"
BOX = np.dtype({"names": ["numbers", "periodic"], "formats": [("f8", 15), ("u1", 3)], "itemsize": 128})


def test_cells_and_pair_forces_of_hoomd(tmp_path):
    root, pair = clone_of("hoomd-blue"), tmp_path / "pair.cu"
    pair.write_text('#include "hoomd/md/PotentialPairGPU.cuh"\n#include "hoomd/md/EvaluatorPairLJ.h"\n')
    sizes = ["-DHOOMD_LONGREAL_SIZE=64", "-DHOOMD_SHORTREAL_SIZE=64"]
    options = ["-std=c++17", f"-I{root}", f"-I{root / 'hoomd'}", "-DENABLE_HIP", *sizes]
    run = kernels(pair, [PAIR], options) | kernels(root / "hoomd/CellListGPU.cu", [CELLS], options)
    count, length, cut, side, most = 1000, 12.0, 2.5, 5, 32
    rng, at = np.random.default_rng(3), np.zeros((count, 4))
    grid = np.stack(np.meshgrid(*[np.arange(10)] * 3), -1).reshape(-1, 3)
    at[:, :3] = (grid + 0.5) * length / 10 - length / 2 + rng.uniform(-0.1, 0.1, (count, 3))
    box = np.zeros((), BOX)
    box["numbers"], box["periodic"] = np.repeat((-length / 2, length / 2, length, 1 / length, 0), 3), 1
    apart = at[:, None, :3] - at[None, :, :3]
    apart -= length * np.round(apart / length)
    squares = (apart**2).sum(2) + 1e9 * np.eye(count)
    near = squares < (cut + 0.4) ** 2
    number, order = near.sum(1).astype("u4"), np.nonzero(near)[1].astype("u4")
    first = (np.cumsum(number) - number).astype("u8")

    pairs, cells = (check(hip.hipStreamCreate()) for _ in range(2))
    there, positions = event(), check(hip.hipMalloc(at.nbytes))
    check(hip.hipMemcpyAsync(positions, at, at.nbytes, hip.hipMemcpyKind.hipMemcpyHostToDevice, pairs))
    check(hip.hipEventRecord(there, pairs))
    check(hip.hipStreamWaitEvent(cells, there, 0))
    force, virial = np.zeros((count, 4)), np.zeros((6, count))
    outputs = [upload(each) for each in (force, virial)]
    lists = [upload(each) for each in (number, order, first, np.array([1.0, 4.0]), np.array([cut**2]))]
    rest = (count, count, positions, None, box[()], *lists, None, 1, 0, 0)
    launch(run[PAIR], -(-count // 32), 128, pairs, *outputs, *rest, shared=32)
    filled, content = np.zeros(side**3, "u4"), np.zeros((side**3, most, 4))
    lists = [upload(filled), upload(content), None, None, None, upload(np.zeros(3, "u4"))]
    shapes = [np.array((side,) * 3, "u4,u4,u4")[()], np.array((most, side**3), "u4,u4")[()]]
    rest = (count, 0, most, False, False, box[()], *shapes, np.zeros((), "f8,f8,f8")[()], count, 0)
    launch(run[CELLS], -(-count // 128), 128, cells, *lists, positions, *[None] * 4, *rest)
    for memory, host, stream in (*zip(outputs, (force, virial), [pairs] * 2, strict=True),
                                 *zip(lists[:2], (filled, content), [cells] * 2, strict=True)):  # fmt: skip
        download(memory, host, stream)
    check(hip.hipDeviceSynchronize())

    sixth = np.where(squares < cut**2, squares**-3.0, 0)
    slope = (48 * sixth**2 - 24 * sixth) / squares
    energy = np.where(sixth > 0, 4 * sixth * (sixth - 1) - 4 * cut**-6.0 * (cut**-6.0 - 1), 0)
    expected = np.column_stack([(apart * slope[..., None]).sum(1), energy.sum(1) / 2])
    assert np.abs(force - expected).max() < 1e-13 * np.abs(expected).max()
    parts = [(apart[..., i] * apart[..., j] * slope).sum(1) / 2 for i in range(3) for j in range(i, 3)]
    assert np.abs(virial - parts).max() < 1e-13 * np.abs(parts).max()
    where = ((at[:, :3] / length + 0.5) * side).astype(int) @ (1, side, side**2)
    for cell in range(side**3):
        assert sorted(map(tuple, content[cell, : filled[cell], :3])) == sorted(map(tuple, at[where == cell, :3]))
