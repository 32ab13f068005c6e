"""Linear SVM: separable labels, invariance to the unit, choice of C, odd input."""

import subprocess
import sys

import numpy as np
import pytest

from asterism.errors import InputError
from asterism.evaluation import classification as module
from asterism.evaluation import linear_svm_accuracy


def blobs(n, noise=0.2, seed=0, names=("earth", "sky", "sea")):
    rng = np.random.default_rng(seed)
    which = np.arange(n) % len(names)
    return np.eye(len(names))[which] + noise * rng.standard_normal((n, len(names))), np.array(names)[which]


def test_separable_labels_are_all_found():
    result = linear_svm_accuracy(*blobs(90), *blobs(60, seed=1))
    assert result.accuracy == 1
    assert result.C in module.PENALTIES


def test_vectors_that_tell_nothing_give_chance():
    train, labels = blobs(300)
    rng = np.random.default_rng(3)
    result = linear_svm_accuracy(rng.standard_normal(train.shape), labels, rng.standard_normal(train.shape), labels)
    assert result.accuracy == pytest.approx(1 / 3, abs=0.1)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_the_vectors_does_not_matter(unit):
    (train, labels), (test, expected) = blobs(200, 0.6), blobs(200, 0.6, seed=1)
    assert linear_svm_accuracy(unit * train, labels, unit * test, expected) == linear_svm_accuracy(
        train, labels, test, expected
    )


def test_names_of_labels_and_order_of_test_documents_do_not_matter():
    (train, labels), (test, expected) = blobs(200, 0.6), blobs(200, 0.6, seed=1)
    plain = linear_svm_accuracy(train, labels, test, expected)
    number = {"earth": 0, "sea": 1, "sky": 2}
    numbered = [np.array([number[name] for name in names]) for names in (labels, expected)]
    assert linear_svm_accuracy(train, numbered[0], test[::-1], numbered[1][::-1]) == plain


def test_the_same_seed_gives_the_same_result():
    data = *blobs(200, 0.6), *blobs(200, 0.6, seed=1)
    assert linear_svm_accuracy(*data, seed=5) == linear_svm_accuracy(*data, seed=5)


def test_test_documents_play_no_part_in_the_choice():
    train, labels = blobs(200, 0.8)
    chosen = {linear_svm_accuracy(train, labels, *blobs(50, 0.8, seed=seed)).C for seed in range(4)}
    assert len(chosen) == 1


def test_validation_takes_a_fifth_of_every_label():
    labels = np.repeat(["a", "b", "c"], [50, 7, 4])
    aside = module._validation(labels, seed=0)
    assert [int(aside[labels == name].sum()) for name in "abc"] == [10, 1, 0]
    assert (aside != module._validation(labels, seed=1)).any()


def test_too_few_documents_to_choose_by():
    vectors, labels = blobs(6, 0.01)
    assert linear_svm_accuracy(vectors, labels, vectors, labels) == (1.0, 1.0)


def test_labels_seen_only_in_test_are_wrong():
    test, labels = blobs(60, seed=1)
    labels[:30] = "unheard of"
    assert linear_svm_accuracy(*blobs(90), test, labels).accuracy == 0.5


def test_vectors_of_zeros_are_allowed():
    _, labels = blobs(30)
    result = linear_svm_accuracy(np.zeros((30, 3)), labels, np.zeros((30, 3)), labels)
    assert result.accuracy == pytest.approx(1 / 3)


def test_bad_input_is_refused():
    vectors, labels = blobs(30)
    with pytest.raises(InputError, match="one label"):
        linear_svm_accuracy(vectors, np.zeros(30), vectors, np.zeros(30))
    with pytest.raises(InputError, match="test_vectors"):
        linear_svm_accuracy(vectors, labels, vectors[:5], labels)
    with pytest.raises(InputError, match="train_vectors hold nan"):
        linear_svm_accuracy(np.where(vectors > 1, np.nan, vectors), labels, vectors, labels)
    with pytest.raises(InputError, match="train_vectors"):
        linear_svm_accuracy(vectors[:0], labels[:0], vectors, labels)


def test_scikit_learn_is_loaded_when_it_is_used():
    program = "import sys, asterism.evaluation; sys.exit('sklearn' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
