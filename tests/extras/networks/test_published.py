"""Networks as their papers have them: the epsilon that is reported and the noise for it, steps and
batches; what each model learns and draws, and why its claim does not hold.
"""

import copy
import math
import sys

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.costs import DiscreteGaussian, NonPrivate, PoissonSampled, Repeated
from cloakwork.base.facts import Facts
from cloakwork.errors import MissingExtra
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.noise import reproducible
from cloakwork_extras.networks.params import DdpmPublishedParams, TravagPublishedParams
from cloakwork_extras.networks.published import VariantDdpmPublished, VariantTravagPublished
from cloakwork_extras.networks.steps import least_epsilon, noise_multiplier, reported_epsilon
from extras.networks.small_networks import needs_torch
from measuring import kernel_on, release

pytestmark = needs_torch


@pytest.mark.parametrize(
    ("multiplier", "steps", "printed"), [(15.0, 20_000, 1.9346), (4.0, 1_500, 2.0389)]
)
def test_what_the_notebooks_of_travag_print(multiplier, steps, printed):
    """On sepsis, 64 of 1,039 cases in a batch, delta .01: for the decoder and the discriminator,
    each by itself.
    """
    found = reported_epsilon(64 / 1039, multiplier, steps, 1e-2)
    assert found == pytest.approx(printed, rel=1e-3)


def test_it_is_above_what_our_accountant_derives():
    """The reported figure bounds the sampled sums themselves; what is wrong is what they leave
    out.
    """
    sampled = PoissonSampled(rate=0.06, event=DiscreteGaussian(sigma=4.0))
    derived = cost(Repeated(times=200, event=sampled), 1e-3).epsilon
    assert derived < reported_epsilon(0.06, 4.0, 200, 1e-3) < 2 * derived


@pytest.mark.parametrize(("rate", "steps"), [(0.06, 300), (1.0, 20)])
def test_the_noise_is_the_least_that_is_reported_as_epsilon(rate, steps):
    multiplier = noise_multiplier(rate, steps, 1.0, 1e-4)
    assert reported_epsilon(rate, multiplier, steps, 1e-4) <= 1
    assert reported_epsilon(rate, 0.999 * multiplier, steps, 1e-4) > 1


def test_no_noise_brings_the_figure_below_the_least():
    """The largest order that is tried leaves its share of delta."""
    assert least_epsilon(1e-4) == pytest.approx(math.log(1e4) / 511)
    assert reported_epsilon(0.01, 1e6, 1, 1e-4) >= least_epsilon(1e-4)


BOTH = (VariantTravagPublished(), VariantDdpmPublished())
HISTOGRAM = pl.DataFrame({"variant": [["a"], ["a", "b"], ["b"]], "cases": [7, 5, 1]})


def goal(epsilon=1.0, delta=1e-4):
    """Over the control flow."""
    return DifferentialPrivacy(
        kind="differential-privacy", epsilon=epsilon, delta=delta, over=("control-flow",)
    )


@pytest.mark.parametrize("mechanism", BOTH)
def test_what_is_offered_says_that_it_does_not_hold(mechanism):
    """No epsilon bounds it, and the reason is one that a person can read."""
    answer = mechanism.offer(goal(), Facts(), {})
    assert isinstance(answer, Offer)
    assert "which does not hold: only variants of the source can be drawn" in answer.why
    event = mechanism.step(answer.params, Facts()).event
    assert isinstance(event, NonPrivate)
    assert cost(event, 1e-4).epsilon == math.inf
    assert not mechanism.step(answer.params, Facts()).lineage.measures


@pytest.mark.parametrize("mechanism", BOTH)
def test_goals_that_the_papers_do_not_reach_are_refused(mechanism):
    """Without delta, or with an epsilon below what their accounting knows."""
    without = mechanism.offer(goal(delta=0.0), Facts(), {})
    assert isinstance(without, Refusal) and without.needs == ("guarantees[].delta",)
    tiny = mechanism.offer(goal(epsilon=0.01), Facts(), {})
    assert isinstance(tiny, Refusal) and "no epsilon below 0.018" in tiny.reason


