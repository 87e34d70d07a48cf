"""Validation of annotations: autoscaling, rollout, progress deadline, sidecar resources.

Sources: knative/serving pkg/apis/autoscaling/annotation_validation.go, pkg/apis/serving/metadata_validation.go,
pkg/apis/serving/v1/revision_validation.go; knative/networking pkg/apis/networking/metadata_validation.go.
"""

import math

from krun.serve import units
from krun.serve.model.fielderror import (
    Errors,
    FieldError,
    invalid_key,
    invalid_value,
    out_of_bounds,
)
from krun.serve.model.kinds import SERVING
from krun.serve.model.meta import PROGRESS_DEADLINE, ROLLOUT_DURATION, first
from krun.serve.model.options import Options

GROUP = "autoscaling.knative.dev"
KPA = f"kpa.{GROUP}"
HPA = f"hpa.{GROUP}"
_SECOND = 10**9
_WINDOW_MIN, _WINDOW_MAX = 6 * _SECOND, 3600 * _SECOND
_MAX_INT32 = 2**31 - 1
_QUEUE = f"queue.sidecar.{SERVING}"
_QUEUE_RESOURCES = [
    f"{_QUEUE}/{resource}-resource-{what}"
    for resource in ("cpu", "memory", "ephemeral-storage")
    for what in ("request", "limit")
]


def _keys(name: str) -> tuple[str, str]:
    head, *rest = name.split("-")
    return f"{GROUP}/{name}", f"{GROUP}/{head}{''.join(part.capitalize() for part in rest)}"


#: Annotation -> (key, older camel-case key).  The readers of the values (control/, scale/) use them, too.
CLASS = _keys("class")
METRIC = _keys("metric")
TARGET = _keys("target")
TARGET_UTILIZATION = _keys("target-utilization-percentage")
TARGET_BURST = _keys("target-burst-capacity")
WINDOW = _keys("window")
PANIC_WINDOW = _keys("panic-window-percentage")
PANIC_THRESHOLD = _keys("panic-threshold-percentage")
MIN_SCALE = _keys("min-scale")
MAX_SCALE = _keys("max-scale")
INITIAL_SCALE = _keys("initial-scale")
ACTIVATION_SCALE = _keys("activation-scale")
SCALE_DOWN_DELAY = _keys("scale-down-delay")
RETENTION = _keys("scale-to-zero-pod-retention-period")
ALGORITHM = _keys("metric-aggregation-algorithm")

#: Annotations of networking.knative.dev that may be set.
_NETWORKING = {
    "networking.knative.dev/" + name
    for name in (
        "ingress-class ingress.class certificate-class certificate.class disable-external-domain-tls disableExternalDomainTLS"
        " disable-auto-tls disableAutoTLS http-option httpOption http-protocol httpProtocol rollout"
    ).split()
}


def autoscaling(notes: dict[str, str], options: Options) -> Errors:
    """Returns the errors of the autoscaling annotations in `notes` (paths are the keys)."""
    errors = Errors()
    found = first(notes, CLASS)
    if found and found[1].endswith("." + GROUP) and found[1] not in (KPA, HPA):
        errors.add(invalid_value(found[1], found[0]))
    errors.add(_scales(notes, options), _floats(notes), _durations(notes), _metric(notes, options))
    found = first(notes, ALGORITHM)
    algorithms = ("", "linear", "weighted-exponential", "weightedExponential")
    if found and notes.get(CLASS[0], "") == KPA and found[1] not in algorithms:
        errors.add(invalid_value(found[1], found[0]))
    return errors.add(_initial(notes, options))


def _integer(notes: dict[str, str], keys: tuple[str, str], errors: Errors) -> int:
    found = first(notes, keys)
    if found is None:
        return 0
    key, text = found
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        errors.add(invalid_value(text, key))
        return 0
    number = int(text) if len(text) < 20 else _MAX_INT32 + 1
    if not 0 <= number <= _MAX_INT32:
        errors.add(out_of_bounds(text, 0, _MAX_INT32, key))
        return 0
    return number


def _scales(notes: dict[str, str], options: Options) -> Errors:
    errors = Errors()
    low, high = _integer(notes, MIN_SCALE, errors), _integer(notes, MAX_SCALE, errors)
    if high and high < low:
        errors.add(FieldError(f"max-scale={high} is less than min-scale={low}", [MAX_SCALE[0], MIN_SCALE[0]]))
    found = first(notes, MAX_SCALE)
    limit = options.max_scale_limit
    if found and limit:
        if high > limit:
            errors.add(out_of_bounds(high, 1, limit, found[0]))
        if high == 0:
            errors.add(FieldError(f"max-scale=0 (unlimited), must be less than {limit}", [found[0]]))
    found = first(notes, ACTIVATION_SCALE)
    if found:
        key, text = found
        digits = text[1:] if text[:1] in ("+", "-") else text
        if not (digits.isascii() and digits.isdigit() and len(digits) < 11 and int(digits) <= _MAX_INT32):
            return errors.add(invalid_value(text, key))
        number = int(text)
        if low > number:
            errors.add(FieldError(f"min-scale={low} is greater than activation-scale={number}", [key]))
        elif high and high < number:
            errors.add(FieldError(f"max-scale={high} is less than activation-scale={number}", [key]))
        elif number < 2:
            errors.add(FieldError(f"activation-scale={number} must be greater than 1", [key]))
    return errors


