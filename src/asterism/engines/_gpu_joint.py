"""The joint solver (model/joint.py) for many documents at once, in torch.

Documents go in step; those that are done drop out. What needs all topics is asked of a `Look`: topic weights at some
embeddings. Here a look holds prior means [d, k]; that of _gpu_streams.py computes them on the way and holds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch

from ..model.document import PRIOR_IN_TOKENS
from ..model.joint import LIGHT, LONGEST_STEP, MOST_LENGTHENING, TOO_FAR, renews_curvature
from ._gpu_rows import padded

Tensor = Any

# ω is small where the logarithm of ω e^ω is below this.
LARGEST_SMALL = -1.2
# ζ is found after a step (they are Newton's) of less than this, or after so many.
NORMALISED, MOST_NORMALISATIONS = 1e-3, 50
# Of a topic in predictions, below which its logarithm is taken another way.
SMALLEST_MASS = 1e-30


class Space(NamedTuple):
    """Topic embeddings on the device."""

    embedding: Tensor  # U [k, m]
    mean: Tensor  # m [k]
    precision: Tensor  # P [m, m], as all m x m in float64
    scatter: Tensor  # of topic vectors in the average document [m, m]
    gain: Tensor  # τ Σ_a [m, m]
    tau: float


class Look(Protocol):
    """Topic weights of documents at given embeddings; counts n are [d, k], lengths N and ζ [d]."""

    def log_normaliser(self) -> Tensor:
        """log Σ exp μ: ζ of a document without tokens."""

    def normalised(self, counts: Tensor, lengths: Tensor, zeta: Tensor) -> Tensor:
        """ζ with Σ ω = N / τ, from a first guess."""

    def omega(self, counts: Tensor, lengths: Tensor, zeta: Tensor) -> Tensor:
        """ω = N θ / τ [d, k]."""

    def prior_shares(self, zeta: Tensor) -> Tensor:
        """softmax(μ) [d, k]."""

    def forces(self, counts: Tensor, lengths: Tensor, zeta: Tensor) -> tuple[Tensor, Tensor]:
        """U'(n - τ ω) [d, m] and Σ h [d]."""

    def weights(self, counts: Tensor, omega: Tensor) -> Tensor:
        """ξ = μ + n / τ - ω [d, k]."""


class Solved(NamedTuple):
    embedding: Tensor  # γ [d, m]
    counts: Tensor  # n [d, k]
    omega: Tensor  # ω [d, k]
    factor: Tensor  # L with H = L L' [d, m, m]
    look: Look  # at γ


# Expected counts n [d, k] of the documents `rows`, given their shares of topics and the number of the step.
TopicCounts = Callable[[Tensor, Tensor, int], Tensor]


# --- topic weights, given the embedding -----------------------------------------------------------------------------


def omega_of(x: Tensor) -> Tensor:
    """w with w + log w = x: where it is small, a Padé approximant of w e^w = a and a Newton step; elsewhere a guess
    that is right to a hundredth and one step of Fritsch, Shafer and Crowley."""
    a = torch.exp(x.clamp_max(LARGEST_SMALL))
    w = a * (1 + 4 / 3 * a) / (1 + a * (7 / 3 + 5 / 6 * a))
    e = torch.exp(w)
    small = w - (w * e - a) / (e * (1 + w))
    y = x.clamp_min(LARGEST_SMALL)
    log = torch.log(y.clamp_min(1))
    middle = 0.568607 + y * (0.359344 + y * (0.069775 - y * (0.000341 + 0.000646 * y)))
    w = torch.where(y > 5, y - log + log / y, middle)
    r = y - w - torch.log(w)
    q = 2 * (1 + w) * (1 + w + 2 / 3 * r)
    return torch.where(x < LARGEST_SMALL, small, w * (1 + r / (1 + w) * (q - r) / (q - 2 * r)))


def logs_of_targets(lengths: Tensor, tau: float) -> Tensor:
    """log(N / τ), somewhere far down for empty documents."""
    return torch.log((lengths / tau).clamp_min(1e-30))


def normalise(sums: Callable[[Tensor], tuple[Tensor, Tensor]], lengths: Tensor, tau: float, zeta: Tensor) -> Tensor:
    """ζ by Newton's method, from `sums`: Σ ω and Σ ω / (1 + ω) at a ζ. A document's ζ stays once it is found, so that
    it does not depend on the others'."""
    is_open, target = lengths > 0, (lengths / tau).to(zeta.dtype)
    for _ in range(MOST_NORMALISATIONS):
        total, slope = sums(zeta)
        change = ((total - target) / slope.clamp_min(1e-30)).clamp(-LONGEST_STEP, LONGEST_STEP)
        zeta = torch.where(is_open, zeta + change, zeta)
        is_open = is_open & (change.abs() >= NORMALISED)
        if not bool(is_open.any()):
            break
    return zeta


