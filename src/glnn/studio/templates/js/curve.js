// The learning curve: accuracy on hidden labels with its interval, by the number of labels, for both kinds of
// fits that hide labels: the checked ones while one labels, and the full ones with all tracks.
const CURVE = { width: 460, height: 230, left: 46, right: 14, top: 12, bottom: 34 };

function drawCurve(figure, estimates) {
  const points = lastOfEach(estimates);
  figure.hidden = !points.length;
  figure.querySelector("svg")?.remove();
  if (!points.length) return;
  const svg = svgElement("svg", { viewBox: `0 0 ${CURVE.width} ${CURVE.height}`, role: "img" });
  const last = estimates[estimates.length - 1];
  svg.setAttribute("aria-label", `${percent(last.value)} right with ${last.n_labels} labels, interval ${percent(last.low)} to ${percent(last.high)}; ${points.length} estimates so far.`);
  const counts = points.map((point) => point.n_labels);
  const [fewest, most] = [Math.min(...counts), Math.max(...counts)];
  const floor = Math.floor(10 * Math.min(0.9, ...points.map((point) => point.low))) / 10;
  const x = (n) => CURVE.left + ((n - fewest + (most === fewest)) / (most - fewest || 2)) * (CURVE.width - CURVE.left - CURVE.right);
  const y = (share) => CURVE.top + ((1 - share) / (1 - floor)) * (CURVE.height - CURVE.top - CURVE.bottom);
  svg.append(...gridLines(floor, y), ...countMarks([...new Set([fewest, most])], x));
  for (const kind of ["checked", "full"]) svg.append(...courseOf(points.filter((point) => point.kind === kind), kind, x, y));
  figure.prepend(svg);
  figure.querySelector(".kinds").hidden = new Set(points.map(({ kind }) => kind)).size < 2;
}

// The last estimate of each kind for each number of labels, by that number.
function lastOfEach(estimates) {
  const found = new Map(estimates.map((point) => [`${point.kind} ${point.n_labels}`, point]));
  return [...found.values()].sort((a, b) => a.n_labels - b.n_labels);
}

// The line of one kind of fit with its dots, and the interval as a band (or as bars for the full fits).
function courseOf(points, kind, x, y) {
  const place = (point) => x(point.n_labels) + (kind === "full" ? 4 : 0); // beside a checked one of as many labels
  const at = points.map((point) => [place(point), y(point.value)]);
  const ends = [...points.map((p) => [place(p), y(p.high)]), ...points.map((p) => [place(p), y(p.low)]).reverse()];
  const group = svgElement("g", { class: kind });
  if (kind === "checked") group.append(svgElement("polygon", { class: "band", points: ends.join(" ") }));
  group.append(svgElement("polyline", { class: "course", points: at.join(" ") }));
  points.forEach((point, k) => {
    const [cx, cy] = at[k];
    const dot = svgElement("circle", { cx, cy, r: kind === "full" ? 4.5 : 3.5 });
    const title = svgElement("title", {});
    title.textContent = `${point.n_labels} labels: ${percent(point.value, 1)} (${percent(point.low)} to ${percent(point.high)})`;
    dot.append(title);
    group.append(svgElement("line", { class: "reach", x1: cx, x2: cx, y1: y(point.low), y2: y(point.high) }), dot);
  });
  return [group];
}

function gridLines(floor, y) {
  const step = 1 - floor > 0.5 ? 0.2 : 0.1;
  const parts = [];
  for (let share = 1; share >= floor - 1e-9; share -= step) {
    parts.push(svgElement("line", { class: "grid", x1: CURVE.left, x2: CURVE.width - CURVE.right, y1: y(share), y2: y(share) }));
    parts.push(svgText(percent(share), { x: CURVE.left - 6, y: y(share) + 4, "text-anchor": "end" }));
  }
  return parts;
}

function countMarks(counts, x) {
  const words = counts.map((n) => svgText(n.toLocaleString("en"), { x: x(n), y: CURVE.height - 18, "text-anchor": "middle" }));
  return [...words, svgText("labels", { x: (CURVE.left + CURVE.width) / 2, y: CURVE.height - 4, "text-anchor": "middle" })];
}

function svgElement(kind, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function svgText(words, attributes) {
  const made = svgElement("text", attributes);
  made.textContent = words;
  return made;
}
