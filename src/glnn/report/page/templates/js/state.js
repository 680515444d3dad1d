// The state of the page (selection, filters, sorting) with change listeners.
function makeState(initial) {
  const listeners = [];
  const state = { ...initial };
  return {
    get: () => state,
    set(changes) {
      Object.assign(state, changes);
      for (const listener of listeners) listener(state, Object.keys(changes));
    },
    listen(names, listener) {
      listeners.push((now, changed) => {
        if (changed.some((name) => names.includes(name))) listener(now);
      });
    },
  };
}

// Whether a node belongs to the chosen cell of the confusion matrix (-1 stands for any class).
function inCell(model, cell, node) {
  if (!cell) return true;
  const [truth, judged] = cell;
  if (!model.isJudged(node)) return false;
  return (truth < 0 || model.truth[node] === truth + 1) && (judged < 0 || model.judged[node] === judged + 1);
}