@pytest.mark.parametrize("mechanism", BOTH)
def test_without_torch_there_is_one_clear_line(mechanism, monkeypatch):
    """An error; no traceback. Planning asks for no torch: a plan is verified without it."""
    params = mechanism.offer(goal(), Facts(), {}).params
    monkeypatch.setitem(sys.modules, "torch", None)
    assert mechanism.offer(goal(), Facts(), {}).params == params
    kernel = kernel_on(HISTOGRAM, mechanism.step(params, Facts()).event, reproducible(1))
    with pytest.raises(MissingExtra, match=r"needs torch, .*cloakwork\[generative\]"):
        mechanism.measure(params, kernel)


@pytest.mark.parametrize("mechanism", BOTH)
def test_a_run_with_a_seed_repeats_and_as_many_cases_as_there_are_come_out(mechanism):
    """Of variants of the source alone; with another seed, others."""
    params = mechanism.offer(goal(), Facts(), {"epochs": 3}).params
    runs = [release(mechanism, params, HISTOGRAM, reproducible(seed)) for seed in (1, 1, 2, 3)]
    tables = [run.table.sort("variant") for run in runs]
    assert tables[0].equals(tables[1])
    assert not (tables[0].equals(tables[2]) and tables[0].equals(tables[3]))
    known = {tuple(variant) for variant in HISTOGRAM["variant"]}
    for run, table in zip(runs, tables, strict=True):
        assert table["cases"].sum() == 13
        assert {tuple(variant) for variant in table["variant"]} <= known
        assert run.internal["variants that can be drawn"] == 3
        assert isinstance(run.recorded, NonPrivate)


@pytest.mark.parametrize("mechanism", BOTH)
def test_nothing_and_a_single_variant_are_logs_too(mechanism):
    """No case: none comes out. One variant: it comes out."""
    params = mechanism.offer(goal(), Facts(), {"epochs": 1}).params
    assert release(mechanism, params, HISTOGRAM.clear(), reproducible(1)).table.is_empty()
    single = release(mechanism, params, HISTOGRAM.head(1), reproducible(1))
    assert single.table.rows() == [(["a"], 7)]


@pytest.fixture(params=["one place", "several"])
def made(torch, request):
    """A network of two layers, and values of seven cases that it makes numbers of."""
    torch.manual_seed(1)
    layers = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    return layers, torch.randn((7, 3) if request.param == "one place" else (7, 2, 3))


def step(torch, published, layers, values, norm, multiplier=0.0, batch=1):
    """How far the weights move, one after another, by one step of length one on the losses."""
    layers = copy.deepcopy(layers)
    before = torch.nn.utils.parameters_to_vector(layers.parameters())
    optimizer = torch.optim.SGD(layers.parameters(), 1.0)
    steps = published.NoisySteps(layers, optimizer, norm, multiplier, batch)
    with steps.recorded():
        found = layers(values)
    steps.step((found**2).flatten(1).sum(dim=1))
    return (before - torch.nn.utils.parameters_to_vector(layers.parameters())).detach()


@pytest.mark.parametrize("norm", [0.05, 1e3])
def test_a_step_is_the_sum_of_the_cases_one_by_one(torch, published, made, norm):
    """By torch alone, where all are clipped and where none is."""
    layers, values = made
    expected = 0.0
    for case in values:
        gradients = torch.autograd.grad((layers(case[None]) ** 2).sum(), list(layers.parameters()))
        gradient = torch.cat([each.flatten() for each in gradients])
        expected = expected + gradient * min(1.0, norm / float(gradient.norm()))
    found = step(torch, published, layers, values, norm)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_one_case_moves_a_step_by_the_clip_at_most(torch, published, made):
    layers, values = made
    moved = step(torch, published, layers, values, 0.05)
    moved = moved - step(torch, published, layers, values[1:], 0.05)
    assert 0.01 < float(moved.norm()) <= 0.05 + 1e-5


