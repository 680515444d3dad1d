// Clicking a cell of the confusion matrix filters the map and the table to its nodes.
function makeConfusion(model, state) {
  const cells = [...document.querySelectorAll("#confusion button")];
  const note = document.getElementById("cell-note");
  for (const cell of cells) {
    cell.addEventListener("click", () => {
      const chosen = [Number(cell.dataset.truth), Number(cell.dataset.judged)];
      const now = state.get().cell;
      state.set({ cell: now && now.join() === chosen.join() ? null : chosen });
    });
  }
  document.getElementById("clear-cell").addEventListener("click", () => state.set({ cell: null }));
  state.listen(["cell"], ({ cell }) => {
    for (const button of cells) {
      const on = cell && Number(button.dataset.truth) === cell[0] && Number(button.dataset.judged) === cell[1];
      button.setAttribute("aria-pressed", String(Boolean(on)));
    }
    note.hidden = !cell;
    if (cell) {
      const words = `The map and the table show nodes of class ${model.classes[cell[0]]} predicted as ${model.classes[cell[1]]}.`;
      note.querySelector("span").textContent = words;
      announce(words);
    }
  });
}