def _float(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    # Go's webhook lets not-a-number and infinity through; the autoscaler could not compute with them.
    return number if math.isfinite(number) and "_" not in text else None


def _floats(notes: dict[str, str]) -> Errors:
    errors = Errors()
    for keys, low, high in (
        (PANIC_WINDOW, 1.0, 100.0),
        (PANIC_THRESHOLD, 110.0, 1000.0),
        (TARGET_UTILIZATION, 1, 100),
    ):
        found = first(notes, keys)
        if found is None:
            continue
        number = _float(found[1])
        if number is None:
            errors.add(invalid_value(found[1], found[0]))
        elif not low <= number <= high:
            errors.add(out_of_bounds(found[1], low, high, found[0]))
    found = first(notes, TARGET)
    if found:
        number = _float(found[1])
        if number is None:
            errors.add(invalid_value(found[1], found[0]))
        elif number < 0.01:
            errors.add(FieldError(f"target {found[1]} should be at least 0.01", [found[0]]))
    found = first(notes, TARGET_BURST)
    if found:
        number = _float(found[1])
        if number is None or number < 0 and number != -1:
            errors.add(invalid_value(found[1], found[0]))
    return errors


def _durations(notes: dict[str, str]) -> Errors:
    errors = Errors()
    for keys, low, whole in (
        (WINDOW, _WINDOW_MIN, True),
        (RETENTION, 0, False),
        (SCALE_DOWN_DELAY, 0, True),
    ):
        found = first(notes, keys)
        if found is None:
            continue
        key = keys[0] if keys is WINDOW else found[0]
        try:
            length = units.duration(found[1])
        except ValueError:
            errors.add(invalid_value(found[1], key))
            continue
        if not low <= length <= _WINDOW_MAX:
            bounds = units.duration_text(low), units.duration_text(_WINDOW_MAX)
            errors.add(out_of_bounds(found[1], *bounds, key))
        elif whole and length % _SECOND:
            errors.add(FieldError("must be specified with at most second precision", [key]))
    return errors


def _metric(notes: dict[str, str], options: Options) -> Errors:
    found = first(notes, METRIC)
    if found is None:
        return Errors()
    chosen = first(notes, CLASS)
    scaler = chosen[1] if chosen else options.autoscaler_class
    if scaler == KPA and found[1] not in ("concurrency", "rps") or scaler == HPA and not found[1]:
        return Errors([invalid_value(found[1], METRIC[0])])
    return Errors()


def _initial(notes: dict[str, str], options: Options) -> Errors:
    found = first(notes, INITIAL_SCALE)
    if found is None:
        return Errors()
    key, text = found
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        return Errors([invalid_value(text, key)])
    if int(text) < 0:
        return Errors([invalid_value(text, key + " must be greater than 0")])
    if int(text) == 0 and not options.allow_zero_initial_scale:
        return Errors([invalid_value(text, key + "=0 not allowed by cluster")])
    return Errors()


def misplaced(notes: dict[str, str]) -> Errors:
    """Returns an error for each autoscaling annotation on an object that must have none (Service, Configuration, Route)."""
    text = 'autoscaling annotations must be put under "spec.template.metadata.annotations" to work'
    return Errors(invalid_key(key, "", text) for key in notes if key.startswith(GROUP))


def networking(notes: dict[str, str]) -> Errors:
    """Returns an error for each unknown annotation of networking.knative.dev."""
    return Errors(
        invalid_key(key, "")
        for key in notes
        if key.startswith("networking.knative.dev") and key not in _NETWORKING
    )


def seconds(notes: dict[str, str], keys: tuple[str, ...], word: str) -> Errors:
    """Returns the errors of an annotation that is a positive duration of whole seconds."""
    found = first(notes, keys)
    if found is None or not found[1]:
        return Errors()
    key, text = found
    try:
        length = units.duration(text)
    except ValueError:
        return Errors([invalid_value(text, key)])
    if length % _SECOND:
        return Errors([FieldError(f"{word}={text} is not at second precision", [key])])
    if length < 0:
        return Errors([FieldError(f"{word}={text} must be positive", [key])])
    return Errors()


def rollout_duration(notes: dict[str, str]) -> Errors:
    """Returns the errors of serving.knative.dev/rollout-duration."""
    return seconds(notes, ROLLOUT_DURATION, "rollout-duration")


def progress_deadline(notes: dict[str, str]) -> Errors:
    """Returns the errors of serving.knative.dev/progress-deadline."""
    return seconds(notes, PROGRESS_DEADLINE[:1], "progress-deadline")


def queue_sidecar(notes: dict[str, str]) -> Errors:
    """Returns the errors of the sidecar's resource annotations. krun serve has no sidecar: they change nothing else."""
    errors = Errors()
    found = first(notes, (f"{_QUEUE}/resource-percentage", f"{_QUEUE}/resourcePercentage"))
    if found:
        key, text = found
        warning = FieldError(
            "Queue proxy resource percentage annotation is deprecated. Please use the available annotations to explicitly"
            " set resource values per service",
            [f"[{key}]"],
            warning=True,
        )
        errors.add(warning)
        number = _float(text)
        if number is None:
            errors.add(invalid_value(text, f"[{key}]"))
        elif not 0.1 <= number <= 100:
            errors.add(out_of_bounds(number, 0.1, 100, f"[{key}]"))
    for key in _QUEUE_RESOURCES:
        if key in notes:
            try:
                units.quantity(notes[key])
            except ValueError:
                errors.add(invalid_value(notes[key], f"[{key}]"))
    return errors