class DenseLook:
    """A look that holds μ."""

    def __init__(self, space: Space, embedding: Tensor) -> None:
        self.space = space
        self.mean = torch.addmm(space.mean, embedding.to(space.mean.dtype), space.embedding.T)

    def log_normaliser(self) -> Tensor:
        return torch.logsumexp(self.mean, dim=1).to(torch.float64)

    def prior_shares(self, zeta: Tensor) -> Tensor:
        return torch.exp(self.mean - zeta[:, None].to(self.mean.dtype))

    def normalised(self, counts: Tensor, lengths: Tensor, zeta: Tensor) -> Tensor:
        x = self._x(counts, lengths)

        def sums(zeta: Tensor) -> tuple[Tensor, Tensor]:
            omega = omega_of(x - zeta[:, None].to(x.dtype))
            return omega.sum(dim=1, dtype=torch.float64), (omega / (1 + omega)).sum(dim=1, dtype=torch.float64)

        return normalise(sums, lengths, self.space.tau, zeta)

    def omega(self, counts: Tensor, lengths: Tensor, zeta: Tensor) -> Tensor:
        omega = omega_of(self._x(counts, lengths) - zeta[:, None].to(self.mean.dtype))
        return omega * (lengths > 0)[:, None]

    def forces(self, counts: Tensor, lengths: Tensor, zeta: Tensor) -> tuple[Tensor, Tensor]:
        omega = self.omega(counts, lengths, zeta)
        pull = (counts - self.space.tau * omega) @ self.space.embedding
        return pull.to(torch.float64), curvatures(omega, self.space.tau).sum(dim=1, dtype=torch.float64)

    def weights(self, counts: Tensor, omega: Tensor) -> Tensor:
        return self.mean + counts / self.space.tau - omega

    def _x(self, counts: Tensor, lengths: Tensor) -> Tensor:
        """What ω is a function of, at ζ = 0."""
        shift = logs_of_targets(lengths, self.space.tau).to(self.mean.dtype)
        return self.mean + counts / self.space.tau + shift[:, None]


def curvatures(omega: Tensor, tau: float) -> Tensor:
    """h = τ ω / (1 + ω) [d, k]."""
    return tau * omega / (1 + omega)


# --- the solver --------------------------------------------------------------------------------------------------


def factor_of(omega: Tensor, space: Space) -> Tensor:
    """The factor of joint.curvature, in float64 since H has to be positive [d, m, m]."""
    h, U = curvatures(omega, space.tau), space.embedding
    total, pull = h.sum(dim=1), h @ U
    columns, is_there = padded((h >= (LIGHT * total)[:, None]) & (h > 0))
    heavy, vectors = torch.where(is_there, h.gather(1, columns), 0), U[columns]
    centre = pull / total.clamp_min(1e-30)[:, None]
    rows = heavy.sqrt()[:, :, None] * (vectors - centre[:, None])
    # What is left for light topics; where that is rounding, there are none.
    h_light = total - heavy.sum(dim=1)
    h_light = torch.where(h_light > 100 * torch.finfo(h.dtype).eps * total, h_light, 0)
    pull_light = pull - (heavy[:, None] @ vectors)[:, 0]
    apart = h_light.sqrt()[:, None] * (pull_light / h_light.clamp_min(1e-30)[:, None] - centre)
    apart = torch.where((h_light > 0)[:, None], apart, 0)
    H = (rows.transpose(1, 2) @ rows + apart[:, :, None] * apart[:, None]).to(torch.float64)
    H = H + h_light.to(torch.float64)[:, None, None] * space.scatter + space.precision
    return torch.linalg.cholesky_ex(H).L


