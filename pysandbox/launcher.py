"""What one Cage starts its commands with: its policy and all that was said of it, and the cages that come from that.

prepare   the Plan of the policy, from the runtime's cache
open      a cage of that plan: a waiting one where there is one, with whoever decides its calls and its network
start     a command in it, sent on its way by `start.start`, and told to the audit
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from pysandbox.audit.told import labels_of, spawn_event
from pysandbox.callback_options import NOBODY_ASKED, CallbackOptions
from pysandbox.errors import PolicyError, StartError
from pysandbox.events import LIMITS_NOT_ENFORCED, LIMITS_SKIPPED, Event, ignore
from pysandbox.policy.model import Policy
from pysandbox.runtime.runtime import default_runtime
from pysandbox.shapes import IO, TYPE_CHECKING, dataclass, replace
from pysandbox.start import start

if TYPE_CHECKING:
    from pysandbox.command import Command, LaunchRequest
    from pysandbox.compile.plan import Plan
    from pysandbox.gate.secrets import CageSecrets
    from pysandbox.gate.sent import LeakCaller, LeakFn
    from pysandbox.launch.scratch import Session
    from pysandbox.live.init import CageInit
    from pysandbox.runtime.prepared import Prepared, TrustedFile
    from pysandbox.runtime.runtime import Runtime
    from pysandbox.supervise.policy_fn import PolicyFn
    from pysandbox.workspace.apart import KeptApart

NONE: Mapping[str, str] = {}
# Seconds before another look: whoever adds an account replaces the same files several times, and is not hurried.
PAUSES = (0.0, 0.005, 0.02, 0.05, 0.1)
TRIES = 1 + len(PAUSES)  # of a start
SYSTEM = ("/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/")  # every cage has them, wherever they are called


@dataclass(slots=True)
class Launcher:
    """Starts the commands of one Cage. It holds no cage itself."""

    start = staticmethod(start)

    runtime: Runtime
    policy: Policy
    cwd: str | None  # in which the policy is read; None: the host's
    session: Session | None  # whose directory is shared, where the plan has one
    labels: dict[str, object]
    callbacks: CallbackOptions
    secrets: CageSecrets | None = None  # None: none was given, and none needed yet
    leak_caller: LeakCaller | None = None  # where the host has a callback for what is sent
    path: str | None = None  # of what the policy shows beside the system; None: nobody has looked yet

    @classmethod
    def of(
        cls, policy: Policy | str | None, cwd: str | os.PathLike[str] | None, session: Session | str | None,
        runtime: Runtime | None, labels: Mapping[str, object] | None,
    ) -> Launcher:  # fmt: skip
        """As `Cage` was given them. Raises PolicyError, TypeError, ValueError."""
        runtime = runtime or default_runtime()
        if policy.__class__ is not Policy:
            policy = policy_of(policy, cwd)
        if runtime.no_sandbox and policy.caged:
            policy = replace(policy, caged=False, strict=False)  # whatever it says (COMP-25)
        told = labels_of(labels, session) if labels or session else {}
        shared = runtime.session(session) if isinstance(session, str) else session
        where = os.path.abspath(cwd) if cwd is not None else None
        return cls(runtime, policy, where, shared, told, NOBODY_ASKED)

    def ask(
        self, policy_fn: PolicyFn | None, watch: Sequence[str] | None, deadline: float, record: IO[str] | None
    ) -> None:
        """Who decides its calls. Raises PolicyError, TypeError, ValueError."""
        self.callbacks = CallbackOptions.of(policy_fn, watch, deadline, record, self.policy.caged)

    def policy_for(self, command: Command) -> Policy:
        """The policy of a cage that one command has to itself. Raises PolicyError."""
        program = command.argv[0]
        if not self.policy.caged or program.startswith(SYSTEM):
            return self.policy
        if "/" not in program and "PATH" in command.env:  # it is looked for there, in the cage
            return self.policy
        if "/" in program and command.cwd is not None:
            program = os.path.join(command.cwd, program)
        return self.runtime.policy_for(self.policy, program, self.cwd or working_directory())

    def on_its_path(self, command: Command, prepared: Prepared, *, in_session: bool) -> Command:
        """The command, with what of the host's PATH its plan shows, as a command of its own has it by `policy_for`:
        one of a session, where the plan was made without knowing it, or the system's own (a shell)."""
        policy = self.policy
        if not (policy.caged and policy.allow) or not (in_session or command.argv[0].startswith(SYSTEM)):
            return command
        if "PATH" in command.env or "PATH" in (*dict(policy.env), *policy.env_passthrough):
            return command
        if self.path is None:
            self.path = self.runtime.commanded.shown_path(prepared)
        return replace(command, env={**command.env, "PATH": self.path}) if self.path else command

    def prepare(self, policy: Policy) -> Prepared:
        """Raises PolicyError, SandboxPathMissing, UnsupportedError."""
        return self.runtime.plans.prepare(
            policy, self.cwd or working_directory(), self.callbacks.watch, self.labels.get("invocation_id")
        )

    def is_warm(self, policy: Policy) -> bool:
        """Whether a cage of this policy already waits."""
        cwd, asks = self.cwd or working_directory(), self.leak_caller is not None
        return self.runtime.is_warm(policy, cwd, self.callbacks.watch, asks)

    def open(self, policy: Policy, prepared: Prepared) -> tuple[CageInit, Prepared]:
        """A cage of this plan that waits for its first order; or of one that is made now, where the host has replaced a
        system file meanwhile. Raises StartError, CageClosedError, UnsupportedError."""
        if prepared.plan.net is not None or prepared.plan.notify is not None:
            _require_threads(prepared.plan)
        if prepared.native.keeps_apart:
            from pysandbox.workspace.apart import begin_apart

            begin_apart(prepared, self.runtime.sink)
        inspected = prepared.plan.net is not None and prepared.plan.net.inspection is not None
        if self.leak_caller is not None:
            self.leak_caller.require_scan(prepared.plan.net)
        take = self._take_inspected if inspected else self._take
        for pause in PAUSES:
            try:
                return take(prepared), prepared
            except StartError as error:
                prepared = self._prepare_again(error, policy, prepared, pause)
        return take(prepared), prepared

    def _prepare_again(self, error: StartError, policy: Policy, failed: Prepared, pause: float) -> Prepared:
        """Raises `error` where another try is none of ours, else waits so many seconds before it looks."""
        from pysandbox.runtime.replaced import may_be_made_again, only_the_base_changed

        if not may_be_made_again(error, policy, failed):
            raise error
        if pause:
            time.sleep(pause)
        again = self.prepare(policy)
        if not only_the_base_changed(policy, failed.paths, again.paths):
            raise error
        return again

    def _take_inspected(self, prepared: Prepared) -> CageInit:
        """With the inspector at hand, where its hosts have contracts, and false values for its secrets."""
        from pysandbox.gate.inspectors import trusting

        assert prepared.plan.net is not None and prepared.plan.net.inspection is not None
        secrets, scan = prepared.plan.net.inspection.secrets, prepared.plan.net.inspection.scan
        placeholders = self._known_secrets().prepare(prepared.plan, secrets) if secrets else NONE
        canaries = NONE
        if scan is not None and scan.canaries:
            from pysandbox.dlp import canary

            canaries = canary.new_values(scan.canaries)
        with trusting(self.runtime, prepared, asks=self.leak_caller is not None) as trusted:
            return self._take(prepared, placeholders, canaries, trusted)

    def _take(
        self, prepared: Prepared, placeholders: Mapping[str, str] = NONE, canaries: Mapping[str, str] = NONE,
        trusted: TrustedFile | None = None,
    ) -> CageInit:  # fmt: skip
        live = self.runtime.take(prepared, self.session if prepared.uses_scratch else None, trusted)
        live.placeholders, live.canaries = placeholders, canaries
        live.id = str(self.labels.get("invocation_id", live.id))
        if prepared.native.keeps_apart:
            from pysandbox.workspace.apart import open_workspace

            open_workspace(self.runtime, live)
        if prepared.plan.notify is not None or prepared.plan.net is not None:
            self.serve(live, prepared)
        return live

    def serve(self, live: CageInit, prepared: Prepared) -> None:
        """Whoever decides its calls and its network has a part in this cage from now on. Raises StartError,
        CageClosedError; the cage ends then."""
        if prepared.plan.notify is not None:
            self.callbacks.supervise(self.runtime, live, prepared)
        if prepared.plan.net is not None:
            if prepared.routed:
                from pysandbox.gate.routed import route

                route(live, prepared.plan, self.runtime.sink)
            from pysandbox.gate.gatekeeper import admit

            secrets = self.secrets if live.placeholders else None
            admit(self.runtime, live, prepared.plan.net, secrets, self.leak_caller)

    def give(self, secrets: Mapping[str, str] | None, leak_fn: LeakFn | None, seconds: float) -> None:
        """Values of secrets that the policy calls "given", and the callback for what is sent. Raises PolicyError,
        TypeError."""
        if secrets:
            from pysandbox.gate.secrets import given_secrets

            self.secrets = given_secrets(self.policy, secrets)
        if leak_fn is None:
            return
        from pysandbox.gate.sent import LeakCaller

        if not self.policy.caged:
            raise PolicyError("nothing that an uncaged command sends is looked at", key="caged",
                              suggestion="leave leak_fn out, or caged")  # fmt: skip
        self.leak_caller = LeakCaller.of(leak_fn, seconds)

    def directory_to_detach(self) -> str:
        """Raises PolicyError where this process is needed as long as the command runs."""
        if self.leak_caller is not None:
            raise PolicyError("leak_fn is asked in this process, and a detached command outlives it", key="leak_fn",
                              suggestion="use run or spawn, or leave leak_fn out")  # fmt: skip
        return self.cwd or working_directory()

    def _known_secrets(self) -> CageSecrets:
        if self.secrets is None:
            from pysandbox.gate.secrets import CageSecrets

            self.secrets = CageSecrets({})
        return self.secrets

    def opened(self, live: CageInit, prepared: Prepared, argv: tuple[str, ...] = ()) -> KeptApart | None:
        """The cage has its order, or is a session (no `argv`): another one takes its place, and it gets a record.
        Returns what keeps apart what it writes, where its policy has that."""
        session = self.session if prepared.uses_scratch else None
        self.runtime.replenish(prepared, live, session, last=bool(argv))
        if self.policy.caged:
            self.runtime.record(live, argv, prepared.plan)
        if not prepared.native.keeps_apart:
            return None
        from pysandbox.workspace.apart import keep_apart

        return keep_apart(self.runtime, live, prepared, argv)

    def tell(self, policy: Policy, request: LaunchRequest) -> None:
        """The events of a command that was started under this policy."""
        sink = self.runtime.sink
        if sink is ignore:
            return
        reason = "daemon_no_sandbox" if self.runtime.no_sandbox else "dsl_disabled"
        sink(spawn_event(policy, request, self.labels, reason))
        for note in request.prepared.plan.notes:
            if note.event == LIMITS_NOT_ENFORCED.name:
                sink(Event(LIMITS_SKIPPED.name, {"invocation_id": request.live.id, "reason": note.message}))


def _require_threads(plan: Plan) -> None:
    """What serves such a cage needs them, and is asked for before there is one. Raises UnsupportedError."""
    from pysandbox.greenlets import require_threads

    if plan.net is not None:
        require_threads("a network that is served (hosts, doors, published ports)")
    if plan.notify is not None:
        require_threads("a cage whose calls are decided outside (a callback, an exec list, a workspace)")


def working_directory() -> str:
    """The host's. Raises PolicyError."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        message = "the working directory was deleted"
        raise PolicyError(message, key="cwd", suggestion="change to another one, or pass cwd=") from None


def policy_of(given: Policy | str | None, cwd: str | os.PathLike[str] | None) -> Policy:
    """Raises PolicyError, TypeError."""
    if isinstance(given, str):
        from pysandbox.policy.compose import resolve

        return resolve((given,), cwd=os.path.abspath(cwd) if cwd is not None else working_directory()).policy
    if given is not None and not isinstance(given, Policy):
        raise TypeError(f"policy must be a Policy, or the name of a recipe, not {type(given).__name__}: "
                        "write Policy(allow=[...])")  # fmt: skip
    return given if given is not None else Policy()
