"""Triton kernels over pairs of a document's word and the word's own topics, and over the tokens of a document.

Each says which function of torch it equals; tests hold it to that, by Triton's interpreter where there is no GPU.
Floors are for PubMed: 8.2 million documents of 77 tokens, 100,000 topics.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..model import tokens

# Expected counts of a document are added up as whole numbers, so that the order does not matter: in units of its length
# over this.
UNITS = tl.constexpr(2**30)
LEAST_SHARE = tl.constexpr(tokens.LEAST_SHARE)


@triton.jit
def mix(x):
    """random.mix, of uint64."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@triton.jit
def uniform(stream, index):
    """random.uniforms of a stream (int64) and a place."""
    place = (index + 1).to(tl.uint64)
    bits = mix(stream.to(tl.uint64, bitcast=True) + 0x9E3779B97F4A7C15 * place)
    return (bits >> 11).to(tl.float64) * 1.1102230246251565e-16


@triton.jit
def omega_of(x):
    """_gpu_joint.omega_of."""
    a = tl.exp(tl.minimum(x, -1.2))
    w = a * (1 + 1.3333333 * a) / (1 + a * (2.3333333 + 0.8333333 * a))
    e = tl.exp(w)
    small = w - (w * e - a) / (e * (1 + w))
    y = tl.maximum(x, -1.2)
    log = tl.log(tl.maximum(y, 1.0))
    middle = 0.568607 + y * (0.359344 + y * (0.069775 - y * (0.000341 + 0.000646 * y)))
    w = tl.where(y > 5, y - log + log / tl.maximum(y, 1.0), middle)
    r = y - w - tl.log(w)
    q = 2 * (1 + w) * (1 + w + 0.6666667 * r)
    return tl.where(x < -1.2, small, w * (1 + r / (1 + w) * (q - r) / (q - 2 * r)))


# --- a word's own topics ---------------------------------------------------------------------------------------------


@triton.jit
def mass_of_top(share, topic, least, last_tie, of_one):
    """exp(ξ) rest of the document's heaviest topics, 0 of all others."""
    is_top = (share > least) | ((share == least) & (topic <= last_tie))
    return tl.where(is_top, tl.maximum(share, 1e-37) * of_one, 0.0)


@triton.jit
def own_block(shares, least, last_tie, first, end, topics, weights, rest, BLOCK: tl.constexpr):
    """Topics, mass and places of a block of pairs, their shares, what they have in the top bucket, and the prior's
    share of their counts; `shares` is the document's row."""
    place = first + tl.arange(0, BLOCK)
    here = place < end
    topic = tl.load(topics + place, mask=here, other=0)
    share, of_one = tl.load(shares + topic, mask=here, other=0.0), tl.load(rest + topic, mask=here, other=0.0)
    weight = tl.load(weights + place, mask=here, other=1.0)
    of_top = mass_of_top(share, topic, least, last_tie, of_one)
    mass = tl.maximum(share, 1e-37) * weight - of_top
    return topic, tl.where(here, tl.maximum(mass, 0.0), 0.0), place, share, of_top, of_one / weight


@triton.jit
def share_left(omega, leaving):
    """_gpu_tokens.share_left."""
    y = -leaving / (1 + omega)
    for _ in tl.static_range(3):
        e = tl.exp(y)
        y = y - (omega * (e - 1) + y + leaving) / (omega * e + 1)
    return tl.exp(y)


@triton.jit
def leave_itself(omega, mass, of_top, of_prior, total, total_then, tau, counted, ROUNDS: tl.constexpr):
    """_gpu_tokens.leave_itself for a block of pairs, as far as its rounds' totals are known: total_then is that after
    the first round."""
    whole = mass + of_top
    left = whole
    if ROUNDS > 0:
        own = (whole / total).to(tl.float32)
        of_counts = tl.maximum(1 - own * of_prior * counted, of_prior)
        left = tl.maximum(of_top, whole * share_left(omega, own / tau) * of_counts)
    if ROUNDS > 1:
        own = (left / total_then).to(tl.float32)
        of_counts = tl.maximum(1 - own * of_prior * counted, of_prior)
        left = tl.maximum(of_top, whole * share_left(omega, own / tau) * of_counts)
    return tl.where(whole > LEAST_SHARE * tau * total, left - of_top, mass)


