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

// Whether a node belongs to the chosen cell of the confusion matrix and to the chosen group of a column.
function isKept(model, { cell, filter }, node) {
  if (filter && model.group(filter[0], node) !== filter[1]) return false;
  if (!cell) return true;
  return model.isJudged(node) && model.truth[node] === cell[0] + 1 && model.judged[node] === cell[1] + 1;
}

// Whether a link is of a shown kind, heavy enough, and among the heaviest of one of its ends.
function isLinkShown(model, now, fates, link) {
  if (!fates[model.fate[link]]) return false;
  if (model.fate[link] === 2) return true;
  return model.linkWeight(link) >= now.minWeight && (!now.perNode || model.rank[link] <= now.perNode);
}
