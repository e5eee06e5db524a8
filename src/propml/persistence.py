"""Saved models: one safetensors file, arrays beside JSON, no pickle; nothing in it can run.

The arrays lie in the body; what is not an array (parameters, label names, numbers) is JSON in the header, together with
a SHA-256 digest of everything, so that a file which was cut short or changed is refused.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.atomic_files import write_whole
from propml.schema import checked_csr

# Raised when an older reader could not make sense of a newer file.
FORMAT = 1

State = dict[str, Any]


def write_state(path: str | Path, kind: str, state: State) -> None:
    """Write what :func:`state_bytes` makes, whole or not at all."""
    write_whole(path, state_bytes(kind, state))


def state_bytes(kind: str, state: State) -> bytes:
    """Nested dicts, lists, arrays and JSON values as a file that class ``kind`` reads; equal states, equal bytes."""
    from safetensors.numpy import save

    from propml import __version__

    arrays: dict[str, np.ndarray] = {}
    outline = json.dumps(_outline(state, "", arrays), ensure_ascii=False, allow_nan=False)
    header = {"format": str(FORMAT), "kind": kind, "propml": __version__, "state": outline}
    header["sha256"] = _digest(header, arrays)
    return _ordered(save(arrays, metadata=header))


def read_state(path: str | Path) -> tuple[str, State]:
    """The kind and the state in a file; a damaged one raises anything: call this inside ``file_errors.reading``."""
    from safetensors import safe_open

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no saved model at {path}")
    with safe_open(path, framework="numpy") as file:
        header = dict(file.metadata() or {})
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    if "format" not in header or "sha256" not in header:
        raise ValueError(f"{path} was not written by propml; load it with the library that wrote it")
    if int(header["format"]) > FORMAT:
        raise ValueError(f"{path} has format {header['format']} of propml {header['propml']}; install that one")
    if _digest({key: value for key, value in header.items() if key != "sha256"}, arrays) != header["sha256"]:
        raise ValueError(f"{path} was changed after it was saved (its checksum does not match); save it again")
    return header["kind"], _filled(json.loads(header["state"]), arrays)


def json_array(value: Any) -> np.ndarray:
    """Plain values as an array, for long lists: the header of a safetensors file takes 100 MB."""
    return np.frombuffer(json.dumps(value, ensure_ascii=False).encode(), dtype=np.uint8)


def from_json_array(array: np.ndarray) -> Any:
    """What :func:`json_array` was given."""
    return json.loads(array.tobytes())


def _ordered(data: bytes) -> bytes:
    """The same file with a sorted header: the library's order is that of a hash map, and differs from call to call."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8:end]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # the arrays begin at a multiple of eight bytes
    return b"".join([len(header).to_bytes(8, "little"), header, memoryview(data)[end:]])


def _digest(header: dict[str, str], arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _outline(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """The value as JSON, its arrays put aside under their names."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        arrays[name] = np.ascontiguousarray(value)
        return {"array": name}
    if isinstance(value, np.ndarray):
        return {"list array": value.tolist(), "dtype": "object" if value.dtype.kind == "O" else "str"}
    if sp.issparse(value):
        matrix = sp.csr_array(value)
        parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
        return {"csr": _outline(parts, name, arrays), "shape": list(matrix.shape)}
    if isinstance(value, dict):
        return {"dict": {str(key): _outline(item, f"{name}/{key}", arrays) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        items = [_outline(item, f"{name}/{i}", arrays) for i, item in enumerate(value)]
        return {"list" if isinstance(value, list) else "tuple": items}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"{name.strip('/')} is a {type(value).__name__}, which cannot be saved; arrays and plain values can"
    )


def _filled(outline: Any, arrays: dict[str, np.ndarray]) -> Any:
    if not isinstance(outline, dict):
        return outline
    if "array" in outline:
        return arrays[outline["array"]]
    if "list array" in outline:
        return np.array(outline["list array"], dtype=object if outline["dtype"] == "object" else None)
    if "csr" in outline:
        parts = _filled(outline["csr"], arrays)
        return checked_csr(parts["data"], parts["indices"], parts["indptr"], outline["shape"])
    if "dict" in outline:
        return {key: _filled(item, arrays) for key, item in outline["dict"].items()}
    if "float" in outline:
        return float(outline["float"])
    if "tuple" in outline:
        return tuple(_filled(item, arrays) for item in outline["tuple"])
    return [_filled(item, arrays) for item in outline["list"]]
