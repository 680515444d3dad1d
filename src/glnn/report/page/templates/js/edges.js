// Draw links: few as strokes, many as one density per kind (kept, added, dropped).

// The links of the shown kinds and weights whose bounding box overlaps the canvas.
function linksInSight(model, look, fates, frame, width, height) {
  const low = [-frame.left / frame.scale, -frame.top / frame.scale];
  const high = [(width - frame.left) / frame.scale, (height - frame.top) / frame.scale];
  const { source, target, x, y } = model;
  const isFiltered = look.cell || look.filter;
  const seen = new Uint32Array(model.nLinks);
  let count = 0;
  for (let e = 0; e < model.nLinks; e += 1) {
    if (!isLinkShown(model, look, fates, e)) continue;
    const a = source[e];
    const b = target[e];
    if (isFiltered && !look.keep[a] && !look.keep[b]) continue;
    if (x[a] < low[0] && x[b] < low[0]) continue;
    if (x[a] > high[0] && x[b] > high[0]) continue;
    if (y[a] < low[1] && y[b] < low[1]) continue;
    if (y[a] > high[1] && y[b] > high[1]) continue;
    seen[count++] = e;
  }
  return seen.subarray(0, count);
}

function strokeLinks(context, model, theme, seen, frame) {
  const faint = Math.min(0.75, Math.max(0.25, 900 / (seen.length + 1)));
  for (let fate = 2; fate >= 0; fate -= 1) {
    context.strokeStyle = theme.fates[fate];
    context.setLineDash(fate === 2 ? [4, 3] : []);
    context.globalAlpha = faint;
    for (const heavy of [false, true]) {
      context.lineWidth = heavy ? 1.6 : 0.8;
      context.beginPath();
      for (const e of seen) {
        if (model.fate[e] !== fate || (model.weight[e] > 32767) !== heavy) continue;
        const a = model.source[e];
        const b = model.target[e];
        context.moveTo(frame.left + model.x[a] * frame.scale, frame.top + model.y[a] * frame.scale);
        context.lineTo(frame.left + model.x[b] * frame.scale, frame.top + model.y[b] * frame.scale);
      }
      context.stroke();
    }
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

// Count the links through each pixel and map the counts to opacity.
function densityLinks(pixels, model, theme, seen, frame, width, height) {
  const counts = FATES.map(() => new Uint16Array(width * height));
  const { source, target, fate, x, y } = model;
  const { left, top, scale } = frame;
  for (let k = 0; k < seen.length; k += 1) {
    const e = seen[k];
    const a = source[e];
    const b = target[e];
    traceLine(
      counts[fate[e]], width, height,
      left + x[a] * scale, top + y[a] * scale, left + x[b] * scale, top + y[b] * scale,
    );
  }
  const strength = Math.min(0.35, Math.max(0.03, 2500 / seen.length));
  blendCounts(pixels, counts, theme.fates.map(rgbOf), strength);
}

// Draw a line in steps of one pixel along its longer side, in 16-bit fixed point, clipped to the canvas.
function traceLine(counts, width, height, x0, y0, x1, y1) {
  const steps = Math.max(1, Math.ceil(Math.max(Math.abs(x1 - x0), Math.abs(y1 - y0))));
  const dx = (x1 - x0) / steps;
  const dy = (y1 - y0) / steps;
  let from = 0;
  let to = steps;
  if (Math.min(x0, x1) < 0 || Math.max(x0, x1) >= width || Math.min(y0, y1) < 0 || Math.max(y0, y1) >= height) {
    [from, to] = clipRange(x0, dx, width, from, to);
    [from, to] = clipRange(y0, dy, height, from, to);
  }
  let column = x0 + from * dx;
  let row = y0 + from * dy;
  for (let k = from; k <= to; k += 1) {
    counts[(row | 0) * width + (column | 0)] += 1;
    column += dx;
    row += dy;
  }
}

// The range of steps for which start + step * slope lies in [0, size).
function clipRange(start, slope, size, from, to) {
  const inside = size - 1e-3;
  if (slope === 0) return start >= 0 && start < size ? [from, to] : [1, 0];
  const a = -start / slope;
  const b = (inside - start) / slope;
  return [Math.max(from, Math.ceil(Math.min(a, b))), Math.min(to, Math.floor(Math.max(a, b)))];
}

function blendCounts(pixels, counts, colours, strength) {
  const [kept, added, dropped] = counts;
  const opacity = Float32Array.from({ length: 256 }, (_, k) => 0.86 * (1 - Math.exp(-strength * k)));
  for (let p = 0; p < kept.length; p += 1) {
    const total = kept[p] + added[p] + dropped[p];
    if (!total) continue;
    const cover = opacity[total < 255 ? total : 255];
    for (let c = 0; c < 3; c += 1) {
      const mean = (kept[p] * colours[0][c] + added[p] * colours[1][c] + dropped[p] * colours[2][c]) / total;
      pixels[4 * p + c] += cover * (mean - pixels[4 * p + c]);
    }
  }
}

function rgbOf(hex) {
  return [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
}
