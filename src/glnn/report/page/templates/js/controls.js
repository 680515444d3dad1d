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
