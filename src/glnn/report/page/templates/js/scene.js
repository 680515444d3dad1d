// The scene of one view: drawn as shapes if there are few parts, pixel by pixel if there are many.
const FEW_LINKS = 4000;
const FEW_NODES = 3000;

function makeScene(model, look, fates, frame, width, height) {
  const { ratio } = look;
  const [wide, high] = [width * ratio, height * ratio];
  const scene = new OffscreenCanvas(wide, high);
  const context = scene.getContext("2d");
  const seen = linksInSight(model, look, fates, frame, width, height);
  const radius = radiusFor(model.n, look.zoom, Math.min(width, height));
  if (seen.length <= FEW_LINKS && model.n <= FEW_NODES) {
    context.scale(ratio, ratio);
    strokeLinks(context, model, look.theme, seen, frame);
    shapeNodes(context, model, look, frame, radius, width, height);
    return scene;
  }
  const image = filledImage(wide, high, rgbOf(look.theme.ground));
  const fine = { left: frame.left * ratio, top: frame.top * ratio, scale: frame.scale * ratio };
  densityLinks(image.data, model, look.theme, seen, fine, wide, high);
  maskNodes(image.data, model, look, fine, radius * ratio, wide, high);
  context.putImageData(image, 0, 0);
  return scene;
}

function filledImage(width, height, colour) {
  const image = new ImageData(width, height);
  const word = new DataView(new ArrayBuffer(4));
  [...colour, 255].forEach((value, k) => word.setUint8(k, value));
  new Uint32Array(image.data.buffer).fill(new Uint32Array(word.buffer)[0]);
  return image;
}