def solve(
    look_at: Callable[[Tensor], Look],
    space: Space,
    embedding: Tensor,
    counts: Tensor,
    lengths: Tensor,
    n_steps: int,
    tol: float = 0.0,
    expected: TopicCounts | None = None,
) -> Solved:
    """joint.solve: γ (float64) and counts are overwritten; with `expected`, counts follow from the shares of topics."""
    n_dims = embedding.shape[1]
    if n_steps == 0:
        counts, lengths = torch.zeros_like(counts), torch.zeros_like(lengths)  # without a step there are none
    move, rise = torch.zeros_like(embedding), embedding.new_zeros(len(embedding))
    factor = embedding.new_zeros((len(embedding), n_dims, n_dims))
    zeta = embedding.new_zeros(len(embedding))
    rows = torch.arange(len(embedding), device=embedding.device)
    for number in range(n_steps):
        n_tokens, gamma, step = lengths[rows], embedding[rows], move[rows]
        look = look_at(gamma)
        zeta[rows] = look.log_normaliser() if number == 0 else zeta[rows]
        moved = n_tokens.to(embedding.dtype)
        if expected is not None:
            moved = _expect(look, expected, rows, number, counts, n_tokens, zeta)
        n = counts if len(rows) == len(counts) else counts[rows]
        zeta[rows] = look.normalised(n, n_tokens, zeta[rows])
        pull, bearing = look.forces(n, n_tokens, zeta[rows])
        gradient = pull - gamma @ space.precision
        if renews_curvature(number):
            factor[rows] = factor_of(look.omega(n, n_tokens, zeta[rows]), space)
        left, last_rise = (gradient * step).sum(dim=1), rise[rows]
        newton = torch.cholesky_solve(gradient[:, :, None], factor[rows])[:, :, 0]
        gain = (gradient * newton).sum(dim=1)
        too_far = left < -TOO_FAR * last_rise
        is_done = ~too_far & (gain <= tol**2 * n_tokens) & (moved <= tol * n_tokens)
        length = _step_lengthening(left, last_rise) * _step_length(gain, bearing)
        newton = torch.where(too_far[:, None], 0, length[:, None] * newton)
        change = torch.where(too_far[:, None], -step / 2, newton)
        embedding[rows] = torch.where(is_done[:, None], gamma, gamma + change)
        move[rows], rise[rows] = newton, torch.where(too_far, 0, length * gain)
        if bool(is_done.any()):
            rows = rows[~is_done]
        if not len(rows):
            break
    look = look_at(embedding)
    if n_steps == 0:
        return Solved(embedding, counts, torch.zeros_like(counts), factor, look)
    zeta = look.normalised(counts, lengths, zeta)
    return Solved(embedding, counts, look.omega(counts, lengths, zeta), factor, look)


def _expect(
    look: Look, expected: TopicCounts, rows: Tensor, number: int, counts: Tensor, n_tokens: Tensor, zeta: Tensor
) -> Tensor:
    """Renew the counts of documents `rows`; returns how far they moved [d]."""
    before = counts[rows]
    if number == 0:
        shares = look.prior_shares(zeta[rows])
    else:
        zeta[rows] = look.normalised(before, n_tokens, zeta[rows])
        shares = look.omega(before, n_tokens, zeta[rows])
    found = expected(shares, rows, number)
    counts[rows] = found
    return (found - before).abs().sum(dim=1, dtype=torch.float64)


def _step_length(rise: Tensor, bearing: Tensor) -> Tensor:
    """joint.step_length."""
    longest = LONGEST_STEP**2 * bearing
    is_short = (rise <= longest) | (bearing == 0)
    return torch.where(is_short, 1.0, (longest / rise.clamp_min(1e-30)).sqrt())


def _step_lengthening(left: Tensor, rise: Tensor) -> Tensor:
    """joint.step_lengthening."""
    return torch.where(left <= 0, 1.0, (rise / (rise - left).clamp_min(1e-30)).clamp_max(MOST_LENGTHENING))


def predictive_shares(solved: Solved) -> Tensor:
    """n + c π: exp of document.predictive_weights of each document [d, k]."""
    return solved.counts + PRIOR_IN_TOKENS * solved.look.prior_shares(solved.look.log_normaliser())


def predictive_weights(solved: Solved, lengths: Tensor) -> Tensor:
    """document.predictive_weights of each document [d, k]."""
    nothing = torch.zeros_like(solved.counts)
    mean, log_normaliser = solved.look.weights(nothing, nothing), solved.look.log_normaliser()
    of_prior = mean - (log_normaliser - math.log(PRIOR_IN_TOKENS)).to(mean.dtype)[:, None]
    mass = solved.counts + of_prior.exp()
    predictive = torch.where(mass > SMALLEST_MASS, mass.log(), of_prior)
    return torch.where((lengths > 0)[:, None], predictive, mean)


def covariances(omega: Tensor, space: Space) -> Tensor:
    """joint.posterior_cov of each document, of all topics [d, m, m]."""
    h, U = curvatures(omega.to(torch.float64), space.tau), space.embedding.to(torch.float64)
    total = h.sum(dim=1)
    centre = h @ U / total.clamp_min(1e-300)[:, None]
    scatter = (h[:, :, None] * U).transpose(1, 2) @ U - total[:, None, None] * centre[:, :, None] * centre[:, None]
    return torch.linalg.inv(scatter + space.precision)
