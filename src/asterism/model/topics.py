"""Topic embeddings q(u_k) = N(μ_k, Σ_u), and the Σ_a of documents that follows from them."""

from __future__ import annotations

import numpy as np

from .state import Floats, Priors, Statistics


def optimal_embedding(
    statistics: Statistics, document_cov: Floats, priors: Priors, scale: float = 1.0
) -> tuple[Floats, Floats]:
    """μ* = τ Σ_u* s Σ_d ξ_d γ_d' and Σ_u* = [α I + τ s Σ_d (Σ_a + γ_d γ_d')]^-1, for s = D / |batch|."""
    second_moment = statistics.n_documents * document_cov + statistics.embedding_outer
    precision = priors.alpha * np.eye(len(document_cov)) + priors.tau * scale * second_moment
    embedding_cov = np.linalg.inv(precision)
    return priors.tau * scale * statistics.weight_embedding @ embedding_cov, embedding_cov


def optimal_document_cov(embedding: Floats, embedding_cov: Floats, priors: Priors) -> Floats:
    """Σ_a = [ρ I + τ (K Σ_u + Σ_k μ_k μ_k')]^-1; the paper prints γ I for the prior's ρ I."""
    second_moment = len(embedding) * embedding_cov + embedding.T @ embedding
    return np.linalg.inv(priors.rho * np.eye(len(embedding_cov)) + priors.tau * second_moment)
