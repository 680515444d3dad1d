// The panel beside the map: the selected node, its links and the reasons for them.
const N_LISTED = 12;

function makePanel(model, state, map) {
  const panel = document.getElementById("panel");
  const empty = [...panel.childNodes];
  state.listen(["selected"], ({ selected }) => {
    if (selected < 0) {
      panel.replaceChildren(...empty);
      return;
    }
    panel.replaceChildren(...nodeCard(model, selected), linkList(model, selected, map.goTo));
    announce(`Selected ${model.ids[selected]}: predicted ${model.className(model.predicted[selected])}.`);
  });
}

function announce(text, root = document) {
  root.getElementById("status").textContent = text;
}

function element(kind, text, className) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function nodeCard(model, node) {
  const known = `${model.className(model.truth[node])}${model.truth[node] ? (model.seen(node) ? ", given to the fit" : ", hidden from the fit") : ""}`;
  const rows = [["known label", known], ["prediction", model.className(model.predicted[node])]];
  if (model.isJudged(node) && model.judged[node] !== model.predicted[node]) {
    rows.push(["without its own label", model.className(model.judged[node])]);
  }
  if (model.isWrong(node)) rows.push(["judged", "wrong"]);
  if (model.suspect(node)) rows.push(["label", "suspect: without it the model predicts another class"]);
  const bars = probabilityBars(model.ranked(node).map(([c, p]) => [model.classes[c], p]));
  const own = model.table.map(({ name }, k) => [name, model.cell(k, node)]);
  const values = own.length ? [element("h4", "Values of this row"), factList(own, "own")] : [];
  return [element("h3", model.ids[node]), factList(rows), bars, ...values];
}

function factList(pairs, className) {
  const list = element("dl", undefined, className);
  for (const [name, value] of pairs) list.append(element("dt", name), element("dd", value || "–"));
  return list;
}

// Bars of the most probable classes, from pairs of a class and its probability in descending order.
function probabilityBars(pairs) {
  const bars = element("ul", undefined, "bars");
  for (const [name, p] of pairs.slice(0, 5)) {
    const item = element("li");
    const meter = element("meter");
    meter.value = p;
    meter.setAttribute("aria-label", `probability of ${name}`);
    item.append(breakable(name), meter, element("b", percent(p, 1)));
    bars.append(item);
  }
  return bars;
}

// A name that may be broken after an underscore, a dot or a slash, not inside a word.
function breakable(name) {
  const made = element("span");
  for (const part of name.split(/(?<=[_./])/)) made.append(part, element("wbr"));
  return made;
}

function linkList(model, node, go) {
  const links = [...model.links(node)].sort((a, b) => model.weight[b] - model.weight[a]);
  const box = element("div");
  const dropped = links.filter((link) => model.fate[link] === 2).length;
  box.append(element("h4", `Links: ${model.degree[node]} learned${dropped ? `, ${dropped} given links dropped` : ""}`));
  const list = element("ol", undefined, "links");
  for (const link of links.slice(0, N_LISTED)) list.append(linkItem(model, node, link, go));
  box.append(list);
  const more = model.degree[node] + dropped - Math.min(links.length, N_LISTED);
  if (more > 0) box.append(element("p", `and ${more} more`, "soft"));
  return box;
}

function linkItem(model, node, link, go) {
  const other = model.other(link, node);
  const weight = model.fate[link] === 2 ? "dropped" : model.linkWeight(link).toFixed(3);
  return neighbourItem(model.ids[other], weight, reasons(model, node, other, link), () => go(other));
}

function neighbourItem(id, weight, words, go) {
  const item = element("li");
  const button = element("button", id, "plain");
  button.type = "button";
  button.addEventListener("click", go);
  item.append(button, element("b", weight), element("span", words, "soft"));
  return item;
}

// The reasons for a link as text, the most important first: given or not, terms, columns, predictions.
function reasons(model, node, other, link) {
  const said = [];
  if (model.hasGiven) said.push(["given and kept", "not given, added", "given, but dropped"][model.fate[link]]);
  if (model.terms && model.fate[link] !== 2) {
    const parts = model.terms.map((name, k) => [name, model.shares[link * model.terms.length + k]])
      .filter(([name, share]) => name !== "penalties" && share >= 0.005)
      .sort((a, b) => b[1] - a[1]);
    if (parts.length) said.push(`because of ${parts.map(([name]) => name).join(", ")}`);
  }
  const columns = namedColumns(model, link);
  if (columns) said.push(`similar in ${columns}`);
  const same = model.predicted[node] === model.predicted[other];
  said.push(`${same ? "same prediction" : "different prediction"}, ${model.className(model.predicted[other])}`);
  return said.filter(Boolean).join("; ");
}

function namedColumns(model, link) {
  if (!model.columns || !model.columnShares || model.fate[link] === 2) return "";
  const k = model.columnShares.length / model.nLinks;
  const words = [];
  for (let c = 0; c < k; c += 1) {
    const share = model.columnShares[link * k + c] / 255;
    if (share >= 0.02) words.push(`${model.columnNames[model.columns[link * k + c]]} (${percent(share)})`);
  }
  return words.join(", ");
}
