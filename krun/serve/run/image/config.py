"""The configuration of an image, as far as a container needs it (OCI image-spec, config.md)."""

from typing import Any, NamedTuple

from krun.serve.run.errors import StartError


class Config(NamedTuple):
    """What a container takes from its image: the `config` object of the image configuration."""

    entrypoint: list[str]
    command: list[str]
    env: list[str]
    working_dir: str
    user: str
    ports: list[int]
    labels: dict[str, str]
    stop_signal: str

    def to_json(self) -> dict[str, Any]:
        """Return the object from which `of` makes the same Config."""
        return {
            "Entrypoint": self.entrypoint,
            "Cmd": self.command,
            "Env": self.env,
            "WorkingDir": self.working_dir,
            "User": self.user,
            "ExposedPorts": {f"{port}/tcp": {} for port in self.ports},
            "Labels": self.labels,
            "StopSignal": self.stop_signal,
        }


class Image(NamedTuple):
    """An image that can be run: digest of its manifest (or of its content), configuration, directories of its layers.

    The layers stand in the order of overlayfs' lowerdir: the uppermost first.
    """

    digest: str
    config: Config
    layers: list[str]


def of(config: Any, where: str) -> Config:
    """Read the `config` object of an image; the image is hostile, so that every type is checked.

    Arguments: config, the object or None; where, the image's name for the message. Raises StartError (ErrImagePull).
    """
    if config is None:
        config = {}
    if not isinstance(config, dict):
        raise StartError("ErrImagePull", f"image {where}: its configuration is no object")
    ports = []
    for port in _typed(config, "ExposedPorts", dict, where):
        number, _, protocol = str(port).partition("/")
        if number.isdecimal() and len(number) < 6 and protocol in ("", "tcp") and 0 < int(number) < 65536:
            ports.append(int(number))
    return Config(
        entrypoint=_words(config, "Entrypoint", where),
        command=_words(config, "Cmd", where),
        env=[entry for entry in _words(config, "Env", where) if "=" in entry],
        working_dir=_typed(config, "WorkingDir", str, where),
        user=_typed(config, "User", str, where),
        ports=ports,
        labels={str(k): str(v) for k, v in _typed(config, "Labels", dict, where).items()},
        stop_signal=_typed(config, "StopSignal", str, where),
    )


def _typed(config: dict[str, Any], key: str, kind: type, where: str) -> Any:
    value: Any = config.get(key)
    if value is None:
        return kind()
    if not isinstance(value, kind) or (isinstance(value, str) and "\0" in value):
        raise StartError("ErrImagePull", f"image {where}: its configuration's {key} is malformed")
    return value


def _words(config: dict[str, Any], key: str, where: str) -> list[str]:
    words = _typed(config, key, list, where)
    if not all(isinstance(word, str) and "\0" not in word for word in words):
        raise StartError("ErrImagePull", f"image {where}: its configuration's {key} is malformed")
    return list(words)
