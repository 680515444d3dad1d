// Mouse, touch and keys on a canvas: dragging and pinching move the view, a click selects.
const STILL_PX = 4;

function listenToPointer(pane, view, moved, at, actions) {
  const { canvas } = pane;
  const pressed = new Map();
  let travelled = 0;
  const local = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pressed.set(event.pointerId, local(event));
    if (pressed.size === 1) travelled = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const place = local(event);
    if (!pressed.has(event.pointerId)) {
      actions.hover(at(pane, ...place), place);
      return;
    }
    const before = pressed.get(event.pointerId);
    travelled += Math.hypot(place[0] - before[0], place[1] - before[1]);
    const { width, height } = pane.size();
    if (pressed.size === 2) pinch(pressed, event.pointerId, place, view, width, height);
    else if (travelled > STILL_PX) view.move(place[0] - before[0], place[1] - before[1], width, height);
    pressed.set(event.pointerId, place);
    moved();
  });
  const release = (event) => {
    if (pressed.delete(event.pointerId) && event.type === "pointerup" && travelled <= STILL_PX) {
      actions.select(at(pane, ...local(event)));
    }
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => actions.hover(-1, [0, 0]));
  listenToWheel(pane, view, moved, local);
  listenToKeys(pane, view, moved, at, actions);
}

function pinch(pressed, id, place, view, width, height) {
  const [other] = [...pressed].filter(([key]) => key !== id).map(([, value]) => value);
  const before = pressed.get(id);
  const spread = (a) => Math.hypot(a[0] - other[0], a[1] - other[1]) || 1;
  view.zoomAt(spread(place) / spread(before), other[0], other[1], width, height);
}

// The wheel scrolls the page until the map has the focus, so that scrolling does not stop at the map.
function listenToWheel(pane, view, moved, local) {
  pane.canvas.addEventListener("wheel", (event) => {
    if (pane.canvas.getRootNode().activeElement !== pane.canvas && !event.ctrlKey) return;
    event.preventDefault();
    const { width, height } = pane.size();
    view.zoomAt(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)), ...local(event), width, height);
    moved();
  }, { passive: false });
}

function listenToKeys(pane, view, moved, at, actions) {
  const step = 48;
  const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
  pane.canvas.addEventListener("keydown", (event) => {
    const { width, height } = pane.size();
    if (moves[event.key]) view.move(...moves[event.key], width, height);
    else if (event.key === "+" || event.key === "=") view.zoomAt(1.4, width / 2, height / 2, width, height);
    else if (event.key === "-") view.zoomAt(1 / 1.4, width / 2, height / 2, width, height);
    else if (event.key === "0") view.reset();
    else if (event.key === "Escape") { actions.select(-1); actions.hover(-1, [0, 0]); }
    else if (event.key === "Enter") actions.select(at(pane, width / 2, height / 2, Math.max(width, height)));
    else return;
    event.preventDefault();
    moved();
  });
}
