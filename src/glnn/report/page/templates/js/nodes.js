// Draw nodes: few as shapes, many as precomputed masks written directly into pixels.
function radiusFor(n, zoom, smaller) {
  const base = Math.min(6, Math.max(1.4, (0.36 * smaller) / Math.sqrt(n) / 2));
  return Math.round(4 * Math.min(11, base * Math.max(1, zoom ** 0.45))) / 4;
}

// Call `draw(node, x, y)` for the visible nodes: those faded by a filter first, the marked ones last.
function eachNode(model, look, frame, reach, width, height, draw) {
  for (let wanted = -1; wanted <= 2; wanted += 1) {
    for (let node = 0; node < model.n; node += 1) {
      if ((look.keep[node] ? look.marks[node] : -1) !== wanted) continue;
      const px = frame.left + model.x[node] * frame.scale;
      const py = frame.top + model.y[node] * frame.scale;
      if (px < -reach || py < -reach || px > width + reach || py > height + reach) continue;
      draw(node, px, py);
    }
  }
}

const FADED = 0.13;

// The radius and rim of a node: given labels have a dark rim, suspect labels and errors are larger.
function markedSize(mark, radius) {
  if (mark === 2) return { size: Math.max(4.5, 1.7 * radius), rim: 2 };
  return mark === 1 ? { size: Math.max(2.2, radius), rim: Math.min(1.8, Math.max(0.8, radius / 4)) } : { size: radius, rim: 0 };
}

function shapeNodes(context, model, look, frame, radius, width, height) {
  eachNode(model, look, frame, 2 * radius, width, height, (node, px, py) => {
    const { size, rim } = markedSize(look.marks[node], radius);
    context.strokeStyle = rim ? look.theme.ink : look.theme.ground;
    context.lineWidth = rim || Math.min(0.8, radius / 4);
    context.globalAlpha = look.keep[node] ? 1 : FADED;
    context.fillStyle = look.nodes[node].colour;
    context.setTransform(look.ratio, 0, 0, look.ratio, px * look.ratio, py * look.ratio);
    tracePath(context, look.nodes[node].shape, size);
    context.fill();
    context.stroke();
  });
  context.setTransform(look.ratio, 0, 0, look.ratio, 0, 0);
  context.globalAlpha = 1;
}

function tracePath(context, shape, radius) {
  context.beginPath();
  if (shape === 1) context.rect(-0.85 * radius, -0.85 * radius, 1.7 * radius, 1.7 * radius);
  else if (shape === 2) {
    context.moveTo(0, -radius);
    context.lineTo(0.95 * radius, 0.8 * radius);
    context.lineTo(-0.95 * radius, 0.8 * radius);
    context.closePath();
  } else context.arc(0, 0, radius, 0, 2 * Math.PI);
}

// The coverage of each pixel by a shape of this radius, with a rim in the background colour.
function shapeMask(shape, radius) {
  const side = 2 * Math.ceil(radius + 1) + 1;
  const canvas = new OffscreenCanvas(side, side);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.translate(side / 2, side / 2);
  tracePath(context, shape, radius);
  context.fill();
  const { data } = context.getImageData(0, 0, side, side);
  return { side, cover: Float32Array.from({ length: side * side }, (_, p) => data[4 * p + 3] / 255) };
}

function maskNodes(pixels, model, look, frame, radius, width, height) {
  const masks = [0, 1, 2].map((mark) => {
    const { size, rim } = markedSize(mark, radius);
    return [0, 1, 2].map((shape) => [shapeMask(shape, size + (rim || 0.6)), shapeMask(shape, size)]);
  });
  const [ground, ink] = [rgbOf(look.theme.ground), rgbOf(look.theme.ink)];
  const colours = new Map();
  eachNode(model, look, frame, 2 * radius, width, height, (node, px, py) => {
    const { colour, shape } = look.nodes[node];
    const mark = look.marks[node];
    if (!colours.has(colour)) colours.set(colour, rgbOf(colour));
    const strength = look.keep[node] ? 1 : FADED;
    putMask(pixels, width, height, masks[mark][shape][0], mark ? ink : ground, (mark ? 1 : 0.7) * strength, px, py);
    putMask(pixels, width, height, masks[mark][shape][1], colours.get(colour), strength, px, py);
  });
}

function putMask(pixels, width, height, mask, colour, strength, px, py) {
  const left = Math.floor(px) - (mask.side >> 1);
  const top = Math.floor(py) - (mask.side >> 1);
  for (let row = Math.max(0, -top); row < mask.side && top + row < height; row += 1) {
    for (let column = Math.max(0, -left); column < mask.side && left + column < width; column += 1) {
      const cover = strength * mask.cover[row * mask.side + column];
      if (!cover) continue;
      const at = 4 * ((top + row) * width + left + column);
      for (let c = 0; c < 3; c += 1) pixels[at + c] += cover * (colour[c] - pixels[at + c]);
    }
  }
}
