"""HIP-style streams on in-order queues of OpenCL, Level Zero and SYCL devices, at the cost of the driver call."""

from typing import TYPE_CHECKING

from forebay.tracing import begin_by_environment as _begin_by_environment

if TYPE_CHECKING:
    from forebay.face import *  # noqa: F403

    __version__: str
else:  # or every name would exist for a type checker

    def __getattr__(name):
        if name == "__version__":
            from importlib.metadata import version  # it takes longer than a thousand launches

            return version("forebay")
        names = _import_names() if name == "__all__" or not name.startswith("_") else {}
        if name in names:
            return names[name]
        from forebay.other_names import instead_of

        raise AttributeError(f"forebay has no {name!r}{instead_of(name)}", name=name)

    def __dir__():
        return sorted({*_import_names(), "__version__"})

    def _import_names():
        """Import what `forebay.face` offers, and return all names there are."""
        from importlib import import_module

        face = import_module("forebay.face")  # ``from forebay import face`` would come here again
        offered = {name: value for name, value in vars(face).items() if not name.startswith("_")}
        names = globals()
        names |= offered | names | {"__all__": [*offered, "__version__"]}
        return names


_begin_by_environment()
