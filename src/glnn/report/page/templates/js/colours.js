// Colours of nodes and links, read from the style sheet so that they follow the theme.
const N_COLOURS = 10;
const N_SHADES = 8;

function readTheme(root = document) {
  const style = getComputedStyle(root.host ?? document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  const many = (prefix, count) => Array.from({ length: count }, (_, k) => read(`--${prefix}-${k}`));
  return {
    classes: many("class", N_COLOURS), shades: many("shade", N_SHADES),
    ink: read("--ink"), soft: read("--soft"), line: read("--line"), ground: read("--ground"),
    muted: read("--muted"), good: read("--good"), bad: read("--bad"), accent: read("--accent"),
    fates: FATES.map((fate) => read(`--${fate}`)),
  };
}

// The colour and shape of a node under a mode.
function nodeLook(model, theme, mode, node) {
  const byClass = (shifted) => (shifted
    ? { colour: theme.classes[(shifted - 1) % N_COLOURS], shape: Math.floor((shifted - 1) / N_COLOURS) % 3 }
    : { colour: theme.muted, shape: 0 });
  if (mode === "predicted") return byClass(model.predicted[node]);
  if (mode === "truth") return byClass(model.truth[node]);
  if (mode === "confidence") return { colour: theme.shades[shadeOf(model.confidence[node])], shape: 0 };
  if (mode === "error") {
    if (!model.isJudged(node)) return { colour: theme.muted, shape: 0 };
    return model.isWrong(node) ? { colour: theme.bad, shape: 2 } : { colour: theme.good, shape: 0 };
  }
  if (mode === "suspect") {
    if (model.suspect(node)) return { colour: theme.bad, shape: 2 };
    return { colour: model.seen(node) ? theme.good : theme.muted, shape: 0 };
  }
  return groupLook(model, theme, Number(mode), node);
}

// The colour of a node by the value of a column: shades for ranges of numbers, colours for text.
function groupLook(model, theme, column, node) {
  const { groups, ordered } = model.table[column];
  const group = model.group(column, node);
  if (groups[group] === "missing") return { colour: theme.muted, shape: 0 };
  if (!ordered) return { colour: theme.classes[group % N_COLOURS], shape: 0 };
  const last = Math.max(1, groups.filter((name) => name !== "missing").length - 1);
  return { colour: theme.shades[Math.round((group / last) * (N_SHADES - 1))], shape: 0 };
}

// How a node is marked on the map: 2 for a suspect label or an error that the mode is about, 1 for a given label.
function nodeMark(model, mode, node) {
  if (mode === "error") return model.isWrong(node) ? 2 : 0;
  if (model.suspect(node)) return 2;
  return model.seen(node) ? 1 : 0;
}

function shadeOf(confidence) {
  return Math.min(N_SHADES - 1, Math.floor(confidence * N_SHADES));
}

// The entries of the legend under a mode: name, colour, shape, number of nodes.
function legendEntries(model, theme, mode) {
  const found = new Map();
  for (let node = 0; node < model.n; node += 1) {
    const [order, name] = legendKey(model, mode, node);
    const entry = found.get(name);
    if (entry) entry.count += 1;
    else found.set(name, { order, name, count: 1, ...nodeLook(model, theme, mode, node) });
  }
  return [...found.values()].sort((a, b) => a.order - b.order);
}

function legendKey(model, mode, node) {
  if (mode === "predicted") return [model.predicted[node], model.className(model.predicted[node])];
  if (mode === "truth") return [model.truth[node] || 1e6, model.className(model.truth[node])];
  if (mode === "confidence") {
    const shade = shadeOf(model.confidence[node]);
    return [shade, `${percent(shade / N_SHADES)} to ${percent((shade + 1) / N_SHADES)}`];
  }
  if (mode === "error") {
    if (!model.isJudged(node)) return [2, "not judged"];
    return model.isWrong(node) ? [0, "wrong"] : [1, "right"];
  }
  if (mode === "suspect") {
    if (model.suspect(node)) return [0, "suspect label"];
    return model.seen(node) ? [1, "given label"] : [2, "no label given"];
  }
  const group = model.group(Number(mode), node);
  return [group, model.table[Number(mode)].groups[group]];
}
