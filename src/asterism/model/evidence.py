"""How much the words of a document say of it.

Under the model every token is news. Words of real documents come in bursts, and the second half of a document repeats
much of what the first one said: vectors that take every token at its word are too sure. So a word that occurs n_w times
may be weighed

    c l_w / (c + Σ_v l_v),     l_w = 1 + log n_w,

the whole document as less than c words, however long it is. Engines count whole tokens, so they are given counts in a
small unit, and topics whose priors are in that unit, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .state import Batch, Documents, Topics

UNITS = 2**27  # of a document that is as long as can be


@dataclass(frozen=True)
class Evidence:
    """Words weighed with c = `most_words`; where that is infinite, every token counts in full."""

    most_words: float

    @property
    def unit(self) -> float:
        """What a count of one stands for, in words."""
        return self.most_words / UNITS if np.isfinite(self.most_words) else 1.0

    def weigh(self, batch: Batch) -> Batch:
        """The batch with its words weighed, counted in units."""
        if not np.isfinite(self.most_words):
            return batch
        logs = 1 + np.log(batch.counts)
        rows = np.repeat(np.arange(len(batch)), np.diff(batch.indptr))
        weights = logs / (self.most_words + np.bincount(rows, logs, len(batch))[rows])
        return replace(batch, counts=np.maximum(np.rint(UNITS * weights), 1).astype(np.int32))

    def in_units(self, topics: Topics) -> Topics:
        """Topics for counts in units: weighing the likelihood by e moves the maximum to where weighing the prior by 1/e
        does."""
        priors = replace(topics.priors, rho=topics.priors.rho / self.unit, tau=topics.priors.tau / self.unit)
        return replace(topics, priors=priors)

    def in_words(self, documents: Documents) -> Documents:
        """Documents inferred from counts in units: the posterior is as wide as its weighed likelihood is flat."""
        return documents if documents.cov is None else replace(documents, cov=documents.cov / self.unit)


ALL_WORDS = Evidence(np.inf)
