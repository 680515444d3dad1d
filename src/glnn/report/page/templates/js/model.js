// Access to nodes and links: positions, labels, neighbours, text.
const FATES = ["kept", "added", "dropped"];

function makeModel(data) {
  const n = data.ids.length;
  const classes = data.classes;
  const nClasses = classes.length;
  const x = new Float32Array(n);
  const y = new Float32Array(n);
  for (let k = 0; k < n; k += 1) {
    x[k] = data.places[2 * k] / 65535;
    y[k] = data.places[2 * k + 1] / 65535;
  }
  const links = neighbourLists(n, data.source, data.target);
  const probability = (node, klass) => data.probabilities[node * nClasses + klass] / 65535;
  const confidence = new Float32Array(n);
  for (let k = 0; k < n; k += 1) confidence[k] = data.predicted[k] ? probability(k, data.predicted[k] - 1) : 0;
  return {
    ...data, n, nClasses, x, y, confidence, probability, links,
    nLinks: data.source.length,
    className: (shifted) => (shifted ? classes[shifted - 1] : "unknown"),
    seen: (node) => (data.flags[node] & 1) === 1,
    suspect: (node) => (data.flags[node] & 2) === 2,
    isWrong: (node) => data.judged[node] > 0 && data.truth[node] > 0 && data.judged[node] !== data.truth[node],
    isJudged: (node) => data.judged[node] > 0 && data.truth[node] > 0,
    linkWeight: (link) => (data.weight[link] / 65535) * data.topWeight,
    other: (link, node) => (data.source[link] === node ? data.target[link] : data.source[link]),
    ranked: (node) => rankedClasses(node, nClasses, probability),
    cell: (column, node) => data.table[column].words[data.cells[column * n + node] - 1] ?? "",
    cellOrder: (column, node) => data.cells[column * n + node] || 1e6,
    group: (column, node) => data.groups[column * n + node],
    rank: linkRanks(n, data, links),
    suggested: new Map(data.next.map((node, k) => [node, k])),
  };
}

// All links of each node in one array; those of node k begin at starts[k].
function neighbourLists(n, source, target) {
  const starts = new Uint32Array(n + 1);
  for (let e = 0; e < source.length; e += 1) {
    starts[source[e] + 1] += 1;
    starts[target[e] + 1] += 1;
  }
  for (let k = 0; k < n; k += 1) starts[k + 1] += starts[k];
  const next = starts.slice();
  const list = new Uint32Array(2 * source.length);
  for (let e = 0; e < source.length; e += 1) {
    list[next[source[e]]++] = e;
    list[next[target[e]]++] = e;
  }
  return (node) => list.subarray(starts[node], starts[node + 1]);
}

// The place of each link among those of an end node by weight, from 1; the better of its two ends counts.
function linkRanks(n, data, links) {
  const rank = new Uint16Array(data.source.length).fill(65535);
  for (let node = 0; node < n; node += 1) {
    const own = [...links(node)].filter((e) => data.fate[e] !== 2).sort((a, b) => data.weight[b] - data.weight[a]);
    own.forEach((e, k) => { rank[e] = Math.min(rank[e], k + 1); });
  }
  return rank;
}

function rankedClasses(node, nClasses, probability) {
  const order = Array.from({ length: nClasses }, (_, c) => [c, probability(node, c)]);
  return order.sort((a, b) => b[1] - a[1]);
}

function percent(share, digits = 0) {
  return `${(100 * share).toFixed(digits)} %`;
}
