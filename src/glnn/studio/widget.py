"""The studio in a notebook: the page's script in a shadow root, its messages to the session."""

from collections.abc import Callable, Mapping
from typing import Any

from glnn._utils import import_optional
from glnn.exceptions import GlnnError
from glnn.studio.page import Session, widget_script


def make_widget(session: Session) -> Any:
    """Return a widget that shows a session and labels its rows; see :meth:`LabelSession.widget`.

    The script asks ``{"number", "want", "message"}`` and gets ``{"number", "answer"}`` or
    ``{"number", "error"}``. A message without a number says that something has changed.
    """
    base = import_optional("anywidget").AnyWidget

    class StudioWidget(base):  # type: ignore[misc]
        """A session in a notebook."""

        _esm = widget_script()

        def __init__(self) -> None:
            super().__init__()
            self._forget = session.listen(lambda: self.send({}))
            self.on_msg(lambda _, content, __: self.send(answer(session, content)))

        def close(self) -> None:
            """Take the widget away; the session stays open."""
            forget, self._forget = self._forget, lambda: None
            forget()
            super().close()

    return StudioWidget()


def answer(session: Session, content: Any) -> dict[str, Any]:
    """Return the answer to a message of the script; what fails becomes one line."""
    asked = content if isinstance(content, Mapping) else {}
    calls: dict[str, Callable[[], Any]] = {
        "act": lambda: session.act(asked.get("message", {})),
        "map": session.map_data,
        "labels": session.labels_csv,
    }
    try:
        return {"number": asked.get("number"), "answer": calls[str(asked.get("want"))]()}
    except GlnnError as error:
        words = str(error)
    except Exception as error:
        words = f"the session failed: {type(error).__name__}: {error}"
    return {"number": asked.get("number"), "error": words}
