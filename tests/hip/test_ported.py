"""Kernels of other programs, compiled as they are, on streams with events as a port would have them.

FOREBAY_PORTED names a folder with clones of ggml, rocHPL and Cholla, as git names them. docs/porting.md is their page.
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
    pytest.mark.skipif(not CLONES.exists(), reason="FOREBAY_PORTED is not a folder with clones of the programs"),
]


@pytest.mark.parametrize(("name", "clone", "options"), [
    ("shock_tube", "cholla", ()), ("shock_tube", "cholla", ("--cells", 33)),
    ("linpack", "rocHPL", ()), ("linpack", "rocHPL", ("--size", 70, "--width", 32)),
    ("linpack", "rocHPL", ("--size", 3, "--width", 8)),
])  # fmt: skip
def test_an_example_is_right_has_no_race_and_draws(tmp_path, name, clone, options):
    words = ("-m", f"examples.{name}", CLONES / clone, *options, "--output", tmp_path / "picture.png")
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
    root = CLONES / "ggml"
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
