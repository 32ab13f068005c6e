"""The command line: parse, call the public API, print."""

from __future__ import annotations

import logging
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import AsterismError, InputError

if TYPE_CHECKING:
    from .corpus import Corpus
    from .estimator import TopicEmbeddingModel

app = typer.Typer(
    help="Find correlated topics in text collections and explore them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Inference(str, Enum):
    memoized = "memoized"
    svi = "svi"


class EngineName(str, Enum):
    auto = "auto"
    cpu = "cpu"
    gpu = "gpu"
    reference = "reference"


class LocalSolver(str, Enum):
    adagrad = "adagrad"
    newton = "newton"


class Start(str, Enum):
    lda = "lda"
    random = "random"


class Sampler(str, Enum):
    auto = "auto"
    sparse = "sparse"
    alias = "alias"


class NonInteger(str, Enum):
    error = "error"
    round = "round"


Model = Annotated[Path, typer.Argument(help="Folder of a saved model.", show_default=False)]
Source = Annotated[
    str,
    typer.Argument(
        help="Documents: .txt (one a line), .jsonl with a text field, or a UCI docword file; also .gz.",
        show_default=False,
    ),
]


def _option(description: str, *names: str, panel: str | None = None, show_default: bool = True, **more: Any) -> Any:
    return typer.Option(*names, help=description, rich_help_panel=panel, show_default=show_default, **more)


def _flag(description: str, *names: str, panel: str | None = None) -> Any:
    """A switch; without a metavar, help would say that it takes a value."""
    return _option(description, *names, panel=panel, metavar="")


Json = Annotated[bool, _flag("Print JSON for programs.", "--json")]
TRAINING, TEXT, COUNTS, PRIORS = "Training", "Texts", "Counts of words", "Priors"
SPARSITY, SVI = "Sparsity: which topics a token may have", "Stochastic inference"
TextField = Annotated[str, _option("Name of the text in each JSON line.", panel=TEXT)]
VocabularyFile = Annotated[
    Path | None, _option("Words of a docword file, if not found beside it.", panel=COUNTS, show_default=False)
]


@app.command()
def demo(
    topics: Annotated[int, _option("Number of topics.", "--topics", "-k")] = 50,
    dims: Annotated[int, _option("Dimension of the vectors.")] = 20,
    seed: Annotated[int, _option("Seed of all random numbers.")] = 0,
    out: Annotated[Path, _option("Folder for the model.", "--out", "-o")] = Path("asterism-demo"),
) -> None:
    """Learn topics from the docstrings of Python and its scientific libraries, and show them."""
    from . import display
    from .demo import run_demo

    typer.echo("reading the docstrings of the installed packages", err=True)
    display.show_demo(run_demo(topics, dims, seed, out))


@app.command()
def fit(
    source: Source,
    topics: Annotated[int, _option("Number of topics K.", "--topics", "-k")],
    out: Annotated[Path, _option("Folder for the model.", "--out", "-o")],
    dims: Annotated[int, _option("Dimension M of the vectors.")] = 50,
    seed: Annotated[int, _option("Seed of all random numbers.")] = 0,
    quiet: Annotated[bool, _flag("No progress bar.", "--quiet", "-q")] = False,
    as_json: Json = False,
    max_sweeps: Annotated[int, _option("Most passes over the documents.", panel=TRAINING)] = 60,
    tol: Annotated[
        float, _option("Stop when the held-out log-likelihood per token changes by less.", panel=TRAINING)
    ] = 1e-4,
    evaluate_every: Annotated[int, _option("Sweeps between two evaluations.", panel=TRAINING)] = 1,
    init: Annotated[Start, _option("Where memoized inference begins.", panel=TRAINING)] = Start.lda,
    warm_sweeps: Annotated[int, _option("Most sweeps of LDA before memoized inference.", panel=TRAINING)] = 2000,
    draw_sweeps: Annotated[int, _option("Memoized sweeps with draws, before expectations.", panel=TRAINING)] = 32,
    sampler: Annotated[Sampler, _option("How LDA draws.", panel=TRAINING)] = Sampler.auto,
    validation_fraction: Annotated[float, _option("Share of documents held out for them.", panel=TRAINING)] = 0.05,
    batch_size: Annotated[int, _option("Documents a minibatch.", panel=TRAINING)] = 512,
    inference: Annotated[Inference, _option("How to learn.", panel=TRAINING)] = Inference.memoized,
    engine: Annotated[
        EngineName, _option("What computes: auto, cpu, gpu or reference.", panel=TRAINING, metavar="<name>")
    ] = EngineName.auto,
    threads: Annotated[
        int | None, _option("Threads; as many as cores by default.", panel=TRAINING, show_default=False)
    ] = None,
    text_field: TextField = "text",
    language: Annotated[str, _option("Language of stop words and stemmer.", panel=TEXT)] = "english",
    stop_words: Annotated[bool, _flag("Remove the language's stop words.", panel=TEXT)] = True,
    stem: Annotated[bool, _flag("Merge the forms of a word.", panel=TEXT)] = True,
    min_df: Annotated[
        str, _option("Fewest documents a word is in: a number, a share such as 0.01, or auto.", panel=TEXT)
    ] = "auto",
    max_df: Annotated[str, _option("Most documents a word is in: the same.", panel=TEXT)] = "auto",
    max_words: Annotated[
        int | None, _option("Size of the vocabulary; all words by default.", panel=TEXT, show_default=False)
    ] = None,
    vocabulary: VocabularyFile = None,
    non_integer: Annotated[NonInteger, _option("What to do with fractions.", panel=COUNTS)] = NonInteger.error,
    alpha: Annotated[float, _option("Precision of topic embeddings.", panel=PRIORS)] = 0.1,
    rho: Annotated[float, _option("Precision of document embeddings.", panel=PRIORS)] = 0.1,
    tau: Annotated[
        float | None,
        _option(
            "Precision of topic weights; by default what predicts best, for svi 1.", panel=PRIORS, show_default=False
        ),
    ] = None,
    beta: Annotated[
        float | None,
        _option(
            "Dirichlet prior of words; by default what predicts best, for svi 1/topics.",
            panel=PRIORS,
            show_default=False,
        ),
    ] = None,
    learn_alpha: Annotated[bool, _flag("Learn alpha from there on.", panel=PRIORS)] = False,
    learn_tau: Annotated[bool, _flag("Learn tau from there on.", panel=PRIORS)] = False,
    learn_beta: Annotated[bool, _flag("Learn beta from there on.", panel=PRIORS)] = False,
    topics_per_document: Annotated[int, _option("A document's heaviest topics, the paper's K_s.", panel=SPARSITY)] = 50,
    words_per_topic: Annotated[
        int | None,
        _option(
            "Words of a topic kept for drawing, V_s; by default all, for svi 100.", panel=SPARSITY, show_default=False
        ),
    ] = None,
    topics_per_word: Annotated[
        int | None,
        _option(
            "Topics that every word keeps for drawing, s; by default all, for svi 10.",
            panel=SPARSITY,
            show_default=False,
        ),
    ] = None,
    candidates: Annotated[
        int | None,
        _option("Near topics a document looks at one by one; all by default.", panel=SPARSITY, show_default=False),
    ] = None,
    local_solver: Annotated[LocalSolver, _option("What solves a document.", panel=SVI)] = LocalSolver.adagrad,
    samples: Annotated[int, _option("Monte-Carlo samples T of a gradient.", panel=SVI)] = 1,
    local_rate: Annotated[float, _option("Adagrad's rate.", panel=SVI)] = 0.5,
    max_local_steps: Annotated[int, _option("Most rounds for a document.", panel=SVI)] = 50,
    local_tol: Annotated[float, _option("... or until its topic weights change less.", panel=SVI)] = 0.1,
    step_offset: Annotated[float, _option("Step t has size (offset + t)^-exponent.", panel=SVI)] = 1.0,
    step_exponent: Annotated[float, _option("See --step-offset.", panel=SVI)] = 0.9,
) -> None:
    """Learn topics from documents and save the model."""
    from . import display
    from .corpus import TextPipeline
    from .estimator import TopicEmbeddingModel
    from .parameters import check_parameters
    from .persist import check_target

    pipeline = TextPipeline(
        language=language,
        stop_words="auto" if stop_words else None,
        stem=stem,
        min_df=_number_or("auto", min_df, "--min-df"),
        max_df=_number_or("auto", max_df, "--max-df"),
        max_words=max_words,
    )
    model = TopicEmbeddingModel(
        topics,
        dims,
        inference=inference.value,
        engine=engine.value,
        n_threads=threads,
        max_sweeps=max_sweeps,
        tol=tol,
        evaluate_every=evaluate_every,
        init=init.value,
        warm_sweeps=warm_sweeps,
        draw_sweeps=draw_sweeps,
        sampler=sampler.value,
        validation_fraction=validation_fraction,
        batch_size=batch_size,
        alpha=alpha,
        rho=rho,
        tau=tau,
        beta=beta,
        learn_alpha=learn_alpha,
        learn_tau=learn_tau,
        learn_beta=learn_beta,
        topics_per_document=topics_per_document,
        words_per_topic=words_per_topic,
        topics_per_word=topics_per_word,
        candidates=candidates,
        local_solver=local_solver.value,
        n_samples=samples,
        local_rate=local_rate,
        max_local_steps=max_local_steps,
        local_tol=local_tol,
        step_offset=step_offset,
        step_exponent=step_exponent,
        text_pipeline=pipeline,
        non_integer=non_integer.value,
        random_state=seed,
        verbose=not quiet,
    )
    check_parameters(model)
    check_target(out)
    corpus = _read(source, text_field, vocabulary)
    model.set_params(vocabulary=corpus.vocabulary).fit(corpus.documents)
    saved = model.save(out)
    display.show_fit(model, saved, as_json)


@app.command()
def plan(
    source: Source,
    topics: Annotated[int, _option("Number of topics K.", "--topics", "-k")],
    dims: Annotated[int, _option("Dimension M of the vectors.")] = 50,
    inference: Annotated[Inference, _option("How topics would be learned.")] = Inference.memoized,
    candidates: Annotated[
        int | None, _option("Near topics a document looks at one by one; all by default.", show_default=False)
    ] = None,
    threads: Annotated[int | None, _option("Threads; one a core by default.", show_default=False)] = None,
    text_field: TextField = "text",
    max_words: Annotated[
        int | None, _option("Size of the vocabulary; all words by default.", panel=TEXT, show_default=False)
    ] = None,
    vocabulary: VocabularyFile = None,
    as_json: Json = False,
) -> None:
    """Tell what fit would need, memory and seconds a sweep, by trying a few documents; learns nothing."""
    from . import display
    from .corpus import TextPipeline
    from .estimator import TopicEmbeddingModel

    corpus = _read(source, text_field, vocabulary)
    model = TopicEmbeddingModel(
        topics,
        dims,
        inference=inference.value,
        candidates=candidates,
        n_threads=threads,
        text_pipeline=TextPipeline(max_words=max_words),
        vocabulary=corpus.vocabulary,
        random_state=0,
    )
    display.show_plan(model.plan(corpus.documents), as_json)


@app.command()
def topics(
    model: Model,
    words: Annotated[int, _option("Words a topic.", "--words", "-n", min=1)] = 10,
    limit: Annotated[int | None, _option("Only so many of the largest.", show_default=False, min=1)] = None,
    as_json: Json = False,
) -> None:
    """List the topics, largest first: share of tokens and top words."""
    from . import display

    display.show_topics(_load(model), words, limit, as_json)


@app.command()
def correlated(
    model: Model,
    topic: Annotated[int, typer.Argument(help="Number of the topic.", show_default=False)],
    n: Annotated[int, _option("How many topics.", "-n", min=1)] = 10,
    as_json: Json = False,
) -> None:
    """List the topics that occur most with a topic."""
    from . import display

    display.show_correlated(_load(model), topic, n, as_json)


@app.command()
def embed(
    model: Model,
    source: Source,
    out: Annotated[Path, _option("File to write: .npy, .csv or .jsonl.", "--out", "-o")],
    search: Annotated[bool, _flag("Vectors whose inner product ranks documents by likeness.", "--search")] = False,
    evidence: Annotated[
        str | None, _option("Words a document counts for, at most; 'all' is the model's own posterior.")
    ] = None,
    text_field: TextField = "text",
    vocabulary: VocabularyFile = None,
) -> None:
    """Write a vector for every document, in the documents' order."""
    from .corpus.vectors import check_vector_file, write_vectors

    check_vector_file(out)
    loaded = _load(model)
    if evidence is not None:
        loaded.set_params(evidence=_number_or("all", evidence, "--evidence"))
    corpus = _read(source, text_field, vocabulary)
    documents = _documents_for(loaded, corpus)
    vectors = loaded.search_vectors(documents) if search else loaded.transform(documents)
    write_vectors(out, corpus.ids, vectors)
    typer.echo(f"{len(vectors):,} vectors of {vectors.shape[1]} dimensions written to {out}", err=True)


@app.command()
def evaluate(
    model: Model,
    source: Source,
    text_field: TextField = "text",
    vocabulary: VocabularyFile = None,
    as_json: Json = False,
) -> None:
    """Held-out perplexity of documents, by document completion."""
    from . import display

    loaded = _load(model)
    corpus = _read(source, text_field, vocabulary)
    display.show_score(loaded.score(_documents_for(loaded, corpus)), len(corpus), as_json)


@app.command()
def info(model: Model, as_json: Json = False) -> None:
    """What a model is and how it was trained."""
    from . import display

    display.show_info(_load(model), as_json)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, _flag("Print the version.", "--version")] = False,
    verbose: Annotated[bool, _flag("Log what happens.", "--verbose", "-v")] = False,
) -> None:
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s: %(message)s")
    if version:
        from . import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point: what the user can mend is one line and exit code 2."""
    try:
        app(prog_name="asterism")
    except AsterismError as error:
        _fail(str(error))
    except OSError as error:
        _fail(": ".join(str(part) for part in (error.filename, error.strerror) if part) or str(error))
    except MemoryError as error:
        _fail(f"not enough memory: {error}" if str(error) else "not enough memory")


def _fail(message: str) -> None:
    print(f"asterism: {message}", file=sys.stderr)
    sys.exit(2)


def _load(folder: Path) -> TopicEmbeddingModel:
    from .estimator import TopicEmbeddingModel

    return TopicEmbeddingModel.load(folder)


def _read(source: str, text_field: str, vocabulary: Path | None) -> Corpus:
    from .corpus import open_corpus

    corpus = open_corpus(source, text_field=text_field, vocabulary=vocabulary)
    if not len(corpus):
        raise InputError(f"{source} holds no documents")
    return corpus


def _documents_for(model: TopicEmbeddingModel, corpus: Corpus) -> Any:
    """The corpus in the form the model was trained on."""
    from .corpus.counts import over_vocabulary

    if corpus.vocabulary is None:
        return corpus.documents
    if model.text_pipeline_ is not None:
        raise InputError("this model was trained on texts; it cannot read counts of words")
    return over_vocabulary(corpus.documents, corpus.vocabulary, list(model.vocabulary_))


def _number_or(word: str, value: str, option: str) -> str | float:
    if value == word:
        return value
    try:
        return float(value) if "." in value else int(value)
    except ValueError:
        raise InputError(f"{option} {value} is neither a number nor {word}") from None
