// The map: one or two panes with the same view, a tooltip and a legend, in a document or a shadow root.
const REACH_PX = 12;

function makeMap(model, state, root = document) {
  const view = makeView(model);
  let nearest = makeGrid(model);
  const learned = root.getElementById("map-learned");
  const given = root.getElementById("map-given");
  const onlyGiven = (look) => [look.fates[0], false, look.fates[2]];
  const notDropped = (look) => [look.fates[0], look.fates[1], look.sideBySide ? false : look.fates[2]];
  const panes = [makePane(learned, model, view, notDropped)];
  if (given) panes.push(makePane(given, model, view, onlyGiven));
  const request = () => panes.forEach((pane) => pane.request());

  function at(pane, px, py, reach = REACH_PX) {
    const { width, height } = pane.size();
    const frame = view.frame(width, height);
    return nearest((px - frame.left) / frame.scale, (py - frame.top) / frame.scale, reach / frame.scale);
  }

  for (const pane of panes) {
    listenToPointer(pane, view, request, at, {
      hover: (node, place) => { showTip(model, root, pane.canvas, node, place); state.set({ hovered: node }); },
      select: (node) => state.set({ selected: node }),
    });
    new ResizeObserver(request).observe(pane.canvas);
  }

  function show(now) {
    const theme = readTheme(root);
    const nodes = Array.from({ length: model.n }, (_, node) => nodeLook(model, theme, now.mode, node));
    const keep = Uint8Array.from({ length: model.n }, (_, node) => isKept(model, now, node));
    const marks = Uint8Array.from({ length: model.n }, (_, node) => nodeMark(model, now.mode, node));
    const look = { theme, nodes, keep, marks, ...now };
    panes.forEach((pane) => pane.show({ ...look }));
    showLegend(model, root, theme, now.mode);
  }

  state.listen(["mode", "minWeight", "perNode", "fates", "cell", "filter", "sideBySide", "paint"], show);
  state.listen(["model"], (now) => { // its arrays were replaced
    nearest = makeGrid(model);
    view.fit();
    show(now);
  });
  state.listen(["hovered", "selected"], (now) => {
    panes.forEach((pane) => pane.mark({ hovered: now.hovered, selected: now.selected }));
  });
  show(state.get());

  const middle = (factor) => {
    const { width, height } = panes[0].size();
    view.zoomAt(factor, width / 2, height / 2, width, height);
    request();
  };
  return {
    zoomIn: () => middle(1.5),
    zoomOut: () => middle(1 / 1.5),
    reset() { view.reset(); request(); },
    goTo(node) {
      view.centre(model.x[node], model.y[node], Math.max(3, Math.sqrt(model.n) / 12));
      request();
      state.set({ selected: node });
      root.getElementById("map").scrollIntoView();
    },
  };
}

function showLegend(model, root, theme, mode) {
  const list = root.getElementById("legend");
  list.replaceChildren(...legendEntries(model, theme, mode).map((entry) => {
    const item = document.createElement("li");
    const mark = document.createElement("i");
    mark.className = `mark shape-${entry.shape}`;
    mark.style.background = entry.colour;
    item.append(mark, `${entry.name} (${entry.count.toLocaleString("en")})`);
    return item;
  }), ...markEntries(model, mode));
}

function markEntries(model, mode) {
  const nodes = Array.from({ length: model.n }, (_, node) => nodeMark(model, mode, node));
  const named = [["rim: given label", 1], [mode === "error" ? "large: wrong" : "large: suspect label", 2]];
  return named.filter(([, mark]) => nodes.includes(mark)).map(([words, mark]) => {
    const item = element("li");
    item.append(element("i", undefined, `mark rim-${mark}`), words);
    return item;
  });
}

// The columns of the tooltip: few, so that it stays small.
const N_TIP_COLUMNS = 6;

function showTip(model, root, canvas, node, place) {
  const tip = root.getElementById("tip");
  tip.hidden = node < 0;
  if (node < 0) return;
  const lines = [
    ["strong", model.ids[node]],
    ["span", `known label: ${model.className(model.truth[node])}${model.seen(node) ? " (given)" : ""}`],
    ["span", `prediction: ${model.className(model.predicted[node])}`],
    ...model.ranked(node).slice(0, 3).map(([c, p]) => ["span", `${model.classes[c]}: ${percent(p, 1)}`]),
    ...model.table.slice(0, N_TIP_COLUMNS).map(({ name }, k) => ["small", `${name}: ${model.cell(k, node) || "–"}`]),
  ];
  tip.replaceChildren(...lines.map(([kind, text]) => {
    const line = document.createElement(kind);
    line.textContent = text;
    return line;
  }));
  const box = canvas.getBoundingClientRect();
  const frame = tip.offsetParent.getBoundingClientRect();
  const left = box.left - frame.left + place[0] + 14;
  tip.style.left = `${Math.max(4, Math.min(left, frame.width - tip.offsetWidth - 4))}px`;
  tip.style.top = `${box.top - frame.top + place[1] + 14}px`;
}
