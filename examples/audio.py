"""Take the high tones out of a piece of music, block by block, on three queues:
``python -m examples.audio``.

While one block is copied to the device, another is filtered and a third is
copied back: each queue uploads, filters and downloads blocks of its own, in
order, and waits for no other. SciPy checks the result. The music is a file of
the package pygame-ce, unless another WAV file is given.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import click
import numpy as np
from scipy import signal
from scipy.io import wavfile

import forebay as fb

SOURCE = """
// One tone of a block for each work-item; `given` begins with the tones before
// the block that the filter still hears.
kernel void filter(global const float *given, global const float *weights,
                   global float *filtered, int taps, int count)
{
    const int i = get_global_id(0);
    if (i >= count)
        return;
    float sum = 0;
    for (int k = 0; k < taps; k++)
        sum += weights[k] * given[i + taps - 1 - k];
    filtered[i] = sum;
}
"""
QUEUES = 3
GROUP = 64
TOLERANCE = 1e-5  # of a volume of 1


def music() -> Path:
    """A file that a package brings along."""
    package = importlib.util.find_spec("pygame")
    if package is None or package.origin is None:
        raise click.UsageError(
            "no music: pip install '.[audio]', or name a WAV file"
        )
    return Path(package.origin).parent / "examples" / "data" / "house_lo.wav"


def read(path: Path) -> tuple[int, np.ndarray]:
    """The samples a second, and one channel of samples from -1 to 1."""
    try:
        rate, samples = wavfile.read(path)
    except (OSError, ValueError) as error:
        raise click.BadParameter(
            f"{path}: {error}", param_hint="FILE"
        ) from None
    kind, mono = (
        samples.dtype,
        samples.reshape(len(samples), -1)[:, 0].astype("f4"),
    )
    if kind.kind == "u":  # 8 bits without a sign
        return rate, (mono - 128) / 128
    return rate, mono / np.iinfo(kind).max if kind.kind == "i" else mono


def filtered_on(
    device: fb.Device, samples: np.ndarray, weights: np.ndarray, block: int
) -> np.ndarray:
    """Filter the samples in blocks. Blocks until the last is back."""
    kernel = device.program(SOURCE)["filter"]
    before = len(weights) - 1
    # pinned: copies need not wait
    source = fb.host_empty(before + len(samples), "f4", device)
    source[:before], source[before:] = 0, samples
    result = fb.host_empty(len(samples), "f4", device)
    queues = [device.queue(blocking=False) for _ in range(QUEUES)]
    filters = device.array(weights)
    given = [device.empty(before + block) for _ in queues]
    filtered = [device.empty(block) for _ in queues]
    for number, start in enumerate(range(0, len(samples), block)):
        which = number % QUEUES
        queue, end = queues[which], min(start + block, len(samples))
        count = end - start
        queue.copy(given[which][: before + count], source[start : end + before])
        queue.launch(
            kernel,
            -(-count // GROUP),
            GROUP,
            given[which],
            filters,
            filtered[which],
            len(weights),
            count,
        )
        queue.copy(result[start:end], filtered[which][:count])
    device.finish()
    return result


def draw(
    samples: np.ndarray,
    filtered: np.ndarray,
    rate: int,
    cutoff: float,
    picture: Path,
) -> None:
    """Write a picture of the tones over time, before and after."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, both = pyplot.subplots(
        2, 1, figsize=(8, 6), layout="constrained", sharex=True, sharey=True
    )
    for axes, sound, title in zip(
        both, (samples, filtered), ("before", "after"), strict=True
    ):
        axes.specgram(
            sound + 1e-7,
            NFFT=256,
            Fs=rate,
            noverlap=128,
            cmap="magma",
            vmin=-140,
            vmax=-40,
        )
        axes.axhline(cutoff, color="white", linestyle="--", linewidth=1)
        axes.set(title=title, ylabel="Hz")
    both[1].set_xlabel("seconds")
    figure.savefig(picture, dpi=120)


@click.command()
@click.argument(
    "file",
    required=False,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--cutoff",
    default=2000.0,
    show_default=True,
    type=click.FloatRange(min=1),
    help="Hz that still pass.",
)
@click.option(
    "--taps",
    default=101,
    show_default=True,
    type=click.IntRange(min=3),
    help="Length of the filter.",
)
@click.option(
    "--block",
    default=4096,
    show_default=True,
    type=click.IntRange(min=1),
    help="Samples of a block.",
)
@click.option(
    "--sound",
    type=click.Path(path_type=Path),
    help="Write the filtered sound there, as WAV.",
)
@click.option(
    "--output", type=click.Path(path_type=Path), help="Write a picture there."
)
def main(
    file: Path | None,
    cutoff: float,
    taps: int,
    block: int,
    sound: Path | None,
    output: Path | None,
) -> None:
    """Filter a WAV file, and compare the result with SciPy's."""
    rate, samples = read(file or music())
    if cutoff >= rate / 2:
        raise click.BadParameter(
            f"{cutoff:g} Hz: a file of {rate} samples a second has tones below "
            f"{rate / 2:g}"
        )
    weights = signal.firwin(taps | 1, cutoff, fs=rate).astype("f4")
    device = fb.Device()
    filtered = filtered_on(device, samples, weights, block)
    print(
        f"device: {device.name}, {len(samples)} samples, "
        f"{len(samples) / rate:.1f} s"
    )
    if sound:
        wavfile.write(sound, rate, filtered)
    if output:
        draw(samples, filtered, rate, cutoff, output)
    off = float(
        np.abs(
            filtered
            - signal.lfilter(weights.astype("f8"), 1, samples.astype("f8"))
        ).max()
    )
    print(
        f"{'OK' if off <= TOLERANCE else 'WRONG'}: off by at most {off:.1e} "
        "from SciPy"
    )
    sys.exit(off > TOLERANCE)


if __name__ == "__main__":
    main()
