"""THE table of fields that a Knative object may set, where the CRD's schema knows more than Knative allows.

Source: knative/serving pkg/apis/serving/fieldmask.go. A field that the schema does not know was pruned before. A value
with a feature's key is allowed unless that feature is Disabled.
"""

from typing import Any

from krun.serve.model import fielderror
from krun.serve.model.options import Options

#: Structure -> field -> True, or the key of config-features that allows it.
ALLOWED: dict[str, dict[str, bool | str]] = {
    "pod": {
        **dict.fromkeys(
            (
                "serviceAccountName",
                "containers",
                "volumes",
                "imagePullSecrets",
                "enableServiceLinks",
                # Only false is allowed: podspec.py.
                "automountServiceAccountToken",
                "timeoutSeconds",
                "responseStartTimeoutSeconds",
                "idleTimeoutSeconds",
                "containerConcurrency",
                # Fields of its own are checked one by one: podspec.py.
                "securityContext",
            ),
            True,
        ),
        "affinity": "kubernetes.podspec-affinity",
        "topologySpreadConstraints": "kubernetes.podspec-topologyspreadconstraints",
        "hostAliases": "kubernetes.podspec-hostaliases",
        "nodeSelector": "kubernetes.podspec-nodeselector",
        "runtimeClassName": "kubernetes.podspec-runtimeclassname",
        "tolerations": "kubernetes.podspec-tolerations",
        "shareProcessNamespace": "kubernetes.podspec-shareprocessnamespace",
        "priorityClassName": "kubernetes.podspec-priorityclassname",
        "schedulerName": "kubernetes.podspec-schedulername",
        "initContainers": "kubernetes.podspec-init-containers",
        "dnsPolicy": "kubernetes.podspec-dnspolicy",
        "dnsConfig": "kubernetes.podspec-dnsconfig",
        "hostIPC": "kubernetes.podspec-hostipc",
        "hostPID": "kubernetes.podspec-hostpid",
        "hostNetwork": "kubernetes.podspec-hostnetwork",
    },
    "container": dict.fromkeys(
        (
            "name args command env workingDir envFrom image imagePullPolicy livenessProbe ports readinessProbe resources"
            " securityContext startupProbe terminationMessagePath terminationMessagePolicy volumeMounts"
        ).split(),
        True,
    ),
    "volume": {
        "name": True,
        "secret": True,
        "configMap": True,
        "projected": True,
        "emptyDir": "kubernetes.podspec-volumes-emptydir",
        "persistentVolumeClaim": "kubernetes.podspec-persistent-volume-claim",
        "hostPath": "kubernetes.podspec-volumes-hostpath",
        "csi": "kubernetes.podspec-volumes-csi",
        "ephemeral": "kubernetes.podspec-volumes-ephemeral",
        "image": "kubernetes.podspec-volumes-image",
    },
    "volumeMount": {
        **dict.fromkeys(("name", "readOnly", "mountPath", "subPath"), True),
        "mountPropagation": "kubernetes.podspec-volumes-mount-propagation",
    },
    "podSecurityContext": dict.fromkeys(
        ("runAsUser", "runAsGroup", "runAsNonRoot", "fsGroup", "supplementalGroups", "seccompProfile"),
        "kubernetes.podspec-securitycontext",
    ),
    "securityContext": dict.fromkeys(
        (
            "capabilities readOnlyRootFilesystem runAsUser runAsGroup runAsNonRoot allowPrivilegeEscalation seccompProfile"
            # Only false is allowed: container.py.
            " privileged"
        ).split(),
        True,
    ),
    "containerPort": dict.fromkeys(("containerPort", "name", "protocol"), True),
    "env": dict.fromkeys(("name", "value", "valueFrom"), True),
    "valueFrom": {
        "configMapKeyRef": True,
        "secretKeyRef": True,
        "fieldRef": "kubernetes.podspec-fieldref",
        "resourceFieldRef": "kubernetes.podspec-fieldref",
    },
    "envFrom": dict.fromkeys(("prefix", "configMapRef", "secretRef"), True),
    "resources": dict.fromkeys(("limits", "requests"), True),
    "projection": dict.fromkeys(("secret", "configMap", "serviceAccountToken", "downwardAPI"), True),
}

#: Volumes behind a feature: field -> (words of the refusal, field of the source that is named, "" = the volume's name).
VOLUME_WORDS = {
    "image": "Image volume support is disabled, but found Image volume",
    "emptyDir": "EmptyDir volume support is disabled, but found EmptyDir volume",
    "hostPath": "HostPath volume support is disabled, but found HostPath volume",
    "csi": "CSI volume support is disabled, but found CSI volume",
    "ephemeral": "Ephemeral volume support is disabled, but found Ephemeral volume",
}


def is_set(value: Any) -> bool:
    """Whether a Go client would have set the field: neither absent nor the zero value."""
    return value is not None and value != "" and value is not False and value != 0


def check(structure: str, value: dict[str, Any], options: Options) -> fielderror.Errors:
    """Returns an error that names the fields of `value` that a `structure` may not set."""
    allowed = ALLOWED[structure]
    bad = []
    for name, item in value.items():
        rule = allowed.get(name)
        if rule is True or not is_set(item):
            continue
        if rule is None or rule is False or options.off(rule):
            bad.append(name)
    return fielderror.Errors([fielderror.disallowed(*sorted(bad))] if bad else [])