def test_an_empty_batch_is_noise_alone(torch, published, made):
    """It is a step like the others."""
    layers, values = made
    assert not step(torch, published, layers, values[:0], 1.0).any()
    assert step(torch, published, layers, values[:0], 1.0, multiplier=1.0).all()


def test_noise_has_the_deviation_that_is_asked_for(torch, published):
    """Of 20,000 numbers: within 5 %, which is ten standard errors."""
    torch.manual_seed(1)
    many = torch.nn.Sequential(torch.nn.Linear(200, 100))
    found = step(torch, published, many, torch.zeros(0, 200), 0.5, multiplier=4.0, batch=10)
    assert float(found.std()) == pytest.approx(0.2, rel=0.05)
    assert abs(float(found.mean())) < 0.02


def test_outside_of_what_is_recorded_a_network_is_itself(torch, published, made):
    """What a critic is asked beside its own steps is no part of them."""
    layers, values = made
    optimizer = torch.optim.SGD(layers.parameters(), 1.0)
    steps = published.NoisySteps(layers, optimizer, 0.05, 0.0, 1)
    with steps.recorded():
        found = layers(values)
    torch.autograd.grad((layers(values[:2]) ** 2).sum(), list(layers.parameters()))
    before = torch.nn.utils.parameters_to_vector(layers.parameters()).detach()
    steps.step((found**2).flatten(1).sum(dim=1))
    moved = before - torch.nn.utils.parameters_to_vector(layers.parameters()).detach()
    assert 0.01 < float(moved.norm()) <= 7 * 0.05 + 1e-5


def test_batches_hold_each_case_with_the_same_chance(torch, published):
    """Small logs are one batch; large ones have as many steps as the epochs take."""
    torch.manual_seed(1)
    whole_log = published.Batches.of(np.array([3, 2]), 64, 4)
    drawn = [codes.tolist() for _, codes in whole_log.drawn("training")]
    assert drawn == [[0, 0, 0, 1, 1]] * 4
    large = published.Batches.of(np.array([500, 500]), 100, 3)
    sizes = [len(codes) for _, codes in large.drawn("training")]
    assert len(sizes) == 30
    # 3,000 cases on average, with a standard deviation of 52.
    assert abs(sum(sizes) - 3000) < 400


def test_one_hot_vectors_and_counts(torch, published):
    codes = torch.tensor([2, 0, 2])
    assert published.one_hot(codes, 3).tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 1]]
    assert published.count_codes([codes, codes[:1]], 4).tolist() == [1, 0, 3, 0]
    assert list(published.portions(2 * published.AT_ONCE + 1)) == [2048, 2048, 1]


CASES = np.array([60, 3, 1])


def test_the_embedding_tells_steps_apart(published):
    """Sines and cosines of each step, as many as the network is wide."""
    found = published.embedding(20, 6)
    assert found.shape == (20, 6)
    assert found[0].tolist() == [0, 1, 0, 1, 0, 1]
    assert float(found[3, 0]) == pytest.approx(np.sin(3))
    assert float(found[3, 3]) == pytest.approx(np.cos(3 * 10_000 ** (-1 / 3)), rel=1e-5)


def test_without_noise_frequent_variants_are_drawn_more_often(published):
    """More than twice a fair share of the frequent one would be, half of what there is."""
    with published.seeded(1):
        denoiser = published.Denoiser(3, 100)
        published.train_denoiser(denoiser, 3, published.Batches.of(CASES, 64, 300), 0.0, 64)
        codes = published.drawn_codes(denoiser, (500, 3))
    assert published.count_codes([codes], 3)[0] > 300


def test_where_nothing_is_learned_all_variants_are_drawn_alike(published):
    """The uniform draw over the source's variants: the rare ones as often as the frequent one."""
    with published.seeded(1):
        silent = published.Denoiser(3, 10).requires_grad_(False)
        for weights in silent.parameters():
            weights.zero_()
        codes = published.drawn_codes(silent, (3000, 3))
    # 1,000 of each, with a standard deviation of 26.
    assert (abs(published.count_codes([codes], 3) - 1000) < 200).all()


