// Clicking a cell of the confusion matrix filters the map and the table to its nodes, and moves to the map.
function makeConfusion(state) {
  const cells = [...document.querySelectorAll("#confusion button")];
  for (const cell of cells) {
    cell.addEventListener("click", () => {
      const chosen = [Number(cell.dataset.truth), Number(cell.dataset.judged)];
      const now = state.get().cell;
      const isSame = now && now.join() === chosen.join();
      state.set({ cell: isSame ? null : chosen });
      if (!isSame) document.getElementById("map").scrollIntoView();
    });
  }
  state.listen(["cell"], ({ cell }) => {
    for (const button of cells) {
      const on = cell && Number(button.dataset.truth) === cell[0] && Number(button.dataset.judged) === cell[1];
      button.setAttribute("aria-pressed", String(Boolean(on)));
    }
  });
}
