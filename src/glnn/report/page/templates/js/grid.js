// A grid over the unit square for finding the node nearest to a point.
function makeGrid(model) {
  const side = Math.max(1, Math.ceil(Math.sqrt(model.n / 2)));
  const cellOf = (value) => Math.min(side - 1, Math.max(0, Math.floor(value * side)));
  const cells = new Map();
  for (let node = 0; node < model.n; node += 1) {
    const key = cellOf(model.y[node]) * side + cellOf(model.x[node]);
    if (cells.has(key)) cells.get(key).push(node);
    else cells.set(key, [node]);
  }
  return function nearest(x, y, radius) {
    let best = -1;
    let least = radius * radius;
    for (let row = cellOf(y - radius); row <= cellOf(y + radius); row += 1) {
      for (let column = cellOf(x - radius); column <= cellOf(x + radius); column += 1) {
        for (const node of cells.get(row * side + column) || []) {
          const distance = (model.x[node] - x) ** 2 + (model.y[node] - y) ** 2;
          if (distance < least) [best, least] = [node, distance];
        }
      }
    }
    return best;
  };
}
