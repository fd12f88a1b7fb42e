"""What a process model found on the release is worth on the source; by pm4py (extra ``mining``),
loaded here alone.

The inductive miner for infrequent behaviour (Leemans, Fahland, van der Aalst 2013) at 20 % makes
the model. Fitness and precision are token based (Rozinat and van der Aalst 2008; Munoz-Gama and
Carmona 2010), which is fast and close to what alignments give; generalisation counts how often each
part of the model is used (Buijs et al. 2014).
"""

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from typing import Any, Final

from pydantic import Field

from cloakwork.base.errors import MechanismError
from cloakwork.base.quantities import Frozen
from cloakwork.evaluation.control_flow import Histogram

NOISE: Final = 0.2
NAME: Final = "audit/discovery"
_MISSING: Final = "pm4py is not installed; pip install 'cloakwork[mining]'"


class Discovery(Frozen):
    """Quality of a model of the release, tried on the source; each between 0 and 1 (best)."""

    fitness: float = Field(
        title="Model: fitness",
        description="How much of the source a model of the release can replay.",
    )
    precision: float = Field(
        title="Model: precision", description="How little that model allows that the source lacks."
    )
    generalisation: float = Field(
        title="Model: generalisation", description="How often the source uses each of its parts."
    )
    f_score: float = Field(
        title="Model: F-score", description="The harmonic mean of fitness and precision."
    )


def evaluate_discovery(
    source: Histogram,
    release: Histogram,
) -> Discovery:
    """Mine the ``release`` (cases by variant) and try the model on the ``source``.

    Raises MechanismError where pm4py is not installed or one of the logs has no case.
    """
    if not source or not release:
        raise MechanismError(NAME, "there is no case to mine, or none to try the model on")
    try:
        from pm4py.algo.discovery.inductive import algorithm as miner
        from pm4py.algo.evaluation.generalization import algorithm as generalisations
        from pm4py.algo.evaluation.precision import algorithm as precisions
        from pm4py.algo.evaluation.replay_fitness import algorithm as fitnesses
        from pm4py.convert import convert_to_petri_net
    except ImportError as error:
        raise MechanismError(NAME, _MISSING) from error

    # The model is made of the release and tried on the source, never the other way round.
    options = {"noise_threshold": NOISE, "multiprocessing": False}
    tree = miner.apply(
        _as_pm4py(release),
        variant=miner.Variants.IMf,
        parameters=options,
    )
    net = convert_to_petri_net(tree)
    log = _as_pm4py(source)
    quiet = {"show_progress_bar": False, "multiprocessing": False}
    token_replay = fitnesses.Variants.TOKEN_BASED
    replayed = fitnesses.apply(
        log,
        *net,
        variant=token_replay,
        parameters=quiet,
    )
    fitness = replayed["log_fitness"]
    escaping_edges = precisions.Variants.ETCONFORMANCE_TOKEN
    precision = precisions.apply(
        log,
        *net,
        variant=escaping_edges,
        parameters=quiet,
    )
    generalisation = generalisations.apply(log, *net, parameters=quiet)
    total = fitness + precision
    return Discovery(
        fitness=fitness,
        precision=precision,
        generalisation=generalisation,
        f_score=2 * fitness * precision / total if total else 0.0,
    )


def evaluate_in_subprocess(
    source: Histogram,
    release: Histogram,
    seconds: float,
) -> Discovery:
    """``evaluate_discovery`` in a process of its own, which ends itself after ``seconds``: on some
    logs replay takes hours.

    Raises MechanismError as ``evaluate_discovery`` does, and where the time is over or the process
    fails.
    """
    if find_spec("pm4py") is None:
        raise MechanismError(NAME, _MISSING)
    sides = [list(source.items()), list(release.items())]
    # -P keeps the working folder off the child's path; it gets the path of this process.
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        child = subprocess.run(  # noqa: S603 - our own module, without a shell
            [sys.executable, "-P", "-m", __name__],
            input=json.dumps([seconds, *sides]).encode(),
            capture_output=True,
            env=paths,
            check=False,
        )
        if child.returncode == -signal.SIGALRM:
            raise MechanismError(NAME, f"not ended after {seconds:g} s")
        # Libraries may print as well: the answer is the last line.
        answer = json.loads(child.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError) as error:
        raise MechanismError(NAME, "the process that mines the model failed") from error
    # A text is the reason why there are no figures.
    if isinstance(answer, str):
        raise MechanismError(NAME, answer.removeprefix(f"{NAME}: "))
    return Discovery.model_validate(answer)


def _as_pm4py(log: Histogram) -> Any:
    """The log as pm4py's own object; cases of one variant are one trace, several times."""
    from pm4py.objects.log.obj import Event, EventLog, Trace

    traces = EventLog()
    for variant, cases in log.items():
        trace = Trace([Event({"concept:name": label}) for label in variant])
        for _ in range(cases):
            traces.append(trace)
    return traces


if __name__ == "__main__":
    # One line of JSON: the figures, or in one sentence why there are none.
    seconds, *sides = json.loads(sys.stdin.read())
    # Ends this process, however busy it is, also where whoever asked is gone by then.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    source, release = ({tuple(labels): cases for labels, cases in side} for side in sides)
    try:
        print(evaluate_discovery(source, release).model_dump_json())
    except Exception as error:
        print(json.dumps(str(error).partition("\n")[0] or type(error).__name__))
