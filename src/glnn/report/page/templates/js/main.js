// Build the page when its data are decoded. The page calls main() after all parts.
const MANY_LINKS = 2000;

async function main() {
  const data = await unpackData(document.getElementById("data").textContent.trim());
  const model = makeModel(data);
  const state = makeState({
    mode: "predicted", minWeight: 0, perNode: model.nLinks > MANY_LINKS ? 3 : 0, fates: [true, true, false],
    sideBySide: false, cell: null, filter: null,
    hovered: -1, selected: -1, faint: 0.35, paint: 0,
    tableKind: "all", tableClass: 0, tableText: "", sort: "confidence", down: false,
  });
  const map = makeMap(model, state);
  makeControls(model, state, map);
  makeSearch(model, state, map);
  makePanel(model, state, map);
  makeConfusion(state);
  makeFilters(model, state);
  makeTable(model, state, map);
  makeMatrix(model, state);
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    link.addEventListener("click", (event) => { // inside a notebook's frame the address is the notebook's
      event.preventDefault();
      document.querySelector(link.hash).scrollIntoView();
    });
  }
  const changed = () => state.set({ paint: state.get().paint + 1 });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  matchMedia("print").addEventListener("change", changed);
  document.documentElement.dataset.ready = "map";
  document.documentElement.dataset.readyMs = Math.round(performance.now());
  await makeCharts(state);
  document.documentElement.dataset.ready = "all";
}