VARIANTS = np.array([30, 20, 14])


@pytest.fixture(scope="module")
def learned(published):
    """An autoencoder, a generator and what they learn from; clipped, without noise."""
    with published.seeded(1):
        batches = published.Batches.of(VARIANTS, 8, 60)
        autoencoder = published.Autoencoder(3, 8)
        published.train_autoencoder(autoencoder, 3, batches, 0.0, 8)
        return autoencoder, published.train_generator(autoencoder, 3, 8, batches, 0.0, 8)


def test_without_noise_the_autoencoder_learns_its_variants(torch, learned):
    """Each is decoded from its own code."""
    autoencoder, _ = learned
    codes = autoencoder.encoder(torch.eye(3))
    assert autoencoder.decoder(codes).argmax(dim=1).tolist() == [0, 1, 2]


def test_the_discriminator_pulls_the_generator_towards_what_there_is(torch, learned, seeded):
    """Without noise, the frequent variant is drawn more often than the rare one."""
    autoencoder, generator = learned
    noise = torch.randn(500, 8, generator=seeded(2))
    drawn = autoencoder.decoder(generator(noise)).argmax(dim=1)
    counts = torch.bincount(drawn, minlength=3).tolist()
    assert counts[0] > counts[2]


def test_the_figures_say_how_much_noise_there_was(published):
    """Steps and multiplier of each network; as many cases as there are."""
    both = TravagPublishedParams(
        published=1.0, delta=1e-4, epochs=5, adversarial_epochs=3, batch=32, code=4
    )
    drawn, figures = published.draw_by_travag(both, VARIANTS, 7)
    assert drawn.dtype == np.int64 and drawn.sum() == 64
    assert figures["steps of the decoder"] == 10
    assert figures["steps of the discriminator"] == 6
    least = figures["noise multiplier of the discriminator"]
    assert figures["noise multiplier of the decoder"] > least > 1
    one = DdpmPublishedParams(published=1.0, delta=1e-4, epochs=5, batch=32, steps=5)
    drawn, figures = published.draw_by_diffusion(one, CASES, 7)
    assert drawn.dtype == np.int64 and drawn.sum() == 64
    assert figures["steps of the training"] == 10
    assert figures["noise multiplier"] > 1


def test_one_case_moves_what_the_decoder_learns_from_all_others(torch, published):
    """The flaw: the clip bounds what a case adds to a step by itself, and the noise covers no more.
    But the encoder learns from every case without noise, so that one case changes the codes of all
    others, and with these their gradients.
    """
    common = torch.tensor([0] * 40 + [1] * 20)
    torch.manual_seed(1)
    begun = published.Autoencoder(3, 13)
    found = []
    for cases in (common, torch.cat([common, torch.tensor([2])])):
        autoencoder = copy.deepcopy(begun)
        descent = torch.optim.Adam(autoencoder.encoder.parameters(), published.RATE)
        for _ in range(120):
            descent.zero_grad()
            decoder_losses(torch, published, autoencoder, cases).sum().backward()
            descent.step()
        optimizer = torch.optim.SGD(autoencoder.decoder.parameters(), 1.0)
        clip = published.DECODER_CLIP
        steps = published.NoisySteps(autoencoder.decoder, optimizer, clip, 0.0, 1)
        with steps.recorded():
            losses = decoder_losses(torch, published, autoencoder, common)
        steps.step(losses)
        found.append(torch.nn.utils.parameters_to_vector(autoencoder.decoder.parameters()))
    assert float((found[0] - found[1]).detach().norm()) > 0.2 * published.DECODER_CLIP


def decoder_losses(torch, published, autoencoder, cases):
    """Of each case."""
    targets = published.one_hot(cases, 3)
    return torch.nn.functional.binary_cross_entropy_with_logits(
        autoencoder.decoder(autoencoder.encoder(targets)), targets, reduction="none"
    ).mean(dim=1)
