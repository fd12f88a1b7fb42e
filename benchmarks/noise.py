"""Discrete Laplace and Gaussian noise, values per second: our exact vectorised sampler beside
OpenDP's, in one run.

    python benchmarks/noise.py [--json] [--size N]

Each figure is the best of three; OpenDP draws a twentieth of the values (it is slower).
"""

import argparse
import json
import platform
import time

import numpy as np
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import enable_features

from cloakwork.noise import secret

SCALES = (0.3, 1.0, 7.5, 7200.0, 86_400_000.0, 1e12)
SIGMAS = (0.3, 1.0, 10.0, 43.5, 1000.0, 1e12)


def rate(draw, size):
    """Values per second of ``draw(size)``, best of three."""
    draw(min(size, 1000))
    times = []
    for _ in range(3):
        start = time.perf_counter()
        draw(size)
        times.append(time.perf_counter() - start)
    return size / min(times)


def opendp_measurement(kind, scale):
    """OpenDP's noise on integers."""
    enable_features("contrib")
    integers = vector_domain(atom_domain(T="i64"))
    if kind == "laplace":
        return make_laplace(integers, l1_distance(T="i64"), scale)
    return make_gaussian(integers, l2_distance(T="i64"), scale)


def measure(size):
    """One row a kind of noise and a scale or sigma (grid steps)."""
    noise = secret()
    kinds = (
        ("laplace", SCALES, noise.laplace_values),
        ("gaussian", SIGMAS, noise.gaussian_values),
    )
    rows = []
    for kind, scales, values in kinds:
        for scale in scales:
            ours = rate(lambda n, s=scale, draw=values: draw(s, n), size)
            measurement = opendp_measurement(kind, scale)
            zeros = np.zeros(max(1000, size // 20), dtype=np.int64)
            theirs = rate(lambda n, draw=measurement, z=zeros: draw(z[:n]), zeros.size)
            rows.append(
                {
                    "noise": kind,
                    "scale": scale,
                    "cloakwork_per_second": round(ours),
                    "opendp_per_second": round(theirs),
                }
            )
    return rows


def main():
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--size", type=int, default=2_000_000)
    options = parser.parse_args()
    rows = measure(options.size)
    if options.json:
        print(
            json.dumps(
                {"size": options.size, "machine": platform.machine(), "rows": rows}, indent=2
            )
        )
        return
    print(f"{'noise':<9} {'scale':>14} {'cloakwork/s':>14} {'opendp/s':>14} {'ratio':>7}")
    for row in rows:
        ours, theirs = row["cloakwork_per_second"], row["opendp_per_second"]
        print(
            f"{row['noise']:<9} {row['scale']:>14g} {ours:>14,} {theirs:>14,} {ours / theirs:>7.1f}"
        )


if __name__ == "__main__":
    main()
