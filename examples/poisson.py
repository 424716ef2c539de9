"""Poisson's equation on a square, and Jacobi's method by NumPy.

What `examples.jacobi` computes, and is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def solution(x: Array, y: Array) -> Array:
    """What the equation has as its solution on [-1/2, 1/2]²: sines at the
    edges, and a hill.
    """
    x, y = np.pi * x, np.pi * y
    return (np.cosh(y) * np.cos(x) + np.cosh(x) * np.cos(y)) / np.cosh(
        np.pi / 2
    ) + np.cos(x) * np.cos(y)


def forcing(x: Array, y: Array) -> Array:
    """The equation's right side, which only the hill has a part in."""
    return 2 * np.pi**2 * np.cos(np.pi * x) * np.cos(np.pi * y)


@dataclass(frozen=True)
class Mesh:
    """The points of the square, with those of its edges around them."""

    rows: int
    columns: int

    @property
    def dx(self) -> float:
        """The distance of columns."""
        return 1 / (self.columns + 1)

    @property
    def dy(self) -> float:
        """The distance of rows."""
        return 1 / (self.rows + 1)

    def sample(self, function: Any) -> Array:
        """A function at all points."""
        return function(
            np.arange(self.columns + 2) * self.dx - 0.5,
            np.arange(self.rows + 2)[:, None] * self.dy - 0.5,
        )

    def norm(self, squares: Any) -> Any:
        """What a sum of squares over the points is as a norm of L2."""
        return np.sqrt(squares * self.dx * self.dy)

    @property
    def inverse(self) -> float:
        """Of the diagonal of the matrix."""
        return 1 / (2 / self.dx**2 + 2 / self.dy**2)


def on_the_host(mesh: Mesh, steps: int) -> tuple[Array, Array]:
    """What NumPy makes of it in double precision: the points, and the residual
    before each step.
    """
    u, f = mesh.sample(solution), mesh.sample(forcing)[1:-1, 1:-1]
    norms = np.empty(steps)
    u[1:-1, 1:-1] = 0
    for number in range(steps):
        inner = u[1:-1, 1:-1]
        residual = f + (u[1:-1, :-2] - 2 * inner + u[1:-1, 2:]) / mesh.dx**2
        residual += (u[:-2, 1:-1] - 2 * inner + u[2:, 1:-1]) / mesh.dy**2
        norms[number] = mesh.norm(np.sum(residual**2))
        inner += mesh.inverse * residual
    return u[1:-1, 1:-1], norms
