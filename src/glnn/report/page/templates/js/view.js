// The visible part of the unit square, in whose middle the nodes lie: its centre and its scale in pixels.
const LEAST_SPAN = 0.3;

function makeView(model) {
  const view = { x: 0.5, y: 0.5, zoom: 1 };
  let [wide, high] = [1, 1];
  const span = (axis) => axis.reduce((most, x) => Math.max(most, x), 0) - axis.reduce((least, x) => Math.min(least, x), 1);
  const scaleFor = (width, height) => 0.94 * Math.min(width / wide, height / high) * view.zoom;
  const fit = () => { [wide, high] = [model.x, model.y].map((axis) => Math.max(LEAST_SPAN, span(axis))); };
  fit();
  return {
    fit,
    ...{ reset() { Object.assign(view, { x: 0.5, y: 0.5, zoom: 1 }); } },
    key: () => `${view.x},${view.y},${view.zoom}`,
    zoom: () => view.zoom,
    frame(width, height) {
      const scale = scaleFor(width, height);
      return { scale, left: width / 2 - view.x * scale, top: height / 2 - view.y * scale };
    },
    move(dx, dy, width, height) {
      const scale = scaleFor(width, height);
      view.x = Math.min(1.2, Math.max(-0.2, view.x - dx / scale));
      view.y = Math.min(1.2, Math.max(-0.2, view.y - dy / scale));
    },
    zoomAt(factor, px, py, width, height) {
      const before = this.frame(width, height);
      const x = (px - before.left) / before.scale;
      const y = (py - before.top) / before.scale;
      view.zoom = Math.min(400, Math.max(0.5, view.zoom * factor));
      const scale = scaleFor(width, height);
      view.x = x - (px - width / 2) / scale;
      view.y = y - (py - height / 2) / scale;
    },
    centre(x, y, zoom) {
      Object.assign(view, { x, y, zoom: Math.max(view.zoom, zoom) });
    },
  };
}
