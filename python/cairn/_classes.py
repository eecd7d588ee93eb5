"""Classes that a tree may hold: those that are only data, and those that a caller allows."""
from __future__ import annotations

from typing import Any, Iterable

from . import _errors


class Placeholder:
    """Stands for an object of a class that was not allowed. It has no behaviour.

    ``args`` and ``kwargs`` are what the object was made with, ``state`` its attributes. ``items``
    and ``entries`` are its content if its class is a kind of list or dict.
    ``type(placeholder).__module__`` and ``__qualname__`` name the class.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Placeholder:
        made = object.__new__(cls)
        made.args = args
        made.kwargs = kwargs
        made.state = None
        made.items = []
        made.entries = {}
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def append(self, item: Any) -> None:
        """Adds one of the items."""
        self.items.append(item)

    def extend(self, items: Iterable[Any]) -> None:
        """Adds items."""
        self.items.extend(items)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.entries[key] = value

    def __repr__(self) -> str:
        return f"<placeholder for {class_name(type(self))}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise _errors.UnsupportedError(
            f"a placeholder for {class_name(type(self))} cannot be saved; list the class in "
            "allow= when the checkpoint is loaded")


def class_name(kind: type) -> str:
    """"package.module.Outer.Inner", as in messages and in allow=."""
    return f"{kind.__module__}.{kind.__qualname__}"


def placeholder_class(module: str, name: str) -> type:
    """A class that stands for another one."""
    return type(name.rpartition(".")[2], (Placeholder,),
                {"__module__": module, "__qualname__": name})


def allowed_classes(allow: Iterable[type]) -> dict[tuple[str, str], type]:
    """The classes of allow= by module and name."""
    if isinstance(allow, type):
        raise _errors.UsageError(f"allow= is a list of classes: allow=[{allow.__qualname__}]")
    found = {}
    for kind in allow:
        if not isinstance(kind, type):
            raise _errors.UsageError(f"allow= lists classes, and {kind!r} is not one")
        found[kind.__module__, kind.__qualname__] = kind
    return found
