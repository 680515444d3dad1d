// The node table: sorted, filtered and shown in pages.
const PAGE_ROWS = 20;

function tableColumns(model) {
  const own = model.table.map((_, k) => [`own-${k}`, {
    text: (node) => model.cell(k, node), order: (node) => model.cellOrder(k, node),
  }]);
  return {
    id: { text: (k) => model.ids[k], order: (k) => model.ids[k], words: true },
    truth: { text: (k) => (model.truth[k] ? model.className(model.truth[k]) : ""), order: (k) => model.truth[k] || 1e6 },
    predicted: { text: (k) => model.className(model.predicted[k]), order: (k) => model.predicted[k] },
    confidence: { text: (k) => percent(model.confidence[k], 1), order: (k) => model.confidence[k] },
    second: { text: (k) => { const s = model.ranked(k)[1]; return s ? `${model.classes[s[0]]} ${percent(s[1])}` : ""; } },
    links: { text: (k) => String(model.degree[k]), order: (k) => model.degree[k] },
    state: { text: (k) => nodeState(model, k), order: (k) => nodeState(model, k), words: true },
    ...Object.fromEntries(own),
  };
}

function nodeState(model, node) {
  const said = [];
  if (model.suspect(node)) said.push("suspect label");
  if (model.isJudged(node)) said.push(model.isWrong(node) ? "wrong" : "right");
  if (model.seen(node)) said.push("label given");
  return said.join(", ");
}

const TABLE_KINDS = {
  all: () => true,
  next: (model, node) => model.suggested.has(node),
  suspect: (model, node) => model.suspect(node),
  wrong: (model, node) => model.isWrong(node),
};

function tableNodes(model, columns, now) {
  const wanted = now.tableText.trim().toLowerCase();
  const nodes = [];
  for (let node = 0; node < model.n; node += 1) {
    if (!TABLE_KINDS[now.tableKind](model, node) || !isKept(model, now, node)) continue;
    if (now.tableClass && model.predicted[node] !== now.tableClass) continue;
    if (wanted && !rowText(model, node).includes(wanted)) continue;
    nodes.push(node);
  }
  if (now.sort === "next") return nodes.sort((a, b) => model.suggested.get(a) - model.suggested.get(b));
  const { order, words } = columns[now.sort];
  const sign = now.down ? -1 : 1;
  const keys = new Map(nodes.map((node) => [node, order(node)]));
  const compare = words ? new Intl.Collator("en", { numeric: true }).compare : (a, b) => a - b;
  return nodes.sort((a, b) => sign * compare(keys.get(a), keys.get(b)) || a - b);
}

function rowText(model, node) {
  return [model.ids[node], ...model.table.map((_, k) => model.cell(k, node))].join("\n").toLowerCase();
}

function makeTable(model, state, map) {
  const columns = tableColumns(model);
  const by = (id) => document.getElementById(id);
  let nodes = [];
  let page = 0;

  function fill() {
    const last = Math.max(0, Math.ceil(nodes.length / PAGE_ROWS) - 1);
    page = Math.min(Math.max(page, 0), last);
    const seen = nodes.slice(page * PAGE_ROWS, (page + 1) * PAGE_ROWS);
    by("node-rows").replaceChildren(...seen.map((node) => tableRow(columns, node, () => map.goTo(node))));
    by("table-count").textContent = nodes.length
      ? `${(page * PAGE_ROWS + 1).toLocaleString("en")} to ${(page * PAGE_ROWS + seen.length).toLocaleString("en")} of ${nodes.length.toLocaleString("en")} rows`
      : "no rows match";
    by("table-back").disabled = page === 0;
    by("table-on").disabled = page === last;
  }

  function refresh(now) {
    page = 0;
    nodes = tableNodes(model, columns, now);
    for (const head of document.querySelectorAll("#node-table th[data-column]")) {
      const on = head.dataset.column === now.sort;
      head.setAttribute("aria-sort", on ? (now.down ? "descending" : "ascending") : "none");
    }
    fill();
  }

  for (const button of document.querySelectorAll("#node-table th button")) {
    button.addEventListener("click", () => {
      const sort = button.closest("th").dataset.column;
      const { sort: before, down } = state.get();
      state.set({ sort, down: sort === before ? !down : false });
    });
  }
  const list = (kind) => state.set({ tableKind: kind, sort: kind === "next" ? "next" : "confidence", down: false });
  by("table-kind").addEventListener("change", (event) => list(event.target.value));
  for (const button of document.querySelectorAll("#next button")) {
    const { node, kind } = button.dataset;
    if (node !== undefined) button.addEventListener("click", () => map.goTo(Number(node)));
    if (kind) {
      button.addEventListener("click", () => {
        by("table-kind").value = kind;
        list(kind);
        by("nodes").scrollIntoView();
      });
    }
  }
  by("table-class").addEventListener("change", (event) => state.set({ tableClass: Number(event.target.value) }));
  by("table-text").addEventListener("input", (event) => state.set({ tableText: event.target.value }));
  by("table-back").addEventListener("click", () => { page -= 1; fill(); });
  by("table-on").addEventListener("click", () => { page += 1; fill(); });
  by("table-csv").addEventListener("click", () => saveFile("rows.csv", csvText(model, nodes), "text/csv"));
  by("card-save").addEventListener("click", () => saveFile(`${model.name}-model-card.md`, model.card, "text/markdown"));
  state.listen(["tableKind", "tableClass", "tableText", "sort", "down", "cell", "filter"], refresh);
  refresh(state.get());
}

function tableRow(columns, node, go) {
  const row = element("tr");
  for (const [name, column] of Object.entries(columns)) {
    const cell = element(name === "id" ? "th" : "td");
    if (name === "id") {
      cell.scope = "row";
      const button = element("button", column.text(node), "plain");
      button.type = "button";
      button.addEventListener("click", go);
      cell.append(button);
    } else cell.textContent = column.text(node);
    if (name === "second" || name === "links") cell.className = "spare";
    if (name.startsWith("own-")) cell.className = "own-value";
    row.append(cell);
  }
  return row;
}
