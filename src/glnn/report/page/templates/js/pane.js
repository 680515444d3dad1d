// One canvas of the map. The scene is drawn once for a view; while the view moves, that picture is
// shifted and scaled, and it is redrawn when the view stops moving or if drawing is fast.
const QUICK_MS = 14;
const REST_MS = 90;

function makePane(canvas, model, view, fatesOf) {
  const context = canvas.getContext("2d");
  let scene = null;
  let drawn = null;
  let cost = 0;
  let timer = 0;
  let waiting = false;
  let look = null;

  function size() {
    const box = canvas.getBoundingClientRect();
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    return { width: Math.max(1, Math.round(box.width)), height: Math.max(1, Math.round(box.height)), ratio };
  }

  function drawScene() {
    const { width, height, ratio } = size();
    const started = performance.now();
    const frame = view.frame(width, height);
    scene = makeScene(model, { ...look, ratio, zoom: view.zoom() }, fatesOf(look), frame, width, height);
    drawn = { frame, key: view.key(), width, height, ratio };
    cost = performance.now() - started;
  }

  function compose() {
    waiting = false;
    if (!look || !canvas.offsetWidth) return;
    const { width, height, ratio } = size();
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
      [canvas.width, canvas.height] = [width * ratio, height * ratio];
    }
    const fresh = drawn && drawn.width === width && drawn.height === height && drawn.ratio === ratio;
    if (!fresh || (drawn.key !== view.key() && cost < QUICK_MS)) drawScene();
    const frame = view.frame(width, height);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const grown = frame.scale / drawn.frame.scale;
    const left = frame.left - drawn.frame.left * grown;
    const top = frame.top - drawn.frame.top * grown;
    context.globalAlpha = look.selected >= 0 ? look.faint : 1;
    context.drawImage(scene, left, top, width * grown, height * grown);
    context.globalAlpha = 1;
    const radius = radiusFor(model.n, view.zoom(), Math.min(width, height));
    drawChosen(context, model, look, fatesOf(look), frame, radius);
    canvas.dataset.drawn = drawn.key === view.key() ? "sharp" : "moving";
    if (drawn.key !== view.key()) sharpenLater();
  }

  function sharpenLater() {
    clearTimeout(timer);
    timer = setTimeout(() => { drawn = null; request(); }, REST_MS);
  }

  function request() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(compose);
  }

  return {
    canvas, size, request,
    show(newLook) {
      look = newLook;
      drawn = null;
      request();
    },
    mark(changes) {
      Object.assign(look, changes);
      request();
    },
  };
}

// Draw the selected node with its links and neighbours, and the hovered node, above the scene.
function drawChosen(context, model, look, fates, frame, radius) {
  const at = (node) => [frame.left + model.x[node] * frame.scale, frame.top + model.y[node] * frame.scale];
  const { selected, hovered, theme } = look;
  if (selected >= 0) {
    const [x, y] = at(selected);
    for (const link of model.links(selected)) {
      if (!fates[model.fate[link]]) continue;
      const [nx, ny] = at(model.other(link, selected));
      context.strokeStyle = theme.fates[model.fate[link]];
      context.setLineDash(model.fate[link] === 2 ? [5, 4] : []);
      context.lineWidth = 1 + 4 * (model.weight[link] / 65535);
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(nx, ny);
      context.stroke();
      drawRing(context, model, look, model.other(link, selected), nx, ny, radius + 2, 1.5);
    }
    context.setLineDash([]);
    labelWeights(context, model, look, fates, at);
    drawRing(context, model, look, selected, x, y, radius + 4, 3);
  }
  if (hovered >= 0) drawRing(context, model, look, hovered, ...at(hovered), radius + 3, 2);
}

function drawRing(context, model, look, node, x, y, radius, width) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = look.nodes[node].colour;
  context.fill();
  context.lineWidth = width;
  context.strokeStyle = look.theme.ink;
  context.stroke();
}

const N_LABELLED = 8;

function labelWeights(context, model, look, fates, at) {
  const heavy = [...model.links(look.selected)]
    .filter((link) => model.fate[link] !== 2 && fates[model.fate[link]])
    .sort((a, b) => model.weight[b] - model.weight[a]);
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  for (const link of heavy.slice(0, N_LABELLED)) {
    const [x, y] = at(look.selected);
    const [nx, ny] = at(model.other(link, look.selected));
    if (Math.hypot(nx - x, ny - y) < 40) continue;
    const text = model.linkWeight(link).toFixed(2);
    context.lineWidth = 3;
    context.strokeStyle = look.theme.ground;
    context.strokeText(text, (x + nx) / 2, (y + ny) / 2);
    context.fillStyle = look.theme.ink;
    context.fillText(text, (x + nx) / 2, (y + ny) / 2);
  }
}
