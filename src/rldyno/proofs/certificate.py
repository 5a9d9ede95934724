"""A certificate as a value: what was proven, how closely, and whether it holds for code that ran.

Nothing is started here. `prove.py` makes certificates, `store.py` keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from rldyno.errors import Problem
from rldyno.proofs.judgement import incomplete
from rldyno.records.seal import read_record
from rldyno.records.typed import typed
from rldyno_rig import identity
from rldyno_rig.contestant import Contestant
from rldyno_rig.facts_file import WorkerFacts
from rldyno_rig.hyper import MLP
from rldyno_rig.job_files import ProofSubject
from rldyno_rig.proof.rung import Rung
from rldyno_rig.shape import Shape

Json = dict[str, Any]

VALID, STALE, ABSENT, FAILED = "valid", "stale", "absent", "failed"
GUEST = "guest"
"""Of scripts of the user's: what they compute is their own, so there is nothing to prove."""
STATES = (VALID, STALE, ABSENT, FAILED, GUEST)


A_GUEST = "a script of its own, not proven to compute what the reference computes"
NO_SHAPE = "the sizes that ran were not proven, only smaller ones: the trial is older than such proofs"


class Validity(NamedTuple):
    """Whether a trial's figures may be ranked."""

    state: str
    """One of STATES."""
    reason: str | None
    """Why it is not valid, or why a valid one is in doubt."""


@dataclass(frozen=True)
class Subject:
    """What one certificate is about."""

    contestant: Contestant
    algorithm: str
    network: str
    """mlp or cnn."""
    device: str
    shape: Shape | None = None
    """Of a study, proven in its own sizes; None: small forms of the algorithm, proven on the whole ladder."""
    collective: str | None = None
    """Of teams, whose averages are proven; None: the learner of one worker."""
    own_gpus: bool = False
    """Each worker of the team has a GPU of its own. A collective may go another way where they share one."""

    @staticmethod
    def of(contestant: str, algorithm: str, network: str, device: str) -> Subject:
        return Subject(Contestant.parse(contestant), algorithm, network, device)

    @property
    def framework(self) -> str:
        return self.contestant.framework

    @property
    def proof(self) -> ProofSubject:
        """What the rig must know of it."""
        return ProofSubject(self.algorithm, self.network, self.shape, self.collective)

    def in_a_team(self, collective: str, *, share_gpu: bool = False) -> Subject:
        """What must be proven besides where several workers average their gradients. How they do so does not
        depend on the network: a small one shows it.
        """
        own_gpus = self.device != "cpu" and not share_gpu
        return replace(self, network=MLP, shape=None, collective=collective, own_gpus=own_gpus)

    @property
    def form(self) -> str:
        """`mlp`, `collective host` or `4 → 64-64 tanh → 2, act 8, update 64 rows (1f0a)`."""
        if self.collective is not None:
            return f"collective {self.collective}" + (", a GPU each" if self.own_gpus else "")
        return self.network if self.shape is None else str(self.shape)

    def __lt__(self, other: Subject) -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[Contestant, str, str, str, str, str, bool]:
        kind = str(self.shape or ""), self.collective or "", self.own_gpus
        return self.contestant, self.algorithm, self.network, self.device, *kind

    def to_json(self) -> Json:
        written: Json = {
            "contestant": str(self.contestant),
            "algorithm": self.algorithm,
            "network": self.network,
            "device": self.device,
        }
        if self.collective is not None:
            written["collective"] = self.collective
        if self.own_gpus:
            written["own_gpus"] = True
        return written if self.shape is None else {**written, "shape": self.shape.to_json()}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Subject:
        keys = ("contestant", "algorithm", "network", "device")
        subject = Subject.of(*(raw.get(key) or "" for key in keys))
        shape = raw.get("shape")
        given = None if shape is None else Shape.from_json(shape)
        own_gpus = bool(raw.get("own_gpus"))
        return replace(subject, shape=given, collective=raw.get("collective"), own_gpus=own_gpus)

    def __str__(self) -> str:
        return f"{self.contestant} {self.algorithm} {self.form}"