@triton.jit
def draw_entries(
    entry_document,
    entry_word,
    token_offsets,
    document_offsets,
    streams,
    indptr,
    topics,
    weights,
    rest,
    shares,
    least,
    last,
    top_total,
    before,
    drawn,
    n_topics,
    beta,
    IS_REDRAWN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """_gpu_tokens.draw, an entry a program: each of its tokens looks at the word's topics twice, for the total mass
    and for the place at which it passes a random share of it.

    A pair costs a topic and a weight, which stay in the L2 from document to document, and a share in 32 bytes of the
    document's row, which does so, too, as a document's entries run side by side. Floor: 2 x 36 bytes a pair of the L2.
    """
    entry = tl.program_id(0)
    document = tl.load(entry_document + entry).to(tl.int64)
    word = tl.load(entry_word + entry)
    start, end = tl.load(indptr + word), tl.load(indptr + word + 1)
    row, lowest, last_tie = shares + document * n_topics, tl.load(least + document), tl.load(last + document)
    of_top, stream = tl.load(top_total + document), tl.load(streams + document)
    begin_of_document = tl.load(document_offsets + document)
    for token in range(tl.load(token_offsets + entry), tl.load(token_offsets + entry + 1)):
        old = -1
        if IS_REDRAWN:
            old = tl.load(before + token).to(tl.int32)
        total, before_old, at_old, weight_of_old = of_top * 0, of_top * 0, of_top * 0, of_top * 0
        for first in range(start, end, BLOCK):
            topic, mass, place, _, _, _ = own_block(row, lowest, last_tie, first, end, topics, weights, rest, BLOCK)
            mass = mass.to(tl.float64)
            total += tl.sum(mass)
            if IS_REDRAWN:
                is_old = (topic == old) & (place < end)
                before_old += tl.sum(tl.where(topic < old, mass, 0.0))
                at_old += tl.sum(tl.where(is_old, mass, 0.0))
                weight = tl.load(weights + place, mask=is_old, other=0.0)
                weight_of_old += tl.sum(weight.to(tl.float64))
        gap, end_of_old = of_top * 0, of_top * 0
        if IS_REDRAWN:  # noqa: SIM102  (known when it is compiled; the other is not)
            if weight_of_old > 0:
                share, of_one = tl.maximum(tl.load(row + old), 1e-37), tl.load(rest + old)
                in_top = mass_of_top(tl.load(row + old), old, lowest, last_tie, of_one)
                left = tl.maximum(share - 1, 0.0) * (1 - of_one / (beta * weight_of_old.to(tl.float32)))
                remains = tl.maximum(left * weight_of_old.to(tl.float32) - in_top, 0.0).to(tl.float64)
                end_of_old = before_old + remains
                gap = at_old - remains
        target = uniform(stream, token - begin_of_document) * (total + of_top - gap)
        target = tl.where(target < end_of_old, target, target + gap)
        found, first, running = -1, start, of_top * 0
        if target < total:
            while (found < 0) & (first < end):
                topic, mass, place, _, _, _ = own_block(row, lowest, last_tie, first, end, topics, weights, rest, BLOCK)
                line = running + tl.cumsum(mass.to(tl.float64))
                passed = tl.min(tl.where((line > target) & (place < end), place, end))
                if passed < end:
                    found = tl.load(topics + passed)
                running += tl.sum(mass.to(tl.float64))
                first += BLOCK
            if found < 0:  # a sum in another order was smaller by a bit
                found = tl.load(topics + end - 1)
        else:
            running = total
            column = start * 0
            found_at = start * 0 + n_topics
            while (found_at == n_topics) & (column < n_topics):
                place = column + tl.arange(0, BLOCK)
                here = place < n_topics
                share = tl.load(row + place, mask=here, other=0.0)
                of_one = tl.load(rest + place, mask=here, other=0.0)
                line = running + tl.cumsum(mass_of_top(share, place, lowest, last_tie, of_one).to(tl.float64))
                found_at = tl.min(tl.where((line > target) & here, place, n_topics))
                running = tl.max(line)
                column += BLOCK
            found = tl.minimum(found_at, n_topics - 1).to(tl.int32)
        tl.store(drawn + token, found)


@triton.jit
def expect_entries(
    entry_document,
    entry_word,
    entry_count,
    lengths,
    indptr,
    topics,
    weights,
    rest,
    shares,
    least,
    last,
    top_total,
    counts,
    top_share,
    n_topics,
    tau,
    counted,
    LEAVES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """_gpu_tokens.expect, an entry a program: own buckets are added up in whole units. Floor as of draw_entries, and an
    addition to a number in the L2 for every pair."""
    entry = tl.program_id(0)
    document = tl.load(entry_document + entry).to(tl.int64)
    word = tl.load(entry_word + entry)
    start, end = tl.load(indptr + word), tl.load(indptr + word + 1)
    row, lowest, last_tie = shares + document * n_topics, tl.load(least + document), tl.load(last + document)
    of_all = tl.load(top_total + document)
    before, then, total = of_all, of_all, of_all
    for first in range(start, end, BLOCK):
        topic, mass, place, omega, of_top, of_prior = own_block(
            row, lowest, last_tie, first, end, topics, weights, rest, BLOCK
        )
        before += tl.sum(mass.to(tl.float64))
    if LEAVES:  # totals after each of two rounds
        for first in range(start, end, BLOCK):
            topic, mass, place, omega, of_top, of_prior = own_block(
                row, lowest, last_tie, first, end, topics, weights, rest, BLOCK
            )
            left = leave_itself(omega, mass, of_top, of_prior, before, then, tau, counted, 1)
            then += tl.sum(left.to(tl.float64))
        for first in range(start, end, BLOCK):
            topic, mass, place, omega, of_top, of_prior = own_block(
                row, lowest, last_tie, first, end, topics, weights, rest, BLOCK
            )
            left = leave_itself(omega, mass, of_top, of_prior, before, then, tau, counted, 2)
            total += tl.sum(left.to(tl.float64))
    else:
        total = before
    share = tl.load(entry_count + entry).to(tl.float64) / tl.maximum(total, 1e-300)
    tl.store(top_share + entry, share)
    in_units = share / tl.load(lengths + document).to(tl.float64) * UNITS
    for first in range(start, end, BLOCK):
        topic, mass, place, omega, of_top, of_prior = own_block(
            row, lowest, last_tie, first, end, topics, weights, rest, BLOCK
        )
        if LEAVES:
            mass = leave_itself(omega, mass, of_top, of_prior, before, then, tau, counted, 2)
        units = (in_units * mass.to(tl.float64) + 0.5).to(tl.int32)
        tl.atomic_add(counts + document * n_topics + topic, units, mask=(place < end) & (units > 0), sem="relaxed")


@triton.jit
def whole_block(shares, first, end, topics, weights, rest, BLOCK: tl.constexpr):
    """own_block without a top bucket: mass, places, shares, and the prior's share of counts."""
    place = first + tl.arange(0, BLOCK)
    here = place < end
    topic = tl.load(topics + place, mask=here, other=0)
    share, weight = tl.load(shares + topic, mask=here, other=0.0), tl.load(weights + place, mask=here, other=1.0)
    mass = tl.where(here, tl.maximum(share, 1e-37) * weight, 0.0)
    return mass, place, share, tl.load(rest + topic, mask=here, other=0.0) / weight


@triton.jit
def spread_entries(
    entry_document,
    entry_word,
    entry_count,
    indptr,
    topics,
    weights,
    rest,
    shares,
    expected,
    n_topics,
    tau,
    counted,
    unit,
    BLOCK: tl.constexpr,
):
    """_gpu_tokens.spread, an entry a program."""
    entry = tl.program_id(0)
    row = shares + tl.load(entry_document + entry).to(tl.int64) * n_topics
    word = tl.load(entry_word + entry)
    start, end = tl.load(indptr + word), tl.load(indptr + word + 1)
    before = tl.load(entry_count + entry).to(tl.float64) * 0
    then, total = before, before
    for first in range(start, end, BLOCK):
        mass, place, omega, of_prior = whole_block(row, first, end, topics, weights, rest, BLOCK)
        before += tl.sum(mass.to(tl.float64))
    for first in range(start, end, BLOCK):
        mass, place, omega, of_prior = whole_block(row, first, end, topics, weights, rest, BLOCK)
        then += tl.sum(leave_itself(omega, mass, mass * 0, of_prior, before, then, tau, counted, 1).to(tl.float64))
    for first in range(start, end, BLOCK):
        mass, place, omega, of_prior = whole_block(row, first, end, topics, weights, rest, BLOCK)
        total += tl.sum(leave_itself(omega, mass, mass * 0, of_prior, before, then, tau, counted, 2).to(tl.float64))
    factor = tl.load(entry_count + entry).to(tl.float64) * unit / tl.maximum(total, 1e-300)
    for first in range(start, end, BLOCK):
        mass, place, omega, of_prior = whole_block(row, first, end, topics, weights, rest, BLOCK)
        mass = leave_itself(omega, mass, mass * 0, of_prior, before, then, tau, counted, 2)
        units = (factor * mass.to(tl.float64) + 0.5).to(tl.int64)
        tl.atomic_add(expected + place, units, mask=(place < end) & (units > 0), sem="relaxed")


# --- tokens of a document --------------------------------------------------------------------------------------------


@triton.jit
def count_in_groups(starts, walks, counts, N_WALKS: tl.constexpr, TILE: tl.constexpr):
    """How many of a group's tokens have the topic of each walk [token, walk], a group a program: every pair of tokens
    is compared, so groups should be short. Floor: 631 M x 77 x 3 comparisons, 150 G; 15 GB."""
    group = tl.program_id(0)
    start, end = tl.load(starts + group), tl.load(starts + group + 1)
    for first in range(start, end, TILE):
        token = first + tl.arange(0, TILE)
        for walk in tl.static_range(N_WALKS):
            topic = tl.load(walks + token * N_WALKS + walk, mask=token < end, other=-1)
            found = tl.zeros([TILE], tl.int32)
            for other in range(start, end, TILE):
                of_other = other + tl.arange(0, TILE)
                topics = tl.load(walks + of_other * N_WALKS, mask=of_other < end, other=-2)
                found += tl.sum((topic[:, None] == topics[None, :]).to(tl.int32), axis=1)
            tl.store(counts + token * N_WALKS + walk, found, mask=token < end)
