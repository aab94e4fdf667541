"""What the callbacks share: a session for each optimiser step, opened around what saves tensors."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from ..board import open_board
from ..offloading import Report, Session, offload

_BOARD = "board"


class Steps:
    """A training run through `actdma.offload`, with a session for each optimiser step.

    ``options``: those of `actdma.offload`, without the model; refused here, not in the first step,
    if they are wrong. ``backend="board"``, the default, is a board of the run's own, from `open` to
    `close`. ``report``: that of the latest step that has ended, None before it. What is pickled or
    copied are the options: sessions and boards belong to a running process.
    """

    def __init__(self, **options: Any) -> None:
        # No board is opened yet: another one refuses the same options.
        elsewhere = {"backend": "reference"} if self._wants_board(options) else {}
        offload(**{**options, **elsewhere})
        self.report: Report | None = None
        self._options = options
        self._run: contextlib.ExitStack | None = None
        self._new_session: Callable[[], Session] | None = None
        self._session: Session | None = None
        self._inside = False

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["options"])

    def open(self, model: nn.Module, owner: object, method: str) -> None:
        """Have ``owner.method``, which runs ``model`` and makes its loss, run in sessions until
        `close`. `actdma.BoardError` if a board is wanted and cannot be opened."""
        self.close()
        with contextlib.ExitStack() as run:
            options = dict(self._options)
            if self._wants_board(options):
                options["backend"] = run.enter_context(open_board())
            self._new_session = functools.partial(offload, model, **options)
            run.enter_context(_replaced(owner, method, self._within(getattr(owner, method))))
            self._run = run.pop_all()

    def end_step(self) -> dict[str, float]:
        """The optimiser has stepped: the scalars of the step (`Report.scalars`), which is in
        `report` from now on; none if nothing has run in a session."""
        if self._session is None:
            return {}
        session, self._session = self._session, None
        self.report = session.report()
        return self.report.scalars()

    def close(self) -> None:
        """Have all as it was before `open`; what was closed already stays closed."""
        run, self._run = self._run, None
        self._session = self._new_session = None
        if run is not None:
            run.close()

    @staticmethod
    def _wants_board(options: dict[str, Any]) -> bool:
        return options.get("backend", _BOARD) == _BOARD

    def _within(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """``method`` in the session of this step. Micro-batches of a step enter the same session
        one after the other; without gradients (validation) there is nothing to pack."""

        @functools.wraps(method)
        def run(*args: Any, **kwargs: Any) -> Any:
            if self._inside or self._new_session is None or not torch.is_grad_enabled():
                return method(*args, **kwargs)
            if self._session is None:
                self._session = self._new_session()
            self._inside = True
            try:
                with self._session:
                    return method(*args, **kwargs)
            finally:
                self._inside = False

        return run


@contextlib.contextmanager
def _replaced(owner: object, name: str, value: Any) -> Iterator[None]:
    """``owner.name`` is ``value`` meanwhile, for this object alone."""
    own = vars(owner)
    before = {name: own[name]} if name in own else {}
    setattr(owner, name, value)
    try:
        yield
    finally:
        del own[name]
        own.update(before)
