"""What happens to an object between the client and the store, in the API server's order.

1. fields: unknown ones are pruned, refused or warned of (fieldValidation); types are checked;
2. a v1alpha1 shape becomes v1;
3. defaults (the mutating webhook), the user's annotations;
4. required fields of the schema;
5. the validating webhook;
6. the API server's own rules of names, labels, data.

Sources: Kubernetes "Dynamic Admission Control", "Field validation"; knative/serving cmd/webhook.
"""

from collections.abc import Callable
from typing import Any

from krun.serve.model import defaults, meta, schema, v1alpha1, validate
from krun.serve.model.kinds import Kind
from krun.serve.model.names import generate
from krun.serve.model.options import Options
from krun.serve.model.status import bad_request, denied, invalid

Object = dict[str, Any]


def check_type(kind: Kind, version: str, obj: Any) -> None:
    """Refuses a body that is no object of `kind`. Errors: ApiError 400."""
    if not isinstance(obj, dict):
        raise bad_request(f"the body is no {kind.kind}: an object is wanted")
    found, wanted = obj.get("apiVersion"), kind.api_version(version)
    if found and found != wanted:
        raise bad_request(
            f"the API version in the data ({found}) does not match the expected API version ({wanted})"
        )
    if obj.get("kind") and obj["kind"] != kind.kind:
        raise bad_request(f"{obj['kind']} in the data does not match the expected kind ({kind.kind})")
    if not isinstance(obj.get("metadata", {}), dict):
        raise bad_request("the body's metadata is no object")


def place(kind: Kind, obj: Object, namespace: str, name: str = "") -> None:
    """Puts namespace and name of the request's path into `obj`. Errors: ApiError 400, the object says otherwise."""
    data = obj.setdefault("metadata", {}) or {}
    obj["metadata"] = data
    if kind.namespaced:
        if data.get("namespace") and data["namespace"] != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        data["namespace"] = namespace
    if name:
        if data.get("name") and data["name"] != name:
            raise bad_request(
                f"the name of the object ({data['name']}) does not match the name on the URL ({name})"
            )
        data["name"] = name


class Admission:
    """The steps for one request.

    Arguments: options, Knative's configuration; user, who asks; validation, the request's fieldValidation; check, refuses an
    object by rules of the server's own (ConfigMaps of Knative).
    """

    def __init__(
        self,
        options: Options,
        user: str,
        validation: str,
        check: Callable[[Kind, Object], None] = lambda kind, obj: None,
    ) -> None:
        self.options = options
        self.check = check
        self.user = user
        self.validation = validation
        #: Fields that the body has twice.
        self.duplicates: list[str] = []
        #: Lines for Warning fields of the answer.
        self.warnings: list[str] = []

    def admit(self, kind: Kind, version: str, obj: Object, old: Object | None) -> Object:
        """Returns the v1 object that may be stored. Errors: ApiError 400, 422.

        Arguments: obj, the client's, with namespace and name in place; old, the stored object of an update.
        """
        alpha = version == v1alpha1.VERSION
        pruned, walk = v1alpha1.prune(kind, obj) if alpha else schema.prune(kind, obj)
        self._unknown(kind, version, walk.unknown)
        if walk.causes:
            raise invalid(kind, meta.name(obj), walk.causes)
        pruned.setdefault("metadata", {})
        if kind.generation:
            pruned.setdefault("spec", {})
        if alpha:
            converted, errors = v1alpha1.to_v1(kind, pruned)
            if errors:
                raise denied(errors.text())
            shape = meta.annotations(converted)[v1alpha1.SHAPE]
            pruned = converted
        meta.keep_hidden(pruned, old)
        if alpha:
            meta.meta(pruned).setdefault("annotations", {})[v1alpha1.SHAPE] = shape
        if not (alpha and v1alpha1.is_manual(pruned) and kind.schema == "services"):
            self._webhooks(kind, pruned, old)
        data = meta.meta(pruned)
        if old is None and not data.get("name") and data.get("generateName"):
            data["name"] = generate(str(data["generateName"]))
        causes = validate.server(kind, pruned)
        if causes:
            raise invalid(kind, meta.name(pruned), causes)
        self.check(kind, pruned)
        return pruned

    def _webhooks(self, kind: Kind, obj: Object, old: Object | None) -> None:
        if kind.group:
            defaults.apply(kind, obj, old, self.options, self.user)
        else:
            validate.core_defaults(kind, obj)
        causes = schema.check_required(kind, obj)
        if causes:
            raise invalid(kind, meta.name(obj), causes)
        if not kind.group:
            return
        errors = validate.webhook(kind, obj, old, self.options)
        if errors:
            raise denied(errors.text())
        self.warnings += errors.warnings()

    def _unknown(self, kind: Kind, version: str, paths: list[str]) -> None:
        found = [f'unknown field "{path}"' for path in sorted(paths)]
        found += [f'duplicate field "{name}"' for name in sorted(set(self.duplicates))]
        if not found or self.validation == "Ignore":
            return
        if self.validation == "Strict":
            raise bad_request(
                f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}: strict decoding error: '
                + ", ".join(found)
            )
        self.warnings += found
