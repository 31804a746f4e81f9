"""What can go wrong for a caller.

LoradeckError
├── InvalidRequest          400  a field of a request is out of range or of the wrong kind
├── ModelNotFound           404  no base, alias or version of that name for this caller
├── AdapterNotFound         404  a control call named an adapter that is not registered
├── NotFound                404  a tenant, user or key of that name does not exist for this caller
├── OperationNotFound       404  no operation of that id for this caller
├── Unauthorized            401  no key or session, or one that does not hold
├── Forbidden               403  the caller's role does not allow it
├── SourceNotAllowed        403  the path or URL is outside the allowed sources
├── AdapterRefused          422  the folder cannot be served on this base, with the field or tensor at fault
├── Conflict                409  the alias is taken, the adapter is busy, a pin would not fit
├── PayloadTooLarge         413  the body is over the cap
├── Overloaded              429  a queue or limit is full; carries retry_after_s
├── NotReady                503  the engine is starting, stopping or stuck
├── RegistryUnavailable     503  the database or the data folder cannot be written now; serving goes on
├── TrainingRefused         422  a training recipe or its data will not do, with the field or line at fault
├── BaseRefused                  the base folder cannot be served (start-up)
└── EngineFault             500  our bug; the request it hit ends, the engine goes on
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

if TYPE_CHECKING:
    from engine.allowance import Headroom


OUTCOME_UNKNOWN = "registry_outcome_unknown"
"""Code of a RegistryUnavailable after which nobody knows yet whether the change was stored."""


class Told(TypedDict, total=False):
    """What an error may say beside its message."""

    code: str | None
    param: str | None
    expected: object
    found: object


class LoradeckError(Exception):
    """A refusal that reaches the caller whole.

    ``code`` is for machines, ``message`` for people: what, why, what to do. ``param`` names the field or tensor,
    ``expected`` and ``found`` are shown as given.
    """

    status = 500
    kind = "internal_error"
    code = "internal_error"

    def __init__(self, message: str, **told: Unpack[Told]) -> None:
        super().__init__(message)
        self.message = message
        self.code = told.get("code") or type(self).code
        self.param = told.get("param")
        self.expected = told.get("expected")
        self.found = told.get("found")


class InvalidRequest(LoradeckError):
    """A field is out of range or of the wrong kind."""

    status = 400
    kind = "invalid_request_error"
    code = "invalid_value"


class ModelNotFound(LoradeckError):
    """No base, alias or version of that name for this caller."""

    status = 404
    kind = "invalid_request_error"
    code = "model_not_found"


class AdapterNotFound(LoradeckError):
    """A control call named an adapter that is not registered."""

    status = 404
    kind = "invalid_request_error"
    code = "adapter_not_found"


class NotFound(LoradeckError):
    """A tenant, user or key of that name does not exist for this caller."""

    status = 404
    kind = "invalid_request_error"
    code = "not_found"


class OperationNotFound(LoradeckError):
    """No operation of that id for this caller."""

    status = 404
    kind = "invalid_request_error"
    code = "operation_not_found"


class Unauthorized(LoradeckError):
    """No key or session, or one that does not hold; the same words for every reason."""

    status = 401
    kind = "authentication_error"
    code = "invalid_api_key"


class Forbidden(LoradeckError):
    """The caller's role does not allow it."""

    status = 403
    kind = "permission_error"
    code = "forbidden"


class SourceNotAllowed(LoradeckError):
    """The source is outside the allowed ones; says nothing about whether it exists."""

    status = 403
    kind = "permission_error"
    code = "source_not_allowed"


class AdapterRefused(LoradeckError):
    """The adapter cannot be served on this base."""

    status = 422
    kind = "invalid_request_error"
    code = "adapter_refused"


class TrainingRefused(LoradeckError):
    """A training recipe or its data will not do."""

    status = 422
    kind = "invalid_request_error"
    code = "training_refused"


class Conflict(LoradeckError):
    """The state forbids it: the alias is taken, the adapter is busy, a pin would not fit.

    ``arithmetic`` holds the lines of the sum that decided, as (label, pages).
    """

    status = 409
    kind = "conflict_error"
    code = "conflict"

    def __init__(self, message: str, *, arithmetic: tuple[tuple[str, int], ...] = (), **told: Unpack[Told]) -> None:
        super().__init__(message, **told)
        self.arithmetic = arithmetic


class PayloadTooLarge(LoradeckError):
    """The body is over the cap."""

    status = 413
    kind = "invalid_request_error"
    code = "payload_too_large"


class Overloaded(LoradeckError):
    """A queue or limit is full."""

    status = 429
    kind = "rate_limit_error"
    code = "rate_limit_exceeded"

    def __init__(self, message: str, *, retry_after_s: float = 1.0, scope: str | None = None, **told: Unpack[Told]) -> None:
        super().__init__(message, **told)
        self.retry_after_s = retry_after_s
        self.scope = scope
        """Whose limit it is: ``tenant acme``, ``key 3f…``; None is the engine's own."""
        self.headroom: Headroom | None = None
        """What is left by the minute, for the answer's headers."""


class NotReady(LoradeckError):
    """The engine is starting, stopping or stuck."""

    status = 503
    kind = "service_unavailable"
    code = "not_ready"


class RegistryUnavailable(LoradeckError):
    """The database or the data folder cannot be written now; nothing was changed, and serving goes on."""

    status = 503
    kind = "service_unavailable"
    code = "registry_unavailable"


class BaseRefused(LoradeckError):
    """The base folder cannot be served; raised at start-up."""

    status = 422
    kind = "invalid_request_error"
    code = "base_refused"


class EngineFault(LoradeckError):
    """Our bug. The request it hit ends with this; the engine goes on."""

    status = 500
    kind = "internal_error"
    code = "engine_fault"
