// The controls above the map.
function makeControls(model, state, map) {
  const by = (id) => document.getElementById(id);
  by("mode").addEventListener("change", (event) => state.set({ mode: event.target.value }));
  const slider = by("weight");
  slider.addEventListener("input", () => {
    // The slider is quadratic: most links are light, so small weights need finer steps.
    const minWeight = model.topWeight * (slider.value / 100) ** 2;
    by("weight-value").textContent = minWeight.toPrecision(2);
    state.set({ minWeight });
  });
  by("per-node").value = state.get().perNode;
  by("per-node").addEventListener("change", (event) => state.set({ perNode: Number(event.target.value) }));
  const countLinks = (now) => {
    let [left, all] = [0, 0];
    for (let e = 0; e < model.nLinks; e += 1) {
      if (!now.fates[model.fate[e]]) continue;
      all += 1;
      left += isLinkShown(model, now, now.fates, e);
    }
    by("links-left").textContent = `${left.toLocaleString("en")} of ${all.toLocaleString("en")} links`;
  };
  state.listen(["minWeight", "perNode", "fates"], countLinks);
  countLinks(state.get());
  FATES.forEach((fate, k) => {
    const box = by(`fate-${fate}`);
    if (!box) return;
    box.addEventListener("change", () => {
      state.set({ fates: state.get().fates.map((on, j) => (j === k ? box.checked : on)) });
    });
  });
  const side = by("side-by-side");
  if (side) {
    side.addEventListener("change", () => {
      by("panes").classList.toggle("two", side.checked);
      state.set({ sideBySide: side.checked });
    });
  }
  by("zoom-in").addEventListener("click", map.zoomIn);
  by("zoom-out").addEventListener("click", map.zoomOut);
  by("zoom-reset").addEventListener("click", map.reset);
}

// Show the rows of one group of a column, or of one cell of the confusion matrix, on the map and in the table.
function makeFilters(model, state) {
  const by = (id) => document.getElementById(id);
  const [column, group, box, note] = ["filter-column", "filter-group", "filter-box", "filter-note"].map(by);
  const choose = (filter) => state.set({ filter });
  if (column) {
    column.addEventListener("change", () => choose(column.value === "" ? null : [Number(column.value), 0]));
    group.addEventListener("change", () => choose([Number(column.value), Number(group.value)]));
  }
  for (const button of document.querySelectorAll("[data-slice]")) {
    button.addEventListener("click", () => {
      choose(button.dataset.slice.split(",").map(Number));
      by("map").scrollIntoView();
    });
  }
  by("clear-filter").addEventListener("click", () => state.set({ cell: null, filter: null }));
  state.listen(["cell", "filter"], ({ cell, filter }) => {
    if (column) {
      column.value = filter ? filter[0] : "";
      box.hidden = !filter;
      const names = filter ? model.table[filter[0]].groups : [];
      group.replaceChildren(...names.map((name, k) => new Option(name, k)));
      if (filter) group.value = filter[1];
    }
    const parts = [];
    if (cell) parts.push(`of class ${model.classes[cell[0]]} predicted as ${model.classes[cell[1]]}`);
    if (filter) parts.push(`with ${model.table[filter[0]].name}: ${model.table[filter[0]].groups[filter[1]]}`);
    let count = 0;
    for (let node = 0; node < model.n; node += 1) count += isKept(model, { cell, filter }, node);
    const words = `The map and the table show ${count.toLocaleString("en")} rows ${parts.join(" and ")}.`;
    note.hidden = !parts.length;
    note.querySelector("span").textContent = words;
    if (parts.length) announce(words);
  });
}