@dataclass(frozen=True)
class Code:
    """What computed: the code that a certificate is about, and the packages that it ran with."""

    backend_sha256: str
    reference_sha256: str
    versions: Mapping[str, str]

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Code:
        return Code(
            raw.get("backend_sha256") or "", raw.get("reference_sha256") or "", raw.get("versions") or {}
        )

    @staticmethod
    def of(facts: WorkerFacts) -> Code:
        return Code(facts.backend_sha256, facts.reference_sha256, facts.versions)

    def difference(self, other: Code) -> str | None:
        """What `other` has that this code has not, in words; None where both are the same."""
        if self.backend_sha256 != other.backend_sha256:
            return "the backend changed after it was proven"
        if self.reference_sha256 != other.reference_sha256:
            return "the reference or the ladder changed after it was proven"
        for package in sorted(self.versions.keys() | other.versions.keys()):
            proven, ran = self.versions.get(package), other.versions.get(package)
            if proven != ran:
                return f"proven with {package} {proven or '(none)'}, ran with {ran or '(none)'}"
        return None


@dataclass(frozen=True)
class Certificate:
    """The proof that a contestant computes what the reference computes, for one algorithm and network.

    It is judged from its rungs alone: all that we require, with our limits, and errors within them. The
    `passed` of a file is for readers.
    """

    subject: Subject
    code: Code
    rungs: tuple[Rung, ...]
    error: str | None = None
    """Why the proof broke off: neither proven nor refuted."""
    without_limit: Mapping[str, str] = field(default_factory=dict)
    """Precision that is only reported → why it does not work here."""
    made_at: str = ""
    circumstances: Mapping[str, Any] = field(default_factory=dict)
    """What else the process reported: its Python, NumPy, the rig's hash, the backend's own facts."""

    @property
    def contestant(self) -> str:
        return str(self.subject.contestant)

    @property
    def proven(self) -> bool:
        return not (self.refuted or self.incomplete)

    @property
    def refuted(self) -> bool:
        """What was tried failed, be it a whole proof or a part of one."""
        return bool(self.error or self.broken)

    @cached_property
    def broken(self) -> tuple[Rung, ...]:
        """Those whose error is not within their limit."""
        return tuple(rung for rung in self.rungs if not rung.passed)

    @cached_property
    def incomplete(self) -> str | None:
        """What makes it less than a whole proof, as we require it."""
        return self._incomplete(many_updates=False)

    def _incomplete(self, many_updates: bool) -> str | None:
        subject = self.subject
        return incomplete(subject.proof, subject.device, self.rungs, self.without_limit, many_updates)

    def worst(self, dtype: str) -> float | None:
        """Largest error of the rungs that have a limit."""
        limited = [rung for rung in self.rungs if rung.dtype == dtype and rung.tolerance is not None]
        return max((rung.error for rung in limited if rung.is_error), default=None)

    def validity(self, ran: Code | None, many_updates: bool = False) -> Validity:
        """For a trial that ran this code; None where the trial left no facts.

        One that made several updates in one call needs the rung that proves them: what a certificate lacks
        is not decided by the certificate.
        """
        if ran is None:
            return Validity(STALE, "the trial left no facts to compare the certificate with")
        changed = self.code.difference(ran)
        if changed is not None:
            return Validity(STALE, changed)
        if self.error:
            return Validity(FAILED, self.error)
        if self.broken:
            names = ", ".join(rung.name for rung in self.broken)
            return Validity(FAILED, f"disagrees with the reference at {names}")
        lack = self._incomplete(many_updates=True) if many_updates else self.incomplete
        if lack and self.code.reference_sha256 != reference_hash():
            return Validity(STALE, f"it was made by another version of the proofs: {lack}")
        return Validity(FAILED if lack else VALID, lack)

    def sentence(self) -> str:
        """One line: what was proven, and how closely."""
        if self.proven:
            return f"{self.subject}: proven, worst float64 error {self._number('float64')}{self._tf32()}"
        if self.error:
            return f"{self.subject}: NOT PROVEN, {self.error}"
        if not self.broken:
            return f"{self.subject}: NOT PROVEN, {self.incomplete}"
        count = f"({len(self.broken)} of {len(self.rungs)} rungs failed)"
        return f"{self.subject}: NOT PROVEN, {self.broken[0].failure()} {count}"

    def part_sentence(self) -> str:
        """The same where only some rungs or precisions were tried."""
        if self.refuted:
            return self.sentence()
        if not self.rungs:
            return f"{self.subject}: it has no such rung in this precision"
        count = f"{len(self.rungs)} rung{'' if len(self.rungs) == 1 else 's'}"
        return f"{self.subject}: {count} passed; a part of a proof makes no certificate"

    def _number(self, dtype: str) -> str:
        worst = self.worst(dtype)
        return "unknown" if worst is None else f"{worst:.1e}"

    def _tf32(self) -> str:
        """How far TensorFloat-32 is from the reference, where that was tried."""
        failure = self.without_limit.get("tf32")
        if failure:
            return f"; TF32 does not work here: {failure[:120]}"
        errors = {rung.name: rung.error for rung in self.rungs if rung.dtype == "tf32"}
        if not errors:
            return ""
        forward, trained = errors["forward"], errors["weights after 100"]
        return f"; TF32 is off by {forward:.0e} forward, {trained:.0e} after 100 updates"

    def to_json(self) -> Json:
        return {
            **self.subject.to_json(),
            "passed": self.proven,
            "error": self.error,
            "not_judged": dict(self.without_limit),
            "rungs": [rung.to_json() for rung in self.rungs],
            "backend_sha256": self.code.backend_sha256,
            "reference_sha256": self.code.reference_sha256,
            "versions": dict(self.code.versions),
            "made_at": self.made_at,
            **self.circumstances,
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Certificate:
        return Certificate(
            subject=Subject.from_json(raw),
            code=Code.from_json(raw),
            rungs=tuple(Rung.from_json(rung) for rung in raw.get("rungs") or ()),
            error=raw.get("error"),
            without_limit=raw.get("not_judged") or {},
            made_at=raw.get("made_at") or "",
            circumstances={name: value for name, value in raw.items() if name not in _OWN_KEYS},
        )


_OWN_KEYS = frozenset(
    {
        *Certificate(Subject.of("", "", "", ""), Code("", "", {}), ()).to_json(),
        "shape",
        "collective",
        "own_gpus",
    }
)


@cache
def reference_hash() -> str:
    """Of the reference and the ladder of this version."""
    return identity.reference_hash()


def best_validity(
    certificates: Iterable[Certificate], ran: Code | None, many_updates: bool = False
) -> Validity:
    """Of several certificates of a trial's subject."""
    order = (VALID, FAILED, STALE)
    found = [certificate.validity(ran, many_updates) for certificate in certificates]
    return min(found, key=lambda one: order.index(one.state), default=Validity(ABSENT, "never proven"))


def trial_validity(
    certificates: Mapping[Subject, Sequence[Certificate]],
    subject: Subject,
    facts: WorkerFacts | None,
    team: Subject | None = None,
) -> Validity:
    """Of a trial: its algorithm must be proven as a whole, in the shape that ran and, of a team, in the way
    in which it averaged gradients.

    `team`: what must be proven of that; None for one worker. Trials from before shapes were proven count,
    with the reason why that may be doubted.
    """
    alone = _worker_validity(certificates, subject, facts)
    if team is None or facts is None or alone.state != VALID:
        return alone
    found = best_validity(certificates.get(team, ()), Code.of(facts))
    if found.state == VALID:
        return alone
    return Validity(found.state, f"the {team.form}: {found.reason}")


def _worker_validity(
    certificates: Mapping[Subject, Sequence[Certificate]], subject: Subject, facts: WorkerFacts | None
) -> Validity:
    if facts is None:
        return best_validity(certificates.get(subject, ()), None)
    ran, many_updates = Code.of(facts), facts.updates_per_call > 1
    whole = best_validity(certificates.get(subject, ()), ran, many_updates)
    if whole.state != VALID:
        return whole
    if facts.shape is None:
        return Validity(VALID, NO_SHAPE)
    of_shape = certificates.get(replace(subject, shape=facts.shape), ())
    found = best_validity(of_shape, ran, many_updates)
    if found.state == VALID:
        return found
    return Validity(found.state, f"in the shape that ran ({facts.shape}): {found.reason}")


def read_certificate(path: Path) -> Certificate:
    """A Problem when the file is missing, damaged or altered."""
    values = read_record(path)
    values.pop("schema", None)
    return typed(path, values, Certificate.from_json)


def read_certificates(home: Path, flaws: list[str]) -> tuple[Certificate, ...]:
    """Those in a results directory; what is wrong with the others is added to `flaws`."""
    found = []
    for path in sorted(home.glob("*.json")):
        try:
            found.append(read_certificate(path))
        except Problem as problem:
            flaws.append(problem.message)
    return tuple(found)
